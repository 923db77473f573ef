"""The worked examples of docs/data.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.labels import Label
from training.config_file import load_config
from training.prepare import PARTS, prepare
from training.records import read_records
from training.runs import RunFolder
from training.sources import load_set

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_prepared_as_the_docs_say(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    run = RunFolder(tmp_path / "run")
    prepare(load_config(path), run, Path("/none"))
    for part in PARTS:
        rows = read_records(run.data(part))
        assert {row.label for row in rows} == set(Label)
        assert "perturbed" in {row.treatment for row in rows}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_case_of_an_example_has_both_classes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    (set_config,) = load_config(path).data.sets
    rows = load_set(set_config, Path("/none"), 1).records
    assert len(rows) == 24
    pairs = {row.pair_id: {r.label for r in rows if r.pair_id == row.pair_id} for row in rows}
    assert set(map(frozenset, pairs.values())) == {frozenset(Label)}
    assert (ROOT / "docs" / "data.md").read_text(encoding="utf-8").count(str(set_config.file))


def test_the_examples_show_both_kinds_of_file() -> None:
    files = {load_config(path).data.sets[0].file for path in EXAMPLES}
    assert files == {"docs/examples/finance.csv", "docs/examples/medicine.jsonl"}
