"""Every candidate of a job: configurations joined with offers and priced, and frameworks to compare a plan with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import Flags, Floats, Integers, distinct
from planner.candidate_table import ON_DEMAND, CandidateTable, concatenate
from planner.candidates.job_candidates import (
    JobCandidates,
    OfferColumns,
    burden_of,
    find_managed,
    kept_undominated,
    undominated_on_machine,
)
from planner.candidates.machine_candidates import MachineCandidates, join_placements
from planner.candidates.market import Market, spot_markets
from planner.candidates.preference import tie_steps
from planner.candidates.run_hours import RunHours, compute_run_hours
from planner.candidates.stage_hours import Placement, RowHours, enumerate_placements, place_exports
from planner.configurations.fitting_cells import JobConfigurations, enumerate_configurations
from planner.configurations.grid import (
    Configurations,
    Machine,
    concatenate_configurations,
    shape_of,
    technique_penalties,
    technique_uses,
)
from planner.configurations.recipe import allows_full, is_allowed
from planner.estimates.billing import count_terms, round_up_hours
from planner.library.schema import Architecture, Library
from planner.scenario.fees import Count
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import DEFAULT_CONFIDENCE, Confidence, Job
from planner.scenario.job_stages import Stages, Trials
from planner.spot.policy_cache import PolicyCache
from planner.units import MONTH_HOURS
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Sequence


# Prices of candidates that rent machines: from hours and the terms of offers to the candidate table.
#
# Hours and dollars of one candidate (n instances per node group, k node groups, p_od and p_spot dollars an hour):
#
#     start_h    once + separate + lead   see `planner.candidates.stage_hours`
#     run_h[od]  run                      run_h[spot] = expected wall hours + one more start (the switch)
#     usd[od]    n * p_od * (k * once + machine hours of run)
#     usd[spot]  n * p_spot * (k * once + machine hours paid) + n * p_od * k * switch
#     fixed      transfer in and out, what is kept after the run, terms of commitments
#
# A run longer than the term of a commitment renews it, or goes on at the price by the hour: `count_terms`.
# Both columns of dollars also hold storage, for all hours, and stages on separate machines. Late figures are the same
# at a confidence: hours times `RowHours.late` at that of the job, dollars with the hours times `RowHours.budget` at
# that of the budget, spot waits at their own quantile. A run that is expected to stop early is taken in full.


def are_of(candidates: JobCandidates, job: Job, jobs: Sequence[str]) -> bool:
    """Return whether a job among `jobs` has these candidates on the same offers: a deadline concerns none."""
    mine, its = (compared.model_copy(update={"deadline_hours": None}) for compared in (candidates.job, job))
    return candidates.table.jobs == tuple(jobs) and mine == its


def of_job(candidates: JobCandidates, job: Job) -> JobCandidates:
    """Return the candidates with another job in place of theirs; themselves where it is equal."""
    return candidates if candidates.job == job else replace(candidates, job=job)


def of_another_job(candidates: JobCandidates) -> JobCandidates:
    """Return the candidates to compute another job from: its policies are its own, and kept as long as it."""
    return replace(candidates, policies=PolicyCache())


def hours_and_table(
    machines: MachineCandidates, market: Market, jobs: Sequence[str], before: JobCandidates | None
) -> tuple[RowHours, CandidateTable]:
    """Return hours and table of the candidates; of `before`, earlier candidates of the job, all but changed prices."""
    count = len(machines.offer)
    known = before is not None and are_of(before, machines.job, jobs)
    if before is None or not known or not machines.has_hours_of(_of(before, count)):
        hours = machines.hours()
        return hours, price_machines(machines, hours, market, jobs)
    hours, table = before.hours, before.table
    if len(table) > count:  # managed services follow
        hours, table = hours.rows(np.arange(count)), table.rows(np.arange(count))
    identity = market.identity_columns(jobs, machines.job.name, machines.offer)
    return hours, replace(table, **identity, **_dollars(machines, hours, table.run_h))


def _of(candidates: JobCandidates, count: int) -> MachineCandidates:
    """Return the first rows of a job's candidates, `count` of them, as what rents machines."""
    one = candidates
    rows = one.configuration[:count], one.table.offer[:count], one.placement[:count]
    return MachineCandidates(one.job, one.physics, one.run_hours, one.columns, one.placements, *rows)


