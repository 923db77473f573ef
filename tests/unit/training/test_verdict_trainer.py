"""The trainer over verdicts against TRL's own, on a random model of two layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from support.tiny_trainer import build_trainer, quiet_imports

from contract.labels import Label
from training.judging import generate
from training.metrics_file import read_metrics
from training.tries import fold

# Four groups of four replies: the second and the third teach nothing.
MIXED = [1.0, 0.0, 0.0, -0.5, *[1.0] * 4, *[0.1] * 4, 0.0, 1.0, 1.0, 0.25]
FOUR_GROUPS = {"prompts_per_step": 4, "prompts_per_forward": 4}

Build = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer of TRL says on the Hub that it was built; the variable is read before this."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    with ExitStack() as stack:

        def build(paid: Sequence[float] | None = MIXED, **sections: Any) -> Any:
            trainer = build_trainer(tmp_path, paid, **sections)
            stack.callback(trainer._monitor.close)
            return trainer

        yield build


def draw(trainer: Any) -> dict[str, Any]:
    """Draw and score the replies of the first step."""
    rows = next(iter(trainer.get_train_dataloader()))
    batch: dict[str, Any] = trainer._generate_and_score_completions(rows)
    return batch


def plainly(trainer: Any, name: str, *arguments: Any, **rest: Any) -> Any:
    """Call TRL's own method on the trainer, with TRL's own scoring below it."""
    with quiet_imports():
        from trl import GRPOTrainer
    own = "_get_per_token_logps_and_entropies"
    setattr(trainer, own, getattr(GRPOTrainer, own).__get__(trainer))
    try:
        return getattr(GRPOTrainer, name)(trainer, *arguments, **rest)
    finally:
        delattr(trainer, own)


def gradients(trainer: Any) -> dict[str, torch.Tensor]:
    """Take the gradients of the adapter off its parameters."""
    taken = {
        name: parameter.grad.clone()
        for name, parameter in trainer.model.named_parameters()
        if parameter.requires_grad and parameter.grad is not None
    }
    trainer.model.zero_grad()
    return taken


def assert_same(
    ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], least: float = 1e-3
) -> None:
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
    assert max(float(each.abs().max()) for each in ours.values()) >= least


def move(trainer: Any) -> None:
    """Move the policy away from the one that drew the replies."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            if "lora_B.default" in name:
                parameter += 0.02 * torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_entropies_and_their_gradient_are_those_of_trl(
    build: Build, temperature: float
) -> None:
    trainer = build(rl={**FOUR_GROUPS, "temperature": temperature})
    batch = draw(trainer)
    mask = batch["completion_mask"].bool()
    assert len(set(batch["prompt_mask"].sum(1).tolist())) > 1
    arguments = (
        trainer.model,
        torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
        torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
        mask.shape[1],
    )
    weights = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1)) * mask
    found = []
    for logprobs, entropies, _ in (
        trainer._get_per_token_logps_and_entropies(*arguments, compute_entropy=True),
        plainly(trainer, "_get_per_token_logps_and_entropies", *arguments, compute_entropy=True),
    ):
        (logprobs * weights).sum().backward()
        found.append((logprobs[mask], entropies[mask], gradients(trainer)))
    (ours, our_entropies, our_gradients), (theirs, their_entropies, their_gradients) = found
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    torch.testing.assert_close(our_entropies, their_entropies, rtol=0, atol=1e-4)
    assert_same(our_gradients, their_gradients)


def test_scoring_in_parts_changes_nothing(build: Build) -> None:
    trainer = build(rl=FOUR_GROUPS)
    batch = draw(trainer)
    arguments = (
        trainer.model,
        torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
        torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
        batch["completion_mask"].shape[1],
    )
    with torch.no_grad():
        whole = trainer._get_per_token_logps_and_entropies(*arguments)[0]
        # Six rows end in the middle of a group.
        parts = trainer._get_per_token_logps_and_entropies(*arguments, batch_size=6)[0]
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "rl",
    [
        pytest.param({"algorithm": "reinforce"}, id="reinforce"),
        pytest.param({"algorithm": "grpo"}, id="grpo"),
        pytest.param({"algorithm": "grpo", "num_iterations": 2}, id="grpo-off-policy"),
        pytest.param({"algorithm": "grpo", "beta": 0.1}, id="grpo-with-divergence"),
        pytest.param({"algorithm": "dr_grpo", "num_iterations": 2}, id="dr_grpo-off-policy"),
        pytest.param({"algorithm": "gspo", "num_iterations": 2}, id="gspo-off-policy"),
        pytest.param(
            {"algorithm": "gspo", "num_iterations": 2, "epsilon": 0.2, "epsilon_high": 0.2},
            id="gspo-unclipped",
        ),
    ],
)
def test_loss_and_gradient_are_those_of_trl_though_flat_groups_are_left_out(
    build: Build, rl: dict[str, Any]
) -> None:
    trainer = build(rl=FOUR_GROUPS | rl)
    batch = draw(trainer)
    assert ("old_per_token_logps" in batch) is ("num_iterations" in rl)
    if "num_iterations" in rl or "beta" in rl:
        move(trainer)
    found = []
    for loss in (
        trainer._compute_loss(trainer.model, batch),
        plainly(trainer, "_compute_loss", trainer.model, batch),
    ):
        loss.backward()
        found.append((loss.detach(), gradients(trainer)))
    (ours, our_gradients), (theirs, their_gradients) = found
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    # Where the policy has gone further than GSPO lets a ratio go, nothing may be left.
    is_clipped = rl == {"algorithm": "gspo", "num_iterations": 2}
    assert_same(our_gradients, their_gradients, least=0.0 if is_clipped else 1e-3)


