"""Pushing with the Hub's real client to a stub of the Hub, and every reason not to."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from support.hub_uploads import FIRST_COMMIT
from support.made_baseline import make_baseline
from support.made_run import MadeExport, make_config, make_export, write_json
from support.stub_hub import COMMIT, Fault, StubHub, empty_hub, safetensors_bytes, tiny_weights

from contract.manifest import read_manifest, write_manifest
from service.settings import Settings
from service.weights import resolve_weights
from training.config import RunConfig
from training.errors import ExportError, PushError
from training.exported import read_record
from training.model_card import SECTIONS, card
from training.push import push
from training.release_checks import find_faults, find_warnings
from training.results import Results

# huggingface_hub 1.33 hands a file to httpx under a name that httpx has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

FILES = {**tiny_weights(), "generation_config.json": b"{}", "chat_template.jinja": b"{{ x }}"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubHub]:
    with empty_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        # The Hub's other way of uploading speaks to a server of its own.
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield hub


@pytest.fixture
def made(tmp_path: Path) -> MadeExport:
    return make_export(tmp_path / "run", FILES)


def push_made(made: MadeExport, dry_run: bool = False, **export: Any) -> tuple[str | None, str]:
    """Push; return the commit and what was written."""
    section = {**made.config.export.model_dump(), **export}
    config = RunConfig.model_validate({**made.config.model_dump(), "export": section})
    out = io.StringIO()
    return push(config, made.run, dry_run, out), out.getvalue()


def content(made: MadeExport) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in made.folder.iterdir()}


def test_an_export_becomes_one_commit_and_a_tag(hub: StubHub, made: MadeExport) -> None:
    (made.folder / "DONE").write_text('{"inputs": {"data": "/home/someone"}}')
    commit, text = push_made(made, tag="v1")
    assert commit is not None
    assert len(commit) == 40
    expected = content(made)
    del expected["DONE"]
    attributes = hub.commits[FIRST_COMMIT][".gitattributes"]
    assert hub.commits[commit] == {**expected, ".gitattributes": attributes}
    assert list(hub.commits) == [FIRST_COMMIT, commit]
    assert (hub.tags, hub.branches) == ({"v1": commit}, {"main": commit})
    assert hub.messages == ["Run made: merged weights in bfloat16"]
    assert hub.is_private
    assert text == (
        f"acme/tiny is at commit {commit}, tag v1\n"
        f"Serve it: DETECTOR_MODEL=acme/tiny@{commit} make serve\n"
    )
    record = json.loads((made.run.path / "push" / "push.json").read_text())
    assert (record["repo"], record["commit"], record["tag"]) == ("acme/tiny", commit, "v1")


def test_without_a_tag_of_ones_own_contract_and_weights_name_it(
    hub: StubHub, made: MadeExport
) -> None:
    """A push without export.tag left no tag at all."""
    tag = "v1-33fbcd84"
    _, plan = push_made(made, dry_run=True)
    assert plan.splitlines()[0].endswith(f"(private, {tag})")
    commit, text = push_made(made)
    assert hub.tags == {tag: commit}
    assert text.startswith(f"acme/tiny is at commit {commit}, tag {tag}\n")
    assert json.loads((made.run.path / "push" / "push.json").read_text())["tag"] == tag
    with pytest.raises(PushError, match=f"has the tag {tag} already"):
        push_made(made)


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub: StubHub, made: MadeExport) -> None:
    push_made(made)
    sent = {request.path.split("/")[1]: request.authorization for request in hub.requests}
    assert sent.pop("upload") is None
    assert set(sent.values()) == {"Bearer hf_test"}


def test_the_service_takes_what_was_pushed(hub: StubHub, made: MadeExport, tmp_path: Path) -> None:
    commit, _ = push_made(made, tag="v1")
    settings = Settings(model="acme/tiny@v1", hub_endpoint=hub.endpoint, cache_dir=tmp_path / "c")
    weights = resolve_weights(settings, lambda text: None)
    assert weights.revision == commit
    assert weights.manifest == read_manifest(made.folder)
    assert (weights.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_a_dry_run_says_what_would_go_where_and_asks_nobody(
    hub: StubHub, made: MadeExport, caplog: pytest.LogCaptureFixture
) -> None:
    commit, text = push_made(made, dry_run=True, tag="v2")
    assert commit is None
    assert hub.requests == []
    lines = text.splitlines()
    total = sum(len(data) for data in content(made).values())
    assert lines[0] == f"10 files, {total} bytes -> {hub.endpoint}/acme/tiny (private, v2)"
    sha256 = hashlib.sha256(FILES["model.safetensors"]).hexdigest()
    assert f"        200083 {sha256} model.safetensors" in lines
    assert len(lines) == 1 + 10 + 1
    assert lines[-1] == "All checks passed; nothing was sent."
    assert "the export has no baseline.json, so nobody can compare" in caplog.text
    assert not (made.run.path / "push").exists()


def test_a_later_push_replaces_all_of_the_earlier_one(
    hub: StubHub, made: MadeExport, tmp_path: Path
) -> None:
    """A shard of earlier weights would be loaded beside the new ones."""
    shards = {f"model-0000{i}-of-00002.safetensors": safetensors_bytes(i) for i in (1, 2)}
    files = {name: data for name, data in FILES.items() if name != "model.safetensors"}
    first, _ = push_made(make_export(tmp_path / "first", {**files, **shards}), tag="v1")
    second, _ = push_made(made, tag="v2")
    assert first is not None
    assert second is not None
    assert shards.keys() <= hub.commits[first].keys()
    assert set(hub.commits[second]) == {*content(made), ".gitattributes"}
    assert hub.tags == {"v1": first, "v2": second}


def test_pushing_the_same_again_makes_no_commit(hub: StubHub, made: MadeExport) -> None:
    first, _ = push_made(made, tag="v1")
    num_uploads = len(hub.paths("/upload/"))
    second, _ = push_made(made, tag="v2")
    assert second == first
    assert hub.tags == {"v1": first, "v2": first}
    assert len(hub.paths("/upload/")) == num_uploads
    assert len(hub.messages) == 1


def test_a_tag_is_never_moved(hub: StubHub, made: MadeExport) -> None:
    first, _ = push_made(made, tag="v1")
    with pytest.raises(PushError, match=f"has the tag v1 already, at commit {first}.*Choose an"):
        push_made(made, tag="v1")
    assert len(hub.messages) == 1


def test_private_weights_do_not_go_into_a_public_repository(hub: StubHub, made: MadeExport) -> None:
    push_made(made, is_private=False)
    assert not hub.is_private
    with pytest.raises(PushError, match=r"is public, and export.is_private is true"):
        push_made(made, tag="v2")


def test_an_adapter_is_pushed_without_a_word_on_serving_it(hub: StubHub, tmp_path: Path) -> None:
    files = {
        "adapter_config.json": b'{"base_model_name_or_path": "acme/base"}',
        "adapter_model.safetensors": safetensors_bytes(9),
    }
    commit, text = push_made(make_export(tmp_path / "run", files, kind="adapter"), tag="v1")
    assert text == f"acme/tiny is at commit {commit}, tag v1\n"


REFUSALS: dict[str, tuple[Fault, str]] = {
    "no-token": (Fault("create", status=401), "answers 401: it knows no valid token: `hf auth"),
    "no-right": (Fault("create", status=403), "answers 403: this token may not write to acme/tiny"),
    "no-right-to-upload": (Fault("preupload", status=403), "uploading failed: .* answers 403"),
    "unseen": (Fault("refs", status=404), "answers 404: there is no acme/tiny"),
    "conflict": (Fault("commit", status=409), "answers 409: .*another push is under way"),
    "overtaken": (Fault("commit", status=412), "answers 412: somebody else has committed"),
    "too-large": (Fault("upload", status=413), "answers 413: a file is larger than it takes"),
    "storage-full": (Fault("batch", status=507), "answers 507: the account's storage is used up"),
    "storage-full-late": (Fault("upload", status=507), "answers 507: the account's storage is us"),
    "must-pay": (Fault("commit", status=402), "answers 402: the account's storage is used up"),
    "sick": (Fault("commit", status=500), "answers 500: it is not well: push again later"),
    "unknown": (Fault("commit", status=418), "answers 418: .*418"),
}


@pytest.mark.parametrize(("fault", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_of_the_hub_is_told_with_its_remedy(
    hub: StubHub, made: MadeExport, fault: Fault, message: str
) -> None:
    hub.is_there, hub.commits, hub.branches = True, {COMMIT: {}}, {"main": COMMIT}
    if fault.where == "create":
        # The client looks then whether the repository is there at all.
        hub.faults = [Fault("list", status=fault.status)]
    hub.faults += [fault]
    with pytest.raises(PushError, match=message):
        push_made(made, tag="v1")
    assert (hub.branches, hub.tags) == ({"main": COMMIT}, {})
    hub.faults = []
    commit, _ = push_made(made, tag="v1")
    assert hub.tags == {"v1": commit}


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's waits before a new try, not waited for."""
    waits_s: list[float] = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", waits_s.append)
    return waits_s


