"""The wire: what a request may hold and what an answer holds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from contract.errors import TextError
from contract.example import Example, normalise_text
from contract.labels import Label
from contract.reference import Reference
from service.detector import Classification, Evidence

TEXT_FAULTS: LiteralString = "text_faults"
"""Type of the validation error whose context holds (place in the field, fault) pairs."""

MAX_DOCUMENTS = 10_000
"""Texts that `knowledge` may have: fenced, this many cannot fit any model. Each costs time."""

_Text = Annotated[str, Field(min_length=1)]

_EXAMPLE: dict[str, Any] = {
    "knowledge": "The pool is 25 metres long and was opened in 1974.",
    "question": "How long is the pool?",
    "response": "The pool is 50 metres long.",
}


class ClassifyRequest(BaseModel):
    """One response to judge."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [_EXAMPLE]},
    )

    response: _Text
    """The text to judge."""
    question: _Text | None = None
    """The question that the response answers."""
    knowledge: (
        _Text | Annotated[list[_Text], Field(min_length=1, max_length=MAX_DOCUMENTS)] | None
    ) = None
    """What the response should rest on: one text, or several documents. Leave it out to judge
    without; blank knowledge is refused."""
    justification: bool = True
    """False takes the short path: class and probability from one token."""
    threshold: float | None = Field(default=None, ge=0, le=1)
    """Probability from which a response counts as a hallucination; by default the one that came
    with the weights."""

    @field_validator("response", "question", "knowledge", mode="before")
    @classmethod
    def _check_texts(cls, value: object, info: ValidationInfo) -> object:
        if value is None and info.field_name != "response":
            return None
        if isinstance(value, list) and info.field_name == "knowledge":
            if len(value) > MAX_DOCUMENTS:
                excess = f"has {len(value)} documents, the limit is {MAX_DOCUMENTS}"
                raise PydanticCustomError(
                    TEXT_FAULTS, "see the context", {"faults": [("", excess)]}
                )
            texts = {f"[{i}]": text for i, text in enumerate(value)}
        else:
            texts = {"": value}
        faults = [(place, fault) for place, text in texts.items() if (fault := text_fault(text))]
        if not texts:
            faults = [("", "must not be an empty list: leave the field out")]
        if faults:
            raise PydanticCustomError(TEXT_FAULTS, "see the context", {"faults": faults})
        return value

    def to_example(self) -> Example:
        """Return what the contract judges."""
        knowledge = (self.knowledge,) if isinstance(self.knowledge, str) else self.knowledge
        return Example(
            None if knowledge is None else tuple(knowledge), self.question, self.response
        )


def text_fault(value: object) -> str | None:
    """Return what keeps a value from being judged as text, None where nothing does."""
    if not isinstance(value, str):
        return f"must be a string, got {json_kind(value)}"
    try:
        normalise_text(value, "text")
    except TextError as error:
        return error.reason
    return None


def json_kind(value: object) -> str:
    """Return what JSON calls a value: ``null``, ``a number``, ..."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


class BatchRequest(BaseModel):
    """Several responses to judge; every item gets an answer of its own."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [{"items": [_EXAMPLE, {**_EXAMPLE, "response": "25 metres"}]}]
        },
    )

    items: list[ClassifyRequest] = Field(min_length=1)
    """Judged and answered in this order."""


class Model(BaseModel):
    """What judged."""

    id: str
    revision: str
    contract: str | None = Field(
        description="Fingerprint of the contract that the weights were made for; null where they "
        "carry none."
    )
    engine: str
    trained: bool = Field(description="False where the weights are the base model's own.")


class Usage(BaseModel):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int


class Timings(BaseModel):
    """Milliseconds."""

    queue: float
    inference: float
    total: float


