"""What an evaluation judges, found by a word of the command line, under this code's contract alone.

Weights that were trained on other words would be asked what they never learned, and the report
would carry this code's fingerprint.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from contract.errors import ContractError
from contract.manifest import CONTRACT_VERSION, check_manifest, fingerprint, read_manifest
from evaluation.remote import Served, describe_service
from training.config import ModelConfig, RunConfig
from training.errors import ModelError
from training.inputs import describe_contract
from training.merging import hash_adapter
from training.runs import DONE, STARTED

if TYPE_CHECKING:
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

BASE = "base"
_FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Judge:
    """What is evaluated.

    Attributes:
        name: Of the report's files.
        model: What it is, for the report.
        revision: Which one: the adapter's hash, a commit, what a service says.
        adapter: Folder of the adapter, where it is one.
        url: Of the service, where it is one.
        model_config: To load it with, where it is neither.
    """

    name: str
    model: str
    revision: str
    adapter: Path | None = None
    url: str | None = None
    model_config: ModelConfig | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether the revision names these very weights: a folder's can change behind it."""
        if self.model_config is None:
            return self.adapter is not None
        return not Path(self.model_config.name).is_dir()


def find_judge(config: RunConfig, run: RunFolder, what: str | None) -> Judge:
    """Return what a word on the command line means.

    Args:
        config: Of the run.
        run: Its folder.
        what: An adapter or a folder of weights, ``org/repo@revision``, ``base``, a URL; None for
            the run's last adapter.

    Raises:
        ModelError: Nothing, or weights of another contract. Those of the Hub are not here yet:
            ``check_weights`` looks at them.
        EvaluationError: A service does not say what it serves.
    """
    if what is None:
        adapter = run.last_adapter(config)
        check_adapter(adapter)
        url = config.evaluation.url
        if url is not None:
            _check_service(url, describe_service(url))
        return Judge(adapter.parent.name, config.model.name, hash_adapter(adapter), adapter, url)
    if what.startswith(("http://", "https://")):
        served = describe_service(what)
        _check_service(what, served)
        return Judge("service", served.model, served.revision, url=what)
    if what == BASE:
        return Judge(
            BASE, config.model.name, config.model.revision or BASE, None, None, config.model
        )
    folder = Path(what)
    if (folder / "adapter_config.json").is_file():
        check_adapter(folder)
        name = f"{folder.parent.name}-{folder.name}"
        return Judge(name, config.model.name, hash_adapter(folder), folder)
    if (folder / "config.json").is_file():
        model_config = config.model.model_copy(update={"name": str(folder.resolve())})
        return Judge(folder.name, folder.name, _FOLDER, model_config=model_config)
    return _find_on_hub(config, what)


def _find_on_hub(config: RunConfig, what: str) -> Judge:
    repo, at, revision = what.partition("@")
    if not at or Path(what).exists():
        raise ModelError(
            f"{what} is no adapter, no folder of weights, no URL, and no org/repo@revision: give "
            f"one of them, {BASE!r} for the base model, or nothing for the run's last adapter"
        )
    fields = {**config.model.model_dump(), "name": repo, "revision": revision}
    try:
        model_config = ModelConfig.model_validate(fields)
    except ValidationError as error:
        raise ModelError(f"{what} is not org/repo@<40 hex digits>: {error}") from error
    return Judge(repo.replace("/", "-"), repo, revision, model_config=model_config)


def check_weights(folder: Path) -> bool:
    """Accept weights whose ``contract.json`` is of this code's contract, or that have none.

    Returns:
        Whether there is one.

    Raises:
        ModelError: They are of another contract, or the file cannot be read.
    """
    try:
        manifest = read_manifest(folder)
        if manifest is not None:
            check_manifest(manifest)
    except ContractError as error:
        raise ModelError(f"{folder} cannot be judged: {error}") from error
    return manifest is not None


def check_adapter(adapter: Path) -> None:
    """Accept an adapter, or a checkpoint with one, that was trained under this code's contract.

    Its own ``contract.json`` says so, or else the markers of the stage that it is of.

    Raises:
        ModelError: It was trained under another.
    """
    if check_weights(adapter):
        return
    for name in (DONE, STARTED):
        try:
            mark = json.loads((adapter.parent / name).read_text(encoding="utf-8"))
            contract = mark["inputs"]["contract"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if contract != describe_contract():
            raise ModelError(
                f"{adapter} cannot be judged: it was trained under another contract ({contract}, "
                f"this code speaks {describe_contract()}). Check out the commit that trained it "
                f"({mark.get('commit') or 'not recorded'}), or train it again"
            )
        return
    logger.warning("%s: nothing says under which contract it was trained", adapter)


def _check_service(url: str, served: Served) -> None:
    if (served.contract_version, served.contract) == (CONTRACT_VERSION, fingerprint()):
        return
    raise ModelError(
        f"{url} cannot be judged: it speaks contract version {served.contract_version}, "
        f"{served.contract}; this code speaks {describe_contract()}. Check out the commit that is "
        "deployed there, or deploy this one"
    )
