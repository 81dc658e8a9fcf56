"""What agents say towards the end: baskets, sums, decisions and answers (see `phrases`)."""

from __future__ import annotations

from oresmith.arena.miners.phrases import Parts

NEXT_ITEM: Parts = (
    (
        "Item {number} is {words} with {needs}; query '{q}'{filters}.",
        "Now the next item, {words}, which needs {needs}: '{q}'{filters}.",
        "On to number {number}: {words}, {needs}. I search '{q}'{filters}.",
        "For {words} ({needs}) I use '{q}'{filters}.",
        "Next comes {words}. It has to have {needs}, so '{q}'{filters}.",
        "The request also has {words} with {needs}; searching '{q}'{filters}.",
        "Item {number}: '{q}'{filters}, because {words} must show {needs}.",
        "Then {words}: {needs}. Query '{q}'{filters}.",
    ),
)
SHOP_TRY: Parts = (
    (
        "Everything must come from one shop. {a} is sold by shop {shop}, so I search there for the rest: '{q}'.",
        "Shop {shop} sells {a}. Does it have the other items too? I ask for '{q}' in that shop.",
        "{a} fits, and its shop is {shop}; I look in shop {shop} for '{q}'.",
        "One seller has to have it all. With {a} from shop {shop} in hand I check '{q}' there.",
        "I test shop {shop}, the seller of {a}: '{q}'.",
        "Restricting the search to shop {shop} because of {a}: '{q}'.",
        "Let me see whether shop {shop}, which lists {a}, also carries '{q}'.",
        "Candidate seller {shop} (it has {a}). Searching '{q}' with its shop id.",
    ),
)
SHOP_FAIL: Parts = (
    (
        "Shop {shop} does not have all items: {lack} is missing.",
        "No luck in shop {shop}, {lack} cannot be found there.",
        "Shop {shop} lacks {lack}.",
        "{lack} is not sold by shop {shop} in the way it is asked for.",
        "I drop shop {shop} since {lack} is missing.",
        "Shop {shop} fails on {lack}.",
    ),
)
SHOP_DONE: Parts = (
    (
        "Shop {shop} sells everything: {items}.",
        "All of it is at shop {shop}: {items}.",
        "With shop {shop} the list is complete: {items}.",
        "{items} all come from shop {shop}.",
        "The common seller is {shop}; it has {items}.",
        "Shop {shop} is the one, with {items}.",
    ),
)
SUM_OK: Parts = (
    (
        "The sum is {sum}; {terms}, so I pay {pay}, within {budget}.",
        "Adding up: {sum}. Since {terms}, {pay} is due, and the budget is {budget}.",
        "{sum}, and {terms}. That leaves {pay} against a budget of {budget}.",
        "Budget check: {sum}; {terms}; {pay} <= {budget}.",
        "Money: {sum}. {terms}, which brings it to {pay} (limit {budget}).",
        "In total {sum}; as {terms} it comes to {pay}, affordable with {budget}.",
    ),
)
SUM_BAD: Parts = (
    (
        "The sum is {sum}; {terms}, so {pay} would be due, more than {budget}.",
        "Too expensive: {sum}, {terms}, {pay} > {budget}.",
        "{sum} does not work, because {terms} and {pay} exceeds {budget}.",
        "Over budget: {sum}; {terms}; {pay} against {budget}.",
        "That would cost {pay} ({sum}; {terms}), the budget being {budget}.",
    ),
)
CHEAPER: Parts = (
    (
        "I look for a cheaper {words}: '{q}'{filters}.",
        "A cheaper {words} would solve it, so '{q}'{filters}.",
        "The {words} is where I can save; searching '{q}'{filters}.",
        "Let me bring the price of the {words} down with '{q}'{filters}.",
        "Another {words}, lower in price: '{q}'{filters}.",
    ),
)
DECIDE: Parts = (
    (
        "{a} meets {met}, which {b} does not match: it {b_flaw}.",
        "I settle on {a}: {met}. {b} {b_flaw}.",
        "{a} beats {b}, because it has {met} and the other {b_flaw}.",
        "Final comparison: {a} with {met} against {b}, which {b_flaw}.",
        "The winner is {a} ({met}); {b} {b_flaw}.",
        "{met} hold for {a}. The alternative {b} {b_flaw}.",
        "Weighing {a} and {b} a last time, the first has {met}, the second {b_flaw}.",
        "Given {met}, {a} is better than {b}, which {b_flaw}.",
        "Nothing beats {a}: {met}. Even {b} {b_flaw}.",
    ),
    (
        "Recommending {ids}.",
        "I recommend {ids}.",
        "My answer is {ids}.",
        "So the recommendation is {ids}.",
        "{ids} goes to the user.",
        "That is final: {ids}.",
        "I hand over {ids}.",
    ),
)
GIVE_UP: Parts = (
    (
        "Nothing meets every condition. {a} is nearest ({met}), ahead of {b}, which {b_flaw}.",
        "I could not find a perfect match; {a} with {met} is still better than {b}, which {b_flaw}.",
        "Out of ideas. {a} has {met}; {b} {b_flaw}. The former is the best available.",
        "Good enough is {a} ({met}), since {b} {b_flaw}.",
        "I stop here: {a} covers {met} and {b} {b_flaw}.",
        "No exact hit so far, so I take {a} for {met} over {b}, which {b_flaw}.",
    ),
    ("Recommending {ids}.", "I go with {ids}.", "My answer is {ids}.", "So {ids}.", "I recommend {ids} all the same."),
)
CLOSE: Parts = (
    (
        "{ids} is recommended, so I am done.",
        "The recommendation of {ids} is out; I end the dialogue.",
        "Done with {ids}.",
        "Nothing is left to do after {ids}.",
        "With {ids} recommended the task is complete.",
        "I have answered with {ids} and can stop.",
        "Closing, {ids} was the answer.",
    ),
)
ANSWER: Parts = (
    (
        "I recommend {ids}.",
        "Recommended: {ids}.",
        "Here is what I found for you: {ids}.",
        "My pick is {ids}. Let me know if you would like alternatives.",
        "The best match I found is {ids}.",
        "Please have a look at {ids}.",
        "Done. The products are {ids}.",
        "You asked, I searched: {ids}.",
    ),
)
ERROR: Parts = (
    (
        "The tool refused that call ({error}). I call it properly now.",
        "That call failed with '{error}', so I correct it.",
        "'{error}': my mistake, trying again with valid parameters.",
        "An error came back, {error}. Let me fix the call.",
    ),
)
