"""The vLLM engine, in process: the only file that imports vllm.

``AsyncLLM`` keeps the computing engine in a child process of its own; this file turns prompts into
its requests and its outputs into ``Generation`` and ``LabelRead``. Written against vLLM 0.31.0:
its Python interface moves with every minor release, so the version is pinned and checked.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contract.calibration import LabelLogprobs
from contract.labels import Label
from contract.prompt import CHAT_TEMPLATE_KWARGS, Message
from contract.reply import REPLY_MARK
from service.engine.base import (
    EngineInfo,
    EngineLoad,
    FinishReason,
    Generation,
    LabelRead,
    Phase,
    ProgressCallback,
    Prompt,
)
from service.engine.forking import forked_engine
from service.engine.pulse import Pulse
from service.engine.tokens import check_special_tokens, find_label_token_ids
from service.errors import EngineDeadError, EngineFaultError, StartError
from service.settings import GIB, Settings
from service.weights import Weights

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.outputs import RequestOutput
    from vllm.v1.engine.async_llm import AsyncLLM

VLLM_VERSION = "0.31.0"

# Shorter blocks than vLLM's own 128 on CPU let prompts share the instructions, which are about 130
# tokens long; docs/performance.md has the figures.
_CPU_BLOCK_SIZE_TOKENS = 32

# Longer texts are tokenised in a thread, so that the event loop goes on; for shorter ones the
# thread would cost more than it saves.
_THREAD_FROM_CHARS = 20_000

_DEAD_RETRY_AFTER_S = 30.0
_SHUTDOWN_S = 0.1  # nothing is left in it by then, and SIGKILL follows


class VllmEngine:
    """vLLM behind the service's engine protocol; see ``Engine`` for the methods."""

    def __init__(self, settings: Settings, device: str) -> None:
        """Keep the settings; nothing heavy happens before ``start``.

        Args:
            settings: Sizes and number format.
            device: ``cpu`` or ``cuda`` (ROCm calls itself cuda too).
        """
        self._settings = settings
        self._device = device
        self._llm: AsyncLLM | None = None
        self._tokenizer: Any = None
        self._label_token_ids: dict[Label, int] = {}
        self._generate_params: dict[int, SamplingParams] = {}
        self._pulse = Pulse()
        self._dtype = "unknown"
        self._accelerator: str | None = None
        self._version = VLLM_VERSION

    async def start(self, weights: Weights, progress: ProgressCallback) -> None:
        """Import vLLM, start its engine process, check the label tokens."""
        progress(Phase.LOAD, "importing vLLM")
        await asyncio.to_thread(self._import)
        progress(
            Phase.LOAD, f"loading {weights.folder} (the first start also compiles for this CPU)"
        )
        llm = await asyncio.to_thread(self._build, weights)
        self._llm = llm
        self._tokenizer = llm.get_tokenizer()
        self._label_token_ids = find_label_token_ids(self._tokenizer)
        check_special_tokens(self._tokenizer)
        recorded = weights.manifest.label_token_ids if weights.manifest else None
        if recorded is not None and dict(recorded) != self._label_token_ids:
            raise StartError(
                f"contract.json records the label tokens {dict(recorded)}, this tokenizer gives "
                f"{self._label_token_ids}: the tokenizer is not the one that the weights were "
                "trained with; fetch both again from one revision"
            )

    def _import(self) -> None:
        try:
            import vllm
        except ImportError as error:
            raise StartError(
                f"vLLM cannot be imported ({error}). `make serve` installs it from the lock; "
                "with --engine fake the service starts without it."
            ) from error
        self._version = vllm.__version__.partition("+")[0]
        if self._version != VLLM_VERSION:
            raise StartError(
                f"vLLM {self._version} is installed, this code is written for {VLLM_VERSION}: "
                "install from requirements/*.lock"
            )

    def _build(self, weights: Weights) -> AsyncLLM:
        from vllm import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM

        settings = self._settings
        # The weights are local: the engine must not look for anything on the Hub.
        os.environ["HF_HUB_OFFLINE"] = "1"
        options: dict[str, Any] = {}
        default_kv_bytes = GIB if self._device == "cpu" else 8 * GIB
        dtype = settings.dtype
        if self._device == "cpu":
            # The launcher has set the threads for this process and its children, so the computing
            # engine needs no worker process of its own.
            options["distributed_executor_backend"] = "uni"
            options["enforce_eager"] = True
            options["block_size"] = settings.block_size_tokens or _CPU_BLOCK_SIZE_TOKENS
            dtype = "float32" if dtype == "auto" else dtype
        elif settings.block_size_tokens is not None:
            options["block_size"] = settings.block_size_tokens
        arguments = AsyncEngineArgs(
            model=str(weights.folder),
            served_model_name=weights.model_id,
            dtype=dtype,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            kv_cache_memory_bytes=settings.kv_cache_bytes or default_kv_bytes,
            enable_prefix_caching=True,
            shutdown_timeout=int(settings.drain_timeout_s),
            disable_log_stats=False,
            use_tqdm_on_load=False,
            trust_remote_code=False,
            **options,
        )
        usage = UsageContext.OPENAI_API_SERVER
        try:
            config = arguments.create_engine_config(usage)
            with forked_engine() if self._device == "cpu" else nullcontext():
                llm = AsyncLLM.from_vllm_config(
                    config, usage_context=usage, stat_loggers=[_pulse_logger(self._pulse)]
                )
        except (RuntimeError, ValueError, OSError) as error:
            raise StartError(
                f"vLLM did not start: {error}. The engine's own lines above this one say more; "
                "too little memory is the commonest cause (kv_cache_bytes, max_model_len)."
            ) from error
        self._dtype = str(llm.model_config.dtype).removeprefix("torch.")
        if self._device != "cpu":
            from vllm.platforms import current_platform

            self._accelerator = current_platform.get_device_name()
        return llm

    @property
    def info(self) -> EngineInfo:
        """What runs."""
        return EngineInfo(
            "vllm",
            self._version,
            self._device,
            self._dtype,
            self._settings.max_model_len,
            self._accelerator,
        )

    @property
    def label_token_ids(self) -> dict[Label, int]:
        """First token of each label in its place after ``Class:``."""
        return dict(self._label_token_ids)

    async def encode(self, messages: Sequence[Message]) -> Prompt:
        """Apply the chat template and tokenise."""
        num_chars = sum(len(message["content"]) for message in messages)
        if num_chars < _THREAD_FROM_CHARS:
            return self._encode(messages)
        return await asyncio.to_thread(self._encode, messages)

    def _encode(self, messages: Sequence[Message]) -> Prompt:
        ids = self._tokenizer.apply_chat_template(
            list(messages),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **CHAT_TEMPLATE_KWARGS,
        )
        return Prompt(tuple(ids))

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        """Decode greedily; the labels' log-probabilities come with every token."""
        run = await self._run(prompt.token_ids, max_tokens, request_id)
        completion = run.output.outputs[0]
        token_ids = list(completion.token_ids)
        return Generation(
            text=self._tokenizer.decode(token_ids, skip_special_tokens=True),
            finish_reason=(
                FinishReason.LENGTH if completion.finish_reason == "length" else FinishReason.STOP
            ),
            label_logprobs=self._label_logprobs(token_ids, completion.logprobs),
            num_input_tokens=len(prompt.token_ids),
            num_output_tokens=len(token_ids),
            num_cached_tokens=run.output.num_cached_tokens or 0,
            queue_s=run.queue_s,
            inference_s=run.inference_s,
        )

    async def read_label(self, prompt: Prompt, cue: str, request_id: str) -> LabelRead:
        """Compute one token after the prompt and the cue."""
        cue_ids = self._tokenizer.encode(cue, add_special_tokens=False)
        token_ids = (*prompt.token_ids, *cue_ids)
        run = await self._run(token_ids, 1, request_id)
        completion = run.output.outputs[0]
        return LabelRead(
            logprobs=self._read_logprobs(_at(completion.logprobs, 0)),
            is_label=completion.token_ids[0] in self._label_token_ids.values(),
            num_input_tokens=len(token_ids),
            num_cached_tokens=run.output.num_cached_tokens or 0,
            queue_s=run.queue_s,
            inference_s=run.inference_s,
        )

    async def _run(self, token_ids: Sequence[int], max_tokens: int, request_id: str) -> _Run:
        from vllm.inputs import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError as VllmDeadError
        from vllm.v1.engine.exceptions import EngineGenerateError

        llm = self._llm
        if llm is None or llm.errored:
            raise EngineDeadError("the inference engine is not running", _DEAD_RETRY_AFTER_S)
        prompt = tokens_input(list(token_ids))
        last = None
        began = time.perf_counter()
        try:
            with self._pulse.request():
                async for output in llm.generate(prompt, self._params(max_tokens), request_id):
                    last = output
        except VllmDeadError as error:
            raise EngineDeadError("the inference engine has died", _DEAD_RETRY_AFTER_S) from error
        except (EngineGenerateError, ValueError) as error:
            raise EngineFaultError("the inference engine failed on this request") from error
        if last is None or last.outputs[0].finish_reason not in ("stop", "length"):
            raise EngineFaultError("the inference engine ended this request without a reply")
        return _Run.of(last, time.perf_counter() - began)

    def _params(self, max_tokens: int) -> SamplingParams:
        """Return the sampling parameters; the same label ids on every request.

        On vLLM's V1 runner one request with ``logprob_token_ids`` turns the whole batch to exact
        ids, so a neighbour without them would read wrong values.
        """
        if max_tokens not in self._generate_params:
            from vllm import SamplingParams
            from vllm.sampling_params import RequestOutputKind

            self._generate_params[max_tokens] = SamplingParams(
                temperature=0.0,
                max_tokens=max_tokens,
                logprob_token_ids=[self._label_token_ids[label] for label in Label],
                # Text is decoded once, at the end, and nothing of the logprobs is needed as text.
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
        return self._generate_params[max_tokens]

    def _label_logprobs(self, token_ids: list[int], logprobs: Any) -> LabelLogprobs | None:
        """Read the labels where the last ``Class:`` is followed by a label's first token."""
        first_tokens = set(self._label_token_ids.values())
        for i in range(len(token_ids) - 1, -1, -1):
            if token_ids[i] in first_tokens:
                before = self._tokenizer.decode(token_ids[:i], skip_special_tokens=True)
                if before.endswith(REPLY_MARK):
                    return self._read_logprobs(_at(logprobs, i))
        return None

    def _read_logprobs(self, at_position: Any) -> LabelLogprobs:
        return LabelLogprobs(
            hallucination=at_position[self._label_token_ids[Label.HALLUCINATION]].logprob,
            correct=at_position[self._label_token_ids[Label.CORRECT]].logprob,
        )

    @property
    def is_dead(self) -> bool:
        """True once vLLM's engine process is gone."""
        return self._llm is not None and bool(self._llm.errored)

    @property
    def stalled_s(self) -> float:
        """Seconds since vLLM last finished a step, while requests run."""
        return self._pulse.stalled_s

    @property
    def load(self) -> EngineLoad:
        """Requests now inside vLLM's scheduler."""
        return self._pulse.load

    async def stop(self) -> None:
        """End vLLM's engine process."""
        llm, self._llm = self._llm, None
        if llm is None:
            return
        # Otherwise vLLM's reader takes the engine's end for its death and logs it as an error.
        if llm.output_handler is not None:
            llm.output_handler.cancel()
        await asyncio.to_thread(llm.shutdown, _SHUTDOWN_S)


def _pulse_logger(pulse: Pulse) -> Any:
    """Return a class of vLLM's stat loggers that tells the pulse of every step."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class PulseLogger(StatLoggerBase):  # type: ignore[misc]
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            pass

        def record(
            self,
            scheduler_stats: Any,
            iteration_stats: Any,
            mm_cache_stats: Any = None,
            engine_idx: int = 0,
        ) -> None:
            if scheduler_stats is not None:
                stats = scheduler_stats
                pulse.beat(EngineLoad(stats.num_running_reqs, stats.num_waiting_reqs))

        def log_engine_initialized(self) -> None:
            pass

    return PulseLogger


def _at(logprobs: Any, position: int) -> Any:
    """Return the log-probabilities at one position, token id -> entry."""
    if logprobs is None:
        raise EngineFaultError("the inference engine gave no log-probabilities")
    return logprobs[position]


@dataclass(frozen=True, slots=True)
class _Run:
    """A finished request of vLLM's.

    Attributes:
        output: What came.
        inference_s: From the step that first worked on it to its last token.
        queue_s: The rest of the time in the engine. vLLM's own figure leaves out the wait for the
            running step to end, which is most of it.
    """

    output: RequestOutput
    inference_s: float
    queue_s: float

    @classmethod
    def of(cls, output: RequestOutput, elapsed_s: float) -> _Run:
        stats = output.metrics
        inference_s = 0.0
        if stats is not None:
            inference_s = max(0.0, stats.last_token_ts - stats.scheduled_ts)
        return cls(output, inference_s, max(0.0, elapsed_s - inference_s))
