"""A comparison as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from loadtest.measure import ContenderFigures, LevelFigures


def compare_report(
    conditions: Mapping[str, str],
    rounds: Sequence[Sequence[ContenderFigures]],
    overheads: Sequence[float],
) -> str:
    """Return the tables: figures of each contender, then ratios against the first.

    Args:
        conditions: Name -> value, for the list on top.
        rounds: Each with the same contenders in the same order.
        overheads: One a round: the service's latency over the bare engine's, as a ratio of medians.
    """
    lines = ["# Side by side", "", *(f"- {name}: {value}" for name, value in conditions.items())]
    lines += ["", "Medians over the rounds, the range in brackets.", ""]
    lines += _figures_table(rounds)
    lines += ["", "This service over each (above 1: this service is faster):", ""]
    lines += _ratio_table(rounds)
    if overheads:
        lines += [
            "",
            "Latency of the service over the bare engine, one request at a time, ratio of medians "
            f"over prompts with equal output: {_spread(overheads, 3)}.",
        ]
    return "\n".join(lines) + "\n"


def _figures_table(rounds: Sequence[Sequence[ContenderFigures]]) -> list[str]:
    lines = [
        "| contender | at once | path | req/s | p50 s | p95 s | output tokens | no verdict "
        "| start to first verdict s | peak memory MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for index, contender in enumerate(rounds[0]):
        start = _spread([r[index].first_verdict_s for r in rounds], 1)
        memory = _spread([r[index].peak_memory_mib for r in rounds], 0)
        for number, level in enumerate(contender.levels):
            of = [r[index].levels[number] for r in rounds]
            lines.append(
                f"| {contender.name} | {level.concurrency} | {level.path} "
                f"| {_spread([f.requests_per_s for f in of], 2)} "
                f"| {_spread([f.p50_s for f in of], 3)} | {_spread([f.p95_s for f in of], 3)} "
                f"| {_spread([f.mean_output_tokens for f in of], 1)} "
                f"| {_spread([f.num_without_verdict for f in of], 0)} | {start} | {memory} |"
            )
            start = memory = ""
    return lines


def _ratio_table(rounds: Sequence[Sequence[ContenderFigures]]) -> list[str]:
    lines = [
        "| over | req/s at most at once | p50 alone (theirs / ours) | start (ours / theirs) |",
        "|---|---|---|---|",
    ]
    for index in range(1, len(rounds[0])):
        throughput = [_busiest(r[0]).requests_per_s / _busiest(r[index]).requests_per_s
                      for r in rounds]  # fmt: skip
        alone = [r[index].levels[0].p50_s / r[0].levels[0].p50_s for r in rounds]
        start = [r[0].first_verdict_s / r[index].first_verdict_s for r in rounds]
        lines.append(
            f"| {rounds[0][index].name} | {_spread(throughput, 2)} | {_spread(alone, 2)} "
            f"| {_spread(start, 2)} |"
        )
    return lines


def _busiest(figures: ContenderFigures) -> LevelFigures:
    full = [level for level in figures.levels if level.path == "full"]
    return max(full, key=lambda level: level.concurrency)


def _spread(values: Sequence[float], digits: int) -> str:
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})"
