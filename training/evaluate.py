"""The evaluation of a policy on rows that no training touched, and the calibration that it earns.

Judged is the run's last adapter, another adapter or checkpoint, a folder of weights, a repository
of the Hub at a commit, ``base`` for the model as training begins with it, or a running service by
its URL. Each set gives its own rows and those that a treatment made, apart: raw HaluEval QA is
decided by a full stop (docs/data.md).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contract.calibration import Calibration, LabelLogprobs
from contract.labels import Label
from evaluation.calibration import ThresholdRow, fit_temperature, threshold_table
from evaluation.prediction import Prediction
from evaluation.remote import predict_remotely
from evaluation.report import Evaluation, evaluate, write_report
from training.config import ModelConfig, RunConfig
from training.errors import DataError, ModelError
from training.judging import Judgement, judge, judge_shortly
from training.merging import hash_adapter
from training.models import Codec, base_folder, load_policy, load_tokenizer
from training.provenance import find_commit, find_data_revisions, find_hardware
from training.records import Record, read_records
from training.results import CALIBRATION_NAME, WEIGHTS_KEY
from training.runs import write_json

if TYPE_CHECKING:
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

BASE = "base"
RAW, TREATED, PERTURBED = "raw", "treated", "perturbed"
_RAW_TREATMENTS = {"raw", "kept", "punctuated", "length-matched"}
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Judge:
    """What is evaluated.

    Attributes:
        name: Of the report's files.
        model: What it is, for the report.
        revision: Which one: the adapter's hash, a commit, what a service says.
        adapter: Folder of the adapter, where it is one.
        url: Of the service, where it is one.
        model_config: To load it with, where it is neither.
    """

    name: str
    model: str
    revision: str
    adapter: Path | None = None
    url: str | None = None
    model_config: ModelConfig | None = None


def evaluate_stage(config: RunConfig, run: RunFolder, what: str | None = None) -> Evaluation:
    """Judge the test part and write ``evaluation/<name>.{json,md,png}``.

    Where it is the run's own last adapter, its temperature is fitted on the validation part first
    and written to ``evaluation/calibration.json``.

    Args:
        config: Of the run.
        run: Its folder, with prepared data.
        what: As the module says; None for the run's last adapter.

    Raises:
        ModelError: There is nothing to judge under that name.
        DataError: The data are not prepared.
        EvaluationError: A service did not answer every row.
    """
    judged = find_judge(config, run, what)
    test = _choose(config, read_records(run.data("test")))
    fit_rows = read_records(run.data("train"))
    calibration = Calibration()
    table: tuple[ThresholdRow, ...] = ()
    if judged.url is not None:
        predictions = predict_remotely(judged.url, test, progress=_progress("asked"))
        short = predict_remotely(judged.url, test, justification=False)
    else:
        model, codec = _load(config, judged)
        if what is None:
            validation = _choose(config, read_records(run.data("validation")))
            told = _judge_all(config, model, codec, validation)
            calibration, table = _calibrate(validation, told)
            write_json(
                run.evaluation / CALIBRATION_NAME,
                {
                    "temperature": calibration.temperature,
                    "threshold": calibration.threshold,
                    "num_rows": len(validation),
                    WEIGHTS_KEY: judged.revision,
                    "thresholds": [_threshold_json(row) for row in table],
                },
            )
        predictions = _predict(test, _judge_all(config, model, codec, test), calibration)
        short = _predict(
            test, judge_shortly(model, codec, test, config.evaluation.batch_size), calibration
        )
    for name, rows in ((judged.name, predictions), (f"{judged.name}-short-path", short)):
        report = evaluate(
            rows,
            fit_rows,
            find_length_matched([*test, *fit_rows]),
            _provenance(config, judged, what, calibration),
            parts=_parts(test),
            bootstrap_samples=config.evaluation.bootstrap_samples,
            seed=config.seed,
        )
        paths = write_report(run.evaluation, name, report)
        logger.info("%s", paths.markdown)
        if rows is predictions:
            result = report
    return result


def find_judge(config: RunConfig, run: RunFolder, what: str | None) -> Judge:
    """Return what a word on the command line means.

    Raises:
        ModelError: Nothing.
    """
    if what is None:
        adapter = run.last_adapter(config)
        return Judge(adapter.parent.name, config.model.name, hash_adapter(adapter), adapter)
    if what.startswith(("http://", "https://")):
        from client import DetectorClient

        with DetectorClient(what) as client:
            model = client.info()["model"]
        return Judge("service", str(model["id"]), str(model["revision"]), url=what)
    if what == BASE:
        return Judge(
            BASE, config.model.name, config.model.revision or BASE, None, None, config.model
        )
    folder = Path(what)
    if (folder / "adapter_config.json").is_file():
        name = f"{folder.parent.name}-{folder.name}"
        return Judge(name, config.model.name, hash_adapter(folder), folder)
    if (folder / "config.json").is_file():
        model_config = config.model.model_copy(update={"name": str(folder.resolve())})
        return Judge(folder.name, folder.name, "folder", model_config=model_config)
    repo, at, revision = what.partition("@")
    if at and not folder.exists():
        fields = {**config.model.model_dump(), "name": repo, "revision": revision}
        return Judge(
            repo.replace("/", "-"), repo, revision, model_config=ModelConfig.model_validate(fields)
        )
    raise ModelError(
        f"{what} is no adapter, no folder of weights, no URL, and no org/repo@revision: give one "
        f"of them, {BASE!r} for the base model, or nothing for the run's last adapter"
    )


def _load(config: RunConfig, judged: Judge) -> tuple[Any, Codec]:
    model_config = judged.model_config or config.model
    folder = base_folder(model_config)
    codec = Codec(load_tokenizer(folder))
    model = load_policy(model_config, folder, adapter=judged.adapter, seed=config.seed)
    model.eval()
    return model, codec


def _choose(config: RunConfig, records: Sequence[Record]) -> list[Record]:
    """Return up to ``rows_per_set`` rows of each part of each set, whole pairs, by the seed."""
    wanted = config.evaluation.sets
    parts: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        if not wanted or record.set_name in wanted:
            key = (record.set_name, part_of(record))
            parts.setdefault(key, {}).setdefault(record.pair_id, []).append(record)
    if not parts:
        raise DataError("there is no row to judge: look at evaluation.sets")
    chosen: list[Record] = []
    for key in sorted(parts):
        pairs = [parts[key][pair_id] for pair_id in sorted(parts[key])]
        random.Random(config.seed).shuffle(pairs)  # noqa: S311 - no secret hangs on it
        rows: list[Record] = []
        for pair in pairs:
            if rows and len(rows) + len(pair) > config.evaluation.rows_per_set:
                break
            rows += pair
        chosen += rows
    return chosen


def part_of(record: Record) -> str:
    """Return whether a row is as it was found, made from a pair's responses, or made by rule."""
    if record.treatment in _RAW_TREATMENTS:
        return RAW
    return PERTURBED if record.treatment == PERTURBED else TREATED


