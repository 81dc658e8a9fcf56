"""The templates: what servers render from them is what we render, and a text cannot change in silence."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.models import HERMES, QWEN3, TEMPLATES, render
from oresmith.models.template import template_by_id, template_for
from tests.models.build import SHOPPING, TOOLS, messages_of, plain


def with_objects(messages):
    """Arguments as objects, as servers decode them before their template runs."""
    decoded = json.loads(json.dumps(messages))
    for message in decoded:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return decoded


def served(text, messages, tools, prompt):
    from transformers.utils.chat_template_utils import render_jinja_template

    found, _ = render_jinja_template([with_objects(messages)], tools, chat_template=text, add_generation_prompt=prompt)
    return found[0]


def test_a_changed_text_without_a_new_version_is_refused():
    for template in TEMPLATES.values():
        assert template.text()
    with pytest.raises(OresmithError, match="changed without a new version"):
        HERMES._replace(sha256=QWEN3.sha256).text()


def test_ids_name_family_and_version():
    assert {name: template.id for name, template in TEMPLATES.items()} == {name: name for name in TEMPLATES}
    assert template_by_id("hermes/1") is HERMES
    with pytest.raises(OresmithError, match="no such chat template"):
        template_by_id("hermes/0")


def test_qwen3_gets_its_own_family_and_others_hermes():
    assert template_for("qwen3") is QWEN3
    assert template_for("llama") is HERMES
    assert template_for("qwen3", "hermes") is HERMES
    with pytest.raises(OresmithError, match="no such family"):
        template_for("llama", "gemma")


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=str)
@given(messages=messages_of(plain, st.none() | plain), tools=st.sampled_from([None, TOOLS]), prompt=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_chat_server_renders_the_same_text(template, chats, messages, tools, prompt):
    chat = chats["qwen" if template is QWEN3 else "hermes"]
    ours = render(messages, tools, chat, add_generation_prompt=prompt).text
    assert ours == served(template.text(), messages, tools, prompt)


@given(messages=messages_of(plain, st.none() | plain), tools=st.sampled_from([None, TOOLS]), prompt=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_qwen3_template_renders_what_qwens_own_does(qwen, messages, tools, prompt):
    trl = pytest.importorskip("trl", reason="trl ships Qwen3's own template")
    own = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    assert render(messages, tools, qwen, add_generation_prompt=prompt).text == served(own, messages, tools, prompt)


def test_the_tool_list_of_hermes_fits_a_small_model(hermes):
    with_tools, without = (len(render(SHOPPING[:2], tools, hermes).ids) for tools in (TOOLS, None))
    text = render(SHOPPING[:2], TOOLS, hermes).text
    assert with_tools - without < 120
    for tool in TOOLS:
        assert all(name in text for name in [tool["function"]["name"], *tool["function"]["parameters"]["properties"]])


def test_tools_and_system_prompt_are_each_optional(hermes):
    query = SHOPPING[1:2]
    assert render(query, None, hermes).text == "<|im_start|>user\nI want a black mouse under 200.<|im_end|>\n"
    assert render(query, TOOLS, hermes).text.startswith("<|im_start|>system\nTools: find_product(q, page?")
    assert render(SHOPPING[:1], [], hermes).text == "<|im_start|>system\nYou shop for the user.<|im_end|>\n"


def test_a_tool_without_parameters_is_listed(hermes):
    bare = [{"type": "function", "function": {"name": "ping"}}]
    assert "Tools: ping()\n" in render(SHOPPING[:2], bare, hermes).text
