"""Made texts: plain English about swimming pools, of any length, never the same twice.

Facts stand in the first sentence, so that a response can be right or wrong; the rest is filler that
a tokeniser cuts about as it cuts ordinary prose.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_SUBJECTS = (
    "The town", "A former mayor", "The swimming club", "An engineer", "The local paper",
    "The school nearby", "A group of neighbours", "The council", "The lifeguard", "A visitor",
)  # fmt: skip
_VERBS = (
    "described", "repaired", "paid for", "measured", "painted", "closed", "reopened", "praised",
    "photographed", "argued about",
)  # fmt: skip
_OBJECTS = (
    "the diving board", "the northern entrance", "the changing rooms", "the old boiler house",
    "the wooden stands", "the lawn beside the water", "the ticket office", "the children's basin",
    "the roof", "the clock above the gate",
)  # fmt: skip
_TIMES = (
    "in the spring", "after the war", "before the harvest", "during a long winter", "last summer",
    "in the year of the flood", "on a Sunday", "within three weeks", "for the second time",
    "at night",
)  # fmt: skip
_REASONS = (
    "because the water had become too cold", "although nobody had asked for it",
    "while the street was being widened", "and wrote a letter to the county",
    "as the insurance required", "until the money ran out", "so that races could be held again",
    "without telling the caretaker",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Length:
    """A log-normal distribution of lengths in words, cut at both ends.

    Lengths of texts are skewed to the right: many are near the median, few are very long.

    Attributes:
        median_words: Of the distribution before it is cut.
        sigma: Standard deviation of the logarithm; 0.5 means that two of three texts lie between
            0.6 and 1.65 times the median.
        low_words: Shorter ones become so long.
        high_words: Longer ones become so short.
    """

    median_words: int
    sigma: float
    low_words: int
    high_words: int

    def draw(self, rng: random.Random) -> int:
        """Return one length in words, in [low_words, high_words]."""
        words = rng.lognormvariate(math.log(self.median_words), self.sigma)
        return min(self.high_words, max(self.low_words, round(words)))


def passage(number: int, metres: int, num_words: int, rng: random.Random) -> str:
    """Return a passage about pool ``number``, which is ``metres`` long.

    Args:
        number: Of the pool.
        metres: Its length.
        num_words: At least so many words, and fewer than 20 more.
        rng: Where the filler comes from.
    """
    sentences = [f"Pool {number} is {metres} metres long and has {rng.randint(4, 10)} lanes."]
    count = len(sentences[0].split())
    while count < num_words:
        sentence = (
            f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)} "
            f"{rng.choice(_TIMES)} {rng.choice(_REASONS)}."
        )
        sentences.append(sentence)
        count += len(sentence.split())
    return " ".join(sentences)
