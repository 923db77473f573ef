"""The real CPU engine with the embedded model, started once; then drained, killed, interrupted."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from support.service_process import (
    ServiceProcess,
    admitted_items,
    metric,
    service_process,
)
from support.stub_hub import COMMIT, stub_hub
from support.waiting import wait_until
from tokenizers import Tokenizer

from contract.calibration import LabelLogprobs
from contract.example import Example
from contract.labels import Label
from contract.manifest import fingerprint, read_manifest, write_manifest
from contract.prompt import render
from contract.reply import label_cue
from service.settings import Settings
from service.weights import resolve_weights

pytestmark = pytest.mark.engine

CASES = Path(__file__).parents[1] / "cases"
POOL = {
    "knowledge": "The pool is 25 metres long and was opened in 1974.",
    "question": "How long is the pool?",
    "response": "The pool is 50 metres long.",
}
# A neighbour in the batch changes the shape of the matrix products and so their rounding, in
# float32 by about 1e-5 of a log-probability.
ROUNDING = 1e-3


def embedded_folder() -> Path:
    return resolve_weights(Settings(), lambda text: None).folder


def hard_cases() -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (CASES / "hard_cases.jsonl").read_text().splitlines()]
    return [{k: row[k] for k in ("knowledge", "question", "response")} for row in rows]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with service_process(tmp_path_factory.mktemp("engine"), "--log-json") as process:
        process.wait_ready()
        yield process


def ask(service: ServiceProcess, body: dict[str, Any]) -> dict[str, Any]:
    answer = service.http.post("/classify", json=body)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def test_a_verdict_has_all_that_the_api_promises(service: ServiceProcess) -> None:
    answer = ask(service, POOL)
    assert set(answer) == {
        "class", "justification", "probability", "threshold", "label_mass", "evidence", "model",
        "usage", "timings_ms", "request_id",
    }  # fmt: skip
    assert answer["class"] in set(Label)
    assert (answer["class"] == "hallucination") == (answer["probability"] >= answer["threshold"])
    assert answer["evidence"] == "given"
    assert answer["model"]["id"] == "embedded"
    assert answer["model"]["engine"] == "vllm"
    assert answer["model"]["contract"] == fingerprint()
    assert 0 < answer["label_mass"] <= 1
    assert answer["usage"]["input_tokens"] > 150
    assert answer["timings_ms"]["total"] >= answer["timings_ms"]["inference"] > 0


def test_info_says_whether_the_model_was_trained(service: ServiceProcess) -> None:
    info = service.http.get("/info").json()
    assert info["model"]["trained"] is True
    assert info["base_model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert info["engine"] == {
        "name": "vllm", "version": "0.31.0", "device": "cpu", "dtype": "float32",
    }  # fmt: skip
    assert info["label_token_ids"] == {"hallucination": 25790, "correct": 2887}
    assert set(info["cold_start_s"]) == {"download", "load", "warm_up", "total"}


def test_every_hard_case_ends_in_a_verdict_or_in_a_problem(service: ServiceProcess) -> None:
    for body in hard_cases():
        answer = service.http.post("/classify", json=body)
        if answer.status_code == 200:
            assert answer.json()["class"] in set(Label)
        else:
            assert answer.status_code == 502
            assert "class" not in answer.json()


def test_the_short_path_is_one_token_without_a_justification(service: ServiceProcess) -> None:
    answer = ask(service, {**POOL, "justification": False})
    assert answer["justification"] is None
    assert answer["usage"]["output_tokens"] == 1


def test_the_instructions_are_computed_once_for_all(service: ServiceProcess) -> None:
    ask(service, POOL)
    answer = ask(service, {**POOL, "knowledge": "A text that was never sent before, number 8461."})
    assert answer["usage"]["cached_tokens"] >= 128


def test_what_all_prompts_share_fills_whole_blocks(service: ServiceProcess) -> None:
    """19 tokens over a block's end cost every request 12 ms."""
    tokenizer = Tokenizer.from_file(str(embedded_folder() / "tokenizer.json"))
    prompts = [
        "".join(
            f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n"
            for turn in render(Example((knowledge,), None, "x"))
        )
        for knowledge in ("One", "Another")
    ]
    one, another = (tokenizer.encode(prompt).ids for prompt in prompts)
    shared = next(i for i, (a, b) in enumerate(zip(one, another, strict=False)) if a != b)
    assert shared == 128


