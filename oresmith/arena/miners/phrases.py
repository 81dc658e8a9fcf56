"""What agents say: for each occasion the parts of a thought, each in many wordings. Slots are filled from results.

A voice (`voice.py`) keeps a few wordings of each part, so that agents differ, and draws among them.
"""

from __future__ import annotations

Parts = tuple[tuple[str, ...], ...]

OPEN: Parts = (
    (
        "The user wants {words}. What has to hold: {needs}.",
        "Let me break the request down: {words}, and the conditions are {needs}.",
        "Target: {words}. Conditions: {needs}.",
        "I read the request as {words}; it must satisfy {needs}.",
        "So this is about {words}. Hard constraints as I see them: {needs}.",
        "Okay, {words}. I have to respect {needs}.",
        "First I write down what is fixed: {needs}. The thing itself is {words}.",
        "Someone is shopping for {words}, and insists on {needs}.",
        "Looking for {words}. The list of requirements reads {needs}.",
        "The product is described as {words}; {needs} will decide between look-alikes.",
        "Requirements: {needs}. Description: {words}.",
        "What is asked for is {words}, with {needs} as the deciding details.",
    ),
    (
        "I start with the query '{q}'{filters}.",
        "A search for '{q}'{filters} should bring up candidates.",
        "Searching '{q}' first{filters}.",
        "The catalogue search gets '{q}'{filters}, short enough to match titles.",
        "My first query is '{q}'{filters}; I can narrow it afterwards.",
        "Let me try '{q}'{filters} and see what sellers call it.",
        "I will look up '{q}'{filters} before anything else.",
        "'{q}' seems a good first query{filters}.",
        "To begin, '{q}'{filters}.",
        "Those words make the query '{q}'{filters}.",
    ),
)
FOUND: Parts = (
    (
        "{count} products came back for '{q}'.",
        "The search '{q}' lists {count} products.",
        "I got {count} hits.",
        "{count} results.",
        "'{q}' returned {count} listings.",
        "There are {count} listings to choose from.",
        "The page shows {count} products for '{q}'.",
        "Reading the {count} hits:",
        "Of the {count} results two stand out.",
        "That gives me {count} candidates.",
    ),
    (
        "{a} looks stronger than {b}: {why}.",
        "Between {a} and {b} I lean to the first, since {why}.",
        "{a} comes before {b} for me because {why}.",
        "The best two are {a} and {b}; the former is ahead because {why}.",
        "{b} is possible, but {a} fits better on paper: {why}.",
        "Candidate one is {a}, candidate two {b}. One is ahead as {why}.",
        "{a} seems the closest, {b} the runner-up; {why}.",
        "Comparing {a} with {b}, the first wins for now: {why}.",
        "I would put {a} first and {b} second, given that {why}.",
        "What speaks for {a} over {b}: {why}.",
    ),
)
FOUND_ONE: Parts = (
    (
        "Only {a} came back for '{q}'.",
        "'{q}' gives a single hit, {a}.",
        "One result: {a}.",
        "The only listing is {a}.",
        "A single product matches '{q}', namely {a}.",
    ),
)
EMPTY: Parts = (
    (
        "Nothing came back for '{q}'{filters}.",
        "'{q}'{filters} has no hit at all.",
        "The list for '{q}'{filters} is empty.",
        "Zero results for '{q}'{filters}.",
        "No product answers '{q}'{filters}.",
        "That query, '{q}'{filters}, found nothing.",
    ),
)
LOOK: Parts = (
    (
        "Titles do not settle {open}, so I open {n} of them.",
        "I need the details of {n} products to check {open}.",
        "Let me view {n} of them; {open} is not in the listing.",
        "The listing cannot tell me {open}: viewing {n}.",
        "Next I read the product information of {n} candidates for {open}.",
        "To verify {open} I look at {n} products.",
        "{open} has to be confirmed in the details of these {n}.",
        "Opening {n} product pages to compare {open}.",
        "I will compare {open} across {n} of them.",
        "Before deciding I check {open} on {n} listings.",
    ),
)
VIEWED_HIT: Parts = (
    (
        "{a} has {met}, and {b} {b_flaw}.",
        "The details show {met} for {a}, whereas {b} {b_flaw}.",
        "According to its page {a} offers {met}; {b} {b_flaw}.",
        "{a} lists {met}. {b} in contrast {b_flaw}.",
        "Checked: {a} comes with {met}, but {b} {b_flaw}.",
        "{met} stands on the page of {a}. As for {b}, it {b_flaw}.",
        "For {a} I can confirm {met}; {b} {b_flaw}.",
        "{b} {b_flaw}, while {a} shows {met}.",
        "Reading the two side by side, {a} gives {met} and {b} {b_flaw}.",
        "On {met}, {a} delivers; {b} {b_flaw}.",
    ),
    (
        "So {a_id} is the one that fits.",
        "That makes {a_id} the better match.",
        "{a_id} wins this comparison.",
        "I keep {a_id}.",
        "Therefore {a_id} goes ahead of {b_id}.",
        "That decides it for {a_id}.",
        "{a_id} it is, for this item.",
        "Hence {a_id} over {b_id}.",
        "The choice falls on {a_id} and not on {b_id}.",
    ),
)
VIEWED_MISS: Parts = (
    (
        "{a} {a_flaw} and {b} {b_flaw}.",
        "Neither will do: {a} {a_flaw}, {b} {b_flaw}.",
        "Looking closer, {a} {a_flaw}; {b} {b_flaw} too.",
        "{a} {a_flaw}, so it is out. {b} {b_flaw}.",
        "The details rule them out: {a} {a_flaw}, and {b} {b_flaw}.",
        "Not yet: {a} {a_flaw}, {b} {b_flaw}.",
        "Both disappoint, as {a} {a_flaw} while {b} {b_flaw}.",
        "{b} {b_flaw}; {a} is nearer but {a_flaw}.",
    ),
    (
        "{a_id} stays the best so far.",
        "Of these {a_id} is the least bad.",
        "I note {a_id} as a fallback.",
        "If nothing better turns up I would take {a_id}.",
        "For now {a_id} leads by a little.",
        "{a_id} is closer than {b_id}, but I am not done.",
        "I remember {a_id} and go on.",
    ),
)
AGAIN: Parts = (
    (
        "I reword the search as '{q}'{filters}.",
        "Next query: '{q}'{filters}.",
        "Let me try '{q}'{filters} instead.",
        "Other words may help: '{q}'{filters}.",
        "I search again, now '{q}'{filters}.",
        "A different angle is '{q}'{filters}.",
        "Trying '{q}'{filters} next.",
        "Sellers may call it differently, so '{q}'{filters}.",
        "I refine to '{q}'{filters}.",
        "Once more with '{q}'{filters}.",
    ),
)
PAGE: Parts = (
    (
        "I look at page {page} of '{q}'.",
        "Page {page} of the same search may hold a better one.",
        "Let me turn to page {page}.",
        "There are further pages; opening page {page} for '{q}'.",
        "Next, page {page} of these results.",
        "I continue with page {page}.",
        "More of '{q}' on page {page}.",
    ),
)
"""The other occasions are in `phrases_closing`."""
