from __future__ import annotations

import json
import re
from pathlib import Path

from training.config import ModelConfig, RunConfig
from training.data_config import DataConfig, SetConfig
from training.licences import find_data_source
from training.provenance import (
    describe_model,
    find_commit,
    find_data_revisions,
    find_hardware,
    find_versions,
    write_resolved,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = RunConfig(
    name="r",
    seed=7,
    model=ModelConfig(name="org/repo", revision=COMMIT),
    data=DataConfig(
        sets=(
            SetConfig(name="ours", kind="file", file="o.csv", columns={"response": "r"}),
            SetConfig(name="theirs", kind="hub", repo="o/r", split="data", revision=COMMIT),
        )
    ),
)


def test_the_resolved_configuration_says_where_a_run_comes_from(tmp_path: Path):
    path = write_resolved(tmp_path, CONFIG, {"command": "python -m training run x.toml"})
    assert path == tmp_path / "config.json"
    resolved = json.loads(path.read_text())
    assert resolved["config"]["rl"]["num_generations"] == 8
    assert resolved["seed"] == 7
    assert resolved["model"] == f"org/repo@{COMMIT}"
    assert resolved["data_revisions"] == {"ours": "o.csv", "theirs": f"o/r@{COMMIT}"}
    assert re.fullmatch(r"[0-9a-f]{16}", resolved["contract"]["fingerprint"])
    assert resolved["libraries"]["python"].startswith("3.")
    assert resolved["command"] == "python -m training run x.toml"


def test_what_is_resolved_can_be_read_back(tmp_path: Path):
    resolved = json.loads(write_resolved(tmp_path, CONFIG).read_text())
    assert RunConfig.model_validate(resolved["config"]) == CONFIG


def test_every_command_of_a_run_stays_on_record(tmp_path: Path):
    """An evaluation wrote over the command and the settings of the training."""
    commands = ["python -m training warmstart x.toml", "python -m training evaluate x.toml"]
    for command in commands:
        latest = write_resolved(tmp_path, CONFIG, {"command": command})
    lines = (tmp_path / "configs.jsonl").read_text().splitlines()
    assert [json.loads(line)["command"] for line in lines] == commands
    assert RunConfig.model_validate(json.loads(lines[0])["config"]) == CONFIG
    assert json.loads(lines[1]) == json.loads(latest.read_text())


def test_the_one_command_of_an_older_run_stays_on_record(tmp_path: Path):
    write_resolved(tmp_path, CONFIG, {"command": "older"})
    (tmp_path / "configs.jsonl").unlink()
    write_resolved(tmp_path, CONFIG, {"command": "newer"})
    lines = (tmp_path / "configs.jsonl").read_text().splitlines()
    assert [json.loads(line)["command"] for line in lines] == ["older", "newer"]


def test_a_built_in_model_has_no_revision():
    assert describe_model(CONFIG.model_copy(update={"model": ModelConfig()})) == "embedded"


def test_data_sets_are_named_by_commit_or_file():
    assert find_data_revisions(CONFIG.data)["theirs"] == f"o/r@{COMMIT}"


def test_a_made_set_has_no_source_but_its_own_rules():
    made = SetConfig(name="worlds", kind="made", max_pairs=7)
    assert find_data_revisions(DataConfig(sets=(made,))) == {"worlds": "made, 7 pairs"}
    source = find_data_source(made)
    assert (source.url, source.licence) == ("", "this project's own")


def test_the_commit_has_forty_digits_and_says_when_files_differ_from_it():
    commit = find_commit()
    assert commit is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit)


def test_the_machine_is_described_without_a_model():
    hardware = find_hardware()
    assert hardware["num_cores"] >= 1
    assert hardware["memory_bytes"] > 2**28
    assert isinstance(hardware["gpus"], list)
    assert "pydantic" not in find_versions()
