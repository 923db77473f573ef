"""An evaluation from predictions to its files; the figures are worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from contract.labels import Label
from contract.manifest import CONTRACT_VERSION, fingerprint
from contract.reference import LengthQuantiles
from evaluation.errors import EvaluationError
from evaluation.metrics import Confusion
from evaluation.prediction import Prediction
from evaluation.report import Evaluation, evaluate, to_json, to_markdown, write_report
from evaluation.slices import METRICS, SliceKind

H, C = Label.HALLUCINATION, Label.CORRECT
Make = Callable[..., Prediction]
PROVENANCE = {
    "model": "org/name",
    "revision": "0" * 40,
    "data_revisions": {"qa": "sha256:1f"},
    "command": "python -m training evaluate a|b.toml",
}
KNOWLEDGE = ("The pool is 25 metres long.",)


@dataclass(frozen=True)
class Row:
    id: str
    set_name: str
    response: str
    knowledge: tuple[str, ...] | None
    label: Label


@pytest.fixture(scope="module")
def predictions(predict: Make) -> list[Prediction]:
    """Set "qa", where length gives the class away, and set "news", where nothing does."""
    short, long = "25 metres", "It is 50 metres long."
    says = 'The knowledge says "25 metres", as the response does.'
    rows = []
    for pair in range(4):
        wrong = predict(
            f"qa-{pair}-w", H, C if pair == 0 else H, 0.25 if pair == 0 else 0.75,
            pair_id=f"qa-{pair}", set_name="qa", response=long, knowledge=KNOWLEDGE,
            justification="The knowledge contradicts it.",
        )  # fmt: skip
        right = predict(
            f"qa-{pair}-r", C, None if pair == 1 else C, None if pair == 1 else 0.25,
            pair_id=f"qa-{pair}", set_name="qa", response=short, knowledge=KNOWLEDGE,
            justification=None if pair == 1 else says,
        )  # fmt: skip
        rows += [wrong, right]
    for pair in range(2):
        options = {"pair_id": f"n-{pair}", "set_name": "news", "response": "It is long."}
        rows += [
            predict(f"n-{pair}-w", H, H, 0.95, **options),
            predict(f"n-{pair}-r", C, C, 0.05, **options),
        ]
    return rows


FIT_ROWS = [
    Row("f1", "qa", "25 metres", KNOWLEDGE, C),
    Row("f2", "qa", "It is 50 metres long.", KNOWLEDGE, H),
]


@pytest.fixture(scope="module")
def evaluation(predictions: list[Prediction]) -> Evaluation:
    matched = {("qa", "qa-0-w"), ("qa", "qa-0-r"), ("news", "n-0-w"), ("news", "n-0-r")}
    return evaluate(
        predictions, FIT_ROWS, matched, PROVENANCE,
        parts={"raw": [("qa", "qa-2-w"), ("qa", "qa-2-r"), ("qa", "qa-3-r")]},
        bootstrap_samples=50,
    )  # fmt: skip


def value(evaluation: Evaluation, name: str, metric: str) -> float | None:
    estimate = evaluation.find(name).metrics[metric]
    return None if estimate is None else estimate.value


def test_the_slices_stand_in_order(evaluation: Evaluation) -> None:
    assert [(part.name, part.kind, part.num_rows) for part in evaluation.slices] == [
        ("overall", SliceKind.OVERALL, 12),
        ("macro average over sets", SliceKind.MACRO, 12),
        ("news", SliceKind.SET, 4),
        ("qa", SliceKind.SET, 8),
        ("length-matched", SliceKind.PART, 4),
        ("news, length-matched", SliceKind.PART, 2),
        ("qa, length-matched", SliceKind.PART, 2),
        ("raw", SliceKind.PART, 3),
        ("qa, raw", SliceKind.PART, 3),
    ]


def test_the_figures_of_a_set(evaluation: Evaluation) -> None:
    part = evaluation.find("qa")
    assert part.confusion == Confusion(3, 1, 3, 1, 1, 1)
    assert (part.num_pairs, part.num_hallucinations) == (4, 4)
    assert value(evaluation, "qa", "f1") == 0.75
    assert value(evaluation, "qa", "unreadable_rate") == 0.125
    # Seven probabilities: bin 0.25 with 1 of 4 hallucinations, bin 0.75 with 3 of 3.
    assert value(evaluation, "qa", "ece") == pytest.approx(3 / 7 * 0.25)
    assert [found.num_rows for found in part.reliability] == [4, 3]
    assert part.justifications.num_justifications == 7
    assert part.justifications.quoted == pytest.approx(3 / 7)
    assert part.justifications.verbatim == 1
    # Four of 29 characters and three of 53; the reply that was not read does not count.
    assert part.justification_chars == LengthQuantiles(29, 29, 53)
    # The first hallucination was called correct with words against it.
    assert part.justifications.contradicting == pytest.approx(1 / 7)


def test_the_macro_average_weighs_both_sets_alike(evaluation: Evaluation) -> None:
    assert value(evaluation, "macro average over sets", "f1") == (0.75 + 1) / 2
    # Overall: TP 5, FP 1, FN 1.
    assert value(evaluation, "overall", "f1") == pytest.approx(10 / 12)
    macro = evaluation.find("macro average over sets")
    assert {score.name: score.balanced_accuracy for score in macro.shortcuts}["length"] == 0.75
    assert macro.confusion is None


def test_every_interval_holds_its_value(evaluation: Evaluation) -> None:
    for part in evaluation.slices:
        assert list(part.metrics) == list(METRICS)
        for estimate in part.metrics.values():
            assert estimate is not None
            assert estimate.interval.low <= estimate.value <= estimate.interval.high


def test_shortcuts_are_fitted_on_the_rows_of_the_set(evaluation: Evaluation) -> None:
    qa = evaluation.find("qa")
    length = next(score for score in qa.shortcuts if score.name == "length")
    assert not qa.is_shortcut_fit_here
    assert (length.threshold, length.balanced_accuracy, length.num_rows) == (2, 1, 8)
    assert not qa.beats_shortcuts
    assert qa.best_shortcut.balanced_accuracy == 1


def test_a_set_without_rows_to_fit_on_fits_on_itself(evaluation: Evaluation) -> None:
    news = evaluation.find("news")
    assert news.is_shortcut_fit_here
    assert {score.balanced_accuracy for score in news.shortcuts} == {0.5}
    assert news.beats_shortcuts
    assert evaluation.find("macro average over sets").is_shortcut_fit_here


def test_an_id_marks_the_row_of_its_own_set_alone(predictions: list[Prediction]) -> None:
    """Row "1" of one set was taken for row "1" of the other."""
    same = [replace(row, id="1") for row in (predictions[0], predictions[-1])]
    found = evaluate(same, None, [("qa", "1")], PROVENANCE, bootstrap_samples=5)
    assert found.find("length-matched").num_rows == 1
    assert found.find("qa, length-matched").num_rows == 1
    assert "news, length-matched" not in [part.name for part in found.slices]


def test_a_part_is_fitted_on_the_rows_of_its_keys(predictions: list[Prediction]) -> None:
    fit_rows = [*FIT_ROWS, Row("m1", "qa", "25 metres", KNOWLEDGE, H)]
    fit_rows += [Row("m2", "qa", "It is 25 metres long.", KNOWLEDGE, C)]
    keys = {("qa", each) for each in ("qa-1-w", "qa-1-r", "m1", "m2")}
    part = evaluate(predictions, fit_rows, keys, PROVENANCE, bootstrap_samples=5).find(
        "qa, length-matched"
    )
    length = next(score for score in part.shortcuts if score.name == "length")
    # Among the matched rows to fit on, the short one is the hallucination.
    assert not part.is_shortcut_fit_here
    assert (length.direction, length.balanced_accuracy) == ("<=", 0)


def test_equal_to_a_shortcut_is_not_above_it(predictions: list[Prediction]) -> None:
    perfect = [replace(row, verdict=row.gold) for row in predictions if row.set_name == "qa"]
    part = evaluate(perfect, FIT_ROWS, [], PROVENANCE, bootstrap_samples=5).find("qa")
    assert part.metrics["f1"] is not None
    assert part.metrics["f1"].value == 1
    assert not part.beats_shortcuts


def test_one_set_has_its_parts_once(predictions: list[Prediction]) -> None:
    qa = [row for row in predictions if row.set_name == "qa"]
    keys = {("qa", "qa-0-w"), ("qa", "qa-0-r")}
    found = evaluate(qa, None, keys, PROVENANCE, bootstrap_samples=5)
    names = [part.name for part in found.slices]
    assert names == ["overall", "macro average over sets", "qa", "length-matched"]


def test_no_probabilities_leave_calibration_out(predictions: list[Prediction]) -> None:
    silent = [replace(row, probability=None) for row in predictions]
    found = evaluate(silent, None, [], PROVENANCE, bootstrap_samples=5)
    assert value(found, "overall", "ece") is None
    assert found.find("overall").reliability == ()
    text = to_markdown(found, "plot.png")
    assert "Calibration" not in text
    assert " nan" not in text


def test_an_unknown_slice_is_refused_with_the_names(evaluation: Evaluation) -> None:
    with pytest.raises(EvaluationError, match="no slice 'treated'; there are: overall, macro"):
        evaluation.find("treated")


def test_bad_predictions_are_refused(predictions: list[Prediction]) -> None:
    with pytest.raises(EvaluationError, match="no prediction"):
        evaluate([], None, [], PROVENANCE)
    with pytest.raises(EvaluationError, match="'qa-0-w' of qa occurs twice"):
        evaluate([*predictions, predictions[0]], None, [], PROVENANCE)


@pytest.mark.parametrize("name", list(PROVENANCE))
def test_figures_without_provenance_are_refused(predictions: list[Prediction], name: str) -> None:
    lacking = {key: item for key, item in PROVENANCE.items() if key != name}
    with pytest.raises(EvaluationError, match=f"lacks {name}"):
        evaluate(predictions, None, [], lacking)


def test_json(evaluation: Evaluation) -> None:
    found = json.loads(json.dumps(to_json(evaluation), allow_nan=False))
    assert found["provenance"]["model"] == "org/name"
    assert found["provenance"]["contract_version"] == CONTRACT_VERSION
    assert found["provenance"]["contract_fingerprint"] == fingerprint()
    assert (found["bootstrap_samples"], found["seed"]) == (50, 1)
    qa = found["slices"][3]
    assert (qa["name"], qa["kind"], qa["num_rows"]) == ("qa", "set", 8)
    assert set(qa["metrics"]) == set(METRICS)
    assert set(qa["metrics"]["f1"]) == {"value", "low", "high"}
    assert qa["metrics"]["f1"]["value"] == 0.75
    assert qa["confusion"]["tp"] == 3
    assert qa["shortcuts"][1] == {
        "name": "length", "threshold": 2, "direction": ">", "balanced_accuracy": 1, "f1": 1,
        "num_rows": 8,
    }  # fmt: skip
    assert qa["beats_shortcuts"] is False
    assert qa["best_shortcut"] == "length"
    assert qa["justifications"]["verbatim"] == 1
    assert qa["justification_chars"] == {"p10": 29, "p50": 29, "p90": 53}
    assert qa["reliability"][0]["num_rows"] == 4


def test_markdown_names_what_was_measured(evaluation: Evaluation) -> None:
    text = to_markdown(evaluation, "a.png")
    assert "- Model: `org/name`\n" in text
    assert f"- Revision: `{'0' * 40}`\n" in text
    assert f"- Contract fingerprint: `{fingerprint()}`\n" in text
    assert "- Data revisions: qa `sha256:1f`\n" in text
    assert "- Command: `python -m training evaluate a|b.toml`\n" in text
    assert "![Reliability of the probabilities](a.png)" in text


def test_markdown_has_detector_and_shortcuts_in_one_table(evaluation: Evaluation) -> None:
    lines = to_markdown(evaluation).splitlines()
    header = next(line for line in lines if line.startswith("| slice | rows | detector"))
    start = lines.index(header)
    table = lines[start : lines.index("", start)]
    assert {line.count(" | ") for line in table if " --- " not in line} >= {11}
    detector = next(place for place, line in enumerate(table) if line.startswith("| **qa** | 8"))
    assert "**detector** | 0.750 (" in table[detector]
    assert table[detector + 1].startswith("| | | *always* |  |  | 0.667 | 0.500 |")
    assert table[detector + 2].startswith("| | | *length &gt; 2* |  |  | 1.000 | 1.000 |")
    news = next(place for place, line in enumerate(table) if line.startswith("| **news** | 4"))
    assert r"*length &le; 3* \* |" in table[news + 2]


def test_markdown_says_where_a_shortcut_is_as_good(evaluation: Evaluation) -> None:
    text = to_markdown(evaluation)
    warning = next(line for line in text.splitlines() if line.startswith("**Not above"))
    assert "qa;" in warning
    assert "news;" not in warning


def test_names_cannot_break_the_table(predict: Make) -> None:
    rows = [predict("1", H, H, set_name="a|b"), predict("2", C, C, set_name="a|b")]
    text = to_markdown(evaluate(rows, None, [], PROVENANCE, bootstrap_samples=5))
    assert r"**a\|b**" in text


def test_the_report_is_written_whole(evaluation: Evaluation, tmp_path: Path) -> None:
    paths = write_report(tmp_path / "new", "last", evaluation)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "last.json", "last.md", "last.png",
    ]  # fmt: skip
    expected = json.loads(json.dumps(to_json(evaluation)))
    assert json.loads(paths.json.read_text(encoding="utf-8")) == expected
    assert "(last.png)" in paths.markdown.read_text(encoding="utf-8")
    assert paths.plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_plot_shows_the_whole_and_every_set(evaluation: Evaluation, tmp_path: Path) -> None:
    from matplotlib.image import imread

    several = imread(write_report(tmp_path, "several", evaluation).plot)
    qa = [part for part in evaluation.slices if part.name in ("overall", "qa")]
    single = imread(write_report(tmp_path, "one", replace(evaluation, slices=tuple(qa))).plot)
    assert several.shape[1] == 3 * single.shape[1]
    assert several.std() > 0.05


def test_a_failed_write_leaves_no_report(evaluation: Evaluation, tmp_path: Path) -> None:
    (tmp_path / "last.md").mkdir()
    with pytest.raises(OSError, match=r"last\.md"):
        write_report(tmp_path, "last", evaluation)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.md", "last.png"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, evaluation.report, evaluation.calibration\n"
        "print(sorted({'torch', 'sklearn', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[3],
    )  # fmt: skip
    assert done.stdout == "[]\n"
