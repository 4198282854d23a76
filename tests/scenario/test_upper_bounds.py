"""Figures that are no price of anything are slips of the keyboard, and told as such before a solver meets them."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario
from tests.helpers.stage_scenarios import RENTED, asked, planned, question, read

HUGE = {
    "offers.0.usd_per_hour": "1e300",
    "offers.0.spot_usd_per_hour": "1e10",
    "offers.0.fees.egress_usd_per_gb": "1e300",
    "offers.0.commitment": "{months: 1, upfront_usd: 1e40}",
    "adjust": "[{usd_per_hour_factor: 1e300}]",
    "limits.budget_usd": "1e300",
    "objective": "{value_of_time_usd_per_hour: 1e200}",
    "jobs.0.techniques.penalty_usd": "{lora: 1e200}",
    "jobs.0.data_gb": "1e300",
    "jobs.0.stages.transfer.egress_usd_per_gb": "1e99",
    "jobs.0.stages.ingest.raw_gb": "1e99",
    "offers.0.max_nodes": "1000000000000000000",
    "offers.0.gpus": "1000000000",
    "offers.0.stock": "1000000000",
    "offers.0.network_gbps": "1e300",
    "limits.max_gpus": "1000000000",
    "limits.max_hours": "1e300",
    "limits.quota": "{p: 1000000000}",
    "jobs.0.global_batch": "1024000000",
    "jobs.0.sequence_length": "1000000000",
    "jobs.0.trials": "1000000000",
    "jobs.0.work": "{samples: 5, tokens_per_sample: 9, epochs: 1e308}",
    "jobs.0.deadline": "1e300h",
    "jobs.0.lora": "{rank: 1000000000}",
    "jobs.0.stages.checkpoints": "{count: 1000000000}",
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "value"), HUGE.items(), ids=HUGE)
def test_a_figure_beyond_all_reason_is_refused(path: str, value: str) -> None:
    """One fault at the figure, with the most that it may be."""
    with pytest.raises(ScenarioError) as caught:
        change_scenario(asked(), [f"{path}={value}"])
    (fault,) = caught.value.faults
    assert fault.where.startswith(path) and fault.fix
    assert "is out of range; must be at most" in str(fault)


@pytest.mark.parametrize("own", [{"power_watts": 1e14, "usd_per_kwh": 1.0}, {"power_watts": 1, "usd_per_kwh": 1.0}])
def test_an_own_machine_has_a_price_that_can_be_reckoned_with(own: dict[str, float]) -> None:
    """What follows from power and wear is held to the same ceiling."""
    worn = own if own["power_watts"] > 1 else {**own, "purchase_usd": 1.0, "lifetime_hours": 1e-10}
    with pytest.raises(ScenarioError, match="an hour of it costs"):
        read(question({"provider": "o", "gpu": "A100-80GB", "gpus": 1, "own": worn}))


def test_the_ceiling_itself_can_be_solved() -> None:
    """A billion dollars an hour is absurd, and no trouble."""
    assert planned({**RENTED, "usd_per_hour": 1e9}).cost_usd > 1e8
