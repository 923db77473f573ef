"""Training and serving see the same tokens and say the same: transformers beside the engine."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.service_process import ServiceProcess, service_process

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from contract.calibration import Calibration, LabelLogprobs, classify  # noqa: E402
from contract.example import Example  # noqa: E402
from contract.labels import Label  # noqa: E402
from contract.prompt import OUTPUT_BUDGET_TOKENS, render  # noqa: E402
from service.engine.vllm import VllmEngine  # noqa: E402
from service.settings import Settings  # noqa: E402
from service.weights import Weights, resolve_weights  # noqa: E402
from training.comparison import PROBES  # noqa: E402
from training.judging import Judgement, judge  # noqa: E402
from training.models import Codec, load_tokenizer  # noqa: E402
from training.records import Record  # noqa: E402

pytestmark = pytest.mark.engine

TESTS = Path(__file__).parents[1]
NUM_EXAMPLES = 50
MIN_CLASS_AGREEMENT = 0.96
# The engine sums in another order, in float32: about 1e-5 of a log-probability.
ROUNDING = 1e-3
# Where two tokens are as likely, rounding decides, and the rest of the reply is another.
MIN_EQUAL_JUSTIFICATIONS = 0.9


def hard_cases() -> list[Example]:
    text = (TESTS / "cases" / "hard_cases.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return [Example((row["knowledge"],), row["question"], row["response"]) for row in rows]


def golden_examples() -> list[Example]:
    """Return what the pinned prompts ask about: several texts, none, scripts, hostile ones."""
    golden = json.loads((TESTS / "golden" / "prompts.json").read_text(encoding="utf-8"))
    examples = []
    for messages in golden["messages"].values():
        fields: dict[str, list[str]] = {"knowledge": [], "question": [], "response": []}
        pattern = r"<(knowledge|question|response)>\n(.*?)\n</\1>"
        for tag, text in re.findall(pattern, messages[1]["content"], re.DOTALL):
            fields[tag].append(text)
        example = Example(
            tuple(fields["knowledge"]) or None,
            next(iter(fields["question"]), None),
            fields["response"][0],
        )
        assert render(example) == messages
        examples.append(example)
    return examples


def make_records() -> list[Record]:
    examples = [*hard_cases(), *golden_examples(), *(probe.example for probe in PROBES)]
    return [
        Record(
            id=str(number),
            pair_id=str(number),
            set_name="train-serve",
            task="general",
            knowledge=example.knowledge,
            question=example.question,
            response=example.response,
            label=Label.CORRECT,
        )
        for number, example in enumerate(examples[:NUM_EXAMPLES])
    ]


@dataclass(frozen=True)
class Both:
    """What was said on either side, in the order of the records.

    Attributes:
        records: What was asked.
        judgements: Of training's code, in full precision.
        answers: Of the running service.
        calibration: Of the weights.
        codec: Training's.
    """

    records: list[Record]
    judgements: list[Judgement]
    answers: list[httpx.Response]
    calibration: Calibration
    codec: Codec

    def training_class(self, number: int) -> Label:
        return classify(self.training_probability(number), self.calibration.threshold)

    def training_probability(self, number: int) -> float:
        odds = self.judgements[number].log_odds
        return self.calibration.probability(LabelLogprobs(odds, 0.0))


@pytest.fixture(scope="module")
def weights() -> Weights:
    return resolve_weights(Settings(), lambda text: None)


@pytest.fixture(scope="module")
def codec(weights: Weights) -> Codec:
    return Codec(load_tokenizer(weights.folder))


@pytest.fixture(scope="module")
def both(weights: Weights, codec: Codec, tmp_path_factory: pytest.TempPathFactory) -> Both:
    from transformers import AutoModelForCausalLM

    records = make_records()
    with service_process(tmp_path_factory.mktemp("train-serve")) as service:
        # The engine loads meanwhile.
        model = AutoModelForCausalLM.from_pretrained(weights.folder, dtype=torch.float32)
        judgements = judge(model, codec, records, OUTPUT_BUDGET_TOKENS, NUM_EXAMPLES)
        del model
        service.wait_ready()
        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda record: ask(service, record), records))
    calibration = weights.manifest.calibration if weights.manifest else Calibration()
    return Both(records, judgements, answers, calibration, codec)


def ask(service: ServiceProcess, record: Record) -> httpx.Response:
    fields: dict[str, Any] = {
        "knowledge": None if record.knowledge is None else list(record.knowledge),
        "question": record.question,
        "response": record.response,
    }
    body = {name: value for name, value in fields.items() if value is not None}
    return service.http.post("/classify", json=body)


def test_the_examples_are_fifty_different_ones() -> None:
    records = make_records()
    assert len({record.example for record in records}) == NUM_EXAMPLES
    assert any(record.knowledge is None for record in records)
    assert any(len(record.knowledge or ()) > 1 for record in records)


def test_the_service_gives_its_engine_the_tokens_of_training(
    weights: Weights, codec: Codec
) -> None:
    from transformers import AutoTokenizer

    engine = VllmEngine(Settings(), "cpu")
    # What ``start`` takes from vLLM, which loads it from the same folder.
    engine._tokenizer = AutoTokenizer.from_pretrained(weights.folder)
    for example in [*(record.example for record in make_records()), *golden_examples()]:
        prompt = asyncio.run(engine.encode(render(example)))
        assert list(prompt.token_ids) == codec.prompt(example)
    recorded = weights.manifest.label_token_ids if weights.manifest else codec.label_token_ids
    assert dict(recorded) == codec.label_token_ids


def test_the_running_service_counts_as_many_tokens(both: Both) -> None:
    answered = 0
    for record, answer in zip(both.records, both.answers, strict=True):
        if answer.status_code == httpx.codes.OK:
            answered += 1
            num_tokens = len(both.codec.prompt(record.example))
            assert answer.json()["usage"]["input_tokens"] == num_tokens
    assert answered >= 0.9 * NUM_EXAMPLES


def test_replies_and_verdicts_of_both_agree(both: Both) -> None:
    compared = equal_texts = equal_classes = 0
    changes = []
    for number, answer in enumerate(both.answers):
        if answer.status_code != httpx.codes.OK:
            # No verdict could be read: the one answer that has no class to compare.
            assert answer.status_code == httpx.codes.BAD_GATEWAY, answer.text
            continue
        said = answer.json()
        compared += 1
        equal_classes += said["class"] == both.training_class(number)
        if said["justification"] == both.judgements[number].justification:
            equal_texts += 1
            changes.append(abs(said["probability"] - both.training_probability(number)))
    print(
        f"{compared} of {NUM_EXAMPLES} answered: "
        f"equal justifications {equal_texts / compared:.0%}, "
        f"equal classes {equal_classes / compared:.0%}, "
        f"largest change of a probability {max(changes):.1e}"
    )
    assert equal_texts / compared >= MIN_EQUAL_JUSTIFICATIONS
    assert equal_classes / compared >= MIN_CLASS_AGREEMENT
    assert max(changes) <= ROUNDING
