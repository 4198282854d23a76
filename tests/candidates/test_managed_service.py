"""A managed service gets the data no sooner and no cheaper than a machine does, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.results.plan import Assignment
from tests.helpers.stage_scenarios import LORA, WEIGHTS_GB, line, planned

FEES = {"ingress_usd_per_gb": 0.1, "egress_usd_per_gb": 0.2, "network_storage_usd_per_gb_month": 1.0}
MOVES: dict[str, Any] = {
    "ingest": {"raw_gb": 500},
    "transfer": {"region": "eu", "egress_usd_per_gb": 0.09, "gb_per_second": 0.05},
    "export": {"gb_per_second": 0.1},
    "retention": "73h",
}
ADAPTER_GB = 12_615_680 * 4 / 1e9
"""Rank 16 on all linears of TinyLlama: 22 * 16 * (4,096 + 2 * 2,304 + 4,096 + 3 * 7,680), kept in 4 bytes each."""


def at_service(method: str = "full", fees: dict[str, float] | None = None, **job: Any) -> Assignment:
    """The job with 100 GB of data beside the raw ones, at a service that does 1,000 tokens a second for $3 a run."""
    managed = {"architectures": ["tinyllama-1.1b"], "method": method, "usd_per_run": 3, "tokens_per_second": 1000}
    offer = {"provider": "s", "region": "us", "managed": managed, "fees": fees or {}, "date": "2025-12-01"}
    techniques = LORA if method == "lora" else {}
    return planned(offer, **{"data_gb": 100, "stages": MOVES, "techniques": techniques, **job})


def test_data_take_their_time_to_a_service() -> None:
    """600 GB leave at 0.05 GB/s before 10 M tokens are trained; the result comes out at 0.1 GB/s."""
    told = at_service()
    assert told.start_hours == pytest.approx(600 / 0.05 / 3600)
    assert told.stage_hours == {"export": pytest.approx(WEIGHTS_GB / 0.1 / 3600)}
    assert told.training_hours == pytest.approx(1e7 / 1000 / 3600)
    assert told.hours.expected == pytest.approx((12000 + WEIGHTS_GB * 10 + 10000) / 3600)


def test_what_moves_and_stays_is_on_the_bill_of_a_service() -> None:
    """600 GB leave at $0.09 and enter at $0.10; 2.2 GB come out at $0.20 and are kept a tenth of a month at $1."""
    told = at_service(fees=FEES)
    assert line(told, "data leaving") == pytest.approx((600, 54))
    assert line(told, "transfer in") == pytest.approx((600, 60))
    assert line(told, "transfer out") == pytest.approx((WEIGHTS_GB, WEIGHTS_GB * 0.2))
    assert line(told, "kept after") == pytest.approx((WEIGHTS_GB * 0.1, WEIGHTS_GB * 0.1))
    assert told.cost_usd == pytest.approx(3 + 54 + 60 + 0.3 * WEIGHTS_GB)


def test_trials_share_what_was_sent_once() -> None:
    """Three trials side by side are sent one set of data and hand back one result."""
    told = at_service(fees=FEES, trials={"count": 3, "at_once": 3})
    assert line(told, "transfer in") == pytest.approx((600, 60))
    assert line(told, "transfer out")[0] == pytest.approx(WEIGHTS_GB)


def test_each_trial_pays_for_its_tokens() -> None:
    """Three trials of 10 million tokens at $2 a million and $3 a run: 60 + 9."""
    managed = {"architectures": ["tinyllama-1.1b"], "method": "full", "usd_per_run": 3, "tokens_per_second": 1000}
    offer = {"provider": "s", "region": "us", "managed": {**managed, "usd_per_million_tokens": 2}, "date": "2025-12-01"}
    told = planned(offer, trials={"count": 3, "at_once": 3})
    assert told.cost_usd == pytest.approx(3 * (20 + 3))


def test_trials_one_after_another_add_their_hours() -> None:
    """Three runs of 10 million tokens at 1,000 a second: 30,000 s, where side by side they take 10,000 s."""
    one_by_one, together = (at_service(trials={"count": 3, "at_once": at_once}) for at_once in (1, 3))
    assert one_by_one.training_hours == pytest.approx(3e4 / 3600)
    assert together.training_hours == pytest.approx(1e4 / 3600)


def test_data_in_the_region_of_a_service_leave_nothing() -> None:
    """Within their region data pay nothing to leave, and come as fast as the service pulls: 0.5 GB/s."""
    there = {**MOVES, "transfer": {**MOVES["transfer"], "region": "us"}}
    told = at_service(fees=FEES, stages=there)
    assert line(told, "data leaving") == (0.0, 0.0)
    assert told.start_hours == pytest.approx(600 / 0.5 / 3600)


def test_adapters_come_back_unless_they_are_merged() -> None:
    """The result of LoRA are the adapters that the job asks for; merged, it is the whole network."""
    assert line(at_service("lora"), "transfer out")[0] == pytest.approx(ADAPTER_GB)
    merged = {**MOVES, "export": {"merged": True}}
    assert line(at_service("lora", stages=merged), "transfer out")[0] == pytest.approx(WEIGHTS_GB)


def test_a_service_without_fees_says_what_is_left_out() -> None:
    """Unknown fees are named on the bill and in a note; told ones are in neither."""
    unknown = at_service()
    assert {one.item for one in unknown.bill if one.basis == "unknown: not included"} == {
        "kept after",
        "transfer in",
        "transfer out",
    }
    assert any("their fees are unknown" in note for note in unknown.notes)
    known = at_service(fees=FEES)
    assert not [one for one in known.bill if one.basis]
    assert not any("their fees are unknown" in note for note in known.notes)


def test_stages_that_a_service_does_are_told_as_such() -> None:
    """Evaluation at the price of training, checkpoints and prepared data of the service's own are assumptions."""
    told = " ".join(at_service(stages={**MOVES, "evaluation": {"share": 0.1}, "checkpoints": {"count": 2}}).notes)
    assert "evaluation at the service is assumed to cost as much per token as training" in told
    assert "checkpoints are left to the service" in told
    assert "raw data go to the service unprepared" in told


def test_a_service_does_what_no_machine_can() -> None:
    """Evaluation on a CPU that nobody offers rules the machines out, not the service, and the plan says so."""
    told = at_service(stages={"evaluation": {"share": 0.1, "on": "cpu"}})
    assert told.tier == "managed"
    assert any("only managed services were considered" in note for note in told.notes)
