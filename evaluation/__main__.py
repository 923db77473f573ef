"""``python -m evaluation``: measure a running service on a golden set, or make one by a recipe.

    python -m evaluation baseline --url http://127.0.0.1:8000 --out baseline.json
    python -m evaluation drift --url http://127.0.0.1:8000 --baseline baseline.json --out reports/
    python -m evaluation compare --a https://production --b https://staging --out reports/
    python -m evaluation materialise halueval-qa-treated --out treated.jsonl

``baseline`` asks for every case twice and keeps what was said, with the figures and with what the
two passes differ in (``evaluation/baseline.py``). ``drift`` says whether a service is the same as
its baseline, worse or better (``evaluation/gate.py``), and ``compare`` the same of two services.
``materialise`` writes a golden set of public data for ``--set`` (``evaluation/recipes.py``).

Exit codes: 0 done, and no drift; 1 drift; 2 could not measure, could not tell, or a wrong argument:
the message says what to do, and so do the reports; 130 Ctrl-C: there is no report, and the same
command with ``--resume`` asks only for what was not answered (``evaluation/kept_answers.py``).

The commands are in ``evaluation/command_line.py``. Here is only what must hold even where that
cannot be imported: Python itself ends with 1 on any fault, which would say that there is drift.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    Args:
        arguments: Of the command line; this process's own where None.
    """
    try:
        from evaluation.command_line import run
    except (ImportError, SyntaxError) as error:
        sys.stderr.write(
            f"could not measure: {error}. This needs Python 3.11 and what "
            "`python3.11 requirements/install.py` installs into .venv: run .venv/bin/python\n"
        )
        return 2
    return run(sys.argv[1:] if arguments is None else list(arguments))


def _end(code: int) -> NoReturn:
    # Python would wait for requests under way, and for what they wait for: up to five minutes after
    # the result, or after Ctrl-C. All files are closed by now.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())
