"""The stage that prepares the data, on made files and, where they are at hand, on the real ones."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from contract.labels import Label
from training.config import RunConfig
from training.data_config import DataConfig, SetConfig, TreatmentConfig
from training.errors import CheckpointError, DataError
from training.made.generator import make_records
from training.prepare import PARTS, prepare
from training.records import Record, read_records
from training.runs import RunFolder
from training.splits import Split, check_disjoint
from training.treatment import ORIGINAL_TREATMENTS

NAMES = ["Ada Berg", "Carl Moe", "Liv Dahl", "Nils Rud", "Kari Foss", "Tor Aas"]
NUM_PAIRS = 60


def write_rows(folder: Path, num_pairs: int = NUM_PAIRS) -> None:
    rows = []
    for pair in range(num_pairs):
        right, wrong = NAMES[pair % 6], NAMES[(pair + 1) % 6]
        base = {
            "task": "qa",
            "knowledge": f"Pool {pair} was built by {right} in {pair + 1910}. {wrong} swam there.",
            "question": f"Who built pool {pair}?",
            "pair_id": str(pair),
        }
        rows += [
            {**base, "id": f"{pair}-0", "response": right, "label": "correct"},
            {**base, "id": f"{pair}-1", "response": f"It was built by {wrong} alone./n",
             "label": "hallucination"},
        ]  # fmt: skip
    rows.append({**rows[0], "id": "blank", "response": " "})
    (folder / "pools.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )


def make_config(**changes: Any) -> RunConfig:
    data = {
        "sets": (SetConfig(name="pools", kind="folder", file="pools.jsonl"),),
        "treatment": TreatmentConfig(perturbed_claims=2),
        "validation_fraction": 0.2,
        "test_fraction": 0.2,
        **changes,
    }
    return RunConfig(name="r", data=DataConfig(**data))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    write_rows(tmp_path)
    return RunFolder(tmp_path / "runs" / "r")


def read_parts(run: RunFolder) -> Split:
    return Split(*(tuple(read_records(run.data(part))) for part in PARTS))


def test_three_parts_statistics_and_a_manifest_are_written(
    run: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        prepare(make_config(), run, tmp_path)
    split = read_parts(run)
    # What is cut out of two texts for an abstention may be alike; the texts themselves are not.
    check_disjoint(Split(*(tuple(r for r in part if r.treatment in ORIGINAL_TREATMENTS)
                           for part in (split.train, split.validation, split.test))))  # fmt: skip
    assert all(len({row.label for row in part}) == 2 for part in (split.train, split.test))
    manifest = json.loads((run.path / "data" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["sets"]["pools"]["revision"].startswith("sha256:")
    assert manifest["sets"]["pools"]["dropped"] == {"response refused by the contract": 1}
    assert manifest["rows"]["train"] == len(split.train)
    # What reading nothing reaches is said before any training.
    table = (run.path / "data" / "statistics.md").read_text(encoding="utf-8")
    assert "| pools: made | treated |" in table
    assert table in caplog.text
    assert "1 rows left out: response refused by the contract" in caplog.text


def test_prepared_data_are_kept_as_they_are(
    run: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(make_config(), run, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (run.path / "data").iterdir()}
    with caplog.at_level(logging.INFO):
        prepare(make_config(), run, tmp_path)
    assert "prepared already and are kept as they are" in caplog.text
    assert before == {path: path.stat().st_mtime_ns for path in (run.path / "data").iterdir()}


def test_data_that_were_lost_are_made_again_and_are_the_same(
    run: RunFolder, tmp_path: Path
) -> None:
    prepare(make_config(), run, tmp_path)
    before = read_parts(run)
    run.data("test").unlink()
    prepare(make_config(), run, tmp_path)
    assert read_parts(run) == before


def test_a_run_that_was_killed_in_the_middle_begins_again(run: RunFolder, tmp_path: Path) -> None:
    prepare(make_config(), run, tmp_path)
    before = read_parts(run)
    (run.path / "data" / "DONE").unlink()
    run.data("train").write_text("half a li", encoding="utf-8")
    prepare(make_config(), run, tmp_path)
    assert read_parts(run) == before


def test_other_settings_or_files_are_refused_and_nothing_is_deleted(
    run: RunFolder, tmp_path: Path
) -> None:
    prepare(make_config(), run, tmp_path)
    before = read_parts(run)
    with pytest.raises(CheckpointError, match=r"data.test_fraction: 0.2 -> 0.3"):
        prepare(make_config(test_fraction=0.3), run, tmp_path)
    write_rows(tmp_path, NUM_PAIRS + 1)
    with pytest.raises(DataError, match=r"was made from other files of pools"):
        prepare(make_config(), run, tmp_path)
    assert read_parts(run) == before


def test_without_knowledge_no_row_has_any_or_speaks_of_it(run: RunFolder, tmp_path: Path) -> None:
    prepare(make_config(mode="no-knowledge"), run, tmp_path)
    split = read_parts(run)
    for row in (*split.train, *split.test):
        assert row.knowledge is None
        assert row.treatment not in ("perturbed", "abstention")
        assert " text" not in row.response


def test_in_paired_mode_pairs_without_both_labels_are_left_out(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "pools.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [row for row in lines if row["id"] != "3-1"]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    prepare(make_config(mode="paired"), run, tmp_path)
    split = read_parts(run)
    assert "3" not in {row.pair_id for part in (split.train, split.validation, split.test)
                       for row in part}  # fmt: skip
    manifest = json.loads((run.path / "data" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["sets"]["pools"]["dropped"]["mode paired"] == 1


def test_a_made_set_is_split_by_pair_and_left_untreated(run: RunFolder, tmp_path: Path) -> None:
    made = SetConfig(name="worlds", kind="made", max_pairs=300)
    prepare(make_config(sets=(made,)), run, tmp_path)
    parts = [tuple(read_records(run.data(part))) for part in PARTS]
    check_disjoint(Split(*parts))
    rows = [row for part in parts for row in part]
    assert {row.treatment for row in rows} == {"made"}
    assert all(row.justification for row in rows)
    manifest = json.loads((run.stage("data").path / "manifest.json").read_text(encoding="utf-8"))
    dropped = sum(manifest["sets"]["worlds"]["dropped"].values())
    # What shares a sentence with a held-out text goes, as in every set; it must be rare.
    assert dropped + len(rows) == len(list(make_records("worlds", 300, seed=1)))
    assert dropped < 0.02 * len(rows)


def test_a_part_of_one_class_is_refused(run: RunFolder, tmp_path: Path) -> None:
    sets = (SetConfig(name="pools", kind="folder", file="pools.jsonl", max_pairs=1),)
    with pytest.raises(DataError, match=r"part would hold no rows: use more pairs"):
        prepare(make_config(sets=sets), run, tmp_path)
    assert not (run.path / "data" / "DONE").exists()


# --- real data ----------------------------------------------------------------------------------

MADE_LIMIT = 0.60
"""Balanced accuracy that no shortcut may pass on what the treatment makes."""


@pytest.fixture(scope="module")
def real(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A part of HaluEval QA, prepared."""
    name = "halueval_qa"
    if not (data_dir / f"{name}.jsonl").is_file():
        pytest.skip(f"{data_dir} has no {name}.jsonl: name its folder with --data-dir")
    sets = (SetConfig(name=name, kind="folder", file=f"{name}.jsonl", max_pairs=800),)
    run = RunFolder(tmp_path_factory.mktemp("runs") / "real")
    prepare(make_config(sets=sets, test_fraction=0.3), run, data_dir)
    return run


