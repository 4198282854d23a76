"""The least dollars of a model over its tokens, on a market with spot: their bound, and how few places are priced."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from planner.arrays import SPOT
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario, read_scenario
from planner.open_choices.choice_alternatives import LEAST_LATE, ONLY_DOLLARS, least_late_usd, list_alternatives
from planner.open_choices.open_jobs_together import SUM_TOLERANCE, Curve, Together, together
from planner.scenario.scenario import SolveOptions, architectures_of, open_jobs
from planner.solving.prepare import prepare
from tests.helpers.frozen_data import ROOT
from tests.helpers.open_scenarios import OPEN

SHIPPED = ROOT / "scenarios/choices/two-models-one-budget.yaml"


@cache
def shipped() -> Together:
    """Return the jobs of the shipped scenario."""
    scenario = read_scenario(SHIPPED)
    library = read_library([name for job in scenario.jobs for name in architectures_of(job)])
    return together(scenario, library, SolveOptions()).in_turns()


@pytest.mark.slow
def test_the_least_dollars_are_those_of_the_search_of_a_plan() -> None:
    """One policy is priced where a plan compares those of every method and place: no other costs less."""
    for one in shipped().alternatives[0][1:3]:
        for tokens in (2 * 10**9, 20 * 10**9):
            least = least_late_usd(one.dollar_table(tokens, LEAST_LATE))
            assert least == pytest.approx(least_late_usd(one.dollar_table(tokens, ONLY_DOLLARS)), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [2e9, 5.7e9, 9e9, 21e9])
def test_dollars_further_on_are_no_less_than_their_bound(tokens: float) -> None:
    """From one number of tokens on, on spot and on demand; and the bound is close."""
    one = shipped().alternatives[0][2]
    first = one.rise(round(tokens))
    for factor in (1.002, 1.05, 1.4, 3.0):
        more = round(tokens * factor)
        bound = float(first.along(np.asarray([more - round(tokens)]))[0])
        usd = one.rise(more).usd
        assert bound <= usd
        assert bound > 0.8 * usd


@pytest.mark.long
def test_few_places_are_priced_for_several_jobs() -> None:
    """Jobs with the same models share their dollars, and places are added where the answer may lie."""
    jobs = shipped()
    found = jobs.search(SUM_TOLERANCE)
    assert found is not None and found.above_least <= SUM_TOLERANCE
    general, corpus = jobs.alternatives
    assert all(one.costs is other.costs for one, other in zip(general, corpus, strict=True))
    assert sum(len(one.rises) for one in general) < 0.01 * sum(len(Curve.of(one).tokens) for one in general)


@pytest.mark.slow
def test_whole_billing_steps_bound_dollars_from_below_too() -> None:
    """An hour that is begun is paid: the next token may cost nothing, but no line is above the bill."""
    scenario = parse_scenario(OPEN.replace('source: "ill', 'billing: {step_seconds: 3600}, source: "ill'))
    (job,) = open_jobs(scenario)
    one = list_alternatives(scenario, job, read_library(architectures_of(job)))[1]
    curve = Curve.of(one)
    curve.price(900)
    lower = curve.lower()
    for place in (905, 940, 1100, 1300):
        assert lower[place] <= one.least_usd(int(curve.tokens[place])) + 1e-9
    assert lower[1300] > 1.5 * lower[900]


@pytest.mark.slow
def test_candidates_without_policies_are_not_reused_for_a_plan() -> None:
    """A comparison leaves policies on spot out; a plan of the very same job needs them."""
    one = shipped().alternatives[0][0]
    scenario = one.definite(10**10)
    bare = prepare(scenario, one.library, with_policies=False)
    assert not bare.screened[0].spot
    full = prepare(scenario, one.library, bare)
    assert full.screened[0].spot
    assert np.isfinite(full.screened[0].table.run_usd[:, SPOT]).any()
