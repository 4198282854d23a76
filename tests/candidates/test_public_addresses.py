"""A fee for the public address of each machine and hour, worked out by hand, between offers, and in laws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from planner.documents.tables import parse_csv
from planner.errors import Fault
from planner.evaluation.audit import audit
from planner.loading.price_files import offer_table_text, read_offer_table
from planner.results.plan import Assignment
from planner.scenario.scenario import SolveOptions
from planner.solving.binding_limits import compare_purchase
from planner.solving.solve import solve
from planner.units import MONTH_HOURS
from tests.helpers import generation
from tests.helpers.services import desk
from tests.helpers.stage_scenarios import (
    AS_OF,
    CPU,
    LORA,
    RENTED,
    asked,
    library,
    line,
    planned,
    question,
    read,
    solved,
)

ITEM = "public addresses"
SEEN = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}]}
"""Observed for 10 h on one A100."""
SPOT = {"spot_usd_per_hour": 0.7, "spot": {"availability": 0.8, "mean_up_hours": 3}}


def rented(fee: float | None, **terms: Any) -> dict[str, Any]:
    """One A100 with a fee for its address."""
    return {**RENTED, "fees": {"public_ip_usd_per_hour": fee}, **terms}


def sums_up(job: Assignment) -> None:
    """The lines of the bill come to the cost."""
    assert math.fsum(one.usd for one in job.bill) == pytest.approx(job.cost_usd)


def test_an_address_is_paid_for_each_machine_and_hour() -> None:
    """10 h at $2.00 and $0.05 for the address: $20.00 + $0.50; 20 h on two machines at $1.00: $40.00 + $2.00."""
    # worked: 10 * 2.00 + 10 * 0.05 = 20.50  # noqa: ERA001
    alone = planned(rented(0.05), **SEEN)
    assert (alone.cost_usd, line(alone, ITEM)) == (pytest.approx(20.5), pytest.approx((10, 0.5)))
    two = [{"gpu": "A100-80GB", "gpus": 1, "hours": 40}, {"gpu": "A100-80GB", "gpus": 2, "hours": 20}]
    # worked: 2 * 20 * 1.00 + 2 * 20 * 0.05 = 42.00  # noqa: ERA001
    both = planned(rented(0.05, usd_per_hour=1.0, max_nodes=2), measured=two, deadline="30h")
    assert (both.instances, both.cost_usd, line(both, ITEM)) == (2, pytest.approx(42.0), pytest.approx((40, 2.0)))
    assert all(one.item != ITEM for fee in (None, 0.0) for one in planned(rented(fee), **SEEN).bill)


def test_an_address_is_paid_in_whole_billing_steps() -> None:
    """10.5 h are billed as 11 h, of the machine and of its address."""
    seen = [{"gpu": "A100-80GB", "gpus": 1, "hours": 10.5}]
    found = planned(rented(0.1, billing={"step_seconds": 3600}), measured=seen)
    # worked: 11 * 2.00 + 11 * 0.10 = 23.10  # noqa: ERA001
    assert (found.cost_usd, line(found, ITEM)) == (pytest.approx(23.1), pytest.approx((11, 1.1)))


def test_a_commitment_pays_from_hours_that_count_the_addresses_of_both() -> None:
    """worked: 730 h at $1.00 against $2.00 an hour, $0.90 for the address of the commitment alone: 730 / 1.10 = 664."""
    month = rented(0.9, usd_per_hour=1.0, commitment={"months": 1})
    told = planned(RENTED, month, limits={"tiers": ["committed"]}, **SEEN).commitment
    assert told is not None and told.break_even_hours == pytest.approx(730 / 1.1)
    alike = rented(0.9, usd_per_hour=1.0, commitment={"months": 1})
    told = planned(rented(0.9), alike, limits={"tiers": ["committed"]}, **SEEN).commitment
    assert told is not None and told.break_even_hours == pytest.approx(365)


def test_an_address_of_a_bought_machine_is_paid_for_in_its_hours() -> None:
    """worked: rent 2.00 + 0.50, power 0.576 * 0.2, address 1.00: 5,000 / (2.5 - 0.1152 - 1.0) = 3,611 h."""
    job = planned(rented(0.5), measured=[{"gpu": "A100-80GB", "gpus": 1, "hours": 200}])
    buy = {"purchase_usd": 10_000, "residual_share": 0.5, "usd_per_kwh": 0.2}
    shop = {key: value for key, value in rented(1.0).items() if key != "usd_per_hour"}
    horizon = {"horizon": {"months": 36, "hours_per_month": 200}}
    shopping = read({**question({**shop, "buy": buy}), **horizon})
    found = compare_purchase(job, shopping.model_copy(update={"for_sale": shopping.offers}))
    assert found is not None and found.pays_from_hours == pytest.approx(5000 / (2.5 - 0.576 * 0.2 - 1.0))


def test_a_commitment_does_not_cover_addresses() -> None:
    """A month of 730 h at $0.50 is paid in full; the address is paid for the 10 h that are used."""
    found = planned(rented(0.1, usd_per_hour=0.5, commitment={"months": 1}), **SEEN)
    # worked: 730 * 0.50 + 10 * 0.10 = 366.00  # noqa: ERA001
    assert (found.cost_usd, line(found, ITEM)) == (pytest.approx(366.0), pytest.approx((10, 1.0)))


def test_an_own_machine_has_the_fee_that_it_states() -> None:
    """500 W at $0.30 a kWh and $1,500 over 15,000 h: $0.25 an hour; the address is a line of its own."""
    own = {"power_watts": 500, "usd_per_kwh": 0.3, "purchase_usd": 1500, "lifetime_hours": 15000}
    offer = {key: value for key, value in rented(0.02, own=own).items() if key != "usd_per_hour"}
    found = planned(offer, **SEEN)
    # worked: 10 * 0.25 + 10 * 0.02 = 2.70  # noqa: ERA001
    assert (found.cost_usd, line(found, ITEM)) == (pytest.approx(2.7), pytest.approx((10, 0.2)))
    assert line(planned({**offer, "fees": {}}, **SEEN), ITEM) == (0, 0)


def test_a_stage_on_its_own_machine_has_an_address_of_its_own() -> None:
    """The hours of the machine that prepares the data, at its own fee."""
    cpu = {**CPU, "fees": {"public_ip_usd_per_hour": 0.3}}
    found = planned(rented(None), cpu, techniques=LORA, stages={"ingest": {"raw_gb": 30, "on": "cpu"}})
    hours, usd = line(found, f"{ITEM} at c")
    assert (hours, usd) == (pytest.approx(line(found, "prepare data at c")[0]), pytest.approx(0.3 * hours))
    assert usd > 0
    sums_up(found)


@pytest.mark.parametrize("share", [{}, {"max": 0.0}, {"min": 1.0}], ids=["a policy", "on demand", "spot alone"])
def test_every_billed_hour_has_its_fee(share: dict[str, float]) -> None:
    """A plan is refused where the search and the evaluation count other dollars, so both have counted these."""
    offer = rented(0.25, **SPOT)
    if share.get("min"):
        offer = {key: value for key, value in offer.items() if key != "usd_per_hour"}
    limits = {"spot_share": {"max": 0.0}} if "max" in share else {}
    found = planned(offer, limits=limits, techniques=LORA, work={"tokens": 1e9}, stages={"evaluation": {"share": 0.2}})
    hours = math.fsum(
        one.quantity or 0.0 for one in found.bill if one.unit == "h" and one.item != ITEM and " at " not in one.item
    )
    assert line(found, ITEM) == pytest.approx((hours, 0.25 * hours))
    assert (found.spot_share > 0) == ("max" not in share)
    sums_up(found)


@pytest.mark.parametrize(("fee", "provider"), [(0.05, "cheap"), (0.15, "all in")])
def test_a_dear_address_makes_the_cheaper_machine_lose(fee: float, provider: str) -> None:
    """$2.00 an hour and the address against $2.10: the least sum of both wins, as all offers one by one say."""
    offers = rented(fee, provider="cheap"), rented(None, provider="all in", usd_per_hour=2.1)
    best = min(offers, key=lambda one: planned(one, **SEEN).cost_usd)
    assert planned(*offers, **SEEN).provider == best["provider"] == provider


def test_a_higher_fee_never_lowers_the_least_cost() -> None:
    """Nor is it ever above that of an offer without the fee; bills come to the cost."""
    other = rented(None, provider="q", usd_per_hour=2.3)
    plans = [planned(rented(fee), other, **SEEN) for fee in (None, 0.0, 0.1, 0.5, 2.0)]
    for found in plans:
        sums_up(found)
    for before, after in itertools.pairwise(plans):
        assert before.cost_usd <= after.cost_usd + 1e-9
    assert plans[0].cost_usd == pytest.approx(plans[1].cost_usd)
    assert plans[-1].provider == "q"


def test_the_budget_counts_the_address() -> None:
    """$20.50 at even odds: a budget of $20.40 is too small, $20.60 is enough."""
    for budget, status in ((20.4, "infeasible"), (20.6, "optimal")):
        limits = {"budget_usd": budget, "budget_confidence": 0.5}
        assert solved(asked(rented(0.05), limits=limits, **SEEN)).status == status


def test_the_audit_finds_a_changed_line() -> None:
    """A bill with a cheaper address, and one without any, contradict the offer."""
    scenario = asked(rented(0.05), **SEEN)
    plan = solved(scenario)
    bill = plan.jobs[0].bill
    cheaper = tuple(one.model_copy(update={"usd": 0.1}) if one.item == ITEM else one for one in bill)
    for changed in (cheaper, tuple(one for one in bill if one.item != ITEM)):
        job = plan.jobs[0].model_copy(update={"bill": changed})
        assert audit(plan.model_copy(update={"jobs": (job,)}), scenario, library())


def test_replicas_of_generation_have_addresses() -> None:
    """The hours of all machines at $0.20 next to $1.00: a fifth of what the machines cost; the search agrees."""
    offer = {**generation.OFFER, "fees": {"public_ip_usd_per_hour": 0.2}}
    (job,) = generation.plan(offers=[offer]).jobs
    (free,) = generation.plan(offers=[generation.OFFER]).jobs
    # worked: 1.00 * hours + 0.20 * hours = 1.20 * hours  # noqa: ERA001
    assert job.cost_usd == pytest.approx(1.2 * free.cost_usd)
    assert line(job, ITEM)[1] == pytest.approx(0.2 * free.cost_usd)
    sums_up(job)


def test_machines_of_a_service_have_addresses() -> None:
    """Two machines, always: 2 * 730 h at $2.50 and $0.10 a month; the audit recomputes the line."""
    settings = (
        "jobs.0.load={concurrent: 1, input_tokens: 800, output_tokens: 200}",
        "offers=[{provider: one, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.5, date: 2026-11-01}]",
    )
    scenario = desk(*settings, "offers.0.fees={public_ip_usd_per_hour: 0.1}")
    known = generation.library()
    plan = solve(scenario, SolveOptions(as_of=AS_OF), known)
    (service,) = plan.services
    # worked: 2 * 730 * 2.50 + 2 * 730 * 0.10 = 3796.00  # noqa: ERA001
    assert service.fleet.usd_per_month == pytest.approx(2 * MONTH_HOURS * 2.6)
    (fee,) = service.fleet.fees
    assert (fee.item, fee.quantity, fee.usd) == (ITEM, pytest.approx(2 * MONTH_HOURS), pytest.approx(0.2 * MONTH_HOURS))
    for fees in ((), (fee.model_copy(update={"usd": 1.0}),)):
        fleet = service.fleet.model_copy(update={"fees": fees})
        changed = service.model_copy(update={"fleet": fleet})
        assert audit(plan.model_copy(update={"services": (changed,)}), scenario, known)


def test_a_table_of_offers_may_have_columns_of_fees() -> None:
    """An empty cell leaves the fee open, and a written table is read as the same offers."""
    text = "provider,gpu,gpus,usd_per_hour,public_ip_usd_per_hour\na,T4,1,1,0.005\nb,T4,1,1,\n"
    faults: list[Fault] = []
    _, offers = read_offer_table(parse_csv(text, "o.csv"), faults)
    assert not faults
    assert [one.fees.public_ip_usd_per_hour for one in offers] == [0.005, None]
    _, again = read_offer_table(parse_csv(offer_table_text(offers), "o.csv"), faults)
    assert (again, faults) == (offers, [])