def price_machines(machines: MachineCandidates, hours: RowHours, market: Market, jobs: Sequence[str]) -> CandidateTable:
    """Return the table of the candidates, given their hours and the names of all jobs; spot shares are not cut."""
    ways, columns = machines.physics.ways, machines.columns
    groups, instances, late = hours.node_groups, machines.instances, hours.late
    has_on_demand, no_spot = ~np.isnan(columns.on_demand_usd[machines.offer]), np.isnan(hours.spot_wall)
    run_h = np.stack(
        [np.where(has_on_demand, hours.run, np.nan), np.where(no_spot, np.nan, hours.spot_wall + hours.switch)], axis=1
    )
    late_h = np.stack([run_h[:, ON_DEMAND] * hours.late_factor, hours.late_spot_wall + hours.switch * late], axis=1)
    lead = columns.lead_hours[machines.offer]  # nothing is paid before the machine is there
    # Rows are many times as many as configurations, which with one framework are few of all.
    chosen, of_row = distinct(machines.configuration)
    uses = technique_uses(ways, chosen)
    return CandidateTable(
        **market.identity_columns(jobs, machines.job.name, machines.offer),
        recipe=machines.recipe,
        instances=instances * groups,
        gpus=machines.gpus * groups,
        node_groups=np.full(len(machines.offer), groups, dtype=np.int64),
        start_h=hours.once + hours.separate + lead,
        late_start_h=hours.once * late + hours.late_separate * late + lead,
        run_h=run_h,
        late_h=late_h,
        **_dollars(machines, hours, run_h),
        share_low=np.where(has_on_demand, 0.0, 1.0),
        share_high=np.where(no_spot, 0.0, 1.0),
        uses=uses.take(of_row, axis=0),
        penalty_usd=(uses @ np.asarray(machines.job.techniques.penalties_usd))[of_row],
        tie_steps=tie_steps(columns.tie_steps[machines.offer], machines.run_hours.evidence[machines.configuration]),
        lossiness=ways.lossiness[machines.recipe],
        fit_gib=ways.fit_gib[machines.configuration],
        usable_gib=ways.usable_gib[machines.configuration],
        rented_h=(hours.once * late * groups + hours.group_run * hours.late_factor) * instances,
    )


def _dollars(machines: MachineCandidates, hours: RowHours, run_h: Floats) -> dict[str, Any]:
    """Return the columns of dollars: fixed, of a run expected and late, and those of commitments among them."""
    (run_usd, late_usd), term_usd = _market_usd(machines, hours, run_h), _term_usd(machines, hours)
    run_usd[:, ON_DEMAND] += term_usd[:, 1]
    late_usd[:, ON_DEMAND] += term_usd[:, 2]
    fixed_usd = _fixed_usd(machines, hours) + term_usd[:, 0]
    return {"fixed_usd": fixed_usd, "run_usd": run_usd, "late_usd": late_usd, "term_usd": term_usd}


def _term_usd(machines: MachineCandidates, hours: RowHours) -> Floats:
    """Return dollars (n, 3) of reservations: of their terms, and of the hours after them, expected and late."""
    columns, offer = machines.columns, machines.offer
    instances = machines.instances * hours.node_groups
    found = np.zeros((len(offer), 3))
    found[:, 0] = columns.committed_usd[offer] * instances
    longer = np.flatnonzero((hours.once + hours.run * hours.stretch) * hours.late > columns.term_hours[offer])
    if len(longer):
        rows, of = hours.rows(longer), offer[longer]
        full = rows.once + rows.run * rows.stretch
        after, term = columns.after_usd[of], columns.term_hours[of]
        terms, goes_on = count_terms(rows.once + rows.run, full * rows.late, term, columns.committed_usd[of], after)
        found[longer, 0] *= terms
        steps = columns.after_step_hours[of], columns.after_minimum_hours[of]
        for place, used in ((1, rows.once + rows.run), (2, full * rows.budget)):
            billed = round_up_hours(np.maximum(0.0, used - terms * term), *steps)
            found[longer, place] = np.where(goes_on, billed * after * instances[longer], 0.0)
    return found


