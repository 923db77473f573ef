"""What a job of GitHub Actions is shown: whatever a service answers, it can be printed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from evaluation.step_summary import annotate_error, append_summary, to_line, without_users


@pytest.fixture
def _on_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")


@pytest.mark.usefixtures("_on_actions")
@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "caf\u00e9 \\ud800"), ("ascii", "caf\\xe9 \\ud800")],
)
def test_what_stdout_cannot_hold_is_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    """A lone surrogate in a problem's detail ended the gate with 1, which says that there is
    drift."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    annotate_error("caf\u00e9 \ud800")
    assert raw.getvalue().decode(encoding) == f"::error::{shown}\n"


@pytest.mark.usefixtures("_on_actions")
def test_a_closed_stdout_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    annotate_error("worse")


def test_a_summary_holds_a_lone_surrogate_as_a_question_mark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    append_summary("no \ud800 key at http://me:sesame@host/", pytest.fail)
    assert path.read_text(encoding="utf-8") == "no ? key at http://host/\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:sesame@host:8000/a", "http://host:8000/a"),
        ("http://me:open@sesame@host", "http://host"),
        ("'https://key@host/' and embedded@0123", "'https://host/' and embedded@0123"),
        ("no address, me@host", "no address, me@host"),
    ],
    ids=["user", "at-sign-in-it", "key", "none"],
)
def test_an_address_is_shown_without_its_users(text: str, shown: str) -> None:
    assert without_users(text) == shown


def test_a_line_is_one_line() -> None:
    assert to_line("a\r\n# b\u2028::c\x0bd") == "a # b ::c d"