@pytest.mark.parametrize("where", ["create", "preupload", "upload", "commit"])
def test_a_broken_connection_is_told_and_a_new_push_goes_on(
    hub: StubHub, made: MadeExport, no_waits: list[float], where: str
) -> None:
    hub.faults = [Fault(where, cut_after_bytes=0)]
    with pytest.raises(PushError, match=r"the connection to http.* broke .*: check the network"):
        push_made(made, tag="v1")
    hub.faults = []
    commit, _ = push_made(made, tag="v1")
    assert hub.tags == {"v1": commit}
    # The first commit was made, though its answer was lost: it is found, not made again.
    assert len(hub.messages) == 1


def test_a_short_fault_is_tried_again_by_itself(
    hub: StubHub, made: MadeExport, no_waits: list[float]
) -> None:
    hub.faults = [Fault("upload", times=2, status=503), Fault("batch", times=1, cut_after_bytes=0)]
    commit, _ = push_made(made)
    assert commit == hub.branches["main"]
    assert no_waits == [1, 1, 2]


def test_an_unreachable_hub_is_named(
    made: MadeExport, monkeypatch: pytest.MonkeyPatch, no_waits: list[float]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    with pytest.raises(PushError, match=r"the connection to http://127.0.0.1:9 broke"):
        push_made(made)


def test_a_push_while_offline_is_refused(
    hub: StubHub, made: MadeExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PushError, match="HF_HUB_OFFLINE is set: unset it to push"):
        push_made(made)
    assert hub.requests == []


def test_a_tag_that_fails_names_the_commit_and_is_set_by_a_new_push(
    hub: StubHub, made: MadeExport
) -> None:
    hub.faults = [Fault("tag", times=1, status=500)]
    with pytest.raises(PushError, match=r"as commit [0-9a-f]{40}; push again to set the tag"):
        push_made(made, tag="v1")
    commit, _ = push_made(made, tag="v1")
    assert hub.tags == {"v1": commit}
    assert len(hub.messages) == 1


def test_a_commit_that_lacks_bytes_is_noticed(hub: StubHub, made: MadeExport) -> None:
    push_made(made, tag="v0")
    commit = hub.branches["main"]
    hub.commits[commit]["config.json"] += b" "
    hub.branches["main"] = COMMIT
    hub.commits[COMMIT] = {}

    def lose(name: str) -> None:
        hub.objects[hashlib.sha256(FILES[name]).hexdigest()] = safetensors_bytes(50_000, value=9.0)

    lose("model.safetensors")
    with pytest.raises(PushError, match=r"does not hold model.safetensors as it was sent"):
        push_made(made, tag="v1")
    assert hub.tags == {"v0": commit}


def test_without_a_repository_or_an_export_there_is_nothing_to_push(
    made: MadeExport, tmp_path: Path
) -> None:
    with pytest.raises(PushError, match=r"--set export.repo=org/name"):
        push_made(made, repo=None)
    with pytest.raises(PushError, match="no name for the Hub"):
        push_made(made, repo="acme/bad--name")
    (made.folder / "export.json").unlink()
    with pytest.raises(ExportError, match=r"run `python -m training export` first"):
        push_made(made)


def edit(name: str, change: Callable[[str], str]) -> Callable[[MadeExport], None]:
    """Return what changes a text file of the export, and its record with it."""

    def spoil(made: MadeExport) -> None:
        path = made.folder / name
        path.write_text(change(path.read_text()))
        made.record()

    return spoil


def drop(name: str) -> Callable[[MadeExport], None]:
    def spoil(made: MadeExport) -> None:
        (made.folder / name).unlink()
        made.record()

    return spoil


def change_contract(**changes: Any) -> Callable[[MadeExport], None]:
    def spoil(made: MadeExport) -> None:
        manifest = read_manifest(made.folder)
        assert manifest is not None
        write_manifest(made.folder, replace(manifest, **changes))
        made.record()

    return spoil


def train_on(made: MadeExport) -> None:
    (made.run.path / "grpo" / "adapter" / "adapter_model.safetensors").write_bytes(b"further")


FAULTS: dict[str, tuple[Callable[[MadeExport], Any], str]] = {
    "changed-file": (
        lambda made: (made.folder / "config.json").write_text("{}"),
        "config.json was changed after the export: run `python -m training export` again",
    ),
    "lost-file": (
        lambda made: (made.folder / "model.safetensors").unlink(),
        "model.safetensors is missing",
    ),
    "no-tokenizer": (drop("tokenizer.json"), "the export lacks tokenizer.json"),
    "no-weights": (drop("model.safetensors"), r"the export lacks \*.safetensors"),
    "trained-on": (train_on, "were trained on after the export: evaluate, then"),
    "other-contract": (
        change_contract(fingerprint="0" * 16),
        r"\(fingerprint 0000000000000000\).*train and push them again",
    ),
    "untrained": (change_contract(trained=False), "nobody trained these weights"),
    "no-contract": (drop("contract.json"), "contract.json is missing"),
    "answers-differ": (
        lambda made: made.record(label_agreement=0.9),
        r"did not answer as the trained ones \(90.0%\)",
    ),
    "not-evaluated": (drop("evaluation.json"), "not evaluated: run `python -m training evaluate`"),
    "evaluation-of-others": (
        edit("evaluation.json", lambda text: text.replace('weights_sha256": "', 'x": "')),
        "evaluation.json is of other weights",
    ),
    "no-evaluation": (edit("evaluation.json", lambda text: "{}"), "evaluation.json cannot be read"),
    "no-overall": (
        edit("evaluation.json", lambda text: text.replace('"overall"', '"else"')),
        "has no overall figures",
    ),
    "no-front-matter": (
        edit("README.md", lambda text: text.partition("\n---\n")[2]),
        "README.md has no front matter with a licence",
    ),
    "no-limits": (
        edit("README.md", lambda text: text.replace("## Limits", "## Strengths")),
        "README.md lacks Limits",
    ),
    "no-card": (drop("README.md"), "README.md cannot be read"),
    "token": (
        edit("README.md", lambda text: text + "hf_" + "a1B2" * 9),
        "README.md holds what looks like an access token: revoke it",
    ),
    "home-folder": (
        edit("training_config.json", lambda text: '{"file": "/home/someone/data/x.csv"}'),
        r"training_config.json names a folder of this machine \(/home/someone/data/x.csv\)",
    ),
    "run-folder-in-the-tokenizer": (
        lambda made: edit("tokenizer.json", lambda text: f'"{made.run.path}/base"')(made),
        r"tokenizer.json names a folder of this machine",
    ),
    "path-in-the-weights": (
        lambda made: (
            (made.folder / "model.safetensors").write_bytes(
                (200).to_bytes(8, "little") + f'{{"__metadata__": "{made.run.path}/x"}}'.encode()
            ),
            made.record(),
        ),
        "model.safetensors names a folder of this machine",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("dry_run", [False, True], ids=["push", "dry-run"])
def test_an_export_with_a_fault_is_not_pushed(
    hub: StubHub, made: MadeExport, spoil: Callable[[MadeExport], Any], message: str, dry_run: bool
) -> None:
    spoil(made)
    with pytest.raises(PushError, match=f"(?s)nothing is pushed:\n  - .*{message}"):
        push_made(made, dry_run=dry_run)
    assert hub.requests == []


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"balanced_accuracy": 0.5}, "overall balanced accuracy is no better than a constant"),
        (
            {"length_matched": 0.6},
            "on length-matched rows balanced accuracy is 0.600, and the rule 'length' reaches "
            "0.600 without reading",
        ),
        (
            {"balanced_accuracy": 0.59, "length_matched": None},
            "on overall rows balanced accuracy is 0.590",
        ),
        ({"unreadable_rate": 0.03}, "3.0% of the replies are unreadable, at most 2% may be"),
    ],
    ids=["constant", "length-rule", "no-matched-rows", "unreadable"],
)
def test_weights_that_are_no_better_than_a_rule_are_not_pushed(
    tmp_path: Path, results: dict[str, Any], message: str
) -> None:
    made = make_export(tmp_path / "run", FILES, results=results)
    with pytest.raises(PushError, match=message):
        push_made(made)


