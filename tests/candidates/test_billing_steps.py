"""Whole billing steps, gang by gang, and bytes that prepared data are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates.spot_candidates import on_demand_rounding_usd
from planner.estimates.work import node_group_shares, trial_work
from planner.results.plan import Assignment
from planner.solving.prepare import prepare
from planner.solving.solve import solve
from tests.helpers.stage_scenarios import CPU, RENTED, library, question, read

HOURLY = {"step_seconds": 3600}


def plan(data: dict[str, Any]) -> Assignment:
    """The audited plan of the one job."""
    return solve(read(data), library=library()).jobs[0]


def seen(hours: float, **job: Any) -> dict[str, Any]:
    """The small job as observed in whole hours, on an offer by the hour and a dearer one by the second."""
    by_hour = {**RENTED, "provider": "by-hour", "billing": HOURLY}
    by_second = {**RENTED, "provider": "by-second", "usd_per_hour": 2.05}
    return question(by_hour, by_second, measured=[{"gpu": "A100-80GB", "gpus": 1, "hours": hours}], **job)


def test_a_step_of_a_twentieth_of_the_run_is_rounded_too() -> None:
    """20.1 h at $2 in whole hours are 21 h, $42.00; by the second at $2.05 they are $41.20: the cheaper one."""
    found = plan(seen(20.1))
    assert (found.provider, round(found.cost_usd, 3)) == ("by-second", 41.205)
    assert plan(seen(20.9)).cost_usd == pytest.approx(42.0)


def test_on_demand_a_short_run_pays_the_hour_that_is_the_least() -> None:
    """4 x H100 at $17.50 an hour for about 0.2 h cost $3.50 by the second, and $17.50 with a minimum of an hour."""
    work = {"architecture": "gemma-2-2b", "work": {"tokens": 34_700_000}, "sequence_length": 512, "global_batch": 32}
    offer = {"gpu": "H100-80GB", "gpus": 4, "usd_per_hour": 17.5}
    by_hour = {**offer, "provider": "by-hour", "billing": {"minimum_hours": 1}}
    job = {"name": "j", **work, "techniques": {"method": "lora", "weight_bits": 4}}
    scenario = {"name": "x", "jobs": [job], "offers": [by_hour, {**offer, "provider": "by-second"}]}
    candidates = prepare(read(scenario)).candidates[0]
    table = candidates.table
    added, usd = on_demand_rounding_usd(table, candidates.hours, candidates.columns), table.cost_usd(0.0)
    is_by_hour = np.asarray(table.providers)[table.provider] == "by-hour"
    short = is_by_hour & (table.hours(0.0) < 1)
    assert usd[short].min() == pytest.approx(3.5, abs=0.8)
    assert (usd + added)[short] == pytest.approx(17.5)
    assert not added[~is_by_hour].any()


def test_each_gang_is_rounded_by_itself() -> None:
    """4 trials of 5 h on 2 gangs, halved once and again: 6.25 and 3.75 h are billed as 7 and 4, not as 5 and 5."""
    data = seen(5.0, trials={"count": 4, "at_once": 2, "halving": 2})
    data["offers"] = [one for one in data["offers"] if one["provider"] == "by-hour"]
    found = plan(data)
    assert found.cost_usd == pytest.approx(22.0)
    assert next(line.quantity for line in found.bill if line.item == "rounded up") == pytest.approx(1.0)


def test_hours_paid_for_are_those_that_machines_are_used() -> None:
    """The same trials use 10 h of machines, 10.1 to be sure, although the longest chain on two machines is 12.5."""
    data = seen(5.0, trials={"count": 4, "at_once": 2, "halving": 2}, confidence=0.5)
    data["offers"] = [{**RENTED, "usd_per_hour": 0.0, "committed_hours": 10.5}]
    assert plan(data).cost_usd == 0.0


def test_images_prepared_elsewhere_still_arrive() -> None:
    """200 GB of images at $0.10 per GB into the training machine, wherever they were prepared."""
    images = {"architecture": "stable-diffusion-1.5", "work": {"images": 1000, "resolution": 512}, "techniques": {}}
    fees = {"fees": {"ingress_usd_per_gb": 0.1}}
    job = {**images, "stages": {"ingest": {"raw_gb": 200, "on": "cpu"}}}
    found = plan(question({**RENTED, **fees}, {**CPU, "ram_gb": 64}, **job))
    assert next(line.usd for line in found.bill if line.item == "transfer in") > 20.0


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([None, 1.5, 2.0, 3.0]))
def test_what_gangs_are_rented_for_is_all_work_and_all_waiting(count: int, at_once: int, halving: float | None) -> None:
    """Gang by gang or in all; the first gang is rented as long as the longest chain."""
    at_once = min(at_once, count)
    shares, work = node_group_shares(count, at_once, halving), trial_work(count, at_once, halving)
    assert sum(shares) == pytest.approx(work.work + work.waiting)
    assert max(shares) == pytest.approx(work.wall) == pytest.approx(shares[0])
