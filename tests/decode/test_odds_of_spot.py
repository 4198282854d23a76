"""What plans on spot without a policy say of the luck of their market."""

from __future__ import annotations

import re

import planner
from planner.report.plan_text import render
from planner.results.odds import FIXED_SHARE
from tests.independent.spot_odds import OPTIONS, scenario_of

SPOT = "spot_usd_per_hour: 0.2, date: 2026-11-20, spot: {availability: 0.5, mean_up_hours: 6}"
MACHINE = "provider: a, instance: x, gpu: RTX4090, gpus: 1"


def test_dollars_of_fixed_shares_are_told_with_the_luck_of_the_market() -> None:
    """Half of the time there are no machines: far fewer runs than asked for keep the dollars of a mean market."""
    offers, share = f"  - {{{MACHINE}, usd_per_hour: 0.5, {SPOT}}}\n", "{spot_share: {min: 0.3, max: 0.6}}"
    plan = planner.solve(scenario_of(offers, [(6e7, 19.0)], share), options=OPTIONS)
    (note,) = (one for one in plan.jobs[0].notes if one.startswith(FIXED_SHARE))
    told = re.search(r"(\d+) % of runs cost no more, 90 % no more than \$([\d.]+)", note)
    assert told is not None
    assert 40 < int(told[1]) < 80
    assert plan.jobs[0].cost_at_confidence < float(told[2]) < 0.5 * 10
    assert re.search(r"^ *Spot +fixed share of spot", render(plan), re.MULTILINE)


def test_a_run_on_demand_has_no_such_note() -> None:
    plan = planner.solve(scenario_of(f"  - {{{MACHINE}, usd_per_hour: 0.5}}\n", [(6e7, 19.0)]), options=OPTIONS)
    assert not any(one.startswith(FIXED_SHARE) for one in plan.warnings)