def test_an_export_of_another_kind_than_configured_is_not_pushed(made: MadeExport) -> None:
    with pytest.raises(PushError, match=r"export is merged in bfloat16, .* says merged in float32"):
        push_made(made, dtype="float32")


def test_all_faults_are_told_at_once(made: MadeExport) -> None:
    drop("README.md")(made)
    change_contract(trained=False)(made)
    train_on(made)
    with pytest.raises(PushError) as caught:
        push_made(made)
    assert str(caught.value).count("\n  - ") == 3


def test_a_record_that_leads_out_of_its_folder_is_refused(made: MadeExport) -> None:
    path = made.folder / "export.json"
    raw = json.loads(path.read_text())
    write_json(path, {**raw, "files": {**raw["files"], "../../config.json": "0" * 64}})
    with pytest.raises(ExportError, match="names files outside its folder"):
        push_made(made)
    write_json(path, {"files": 1})
    with pytest.raises(ExportError, match="cannot be read"):
        push_made(made)


def card_of(made: MadeExport, config: RunConfig | None = None, **changes: Any) -> str:
    manifest = read_manifest(made.folder)
    assert manifest is not None
    results = Results.of(json.loads((made.folder / "evaluation.json").read_text()))
    comparison = read_record(made.folder).comparison
    return card(config or made.config, replace(manifest, **changes), results, comparison)


