"""One HTML page that needs nothing but itself: no script, no network, pictures inlined.

Every text is escaped here; a caller gives plain text. Headings, captions and alternative texts
carry the page for those who do not see it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.25; }
h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }
figure { margin: 1rem 0 2rem; }
img { max-width: 100%; height: auto; }
figcaption { max-width: 50rem; color: #444; }
.notice { border-left: .4rem solid #b3261e; background: #fdf0ef; padding: .5rem 1rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem;
  border-bottom: 1px solid #ddd; white-space: nowrap; }
thead th { border-bottom: 2px solid #888; white-space: normal; }
tbody th { font-weight: 600; }
table.prose td { white-space: normal; overflow-wrap: anywhere; min-width: 20rem; }
tr.baseline td, tr.baseline th { color: #555; font-style: italic; font-weight: 400; }
"""

# Names no source but the page itself, so that nothing in it could reach out.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row.

    Attributes:
        cells: As many as the table has columns; the first one heads the row.
        is_baseline: It is there for comparison.
    """

    cells: tuple[str, ...]
    is_baseline: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table under its caption.

    Attributes:
        caption: What it is.
        columns: Their headings.
        rows: In order.
        is_prose: The cells are long texts, which go on in a new line.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    is_prose: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture under its heading.

    Attributes:
        title: The heading.
        caption: What to look for.
        description: What it shows, in words.
        png: The picture.
    """

    title: str
    caption: str
    description: str
    png: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        title: The heading.
        notices: What must not be missed.
        notes: Paragraphs.
        pictures: In order.
        tables: In order, after the pictures.
    """

    title: str
    notices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return the page, as text that UTF-8 can hold."""
    links = "".join(
        f'<li><a href="#part-{number}">{_text(section.title)}</a></li>'
        for number, section in enumerate(sections)
    )
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{_text(title)}</h1></header>",
        f'<nav aria-label="Parts of the page"><ul>{links}</ul></nav>',
        "<main>",
        *(line for number, each in enumerate(sections) for line in _section(number, each)),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def _section(number: int, section: Section) -> Iterator[str]:
    yield f'<section aria-labelledby="part-{number}">'
    yield f'<h2 id="part-{number}">{_text(section.title)}</h2>'
    for notice in section.notices:
        yield f'<p class="notice"><strong>Note:</strong> {_text(notice)}</p>'
    for note in section.notes:
        yield f"<p>{_text(note)}</p>"
    for picture in section.pictures:
        yield from _picture(picture)
    for table in section.tables:
        yield from _table(table)
    yield "</section>"


def _picture(picture: Picture) -> Iterator[str]:
    data = base64.b64encode(picture.png).decode("ascii")
    yield f"<h3>{_text(picture.title)}</h3>"
    yield "<figure>"
    yield f'<img src="data:image/png;base64,{data}" alt="{_text(picture.description)}">'
    yield f"<figcaption>{_text(picture.caption)}</figcaption>"
    yield "</figure>"


def _table(table: Table) -> Iterator[str]:
    # Wide tables scroll in a box of their own, which the keyboard must reach.
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{_text(table.caption)}">'
    kind = ' class="prose"' if table.is_prose else ""
    yield f"<table{kind}><caption>{_text(table.caption)}</caption>"
    heads = "".join(f'<th scope="col">{_text(column)}</th>' for column in table.columns)
    yield f"<thead><tr>{heads}</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        first, *rest = row.cells
        kind = ' class="baseline"' if row.is_baseline else ""
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in rest)
        yield f'<tr{kind}><th scope="row">{_text(first)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _text(text: str) -> str:
    # A lone surrogate, which JSON can hold, is no text to UTF-8.
    return escape(text.encode("utf-8", "replace").decode("utf-8"), quote=True)
