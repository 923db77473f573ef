"""Bounded work, honest retry times, the rate limit."""

from __future__ import annotations

import pytest

from service.admission import Admission, RateLimiter
from service.errors import OverloadedError, RateLimitedError


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def finish(admission: Admission, count: int) -> None:
    for _ in range(count):
        with admission.admit():
            pass


def fill(admission: Admission, count: int) -> None:
    for _ in range(count):
        admission.admit()


def test_as_many_items_as_allowed_are_taken(clock: Clock) -> None:
    admission = Admission(2, 100, clock)
    with admission.admit():
        with admission.admit():
            assert admission.num_in_flight == 2
            with pytest.raises(OverloadedError, match="2 items are being judged"):
                admission.admit()
            assert admission.num_in_flight == 2
        with admission.admit():
            assert admission.num_in_flight == 2
    assert admission.num_in_flight == 0


def test_as_many_tokens_as_allowed_are_taken(clock: Clock) -> None:
    admission = Admission(10, 100, clock)
    with admission.admit() as first, admission.admit() as second:
        first.claim(60)
        with pytest.raises(OverloadedError, match="hold 60 tokens of the 100"):
            second.claim(41)
        assert admission.num_queued_tokens == 60
        second.claim(40)
        assert admission.num_queued_tokens == 100
    assert (admission.num_in_flight, admission.num_queued_tokens) == (0, 0)


def test_a_refused_claim_gives_nothing_back_that_it_did_not_have(clock: Clock) -> None:
    admission = Admission(10, 100, clock)
    with admission.admit() as first:
        first.claim(60)
        with pytest.raises(OverloadedError), admission.admit() as second:
            second.claim(41)
        assert (admission.num_in_flight, admission.num_queued_tokens) == (1, 60)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt], ids=lambda error: error.__name__)
def test_a_failure_frees_its_place(error: type[BaseException], clock: Clock) -> None:
    admission = Admission(1, 100, clock)

    def fail() -> None:
        with admission.admit() as slot:
            slot.claim(70)
            raise error

    with pytest.raises(error):
        fail()
    assert (admission.num_in_flight, admission.num_queued_tokens) == (0, 0)
    assert admission.items_per_s() == 0.0


def test_the_throughput_is_measured_over_half_a_minute(clock: Clock) -> None:
    admission = Admission(10, 100, clock)
    assert admission.items_per_s() == 0.0
    finish(admission, 3)
    # Less than a second has passed: not three in no time.
    assert admission.items_per_s() == 3.0
    clock.now += 4
    finish(admission, 1)
    assert admission.items_per_s() == 1.0
    clock.now += 26
    assert admission.items_per_s() == pytest.approx(4 / 30)
    clock.now += 1
    # The first three are too old; one is left, 27 s ago.
    assert admission.items_per_s() == pytest.approx(1 / 27)
    clock.now += 4
    assert admission.items_per_s() == 0.0


@pytest.mark.parametrize(
    ("num_in_flight", "num_finished", "elapsed_s", "retry_after_s"),
    [
        (8, 0, 0, 5.0),  # nothing is known yet
        (8, 8, 2, 1.0),  # 4 a second: half of 8 takes a second
        (8, 4, 4, 4.0),  # 1 a second
        (40, 10, 5, 10.0),  # 2 a second
        (2, 100, 1, 1.0),  # at least one second
        (100, 1, 30, 60.0),  # at most a minute
        (8, 8, 31, 5.0),  # the throughput is too old
    ],
)
def test_the_time_to_retry_follows_the_throughput(
    num_in_flight: int, num_finished: int, elapsed_s: float, retry_after_s: float, clock: Clock
) -> None:
    admission = Admission(num_in_flight, 100, clock)
    finish(admission, num_finished)
    clock.now += elapsed_s
    fill(admission, num_in_flight)
    with pytest.raises(OverloadedError) as caught:
        admission.admit()
    assert caught.value.retry_after_s == retry_after_s
    assert admission.retry_after_s() == retry_after_s


def test_too_many_tokens_name_a_time_too(clock: Clock) -> None:
    admission = Admission(10, 100, clock)
    finish(admission, 4)
    clock.now += 4
    with admission.admit(), admission.admit(), admission.admit() as slot:
        fill(admission, 5)
        with pytest.raises(OverloadedError) as caught:
            slot.claim(101)
        assert caught.value.retry_after_s == 4.0


def test_without_a_rate_all_items_pass() -> None:
    limiter = RateLimiter(None)
    for _ in range(1000):
        limiter.check("a")


def test_every_caller_has_a_rate_of_its_own() -> None:
    limiter = RateLimiter(3)
    for caller in ("a", "b"):
        for _ in range(3):
            limiter.check(caller)
        with pytest.raises(RateLimitedError, match="may send 3 items a minute") as caught:
            limiter.check(caller)
        assert 58 <= caught.value.retry_after_s <= 61
    limiter.check("c")
