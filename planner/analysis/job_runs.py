"""The job runs of a plan that a simulation replays: run, market, zone, policy and fixed costs, and policy files."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from planner import open_choices, timetable
from planner.analysis.market_paths import choose_tick_hours
from planner.arrays import Floats
from planner.candidates.job_candidates import JobCandidates, OfferColumns
from planner.candidates.run_hours import policy_late_hours
from planner.candidates.screening import CandidateObjective
from planner.candidates.spot_candidates import SearchTarget, SpotCandidates, SpotChoice
from planner.errors import Fault, ScenarioError
from planner.estimates.billing import round_up_hours
from planner.evaluation.evaluated_physics import techniques_of
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.results.plan import Assignment, Plan, require_plan
from planner.results.plan_parts import SpotPlan
from planner.scenario.limits import latest_finish_hours
from planner.scenario.offer import Offer
from planner.solving.optimise_choice import may_take_turns
from planner.solving.prepare import PreparedScenario, prepare
from planner.spot.policy_cache import advice, to_table
from planner.spot.run import SpotRun
from planner.spot.states import Ages, SpotStates, expected_rest
from planner.spot.switching_policy import SwitchingPolicy, best_policy
from planner.units import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Which zone of a group a run takes: the one with the longest expected rest of its up-time per dollar.


@dataclass(frozen=True)
class ZoneStay:
    """One zone: its price, and how long machines stay in it by the age of its up-time."""

    zone: str
    usd_per_hour: float  # of an instance
    ages_hours: tuple[float, ...]
    ends_per_hour: tuple[float, ...]

    def rest_per_usd(self, up_hours: float) -> float:
        """Return the expected hours of a day that the zone stays up after `up_hours`, over the dollars of an hour."""
        rest = float(expected_rest(Ages(self.ages_hours, self.ends_per_hour), np.array([up_hours]))[0])
        return rest / max(self.usd_per_hour, 1e-9)


def zones_to_rent(offer: Offer, states: SpotStates) -> tuple[ZoneStay, ...]:
    """Return the zones of an offer: at their own prices and alike in stays, or with the stays that were fitted."""
    if offer.spot is not None and offer.spot.zones:
        price = offer.spot_usd_per_hour or 0.0
        return tuple(ZoneStay(zone.zone, price, zone.ages_hours, zone.ends_per_hour) for zone in offer.spot.zones)
    return tuple(ZoneStay(name, usd, states.up.begins, states.up.rates) for name, usd in offer.zones)


def zone_rows(zones: Sequence[ZoneStay]) -> list[dict[str, Any]]:
    """Return zones as data that JSON can hold."""
    return [asdict(zone) for zone in zones]


def best_zone(rows: Sequence[Mapping[str, Any]], up_minutes: Mapping[str, float | None]) -> tuple[str, float] | None:
    """Return the zone to take and the minutes for which it has been up; None where none is up.

    `rows`: the zones of a policy table. `up_minutes`: of each zone that was asked, None where it has no machines.
    ValueError for a zone that the table does not have.

    Two zones at one price and with rates that fall with age: the one that has been up for longer.
    """
    known = {str(row["zone"]): row for row in rows}
    if unknown := [name for name in up_minutes if name not in known]:
        raise ValueError(f"{unknown[0]} is not a zone of this policy: {', '.join(known) or 'it has none'}")
    worth = {}
    for name, minutes in up_minutes.items():
        if minutes is not None:
            row = known[name]
            stay = ZoneStay(name, row["usd_per_hour"], tuple(row["ages_hours"]), tuple(row["ends_per_hour"]))
            worth[name] = stay.rest_per_usd(minutes * MINUTE / HOUR)
    if not worth:
        return None
    best = max(worth, key=lambda name: worth[name])
    return best, float(up_minutes[best] or 0.0)


class RunKind(StrEnum):
    """How a job uses its market."""

    POLICY = "policy"
    MIX = "mix"
    SPOT = "spot only"
    ON_DEMAND = "on demand"
    SERVICE = "service"


@dataclass(frozen=True)
class JobRun:
    """One job as it is replayed; wall-clock hours at the expected speed, dollars of all node groups.

    The run is what takes place on the market: from the first order of training machines to the end of its work.
    """

    job: Assignment
    kind: RunKind
    run: SpotRun  # prices of all machines by their mean use; standing costs are storage alone
    target_hours: float  # within which the run is guaranteed to end
    latest_hours: float  # of the whole job: the deadline, or the longest plausible run
    fixed_usd: float  # whatever the hours
    sigma: float  # spread of ln(time), for deadlines
    states: SpotStates | None = None  # of the machines of one run together; None where it does not use spot
    choice: SpotChoice | None = None
    switch_hours: float = 0.0  # of a mix: when it moves to on demand; inf: never
    rented_outside_run_hours: float = 0.0  # of the training machines, before and after the run
    once_on_spot: float = 0.0  # share of these hours that is on spot
    separate_hours: float = 0.0  # on other machines
    separate_usd: float = 0.0
    on_demand_machines_usd: float = 0.0  # an hour of all machines
    spot_usd: float = 0.0
    storage_usd: float = 0.0  # an hour
    mean_use: float = 1.0  # machine hours over wall hours times machines: below 1 where node groups wait for others
    step_hours: float = 0.0  # of billing, 0: to the second
    minimum_hours: float = 0.0
    paid_hours: float = math.inf  # in the terms of a commitment; the hours after them are on demand
    after_usd: float = 0.0  # an hour of all machines after the last term
    after_billing: tuple[float, float] = (1.0, 0.0)  # step and minimum of these hours
    waiting_usd: float = 0.0  # value of an hour of waiting to the user; on no bill
    priced_waiting_usd: float = 0.0  # price of waiting for machines that the policy weighs; on no bill, in no optimum
    instances: int = 0  # of one node group
    zones: tuple[ZoneStay, ...] = ()  # of a group of zones, which the run moves among

    def policy(self, tick_hours: float) -> SwitchingPolicy:
        """Return the policy that the plan follows, which is asked every `tick_hours`."""
        if self.states is None:
            raise ValueError(f"{self.job.name} follows no policy")
        standing = self.run.standing_usd_per_hour + self.priced_waiting_usd
        run = replace(self.run, standing_usd_per_hour=standing)
        return best_policy(run, self.states, self.target_hours, tick_hours=tick_hours)

    @property
    def outside_run_hours(self) -> float:
        """Hours of the job before and after the run."""
        return self.rented_outside_run_hours + self.separate_hours

    def usd(self, slowness: Floats, demand_hours: Floats, spot_hours: Floats, hours: Floats) -> Floats:
        """Return the bill of runs of `hours` with these paid hours on each market; arrays of shape (runs,).

        Costs outside the run grow with `slowness`, the factor on all hours by which the estimate errs.
        """
        once = slowness * self.rented_outside_run_hours
        demand = self.mean_use * demand_hours + once * (1.0 - self.once_on_spot)
        spot = self.mean_use * spot_hours + once * self.once_on_spot
        if self.step_hours > 0:
            demand, spot = (round_up_hours(paid, self.step_hours, self.minimum_hours) for paid in (demand, spot))
        machines = demand * self.on_demand_machines_usd + spot * self.spot_usd
        if self.paid_hours < math.inf:
            after = np.maximum(0.0, self.mean_use * demand_hours + once - self.paid_hours)
            machines = machines + self.after_usd * round_up_hours(after, *self.after_billing)
        outside = slowness * self.separate_usd + self.storage_usd * (once + hours)
        return np.asarray(self.fixed_usd + machines + outside)


def build_job_runs(prepared: PreparedScenario, plan: Plan) -> tuple[JobRun, ...]:
    """Return the runs of a plan's jobs, in its order; ScenarioError where the plan is of another scenario."""
    names = [job.name for job in prepared.scenario.jobs]
    return tuple(_build_job_run(prepared, names.index(job.name), job) for job in plan.jobs)


