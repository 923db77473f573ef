"""Under which licence base models and data sets come: what the model card and its reader need.

Known are those that this project's configurations name. The licence of anything else is not
guessed: the card says that it is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from training.data_config import SetConfig

NOT_RECORDED = "not recorded here: ask its owner before you publish"


@dataclass(frozen=True, slots=True)
class ModelLicence:
    """A base model's licence.

    Attributes:
        identifier: As the Hub names it; ``other`` where it has no name for it.
        name: Of a licence that is ``other``.
        link: To its text, for a licence that is ``other``.
        note: What it asks of derived weights.
    """

    identifier: str
    name: str | None = None
    link: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data set's origin.

    Attributes:
        title: What people call it.
        url: Where it comes from.
        licence: In words, with what its texts are made of.
        language: ISO 639-1.
    """

    title: str
    url: str
    licence: str
    language: str = "en"


_QWEN_RESEARCH = ModelLicence(
    identifier="other",
    name="qwen-research",
    link="https://huggingface.co/Qwen/Qwen2.5-3B-Instruct/blob/main/LICENSE",
    note="The base model's licence allows research and evaluation only, for these weights too.",
)

_MODELS = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": ModelLicence("apache-2.0"),
    "Qwen/Qwen3-4B-Instruct-2507": ModelLicence("apache-2.0"),
    "Qwen/Qwen2.5-3B-Instruct": _QWEN_RESEARCH,
}

_HALUEVAL = "https://github.com/RUCAIBox/HaluEval"
_PASSAGES = "MIT; passages are HotpotQA/Wikipedia, CC BY-SA 4.0"

# By the stem of the file's name, or by the repository on the Hub.
_DATA = {
    "halueval_qa": DataSource("HaluEval QA", _HALUEVAL, _PASSAGES),
    "halueval_general": DataSource("HaluEval general", _HALUEVAL, "MIT"),
    "halueval_summarization": DataSource(
        "HaluEval summarization", _HALUEVAL, "MIT; article text is the publishers'"
    ),
    "halueval_dialogue": DataSource("HaluEval dialogue", _HALUEVAL, "MIT"),
    "pminervini/HaluEval": DataSource(
        "HaluEval", "https://huggingface.co/datasets/pminervini/HaluEval", f"{_PASSAGES} (QA)"
    ),
    "halueval2_general": DataSource(
        "HaluEval 2.0", "https://github.com/survivi/HaluEval-2.0", "MIT"
    ),
    "defacto_summarization": DataSource(
        "DeFacto", "https://github.com/microsoft/DeFacto", "MIT; article text is the BBC's"
    ),
    "bump_summarization": DataSource(
        "BUMP", "https://github.com/dataminr-ai/BUMP", "MIT; article text is the publishers'"
    ),
    "summedits_summarization": DataSource(
        "SummEdits",
        "https://github.com/salesforce/factualNLG",
        "Apache-2.0; news text is the publishers'",
    ),
    "fever_symmetric_general": DataSource(
        "FEVER-Symmetric", "https://github.com/TalSchuster/FeverSymmetric", "CC BY-SA 3.0"
    ),
    "begin_dialogue": DataSource(
        "BEGIN", "https://github.com/google/BEGIN-dataset", "CC BY 4.0; on Wizard of Wikipedia"
    ),
    "bamboo_summarization": DataSource(
        "BAMBOO", "https://github.com/RUCAIBox/BAMBOO", "MIT (stated in its README)"
    ),
    "halluqa_qa": DataSource(
        "HalluQA", "https://github.com/OpenMOSS/HalluQA", "Apache-2.0", language="zh"
    ),
    "truthfulqa_qa": DataSource(
        "TruthfulQA", "https://github.com/sylinrl/TruthfulQA", "Apache-2.0"
    ),
    "truthfulqa_es_qa": DataSource(
        "TruthfulQA in Spanish",
        "https://github.com/hitz-zentroa/truthfulqa-multi",
        "Apache-2.0",
        language="es",
    ),
}


def find_model_licence(base_model: str, chosen: str) -> ModelLicence:
    """Return the licence of weights that were made from a base model.

    Args:
        base_model: Its name on the Hub.
        chosen: What the configuration asks for; a research licence of the base overrules it.
    """
    known = _MODELS.get(base_model)
    if known is not None and known.identifier == "other":
        return known
    return ModelLicence(chosen)


def find_data_source(config: SetConfig) -> DataSource:
    """Return where a data set comes from, as far as it is known."""
    if config.kind == "made":
        return DataSource("made by rule (docs/data.md)", "", "this project's own")
    known = _DATA.get(config.repo or "") or _DATA.get(PurePath(config.file or "").stem)
    if known is not None:
        return known
    url = f"https://huggingface.co/datasets/{config.repo}" if config.repo else ""
    return DataSource(config.name, url, NOT_RECORDED)
