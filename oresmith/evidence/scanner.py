"""One pass of many patterns over the text of a trajectory: fast where nothing is found, exact where something is.

A pattern is written once, in the syntax that Python's `re` and Rust's `regex` share. Rust's engine (inside
pydantic-core) answers in linear time whether any pattern can occur at all; Python's then finds the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from oresmith.evidence.texts import DISGUISE, Part, View, gather, leaves, plain_view
from oresmith.records import Record

MAX_FINDINGS = 1000
"""Findings kept of one trajectory, in order; a gate needs one, a reader some."""

Span = tuple[int, int]
Check = Callable[[str, int, int], Span | None]
"""Decides on a match by its meaning: text, start, end -> the value's span, or None where it is none."""

SHORT = 40
"""Characters of a text that no pattern with a second test fits into."""
TOKEN = "A-Za-z0-9_-"
"""Characters that may not stand before a token."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_REPEAT = re.compile(r"\{([0-9]+)(,[0-9]+)?\}")
_LEAST_REPEAT = 32
"""Longest counted repeat that Rust is asked for; shorter, and hashes in ordinary logs pass for wallet addresses."""


class Finding(Record, frozen=True):
    """Something found in a trajectory: what and where, never the text itself."""

    kind: str
    """secret, personal, path or injection."""
    type: str
    """The pattern's name, as `openai_key` or `email`."""
    where: str
    """Place in the record, as `messages[3].tool_calls[0].arguments`."""
    start: int
    """First character in the string at `where`, counted in code points."""
    length: int
    """Characters, disguise included."""
    digest: str = ""
    """First 12 hex digits of the value's sha256, so that equal values can be told; "" for a value that could be
    guessed from it (personal data, passwords)."""


class Spec(NamedTuple):
    """One pattern."""

    kind: str
    type: str
    shape: str
    """Regular expression without look-around and back references; a group `(?P<v>..)` marks the value, if not all."""
    check: Check | None = None
    before: str = TOKEN
    """Characters (inside of a class) that may not stand before it; an escape such as \\n may. "" allows all."""
    after: str = ""
    """Characters that may not follow; "" allows all."""
    digest: bool = True
    also: Callable[[str], bool] | None = None
    """A second test that a text must pass, for a shape that much harmless text has. Texts are then asked one by one."""

    def loose(self) -> str:
        """The shape for Rust, which knows no look-around: at least all that `exact` matches.

        Long repeats become shorter ones without an end: each counted step is a state, and too many of them make Rust
        leave its fast automaton.
        """
        shape = _REPEAT.sub(_loose_repeat, self.shape.replace("?P<v>", "?:"))
        return rf"(?:^|[^{self.before}]|\\[nrtbf])(?:{shape})" if self.before else f"(?:{shape})"

    def may(self) -> Callable[[str], bool]:
        """The pre-check of this pattern alone."""
        first, second = rust_search(self.loose()), self.also
        return first if second is None else lambda text: len(text) > SHORT and first(text) and second(text)

    def exact(self) -> re.Pattern[str]:
        """The pattern for Python, with its neighbours checked."""
        before = rf"(?:(?<![{self.before}])|(?<=\\[nrtbf]))" if self.before else ""
        after = f"(?![{self.after}])" if self.after else ""
        return re.compile(f"{before}(?:{self.shape}){after}")


def _loose_repeat(match: re.Match[str]) -> str:
    least, most = int(match[1]), int((match[2] or "," + match[1])[1:])
    return match[0] if most <= _LEAST_REPEAT else f"{{{min(least, _LEAST_REPEAT)},}}"


def rust_search(pattern: str) -> Callable[[str], bool]:
    """Compile to a test "does it occur in this text?" that takes linear time on any text without surrogates."""
    from pydantic_core import SchemaValidator, core_schema

    return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python


