"""Jobs that take turns: the timetable that `solve` makes of them, for one common deadline after another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.analysis.frontier.joint_frontier import CommonDeadlines, SolverLimitError, proven_gap
from planner.analysis.frontier.lower_envelope import Breakpoint, EnvelopePiece, evaluate_envelope
from planner.library.schema import Library
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions, SolveSettings
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared

if TYPE_CHECKING:
    from collections.abc import Sequence


FEW_JOBS, FEWER_DEADLINES = 4, 9
"""Of more jobs fewer deadlines are solved, at most: each may take up to `POINT_SECONDS`. On spot each takes seconds."""
POINT_SECONDS = 10.0
SLOPE_HOURS = 1.5 / 60
"""On spot every minute more saves some dollars: guarantees are whole minutes."""
SAME_DEADLINE = 1e-9
"""Relative: a deadline at the hours of a plan is met by the plan."""


class TurnProgram(CommonDeadlines):
    """The plans of `solve` for common deadlines, side by side or in turn, of least dollars paid.

    Neither penalties, lateness, waiting nor the value of time are dollars paid. Where there are reservations, a plan
    costs at least the sum of `envelopes`, in which each job pays for its own, or one reservation (`reserved_usd`) and
    the sum of `unreserved`, in which they cost nothing.
    """

    def __init__(
        self,
        scenario: Scenario,
        library: Library,
        envelopes: Sequence[Sequence[EnvelopePiece]],
        options: SolveOptions,
        reserved_usd: float = math.inf,
        unreserved: Sequence[Sequence[EnvelopePiece]] = (),
    ) -> None:
        super().__init__(envelopes)
        self.reserved_usd, self.unreserved = reserved_usd, unreserved
        self.scenario, self.library = _in_dollars(scenario), library
        self.options = options.model_copy(update={"time_limit_seconds": options.time_limit_seconds or POINT_SECONDS})
        self.on_spot = any(offer.spot_usd_per_hour is not None for offer in scenario.offers)
        self.slope_hours = SLOPE_HOURS if self.on_spot else 0.0
        self._prepared: PreparedScenario | None = None

    def most_deadlines(self, points: int) -> int:
        """Return how many deadlines are solved where `points` are asked for."""
        return points if len(self.scenario.jobs) <= FEW_JOBS and not self.on_spot else min(points, FEWER_DEADLINES)

    def fastest_hours(self) -> float | None:
        """Return the least hours in which all jobs can end; None where no plan keeps the limits."""
        plan = self._solve(self.scenario.model_copy(update={"objective": "time"}))
        if plan is None or plan.hours is None:
            return None
        hours = plan.hours.at_confidence
        return hours * (1 + SAME_DEADLINE)

    def latest_hours(self) -> float:
        """Return hours after which later deadlines change nothing: no common deadline at all."""
        return math.inf

    def separate_usd(self, hours: float) -> float:
        """Return the dollars of the jobs within `hours` if each had all limits to itself and some reservation."""
        shared = self.reserved_usd + sum(evaluate_envelope(envelope, hours) for envelope in self.unreserved)
        return min(super().separate_usd(hours), shared)

    def solve_at(self, hours: float) -> Breakpoint | None:
        """Return the cheapest plan whose jobs all end within `hours`; None without one. Raises SolverLimitError.

        It bounds the plans for all earlier deadlines, too.
        """
        jobs = []
        for job in self.scenario.jobs:
            # What the job keeps for finding a machine is no part of its hours.
            deadlines = [job.deadline_hours, None if hours == math.inf else hours + job.start_slack_hours]
            known = [deadline for deadline in deadlines if deadline is not None]
            jobs.append(job.model_copy(update={"deadline_hours": min(known, default=None)}))
            if hours <= job.release_hours:
                return None
        plan = self._solve(self.scenario.model_copy(update={"jobs": tuple(jobs)}))
        if plan is None or plan.cost is None or plan.hours is None:
            return None
        usd, separate = plan.cost.expected, self.separate_usd(hours)
        bound = separate if plan.bound is None else max(plan.bound, separate)
        self.bounds.append((hours, bound))
        bound, gap = proven_gap(usd, bound)
        return Breakpoint(plan.hours.at_confidence, usd, (), bound, gap, separate_usd=min(separate, usd), plan=plan)

    def describe(self, deadlines: int) -> str:
        """Return the note of a frontier that was solved for a number of deadlines."""
        counted = f"{deadlines} deadline{'' if deadlines == 1 else 's'}"
        return f"hours until the last job ends, waiting for machines included; solved for {counted}"

    def _solve(self, scenario: Scenario) -> Plan | None:
        """Return the plan of a scenario that differs from the others in objective and deadlines; None without one."""
        self._prepared = prepare(scenario, self.library, self._prepared)
        plan = solve_prepared(self._prepared, self.options, explains=False)
        if plan.status == "no_plan":
            raise SolverLimitError
        return plan if plan.status != "infeasible" and plan.keeps_typical_stock else None


def _in_dollars(scenario: Scenario) -> Scenario:
    """Return the scenario with the least dollars paid as objective, as the frontier and its audit count them."""
    jobs = []
    for job in scenario.jobs:
        techniques = job.techniques.model_copy(update={"penalty_usd": {}})
        jobs.append(job.model_copy(update={"due_hours": None, "late_usd_per_hour": 0.0, "techniques": techniques}))
    limits = scenario.limits.model_copy(update={"waiting_usd_per_hour": None})
    strict = {"objective": "cost", "jobs": tuple(jobs), "limits": limits, "solve": SolveSettings(ties=0.0)}
    return scenario.model_copy(update=strict)
