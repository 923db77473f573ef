"""The model card: ``README.md`` with front matter for the Hub, made from what was measured.

No sentence about quality is written by hand: every number stands beside the rules that read
nothing, on the same rows, and where the weights do not beat them the card says so first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from contract.labels import Label
from contract.manifest import Manifest
from contract.reply import REPLY_MARK
from evaluation.baseline import Baseline
from evaluation.slices import LENGTH_MATCHED, SliceKind
from training.comparison import Comparison
from training.config import RunConfig
from training.exported import release_tag
from training.licences import find_data_source, find_model_licence
from training.results import Results, SliceResult

SECTIONS = (
    "Intended use",
    "Contract",
    "How to serve",
    "Results",
    "Training",
    "Data",
    "Limits",
    "How to verify",
    "Licence",
)
"""Second-level headings of every card, in order."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_NONE = "-"


def card(
    config: RunConfig,
    manifest: Manifest,
    results: Results | None,
    comparison: Comparison,
    baseline: Baseline | None = None,
) -> str:
    """Return the card as Markdown.

    Args:
        config: Of the run.
        manifest: Of the exported weights.
        results: Their evaluation; None where there is none.
        comparison: What exporting changed.
        baseline: Of the weights, on the golden set; None where there is none.
    """
    name = config.export.repo or config.name
    bodies = (
        _use(),
        _contract(manifest),
        _serving(config, manifest),
        _results(results),
        _training(config, manifest, comparison),
        _data(config, manifest),
        _limits(config),
        _verifying(config, baseline),
        _licence(config, manifest),
    )
    lines = [*_front_matter(config, manifest), "", f"# {name}", ""]
    lines += [
        f"Judges whether a response is a hallucination, given its question and the knowledge that "
        f"it should rest on. Made from {manifest.base_model} by {_algorithm(config)}.",
        "",
    ]
    for title, body in zip(SECTIONS, bodies, strict=True):
        lines += [f"## {title}", "", *body, ""]
    return "\n".join(lines).rstrip() + "\n"


def _front_matter(config: RunConfig, manifest: Manifest) -> Iterator[str]:
    licence = find_model_licence(manifest.base_model, config.export.license)
    is_adapter = config.export.kind == "adapter"
    fields: dict[str, object] = {
        "license": licence.identifier,
        "license_name": licence.name,
        "license_link": licence.link,
        "language": sorted({find_data_source(each).language for each in config.data.sets}),
        "library_name": "peft" if is_adapter else "transformers",
        # It writes a justification before its verdict, so it is no sequence classifier.
        "pipeline_tag": "text-generation",
        "base_model": manifest.base_model if _HUB_NAME.fullmatch(manifest.base_model) else None,
        "datasets": sorted({each.repo for each in config.data.sets if each.repo}),
        "tags": ["hallucination-detection", "text-classification", "lora", config.rl.algorithm],
    }
    if fields["base_model"] is not None:
        fields["base_model_relation"] = "adapter" if is_adapter else "finetune"
    yield "---"
    for key, value in fields.items():
        if value:
            yield f"{key}: {json.dumps(value)}"
    yield "---"


def _algorithm(config: RunConfig) -> str:
    parts = []
    if config.warmstart.kind != "none":
        parts.append(f"a {config.warmstart.kind} warm start")
    if config.rl.algorithm != "none":
        parts.append(f"{config.rl.algorithm} on the verdict")
    return " and ".join(parts) or "no training"


def _use() -> Iterator[str]:
    yield (
        "To flag responses of a language model for a second look: against documents that were "
        "retrieved for it, or without any, from what the model knows. A flag is no proof, and a "
        "response that is not flagged can be wrong. Not for decisions about people without a "
        "human who reads the response."
    )


def _contract(manifest: Manifest) -> Iterator[str]:
    yield (
        f"Contract version {manifest.contract_version}, fingerprint `{manifest.fingerprint}`: the "
        "exact wording of the prompt, the normalisation of its texts and the form of the reply. "
        "Other prompts give other verdicts; render and read with the project's `contract` package."
    )
    yield ""
    yield (
        f"A reply is a justification, then the last line `{REPLY_MARK} {Label.HALLUCINATION}` or "
        f"`{REPLY_MARK} {Label.CORRECT}`. The probability is read from the labels' first tokens "
        f"(ids {_label_ids(manifest)}) with temperature {manifest.calibration.temperature:.4g}; a "
        f"hallucination from {manifest.calibration.threshold:.4g} on."
    )


def _label_ids(manifest: Manifest) -> str:
    return ", ".join(f"{label} {manifest.label_token_ids[label]}" for label in Label)


def _serving(config: RunConfig, manifest: Manifest) -> Iterator[str]:
    if config.export.kind == "adapter":
        yield (
            "These files are an adapter. In a checkout of the project they go into "
            "`service/adapter/`, and `make serve` merges them into the embedded model, whose base "
            f"is {manifest.base_model} (`{manifest.base_revision}`). Whole weights that the "
            'service fetches by name are exported with `export.kind = "merged"`.'
        )
        return
    repo = config.export.repo or "org/repo"
    yield "```"
    sha256 = manifest.weights_sha256
    tag = release_tag(config.export, sha256) if sha256 else config.export.tag or "main"
    yield f"DETECTOR_MODEL={repo}@{tag} make serve"
    yield "```"
    yield ""
    yield (
        "The tag is resolved to its commit at the start and logged; name the commit's 40 hex "
        "digits instead to pin it."
    )


