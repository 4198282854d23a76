"""The loss that a plan states, computed again from the papers' equations: no law of the planner is used."""

from __future__ import annotations

import datetime
import math

import pytest

from planner.loading.scenario_file import change_scenario, read_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

E, A, B, ALPHA, BETA = 1.8172, 482.01, 2085.43, 0.3478, 0.3658
"""Besiroglu et al. 2024 (arXiv:2404.10102)."""
PAPERS = {"repetitions": 15.387756, "excess": 5.309743}
"""Muennighoff et al. 2023 (arXiv:2305.16264), appendix A."""


def loss_by_hand(parameters: float, tokens: float, unique: float | None, step: float) -> float:
    """Return the loss of a run: what a large step wastes first, then what repetition makes of the rest."""
    critical = 5 * 11_730 * (tokens / 1e6) ** 0.47
    learnt = tokens if step <= 2**19 else tokens * (critical + 2**19) / (critical + step)
    if unique is None:
        return float(E + A * parameters**-ALPHA + B * learnt**-BETA)
    fresh = min(unique * learnt / tokens, learnt)
    scale = (ALPHA * A / BETA / B) ** (1 / (ALPHA + BETA))
    useful = min(scale ** (1 + BETA / ALPHA) * fresh ** (BETA / ALPHA), parameters)
    of_tokens = fresh + fresh * PAPERS["repetitions"] * (1 - math.exp((1 - learnt / fresh) / PAPERS["repetitions"]))
    of_network = useful + useful * PAPERS["excess"] * (1 - math.exp((1 - parameters / useful) / PAPERS["excess"]))
    return float(E + A * of_network**-ALPHA + B * of_tokens**-BETA)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["jobs.0.unique_tokens=1e9"],
        ["jobs.0.global_batch=4096"],
        ["jobs.0.unique_tokens=300e6", "jobs.0.global_batch=4096"],
    ],
    ids=["new", "repeated", "large steps", "both"],
)
def test_the_loss_of_a_plan_is_that_of_the_papers(settings: list[str]) -> None:
    """Of data that are new, repeated, learnt in large steps, and both."""
    sizes = "jobs.0.architecture=[smollm2-360m, tinyllama-1.1b]"
    scenario = change_scenario(read_scenario("best-for-200"), [sizes, *settings])
    plan = solve(scenario, SolveOptions(as_of=datetime.date(2026, 11, 21)))
    job, asked = plan.jobs[0], scenario.jobs[0]
    assert job.model is not None and job.model.loss is not None
    step = asked.global_batch * job.sequence_length
    unique = getattr(asked, "unique_tokens", None)
    by_hand = loss_by_hand(job.model.law_parameters, job.model.tokens, unique, step)
    assert job.model.loss.value == pytest.approx(by_hand, rel=1e-9)
