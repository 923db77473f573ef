"""``baseline.json``: what it holds, that it comes back as it was, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.made_baseline import RIGHT, SHA, WRONG, make_baseline, make_service

from evaluation.baseline import Baseline, Case, Figures
from evaluation.errors import BaselineError
from evaluation.noise import Noise, Outcome

UNREAD = Outcome(None, None, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baseline.json"


def change(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Write a baseline with something edited."""
    raw = json.loads(make_baseline().to_json())
    edit(raw)
    path.write_text(json.dumps(raw), encoding="utf-8")


def test_a_baseline_comes_back_as_it_was(path: Path) -> None:
    baseline = make_baseline()
    baseline.write(path)
    assert Baseline.read(path) == baseline
    assert Baseline.read(path).to_json() == path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == ["baseline.json"]


def test_the_file_has_one_line_a_case_and_of_the_second_pass_only_what_differs() -> None:
    lines = make_baseline().to_json().splitlines()
    begin = lines.index('  "cases": [')
    assert lines[begin + 1 :] == [
        f'    {{"id": "a", "verdict": "hallucination", "probability": 0.9, '
        f'"justification_sha256": "{SHA}"}},',
        '    {"id": "b", "verdict": "correct", "probability": 0.4, "justification_sha256": null, '
        '"second": {"verdict": "hallucination", "probability": 0.6}}',
        "  ]",
        "}",
    ]
    raw = json.loads("\n".join(lines))
    assert list(raw) == [
        "format", "service", "golden", "noise", "speed", "overall", "by_kind", "cases",
    ]  # fmt: skip
    assert raw["golden"] == {"sha256": "cd" * 32, "num_cases": 2}
    assert raw["noise"] == {
        "flip_rate": 0.5,
        "max_probability_change": 0.2,
        "mean_probability_change": 0.1,
        "equal_justification_share": 1.0,
    }
    assert raw["service"]["engine"] == {
        "name": "vllm", "version": "0.31.0", "device": "cpu", "dtype": "float32",
    }  # fmt: skip


def test_kinds_stand_in_the_order_of_their_names() -> None:
    whole = make_baseline()
    half = Figures(1, 1.0, 1.0, 1.0, None, 0.1, 0.0)
    kinds = replace(whole, by_kind={"units": half, "dates": half}).to_json()
    assert kinds.index('"dates"') < kinds.index('"units"')
    assert kinds == replace(whole, by_kind={"dates": half, "units": half}).to_json()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(UNREAD, UNREAD, id="never-read"),
        pytest.param(Outcome(WRONG, 0.9, SHA), UNREAD, id="read-once"),
        pytest.param(UNREAD, Outcome(RIGHT, 0.25, None), id="read-late"),
        pytest.param(Outcome(WRONG, 0.9, SHA), Outcome(WRONG, 0.9, None), id="other-words"),
    ],
)
def test_what_was_unreadable_in_a_pass_comes_back_so(
    path: Path, first: Outcome, second: Outcome
) -> None:
    whole = make_baseline()
    baseline = replace(whole, cases=(whole.cases[0], Case("b", first, second)))
    baseline.write(path)
    assert Baseline.read(path).cases[1] == Case("b", first, second)


def test_two_unreadable_passes_are_no_flip_and_one_is() -> None:
    read = Outcome(RIGHT, 0.25, SHA)
    assert Noise.of([(UNREAD, UNREAD)]) == Noise(0.0, None, None, None)
    assert Noise.of([(UNREAD, read), (read, UNREAD)]) == Noise(1.0, None, None, None)
    assert Noise.of([(read, read), (UNREAD, UNREAD)]) == Noise(0.0, 0.0, 0.0, 1.0)


