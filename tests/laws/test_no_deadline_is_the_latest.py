"""A job without a deadline never costs more than with a very late one, whatever its jobs share and wait for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.bare_plans import bare_plan
from tests.helpers.stage_scenarios import AS_OF, JOB, RENTED, library, read

OPTIONS = SolveOptions(as_of=AS_OF, time_limit_seconds=20)
VERY_LATE = "150d"
"""Later than any of the drawn timetables may have to end."""
OWN = {"gpu": "A100-80GB", "gpus": 1, "own": {"power_watts": 500, "usd_per_kwh": 0.3}}
BUY = {"purchase_usd": 20000, "residual_share": 0.5, "usd_per_kwh": 0.18, "power_watts": 500}
SPOT = {"spot_usd_per_hour": 0.7, "spot": {"availability": 0.6, "mean_up_hours": 5}}


def job_of(**more: Any) -> dict[str, Any]:
    """A run of a drawn length on one A100."""
    return {**JOB, "confidence": 0.5, **more}


def of_hours(hours: float) -> dict[str, Any]:
    return {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": hours}]}


def nightly(opens: int, length: int, every: int) -> list[dict[str, str]]:
    return [{"from": f"{opens}h", "to": f"{opens + length}h", "every": f"{every}h"}]


def sometimes(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=choices)


HOURS = st.sampled_from([0.7, 3.3, 6.01, 10.0, 20.0])
WEIGHTS = {"checkpoints": {"count": 1, "contents": "weights"}}
JOBS = st.builds(
    lambda hours, more: job_of(**of_hours(hours), **more),
    HOURS,
    sometimes(
        release=st.sampled_from(["1h", "30h"]),
        stages=st.just(WEIGHTS),
        trials=st.just({"count": 2, "at_once": 1}),
        confidence=st.sampled_from([0.9]),
    ),
)
MACHINES = st.one_of(
    st.builds(
        lambda stock, more: {**OWN, "stock": stock, **more},
        st.sampled_from([1, 1, 2]),
        sometimes(
            available=st.one_of(
                st.builds(nightly, st.integers(0, 12), st.sampled_from([7, 10, 11]), st.sampled_from([12, 24])),
                st.just([{"from": "100h", "to": "160h"}]),
            )
        ),
    ),
    st.builds(lambda more: {**RENTED, "stock": 1, **more}, sometimes(lead_hours=st.sampled_from([40.0]))),
    st.just({**RENTED, **SPOT, "stock": 1}),
    st.just({"gpu": "A100-80GB", "gpus": 1, "stock": 1, "buy": BUY}),
    st.just({"gpu": "A100-80GB", "gpus": 1, "stock": 1, "block": {"start": "50h", "end": "90h", "usd": 1}}),
    st.just({**RENTED, "usd_per_hour": 2.2}),
)
LIMITS = sometimes(
    max_gpus=st.just(1),
    max_usd_per_hour=st.just(3.0),
    budgets=st.sampled_from(
        [[{"per": "day", "usd": 25}], [{"per": "week", "usd": 40}], [{"from": "0h", "to": "100h", "usd": 1}]]
    ),
)


Rows = list[dict[str, Any]]


def solved(jobs: Rows, offers: Rows, limits: dict[str, Any], **more: Any) -> Plan | None:
    """The plan, proven; None where the scenario says itself what is wrong with it, or the time was too short."""
    named = [{**job, "name": "abc"[place], **more} for place, job in enumerate(jobs)]
    sold = [{**one, "provider": f"p{place}"} for place, one in enumerate(offers)]
    asked: dict[str, Any] = {"name": "s", "jobs": named, "offers": sold, "limits": limits, "solve": {"ties": 0}}
    if any("buy" in one for one in sold):
        asked["horizon"] = {"months": 36, "hours_per_month": 200}
    try:
        found = bare_plan(read(asked), OPTIONS, library())
    except ScenarioError:
        return None
    return found if found.status in ("optimal", "infeasible") else None


THREE = [job_of(**of_hours(20.004), confidence=0.9)] * 3
TEN = [job_of(**of_hours(6), stages=WEIGHTS)] * 3
NIGHTS = {**OWN, "stock": 1, "available": nightly(0, 10, 24)}


@pytest.mark.long
@settings(max_examples=12, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(THREE, [{**OWN, "stock": 1}], {})  # each run is rounded up to a minute of its own
@example(THREE, [{**OWN, "stock": 1}, RENTED], {})
@example(THREE, [{"gpu": "A100-80GB", "gpus": 1, "stock": 1, "buy": BUY}, RENTED], {})  # bought, it is idle nowhere
@example(TEN, [{**NIGHTS, "available": nightly(0, 7, 24)}, {**RENTED, "usd_per_hour": 9.0}], {})  # one run a night
@example(TEN[:2], [RENTED], {"budgets": [{"from": "0h", "to": "200h", "usd": 1}]})  # what is spent waits for its end
@example(TEN[:2], [{**RENTED, **SPOT, "stock": 1}], {})
@given(st.lists(JOBS, min_size=2, max_size=3), st.lists(MACHINES, min_size=1, max_size=2), LIMITS)
def test_no_deadline_costs_no_more_than_a_very_late_one(jobs: Rows, offers: Rows, limits: dict[str, Any]) -> None:
    """Every plan keeps its audit too, or `solve` would have raised."""
    free, late = solved(jobs, offers, limits), solved(jobs, offers, limits, deadline=VERY_LATE)
    if free is None or late is None or late.status == "infeasible":
        return
    assert free.status == "optimal"
    assert free.objective is not None and late.objective is not None
    assert free.objective <= late.objective + 0.02


def test_own_machines_of_two_regions_have_a_stock_each() -> None:
    """One at home and one in the office: two runs start at once."""
    pair = [{**OWN, "provider": "lab", "region": where, "stock": 1} for where in ("home", "office")]
    two = [{**job_of(**of_hours(20)), "name": name, "deadline": "30h"} for name in "ab"]
    found = solve(read({"name": "s", "jobs": two, "offers": pair}), OPTIONS, library())
    assert [job.start_at_hours for job in found.jobs] == [0.0, 0.0]
    assert {job.region for job in found.jobs} == {"home", "office"}


def test_a_service_with_windows_needs_no_pauses() -> None:
    """It is open by day, trains in the first window, and has no machine that could pause."""
    service = {"architectures": ["tinyllama-1.1b"], "method": "full", "usd_per_million_tokens": 0.05}
    sold = {"provider": "s", "managed": service, "available": nightly(0, 11, 24)}
    found = solve(read({"name": "s", "jobs": [JOB], "offers": [sold, RENTED]}), OPTIONS, library())
    assert found.status == "optimal"


def test_only_own_machines_that_may_be_used_stand_idle() -> None:
    """Neither one that the limits forbid nor one that would be bought."""
    home, office = ({**OWN, "provider": "lab", "region": where, "stock": 1} for where in ("home", "office"))
    bought = {"provider": "shop", "gpu": "A100-80GB", "gpus": 1, "stock": 1, "buy": BUY}
    two = [{**job_of(**of_hours(20)), "name": name} for name in "ab"]
    asked = {"name": "s", "jobs": two, "offers": [home, office, bought], "limits": {"regions": {"forbid": ["office"]}}}
    found = solve(read({**asked, "horizon": {"months": 36, "hours_per_month": 200}}), OPTIONS, library())
    assert set(found.idle_hours) == {"lab/home/1x-a100-80gb"}
