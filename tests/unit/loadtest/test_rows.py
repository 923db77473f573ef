"""Raw rows and the percentiles that come from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.checks import Judged, Outcome
from loadtest.errors import LoadTestError
from loadtest.rows import Row, percentile, read_rows
from loadtest.workload import Kind

SHED = Judged(Outcome.SHED, "503 overloaded", retry_after_s=2.0)
ROW = Row(7, Kind.BATCH, 1.25, 1.5, 3.0, 503, SHED)


@given(
    values=st.lists(st.floats(0, 1e6), min_size=1, max_size=200),
    percent=st.sampled_from([0, 1, 50, 90, 95, 99, 99.9, 100]),
)
def test_percentiles_are_those_of_numpy(values: list[float], percent: float) -> None:
    assert percentile(values, percent) == pytest.approx(np.percentile(values, percent))


def test_percentiles_are_not_rounded() -> None:
    """Locust keeps two significant digits: it would call this 3,500 ms, and a goal of it met."""
    assert percentile([3.432] * 99 + [3.451], 99.9) == pytest.approx(3.4491, abs=1e-4)


def test_there_is_no_percentile_of_no_values() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_row_knows_its_times() -> None:
    assert (ROW.latency_s, ROW.latency_from_send_s, ROW.lag_s) == (1.75, 1.5, 0.25)


def test_rows_are_read_as_they_were_written_in_the_order_of_the_schedule(tmp_path: Path) -> None:
    late = Row(8, Kind.SHORT_QA, 0.5, 0.5, 9.0, None, Judged(Outcome.ERROR, "no answer: x"))
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.to_line() + late.to_line(), encoding="utf-8")
    assert read_rows(path) == [late, ROW]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", ROW.to_line().replace("shed", "lost"), ROW.to_line()[:-2] + ', "x": 1}'],
    ids=["cut-off", "no-object", "empty", "unknown-outcome", "unknown-member"],
)
def test_what_is_no_row_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(LoadTestError, match="holds no rows of a load test"):
        read_rows(path)
