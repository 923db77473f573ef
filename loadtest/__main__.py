"""``python -m loadtest``: put a running service under load and hold it against goals.

    python -m loadtest --url http://127.0.0.1:8000 --profile slo
    python -m loadtest --url http://127.0.0.1:8000 --find-capacity
    python -m loadtest --url https://scales-to-zero --profile coldstart

Profiles stand in ``loadtest/profiles.py``, goals in ``loadtest/slo.toml``; docs/loadtest.md says
what each figure means. Raw rows (``requests.jsonl``) and the reports go to ``--out``.

Exit codes: 0 the goals are met; 1 one is missed; 2 could not measure, or a wrong argument: the
message says what to do; 130 Ctrl-C, the rows so far are kept and there is no report.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from client.api_key import DEFAULT_KEY_ENV
from client.arguments import read_count, read_seconds
from evaluation.step_summary import append_summary
from loadtest.arrivals import Spacing
from loadtest.capacity import MAX_RUNS
from loadtest.commands import run
from loadtest.errors import LoadTestError
from loadtest.load_files import to_markdown, write_reports
from loadtest.plan import Loop
from loadtest.profiles import PROFILE_NAMES
from loadtest.slo import DEFAULT_FILE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    options.words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        report = run(options, _say)
        paths = write_reports(options.out, report)
    except (LoadTestError, ValueError, OSError) as error:
        _say(f"could not measure: {error}")
        append_summary(f"# Load test: could not measure\n\n{error}\n", _say)
        return 2
    except KeyboardInterrupt:
        _say(f"stopped; what was measured so far stays in {options.out}")
        return 130
    append_summary(to_markdown(report), _say)
    _say(f"{report.outcome}: {report.reason}. The report is in {paths['report.html']}")
    return report.exit_code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest",
        description="Put a running service under load and hold it against goals.",
        epilog="Exit codes: 0 goals met, 1 a goal missed, 2 could not measure or wrong argument, "
        "130 Ctrl-C.",
    )
    parser.add_argument("--url", required=True, help="such as http://127.0.0.1:8000")
    parser.add_argument("--profile", choices=PROFILE_NAMES, default="smoke", help="default smoke")
    parser.add_argument(
        "--find-capacity", action="store_true",
        help="search for the highest rate that meets the goals of the profile slo",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("build/loadtest"), metavar="FOLDER",
        help="for raw rows and reports; default build/loadtest",
    )  # fmt: skip
    parser.add_argument(
        "--wait", type=read_seconds, default=120.0, metavar="S",
        help="wait so long until the service is ready; default 120",
    )  # fmt: skip
    parser.add_argument(
        "--api-key-env", metavar="NAME",
        help=f"environment variable that holds the API key (default {DEFAULT_KEY_ENV})",
    )  # fmt: skip
    _add_goals(parser)
    _add_load(parser)
    _add_starts(parser)
    return parser


def _add_goals(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("goals")
    group.add_argument(
        "--slo", type=Path, default=DEFAULT_FILE, metavar="FILE",
        help="goals in place of loadtest/slo.toml",
    )  # fmt: skip
    group.add_argument(
        "--deployment", metavar="NAME",
        help="a table of the goals (default: the one of the service's device)",
    )  # fmt: skip


def _add_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "--rate", type=_read_rate, metavar="R",
        help="expected load in requests a second (default: the deployment's)",
    )  # fmt: skip
    group.add_argument(
        "--duration", type=read_seconds, metavar="S", help="of the profile, warm-up left out"
    )
    group.add_argument(
        "--warm-up", type=_read_warm_up, metavar="S", help="sent before, and not counted"
    )
    group.add_argument("--seed", type=int, default=1, help="of texts and arrivals; default 1")
    group.add_argument(
        "--arrivals", choices=[str(each) for each in Spacing], default=str(Spacing.POISSON),
        help="default poisson",
    )  # fmt: skip
    group.add_argument(
        "--loop", choices=[str(each) for each in Loop], default=str(Loop.OPEN),
        help="closed: each request waits for the answer before it; default open",
    )  # fmt: skip
    group.add_argument(
        "--concurrency", type=read_count, default=8, metavar="N",
        help="requests at once in a closed loop; default 8",
    )  # fmt: skip
    group.add_argument(
        "--timeout", type=read_seconds, default=70.0, metavar="S",
        help="for one answer; default 70, more than the service takes for itself",
    )  # fmt: skip
    group.add_argument(
        "--max-runs", type=read_count, default=MAX_RUNS, metavar="N",
        help=f"of --find-capacity; default {MAX_RUNS}",
    )  # fmt: skip


def _add_starts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("profile coldstart")
    group.add_argument(
        "--start-command", metavar="COMMAND",
        help="starts the service at --url; {port} and {cache_dir} are filled in. Without it the "
        "first request to --url starts it (scale to zero)",
    )  # fmt: skip
    group.add_argument(
        "--cache-dir", type=Path, metavar="FOLDER",
        help="emptied before each cold start, DETECTOR_CACHE_DIR of all; warm starts follow",
    )  # fmt: skip
    group.add_argument(
        "--repeats", type=read_count, default=1, metavar="N", help="starts of each kind; default 1"
    )
    group.add_argument(
        "--idle", type=read_seconds, metavar="S",
        help="wait between repeats, so that the service scales to zero",
    )  # fmt: skip


def _read_rate(text: str) -> float:
    value = float(text)
    if not 0 < value <= 10_000:
        raise argparse.ArgumentTypeError("must be above 0 and at most 10000")
    return value


def _read_warm_up(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError("must be in [0, 3600]")
    return value


if __name__ == "__main__":
    # Ended by another process, it must end what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
