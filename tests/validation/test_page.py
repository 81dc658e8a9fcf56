"""The report is one page that needs nothing from outside, and nothing from a trace acts in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from oresmith.validation.funnel import FileFunnel, Funnel
from oresmith.validation.held import Held
from oresmith.validation.page import (
    FILES_SHOWN,
    ConfigShape,
    LargeCluster,
    Page,
    render,
    shown,
)
from oresmith.validation.versions import VersionStep

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table><iframe src=//evil.example>",
    "{{ 7 * 7 }}{% for x in range(9) %}boo{% endfor %}{# gone #}",
    "[x](javascript:alert(1))",
    "a\u202egnp.exe\u2066\u200b",
    "]]><!--",
    "`${1}`|---|&lt;",
]


def gx_result(meaning: str = "ids are unique") -> dict[str, Any]:
    entry = {"type": "expect_x", "kwargs": {"column": "row_id"}, "meaning": meaning, "success": True, "result": {}}
    table = {"type": "expect_y", "kwargs": {"min_value": 0}, "meaning": "rows", "success": False, "result": {}}
    pair = {"type": "expect_z", "kwargs": {"column_list": ["a", "b"]}, "meaning": "u", "success": True, "result": {}}
    statistics = {"evaluated_expectations": 3, "successful_expectations": 2}
    suite = {"config": "sft", "rows": 2, "statistics": statistics, "results": [entry, table, pair]}
    return {"great_expectations": "1.24.1", "success": False, "suites": [suite]}


def page(text: str = "plain", files: int = 1, previous: str | None = "0.1.0") -> Page:
    counted = {"withheld": {text: 1}, "rejects": {text: 2}}
    return Page(
        funnel=Funnel(
            schema="oresmith.funnel/1",
            read=6,
            trajectories=2,
            subtask=1,
            files=[FileFunnel(snapshot=text, file=f"{text}{n}", read=1, **counted) for n in range(files)],  # type: ignore[arg-type]
            **counted,  # type: ignore[arg-type]
        ),
        notes=[text],
        sentences={text: text},
        configs=[ConfigShape(text, text, 2, None, 1, 1, 100, 100)],
        contracts=[Held(text, text, text, 2)],
        gx=gx_result(text),
        pools=[(text, 3)],
        categories=[(text, 0)],
        cluster_sizes=[],
        tokens=[("0-1", 1)],
        largest=[LargeCluster(cluster=text, pool=text, problems=2, query=text)],
        version=VersionStep(previous, {"added": 1, "moved": 0}, True, "0.2.0"),
        certificate=text,
    )


class Elements(HTMLParser):
    """Collects what a browser would make of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment in the page: {data}")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_never_acts(text: str) -> None:
    found, plain = Elements(render(page(text))), Elements(render(page()))
    assert found.tags == plain.tags
    assert found.attributes == plain.attributes
    assert shown(text) in found.text
    assert "49" not in found.text


def test_characters_that_hide_or_reorder_others_are_shown_by_number() -> None:
    assert (
        shown("a\u202eb\u200b\u2066\ufeff\x00\x1b\n") == r"a\u{202E}b\u{200B}\u{2066}\u{FEFF}\u{0000}\u{001B}\u{000A}"
    )
    assert shown("\ud800") == r"\u{D800}"
    assert shown("køkken 厨房 ☕") == "køkken 厨房 ☕"


def test_long_text_is_cut() -> None:
    assert len(shown("x" * 10**6)) < 400


def test_the_page_needs_nothing_from_outside() -> None:
    html = render(page())
    found = Elements(html)
    assert not {"script", "link", "img", "iframe", "object", "embed", "a", "form", "base"} & set(found.tags)
    assert not {name for name, _ in found.attributes} & {"src", "href", "style", "onload", "action", "srcset"}
    assert not re.search(r"https?:|url\(|@import", html)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in found.attributes


def test_the_page_is_the_same_for_the_same_values() -> None:
    assert render(page("x")) == render(page("x"))


def test_files_beyond_the_limit_are_counted() -> None:
    assert "3 more files stand in" in render(page(files=FILES_SHOWN + 3))
    assert "more files stand in" not in render(page())


def test_without_an_earlier_release_the_page_says_so() -> None:
    text = Elements(render(page(previous=None))).text
    assert "No earlier release" in text
    assert "0.2.0" not in text
