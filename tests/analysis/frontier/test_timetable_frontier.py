"""The frontier of jobs that take turns: cost against the last finish."""

from __future__ import annotations

import pytest

from planner.analysis.frontier_question import frontier_of_jobs
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario
from planner.scenario.scenario import SolveOptions
from tests.helpers.costs import AS_OF


@pytest.mark.slow
def test_a_reservation_is_worth_more_the_later_the_last_job_ends() -> None:
    """Six runs of 100 h: side by side $1,200, five in turn on a month $900 + $200, all in turn $900; all proven."""
    scenario = read_scenario("one-reservation-for-six")
    found = frontier_of_jobs(scenario, SolveOptions(as_of=AS_OF))
    assert [(round(one.hours), one.cost_usd) for one in found.points] == [(100, 1200.0), (500, 1100.0), (600, 900.0)]
    assert found.status == "optimal" and not found.exact
    assert [one.floor_usd for one in found.points] == pytest.approx([1200.0, 1100.0, 900.0])
    assert audit(found.plan(-1), scenario, read_library(["llama-2-7b"])) == []
