"""What of a plan is replayed: for each job its run, its market, its policy's aim, and what stands beside the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from planner.arrays import Floats
from planner.candidates.enumeration import JobCandidates
from planner.candidates.screening import Screened, deadline_hours
from planner.candidates.spot_candidates import Aim, SpotChoice, SpotRows
from planner.decode.assignment_parts import techniques_of
from planner.errors import Fault, ScenarioError
from planner.estimates.billing import rounded_hours
from planner.results.plan import Assignment, Plan
from planner.solving.prepare import Prepared
from planner.solving.scoring import Measure
from planner.spot.market.states import SpotStates
from planner.spot.policy.run import SpotRun
from planner.units import HOUR

POLICY, MIX, SPOT_ONLY, DEMAND, SERVICE = "policy", "mix", "spot only", "on demand", "service"


@dataclass(frozen=True)
class Course:
    """One job as it is replayed; hours on the wall clock at the expected speed, dollars of all machines of all gangs.

    The run is what takes place on the market: from the first order of training machines to the end of its work.
    """

    job: Assignment
    kind: str
    run: SpotRun  # prices of all machines by their mean use; standing costs are storage alone
    states: SpotStates | None  # of the machines of one run together; None where spot has no part in it
    choice: SpotChoice | None
    aim_hours: float  # within which the run is guaranteed to end
    switch_hours: float  # of a mix: when it moves to on demand; inf: never
    latest_hours: float  # of the whole job: the deadline, or the longest that anyone meant
    once_hours: float  # of the training machines beside the run
    once_on_spot: float  # share of them
    aside_hours: float  # on other machines
    aside_usd: float
    fixed_usd: float  # whatever the hours
    demand_usd: float  # an hour of all machines
    spot_usd: float
    storage_usd: float  # an hour
    mean_use: float  # machine hours of the run over wall hours times machines: below 1 where gangs wait for others
    step_hours: float  # of billing, 0: to the second
    minimum_hours: float
    worth_usd: float  # what an hour sooner is worth to the user; on no bill
    sigma: float  # spread of ln(time), for deadlines
    instances: int  # of one gang

    @property
    def beside_hours(self) -> float:
        """Everything that is not the run."""
        return self.once_hours + self.aside_hours

    @property
    def follows_market(self) -> bool:
        """Whether spot has a part in it."""
        return self.states is not None

    def usd(self, slowness: Floats, demand_hours: Floats, spot_hours: Floats, hours: Floats) -> Floats:
        """The bill of runs of `hours` that paid so many on each market; arrays of shape (runs,).

        What is beside the run grows with `slowness`, the factor on all hours that the error of the estimate is.
        """
        once = slowness * self.once_hours
        demand = self.mean_use * demand_hours + once * (1.0 - self.once_on_spot)
        spot = self.mean_use * spot_hours + once * self.once_on_spot
        if self.step_hours > 0:
            demand, spot = (rounded_hours(each, self.step_hours, self.minimum_hours) for each in (demand, spot))
        machines = demand * self.demand_usd + spot * self.spot_usd
        beside = slowness * self.aside_usd + self.storage_usd * (once + hours)
        return np.asarray(self.fixed_usd + machines + beside)


def courses_of(prepared: Prepared, plan: Plan) -> tuple[Course, ...]:
    """The courses of a plan's jobs, in its order; ScenarioError where the plan is of another question."""
    names = [job.name for job in prepared.scenario.jobs]
    return tuple(_course(prepared, names.index(one.name), one) for one in plan.jobs)


def _course(prepared: Prepared, index: int, told: Assignment) -> Course:
    candidates, screened = prepared.candidates[index], prepared.screened[index]
    job = candidates.job
    row = row_of(candidates, told)
    if row is None:
        raise _stranger(prepared, told)
    latest = deadline_hours(job, prepared.scenario.limits)
    if int(candidates.way[row]) < 0:
        return _service(told, latest)
    choice = None
    if told.spot is not None and (choice := _choice(screened, row, told)) is None:
        raise _stranger(prepared, told)
    return _on_machines(prepared, index, told, row, choice, latest)


def row_of(candidates: JobCandidates, told: Assignment) -> int | None:
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
        if _techniques(candidates, row) == told.techniques and _asides(candidates, row) == beside:
            return int(row)
    return None


