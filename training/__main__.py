"""``python -m training``: from labelled examples to weights that the service loads.

    python -m training run training/configs/smoke.toml
    python -m training grpo training/configs/qwen3-4b/qa-paired.toml --set rl.max_steps=100 --resume

Each stage is a command; ``run`` does them all and passes over what is finished. What a run leaves
stands in ``runs/<name>/``.

Exit codes: 0 done; 1 it cannot go on, the message says what to do; 2 a wrong argument; 3 the run
was ended because it learned nothing any more; 130 Ctrl-C or SIGTERM, ``--resume`` goes on.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from training.pipeline import Job

_HELP = {
    "prepare": "read the data sets, split them by pair, treat them, print what shortcuts reach",
    "warmstart": "supervised training in the full format of a reply",
    "grpo": "reinforcement learning, by the algorithm that rl.algorithm names",
    "evaluate": "judge the test part: this run's last adapter, or WHAT",
    "export": "write the weights with all that the service checks",
    "push": "upload the export to the Hub",
    "report": "draw what the run measured",
    "run": "all of them in this order; finished ones are passed over",
}
_COMPUTING = ("warmstart", "grpo", "evaluate", "run")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file")
    shared.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE",
        help="change a setting, such as rl.max_steps=100; can be repeated",
    )  # fmt: skip
    shared.add_argument(
        "--data-dir", type=Path, metavar="DIR", help='folder of the sets of kind "folder"'
    )
    shared.add_argument("--runs-dir", type=Path, default=Path("runs"), metavar="DIR")
    shared.add_argument(
        "--resume", action="store_true", help="go on from the last whole checkpoint"
    )
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description="From labelled examples to weights that the service loads.",
    )
    commands = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name, text in _HELP.items():
        command = commands.add_parser(name, parents=[shared], help=text, description=text)
        if name == "evaluate":
            command.add_argument(
                "what", nargs="?", metavar="WHAT",
                help="a folder of an adapter or of weights, org/repo@revision, base, or a URL",
            )  # fmt: skip
        if name == "export":
            command.add_argument("--target", type=Path, metavar="DIR", help="where to write")
        if name == "push":
            command.add_argument("--dry-run", action="store_true", help="print what would go")
    return parser


def main(
    arguments: Sequence[str] | None = None, prepare_process: Callable[[], None] | None = None
) -> int:
    """Run a command; return the exit code.

    Args:
        arguments: Of the command line; this process's own where None.
        prepare_process: Called before anything is computed.
    """
    options = make_parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    # One line for each request of an evaluation would bury the progress.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    command = shlex.join(
        ["python", "-m", "training", *(sys.argv[1:] if arguments is None else arguments)]
    )
    from contract.errors import ContractError
    from evaluation.errors import EvaluationError
    from training.errors import StoppedRunError, TrainingError

    try:
        if prepare_process is not None and options.stage in _COMPUTING:
            prepare_process()
        _run(options, command)
    except StoppedRunError as error:
        _say(f"stopped: {error}")
        return 3
    except (TrainingError, EvaluationError, ContractError) as error:
        _say(f"cannot go on: {error}")
        return 1
    except KeyboardInterrupt:
        again = command if options.resume else f"{command} --resume"
        _say(f"interrupted. Nothing half-written counts; go on with: {again}")
        return 130
    except Exception as error:
        from training.runs import is_disk_full

        if not is_disk_full(error):
            raise
        _say(
            f"cannot go on: the disk of {options.runs_dir} is full. Nothing half-written counts: "
            "make room (older checkpoint-N folders, broken-* ones), then add --resume"
        )
        return 1
    return 0


def _run(options: argparse.Namespace, command: str) -> None:
    from training.pipeline import Stage, run_all, run_stage

    job = _make_job(options, command)
    if options.stage == "run":
        run_all(job)
    else:
        run_stage(Stage(options.stage), job)


def _make_job(options: argparse.Namespace, command: str) -> Job:
    from training.config_file import load_config
    from training.pipeline import Job
    from training.runs import RunFolder

    config = load_config(options.config, options.overrides)
    return Job(
        config,
        RunFolder(options.runs_dir / config.name),
        data_dir=options.data_dir,
        is_resume=options.resume,
        what=vars(options).get("what"),
        target=vars(options).get("target"),
        is_dry_run=vars(options).get("dry_run", False),
        command=command,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _prepare_process() -> None:
    from training.allocator import relaunch_under_tcmalloc

    relaunch_under_tcmalloc()


if __name__ == "__main__":
    # Before anything imports the libraries that read them.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Machines that are taken away send SIGTERM first: it ends a run like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(prepare_process=_prepare_process))
