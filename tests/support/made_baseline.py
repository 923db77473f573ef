"""Golden cases, a service's answers to them, and a baseline, all made up."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from support.stub_service import ANSWER

from contract.labels import Label
from contract.manifest import CONTRACT_VERSION, fingerprint
from evaluation.baseline import Baseline, Case, Figures, Speed
from evaluation.identity import ServiceIdentity
from evaluation.noise import Outcome

WRONG, RIGHT = Label.HALLUCINATION, Label.CORRECT
SHA = "ab" * 32


@dataclass(frozen=True)
class MadeCase:
    """A row of the golden set; its response is its id."""

    id: str
    label: Label
    kind: str = "numbers"
    pair_id: str = "p"
    set_name: str = "golden"
    knowledge: tuple[str, ...] | None = ("A fact.",)
    question: str | None = None

    @property
    def response(self) -> str:
        return self.id

    def to_json(self) -> dict[str, Any]:
        """Return a line of a golden set."""
        return {
            "id": self.id,
            "pair_id": self.pair_id,
            "kind": self.kind,
            "language": "en",
            "knowledge": None if self.knowledge is None else list(self.knowledge),
            "question": self.question,
            "response": self.response,
            "label": str(self.label),
            "why": "It is made so.",
        }


CASES = (
    MadeCase("a", WRONG, pair_id="1"),
    MadeCase("b", RIGHT, pair_id="1"),
    MadeCase("c", WRONG, kind="dates", pair_id="2"),
    MadeCase("d", RIGHT, kind="dates", pair_id="2"),
)


def answer(probability: float, justification: str | None = "So.") -> Any:
    """Return a stub's reply with a verdict."""
    label = WRONG if probability >= 0.5 else RIGHT
    changed = {"class": str(label), "probability": probability, "justification": justification}
    return 200, {}, copy.deepcopy(ANSWER) | changed


def make_service(**changes: Any) -> ServiceIdentity:
    """Return a service of these weights under this code's contract."""
    values: dict[str, Any] = {
        "model": "made",
        "revision": "0123abcd",
        "weights_sha256": SHA,
        "contract_version": CONTRACT_VERSION,
        "contract": fingerprint(),
        "temperature": 1.5,
        "threshold": 0.5,
        "engine": "vllm",
        "engine_version": "0.31.0",
        "device": "cpu",
        "dtype": "float32",
        "processor": "Made-up 3000",
        "num_cores": 2,
        "accelerator": None,
    }
    return ServiceIdentity(**(values | changes))


def make_baseline(**service: Any) -> Baseline:
    """Return the baseline of two cases, of which one flips."""
    steady = Outcome(WRONG, 0.9, SHA)
    flipping = Outcome(RIGHT, 0.4, None)
    return Baseline(
        service=make_service(**service),
        golden_sha256="cd" * 32,
        cases=(
            Case("a", steady, steady),
            Case("b", flipping, Outcome(WRONG, 0.6, None)),
        ),
        overall=Figures(2, 1.0, 1.0, 1.0, 1.0, 0.25, 0.0),
        by_kind={"numbers": Figures(2, 1.0, 1.0, 1.0, 1.0, 0.25, 0.0)},
        speed=Speed(8, 12.5, 40.1, 90.25),
    )
