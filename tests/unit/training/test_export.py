"""Exporting a real adapter of a tiny model: merged, alone, and everything that must stop it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from safetensors.torch import load_file, save_file  # noqa: E402
from support.made_baseline import make_baseline  # noqa: E402
from support.made_run import COMMIT, make_config, make_run, write_json  # noqa: E402
from support.small_disk import mounted  # noqa: E402
from support.tiny_model import END, write_tiny_model  # noqa: E402

from contract.calibration import Calibration  # noqa: E402
from contract.labels import Label  # noqa: E402
from contract.manifest import check_manifest, read_manifest  # noqa: E402
from service.lora import merge_lora  # noqa: E402
from service.settings import Settings  # noqa: E402
from service.weights import resolve_weights  # noqa: E402
from training.comparison import PROBES, Answer, Comparison, compare_answers  # noqa: E402
from training.errors import ExportError  # noqa: E402
from training.export import check_size, export  # noqa: E402
from training.exported import find_changed_files, read_record  # noqa: E402
from training.merging import hash_adapter, merge_and_cast  # noqa: E402
from training.models import Codec, load_policy, load_tokenizer  # noqa: E402
from training.results import Results, find_results, hide_paths  # noqa: E402
from training.runs import RunFolder  # noqa: E402


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny-base")


@pytest.fixture(scope="module")
def made(base: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A trained run that no test changes."""
    return make_run(tmp_path_factory.mktemp("runs") / "made", base, make_config(base))


@pytest.fixture
def run(base: Path, tmp_path: Path) -> RunFolder:
    """A trained run to spoil."""
    return make_run(tmp_path / "made", base, make_config(base))


