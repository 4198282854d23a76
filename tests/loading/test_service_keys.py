"""Keys of other jobs in a service: one line each, which names the key that says the same."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.solving.solve import solve
from tests.helpers.services import SERVICE_FILE, desk


@pytest.mark.parametrize(
    ("setting", "what", "fix"),
    [
        ("jobs.desk.deadline=12h", "a service has no deadline", "latency"),
        ("jobs.desk.work.input_tokens=800", "a service has no work", "load.input_tokens instead"),
        ("jobs.desk.work.requests=1000", "a service has no work", "per_second"),
        ("jobs.desk.load=null", "is missing", "per_second: 12"),
        ("jobs.desk.stages.start=5m", "a service has no stages", "cold_start"),
        ("jobs.desk.load.profile=[1]", "a profile of 1 numbers", "24 for a day"),
        ("jobs.desk.load.per_second=[1, 2]", "a list is not the load at the peak", "24 or 168 numbers as profile"),
    ],
)
def test_each_fault_is_one_line_with_what_would_be_right(setting: str, what: str, fix: str) -> None:
    """No second fault follows from the first."""
    with pytest.raises(ScenarioError) as error:
        desk(setting)
    (fault,) = error.value.faults
    assert what in fault.what and fix in fault.fix


def test_a_missing_load_has_the_line_of_its_job() -> None:
    """The file is named with the line, and nothing else is at fault."""
    start, end = SERVICE_FILE.index("    load:"), SERVICE_FILE.index("    latency:")
    with pytest.raises(ScenarioError) as error:
        parse_scenario(SERVICE_FILE[:start] + SERVICE_FILE[end:], file="desk.yaml")
    (fault,) = error.value.faults
    assert (fault.file, fault.what) == ("desk.yaml", "is missing") and fault.line > 0


def test_a_share_of_one_is_refused_where_a_latency_is_limited() -> None:
    """Requests arrive at random: some wait longer than any limit."""
    with pytest.raises(ScenarioError, match="a share of 1: requests arrive at random"):
        solve(desk("jobs.desk.latency.share=1"))