def test_a_verdict_does_not_depend_on_its_neighbours(service: ServiceProcess) -> None:
    bodies = [body | {"justification": False} for body in hard_cases()] + hard_cases()[:8]
    alone = [service.http.post("/classify", json=body).json() for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(lambda b: service.http.post("/classify", json=b).json(), bodies))
    batch = service.http.post("/classify/batch", json={"items": bodies}).json()["results"]
    for one, crowd, item in zip(alone, together, batch, strict=True):
        if "class" not in one:
            assert "class" not in crowd
            assert "problem" in item
            continue
        for other in (crowd, item["result"]):
            assert other["class"] == one["class"]
            assert other["justification"] == one["justification"]
            assert other["probability"] == pytest.approx(one["probability"], abs=ROUNDING)


def test_the_probability_is_that_of_a_reference_implementation(service: ServiceProcess) -> None:
    """The engine's label log-probabilities against a plain forward pass of transformers."""
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = embedded_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    manifest = read_manifest(folder)
    assert manifest is not None
    for body in hard_cases()[:6]:
        example = Example((body["knowledge"],), body["question"], body["response"])
        ids = tokenizer.apply_chat_template(
            list(render(example)), add_generation_prompt=True, return_dict=False
        )
        ids = [*ids, *tokenizer.encode(label_cue(None), add_special_tokens=False)]
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        read = LabelLogprobs(logprobs[25790].item(), logprobs[2887].item())
        answer = ask(service, {**body, "justification": False})
        expected = manifest.calibration.probability(read)
        assert answer["probability"] == pytest.approx(expected, abs=ROUNDING)
        assert answer["label_mass"] == pytest.approx(read.mass, abs=ROUNDING)
        assert answer["usage"]["input_tokens"] == len(ids) - 2