def test_the_card_shows_every_figure_beside_the_rules(made: MadeExport) -> None:
    text = card_of(made)
    assert (made.folder / "README.md").read_text() == text
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(SECTIONS)
    assert (
        "| length-matched | 300 | 0.810 (0.790-0.830) | 0.810 (0.790-0.830) | 0.810 | 0.810 "
        "| 0.001 | 0.030 | 0.600 (length) | 0.667 |"
    ) in text
    assert "No better than a rule" not in text
    assert "DETECTOR_MODEL=acme/tiny@v1-33fbcd84 make serve" in text
    assert "acme/tiny@v7 make serve" in card_of(made, make_config(tag="v7"))
    assert "acme/tiny@main make serve" in card_of(made, weights_sha256=None)
    assert "| qa | [HaluEval QA](https://github.com/RUCAIBox/HaluEval) | MIT; passages" in text
    assert "| own | own | not recorded here: ask its owner before you publish | `-` |" in text
    assert "temperature 1.5; a hallucination from 0.4 on" in text


def test_the_cards_front_matter_is_what_the_hub_reads(made: MadeExport) -> None:
    from huggingface_hub import ModelCardData
    from huggingface_hub.repocard import metadata_load

    data = metadata_load(made.folder / "README.md")
    assert data == {
        "license": "apache-2.0",
        "language": ["en"],
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "base_model": "acme/base",
        "base_model_relation": "finetune",
        "tags": ["hallucination-detection", "text-classification", "lora", "grpo"],
    }
    assert ModelCardData(**data).base_model == "acme/base"


