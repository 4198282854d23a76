"""What a plan would cost under other frameworks, or with less certainty that it fits in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.enumeration import candidates_of_framework
from planner.candidates.screening import screen
from planner.candidates.spot_search import BEST
from planner.configurations.recipe import frameworks_of, unnamed_frameworks
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.results.plan_parts import Option
from planner.solving.alternatives import figures_of
from planner.solving.infeasibility.relaxations import setting_path
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from planner.solving.prepare import PreparedScenario

LEAST_SURE = 0.7
"""Probability to fit below which no plan is worth naming."""
MIN_RISK_GAIN = 0.01
"""Share of the objective that a riskier plan saves at least, to be worth naming."""


def best_by_framework(prepared: PreparedScenario, job: int, gpu: str) -> tuple[Option, ...]:
    """Return the best candidate of each framework on the plan's GPU within the limits, those of the job first."""
    candidates, library = prepared.candidates[job], prepared.library
    used, profiles = frameworks_of(candidates.job, library), library.techniques.frameworks
    if candidates.job.kind == "pretrain" and len(used) == 1:
        return ()
    objective, options = CandidateObjective.of(prepared.scenario), []
    for name in (*used, *unnamed_frameworks(candidates.job, library)):
        one = candidates_of_framework(candidates, name, gpu, prepared.market, library)
        screened = screen(one, prepared.market, prepared.scenario.limits, library, True, objective.waiting_usd, BEST)
        value, share = objective.best(screened.table)
        if not len(value) or not np.isfinite(value).any():
            continue
        best = int(np.argmin(value))
        figures = figures_of(screened.table, best, float(share[best]), prepared.market)
        options.append(Option(label=profiles[name].label, allowed=name in used, prior=name not in used, **figures))
    return tuple(options)


def find_riskier(prepared: PreparedScenario, job: int, gpu: str, chosen: int, share: float) -> tuple[Option, ...]:
    """Return the best plan of the same framework and GPU that only the confidence of memory excludes, if it is cheaper.

    `chosen` is the row of the job's screened table that the plan uses, at the spot share `share`.
    """
    candidates, limits, library = prepared.candidates[job], prepared.scenario.limits, prepared.library
    table, given = prepared.screened[job].table, candidates.job.confidence_given
    taken = candidates.recipes[int(table.recipe[chosen])].framework
    if limits.vram_headroom is not None or taken not in library.techniques.frameworks or given.memory <= LEAST_SURE:
        return ()
    objective, less_sure = CandidateObjective.of(prepared.scenario), given.model_copy(update={"memory": LEAST_SURE})
    one = candidates_of_framework(candidates, taken, gpu, prepared.market, library, less_sure)
    screened = screen(one, prepared.market, limits, library, True, objective.waiting_usd, BEST)
    value, shares = objective.best(screened.table)
    reached = float(objective.values(table.rows(np.asarray([chosen])), share)[0])
    if not len(value) or not np.min(value) < reached * (1 - MIN_RISK_GAIN):
        return ()
    best = int(np.argmin(value))
    row = int(screened.rows[best])
    ways, configuration = one.physics.ways, int(one.configuration[row])
    machine = ways.machines[int(ways.machine[configuration])]
    recipe = ways.recipes[int(ways.recipe[configuration])]
    evaluator = MemoryEvaluator.of(one.job, one.physics.shape, recipe, machine, None, library, one.physics.learned)
    chance = evaluator.vram(evaluator.at(*one.batch(row))).fit_probability
    if chance >= given.memory:  # the least cost itself, which the recommended plan exceeds by a near tie
        return ()
    sure = math.floor(chance * 100) / 100
    setting = f"{setting_path(f'jobs.{one.job.name}.confidence.memory', prepared.scenario)}={sure:g}"
    figures = figures_of(screened.table, best, float(shares[best]), prepared.market)
    note = f"fits with {sure * 100:.0f} %: --set {setting}"
    return (
        Option(
            label=library.techniques.words("activation_checkpointing", recipe.activation_checkpointing),
            allowed=False,
            note=note,
            **figures,
        ),
    )
