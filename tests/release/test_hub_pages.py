"""The pages show cards, files, tags and versions; whatever a repository holds, nothing of it runs or misleads."""

from __future__ import annotations

import html.parser
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.release.hub.cards import FrontMatterError, front_matter, split_card
from oresmith.release.hub.pages.markdown import MAX_RENDERED, render, visible
from tests.release.hub_world import Answer, World, file, hub_at, large, page

CARD = b"""---
license: mit
configs:
- config_name: sft
  data_files: x
- config_name: '"); evil("'
  data_files: x
tags: ['<img src=x onerror=alert(1)>', "\xe2\x80\xaetxt"]
---
# Arena

| reason | rows |
|--------|------|
| a      | 12   |

![funnel](figures/funnel.png) [data](data/x.parquet) [home](https://example.org/)
<!-- {"numbers": [{"text": "12"}]} -->
"""
PNG = b"\x89PNG\r\n\x1a\n\0"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "text <b onclick=alert(1)>b</b> <svg/onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](//evil.example/x)",
    "[x](/api/repos/delete)",
    "[x](../../../other/repository)",
    "![x](https://evil.example/pixel.png)",
    '[x](a "\\" onmouseover=\\"alert(1)")',
    '![x" onerror="alert(1)](a.png)',
    "<!-- <script>alert(1)</script>",
    "<!-- a --><script>alert(1)</script><!-- b -->",
    "{{ 7 * 7 }} {% raw %}",
    "`</code><script>alert(1)</script>`",
    "```\n</pre><script>alert(1)</script>\n```",
    "| a | b |\n|---|---|\n| <script>alert(1)</script> | x |",
    "<iframe src=https://evil.example></iframe>",
    "[x]: javascript:alert(1)\n\n[x]",
    '<https://evil.example/">x',
    "<form action=/api/repos/delete><input name=x>",
]
KNOWN = {
    "a", "b", "blockquote", "br", "code", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p", "pre",
    "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


class Elements(html.parser.HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def require_harmless(text: str) -> None:
    for tag, attributes in Elements(text).found:
        assert tag in KNOWN
        assert set(attributes) <= {"href", "rel", "src", "alt", "title", "class", "style", "start"}
        assert re.fullmatch(r"text-align:(left|right|center)", attributes.get("style") or "text-align:left")
        assert re.match(r"https?://|#|/datasets/acme/x/blob/main/(?!\.\.)", attributes.get("href") or "#")
        assert (attributes.get("src") or "/datasets/acme/x/resolve/main/").startswith("/datasets/acme/x/resolve/main/")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_hostile_card_runs_or_leads_elsewhere(text: str) -> None:
    require_harmless(render(text, "/datasets/acme/x", "main"))


PIECES = [
    "<",
    ">",
    '"',
    "'",
    "`",
    "|",
    "[x](",
    ")",
    "![",
    "](",
    "javascript:",
    "<!--",
    "-->",
    "\n",
    "\n\n",
    "    ",
    "- ",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=25).map("".join))
def test_no_text_becomes_an_element_that_the_renderer_does_not_make(text: str) -> None:
    require_harmless(render(text, "/datasets/acme/x", "main"))


@given(st.text())
def test_shown_text_holds_nothing_that_cannot_be_seen(text: str) -> None:
    assert not set(visible(text)) & {"\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\x00", "\x1b", "\n", "\u2028"}
    assert visible(visible(text)) == visible(text)


def test_a_card_of_any_size_is_shown_in_bounded_time() -> None:
    for piece in ("<!--", "[", "![](", "*a_ ", "> ", "`", "<a ", "|-|\n"):
        text = piece * (4 * MAX_RENDERED // len(piece))
        assert render(text, "/datasets/acme/x", "main").startswith("<pre>")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hub_at(tmp_path_factory.mktemp("pages") / "hub") as world:
        yield world


@pytest.fixture(scope="module")
def api(hub: World) -> str:
    made = hub.create("shown")
    oid = hub.put_large(made, PNG)
    lines = [
        file("README.md", CARD),
        large("figures/funnel.png", oid),
        large("data/x.parquet", oid),
        file('data/<script>alert("1") {{ 7*7 }} \u202e.txt', b"<script>alert(2)</script>\x1b[31m"),
        file("page.html", b"<script>alert(3)</script>"),
        file("picture.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(4)'/>"),
    ]
    assert hub.commit(made, *lines).status == 200
    for tag in ("v1.9.0", "v1.10.0"):
        assert hub.post(f"{made}/tag/main", {"tag": tag}).status == 200
    slug = hub.post("/api/collections", {"title": "<script>alert(5)</script>", "namespace": "acme"}).json["slug"]
    hub.post(f"/api/collections/{slug}/items", {"item": {"id": "acme/shown", "type": "dataset"}, "note": "<b>"})
    return made


def seen(hub: World, address: str) -> Answer:
    """A page as a browser sees it: without a token."""
    answer = hub.ask("GET", address, by=None)
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; img-src 'self' ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for tag, attributes in Elements(answer.text).found:
        assert tag != "script" and not any(name.startswith("on") for name in attributes)
    assert "\u202e" not in answer.text and "49" not in re.sub(r"[0-9a-f]{10,}|:\d+", "", answer.text)
    return answer


def test_a_repository_shows_card_files_and_versions(hub: World, api: str) -> None:
    text = seen(hub, page(api)).text
    assert "<h1>Arena</h1>" in text and "<td>12</td>" in text and "numbers" not in text
    assert '<img src="/datasets/acme/shown/resolve/main/figures/funnel.png" alt="funnel">' in text
    assert text.index(">v1.10.0<") < text.index(">v1.9.0<")
    assert "load_dataset(&#34;acme/shown&#34;, &#34;sft&#34;, revision=&#34;main&#34;)" in text
    assert "evil(&#34;&#34;" not in text and "README.md" in text
    assert "revision=&#34;v1.9.0&#34;" in seen(hub, f"{page(api)}/tree/v1.9.0").text


def test_files_with_hostile_names_and_contents_are_shown_as_text(hub: World, api: str) -> None:
    listed = seen(hub, f"{page(api)}/tree/main/data").text
    assert "<bdi>&lt;script&gt;alert(&#34;1&#34;)" in listed and "{{ 7*7 }}" in listed and "[U+202E]" in listed
    link = next(
        row["href"] for tag, row in Elements(listed).found if tag == "a" and "script" in (row.get("href") or "")
    )
    shown = seen(hub, str(link)).text
    assert "&lt;script&gt;alert(2)&lt;/script&gt;[U+001B]" in shown


def test_every_other_page_is_there(hub: World, api: str) -> None:
    assert "acme/shown" in seen(hub, "/").text
    slug = hub.ask("GET", "/api/collections").json[0]["slug"]
    assert "acme/shown" in seen(hub, f"/collections/{slug}").text
    assert "initial commit" in seen(hub, f"{page(api)}/commits/main").text
    assert "not shown" in seen(hub, f"{page(api)}/blob/main/data/x.parquet").text
    assert "<img" in seen(hub, f"{page(api)}/blob/main/figures/funnel.png").text
    commit = hub.ask("GET", f"{page(api)}/commit/{hub.head(api)}", by=None)
    assert hub.ask("GET", commit.headers["location"], by=None).status == 200
    assert hub.ask("GET", "/static/style.css", by=None).headers["content-type"].startswith("text/css")
    gone = hub.ask("GET", "/datasets/acme/absent", by=None)
    assert (gone.status, gone.headers["content-type"][:9]) == (404, "text/html")


def test_a_file_as_it_is_never_runs_in_the_browser(hub: World, api: str) -> None:
    for name in ("page.html", "picture.svg", "README.md"):
        answer = hub.ask("GET", f"{page(api)}/resolve/main/{name}", by=None)
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
    told = hub.ask("GET", f"{page(api)}/resolve/main/figures/funnel.png", by=None).headers["location"]
    assert hub.ask("GET", told, by=None).headers["content-type"] == "image/png"
    assert hub.ask("GET", told.replace("media=png", "media=html"), by=None).headers["content-type"] == (
        "application/octet-stream"
    )


@pytest.mark.parametrize(
    "front",
    [
        "[" * 100_000,
        "- " * 100_000,
        f"a: {'9' * 100_000}",
        "a: !!timestamp x",
        "a: !!int x",
        "a: !!binary x",
        "a: !!python/name:os.system",
        "? [a, b]\n: c\n? {d: e}\n: f",
        "a: &a [x]\nb: *a",
        "a: 2020-99-99",
    ],
)
def test_front_matter_that_is_made_to_hurt_is_refused(front: str) -> None:
    with pytest.raises(FrontMatterError):
        front_matter(f"---\n{front}\n---\n")


@given(st.text())
def test_front_matter_is_a_mapping_or_refused(text: str) -> None:
    for card in (text, f"---\n{text}\n---\n"):
        try:
            found = front_matter(card)
        except FrontMatterError:
            continue
        assert isinstance(found, dict)
        front, body = split_card(card)
        assert found == {} or front is not None
        assert card.endswith(body)
