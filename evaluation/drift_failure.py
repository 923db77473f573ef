"""What ``drift`` and ``compare`` leave where nothing could be measured: reports that say why.

CI that shows ``junit.xml`` or ``report.md`` would otherwise show nothing, or what was there before.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from evaluation.drift_folder import FORMAT, dump_json, prepare_folder, to_utf8, write_files
from evaluation.errors import EvaluationError
from evaluation.junit import SuiteCase, to_junit
from evaluation.step_summary import annotate_error, append_summary, to_line, without_users

OUTCOME = "could not measure"
TITLES = {"drift": "Drift gate", "compare": "Comparison"}
"""Command -> title of its reports."""

EXIT_CODE = 2


def report_failure(options: argparse.Namespace, reason: str, say: Callable[[str], None]) -> int:
    """Say that a command could not measure, in all places where one would look; return the code.

    Args:
        options: Of the command line.
        reason: Why, and what to do.
        say: Tells the user.
    """
    reason = without_users(reason)
    say(f"{OUTCOME}: {reason}")
    annotate_error(f"{OUTCOME}: {reason}")
    title = TITLES.get(options.command)
    if title is None:
        return EXIT_CODE
    command = without_users(shlex.join(options.words))
    measured_at = datetime.now(UTC).isoformat(timespec="seconds")
    cause = to_line(reason)
    markdown = f"# {title}: {OUTCOME}\n\n{cause}\n\n- tried {measured_at}: {to_line(command)}\n"
    content = {
        "format": FORMAT,
        "title": title,
        "outcome": OUTCOME,
        "exit_code": EXIT_CODE,
        "reason": reason,
        "measured_at": measured_at,
        "command": command,
    }
    junit = to_junit(title, [SuiteCase("measurement", "error", f"{OUTCOME}: {reason}")])
    files = {
        "report.md": to_utf8(markdown),
        "junit.xml": junit,
        "report.json": dump_json(content),
    }
    try:
        _write(options.out, files)
    except EvaluationError as error:
        say(f"there is no report: {error}")
    append_summary(markdown, say)
    return EXIT_CODE


def _write(folder: Path, files: dict[str, bytes]) -> None:
    prepare_folder(folder)
    write_files(folder, files)
