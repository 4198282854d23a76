"""What one more GiB is worth: the least memory per GPU with which a better way fits, and on which card."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.results.explanation import LimitSensitivity
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.resolve import ResolvedPlan, try_solve

if TYPE_CHECKING:
    from planner.analysis.explain.baseline import Baseline
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario

MAX_GIB = 48.0
"""More than this per GPU is another card."""
STEP_GIB = 0.1
MIN_GAIN = 0.02
"""Share of the objective that memory must save to be told: it is not had for a cent."""


def memory_sensitivity(now: Baseline) -> LimitSensitivity:
    """The least addition to the cards' memory at which another plan is better, in steps of 0.1 GiB."""
    prepared = now.prepared
    nothing = LimitSensitivity(worth="gib", limit="memory per GPU", note=f"nothing up to {MAX_GIB:g} GiB more")
    vast = prepare(prepared.scenario, _with_more_memory(prepared.library, None, MAX_GIB))
    if _solve_if_better(now, vast) is None:
        return nothing
    cards = _promising_cards(now, vast)
    scenario = _restrict_to_gpus(prepared, cards, now.trial)

    def tried(steps: int) -> ResolvedPlan | None:
        return _solve_if_better(now, prepare(scenario, _with_more_memory(prepared.library, cards, steps * STEP_GIB)))

    low, high = 0, round(MAX_GIB / STEP_GIB)
    found = tried(high)
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        other = tried(middle)
        low, high, found = (low, middle, other) if other is not None else (middle, high, found)
    return _build_step(now, found, high * STEP_GIB) if found is not None else nothing


def _build_step(now: Baseline, trial: ResolvedPlan, more: float) -> LimitSensitivity:
    before = {name: card.usable_gib for name, card in now.prepared.library.gpus.items()}
    named = [
        (name, float(one.table.fit_gib[row]))
        for one, row in zip(trial.prepared.candidates, trial.rows, strict=True)
        if (name := trial.prepared.market.gpus[int(one.table.offer[row])]) in before  # a service has no card
    ]
    card = next((name for name, need in named if need > before[name]), named[0][0])
    return LimitSensitivity(
        worth="gib",
        limit=f"memory of {card}",
        change_from=before[card],
        change_to=round(before[card] + more, 1),
        plan=trial.description,
        cost_usd=trial.cost_usd,
        hours=trial.hours,
        delta_usd=trial.cost_usd - now.trial.cost_usd,
        delta_hours=trial.hours - now.trial.hours,
        gain=now.trial.objective - trial.objective,
        note=f"{more:.1f} GiB more per GPU",
    )


def _solve_if_better(now: Baseline, prepared: PreparedScenario) -> ResolvedPlan | None:
    trial = try_solve(prepared)
    goal = min(now.goal, now.trial.objective * (1 - MIN_GAIN))
    return trial if trial is not None and trial.objective <= goal else None


def _with_more_memory(library: Library, cards: set[str] | None, more_gib: float) -> Library:
    """The library with more memory on some cards (None: on all)."""
    gpus = {
        name: card.model_copy(update={"usable_gib": card.usable_gib + more_gib, "vram_gib": card.vram_gib + more_gib})
        if cards is None or name in cards
        else card
        for name, card in library.gpus.items()
    }
    return library.model_copy(update={"gpus": gpus})


def _promising_cards(now: Baseline, vast: PreparedScenario) -> set[str]:
    """Cards that with memory in plenty would serve some job better than its present way does."""
    found: set[str] = set()
    for job, one in enumerate(vast.screened):
        mine = now.trial.chosen.rows(np.asarray([job]))
        share = np.asarray([now.trial.shares[job]])
        reached = float(now.measure.values(mine, share)[0])
        values = now.measure.best(one.table)[0]
        found |= {vast.market.gpus[int(offer)] for offer in np.unique(one.table.offer[values < reached])}
    return found


def _restrict_to_gpus(prepared: PreparedScenario, cards: set[str], trial: ResolvedPlan) -> Scenario:
    """The scenario with the offers of some cards, and those that the present plan uses."""
    used = {prepared.market.labels[int(offer)] for offer in trial.chosen.offer}
    labels = dict(zip(prepared.market.labels, prepared.market.offers, strict=True))
    kept = {offer.label for label, offer in labels.items() if label in used}
    offers = tuple(
        offer
        for offer in prepared.scenario.offers
        if not offer.rents_gpus or prepared.library.gpu(offer.card).name in cards or offer.label in kept
    )
    return prepared.scenario.model_copy(update={"offers": offers})
