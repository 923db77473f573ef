"""The five objectives: against values worked out by hand, and against each other."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from training import advantages as advantages_module
from training import objectives as objectives_module
from training.advantages import (
    AdvantageKind,
    estimate_advantages,
    group_advantages,
    spread_rewards,
    whiten,
)
from training.objectives import (
    Clip,
    Divergence,
    Replies,
    dr_grpo,
    grpo,
    gspo,
    ppo,
    ppo_value,
    reinforce,
)

KINDS: list[AdvantageKind] = ["batch-mean", "group-mean", "leave-one-out", "group-std"]
NAN = math.nan


def ppo_of_replies(replies: Replies, advantages: Tensor) -> Tensor:
    return ppo(replies, advantages[:, None].expand_as(replies.logprobs))


def dr_grpo_of_four(replies: Replies, advantages: Tensor) -> Tensor:
    return dr_grpo(replies, advantages, max_tokens=4)


LOSSES: dict[str, Callable[[Replies, Tensor], Tensor]] = {
    "reinforce": reinforce,
    "ppo": ppo_of_replies,
    "grpo": grpo,
    "dr_grpo": dr_grpo_of_four,
    "gspo": gspo,
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def gradient(
    loss: Callable[[Replies, Tensor], Tensor],
    log_ratio: Tensor,
    mask: Tensor,
    advantages: Tensor,
    reference: Tensor | None = None,
) -> Tensor:
    """The gradient by the log-probabilities, where the replies came with log-probability -1."""
    old = torch.full_like(log_ratio, -1.0)
    logprobs = (old + log_ratio).requires_grad_()
    loss(Replies(logprobs, mask, old, reference), advantages).backward()
    assert logprobs.grad is not None
    return logprobs.grad


@pytest.mark.parametrize("module", [advantages_module, objectives_module])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 3
    assert result.failed == 0


# --- advantages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_right", "right", "wrong"),
    [
        pytest.param(1, 2.4742, -0.3535, id="1-of-8"),
        pytest.param(2, 1.6198, -0.5399, id="2-of-8"),
        pytest.param(3, 1.2074, -0.7244, id="3-of-8"),
        pytest.param(4, 0.9352, -0.9352, id="4-of-8"),
        pytest.param(5, 0.7244, -1.2074, id="5-of-8"),
        pytest.param(6, 0.5399, -1.6198, id="6-of-8"),
        pytest.param(7, 0.3535, -2.4742, id="7-of-8"),
    ],
)
def test_advantages_of_eight_replies_over_the_deviation_of_their_group(
    num_right: int, right: float, wrong: float
) -> None:
    rewards = torch.tensor([[1.0] * num_right + [0.0] * (8 - num_right)])
    expected = torch.tensor([[right] * num_right + [wrong] * (8 - num_right)])
    torch.testing.assert_close(group_advantages(rewards, "group-std"), expected, atol=6e-5, rtol=0)


def test_deviation_of_the_paper_divides_by_n() -> None:
    # mean 0.25, deviation sqrt(3)/4 = 0.4330: 0.75 / 0.4330 = 1.7321, -0.25 / 0.4330 = -0.5774
    found = group_advantages(
        torch.tensor([[1.0, 0.0, 0.0, 0.0]]), "group-std", std_eps=0.0, is_bessel=False
    )
    expected = torch.tensor([[1.7321, -0.5774, -0.5774, -0.5774]])
    torch.testing.assert_close(found, expected, atol=5e-5, rtol=0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Means: 0.25 and 0.75 of the groups, 0.5 of the batch.
        ("batch-mean", [[0.5, -0.5, -0.5, -0.5], [0.5, 0.5, 0.5, -0.5]]),
        ("group-mean", [[0.75, -0.25, -0.25, -0.25], [0.25, 0.25, 0.25, -0.75]]),
        # The others' means: 0, then 1/3 three times; 2/3 three times, then 1.
        ("leave-one-out", [[1.0, -1 / 3, -1 / 3, -1 / 3], [1 / 3, 1 / 3, 1 / 3, -1.0]]),
    ],
)
def test_advantages_against_a_mean(kind: AdvantageKind, expected: list[list[float]]) -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    torch.testing.assert_close(group_advantages(rewards, kind), torch.tensor(expected))


@pytest.mark.parametrize("num_generations", [2, 4, 8])
def test_leaving_one_out_is_dr_grpo_times_n_over_n_minus_1(num_generations: int) -> None:
    rewards = torch.rand(5, num_generations, generator=torch.Generator().manual_seed(1))
    factor = {2: 2.0, 4: 4 / 3, 8: 8 / 7}[num_generations]
    torch.testing.assert_close(
        group_advantages(rewards, "leave-one-out"), factor * group_advantages(rewards, "group-mean")
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reward", [0.0, 1.0, -0.5, 0.1, 1.1, 1e-30])
def test_equal_rewards_have_an_advantage_of_exactly_zero(
    kind: AdvantageKind, reward: float
) -> None:
    """The mean of three 0.1 is not 0.1: the rounding error is not to become an advantage."""
    for num_generations in (1, 2, 3, 7, 8):
        rewards = torch.full((3, num_generations), reward)
        assert torch.equal(group_advantages(rewards, kind), torch.zeros(3, num_generations))


def test_a_flat_group_beside_another_still_has_advantages_against_the_batch() -> None:
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert group_advantages(rewards, "batch-mean").tolist() == [[0.5, 0.5], [-0.5, -0.5]]
    assert group_advantages(rewards, "group-mean").tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_that_is_left_out_changes_no_other(kind: AdvantageKind) -> None:
    with_gap = group_advantages(torch.tensor([[1.0, NAN, 0.0, 0.0]]), kind)
    without = group_advantages(torch.tensor([[1.0, 0.0, 0.0]]), kind)
    assert with_gap[0, 1] == 0.0
    torch.testing.assert_close(with_gap[:, [0, 2, 3]], without)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [[NAN, NAN, NAN], [1.0, NAN, NAN], [0.5, 0.5, NAN]])
def test_a_group_with_nothing_to_compare_teaches_nothing(
    kind: AdvantageKind, group: list[float]
) -> None:
    assert group_advantages(torch.tensor([group]), kind).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_groups_and_of_replies_does_not_matter(kind: AdvantageKind) -> None:
    rewards = torch.rand(4, 6, generator=torch.Generator().manual_seed(2))
    plain = group_advantages(rewards, kind)
    torch.testing.assert_close(group_advantages(rewards.flip(0), kind), plain.flip(0))
    torch.testing.assert_close(group_advantages(rewards.flip(1), kind), plain.flip(1))


def test_scaled_rewards_scale_every_advantage_but_those_over_a_deviation() -> None:
    """Class-aware scaling: under ``group-std`` it must be done on the advantages."""
    rewards = torch.tensor([[1.0, 0.0, 0.0, -0.5]])
    for kind in ("batch-mean", "group-mean", "leave-one-out"):
        torch.testing.assert_close(
            group_advantages(0.5 * rewards, kind), 0.5 * group_advantages(rewards, kind)
        )
    torch.testing.assert_close(
        group_advantages(0.5 * rewards, "group-std"),
        group_advantages(rewards, "group-std"),
        rtol=1e-3,
        atol=0,
    )


def test_the_reward_stands_on_the_last_token() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 0, 0]])
    spread = spread_rewards(torch.tensor([1.0, -0.5, 1.0]), mask)
    assert spread.tolist() == [[0.0, 0.0, 1.0], [-0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_each_token_pays_for_leaving_the_reference() -> None:
    spread = spread_rewards(
        torch.tensor([1.0]),
        torch.tensor([[1, 1, 0]]),
        beta=0.5,
        old_logprobs=torch.tensor([[-1.0, -2.0, NAN]]),
        reference_logprobs=torch.tensor([[-3.0, -1.0, NAN]]),
    )
    assert spread.tolist() == [[-1.0, 1.5, 0.0]]  # -0.5 (2), 1 - 0.5 (-1)


def test_a_price_without_a_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="beta needs old_logprobs and reference_logprobs"):
        spread_rewards(torch.tensor([1.0]), torch.ones(1, 2), beta=0.1)


@pytest.mark.parametrize(
    ("gamma", "gae_lambda", "advantages"),
    [
        # deltas with gamma 1: 0 + 0.6 - 0.5 = 0.1; 0 + 0.2 - 0.6 = -0.4; 1 - 0.2 = 0.8
        pytest.param(1.0, 1.0, [0.5, 0.4, 0.8], id="return-minus-value"),
        pytest.param(1.0, 0.0, [0.1, -0.4, 0.8], id="one-step"),
        pytest.param(1.0, 0.5, [0.1, 0.0, 0.8], id="between"),
        # deltas with gamma 0.5: 0.3 - 0.5 = -0.2; 0.1 - 0.6 = -0.5; 0.8. Then x 0.5 each.
        pytest.param(0.5, 1.0, [-0.25, -0.1, 0.8], id="discounted"),
    ],
)
def test_generalised_advantages_of_three_tokens(
    gamma: float, gae_lambda: float, advantages: list[float]
) -> None:
    values = torch.tensor([[0.5, 0.6, 0.2, NAN]], requires_grad=True)
    found = estimate_advantages(
        torch.tensor([[0.0, 0.0, 1.0, NAN]]),
        values,
        torch.tensor([[1, 1, 1, 0]]),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    expected = torch.tensor([[*advantages, 0.0]])
    torch.testing.assert_close(found.advantages, expected)
    torch.testing.assert_close(found.returns, expected + torch.tensor([[0.5, 0.6, 0.2, 0.0]]))
    assert not found.advantages.requires_grad


def test_padding_on_either_side_has_no_advantage() -> None:
    found = estimate_advantages(
        torch.tensor([[NAN, 0.0, 1.0, NAN]]),
        torch.tensor([[NAN, 0.5, 0.25, NAN]]),
        torch.tensor([[0, 1, 1, 0]]),
    )
    assert found.advantages.tolist() == [[0.0, 0.5, 0.75, 0.0]]
    assert found.returns.tolist() == [[0.0, 1.0, 1.0, 0.0]]


def test_whitened_advantages_leave_padding_and_flat_batches_alone() -> None:
    mask = torch.tensor([[1, 1], [1, 0]])
    found = whiten(torch.tensor([[1.0, 2.0], [3.0, NAN]]), mask)
    expected = torch.tensor([[-1.2247, 0.0], [1.2247, 0.0]])  # deviation sqrt(2/3)
    torch.testing.assert_close(found, expected, atol=5e-5, rtol=0)
    flat = torch.tensor([[0.1, 0.1], [0.1, 9.0]])
    assert torch.equal(whiten(flat, mask), torch.zeros(2, 2))
    assert torch.equal(whiten(flat, torch.zeros(2, 2)), torch.zeros(2, 2))


# --- losses, by hand ----------------------------------------------------------------------------

# Two replies of three and one tokens. Ratios 1.5, 1, 0.5 and 0.5; advantages 1 and -2. Clipped to
# [0.8, 1.2] the terms are min(1.5, 1.2) = 1.2, 1, min(0.5, 0.8) = 0.5 and min(-1, -1.6) = -1.6.
RATIO = torch.tensor([[1.5, 1.0, 0.5], [0.5, NAN, NAN]])
MASK = torch.tensor([[1, 1, 1], [1, 0, 0]])
ADVANTAGES = torch.tensor([1.0, -2.0])


def two_replies() -> Replies:
    return Replies(RATIO.log() - 1, MASK, torch.full_like(RATIO, -1.0))


def test_grpo_is_a_mean_of_the_replies_means() -> None:
    assert grpo(two_replies(), ADVANTAGES).item() == pytest.approx(0.35)  # -(2.7/3 - 1.6) / 2


def test_dr_grpo_divides_by_a_constant() -> None:
    loss = dr_grpo(two_replies(), ADVANTAGES, max_tokens=5)
    assert loss.item() == pytest.approx(-0.11)  # -(2.7 - 1.6) / (2 * 5)


def test_ppo_is_a_mean_of_all_tokens() -> None:
    loss = ppo_of_replies(two_replies(), ADVANTAGES)
    assert loss.item() == pytest.approx(-0.275)  # -(2.7 - 1.6) / 4


def test_gspo_has_one_ratio_for_a_reply() -> None:
    # s = (1.5 * 1 * 0.5)^(1/3) = 0.9086 and 0.5: min(0.9086, 0.9086) = 0.9086, -2 (0.8) = -1.6
    loss = gspo(two_replies(), ADVANTAGES, clip=Clip(0.2, 0.2))
    assert loss.item() == pytest.approx(0.3457, abs=5e-5)  # -(0.9086 - 1.6) / 2


def test_reinforce_sums_the_tokens_of_a_reply() -> None:
    logprobs = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, NAN, NAN]])
    assert reinforce(Replies(logprobs, MASK), ADVANTAGES).item() == -1.0  # -(-6 + 8) / 2


@pytest.mark.parametrize(
    ("ratio", "advantage", "clip", "expected"),
    [
        pytest.param(1.5, 1.0, Clip(0.2, 0.28), -1.28, id="clip-higher"),
        pytest.param(1.5, 1.0, Clip(0.2, 0.6), -1.5, id="higher-not-reached"),
        pytest.param(0.5, -1.0, Clip(0.4, 0.1), 0.6, id="clip-lower"),
        pytest.param(0.5, -1.0, Clip(0.6, 0.1), 0.5, id="lower-not-reached"),
    ],
)
def test_the_clip_has_two_sides(
    ratio: float, advantage: float, clip: Clip, expected: float
) -> None:
    replies = Replies(torch.tensor([[ratio]]).log(), torch.ones(1, 1), torch.zeros(1, 1))
    one = torch.tensor([advantage])
    assert grpo(replies, one, clip=clip).item() == pytest.approx(expected)
    assert dr_grpo(replies, one, max_tokens=1, clip=clip).item() == pytest.approx(expected)
    assert gspo(replies, one, clip=clip).item() == pytest.approx(expected)
    assert ppo(replies, one[:, None], clip=clip).item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("is_ratio_weighted", "expected"),
    # d = log 0.5 - log 0.25 = log 2: k3 = 2 - log 2 - 1 = 0.3069, and the ratio is 0.25 / 0.5.
    [pytest.param(False, 0.3069, id="paper"), pytest.param(True, 0.1534, id="times-the-ratio")],
)
@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "gspo"])
def test_the_penalty_is_k3(name: str, is_ratio_weighted: bool, expected: float) -> None:
    half, quarter = (torch.tensor([[x, NAN]]).log() for x in (0.5, 0.25))
    replies = Replies(quarter, torch.tensor([[1, 0]]), half, half)
    divergence = Divergence(beta=2.0, is_ratio_weighted=is_ratio_weighted)
    zero = torch.zeros(1)
    found = {
        "grpo": lambda: grpo(replies, zero, divergence=divergence),
        "dr_grpo": lambda: dr_grpo(replies, zero, max_tokens=1, divergence=divergence),
        "gspo": lambda: gspo(replies, zero, divergence=divergence),
    }[name]()
    assert found.item() == pytest.approx(2 * expected, abs=1e-4)


@pytest.mark.parametrize("loss", [grpo, gspo])
def test_a_penalty_without_a_reference_is_refused(loss: Callable[..., Tensor]) -> None:
    with pytest.raises(ValueError, match="reference_logprobs are needed"):
        loss(two_replies(), ADVANTAGES, divergence=Divergence(0.1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0.1, 0.405, id="inside"),  # 0.5 (0.1 - 1)^2
        pytest.param(0.9, 0.32, id="moved-too-far-towards-it"),  # 0.5 (0.2 - 1)^2
        pytest.param(-0.5, 1.125, id="moved-away"),  # 0.5 (-0.5 - 1)^2, not (-0.2 - 1)^2
    ],
)
def test_the_critic_pays_for_the_worse_of_the_two_values(value: float, expected: float) -> None:
    values = torch.tensor([[value, NAN]])
    old, returns = torch.tensor([[0.0, NAN]]), torch.tensor([[1.0, NAN]])
    loss = ppo_value(values, old, returns, torch.tensor([[1, 0]]))
    assert loss.item() == pytest.approx(expected)


def test_a_value_that_moved_far_enough_has_no_gradient() -> None:
    values = torch.tensor([[0.9, 0.1]], requires_grad=True)
    ppo_value(values, torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2)).backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad, torch.tensor([[0.0, -0.45]]))  # (0.1 - 1) / 2 tokens


# --- losses, against each other -----------------------------------------------------------------


def random_replies(num_replies: int = 6, num_tokens: int = 4) -> tuple[Tensor, Tensor]:
    """Log-ratios small enough that nothing is clipped, and replies of 1 to 4 tokens."""
    generator = torch.Generator().manual_seed(3)
    log_ratio = 1e-5 * torch.randn(num_replies, num_tokens, generator=generator)
    lengths = torch.randint(1, num_tokens + 1, (num_replies, 1), generator=generator)
    return log_ratio, torch.arange(num_tokens) < lengths


@each_loss
@pytest.mark.parametrize("kind", KINDS)
def test_equal_rewards_give_a_gradient_of_exactly_zero(
    loss: Callable[[Replies, Tensor], Tensor], kind: AdvantageKind
) -> None:
    log_ratio, mask = random_replies()
    advantages = group_advantages(torch.full((2, 3), 0.1), kind).flatten()
    for scale in (0.0, 1.0, 1e5):
        found = gradient(loss, scale * log_ratio, mask, advantages)
        assert torch.count_nonzero(found) == 0


def test_without_an_update_dr_grpo_is_reinforce_over_the_length() -> None:
    log_ratio, mask = random_replies()
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0, 0.0])
    log_ratio = torch.zeros_like(log_ratio)
    torch.testing.assert_close(
        4 * gradient(dr_grpo_of_four, log_ratio, mask, advantages),
        gradient(reinforce, log_ratio, mask, advantages),
    )


def test_without_an_update_gspo_is_grpo() -> None:
    log_ratio, mask = random_replies()
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0, 0.0])
    log_ratio = torch.zeros_like(log_ratio)
    torch.testing.assert_close(
        gradient(gspo, log_ratio, mask, advantages), gradient(grpo, log_ratio, mask, advantages)
    )


def test_with_replies_of_one_length_grpo_ppo_and_dr_grpo_agree() -> None:
    log_ratio, _ = random_replies()
    mask = torch.ones_like(log_ratio)
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0, 0.0])
    expected = gradient(grpo, 3e4 * log_ratio, mask, advantages)  # some are clipped
    for loss in (ppo_of_replies, dr_grpo_of_four):
        found = gradient(loss, 3e4 * log_ratio, mask, advantages)
        torch.testing.assert_close(found, expected)


@each_loss
def test_the_old_policy_defaults_to_the_policy_itself(
    loss: Callable[[Replies, Tensor], Tensor],
) -> None:
    log_ratio, mask = random_replies()
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0, 0.0])
    logprobs = torch.full_like(log_ratio, -1.0).requires_grad_()
    loss(Replies(logprobs, mask), advantages).backward()
    expected = gradient(loss, torch.zeros_like(log_ratio), mask, advantages)
    torch.testing.assert_close(logprobs.grad, expected)


@each_loss
@pytest.mark.parametrize("filler", [NAN, math.inf, -math.inf, 1e30, 0.0])
def test_what_stands_in_the_padding_does_not_matter(
    loss: Callable[[Replies, Tensor], Tensor], filler: float
) -> None:
    log_ratio, mask = random_replies()
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0, 0.0])
    expected = gradient(loss, log_ratio, mask, advantages)
    wide = torch.cat([log_ratio.masked_fill(~mask, filler), torch.full((6, 3), filler)], dim=1)
    wide_mask = torch.cat([mask, torch.zeros(6, 3, dtype=torch.bool)], dim=1)
    found = gradient(loss, wide, wide_mask, advantages)
    torch.testing.assert_close(found[:, :4], expected)
    assert torch.count_nonzero(found[~wide_mask]) == 0


@each_loss
def test_the_order_of_the_replies_does_not_matter(
    loss: Callable[[Replies, Tensor], Tensor],
) -> None:
    log_ratio, mask = random_replies()
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0, 0.0])
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    expected = gradient(loss, 3e4 * log_ratio, mask, advantages)[order]
    found = gradient(loss, 3e4 * log_ratio[order], mask[order], advantages[order])
    torch.testing.assert_close(found, expected)


@each_loss
def test_a_reply_without_tokens_adds_nothing(loss: Callable[[Replies, Tensor], Tensor]) -> None:
    found = gradient(loss, torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([1.0, -1.0]))
    assert torch.count_nonzero(found) == 0
    empty = Replies(torch.zeros(2, 2), torch.zeros(2, 2), torch.zeros(2, 2))
    assert loss(empty, torch.tensor([1.0, -2.0])).item() == 0.0


CLIPPED_LOSSES: dict[str, Callable[[Replies, Tensor], Tensor]] = {
    "ppo": ppo_of_replies,
    "grpo": grpo,
    "dr_grpo": lambda replies, advantages: dr_grpo(replies, advantages, max_tokens=1),
    "gspo": lambda replies, advantages: gspo(replies, advantages, clip=Clip(0.2, 0.2)),
}


@pytest.mark.parametrize(
    ("advantage", "ratio", "expected"),
    # The gradient of -rho A by log rho is -rho A, where nothing is clipped.
    [
        pytest.param(1.0, 1.19, -1.19, id="good-inside"),
        pytest.param(1.0, 1.21, 0.0, id="good-and-likelier-already"),
        pytest.param(1.0, 0.5, -0.5, id="good-and-lost"),
        pytest.param(-1.0, 0.81, 0.81, id="bad-inside"),
        pytest.param(-1.0, 0.79, 0.0, id="bad-and-rarer-already"),
        pytest.param(-1.0, 3.0, 3.0, id="bad-and-grown"),
    ],
)
@pytest.mark.parametrize("loss", CLIPPED_LOSSES.values(), ids=CLIPPED_LOSSES)
def test_the_clip_ends_the_gradient_only_where_enough_was_gained(
    loss: Callable[[Replies, Tensor], Tensor], advantage: float, ratio: float, expected: float
) -> None:
    log_ratio = torch.tensor([[math.log(ratio)]])
    found = gradient(loss, log_ratio, torch.ones(1, 1), torch.tensor([advantage]))
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", CLIPPED_LOSSES.values(), ids=CLIPPED_LOSSES)
@pytest.mark.parametrize("log_ratio", [-1e4, -100.0, 100.0, 1e4])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_no_ratio_overflows(
    loss: Callable[[Replies, Tensor], Tensor], log_ratio: float, advantage: float
) -> None:
    """e^100 is beyond a float32; so is a product of 200 ratios of 2."""
    for far in (torch.full((1, 3), log_ratio), torch.full((1, 200), math.copysign(0.7, log_ratio))):
        found = gradient(loss, far, torch.ones_like(far), torch.tensor([advantage]))
        assert bool(found.isfinite().all())


def test_a_long_reply_has_the_ratio_of_its_tokens() -> None:
    log_ratio = torch.full((1, 1000), 0.3)  # the product would be e^300
    replies = Replies(log_ratio, torch.ones(1, 1000), torch.zeros(1, 1000))
    loss = gspo(replies, torch.tensor([-1.0]))
    assert loss.item() == pytest.approx(1.3499, abs=1e-4)  # e^0.3


@pytest.mark.parametrize("gap", [-1e4, -100.0, 100.0, 1e4])
def test_no_penalty_overflows(gap: float) -> None:
    divergence = Divergence(beta=1.0, is_ratio_weighted=True)
    for loss in (grpo, gspo):
        found = gradient(
            lambda replies, advantages, loss=loss: loss(  # type: ignore[misc]
                replies, advantages, divergence=divergence
            ),
            torch.zeros(1, 3),
            torch.ones(1, 3),
            torch.zeros(1),
            torch.full((1, 3), -1.0 + gap),
        )
        assert bool(found.isfinite().all())
