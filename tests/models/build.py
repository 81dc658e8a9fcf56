"""Conversations for the tests of models: fixed ones, and strategies for any."""

import json

from hypothesis import strategies as st

from oresmith.arena.toolschema import tools

TOOLS = tools()
CONTROL = ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
MARKS = ["\ufdd0", "\ufdd1", "\ufdd2", "\U000f0000", "\U000f0001"]


def call(name="find_product", number=0, **arguments):
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


def user(text):
    return {"role": "user", "content": text}


def assistant(content="", thinking=None, *calls):
    message = {"role": "assistant", "content": content}
    if thinking is not None:
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = list(calls)
    return message


def tool(content, number=0):
    return {"role": "tool", "content": content, "tool_call_id": f"call_{number}", "name": "find_product"}


SHOPPING = [
    {"role": "system", "content": "You shop for the user."},
    user("I want a black mouse under 200."),
    assistant("", "I search first.", call(q="black mouse", price="-200")),
    tool('[{"title": "Wireless mouse, black", "product_id": "4410867766"}]'),
    assistant("I take it.", "It matches.", call("recommend_product", 1, product_ids="4410867766")),
    tool("ok", 1),
    assistant("", "Done.", call("terminate", 2, status="success")),
    tool("ended", 2),
    assistant("It is done."),
]

# SmolLM2 has no tokens for some control characters and unassigned planes.
anything = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=12)
hostile = st.lists(st.one_of(st.sampled_from([*CONTROL, *MARKS, "\n", " ", "<tool_response>"]), anything), max_size=5)
texts = hostile.map("".join)
plain = st.text("abc xyz019.,'\"{}<>/|\n", max_size=20)
"""Text without whole tags, control tokens or characters that a tokenizer would normalise."""
scalars = st.one_of(
    plain, st.integers(-(2**63), 2**64 - 1), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)
)
arguments = st.dictionaries(plain, st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3)


def messages_of(texts, thoughts):
    """Strategy: a conversation with one query at least, whose answers may call tools."""
    made = st.builds(lambda given: call("f") | {"function": {"name": "f", "arguments": json.dumps(given)}}, arguments)
    calls = st.lists(made, max_size=2)
    answer = st.builds(lambda content, thought, made: assistant(content, thought, *made), texts, thoughts, calls)
    results = st.lists(st.builds(tool, texts), min_size=1, max_size=2)
    turn = st.tuples(answer, results, st.lists(st.builds(user, texts), max_size=1))
    turns = st.lists(turn, min_size=1, max_size=3)
    system = st.lists(st.builds(lambda text: {"role": "system", "content": text}, texts), max_size=1)

    def joined(system, query, turns):
        found = [*system, user(query)]
        for answered, results, queries in turns:
            found += [answered, *results, *queries]
        return found

    return st.builds(joined, system, texts, turns)
