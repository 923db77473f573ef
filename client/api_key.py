"""The API key of a command line: from an environment variable, never from an argument."""

from __future__ import annotations

import os

DEFAULT_KEY_ENV = "HALLUCINATION_DETECTOR_API_KEY"
"""Read where no other variable is named."""


def read_api_key(name: str | None) -> str | None:
    """Return the key; None where the default variable is not set.

    Args:
        name: Of the variable; ``DEFAULT_KEY_ENV`` where None.

    Raises:
        ValueError: A name was given and is not set.
    """
    key = os.environ.get(name or DEFAULT_KEY_ENV, "").strip()
    if name is not None and not key:
        raise ValueError(f"the environment variable {name} is not set")
    return key or None
