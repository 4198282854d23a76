"""Frameworks that a plan is compared with: searched together as each would be alone."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.candidate_enumeration import candidates_of_frameworks
from planner.candidates.screening import screen
from planner.candidates.spot_search import BEST, BEST_OF_FRAMEWORKS
from planner.configurations.recipe import frameworks_of, unnamed_frameworks
from planner.library.reading import read_library
from planner.solving.prepare import prepare
from tests.helpers.scenarios import parse_scenario

LIBRARY = read_library(["llama-2-7b"])
SCENARIO = """
name: together
offers:
  - {provider: a, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6}
  - {provider: b, gpu: A100-80GB, gpus: 4, usd_per_hour: 6.0, spot_usd_per_hour: 2.4}
jobs:
  - {name: j, architecture: llama-2-7b, work: {tokens: 20e6}, sequence_length: 1024, global_batch: 32, deadline: 30h}
"""


@pytest.mark.slow
@pytest.mark.parametrize("deadline", ["30h", "9h"])
def test_the_best_of_each_framework_together_is_the_best_of_each_alone(deadline: str) -> None:
    """The least dollars of all candidates of a framework, policies on spot among them."""
    prepared = prepare(parse_scenario(SCENARIO, set_=(f"jobs.j.deadline={deadline}",)), LIBRARY)
    candidates, market, limits = prepared.candidates[0], prepared.market, prepared.scenario.limits
    names = (*frameworks_of(candidates.job, LIBRARY), *unnamed_frameworks(candidates.job, LIBRARY))
    every = candidates_of_frameworks(candidates, names, "A100-80GB", market, LIBRARY)
    table = screen(every, market, limits, LIBRARY, waiting_usd=0.0, scope=BEST_OF_FRAMEWORKS).table
    of_row = np.asarray([recipe.framework for recipe in every.recipes])[table.recipe]
    usd = np.minimum(table.cost_usd(table.share_low), table.cost_usd(table.share_high))
    for name in names:
        alone = candidates_of_frameworks(candidates, (name,), "A100-80GB", market, LIBRARY)
        its = screen(alone, market, limits, LIBRARY, waiting_usd=0.0, scope=BEST).table
        least = np.minimum(its.cost_usd(its.share_low), its.cost_usd(its.share_high)).min(initial=np.inf)
        assert usd[of_row == name].min(initial=np.inf) == pytest.approx(least, rel=1e-12), name
    assert np.isfinite(usd).any() and len(names) > 3
