"""What the service answers, as frozen values. Reading is strict: a broken answer raises.

Members that are not known here are left out, so that the service can add some.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from client.errors import ProtocolError
from contract.calibration import classify
from contract.labels import Label

Evidence = Literal["given", "none"]

# The service rounds the probability to six digits after it has classified.
_ROUNDING = 1e-6


class Members:
    """The members of a JSON object, each read as the one type that it must have.

    Attributes:
        value: The object itself.
    """

    def __init__(self, value: object, name: str = "the answer") -> None:
        """Take an object.

        Raises:
            ProtocolError: It is none. So do all methods.
        """
        if not isinstance(value, dict):
            raise ProtocolError(f"{name} is not a JSON object")
        self.value: dict[str, Any] = value

    def _get(self, name: str, *kinds: type) -> Any:
        value = self.value.get(name)
        # JSON's true is an int in Python.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ProtocolError(f"the answer's {name} is missing or of the wrong type")
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        return str(self._get(name, str))

    def text_or_none(self, name: str) -> str | None:
        """Return a string or null; it must be there."""
        if name in self.value and self.value[name] is None:
            return None
        return self.text(name)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return bool(self._get(name, bool))

    def count(self, name: str) -> int:
        """Return a whole number from 0."""
        value = int(self._get(name, int))
        if value < 0:
            raise ProtocolError(f"the answer's {name} is below 0")
        return value

    def number(self, name: str, high: float = math.inf) -> float:
        """Return a finite number in [0, high]."""
        try:
            value = float(self._get(name, int, float))
        except OverflowError:
            value = math.inf
        if not (math.isfinite(value) and 0 <= value <= high):
            raise ProtocolError(f"the answer's {name} is out of range")
        return value

    def members(self, name: str) -> Members:
        """Return an object."""
        return Members(self._get(name, dict), name)


@dataclass(frozen=True, slots=True)
class Model:
    """What judged; see the API for the members."""

    id: str
    revision: str
    contract: str | None
    engine: str
    trained: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds in the service."""

    queue_ms: float
    inference_ms: float
    total_ms: float


@dataclass(frozen=True, slots=True)
class Classification:
    """A verdict.

    Attributes:
        label: ``class`` on the wire.
        justification: Why; None on the short path, and where the model gave none.
        probability: Of a hallucination, calibrated, in [0, 1].
        threshold: From this probability on the label is a hallucination.
        label_mass: Share of the model's next-token probability on the two labels, in [0, 1].
        evidence: Whether there was knowledge to rest on.
        model: What judged.
        usage: Tokens.
        timings: Milliseconds in the service.
        request_id: To find the request in the service's log.
    """

    label: Label
    justification: str | None
    probability: float
    threshold: float
    label_mass: float
    evidence: Evidence
    model: Model
    usage: Usage
    timings: Timings
    request_id: str

    @classmethod
    def from_json(cls, value: object) -> Classification:
        """Read an answer of ``POST /classify``.

        Raises:
            ProtocolError: A member is missing, of the wrong type or out of range, or the class
                does not follow from the probability.
        """
        answer = Members(value)
        probability, threshold = answer.number("probability", 1), answer.number("threshold", 1)
        model, usage = answer.members("model"), answer.members("usage")
        timings = answer.members("timings_ms")
        return cls(
            label=_label(answer.text("class"), probability, threshold),
            justification=answer.text_or_none("justification"),
            probability=probability,
            threshold=threshold,
            label_mass=answer.number("label_mass", 1),
            evidence=_evidence(answer.text("evidence")),
            model=Model(
                id=model.text("id"),
                revision=model.text("revision"),
                contract=model.text_or_none("contract"),
                engine=model.text("engine"),
                trained=model.flag("trained"),
            ),
            usage=Usage(
                input_tokens=usage.count("input_tokens"),
                output_tokens=usage.count("output_tokens"),
                cached_tokens=usage.count("cached_tokens"),
            ),
            timings=Timings(
                queue_ms=timings.number("queue"),
                inference_ms=timings.number("inference"),
                total_ms=timings.number("total"),
            ),
            request_id=answer.text("request_id"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the answer as it is on the wire."""
        value = asdict(self)
        timings = value.pop("timings")
        value["timings_ms"] = {name.removesuffix("_ms"): ms for name, ms in timings.items()}
        return {"class": str(value.pop("label")), **value}


def _label(word: str, probability: float, threshold: float) -> Label:
    try:
        label = Label(word)
    except ValueError:
        raise ProtocolError("the answer's class is not a known one") from None
    follows = label is classify(probability, threshold)
    if not follows and abs(probability - threshold) > _ROUNDING:
        raise ProtocolError("the answer's class does not follow from its probability")
    return label


def _evidence(word: str) -> Evidence:
    if word == "given":
        return "given"
    if word == "none":
        return "none"
    raise ProtocolError("the answer's evidence is neither given nor none")
