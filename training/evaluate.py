"""The evaluation of a policy on rows that no training touched, and the calibration that it earns.

Judged is the run's last adapter, another adapter or checkpoint, a folder of weights, a repository
of the Hub at a commit, ``base`` for the model as training begins with it, or a running service by
its URL. Each set gives its own rows and those that a treatment made, apart: raw HaluEval QA is
decided by a full stop (docs/data.md).

What was judged is kept in the folder of the reports until they are written: an evaluation that was
interrupted goes on from there. A service is asked again.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contract.calibration import Calibration, LabelLogprobs
from contract.labels import Label
from evaluation.calibration import ThresholdRow, fit_temperature, threshold_table
from evaluation.prediction import Prediction
from evaluation.remote import predict_remotely
from evaluation.report import Evaluation, evaluate, write_report
from training.config import RunConfig
from training.errors import ExportError
from training.inputs import describe_contract
from training.judged_rows import (
    Fitting,
    choose_rows,
    find_length_matched,
    find_parts,
    leave_out_long,
)
from training.judges import BASE, Judge, check_weights, find_judge
from training.judging import Judgement, judge, judge_shortly
from training.kept_judgements import KeptJudgements
from training.models import Codec, base_folder, load_policy, load_tokenizer
from training.provenance import describe_model, find_commit, find_data_revisions, find_hardware
from training.records import Record, read_records
from training.results import CALIBRATION_NAME, WEIGHTS_KEY, read_calibration
from training.runs import write_json

if TYPE_CHECKING:
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

_CHUNK_BATCHES = 8
"""Batches between two lines of progress; so much is judged anew after an interruption at most."""


def evaluate_stage(
    config: RunConfig, run: RunFolder, what: str | None = None, command: str = ""
) -> Evaluation:
    """Judge the test part and write ``evaluation/<name>.{json,md,png}``, and the short path's.

    Where it is the run's own last adapter, its temperature is fitted on the validation part first
    and written to ``evaluation/calibration.json``.

    Args:
        config: Of the run.
        run: Its folder, with prepared data.
        what: As the module says; None for the run's last adapter.
        command: How it was asked for, for the report.

    Raises:
        ModelError: There is nothing to judge under that name, or weights of another contract.
        DataError: The data are not prepared, or no prompt is within the budget.
        EvaluationError: A service did not answer every row.
    """
    judged = find_judge(config, run, what)
    rows = choose_rows(config, read_records(run.data("test")))
    fit_rows = read_records(run.data("train"))
    served = Calibration(_read_temperature(run, judged.revision))
    kept = _keep_judgements(config, run, judged)
    judging = _ask_service(judged.url, served) if judged.url else _ask_model(config, judged, kept)
    fitting = judging.fit(rows)
    test = fitting.kept
    calibration = served if judged.url else Calibration()
    if what is None:
        calibration = _calibrate(config, run, judged, judging)
    # The same for both paths: neither depends on what was said.
    matched, parts = find_length_matched([*test, *fit_rows]), find_parts(test)
    provenance = _provenance(config, judged, calibration)
    provenance |= {"command": command or _guess_command(config, what), **_left_out(config, fitting)}
    results = []
    for name, is_short in ((judged.name, False), (f"{judged.name}-short-path", True)):
        predictions = _predict(test, judging.ask(test, is_short), calibration)
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
    if kept is not None:
        kept.forget()
    return results[0]


@dataclass(frozen=True, slots=True)
class _Told:
    """What was said of a row; the verdict and the odds are None where nothing could be read."""

    verdict: Label | None
    log_odds: float | None
    justification: str | None


_Ask = Callable[[Sequence[Record], bool], list[_Told]]


@dataclass(frozen=True, slots=True)
class _Judging:
    """How rows are judged.

    Attributes:
        ask: Rows, and whether on the short path -> what was said.
        fit: Parts rows by what can be asked.
    """

    ask: _Ask
    fit: Callable[[Sequence[Record]], Fitting]


def _ask_service(url: str, calibration: Calibration) -> _Judging:
    """Ask a service; its probabilities are taken back to the odds before calibration.

    Long prompts are its own matter: it has a limit of its own.
    """

    def ask(records: Sequence[Record], is_short: bool) -> list[_Told]:
        report = _progress("asked")
        told = predict_remotely(url, records, justification=not is_short, progress=report)
        return [
            _Told(
                each.verdict,
                _log_odds(each.probability, calibration),
                each.justification,
            )
            for each in told
        ]

    return _Judging(ask, lambda records: Fitting(list(records), []))


def _log_odds(probability: float | None, calibration: Calibration) -> float | None:
    """Return the odds of before a calibration; None where there are none."""
    if probability is None:
        return None
    # A service gives six digits.
    probability = min(max(probability, 1e-6), 1 - 1e-6)
    return calibration.temperature * math.log(probability / (1 - probability))


def _ask_model(config: RunConfig, judged: Judge, kept: KeptJudgements | None) -> _Judging:
    model, codec = _load(config, judged)

    def ask(records: Sequence[Record], is_short: bool) -> list[_Told]:
        if is_short:
            judgements = judge_shortly(model, codec, records, config.evaluation.batch_size)
        else:
            judgements = _judge_all(config, model, codec, records, kept)
        return [
            _Told(
                each.label if each.is_readable else None,
                each.log_odds if each.is_readable else None,
                each.justification,
            )
            for each in judgements
        ]

    def fit(records: Sequence[Record]) -> Fitting:
        # Attention over a prompt of any length would take memory without limit.
        return leave_out_long(records, codec, config.model.max_prompt_tokens)

    return _Judging(ask, fit)


def _load(config: RunConfig, judged: Judge) -> tuple[Any, Codec]:
    model_config = judged.model_config or config.model
    folder = base_folder(model_config)
    if judged.adapter is None and judged.name != BASE:
        check_weights(folder)
    codec = Codec(load_tokenizer(folder))
    model = load_policy(model_config, folder, adapter=judged.adapter, seed=config.seed)
    model.eval()
    return model, codec


def _keep_judgements(config: RunConfig, run: RunFolder, judged: Judge) -> KeptJudgements | None:
    """Return where judgements are kept; None where nothing says which weights they are of."""
    if judged.url is not None or not judged.is_pinned:
        return None
    made_from = [
        judged.revision,
        judged.model,
        describe_model(config),
        config.model.dtype,
        config.rl.max_completion_tokens,
        config.evaluation.batch_size,
        describe_contract(),
        find_commit(),
    ]
    path = run.evaluation / f"{judged.name}.judged.jsonl"
    return KeptJudgements(path, json.dumps(made_from))


def _judge_all(
    config: RunConfig,
    model: Any,
    codec: Codec,
    records: Sequence[Record],
    kept: KeptJudgements | None,
) -> list[Judgement]:
    """Judge in chunks of like length, with progress; chunks that are kept are not judged again."""
    order = sorted(range(len(records)), key=lambda i: len(codec.prompt(records[i].example)))
    told: dict[int, Judgement] = {}
    report = _progress("judged")
    size = _CHUNK_BATCHES * config.evaluation.batch_size
    for start in range(0, len(order), size):
        part = order[start : start + size]
        rows = [records[i] for i in part]
        judgements = None if kept is None else kept.find(rows)
        if judgements is None:
            judgements = judge(
                model,
                codec,
                rows,
                config.rl.max_completion_tokens,
                config.evaluation.batch_size,
            )
            if kept is not None:
                kept.add(rows, judgements)
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


def _calibrate(config: RunConfig, run: RunFolder, judged: Judge, judging: _Judging) -> Calibration:
    """Fit the temperature on rows that neither training nor the test part holds; write it."""
    records = judging.fit(choose_rows(config, read_records(run.data("validation")))).kept
    told = judging.ask(records, False)
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


def _guess_command(config: RunConfig, what: str | None) -> str:
    return f"python -m training evaluate {config.name}.toml {what or ''}".strip()


def _left_out(config: RunConfig, fitting: Fitting) -> dict[str, Any]:
    """Return what the report says of rows that were not judged; nothing where all were."""
    if not fitting.long:
        return {}
    return {
        "rows_over_prompt_budget": {
            "max_prompt_tokens": config.model.max_prompt_tokens,
            "num_rows": len(fitting.long),
            "rows": [f"{record.set_name}/{record.id}" for record in fitting.long],
        }
    }


def _provenance(config: RunConfig, judged: Judge, calibration: Calibration) -> dict[str, Any]:
    provenance: dict[str, Any] = {
        "model": judged.model,
        "revision": judged.revision,
        "data_revisions": find_data_revisions(config.data),
        "commit": find_commit(),
        "hardware": find_hardware(),
        "seed": config.seed,
        "temperature": calibration.temperature,
    }
    if judged.adapter is not None:
        provenance[WEIGHTS_KEY] = judged.revision
    return provenance