class ClassifyResponse(BaseModel):
    """A verdict."""

    model_config = ConfigDict(serialize_by_alias=True)

    label: Label = Field(serialization_alias="class")
    justification: str | None = Field(
        description="Why; null on the short path, and where the model gave none."
    )
    probability: float = Field(ge=0, le=1, description="Of a hallucination, calibrated.")
    threshold: float = Field(ge=0, le=1)
    label_mass: float = Field(
        ge=0,
        le=1,
        description="Share of the model's next-token probability on the two labels; low where it "
        "was about to say something else.",
    )
    evidence: Evidence
    model: Model
    usage: Usage
    timings_ms: Timings
    request_id: str

    @classmethod
    def build(
        cls, verdict: Classification, model: Model, total_s: float, request_id: str
    ) -> ClassifyResponse:
        """Return the answer for a verdict."""
        return cls(
            label=verdict.label,
            justification=verdict.justification,
            probability=round(verdict.probability, 6),
            threshold=verdict.threshold,
            label_mass=round(verdict.label_mass, 6),
            evidence=verdict.evidence,
            model=model,
            usage=Usage(
                input_tokens=verdict.num_input_tokens,
                output_tokens=verdict.num_output_tokens,
                cached_tokens=verdict.num_cached_tokens,
            ),
            timings_ms=Timings(
                queue=_ms(verdict.queue_s), inference=_ms(verdict.inference_s), total=_ms(total_s)
            ),
            request_id=request_id,
        )


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)


class FaultItem(BaseModel):
    """One fault of a request."""

    field: str
    message: str


class Problem(BaseModel):
    """An error, after RFC 9457. It never holds the caller's text."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[FaultItem] | None = None
    num_tokens: int | None = None
    limit_tokens: int | None = None
    retry_after_s: int | None = None


class BatchItem(BaseModel):
    """The answer to one item: a result or a problem."""

    result: ClassifyResponse | None = None
    problem: Problem | None = None


class BatchResponse(BaseModel):
    """The answers, in the order of the items."""

    results: list[BatchItem]
    request_id: str


class Liveness(BaseModel):
    """Whether the process should go on."""

    status: Literal["live"]


class Readiness(BaseModel):
    """Whether requests are taken."""

    status: Literal["ready"]


class Hardware(BaseModel):
    """What the service computes on."""

    processor: str = Field(description="Its model name.")
    num_cores: int = Field(ge=1, description="That the service may use.")
    accelerator: str | None = Field(description="The GPU's name; null where there is none.")


class JustificationChars(BaseModel):
    """How long justifications are, in Unicode code points."""

    p10: float
    p50: float
    p90: float


class ReferenceInfo(BaseModel):
    """What live drift is measured against: the verdicts of an evaluation of these weights."""

    rows: str = Field(description="Which rows were judged.")
    num_rows: int = Field(ge=1, description="Of them, with a verdict that could be read.")
    probability_counts: list[int] = Field(
        description="How many have their probability in each tenth of [0, 1]."
    )
    hallucination_share: float | None = Field(
        ge=0, le=1, description="At the threshold of the weights; null where it was not recorded."
    )
    justification_chars: JustificationChars | None = Field(
        description="Null where it was not recorded."
    )

    @classmethod
    def of(cls, reference: Reference) -> ReferenceInfo:
        """Return it as it is on the wire."""
        lengths = reference.justification_chars
        return cls(
            rows=reference.rows,
            num_rows=reference.num_rows,
            probability_counts=list(reference.probability_counts),
            hallucination_share=reference.hallucination_share,
            justification_chars=(
                None
                if lengths is None
                else JustificationChars(p10=lengths.p10, p50=lengths.p50, p90=lengths.p90)
            ),
        )


class WindowInfo(BaseModel):
    """The latest verdicts, which `/metrics` describes and compares with the reference."""

    max_verdicts: int = Field(description="Of each path that the window holds.")
    min_verdicts: int = Field(
        description="With a readable reply, from which drift is measured; a full window is enough."
    )
    verdicts: dict[str, int] = Field(
        description="In the window now. By path: `full` for replies that could be read, `reread` "
        "for those whose label was then asked for alone, `short` without a justification."
    )


class Info(BaseModel):
    """What is served and within which limits. Holds no secret."""

    model: Model
    base_model: str | None
    weights_sha256: str | None = Field(
        description="Of the trained adapter that the weights were exported from, wherever they lie "
        "now; null where their `contract.json` does not say."
    )
    contract_version: int
    contract: str
    calibration: dict[str, float]
    label_token_ids: dict[str, int]
    golden_metrics: dict[str, float]
    reference: ReferenceInfo | None = Field(
        description="Null where `contract.json` has none: drift is not measured then."
    )
    window: WindowInfo
    engine: dict[str, str | int]
    hardware: Hardware
    limits: dict[str, int | float | None]
    cold_start_s: dict[str, float]
