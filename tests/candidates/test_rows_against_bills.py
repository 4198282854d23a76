"""Dollars of every screened row are those of its bill, expected and late, at every share of spot.

Late dollars on spot are no bill: they are a quantile over drawn markets, the one that a plan states.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from planner.candidates.screening import screen
from planner.solving.chosen import ChosenCandidate
from planner.solving.notes import build_assignment
from planner.solving.prepare import prepare
from tests.helpers.stage_scenarios import CPU, LORA, RENTED, asked, library

AS_OF = datetime.date(2026, 1, 1)
FEES = {
    "storage_usd_per_gb_month": 5.0,
    "ingress_usd_per_gb": 0.05,
    "egress_usd_per_gb": 0.1,
    "network_storage_usd_per_gb_month": 0.3,
    "public_ip_usd_per_hour": 0.25,
}
SERVICE_FEES = {key: usd for key, usd in FEES.items() if key != "public_ip_usd_per_hour"}
SPOT = {"spot_usd_per_hour": 0.7, "spot": {"availability": 0.8, "mean_up_hours": 3}}
SERVICE = {"architectures": ["tinyllama-1.1b"], "method": "lora", "tokens_per_second": 1000, "usd_per_run": 3}
OFFERS: list[dict[str, Any]] = [
    {**RENTED, **SPOT, "fees": FEES, "max_nodes": 2, "region": "eu"},
    {**RENTED, "provider": "hourly", **SPOT, "fees": FEES, "billing": {"step_seconds": 3600}, "max_nodes": 2},
    {**RENTED, "provider": "least", "billing": {"minimum_hours": 8}},
    {
        **RENTED,
        "provider": "month",
        "usd_per_hour": 0.5,
        "commitment": {"months": 1, "upfront_usd": 90},
        "max_nodes": 2,
    },
    {"provider": "spot", "gpu": "A100-80GB", "gpus": 1, **SPOT, "fees": FEES, "max_nodes": 2},
    {"provider": "s", "managed": SERVICE, "fees": SERVICE_FEES},
    {**CPU, "ram_gb": 64},
]
STAGES: dict[str, Any] = {
    "ingest": {"raw_gb": 30},
    "transfer": {"region": "eu", "egress_usd_per_gb": 0.09},
    "checkpoints": {"count": 4, "keep": 2},
    "export": {"merged": True},
    "retention": "100h",
}
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "long": {"work": {"tokens": 1e9}},
    "stages": {"data_gb": 60, "stages": STAGES},
    "evaluation": {"stages": {"evaluation": {"share": 0.3, "on": ["machine", "cpu"]}}},
    "early stopping": {"early_stopping": 0.6, "work": {"tokens": 1e8}, "stages": STAGES},
    "trials": {"trials": {"count": 5, "at_once": 2, "halving": 2}, "stages": STAGES},
    "trials one after the other": {"trials": 3, "work": {"tokens": 1e8}},
    "adapters": {"techniques": LORA, "stages": {"export": {}}, "data_gb": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("waiting_usd", [None, 0.0], ids=["mix of two markets", "policies"])
@pytest.mark.parametrize("name", JOBS)
def test_dollars_of_rows_are_those_of_their_bills(name: str, waiting_usd: float | None) -> None:
    """Nothing that the search counts is off the bill, and nothing on the bill is free in the search."""
    scenario = asked(*OFFERS, confidence=0.95, **JOBS[name])
    prepared = prepare(scenario, library())
    (candidates,), (screened,) = prepared.candidates, prepared.screened
    if waiting_usd is None:
        screened = screen(candidates, prepared.market, scenario.limits, library())
    table = screened.table
    assert len(table) >= 5
    for row in range(len(table)):
        figures = table.rows(np.asarray([row]))
        low, high = float(table.share_low[row]), float(table.share_high[row])
        for share in dict.fromkeys((low, (low + high) / 2, high)):
            chosen = ChosenCandidate.of(candidates, screened, prepared.market, row, share)
            made = build_assignment(chosen, scenario, library(), AS_OF)  # raises where the row has other figures
            where = f"{table.offers[table.offer[row]]} x{table.instances[row]} at {share:g}"
            assert figures.cost_usd(share)[0] == pytest.approx(sum(line.usd for line in made.bill)), where
            if chosen.spot is None:
                assert figures.late_cost_usd(share)[0] == pytest.approx(made.cost_at_confidence), f"{where}, late"
