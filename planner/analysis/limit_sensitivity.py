"""What a plan could be changed by: the smallest relaxation of each limit that pays, and what articles recommend."""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.analysis.why_not import answer_query, parse_query
from planner.arrays import ON_DEMAND, Floats
from planner.candidates.screening import CandidateObjective
from planner.documents.validation import meant_name
from planner.errors import Fault, InputError, ScenarioError, raise_faults
from planner.formulation.program import cost_objective
from planner.library.engines import published_techniques
from planner.library.schema import Library
from planner.loading.price_files import read_earlier_day
from planner.loading.question import Asked, as_scenario
from planner.results.explanation import Binding, Explanation, Finding, LimitSensitivity, PastCost, TechniqueAnswer
from planner.scenario.offer import Offer, offer_labels
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import find_best_alternatives, without_demand
from planner.solving.binding_limits import find_binding_limits, lift_limits
from planner.solving.diagnosis import diagnose, verify_relaxation
from planner.solving.elastic_program import (
    HOURS_LEFT_OF,
    STOCK_OF,
    WITHOUT_LIST,
    ElasticProgram,
    RelaxedCandidates,
    indicator_row,
    relax_candidates,
)
from planner.solving.limit_changes import HOURS_STEP, SPOT_CAP, UNITS, build_changes, limit_key, round_up
from planner.solving.notes import NO_FALLBACK
from planner.solving.optimise_choice import ResolvedPlan, takes_turns, try_solve
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import find_cut_samples, lack_of_ways, solve
from planner.subjects import check_supported, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator


# The smallest relaxation of each limit at which another plan is better.


CENT_USD = 0.005
"""Dollars that are no difference on the screen."""
GOAL_TOLERANCE = 1e-9
"""Relative and absolute, by which a plan may miss the goal: sums in another order round differently."""


@dataclass(frozen=True)
class Baseline:
    """The plan of a scenario, the candidates with relaxed limits, and the objective from which on a plan is better."""

    plan: ResolvedPlan
    relaxed: RelaxedCandidates

    @cached_property
    def elastic(self) -> ElasticProgram:
        """The elastic program, built once for all limits."""
        return ElasticProgram.of(self.relaxed)

    @property
    def goal(self) -> float:
        """The objective that a better plan reaches."""
        objective = CandidateObjective.of(self.plan.prepared.scenario)
        return self.plan.objective - objective.min_gain(self.plan.objective)

    @property
    def caps(self) -> list[tuple[Floats, float]]:
        """The goal as rows of the elastic program: dollars of all jobs, or the late hours of each."""
        columns, prepared = self.elastic.columns, self.plan.prepared
        if prepared.scenario.objective_kind != "time":
            return [(cost_objective(columns), self.goal)]
        late_hours, jobs = columns.late_hours(), range(len(prepared.candidates))
        return [(late_hours * indicator_row(columns, columns.table.job == job), self.goal) for job in jobs]

    def try_better(self, prepared: PreparedScenario) -> ResolvedPlan | None:
        """Return the plan of a changed scenario if it reaches the goal."""
        plan = try_solve(prepared)
        reached = self.goal * (1 + GOAL_TOLERANCE) + GOAL_TOLERANCE
        return plan if plan is not None and plan.objective <= reached else None


def limit_sensitivities(baseline: Baseline, binding: tuple[Binding, ...]) -> tuple[LimitSensitivity, ...]:
    """Return the smallest relaxation of each limit that gives a better plan; limits that gain nothing say so.

    Only limits in `binding` can gain: the others are not solved for. The default of the longest run is left out
    unless it binds.
    """
    scenario = baseline.plan.prepared.scenario
    bound = {constraint.limit for constraint in binding}
    bound |= {SPOT_CAP} if "limits.spot" in bound else set()  # `spot: false` is this cap at 0
    unset = set() if scenario.limits.max_hours is not None else {"limits.max_hours"} - bound
    sensitivities = []
    for path in baseline.elastic.relaxable_paths:
        can_gain = path in WITHOUT_LIST or any(path == limit or path.startswith(f"{limit}.") for limit in bound)
        if path not in unset:
            sensitivities.append(_smallest_relaxation(baseline, path) if can_gain else _no_effect(path, scenario))
    return (*sensitivities, *_scarce_offers(baseline))


