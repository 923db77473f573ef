"""From the two labels' log-probabilities to a calibrated probability and a class."""

from __future__ import annotations

import math
from dataclasses import dataclass

from contract.labels import Label


@dataclass(frozen=True, slots=True)
class LabelLogprobs:
    """Natural log-probabilities of the labels' first tokens, over the whole vocabulary.

    Attributes:
        hallucination: At most 0.
        correct: At most 0.
    """

    hallucination: float
    correct: float

    @property
    def mass(self) -> float:
        """Share of the vocabulary's probability that the two labels hold, in [0, 1].

        Near 1, the model was about to give a verdict; near 0, it was about to say something else.
        """
        return min(1.0, math.exp(self.hallucination) + math.exp(self.correct))

    @property
    def chosen(self) -> Label:
        """The likelier label; a tie is a hallucination."""
        return Label.HALLUCINATION if self.hallucination >= self.correct else Label.CORRECT


@dataclass(frozen=True, slots=True)
class Calibration:
    """Temperature scaling (Guo et al. 2017, arXiv 1706.04599) and the decision threshold.

    Attributes:
        temperature: Above 0; 1 leaves the model's own odds. Fitted on held-out data.
        threshold: In [0, 1]; a response is a hallucination from this probability on.
    """

    temperature: float = 1.0
    threshold: float = 0.5

    def __post_init__(self) -> None:
        """Refuse values that would make every probability meaningless."""
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError("temperature must be a finite number above 0")
        if not 0 <= self.threshold <= 1:
            raise ValueError("threshold must be in [0, 1]")

    def probability(self, logprobs: LabelLogprobs) -> float:
        """Return P(hallucination) in [0, 1]: the sigmoid of the log-odds over the temperature.

        Example:
            >>> logprobs = LabelLogprobs(hallucination=math.log(0.6), correct=math.log(0.2))
            >>> round(Calibration().probability(logprobs), 3)
            0.75
        """
        log_odds = (logprobs.hallucination - logprobs.correct) / self.temperature
        if log_odds >= 0:
            return 1.0 / (1.0 + math.exp(-log_odds))
        odds = math.exp(log_odds)
        return odds / (1.0 + odds)


def classify(probability: float, threshold: float) -> Label:
    """Return the class: a hallucination where ``probability >= threshold``."""
    return Label.HALLUCINATION if probability >= threshold else Label.CORRECT
