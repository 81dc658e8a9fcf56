"""The chat templates: one a family, the same text for training, rollout and serving, versioned and pinned by hash.

A template is Jinja as chat servers read it, with `{% generation %}` marks around what the model is to emit. A changed
text is a new version: the old one stays, because released models name it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from oresmith.errors import OresmithError

_FOLDER = Path(__file__).resolve().parent / "templates"

EMITS, ENDS = "\ufdd1", "\ufdd2"
"""Noncharacters that enclose in the rendered text what the model is to emit; `rendering` keeps them out of the data."""


class Template(NamedTuple):
    """One version of a family's template."""

    id: str
    """Family and version, as in `hermes/1`."""
    family: str
    file: str
    sha256: str
    """Of the file's bytes."""
    keeps_prefixes: bool
    """Whether earlier turns are rendered the same whatever follows, so that a whole conversation is one training row.
    Where not, each assistant turn is a row of its own."""
    always_thinks: bool
    """Whether a turn without thinking emits an empty block of thinking."""

    def text(self) -> str:
        """The Jinja source.

        Raises:
            OresmithError: the file is not the pinned one.
        """
        raw = (_FOLDER / self.file).read_bytes()
        found = hashlib.sha256(raw).hexdigest()
        if found != self.sha256:
            raise OresmithError(
                "a chat template changed without a new version",
                where=self.file,
                expected=self.sha256,
                got=found,
                todo="restore the file, or give the new text a version of its own",
            )
        return raw.decode()

    def apply(self, messages: list[dict[str, Any]], tools: list[Any] | None, *, add_generation_prompt: bool) -> str:
        """Text with `EMITS` and `ENDS` around what the model emits. Only `rendering` calls this.

        Raises:
            jinja2.TemplateError, TypeError: a message or tool is not of the shape that the template reads.
        """
        return _compiled(self).render(
            messages=messages, tools=tools or None, add_generation_prompt=add_generation_prompt
        )


HERMES = Template(
    id="hermes/1",
    family="hermes",
    file="hermes-1.jinja",
    sha256="f9ff9e685d502b4778a0e871c77c951b4eafb89604e93a72921946d1f6701154",
    keeps_prefixes=True,
    always_thinks=False,
)
QWEN3 = Template(
    id="qwen3/1",
    family="qwen3",
    file="qwen3-1.jinja",
    sha256="21814ebe8e71ae9fc9d687a232c78d114dd2eb99479fbac38ebe2471c4a28aea",
    keeps_prefixes=False,
    always_thinks=True,
)
TEMPLATES: Mapping[str, Template] = {template.id: template for template in (HERMES, QWEN3)}
"""All versions, by id."""
LATEST: Mapping[str, Template] = {template.family: template for template in (HERMES, QWEN3)}
"""The version that new models of a family get."""
_BY_MODEL_TYPE = {"qwen3": "qwen3", "qwen3_moe": "qwen3"}
CHATML = ("<|im_start|>", "<|im_end|>")
"""Control tokens that every template of ours is made of."""


def template_by_id(name: str) -> Template:
    """The template of an id such as `hermes/1`.

    Raises:
        OresmithError: there is none.
    """
    if name not in TEMPLATES:
        raise OresmithError("no such chat template", where=name[:80], expected=", ".join(TEMPLATES))
    return TEMPLATES[name]


def template_for(model_type: str, wish: str = "auto") -> Template:
    """The template of a model whose tokenizer has the control tokens `CHATML`.

    Args:
        model_type: of the model's config.
        wish: a family, or "auto": Qwen3's own for Qwen3, Hermes-style for all others.

    Raises:
        OresmithError: there is no such family.
    """
    family = _BY_MODEL_TYPE.get(model_type, "hermes") if wish == "auto" else wish
    if family not in LATEST:
        raise OresmithError("no such family of chat templates", where=family[:80], expected=", ".join(LATEST))
    return LATEST[family]


class _Generation(Extension):
    """The `{% generation %}` tag: chat servers pass over it, here it puts the marks."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Wrap the block in a call of `_marked`."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Callable[[], str]) -> str:
        return EMITS + caller() + ENDS


@cache
def _compiled(template: Template) -> jinja2.Template:
    # The settings and the filter are those of chat servers (transformers), or the same text would render otherwise.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation])
    environment.filters["tojson"] = _tojson
    return environment.from_string(template.text())


def _tojson(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
