"""docs/loadtest.md says what the code does: profiles, mix, goals."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest import capacity, figures
from loadtest.profiles import PROFILES, Profile
from loadtest.slo import GOALS
from loadtest.workload import LENGTHS, SHARES, Kind

TEXT = (Path(__file__).parents[3] / "docs" / "loadtest.md").read_text(encoding="utf-8")
LINES = {line.split("`")[1]: line for line in TEXT.splitlines() if line.startswith("| `")}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_profile_is_described_as_it_is(profile: Profile) -> None:
    assert all(start == end for _, start, end in profile.stages)
    stages = ", ".join(f"{seconds:g} x {start:g}" for seconds, start, _ in profile.stages)
    cells = f"| `{profile.name}` | {profile.warm_up_s:g} | {stages} | {profile.purpose} |"
    assert LINES[profile.name] == cells


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_is_described_as_it_is(kind: Kind) -> None:
    assert f"| {100 * SHARES[kind]:g} % |" in LINES[kind]
    if kind in LENGTHS:
        length = LENGTHS[kind]
        words = f"{length.median_words}, {length.sigma}, {length.low_words} to {length.high_words}"
        assert words in LINES[kind]


def test_every_goal_and_limit_is_named() -> None:
    assert all(f"`{name}`" in TEXT for name in GOALS)
    assert f"above {1000 * figures.MAX_LAG_S:g} ms and above a tenth" in TEXT
    assert figures.MAX_LAG_SHARE == 0.1
    assert f"`--max-runs` ({capacity.MAX_RUNS})" in TEXT
    assert f"as long as {capacity.MIN_REQUESTS} requests take" in TEXT
