"""Made rows for the tests of training data."""

from __future__ import annotations

from contract.labels import Label
from training.records import Record

POOL = (
    "The Lind Pool was built in 1925 by Ada Berg in Oslo. It is 25 metres long. "
    "Carl Moe opened the Moss Library in 1931."
)


def make_record(
    identity: str = "a-0",
    *,
    pair_id: str | None = None,
    set_name: str = "pools",
    task: str = "qa",
    knowledge: str | tuple[str, ...] | None = POOL,
    question: str | None = "Who built the Lind Pool?",
    response: str = "Ada Berg",
    label: Label = Label.CORRECT,
    treatment: str = "raw",
) -> Record:
    """Return a row; the pair is what stands before the last hyphen of its id."""
    return Record(
        id=identity,
        pair_id=identity.rpartition("-")[0] if pair_id is None else pair_id,
        set_name=set_name,
        task=task,
        knowledge=(knowledge,) if isinstance(knowledge, str) else knowledge,
        question=question,
        response=response,
        label=label,
        treatment=treatment,
    )