def _smallest_relaxation(baseline: Baseline, path: str) -> LimitSensitivity:
    """Return the least change of one limit that reaches the goal; of a list the one value that saves most."""
    elastic, prepared = baseline.elastic, baseline.plan.prepared
    is_list = (
        any(candidate_filter.path == path for candidate_filter in elastic.relaxed.filters) and path not in WITHOUT_LIST
    )
    solution = elastic.solve((path,), caps=baseline.caps, one_value=is_list)
    changes = build_changes(solution, elastic, prepared) if solution else []
    verified = verify_relaxation(prepared, changes, baseline.try_better) if solution else None
    if verified is None:
        return _no_effect(path, prepared.scenario)
    better, (change, *_) = timetable.as_solved(verified[0]), verified[1]
    return LimitSensitivity(
        worth=UNITS.get(limit_key(change.limit), "choice"),
        limit=change.limit,
        change_from=change.old,
        change_to=change.new,
        setting=change.setting,
        note=_note(better, baseline.plan),
        **_compare(better, baseline.plan),
    )


def _note(better: timetable.ReportedPlan, plan: ResolvedPlan) -> str:
    """Return why a better objective shows in no dollars, or that the dollars are an upper bound.

    A plan may exceed its least cost by a near tie. Of more than `MOST_JOBS` jobs no timetable is solved.
    """
    if timetable.may_cost_less_in_turn(better):
        return "at most: with jobs in turn it may cost less"
    if better.prepared.scenario.has_plain_dollars and better.cost_usd > plan.cost_usd - CENT_USD:
        return "only the least cost falls: among near ties another plan is preferred (solve.ties: 0 takes the cheaper)"
    return ""


def _no_effect(path: str, scenario: Scenario) -> LimitSensitivity:
    current = next((lift_limit.current for lift_limit in lift_limits(scenario) if lift_limit.path == path), None)
    if path.startswith("limits.quota."):
        current = scenario.limits.quota.get(path.removeprefix("limits.quota."))
    is_ban = path == SPOT_CAP and scenario.limits.spot_share.max == 0
    return LimitSensitivity(
        worth=UNITS.get(limit_key(path), "choice"),
        limit="limits.spot" if is_ban else path,
        change_from=current,
        note="no effect at any value",
    )


def _scarce_offers(baseline: Baseline) -> Iterator[LimitSensitivity]:
    """Yield the offers that have too few machines or paid hours for a better plan; no setting changes that."""
    elastic, prepared = baseline.elastic, baseline.plan.prepared
    solution = elastic.solve(elastic.offer_paths, caps=baseline.caps) if elastic.offer_paths else None
    if solution is None:
        return
    needed = {
        constraint.path: float(round(most)) if constraint.path.startswith(STOCK_OF) else round_up(most, HOURS_STEP)
        for constraint, most in elastic.shortages(solution)
    }

    def with_enough(offer: Offer, label: str) -> Offer:
        fields = {STOCK_OF: "stock", HOURS_LEFT_OF: "committed_hours"}
        enough = {field: needed[kind + label] for kind, field in fields.items() if kind + label in needed}
        return offer.model_copy(update=enough) if enough else offer

    offers = prepared.scenario.offers
    update = {"offers": tuple(map(with_enough, offers, offer_labels(offers)))}
    better = baseline.try_better(prepare(prepared.scenario.model_copy(update=update), prepared.library, prepared))
    if better is None:
        return
    reported = timetable.as_solved(better)
    for soft, _ in elastic.shortages(solution):
        is_stock = soft.path.startswith(STOCK_OF)
        yield LimitSensitivity(
            worth="gpu" if is_stock else "hour",
            limit=soft.path,
            change_from=soft.current,
            change_to=needed[soft.path],
            note=f"{'machines' if is_stock else 'hours'} that the offer would have to have",
            **_compare(reported, baseline.plan),
        )


def _compare(better: timetable.ReportedPlan, plan: ResolvedPlan) -> dict[str, Any]:
    """Return what a better plan is and what it gains."""
    return {
        "plan": better.description,
        "cost_usd": better.cost_usd,
        "hours": better.hours,
        "delta_usd": better.cost_usd - plan.cost_usd,
        "delta_hours": better.hours - plan.hours,
        "gain": plan.objective - better.objective,
    }


# What the plan would have cost at the prices that the price book has of a week and of a month ago.


SPANS_DAYS = (7, 30)
"""How long ago; prices of a day up to twice as long ago count, and the answer names their day."""