def _market_usd(machines: MachineCandidates, hours: RowHours, run_h: Floats) -> tuple[Floats, Floats]:
    """Return dollars (n, 2) that depend on hours, if all work is done in one market: expected and late."""
    columns, late, once = machines.columns, hours.budget[:, None], hours.once[:, None]
    price = np.stack([columns.on_demand_usd[machines.offer], columns.spot_usd[machines.offer]], axis=1)
    price = price * machines.instances[:, None]
    outside = price * (hours.node_groups * once)
    outside[:, 1] += np.nan_to_num(price[:, ON_DEMAND]) * hours.switch * hours.node_groups
    run = price * np.stack([hours.group_run, hours.spot_group_paid], axis=1)
    storage = columns.storage_usd_per_hour(machines.offer, hours.stored_gb)[:, None]
    separate = machines.of_placement([placement.total("usd") for placement in machines.placements])[:, None]
    late_separate = machines.of_placement([placement.total("late_usd") for placement in machines.placements])[:, None]
    return (
        outside + run + storage * (once + run_h) + separate,
        (outside + run * hours.stretch[:, None]) * late
        + storage * (once * late + hours.budget_run)
        + late_separate * late,
    )


def _fixed_usd(machines: MachineCandidates, hours: RowHours) -> Floats:
    """Return dollars (n,) whatever the hours: transfers, and what is kept after the run."""
    columns, offer, run_hours = machines.columns, machines.offer, machines.run_hours
    instances = machines.instances * hours.node_groups
    kept = np.asarray(run_hours.kept_gb)[machines.recipe] + hours.result_gb
    months = (machines.job.stages.retention_hours or 0.0) / MONTH_HOURS
    amounts: dict[Count, Floats] = {
        "GB in": hours.moved_gb * instances,
        "GB out": hours.sent_gb,
        "GB kept": kept * months,
    }
    return np.asarray(columns.fees_usd(offer, amounts) + columns.source_usd_per_gb * hours.own_gb * instances)


IGNORED_FIELDS = {
    "name": "",
    "deadline_hours": None,
    "efficiency": 1.0,
    "storage_gb_per_second": 1.0,
    "load_efficiency": 1.0,
    "data_gb": 0.0,
    "trials": Trials(),
    "early_stopping": 1.0,
    "stages": Stages(),
}
"""Fields of a job that its memory and step time do not depend on, with the value that comparisons put in.

Neither does the confidence of the deadline, while that of memory decides what fits.
"""
AMOUNTS = {"tokens": None, "samples": None, "epochs": 1.0, "steps": None}
"""Fields of work that a step does not depend on, with the value that comparisons put in."""
TIMING_FIELDS = (
    "confidence",
    "efficiency",
    "storage_gb_per_second",
    "load_efficiency",
    "trials",
    "early_stopping",
    "stages",
)
"""Those of such fields that hours depend on."""


class Margins(NamedTuple):
    """How sure memory and dollars are: what replaces the margin of the fit rule, and the confidence of the budget."""

    headroom: float | None = None  # share of memory
    budget_confidence: float = DEFAULT_CONFIDENCE


DEFAULT_MARGINS = Margins()
"""Those of a scenario that says nothing of either."""


def enumerate_candidates(
    job: Job,
    architecture: Architecture,
    market: Market,
    jobs: Sequence[str],
    library: Library,
    margins: Margins = DEFAULT_MARGINS,
    before: JobCandidates | None = None,
) -> JobCandidates:
    """Return every candidate of the job on every offer of the market; `screen` applies limits and deadline.

    Raises ScenarioError for a stage that no offer can run.

    Parameters
    ----------
    jobs
        Names of all jobs of the scenario, so that the tables of several jobs can be concatenated.
    margins
        What replaces the margin of the fit rule, and the probability with which the late dollars are kept.
    before
        Earlier candidates of the job; what still applies is not computed again.
    """
    keep_going()
    if not job.trains:
        market = generation.market_of(market)
    physics, run_hours = _reuse_or_compute(job, architecture, market.distinct_machines, library, margins, before)
    earlier = enumerate_placements(job, architecture, physics.shape, market, library)
    placements = (*place_exports(earlier, job, architecture, run_hours, market, library), Placement())
    same_rows = before and before.offers is market.offers and before.placements == placements
    if before and same_rows and before.run_hours is run_hours and are_of(before, job, jobs):
        return of_job(before, job)
    spot = spot_markets(market.offers, library)
    columns = OfferColumns.of(market, job, spot, library)
    kept = before.kept if before is not None and run_hours is before.run_hours else {}
    which = kept_undominated(kept, job, physics.ways, run_hours)
    machines = join_placements(job, physics, run_hours, columns, placements, market, which)
    managed = find_managed(job, architecture, physics.shape, market, library)
    hours, table = hours_and_table(machines, market, jobs, before)
    if count := len(managed.offer):
        table = concatenate([table, managed.table(market, jobs, len(physics.ways.recipes))])
        hours = hours.joined(managed.hours())
    return JobCandidates(
        job,
        architecture,
        physics,
        table,
        np.append(machines.configuration, np.full(count, -1)),
        np.append(machines.placement, np.full(count, len(placements) - 1)),
        hours,
        run_hours,
        placements,
        spot,
        columns,
        margins.headroom,
        managed,
        before.policies if before is not None else PolicyCache(),
        kept,
        market.offers,
    )


