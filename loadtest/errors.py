"""What keeps a load test from being one. Every message says what to do."""

from __future__ import annotations


class LoadTestError(Exception):
    """Nothing was measured, or not what was asked for: exit code 2, never a green report."""


class GoalsError(LoadTestError):
    """The file of goals cannot be used; the message names the field and what is allowed."""