def _results(results: Results | None) -> Iterator[str]:
    if results is None or not results.slices:
        yield "These weights were not evaluated: nothing is known of their quality."
        return
    weak = [part.name for part in results.slices if not part.beats_shortcuts]
    if weak:
        yield (
            "**No better than a rule that reads nothing** (balanced accuracy), on: "
            f"{'; '.join(map(_cell, weak))}."
        )
        yield ""
    yield (
        "Test part, which no training touched. The positive class is hallucination; an unreadable "
        "reply counts as wrong. In brackets: 95 % interval over pairs. The last two columns are "
        "the best that rules reach on the same rows from the response's length, a full stop at "
        f"its end, or words shared with the knowledge. In `{LENGTH_MATCHED}` rows both responses "
        "of a pair have one length, so that it says nothing."
    )
    yield ""
    yield (
        "| slice | rows | F1 | balanced accuracy | precision | recall | unreadable | ECE "
        "| best rule: balanced accuracy | best rule: F1 |"
    )
    yield f"|---|---:|{'---:|' * 8}"
    yield from map(_row, results.slices)
    yield ""
    provenance = results.raw.get("provenance", {})
    if "command" in provenance:
        yield f"Measured with `{provenance['command']}`; the whole report is `evaluation.json`."


def _row(part: SliceResult) -> str:
    name = f"*{_cell(part.name)}*" if part.kind == SliceKind.MACRO else _cell(part.name)
    columns = [
        name,
        str(part.num_rows),
        _with_interval(part, "f1"),
        _with_interval(part, "balanced_accuracy"),
        *(_plain(part, metric) for metric in ("precision", "recall", "unreadable_rate", "ece")),
        f"{part.shortcut_balanced_accuracy:.3f} ({part.best_shortcut})",
        f"{part.shortcut_f1:.3f}",
    ]
    return f"| {' | '.join(columns)} |"


def _with_interval(part: SliceResult, metric: str) -> str:
    if metric not in part.values:
        return _NONE
    low, high = part.lows[metric], part.highs[metric]
    return f"{part.values[metric]:.3f} ({low:.3f}-{high:.3f})"


def _plain(part: SliceResult, metric: str) -> str:
    return f"{part.values[metric]:.3f}" if metric in part.values else _NONE


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _training(config: RunConfig, manifest: Manifest, comparison: Comparison) -> Iterator[str]:
    yield f"- Base model: {manifest.base_model}, revision `{manifest.base_revision}`"
    yield f"- Method: {_algorithm(config)}; LoRA of rank {config.model.rank}, seed {config.seed}"
    yield f"- Code: commit `{manifest.training_commit or 'not recorded'}`"
    yield "- Every setting: `training_config.json`"
    yield (
        f"- Export: {config.export.kind} in {config.export.dtype}. Of {comparison.num_prompts} "
        f"fixed prompts {comparison.equal_reply_share:.0%} give the same text as the trained "
        f"weights in float32, {comparison.label_agreement:.0%} the same class; the log-odds at "
        f"the label change by at most {comparison.max_log_odds_change:.2g}."
    )


def _data(config: RunConfig, manifest: Manifest) -> Iterator[str]:
    yield "| set | origin | licence | revision |"
    yield "|---|---|---|---|"
    for each in config.data.sets:
        source = find_data_source(each)
        origin = f"[{_cell(source.title)}]({source.url})" if source.url else _cell(source.title)
        revision = manifest.data_revisions.get(each.name, _NONE)
        yield f"| {_cell(each.name)} | {origin} | {_cell(source.licence)} | `{revision}` |"
    yield ""
    treatment = "treated" if config.data.treatment.is_on else "as it is"
    yield (
        f"Split by pair, mode `{config.data.mode}`, {treatment} (`data.treatment`): length, "
        "punctuation and wording are evened out between the classes where it is treated."
    )


def _limits(config: RunConfig) -> Iterator[str]:
    yield (
        "- Labels of several sets are by construction, not by people; some are wrong.\n"
        "- A verdict without knowledge rests on what the base model knows, which is little in "
        "small models and ends with its training.\n"
        "- The justification is not a faithful account of why the verdict was reached.\n"
        "- Languages and domains other than those of the data were not measured.\n"
        f"- Prompts above {config.model.max_prompt_tokens} tokens were not trained on."
    )


def _verifying(config: RunConfig, baseline: Baseline | None) -> Iterator[str]:
    where = f"{config.export.repo or 'org/repo'}@<commit>"
    yield (
        "`export.json` holds the SHA-256 of every file. The service compares `contract.json` with "
        "its own contract at the start and shows it under `GET /info`. The figures come again with"
    )
    yield ""
    yield "```"
    yield f"python -m training evaluate CONFIG {where}"
    yield "```"
    if baseline is not None:
        service, overall, noise = baseline.service, baseline.overall, baseline.noise
        yield ""
        yield (
            f"`baseline.json` holds the verdicts on the {baseline.num_cases} cases of the golden "
            f"set, to compare a deployment with: balanced accuracy {overall.balanced_accuracy:.3f} "
            f"with {service.engine} {service.engine_version} in {service.dtype} on "
            f"{service.hardware}, and {noise.flip_rate:.1%} other verdicts in a second pass."
        )


def _licence(config: RunConfig, manifest: Manifest) -> Iterator[str]:
    licence = find_model_licence(manifest.base_model, config.export.license)
    shown = licence.name or licence.identifier
    if licence.link:
        shown = f"[{shown}]({licence.link})"
    yield f"Weights: {shown}. {licence.note}".rstrip()
    yield ""
    yield "The data keep their own licences, see above; no text of theirs is in these files."
