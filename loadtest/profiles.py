"""The profiles: how long which load runs, in multiples of a deployment's own rate."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.arrivals import Stage

COLD_START = "coldstart"


@dataclass(frozen=True, slots=True)
class Profile:
    """The shape of one load.

    Attributes:
        name: As on the command line.
        purpose: What it shows.
        warm_up_s: Seconds at the first stage's rate before anything is counted.
        stages: (seconds, multiple of the rate at the start, at the end).
    """

    name: str
    purpose: str
    warm_up_s: float
    stages: tuple[tuple[float, float, float], ...]

    def at(
        self, rate_per_s: float, duration_s: float | None = None, warm_up_s: float | None = None
    ) -> tuple[float, list[Stage]]:
        """Return the seconds of warm-up and all stages, that of the warm-up first.

        Args:
            rate_per_s: Of the deployment.
            duration_s: In place of the profile's own, warm-up left out: all stages are stretched
                alike.
            warm_up_s: In place of the profile's own; 0 for none.
        """
        own_s = sum(seconds for seconds, _, _ in self.stages)
        stretch = 1.0 if duration_s is None else duration_s / own_s
        warm_s = self.warm_up_s if warm_up_s is None else warm_up_s
        stages = [
            Stage(seconds * stretch, start * rate_per_s, end * rate_per_s)
            for seconds, start, end in self.stages
        ]
        if warm_s > 0:
            first_per_s = stages[0].start_per_s
            stages.insert(0, Stage(warm_s, first_per_s, first_per_s))
        return warm_s, stages


SMOKE = Profile("smoke", "every kind of request is answered as it should be", 5, ((30, 0.5, 0.5),))
SLO = Profile("slo", "the goals at the expected load", 15, ((120, 1, 1),))
STRESS = Profile(
    "stress",
    "what gives first as the load climbs past the expected one",
    15,
    ((30, 0.5, 0.5), (30, 1, 1), (30, 1.5, 1.5), (30, 2, 2), (30, 3, 3)),
)
SPIKE = Profile(
    "spike",
    "a burst of four times the load: what is refused, and how soon it is over",
    15,
    ((30, 0.5, 0.5), (15, 4, 4), (60, 0.5, 0.5)),
)
SOAK = Profile("soak", "an hour of steady load: leaks and slow decay", 15, ((3600, 0.7, 0.7),))

PROFILES = {each.name: each for each in (SMOKE, SLO, STRESS, SPIKE, SOAK)}
"""Name -> profile; ``coldstart`` has no stages and stands in ``loadtest/coldstart.py``."""

PROFILE_NAMES = (*PROFILES, COLD_START)
