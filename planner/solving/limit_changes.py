"""Changes of limits as settings, and the nearest infeasible candidates with what would make them feasible."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from planner.arrays import CandidateTable, Flags, Floats, Integers
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.screening import screen
from planner.candidates.spot_search import MEAN_SHARES, fixed_share_costs, spot_only_costs, spot_only_rows
from planner.configurations.fitting_cells import MANY_ACCUMULATION_STEPS
from planner.configurations.grid import HostShortfall, MemoryShortfall
from planner.configurations.recipe import (
    UNSHARDED,
    GpuClass,
    Machine,
    Recipe,
    enumerate_recipes,
    incompatibilities,
    is_allowed,
)
from planner.evaluation.evaluated_hours import probability_within
from planner.library.engines import read_engines
from planner.library.schema import Library
from planner.results.plan_parts import NearMiss
from planner.scenario.job import Job
from planner.scenario.limits import (
    PEAK_LIMITS,
    PEAK_TOLERANCE,
    Limits,
    PeakLimit,
    given_peaks,
    latest_finish_hours,
    max_run_hours,
    peak_limit_at,
)
from planner.scenario.scenario import Scenario, setting_path
from planner.solving.chosen import MemoryEvaluator, describe_candidate
from planner.solving.elastic_program import (
    HEADROOM,
    MAX_PRICE_AGE,
    STOCK_OF,
    TOOLS,
    CandidateFilter,
    ElasticProgram,
    ElasticSolution,
    RelaxedCandidates,
    SoftConstraint,
    margin_of,
)
from planner.solving.optimise_choice import ResolvedPlan, may_share_luck, try_solve
from planner.solving.prepare import PreparedScenario
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOURS_STEP, USD_STEP, SHARE_STEP, MARGIN_STEP, CONFIDENCE_STEP = 0.01, 0.01, 0.01, 0.001, 0.01
"""New limits are rounded away from the old ones to multiples of these: they can be typed and still suffice."""
BUDGET = "limits.budget_usd"
"""Path of the budget."""
SPOT_CAP = "limits.spot_share.max"
"""Path of the largest share on spot."""


@dataclass(frozen=True)
class LimitChange:
    """One changed limit: its path in the scenario, both values, and the setting that changes it."""

    limit: str
    old: float | str
    new: float | str
    setting: str


def build_changes(solution: ElasticSolution, elastic: ElasticProgram, prepared: PreparedScenario) -> list[LimitChange]:
    """Return the changes that a plan of the elastic program needs; empty if only offers have too little left.

    The VRAM margin becomes 0 here; `verify_relaxation` gives back what is not needed, as a confidence where that rules.
    """
    scenario = prepared.scenario
    filters = sorted(elastic.relaxed.filters[number] for number in solution.filters)
    made = [
        extend_list(path, list(group), scenario)
        for path, group in groupby(filters, key=lambda candidate_filter: candidate_filter.path)
    ]
    exceeded = (
        constraint for constraint in elastic.soft if constraint.path in solution.excess and not constraint.is_of_offer
    )
    made += [_move_limit(constraint, solution.excess[constraint.path], scenario) for constraint in exceeded]
    margin = max(margin_of(job, scenario.limits, prepared.library) for job in scenario.jobs)
    return [replace(change, old=margin) if change.limit == HEADROOM else change for change in made]


def _move_limit(constraint: SoftConstraint, excess: float, scenario: Scenario) -> LimitChange:
    """Return the change of a soft constraint to the value that suffices."""
    value, path = constraint.current + constraint.sense * excess, constraint.path
    unit, digits = "", ".10g"
    if path == SPOT_CAP and constraint.current == 0:
        # A scenario that says `spot: false` has this cap too, and no share undoes that word.
        return LimitChange("limits.spot", "false", "true", "limits.spot=true")
    if path.endswith((".deadline", "limits.max_hours")):
        new = round_up(value, HOURS_STEP)
        unit, digits = ("h", "g") if path.endswith(".deadline") else ("", digits)
    elif path == BUDGET:
        new, digits = round_up(value, USD_STEP), ".2f"
    elif path == "limits.spot_share.min":
        new = max(0.0, round(math.floor(value / SHARE_STEP - 1e-6) * SHARE_STEP, 2))
    elif path == SPOT_CAP:
        # If cost is minimised, a switching policy takes a share of its own, which a cap may exclude altogether.
        new = 1.0 if scenario.objective_kind == "cost" else min(1.0, round_up(value, SHARE_STEP))
    else:
        peak = peak_limit_at(path)
        new = float(round(value)) if peak is None or peak.is_whole else peak.rounded_up(value)
    return LimitChange(path, constraint.current, new, f"{setting_path(path, scenario)}={new:{digits}}{unit}")


def round_up(value: float, step: float) -> float:
    """Round up to a figure that a user can type and that still suffices."""
    return round(math.ceil(value / step + 1e-6) * step, 2)


def extend_list(path: str, filters: list[CandidateFilter], scenario: Scenario) -> LimitChange:
    """Return the change of a list or limit that admits the values of some filters."""
    if path == HEADROOM:
        return LimitChange(path, 0.0, 0.0, f"{HEADROOM}=0")
    if path == TOOLS:
        return LimitChange(path, ", ".join(scenario.limits.tools), "none", f"{path}=[]")
    if path == MAX_PRICE_AGE:
        days = (scenario.limits.max_price_age_hours or 0.0) / DAY_HOURS
        return LimitChange(path, f"{days:.4g} d", "none", f"{path}=null")
    values = [candidate_filter.value for candidate_filter in filters]
    allowed = f"allow also {' and '.join(values)}"
    if filters[0].job >= 0:
        field = path.rpartition(".")[2]
        given = getattr(scenario.jobs[filters[0].job].techniques, field) or (1,)
        text = _format_list([*map(str, given), *values])
        return LimitChange(path, ", ".join(map(str, given)), allowed, f"{setting_path(path, scenario)}={text}")
    rule = getattr(scenario.limits, path.rpartition(".")[2])
    forbid = [name for name in rule.forbid if name not in values]
    if rule.allow is None:
        return LimitChange(path, f"forbid {', '.join(rule.forbid)}", allowed, f"{path}.forbid={_format_list(forbid)}")
    allow = [*rule.allow, *(value for value in values if value not in rule.allow)]
    setting = f"{path}.allow={_format_list(allow)}"
    if forbid != list(rule.forbid):
        setting = f"{path}={{allow: {_format_list(allow)}, forbid: {_format_list(forbid)}}}"
    return LimitChange(path, f"allow {', '.join(rule.allow)}", allowed, setting)


def _format_list(names: Sequence[str]) -> str:
    """Return a list as YAML in one line; names that YAML could read as something else are quoted."""
    safe = [name if name.isdecimal() or _is_plain(name) else json.dumps(name) for name in names]
    return f"[{','.join(safe)}]"


def _is_plain(name: str) -> bool:
    plain = re.fullmatch(r"[A-Za-z][\w.-]*", name)
    return bool(plain) and name.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none")


def limit_key(path: str) -> str:
    """Return the key of a limit in the scenario, such as `deadline` or `quota`."""
    scope, _, rest = path.partition(".")
    return rest.partition(".")[0] if scope == "limits" else rest.rpartition(".")[2]


UNITS: dict[str, Literal["hour", "dollar", "gpu", "gib", "choice"]] = {
    **{"deadline": "hour", "max_hours": "hour", "budget_usd": "dollar"},
    **{"quota": "gpu", "vram_headroom": "gib", "memory": "gib"},
    **{limit.key: limit.worth for limit in PEAK_LIMITS},
}
"""What a limit gives more of, by its key; the others give another choice."""


# The nearest infeasible candidates, one of each kind.


STEP_TOKENS = 128
"""Sequence lengths are proposed in multiples of it, because kernels are faster there."""
Shortfall = TypeVar("Shortfall", "MemoryShortfall", "HostShortfall")

MAX_SHORTFALL_SHARE = 0.5
"""Shortfall over the GPU's memory or the budget beyond which a candidate is not near, unless nothing is nearer."""
MAX_MEMORY_MISSES = 2
"""GPU models that are reported as short of memory, per job."""
MAX_RULE_MISSES = 2
"""Rules of techniques that are reported, per job."""
RECIPES_OF_A_RULE = 2
"""Refused recipes of a rule that are tried on a machine, those that take least memory."""
MAX_TRIED_REFUSALS = 60
"""Refused recipes that are tried, per job: each takes a few milliseconds."""
MAX_TOOL_MISSES = 3
"""Reasons of tools that are reported, per job."""
MAX_MANAGED_MISSES = 2
"""Services that are reported as not training the model, per job."""
OFFER_HOURS_STEP = 0.1
"""Hours that an offer would have to have left are reported in multiples of it."""