class Scanner:
    """A set of patterns. Earlier ones win where two match the same characters."""

    def __init__(self, specs: Iterable[Spec], numbers: bool = False) -> None:
        self.specs = tuple(specs)
        self.numbers = numbers
        """Whether large numbers outside of strings are read too."""

    @cached_property
    def _whole(self) -> list[Callable[[str], bool]]:
        """Pre-checks of all texts together: one a kind, because one for all would outgrow Rust's fast automaton."""
        kinds: dict[str, list[str]] = {"": [DISGUISE]}
        for spec in self.specs:
            if spec.also is None:
                kinds.setdefault(spec.kind, []).append(spec.loose())
        return [rust_search("|".join(shapes)) for shapes in kinds.values()]

    @cached_property
    def _single(self) -> list[Callable[[str], bool]]:
        """Pre-checks of one text at a time."""
        return [spec.may() for spec in self.specs if spec.also is not None]

    @cached_property
    def _disguised(self) -> Callable[[str], bool]:
        return rust_search(DISGUISE + r"|\\[nrt]")

    @cached_property
    def _each(self) -> list[tuple[Spec, Callable[[str], bool], re.Pattern[str]]]:
        return [(spec, spec.may(), spec.exact()) for spec in self.specs]

    def _hits(self, texts: list[str]) -> list[Callable[[str], bool]]:
        """The pre-checks that find something to look at."""
        joined = "\n".join(texts)
        whole = _without_surrogates(joined)
        if whole is not joined:
            texts = [_without_surrogates(text) for text in texts]
        found = [may for may in self._whole if may(whole)]
        return found + [may for may in self._single if any(map(may, texts))]

    def find(self, values: Callable[[], Iterator[Part]]) -> list[Finding]:
        """Scan parts of a record.

        Args:
            values: yields the parts; called again where the pre-check finds something to look at.

        Returns:
            Findings in the order of the parts and of the text, `MAX_FINDINGS` at most. Never raises.
        """
        hits = self._hits(gather(values(), self.numbers))
        if not hits:
            return []
        findings: list[Finding] = []
        for place, value in values():
            for where, raw in leaves(place, value):
                text = _without_surrogates(raw)
                if any(may(text) for may in hits):
                    findings.extend(self._leaf(where, text))
                if len(findings) >= MAX_FINDINGS:
                    return findings[:MAX_FINDINGS]
        return findings

    def find_in(self, where: str, value: Any) -> list[Finding]:
        """Scan one JSON value, such as a reject or a whole document. `where` becomes the root of the places."""
        return self.find(lambda: iter([(where, value)]))

    def _leaf(self, where: str, text: str) -> list[Finding]:
        views = [View(text, None)]
        if self._disguised(text):
            # First, because in the raw text a disguise may cut a value short.
            views.insert(0, plain_view(text))
        taken: list[tuple[int, int, Spec, str]] = []
        for spec, may, exact in self._each:
            for view in views:
                if may(view.text):
                    _collect(spec, exact, view, taken)
        return [
            Finding(
                kind=spec.kind,
                type=spec.type,
                where=where,
                start=start,
                length=end - start,
                digest=_digest(value) if spec.digest else "",
            )
            for start, end, spec, value in sorted(taken, key=lambda entry: entry[:2])
        ]


def _collect(spec: Spec, exact: re.Pattern[str], view: View, taken: list[tuple[int, int, Spec, str]]) -> None:
    """Add the matches of one pattern in one reading that overlap none taken before."""
    for match in exact.finditer(view.text):
        if len(taken) >= MAX_FINDINGS:
            return
        span: Span | None = match.span("v") if "v" in exact.groupindex else match.span()
        if spec.check is not None and span is not None:
            span = spec.check(view.text, *span)
        if span is None:
            continue
        start, end = view.span(*span)
        if all(end <= other[0] or start >= other[1] for other in taken):
            taken.append((start, end, spec, view.text[span[0] : span[1]]))


def _digest(value: str) -> str:
    return sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _without_surrogates(text: str) -> str:
    """The text with each half of a surrogate pair replaced, since Rust refuses such a text as a whole."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("?", text)
    return text
