"""What a cold start may delete, and which starts are counted together."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stub_service import INFO

from evaluation.identity import ServiceIdentity
from evaluation.json_fields import Fields
from loadtest.coldstart import Caches, Start, empty_folder, median_starts, name_starts
from loadtest.errors import LoadTestError

SERVICE = ServiceIdentity.from_json(Fields(INFO))


def start(caches: Caches, seconds: float) -> Start:
    return Start(caches, {"process up": seconds - 0.5, "first verdict": 0.5}, {}, SERVICE)


def test_a_folder_that_was_made_for_it_is_emptied_again(tmp_path: Path) -> None:
    cache, outside = tmp_path / "cache", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    empty_folder(cache)
    (cache / "weights" / "deep").mkdir(parents=True)
    (cache / "weights" / "deep" / "file").touch()
    (cache / "link").symlink_to(outside)
    empty_folder(cache)
    assert [path.name for path in cache.iterdir()] == ["emptied-by-loadtest"]
    assert (outside / "kept").exists()


def test_a_folder_of_somebody_else_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(LoadTestError, match="not made by a load test, so it is not emptied"):
        empty_folder(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LoadTestError, match="cannot be emptied"):
        empty_folder(tmp_path / "file")


def test_cold_and_warm_starts_are_kept_apart() -> None:
    starts = [start(Caches.COLD, s) for s in (9.0, 30.0, 10.0)]
    starts += [start(Caches.WARM, s) for s in (2.0, 4.0)]
    assert median_starts(starts) == pytest.approx({"cold_start": 10.0, "warm_start": 3.0})
    assert name_starts(starts) == ["cold 1", "cold 2", "cold 3", "warm 1", "warm 2"]
    assert median_starts(starts[:1]) == {"cold_start": 9.0}
