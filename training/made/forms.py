"""A scene as knowledge: prose, lists, tables, markup, configuration, a log, several documents.

Mirrored scenes are shown with the same seed, so that they differ in their values alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from random import Random

from training.made.scenes import Scene, Spot, bare_name, capitalise


class Form(StrEnum):
    """How a scene is written down."""

    PROSE = "prose"
    DOCUMENTS = "documents"
    LIST = "list"
    TABLE = "table"
    CSV = "csv"
    HTML_TABLE = "html-table"
    HTML_LIST = "html-list"
    JSON = "json"
    YAML = "yaml"
    INI = "ini"
    LOG = "log"


SPOKEN = (Form.PROSE, Form.PROSE, Form.PROSE, Form.DOCUMENTS)
WRITTEN = tuple(form for form in Form if form not in SPOKEN)
PLAIN = (*SPOKEN, Form.LIST, Form.TABLE)
"""Forms that need no word of any language."""

_OPENERS = (
    *("",) * 14,
    "As the records show, ", "According to the office, ", "By all accounts, ", "We were told that ",
    "It is known that ", "For the record, ",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """Knowledge.

    Attributes:
        texts: The documents.
        sentences: Fact -> the sentence that says it, without its stop; none in written forms.
    """

    texts: tuple[str, ...]
    sentences: Mapping[Spot, str] = field(default_factory=dict)


def show(scene: Scene, form: Form, seed: int) -> Shown:
    """Return a scene as knowledge.

    Args:
        scene: What is shown, its hidden facts left out.
        form: How.
        seed: Of the wording and the order.
    """
    rng = Random(seed)  # noqa: S311 - no secret hangs on it
    if form in (Form.PROSE, Form.DOCUMENTS):
        return _tell(scene, form is Form.DOCUMENTS, rng)
    return Shown((_WRITERS[form](scene, rng),))


def _tell(scene: Scene, is_split: bool, rng: Random) -> Shown:
    is_english = scene.tongue.code == "en"
    by_entity = is_split or rng.random() < 0.6
    spots = [(i, k) for i in range(len(scene.entities)) for k in range(len(scene.attributes))]
    order = {spot: rng.random() for spot in spots}
    spots.sort(key=lambda spot: (spot[0] if by_entity else 0, order[spot]))
    sentences: dict[Spot, str] = {}
    texts: list[list[str]] = [[] for _ in scene.entities]
    for spot in spots:
        # Drawn for hidden facts too: all else must stay as it is.
        said = scene.say(spot, rng)
        opener = rng.choice(_OPENERS) if is_english else ""
        if spot in scene.hidden:
            continue
        sentences[spot] = capitalise(f"{opener}{said}")
        texts[spot[0] if is_split else 0].append(sentences[spot] + scene.tongue.stop)
    joint = "" if scene.tongue.code == "zh" else " "
    return Shown(tuple(joint.join(text) for text in texts if text), sentences)


def _cells(scene: Scene, entity: int) -> list[tuple[str, str]]:
    return [
        (attribute.label, scene.value((entity, k)).text)
        for k, attribute in enumerate(scene.attributes)
        if (entity, k) not in scene.hidden
    ]


def _grid(scene: Scene, missing: str) -> list[list[str]]:
    rows = [[capitalise(scene.domain.plural), *(capitalise(a.label) for a in scene.attributes)]]
    for i, entity in enumerate(scene.entities):
        values = [
            missing if (i, k) in scene.hidden else scene.value((i, k)).text
            for k in range(len(scene.attributes))
        ]
        rows.append([bare_name(entity), *values])
    return rows


def _list(scene: Scene, rng: Random) -> str:
    mark, equals = rng.choice(("- ", "* ", "\u2022 ")), rng.choice((": ", " \u2013 ", " = "))
    lines = [f"{rng.choice(('', '# ', '## '))}{capitalise(scene.domain.plural)}"]
    for i, entity in enumerate(scene.entities):
        facts = "; ".join(f"{label}{equals}{value}" for label, value in _cells(scene, i))
        lines.append(f"{mark}{bare_name(entity)}: {facts}")
    return "\n".join(lines)


def _table(scene: Scene, rng: Random) -> str:
    missing = rng.choice(("", "-", "\u2013"))
    head, *rows = [f"| {' | '.join(cells)} |" for cells in _grid(scene, missing)]
    rule = f"| {' | '.join(['---'] * (1 + len(scene.attributes)))} |"
    return "\n".join([head, rule, *rows])


def _csv(scene: Scene, rng: Random) -> str:
    mark = rng.choice((";", "\t", "; "))
    return "\n".join(mark.join(cells) for cells in _grid(scene, ""))


def _html_table(scene: Scene, rng: Random) -> str:
    head, *rows = _grid(scene, rng.choice(("", "-")))
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    joint = rng.choice(("", "\n"))
    return f"<table>{joint}{joint.join(lines)}{joint}</table>"


def _html_list(scene: Scene, rng: Random) -> str:
    outer, mark = rng.choice((("ul", "b"), ("ol", "strong"), ("ul", "em")))
    lines = []
    for i, entity in enumerate(scene.entities):
        facts = ", ".join(f"{label}: {value}" for label, value in _cells(scene, i))
        lines.append(f"<li><{mark}>{bare_name(entity)}</{mark}> {facts}</li>")
    return f"<h2>{capitalise(scene.domain.plural)}</h2>\n<{outer}>\n" + "\n".join(
        [*lines, f"</{outer}>"]
    )


def _key(label: str) -> str:
    return label.replace(" ", "_")


def _json(scene: Scene, rng: Random) -> str:
    items = [
        {"name": bare_name(entity), **{_key(label): value for label, value in _cells(scene, i)}}
        for i, entity in enumerate(scene.entities)
    ]
    return json.dumps(
        {scene.domain.plural: items},
        ensure_ascii=False,
        indent=rng.choice((None, None, 1)),
    )


def _yaml(scene: Scene, rng: Random) -> str:
    indent = rng.choice(("  ", "    "))
    lines = [f"{scene.domain.plural}:"]
    for i, entity in enumerate(scene.entities):
        lines.append(f"{indent}- name: {bare_name(entity)}")
        lines += [f"{indent}  {_key(label)}: {value}" for label, value in _cells(scene, i)]
    return "\n".join(lines)


def _ini(scene: Scene, rng: Random) -> str:
    equals = rng.choice((" = ", "="))
    blocks = [
        "\n".join(
            [f"[{bare_name(entity)}]"]
            + [f"{_key(label)}{equals}{value}" for label, value in _cells(scene, i)]
        )
        for i, entity in enumerate(scene.entities)
    ]
    return "\n".join(blocks)


def _log(scene: Scene, rng: Random) -> str:
    day = date(2024, 1, 1) + timedelta(days=rng.randrange(2000))
    second = rng.randrange(20_000, 60_000)
    lines = []
    for i, entity in enumerate(scene.entities):
        for label, value in _cells(scene, i):
            second += 7 * (i + 3)
            clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
            lines.append(f"{day} {clock} INFO {bare_name(entity)}: {label} set to {value}")
    return "\n".join(lines)


_WRITERS: Mapping[Form, Callable[[Scene, Random], str]] = {
    Form.LIST: _list,
    Form.TABLE: _table,
    Form.CSV: _csv,
    Form.HTML_TABLE: _html_table,
    Form.HTML_LIST: _html_list,
    Form.JSON: _json,
    Form.YAML: _yaml,
    Form.INI: _ini,
    Form.LOG: _log,
}
