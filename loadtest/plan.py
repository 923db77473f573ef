"""What the generator is told: when requests are sent and which ones. Travels as a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from loadtest.arrivals import Spacing, Stage, schedule, total_duration_s


class Loop(StrEnum):
    """Who decides when a request is sent.

    Attributes:
        OPEN: The schedule.
        CLOSED: The answer before it. Waiting hides in it, so every report says so.
    """

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Plan:
    """One load.

    Attributes:
        stages: In their order, the warm-up first. In a closed loop only their time counts.
        warm_up_s: Requests whose intended start is earlier are not counted.
        seed: Of arrivals and workload.
        timeout_s: After which an answer is not waited for any more.
        loop: Open or closed.
        spacing: Of an open loop's arrivals.
        concurrency: Requests open at once, of a closed loop.
    """

    stages: tuple[Stage, ...]
    warm_up_s: float
    seed: int
    timeout_s: float
    loop: Loop = Loop.OPEN
    spacing: Spacing = Spacing.POISSON
    concurrency: int = 1

    @property
    def duration_s(self) -> float:
        """Seconds from the first intended start to the end of the last stage."""
        return total_duration_s(self.stages)

    def arrivals(self) -> list[float]:
        """Return the intended starts of an open loop."""
        return schedule(self.stages, self.spacing, self.seed)

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read what ``write`` wrote.

        Raises:
            ValueError: It is none.
        """
        value = json.loads(path.read_text(encoding="utf-8"))
        try:
            stages = tuple(Stage(**stage) for stage in value.pop("stages"))
            loop, spacing = Loop(value.pop("loop")), Spacing(value.pop("spacing"))
            return cls(**value, stages=stages, loop=loop, spacing=spacing)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is no plan of a load ({error})") from error
