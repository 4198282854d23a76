"""Figures of a service worked out by hand: hours, starts, dollars, fees, shares, prices by the token."""

from __future__ import annotations

import datetime
from typing import Any, Literal

import pytest

from planner.loading.scenario_file import parse_scenario
from planner.results.fleet import FleetKind
from planner.scenario.inference_job import ServeJob
from planner.services.evaluated_fleet import EvaluatedFleet, NamedKind, evaluate_service

FILE = """
schema: 2
name: chat
jobs:
  - name: chat
    kind: serve
    architecture: llama-3.1-8b
    for: 2d
    load: {LOAD, input_tokens: 100, output_tokens: 50}
    headroom: 0.25
    latency: {ttft: 1s, tpot: 40ms, share: 0.9}
offers:
  - provider: one
    gpu: H100-80GB
    gpus: 1
    usd_per_hour: 2
    fees: {public_ip_usd_per_hour: 0.005}
    date: "2026-11-01"
    source: list
  - provider: two
    gpu: L40S
    gpus: 1
    usd_per_hour: 9
    spot_usd_per_hour: 1
    fees: {public_ip_usd_per_hour: 0.005}
    date: "2026-11-11"
    source: page
  - provider: three
    region: any
    managed: {architectures: llama-3.1-8b, usd_per_million_input_tokens: 10, usd_per_million_output_tokens: 20}
    date: "2026-11-01"
    source: page
"""
DAY_AND_NIGHT = f"profile: {[1] * 12 + [4] * 12}"


class Given:
    """A kind whose figures are given."""

    def __init__(self, named: NamedKind, **figures: Any):
        self.named = named
        self.is_on_spot = named.market == "spot"
        self.group = named.market
        vars(self).update(figures)

    def report(self, use: float) -> FleetKind:
        """Return the kind with a latency that is the use."""
        named = self.named
        return FleetKind(
            provider="", region="", instance="", offer=named.offer, market=named.market, gpu="", gpus=1, engine="vllm",
            weight_format="bf16", weight_bits=16, kv_bits=16, gpus_per_replica=1, replicas=1, capacity=1.0,
            binds="TPOT", usd_per_hour=1.0, start_hours=1.0, start_usd=1.0, ttft_seconds=use, tpot_seconds=use / 100,
            committed=0, by_hour=named.by_hour,
        )  # fmt: skip


def fleet(load: str) -> EvaluatedFleet:
    """Return one machine on demand all day, and one on spot in the twelve hours of most load."""
    scenario = parse_scenario(FILE.replace("LOAD", load))
    offers, (job,) = dict(scenario.labelled_offers()), scenario.jobs
    assert isinstance(job, ServeJob)
    labels = [label for label, offer in offers.items() if offer.rents_gpus]
    paces = (1.0, 1.0) if job.load.concurrent is None else (0.5, 0.1)

    def kind(place: int, market: Literal["on demand", "spot"], hours: list[int], **figures: Any) -> Given:
        named = NamedKind(labels[place], market, "vllm", "bf16", 16, 1, 1, tuple(hours))
        return Given(named, offer=offers[labels[place]], capacity=2.5, **figures)

    firm = kind(
        0, "on demand", [1] * 24, replicas=2, usd_per_hour=2.0, start_usd=0.5, billed_hours=(1.0, 0.1), pace=paces[0]
    )
    spot = kind(1, "spot", [0] * 12 + [1] * 12, replicas=1, usd_per_hour=1.0, start_usd=0.2, billed_hours=(0.8, 0.1),
                answering=0.8, pace=paces[1])  # fmt: skip
    kinds: Any = (firm, spot)
    return EvaluatedFleet(job, offers, kinds)


def test_dollars_starts_and_tokens_of_a_day() -> None:
    """24 h at $2, 12 h at $1 and one start at $0.20: $60.20 for 216,000 requests of 150 tokens."""
    made = evaluate_service(fleet(DAY_AND_NIGHT), as_of=datetime.date(2026, 11, 21))
    found = made.fleet
    assert (found.starts, found.start_usd) == (1, 0.2)
    assert made.cost_usd == pytest.approx(2 * 60.2)
    assert found.usd_per_month == pytest.approx(60.2 * 730 / 24)
    assert found.usd_per_thousand_requests == pytest.approx(60.2 / 216)
    assert found.usd_per_million_tokens == pytest.approx(60.2 / (0.216 * 150))
    assert (made.input_tokens, made.output_tokens) == (100, 50)
    assert (made.price_date, made.price_age_days, made.price_source) == ("2026-11-11", 20, "list; page")


def test_shares_count_hours_by_their_load() -> None:
    """Hours of 1.25 and of 5 with the headroom: use is 1/2 and 1, and spot, lost 20 % of the time, carries half."""
    found = fleet(DAY_AND_NIGHT).report()
    assert (found.use_by_hour[0], found.use_by_hour[23]) == (0.5, 1.0)
    assert found.use == pytest.approx((1.25 * 0.5 + 5 * 1.0) / 6.25)
    assert found.spot_share == pytest.approx(5 * 0.5 / 6.25)
    assert found.served_share == pytest.approx((1.25 + 5 * 0.9) / 6.25)
    assert (found.replicas_by_hour[0], found.replicas_by_hour[23]) == (2, 3)
    assert [limit.predicted_seconds for limit in found.limits] == [1.0, 0.01]


def test_a_service_by_the_token_has_its_dollars_of_a_month() -> None:
    """$0.002 a request: $13,140 a month; from which load a fleet costs less is not known of one fleet."""
    (price,) = fleet(DAY_AND_NIGHT).report().api
    assert price.usd == pytest.approx(0.002 * 216_000 * 730 / 24)
    assert price.usd_per_thousand_requests == pytest.approx(2.0)
    assert (price.pays_from_requests, price.pays_on) == (None, None)


def test_fees_are_of_the_hours_that_are_billed() -> None:
    """24 h a day of one machine, 9.6 h of twelve on spot and 0.1 h of its start, at $0.005."""
    (line,) = fleet(DAY_AND_NIGHT).report().fees
    hours = (24 + 9.6 + 0.1) * 730 / 24
    assert (line.quantity, line.usd, line.rate_usd) == pytest.approx((hours, hours * 0.005, 0.005))
    assert (line.item, line.unit) == ("public addresses", "h")


def test_requests_in_flight_are_answered_as_fast_as_at_capacity() -> None:
    """1 in flight at 0.5 requests/s each, and 4 at 0.3, the mean of both machines: 1.7 in twelve hours each."""
    load = f"concurrent: 4, profile: {[1] * 12 + [4] * 12}"
    assert fleet(load).requests == pytest.approx((1 * 0.5 + 4 * 0.3) * 12 * 3600)