def test_no_shortcut_tells_the_classes_of_made_rows_apart(real: RunFolder) -> None:
    statistics = json.loads((real.path / "data" / "statistics.json").read_text(encoding="utf-8"))
    scores = {
        (row["name"], score["name"]): score["balanced_accuracy"]
        for row in statistics["treated"]["shortcuts"]
        for score in row["scores"]
        if ":" in row["name"]
    }
    assert ("halueval_qa: made", "length") in scores
    assert ("halueval_qa: perturbed", "overlap") in scores
    too_good = {name: value for name, value in scores.items() if value > MADE_LIMIT}
    assert not too_good


def test_raw_rows_are_told_apart_by_length_alone(real: RunFolder) -> None:
    """Why there is a treatment; should this fail, the data have changed."""
    statistics = json.loads((real.path / "data" / "statistics.json").read_text(encoding="utf-8"))
    (row,) = [r for r in statistics["raw"]["shortcuts"] if r["name"] == "halueval_qa"]
    by_name = {score["name"]: score["balanced_accuracy"] for score in row["scores"]}
    assert by_name["length"] > 0.9


def test_negation_is_about_as_common_in_true_claims_as_in_false(real: RunFolder) -> None:
    rows = [row for row in read_records(real.data("train")) if row.treatment == "perturbed"]

    def share(label: Label) -> float:
        of_label = [row for row in rows if row.label is label]
        return sum(_is_negated(row) for row in of_label) / len(of_label)

    assert abs(share(Label.CORRECT) - share(Label.HALLUCINATION)) < 0.08


def _is_negated(row: Record) -> bool:
    return any(word in row.response for word in (" not ", "n't ", " never "))
