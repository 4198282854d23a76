"""What plans on fixed shares of spot state of the luck of their market."""

from __future__ import annotations

import numpy as np
import pytest

import planner
from tests.independent.spot_odds import OPTIONS, scenario_of

SPOT = "spot_usd_per_hour: 0.2, date: 2026-11-20, spot: {availability: 0.5, mean_up_hours: 6}"
MACHINE = "provider: a, instance: x, gpu: RTX4090, gpus: 1"


def test_figures_of_fixed_shares_have_the_luck_of_the_market() -> None:
    """Half of the time there are no machines: the figures at 90 % are those of nine of ten drawn runs."""
    offers, share = f"  - {{{MACHINE}, usd_per_hour: 0.5, {SPOT}}}\n", "{spot_share: {min: 0.3, max: 0.6}}"
    plan = planner.solve(scenario_of(offers, [(6e7, 19.0)], share), options=OPTIONS)
    (job,) = plan.jobs
    usd, hours = np.ravel(job.usd_of_runs), np.ravel(job.hours_of_runs)
    assert job.spot is None
    assert 0.3 <= job.spot_share <= 0.6
    assert float(np.mean(usd <= job.cost_at_confidence)) == pytest.approx(0.9, abs=0.02)
    assert float(np.mean(hours <= job.hours.at_confidence)) == pytest.approx(0.9, abs=0.02)
    assert job.deadline_probability is not None
    assert job.deadline_probability >= 0.9


def test_a_run_on_demand_has_no_luck() -> None:
    plan = planner.solve(scenario_of(f"  - {{{MACHINE}, usd_per_hour: 0.5}}\n", [(6e7, 19.0)]), options=OPTIONS)
    assert plan.jobs[0].usd_of_runs == ()


def test_a_market_that_changes_between_two_looks_is_noted() -> None:
    """Machines stay for six minutes and a run looks for them every five: what this costs is no part of the policy."""
    spot = "spot_usd_per_hour: 0.2, date: 2026-11-20, spot: {availability: 0.6, mean_up_hours: %s}"
    notes = []
    for hours in (0.1, 2):
        offers = f"  - {{{MACHINE}, usd_per_hour: 0.5, {spot % hours}}}\n"
        (job,) = planner.solve(scenario_of(offers, [(2e7, 60.0)]), options=OPTIONS).jobs
        assert job.spot is not None
        notes.append([note for note in job.notes if "looks for them every 5 minutes" in note])
    (note,), none = notes
    assert not none
    assert "spot machines stay for 6 minutes on average" in note
