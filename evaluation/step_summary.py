"""The summary of a CI job: Markdown that is appended to the file of ``GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

SUMMARY_ENV = "GITHUB_STEP_SUMMARY"
"""Names the file; unset where there is no such job."""

_USERINFO = re.compile(r"//[^/@\s]*@")


def append_summary(text: str, say: Callable[[str], None]) -> None:
    """Append a text, where there is a summary. That it cannot be written is said, and no fault."""
    name = os.environ.get(SUMMARY_ENV)
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="replace") as file:
            file.write(without_users(text) + "\n")
    except OSError as error:
        say(f"the summary {name} cannot be written ({error.strerror})")


def without_users(text: str) -> str:
    """Return a text whose addresses hold no user name and no password.

    Example:
        >>> without_users("measured http://me:sesame@host:8000/")
        'measured http://host:8000/'
    """
    return _USERINFO.sub("//", text)
