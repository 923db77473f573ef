"""Pushed with the Hub's real client, pulled and served by the real engine: the same verdicts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the engine")

from huggingface_hub import constants
from support.made_run import MadeExport, make_export
from support.service_process import service_process
from support.stub_hub import empty_hub

from contract.labels import Label
from contract.manifest import read_manifest
from service.settings import Settings
from service.weights import resolve_weights
from training.push import push

pytestmark = [
    pytest.mark.engine,
    # huggingface_hub 1.33 hands a file to httpx under a name that httpx has deprecated.
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
]

# Two processes of one engine on one machine; what differs is where the weights come from.
ROUNDING = 1e-6
BODIES: list[dict[str, Any]] = [
    {
        "knowledge": "The pool is 25 metres long and was opened in 1974.",
        "question": "How long is the pool?",
        "response": "The pool is 50 metres long.",
    },
    {
        "knowledge": ["The mill has three floors.", "It burned down in 1931."],
        "response": "The mill burned down in 1931.",
    },
    {"question": "How many days has a week?", "response": "Seven."},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeExport:
    """The embedded model as an export: merged weights with contract, card and results."""
    embedded = resolve_weights(Settings(), lambda text: None)
    assert embedded.manifest is not None
    files = {path.name: path for path in embedded.folder.iterdir() if path.is_file()}
    return make_export(
        tmp_path_factory.mktemp("run") / "made",
        files,
        label_token_ids=embedded.manifest.label_token_ids,
    )


def judge(folder: Path, *flags: str) -> list[dict[str, Any]]:
    """Start the service, and return what it says to every body, at length and shortly."""
    folder.mkdir()
    answers = []
    with service_process(folder, *flags) as service:
        service.wait_ready()
        for body in [*BODIES, *({**body, "justification": False} for body in BODIES)]:
            answer = service.http.post("/classify", json=body)
            # Nobody has trained these weights for the contract: some replies are unreadable.
            assert answer.status_code in (200, 502), answer.text
            content = answer.json()
            answers.append(
                {
                    key: content.get(key)
                    for key in ("class", "justification", "probability", "threshold", "model")
                }
            )
    return answers


def test_pushed_weights_are_pulled_and_give_the_same_verdicts(
    made: MadeExport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = judge(tmp_path / "folder", "--model", str(made.folder))
    with empty_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        commit = push(made.config, made.run, out=io.StringIO())
        assert commit is not None
        cache = ("--cache-dir", str(tmp_path / "cache"), "--hub-endpoint", hub.endpoint)
        pulled = judge(tmp_path / "hub", "--model", "acme/tiny@main", *cache)
    assert [each["class"] for each in pulled] == [each["class"] for each in expected]
    assert sum(each["class"] in set(Label) for each in pulled) >= len(BODIES)
    for one, other in zip(pulled, expected, strict=True):
        assert one["justification"] == other["justification"]
        assert one["threshold"] == other["threshold"]
        if other["probability"] is not None:
            assert one["probability"] == pytest.approx(other["probability"], abs=ROUNDING)
            assert one["model"] == other["model"] | {"id": "acme/tiny", "revision": commit}
    manifest = read_manifest(made.folder)
    assert manifest is not None
    assert {each["threshold"] for each in pulled if each["class"]} == {
        manifest.calibration.threshold
    }
