"""The drift gate on the real CPU service: the same is the same, and each sabotage is found.

One service is asked for every case four times. What goes wrong around an engine is then put between
the gate and that service's answers; what goes wrong in one is served by a service of its own, which
is asked for every case once.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.made_measurement import read_report
from support.made_pairs import EQUALLY_FAST
from support.service_process import ServiceProcess, service_process
from support.stub_service import StubService, problem_json

from client.models import Classification
from contract.labels import Label
from evaluation.__main__ import main
from evaluation.baseline import Baseline, Case
from evaluation.gate import Outcome, judge
from evaluation.golden_set import GoldenCase, load_golden_set
from evaluation.limits import Limits
from evaluation.noise import Outcome as Said
from evaluation.paired import PairedCase
from service.settings import Settings
from service.weights import resolve_weights

# Beside other work, on two cores, the four passes take minutes.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
MAX_CHARS = 300
NUM_CASES = 126
NUM_SWAPPED = 10  # 8 %
# Latency on a machine that runs tests is nobody's business here.
ANY_SPEED = ["--max-p50-ratio=1e9", "--max-p95-ratio=1e9", "--min-throughput-ratio=1e-9"]
KEY = "open-sesame-0123"

Ask = Callable[[dict[str, Any]], tuple[int, dict[str, str], Any]]
"""From the body of a request to status, headers and content of its answer."""


def pick_cases() -> list[GoldenCase]:
    """Return short cases of the project's own set, in whole pairs and of most kinds."""
    pairs: dict[str, list[GoldenCase]] = defaultdict(list)
    for case in load_golden_set().cases:
        pairs[case.pair_id].append(case)
    short = [
        pair
        for pair in pairs.values()
        if all(len(f"{case.knowledge}{case.response}") < MAX_CHARS for case in pair)
    ]
    return [case for pair in (*short[::2], *short[1::2]) for case in pair][:NUM_CASES]


ROWS = pick_cases()


