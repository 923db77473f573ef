"""One verdict beside its gold class: what every metric, check and report here is made from."""

from __future__ import annotations

from dataclasses import dataclass

from contract.labels import Label


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a detector said about one labelled example.

    Attributes:
        id: Unique in its set.
        pair_id: Shared by all responses to one question or text; resampling never cuts through it.
        set_name: The data set that the example is from.
        gold: The class that people, or the construction of the data, gave it.
        verdict: The class that the detector gave; None where its reply was unreadable, which counts
            as wrong everywhere.
        probability: P(hallucination) in [0, 1]; None where the detector gives none.
        justification: The text before the verdict; None where there is none.
        response: The text that was judged.
        knowledge: The texts that the response should rest on; None where there are none.
        question: None where there is none.
    """

    id: str
    pair_id: str
    set_name: str
    gold: Label
    verdict: Label | None
    probability: float | None
    justification: str | None
    response: str
    knowledge: tuple[str, ...] | None = None
    question: str | None = None

    def __post_init__(self) -> None:
        """Refuse a probability that is none: it would spoil every mean in silence."""
        if self.probability is not None and not 0 <= self.probability <= 1:
            raise ValueError(f"{self.set_name}/{self.id}: the probability must be in [0, 1]")

    @property
    def label(self) -> Label:
        """The gold class, under the name that it has in any labelled row."""
        return self.gold

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that a justification may quote: knowledge, question, response."""
        question = () if self.question is None else (self.question,)
        return (*(self.knowledge or ()), *question, self.response)
