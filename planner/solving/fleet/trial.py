"""A service solved for its dollars alone: what a limit, a GPU or a provider is worth, without a plan around it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.fleet.kinds import served_kinds
from planner.candidates.market import build_market
from planner.errors import Fault, ScenarioError
from planner.records import record
from planner.results.serving.differences import span
from planner.scenario.serving.job import ServeJob
from planner.solving.fleet.optimise import optimise_fleet
from planner.solving.fleet.problem import fleet_problem
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.candidates.fleet.kinds import ServedKinds
    from planner.candidates.market import Market
    from planner.formulation.fleet.problem import FleetProblem
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solving.fleet.optimise import SolvedFleet


@record(frozen=True)
class ServiceTrial:
    """The cheapest fleet of a scenario's service; without fleets there is none within its limits."""

    served: ServedKinds
    market: Market
    problem: FleetProblem
    solved: SolvedFleet

    @property
    def is_feasible(self) -> bool:
        """Whether there is a fleet."""
        return self.solved.fleets is not None

    @property
    def fleets(self) -> Floats:
        """Machines (hours, kinds); none without a fleet."""
        return np.zeros((self.problem.hours, 0)) if self.solved.fleets is None else self.solved.fleets

    @property
    def usd_per_month(self) -> float:
        """Dollars of a month; infinite without a fleet."""
        if self.solved.fleets is None:
            return float("inf")
        return self.problem.cost(self.solved.fleets) * MONTH_HOURS / self.problem.hours

    @property
    def bound_usd_per_month(self) -> float:
        """Dollars of a month below which no fleet costs."""
        return min(self.solved.bound * MONTH_HOURS / self.problem.hours, self.usd_per_month)

    @property
    def gap(self) -> float:
        """How far the dollars may lie above the least ones, as their share."""
        return max(0.0, self.usd_per_month - self.bound_usd_per_month) / max(self.usd_per_month, 1e-9)

    @property
    def mean_use(self) -> float:
        """Load over capacity, weighted by load."""
        able = self.fleets @ self.problem.capacity
        return float(np.average(self.problem.load / np.maximum(able, 1e-300), weights=self.problem.load))

    @property
    def cost_usd(self) -> float:
        """Dollars of all hours that the service runs."""
        return self.usd_per_month * self.served.job.for_hours / MONTH_HOURS

    @property
    def used(self) -> list[int]:
        """Places of the kinds of the fleet, those with most dollars first."""
        if self.solved.fleets is None:
            return []
        usd = np.sum(self.solved.fleets, axis=0) * self.problem.usd
        return [one for one in np.argsort(-usd, kind="stable").tolist() if np.any(self.solved.fleets[:, one] > 0)]

    @property
    def machines(self) -> tuple[str, ...]:
        """The kinds in words, those with most dollars first."""
        return tuple(self._machines(one) for one in self.used)

    @property
    def binds(self) -> tuple[str, ...]:
        """What holds the capacity of the kinds, the one with most dollars first."""
        return tuple(dict.fromkeys(self.served.binding(self.served.kinds[one]) for one in self.used))

    @property
    def replicas(self) -> tuple[int, int]:
        """Least and most replicas of an hour."""
        if self.solved.fleets is None:
            return 0, 0
        found = self.solved.fleets @ self.problem.replicas
        return int(np.min(found)), int(np.max(found))

    def _machines(self, place: int) -> str:
        kind = self.served.kinds[place]
        offer, count = self.market.offers[kind.offer], self.fleets[:, place]
        machine = f"x {offer.card}" if offer.gpus == 1 else f"of {offer.gpus} x {offer.card}"
        return f"{span(float(np.min(count)), float(np.max(count)))} {machine} at {offer.provider}, {kind.market}"


def service_of(scenario: Scenario, command: str) -> ServeJob:
    """Return the only job of a scenario, a service; ScenarioError where other jobs run next to it."""
    job = next(one for one in scenario.jobs if isinstance(one, ServeJob))
    if len(scenario.jobs) > 1:
        what = f"{command} takes a service alone, and there are {len(scenario.jobs)} jobs"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", what, "give the service a scenario of its own")])
    return job


def with_latency(job: ServeJob, **limits: float | None) -> ServeJob:
    """Return the job with other limits on latency, such as `tpot_seconds`, or another share."""
    return job.model_copy(update={"latency": job.latency.model_copy(update=limits)})


def try_service(
    scenario: Scenario,
    library: Library,
    options: SolveOptions,
    job: ServeJob | None = None,
    market: Market | None = None,
    among: ServiceTrial | None = None,
) -> ServiceTrial:
    """Return the cheapest fleet of a scenario's service, or of another `job` in its place.

    `among` has the market, and what other services leave of shared limits in each hour.
    """
    job = job or service_of(scenario, "this")
    market = among.market if among else market or build_market(scenario, library)
    served = served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library)
    problem = fleet_problem(served, market, scenario)
    if among and among.problem.room is not None:
        problem = replace(problem, room=among.problem.room, rooms=among.problem.rooms)
    return ServiceTrial(served, market, problem, optimise_fleet(problem, options))
