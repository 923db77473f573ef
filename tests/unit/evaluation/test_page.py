"""The page stands alone, is well-formed, and shows text as text."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest

from evaluation.page import Picture, Section, Table, TableRow, render_page

VOID = {"meta", "img", "link", "br"}
HOSTILE = "<script>alert('1')</script> & \"quoted\" \ud800"


class Checker(HTMLParser):
    """Collects elements, and notices any that is not closed in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def make_page(text: str = "text") -> str:
    picture = Picture(text, text, text, b"\x89PNG made")
    table = Table(text, (text, "b"), (TableRow((text, text)), TableRow(("x", "y"), True)))
    prose = Table("prose", ("a", "b"), (TableRow(("a", text * 100)),), is_prose=True)
    section = Section(text, (text,), (text,), (picture,), (table, prose))
    return render_page(text, [section, Section("second")])


def test_the_page_is_well_formed() -> None:
    checker = check(make_page())
    assert make_page().startswith("<!DOCTYPE html>\n")
    assert checker.all("html") == [{"lang": "en"}]
    assert {"charset": "utf-8"} in checker.all("meta")


def test_every_text_is_escaped() -> None:
    page = make_page(HOSTILE)
    assert "<script" not in page
    checker = check(page)
    assert checker.all("script") == []
    shown = HOSTILE.replace("\ud800", "?")
    # In the title, the header, the navigation, the section, the picture and the table.
    assert checker.texts.count(shown) == 11
    assert [image["alt"] for image in checker.all("img")] == [shown]
    assert page.encode("utf-8")


def test_the_page_needs_nothing_but_itself() -> None:
    page = make_page()
    checker = check(page)
    assert not re.search(r"https?:|@import|url\(", page)
    assert checker.all("link") == checker.all("script") == checker.all("iframe") == []
    sources = [image["src"] or "" for image in checker.all("img")]
    assert [base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in sources]
    assert base64.b64decode(sources[0].partition(",")[2]) == b"\x89PNG made"
    policies = [each for each in checker.all("meta") if "http-equiv" in each]
    assert (policies[0]["content"] or "").startswith("default-src 'none'; img-src data:;")


def test_headings_go_down_one_by_one_and_links_lead_to_them() -> None:
    checker = check(make_page())
    levels = [int(tag[1]) for tag, _ in checker.seen if re.fullmatch(r"h[1-6]", tag)]
    assert levels == [1, 2, 3, 2]
    ids = {attributes["id"] for _, attributes in checker.seen if "id" in attributes}
    assert {f"#{each}" for each in ids} == {link["href"] for link in checker.all("a")}


def test_tables_have_captions_and_headed_rows_and_columns() -> None:
    checker = check(make_page())
    assert len(checker.all("caption")) == len(checker.all("table")) == 2
    scopes = [each["scope"] for each in checker.all("th")]
    assert scopes == ["col", "col", "row", "row", "col", "col", "row"]
    assert {"class": "baseline"} in checker.all("tr")
    boxes = [each for each in checker.all("div") if each.get("role") == "region"]
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert len(boxes) == 2


@pytest.mark.parametrize("sections", [[], [Section("empty")]])
def test_an_empty_page_is_a_page(sections: list[Section]) -> None:
    assert check(render_page("nothing", sections)).texts.count("nothing") == 2