def _build_job_run(prepared: PreparedScenario, index: int, assignment: Assignment) -> JobRun:
    candidates = prepared.candidates[index]
    row = find_row(candidates, assignment)
    choice = _choice(prepared, index, row, assignment.spot) if row is not None and assignment.spot else None
    if choice is not None and (usd := _patience_usd(prepared, assignment)):
        choice = choice.at_waiting_price(candidates.policies, usd)
    if row is None or (assignment.spot is not None and choice is None):
        problem = f"no candidate of this job matches the plan: {assignment.gpus} x {assignment.gpu}, {assignment.offer}"
        fix = "the plan belongs to another scenario, or prices have changed: solve again"
        raise ScenarioError([Fault(prepared.scenario.name, 0, f"jobs.{assignment.name}", problem, fix)])
    latest = latest_finish_hours(candidates.job, prepared.scenario.limits) - assignment.start_at_hours
    if not candidates.is_managed_service[row]:
        return _machine_run(prepared, index, assignment, row, choice, latest)
    return JobRun(  # of a managed service dollars are fixed, hours vary
        job=assignment,
        kind=RunKind.SERVICE,
        run=SpotRun(assignment.hours.expected, 0.0, 0.0, math.inf, 0.0, 0.0),
        target_hours=assignment.hours.expected,
        latest_hours=latest,
        fixed_usd=assignment.cost_usd,
        sigma=assignment.sigma_in_tails,
    )


