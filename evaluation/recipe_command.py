"""The command ``materialise``: from a recipe to a golden set (``evaluation/recipes.py``)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from evaluation.errors import EvaluationError
from evaluation.recipes import find_recipe, load_recipe, materialise, write_cases
from evaluation.shortcuts import shortcut_table

_FAILED = 2


def run_materialise(
    options: argparse.Namespace, check_out: Callable[[Path], None], say: Callable[[str], None]
) -> int:
    """Write the golden set of a recipe, exactly that one; return the exit code, 0 or 2.

    Args:
        options: Of the command line.
        check_out: Raises EvaluationError where the result could not be written.
        say: Tells the user.
    """
    try:
        recipe = load_recipe(find_recipe(options.recipe))
        check_out(options.out)
        cases = materialise(recipe, options.data_dir)
        write_cases(options.out, cases)
    except EvaluationError as error:
        say(f"could not materialise: {error}")
        return _FAILED
    except ModuleNotFoundError as error:
        say(
            f"could not materialise: {error.name} is not installed: run "
            "`python requirements/install.py --training`"
        )
        return _FAILED
    numbers = ", ".join(f"{number} {label}" for label, number in recipe.counts.items())
    best = max(shortcut_table(cases, cases), key=lambda score: score.balanced_accuracy)
    say(
        f"{options.out}: {len(cases)} cases ({numbers}) of {recipe.title}, sha256 {recipe.sha256}. "
        f"The best rule that reads nothing ({best.name}) has a balanced accuracy of "
        f"{best.balanced_accuracy:.3f}. Licence: {recipe.licence}"
    )
    return 0
