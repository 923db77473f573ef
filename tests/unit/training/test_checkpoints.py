from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.checkpoints import make_checkpoint

from training.checkpoints import (
    checkpoint_step,
    find_fault,
    latest_checkpoint,
    set_broken_checkpoints_aside,
)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def test_the_last_checkpoint_is_the_one_with_the_most_steps(tmp_path: Path):
    for step in (5, 100, 20):
        make_checkpoint(tmp_path, step)
    found = latest_checkpoint(tmp_path)
    assert found is not None
    assert checkpoint_step(found) == 100


def test_there_is_none_in_an_empty_or_missing_folder(tmp_path: Path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("adapter_model.safetensors", "adapter_model.safetensors is cut off"),
        ("optimizer.pt", "optimizer.pt is cut off"),
        ("trainer_state.json", "trainer_state.json is cut off"),
    ],
)
def test_a_file_that_was_cut_off_is_noticed(tmp_path: Path, name: str, fault: str):
    whole, broken = make_checkpoint(tmp_path, 1), make_checkpoint(tmp_path, 2)
    cut(broken / name)
    assert find_fault(broken) == fault
    assert latest_checkpoint(tmp_path) == whole


def test_a_checkpoint_without_its_last_file_is_not_whole(tmp_path: Path):
    checkpoint = make_checkpoint(tmp_path, 3)
    (checkpoint / "trainer_state.json").unlink()
    assert find_fault(checkpoint) == "trainer_state.json, which is written last, is missing"


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"\xff" * 40, struct.pack("<Q", 2) + b"[]"])
def test_weights_that_are_no_weights_are_noticed(tmp_path: Path, content: bytes):
    checkpoint = make_checkpoint(tmp_path, 3)
    (checkpoint / "adapter_model.safetensors").write_bytes(content)
    assert find_fault(checkpoint) == "adapter_model.safetensors is cut off"


def test_a_checkpoint_without_weights_or_of_another_step_is_not_whole(tmp_path: Path):
    first, second = make_checkpoint(tmp_path, 1), make_checkpoint(tmp_path, 2)
    (first / "adapter_model.safetensors").unlink()
    second.rename(tmp_path / "checkpoint-4")
    assert find_fault(first) == "no weights"
    assert find_fault(tmp_path / "checkpoint-4") == "trainer_state.json is of another step"


def test_a_broken_checkpoint_is_moved_aside_and_not_deleted(tmp_path: Path):
    make_checkpoint(tmp_path, 1)
    for _ in range(2):
        cut(make_checkpoint(tmp_path, 2) / "optimizer.pt")
        set_broken_checkpoints_aside(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broken-checkpoint-2",
        "broken-checkpoint-2-2",
        "checkpoint-1",
    ]
