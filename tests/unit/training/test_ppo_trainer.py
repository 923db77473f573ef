"""PPO's trainer against the reference objectives, on a random model of two layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from support.tiny_trainer import build_trainer, quiet_imports

from training.errors import CheckpointError
from training.metrics_file import read_metrics
from training.objectives import Clip, Replies, ppo, ppo_value

PAID = [1.0, 0.0, 0.0, -0.5, 1.0, 1.0, 0.25, 0.0]

FOUR_STEPS = {"algorithm": "ppo", "max_steps": 4, "save_steps": 2, "value_learning_rate": 1e-2}

Build = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer of TRL says on the Hub that it was built; the variable is read before this."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    with ExitStack() as stack:

        def build(paid: Sequence[float] | None = PAID, **rl: Any) -> Any:
            trainer = build_trainer(tmp_path, paid, rl={"algorithm": "ppo", **rl})
            stack.callback(trainer._monitor.close)
            return trainer

        yield build


def draw(trainer: Any) -> dict[str, Any]:
    """Draw and score the replies of the first step."""
    rows = next(iter(trainer.get_train_dataloader()))
    batch: dict[str, Any] = trainer._generate_and_score_completions(rows)
    return batch


def teach(trainer: Any) -> None:
    """Give the critic an opinion."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        weight = trainer.value_head.weight
        weight += 0.1 * torch.randn(weight.shape, generator=generator)


def test_before_it_learns_the_critic_expects_nothing(build: Build) -> None:
    trainer = build()
    batch = draw(trainer)
    assert not batch["old_values"].any()
    # Nothing is discounted and nothing expected: the reward is what returns from every token.
    mask = batch["completion_mask"].bool()
    for row, reward in enumerate(PAID):
        assert set(batch["returns"][row][mask[row]].tolist()) == {reward}
    known = batch["advantages"][mask]
    assert known.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert known.var(correction=0).item() == pytest.approx(1.0, abs=1e-5)
    # Eight replies of equal length: mean 0.34375, deviation 0.538..., so (1 - 0.344) / 0.538.
    assert set(mask.sum(1).tolist()) == {8}
    deviation = math.sqrt((3 + 0.25 + 0.0625) / 8 - 0.34375**2)
    assert batch["advantages"][0, 0].item() == pytest.approx(0.65625 / deviation, abs=1e-4)


def test_discount_and_decay_reach_the_estimate(build: Build) -> None:
    trainer = build(gamma=0.5, gae_lambda=0.0)
    batch = draw(trainer)
    # The critic says 0 everywhere: only the last token's return holds the reward.
    assert batch["returns"][0].tolist() == [0.0] * 7 + [1.0]


def test_values_are_of_the_states_before_the_tokens(build: Build) -> None:
    trainer = build()
    teach(trainer)
    batch = draw(trainer)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.no_grad():
        layers = trainer.model.get_base_model().model
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        states = layers(ids, attention_mask=mask, position_ids=positions).last_hidden_state
    width = batch["prompt_ids"].shape[1]
    expected = trainer.value_head(states[:, width - 1 : -1])[..., 0]
    torch.testing.assert_close(batch["old_values"], expected.detach(), rtol=0, atol=1e-4)
    assert batch["old_values"].std() > 0.01


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("num_iterations", [1, 2])
def test_losses_and_gradients_are_those_of_the_objectives(
    build: Build, beta: float, num_iterations: int
) -> None:
    trainer = build(beta=beta, num_iterations=num_iterations, value_clip=0.05)
    teach(trainer)
    batch = draw(trainer)
    # The policy and the critic go on, as they do before a second update from the same replies.
    teach(trainer)
    if num_iterations > 1 or beta:
        with torch.no_grad():
            for name, parameter in trainer.model.named_parameters():
                if "lora_B.default" in name:
                    parameter += 0.02 * torch.randn(
                        parameter.shape, generator=torch.Generator().manual_seed(len(name))
                    )
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    policy_gradients = take_gradients(trainer.model)
    value_gradients = take_gradients(trainer.value_head)

    mask = batch["completion_mask"]
    with torch.enable_grad():
        trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
            torch.cat([batch["prompt_mask"], mask], 1),
            mask.shape[1],
        )
    logprobs = trainer.scores.logprobs
    replies = Replies(logprobs, mask, batch.get("old_per_token_logps", logprobs.detach()))
    expected = ppo(replies, batch["advantages"], clip=Clip(0.2, 0.2))
    if beta:
        distance = batch["ref_per_token_logps"] - logprobs
        k3 = distance.exp() - distance - 1
        expected = expected + beta * (k3 * mask).sum() / mask.sum()
    value = ppo_value(
        trainer.scores.values, batch["old_values"], batch["returns"], mask, value_clip=0.05
    )
    (expected + value).backward()
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-5)
    assert trainer._metrics["train"]["value_loss"] == [pytest.approx(value.item(), abs=1e-6)]
    assert_same(policy_gradients, take_gradients(trainer.model))
    assert_same(value_gradients, take_gradients(trainer.value_head))