@pytest.fixture(scope="module")
def merged(base: Path, made: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = make_config(base, dtype="float32")
    return export(config, made, tmp_path_factory.mktemp("exports") / "merged")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_merged_weights_are_the_base_plus_the_scaled_product(
    base: Path, made: RunFolder, merged: Path
) -> None:
    adapter = load_file(made.path / "grpo" / "adapter" / "adapter_model.safetensors")
    before, after = load_file(base / "model.safetensors"), load_file(merged / "model.safetensors")
    assert before.keys() == after.keys()
    name = "model.layers.1.mlp.down_proj"
    a, b = (adapter[f"base_model.model.{name}.lora_{half}.weight"] for half in "AB")
    # alpha 32 over rank 16
    torch.testing.assert_close(after[f"{name}.weight"], before[f"{name}.weight"] + 2 * (b @ a))
    assert not torch.equal(after[f"{name}.weight"], before[f"{name}.weight"])
    assert torch.equal(after["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


def test_the_service_takes_the_merged_folder(base: Path, merged: Path) -> None:
    weights = resolve_weights(Settings(model=str(merged)), lambda text: None)
    manifest = weights.manifest
    assert manifest is not None
    check_manifest(manifest)
    assert manifest.trained
    assert manifest.calibration == Calibration(temperature=1.7, threshold=0.45)
    assert manifest.data_revisions == {"qa": "sha256:1234", "own": "sha256:5678"}
    assert manifest.training_commit == COMMIT
    assert manifest.golden_metrics["length-matched/balanced_accuracy"] == 0.81
    assert manifest.base_model == "tiny-base"
    codec = Codec(load_tokenizer(merged))
    assert manifest.label_token_ids == codec.label_token_ids
    assert codec.tokenizer.decode([manifest.label_token_ids[Label.CORRECT]]) == " correct"


def test_tokens_are_those_of_training_and_a_reply_ends_where_it_did(
    base: Path, merged: Path
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (merged / name).read_bytes() == (base / name).read_bytes()
    generation = read_json(merged / "generation_config.json")
    end = load_tokenizer(base).convert_tokens_to_ids(END)
    assert generation["eos_token_id"] == [end, end - 1]
    assert generation["do_sample"] is False
    # Either would shift the probabilities that the service reads.
    assert not {"temperature", "top_p", "repetition_penalty"} & generation.keys()


def test_the_answers_before_and_after_are_equal_in_full_precision(merged: Path) -> None:
    record = read_record(merged)
    comparison = record.comparison
    assert comparison.num_prompts == len(PROBES) == 24
    assert (comparison.equal_reply_share, comparison.label_agreement) == (1.0, 1.0)
    assert 0 < comparison.max_log_odds_change < 1e-3
    assert set(record.files) == {path.name for path in merged.iterdir()} - {"export.json"}
    assert list(find_changed_files(merged, record)) == []
    (merged / "generation_config.json").touch()
    assert list(find_changed_files(merged, record)) == []


def test_nothing_that_leaves_tells_of_this_machine(merged: Path) -> None:
    texts = [path.read_text() for path in merged.iterdir() if path.suffix in (".json", ".md")]
    assert not any("/home/someone" in text or str(merged.parent.parent) in text for text in texts)
    public = read_json(merged / "training_config.json")
    assert public["config"]["model"]["name"] == "tiny-base"
    assert public["config"]["data"]["sets"][1]["file"] == "own.csv"
    assert public["commit"] == COMMIT
    evaluation = read_json(merged / "evaluation.json")
    assert evaluation["provenance"]["model"] == "adapter"
    assert evaluation["provenance"]["command"].endswith("configs/made.toml --data-dir data")


def test_half_precision_is_saved_as_such_and_reported(
    base: Path, made: RunFolder, tmp_path: Path
) -> None:
    folder = export(make_config(base, dtype="bfloat16"), made, tmp_path / "half")
    assert read_json(folder / "config.json")["dtype"] == "bfloat16"
    tensors = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    comparison = read_record(folder).comparison
    assert comparison.dtype == "bfloat16"
    assert comparison.label_agreement >= 0.95
    assert comparison.max_log_odds_change > 1e-4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_service_merges_the_exported_adapter_to_the_same_weights(
    base: Path, made: RunFolder, tmp_path: Path, dtype: str
) -> None:
    config = make_config(base, kind="adapter", dtype=dtype)
    folder = export(config, made, tmp_path / "adapter")
    weights = {name: t.float() for name, t in load_file(base / "model.safetensors").items()}
    assert merge_lora(weights, folder) == 14  # seven linear layers in each of two blocks
    policy = load_policy(config.model, base, made.last_adapter(config))
    expected = merge_and_cast(policy, "float32").state_dict()
    tolerance = 1e-6 if dtype == "float32" else 1e-3
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, expected[name], atol=tolerance, rtol=0)
    settings = read_json(folder / "adapter_config.json")
    assert settings["base_model_name_or_path"] == "tiny-base"
    assert settings["revision"] is None
    names = {path.name for path in folder.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "contract.json"} <= names
    assert not any(name.startswith(("model", "tokenizer")) for name in names)


def test_an_export_replaces_the_last_one_and_nothing_else(
    base: Path, made: RunFolder, tmp_path: Path
) -> None:
    config = make_config(base, kind="adapter", dtype="float32")
    target = tmp_path / "target"
    export(config, made, target)
    (target / "left-over").touch()
    assert export(config, made, target) == target
    assert not (target / "left-over").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    with pytest.raises(ExportError, match="holds something that is no export"):
        export(config, made, tmp_path / "notes")
    with pytest.raises(ExportError, match=r"mine.txt is a file: name a folder"):
        export(config, made, tmp_path / "notes" / "mine.txt")


def test_the_runs_own_folder_is_the_default_though_a_marker_stands_in_it(
    base: Path, run: RunFolder
) -> None:
    write_json(run.export / "STARTED", {})
    folder = export(make_config(base, kind="adapter"), run)
    assert folder == run.path / "export"
    assert "STARTED" not in read_record(folder).files


def spoil(run: RunFolder, **changes: Any) -> None:
    path = run.path / "grpo" / "adapter" / "adapter_config.json"
    write_json(path, read_json(path) | changes)


def change_tensors(run: RunFolder, change: Any) -> None:
    path = run.path / "grpo" / "adapter" / "adapter_model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def add_head(tensors: dict[str, Any]) -> None:
    for half in "AB":
        tensors[f"base_model.model.lm_head.lora_{half}.weight"] = torch.ones(2, 2)


def drop_half(tensors: dict[str, Any]) -> None:
    del tensors["base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"]


FAULTS: dict[str, tuple[Any, str]] = {
    "dora": (lambda run: spoil(run, use_dora=True), "use_dora is True, and the service merges"),
    "other-method": (lambda run: spoil(run, peft_type="IA3"), "peft_type is 'IA3'"),
    "changed-base": (lambda run: spoil(run, init_lora_weights="pissa"), "is 'pissa'"),
    "whole-module": (lambda run: spoil(run, modules_to_save=["lm_head"]), "modules_to_save is"),
    "head": (lambda run: change_tensors(run, add_head), "it holds A and B of lm_head"),
    "half-a-pair": (lambda run: change_tensors(run, drop_half), "it holds A of .*up_proj"),
    "cut-off": (
        lambda run: os.truncate(run.path / "grpo" / "adapter" / "adapter_model.safetensors", 99),
        "cannot be read",
    ),
    "no-config": (
        lambda run: (run.path / "grpo" / "adapter" / "adapter_config.json").unlink(),
        "adapter_config.json cannot be read",
    ),
    "no-calibration": (
        lambda run: (run.evaluation / "calibration.json").unlink(),
        r"calibration.json is missing: run `python -m training evaluate` first",
    ),
    "no-temperature": (
        lambda run: write_json(run.evaluation / "calibration.json", {"temperature": 0}),
        "is no calibration",
    ),
    "calibration-of-others": (
        lambda run: write_json(
            run.evaluation / "calibration.json",
            {"temperature": 1, "threshold": 0.5, "weights_sha256": "0" * 64},
        ),
        "was fitted on other weights: run `python -m training evaluate` first",
    ),
    "other-contract": (
        lambda run: write_json(
            run.path / "grpo" / "DONE", {"commit": COMMIT, "inputs": {"contract": "version 0, x"}}
        ),
        f"trained under contract version 0, x, this code speaks version 1, .*{COMMIT}",
    ),
    "no-data": (
        lambda run: (run.path / "data" / "manifest.json").unlink(),
        "run `python -m training prepare` first",
    ),
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_exported_is_refused_before_any_work(
    base: Path, run: RunFolder, fault: Any, message: str
) -> None:
    fault(run)
    with pytest.raises(ExportError, match=message):
        export(make_config(base), run)
    assert not run.export.exists()


def test_an_adapter_too_large_to_be_committed_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "adapter_model.safetensors").open("wb") as file:
        file.truncate(40_000_000)
    # Rank 16 has 40 MB, so rank 10 has 25 MB.
    with pytest.raises(ExportError, match=r"has 40000000 bytes, at most 25000000 .* = 10 at most"):
        check_size(make_config("embedded", kind="adapter"), tmp_path)
    check_size(make_config("embedded", kind="merged"), tmp_path)
    check_size(make_config("./base", kind="adapter"), tmp_path)


def test_weights_that_are_no_numbers_are_refused(base: Path, run: RunFolder) -> None:
    change_tensors(run, lambda tensors: next(iter(tensors.values())).fill_(float("nan")))
    write_json(run.evaluation / "calibration.json", {"temperature": 1, "threshold": 0.5})
    with pytest.raises(ExportError, match=r"no numbers|no finite numbers"):
        export(make_config(base), run)
    assert [path.name for path in run.path.glob("export*")] == []


def test_an_evaluation_of_other_weights_is_not_taken(
    base: Path, run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    change_tensors(run, lambda tensors: next(iter(tensors.values())).mul_(1.01))
    folder = export(make_config(base, kind="adapter"), run)
    assert "holds no evaluation of these weights" in caplog.text
    assert "baseline.json is missing: the export will have no baseline" in caplog.text
    assert not (folder / "evaluation.json").exists()
    assert not (folder / "baseline.json").exists()
    assert (
        "were not evaluated: nothing is known of their quality"
        in (folder / "README.md").read_text()
    )
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.golden_metrics == {}


def test_a_baseline_of_the_weights_goes_along(
    base: Path, run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    path = run.evaluation / "baseline.json"
    make_baseline(weights_sha256=hash_adapter(run.path / "grpo" / "adapter")).write(path)
    folder = export(make_config(base, kind="adapter"), run)
    assert (folder / "baseline.json").read_bytes() == path.read_bytes()
    assert "baseline.json" in read_record(folder).files
    assert "baseline" not in caplog.text
    assert (
        "`baseline.json` holds the verdicts on the 2 cases of the golden set, to compare a "
        "deployment with: balanced accuracy 1.000 with vllm 0.31.0 in float32 on Made-up 3000, "
        "2 cores, and 50.0% other verdicts in a second pass." in (folder / "README.md").read_text()
    )


def test_the_contract_names_the_adapter(merged: Path, made: RunFolder) -> None:
    manifest = read_manifest(merged)
    assert manifest is not None
    assert manifest.weights_sha256 == hash_adapter(made.path / "grpo" / "adapter")


def test_the_newest_evaluation_of_the_weights_is_taken(made: RunFolder, tmp_path: Path) -> None:
    weights = hash_adapter(made.path / "grpo" / "adapter")
    raw = read_json(made.evaluation / "adapter.json")
    reports = (("old", 1, 100), ("new", 3, 200), ("new-short-path", 4, 300), ("junk", 5, None))
    for name, time_s, seed in reports:
        content = {"slices": "x"} if seed is None else raw | {"seed": seed}
        write_json(tmp_path / f"{name}.json", content)
        os.utime(tmp_path / f"{name}.json", (time_s, time_s))
    found = find_results(tmp_path, weights)
    assert found is not None
    assert found.raw["seed"] == 200
    assert find_results(tmp_path, "0" * 64) is None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "size=100k") as folder:
        yield folder


def test_a_full_disk_is_told_with_the_bytes_and_leaves_nothing(
    base: Path, made: RunFolder, disk: Path
) -> None:
    message = r"the disk that holds .*target is full: \d{7} bytes are needed. Free some space"
    with pytest.raises(ExportError, match=message):
        export(make_config(base), made, disk / "target")
    assert list(disk.iterdir()) == []


def test_a_disk_that_fills_up_on_the_way_is_told_likewise(
    base: Path, made: RunFolder, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room was there when it was looked at; other processes write too."""
    full = type("Usage", (), {"free": 10**12})()
    monkeypatch.setattr("shutil.disk_usage", lambda path: full)
    with pytest.raises(ExportError, match=r"is full: .*Nothing half-written is left"):
        export(make_config(base, dtype="float32"), made, disk / "target")
    assert list(disk.iterdir()) == []


def answers(changed: dict[int, dict[str, Any]] | None = None) -> list[Answer]:
    plain = [
        Answer((1, 2), f"It says so.\nClass: {probe.label}", 1.0 if i % 2 else -1.0)
        for i, probe in enumerate(PROBES)
    ]
    for place, changes in (changed or {}).items():
        plain[place] = replace(plain[place], **changes)
    return plain


def test_the_comparison_counts_replies_and_classes() -> None:
    other = {0: {"reply": "Else.\nClass: correct"}, 3: {"log_odds": 0.25}}
    assert compare_answers(answers(), answers(other), "bfloat16") == Comparison(
        dtype="bfloat16",
        num_prompts=24,
        equal_reply_share=23 / 24,
        label_agreement=1.0,
        max_log_odds_change=0.75,
    )
    # 23 of 24 classes are 95.8 %.
    flipped = compare_answers(answers(), answers({0: {"log_odds": 0.1}}), "bfloat16")
    assert flipped.label_agreement == pytest.approx(23 / 24)


@pytest.mark.parametrize(
    ("dtype", "changed", "message"),
    [
        (
            "float32",
            {4: {"reply": "Else.\nClass: correct"}},
            r"23 of 24 answers are equal, all must be. The worst is probe 2-correct: log-odds "
            r"-1.0000 before and -1.0000 after, reply 'It says so.*before and 'Else",
        ),
        ("float32", {5: {"log_odds": 1.5}}, "23 of 24 answers are equal.*probe 2-hallucination"),
        (
            "bfloat16",
            {0: {"log_odds": 0.1}, 3: {"log_odds": -2.0}},
            r"91.7% of 24 classes are equal, 95% must be. The worst is probe 1-hallucination: "
            r'log-odds \+1.0000 before and -2.0000 after.*export.dtype = "float32"',
        ),
        (
            "bfloat16",
            {0: {"reply": "x\nClass: hallucination"}, 1: {"reply": "x\nClass: correct"}},
            "91.7% of 24 classes",
        ),
        ("float32", {7: {"log_odds": float("nan")}}, "no finite numbers .probe 3-hallucination"),
        ("bfloat16", {9: {"prompt_tokens": (1, 3)}}, "gives other tokens .*probe 4-hallucination"),
    ],
    ids=["text", "odds", "classes", "replied-classes", "no-number", "tokens"],
)
def test_weights_that_answer_otherwise_are_named_with_the_worst_probe(
    dtype: str, changed: dict[int, dict[str, Any]], message: str
) -> None:
    with pytest.raises(ExportError, match=f"(?s){message}"):
        compare_answers(answers(), answers(changed), dtype)


def test_an_unreadable_reply_does_not_disagree_where_the_odds_agree() -> None:
    changed = {place: {"reply": "no verdict"} for place in range(24)}
    comparison = compare_answers(answers(), answers(changed), "bfloat16")
    assert (comparison.equal_reply_share, comparison.label_agreement) == (0.0, 1.0)


def test_probes_are_balanced_and_of_every_form() -> None:
    assert sum(probe.label is Label.CORRECT for probe in PROBES) == 12
    assert {len(probe.knowledge or ()) for probe in PROBES} == {0, 1, 2}
    assert any(probe.question is None for probe in PROBES)
    assert len({probe.id for probe in PROBES}) == 24


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/home/a/runs/x", "x"),
        ("~/sets/", "sets"),
        ("python -m training evaluate c.toml --data-dir=/data/sets --x", None),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("org/repo@main and/or configs/a.toml", "org/repo@main and/or configs/a.toml"),
        ("POST /classify", "POST /classify"),
    ],
)
def test_paths_are_cut_to_their_last_name(text: str, public: str | None) -> None:
    expected = public or "python -m training evaluate c.toml --data-dir=sets --x"
    assert hide_paths({"a": [text, 1, None]}) == {"a": [expected, 1, None]}


def test_an_evaluation_reads_slices_and_leaves_undefined_metrics_out(made: RunFolder) -> None:
    results = Results.of(read_json(made.evaluation / "adapter.json"))
    assert results.overall is not None
    assert results.overall.values["f1"] == 0.82
    assert "auroc" not in results.overall.values
    assert (results.overall.best_shortcut, results.overall.shortcut_f1) == ("length", 0.667)
    assert results.length_matched is not None
    assert results.length_matched.beats_shortcuts
    with pytest.raises(ValueError, match="no evaluation"):
        Results.of({"slices": [{}]})
