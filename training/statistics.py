"""What the data look like, and how far one gets without reading: printed before any training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from contract.labels import Label
from evaluation.shortcuts import ShortcutScore, shortcut_table
from training.records import Record
from training.treatment import ORIGINAL_TREATMENTS, group_pairs


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """One set, or all rows of one treatment of a set.

    Attributes:
        name: The set, or ``set: treatment``.
        num_rows: All rows.
        num_pairs: Different pairs.
        num_hallucinations: Rows of that class.
        median_knowledge_words: None without knowledge.
        median_hallucination_words: Of the responses of that class; None where there are none.
        median_correct_words: Of the responses of the other class.
        num_by_treatment: Treatment -> rows.
    """

    name: str
    num_rows: int
    num_pairs: int
    num_hallucinations: int
    median_knowledge_words: float | None
    median_hallucination_words: float | None
    median_correct_words: float | None
    num_by_treatment: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ShortcutRow:
    """The shortcuts on one group of test rows.

    Fitted on the training rows of the same group, for a set's originals on all its training rows.
    """

    name: str
    num_fit: int
    num_scored: int
    scores: tuple[ShortcutScore, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of one collection of rows: sizes, and shortcuts where there are rows to fit and to score."""

    groups: tuple[GroupStatistics, ...]
    shortcuts: tuple[ShortcutRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what a JSON file holds."""
        return {
            "groups": [asdict(group) for group in self.groups],
            "shortcuts": [asdict(row) for row in self.shortcuts],
        }


MADE = "made"
"""Rows that the treatment made; the others come from the source."""


def describe(train: Sequence[Record], test: Sequence[Record]) -> Statistics:
    """Describe the training and test rows of one collection.

    Args:
        train: Shortcuts are fitted on these.
        test: And scored on these.
    """
    sets = sorted({row.set_name for row in (*train, *test)})
    groups = tuple(
        _describe_group(name, [row for row in (*train, *test) if row.set_name == name])
        for name in sets
    )
    fit, scored = _by_group(train), _by_group(test)
    # What is learned from all training rows of a set is what its originals have to withstand.
    for name in sets:
        fit[name] = [row for row in train if row.set_name == name]
    shortcuts = tuple(
        ShortcutRow(
            name, len(fit[name]), len(scored[name]), tuple(shortcut_table(fit[name], scored[name]))
        )
        for name in sorted(fit.keys() & scored.keys())
        if _has_both(fit[name]) and _has_both(scored[name])
    )
    return Statistics(groups, shortcuts)


def length_matched_ids(records: Iterable[Record], tolerance_words: int = 1) -> frozenset[str]:
    """Return the ids of rows that pair up, one of each class, within a word of each other.

    Within a pair each row is used once, shortest first; so both classes are equally long, and as
    many.

    Args:
        records: Any rows.
        tolerance_words: Difference in words that is still a match.
    """
    matched: set[str] = set()
    for rows in group_pairs(records).values():
        hallucinations = _by_length(rows, Label.HALLUCINATION)
        corrects = _by_length(rows, Label.CORRECT)
        while hallucinations and corrects:
            gap = _num_words(hallucinations[0].response) - _num_words(corrects[0].response)
            if abs(gap) <= tolerance_words:
                matched |= {hallucinations.pop(0).id, corrects.pop(0).id}
            elif gap > 0:
                corrects.pop(0)
            else:
                hallucinations.pop(0)
    return frozenset(matched)


def _by_length(rows: Iterable[Record], label: Label) -> list[Record]:
    of_label = [row for row in rows if row.label is label]
    return sorted(of_label, key=lambda row: (_num_words(row.response), row.id))


def _num_words(text: str) -> int:
    return len(text.split())


def _by_group(rows: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the rows by what is scored apart: each set's originals, made answers and claims."""
    groups: dict[str, list[Record]] = {}
    for row in rows:
        if row.treatment in ORIGINAL_TREATMENTS:
            name = row.set_name
        elif row.treatment == "perturbed":
            name = f"{row.set_name}: perturbed"
        else:
            name = f"{row.set_name}: {MADE}"
        groups.setdefault(name, []).append(row)
    return groups


def _has_both(rows: Sequence[Record]) -> bool:
    return len({row.label for row in rows}) == len(Label)


def _describe_group(name: str, rows: Sequence[Record]) -> GroupStatistics:
    def median_words(texts: Iterable[str]) -> float | None:
        counts = [_num_words(text) for text in texts]
        return float(median(counts)) if counts else None

    def of(label: Label) -> list[str]:
        return [row.response for row in rows if row.label is label]

    return GroupStatistics(
        name=name,
        num_rows=len(rows),
        num_pairs=len({row.pair_id for row in rows}),
        num_hallucinations=len(of(Label.HALLUCINATION)),
        median_knowledge_words=median_words(
            " ".join(row.knowledge) for row in rows if row.knowledge is not None
        ),
        median_hallucination_words=median_words(of(Label.HALLUCINATION)),
        median_correct_words=median_words(of(Label.CORRECT)),
        num_by_treatment=dict(sorted(Counter(row.treatment for row in rows).items())),
    )


def to_markdown(raw: Statistics, treated: Statistics) -> str:
    """Return both as tables, the rows as they came beside the rows as they are trained on."""
    return "\n\n".join((_group_table(raw, treated), _shortcut_table(raw, treated))) + "\n"


def _group_table(raw: Statistics, treated: Statistics) -> str:
    lines = [
        "| set | | rows | pairs | hallucinations | words of knowledge | of hallucinations | "
        "of correct responses |",
        "| --- | --- | --: | --: | --: | --: | --: | --: |",
    ]
    for kind, statistics in (("raw", raw), ("treated", treated)):
        lines += [
            f"| {group.name} | {kind} | {group.num_rows} | {group.num_pairs} | "
            f"{group.num_hallucinations / max(1, group.num_rows):.0%} | "
            f"{_number(group.median_knowledge_words)} | "
            f"{_number(group.median_hallucination_words)} | "
            f"{_number(group.median_correct_words)} |"
            for group in statistics.groups
        ]
    return "Sizes (medians):\n\n" + "\n".join(lines)


def _shortcut_table(raw: Statistics, treated: Statistics) -> str:
    names = next((row.scores for s in (raw, treated) for row in s.shortcuts), ())
    lines = [
        "| rows | | fitted on | scored | " + " | ".join(score.name for score in names) + " |",
        "| --- | --- | --: | --: |" + " --: |" * len(names),
    ]
    for kind, statistics in (("raw", raw), ("treated", treated)):
        lines += [
            f"| {row.name} | {kind} | {row.num_fit} | {row.num_scored} | "
            + " | ".join(f"{score.balanced_accuracy:.2f} ({score.f1:.2f})" for score in row.scores)
            + " |"
            for row in statistics.shortcuts
        ]
    head = "Shortcuts, fitted on the training part and scored on the test part: balanced accuracy "
    return head + "(F1 of the class hallucination). 0.50 is chance:\n\n" + "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