def past_costs(plan: ResolvedPlan, today: datetime.date) -> tuple[PastCost, ...]:
    """Return what the best plan on the same machines would have cost then, without the budget.

    Nothing of a day on which the book lacks the price of one of the machines.
    """
    places = [
        int(candidate.table.offer[row]) for candidate, row in zip(plan.prepared.candidates, plan.rows, strict=True)
    ]
    offers = [plan.prepared.market.offers[place] for place in dict.fromkeys(places)]
    if plan.prepared.scenario.adjust or not all(offer.rents_gpus for offer in offers):
        return ()
    costs = []
    for days in SPANS_DAYS:
        then = [_earlier(offer, today - datetime.timedelta(days), days) for offer in offers]
        known = [past for past in then if past is not None]
        if len(known) == len(then):
            cost = _cost_with(plan, tuple(offer for _, offer in known))
            if cost is not None:
                costs.append(PastCost(days_ago=days, date=min(day for day, _ in known), cost_usd=cost))
    return tuple(costs)


def _earlier(offer: Offer, day: datetime.date, span_days: int) -> tuple[datetime.date, Offer] | None:
    """Return the day of the newest prices up to `day`, and the offer at them; None where the book has none."""
    try:
        stored = read_earlier_day(offer.provider, day, day - datetime.timedelta(span_days))
    except InputError:  # a damaged book is reported where it is planned with
        return None
    if stored is None:
        return None
    same = [stored_offer for stored_offer in stored[1] if _machine(stored_offer) == _machine(offer)]
    if not same:
        return None
    prices = {"usd_per_hour": same[0].usd_per_hour, "spot_usd_per_hour": same[0].spot_usd_per_hour}
    return stored[0], offer.model_copy(update=prices)


def _machine(offer: Offer) -> tuple[object, ...]:
    return offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus, offer.community


def _cost_with(plan: ResolvedPlan, offers: tuple[Offer, ...]) -> float | None:
    """Return the dollars of the best plan with these offers and no other rented GPUs; None without one."""
    scenario = plan.prepared.scenario
    others = tuple(offer for offer in scenario.offers if not offer.rents_gpus and offer.managed is None)
    limits = scenario.limits.model_copy(update={"budget_usd": None})
    then = scenario.model_copy(update={"offers": (*offers, *others), "limits": limits})
    solved = try_solve(prepare(then, plan.prepared.library))
    return None if solved is None else solved.cost_usd


# Explain a scenario: which limits bind, what else was there, why not X, or why there is no plan.


def explain(
    scenario: Asked, why_not: str | None = None, options: SolveOptions | None = None, library: Library | None = None
) -> Explanation:
    """Explain why the plan of a scenario is as it is, or why there is none.

    Parameters
    ----------
    why_not
        An alternative such as `gpu=RTX4090,method=full`: then only this question is answered, next to the plan.
        Keys are job, gpu, gpus, provider, region, instance, offer, market and the techniques of a job.
    options
        The solver and its limits.
    library
        Cards and coefficients; the shipped ones if None.

    Raises
    ------
    ScenarioError
        For a `why_not` that names something unknown.
    NoPlanError
        If the search stops at a limit of `options` without a plan.
    LibraryError, SolverError
        As `solve` does.

    Examples
    --------
    >>> planner.explain("quickstart", why_not="gpu=RTX4090").why_not is not None
    True
    """
    scenario = as_scenario(scenario)
    started = perf_counter()
    scenario = scenario.on_day(options.as_of if options else None)
    if (subject := subject_of(scenario)) is not None:
        return subject.explain(scenario, why_not, options, library)
    prepared = prepare(scenario, library)
    if why_not is None and (lack := lack_of_ways(scenario, options, prepared.library)) is not None:
        return _summary(prepared, None).model_copy(update={**dict(lack), "seconds": perf_counter() - started})
    prepared = without_demand(prepared)
    query = parse_query(why_not, scenario, prepared.library) if why_not is not None else None
    if takes_turns(prepared, options or SolveOptions()):
        explained = timetable.explain_over_time(prepared, query, options or SolveOptions())
        return explained.model_copy(update={"seconds": perf_counter() - started})
    if query is not None and query.times:
        problem, fix = (
            "asks when a job runs, and these run at once",
            "ask it of jobs that share machines or GPUs and take turns",
        )
        raise_faults([Fault(f"--why-not {why_not}", 0, next(iter(query.times)), problem, fix)], ScenarioError)
    plan = try_solve(prepared, options or SolveOptions())
    explanation = _summary(prepared, plan)
    if query is not None:
        details: dict[str, object] = {"why_not": answer_query(prepared, plan, query)}
    else:
        today = (options or SolveOptions()).as_of or datetime.date.today()
        details = dict(diagnose(prepared)) if plan is None else _explain_plan(plan, today)
    return explanation.model_copy(update={**details, "seconds": perf_counter() - started})