def take_gradients(module: Any) -> dict[str, torch.Tensor]:
    found = {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    return found


def assert_same(ours: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    assert max(float(each.abs().max()) for each in ours.values()) > 1e-3


def test_the_critic_learns_and_says_so(build: Build, tmp_path: Path) -> None:
    trainer = build(max_steps=3, value_learning_rate=1e-2)
    trainer.train()
    assert trainer.value_head.weight.abs().max() > 1e-3
    assert trainer.value_head.weight.grad is None
    rows = read_metrics(tmp_path / "stage" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    # (1 + 0.25 + 1 + 1 + 0.0625) / 8 / 2, since it expects 0 everywhere at first.
    assert rows[0]["value_loss"] == pytest.approx(0.20703125)
    assert rows[0]["explained_variance"] == pytest.approx(0.0)
    assert (rows[1]["value_loss"] or 0) < 0.2


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of four steps with a checkpoint after each two."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        trainer = build_trainer(folder, PAID, rl=FOUR_STEPS)
        trainer.train()
    trainer._monitor.close()
    return trainer


def test_a_resumed_run_ends_like_the_whole_one(whole: Any) -> None:
    stage = Path(whole.args.output_dir)
    again = build_trainer(stage.parent, PAID, rl=FOUR_STEPS)
    try:
        again.train(resume_from_checkpoint=str(stage / "checkpoint-2"))
    finally:
        again._monitor.close()
    for name, value in whole.value_head.state_dict().items():
        torch.testing.assert_close(again.value_head.state_dict()[name], value, msg=name)
    first = whole._value_optimizer.state_dict()["state"]
    second = again._value_optimizer.state_dict()["state"]
    assert first[0]["step"] == second[0]["step"] == 4
    torch.testing.assert_close(second[0]["exp_avg"], first[0]["exp_avg"])
    weights = dict(again.model.named_parameters())
    for name, parameter in whole.model.named_parameters():
        torch.testing.assert_close(weights[name], parameter, msg=name)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="missing"),
        pytest.param(b"PK", id="cut-off"),
        pytest.param({"optimizer": {}}, id="without-head"),
        pytest.param({"head": {"weight": torch.zeros(1, 5)}}, id="of-another-model"),
    ],
)
def test_a_checkpoint_without_its_critic_is_refused(build: Build, content: Any) -> None:
    trainer = build(max_steps=1, save_steps=1)
    trainer.train()
    checkpoint = Path(trainer.args.output_dir) / "checkpoint-1"
    file = checkpoint / "value_head.pt"
    file.unlink()
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        torch.save(content, file)
    again = build(max_steps=2)
    with pytest.raises(CheckpointError, match=r"value_head\.pt cannot be gone on from"):
        again.train(resume_from_checkpoint=str(checkpoint))


def explained(values: list[float], returns: list[float], mask: list[int]) -> float:
    with quiet_imports():
        from training.ppo_trainer import explained_variance
    rows = (torch.tensor([row]) for row in (values, returns, mask))
    return explained_variance(*rows)


@pytest.mark.parametrize(
    ("values", "returns", "mask", "expected"),
    [
        pytest.param([0.25, 0.75, 9.0], [0.0, 1.0, 5.0], [1, 1, 0], 0.75, id="most"),
        pytest.param([0.0, 1.0], [0.0, 1.0], [1, 1], 1.0, id="all"),
        pytest.param([0.5, 0.5], [0.0, 1.0], [1, 1], 0.0, id="the-mean"),
        pytest.param([1.0, 0.0], [0.0, 1.0], [1, 1], -3.0, id="worse-than-the-mean"),
    ],
)
def test_explained_variance_is_the_foreseen_share(
    values: list[float], returns: list[float], mask: list[int], expected: float
) -> None:
    assert explained(values, returns, mask) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("returns", "mask"),
    [
        pytest.param([0.5, 0.5], [1, 1], id="equal"),
        pytest.param([0.5, 0.5 + 6e-8], [1, 1], id="equal-but-for-rounding"),
        pytest.param([0.0, 1.0], [0, 0], id="no-token"),
    ],
)
def test_where_nothing_varies_nothing_is_explained(returns: list[float], mask: list[int]) -> None:
    assert math.isnan(explained([0.0, 1.0], returns, mask))
