"""HaluEval as it stands on the Hub: one row for a pair, or a row with a yes-no label.

Other data sets on the Hub are read through a mapping of columns, like the user's own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contract.labels import Label
from training.errors import DataError
from training.records import Record

if TYPE_CHECKING:
    from training.data_config import SetConfig


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of one of HaluEval's configurations.

    Attributes:
        task: What the rows are.
        knowledge: Column of the knowledge; None where there is none.
        question: Column of the question; None where there is none.
        right: Column of the right response of a pair; None where rows have a label.
        wrong: Column of the wrong one.
        response: Column of the one response, where rows have a label.
    """

    task: str
    knowledge: str | None
    question: str | None
    right: str | None = None
    wrong: str | None = None
    response: str | None = None


LABEL_COLUMNS = ("hallucination", "hallucination_label")
"""Where a row's label stands: "yes" for a hallucination."""

LAYOUTS = (
    Layout("qa", "knowledge", "question", "right_answer", "hallucinated_answer"),
    Layout("qa", "knowledge", "question", response="answer"),
    Layout("dialogue", "knowledge", "dialogue_history", "right_response", "hallucinated_response"),
    Layout("dialogue", "knowledge", "dialogue_history", response="response"),
    Layout("summarization", "document", None, "right_summary", "hallucinated_summary"),
    Layout("summarization", "document", None, response="summary"),
    Layout("general", None, "user_query", response="chatgpt_response"),
)
"""Tried in this order: the first whose columns are all there is taken."""

_LABELS = {"yes": Label.HALLUCINATION, "no": Label.CORRECT}


def read_hub_rows(config: SetConfig) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a data set on the Hub, at its pinned commit.

    Raises:
        DataError: No commit is given, a folder of that name is in the way, or it cannot be loaded:
            missing, gated or no network.
    """
    if config.revision is None:
        raise DataError(
            f"set {config.name!r}: revision is missing: a branch moves, so name the commit, 40 hex "
            f"digits; `git ls-remote https://huggingface.co/datasets/{config.repo} HEAD` prints it"
        )
    if Path(str(config.repo)).exists():
        raise DataError(
            f"set {config.name!r}: here is a folder {config.repo}, which `datasets` would read in "
            'place of the Hub\'s data set: start from another folder, or use kind = "file"'
        )
    # Imported late: pyarrow and pandas behind it take seconds.
    from datasets import load_dataset

    try:
        rows: Sequence[Mapping[str, Any]] = load_dataset(
            config.repo, config.config, split=config.split, revision=config.revision
        )
    except (OSError, ValueError, RuntimeError) as error:
        # Everything that a loading script or a download raises is one of these.
        raise DataError(
            f"set {config.name!r}: {config.repo} ({config.config or 'default'}, {config.split}) at "
            f"{config.revision[:12]} cannot be loaded: {_first_line(error)}. Check its names and "
            "the network; of a gated data set accept its terms on the Hub and set HF_TOKEN; or "
            'download it and use kind = "file"'
        ) from error
    return rows


def to_records(config: SetConfig, rows: Sequence[Mapping[str, Any]]) -> Iterator[Record]:
    """Yield the records of HaluEval's rows: two for a pair, one for a row with a label.

    Raises:
        DataError: The columns are none of HaluEval's, or a label is neither yes nor no.
    """
    layout: Layout | None = None
    for number, row in enumerate(rows):
        if layout is None:
            layout = _find_layout(config, row)
        pair_id = f"{config.name}-{number}"
        if layout.right is not None and layout.wrong is not None:
            for column, label in (
                (layout.right, Label.CORRECT),
                (layout.wrong, Label.HALLUCINATION),
            ):
                yield _record(config, layout, row, pair_id, f"{pair_id}-{label}", column, label)
        else:
            label = _read_yes_no(config, row, number)
            yield _record(config, layout, row, pair_id, pair_id, str(layout.response), label)


def _find_layout(config: SetConfig, row: Mapping[str, Any]) -> Layout:
    has_label = any(column in row for column in LABEL_COLUMNS)
    for layout in LAYOUTS:
        needed = {
            layout.knowledge,
            layout.question,
            layout.right,
            layout.wrong,
            layout.response,
        } - {None}
        if needed <= row.keys() and (layout.response is None or has_label):
            return layout
    raise DataError(
        f"set {config.name!r}: {config.repo} has the columns {', '.join(row)}, which are none of "
        "HaluEval's: say with `columns` and `labels` which column is what"
    )


def _read_yes_no(config: SetConfig, row: Mapping[str, Any], number: int) -> Label:
    value = next(str(row[column]) for column in LABEL_COLUMNS if column in row)
    label = _LABELS.get(value.strip().lower())
    if label is None:
        raise DataError(
            f"set {config.name!r}, row {number}: the label {value[:40]!r} is neither yes nor no"
        )
    return label


def _record(
    config: SetConfig,
    layout: Layout,
    row: Mapping[str, Any],
    pair_id: str,
    identity: str,
    column: str,
    label: Label,
) -> Record:
    def text(name: str | None) -> str | None:
        value = None if name is None else row[name]
        return str(value) if value is not None and str(value).strip() else None

    knowledge = text(layout.knowledge)
    return Record(
        id=identity,
        pair_id=pair_id,
        set_name=config.name,
        task=layout.task,
        knowledge=None if knowledge is None else (knowledge,),
        question=text(layout.question),
        response=text(column) or "",
        label=label,
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
