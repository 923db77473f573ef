"""The command line of ``python -m evaluation``: what it takes, and which exit code it ends with.

It imports the client, and with it what ``requirements/`` names: ``evaluation/__main__.py`` says so
where that is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from client import DetectorClient, DetectorError
from client.api_key import DEFAULT_KEY_ENV, read_api_key
from client.arguments import read_count, read_seconds
from evaluation.baseline import Baseline
from evaluation.drift_failure import report_failure
from evaluation.errors import EvaluationError
from evaluation.golden_set import load_golden_set
from evaluation.kept_answers import KeptAnswers
from evaluation.limits import Limits
from evaluation.measuring import measure_baseline
from evaluation.progress import Progress
from evaluation.step_summary import to_line

if TYPE_CHECKING:
    from evaluation.drift_commands import Connect

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--set", type=Path, dest="golden", metavar="FILE",
        help="a golden set in place of the project's own",
    )  # fmt: skip
    shared.add_argument(
        "--wait", type=read_seconds, default=120.0, metavar="S",
        help="wait so long until the service is ready; default 120",
    )  # fmt: skip
    shared.add_argument(
        "--api-key-env", metavar="NAME",
        help=f"environment variable that holds the API key (default {DEFAULT_KEY_ENV})",
    )  # fmt: skip
    shared.add_argument(
        "--resume", action="store_true",
        help="ask only for what an interrupted run of the same command was not answered",
    )  # fmt: skip
    parser = argparse.ArgumentParser(
        prog="python -m evaluation",
        description="Measure a running service on the golden set.",
        epilog="Exit codes: 0 done and no drift, 1 drift, 2 could not measure, could not tell or "
        "wrong argument, 130 Ctrl-C.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "ask for every case twice and keep what was said"
    baseline = commands.add_parser("baseline", parents=[shared], help=text, description=text)
    baseline.add_argument("--url", required=True, help="such as http://127.0.0.1:8000")
    baseline.add_argument(
        "--out", required=True, type=Path, metavar="FILE", help="where to write; replaced if there"
    )
    _add_concurrency(baseline, "8", default=8)
    baseline.set_defaults(run=_run_baseline)
    _add_drift(commands, shared)
    _add_compare(commands, shared)
    _add_materialise(commands)
    return parser


def _add_drift(commands: _Commands, shared: argparse.ArgumentParser) -> None:
    text = "say whether a service is the same as its baseline, worse, or better"
    drift = commands.add_parser("drift", parents=[shared], help=text, description=text)
    drift.add_argument("--url", required=True, help="such as http://127.0.0.1:8000")
    drift.add_argument(
        "--baseline", required=True, type=Path, metavar="FILE", help="what `baseline` wrote"
    )
    drift.add_argument(
        "--accept-change", action="store_true",
        help="compare with a baseline of another model, contract, calibration or set all the same",
    )  # fmt: skip
    _add_out_folder(drift)
    _add_concurrency(drift, "the baseline's", default=None)
    _add_limits(drift)
    drift.set_defaults(run=_run_drift)


def _add_compare(commands: _Commands, shared: argparse.ArgumentParser) -> None:
    text = "compare two services, of which the first is the baseline"
    compare = commands.add_parser("compare", parents=[shared], help=text, description=text)
    compare.add_argument("--a", required=True, metavar="URL", help="the one in production")
    compare.add_argument("--b", required=True, metavar="URL", help="the one that may follow it")
    compare.add_argument(
        "--api-key-env-b", metavar="NAME", help="the same for b, where its key is another one"
    )
    _add_out_folder(compare)
    _add_concurrency(compare, "8", default=8)
    _add_limits(compare)
    compare.set_defaults(run=_run_compare)


def _add_materialise(commands: _Commands) -> None:
    text = "write a golden set of public data, as a recipe says"
    command = commands.add_parser("materialise", help=text, description=text)
    command.add_argument(
        "recipe", metavar="RECIPE", help="a file, or the name of one in evaluation/golden/recipes"
    )
    command.add_argument(
        "--out", required=True, type=Path, metavar="FILE", help="where to write; replaced if there"
    )
    command.add_argument(
        "--data-dir", type=Path, metavar="DIR",
        help="folder, or clone, that holds the data set; the Hugging Face Hub is asked without",
    )  # fmt: skip
    command.set_defaults(run=_run_materialise)


def _add_out_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR",
        help="folder for the reports; earlier ones in it are removed",
    )  # fmt: skip


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    for each in fields(Limits):
        group.add_argument(
            f"--{each.name.replace('_', '-')}", type=float, default=each.default, metavar="X",
            help=f"{each.metadata['help']}; default {each.default:g}",
        )  # fmt: skip


def _add_concurrency(parser: argparse.ArgumentParser, shown: str, default: int | None) -> None:
    parser.add_argument(
        "--concurrency", type=read_count, default=default, metavar="N",
        help=f"requests at once; default {shown}",
    )  # fmt: skip


def run(words: Sequence[str]) -> int:
    """Run a command; return the exit code.

    Args:
        words: Of the command line, without the program's name.
    """
    options = make_parser().parse_args(words)
    options.words = ["python", "-m", "evaluation", *words]
    try:
        code: int = options.run(options)
    except KeyboardInterrupt:
        _say("stopped; no result was written")
        return 130
    except (EvaluationError, DetectorError) as error:
        return report_failure(options, f"{error}", _say)
    except ModuleNotFoundError as error:
        remedy = "run `python requirements/install.py --training`"
        return report_failure(options, f"{error.name} is not installed: {remedy}", _say)
    except Exception as error:
        # Python's own exit code would be 1, which says that there is drift.
        with suppress(OSError):
            traceback.print_exc()
        return report_failure(options, f"{type(error).__name__}: {error}", _say)
    return code


def _run_baseline(options: argparse.Namespace) -> int:
    golden = load_golden_set(options.golden)
    _check_out(options.out)
    path = options.out.with_name(f"{options.out.name}.answers.partial.jsonl")
    with KeptAnswers(path, _say, is_resumed=options.resume) as kept:
        with _connect(options.url, options.api_key_env) as client, Progress() as progress:
            _await_ready(client, options.url, options.wait)
            baseline = measure_baseline(
                client,
                golden.cases,
                golden.sha256,
                concurrency=options.concurrency,
                kept=kept,
                progress=progress,
            )
        try:
            baseline.write(options.out)
        except OSError as error:
            raise EvaluationError(f"{options.out} cannot be written ({error.strerror})") from error
        kept.forget()
    _say(_describe(baseline, options.out))
    return 0


def _run_drift(options: argparse.Namespace) -> int:
    from evaluation.drift_commands import run_drift

    return run_drift(options, _connect_ready(options), _say)


def _run_compare(options: argparse.Namespace) -> int:
    from evaluation.drift_commands import run_compare

    return run_compare(options, _connect_ready(options), _say)


def _run_materialise(options: argparse.Namespace) -> int:
    from evaluation.recipe_command import run_materialise

    return run_materialise(options, _check_out, _say)


def _connect_ready(options: argparse.Namespace) -> Connect:
    def connect(url: str, key_name: str | None, max_attempts: int) -> DetectorClient:
        client = _connect(url, key_name, max_attempts)
        try:
            _await_ready(client, url, options.wait)
        except BaseException:
            client.close()
            raise
        return client

    return connect


def _connect(url: str, key_name: str | None, max_attempts: int = 6) -> DetectorClient:
    try:
        return DetectorClient(url, api_key=read_api_key(key_name), max_attempts=max_attempts)
    except ValueError as error:
        raise EvaluationError(f"no request can be sent: {error}") from error


def _await_ready(client: DetectorClient, url: str, budget_s: float) -> None:
    """Wait until the service takes requests.

    Raises:
        EvaluationError: It does not in time, or never will.
    """
    try:
        if not client.ready():
            _say(f"waiting up to {budget_s:g} s until {url} is ready")
            client.wait_ready(budget_s)
    except DetectorError as error:
        raise EvaluationError(
            f"{url} is not ready ({error}): is the service running there? --wait S waits longer"
        ) from error


def _check_out(path: Path) -> None:
    """Find out before the measurement, not after it, that its result cannot be written."""
    if path.is_dir():
        raise EvaluationError(f"{path} is a folder: name a file with --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvaluationError(f"{path.parent} cannot be made ({error.strerror})") from error
    if not os.access(path.parent, os.W_OK):
        raise EvaluationError(f"{path.parent} cannot be written: name another file with --out")


def _describe(baseline: Baseline, path: Path) -> str:
    overall, noise = baseline.overall, baseline.noise
    text = (
        f"{path}: {baseline.num_cases} cases, balanced accuracy {overall.balanced_accuracy:.3f}, "
        f"F1 {overall.f1:.3f}, unreadable {overall.unreadable_rate:.1%}. The second pass gave "
        f"another verdict on {noise.flip_rate:.1%}"
    )
    if noise.max_probability_change is not None:
        text += f", and probabilities that differ by at most {noise.max_probability_change:.2g}"
    if not baseline.speed.is_known:
        text += ". It has no speed, as its first pass was interrupted"
    return text


def _say(text: str) -> None:
    # In CI a line can be a command. Where nobody reads it any more (`2>&1 | head`), that is no
    # fault of the measurement.
    with suppress(OSError):
        sys.stderr.write(to_line(text) + "\n")
