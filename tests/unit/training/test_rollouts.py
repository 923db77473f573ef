"""Replies that are drawn together against plain transformers, on a random model of two layers."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from support.tiny_model import write_tiny_model

from training.rollouts import Drawn, choose, draw

PROMPTS = [[5, 6, 7, 8, 9], [11], [20 + i for i in range(40)], [5, 6, 7]]
# A random model says none of them often.
ENDS = range(100, 130)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import LlamaForCausalLM

    folder = write_tiny_model(tmp_path_factory.mktemp("model"))
    return LlamaForCausalLM.from_pretrained(folder).eval()


def score(model: Any, prompt: list[int], reply: list[int], temperature: float) -> list[float]:
    """Return the log-probabilities of a reply's tokens, one plain forward pass for it alone."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
    logprobs = (logits / temperature).log_softmax(-1)
    values: list[float] = logprobs.gather(1, torch.tensor(reply)[:, None])[:, 0].tolist()
    return values


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("end_ids", [(), ENDS], ids=["none-ends", "some-end"])
def test_a_reply_is_drawn_from_what_the_model_says_after_its_own_prompt(
    model: Any, temperature: float, end_ids: Any
) -> None:
    torch.manual_seed(1)
    replies = draw(model, PROMPTS, 6, 16, end_ids, temperature)
    assert len(replies) == 24
    for i, reply in enumerate(replies):
        expected = score(model, PROMPTS[i // 6], reply.tokens, temperature)
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_tokens_come_as_often_as_they_are_likely(model: Any, temperature: float) -> None:
    num_replies = 20_000
    torch.manual_seed(3)
    replies = draw(model, PROMPTS[:2], num_replies, 1, (), temperature)
    for prompt, first in zip(PROMPTS[:2], (0, num_replies), strict=True):
        counts = Counter(reply.tokens[0] for reply in replies[first : first + num_replies])
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0, -1]
        probabilities = (logits / temperature).softmax(-1)
        for token, probability in enumerate(probabilities.tolist()):
            # Five standard deviations, which of 2000 tokens one passes every thousandth time.
            error = 5 * math.sqrt(num_replies * probability) + 1
            assert abs(counts[token] - num_replies * probability) < error
        assert len(counts) > 20


def test_a_token_without_probability_is_never_drawn() -> None:
    logprobs = torch.full((5000, 5), -math.inf)
    logprobs[:, 1] = math.log(0.25)
    logprobs[:, 3] = math.log(0.75)
    torch.manual_seed(1)
    chosen = choose(logprobs)
    counts = Counter(chosen.tokens.tolist())
    assert counts.keys() == {1, 3}
    assert counts[1] == pytest.approx(1250, abs=5 * math.sqrt(5000 * 0.25 * 0.75))
    expected = [logprobs[0, token].item() for token in chosen.tokens]
    assert chosen.logprobs.tolist() == expected


def test_a_cold_policy_says_the_same_every_time(model: Any) -> None:
    replies = draw(model, PROMPTS, 2, 8, (), temperature=1e-4)
    assert [reply.tokens for reply in replies[::2]] == [reply.tokens for reply in replies[1::2]]
    assert len({tuple(reply.tokens) for reply in replies}) == 4


def test_a_reply_goes_to_its_end_or_to_the_limit(model: Any) -> None:
    torch.manual_seed(1)
    replies = draw(model, PROMPTS, 6, 16, ENDS)
    ended = [reply for reply in replies if reply.tokens[-1] in ENDS]
    assert 0 < len(ended) < len(replies)
    assert len({len(reply.tokens) for reply in ended}) > 2
    for reply in replies:
        assert not set(reply.tokens[:-1]) & set(ENDS)
        assert len(reply.tokens) == len(reply.logprobs)
        assert len(reply.tokens) == 16 or reply in ended


def watch(model: Any, end_ids: Any, max_tokens: int) -> tuple[list[Drawn], list[list[int]]]:
    """Draw six replies to each prompt; return them and the shape of each step's tokens."""
    shapes: list[list[int]] = []

    def note(_: Any, __: Any, arguments: dict[str, Any], ___: Any) -> None:
        shapes.append(list(arguments["input_ids"].shape))

    hook = model.model.register_forward_hook(note, with_kwargs=True)
    torch.manual_seed(1)
    try:
        return draw(model, PROMPTS, 6, max_tokens, end_ids), shapes
    finally:
        hook.remove()


def test_what_has_ended_costs_nothing_more(model: Any) -> None:
    replies, shapes = watch(model, ENDS, 64)
    # The prompts once, then a token of each reply; never more than the longest row still needs.
    assert shapes[0] == [4, 40]
    for step, (rows, slots) in enumerate(shapes[1:], 1):
        rest = [
            sum(len(reply.tokens) > step for reply in replies[i : i + 6]) for i in range(0, 24, 6)
        ]
        assert (rows, slots) == (4, max(rest))
    assert len(shapes) == max(len(reply.tokens) for reply in replies)
    assert shapes[-1][1] < 6


def test_a_single_token_needs_the_prompts_alone(model: Any) -> None:
    replies, shapes = watch(model, (), 1)
    assert [len(reply.tokens) for reply in replies] == [1] * 24
    assert shapes == [[4, 40]]


def test_it_stops_when_every_reply_has_ended(model: Any) -> None:
    replies, shapes = watch(model, range(1000), 16)
    assert [len(reply.tokens) for reply in replies] == [1] * 24
    assert len(shapes) == 1
