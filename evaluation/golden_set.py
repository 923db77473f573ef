"""The golden set: labelled cases that no training has seen, which drift is measured on.

The project's own cases are in ``evaluation/golden/``, written for this project. They and any other
set are JSON Lines: each line an object with these members and no other, of which ``knowledge`` and
``question`` may be null.

    {"id": "g001", "pair_id": "numbers-01", "kind": "numbers", "language": "en",
     "knowledge": ["The pool is 25 metres long."], "question": "How long is the pool?",
     "response": "25 metres", "label": "correct", "why": "The knowledge says so."}

Not the training or test data: ``training`` makes those.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from contract.errors import TextError
from contract.example import Example, normalise
from contract.labels import Label
from evaluation.errors import GoldenSetError
from evaluation.json_fields import Fields, parse_object

FOLDER = Path(__file__).parent / "golden"
"""The project's own set."""

_Member = TypeVar("_Member", bound=StrEnum)

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")


class Kind(StrEnum):
    """What a case tries."""

    ABSTENTION = "abstention"
    CAUSATION = "causation"
    CODE = "code"
    COMPARISON = "comparison"
    COUNTERFACTUAL_SOURCE = "counterfactual-source"
    DATES = "dates"
    ENTITY_SWAP = "entity-swap"
    HOSTILE = "hostile"
    LANGUAGES = "languages"
    LONG_KNOWLEDGE = "long-knowledge"
    LONG_RESPONSE = "long-response"
    MARKUP = "markup"
    NEGATION = "negation"
    NO_EVIDENCE = "no-evidence"
    NUMBERS = "numbers"
    OMISSION = "omission"
    PARAPHRASE = "paraphrase"
    PARTIAL_SUPPORT = "partial-support"
    QUANTIFIERS = "quantifiers"
    RELATION = "relation"
    SEVERAL_DOCUMENTS = "several-documents"
    SHORT_RESPONSE = "short-response"
    TABLES = "tables"
    UNITS = "units"
    # For sets of one's own; the project's has none of these.
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A response, its class, and why it is of that class.

    Attributes:
        id: Unique in its set.
        pair_id: Shared by the cases on one knowledge.
        kind: What it tries.
        language: Of its texts, such as ``de``.
        knowledge: The texts that the response should rest on; None where there are none.
        question: None where there is none.
        response: The text to judge.
        label: The gold class.
        why: One sentence for the reader, which no measurement depends on.
    """

    id: str
    pair_id: str
    kind: Kind
    language: str
    knowledge: tuple[str, ...] | None
    question: str | None
    response: str
    label: Label
    why: str

    @property
    def set_name(self) -> str:
        """The kind, as the data set that slices and reports group by."""
        return f"golden: {self.kind}"

    @property
    def example(self) -> Example:
        """What the model is asked about."""
        return Example(self.knowledge, self.question, self.response)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """Cases of both classes.

    Attributes:
        cases: In the order of the files and lines; ids are unique.
    """

    cases: tuple[GoldenCase, ...]

    @property
    def sha256(self) -> str:
        """See ``content_hash``."""
        return content_hash(self.cases)


def content_hash(cases: Sequence[GoldenCase]) -> str:
    """Return a SHA-256, in hex, of all that a measurement depends on.

    That is every member but ``why``. Neither the order of the cases nor how they are spread over
    files counts.
    """
    contents = [asdict(case) for case in sorted(cases, key=lambda case: case.id)]
    for content in contents:
        del content["why"]
    text = json.dumps(contents, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def load_golden_set(path: Path | None = None) -> GoldenSet:
    """Read and check a golden set.

    Args:
        path: A file of JSON lines, or a folder whose ``*.jsonl`` files are read in the order of
            their names; the project's own set where None.

    Raises:
        GoldenSetError: There is no such set, or it breaks a rule: the file and line are named.
    """
    path = FOLDER if path is None else path
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    reader = _Reader()
    for file in files:
        reader.read(file)
    return reader.finish(path)


class _Reader:
    """Reads files, and remembers where each id and each text stood."""

    def __init__(self) -> None:
        self._cases: list[GoldenCase] = []
        self._place_of: dict[str | Example, str] = {}

    def read(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise GoldenSetError(f"{path} cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise GoldenSetError(f"{path} is not UTF-8 text ({error})") from error
        # Not splitlines(): a text may hold line ends of Unicode that JSON leaves as they are.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                place = f"{path}, line {number}"
                try:
                    self._add(_parse_case(line), place)
                except (ValueError, TextError) as error:
                    raise GoldenSetError(f"{place}: {error}") from error

    def finish(self, path: Path) -> GoldenSet:
        missing = sorted(set(Label) - {case.label for case in self._cases})
        if missing:
            raise GoldenSetError(
                f"{path} has no case of the class {' or '.join(missing)}: it needs both classes"
            )
        return GoldenSet(tuple(self._cases))

    def _add(self, case: GoldenCase, place: str) -> None:
        example = normalise(case.example)
        if case.id in self._place_of:
            raise ValueError(f"the id {case.id!r} is also that of {self._place_of[case.id]}")
        if example in self._place_of:
            raise ValueError(f"its texts are also those of {self._place_of[example]}")
        self._place_of[case.id] = self._place_of[example] = place
        self._cases.append(case)


def _parse_case(line: str) -> GoldenCase:
    fields = parse_object(line)
    unknown = sorted(set(fields.names) - set(GoldenCase.__slots__))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: there is no such member")
    language = fields.text("language")
    if not _LANGUAGE.fullmatch(language):
        raise ValueError(f"language must be a tag such as en or pt-BR, not {language!r}")
    return GoldenCase(
        id=_visible(fields, "id"),
        pair_id=_visible(fields, "pair_id"),
        kind=_member(fields, "kind", Kind),
        language=language,
        knowledge=fields.texts_or_none("knowledge"),
        question=fields.text_or_none("question"),
        response=fields.text("response"),
        label=_member(fields, "label", Label),
        why=_visible(fields, "why"),
    )


def _visible(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not text.strip():
        raise ValueError(f"{name} must not be blank")
    return text


def _member(fields: Fields, name: str, members: type[_Member]) -> _Member:
    text = fields.text(name)
    try:
        return members(text)
    except ValueError:
        raise ValueError(f"{name} must be one of {', '.join(members)}, not {text!r}") from None