def _techniques(candidates: JobCandidates, row: int) -> object:
    way, ways = int(candidates.way[row]), candidates.physics.ways
    recipe = candidates.recipes[int(candidates.table.recipe[row])]
    batch = (int(ways.micro_batch[way]), int(ways.accumulation[way])) if way >= 0 else (0, 0)
    return techniques_of(recipe, candidates.job, *batch)


def _asides(candidates: JobCandidates, row: int) -> tuple[tuple[str, str], ...]:
    way = int(candidates.way[row])
    if way < 0 or candidates.running.observed[way]:
        return ()
    return tuple((one.stage, one.label) for one in candidates.placements[int(candidates.placement[row])].asides)


def _choice(screened: Screened, row: int, told: Assignment) -> SpotChoice | None:
    """The point of the market curve that a plan was made for."""
    for mine in np.flatnonzero(screened.rows == row).tolist():
        choice = screened.spot.get(mine)
        if choice is not None and told.spot and abs(choice.point.hours - told.spot.guaranteed_hours) < 1e-6:
            return choice
    return None


def _stranger(prepared: Prepared, told: Assignment) -> ScenarioError:
    what = f"no way of this job is the plan's: {told.gpus} x {told.gpu}, {told.offer}"
    fix = "the plan is of another scenario, or prices have changed: solve again"
    return ScenarioError([Fault(prepared.scenario.name, 0, f"jobs.{told.name}", what, fix)])


def _service(told: Assignment, latest: float) -> Course:
    """A managed service: dollars stay, hours spread."""
    return Course(
        job=told,
        kind=SERVICE,
        run=SpotRun(told.hours.expected, 0.0, 0.0, math.inf, 0.0, 0.0),
        states=None,
        choice=None,
        aim_hours=told.hours.expected,
        switch_hours=0.0,
        latest_hours=latest,
        once_hours=0.0,
        once_on_spot=0.0,
        aside_hours=0.0,
        aside_usd=0.0,
        fixed_usd=told.cost_usd,
        demand_usd=0.0,
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
    prepared: Prepared, index: int, told: Assignment, row: int, choice: SpotChoice | None, latest: float
) -> Course:
    candidates, market = prepared.candidates[index], prepared.market
    table, h, columns, which = candidates.table, candidates.hours, candidates.columns, np.asarray([row])
    place, share = int(table.offer[row]), told.spot_share
    waiting = Measure.of(prepared.scenario).waiting_usd or 0.0
    aim = Aim(latest, 0.0, 1.0, waiting)
    rows = SpotRows(candidates, table.rows(which), which, aim, market, prepared.library)
    sold = not math.isnan(columns.on_demand_usd[place])
    kind = POLICY if choice else DEMAND if share <= 0 else MIX if sold else SPOT_ONLY
    machines = float(table.instances[row])
    demand_usd, spot_usd = (
        float(np.nan_to_num(column[place])) * machines for column in (columns.on_demand_usd, columns.spot_usd)
    )
    use = float(h.gang_run[row]) / (float(h.run[row]) * h.gangs)
    storage = float(rows.storage[0]) * h.gangs
    states, start = None, 0.0
    run = SpotRun(float(h.run[row]), 0.0, 0.0, math.inf, 0.0, 0.0)
    if kind != DEMAND:  # the first start is one of those that the market asks for
        run, states = (choice.run, choice.states) if choice else rows.run_of(0)
        start = float(h.start[row])
    coarse = bool(np.any(prepared.screened[index].rounded[prepared.screened[index].rows == row]))
    billing = market.offers[place].billing
    ran = not candidates.running.observed[int(candidates.way[row])]
    return Course(
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
        aim_hours=choice.point.hours if choice else float(rows.guarantee[0]) if sold else math.inf,
        switch_hours=float(h.start[row] + share * h.spot_wall[row]) if kind == MIX and share < 1 else math.inf,
        latest_hours=latest,
        once_hours=float(h.once[row]) - start,
        once_on_spot=0.0 if choice else share,
        aside_hours=float(h.aside[row]),
        aside_usd=candidates.placements[int(candidates.placement[row])].usd if ran else 0.0,
        fixed_usd=float(table.fixed_usd[row]),
        demand_usd=demand_usd,
        spot_usd=spot_usd,
        storage_usd=storage,
        mean_use=use,
        step_hours=billing.step_seconds / HOUR if coarse else 0.0,
        minimum_hours=billing.minimum_hours,
        worth_usd=waiting,
        sigma=told.sigma_tail,
        instances=int(rows.nodes[0]),
    )