def test_too_many_tokens_are_refused_with_both_numbers(service: ServiceProcess) -> None:
    """18,000 characters that a limit on characters would let through."""
    rows = (CASES / "bad_requests.jsonl").read_text(encoding="utf-8").splitlines()
    body = next(row["body"] for row in map(json.loads, rows) if row["id"] == "br23")
    answer = service.http.post(
        "/classify", content=body.encode(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["limit_tokens"] == 3984
    assert answer.json()["num_tokens"] > 30_000


def test_the_longest_allowed_input_is_judged_and_one_token_more_is_not(
    service: ServiceProcess,
) -> None:
    def send(num_words: int) -> httpx.Response:
        return service.http.post(
            "/classify", json={**POOL, "knowledge": "pool " * num_words, "justification": False}
        )

    limit = send(5000).json()["limit_tokens"]
    too_many = send(limit).json()["num_tokens"] - limit
    # A text of one word four thousand times may leave the model without a verdict, but it is read.
    assert send(limit - too_many).status_code in (200, 502)
    assert send(limit - too_many + 1).status_code == 422


def test_a_client_that_leaves_stops_the_work_in_the_engine(service: ServiceProcess) -> None:
    body = {**POOL, "knowledge": "A long text about a pool. " * 400}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{service.http.base_url}/classify", json=body, timeout=0.3)
    wait_until(lambda: metric(service.http, "detector_in_flight_items") == 0, timeout_s=5)
    running = 'vllm:num_requests_running{engine="0",model_name="embedded"}'
    ask(service, POOL | {"justification": False})
    assert metric(service.http, running) == 0
    assert metric(service.http, 'detector_items_total{class="",outcome="client-gone"}') == 1


def test_both_kinds_of_metrics_are_there(service: ServiceProcess) -> None:
    ask(service, POOL)
    text = service.http.get("/metrics").text
    assert "detector_inference_seconds_bucket" in text
    assert "vllm:prompt_tokens_total" in text
    assert metric(service.http, 'detector_window_verdicts{path="full"}') > 0


def test_sigterm_drains_the_real_engine(tmp_path: Path) -> None:
    with service_process(tmp_path, "--drain-grace-s", "0.2") as service:
        address = service.wait_ready()
        with ThreadPoolExecutor(8) as pool:
            bodies = [{**POOL, "question": f"How long is pool {i}?"} for i in range(8)]
            accepted = [
                pool.submit(httpx.post, f"{address}/classify", json=body, timeout=60)
                for body in bodies
            ]
            wait_until(lambda: admitted_items(service.http) == 8)
            service.signal(signal.SIGTERM)
            statuses = {answer.result().status_code for answer in accepted}
        assert statuses <= {200, 502}
        assert service.wait() == 0
        assert "every accepted item has its answer" in service.log
        assert "Traceback" not in service.log


def test_ctrl_c_on_the_whole_group_drains_the_real_engine(tmp_path: Path) -> None:
    """The engine took the signal for itself and dropped what had been accepted."""
    with service_process(tmp_path, "--drain-grace-s", "1") as service:
        address = service.wait_ready()
        with ThreadPoolExecutor(9) as pool:

            def send(number: int) -> int:
                body = {**POOL, "question": f"How long is pool {number}?"}
                return httpx.post(f"{address}/classify", json=body, timeout=60).status_code

            accepted = [pool.submit(send, i) for i in range(8)]
            wait_until(lambda: admitted_items(service.http) == 8)
            service.signal_group(signal.SIGINT)
            late = pool.submit(send, 8)
            assert {answer.result() for answer in [*accepted, late]} <= {200, 502}
        assert service.wait() == 0
        assert "every accepted item has its answer" in service.log


def test_a_killed_engine_ends_the_process_without_a_verdict(tmp_path: Path) -> None:
    with service_process(tmp_path) as service:
        address = service.wait_ready()
        with ThreadPoolExecutor(1) as pool:
            body = {**POOL, "knowledge": "A long text about a pool. " * 400}
            answer = pool.submit(httpx.post, f"{address}/classify", json=body, timeout=60)
            wait_until(lambda: metric(service.http, "detector_in_flight_items") == 1)
            (engine,) = service.engine_pids()
            os.kill(engine, signal.SIGKILL)
            assert answer.result().status_code == 503
            assert answer.result().json()["type"].endswith(":engine-dead")
        assert service.wait(30) == 3
        assert "the inference engine has died" in service.log


def test_the_engine_ends_when_the_server_is_killed(tmp_path: Path) -> None:
    """A forked or spawned engine of vLLM would go on and hold its memory for ever."""
    with service_process(tmp_path) as service:
        service.wait_ready()
        (engine,) = service.engine_pids()
        service.signal(signal.SIGKILL)
        service.wait()
        wait_until(lambda: not psutil.pid_exists(engine), timeout_s=10)


def test_a_paused_engine_is_found_stuck(tmp_path: Path) -> None:
    """A process that lives but does not move: what the engine's own health check misses."""
    with service_process(tmp_path, "--stuck-after-s", "2") as service:
        address = service.wait_ready()
        (engine,) = service.engine_pids()
        os.kill(engine, signal.SIGSTOP)
        began = time.monotonic()
        answer = httpx.post(f"{address}/classify", json=POOL, timeout=60)
        assert answer.status_code == 503
        assert "is stuck" in answer.json()["detail"]
        assert service.wait(60) == 3
        assert time.monotonic() - began < 30


def test_sigterm_while_the_engine_loads_leaves_no_process(tmp_path: Path) -> None:
    with service_process(tmp_path) as service:
        service.wait_for_port()
        wait_until(lambda: "also compiles" in service.log, timeout_s=120)
        time.sleep(3)
        service.signal_group(signal.SIGTERM)
        assert service.wait(20) == 0
        assert "Traceback" not in service.log


def test_weights_from_a_hub_are_fetched_and_serve(tmp_path: Path, service: ServiceProcess) -> None:
    """The whole way of ``DETECTOR_MODEL=org/repo@branch``, with the real client and engine."""
    folder = embedded_folder()
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    flags = ("--model", "acme/tiny@main", "--cache-dir", str(tmp_path / "cache"))
    with (
        stub_hub(files) as hub,
        service_process(tmp_path, *flags, "--hub-endpoint", hub.endpoint) as fetched,
    ):
        fetched.wait_ready()
        body = POOL | {"justification": False}
        answer, expected = ask(fetched, body), ask(service, body)
        assert answer["model"]["id"] == "acme/tiny"
        assert answer["model"]["revision"] == COMMIT
        assert answer["probability"] == pytest.approx(expected["probability"], abs=ROUNDING)
        assert f"acme/tiny@main is commit {COMMIT}" in fetched.log


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("/nowhere/at/all", "/nowhere/at/all"),
        ("no-such-name", "org/repo@revision"),
        ("acme/tiny", "pin one"),
    ],
    ids=["no-folder", "no-model", "no-revision"],
)
def test_weights_that_cannot_be_had_end_the_process(tmp_path: Path, model: str, says: str) -> None:
    with service_process(tmp_path, "--model", model) as process:
        assert process.wait(30) == 1
        assert says in process.log
        assert "Traceback" not in process.log


def test_weights_of_another_contract_end_the_process(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(embedded_folder(), folder)
    manifest = read_manifest(folder)
    assert manifest is not None
    write_manifest(folder, dataclasses.replace(manifest, fingerprint="0" * 16))
    with service_process(tmp_path, "--model", str(folder)) as process:
        assert process.wait(30) == 1
        assert "fingerprint 0000000000000000" in process.log
        assert "train and push them again" in process.log