def test_figures_count_unreadable_replies_as_wrong(predict: Any) -> None:
    # Right on 2 of 3 hallucinations and on 1 of 2 correct responses.
    found = Figures.of(
        [
            predict("1", WRONG, WRONG, 0.95),
            predict("2", WRONG, WRONG, 0.95),
            predict("3", WRONG, None),
            predict("4", RIGHT, RIGHT, 0.15),
            predict("5", RIGHT, WRONG, 0.95),
        ]
    )
    # In the bin of 0.95: 2 of 3 are hallucinations, 0.2833 off. In that of 0.15: 0.15 off.
    assert found == Figures(5, 0.583333, 0.666667, 0.666667, 0.5, 0.25, 0.2)
    only = Figures.of([predict("1", RIGHT, None)])
    assert (only.recall, only.correct_recall, only.ece) == (None, 0.0, None)
    assert Figures.of([predict("1", WRONG, WRONG, 1.0)]).correct_recall is None


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no-service": (lambda raw: raw.pop("service"), "service is missing"),
    "no-dtype": (lambda raw: raw["service"]["engine"].pop("dtype"), "service.engine.dtype is miss"),
    "cores": (
        lambda raw: raw["service"]["hardware"].update(num_cores="2"),
        "service.hardware.num_cores must be a whole number",
    ),
    "cases-no-list": (lambda raw: raw.update(cases={}), "cases must be an array"),
    "no-cases": (lambda raw: raw.update(cases=[]), "cases must not be empty"),
    "case-no-object": (lambda raw: raw["cases"].append(3), r"cases\[2\] must be an object"),
    "verdict": (
        lambda raw: raw["cases"][1].update(verdict="supported"),
        r"cases\[1\].verdict must be null or one of hallucination, correct \(case 'b'\)",
    ),
    "probability": (
        lambda raw: raw["cases"][0].update(probability=1.5),
        r"cases\[0\].probability must be finite, at least 0 and at most 1 \(case 'a'\)",
    ),
    "half-unreadable": (
        lambda raw: raw["cases"][0].update(verdict=None),
        r"cases\[0\].probability and the verdict must both be null, or neither",
    ),
    "digest": (
        lambda raw: raw["cases"][0].update(justification_sha256="AB"),
        r"cases\[0\].justification_sha256 must have 64 hex digits",
    ),
    "second": (
        lambda raw: raw["cases"][1]["second"].update(probability=None),
        r"cases\[1\].second.probability and the verdict",
    ),
    "twice": (lambda raw: raw["cases"][1].update(id="a"), "case 'a' occurs twice"),
    "case-lost": (lambda raw: raw["cases"].pop(), "there are 1 cases, and the figures are of 2"),
    "number": (lambda raw: raw["golden"].update(num_cases=3), "golden.num_cases is 3, cases has 2"),
    "noise": (
        lambda raw: raw["noise"].update(flip_rate=0.0),
        "noise is not what the cases give, which is Noise.flip_rate=0.5",
    ),
    "no-request-at-once": (
        lambda raw: raw["speed"].update(concurrency=0),
        r"speed.concurrency must be in \[1, 1000\]",
    ),
    "too-many-at-once": (
        lambda raw: raw["speed"].update(concurrency=1001),
        r"speed.concurrency must be in \[1, 1000\]",
    ),
    "no-end": (
        lambda raw: raw["speed"].update(p50_ms=10**400),
        "speed.p50_ms must be finite, at least 0",
    ),
    "figure": (lambda raw: raw["overall"].update(f1=None), "overall.f1 must be a number"),
    "kind": (
        lambda raw: raw["by_kind"]["numbers"].update(ece=True),
        "by_kind.numbers.ece must be a number",
    ),
}


@pytest.mark.parametrize(("edit", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_the_member_and_the_remedy(
    path: Path, edit: Callable[[dict[str, Any]], Any], message: str
) -> None:
    change(path, edit)
    with pytest.raises(BaselineError, match=message) as caught:
        Baseline.read(path)
    assert str(caught.value).startswith(f"{path} is broken: ")
    assert "python -m evaluation baseline" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no baseline .Expecting property name"),
        ("[]", "is no baseline .the content must be an object"),
        ("{}", "is no baseline .format is missing"),
        ('{"format": 1, "overall": NaN}', "is no baseline .NaN is no JSON number"),
        ('{"format": 1, "format": 1}', "is no baseline .the member 'format' stands there twice"),
        ("[" * 100_000, "is no baseline .it is nested too deeply"),
        ('{"format": 2}', "is of format 2, this code reads format 1: make it again with"),
        ('{"format": 0}', "is of format 0"),
    ],
    ids=["cut", "list", "empty", "nan", "twice", "deep", "newer", "older"],
)
def test_what_is_no_baseline_of_this_format_is_refused(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(BaselineError, match=message) as caught:
        Baseline.read(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(path: Path) -> None:
    with pytest.raises(BaselineError, match=r"there is no .*baseline.json: make it again with"):
        Baseline.read(path)
    path.mkdir()
    with pytest.raises(BaselineError, match=r"cannot be read .Is a directory"):
        Baseline.read(path)
    path.rmdir()
    path.write_bytes(b'{"format": "\xff"}')
    with pytest.raises(BaselineError, match=r"is no baseline .'utf-8' codec"):
        Baseline.read(path)


def test_a_number_that_json_lacks_is_never_written(path: Path) -> None:
    whole = make_baseline()
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(whole, overall=replace(whole.overall, ece=math.nan)).write(path)
    assert list(path.parent.iterdir()) == []


def test_the_adapter_tells_weights_apart_where_both_services_know_it() -> None:
    here = make_service()
    assert here.has_weights_of(make_service(model="acme/tiny", revision="f" * 40))
    assert not here.has_weights_of(make_service(weights_sha256="cd" * 32))
    assert here.has_weights_of(make_service(weights_sha256=None))
    assert not here.has_weights_of(make_service(weights_sha256=None, revision="other"))
    assert here.hardware == "Made-up 3000, 2 cores"
    assert make_service(accelerator="NVIDIA L4").hardware == "NVIDIA L4"
