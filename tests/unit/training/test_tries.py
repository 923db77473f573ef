"""Folded sequences give the logits and gradients that each of them gives alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the training libraries")

from training.tries import (  # noqa: E402
    Folded,
    Row,
    Target,
    backbone,
    fold,
    hidden_states,
    predict,
    target_logits,
    visibility,
)

Groups = Sequence[Sequence[Sequence[int]]]

VOCABULARY = 12


def make_model(**options: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        **options,
    )
    # Double precision: what is left of a difference is a fault, not rounding.
    return LlamaForCausalLM(config).double()


@pytest.fixture(scope="module")
def model() -> Any:
    return make_model()


def all_targets(groups: Groups) -> list[Target]:
    return [
        Target(number, sequence, place)
        for number, group in enumerate(groups)
        for sequence, tokens in enumerate(group)
        for place in range(1, len(tokens))
    ]


def plain_logits(model: Any, groups: Groups, targets: Sequence[Target]) -> Any:
    """Return what the model says of each sequence alone."""
    alone = [[model(torch.tensor([tokens])).logits[0] for tokens in group] for group in groups]
    return torch.stack([alone[t.group][t.sequence][t.place - 1] for t in targets]).float()


def loss_and_gradient(model: Any, logits: Any) -> tuple[float, dict[str, Any]]:
    """Return a loss that weighs every logit differently, and its gradients."""
    weights = torch.linspace(-1, 1, logits.numel()).reshape(logits.shape)
    model.zero_grad()
    loss = (logits * weights).sum()
    loss.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return loss.item(), gradients


def assert_equals_plain(model: Any, groups: Groups) -> None:
    targets = all_targets(groups)
    if not targets:
        return
    folded = fold(groups)
    expected, found = plain_logits(model, groups, targets), target_logits(model, folded, targets)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    expected_loss, expected_gradients = loss_and_gradient(model, expected)
    found_loss, found_gradients = loss_and_gradient(model, found)
    assert found_loss == pytest.approx(expected_loss, rel=1e-4, abs=1e-5)
    assert found_gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(found_gradients[name], gradient, rtol=1e-4, atol=1e-5)


@st.composite
def group_lists(draw: st.DrawFn) -> list[list[list[int]]]:
    """Few different tokens, so that beginnings are shared at random, and sometimes one for all."""
    prefix = draw(st.lists(st.integers(0, 2), max_size=6))
    tokens = st.lists(st.integers(0, 2), min_size=1, max_size=7)
    groups = draw(st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=3))
    return [[[*prefix, *tokens] for tokens in group] for group in groups]


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(groups=group_lists())
def test_any_groups_have_the_logits_and_gradients_of_the_plain_computation(
    model: Any, groups: list[list[list[int]]]
) -> None:
    assert_equals_plain(model, groups)


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([[[1, 2, 3, 4]]], id="one-sequence"),
        pytest.param([[[1, 2]], [[2, 1]]], id="no-shared-beginning"),
        pytest.param([[[1] * 60 + [2]], [[1] * 60 + [3, 4]]], id="long-shared-beginning"),
        pytest.param([[[1, 2, 3], [1, 2, 3]], [[1, 2, 3]]], id="all-equal"),
        pytest.param([[[1, 2, 3]], [[1, 2, 3, 4, 5]]], id="one-begins-the-other"),
        pytest.param([[[1, 2], [1, 2, 3], [1, 2, 3, 4]]], id="each-begins-the-next"),
        pytest.param([[[1], [2, 3]], [[4, 5, 6, 7, 8, 9]]], id="of-one-token"),
        pytest.param([[[5, 5, 5, 5, 5], [5, 5, 6, 5, 5]]], id="a-token-again-and-again"),
    ],
)
def test_these_groups_too(model: Any, groups: Groups) -> None:
    assert_equals_plain(model, groups)


def test_an_adapter_is_part_of_it(model: Any) -> None:
    peft = pytest.importorskip("peft", reason="needs the training libraries")
    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    policy = peft.get_peft_model(make_model(), config)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    groups = [[[1, 2, 3, 4], [1, 2, 4]], [[1, 2, 3, 5]]]
    targets = all_targets(groups)
    without = target_logits(model, fold(groups), targets)
    assert not torch.allclose(target_logits(policy, fold(groups), targets), without, atol=0.1)
    assert_equals_plain(policy, groups)
    assert backbone(policy) is policy.base_model.model.model
    assert backbone(model) is model.model


@pytest.mark.parametrize(
    ("groups", "folded"),
    [
        pytest.param(
            [[[1, 2, 3], [1, 2, 4]], [[1, 2, 5]]],
            Folded(
                [1, 2],
                [
                    Row([3, 4], [0, 0], [-1, -1], [[0], [1]]),
                    Row([5], [0], [-1], [[0]]),
                ],
            ),
            id="prefix",
        ),
        pytest.param(
            [[[1, 2, 3], [1, 4]]],
            Folded([1], [Row([2, 3, 4], [0, 1, 0], [-1, 0, -1], [[0, 1], [2]])]),
            id="fork",
        ),
        pytest.param(
            [[[1, 2], [1, 2]]],
            Folded([1], [Row([2], [0], [-1], [[0], [0]])]),
            id="equal-ones-keep-a-token",
        ),
        pytest.param(
            [[[7, 1]], [[8]]],
            Folded([], [Row([7, 1], [0, 1], [-1, 0], [[0, 1]]), Row([8], [0], [-1], [[0]])]),
            id="nothing-shared",
        ),
    ],
)
def test_what_is_shared_is_held_once(groups: Groups, folded: Folded) -> None:
    assert fold(groups) == folded


def test_the_tokens_to_compute_are_counted_once_each() -> None:
    # 2 for all, then 3, 4 and 5.
    assert fold([[[1, 2, 3], [1, 2, 4]], [[1, 2, 5]]]).num_tokens == 5


@pytest.mark.parametrize("groups", [[], [[]], [[[]]], [[[1], []]], [[[1]], []]], ids=str)
def test_an_empty_sequence_or_group_is_refused(groups: Groups) -> None:
    with pytest.raises(ValueError, match="empty sequence or group"):
        fold(groups)


def test_a_token_sees_itself_and_what_stands_before_it_in_its_sequence() -> None:
    (row,) = fold([[[1, 2, 3], [1, 4]]]).rows
    # 2, 3 after 2, and 4 beside them.
    assert visibility(row).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]


def test_equal_places_are_computed_once(model: Any) -> None:
    groups = [[[1, 2, 3, 4], [1, 2, 3, 5]]]
    targets = [Target(0, 0, 3), Target(0, 1, 3), Target(0, 0, 2)]
    found = predict(model, fold(groups), targets)
    assert found.order.tolist() == [0, 0, 1]
    assert found.logits.shape == (2, VOCABULARY)
    assert found.states.shape == (2, 16)
    assert found.logits.dtype == torch.float32


def test_the_first_token_of_a_sequence_has_no_prediction(model: Any) -> None:
    with pytest.raises(ValueError, match="nothing before it"):
        target_logits(model, fold([[[1, 2]]]), [Target(0, 0, 0)])


def test_an_attention_that_would_misread_the_mask_is_refused() -> None:
    """Eager attention adds the mask: a token that is not seen would count one less, not nothing."""
    eager = make_model(attn_implementation="eager")
    with pytest.raises(ValueError, match="need sdpa"):
        hidden_states(eager.model, fold([[[1, 2, 3], [1, 4]]]))
