"""What is compared: this service, vLLM's own server in several settings, and the bare engine.

Each contender is a process of its own with the same weights, and is asked for the same prompts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import httpx

from contract.example import Example
from contract.prompt import CHAT_TEMPLATE_KWARGS, OUTPUT_BUDGET_TOKENS, render

SIZES: dict[str, int] = {
    "max-model-len": 4096,
    "max-num-seqs": 32,
    "max-num-batched-tokens": 2048,
}
KV_CACHE_BYTES = 1024**3
BLOCK_SIZE_TOKENS = 32

Path = Literal["full", "short"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one prompt.

    Attributes:
        num_output_tokens: Generated, as the server counts them; None where it does not say.
        engine_s: Seconds inside the engine, where the server says so.
    """

    num_output_tokens: int | None
    engine_s: float | None = None


class Contender(Protocol):
    """Something that judges examples over HTTP."""

    name: str
    ready_path: str

    def command(self, port: int) -> list[str]:
        """Return the command that starts it."""

    def environ(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return its environment."""

    def supports(self, path: Path) -> bool:
        """Whether it has this path."""

    async def ask(self, http: httpx.AsyncClient, example: Example, path: Path) -> Answer:
        """Judge one example.

        Raises:
            httpx.HTTPError: It gave no answer.
        """


@dataclass
class Ours:
    """This service, as ``make serve`` starts it."""

    model: str
    cache_dir: str | None = None
    name: str = "this service"
    ready_path: str = "/readyz"

    def command(self, port: int) -> list[str]:
        """Start the service."""
        command = [sys.executable, "-m", "service", "--port", str(port), "--model", self.model]
        for name, value in SIZES.items():
            command += [f"--{name}", str(value)]
        return [*command, "--kv-cache-bytes", str(KV_CACHE_BYTES)]

    def environ(self, base: Mapping[str, str]) -> dict[str, str]:
        """Nothing is set: the launcher chooses."""
        return dict(base)

    def supports(self, path: Path) -> bool:
        """Both."""
        return True

    async def ask(self, http: httpx.AsyncClient, example: Example, path: Path) -> Answer:
        """Call ``POST /classify``; that the model gave no verdict is an answer too."""
        body: dict[str, Any] = {
            "response": example.response,
            "question": example.question,
            "knowledge": list(example.knowledge) if example.knowledge else None,
            "justification": path == "full",
        }
        answer = await http.post("/classify", json=body)
        if answer.status_code == httpx.codes.BAD_GATEWAY:
            return Answer(None)
        answer.raise_for_status()
        content = answer.json()
        timings = content["timings_ms"]
        return Answer(
            content["usage"]["output_tokens"], (timings["queue"] + timings["inference"]) / 1000
        )


@dataclass
class VllmServer:
    """vLLM's own OpenAI server, over its chat route."""

    folder: str
    name: str
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    ready_path: str = "/health"

    def command(self, port: int) -> list[str]:
        """Start the server; without a size for its cache it would want nearly all memory."""
        return [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", self.folder, "--served-model-name", "peer",
            "--host", "127.0.0.1", "--port", str(port),
            "--kv-cache-memory-bytes", str(KV_CACHE_BYTES),
            *self.arguments,
        ]  # fmt: skip

    def environ(self, base: Mapping[str, str]) -> dict[str, str]:
        """Add the variables of this setting."""
        quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
        return {**base, **quiet, **self.variables}

    def supports(self, path: Path) -> bool:
        """It has no one-token verdict without a prompt of its own."""
        return path == "full"

    async def ask(self, http: httpx.AsyncClient, example: Example, path: Path) -> Answer:
        """Call the chat route with the very messages that the service renders."""
        answer = await http.post(
            "/v1/chat/completions",
            json={
                "model": "peer",
                "messages": render(example),
                "temperature": 0,
                "max_tokens": OUTPUT_BUDGET_TOKENS,
                "chat_template_kwargs": CHAT_TEMPLATE_KWARGS,
            },
        )
        answer.raise_for_status()
        return Answer(answer.json()["usage"]["completion_tokens"])


def vllm_servers(folder: str, preload: str) -> list[VllmServer]:
    """Return vLLM's server as it comes, as its manual tunes it, and with all that we found.

    Args:
        folder: Of the weights.
        preload: Value of ``LD_PRELOAD`` for tcmalloc and Intel's OpenMP.
    """
    cores = f"0-{(os.cpu_count() or 1) - 1}"
    sizes = [part for name, value in SIZES.items() for part in (f"--{name}", str(value))]
    tuned = ["--dtype", "float32", "--enforce-eager", *sizes]
    preloaded = {"LD_PRELOAD": preload} if preload else {}
    return [
        VllmServer(folder, "vLLM's server as it comes"),
        VllmServer(
            folder,
            "vLLM's server tuned (float32, all cores, eager, preloads, same sizes)",
            tuned,
            {"VLLM_CPU_OMP_THREADS_BIND": cores, **preloaded},
        ),
        VllmServer(
            folder,
            "vLLM's server with all our settings (and one process, 32-token blocks)",
            [
                *tuned,
                "--block-size",
                str(BLOCK_SIZE_TOKENS),
                "--distributed-executor-backend",
                "uni",
            ],
            {
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "OMP_NUM_THREADS": str(os.cpu_count() or 1),
                **preloaded,
            },
        ),
    ]
