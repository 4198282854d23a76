"""What-if, sweeps and tornado of a service agree with solve, and what costs dollars never costs less."""

from __future__ import annotations

import itertools

import pytest

from planner.analysis.what_if_question import sweep, tornado, what_if
from planner.report.what_if_text import render_sweep, render_tornado, render_what_if
from planner.results.plan import Plan
from planner.solving.solve import solve
from tests.helpers.services import desk

DEARER = ("jobs.desk.load.per_second=30", "jobs.desk.latency.tpot=25ms", "limits.gpus.forbid=[L40S]")
"""More load, a tighter limit, fewer kinds."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of the service."""
    return solve(desk())


@pytest.mark.long
def test_settings_that_are_valid_together_alone_have_no_effect_of_each(plan: Plan) -> None:
    """Requests in flight in place of those a second: either alone is a contradiction, and both are compared."""
    settings = ["jobs.desk.load.per_second=null", "jobs.desk.load.concurrent=60"]
    found = what_if(desk(), settings)
    assert found.effects == () and found.before.services[0].fleet == plan.services[0].fleet
    assert found.after.services[0].fleet == solve(desk(*settings)).services[0].fleet


@pytest.mark.long
@pytest.mark.parametrize("setting", DEARER)
def test_what_if_agrees_with_solve_and_asking_for_more_never_costs_less(setting: str, plan: Plan) -> None:
    """Both sides are the plans of solve; a dearer scenario costs no less than what is proven of the other."""
    found = what_if(desk(), [setting])
    after = solve(desk(setting))
    assert found.before.services[0].fleet == plan.services[0].fleet
    assert found.after.services[0].fleet == after.services[0].fleet
    assert found.after.objective is not None and plan.bound is not None
    assert found.after.objective >= plan.bound * (1 - 1e-9)
    (one,) = found.services
    assert one.usd_per_month == pytest.approx(
        after.services[0].fleet.usd_per_month - plan.services[0].fleet.usd_per_month
    )
    text = render_what_if(found)
    assert "a month" in text.split("\n")[0] and all(len(line) <= 80 for line in text.split("\n"))


@pytest.mark.slow
def test_the_first_line_says_what_the_dollars_buy() -> None:
    """More dollars buy a faster answer, fewer give it up."""
    text = " ".join(render_what_if(what_if(desk(), ["jobs.desk.latency.tpot=25ms"])).split())
    assert "more a month" in text and "buys" in text and "per token instead of" in text


@pytest.mark.long
def test_two_settings_share_the_difference() -> None:
    """The shares of both add up to the whole."""
    found = what_if(desk(), ["jobs.desk.load.per_second=30", "jobs.desk.replicas.min=4"])
    shares = [one.share.cost_usd for one in found.effects]
    assert None not in shares and sum(one or 0.0 for one in shares) == pytest.approx(found.delta.cost_usd)
    assert render_what_if(found).count("of the +$") == 2


@pytest.mark.long
def test_nothing_changes_and_no_plan_are_said() -> None:
    """A limit that binds nothing changes nothing; one that nothing keeps says what could."""
    same = what_if(desk(), ["limits.max_gpus=500"])
    assert same.unchanged and "nothing changes" in render_what_if(same)
    none = render_what_if(what_if(desk(), ["jobs.desk.latency.tpot=1ms"]))
    assert "infeasible after the change" in none and "--set jobs.desk.latency.tpot=" in none


@pytest.mark.long
def test_a_sweep_has_the_dollars_of_a_month_and_replicas_of_every_value() -> None:
    """Each cell is the plan of solve; more load never costs less than the bound of less load."""
    found = sweep(desk(), ["jobs.desk.load.per_second=10:30:10"])
    costs = [one.services[0].usd_per_month for one in found.cells]
    alone = solve(desk("jobs.desk.load.per_second=30"))
    assert costs[-1] == pytest.approx(alone.services[0].fleet.usd_per_month)
    assert all(more >= less * 0.99 for less, more in itertools.pairwise(costs))
    text = render_sweep(found)
    assert "a month" in text and "replicas" in text and all(len(line) <= 80 for line in text.split("\n"))


@pytest.mark.long
def test_a_tornado_moves_load_latency_and_prices() -> None:
    """Load, the time per token and the prices of the fleet have bars of their own."""
    found = tornado(desk("limits.gpus.allow=[L40S, H100-80GB]"))
    paths = {bar.path for bar in found.bars}
    assert {"jobs.desk.load.per_second", "jobs.desk.latency.tpot", "jobs.desk.replicas.min"} <= paths
    more = next(bar for bar in found.bars if bar.path == "jobs.desk.load.per_second")
    assert more.up.cost_usd is not None and more.down.cost_usd is not None and more.up.cost_usd > more.down.cost_usd
    assert "largest effect" in render_tornado(found)
