"""What stands beside a plan: prices out of line, and the rungs of the ladder."""

from __future__ import annotations

import datetime

import pytest

from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

AS_OF = datetime.date(2026, 11, 21)
SCENARIO = """
name: t
offers:
  - {{provider: a, region: r1, instance: i, gpu: A100-80GB, gpus: 1, usd_per_hour: 2.0, spot_usd_per_hour: {spot}}}
  - {{provider: a, region: r2, instance: i, gpu: A100-80GB, gpus: 1, usd_per_hour: 2.1, spot_usd_per_hour: 1.0}}
  - {{provider: a, region: r3, instance: i, gpu: A100-80GB, gpus: 1, usd_per_hour: 2.2, spot_usd_per_hour: 1.1}}
jobs:
  - {{name: t, architecture: llama-3.2-1b, work: {{tokens: 1e9}}, techniques: {{method: lora, weight_bits: 16}}}}
"""


@pytest.mark.long
def test_a_spot_price_out_of_line_is_used_but_named_with_the_plan_without_it() -> None:
    """A tenth of the usual spot price is probably an error of the list; the reader learns what stands behind it."""
    plan = solve(parse_scenario(SCENARIO.format(spot=0.1)), SolveOptions(as_of=AS_OF))
    (job,) = plan.jobs
    assert job.region == "r1" and job.spot_share > 0.99
    assert any("without such prices: $" in note for note in job.notes)
    usual = solve(parse_scenario(SCENARIO.format(spot=0.95)), SolveOptions(as_of=AS_OF))
    assert not any("without such prices" in note for note in usual.jobs[0].notes)


@pytest.mark.slow
def test_the_ladder_prices_methods_that_the_job_excludes_and_says_so() -> None:
    """QLoRA and full are priced under the other limits and marked; the own method costs what the plan costs."""
    (job,) = solve(parse_scenario(SCENARIO.format(spot=0.95)), SolveOptions(as_of=AS_OF)).jobs
    rungs = {rung.label: rung for rung in job.methods}
    assert set(rungs) == {"QLoRA", "LoRA", "full"}
    assert [rungs[name].allowed for name in ("QLoRA", "LoRA", "full")] == [False, True, False]
    assert rungs["QLoRA"].note == "excluded by `techniques.weight_bits`"
    assert rungs["full"].note == "excluded by `techniques.method`"
    cost = rungs["LoRA"].cost_usd
    assert cost is not None and cost - 0.01 < job.cost_usd < cost * 1.015  # the plan may wait less for 1 % more
