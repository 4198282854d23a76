"""The time limit of a user: without one no clock is read."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.scenario.scenario import SolveOptions

LEAST_SECONDS = 0.05
"""That a solver is given at least."""


def latest_moment(options: SolveOptions) -> float | None:
    """Return the moment of `perf_counter` at which a search that begins now ends; None without a time limit."""
    return None if options.time_limit_seconds is None else perf_counter() + options.time_limit_seconds


def has_passed(until: float | None) -> bool:
    """Return whether a moment has passed; None never does."""
    return until is not None and perf_counter() > until


def seconds_until(until: float | None) -> float | None:
    """Return the seconds to a moment, at least LEAST_SECONDS, as a solver takes them; None without one."""
    return None if until is None else max(until - perf_counter(), LEAST_SECONDS)
