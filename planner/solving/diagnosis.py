"""Why there is no plan: the smallest sets of limits to relax, near misses, and jobs that may take turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from planner import timetable
from planner.candidates.screening import screen
from planner.candidates.spot_search import MEAN_SHARES
from planner.configurations.recipe import frameworks_of, unnamed_frameworks
from planner.errors import InputError, ScenarioError
from planner.results.plan_parts import Infeasible, Relaxation
from planner.scenario.limits import peak_limit_at
from planner.scenario.scenario import Scenario, setting_path
from planner.solving.chosen import recipe_of
from planner.solving.elastic_program import (
    HEADROOM,
    ElasticProgram,
    ElasticSolution,
    RelaxedCandidates,
    relax_candidates,
)
from planner.solving.limit_changes import (
    BUDGET,
    CONFIDENCE_STEP,
    HOURS_STEP,
    MARGIN_STEP,
    SHARE_STEP,
    USD_STEP,
    LimitChange,
    build_changes,
    find_near_misses,
    round_up,
)
from planner.solving.optimise_choice import ResolvedPlan, may_take_turns, try_solve, with_settings
from planner.solving.prepare import PreparedScenario, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Relaxations of jobs that may take turns: reported with the plan of `solve`, no wider than that plan needs.
#
# A relaxation is found for jobs side by side, or in whole minutes of a timetable. `solve` may find a cheaper plan with
# its settings, and one that needs fewer GPUs or dollars.


ROOM_USD = (0.0, 0.01, 0.05)
"""Dollars above those of a plan that its budget may need: a timetable rounds each of its jobs up."""
ROOM_HOURS = 0.04
"""Two minutes: the length of a job is rounded up to a minute, and its deadline down."""
MOST_BUDGETS = 4
"""How often a budget is lowered to what the plan within it needs."""

if TYPE_CHECKING:
    Settled = tuple[timetable.ReportedPlan, list[LimitChange]]


def settle(prepared: PreparedScenario, changes: Sequence[LimitChange]) -> Settled | None:
    """Return the plan that `solve` makes of the changes, and the changes no larger than it needs; None without one."""
    settled = next(
        ((plan, made) for made in (list(changes), _roomier(changes)) if (plan := _try(prepared, made))), None
    )
    if settled is None or len(prepared.scenario.jobs) > timetable.MOST_JOBS:  # a dozen solves of a timetable
        return settled
    for path in [change.limit for change in changes]:
        settled = _without(prepared, settled, path)
    for path in [change.limit for change in settled[1]]:
        if (step := _step_of(path)) is not None:
            settled = _least_number(prepared, settled, path, step)
    for _ in range(MOST_BUDGETS):
        before, settled = settled, _least_budget(prepared, settled)
        if settled is before:
            break
    return settled


def _try(prepared: PreparedScenario, changes: Sequence[LimitChange]) -> timetable.ReportedPlan | None:
    try:
        return timetable.solve_as_asked(with_settings(prepared, [change.setting for change in changes]))
    except InputError:  # values that contradict one another: no relaxation
        return None


def _roomier(changes: Sequence[LimitChange]) -> list[LimitChange]:
    """Return the changes with later deadlines: in the whole minutes of a timetable a job may just miss its own."""
    made = list(changes)
    for change in changes:
        if change.limit.endswith(".deadline") and not isinstance(change.new, str):
            new = round(change.new + ROOM_HOURS, 2)
            made = _changed(made, change.limit, new, f"{new:g}h")
    return made


def _without(prepared: PreparedScenario, settled: Settled, path: str) -> Settled:
    """Return a relaxation without the change of one limit, if the others suffice."""
    fewer = [change for change in settled[1] if change.limit != path]
    plan = _try(prepared, fewer) if fewer else None
    return (plan, fewer) if plan else settled


def _step_of(path: str) -> float | None:
    """Return the step in which the least value of a limit is found; None for a limit that is not searched."""
    if path.startswith("limits.quota."):
        return 1.0
    peak = peak_limit_at(path)
    return None if peak is None else peak.step


def _least_number(prepared: PreparedScenario, settled: Settled, path: str, step: float) -> Settled:
    """Return a relaxation with the least multiple of a step of one limit that has a plan."""
    change = next(change for change in settled[1] if change.limit == path)
    if isinstance(change.old, str) or isinstance(change.new, str):
        return settled
    low, high = math.floor(change.old / step + 1e-6), round(change.new / step)  # high suffices, low does not
    middle = high - 1  # mostly it is the least already
    while high - low > 1:
        value = round(middle * step, 6)
        plan = _try(prepared, changes := _changed(settled[1], path, value, f"{value:.10g}"))
        low, high, settled = (low, middle, (plan, changes)) if plan else (middle, high, settled)
        middle = (low + high) // 2
    return settled


def _least_budget(prepared: PreparedScenario, settled: Settled) -> Settled:
    """Return a relaxation with the budget that its plan needs; the same where that is no smaller."""
    change = next((change for change in settled[1] if change.limit == BUDGET), None)
    for room in ROOM_USD if change is not None else ():
        needed = round_up(settled[0].late_usd + room, USD_STEP)
        if change is None or needed >= float(change.new):
            break
        if plan := _try(prepared, changes := _changed(settled[1], BUDGET, needed, f"{needed:.2f}")):
            return plan, changes
    return settled


def _changed(changes: Sequence[LimitChange], path: str, new: float, text: str) -> list[LimitChange]:
    """Return the changes with another value of one limit."""
    return [
        replace(change, new=float(new), setting=f"{change.setting.partition('=')[0]}={text}")
        if change.limit == path
        else change
        for change in changes
    ]


_SHARED_BY = 8
"""GPUs of a large machine: a global batch that they share limits no more than these."""
MAX_RELAXATIONS = 3
"""Relaxations that are reported at most."""
MAX_RELAXED_LIMITS = 4
"""Limits that a relaxation may change; more only if there is no plan otherwise."""
MAX_ADDITIONAL_LIMITS = 1
"""Limits that a later relaxation may change beyond those of the first: with more it is no help."""
MOST_JOBS_IN_TURN = 8
"""Of more jobs no timetable is solved to verify a relaxation: that of ten jobs may take 9 s, that of eight 0.6 s."""
SPLIT_SHARE = 0.5
"""Part of the only single change that a relaxation of two limits may ask of the same limit."""


def diagnose(prepared: PreparedScenario) -> Infeasible:
    """Return up to three relaxations, fewest limits first, and the candidates that come nearest to the limits.

    If jobs may take turns and no relaxation has a plan, the jobs without candidates are explained by themselves.
    """
    why = _explain(prepared, prepared)
    alone = None if why.relax else _jobs_without_candidates(prepared)
    by_themselves = None if alone is None else _explain(alone, prepared)
    return by_themselves if by_themselves and by_themselves.relax else why


def _explain(prepared: PreparedScenario, whole: PreparedScenario) -> Infeasible:
    """Return relaxations and near misses of all jobs or some of them; each relaxation is verified on `whole`."""
    limits, market, library = prepared.scenario.limits, prepared.market, prepared.library
    relaxed = relax_candidates(prepared)
    others = _other_frameworks(prepared, try_solve)
    others += _larger_batch(prepared, try_solve)
    relaxations = [*others, *verified_relaxations(prepared, relaxed, try_solve, MAX_RELAXATIONS - len(others))]
    verified = enumerate(settle_all(whole, relaxations), 1)
    within = next((plan for plan, changes in relaxations if [change.limit for change in changes] == [BUDGET]), None)
    # A near miss is a mix of both markets, whose shares can be moved. A relaxation must not reuse these candidates:
    # its plan is that of `solve`, with policies.
    mixes = tuple(screen(candidate, market, limits, library, scope=MEAN_SHARES) for candidate in prepared.candidates)
    return Infeasible(
        relax=tuple(
            relaxation
            for number, (plan, changes) in verified
            for relaxation in build_relaxations(plan, changes, number)
        ),
        nearest=find_near_misses(replace(prepared, screened=mixes), relaxed, within),
    )


def _jobs_without_candidates(prepared: PreparedScenario) -> PreparedScenario | None:
    """Return a scenario of the jobs without candidates; None if all or no jobs are, or if jobs cannot take turns."""
    scenario = prepared.scenario
    barren = [
        job for job, candidates in zip(scenario.jobs, prepared.screened, strict=True) if not len(candidates.table)
    ]
    if not 0 < len(barren) < len(scenario.jobs) <= MOST_JOBS_IN_TURN or not may_take_turns(prepared):
        return None
    jobs = tuple(job.model_copy(update={"after": ()}) for job in barren)
    return prepare(scenario.model_copy(update={"jobs": jobs}), prepared.library, may_be_slim=False)


def settle_all(
    prepared: PreparedScenario, relaxations: Sequence[tuple[ResolvedPlan, list[LimitChange]]]
) -> list[Settled]:
    """Return relaxations with the plans that `solve` makes of them: jobs that may take turns need less then.

    Of more than `MOST_JOBS` jobs in turn one relaxation is enough, because each is another timetable.
    """
    kept: list[Settled] = []
    for plan, changes in relaxations:
        settled = _settled(prepared, plan, changes)
        if settled is not None and not any(asks_no_less(settled[1], before) for _, before in kept):
            kept.append(settled)
            if isinstance(settled[0], timetable.TimetablePlan) and len(prepared.scenario.jobs) > timetable.MOST_JOBS:
                break
    return kept


def _settled(prepared: PreparedScenario, plan: ResolvedPlan, changes: list[LimitChange]) -> Settled | None:
    """Return a relaxation as `solve` makes it of all jobs; it was found for all of them side by side, or for some."""
    jobs = prepared.scenario.jobs
    if len(plan.prepared.scenario.jobs) < len(jobs):
        return settle(prepared, [_in_scenario(change, prepared.scenario) for change in changes])
    in_turn = len(jobs) <= MOST_JOBS_IN_TURN and may_take_turns(plan.prepared)
    return settle(prepared, changes) if in_turn else (plan, changes)


def _in_scenario(change: LimitChange, scenario: Scenario) -> LimitChange:
    """Return a change with its setting as a scenario of further jobs reads it: some jobs are given by their index."""
    if not change.limit.startswith("jobs."):
        return change
    return replace(change, setting=f"{setting_path(change.limit, scenario)}={change.setting.partition('=')[2]}")


def verified_relaxations(
    prepared: PreparedScenario, relaxed: RelaxedCandidates, solve: TrySolve, most: int = MAX_RELAXATIONS
) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """Return plan and changes of each smallest relaxation that `solve` confirms, at most `most`."""
    relaxations: list[tuple[ResolvedPlan, list[LimitChange]]] = []
    for elastic, solution in elastic_solutions(relaxed):
        verified = verify_relaxation(prepared, build_changes(solution, elastic, prepared), solve)
        if verified is not None and not any(asks_no_less(verified[1], changes) for _, changes in relaxations):
            relaxations.append(verified)
        if len(relaxations) == most:
            break
    split = _split_trials(prepared, solve) if len(relaxations) < most else []
    relaxations = [*relaxations, *split] or _reduce_concurrency(prepared, solve)
    return relaxations if split or len(relaxations) >= most else [*relaxations, *_split_trials(prepared, _try_in_turn)]


def asks_no_less(later: Sequence[LimitChange], earlier: Sequence[LimitChange]) -> bool:
    """Return whether a relaxation changes every limit that an earlier one changes, and none of them by less."""
    by_limit = {change.limit: change for change in later}
    return all(change.limit in by_limit and _moves_as_far(by_limit[change.limit], change) for change in earlier)


def _moves_as_far(change: LimitChange, other: LimitChange) -> bool:
    """Return whether a change of a limit is the same as another or larger."""
    old, new = change.old, change.new
    if isinstance(old, str) or isinstance(new, str) or isinstance(other.new, str):
        return new == other.new
    return abs(new - old) >= abs(other.new - old)


def _other_frameworks(prepared: PreparedScenario, solve: TrySolve) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """Return the plan with other frameworks within all limits, which is tried before any limit; empty if there is none.

    The profiles that take part by themselves come first, and those that rest on priors after them.
    """
    scenario, library = prepared.scenario, prepared.library
    profiles = library.techniques.frameworks
    for has_priors in (False, True):
        changes = []
        for job in scenario.jobs:
            used = frameworks_of(job, library)
            if more := [name for name in unnamed_frameworks(job, library) if has_priors or profiles[name].takes_part]:
                path, names = f"jobs.{job.name}.framework", ", ".join((*used, *more))
                setting = f"{setting_path(path, scenario)}=[{','.join((*used, *more))}]"
                changes.append(LimitChange(path, ", ".join(used), names, setting))
        verified = verify_relaxation(prepared, changes, solve) if changes else None
        if verified is not None:
            return [(verified[0], _needed_frameworks(verified[0], changes, scenario))]
    return []


def _larger_batch(prepared: PreparedScenario, solve: TrySolve) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """Return the plan with the least multiple of a job's global batch that more GPUs can share; empty if there is none.

    A batch of three sequences is one that three GPUs share: files of tools state that of one GPU.
    """
    scenario = prepared.scenario
    for job in scenario.jobs:
        batch = job.global_batch
        if not job.trains or not isinstance(batch, int) or batch % _SHARED_BY == 0:
            continue
        path = f"jobs.{job.name}.global_batch"
        for times in (2, 4, _SHARED_BY):
            setting = f"{setting_path(path, scenario)}={times * batch}"
            verified = verify_relaxation(prepared, [LimitChange(path, batch, times * batch, setting)], solve)
            if verified is not None:
                return [verified]
    return []


def _needed_frameworks(plan: ResolvedPlan, changes: list[LimitChange], scenario: Scenario) -> list[LimitChange]:
    """Return the changes of the jobs whose plan uses a new framework, each with that framework alone."""
    kept = []
    for job, candidates, row in zip(scenario.jobs, plan.prepared.candidates, plan.rows, strict=True):
        name = recipe_of(candidates, row).framework
        change = next((change for change in changes if change.limit == f"jobs.{job.name}.framework"), None)
        if change is not None and name not in str(change.old).split(", "):
            kept.append(replace(change, new=name, setting=f"{change.setting.partition('=')[0]}={name}"))
    return kept


def _split_trials(prepared: PreparedScenario, solve: TrySolve) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """Return the plan whose trials are jobs of their own, which moves no limit; empty if there is none.

    Trials at once want machines of one kind at one time: each may also run on what there is, when there is room.
    """
    scenario = prepared.scenario
    for job in scenario.jobs:
        if job.trials.at_once > 1 and job.trials.halving is None:
            path = f"jobs.{job.name}.trials"
            setting = f"{setting_path(path, scenario)}={{count: {job.trials.count}, split: true}}"
            split = LimitChange(f"{path}.split", f"{job.trials.at_once} at once", "split: true", setting)
            verified = verify_relaxation(prepared, [split], solve)
            if verified is not None:
                return [verified]
    return []


def _try_in_turn(prepared: PreparedScenario) -> ResolvedPlan | None:
    """Return the plan of jobs too many for one time, if they may take turns: `settle_all` solves when each runs."""
    return try_solve(prepared, side_by_side=False) if may_take_turns(prepared) else None


def _reduce_concurrency(prepared: PreparedScenario, solve: TrySolve) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """Return the plan with the most trials at a time that need few enough machines; empty if there is none."""
    scenario = prepared.scenario
    for job in scenario.jobs:
        path = f"jobs.{job.name}.trials.at_once"
        for fewer in range(job.trials.at_once - 1, 0, -1):
            change = LimitChange(path, job.trials.at_once, fewer, f"{setting_path(path, scenario)}={fewer}")
            verified = verify_relaxation(prepared, [change], solve)
            if verified is not None:
                return [verified]
    return []


def elastic_solutions(relaxed: RelaxedCandidates) -> Iterator[tuple[ElasticProgram, ElasticSolution]]:
    """Yield plans of the elastic program by the sets of limits that they relax, fewest limits and least change first.

    Sets are tried by size, so the first plan relaxes as few limits as possible. A limit that suffices alone is left
    out of the larger sets, and a set that holds one with a plan is skipped: no set that is yielded holds another.
    """
    elastic = ElasticProgram.of(relaxed)
    if elastic.solve(elastic.relaxable_paths) is None:
        elastic = ElasticProgram.of(relaxed, len(relaxed.filters))
    known: list[ElasticSolution] = []
    for size in range(1, MAX_RELAXED_LIMITS + 1):
        if known and size > len(known[0].paths) + MAX_ADDITIONAL_LIMITS:
            break
        sufficient = {next(iter(known_solution.paths)) for known_solution in known if len(known_solution.paths) == 1}
        left = [path for path in elastic.relaxable_paths if path not in sufficient]
        if elastic.solve(left) is None:
            break
        solutions = [
            solution
            for paths in combinations(left, size)
            if not any(known_solution.paths <= set(paths) for known_solution in known)
            and (solution := elastic.solve(paths)) is not None
            and solution.paths
        ]
        for solution in sorted(solutions, key=lambda solution: (solution.change, solution.cost)):
            if not any(known_solution.paths <= solution.paths for known_solution in known):
                known.append(solution)
                yield elastic, solution
    if not known:
        # Many limits at once: still better than no relaxation. Memory to spare is given up only if nothing else helps.
        paths = elastic.relaxable_paths
        last = elastic.solve([path for path in paths if path != HEADROOM]) or elastic.solve(paths)
        if last is not None and last.paths:
            yield elastic, last
    if len(known) == 1 and len(known[0].paths) == 1:
        yield from ((elastic, solution) for solution in _split_relaxation(elastic, known[0]))


def _split_relaxation(elastic: ElasticProgram, only: ElasticSolution) -> list[ElasticSolution]:
    """Return the relaxation that changes the only necessary limit at most half as far, and one more limit."""
    (path,) = only.paths
    if path not in only.excess:
        return []
    half = {path: only.change * SPLIT_SHARE}
    solutions = [elastic.solve((path, other), half) for other in elastic.relaxable_paths if other != path]
    feasible = [solution for solution in solutions if solution is not None]
    return [min(feasible, key=lambda solution: (solution.change, solution.cost))] if feasible else []


# Relaxations verified by solving the changed scenario, with no larger changes than the plan needs.


LEAST_CONFIDENCE_STEPS = 50
"""An even chance to fit in memory: below it nobody should rent a machine, and the schema has no such confidence."""
AMPLE_USD = 1e8
"""Dollars that no plan costs."""
STEP_OF = {"deadline": HOURS_STEP, "max_hours": HOURS_STEP, "budget_usd": USD_STEP, "min": SHARE_STEP}
"""Steps of the limits that a policy on spot may keep with a smaller change than a mix of markets."""
MORE_HOURS = (1.5, 3.0, 10.0)
"""Times the further hours of a mix of markets that are tried where no policy on spot keeps the budget within these."""


TrySolve = Callable[[PreparedScenario], ResolvedPlan | None]


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
    new, changes = round(confidence, 2), []
    for job in scenario.jobs:
        if job.memory_confidence > new:
            path = f"jobs.{job.name}.confidence.memory"
            setting = f"{setting_path(path, scenario)}={new:g}"
            changes.append(LimitChange(path, job.memory_confidence, new, setting))
    return changes


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
    if limits.budget_usd is not None:
        likely = f"likely {most}${plan.cost_usd:,.2f}{_scarce(plan)}, "
        likely = likely if f"{plan.cost_usd:,.2f}" != f"{plan.late_usd:,.2f}" else ""
        then = f"{plan.description}, {likely}{most}${plan.late_usd:,.2f} at {limits.budget_confidence * 100:.3g} %"
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


def _scarce(plan: timetable.ReportedPlan) -> str:
    """Return what a plan on spot costs where little capacity appears, where that is much more."""
    usd = plan.scarce_usd if isinstance(plan, ResolvedPlan) else None
    return "" if usd is None else f" (up to ${usd:,.2f} if little spot capacity appears)"
