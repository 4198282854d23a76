"""What of a plan is replayed: for each job its run, its market, its policy's aim, and what stands beside the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import ScreenedCandidates
from planner.candidates.spot_candidates import SearchTarget, SpotCandidates, SpotChoice
from planner.decode.assignment_parts import techniques_of
from planner.errors import Fault, ScenarioError
from planner.estimates.billing import round_up_hours
from planner.scenario.limits import latest_finish_hours
from planner.solving.scoring import CandidateObjective
from planner.spot.policy.run import SpotRun
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.candidates.enumeration import JobCandidates
    from planner.results.plan import Assignment, Plan
    from planner.solving.prepare import PreparedScenario
    from planner.spot.market.states import SpotStates

POLICY, MIX, SPOT_ONLY, ON_DEMAND_ONLY, SERVICE = "policy", "mix", "spot only", "on demand", "service"


@dataclass(frozen=True)
class JobRun:
    """One job as it is replayed; hours on the wall clock at the expected speed, dollars of all machines of all gangs.

    The run is what takes place on the market: from the first order of training machines to the end of its work.
    """

    job: Assignment
    kind: str
    run: SpotRun  # prices of all machines by their mean use; standing costs are storage alone
    states: SpotStates | None  # of the machines of one run together; None where spot has no part in it
    choice: SpotChoice | None
    target_hours: float  # within which the run is guaranteed to end
    switch_hours: float  # of a mix: when it moves to on demand; inf: never
    latest_hours: float  # of the whole job: the deadline, or the longest that anyone meant
    rented_outside_run_hours: float  # of the training machines beside the run
    once_on_spot: float  # share of them
    separate_hours: float  # on other machines
    separate_usd: float
    fixed_usd: float  # whatever the hours
    on_demand_machines_usd: float  # an hour of all machines
    spot_usd: float
    storage_usd: float  # an hour
    mean_use: float  # machine hours of the run over wall hours times machines: below 1 where gangs wait for others
    step_hours: float  # of billing, 0: to the second
    minimum_hours: float
    worth_usd: float  # what an hour sooner is worth to the user; on no bill
    sigma: float  # spread of ln(time), for deadlines
    instances: int  # of one gang

    @property
    def outside_run_hours(self) -> float:
        """Everything that is not the run."""
        return self.rented_outside_run_hours + self.separate_hours

    @property
    def follows_market(self) -> bool:
        """Whether spot has a part in it."""
        return self.states is not None

    def usd(self, slowness: Floats, demand_hours: Floats, spot_hours: Floats, hours: Floats) -> Floats:
        """The bill of runs of `hours` that paid so many on each market; arrays of shape (runs,).

        What is beside the run grows with `slowness`, the factor on all hours that the error of the estimate is.
        """
        once = slowness * self.rented_outside_run_hours
        demand = self.mean_use * demand_hours + once * (1.0 - self.once_on_spot)
        spot = self.mean_use * spot_hours + once * self.once_on_spot
        if self.step_hours > 0:
            demand, spot = (round_up_hours(each, self.step_hours, self.minimum_hours) for each in (demand, spot))
        machines = demand * self.on_demand_machines_usd + spot * self.spot_usd
        beside = slowness * self.separate_usd + self.storage_usd * (once + hours)
        return np.asarray(self.fixed_usd + machines + beside)


def build_job_runs(prepared: PreparedScenario, plan: Plan) -> tuple[JobRun, ...]:
    """The courses of a plan's jobs, in its order; ScenarioError where the plan is of another question."""
    names = [job.name for job in prepared.scenario.jobs]
    return tuple(_course(prepared, names.index(one.name), one) for one in plan.jobs)


def _course(prepared: PreparedScenario, index: int, told: Assignment) -> JobRun:
    candidates, screened = prepared.candidates[index], prepared.screened[index]
    job = candidates.job
    row = find_row(candidates, told)
    if row is None:
        raise _mismatch_error(prepared, told)
    latest = latest_finish_hours(job, prepared.scenario.limits)
    if int(candidates.configuration[row]) < 0:
        return _service(told, latest)
    choice = None
    if told.spot is not None and (choice := _choice(screened, row, told)) is None:
        raise _mismatch_error(prepared, told)
    return _on_machines(prepared, index, told, row, choice, latest)


def find_row(candidates: JobCandidates, told: Assignment) -> int | None:
    """The row of the uncut table that an assignment was made from; None where there is none."""
    table = candidates.table
    if told.offer not in table.offers:
        return None
    there = table.offer == table.offers.index(told.offer)
    there &= table.instances == (told.instances or 1) * told.runs_at_once
    beside = tuple((one.stage, one.offer) for one in told.beside)
    for row in np.flatnonzero(there).tolist():
        if candidates.recipes[int(table.recipe[row])].method != told.techniques.method:
            continue
        if _techniques(candidates, row) == told.techniques and _separate_stages(candidates, row) == beside:
            return int(row)
    return None


