"""Fetching weights with the Hub's real client, from a stub server that fails on command."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.small_disk import mounted
from support.stub_hub import (
    COMMIT,
    OTHER_COMMIT,
    Fault,
    StubHub,
    safetensors_bytes,
    stub_hub,
    tiny_weights,
)

from service.errors import WeightsError
from service.hub import fetch_snapshot
from service.settings import Settings

FILES = tiny_weights(b"{}")
MODEL = "model.safetensors"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def hub() -> Iterator[StubHub]:
    with stub_hub(FILES) as hub:
        yield hub


class Fetcher:
    """Fetches from the stub into one cache; keeps the waits and the progress."""

    def __init__(self, hub: StubHub, cache_dir: Path) -> None:
        self.hub = hub
        self.cache_dir = cache_dir
        self.waits_s: list[float] = []
        self.progress: list[str] = []

    def __call__(self, revision: str = COMMIT, repo: str = "acme/tiny", **changes: Any) -> Path:
        settings = Settings(
            cache_dir=self.cache_dir, **{"hub_endpoint": self.hub.endpoint, **changes}
        )
        folder, commit = fetch_snapshot(
            repo,
            revision,
            settings,
            self.progress.append,
            sleep=self.waits_s.append,
            timeout_s=0.3,
        )
        assert folder.name == commit
        return folder


@pytest.fixture
def fetch(hub: StubHub, tmp_path: Path) -> Fetcher:
    return Fetcher(hub, tmp_path / "cache")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_commit_is_fetched_whole_and_only_what_is_served(hub: StubHub, fetch: Fetcher) -> None:
    hub.commits[COMMIT] |= {
        "pytorch_model.bin": b"pickle",
        "model.gguf": b"gguf",
        "original/consolidated.safetensors": b"copy",
        "../outside.json": b"escape",
        "merges.txt": b"a b",
    }
    folder = fetch()
    assert content(folder) == {**FILES, "merges.txt": b"a b"}
    assert not list(fetch.cache_dir.rglob("outside.json"))


def test_a_cached_commit_needs_no_network(tmp_path: Path) -> None:
    with stub_hub(FILES) as hub:
        fetch = Fetcher(hub, tmp_path)
        first = fetch()
    assert fetch() == first  # the stub is gone
    assert fetch.waits_s == []


def test_a_branch_is_resolved_and_logged(
    hub: StubHub, fetch: Fetcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "service")
    assert fetch("main").name == COMMIT
    assert f"acme/tiny@main is commit {COMMIT}" in caplog.text
    hub.commits[OTHER_COMMIT] = {**FILES, MODEL: safetensors_bytes(10)}
    hub.branches["main"] = OTHER_COMMIT
    assert (fetch("main") / MODEL).read_bytes() == safetensors_bytes(10)


@pytest.mark.parametrize("changes", [{}, {"offline": True}], ids=["outage", "offline"])
def test_a_cached_branch_survives_an_outage_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any]
) -> None:
    with stub_hub(FILES) as hub:
        fetch = Fetcher(hub, tmp_path)
        folder = fetch("main")
    assert fetch("main", **changes) == folder
    assert f"taking acme/tiny@main as {COMMIT}, from the cache" in caplog.text
    assert fetch.waits_s == []


def test_no_request_is_made_offline(hub: StubHub, fetch: Fetcher) -> None:
    with pytest.raises(WeightsError, match=r"DETECTOR_OFFLINE .* is set: start once without it"):
        fetch(offline=True)
    assert hub.requests == []


def test_an_unreachable_hub_is_named(hub: StubHub, fetch: Fetcher) -> None:
    with pytest.raises(WeightsError, match=r"127.0.0.1:9 cannot be reached .*check the network"):
        fetch(hub_endpoint="http://127.0.0.1:9", hub_attempts=3)
    assert sum(fetch.waits_s) == pytest.approx(2.25, abs=0.75)  # 0.5 to 1, then 1 to 2


@pytest.mark.parametrize("where", ["list", "config.json", MODEL])
def test_server_errors_are_tried_again_with_growing_waits(
    hub: StubHub, fetch: Fetcher, where: str
) -> None:
    hub.faults = [Fault(where, times=3, status=503)]
    assert content(fetch()) == FILES
    assert 3.5 <= sum(fetch.waits_s) <= 7
    assert any("503; try 4 of 5 in" in line for line in fetch.progress)


def test_the_wait_that_the_hub_asks_for_is_kept(hub: StubHub, fetch: Fetcher) -> None:
    hub.faults = [Fault("list", times=1, status=429, headers={"Retry-After": "17"})]
    fetch()
    assert sum(fetch.waits_s) == 17


REFUSALS: dict[str, tuple[Fault, dict[str, Any], str]] = {
    "gated": (
        Fault(MODEL, status=401, headers={"X-Error-Code": "GatedRepo"}),
        {},
        "is gated: accept its terms at http.*/acme/tiny, and set DETECTOR_HUB_TOKEN",
    ),
    "gated-for-this-account": (
        Fault(MODEL, status=403, headers={"X-Error-Code": "GatedRepo"}),
        {"hub_token": "hf_x"},
        "is gated: accept its terms",
    ),
    "invalid-token": (
        Fault("list", status=401),
        {"hub_token": "hf_x"},
        "does not accept the token in DETECTOR_HUB_TOKEN: make a new one",
    ),
    "token-without-access": (
        Fault("list", status=403),
        {"hub_token": "hf_x"},
        "does not let this account read acme/tiny",
    ),
    "private": (Fault("list", status=401), {}, "has no repository acme/tiny, or it is private"),
    "missing-repo": (Fault("list", status=404), {}, "has no repository acme/tiny"),
    "unknown-refusal": (Fault("list", status=451), {}, "refused to give acme/tiny@.*: status 451"),
}


@pytest.mark.parametrize(("fault", "changes", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_told_at_once_with_its_remedy(
    hub: StubHub, fetch: Fetcher, fault: Fault, changes: dict[str, Any], message: str
) -> None:
    hub.faults = [fault]
    with pytest.raises(WeightsError, match=message):
        fetch(**changes)
    assert fetch.waits_s == []


def test_missing_things_are_named(hub: StubHub, fetch: Fetcher) -> None:
    with pytest.raises(WeightsError, match="has no revision v9: name a commit, branch or tag"):
        fetch("v9")
    with pytest.raises(WeightsError, match="has no repository acme/other"):
        fetch(repo="acme/other", hub_token="hf_good")
    with pytest.raises(WeightsError, match="acme/bad--name is not a repository's name"):
        fetch(repo="acme/bad--name")
    hub.commits[COMMIT] = {"pytorch_model.bin": b"x", "config.json": b"{}"}
    with pytest.raises(WeightsError, match=r"has no \*\.safetensors file"):
        fetch()


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub: StubHub, fetch: Fetcher) -> None:
    fetch(hub_token="hf_secret")
    seen = {request.path.split("/")[1]: request.authorization for request in hub.requests}
    assert seen == {"api": "Bearer hf_secret", "acme": "Bearer hf_secret", "cdn": None}


def test_a_cut_connection_is_resumed(hub: StubHub, fetch: Fetcher) -> None:
    hub.faults = [Fault(MODEL, times=1, cut_after_bytes=70_000)]
    assert content(fetch()) == FILES
    ranges = [request.range for request in hub.requests if request.path.startswith("/cdn/")]
    assert ranges == [None, "bytes=70000-"]


def test_a_connection_that_is_always_cut_leaves_a_part_for_the_next_start(
    hub: StubHub, fetch: Fetcher
) -> None:
    hub.faults = [Fault(MODEL, cut_after_bytes=10_000)]
    with pytest.raises(WeightsError, match=r"in 3 tries .* is kept in .*: start again to go on"):
        fetch(hub_attempts=3)
    hub.faults, hub.requests = [], []
    assert content(fetch()) == FILES
    assert [request.range for request in hub.requests if request.range] == ["bytes=30000-"] * 2
    assert hub.paths("/api/") == []  # the listing is known by now


@pytest.mark.parametrize(
    "fault",
    [Fault(MODEL, keep_bytes=1000), Fault(MODEL, garble=True), Fault("config.json", garble=True)],
    ids=["short", "wrong-sha256", "wrong-git-hash"],
)
def test_a_damaged_file_is_never_taken_and_is_fetched_again(
    hub: StubHub, fetch: Fetcher, fault: Fault
) -> None:
    hub.faults = [fault]
    with pytest.raises(WeightsError, match=f"{fault.where} could not be fetched in 2 tries"):
        fetch(hub_attempts=2)
    assert not (fetch.cache_dir / "hub" / "acme--tiny" / COMMIT / fault.where).exists()
    hub.faults = []
    assert content(fetch()) == FILES


def test_a_stalled_connection_is_given_up_and_resumed(hub: StubHub, fetch: Fetcher) -> None:
    hub.faults = [Fault(MODEL, times=1, stall_s=0.6), Fault("list", times=1, stall_s=0.6)]
    assert content(fetch()) == FILES
    assert len(fetch.waits_s) == 2


def test_a_file_cut_down_in_the_cache_is_fetched_again(hub: StubHub, fetch: Fetcher) -> None:
    model = fetch() / MODEL
    os.truncate(model, 100)
    assert content(fetch()) == FILES
    os.truncate(model, 100)
    with pytest.raises(WeightsError, match="is not whole in the cache"):
        fetch(offline=True)


def test_progress_tells_bytes_and_can_stop_the_fetch(hub: StubHub, fetch: Fetcher) -> None:
    fetch()
    assert any(line.startswith("fetching acme/tiny: ") for line in fetch.progress)
    assert any(line.endswith(" of 0.2 MB") for line in fetch.progress)

    class StoppedError(Exception):
        pass

    def stop(text: str) -> None:
        raise StoppedError

    settings = Settings(cache_dir=fetch.cache_dir / "new", hub_endpoint=hub.endpoint)
    with pytest.raises(StoppedError):
        fetch_snapshot("acme/tiny", COMMIT, settings, stop)


def test_two_starts_at_once_fetch_once(hub: StubHub, tmp_path: Path) -> None:
    hub.faults = [Fault("config.json", times=1, stall_s=0.2)]
    fetchers = [Fetcher(hub, tmp_path) for _ in range(2)]
    threads = [threading.Thread(target=fetcher) for fetcher in fetchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hub.paths("/resolve/")) == len(FILES)
    waited = [line for fetcher in fetchers for line in fetcher.progress if "waiting" in line]
    assert waited == ["waiting for another process, which fetches acme/tiny"]
    assert fetchers[0]() == fetchers[1]()


def test_a_full_disk_is_told_before_the_fetch(hub: StubHub, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=64k") as disk:
        message = rf"holds {disk}.* is full: \d{{6}} bytes are needed. Free some space"
        with pytest.raises(WeightsError, match=message):
            Fetcher(hub, disk)()
    assert hub.paths("/resolve/") == []


def test_a_limit_met_on_the_way_is_told_like_a_full_disk(hub: StubHub, tmp_path: Path) -> None:
    """A file-size limit makes the write itself fail, past every check before it."""
    script = (
        "import resource, sys, pathlib\n"
        "from service.hub import fetch_snapshot\n"
        "from service.settings import Settings\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "settings = Settings(cache_dir=sys.argv[1], hub_endpoint=sys.argv[2])\n"
        "fetch_snapshot('acme/tiny', sys.argv[3], settings, lambda text: None)\n"
    )
    done = run_python(script, str(tmp_path), hub.endpoint, COMMIT)
    assert "WeightsError: the disk that holds" in done.stderr
    assert "is full" in done.stderr


def test_a_cache_that_cannot_be_written_is_named(hub: StubHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsError, match=r"cannot write to .*point DETECTOR_CACHE_DIR"):
        Fetcher(hub, tmp_path / "file")()
    with (
        mounted(tmp_path / "disk", "ro") as disk,
        pytest.raises(WeightsError, match=r"Read-only.*point DETECTOR_CACHE_DIR"),
    ):
        Fetcher(hub, disk)()


def test_nothing_is_written_outside_the_cache(hub: StubHub, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    script = (
        "import sys\n"
        "from service.hub import fetch_snapshot\n"
        "from service.settings import Settings\n"
        "settings = Settings(cache_dir=sys.argv[1], hub_endpoint=sys.argv[2])\n"
        "fetch_snapshot('acme/tiny', 'main', settings, lambda text: None)\n"
    )
    environ = {"HOME": str(home), "HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_of_another_tool"}
    done = run_python(script, str(tmp_path / "cache"), hub.endpoint, **environ)
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    assert {request.authorization for request in hub.requests} == {None}
    assert len(hub.paths("/api/")) == 1  # nor is anything else asked for


def run_python(script: str, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", script, *args],
        cwd=ROOT, env={**clean, **environ}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
