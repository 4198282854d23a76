"""Several jobs that train the best models for one budget: ladders, refined until the least sum of losses is proven."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from planner.candidate_table import CandidateTable
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.screening import CandidateObjective, screen
from planner.formulation.program import SharedLimits
from planner.library.schema import Library
from planner.open_choices.choice_alternatives import (
    EQUAL_LOSS,
    ONLY_DOLLARS,
    Alternative,
    best_of,
    known_range,
    least_late_usd,
    list_alternatives,
    tokens_at,
)
from planner.open_choices.choice_ladder import (
    Ladder,
    Step,
    dollars_alone,
    least_sum,
    least_sum_of_losses,
    shares_machines,
)
from planner.open_choices.decision import MORE_MONEY, Decision, by_model, least_start
from planner.results.chosen_model import ModelOption, MoreMoney
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, decide, decide_scenario, open_jobs
from planner.solvers.registry import run
from planner.solving.optimise_choice import Run
from planner.solving.prepare import PreparedScenario, build_shared_limits, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SUM_TOLERANCE = 0.001
"""Nats by which the sum of losses may be above the least one: a fiftieth of what published laws differ by."""
MORE_MONEY_TOLERANCE = 0.005
"""The same of what more money would buy, of which two decimals are of interest."""


@dataclass(frozen=True)
class Together:
    """All jobs of a scenario: the ladders of each open one, and the candidates of those whose work is given."""

    names: tuple[str, ...]  # of the open jobs, in the order of `alternatives`
    alternatives: tuple[tuple[Alternative, ...], ...]
    ladders: tuple[tuple[Ladder, ...], ...]
    fixed: tuple[CandidateTable, ...]
    shared: SharedLimits
    run: Run
    first: PreparedScenario  # with some model of each open job, without policies on spot

    def prepared(self, scenario: Scenario, decisions: Mapping[str, Decision]) -> PreparedScenario:
        """Return the candidates of the scenario with what was decided; what is known of the models is kept."""
        chosen = {name: decision.alternative.candidates for name, decision in decisions.items()}
        known = zip(scenario.jobs, self.first.candidates, strict=True)
        candidates = tuple(chosen.get(job.name) or first for job, first in known)
        return prepare(scenario, self.first.library, replace(self.first, candidates=candidates))

    def at_budget(self, budget_usd: float | None) -> Together:
        """Return the same jobs with another budget and with first ladders for it; what was solved is kept."""
        shared = replace(self.shared, budget_usd=budget_usd)
        ladders = tuple(
            tuple(Ladder(ladder.alternative, shared, ladder.tables) for ladder in each) for each in self.ladders
        )
        return replace(self, shared=shared, ladders=ladders)

    def first_rungs(self) -> None:
        """Make the first ladders for the budget."""
        budget_usd, ladders = self.shared.budget_usd, self.ladders
        left = (math.inf if budget_usd is None else budget_usd) - sum(map(least_late_usd, self.fixed))
        for ladder in (ladder for each in ladders for ladder in each):
            ladder.start(left)
        least = [min(ladder.least_usd for ladder in each) for each in ladders]
        if math.isfinite(sum(least)):
            for each, own in zip(ladders, least, strict=True):
                for ladder in each:
                    ladder.extend(left - sum(least) + own)

    def in_turns(self) -> Together:
        """Return the same jobs where they need not run at one time: no limit on what runs at one time holds."""
        shared = self.shared.in_turns()
        ladders = tuple(tuple(Ladder(ladder.alternative, shared) for ladder in each) for each in self.ladders)
        return replace(self, shared=shared, ladders=ladders)

    def budget_of(self, step: Step) -> float:
        """Return the most dollars that the job of a step may cost: what the others need at least is not its own."""
        budget = math.inf if self.shared.budget_usd is None else self.shared.budget_usd
        others = [each for each in self.ladders if step.ladder not in each]
        return (
            budget - sum(map(least_late_usd, self.fixed)) - sum(min(ladder.least_usd for ladder in o) for o in others)
        )

    def search(self, tolerance: float) -> Found | None:
        """Return the models and tokens of the least sum of losses, proven to a tolerance; None where there are none."""
        if shares_machines(self.shared) or self.shared.budget_usd is None:
            return self._search_ladders(tolerance)
        fixed = [least_late_usd(table) for table in self.fixed]
        left = self.shared.budget_usd - sum(fixed)
        found = least_sum_of_losses(self.alternatives, left, tolerance) if left > 0 else None
        if found is None:
            return None
        if found.above_least > tolerance:  # whole billing steps leave gaps in the dollars: a program proves more
            return self._search_ladders(tolerance)
        usd = [point.curve.usd[point.place] for point in found.points]
        points = [Trained(point.curve.alternative, point.tokens) for point in found.points]
        return Found((*points, *(Trained() for _ in fixed)), found.loss, found.above_least, (*usd, *fixed))

    def _search_ladders(self, tolerance: float) -> Found | None:
        """Refine the ladders where a finer one may pay, until the least sum of losses is proven to a tolerance."""
        self.first_rungs()
        while True:
            best = least_sum(self.ladders, self.fixed, self.shared, self.run, bound=False)
            low = least_sum(self.ladders, self.fixed, self.shared, self.run, bound=True)
            if best is None or low is None:
                return None
            middles = [(step, step.middle) for step in low.steps if step.ladder is not None and step.middle is not None]
            if best.loss - low.loss <= tolerance or not middles:
                return Found(tuple(map(Trained.at, best.steps)), best.loss, max(0.0, best.loss - low.loss), best.usd)
            for step, middle in middles:
                if step.ladder is not None and middle is not None:
                    step.ladder.split(middle, self.budget_of(step))


@dataclass(frozen=True)
class Trained:
    """A model and its tokens at the reference batch; None for a job whose work is given."""

    alternative: Alternative | None = None
    tokens: int | None = None

    @classmethod
    def at(cls, step: Step) -> Self:
        """Return what a rung stands for."""
        return cls() if step.ladder is None else cls(step.ladder.alternative, step.tokens)


@dataclass(frozen=True)
class Found:
    """What every job trains, the sum of losses, by how much it may be above the least one, and dollars."""

    steps: tuple[Trained, ...]
    loss: float
    above_least: float
    usd: tuple[float, ...]


def together(scenario: Scenario, library: Library, options: SolveOptions) -> Together:
    """Return the models of all open jobs of a scenario, and the candidates of the others, on one market."""
    jobs = open_jobs(scenario)
    first = [decide(job, architectures_of(job)[0], job.batches[0], 1) for job in jobs]
    prepared = prepare(decide_scenario(scenario, *first), library, with_policies=False)
    shared = build_shared_limits(prepared.scenario, prepared.market)
    alternatives = tuple(tuple(list_alternatives(scenario, job, library, prepared)) for job in jobs)
    known: dict[str, Alternative] = {}
    for alternative in (alternative for each in alternatives for alternative in each):
        if (first_one := known.setdefault(alternative.essence, alternative)) is not alternative:
            alternative.share(first_one)
    names = tuple(job.name for job in jobs)
    return Together(
        names=names,
        alternatives=alternatives,
        ladders=tuple(tuple(Ladder(alternative, shared) for alternative in each) for each in alternatives),
        fixed=tuple(
            _fixed(prepared, place, shared) for place, job in enumerate(scenario.jobs) if job.name not in names
        ),
        shared=shared,
        run=partial(run, solver=options.solver, time_limit_seconds=options.time_limit_seconds),
        first=prepared,
    )


def _fixed(prepared: PreparedScenario, place: int, shared: SharedLimits) -> CandidateTable:
    """Return what dollars and machines leave of the candidates of a job whose work is given."""
    scenario, limits = prepared.scenario, prepared.scenario.limits
    job, names = scenario.jobs[place], [job.name for job in scenario.jobs]
    margins = Margins(limits.vram_headroom, limits.budget_confidence)
    architecture = prepared.library.architecture(job.architecture)
    found = enumerate_candidates(
        *(job, architecture, prepared.market, names, prepared.library, margins), before=prepared.candidates[place]
    )
    waiting_usd = CandidateObjective.of(scenario).waiting_usd
    table = screen(found, prepared.market, limits, prepared.library, waiting_usd=waiting_usd, scope=ONLY_DOLLARS).table
    return dollars_alone(table, shared)


def decide_together(jobs: Together, least: float | None = None) -> dict[str, Decision]:
    """Return for each open job what to train, of the least sum of losses that the budget of all jobs pays for.

    `least` is what the sum of losses is known not to be below, where that is more than the search itself proves.
    """
    budget = jobs.shared.budget_usd
    asked = jobs.at_budget(budget)
    found = asked.search(SUM_TOLERANCE)
    if found is None:
        return least_starts(asked, least)
    if least is not None:
        found = replace(found, above_least=max(found.above_least, found.loss - least))
    more = asked.at_budget(budget * MORE_MONEY).search(MORE_MONEY_TOLERANCE) if budget is not None else None
    return dict(_decisions(asked, found, more, None if budget is None else budget * MORE_MONEY))


def _decisions(
    asked: Together, found: Found, more: Found | None, more_usd: float | None
) -> Iterator[tuple[str, Decision]]:
    """Yield name and decision of each open job."""
    others = [None] * len(found.steps) if more is None else more.steps
    for step, better, usd in zip(found.steps, others, found.usd, strict=True):
        if step.alternative is None or step.tokens is None:
            continue
        one, each = step.alternative, _models(asked, step.alternative)
        money = None
        if better is not None and better.alternative is not None and better.tokens is not None and more_usd is not None:
            its = better.alternative
            money = MoreMoney(
                budget_usd=more_usd,
                architecture=its.architecture.name,
                tokens=better.tokens,
                loss=its.loss(better.tokens),
            )
        yield (
            one.job.name,
            Decision(
                *(one, step.tokens, len(each)),
                options=_as_good(asked, step, usd),
                more_money=money,
                is_capped=step.tokens == tokens_at(known_range(one)[1]),
                vocabularies=len({other.architecture.vocab for other in each}),
                above_least=found.above_least,
            ),
        )


def _models(asked: Together, one: Alternative) -> tuple[Alternative, ...]:
    """Return all models of the job of one."""
    return next(each for each in asked.alternatives if any(other is one for other in each))


def _as_good(asked: Together, step: Trained, usd: float) -> tuple[ModelOption, ...]:
    """Return the other models that reach the loss of a step within `EQUAL_LOSS` for its dollars.

    Where jobs share machines too, dollars do not say what a job may rent: none is named.
    """
    one = step.alternative
    if one is None or step.tokens is None or shares_machines(asked.shared):
        return ()
    loss = one.loss(step.tokens)
    near = [other for other in best_of(_models(asked, one), usd * (1 + 1e-9)) if other.loss <= loss + EQUAL_LOSS]
    return by_model(near, one.architecture.name)


def least_starts(asked: Together, least: float | None) -> dict[str, Decision]:
    """Return for each job the run that costs least; if they take turns they may be feasible where no others are."""
    starts = {each[0].job.name: least_start(each) for each in asked.alternatives}
    if least is None:
        return starts
    above = least_sum_of(starts) - least
    return {name: replace(start, above_least=max(0.0, above)) for name, start in starts.items()}


def least_sum_of(decisions: Mapping[str, Decision]) -> float:
    """Return what the sum of losses is proven not to be below."""
    losses = [
        decision.alternative.loss(decision.tokens) for decision in decisions.values() if decision.tokens is not None
    ]
    return sum(losses) - max(decision.above_least or 0.0 for decision in decisions.values())


def least_sum_near(jobs: Together, times: float) -> float:
    """Return what the sum of losses is not below where the search finds nothing, though there is a plan.

    The search counts dollars on mean markets: within so many times the budget it misses no plan. Without that, nothing
    is below the losses of the longest runs that the law has seen.
    """
    budget = jobs.shared.budget_usd
    found = None if budget is None else jobs.at_budget(times * budget).search(MORE_MONEY_TOLERANCE)
    if found is not None:
        return found.loss - found.above_least
    longest = [[(one, known_range(one)) for one in each] for each in jobs.alternatives]
    return sum(min(one.loss(tokens_at(last)) for one, (first, last) in each if first <= last) for each in longest)
