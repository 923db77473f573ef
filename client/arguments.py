"""What the command lines of client and evaluation read alike: numbers within their bounds."""

from __future__ import annotations

import argparse
import math


def read_count(text: str) -> int:
    """Return a number of things at once.

    Raises:
        ArgumentTypeError: It is not in [1, 1000].
        ValueError: It is no whole number.
    """
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("must be in [1, 1000]")
    return value


def read_seconds(text: str) -> float:
    """Return a length of time, in seconds.

    Raises:
        ArgumentTypeError: It is not above 0, or not finite.
        ValueError: It is no number.
    """
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be above 0 and finite")
    return value