def _reuse_or_compute(
    job: Job,
    architecture: Architecture,
    machines: tuple[Machine, ...],
    library: Library,
    margins: Margins,
    before: JobCandidates | None,
) -> tuple[JobConfigurations, RunHours]:
    """Return the configurations of the job and their hours, from `before` as far as the job has not changed."""
    run_hours = None
    same_margin = before is not None and before.headroom == margins.headroom
    if before is not None and same_margin and _same_physics(before, job, architecture, machines):
        physics, has_same = before.physics, before.job.work == job.work
        if not has_same:
            physics = replace(physics, shape=shape_of(job, architecture))
        has_same &= before.run_hours.budget_confidence == margins.budget_confidence and _has_same_hours(before.job, job)
        run_hours = before.run_hours if has_same else None
    else:
        physics = _configurations(job, architecture, machines, library, margins.headroom)
    return physics, run_hours or _hours(job, architecture, physics, library, margins.budget_confidence)


def _configurations(
    job: Job, architecture: Architecture, machines: Sequence[Machine], library: Library, headroom: float | None
) -> JobConfigurations:
    """Return the configurations of a job of either form."""
    if isinstance(job, InferenceJob):
        return generation.enumerate_replicas(job, architecture, machines, library, headroom)
    return enumerate_configurations(job, architecture, machines, library, headroom)


def _hours(
    job: Job, architecture: Architecture, physics: JobConfigurations, library: Library, budget_confidence: float
) -> RunHours:
    """Return the hours of the configurations of a job of either form."""
    if isinstance(job, InferenceJob):
        return generation.compute_replica_hours(job, architecture, physics, library, budget_confidence)
    return compute_run_hours(job, architecture, physics, library, budget_confidence)


def _same_physics(before: JobCandidates, job: Job, architecture: Architecture, machines: tuple[Machine, ...]) -> bool:
    """Return whether memory and step times of the configurations are those of `before`; the amount of work is none."""
    if before.architecture != architecture or before.physics.machines != machines:
        return False
    amounts = {} if _counts_work(job, architecture) or _counts_work(before.job, architecture) else AMOUNTS
    # Observed runs replace the allowed configurations; without them every method is enumerated anyway.
    open_ = {} if job.measured or before.job.measured else {"method": None, "weight_bits": None}

    def essence(one: Job) -> Job:
        """Return the job with the same value in all fields that do not matter."""
        techniques = one.techniques.model_copy(update={"penalty_usd": {}, **open_})
        if open_ and allows_full(one):  # pages are enumerated only where full training is allowed
            techniques = techniques.model_copy(update={"method": ("full",)})
        confidence = one.confidence_given.model_copy(update={"deadline": 0.5})
        update = {**IGNORED_FIELDS, "confidence_given": confidence, "techniques": techniques}
        return one.model_copy(update=update | {"work": one.work.model_copy(update=amounts)})

    return essence(before.job) == essence(job)


def _counts_work(job: Job, architecture: Architecture) -> bool:
    """Return whether step times depend on the amount of work: of answers, observed hours and cached latents they do."""
    return not job.trains or bool(job.measured) or architecture.image is not None


def _has_same_hours(before: Job, job: Job) -> bool:
    """Return whether hours of the configurations are those of `before`."""
    return all(getattr(before, field) == getattr(job, field) for field in TIMING_FIELDS)