def test_the_card_says_first_where_a_rule_does_as_well(tmp_path: Path) -> None:
    made = make_export(tmp_path / "run", FILES, results={"length_matched": 0.58})
    section = card_of(made).partition("## Results\n\n")[2]
    assert section.startswith("**No better than a rule that reads nothing** (balanced accuracy), ")
    assert section.splitlines()[0].endswith("on: length-matched.")


def test_a_research_licence_of_the_base_overrules_the_configured_one(made: MadeExport) -> None:
    text = card_of(made, base_model="Qwen/Qwen2.5-3B-Instruct")
    assert text.startswith('---\nlicense: "other"\nlicense_name: "qwen-research"\nlicense_link: ')
    assert "allows research and evaluation only" in text
    assert 'license: "apache-2.0"' in card_of(made, base_model="Qwen/Qwen3-4B-Instruct-2507")


def test_a_base_that_is_not_on_the_hub_is_not_claimed_to_be(made: MadeExport) -> None:
    head = card_of(made, base_model="tiny-base").partition("\n---\n")[0]
    assert "base_model" not in head


def test_an_adapters_card_says_where_it_goes(made: MadeExport) -> None:
    config = make_config(kind="adapter")
    text = card_of(made, config)
    assert "`service/adapter/`" in text
    assert 'library_name: "peft"' in text
    assert 'base_model_relation: "adapter"' in text


def test_a_sound_export_has_no_fault(made: MadeExport) -> None:
    from training.exported import read_record

    assert find_faults(made.config, made.run, read_record(made.folder)) == []


def test_a_missing_baseline_is_a_warning_and_no_fault(made: MadeExport) -> None:
    [warning] = find_warnings(read_record(made.folder))
    assert "run `python -m evaluation baseline` with --out evaluation/baseline.json" in warning
    make_baseline().write(made.folder / "baseline.json")
    made.record()
    record = read_record(made.folder)
    assert find_warnings(record) == []
    assert find_faults(made.config, made.run, record) == []
