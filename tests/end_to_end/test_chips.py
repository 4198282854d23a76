"""Plans on accelerators other than NVIDIA's: what takes part, how it is marked, and that the audit sees it."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve

LIBRARY = read_library(["llama-3.2-1b"])

SLICES = """
jobs:
  - architecture: llama-3.2-1b
    kind: pretrain
    work: {{tokens: 2e9}}
    sequence_length: 2048
    global_batch: 256
limits: {{unmeasured: {unmeasured}}}
offers:
  - {{provider: gcp, region: us-central1, instance: slice, gpu: {gpu}, gpus: {gpus}, usd_per_hour: {usd},
     spot_usd_per_hour: {spot}, interconnect: ici, date: "2026-09-30"}}
"""


def scenario(gpu: str = "TPU-v6e", gpus: int = 16, unmeasured: str = "false", spot: str = "null") -> Scenario:
    """A pretraining job with one slice to choose from, at $2.70 per chip and hour."""
    text = SLICES.format(gpu=gpu, gpus=gpus, usd=2.7 * gpus, spot=spot, unmeasured=unmeasured)
    return parse_scenario(text)


@pytest.mark.slow
def test_a_slice_is_planned_and_audited() -> None:
    """One machine of 16 chips under MaxText, with compilation at the start, and no violation."""
    wanted = scenario()
    plan = solve(wanted)
    job = plan.jobs[0]
    assert (job.gpu, job.gpus, job.instances, job.framework) == ("TPU-v6e", 16, 1, "maxtext")
    assert not audit(plan, wanted, LIBRARY)
    assert any("an upper bound" in note for note in job.notes)
    assert any("the slice has 4 hosts" in note for note in job.notes)


@pytest.mark.slow
def test_an_unmeasured_slice_needs_leave_and_is_marked() -> None:
    """16 chips of v5e have no published run: refused with the reason, or planned with a mark and a wider range."""
    refused = solve(scenario("TPU-v5e", 16))
    assert refused.status == "infeasible"
    allowed = scenario("TPU-v5e", 16, "true")
    plan = solve(allowed)
    assert plan.jobs[0].notes[0].startswith("NOT MEASURED on TPU-v5e")
    assert not audit(plan, allowed, LIBRARY)
    found = audit(plan, scenario("TPU-v5e", 16), LIBRARY)
    assert any("limits.unmeasured" in str(one) for one in found)


@pytest.mark.slow
def test_more_hosts_are_lost_more_often() -> None:
    """A slice of four hosts has a shorter prior of up-time than one of a single host: 2 h / 4^0.8 = 0.66 h."""
    hours = {}
    for gpus in (8, 16):
        plan = solve(scenario("TPU-v6e", gpus, spot=str(0.3 * gpus)))
        spot = plan.jobs[0].spot
        assert spot is not None
        hours[gpus] = spot.mean_up_hours
    assert hours[8] == pytest.approx(2.0)
    assert hours[16] == pytest.approx(2.0 / 4**0.8)


def test_a_slice_that_is_not_sold_is_one_fault_with_its_sizes() -> None:
    """12 chips of v6e: the message names the sizes."""
    with pytest.raises(ScenarioError, match="rented as slices of 1, 4, 8, 16, 32, 64, 128 or 256 chips"):
        scenario("TPU-v6e", 12)


def test_a_chip_for_estimates_alone_is_in_no_plan() -> None:
    """No price of TPU7x was found: an own one does not make it a chip to plan with."""
    plan = solve(scenario("TPU7x", 64, "true"))
    assert plan.status == "infeasible"