def find_row(candidates: JobCandidates, assignment: Assignment) -> int | None:
    """Return the row of the unscreened table that an assignment comes from; None where there is none."""
    table = candidates.table
    if assignment.offer not in table.offers:
        return None
    matches = table.offer == table.offers.index(assignment.offer)
    matches &= table.instances == (assignment.instances or 1) * assignment.runs_at_once
    separate = tuple((machine.stage, machine.offer) for machine in assignment.separate_machines)
    for row in np.flatnonzero(matches).tolist():
        recipe, placement = candidates.recipes[int(table.recipe[row])], candidates.placement_of(row)
        if recipe.method == assignment.techniques.method and (
            techniques_of(recipe, candidates.job, *candidates.batch(row)) == assignment.techniques
            and tuple((separate_stage.stage, separate_stage.label) for separate_stage in placement.separate_stages)
            == separate
        ):
            return int(row)
    return None


def _choice(prepared: PreparedScenario, index: int, row: int, advice: SpotPlan) -> SpotChoice | None:
    """Return the point of the cost curve that a plan was made for; a timetable may have guaranteed less time."""
    tables = [prepared.screened[index]]
    if may_take_turns(prepared):
        hours = prepared.candidates[index].hours.rows(np.asarray([row]))
        late = float(policy_late_hours(hours, np.asarray([advice.guaranteed_hours]))[0])
        had = round(60 * (late + prepared.scenario.jobs[index].start_slack_hours))
        tables += timetable.screens_of_job(prepared, index, (had,))
    choices = (table.spot.get(mine) for table in tables for mine in np.flatnonzero(table.rows == row).tolist())
    return next(
        (choice for choice in choices if choice and abs(choice.point.hours - advice.guaranteed_hours) < 1e-6), None
    )


def _patience_usd(prepared: PreparedScenario, assignment: Assignment) -> float:
    """Return the price of waiting that the policy of a plan weighs beyond that of the limits."""
    given = prepared.scenario.limits.waiting_usd_per_hour
    return assignment.spot.waiting_usd_per_hour if assignment.spot is not None and given is None else 0.0


