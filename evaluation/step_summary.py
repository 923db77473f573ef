"""What a job of GitHub Actions shows of the gate: Markdown in its summary, a line with the error.

The summary is the file that ``GITHUB_STEP_SUMMARY`` names, which other systems can set, too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SUMMARY_ENV = "GITHUB_STEP_SUMMARY"
"""Names the file; unset where there is no such job."""

ACTIONS_ENV = "GITHUB_ACTIONS"
"""``true`` in a job of GitHub Actions."""

# To the last @ before a slash: a password may hold one, though it should not.
_USERINFO = re.compile(r"//[^/\s]*@")


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


def annotate_error(text: str) -> None:
    """Print a text as the one line that GitHub Actions shows beside the job, only in such a job.

    What stdout cannot hold is escaped: a service's answer decides no exit code.
    """
    if os.environ.get(ACTIONS_ENV) == "true":
        encoding = sys.stdout.encoding
        line = f"::error::{escape_command(without_users(text))}\n"
        with suppress(OSError):
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding))
            sys.stdout.flush()


def escape_command(text: str) -> str:
    r"""Return a text as the data of a workflow command, which ends with its line.

    The three replacements are those of ``escapeData`` in ``packages/core/src/command.ts`` of
    github.com/actions/toolkit.

    Example:
        >>> escape_command("100 %\n::set-env name=PATH::")
        '100 %25%0A::set-env name=PATH::'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def to_line(text: str) -> str:
    r"""Return a text as one line without users: what a service said may be no heading, no command.

    Example:
        >>> to_line("no key\n::add-mask::a")
        'no key ::add-mask::a'
    """
    return " ".join(without_users(text).splitlines())


def without_users(text: str) -> str:
    """Return a text whose addresses hold no user name and no password.

    Example:
        >>> without_users("measured http://me:open@sesame@host:8000/")
        'measured http://host:8000/'
    """
    return _USERINFO.sub("//", text)
