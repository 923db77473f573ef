"""The evaluation of a policy on rows that no training touched, and the calibration that it earns.

Judged is the run's last adapter, another adapter or checkpoint, a folder of weights, a repository
of the Hub at a commit, ``base`` for the model as training begins with it, or a running service by
its URL. Each set gives its own rows and those that a treatment made, apart: raw HaluEval QA is
decided by a full stop (docs/data.md).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from contract.calibration import Calibration, LabelLogprobs
from contract.labels import Label
from evaluation.calibration import ThresholdRow, fit_temperature, threshold_table
from evaluation.prediction import Prediction
from evaluation.remote import describe_service, predict_remotely
from evaluation.report import Evaluation, evaluate, write_report
from training.config import ModelConfig, RunConfig
from training.errors import ExportError, ModelError
from training.judged_rows import choose_rows, find_length_matched, find_parts
from training.judging import Judgement, judge, judge_shortly
from training.merging import hash_adapter
from training.models import Codec, base_folder, load_policy, load_tokenizer
from training.provenance import find_commit, find_data_revisions, find_hardware
from training.records import Record, read_records
from training.results import CALIBRATION_NAME, WEIGHTS_KEY, read_calibration
from training.runs import write_json

if TYPE_CHECKING:
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

BASE = "base"
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
    """Judge the test part and write ``evaluation/<name>.{json,md,png}``, and the short path's.

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
    test = choose_rows(config, read_records(run.data("test")))
    fit_rows = read_records(run.data("train"))
    served = _read_temperature(run, judged.revision)
    ask = _ask_service(judged.url, served) if judged.url else _ask_model(config, judged)
    calibration = Calibration()
    if what is None:
        validation = choose_rows(config, read_records(run.data("validation")))
        calibration = _calibrate(run, judged, validation, ask(validation, False))
    elif judged.url is not None:
        calibration = Calibration(served)
    # The same for both paths: neither depends on what was said.
    matched, parts = find_length_matched([*test, *fit_rows]), find_parts(test)
    provenance = _provenance(config, judged, what, calibration)
    results = []
    for name, is_short in ((judged.name, False), (f"{judged.name}-short-path", True)):
        predictions = _predict(test, ask(test, is_short), calibration)
        report = evaluate(
            predictions,
            fit_rows,
            matched,
            provenance,
            parts=parts,
            bootstrap_samples=config.evaluation.bootstrap_samples,
            seed=config.seed,
        )
        logger.info("%s", write_report(run.evaluation, name, report).markdown)
        results.append(report)
    return results[0]


@dataclass(frozen=True, slots=True)
class _Told:
    """What was said of a row; the verdict and the odds are None where nothing could be read."""

    verdict: Label | None
    log_odds: float | None
    justification: str | None


_Ask = Callable[[Sequence[Record], bool], list[_Told]]


def _ask_service(url: str, temperature: float) -> _Ask:
    """Ask a service; its probabilities are taken back to the odds before calibration."""

    def ask(records: Sequence[Record], is_short: bool) -> list[_Told]:
        report = _progress("asked")
        told = predict_remotely(url, records, justification=not is_short, progress=report)
        return [
            _Told(
                each.verdict,
                None if each.probability is None else temperature * _log_odds(each.probability),
                each.justification,
            )
            for each in told
        ]

    return ask


def _log_odds(probability: float) -> float:
    # A service gives six digits.
    probability = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(probability / (1 - probability))


def _ask_model(config: RunConfig, judged: Judge) -> _Ask:
    model, codec = _load(config, judged)

    def ask(records: Sequence[Record], is_short: bool) -> list[_Told]:
        if is_short:
            judgements = judge_shortly(model, codec, records, config.evaluation.batch_size)
        else:
            judgements = _judge_all(config, model, codec, records)
        return [
            _Told(
                each.label if each.is_readable else None,
                each.log_odds if each.is_readable else None,
                each.justification,
            )
            for each in judgements
        ]

    return ask


def find_judge(config: RunConfig, run: RunFolder, what: str | None) -> Judge:
    """Return what a word on the command line means.

    Raises:
        ModelError: Nothing.
    """
    if what is None:
        adapter = run.last_adapter(config)
        url = config.evaluation.url
        return Judge(adapter.parent.name, config.model.name, hash_adapter(adapter), adapter, url)
    if what.startswith(("http://", "https://")):
        served = describe_service(what)
        return Judge("service", served.model, served.revision, url=what)
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
        try:
            model_config = ModelConfig.model_validate(fields)
        except ValidationError as error:
            raise ModelError(f"{what} is not org/repo@<40 hex digits>: {error}") from error
        return Judge(repo.replace("/", "-"), repo, revision, model_config=model_config)
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


def _read_temperature(run: RunFolder, revision: str) -> float:
    """Return the temperature that the run's adapter is exported with; 1 before it is fitted."""
    try:
        return read_calibration(run.evaluation, revision).temperature
    except ExportError:
        return 1.0


def _calibrate(
    run: RunFolder, judged: Judge, records: Sequence[Record], told: Sequence[_Told]
) -> Calibration:
    """Fit the temperature on rows that neither training nor the test part holds; write it."""
    read = [
        (record.label, each.log_odds)
        for record, each in zip(records, told, strict=True)
        if each.log_odds is not None
    ]
    labels, odds = [label for label, _ in read], [value for _, value in read]
    calibration = Calibration(fit_temperature(odds, labels), 0.5)
    probabilities = [_probability(value, calibration) for value in odds]
    write_json(
        run.evaluation / CALIBRATION_NAME,
        {
            "temperature": calibration.temperature,
            "threshold": calibration.threshold,
            "num_rows": len(read),
            WEIGHTS_KEY: judged.revision,
            "thresholds": [_threshold_json(row) for row in threshold_table(probabilities, labels)],
        },
    )
    return calibration


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
    records: Sequence[Record], told: Sequence[_Told], calibration: Calibration
) -> list[Prediction]:
    return [
        Prediction(
            id=record.id,
            pair_id=record.pair_id,
            set_name=record.set_name,
            gold=record.label,
            verdict=each.verdict,
            probability=(
                None if each.log_odds is None else _probability(each.log_odds, calibration)
            ),
            justification=each.justification,
            response=record.response,
            knowledge=record.knowledge,
            question=record.question,
        )
        for record, each in zip(records, told, strict=True)
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
