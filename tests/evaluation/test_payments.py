"""Every fee and way to pay with a figure worked out by hand, and plans that break what a way to pay allows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from planner.evaluation.audit import audit
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.spot.states import DurationShape, states_from_means
from tests.helpers.stage_scenarios import (
    LORA,
    RENTED,
    START_SECONDS,
    asked,
    library,
    line,
    planned,
    question,
    read,
    run_hours,
    solved,
)

START = START_SECONDS / 3600
MACHINE = {"provider": "p", "gpu": "A100-80GB", "gpus": 1}
YEAR = {**MACHINE, "usd_per_hour": 0.5, "commitment": {"months": 12, "upfront_usd": 1000}}
LEFT = {**MACHINE, "committed_hours": 200}
OWN = {**MACHINE, "own": {"power_watts": 500, "usd_per_kwh": 0.3, "purchase_usd": 1500, "lifetime_hours": 15000}}
SERVICE: dict[str, Any] = {"architectures": ["tinyllama-1.1b"], "method": "full"}


def service(**terms: Any) -> dict[str, Any]:
    """An offer of a managed service."""
    return {"provider": "s", "managed": {**SERVICE, **terms}}


def test_fees_are_charged_per_gigabyte_and_month() -> None:
    """In go 2.2 + 30 GB, out 2.2 GB; the disk holds 2 * 2.2 + 30 + 10 GB while the machine is rented."""
    fees = {"ingress_usd_per_gb": 0.05, "egress_usd_per_gb": 0.1, "storage_usd_per_gb_month": 5.0}
    told = planned({**RENTED, "fees": fees}, data_gb=30)
    assert line(told, "transfer in") == pytest.approx((32.200097, 1.6100048))
    assert line(told, "transfer out") == pytest.approx((2.200097, 0.2200097))
    months = 44.400194 * told.hours.expected / 730
    assert line(told, "storage") == pytest.approx((months, months * 5))


def test_an_unknown_fee_is_named() -> None:
    """What nobody says the price of is in the bill with its quantity, its dollars left out."""
    told = {one.item: one for one in planned(data_gb=30).bill}
    assert (told["transfer in"].usd, told["transfer in"].basis) == (0.0, "unknown: not included")


def test_the_same_offer_twice_is_one_place() -> None:
    """Two equal offers of one region are told as that region, those of two regions as any of them."""
    assert planned(RENTED, RENTED).region == "any"
    assert planned(RENTED, {**RENTED, "region": "east"}, {**RENTED, "region": "east"}).region == "any of 2"


def test_a_minimum_is_charged_in_full() -> None:
    """A day is the least: what is not used of its 24 hours is rounded up, $48 for the machine in all."""
    told = planned({**RENTED, "billing": {"minimum_hours": 24}})
    used = START + run_hours(told)
    assert line(told, "rounded up") == pytest.approx((24 - used, 48 - 2 * used))
    assert told.cost_usd == pytest.approx(48.0)


def test_trials_side_by_side_are_rounded_each() -> None:
    """Two gangs of less than an hour each, billed by the hour, are two hours: $4."""
    told = planned({**RENTED, "billing": {"step_seconds": 3600}}, trials={"count": 2, "at_once": 2})
    assert told.hours.expected < 1
    assert told.cost_usd == pytest.approx(4.0)


def test_what_spot_loses_is_a_line() -> None:
    """Up for 10 h on average: 3 h of work take 3 * Phi machine hours, Phi as below; nothing to move to is sold.

    A checkpoint of 15.4 GB stalls 15.4 / (0.23 * 24) + 2 = 4.79 s; it is taken every 0.7 * sqrt(2 * 4.79 s * 10 h)
    = 0.114 h. It is safe after 15.4 / 0.5 + 2 = 32.8 s: until then an interruption loses the one before as well.
    With a start of 206.9 s that is 1 % for exponential up-times; heavy tails make 1.4 times the loss.
    """
    spot = {"availability": 0.9, "mean_up_hours": 10}
    told = planned(
        {**MACHINE, "spot_usd_per_hour": 1.0, "spot": spot}, measured=[{"gpu": "A100-80GB", "gpus": 1, "hours": 3}]
    )
    stall = (14 * 1.100048384 / (0.23 * 24) + 2) / 3600
    apart = 0.7 * math.sqrt(2 * stall * 10)
    write = (14 * 1.100048384 / 0.5 + 2) / 3600
    inflation = 10 * math.exp((START + write) / 10) * (math.exp((apart + stall) / 10) - 1) / apart
    lost = 3 * 1.4 * (inflation - 1)
    assert lost == pytest.approx(0.1, abs=0.02)
    assert line(told, "gpu spot") == pytest.approx((3.0, 3.0))
    assert line(told, "lost on spot") == pytest.approx((lost, lost))
    # The rest of an outage of 10/9 h where it starts in one (1 time in 10), and one after each interruption.
    # Outages are heavy-tailed: at a random moment the mean rest is E[D^2] / (2 E[D]), more than for exponential ones.
    outage = states_from_means(10.0, 10 / 9, DurationShape.of(library().calibrations["spot"].values)).down
    ages = np.arange(0.0, 60.0, 0.005)
    rest = float(np.sum(ages * outage.survival(ages)) * 0.005 / outage.mean())
    wall = 0.1 * rest + (3 + lost) * (1 + 1 / 9)
    assert rest > 10 / 9
    # Of heavy-tailed up-times, too, more are short than of exponential ones: 3 h meet more than 0.3 losses.
    assert wall < told.hours.expected < 1.1 * wall


def test_spot_keeps_one_more_start_for_the_move_to_on_demand() -> None:
    """Two runs, for which no policy is made, end on the same machine on demand: one more start at $2 an hour.

    It stands beside the one at $0.50, both in proportion to the share of spot. Runs on spot for good move nothing.
    """
    spot = {"availability": 0.98, "mean_up_hours": 50}
    offer, job = {**RENTED, "spot_usd_per_hour": 0.5, "spot": spot}, {"work": {"tokens": 5e8}, "trials": {"count": 2}}
    told = planned(offer, limits={"spot_share": {"max": 0.9}}, **job)
    share = told.spot_share
    assert share == pytest.approx(0.9)
    assert told.switch_to_on_demand_at_hours is not None
    assert line(told, "move to on demand") == pytest.approx((share * START, share * START * 2))
    assert line(told, "start and load") == pytest.approx((START, START * (share * 0.5 + (1 - share) * 2)))
    stays = planned(offer, **job)
    assert stays.spot_share == 1
    assert stays.switch_to_on_demand_at_hours is None
    assert line(stays, "move to on demand") == (0, 0)


def test_a_commitment_is_due_whatever_is_used() -> None:
    """1,000 + 0.5 * 8,760 = $5,380; an hour then costs nothing; against $2 an hour it pays from 2,690 hours on."""
    told = planned(YEAR, {**RENTED, "stock": 0})
    assert line(told, "commitment") == pytest.approx((1, 5380))
    assert line(told, "gpu committed") == pytest.approx((run_hours(told), 0.0))
    assert told.cost_usd == told.cost.low == told.cost.high == pytest.approx(5380)
    use = told.commitment
    assert use is not None
    assert (use.months, use.usd, use.term_hours) == (12, pytest.approx(5380), 8760)
    assert (use.on_demand_usd_per_hour, use.break_even_hours) == (2.0, pytest.approx(2690))
    assert use.used_hours == pytest.approx(START + run_hours(told))


def test_a_run_that_outlasts_the_use_of_a_purchase_is_rented() -> None:
    """100 hours of a machine for $10 and its power hold the run of ten million tokens, not that of 6e10: 830 hours."""
    sold = {**MACHINE, "buy": {"purchase_usd": 10, "power_watts": 500, "usd_per_kwh": 0.3}}
    data = question(sold, RENTED)
    data["horizon"] = {"months": 1, "hours_per_month": 100}
    data["limits"]["max_hours"] = 5000
    assert solved(read(data)).jobs[0].tier == "bought"
    data["jobs"][0]["work"] = {"tokens": 6e10}
    told = solved(read(data)).jobs[0]
    assert run_hours(told) > 100
    assert told.tier == "secure"


@pytest.mark.parametrize("late", [False, True])
def test_a_purchase_is_used_as_long_as_a_late_run_that_does_not_stop_early(late: bool) -> None:
    """Half of the work is expected: use that ends before all of it, as slow as at the confidence, is not enough."""
    data = question({**MACHINE, "buy": {"purchase_usd": 1, "power_watts": 500, "usd_per_kwh": 0.3}}, RENTED)
    data["jobs"][0] |= {"early_stopping": 0.5, "work": {"tokens": 1e9}}
    data["horizon"] = {"months": 1, "hours_per_month": 100}
    hours = solved(read(data)).jobs[0].hours
    assert hours.at_confidence > 2.1 * hours.expected
    data["horizon"]["hours_per_month"] = hours.at_confidence * (0.99 if late else 1.01)
    assert solved(read(data)).jobs[0].tier == ("secure" if late else "bought")


def test_hours_paid_for_already_cost_nothing_more() -> None:
    """The marginal price is zero, and the tier says why."""
    told = planned(LEFT, RENTED)
    assert (told.tier, told.cost_usd) == ("committed", 0.0)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_an_own_machine_costs_power_and_wear(factor: float) -> None:
    """0.5 kW at $0.30 are $0.15 an hour, $1,500 over 15,000 h are $0.10; a what-if of twice the price doubles both."""
    told = solved(read({**question(OWN), "adjust": [{"usd_per_hour_factor": factor}]})).jobs[0]
    hours = START + run_hours(told)
    assert line(told, "power") == pytest.approx((hours, 0.15 * factor * hours))
    assert line(told, "wear of own machines") == pytest.approx((hours, 0.1 * factor * hours))
    assert told.cost_usd == pytest.approx(0.25 * factor * hours)


def test_a_service_charges_tokens_and_runs() -> None:
    """3 trials of 10 M tokens, a tenth more evaluated, stopped at 0.6 of the way: 19.8 M at $0.50 and 3 runs at $3."""
    told = planned(
        service(usd_per_million_tokens=0.5, usd_per_run=3, tokens_per_second=5000),
        trials=3,
        early_stopping=0.6,
        stages={"evaluation": {"share": 0.1, "on": "machine"}},
    )
    assert line(told, "tokens trained") == pytest.approx((19.8, 9.9))
    assert line(told, "training runs") == (3, 9)
    assert told.cost_usd == pytest.approx(18.9)
    assert told.cost_at_confidence == pytest.approx(33 * 0.5 + 9)
    assert told.hours.expected == pytest.approx(19.8e6 / 5000 / 3600)  # one after another
    assert (told.gpu, told.gpus, told.tier) == ("managed", 0, "managed")


def test_a_service_charges_its_minimum_per_run() -> None:
    """10 M tokens at $0.50 are $5; the two runs cost at least $8 each: $6 more than tokens alone."""
    told = planned(service(usd_per_million_tokens=0.5, minimum_usd=8), trials=2)
    assert line(told, "tokens trained") == pytest.approx((20, 10))
    assert line(told, "minimum charge") == pytest.approx((2, 6))


def test_a_service_that_promises_no_speed_is_guessed() -> None:
    """1e15 FLOP/s over 6 FLOP for each of 1.1e9 weights are 151,508 tokens a second: 10 M take 66 s."""
    told = planned(service(usd_per_run=3))
    assert told.tokens_per_second == pytest.approx(151508, rel=1e-5)
    assert told.hours.expected == pytest.approx(66.003 / 3600, rel=1e-4)


def broken(plan: Plan, scenario: Scenario) -> list[str]:
    """What the audit of a plan finds, held against another question."""
    return [one.what for one in audit(plan, scenario, library())]


FLAT = [service(usd_per_run=3)]
THREE = {"trials": {"count": 3, "at_once": 3}}
WITH_CPU = [RENTED, {"provider": "c", "cpu_cores": 16, "ram_gb": 32, "usd_per_hour": 0.6}]
BESIDE = {"stages": {"ingest": {"raw_gb": 50, "tokens": 1e9, "on": ["cpu"]}}}
ON_CPU = "separate machine: ingest at c/any/16-cores"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offers", "job", "then", "what"),
    [
        # about 830 hours at the confidence, which take two months of 730
        ([YEAR], {"work": {"tokens": 6e10}}, {"offers.0.commitment.months": 1}, "commitment.terms"),
        ([LEFT], {}, {"offers.0.committed_hours": 0.1}, "hours left of p/any/1x-a100-80gb"),
        ([YEAR], {}, {"limits.tiers": {"forbid": ["committed"]}}, "limits.tiers"),
        ([RENTED], THREE, {"limits.max_gpus": 2}, "limits.max_gpus"),
        ([RENTED], THREE, {"limits.quota": {"p": 2}}, "limits.quota.p"),
        ([RENTED], THREE, {"offers.0.stock": 2}, "stock of p/any/1x-a100-80gb"),
        (FLAT, {}, {"offers.0.stock": 0}, "stock of s/any/managed-full"),
        (FLAT, {}, {"offers.0.managed.architectures": ["mistral-7b"]}, "architecture at the service"),
        (FLAT, {}, {"jobs.0.techniques": LORA}, "method at the service"),
        (WITH_CPU, BESIDE, {"jobs.0.stages.ingest.on": ["machine"]}, ON_CPU),
        (WITH_CPU, BESIDE, {"jobs.0.stages.ingest.ram_gb": 64}, ON_CPU),
        (WITH_CPU, BESIDE, {"offers.1.stock": 0}, ON_CPU),
        (WITH_CPU, BESIDE, {"limits.providers": {"allow": ["p"]}}, ON_CPU),
        ([RENTED], {}, {"limits.budget_usd": 900}, "budget_usd"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plan_is_held_to_what_a_way_to_pay_allows(
    offers: list[dict[str, Any]], job: dict[str, Any], then: dict[str, Any], what: str
) -> None:
    """A plan made for one question fails the audit of one with less of what it takes."""
    data = question(*offers, limits={"max_hours": 5000}, **job)
    plan = solved(read(data))
    for dotted, value in then.items():
        place: Any = data
        *path, last = dotted.split(".")
        for key in path:
            place = place[int(key) if key.isdigit() else key]
        place[last] = value
    assert what in broken(plan, read(data))


def test_a_stage_that_may_not_run_here_needs_a_place() -> None:
    """A plan that evaluates on its own machine fails where only a CPU may do it."""
    stages = {"evaluation": {"share": 0.1, "on": ["machine"]}}
    plan = solved(asked(stages=stages))
    elsewhere = asked(stages={"evaluation": {"share": 0.1, "on": ["cpu"]}})
    assert "place of evaluation" in broken(plan, elsewhere)


def test_the_chance_of_a_budget_is_told() -> None:
    """A budget of what the job costs at its confidence holds with just that confidence."""
    late = planned(work={"tokens": 1e9}).cost_at_confidence
    plan = solved(asked(limits={"budget_usd": late + 1e-6}, work={"tokens": 1e9}))
    assert plan.budget_probability == pytest.approx(0.9, abs=1e-6)
