"""The bare engine: ``AsyncLLM`` in a loop, what the service's own cost is measured against.

It does the same work as the service: the labels' log-probabilities come with every token, and a
reply that is no verdict is asked for its label once more.

Reads ``{"folder": ..., "examples": [...]}`` from standard input, writes one latency in seconds and
one output length a prompt to standard output as JSON. Run by ``python -m loadtest.compare`` in the
environment that the service's launcher chooses.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from typing import Any

from contract.errors import UnreadableReplyError
from contract.example import Example
from contract.labels import Label
from contract.prompt import CHAT_TEMPLATE_KWARGS, OUTPUT_BUDGET_TOKENS, render
from contract.reply import REPLY_MARK, label_cue, parse, split_justification
from loadtest.contenders import BLOCK_SIZE_TOKENS, KV_CACHE_BYTES, SIZES

_NUM_WARM_UP = 4


async def run(folder: str, examples: list[Example]) -> dict[str, list[float]]:
    """Judge the examples one after another; the first few only warm up.

    Returns:
        ``latencies_s`` and ``output_tokens``, one number for each example after those.
    """
    from vllm import AsyncEngineArgs, SamplingParams
    from vllm.inputs import tokens_input
    from vllm.sampling_params import RequestOutputKind
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    sizes: dict[str, Any] = {name.replace("-", "_"): value for name, value in SIZES.items()}
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=folder,
            dtype="float32",
            enforce_eager=True,
            block_size=BLOCK_SIZE_TOKENS,
            distributed_executor_backend="uni",
            kv_cache_memory_bytes=KV_CACHE_BYTES,
            **sizes,
        ),
        usage_context=UsageContext.OPENAI_API_SERVER,
    )
    tokenizer: Any = engine.get_tokenizer()
    label_ids = [
        tokenizer.encode(f"{REPLY_MARK} {label}", add_special_tokens=False)[
            len(tokenizer.encode(REPLY_MARK, add_special_tokens=False))
        ]
        for label in Label
    ]

    async def generate(ids: list[int], max_tokens: int) -> list[int]:
        params = SamplingParams(
            temperature=0.0,
            max_tokens=max_tokens,
            logprob_token_ids=label_ids,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        new_ids: list[int] = []
        async for output in engine.generate(tokens_input(ids), params, uuid.uuid4().hex):
            new_ids = list(output.outputs[0].token_ids)
        return new_ids

    latencies: list[float] = []
    num_tokens: list[float] = []
    for example in examples:
        began = time.perf_counter()
        ids = tokenizer.apply_chat_template(
            list(render(example)),
            add_generation_prompt=True,
            return_dict=False,
            **CHAT_TEMPLATE_KWARGS,
        )
        new_ids = await generate(ids, OUTPUT_BUDGET_TOKENS)
        num_new = len(new_ids)
        reply = tokenizer.decode(new_ids, skip_special_tokens=True)
        try:
            parse(reply)
        except UnreadableReplyError:
            cue = label_cue(split_justification(reply))
            num_new += len(
                await generate([*ids, *tokenizer.encode(cue, add_special_tokens=False)], 1)
            )
        latencies.append(time.perf_counter() - began)
        num_tokens.append(num_new)
    engine.shutdown()
    return {"latencies_s": latencies[_NUM_WARM_UP:], "output_tokens": num_tokens[_NUM_WARM_UP:]}


def main() -> None:
    """Read the work, write the figures."""
    work = json.load(sys.stdin)
    examples = [
        Example(tuple(e["knowledge"]) if e["knowledge"] else None, e["question"], e["response"])
        for e in work["examples"]
    ]
    result = asyncio.run(run(work["folder"], examples))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
