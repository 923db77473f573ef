"""A run folder as the stages leave it, and an exported folder, both made up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.calibration import Calibration
from contract.labels import Label
from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint, write_manifest
from training.comparison import Comparison
from training.config import RunConfig
from training.exported import CARD_NAME, RESULTS_NAME, TRAINING_CONFIG_NAME, write_record
from training.inputs import stage_inputs
from training.merging import ADAPTER_CONFIG, ADAPTER_TENSORS, hash_adapter
from training.model_card import card
from training.results import Results
from training.runs import DONE, RunFolder

COMMIT = "89abcdef" * 5


def make_config(model: str | Path = "tiny", **export: Any) -> RunConfig:
    """Return a configuration of two sets and GRPO; ``export`` is its section of that name."""
    sets = [
        {"name": "qa", "kind": "folder", "file": "halueval_qa.jsonl"},
        {"name": "own", "kind": "file", "file": "/home/someone/own.csv", "columns": {"a": "b"}},
    ]
    section = {"repo": "acme/tiny", **export}
    return RunConfig.model_validate(
        {"name": "made", "model": {"name": str(model)}, "data": {"sets": sets}, "export": section}
    )


def make_results(
    weights_sha256: str,
    balanced_accuracy: float = 0.82,
    unreadable_rate: float = 0.001,
    length_matched: float | None = 0.81,
) -> dict[str, Any]:
    """Return an evaluation in the form of its JSON; its best rule reaches 0.6."""

    def part(name: str, kind: str, value: float) -> dict[str, Any]:
        values = {
            "f1": value,
            "balanced_accuracy": value,
            "precision": value,
            "recall": value,
            "unreadable_rate": unreadable_rate,
            "ece": 0.03,
        }
        return {
            "name": name,
            "kind": kind,
            "num_rows": 300,
            "metrics": {
                **{
                    key: {"value": v, "low": v - 0.02, "high": v + 0.02}
                    for key, v in values.items()
                },
                "auroc": None,
            },
            "best_shortcut": "length",
            "beats_shortcuts": value > 0.66,
            "shortcuts": [
                {"name": "always", "balanced_accuracy": 0.5, "f1": 0.667},
                {"name": "length", "balanced_accuracy": 0.6, "f1": 0.58},
            ],
        }

    slices = [part("overall", "overall", balanced_accuracy), part("qa", "set", balanced_accuracy)]
    if length_matched is not None:
        slices.append(part("length-matched", "part", length_matched))
    provenance = {
        "model": "/home/someone/runs/made/grpo/adapter",
        "weights_sha256": weights_sha256,
        "command": "python -m training evaluate configs/made.toml --data-dir /home/someone/data",
    }
    return {"provenance": provenance, "bootstrap_samples": 10, "seed": 1, "slices": slices}


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def make_adapter(base: Path, folder: Path, config: RunConfig, strength: float = 0.05) -> Path:
    """Write an adapter on the base that changes what it says."""
    import torch

    from training.models import load_policy

    policy = load_policy(config.model, base, seed=config.seed)
    torch.manual_seed(7)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=strength)
    policy.save_pretrained(str(folder))
    return folder


def make_run(folder: Path, base: Path, config: RunConfig) -> RunFolder:
    """Write everything that ``export`` needs: adapter, markers, evaluation, data manifest."""
    run = RunFolder(folder)
    stage = run.stage(config.rl.algorithm)
    make_adapter(base, stage.adapter, config)
    inputs = stage_inputs(config, config.rl.algorithm, run.path)
    write_json(stage.path / DONE, {"commit": COMMIT, "inputs": inputs})
    revisions = {"qa": {"revision": "sha256:1234"}, "own": {"revision": "sha256:5678"}}
    write_json(run.path / "data" / "manifest.json", {"sets": revisions})
    weights_sha256 = hash_adapter(stage.adapter)
    write_json(run.evaluation / "adapter.json", make_results(weights_sha256))
    write_json(run.evaluation / "calibration.json", {"temperature": 1.7, "threshold": 0.45})
    return run


@dataclass(frozen=True)
class MadeExport:
    """An exported folder that nobody exported.

    Attributes:
        config: Of its run.
        run: The run, with an adapter of the hash that the export names.
    """

    config: RunConfig
    run: RunFolder

    @property
    def folder(self) -> Path:
        return self.run.export

    def record(self, **comparison: Any) -> None:
        """Write ``export.json`` over what is there."""
        figures = {"equal_reply_share": 1.0, "label_agreement": 1.0, "max_log_odds_change": 0.01}
        write_record(
            self.folder,
            self.config.export.kind,
            self.config.export.dtype,
            hash_adapter(self.run.last_adapter(self.config)),
            Comparison(dtype="bfloat16", num_prompts=24, **{**figures, **comparison}),
        )


def make_export(
    folder: Path,
    files: Mapping[str, bytes | Path],
    label_token_ids: Mapping[Label, int] | None = None,
    results: dict[str, Any] | None = None,
    **export: Any,
) -> MadeExport:
    """Write a run whose export holds the files, with contract, card and results.

    Args:
        folder: Of the run.
        files: Weights, configuration, tokenizer: their content, or a file to copy.
        label_token_ids: For the contract.
        results: Keywords of ``make_results``.
        export: Section of the configuration.
    """
    config = make_config(**export)
    made = MadeExport(config, RunFolder(folder))
    stage = made.run.stage(config.rl.algorithm)
    stage.adapter.mkdir(parents=True)
    (stage.adapter / ADAPTER_TENSORS).write_bytes(b"trained")
    (stage.adapter / ADAPTER_CONFIG).write_text("{}")
    (stage.path / DONE).write_text("{}")
    made.folder.mkdir()
    for name, data in files.items():
        if isinstance(data, Path):
            shutil.copyfile(data, made.folder / name)
        else:
            (made.folder / name).write_bytes(data)
    raw = make_results(hash_adapter(stage.adapter), **(results or {}))
    parsed = Results.of(raw)
    manifest = Manifest(
        contract_version=CONTRACT_VERSION,
        fingerprint=fingerprint(),
        label_token_ids=label_token_ids or {Label.HALLUCINATION: 5, Label.CORRECT: 6},
        calibration=Calibration(temperature=1.5, threshold=0.4),
        base_model="acme/base",
        base_revision=COMMIT,
        trained=True,
        data_revisions={"qa": "sha256:1234"},
        training_commit=COMMIT,
        golden_metrics=parsed.golden_metrics(),
        weights_sha256=hash_adapter(stage.adapter),
    )
    write_manifest(made.folder, manifest)
    write_json(made.folder / RESULTS_NAME, parsed.raw)
    write_json(made.folder / TRAINING_CONFIG_NAME, {"config": {"name": config.name}})
    comparison = Comparison("bfloat16", 24, 1.0, 1.0, 0.01)
    (made.folder / CARD_NAME).write_text(card(config, manifest, parsed, comparison))
    made.record()
    return made
