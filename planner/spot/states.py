"""How a spot market comes and goes: durations whose chance to end depends on their age."""

from __future__ import annotations

from dataclasses import dataclass

from planner.durations import mean_hours


@dataclass(frozen=True)
class Ages:
    """A duration that ends with `rates[i]` per hour once it is `begins[i]` hours old (first 0, rising).

    Falling rates make a heavy tail: what has lasted will last.
    """

    begins: tuple[float, ...]  # hours
    rates: tuple[float, ...]  # per hour

    def mean(self) -> float:
        """Mean duration in hours."""
        return mean_hours(self.begins, self.rates)


@dataclass(frozen=True)
class SpotStates:
    """An alternating market: up-times and outages of the machines that one run needs, all of them together."""

    up: Ages
    down: Ages
