"""Relaxations of limits as settings that a user can type, verified by solving the changed scenario."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from planner import timetable
from planner.errors import ScenarioError
from planner.results.plan_parts import Relaxation
from planner.scenario.limits import peak_limit_at
from planner.scenario.scenario import Scenario, setting_path
from planner.solving.infeasibility.elastic_program import (
    HEADROOM,
    MAX_PRICE_AGE,
    TOOLS,
    CandidateFilter,
    ElasticProgram,
    ElasticSolution,
    SoftConstraint,
    margin_of,
)
from planner.solving.optimise_choice import ResolvedPlan, try_solve, with_settings
from planner.solving.prepare import PreparedScenario
from planner.units import DAY_HOURS

HOURS_STEP, USD_STEP, SHARE_STEP, MARGIN_STEP, CONFIDENCE_STEP = 0.01, 0.01, 0.01, 0.001, 0.01
"""New limits are rounded away from the old ones to multiples of these: they can be typed and still suffice."""
LEAST_CONFIDENCE_STEPS = 50
"""An even chance to fit in memory: below it nobody should rent a machine, and the schema has no such confidence."""
BUDGET, AMPLE_USD = "limits.budget_usd", 1e8
"""Path of the budget, and dollars that no plan costs."""
SPOT_CAP = "limits.spot_share.max"
"""Path of the largest share on spot."""
STEP_OF = {"deadline": HOURS_STEP, "max_hours": HOURS_STEP, "budget_usd": USD_STEP, "min": SHARE_STEP}
"""Steps of the limits that a policy on spot may keep with a smaller change than a mix of markets."""
MORE_HOURS = (1.5, 3.0, 10.0)
"""Times the further hours of a mix of markets that are tried where no policy on spot keeps the budget within these."""

TrySolve = Callable[[PreparedScenario], ResolvedPlan | None]


@dataclass(frozen=True)
class LimitChange:
    """One changed limit: its path in the scenario, both values, and the setting that changes it."""

    limit: str
    old: float | str
    new: float | str
    setting: str


def build_changes(found: ElasticSolution, elastic: ElasticProgram, prepared: PreparedScenario) -> list[LimitChange]:
    """Return the changes that a plan of the elastic program needs; empty if only offers have too little left.

    The VRAM margin becomes 0 here; `verify_relaxation` gives back what is not needed, as a confidence where that rules.
    """
    scenario = prepared.scenario
    filters = sorted(elastic.relaxed.filters[number] for number in found.filters)
    made = [
        extend_list(path, list(group), scenario)
        for path, group in groupby(filters, key=lambda candidate_filter: candidate_filter.path)
    ]
    exceeded = (
        constraint for constraint in elastic.soft if constraint.path in found.excess and not constraint.is_of_offer
    )
    made += [_move_limit(constraint, found.excess[constraint.path], scenario) for constraint in exceeded]
    margin = max(margin_of(job, scenario.limits, prepared.library) for job in scenario.jobs)
    return [replace(change, old=margin) if change.limit == HEADROOM else change for change in made]


def verify_relaxation(
    prepared: PreparedScenario, changes: Sequence[LimitChange], solve: TrySolve = try_solve
) -> tuple[ResolvedPlan, list[LimitChange]] | None:
    """Return the plan under the changes, and the changes with no larger amounts than it needs.

    Of memory they keep the greatest certainty that still has a plan.
    None if the changed scenario has no plan after all, or is invalid.
    """
    kept = list(changes)
    plan = _try_changes(prepared, kept, solve)
    budget = next((i for i, change in enumerate(kept) if change.limit == BUDGET), None)
    if plan is None and budget is not None:
        # The change is that of a mix of markets; a policy that guarantees its deadline may cost more.
        kept[budget] = replace(kept[budget], setting=f"{BUDGET}={AMPLE_USD:.0f}")
        free = _try_changes(prepared, kept, solve)
        new = round_up(free.late_usd, USD_STEP) if free else AMPLE_USD
        kept[budget] = replace(kept[budget], new=new, setting=f"{BUDGET}={new:.2f}")
        plan = free and _try_changes(prepared, kept, solve)
    has_spot = any(offer.has_spot for offer in prepared.market.offers)
    if plan is None and budget is None and has_spot:
        plan, kept = _with_more_hours(prepared, kept, solve)
    if plan is None:
        return None
    if budget is not None:
        plan, kept = _needed_budget(prepared, kept, budget, plan, solve)
    if has_spot:
        for place, change in enumerate(kept):
            if len(kept) == 1 or change.limit != BUDGET:
                plan, kept[place] = _least_change(prepared, kept, place, plan, solve)
    if any(change.limit == HEADROOM for change in kept):
        plan, kept = _least_memory_change(prepared, kept, plan, solve)
    return plan, kept


def _with_more_hours(
    prepared: PreparedScenario, changes: Sequence[LimitChange], solve: TrySolve
) -> tuple[ResolvedPlan | None, list[LimitChange]]:
    """Return the first plan with still later deadlines, and the changes that it needs; None without one.

    Within a budget a policy, which guarantees its deadline, may need more time than a mix of markets.
    """
    for times in MORE_HOURS:
        made = [_moved_further(change, times) for change in changes]
        if made == list(changes):
            break
        if (plan := _try_changes(prepared, made, solve)) is not None:
            return plan, made
    return None, list(changes)


def _moved_further(change: LimitChange, times: float) -> LimitChange:
    """Return a change of hours that is so many times as large, and any other as it is."""
    path, _, text = change.setting.partition("=")
    if change.limit.rpartition(".")[2] not in ("deadline", "max_hours"):
        return change
    if isinstance(change.old, str) or isinstance(change.new, str):
        return change
    new = round_up(change.old + times * (change.new - change.old), HOURS_STEP)
    return replace(change, new=new, setting=f"{path}={new:.10g}{'h' if text.endswith('h') else ''}")


def _needed_budget(
    prepared: PreparedScenario, changes: Sequence[LimitChange], place: int, plan: ResolvedPlan, solve: TrySolve
) -> tuple[ResolvedPlan, list[LimitChange]]:
    """Return the plan and the changes with the budget that it needs, without that change if the old budget suffices.

    The elastic program states the budget of a mix of markets, of which each job needs its part by itself. A policy on
    spot may cost less, and jobs on several markets need less together.
    """
    old, needed = changes[place].old, round_up(plan.late_usd, USD_STEP)
    tight = [replace(changes[place], new=needed, setting=f"{BUDGET}={needed:.2f}")] if needed > float(old) else []
    fewer = [*changes[:place], *tight, *changes[place + 1 :]]
    again = _try_changes(prepared, fewer, solve) if needed < float(changes[place].new) else None
    return (again, fewer) if again else (plan, list(changes))


def _least_memory_change(
    prepared: PreparedScenario, changes: Sequence[LimitChange], plan: ResolvedPlan, solve: TrySolve
) -> tuple[ResolvedPlan, list[LimitChange]]:
    """Return the plan and the changes with the greatest certainty that it fits in memory, by bisection.

    The certainty is the confidence that the jobs ask for, in steps of a hundredth. It is the margin where the scenario
    states one in its place, and where even an even chance is not enough.
    """
    place = next(i for i, change in enumerate(changes) if change.limit == HEADROOM)
    before, after, margin = changes[:place], changes[place + 1 :], float(changes[place].old)

    def with_margin(steps: int) -> list[LimitChange]:
        new = steps * MARGIN_STEP
        return [*before, replace(changes[place], new=new, setting=f"{HEADROOM}={new:g}"), *after]

    def with_confidence(steps: int) -> list[LimitChange]:
        return [*before, *_memory_confidences(prepared.scenario, steps * CONFIDENCE_STEP), *after]

    change, low, high = with_margin, 0, math.ceil(margin / MARGIN_STEP - 1e-9)  # low suffices, high is as it was
    if prepared.scenario.limits.vram_headroom is None and (
        even := _try_changes(prepared, with_confidence(LEAST_CONFIDENCE_STEPS), solve)
    ):
        most = max(job.memory_confidence for job in prepared.scenario.jobs)
        change, plan, low, high = (
            with_confidence,
            even,
            LEAST_CONFIDENCE_STEPS,
            math.ceil(most / CONFIDENCE_STEP - 1e-9),
        )
    while high - low > 1:
        middle = (low + high) // 2
        again = _try_changes(prepared, change(middle), solve)
        low, high, plan = (middle, high, again) if again else (low, middle, plan)
    return plan, change(low)


def _memory_confidences(scenario: Scenario, confidence: float) -> list[LimitChange]:
    """Return the changes of the jobs that ask for more than a confidence of memory."""
    new, found = round(confidence, 2), []
    for job in scenario.jobs:
        if job.memory_confidence > new:
            path = f"jobs.{job.name}.confidence.memory"
            setting = f"{setting_path(path, scenario)}={new:g}"
            found.append(LimitChange(path, job.memory_confidence, new, setting))
    return found


def _least_change(
    prepared: PreparedScenario, changes: Sequence[LimitChange], place: int, plan: ResolvedPlan, solve: TrySolve
) -> tuple[ResolvedPlan, LimitChange]:
    """Return the change of one limit that still has a plan, and its plan, by bisection in steps that can be typed.

    All other changes stay. The change is that of a mix of markets; a policy that guarantees its deadline may need less
    of a limit.
    """
    change = changes[place]
    step = STEP_OF.get(change.limit.rpartition(".")[2])
    if step is None or isinstance(change.old, str) or isinstance(change.new, str):
        return plan, change
    path, _, text = change.setting.partition("=")
    sign, unit = math.copysign(step, change.new - change.old), "h" if text.endswith("h") else ""

    def back(steps: int) -> LimitChange:
        new = round(float(change.new) - steps * sign, 2)
        return replace(change, new=new, setting=f"{path}={new:.10g}{unit}")

    low, high = 0, math.ceil(abs(change.new - change.old) / step - 1e-6)  # steps back: low suffices, high does not
    middle = min(1, high - 1)  # mostly the change is the least already
    while high - low > 1:
        if again := _try_changes(prepared, [*changes[:place], back(middle), *changes[place + 1 :]], solve):
            low, plan = middle, again
        else:
            high = middle
        middle = (low + high) // 2
    return plan, back(low) if low else change


def _try_changes(prepared: PreparedScenario, changes: Iterable[LimitChange], solve: TrySolve) -> ResolvedPlan | None:
    try:
        return solve(with_settings(prepared, [change.setting for change in changes]))
    except ScenarioError:  # values that contradict one another: no relaxation
        return None


def build_relaxations(plan: timetable.ReportedPlan, changes: Sequence[LimitChange], number: int) -> list[Relaxation]:
    """Return one relaxation as results: an entry per limit, all with the same number and the same plan."""
    most = "at most " if timetable.may_cost_less_in_turn(plan) else ""
    limits = plan.prepared.scenario.limits
    then = f"{plan.description}, {most}${plan.cost_usd:,.2f}"
    if limits.budget_usd is not None:  # all dollars of such an answer are those that a budget limits
        then = f"{plan.description}, {most}${plan.late_usd:,.2f} at {limits.budget_confidence * 100:.3g} %"
    return [
        Relaxation(
            limit=change.limit,
            change_from=change.old,
            change_to=change.new,
            then=then,
            way=number,
            setting=change.setting,
            cost_usd=plan.cost_usd,
            hours=plan.hours,
        )
        for change in changes
    ]


def _move_limit(one: SoftConstraint, excess: float, scenario: Scenario) -> LimitChange:
    """Return the change of a soft constraint to the value that suffices."""
    value, path = one.current + one.sense * excess, one.path
    unit, digits = "", ".10g"
    if path == SPOT_CAP and one.current == 0:
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
    return LimitChange(path, one.current, new, f"{setting_path(path, scenario)}={new:{digits}}{unit}")


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
