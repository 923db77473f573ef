"""What travels with the weights, and when the service refuses them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import contract
from contract.calibration import Calibration
from contract.errors import ContractMismatchError, ManifestError
from contract.labels import Label
from contract.manifest import (
    CONTRACT_VERSION,
    MANIFEST_NAME,
    Manifest,
    check_manifest,
    fingerprint,
    read_manifest,
    write_manifest,
)
from contract.reference import LengthQuantiles, Reference

REVISION = "0123456789abcdef0123456789abcdef01234567"
FULL = Manifest(
    contract_version=7,
    fingerprint="00ff00ff00ff00ff",
    label_token_ids={Label.HALLUCINATION: 31, Label.CORRECT: 42},
    calibration=Calibration(temperature=1.5, threshold=0.25),
    base_model="some/model",
    base_revision=REVISION,
    trained=True,
    data_revisions={"some/data": "r1"},
    training_commit="c0ffee",
    golden_metrics={"accuracy": 0.75},
    weights_sha256="ab12",
    reference=Reference(
        rows="the test part of qa",
        num_rows=12,
        probability_counts=(3, 0, 0, 0, 1, 2, 0, 0, 1, 5),
        hallucination_share=0.5,
        justification_chars=LengthQuantiles(12.0, 30.5, 80.0),
    ),
)
FULL_JSON = """\
{
  "base_model": "some/model",
  "base_revision": "0123456789abcdef0123456789abcdef01234567",
  "calibration": {
    "temperature": 1.5,
    "threshold": 0.25
  },
  "contract_version": 7,
  "data_revisions": {
    "some/data": "r1"
  },
  "fingerprint": "00ff00ff00ff00ff",
  "golden_metrics": {
    "accuracy": 0.75
  },
  "label_token_ids": {
    "correct": 42,
    "hallucination": 31
  },
  "reference": {
    "hallucination_share": 0.5,
    "justification_chars": {
      "p10": 12.0,
      "p50": 30.5,
      "p90": 80.0
    },
    "num_rows": 12,
    "probability_counts": [
      3,
      0,
      0,
      0,
      1,
      2,
      0,
      0,
      1,
      5
    ],
    "rows": "the test part of qa"
  },
  "trained": true,
  "training_commit": "c0ffee",
  "weights_sha256": "ab12"
}
"""


def write_raw(folder: Path, text: str) -> Path:
    path = folder / "contract.json"
    path.write_text(text, encoding="utf-8")
    return path


def read_changed(folder: Path, *keys: str, value: object) -> Manifest | None:
    """Read FULL_JSON with one value replaced."""
    raw = json.loads(FULL_JSON)
    inner = raw
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    write_raw(folder, json.dumps(raw))
    return read_manifest(folder)


def test_a_manifest_is_written_as_plain_json(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, FULL)
    assert path == tmp_path / "contract.json"
    assert MANIFEST_NAME == "contract.json"
    assert path.read_text(encoding="utf-8") == FULL_JSON
    assert [entry.name for entry in tmp_path.iterdir()] == ["contract.json"]


def test_a_manifest_is_read_back_as_it_was(tmp_path: Path) -> None:
    write_raw(tmp_path, FULL_JSON)
    assert read_manifest(tmp_path) == FULL


def test_a_manifest_with_names_beyond_ascii_makes_the_round_trip(tmp_path: Path) -> None:
    manifest = replace(FULL, base_model="mod\u00e8le/x", training_commit=None, golden_metrics={})
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest


def test_writing_replaces_what_was_there(tmp_path: Path) -> None:
    write_raw(tmp_path, "{" * 10_000)
    write_manifest(tmp_path, FULL)
    assert read_manifest(tmp_path) == FULL


def test_a_folder_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "no-such-folder") is None


def test_what_is_optional_may_be_left_out(tmp_path: Path) -> None:
    raw = json.loads(FULL_JSON)
    optional = ("data_revisions", "training_commit", "golden_metrics", "weights_sha256")
    for key in (*optional, "reference"):
        del raw[key]
    write_raw(tmp_path, json.dumps(raw))
    assert read_manifest(tmp_path) == replace(
        FULL,
        data_revisions={},
        training_commit=None,
        golden_metrics={},
        weights_sha256=None,
        reference=None,
    )


def test_of_a_reference_share_and_lengths_may_be_left_out(tmp_path: Path) -> None:
    for name in ("hallucination_share", "justification_chars"):
        manifest = read_changed(tmp_path, "reference", name, value=None)
        assert manifest is not None
        assert FULL.reference is not None
        assert manifest.reference == replace(FULL.reference, **{name: None})
    assert read_changed(tmp_path, "reference", value=None) == replace(FULL, reference=None)


def test_a_whole_number_does_for_a_real_one_and_newer_keys_are_ignored(tmp_path: Path) -> None:
    manifest = read_changed(tmp_path, "calibration", value={"temperature": 2, "threshold": 1})
    assert manifest is not None
    assert manifest.calibration == Calibration(2.0, 1.0)
    assert read_changed(tmp_path, "from_the_future", value=[1]) == FULL


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(FULL_JSON[:100].encode(), id="truncated"),
        pytest.param(b"temperature = 1.0", id="toml"),
        pytest.param(b"{'fingerprint': 1}", id="single-quotes"),
        pytest.param(b'{"fingerprint": "\xff"}', id="not-utf-8"),
    ],
)
def test_a_file_that_is_not_json_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "contract.json"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=re.escape(f"{path} cannot be read as JSON: ")):
        read_manifest(tmp_path)


def test_a_folder_in_place_of_the_file_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "contract.json").mkdir()
    with pytest.raises(ManifestError, match=r"contract\.json cannot be read as JSON: "):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["[]", "null", '"contract"', "1"])
def test_json_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    write_raw(tmp_path, text)
    with pytest.raises(ManifestError, match=r"is not a contract manifest .*must be a JSON object"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "keys",
    [
        ("contract_version",),
        ("fingerprint",),
        ("label_token_ids",),
        ("label_token_ids", "hallucination"),
        ("label_token_ids", "correct"),
        ("calibration",),
        ("calibration", "temperature"),
        ("calibration", "threshold"),
        ("base_model",),
        ("base_revision",),
        ("trained",),
        ("reference", "rows"),
        ("reference", "num_rows"),
        ("reference", "probability_counts"),
        ("reference", "justification_chars", "p90"),
    ],
    ids=".".join,
)
def test_a_missing_value_is_named_with_the_way_out(tmp_path: Path, keys: tuple[str, ...]) -> None:
    raw = json.loads(FULL_JSON)
    inner = raw
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    path = write_raw(tmp_path, json.dumps(raw))
    with pytest.raises(ManifestError) as caught:
        read_manifest(tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert f"({'.'.join(keys)} is missing)" in message
    assert message.endswith("Export the weights again with this project's training.")


WRONG = [
    pytest.param(("contract_version",), "1", "a whole number", id="version-text"),
    pytest.param(("contract_version",), 1.0, "a whole number", id="version-real"),
    pytest.param(("contract_version",), True, "a whole number", id="version-bool"),
    pytest.param(("contract_version",), None, "a whole number", id="version-null"),
    pytest.param(("fingerprint",), 12, "a string", id="fingerprint-number"),
    pytest.param(("fingerprint",), None, "a string", id="fingerprint-null"),
    pytest.param(("label_token_ids",), [1, 2], "a JSON object", id="token-ids-list"),
    pytest.param(("label_token_ids", "correct"), "42", "a whole number", id="token-id-text"),
    pytest.param(("calibration",), 1.0, "a JSON object", id="calibration-number"),
    pytest.param(("calibration", "temperature"), "1", "a finite number", id="temperature-text"),
    pytest.param(
        ("calibration", "temperature"), float("nan"), "a finite number", id="temperature-nan"
    ),
    pytest.param(
        ("calibration", "temperature"), float("inf"), "a finite number", id="temperature-inf"
    ),
    pytest.param(("calibration", "temperature"), True, "a finite number", id="temperature-bool"),
    pytest.param(("calibration", "threshold"), float("nan"), "a finite number", id="threshold-nan"),
    pytest.param(("base_model",), ["m"], "a string", id="base-model-list"),
    pytest.param(("base_revision",), 1, "a string", id="base-revision-number"),
    pytest.param(("trained",), 1, "true or false", id="trained-number"),
    pytest.param(("trained",), "true", "true or false", id="trained-text"),
    pytest.param(("data_revisions",), ["d"], "a JSON object", id="data-revisions-list"),
    pytest.param(("data_revisions",), {"d": 1}, "a string", id="data-revision-number"),
    pytest.param(("training_commit",), 1, "a string", id="commit-number"),
    pytest.param(("weights_sha256",), 1, "a string", id="weights-number"),
    pytest.param(
        ("golden_metrics",), {"accuracy": float("nan")}, "a finite number", id="metric-nan"
    ),
    pytest.param(("golden_metrics",), {"accuracy": "0.9"}, "a finite number", id="metric-text"),
    pytest.param(("reference",), [1], "a JSON object", id="reference-list"),
    pytest.param(("reference", "rows"), 7, "a string", id="rows-number"),
    pytest.param(("reference", "num_rows"), 12.0, "a whole number", id="num-rows-real"),
    pytest.param(
        ("reference", "probability_counts"), 12, "a list of whole numbers", id="counts-number"
    ),
    pytest.param(
        ("reference", "probability_counts"),
        [3, 0, 0, 0, 1, 2, 0, 0, True, 5],
        "a list of whole numbers",
        id="counts-bool",
    ),
    pytest.param(("reference", "hallucination_share"), "half", "a finite number", id="share-text"),
    pytest.param(("reference", "justification_chars"), 40, "a JSON object", id="lengths-number"),
    pytest.param(
        ("reference", "justification_chars", "p50"), None, "a finite number", id="median-null"
    ),
]


@pytest.mark.parametrize(("keys", "value", "kind"), WRONG)
def test_a_value_of_the_wrong_kind_is_refused(
    tmp_path: Path, keys: tuple[str, ...], value: object, kind: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read_changed(tmp_path, *keys, value=value)
    assert f"{'.'.join(keys)}" in str(caught.value)
    assert f" must be {kind})" in str(caught.value)
    assert str(tmp_path / "contract.json") in str(caught.value)


def test_metrics_that_are_no_numbers_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_manifest(tmp_path, replace(FULL, golden_metrics={"f1": float("nan")}))
    assert list(tmp_path.iterdir()) == []


def test_json_nested_without_end_is_refused(tmp_path: Path) -> None:
    write_raw(tmp_path, "[" * 200_000)
    with pytest.raises(ManifestError, match="cannot be read as JSON"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        pytest.param("temperature", 0, "temperature must be a finite number above 0", id="zero"),
        pytest.param("threshold", 1.5, "threshold must be in [0, 1]", id="above-one"),
    ],
)
def test_a_calibration_that_means_nothing_is_refused(
    tmp_path: Path, key: str, value: float, message: str
) -> None:
    with pytest.raises(ManifestError, match=re.escape(message)):
        read_changed(tmp_path, "calibration", key, value=value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("probability_counts", [12], "probability_counts must be 10 counts from 0"),
        ("probability_counts", [13, *[0] * 8, -1], "probability_counts must be 10 counts from 0"),
        ("num_rows", 13, "num_rows must be the sum of probability_counts"),
        ("hallucination_share", 1.01, "hallucination_share must be in [0, 1]"),
        (
            "justification_chars",
            {"p10": 20, "p50": 10, "p90": 30},
            "lengths must be finite, not negative, and p10 <= p50 <= p90",
        ),
    ],
    ids=["bins", "negative", "sum", "share", "order"],
)
def test_a_reference_that_contradicts_itself_is_refused(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    with pytest.raises(ManifestError, match=re.escape(message)) as caught:
        read_changed(tmp_path, "reference", key, value=value)
    assert str(caught.value).endswith("Export the weights again with this project's training.")


def test_weights_of_this_contract_are_accepted() -> None:
    check_manifest(replace(FULL, contract_version=CONTRACT_VERSION, fingerprint=fingerprint()))


@pytest.mark.parametrize(
    "change",
    [
        {"contract_version": 900},
        {"fingerprint": "00ff00ff00ff00ff"},
        {"contract_version": 900, "fingerprint": "00ff00ff00ff00ff"},
    ],
    ids=["version", "fingerprint", "both"],
)
def test_weights_of_another_contract_are_refused_with_the_way_out(change: dict) -> None:
    ours = replace(FULL, contract_version=CONTRACT_VERSION, fingerprint=fingerprint())
    theirs = replace(ours, **change)
    with pytest.raises(ContractMismatchError) as caught:
        check_manifest(theirs)
    assert str(caught.value) == (
        f"the weights were trained under contract version {theirs.contract_version} "
        f"(fingerprint {theirs.fingerprint}), this code speaks version {ours.contract_version} "
        f"(fingerprint {ours.fingerprint}). Check out the commit that trained them (c0ffee), "
        "or train and push them again."
    )
    assert isinstance(caught.value, ManifestError)


def test_a_mismatch_says_when_the_commit_is_unknown() -> None:
    with pytest.raises(ContractMismatchError, match=r"trained them \(not recorded\)"):
        check_manifest(replace(FULL, training_commit=None))


def fingerprint_of_a_copy(folder: Path, module: str, addition: str, hash_seed: str = "0") -> str:
    """Copy the package, add lines to the end of a module and ask a new process for the hash."""
    package = folder / "contract"
    shutil.copytree(
        Path(contract.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    source = package / f"{module}.py"
    # What is redefined must exist, or the change would change nothing.
    for name in re.findall(r"^(?:def )?(\w+)", addition):
        assert re.search(rf"^(def |class )?{name}\b", source.read_text(encoding="utf-8"), re.M)
    with source.open("a", encoding="utf-8") as file:
        file.write(f"\n{addition}\n")
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); "
        "import contract.manifest as m; assert m.__file__.startswith(sys.path[0]); "
        "print(m.fingerprint())"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-S", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    return done.stdout.strip()


def test_the_fingerprint_is_the_same_in_every_process(tmp_path: Path) -> None:
    assert re.fullmatch("[0-9a-f]{16}", fingerprint())
    assert fingerprint_of_a_copy(tmp_path / "1", "labels", "", hash_seed="1") == fingerprint()
    assert fingerprint_of_a_copy(tmp_path / "2", "labels", "", hash_seed="2") == fingerprint()


NEVER = 're.compile("(?!)(.)(.)")'


@pytest.mark.parametrize(
    ("module", "addition"),
    [
        pytest.param("prompt", 'INSTRUCTIONS += " "', id="wording"),
        pytest.param("prompt", 'CHAT_TEMPLATE_KWARGS["enable_thinking"] = True', id="thinking-on"),
        pytest.param("prompt", 'CHAT_TEMPLATE_KWARGS["tools"] = False', id="new-template-argument"),
        pytest.param("prompt", "OUTPUT_BUDGET_TOKENS = 97", id="output-budget"),
        pytest.param("reply", 'REPLY_MARK = "Verdict:"', id="mark"),
        pytest.param(
            "labels", 'Label = StrEnum("Label", ["CORRECT", "HALLUCINATION"])', id="label-order"
        ),
        pytest.param(
            "labels",
            'Label = StrEnum("Label", {"HALLUCINATION": "made-up", "CORRECT": "correct"})',
            id="label",
        ),
        pytest.param("example", f"_REMOVED = {NEVER}", id="invisible-characters-kept"),
        pytest.param("example", f"_LINE_END = {NEVER}", id="line-ends-kept"),
        pytest.param("example", f"_CONTROL = {NEVER}", id="control-characters-kept"),
        pytest.param("example", f"_IDLE_JOINERS = {NEVER}", id="joiners-kept"),
        pytest.param("example", f"_BLANKS = {NEVER}", id="blanks-kept"),
        pytest.param("example", f"_BLANK_AROUND_LINE_END = {NEVER}", id="blank-around-line-end"),
        pytest.param("example", f"_EMPTY_LINES = {NEVER}", id="empty-lines-kept"),
        pytest.param("example", f"_OPENING = {NEVER}", id="openings-armed"),
        pytest.param("example", f"_CLOSING = {NEVER}", id="closings-armed"),
        pytest.param("example", f"_INSTRUCTION_TAG = {NEVER}", id="instruction-tags-armed"),
        pytest.param("example", f"_VERDICT_MARK = {NEVER}", id="verdict-marks-armed"),
        pytest.param("example", "_compose = lambda text, field: text", id="not-composed"),
        pytest.param(
            "prompt", 'def _fence(tag, text): return f"<{tag}>{text}</{tag}>"', id="fences"
        ),
    ],
)
def test_the_fingerprint_moves_with_what_the_model_sees(
    tmp_path: Path, module: str, addition: str
) -> None:
    changed = fingerprint_of_a_copy(tmp_path, module, addition)
    assert re.fullmatch("[0-9a-f]{16}", changed)
    assert changed != fingerprint()
