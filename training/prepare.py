"""The first stage: sources to ``data/{train,validation,test}.jsonl`` with statistics and manifest.

Run it with ``python -m training prepare CONFIG``. It prints how far one gets without reading the
knowledge, before anything is trained.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contract.manifest import CONTRACT_VERSION, fingerprint
from training.cleaning import Cleaned, clean, drop_conflicts, keep_whole_pairs
from training.errors import DataError
from training.inputs import DATA
from training.records import Record, write_records
from training.runs import write_json, write_text
from training.sources import load_set
from training.splits import Fractions, Split, leave_out_shared, split_by_pair
from training.statistics import describe, to_markdown
from training.treatment import treat

if TYPE_CHECKING:
    from training.config import RunConfig
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

PARTS = ("train", "validation", "test")
MANIFEST = "manifest.json"


@dataclass(slots=True)
class _Sources:
    records: list[Record] = field(default_factory=list)
    revisions: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)


def prepare(config: RunConfig, run: RunFolder, data_dir: Path) -> None:
    """Write the run's data, unless the same are there already.

    Args:
        config: Of the run.
        run: Its folder.
        data_dir: Holds the files of sets of kind ``folder``.

    Raises:
        DataError: A source cannot be read, or a part is left without one of the classes.
        CheckpointError: The run's data were made from other inputs.
    """
    stage = run.stage(DATA)
    state = stage.state(config)
    stage.check_unchanged(state)
    sources = _load(config, data_dir)
    if state.is_finished and _are_kept(stage.path, sources.revisions):
        logger.info("%s: the data are prepared already and are kept as they are", stage.path)
        return
    stage.mark_started(config)
    raw = _split(config, sources)
    treated = _treat(raw, config)
    _check_classes(treated)
    _write_statistics(stage.path, raw, treated)
    counts = {part: write_records(run.data(part), rows) for part, rows in _parts(treated).items()}
    write_json(stage.path / MANIFEST, _manifest(config, sources, counts))
    stage.finish(config)
    logger.info("%s: %s", stage.path, ", ".join(f"{n} rows {part}" for part, n in counts.items()))


def _parts(split: Split) -> dict[str, Sequence[Record]]:
    return {"train": split.train, "validation": split.validation, "test": split.test}


def _load(config: RunConfig, data_dir: Path) -> _Sources:
    sources = _Sources()
    for each in config.data.sets:
        loaded = load_set(each, data_dir, config.seed)
        cleaned = clean(loaded.records)
        sources.records += cleaned.records
        sources.revisions[each.name] = loaded.revision
        sources.origins[each.name] = loaded.origin
        sources.dropped[each.name] = Counter(cleaned.dropped)
        for reason, count in cleaned.dropped.items():
            logger.info("%s: %d rows left out: %s", each.name, count, reason)
    return sources


def _are_kept(folder: Path, revisions: Mapping[str, str]) -> bool:
    """Whether the prepared data were made from these very sources and are whole.

    Raises:
        DataError: The sources have changed since.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        made_from = {name: each["revision"] for name, each in manifest["sets"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    changed = sorted(name for name in revisions if made_from.get(name) != revisions[name])
    if changed:
        raise DataError(
            f"{folder} was made from other files of {', '.join(changed)}: nothing is deleted; "
            "choose another name with --set name=..., or put the old files back"
        )
    return all((folder / f"{part}.jsonl").is_file() for part in PARTS)


def _shape(split: Split, config: RunConfig, dropped: dict[str, Counter[str]]) -> Split:
    """Bring the rows into the mode: without knowledge, or whole pairs alone."""
    parts: list[tuple[Record, ...]] = []
    for rows in _parts(split).values():
        shaped = Cleaned(tuple(rows), {})
        if config.data.mode == "no-knowledge":
            # Rows that differed in their knowledge alone are the same question now.
            shaped = drop_conflicts([replace(row, knowledge=None) for row in rows])
        elif config.data.mode == "paired":
            shaped = keep_whole_pairs(rows)
        before, after = (
            Counter(r.set_name for r in rows),
            Counter(r.set_name for r in shaped.records),
        )
        for name, count in (before - after).items():
            dropped[name][f"mode {config.data.mode}"] += count
        parts.append(shaped.records)
    return Split(*parts)


def _split(config: RunConfig, sources: _Sources) -> Split:
    fractions = Fractions(config.data.validation_fraction, config.data.test_fraction)
    whole = split_by_pair(sources.records, fractions, config.seed)
    split = leave_out_shared(whole)
    before, after = (Counter(row.set_name for row in each.train) for each in (whole, split))
    for name, count in (before - after).items():
        reason = "sentence shared with a held-out text"
        logger.info("%s: %d training rows left out: %s", name, count, reason)
        sources.dropped[name][reason] += count
    return _shape(split, config, sources.dropped)


def _treat(split: Split, config: RunConfig) -> Split:
    treatment = config.data.treatment
    return Split(
        tuple(treat(split.train, treatment, config.seed)),
        tuple(treat(split.validation, treatment, config.seed, is_training=False)),
        tuple(treat(split.test, treatment, config.seed, is_training=False)),
    )


def _check_classes(split: Split) -> None:
    for part, rows in _parts(split).items():
        labels = {row.label for row in rows}
        if len(labels) < 2:
            held = f"only the class {next(iter(labels))}" if labels else "no rows"
            raise DataError(
                f"the {part} part would hold {held}: use more pairs (max_pairs), a larger "
                "fraction, or another seed. Rows that share a pair or a knowledge stay together"
            )


def _write_statistics(folder: Path, raw: Split, treated: Split) -> None:
    before = describe(raw.train, raw.test)
    after = describe(treated.train, treated.test)
    table = to_markdown(before, after)
    write_json(folder / "statistics.json", {"raw": before.to_json(), "treated": after.to_json()})
    write_text(folder / "statistics.md", table)
    logger.info("What the data look like, and what reading nothing reaches:\n\n%s", table)


def _manifest(config: RunConfig, sources: _Sources, counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "seed": config.seed,
        "contract": {"version": CONTRACT_VERSION, "fingerprint": fingerprint()},
        "mode": config.data.mode,
        "sets": {
            each.name: {
                "origin": sources.origins[each.name],
                "revision": sources.revisions[each.name],
                "dropped": dict(sorted(sources.dropped[each.name].items())),
            }
            for each in config.data.sets
        },
        "rows": dict(counts),
    }
