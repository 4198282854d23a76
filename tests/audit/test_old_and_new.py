"""Temporary: the new audit and the former one agree."""

import datetime

import pytest

from planner.audit.audit import audit as new
from planner.audit.job.audit import audit as old
from planner.loading.scenario_file import read_library, read_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.end_to_end.test_shipped_scenarios import NAMES as SCENARIOS
from tests.helpers.tampered_plans import audited_leaves, tampered

AS_OF = datetime.date(2026, 11, 21)


@pytest.mark.parametrize("name", SCENARIOS)
def test_both(name):
    scenario = read_scenario(name)
    library = read_library([job.architecture for job in scenario.jobs])
    plan = solve(scenario, SolveOptions(as_of=AS_OF), library)
    assert old(plan, scenario, library) == []
    assert new(plan, scenario, library) == []
    missed = []
    for path in audited_leaves(plan)[::5]:
        wrong = tampered(plan, path, AS_OF.isoformat())
        if path[0] != "infeasible" and wrong is not None and (not new(wrong, scenario, library)):
            missed.append((path, bool(old(wrong, scenario, library))))
    assert not missed
