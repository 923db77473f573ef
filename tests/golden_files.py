"""Golden files: what was pinned, and when it may be pinned again.

A test compares and fails; nothing is rewritten unless asked for:

    GOLDEN_UPDATE=1 python -m pytest tests/unit/contract/test_prompt.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"

_RAISE_VERSION = (
    "Weights in use were trained on the pinned words. Undo the change, or raise CONTRACT_VERSION "
    "in contract/manifest.py, run the test again with GOLDEN_UPDATE=1 and train again."
)


class StaleGoldenError(AssertionError):
    """The code and its golden file disagree; the message says how to go on."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of one contract version.

    Attributes:
        contract_version: The number that a change must raise.
        fingerprint: Of the code that rendered them.
        messages: Name of a case -> its chat messages.
    """

    contract_version: int
    fingerprint: str
    messages: Mapping[str, list[dict[str, str]]]


def is_update_asked(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this run may rewrite golden files."""
    return environment.get("GOLDEN_UPDATE") == "1"


def read_prompts(path: Path) -> Prompts | None:
    """Read the pinned prompts; None where nothing is pinned yet."""
    if not path.exists():
        return None
    return Prompts(**json.loads(path.read_text(encoding="utf-8")))


def check_prompts(pinned: Prompts | None, current: Prompts) -> None:
    """Accept only what is pinned, to the byte.

    Raises:
        StaleGoldenError: Anything differs.
    """
    if pinned is None:
        raise StaleGoldenError("nothing is pinned yet: run again with GOLDEN_UPDATE=1")
    check_promise(pinned, current)
    if pinned.contract_version != current.contract_version:
        raise StaleGoldenError(
            f"version {pinned.contract_version} is pinned and the code speaks "
            f"{current.contract_version}: run again with GOLDEN_UPDATE=1"
        )
    if pinned.messages.keys() != current.messages.keys():
        names = sorted(pinned.messages.keys() ^ current.messages.keys())
        raise StaleGoldenError(f"cases came or went ({names}): run again with GOLDEN_UPDATE=1")


def check_promise(pinned: Prompts, current: Prompts) -> None:
    """Refuse other words under the same version number; no update may get past this.

    Raises:
        StaleGoldenError: The fingerprint or a prompt changed and the version did not.
    """
    if pinned.contract_version != current.contract_version:
        return
    changed = sorted(
        name
        for name in pinned.messages.keys() & current.messages.keys()
        if pinned.messages[name] != current.messages[name]
    )
    if changed:
        raise StaleGoldenError(
            f"the prompts {changed} changed and CONTRACT_VERSION is still "
            f"{current.contract_version}. {_RAISE_VERSION}"
        )
    if pinned.fingerprint != current.fingerprint:
        raise StaleGoldenError(
            f"the fingerprint went from {pinned.fingerprint} to {current.fingerprint} and "
            f"CONTRACT_VERSION is still {current.contract_version}. {_RAISE_VERSION}"
        )


def write_prompts(path: Path, current: Prompts) -> None:
    """Pin the prompts.

    Raises:
        StaleGoldenError: It would change what a version already promised, or lower the version.
    """
    pinned = read_prompts(path)
    if pinned is not None:
        check_promise(pinned, current)
        if current.contract_version < pinned.contract_version:
            raise StaleGoldenError("CONTRACT_VERSION never goes down")
    content = {
        "contract_version": current.contract_version,
        "fingerprint": current.fingerprint,
        "messages": current.messages,
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