def test_flat_groups_cost_no_forward_pass(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    from training import verdict_trainer

    trainer = build(rl=FOUR_GROUPS)
    batch = draw(trainer)
    seen: list[int] = []

    def count(groups: Sequence[Sequence[Sequence[int]]]) -> Any:
        seen.append(sum(map(len, groups)))
        return fold(groups)

    monkeypatch.setattr(verdict_trainer, "fold", count)
    trainer._compute_loss(trainer.model, batch)
    assert seen == [8]


def test_a_step_in_which_nothing_teaches_has_a_gradient_of_zero(build: Build) -> None:
    trainer = build(paid=[0.1] * 16, rl=FOUR_GROUPS | {"num_iterations": 2})
    batch = draw(trainer)
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    assert loss.item() == 0.0
    found = gradients(trainer)
    trainable = [n for n, p in trainer.model.named_parameters() if p.requires_grad]
    assert sorted(found) == sorted(trainable)
    assert all(not gradient.any() for gradient in found.values())
    # No token was scored, so there is no entropy to log.
    logged: dict[str, float] = {}
    trainer.log(logged)
    assert logged["entropy"] is None


def test_advantages_of_equal_rewards_are_exactly_zero(build: Build) -> None:
    """The mean of eight times 0.1 is not 0.1 in float32: TRL's advantage is 7.5e-05 there."""
    trainer = build(paid=[0.1] * 8 + [1.0] + [0.0] * 7, rl={"num_generations": 8})
    advantages = draw(trainer)["advantages"]
    assert advantages[:8].tolist() == [0.0] * 8
    assert advantages[8:10].tolist() == pytest.approx([2.4742, -0.3535], abs=1e-4)


@pytest.mark.parametrize(
    ("algorithm", "correct_class", "hallucinations"),
    [
        pytest.param("grpo", [0.43301, -0.43301], [0.86603, -0.86603], id="grpo"),
        pytest.param("gspo", [0.43301, -0.43301], [0.86603, -0.86603], id="gspo"),
        # The reward holds the scale there.
        pytest.param("dr_grpo", [0.5, -0.5], [0.5, -0.5], id="dr_grpo"),
        pytest.param("reinforce", [0.5, -0.5], [0.5, -0.5], id="reinforce"),
    ],
)
def test_the_scale_of_a_class_acts_where_the_deviation_would_undo_it(
    build: Build, algorithm: str, correct_class: list[float], hallucinations: list[float]
) -> None:
    trainer = build(
        paid=[1.0, 0.0, 1.0, 0.0] * 2,
        rl={"algorithm": algorithm},
        rewards={"correct_class_scale": 0.5},
    )
    assert [row["gold"] for row in trainer.train_dataset][:2] == [
        Label.CORRECT,
        Label.HALLUCINATION,
    ]
    advantages = draw(trainer)["advantages"].tolist()
    assert advantages[:2] == pytest.approx(correct_class, abs=2e-4)
    assert advantages[4:6] == pytest.approx(hallucinations, abs=2e-4)


def tokenize(trainer: Any, num_prompts: int) -> list[list[int]]:
    rows = list(trainer.train_dataset)[:num_prompts]
    prompts: list[list[int]] = trainer._tokenize_prompts([row["prompt"] for row in rows])[0]
    assert len({len(prompt) for prompt in prompts}) > 1
    return prompts


def test_greedy_replies_are_those_of_judging(build: Build) -> None:
    trainer = build(rl={"temperature": 1e-4, "num_generations": 2, "max_completion_tokens": 24})
    prompts = tokenize(trainer, 6)
    twice = [prompt for prompt in prompts for _ in range(2)]
    drawn, _ = trainer._generate_single_turn(twice, None, {}, 2)
    trainer.model.eval()
    expected = [reply.tokens for reply in generate(trainer.model, trainer._codec, prompts, 24)]
    end = trainer._tokenizer.eos_token_id
    assert [reply[:-1] if reply[-1] == end else reply for reply in drawn[::2]] == expected
    assert drawn[::2] == drawn[1::2]


def test_replies_end_where_trl_ends_them(build: Build) -> None:
    trainer = build(rl={"num_generations": 4, "max_completion_tokens": 24})
    # A random model says none of them often.
    ends = list(range(100, 120))
    trainer.eos_token_ids = trainer.generation_config.eos_token_id = ends
    prompts = [prompt for prompt in tokenize(trainer, 6) for _ in range(4)]
    torch.manual_seed(1)
    replies, _ = trainer._generate_single_turn(prompts, None, {}, 4)
    assert trainer.model.training
    assert 0 < sum(reply[-1] in ends for reply in replies) < len(replies)
    assert not any(set(reply[:-1]) & set(ends) for reply in replies)
    assert all(len(reply) == 24 for reply in replies if reply[-1] not in ends)


def test_a_reply_is_paid_for_its_verdict_only_if_it_ended(build: Build) -> None:
    trainer = build(paid=None)
    codec = trainer._codec
    right = codec.reply("Ada Berg built it.", Label.CORRECT).tokens
    assert right[-1] == trainer._tokenizer.eos_token_id
    paid = trainer.verdict(
        completion_ids=[right, right[:-1], right, [*right[:3], right[-1]]],
        record=["a"] * 4,
        gold=[Label.CORRECT, Label.CORRECT, Label.HALLUCINATION, Label.CORRECT],
        texts=[["In 1900."]] * 4,
    )
    assert paid == [1.0, -0.5, 0.0, -0.5]


def test_groups_stay_whole_in_each_forward_pass(build: Build) -> None:
    trainer = build(rl={"prompts_per_step": 4, "prompts_per_forward": 2})
    rows = next(iter(trainer.get_train_dataloader()))
    for _ in range(2):
        part = trainer._prepare_inputs(rows)
        prompts = [tuple(ids) for ids in part["prompt_ids"].tolist()]
        assert len(prompts) == 8
        assert len(set(prompts[:4])) == len(set(prompts[4:])) == 1
        assert prompts[0] != prompts[4]
        trainer._step += 1


def train(trainer: Any) -> dict[str, torch.Tensor]:
    trainer.train()
    return {n: p.detach().clone() for n, p in trainer.model.named_parameters() if "lora" in n}


@pytest.fixture(params=["grpo", "ppo"])
def algorithm(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_an_update_is_the_same_in_one_forward_pass_and_in_four(
    build: Build, tmp_path: Path, algorithm: str
) -> None:
    found = []
    for prompts_per_forward in (4, 1):
        rl = {
            "algorithm": algorithm,
            "prompts_per_step": 4,
            "prompts_per_forward": prompts_per_forward,
            "max_steps": 1,
        }
        found.append(train(build(rl=rl)))
    for name, whole in found[0].items():
        torch.testing.assert_close(found[1][name], whole, rtol=0, atol=2e-5, msg=name)


def test_every_step_holds_both_classes_and_its_times(build: Build, tmp_path: Path) -> None:
    train(build(paid=None, rl={"max_steps": 4}))
    rows = read_metrics(tmp_path / "stage" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert row["gold_hallucination_share"] == 0.5
        assert row["num_rollouts"] == 8
        assert row["rollout_s"] > 0
        assert row["score_s"] > 0
        assert row["step_s"] > row["rollout_s"] + row["score_s"]


def test_replies_serve_as_many_updates_as_asked_for(build: Build) -> None:
    trainer = build(rl={"num_iterations": 2, "max_steps": 4})
    drawn: list[int] = []
    draw_replies = trainer._generate_single_turn

    def count(*arguments: Any) -> Any:
        drawn.append(trainer.state.global_step)
        return draw_replies(*arguments)

    trainer._generate_single_turn = count
    train(trainer)
    assert drawn == [0, 2]


def adapter(trainer: Any, name: str) -> dict[str, torch.Tensor]:
    """Return the weights of an adapter, by the places where they act."""
    return {
        place.replace(f".{name}.", "."): parameter.detach().clone()
        for place, parameter in trainer.model.named_parameters()
        if f".{name}." in place
    }


def test_a_resumed_run_stays_near_the_policy_that_it_began_with(
    build: Build, tmp_path: Path
) -> None:
    """Not near that of the checkpoint, which has gone some way already."""
    rl = {"beta": 0.1, "max_steps": 2, "save_steps": 1}
    whole = build(rl=rl)
    start = adapter(whole, "default")
    train(whole)
    again = build(rl=rl)
    again.train(resume_from_checkpoint=str(tmp_path / "stage" / "checkpoint-1"))
    for place, weights in start.items():
        assert torch.equal(adapter(again, "ref")[place], weights)
        torch.testing.assert_close(
            adapter(again, "default")[place], adapter(whole, "default")[place], msg=place
        )
    assert any(not torch.equal(adapter(again, "default")[p], start[p]) for p in start)
    rows = read_metrics(tmp_path / "stage" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert (rows[1]["kl"] or 0) > 0


@pytest.mark.parametrize(("seed", "expected"), [(None, 1), (9, 9), (0, 0)])
def test_the_sampling_has_a_seed_of_its_own_where_one_is_set(
    build: Build, seed: int | None, expected: int
) -> None:
    assert build(rl={"seed": seed}).args.seed == expected
