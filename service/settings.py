"""The service's settings: environment ``DETECTOR_*`` and the same names as flags.

``docs/configuration.md`` is generated from this file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from contract.prompt import OUTPUT_BUDGET_TOKENS
from service.errors import StartError

ENV_PREFIX = "DETECTOR_"
GIB = 1024**3  # bytes
MIB = 1024**2  # bytes


def default_cache_dir() -> Path:
    """Return the user's cache folder for this project (``XDG_CACHE_HOME`` is honoured)."""
    return Path(platformdirs.user_cache_dir("hallucination-detector"))


def _as_number(value: object) -> object:
    """Read digits as a number: pydantic compares a text from outside with ``Literal`` as it is."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


BlockSize = Annotated[Literal[16, 32, 64, 128], BeforeValidator(_as_number)]


class Settings(BaseSettings):
    """All settings of one service process. Built once, in ``__main__``, and passed down."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        frozen=True,
        extra="forbid",
        cli_kebab_case=True,
        cli_prog_name="python -m service",
        cli_hide_none_type=True,
        cli_implicit_flags=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    # What is served
    model: str = Field(default="embedded", min_length=1)
    """`embedded`, a folder of weights, or `org/repo@revision` on the Hugging Face Hub."""
    engine: Literal["vllm", "fake"] = "vllm"
    """Inference engine. `fake` answers by a fixed rule, for tests of what stands around it."""
    allow_missing_contract: bool = False
    """Serve weights that carry no `contract.json`; every answer then says so."""
    cache_dir: Path = Field(default_factory=default_cache_dir)
    """Folder for prepared and downloaded weights. Nothing is written elsewhere."""
    hub_endpoint: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$")
    """Address of the Hub; its own default where unset."""
    hub_token: SecretStr | None = None
    """Access token for gated or private repositories."""
    hub_attempts: int = Field(default=5, ge=1, le=20)
    """Tries to fetch the weights before the start fails."""
    offline: bool = False
    """Use only what the cache holds; never ask the Hub."""

    # The engine's sizes
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the weights; `auto` is float32 on CPU and the weights' own elsewhere."""
    max_model_len: int = Field(default=4096, ge=512, le=131072)
    """Tokens of prompt and reply together."""
    max_output_tokens: int = Field(default=OUTPUT_BUDGET_TOKENS, ge=4, le=1024)
    """Tokens that a reply may have. The contract's budget unless there is a reason."""
    max_num_seqs: int = Field(default=32, ge=1, le=1024)
    """Requests that the engine computes at once."""
    max_num_batched_tokens: int = Field(default=2048, ge=64, le=131072)
    """Tokens that the engine computes in one step."""
    kv_cache_bytes: int | None = Field(default=None, ge=64 * MIB)
    """Memory for attention keys and values; 1 GiB on CPU, 8 GiB on a GPU."""
    block_size_tokens: BlockSize | None = None
    """Tokens in a block of the prefix cache; 32 on CPU, the engine's own elsewhere."""
    cpu_threads: int | None = Field(default=None, ge=1, le=1024)
    """Threads that compute, on CPU; every core that the process may use where unset."""

    # HTTP
    host: str = "127.0.0.1"
    """Address to listen on; `0.0.0.0` for all."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 for any free one."""
    max_body_bytes: int = Field(default=MIB, ge=1024, le=64 * MIB)
    """Bytes that a request body may have."""
    body_timeout_s: float = Field(default=10.0, gt=0, le=600)
    """Seconds in which a request body must have arrived."""
    max_json_depth: int = Field(default=16, ge=4, le=200)
    """Levels of nesting that a body may have."""
    max_batch_items: int = Field(default=64, ge=1, le=1024)
    """Items that a batch may have."""
    api_keys: SecretStr | None = None
    """Keys that callers must send as `Authorization: Bearer`, separated by commas."""
    api_keys_file: Path | None = None
    """File of keys, one a line; lines that begin with `#` are left out."""
    open_metrics: bool = True
    """Leave `/metrics` open where keys are required."""
    open_probes: bool = True
    """Leave `/livez` and `/readyz` open where keys are required."""

    # Load
    max_in_flight: int = Field(default=128, ge=1, le=100_000)
    """Items that may be accepted and not yet answered."""
    max_queued_tokens: int = Field(default=65_536, ge=512)
    """Input tokens that accepted items may hold together."""
    rate_limit_per_minute: int | None = Field(default=None, ge=1)
    """Items that one key (without keys: one address) may send in a minute."""
    request_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds after which an accepted item is given up."""

    # Life
    stuck_after_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds without one token, with requests running, after which the engine counts as stuck."""
    drain_grace_s: float = Field(default=2.0, ge=0, le=300)
    """Seconds between turning not ready and refusing requests, so that load balancers notice."""
    drain_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """Seconds that accepted requests get to end after SIGTERM."""

    # Observation
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    log_json: bool = False
    """One JSON object a line instead of text."""
    otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$")
    """Where to send traces (OTLP over HTTP); none are made where unset."""
    window_verdicts: int = Field(default=1000, ge=10, le=100_000)
    """Latest verdicts of each path that `detector_window_*` and live drift are measured over."""
    window_min_verdicts: int = Field(default=200, ge=10, le=100_000)
    """Verdicts from which live drift is measured; a full window is always enough."""

    # The fake engine
    fake_latency_s: float = Field(default=0.0, ge=0, le=600)
    """Seconds that the fake engine takes for a reply."""
    fake_start_s: float = Field(default=0.0, ge=0, le=600)
    """Seconds that the fake engine takes to start."""
    fake_output_tokens: int = Field(default=24, ge=4, le=1024)
    """Tokens of a reply of the fake engine."""
    fake_fault: Literal["none", "unreadable", "no_label", "error", "dead", "stuck"] = "none"
    """What the fake engine does wrong."""
    fake_fault_rate: float = Field(default=1.0, ge=0, le=1)
    """Share of requests on which it does so."""

    @model_validator(mode="after")
    def _check_together(self) -> Settings:
        room = self.max_model_len - self.max_output_tokens
        if room < 256:
            raise ValueError(
                f"max_model_len {self.max_model_len} leaves {room} tokens beside max_output_tokens "
                f"{self.max_output_tokens}, the instructions alone need about 140: raise "
                "max_model_len or lower max_output_tokens"
            )
        if self.max_queued_tokens < self.max_model_len:
            raise ValueError(
                f"max_queued_tokens {self.max_queued_tokens} is below max_model_len "
                f"{self.max_model_len}, so the longest allowed input could never be accepted: "
                "raise max_queued_tokens"
            )
        return self

    def redacted(self) -> dict[str, Any]:
        """Return the settings as JSON values, secrets starred."""
        return self.model_dump(mode="json")


def check_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a misspelt setting, which would otherwise be ignored in silence.

    Raises:
        StartError: Names every unknown ``DETECTOR_*`` variable.
    """
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields}
    unknown = sorted(
        name
        for name in environ
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known
    )
    if unknown:
        raise StartError(
            f"unknown setting in the environment: {', '.join(unknown)}. "
            "`python -m service --help` lists all settings."
        )