def _summary(prepared: PreparedScenario, plan: ResolvedPlan | None) -> Explanation:
    scenario, cut = prepared.scenario, find_cut_samples(prepared)
    if plan is None:
        return Explanation(scenario=scenario.name, status="infeasible", objective=scenario.objective_kind, cut=cut)
    return Explanation(
        cut=cut,
        compared_by=CandidateObjective.of(scenario).formula,
        scenario=scenario.name,
        status="optimal" if plan.proven else "feasible",
        objective=scenario.objective_kind,
        plan=plan.description,
        cost_usd=plan.cost_usd,
        hours=plan.hours,
        hours_at_confidence=plan.late_hours,
        notes=_notes(plan),
    )


def _notes(plan: ResolvedPlan) -> tuple[str, ...]:
    """Return a note on jobs that run on spot alone: no hours are certain there."""
    names = plan.chosen.jobs
    spot_only = [names[row] for row in np.flatnonzero(np.isnan(plan.chosen.run_h[:, ON_DEMAND]))]
    whose = f" for {', '.join(spot_only)}" if spot_only and len(names) > 1 else ""
    note = f"spot only{whose}: {NO_FALLBACK}"
    return (note,) if spot_only else ()


def _explain_plan(plan: ResolvedPlan, today: datetime.date) -> dict[str, object]:
    binding = find_binding_limits(plan)
    return {
        "binding": binding,
        "next_steps": limit_sensitivities(Baseline(plan, relax_candidates(plan.prepared)), binding),
        "alternatives": find_best_alternatives(plan),
        "past_costs": past_costs(plan, today),
    }


# What published work found on a technique that articles recommend, and what it would bring the jobs of a scenario.


OF_DATA = ("caching", "prefetching")
"""Techniques whose gain follows from what the plan reads."""
LORA_SEQUENCES = 32
"""Sequences per step from which on LoRA was seen to lose more than full fine-tuning."""


def explain_technique(
    scenario: Asked, technique: str, options: SolveOptions | None = None, library: Library | None = None
) -> TechniqueAnswer:
    """Return what published work found on a technique, and whether the program decides it, and where.

    Of caching and prefetching the scenario is solved: the answer holds what each job of its plan reads.

    Raises
    ------
    ScenarioError
        For an unknown technique.
    NoPlanError
        If there is no plan within the limits of `options`.

    Examples
    --------
    >>> planner.explain_technique(planner.read_scenario("quickstart"), "larger_batch").technique
    'larger_batch'
    """
    scenario = as_scenario(scenario)
    known = published_techniques()
    technique = meant_name(technique, known, "--technique", "nothing is known of")
    entry = known[technique]
    paths = {}
    if technique in OF_DATA:
        check_supported(scenario, "technique")
        plan = solve(scenario, options, library)
        paths = {job.name: job.data_path for job in plan.jobs if job.data_path is not None}
    findings = tuple(Finding(**{key: asdict(fact)[key] for key in Finding.model_fields}) for fact in entry.found)
    return TechniqueAnswer(
        scenario=scenario.name,
        technique=technique,
        decides=entry.decides,
        why=entry.why,
        where=entry.where,
        found=findings,
        data_paths=paths,
        notes=tuple(_finding_notes(scenario, technique)),
    )


def _finding_notes(scenario: Scenario, technique: str) -> Iterator[str]:
    """Yield what the answer means for the jobs of the scenario."""
    for job in scenario.jobs:
        if technique == "larger_batch" and job.trains and isinstance(job.global_batch, int):
            of = "a step, as given"
            if job.kind == "finetune" and job.global_batch > LORA_SEQUENCES:
                of += f"; runs of LoRA that were measured keep to {LORA_SEQUENCES}"
            yield f"{job.name}: {job.global_batch:,} sequences or images {of}"
        if technique == "from_scratch" and job.kind != "pretrain":
            yield f"{job.name} starts from a pretrained model: kind: pretrain asks for the other"
