"""The life of one service process: loading, ready, draining, failed; and the watch over it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from contract.calibration import Calibration
from contract.example import Example
from service.detector import Detector
from service.engine.base import WARM_UP_ID, Engine, Phase
from service.errors import (
    EngineDeadError,
    NotReadyError,
    RetryableError,
    ServiceError,
    StartError,
)
from service.schemas import Model
from service.settings import Settings
from service.telemetry import Metrics
from service.weights import Weights

logger = logging.getLogger(__name__)

_WATCH_EVERY_S = 0.5
_STOP_GRACE_S = 1.0

_WARM_UP = Example(
    ("The pool is 25 metres long.",), "How long is the pool?", "The pool is 25 metres long."
)


def process_age_s() -> float:
    """Return seconds since this process began, the launcher's run included; Linux only, else 0."""
    try:
        # The 22nd field, in clock ticks since boot; the second one may hold blanks.
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, AttributeError, ValueError):
        return 0.0


class State(StrEnum):
    """Where the process is in its life."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class Lifecycle:
    """Loads the model in the background and says what state the service is in."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        metrics: Metrics,
        resolve_weights: Callable[[Settings, Callable[[str], None]], Weights],
        on_failure: Callable[[], None],
    ) -> None:
        """Nothing happens before ``start``.

        Args:
            settings: Of the process.
            engine: Not started yet.
            metrics: For the cold start and the state.
            resolve_weights: Returns the verified weights; blocking, run in a thread.
            on_failure: Called once, when the process should end with an error.
        """
        self._settings = settings
        self._engine = engine
        self._metrics = metrics
        self._resolve_weights = resolve_weights
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._phase_began = time.time() - process_age_s()
        self._process_began = self._phase_began
        self._phase = Phase.DOWNLOAD
        self._progress = "starting"
        self._detector: Detector | None = None
        self.weights: Weights | None = None
        self.state = State.LOADING
        self.loaded = asyncio.Event()
        self.gave_up = asyncio.Event()
        self.num_given_up = 0
        self.failure: str | None = None
        self.cold_start_s: dict[str, float] = {}

    def start(self) -> None:
        """Begin to load and to watch."""
        self._tasks = [asyncio.create_task(self._load()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """End the tasks and the engine."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._engine.stop()

    def begin_drain(self) -> None:
        """Turn not ready; accepted requests go on."""
        if self.state in (State.LOADING, State.READY):
            self.state = State.DRAINING
            self._metrics.ready.set(0)

    def give_up(self, num_items: int) -> None:
        """End the wait for verdicts: the time for draining is over.

        Args:
            num_items: Accepted and not answered.
        """
        self.num_given_up = num_items
        self.gave_up.set()

    def why_given_up(self) -> RetryableError:
        """Return what callers are told whose verdict will not come any more."""
        if self.state is State.FAILED:
            return EngineDeadError(self.failure or "the service has failed", 30)
        return NotReadyError("the service ended before this verdict was reached", 5)

    @property
    def progress(self) -> str:
        """What the service is doing, in words."""
        return (
            f"loading, {self._phase}: {self._progress}"
            if self.state is State.LOADING
            else self.state
        )

    def require_detector(self) -> Detector:
        """Return the detector; while draining too, for requests on open connections.

        Raises:
            NotReadyError: The model is not loaded, or loading failed.
            EngineDeadError: The engine has died.
        """
        if self.state is State.FAILED:
            raise EngineDeadError("the service has failed and is about to end", 30)
        if self._detector is None:
            raise NotReadyError(f"the service is starting: {self.progress}", 5)
        return self._detector

    def require_ready(self) -> None:
        """Pass only while new requests are welcome.

        Raises:
            NotReadyError: Loading, draining or failed.
        """
        if self.state is not State.READY:
            raise NotReadyError(f"the service is {self.progress}", 5)

    @property
    def model(self) -> Model:
        """What judges, for answers. Only once the weights are there."""
        weights = self.weights
        if weights is None:
            raise NotReadyError(f"the service is starting: {self.progress}", 5)
        manifest = weights.manifest
        return Model(
            id=weights.model_id,
            revision=weights.revision,
            contract=manifest.fingerprint if manifest else None,
            engine=self._engine.info.name,
            trained=manifest.trained if manifest else False,
        )

    async def _load(self) -> None:
        try:
            await self._load_model()
        except StartError as error:
            # A signal to the whole process group (Ctrl-C) ends the engine under our hands.
            if self.state is not State.DRAINING:
                self._fail(str(error))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.exception("unexpected error while loading")
            self._fail(f"unexpected error while loading ({type(error).__name__}), see above")

    async def _load_model(self) -> None:
        settings = self._settings
        self._enter(Phase.DOWNLOAD, f"looking for {settings.model}")
        self.weights = await asyncio.to_thread(
            self._resolve_weights, settings, lambda text: self._enter(Phase.DOWNLOAD, text)
        )
        await self._engine.start(self.weights, self._enter)
        manifest = self.weights.manifest
        detector = Detector(
            self._engine,
            manifest.calibration if manifest else Calibration(),
            settings.max_model_len,
            settings.max_output_tokens,
        )
        self._enter(Phase.WARM_UP, "first verdict")
        await self._warm_up(detector)
        self._end_phase()
        total_s = time.time() - self._process_began
        self.cold_start_s["total"] = total_s
        for phase, seconds in self.cold_start_s.items():
            self._metrics.cold_start_seconds.labels(phase).set(seconds)
        model, info = self.model, self._engine.info
        self._metrics.info.labels(
            model.id, model.revision, model.contract or "none", info.name
        ).set(1)
        self._detector = detector
        self.loaded.set()
        if self.state is State.LOADING:
            self.state = State.READY
            self._metrics.ready.set(1)

    async def _warm_up(self, detector: Detector) -> None:
        """Run both paths once; whether this verdict is readable says nothing about others."""
        job = await detector.prepare(_WARM_UP)
        for justify in (False, True):
            try:
                await detector.classify(job, justify=justify, threshold=None, request_id=WARM_UP_ID)
            except EngineDeadError as error:
                raise StartError("the engine died on its first request") from error
            except ServiceError as error:
                logger.warning("warm-up: %s", error)

    def _enter(self, phase: Phase, text: str) -> None:
        """Note the progress; thread-safe, since it only assigns."""
        if phase is not self._phase:
            self._end_phase()
            self._phase = phase
        if text != self._progress:
            logger.info("%s: %s", phase, text)
        self._progress = text

    def _end_phase(self) -> None:
        now = time.time()
        self.cold_start_s[self._phase] = now - self._phase_began
        self._phase_began = now

    async def _watch(self) -> None:
        """Fail when the engine has died or makes no progress."""
        while self.state is not State.FAILED:
            await asyncio.sleep(_WATCH_EVERY_S)
            if self._engine.is_dead:
                self._fail("the inference engine has died")
            elif self.loaded.is_set() and self._engine.stalled_s > self._settings.stuck_after_s:
                # Not before: the first requests compile, without a token for some seconds.
                self._fail(
                    f"the inference engine is stuck: requests run, and for "
                    f"{self._engine.stalled_s:.0f} s it has made no progress"
                )

    def _fail(self, reason: str) -> None:
        if self.state is State.FAILED:
            return
        logger.error("%s", reason)
        self.state = State.FAILED
        self.failure = reason
        self.gave_up.set()
        self._metrics.ready.set(0)
        # A moment for probes and waiting callers to hear of it before the process ends.
        asyncio.get_running_loop().call_later(_STOP_GRACE_S, self._on_failure)