def find_near_misses(
    prepared: PreparedScenario, relaxed: RelaxedCandidates, within: ResolvedPlan | None = None
) -> tuple[NearMiss, ...]:
    """Return what comes nearest to the limits, at most a few entries of each kind; `within` is that of a larger budget.

    Once: the least over the budget, and what offers have too little of. Per job: the least late, the fewest GPUs,
    what would fit in memory and a rule of techniques refuses, the GPU models shortest of memory, those whose hosts are,
    and services that train other models. Of several jobs those with feasible candidates are left out: only what jobs
    share can be the cause there.
    """
    several = len(prepared.candidates) > 1
    misses: list[NearMiss] = []
    for index in range(len(prepared.candidates)):
        if several and len(prepared.screened[index].table):
            continue
        misses += [*_least_late(prepared, index), *_least_used(prepared, index)]
        # Where only the memory of hosts is too small, no rule stands in the way.
        misses += [*_small_hosts(prepared, index)] or [*_refused_by_rules(prepared, index)]
        misses += [*_refused_by_tools(prepared, index), *_memory_shortfalls(prepared, index)]
        misses += _unsupported_managed(prepared, index)
    return (*_least_over_budget(prepared, within), *_stock_shortfalls(prepared, relaxed), *misses)


def _least_late(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield the candidate that ends least after the deadline, with the probability that it ends in time."""
    candidates, screened = prepared.candidates[index], prepared.screened[index]
    limits, job = prepared.scenario.limits, candidates.job
    rows = np.flatnonzero(screened.lateness > 0)
    if not len(rows):
        return
    table = candidates.table
    affordable = _near_budget(prepared, table, rows)
    if not affordable.any() and np.any(screened.lateness <= 0):
        return  # what is over the budget alone is nearer
    rows = rows[affordable] if affordable.any() else rows
    row = int(rows[np.argmin(screened.lateness[rows])])
    low = max(float(table.share_low[row]), limits.spot_share.min)
    high = min(float(table.share_high[row]), limits.spot_share.max)
    late = {share: float(table.late_hours(share)[row]) for share in (low, high)}
    share = min(late, key=lambda end: late[end])
    latest = latest_finish_hours(job, limits)
    chance = probability_within(latest, float(table.hours(share)[row]), late[share], job.confidence)
    if share > 0:
        of_row = candidates, row, prepared.market, prepared.library
        is_alone = bool(spot_only_rows(candidates, np.asarray([row]))[0])
        hours, _ = (spot_only_costs(*of_row) if is_alone else fixed_share_costs(*of_row, share)).draw()
        chance = float(np.mean(hours <= latest))
    in_time = f"on time with {int(chance * 100)} % probability" if chance is not None else ""
    yield NearMiss(
        job=job.name,
        what=describe_candidate(candidates, row, share, prepared.market),
        reason=f"{_missed(job, limits)} at {job.confidence * 100:.3g} % confidence",
        shortfall=float(screened.lateness[row]),
        unit="h",
        fix="; ".join(filter(None, (in_time, _also_over_budget(prepared, table, row, share)))),
    )


def _near_budget(prepared: PreparedScenario, table: CandidateTable, rows: Integers) -> Flags:
    """Return which rows (n,) exceed the budget by a share that is near, or not at all, at their least dollars."""
    budget, some = prepared.scenario.limits.budget_usd, table.rows(rows)
    if budget is None:
        return np.ones(len(rows), dtype=bool)
    late = np.minimum(some.late_cost_usd(some.share_low), some.late_cost_usd(some.share_high))
    return np.asarray(late <= (1.0 + MAX_SHORTFALL_SHARE) * budget)


def _missed(job: Job, limits: Limits) -> str:
    """Return which limit on time is broken: the deadline, or the longest run where that is shorter."""
    longest = max_run_hours(job, limits)
    if job.planned_deadline_hours is not None and job.planned_deadline_hours <= longest:
        return "misses the deadline"
    return f"runs for more than {longest:,.4g} h (limits.max_hours)"


def _least_over_budget(prepared: PreparedScenario, within: ResolvedPlan | None) -> Iterator[NearMiss]:
    """Yield the plan of least dollars at the requested confidence within all other limits, if over the budget.

    Of several jobs on spot it is that of the smallest budget: what they need together is no sum that a row could have.
    """
    scenario, limits = prepared.scenario, prepared.scenario.limits
    if limits.budget_usd is None:
        return
    if within is not None and may_share_luck(prepared):
        yield _over_budget(within, limits.budget_usd)
        return
    unbounded = scenario.model_copy(
        update={"limits": limits.model_copy(update={"budget_usd": None}), "objective": "cost"}
    )
    # What a budget limits are dollars at the requested confidence.
    priced = tuple(
        replace(
            candidates,
            table=replace(
                candidates.table, run_usd=candidates.table.late_usd, penalty_usd=np.zeros(len(candidates.table))
            ),
        )
        for candidates in prepared.screened
    )
    cheapest = try_solve(replace(prepared, scenario=unbounded, screened=priced))
    if cheapest is not None and cheapest.late_usd > limits.budget_usd:
        yield _over_budget(cheapest, limits.budget_usd)


def _budget_percent(prepared: PreparedScenario) -> str:
    return f"{prepared.scenario.limits.budget_confidence * 100:.3g} %"


def _also_over_budget(prepared: PreparedScenario, table: CandidateTable, row: int, share: float) -> str:
    """Return by how much a candidate that breaks another limit exceeds the budget, too; empty where it does not."""
    budget = prepared.scenario.limits.budget_usd
    late = float(table.rows(np.asarray([row])).late_cost_usd(share)[0])
    if budget is None or late <= budget:
        return ""
    return f"it also exceeds the budget at {_budget_percent(prepared)} confidence (${late - budget:,.2f} over)"


def _over_budget(plan: ResolvedPlan, budget_usd: float) -> NearMiss:
    jobs = plan.prepared.scenario.jobs
    return NearMiss(
        job=jobs[0].name if len(jobs) == 1 else "",
        what=plan.description,
        reason=f"exceeds the budget at {_budget_percent(plan.prepared)} confidence",
        shortfall=plan.late_usd - budget_usd,
        unit="usd",
    )


def _least_used(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield the candidate that uses least of what is limited at one time, if these limits leave no candidate.

    A quota limits GPUs as `max_gpus` does.
    """
    limits, candidates, market = prepared.scenario.limits, prepared.candidates[index], prepared.market
    asked = [
        limit
        for limit in PEAK_LIMITS
        if not limit.is_of_dollars and (limit.value(limits) is not None or (limit.counts_quota and limits.quota))
    ]
    if not asked or len(prepared.screened[index].table):
        return
    unlimited = limits.model_copy(update={**{limit.key: None for limit in asked}, "quota": {}})
    free = screen(candidates, market, unlimited, prepared.library, scope=MEAN_SHARES)
    over = {limit: _over_limit(prepared, free.table, limit) for limit in asked if len(free.table)}
    for limit, excess in over.items():
        if np.isnan(excess).all():
            continue
        row = int(np.nanargmin(excess))
        if excess[row] > 0:
            share = float(free.table.share_low[row])
            also = [f"it also {other.lacking}" for other, more in over.items() if other != limit and more[row] > 0]
            yield NearMiss(
                job=candidates.job.name,
                what=describe_candidate(candidates, int(free.rows[row]), share, market),
                reason=limit.lacking,
                shortfall=float(excess[row]),
                unit=limit.unit,
                fix="; ".join(filter(None, (*also, _also_over_budget(prepared, free.table, row, share)))),
            )


def _over_limit(prepared: PreparedScenario, table: CandidateTable, limit: PeakLimit) -> Floats:
    """Return by how much each row (n,) exceeds a limit at one time: 0 within it, nan where its use is unknown."""
    limits = prepared.scenario.limits
    used = prepared.market.use_of(limit)[table.offer] * table.instances
    given = limit.value(limits)
    most = np.full(len(used), np.inf if given is None else given)
    if limit.counts_quota:
        quota = [limits.quota.get(provider, np.inf) for provider in table.providers]
        most = np.minimum(most, np.asarray(quota)[table.provider])
    return np.where(used > most * (1.0 + PEAK_TOLERANCE), used - most, np.where(np.isnan(used), np.nan, 0.0))


def _is_within_peaks(prepared: PreparedScenario, machine: Machine) -> bool:
    """Return whether machines of an offer like this one use no more at one time than the limits allow."""
    market = prepared.market
    like = [(offer.card, offer.gpus) == (machine.gpu, machine.gpus_per_instance) for offer in market.offers]
    for limit, most in given_peaks(prepared.scenario.limits):
        if not limit.is_of_dollars and any(like):
            used = market.use_of(limit)[like] * machine.instances
            if not np.any(used <= most * (1.0 + PEAK_TOLERANCE)):
                return False
    return True


def _stock_shortfalls(prepared: PreparedScenario, relaxed: RelaxedCandidates) -> Iterator[NearMiss]:
    """Yield the offers that have too few machines or paid hours, if a plan is possible with more."""
    elastic = ElasticProgram.of(relaxed)
    solution = elastic.solve(elastic.offer_paths) if elastic.offer_paths else None
    if solution is None and elastic.offer_paths and elastic.solve(elastic.relaxable_paths) is None:
        solution = elastic.solve((*elastic.relaxable_paths, *elastic.offer_paths))
    if solution is None:
        return
    settings = [change.setting for change in build_changes(solution, elastic, prepared)]
    jobs = prepared.scenario.jobs
    alone = len(jobs) == 1
    for soft, needed in elastic.shortages(solution):
        is_stock = soft.path.startswith(STOCK_OF)
        lacking = "machines in stock" if is_stock else "hours paid for"
        enough = f"{needed:.0f} in stock" if is_stock else f"{round_up(needed, OFFER_HOURS_STEP):g} h left"
        yield NearMiss(
            job=jobs[0].name if alone else "",
            what=elastic.describe(solution) if alone else "all jobs together",
            reason=f"{'needs' if alone else 'need'} more {lacking} than {soft.path.partition(' of ')[2]} has",
            shortfall=solution.excess[soft.path],
            unit="machines" if is_stock else "machine hours",
            fix=" and ".join((f"{enough} would do", *settings)),
        )


def _unsupported_managed(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield services that cannot run a job that has no candidate at all."""
    candidates = prepared.candidates[index]
    by_token = not candidates.job.trains
    unfit = (
        "answers by the token: a plan compares it only" if by_token else "trains adapters only, so it cannot pretrain"
    )
    offers = [offer for offer in prepared.market.offers if offer.managed is not None]
    if len(candidates.table):
        return
    for offer in offers[:MAX_MANAGED_MISSES]:
        taken = offer.managed.architectures if offer.managed else ()
        name = candidates.architecture.name
        yield NearMiss(
            job=candidates.job.name,
            what=f"managed service at {offer.provider}",
            reason=unfit if name in taken else f"does not take {name}",
            shortfall=0.0,
            unit="",
            fix=f"offer machines with GPUs{'' if name in taken or by_token else f', or a service that takes {name}'}",
        )


def _refused_by_tools(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield why the tools of `limits.tools` refuse most candidates of a job, the most frequent reasons first."""
    candidates, tools = prepared.candidates[index], prepared.scenario.limits.tools
    if not tools:
        return
    from planner.candidates.tool_support import tool_refusals

    counts: Counter[str] = Counter()
    for reason, rows in tool_refusals(candidates, prepared.market, tools):
        counts[reason] += int(np.sum(rows))
    for reason, count in counts.most_common(MAX_TOOL_MISSES):
        yield NearMiss(
            job=candidates.job.name,
            what=f"{count:,} of {len(candidates.table):,} candidates for {', '.join(tools)}",
            reason=reason,
            shortfall=0.0,
            unit="",
            fix="leave a tool out of limits.tools",
        )


def _refused_by_rules(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield what a rule refuses and would fit in memory, where nothing that the job allows fits: one for each rule.

    Each on the fewest GPUs that the limits permit.
    """
    candidates, limits, library = prepared.candidates[index], prepared.scenario.limits, prepared.library
    offered = prepared.market.permitted(limits)
    usable = np.asarray([is_allowed(recipe, candidates.job) for recipe in candidates.recipes], dtype=bool)[
        candidates.table.recipe
    ]
    if not candidates.job.trains or np.any(usable & offered[candidates.table.offer]):
        return
    made = (machine for place in np.flatnonzero(offered).tolist() for machine in prepared.market.machines[place])
    machines = sorted(dict.fromkeys(made), key=lambda machine: machine.gpus)
    seen, tried = set[str](), 0
    for machine in machines:
        if not _is_within_peaks(prepared, machine):
            continue
        for reason, recipes in _refused_recipes(candidates, machine, library).items():
            for recipe in recipes if reason not in seen else ():
                if tried >= MAX_TRIED_REFUSALS or len(seen) >= MAX_RULE_MISSES:
                    return
                tried += 1
                fix = _without_rule(candidates, recipe, machine, limits, library)
                if fix is not None:
                    seen.add(reason)
                    yield _rule_miss(candidates.job, machine, recipe, reason, fix)
                    break


def _without_rule(
    candidates: JobCandidates, recipe: Recipe, machine: Machine, limits: Limits, library: Library
) -> str | None:
    """Return what can be said of a recipe that a rule refuses; None where it would not fit in memory either."""
    if library.techniques.compute(recipe.precision).missing_peak(library.gpu(machine.gpu).peaks):
        return ""  # without a peak there is no estimate of a recipe
    setup = (candidates.job, candidates.physics.shape, recipe, machine, limits.vram_headroom, library)
    fits = MemoryEvaluator.of(*setup, learned=candidates.physics.learned).fits(1, MANY_ACCUMULATION_STEPS)
    return "it would fit in memory" if fits else None


def _rule_miss(job: Job, machine: Machine, recipe: Recipe, reason: str, fix: str) -> NearMiss:
    """Return the near miss of a recipe on a machine that a rule refuses for a reason."""
    how = [recipe.method_label, *([recipe.sharding] if recipe.sharding != UNSHARDED else [])]
    configuration = f"{machine.gpus:,} x {machine.gpu}, {', '.join(how)}"
    return NearMiss(job=job.name, what=configuration, reason=f"refused: {reason}", shortfall=0.0, unit="", fix=fix)


def _refused_recipes(candidates: JobCandidates, machine: Machine, library: Library) -> dict[str, list[Recipe]]:
    """Return the recipes that the job allows and the fewest rules refuse on a machine, by their reasons.

    Of a reason those that take least memory come first: by what is recomputed, then by what is sharded.
    """
    card = GpuClass.of(library.gpu(machine.gpu))
    allowed = [
        recipe
        for recipe in enumerate_recipes(candidates.job, card, machine.gpus > 1, library)
        if is_allowed(recipe, candidates.job)
    ]
    reasons = [list(dict.fromkeys(_refusals(candidates, recipe, machine, library))) for recipe in allowed]
    fewest = min((len(entries) for entries in reasons if entries), default=0)
    by_reason: dict[str, list[Recipe]] = {}
    for recipe, entries in zip(allowed, reasons, strict=True):
        if entries and len(entries) == fewest:
            by_reason.setdefault("; ".join(entries), []).append(recipe)
    recomputed = list(library.techniques.values.activation_checkpointing.values)  # from nothing to all

    def saves(recipe: Recipe) -> tuple[int, int]:
        return recomputed.index(recipe.activation_checkpointing), recipe.zero_stage

    return {
        reason: sorted(entries, key=saves, reverse=True)[:RECIPES_OF_A_RULE] for reason, entries in by_reason.items()
    }


def _refusals(candidates: JobCandidates, recipe: Recipe, machine: Machine, library: Library) -> Iterator[str]:
    """Yield why a job may not use a recipe on a machine: rules that refuse it, and memory that was never measured."""
    yield from incompatibilities(recipe, GpuClass.of(library.gpu(machine.gpu)), library, candidates.architecture)
    doubt = candidates.physics.learned.doubt_of_memory(recipe, machine.gpus, candidates.job, library)
    if candidates.headroom is None and doubt is not None:
        yield doubt


def _memory_shortfalls(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield the GPU models that lack least memory for an allowed method, with the sequence length that would fit."""
    candidates, limits = prepared.candidates[index], prepared.scenario.limits
    best = _first_by_gpu(prepared, index, sorted(candidates.physics.misses, key=lambda miss: miss.shortfall_gib))
    fitting = {candidates.physics.ways.machines[m].gpu for m in np.unique(candidates.physics.ways.machine)}
    near = [
        (gpu, miss)
        for gpu, miss in best.items()
        if miss.shortfall_gib <= MAX_SHORTFALL_SHARE * prepared.library.gpu(gpu).usable_gib
    ]
    for gpu, miss in (near or list(best.items())[:1])[:MAX_MEMORY_MISSES]:
        if not candidates.job.trains:
            yield _replica_miss(candidates, miss, limits, prepared.library)
            continue
        configuration = (
            candidates.job,
            candidates.physics.shape,
            miss.recipe,
            miss.machine,
            limits.vram_headroom,
            prepared.library,
        )
        evaluator = MemoryEvaluator.of(*configuration, learned=candidates.physics.learned)
        yield NearMiss(
            job=candidates.job.name,
            what=f"{miss.machine.gpus:,} x {gpu}, {miss.recipe.method_label}",
            reason=f"does not fit in {evaluator.usable_gib:.1f} GiB per GPU",
            shortfall=miss.shortfall_gib,
            unit="GiB",
            fix=_suggest_fix(evaluator, candidates, gpu in fitting),
        )


def _small_hosts(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Yield the GPU models whose hosts lack least memory for the states that an allowed recipe keeps there."""
    candidates = prepared.candidates[index]
    if not candidates.job.trains:
        return
    best = _first_by_gpu(prepared, index, sorted(candidates.physics.small_hosts, key=lambda miss: miss.shortfall_gb))
    for gpu, miss in list(best.items())[:MAX_MEMORY_MISSES]:
        yield NearMiss(
            job=candidates.job.name,
            what=f"{miss.machine.gpus:,} x {gpu}, {miss.recipe.method_label}",
            reason=describe_small_host(miss),
            shortfall=miss.shortfall_gb,
            unit="GB",
            fix="state ram_gb of the offer if it has more" if miss.machine.assumes_ram else "",
        )


def _first_by_gpu(prepared: PreparedScenario, index: int, misses: Sequence[Shortfall]) -> dict[str, Shortfall]:
    """Return the first shortfall on each model of GPU, of those that the job and the limits permit."""
    limits, job = prepared.scenario.limits, prepared.candidates[index].job
    offers = zip(prepared.market.offers, prepared.market.cards, strict=True)
    permitted = {card.name for offer, card in offers if card and limits.permits(offer)}
    first: dict[str, Shortfall] = {}
    for miss in misses:
        is_usable = miss.machine.gpu in permitted and is_allowed(miss.recipe, job)
        if is_usable and _is_within_peaks(prepared, miss.machine):
            first.setdefault(miss.machine.gpu, miss)
    return first


def describe_small_host(miss: HostShortfall) -> str:
    """Return why the memory of a host is too small for the states that a recipe keeps there."""
    how = "assumed" if miss.machine.assumes_ram else "there"
    takes = f"states in host memory take {miss.taken_gb:,.0f} GB per machine"
    return f"{takes}, {miss.machine.ram_gb or 0:,.0f} are {how}"


def _replica_miss(candidates: JobCandidates, miss: MemoryShortfall, limits: Limits, library: Library) -> NearMiss:
    """Return the nearest engine and format of a GPU that has no room for one request, and why more GPUs do not help."""
    together = miss.recipe.tensor_parallel * miss.recipe.pipeline_parallel
    divided = (
        candidates.architecture.split_fault(miss.machine.gpus_per_instance)
        if miss.machine.gpus_per_instance > together
        else None
    )
    gpu, share = library.gpu(miss.machine.gpu), read_engines().engines[miss.recipe.framework].share
    usable = gpu.usable_gib * min(share, 1.0 - (limits.vram_headroom or 0.0))
    return NearMiss(
        job=candidates.job.name,
        what=f"{miss.machine.gpus:,} x {gpu.name}, {miss.recipe.method_label}",
        reason=f"weights and one request do not fit in {usable:.1f} GiB per GPU{f', and {divided}' if divided else ''}",
        shortfall=max(0.0, miss.shortfall_gib),
        unit="GiB",
        fix="fewer weight_bits or kv_bits, or machines of more GPUs",
    )


def _suggest_fix(evaluator: MemoryEvaluator, candidates: JobCandidates, fits_otherwise: bool) -> str:
    """Return the longest sequence, or the largest images, that would fit; else that another method does."""
    quantity, image, work = "sequence_length", candidates.architecture.image, candidates.job.work
    if image is not None:
        size = image.size(*work.image_size)
        quantity, asked, most = "resolution", size.resolution, evaluator.largest_resolution(image, size)
    else:
        asked = candidates.physics.shape.sequence
        most = longest_fitting_sequence(evaluator, asked)
    if 0 < most < asked:
        return f"{quantity} {most:,} would fit"
    cached = f", {evaluator.encoders_gib:.1f} GiB less with latents: cached" if evaluator.encoders_gib else ""
    otherwise = "other methods or counts of it fit" if fits_otherwise else f"no {quantity.replace('_', ' ')} would fit"
    return f"{otherwise}{cached}"


def longest_fitting_sequence(evaluator: MemoryEvaluator, most: int = 2**24) -> int:
    """Return the longest sequence in tokens that fits at a micro-batch of 1, a multiple of what kernels like."""
    return evaluator.longest_sequence(1, MANY_ACCUMULATION_STEPS, most) // STEP_TOKENS * STEP_TOKENS
