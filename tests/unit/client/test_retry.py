"""The policy: which error is worth how many attempts, and how long the waits are."""

import pytest

from client.errors import (
    ConnectionFailed,
    DeadlineExhausted,
    ProtocolError,
    problem_error,
)
from client.retry import Attempts, RetryPolicy


@pytest.fixture
def problem_of(make_problem):
    """Return the maker of the error for a status."""

    def make(status, retry_after_s=None):
        return problem_error(make_problem(status, "x"), status, retry_after_s)

    return make


def useful_attempts(policy, error):
    """Count the attempts that the policy makes for one and the same error."""
    for num_attempts in range(1, 20):
        try:
            policy.wait_s(error, num_attempts=num_attempts, elapsed_s=0, draw=0.0)
        except type(error):
            return num_attempts
    return None


@pytest.mark.parametrize(
    ("status", "attempts"),
    [(400, 1), (401, 1), (404, 1), (422, 1), (429, 6), (500, 2), (502, 1), (503, 6), (504, 2)],
)
def test_a_problem_is_tried_again_only_where_that_is_of_use(problem_of, status, attempts):
    assert useful_attempts(RetryPolicy(), problem_of(status)) == attempts


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ConnectionFailed("refused"), 6),
        (ProtocolError("HTML", 200), 1),
        (ProtocolError("HTML", 302), 1),
        (ProtocolError("HTML", 404), 1),
        (ProtocolError("HTML", 429), 6),
        (ProtocolError("HTML", 502), 6),
        (ProtocolError("HTML", 503), 6),
        (ProtocolError("HTML", 504), 6),
        (ProtocolError("class"), 1),
    ],
    ids=lambda value: f"{value}-{getattr(value, 'status', '')}",
)
def test_an_answer_from_before_the_service_is_tried_like_a_failed_connection(error, attempts):
    assert useful_attempts(RetryPolicy(), error) == attempts


@pytest.mark.parametrize("status", [503, 504])
def test_max_attempts_bounds_every_error(problem_of, status):
    assert useful_attempts(RetryPolicy(max_attempts=1), problem_of(status)) == 1


@pytest.mark.parametrize(
    ("num_attempts", "draw", "wait_s"),
    [(1, 0.0, 0.0), (1, 0.5, 0.25), (2, 0.5, 0.5), (5, 0.5, 4.0), (50, 0.5, 10.0), (5000, 1, 20)],
)
def test_backoff_doubles_with_full_jitter_up_to_a_bound(num_attempts, draw, wait_s):
    policy = RetryPolicy(max_attempts=10_000)
    error = ConnectionFailed("refused")
    assert policy.wait_s(error, num_attempts=num_attempts, elapsed_s=0, draw=draw) == wait_s


@pytest.mark.parametrize(("draw", "wait_s"), [(0.0, 30.0), (0.5, 31.5)])
def test_retry_after_is_never_undercut(problem_of, draw, wait_s):
    error = problem_of(503, 30.0)
    assert RetryPolicy().wait_s(error, num_attempts=1, elapsed_s=0, draw=draw) == wait_s


def test_retry_after_zero_still_backs_off(problem_of):
    error = problem_of(429, 0.0)
    assert RetryPolicy().wait_s(error, num_attempts=3, elapsed_s=0, draw=0.5) == 1.0


def test_a_wait_past_the_deadline_is_not_begun(problem_of):
    error = problem_of(503, 30.0)
    with pytest.raises(DeadlineExhausted, match=r"after 271\.0 s and 2 attempt.*503 X") as caught:
        RetryPolicy(deadline_s=300).wait_s(error, num_attempts=2, elapsed_s=271, draw=0)
    assert caught.value.__cause__ is error


def test_an_attempt_gets_no_more_time_than_the_deadline_leaves():
    now = [100.0]
    attempts = Attempts(RetryPolicy(deadline_s=80), 70.0, lambda: now[0], lambda: 0.0)
    first = attempts.start()
    now[0] = 165.0
    assert (first, attempts.start()) == (70.0, 15.0)


@pytest.mark.parametrize("bad", [{"deadline_s": 0}, {"deadline_s": float("nan")}])
def test_a_policy_that_could_send_nothing_is_refused(bad):
    with pytest.raises(ValueError, match="deadline_s"):
        RetryPolicy(**bad)
