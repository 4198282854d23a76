"""Settings of a simulation: runs, seed, recorded markets and speeds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from planner.analysis.market_fit_question import read_traces_of
from planner.errors import Fault, ScenarioError
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.spot.market.zones import Trace

DEFAULT_RUNS = 10_000
MAX_RUNS = 1_000_000


class SimulationArguments(TypedDict, total=False):
    """How a plan is replayed; see `simulate`."""

    traces: Sequence[str | Path]
    together: bool
    preempted: bool
    runs: int
    seed: int
    exact_speed: bool


@record(frozen=True)
class SimulationSettings:
    """The arguments of a simulation, its traces read."""

    traces: tuple[Trace, ...] = ()
    runs: int = DEFAULT_RUNS  # at most
    seed: int = 0
    exact_speed: bool = False
    together: bool = False  # the traces are zones that a run may move among

    @classmethod
    def of(cls, traces: Sequence[str | Path] = (), preempted: bool = False, **settings: Any) -> SimulationSettings:
        """Return checked settings; ScenarioError for runs or a seed that cannot be used."""
        found = cls(**settings)
        if not 1 <= found.runs <= MAX_RUNS:
            what, fix = f"{found.runs:,} runs cannot be simulated", f"1 to {MAX_RUNS:,}"
            raise ScenarioError([Fault("simulate", 0, "runs", what, fix)])
        if found.seed < 0:
            raise ScenarioError([Fault("simulate", 0, "seed", f"{found.seed} is not a seed", "0 or more")])
        read = tuple(read_traces_of(traces, preempted)) if traces else ()
        if found.together and len(read) < 2:
            what, fix = f"{len(read)} zones cannot be used together", "give two traces or more with --trace"
            raise ScenarioError([Fault("simulate", 0, "--together", what, fix)])
        return replace(found, traces=read)
