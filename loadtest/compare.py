"""Side by side, in one run: this service, vLLM's own server in several settings, the bare engine.

    python -m loadtest.compare --out reports/compare

Same weights, same prompts, same machine; contenders take turns, round by round, so that a machine
that changes its pace treats them alike. Tables go to ``compare.md``, raw figures to
``compare.json``. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import ctypes.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from contract.example import Example
from contract.manifest import CONTRACT_VERSION, fingerprint
from loadtest.conditions import describe_machine, find_commit
from loadtest.contenders import Contender, Ours, VllmServer, vllm_servers
from loadtest.measure import ContenderError, ContenderFigures, Level, measure
from loadtest.prompts import read_examples
from loadtest.report import compare_report
from loadtest.rows import percentile

_NUM_WARM_UP = 4
_LOADS = (8, 32)
_BARE_TIMEOUT_S = 900


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 0, or 2 where something could not be measured."""
    options = _parse(arguments)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    num_examples = _NUM_WARM_UP + options.alone + 3 * options.loaded
    try:
        examples, source = read_examples(Path(options.data), num_examples, options.seed)
        folder = options.folder or _prepared_folder(options.model)
        rounds, bare = _run(options, examples, folder, out)
        overheads = [_overhead(figures[0], run) for figures, run in zip(rounds, bare, strict=False)]
    except (ContenderError, ValueError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 2
    conditions = _conditions(options, source)
    record = {
        "conditions": conditions,
        "rounds": [[asdict(f) for f in figures] for figures in rounds],
        "bare_engine": bare,
    }
    (out / "compare.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    text = compare_report(conditions, rounds, overheads)
    (out / "compare.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.compare", description="This service beside vLLM's own server."
    )
    parser.add_argument("--out", default="reports/compare", help="folder for the report")
    parser.add_argument("--model", default="embedded", help="that this service serves")
    parser.add_argument("--folder", help="of the same weights; prepared where not given")
    parser.add_argument("--data", default="../shared/data/halueval_qa.jsonl", help="prompts")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--alone", type=int, default=16, help="requests sent one by one")
    parser.add_argument("--loaded", type=int, default=96, help="requests at each load")
    parser.add_argument("--seed", type=int, default=7, help="of the choice of prompts")
    parser.add_argument("--only", help="contenders whose name holds this text")
    parser.add_argument("--no-bare", action="store_true", help="leave the bare engine out")
    return parser.parse_args(arguments)


def _prepared_folder(model: str) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "service.fetch", "--model", model],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ContenderError(f"the weights of {model} could not be prepared, see above")
    return done.stdout.strip()


def _run(
    options: argparse.Namespace, examples: list[Example], folder: str, out: Path
) -> tuple[list[list[ContenderFigures]], list[dict[str, list[float]]]]:
    warm_up, rest = examples[:_NUM_WARM_UP], examples[_NUM_WARM_UP:]
    alone, rest = rest[: options.alone], rest[options.alone :]
    levels = [Level(1, "full", alone)]
    for load in _LOADS:
        levels.append(Level(load, "full", rest[: options.loaded]))
        rest = rest[options.loaded :]
    levels.append(Level(max(_LOADS), "short", rest))
    peers = vllm_servers(folder, _preload())
    contenders: list[Contender] = [Ours(options.model), *peers]
    contenders = [c for c in contenders if not options.only or options.only in c.name]
    rounds: list[list[ContenderFigures]] = []
    bare: list[dict[str, list[float]]] = []
    for number in range(1, options.rounds + 1):
        figures = []
        for index, contender in enumerate(contenders):
            _say(f"round {number}: {contender.name}")
            log = out / f"round{number}-contender{index}.log"
            figures.append(measure(contender, levels, warm_up, log))
            _say(_summary(figures[-1]))
        rounds.append(figures)
        if not options.no_bare:
            _say(f"round {number}: the bare engine")
            bare.append(_run_bare(folder, [*warm_up, *alone], peers[-1], out))
    return rounds, bare


def _run_bare(
    folder: str, examples: list[Example], like: VllmServer, out: Path
) -> dict[str, list[float]]:
    work = {"folder": folder, "examples": [asdict(example) for example in examples]}
    with (out / "bare-engine.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "loadtest.bare_engine"],
            input=json.dumps(work).encode(),
            env=like.environ(os.environ),
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=_BARE_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise ContenderError(f"the bare engine failed, see {out / 'bare-engine.log'}")
    figures: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _overhead(ours: ContenderFigures, bare: Mapping[str, Sequence[float]]) -> float:
    """Return p50 of the service over p50 of the bare engine, where both wrote as much."""
    alone = ours.levels[0]
    pairs = [
        (service_s, bare_s)
        for service_s, bare_s, tokens, bare_tokens in zip(
            alone.latencies_s,
            bare["latencies_s"],
            alone.output_tokens,
            bare["output_tokens"],
            strict=True,
        )
        if tokens == bare_tokens
    ]
    if not pairs:
        raise ContenderError("the bare engine and the service never wrote equally long replies")
    return percentile([s for s, _ in pairs], 50) / percentile([b for _, b in pairs], 50)


def _conditions(options: argparse.Namespace, source: str) -> dict[str, str]:
    return {
        "command": "python -m loadtest.compare "
        f"--rounds {options.rounds} --alone {options.alone} --loaded {options.loaded} "
        f"--seed {options.seed}",
        "commit": find_commit(),
        "machine": describe_machine(),
        "prompts": source,
        "model": options.model,
        "contract": f"version {CONTRACT_VERSION}, {fingerprint()}",
        "preloaded": _preload() or "nothing",
    }


def _preload() -> str:
    """Return ``LD_PRELOAD`` for tcmalloc and Intel's OpenMP, as far as they are installed."""
    found = [ctypes.util.find_library("tcmalloc_minimal"), None]
    iomp = Path(sys.prefix) / "lib" / "libiomp5.so"
    if iomp.is_file():
        found[1] = str(iomp)
    return ":".join(path for path in found if path)


def _summary(figures: ContenderFigures) -> str:
    levels = ", ".join(
        f"{f.path} x{f.concurrency}: {f.requests_per_s:.2f} req/s p50 {f.p50_s:.3f} s"
        for f in figures.levels
    )
    return (
        f"  first verdict {figures.first_verdict_s:.1f} s, {figures.peak_memory_mib:.0f} MiB, "
        f"{levels}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
