"""The folder of the drift gate's reports: what is in it, and that all of it is there or nothing.

Standard library only, so that a gate that cannot even measure can say so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.files import write_whole

FORMAT = 1
"""Of ``report.json``; raise it with every change that a reader would misread."""

REPORT_FILES = ("report.html", "report.md", "junit.xml", "report.json")
"""In the order of writing: where ``report.json`` is, all is."""


def prepare_folder(folder: Path) -> None:
    """Find out before the measurement that reports cannot be written; remove earlier ones.

    Raises:
        EvaluationError: They cannot; the message says what to do.
    """
    if folder.exists() and not folder.is_dir():
        raise EvaluationError(f"{folder} is a file: name a folder with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_reports(folder)
    except OSError as error:
        raise EvaluationError(f"{folder} cannot be written ({error.strerror})") from error
    if not os.access(folder, os.W_OK):
        raise EvaluationError(f"{folder} cannot be written: name another one with --out")


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder that is there, in the order of ``REPORT_FILES``, or none of them.

    Raises:
        EvaluationError: They cannot be written.
    """
    try:
        for name in REPORT_FILES:
            if name in contents:
                write_whole(folder / name, contents[name])
    except BaseException as error:
        remove_reports(folder)
        if isinstance(error, OSError):
            raise EvaluationError(f"{folder} cannot be written ({error.strerror})") from error
        raise


def remove_reports(folder: Path) -> None:
    """Remove the reports of an earlier measurement, which would be taken for those of the next."""
    for name in REPORT_FILES:
        (folder / name).unlink(missing_ok=True)


def to_utf8(text: str) -> bytes:
    """Return a text's bytes; a lone surrogate, which JSON can hold, is no text to UTF-8."""
    return text.encode("utf-8", "replace")


def dump_json(value: Mapping[str, Any]) -> bytes:
    """Return a file of JSON for people and programs.

    Raises:
        ValueError: It holds a NaN or an infinity.
    """
    return to_utf8(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