def _parts(records: Sequence[Record]) -> dict[str, set[str]]:
    parts: dict[str, set[str]] = {}
    for record in records:
        parts.setdefault(part_of(record), set()).add(record.id)
    return parts


def find_length_matched(records: Sequence[Record]) -> set[str]:
    """Return the ids of rows whose part of the pair holds both classes within one word of length.

    Each such row has a partner of the other class; what stands in no such couple is left out.
    """
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.set_name, record.pair_id, part_of(record)), []).append(record)
    matched: set[str] = set()
    for rows in groups.values():
        free = [row for row in rows if row.label is Label.CORRECT]
        for row in rows:
            if row.label is Label.CORRECT:
                continue
            length = len(row.response.split())
            partner = next(
                (other for other in free if abs(len(other.response.split()) - length) <= 1), None
            )
            if partner is not None:
                free.remove(partner)
                matched |= {row.id, partner.id}
    return matched


def _judge_all(
    config: RunConfig, model: Any, codec: Codec, records: Sequence[Record]
) -> list[Judgement]:
    """Judge in chunks of like length, with progress."""
    order = sorted(range(len(records)), key=lambda i: len(codec.prompt(records[i].example)))
    told: dict[int, Judgement] = {}
    report = _progress("judged")
    for start in range(0, len(order), _CHUNK):
        part = order[start : start + _CHUNK]
        judgements = judge(
            model,
            codec,
            [records[i] for i in part],
            config.rl.max_completion_tokens,
            config.evaluation.batch_size,
        )
        told.update(zip(part, judgements, strict=True))
        report(len(told), len(records))
    return [told[i] for i in range(len(records))]


def _progress(verb: str) -> Any:
    steps = set()

    def report(done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth not in steps:
            steps.add(tenth)
            logger.info("%s %d of %d rows", verb, done, total)

    return report


def _calibrate(
    records: Sequence[Record], judgements: Sequence[Judgement]
) -> tuple[Calibration, tuple[ThresholdRow, ...]]:
    labels = [record.label for record in records]
    odds = [judgement.log_odds for judgement in judgements]
    calibration = Calibration(fit_temperature(odds, labels), 0.5)
    probabilities = [_probability(value, calibration) for value in odds]
    return calibration, threshold_table(probabilities, labels)


def _threshold_json(row: ThresholdRow) -> dict[str, Any]:
    return {
        "goal": str(row.goal),
        "target": row.target,
        "threshold": row.threshold,
        "precision": row.precision,
        "recall": row.recall,
        "balanced_accuracy": row.balanced_accuracy,
    }


def _probability(log_odds: float, calibration: Calibration) -> float:
    return calibration.probability(LabelLogprobs(log_odds, 0.0))


def _predict(
    records: Sequence[Record], judgements: Sequence[Judgement], calibration: Calibration
) -> list[Prediction]:
    return [
        Prediction(
            id=record.id,
            pair_id=record.pair_id,
            set_name=record.set_name,
            gold=record.label,
            verdict=judgement.label if judgement.is_readable else None,
            probability=_probability(judgement.log_odds, calibration),
            justification=judgement.justification,
            response=record.response,
            knowledge=record.knowledge,
            question=record.question,
        )
        for record, judgement in zip(records, judgements, strict=True)
    ]


def _provenance(
    config: RunConfig, judged: Judge, what: str | None, calibration: Calibration
) -> dict[str, Any]:
    provenance: dict[str, Any] = {
        "model": judged.model,
        "revision": judged.revision,
        "data_revisions": find_data_revisions(config.data),
        "command": f"python -m training evaluate {config.name}.toml {what or ''}".strip(),
        "commit": find_commit(),
        "hardware": find_hardware(),
        "seed": config.seed,
        "temperature": calibration.temperature,
    }
    if judged.adapter is not None:
        provenance[WEIGHTS_KEY] = judged.revision
    return provenance