def _machine_run(
    prepared: PreparedScenario, index: int, assignment: Assignment, row: int, choice: SpotChoice | None, latest: float
) -> JobRun:
    candidates, market = prepared.candidates[index], prepared.market
    table, h, columns, which = candidates.table, candidates.hours, candidates.columns, np.asarray([row])
    place, share, switch = int(table.offer[row]), assignment.spot_share, assignment.switch_to_on_demand_at_hours
    prepare = assignment.stage_hours.get("prepare data", 0.0)
    waiting = CandidateObjective.of(prepared.scenario).waiting_usd or 0.0
    target = SearchTarget(latest, 0.0, 1.0, waiting, prepared.scenario.limits.waiting_usd_per_hour or 0.0)
    rows = SpotCandidates(candidates, table.rows(which), which, target, market, prepared.library)
    sold = not math.isnan(columns.on_demand_usd[place])
    kind = RunKind.POLICY if choice else RunKind.ON_DEMAND if share <= 0 else RunKind.MIX if sold else RunKind.SPOT
    machines = float(table.instances[row])
    prices = [columns.on_demand_usd[place], columns.spot_usd[place]]
    demand_usd, spot_usd = (np.nan_to_num(prices) * machines).tolist()
    use = float(h.group_run[row]) / (float(h.run[row]) * h.node_groups)
    storage = float(rows.storage[0])
    states, start = None, 0.0
    run = SpotRun(float(h.run[row]), 0.0, 0.0, math.inf, 0.0, 0.0)
    if kind != RunKind.ON_DEMAND:  # the first start is one of those that the market asks for
        run, states = (choice.run, choice.states) if choice else rows.run_of(0)
        start = float(h.start[row])
    coarse = bool(np.any(prepared.screened[index].rounded[prepared.screened[index].rows == row]))
    billing = market.offers[place].billing
    return JobRun(
        job=assignment,
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
        switch_hours=switch - prepare if kind == RunKind.MIX and switch is not None else math.inf,
        latest_hours=latest,
        rented_outside_run_hours=float(h.once[row]) - start,
        once_on_spot=0.0 if choice else share,
        separate_hours=float(h.separate[row]),
        separate_usd=candidates.placement_of(row).total("usd"),
        # A timetable pays the commitment apart from its jobs.
        fixed_usd=float(table.fixed_usd[row] - (table.term_usd[row, 0] if assignment.reservation is not None else 0.0))
        + len(assignment.pauses) * candidates.resume_hours(row) * demand_usd,
        on_demand_machines_usd=demand_usd,
        spot_usd=spot_usd,
        storage_usd=storage,
        mean_use=use,
        step_hours=billing.step_seconds / HOUR if coarse else 0.0,
        minimum_hours=billing.minimum_hours,
        **_after_term(assignment, columns, place),
        waiting_usd=waiting,
        priced_waiting_usd=assignment.spot.waiting_usd_per_hour if assignment.spot else 0.0,
        sigma=assignment.sigma_in_tails,
        instances=int(rows.nodes[0]),
        zones=zones_to_rent(market.offers[place], states) if states is not None else (),
    )


def _after_term(assignment: Assignment, columns: OfferColumns, place: int) -> dict[str, Any]:
    """Return what the hours after the last term of a commitment cost; nothing where there are none."""
    term, usd = assignment.commitment, float(columns.after_usd[place])
    if term is None or math.isnan(usd):
        return {}
    return {
        "paid_hours": term.terms * float(columns.term_hours[place]),
        "after_usd": usd * max(1, assignment.instances),
        "after_billing": (float(columns.after_step_hours[place]), float(columns.after_minimum_hours[place])),
    }


# The policy of a plan as a file, and what it advises at one moment, without solving anything again.


class SeveralZones(TypedDict, total=False):
    """What is known of the zones of a group: for how many minutes each has been up, None where it has no machines."""

    zones: Mapping[str, float | None]