class Relay(StubService):
    """Hands requests on to a service, and keeps its answers.

    Attributes:
        said: Response that was judged -> its answers, in order.
        is_repeating: What was answered before is answered again, without asking.
    """

    def __init__(self, service: ServiceProcess, *, is_repeating: bool) -> None:
        super().__init__()
        self.said: dict[str, list[Any]] = defaultdict(list)
        self.is_repeating = is_repeating
        self.info = (200, {}, service.http.get("/info").json())
        self.reply = self.ask
        self._http = service.http

    def ask(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        said = self.said[body["response"]]
        if self.is_repeating and said:
            return said[0]
        answer = self._http.post("/classify", json=body)
        said.append((answer.status_code, {}, answer.json()))
        return said[-1]


@dataclass(frozen=True)
class Measured:
    """What was measured of the service as it should be.

    Attributes:
        folder: Of the golden set and the baseline.
        relay: Before the service, which has ended: it repeats what was said.
        code: Exit code of the gate, unchanged.
        report: Of the gate.
    """

    folder: Path
    relay: Relay
    code: int
    report: dict[str, Any]

    def drift(self, url: str, out: Path, *options: str) -> list[str]:
        """Return the command line of the gate."""
        paths = [f"--set={self.folder / 'golden.jsonl'}", f"--out={out}"]
        paths += [f"--baseline={self.folder / 'baseline.json'}"]
        return ["drift", f"--url={url}", *paths, *ANY_SPEED, *options]


@pytest.fixture(scope="module", autouse=True)
def _no_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HALLUCINATION_DETECTOR_API_KEY", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """Make a baseline of the real service, and compare it with itself."""
    folder = tmp_path_factory.mktemp("sabotage")
    lines = [json.dumps(asdict(row)) + "\n" for row in ROWS]
    (folder / "golden.jsonl").write_text("".join(lines))
    with service_process(folder) as service:
        service.wait_ready()
        relay = Relay(service, is_repeating=False)
        made = Measured(folder, relay, 0, {})
        paths = [f"--set={folder / 'golden.jsonl'}", f"--out={folder / 'baseline.json'}"]
        assert main(["baseline", f"--url={relay.url}", *paths, "--concurrency=16"]) == 0
        code = main(made.drift(relay.url, folder / "unchanged"))
    relay.is_repeating = True
    yield Measured(folder, relay, code, read_report(folder / "unchanged"))
    relay.close()


Gate = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def gate(measured: Measured, tmp_path: Path) -> Gate:
    """Run the gate on a relay; return its exit code and its report."""

    def run(relay: Relay, ask: Ask | None = None, *options: str) -> tuple[int, dict[str, Any]]:
        relay.reply = relay.ask if ask is None else ask
        code = main(measured.drift(relay.url, tmp_path / "reports", *options))
        return code, read_report(tmp_path / "reports")

    return run


@contextmanager
def served(folder: Path, *flags: str) -> Iterator[Relay]:
    """Serve the embedded model in another way."""
    with service_process(folder, *flags) as service:
        service.wait_ready()
        relay = Relay(service, is_repeating=True)
        yield relay
        relay.close()


def failed(report: dict[str, Any]) -> set[str]:
    return {check["name"] for check in report["checks"] if check["status"] == "failed"}


def swap(content: dict[str, Any]) -> dict[str, Any]:
    other = {Label.HALLUCINATION: Label.CORRECT, Label.CORRECT: Label.HALLUCINATION}
    return content | {
        "class": other[content["class"]], "probability": 1 - content["probability"]
    }  # fmt: skip


def altered(relay: Relay, alter: Callable[[dict[str, Any]], dict[str, Any]]) -> Ask:
    """Return a service that answers other verdicts than it reached."""

    def ask(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        status, headers, content = relay.ask(body)
        return status, headers, alter(content) if status == 200 else content

    return ask


def test_the_cases_are_of_both_classes_and_of_most_kinds() -> None:
    assert len(ROWS) == len({row.response for row in ROWS}) == NUM_CASES
    assert Counter(row.label for row in ROWS) == dict.fromkeys(Label, NUM_CASES // 2)
    assert len({row.kind for row in ROWS}) >= 15


def test_the_service_unchanged_is_the_same(measured: Measured) -> None:
    assert (measured.code, measured.report["outcome"]) == (0, "same")
    assert {len(said) for said in measured.relay.said.values()} == {4}
    assert measured.report["golden"]["num_compared"] == len(measured.relay.said) == NUM_CASES
    baseline = Baseline.read(measured.folder / "baseline.json")
    assert baseline.service.model == "embedded"
    assert {case.first.verdict for case in baseline.cases} >= set(Label)


def read(said: tuple[int, dict[str, str], Any]) -> Said:
    return Said.of(Classification.from_json(said[2]) if said[0] == 200 else None)


def test_whichever_passes_are_compared_false_alarms_keep_to_their_level(measured: Measured) -> None:
    """All 24 orders of the four recorded passes: one false alarm in them is 4 %."""
    outcomes = []
    for order in permutations(range(4)):
        cases = []
        for row in ROWS:
            passes = [read(measured.relay.said[row.response][place]) for place in order]
            sides = (Case(row.id, *passes[:2]), Case(row.id, *passes[2:]))
            cases.append(PairedCase(row, *sides))
        outcomes.append(judge(cases, EQUALLY_FAST, Limits(), samples=500).outcome)
    assert len(outcomes) == 24
    assert outcomes.count(Outcome.WORSE) <= 1
    assert outcomes.count(Outcome.SAME) >= 20


def test_labels_swapped_on_8_percent_are_found(measured: Measured, gate: Gate) -> None:
    relay = measured.relay
    swapped = Random(1).sample([row.response for row in ROWS], NUM_SWAPPED)

    def ask(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        is_swapped = body["response"] in swapped
        return altered(relay, swap)(body) if is_swapped else relay.ask(body)

    code, report = gate(relay, ask)
    assert (code, report["outcome"]) == (1, "worse")
    assert "flip rate" in failed(report)
    assert {flip["id"] for flip in report["flips"]} == {
        row.id for row in ROWS if row.response in swapped
    }


def test_a_service_that_always_says_correct_is_found(measured: Measured, gate: Gate) -> None:
    always = {"class": Label.CORRECT, "probability": 0.01}
    code, report = gate(measured.relay, altered(measured.relay, lambda content: content | always))
    assert (code, report["outcome"]) == (1, "worse")
    assert {"recall of hallucination", "flip rate", "probability, PSI"} <= failed(report)
    assert report["after"]["figures"]["recall"] == 0.0


def test_squashed_probabilities_are_found_though_no_verdict_moved(
    measured: Measured, gate: Gate
) -> None:
    def squash(content: dict[str, Any]) -> dict[str, Any]:
        return content | {"probability": 0.5 + 0.1 * (content["probability"] - 0.5)}

    code, report = gate(measured.relay, altered(measured.relay, squash))
    assert (code, report["outcome"]) == (1, "worse")
    assert failed(report) >= {"probability, KS", "probability, PSI"}
    assert report["flips"] == []


def test_verdicts_that_depend_on_their_neighbours_are_found(measured: Measured, gate: Gate) -> None:
    """As a batch that mixes its rows up would: every third verdict is other among others."""
    relay, crowd = measured.relay, threading.Condition()
    fragile = {row.response for row in ROWS[::3]}
    num_inside = 0

    def ask(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        nonlocal num_inside
        with crowd:
            num_inside += 1
            crowd.notify_all()
            # A neighbour comes at once, or there is none: then this is how long it takes to know.
            is_alone = not crowd.wait_for(lambda: num_inside > 1, 0.03)
        try:
            is_other = not is_alone and body["response"] in fragile
            return altered(relay, swap)(body) if is_other else relay.ask(body)
        finally:
            with crowd:
                num_inside -= 1

    code, report = gate(relay, ask)
    assert (code, report["outcome"]) == (1, "worse")
    assert "alone and concurrent" in failed(report)


def test_replies_cut_off_after_4_tokens_are_found(gate: Gate, tmp_path: Path) -> None:
    with served(tmp_path, "--max-output-tokens", "4") as relay:
        code, report = gate(relay)
    assert (code, report["outcome"]) == (1, "worse")
    assert failed(report)


def test_a_changed_prompt_is_found(gate: Gate, tmp_path: Path) -> None:
    """The chat template is no part of the contract's fingerprint, nor of the adapter's hash. This
    one cuts the texts off after 120 characters."""
    folder = tmp_path / "weights"
    folder.mkdir()
    for path in resolve_weights(Settings(), lambda text: None).folder.iterdir():
        (folder / path.name).symlink_to(path)
    template = folder / "chat_template.jinja"
    whole, cut = "message['content'] +", "message['content'][:(none if loop.first else 120)] +"
    text = template.read_text(encoding="utf-8")
    assert text.count(whole) == 1
    template.unlink()
    template.write_text(text.replace(whole, cut), encoding="utf-8")
    with served(tmp_path, "--model", str(folder)) as relay:
        code, report = gate(relay)
    assert report["changes"] == []
    assert (code, report["outcome"]) == (1, "worse")
    assert failed(report)


def test_another_number_format_is_judged_by_what_it_says(gate: Gate, tmp_path: Path) -> None:
    """On this model bfloat16 moves all probabilities, by 0.015 on average, and hardly a verdict."""
    with served(tmp_path, "--dtype", "bfloat16") as relay:
        code, report = gate(relay)
    assert report["before"]["service"]["engine"]["dtype"] == "float32"
    assert report["after"]["service"]["engine"]["dtype"] == "bfloat16"
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["probability, KS"]["value"] > 0
    assert checks["flip rate"]["status"] == "passed"
    assert (code, report["outcome"]) in {(0, "same"), (2, "could not tell")}


def test_a_service_that_refuses_30_percent_could_not_be_measured(
    measured: Measured, tmp_path: Path
) -> None:
    """As a process: requests under way are dropped, and its end waits for none of them."""
    relay, asked, lock = measured.relay, Counter[str](), threading.Lock()

    def ask(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        with lock:
            asked[body["response"]] += 1
            draw = Random(f"{body['response']} {asked[body['response']]}").random()
        return relay.ask(body) if draw >= 0.3 else (503, {}, problem_json(503, "overloaded"))

    relay.reply = ask
    words = measured.drift(relay.url, tmp_path / "reports")
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", *words],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert "could not measure: the service gave no verdict on row g" in done.stderr
    assert read_report(tmp_path / "reports")["exit_code"] == 2


def test_nothing_there_could_not_be_measured(measured: Measured, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    out = tmp_path / "reports"
    assert main(measured.drift(url, out, "--wait=0.5")) == 2
    assert f"{url} is not ready" in read_report(out)["reason"]


def test_a_service_that_never_gets_ready_could_not_be_measured(
    measured: Measured, tmp_path: Path
) -> None:
    out = tmp_path / "reports"
    with service_process(tmp_path, "--engine", "fake", "--fake-start-s", "600") as service:
        url = service.wait_for_port()
        assert main(measured.drift(url, out, "--wait=0.5")) == 2
    assert f"{url} is not ready" in read_report(out)["reason"]


def test_a_service_that_refuses_the_key_could_not_be_measured_and_tells_no_key(
    measured: Measured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "reports"
    environ = {"DETECTOR_API_KEYS": KEY}
    with service_process(tmp_path, "--engine", "fake", environ=environ) as service:
        url = service.wait_ready()
        for wrong in ("", "sesame-that-is-wrong"):
            monkeypatch.setenv("HALLUCINATION_DETECTOR_API_KEY", wrong)
            assert main(measured.drift(url, out)) == 2
            assert "401 " in read_report(out)["reason"]
        monkeypatch.setenv("HALLUCINATION_DETECTOR_API_KEY", KEY)
        assert main(measured.drift(url, out)) == 2
        assert "the baseline is of something else" in read_report(out)["reason"]
    said = [*capfd.readouterr(), *(path.read_text() for path in out.iterdir())]
    assert len(said) == 2 + 3
    assert not [text for text in said if KEY in text or "that-is-wrong" in text]