def candidates_of_frameworks(
    candidates: JobCandidates,
    frameworks: tuple[str, ...],
    gpu: str,
    market: Market,
    library: Library,
    confidence: Confidence | None = None,
) -> JobCandidates:
    """Return the candidates on one GPU that may be the best under each framework, whether the job uses it or not.

    `confidence` replaces that of the job.
    """
    update = {"framework": frameworks, **({} if confidence is None else {"confidence_given": confidence})}
    job = candidates.job.model_copy(update=update)
    # Of a job with another deadline, or within another budget, they are the same: only the screening reads these.
    key, same = ("candidates", frameworks, gpu, confidence), job.model_copy(update={"deadline_hours": None})
    given, columns, made = candidates.kept.get(key, (None, None, {}))
    if columns is not candidates.columns or given != same:
        made = _made_for_frameworks(candidates, job, frameworks, gpu, market, library)
        candidates.kept[key] = same, candidates.columns, made
    return replace(candidates, job=job, kept={}, **made)


def _made_for_frameworks(
    candidates: JobCandidates, job: Job, frameworks: tuple[str, ...], gpu: str, market: Market, library: Library
) -> dict[str, Any]:
    """Return what differs for a job of some frameworks on one GPU, by the name of the field."""
    parts = [_best_ways(candidates, job, framework, gpu, market, library) for framework in frameworks]
    physics = replace(candidates.physics, ways=concatenate_configurations([ways for ways, _ in parts]))
    run_hours = _joined([hours for _, hours in parts])
    which = np.ones(len(physics.ways), dtype=bool)
    machines = join_placements(job, physics, run_hours, candidates.columns, candidates.placements, market, which)
    hours = machines.hours()
    return {
        "physics": physics,
        "table": price_machines(machines, hours, market, candidates.table.jobs),
        "configuration": machines.configuration,
        "placement": machines.placement,
        "hours": hours,
        "run_hours": run_hours,
    }


def _best_ways(
    candidates: JobCandidates, job: Job, framework: str, gpu: str, market: Market, library: Library
) -> tuple[Configurations, RunHours]:
    """Return the configurations of one framework on one GPU that may be the best, and their hours."""
    physics, run_hours = candidates.physics, candidates.run_hours
    has_same_confidence = job.confidence_given == candidates.job.confidence_given
    if has_same_confidence and any(recipe.framework == framework for recipe in physics.ways.recipes):
        burden = candidates.burden()
        of = np.asarray([recipe.framework == framework for recipe in physics.ways.recipes], dtype=bool)[
            physics.ways.recipe
        ]
    else:
        architecture, headroom = candidates.architecture, candidates.headroom
        machines = tuple(machine for machine in market.distinct_machines if machine.gpu == gpu)
        allowed, alone = (job.techniques.method, job.techniques.weight_bits), (framework,)
        key = ("physics", framework, allowed, job.confidence_given, machines)
        if key not in candidates.kept:
            one = job.model_copy(update={"framework": alone})
            found = enumerate_configurations(one, architecture, machines, library, headroom, only_allowed=True)
            hours = compute_run_hours(one, architecture, found, library, run_hours.budget_confidence)
            candidates.kept[key] = found, hours
        physics, run_hours = candidates.kept[key]
        burden = burden_of(physics.ways, run_hours, technique_penalties(job, physics.ways))
        of = np.ones(len(physics.ways), dtype=bool)
    is_used = np.asarray([is_allowed(recipe, job) for recipe in physics.ways.recipes], dtype=bool)[physics.ways.recipe]
    on_gpu = np.asarray([machine.gpu == gpu for machine in physics.ways.machines], dtype=bool)[physics.ways.machine]
    which = of & is_used & on_gpu
    which[which] = undominated_on_machine(physics.ways.rows(which), burden[:, which])
    ways, recipes = physics.ways.rows(which).with_used_lists()
    return ways, _selected(run_hours, which, recipes)


def _selected(hours: RunHours, which: Flags, recipes: Integers) -> RunHours:
    """Return the columns of some configurations, and the figures of the recipes that they use."""

    def selected(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value[which]
        return tuple(value[place] for place in recipes.tolist()) if isinstance(value, tuple) else value

    return replace(hours, **{name: selected(value) for name, value in vars(hours).items()})


def _joined(parts: Sequence[RunHours]) -> RunHours:
    """Return the columns of the configurations of all parts of one job, and the figures of their recipes."""

    def joined(values: Sequence[Any]) -> Any:
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        return tuple(value for several in values for value in several) if isinstance(values[0], tuple) else values[0]

    return replace(parts[0], **{name: joined([getattr(part, name) for part in parts]) for name in vars(parts[0])})