def policy_tables(scenario: Asked, plan: Plan, library: Library | None = None) -> dict[str, dict[str, Any]]:
    """Return the switching policy of each job of a plan that follows one, by job, as data that JSON can hold.

    `planner simulate --policy FILE` writes it as `{"scenario": ..., "jobs": {name: table}}`.
    Raises ScenarioError where no job of the plan follows a policy, or the plan is of another scenario.

    >>> scenario = planner.read_scenario("spot-heavy")
    >>> list(planner.policy_tables(scenario, planner.solve(scenario))) == [job.name for job in scenario.jobs]
    True
    """
    require_plan(plan)
    scenario = open_choices.scenario_as_chosen(plan, as_scenario(scenario))
    tables = {}
    for job_run in build_job_runs(prepare(scenario, library), plan):
        if job_run.kind == RunKind.POLICY and job_run.states is not None:
            tick = choose_tick_hours(job_run.run, job_run.states, job_run.target_hours)
            table = to_table(job_run.policy(tick))
            tables[job_run.job.name] = table | ({"zones": zone_rows(job_run.zones)} if job_run.zones else {})
    if not tables:
        problem = "no job of this plan follows a policy on spot"
        fix = "leave --policy out; limits.spot_share.min asks for spot"
        raise ScenarioError([Fault(scenario.name, 0, "", problem, fix)])
    return tables


def spot_advice(
    table: Mapping[str, Any],
    hour: float,
    done: float,
    market_up: bool = False,
    minutes: float = 0.0,
    running: str = "nothing",
    slowness: float = 1.0,
    **several: Unpack[SeveralZones],
) -> str:
    """Return what a policy advises now: "wait", "spot" or "on_demand"; with `zones` the zone too: "spot in east-b".

    `table`: of one job, from `policy_tables` or its file. `hour`: since the first machines were ordered.
    `done`: share of the work, 0 to 1, unsaved work counted as done. `minutes`: since the market went up or down.
    `running`: "nothing", "spot" or "on_demand". `slowness`: hours that the work takes at the observed speed, over
    those expected; a slower run has proportionally more of them.
    `zones`, for a policy of several zones, in place of `market_up`: for how many minutes each has been up, None where
    it has no machines; `minutes` is then since the last of them went down, and machines run "spot in east-b".
    Ask every few minutes, and whenever machines are taken or come back. ValueError for what cannot be.

    At hour 20 with 60 % done and the market down for 10 minutes: `spot_advice(table, 20, 0.6, False, 10)`.

    >>> scenario = planner.read_scenario("spot-heavy")
    >>> (table,) = planner.policy_tables(scenario, planner.solve(scenario)).values()
    >>> planner.spot_advice(table, hour=10, done=0.3, market_up=True)
    'spot'
    """
    if missing := [key for key in ("guaranteed_hours", "work_hours") if key not in table]:
        raise ValueError(f"the table of a policy, as planner.policy_tables returns it, has {' and '.join(missing)}")
    zones, zone = several.get("zones"), ""
    if zones is not None:
        running, _, zone = running.partition(" in ")
        market_up, minutes, zone = _in_zones(table, minutes, running, zones, zone)
    if not 0 <= done <= 1:
        raise ValueError(f"a share of the work lies between 0 and 1, not at {done:g}")
    if running not in ("nothing", "spot", "on_demand"):
        raise ValueError(f'running is "nothing", "spot" or "on_demand", not {running!r}')
    if running == "spot" and not market_up:
        raise ValueError("spot machines do not run while the market is down")
    if not (hour >= 0 and minutes >= 0 and slowness > 0):
        raise ValueError("hours and minutes gone by are not negative, and slowness is positive")
    hours_left = table["guaranteed_hours"] * slowness - hour
    work_left = (1 - done) * table["work_hours"] * slowness
    action = advice(dict(table), hours_left, work_left, market_up, minutes / 60, running)
    return f"spot in {zone}" if action == "spot" and zones is not None else action


def _in_zones(
    table: Mapping[str, Any], minutes: float, running: str, zones: Mapping[str, float | None], zone: str
) -> tuple[bool, float, str]:
    """Return whether any zone is up, for how many minutes the one that counts has been, and its name."""
    best = best_zone(table.get("zones", ()), zones)
    if running != "spot":
        return (False, minutes, "") if best is None else (True, best[1], best[0])
    here = zones.get(zone)
    if here is None:
        raise ValueError(f'running is "spot", but {zone or "no zone"} is not up: after a loss running is "nothing"')
    return True, here, zone
