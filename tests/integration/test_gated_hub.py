"""A data set and a model whose terms were not accepted, on a Hub on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.stub_hub import COMMIT, Fault, StubHub, stub_hub

pytest.importorskip("datasets", reason="needs the training libraries")

ROOT = Path(__file__).resolve().parents[2]
GATED = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to acme/tiny is restricted."}
SET = f"""
[[data.sets]]
name = "theirs"
kind = "hub"
repo = "acme/tiny"
split = "train"
revision = "{COMMIT}"
"""


def ask(hub: StubHub, folder: Path, code: str) -> str:
    """Run code in a process whose Hub is the stub; return what it says at its end."""
    environ = {
        **os.environ,
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_TOKEN": "hf_test",
    }
    environ.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_gated_data_set_says_how_to_get_it(tmp_path: Path) -> None:
    config = tmp_path / "gated.toml"
    config.write_text('name = "gated"\n' + SET)
    arguments = ["prepare", str(config), "--runs-dir", str(tmp_path / "runs")]
    code = f"import sys; from training.__main__ import main; sys.exit(main({arguments!r}))"
    with stub_hub({}) as hub:
        hub.faults.append(Fault("dataset", status=403, headers=GATED))
        said = ask(hub, tmp_path, code)
    assert f"set 'theirs': acme/tiny (default, train) at {COMMIT[:12]} cannot be loaded: " in said
    assert "gated" in said.partition("cannot be loaded")[2].partition("Check its names")[0]
    assert "of a gated data set accept its terms on the Hub and set HF_TOKEN" in said
    assert not (tmp_path / "runs" / "gated" / "data" / "DONE").exists()


def test_a_gated_model_says_how_to_get_it(tmp_path: Path) -> None:
    code = f"""
import sys
from training.config import ModelConfig
from training.errors import ModelError
from training.models import base_folder
try:
    base_folder(ModelConfig(name="acme/tiny", revision="{COMMIT}"))
except ModelError as error:
    sys.exit(str(error))
"""
    with stub_hub({"config.json": b"{}"}) as hub:
        hub.faults.append(Fault("list", status=403, headers=GATED))
        said = ask(hub, tmp_path, code)
    assert f"acme/tiny at {COMMIT} cannot be fetched" in said
    assert "restricted" in said
    assert "for a gated model `hf auth login`" in said
