"""Which class a justification argues for."""

from __future__ import annotations

import time

import pytest

from contract.labels import Label
from evaluation.justifications import wording

SUPPORTING = """
The knowledge confirms that the pool is 25 metres long.
As the knowledge says, it is 25 m.
The knowledge says "25 metres", as the response does.
The response agrees with the text.
The knowledge says the same.
This is supported by the knowledge.
Nothing in the response contradicts the knowledge.
The response does not contradict the knowledge.
The response doesn\u2019t conflict with any of it.
No part of the response is wrong.
No contradiction.
It is not inconsistent with the passage.
The knowledge does not say who owns it, as the response says.
The knowledge does not mention a date, so the response is right.
It says so in the text.
It's in line with the article.
Everything matches.
The response adds nothing new.
The text leaves no doubt: it is true.
The text is clear, therefore the response is correct.
The response is not a hallucination.
The answer "Paris" is correct.
It is right, in other words: "contradicts" is not what the text does.
"""

OPPOSING = """
The knowledge does not say this.
The knowledge says "25 metres long", not 50 metres.
The knowledge says 25 metres and not 50.
Not 50 metres.
The knowledge contradicts the response.
This is not supported by the knowledge.
The knowledge confirms the place, but does not say the year.
The knowledge supports the date but contradicts the place.
The response says 50 metres, but the knowledge says 25.
The right answer is Paris, while the response says Rome.
Nothing in the knowledge supports it.
It doesn\u2019t match.
This isn't stated anywhere.
The response is wrong: "x" is true.
The year is made up.
The response says something else.
The year is not in the knowledge.
There is no evidence for it.
It cannot be confirmed from the text.
The response is a hallucination.
Neither the date nor the place is mentioned.
The knowledge fails to mention it.
The text never says that.
The response is unsupported.
It states "X", which differs from the knowledge.
The knowledge says otherwise.
The knowledge supports the date, therefore the place is wrong.
THE RESPONSE IS INCORRECT.
"""

NEUTRAL = """
Closest in the knowledge: "The pool is 25 m long." New in the response: "50".
Closest in the knowledge: "It is wrong and contradicts." New in the response: nothing.
No knowledge was given: judged by what is known to be true.
The knowledge says "25 metres". The response says "50 metres".
The pool opened in 1990.
\u77e5\u8bc6\u8bf4\u201c\u957f\u57ce\u201d\u5f88\u957f\u3002
La respuesta es correcta.
1, 2, 3.
"""


def lines(text: str) -> list[str]:
    return text.strip().split("\n")


@pytest.mark.parametrize("text", lines(SUPPORTING))
def test_it_argues_for_correct(text: str) -> None:
    assert wording(text) is Label.CORRECT


@pytest.mark.parametrize("text", lines(OPPOSING))
def test_it_argues_for_a_hallucination(text: str) -> None:
    assert wording(text) is Label.HALLUCINATION


@pytest.mark.parametrize("text", [*lines(NEUTRAL), "", " \n"])
def test_it_argues_for_neither(text: str) -> None:
    assert wording(text) is None


def test_a_negation_does_not_reach_the_next_sentence() -> None:
    assert wording("It is not long. The knowledge confirms it.") is Label.CORRECT


@pytest.mark.parametrize("text", ["not ", "as the ", "not in ", "but it says ", "'a ", "a'"])
def test_a_long_text_costs_no_more_than_its_length(text: str) -> None:
    start = time.process_time()
    wording(text * 50_000)
    assert time.process_time() - start < 5  # 0.1 s on an idle core