def _techniques(candidates: JobCandidates, row: int) -> object:
    way, ways = int(candidates.configuration[row]), candidates.physics.ways
    recipe = candidates.recipes[int(candidates.table.recipe[row])]
    batch = (int(ways.micro_batch[way]), int(ways.accumulation[way])) if way >= 0 else (0, 0)
    return techniques_of(recipe, candidates.job, *batch)


def _separate_stages(candidates: JobCandidates, row: int) -> tuple[tuple[str, str], ...]:
    way = int(candidates.configuration[row])
    if way < 0 or candidates.run_hours.observed[way]:
        return ()
    return tuple(
        (one.stage, one.label) for one in candidates.placements[int(candidates.placement[row])].separate_stages
    )


def _choice(screened: ScreenedCandidates, row: int, told: Assignment) -> SpotChoice | None:
    """The point of the market curve that a plan was made for."""
    for mine in np.flatnonzero(screened.rows == row).tolist():
        choice = screened.spot.get(mine)
        if choice is not None and told.spot and abs(choice.point.hours - told.spot.guaranteed_hours) < 1e-6:
            return choice
    return None


def _mismatch_error(prepared: PreparedScenario, told: Assignment) -> ScenarioError:
    what = f"no way of this job is the plan's: {told.gpus} x {told.gpu}, {told.offer}"
    fix = "the plan is of another scenario, or prices have changed: solve again"
    return ScenarioError([Fault(prepared.scenario.name, 0, f"jobs.{told.name}", what, fix)])


def _service(told: Assignment, latest: float) -> JobRun:
    """A managed service: dollars stay, hours spread."""
    return JobRun(
        job=told,
        kind=SERVICE,
        run=SpotRun(told.hours.expected, 0.0, 0.0, math.inf, 0.0, 0.0),
        states=None,
        choice=None,
        target_hours=told.hours.expected,
        switch_hours=0.0,
        latest_hours=latest,
        rented_outside_run_hours=0.0,
        once_on_spot=0.0,
        separate_hours=0.0,
        separate_usd=0.0,
        fixed_usd=told.cost_usd,
        on_demand_machines_usd=0.0,
        spot_usd=0.0,
        storage_usd=0.0,
        mean_use=1.0,
        step_hours=0.0,
        minimum_hours=0.0,
        worth_usd=0.0,
        sigma=told.sigma_tail,
        instances=0,
    )


def _on_machines(
    prepared: PreparedScenario, index: int, told: Assignment, row: int, choice: SpotChoice | None, latest: float
) -> JobRun:
    candidates, market = prepared.candidates[index], prepared.market
    table, h, columns, which = candidates.table, candidates.hours, candidates.columns, np.asarray([row])
    place, share = int(table.offer[row]), told.spot_share
    waiting = CandidateObjective.of(prepared.scenario).waiting_usd or 0.0
    aim = SearchTarget(latest, 0.0, 1.0, waiting)
    rows = SpotCandidates(candidates, table.rows(which), which, aim, market, prepared.library)
    sold = not math.isnan(columns.on_demand_usd[place])
    kind = POLICY if choice else ON_DEMAND_ONLY if share <= 0 else MIX if sold else SPOT_ONLY
    machines = float(table.instances[row])
    demand_usd, spot_usd = (
        float(np.nan_to_num(column[place])) * machines for column in (columns.on_demand_usd, columns.spot_usd)
    )
    use = float(h.group_run[row]) / (float(h.run[row]) * h.node_groups)
    storage = float(rows.storage[0]) * h.node_groups
    states, start = None, 0.0
    run = SpotRun(float(h.run[row]), 0.0, 0.0, math.inf, 0.0, 0.0)
    if kind != ON_DEMAND_ONLY:  # the first start is one of those that the market asks for
        run, states = (choice.run, choice.states) if choice else rows.run_of(0)
        start = float(h.start[row])
    coarse = bool(np.any(prepared.screened[index].rounded[prepared.screened[index].rows == row]))
    billing = market.offers[place].billing
    ran = not candidates.run_hours.observed[int(candidates.configuration[row])]
    return JobRun(
        job=told,
        kind=kind,
        run=replace(
            run,
            spot_usd_per_hour=spot_usd * use,
            on_demand_usd_per_hour=demand_usd * use if sold else math.inf,
            standing_usd_per_hour=storage + waiting,
        ),
        states=states,
        choice=choice,
        target_hours=choice.point.hours if choice else float(rows.guarantee[0]) if sold else math.inf,
        switch_hours=float(h.start[row] + share * h.spot_wall[row]) if kind == MIX and share < 1 else math.inf,
        latest_hours=latest,
        rented_outside_run_hours=float(h.once[row]) - start,
        once_on_spot=0.0 if choice else share,
        separate_hours=float(h.aside[row]),
        separate_usd=candidates.placements[int(candidates.placement[row])].usd if ran else 0.0,
        fixed_usd=float(table.fixed_usd[row]),
        on_demand_machines_usd=demand_usd,
        spot_usd=spot_usd,
        storage_usd=storage,
        mean_use=use,
        step_hours=billing.step_seconds / HOUR if coarse else 0.0,
        minimum_hours=billing.minimum_hours,
        worth_usd=waiting,
        sigma=told.sigma_tail,
        instances=int(rows.nodes[0]),
    )
