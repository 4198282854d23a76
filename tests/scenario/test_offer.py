"""Offers of every kind: what is rented, how it is paid, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.documents.files import parse_document
from planner.errors import Fault, ScenarioError
from planner.library.reading import read_library
from planner.loading.price_files import read_offers
from planner.loading.question import suggest_gpus, suggest_offers
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.scenario.offer import MONTHS, TIERS, Commitment, Offer, offer_data, offer_labels
from planner.scenario.offer_terms import Own
from planner.scenario.scenario import scenario_data, scenario_schema
from tests.helpers.payment_scenarios import CPU, KINDS, LEFT, OWN, PRICED, SERVICE, T4, YEAR, asked, question
from tests.helpers.scenarios import GOOD, json_text


def offer(data: dict[str, Any], **more: Any) -> Offer:
    """One offer of plain data."""
    return Offer.model_validate({**data, **more})


@pytest.mark.parametrize(
    ("data", "kind", "tier", "label"),
    [
        (PRICED, "gpu", "secure", "p/any/1x-t4"),
        ({**PRICED, "community": True}, "gpu", "community", "p/any/1x-t4"),
        (YEAR, "gpu", "committed", "p/any/1x-t4"),
        ({**LEFT, "community": True}, "gpu", "committed", "p/any/1x-t4"),
        ({**OWN, "community": True}, "gpu", "own", "p/any/1x-t4"),
        (CPU, "cpu", "secure", "p/any/16-cores"),
        ({**CPU, "instance": "big", "region": "eu"}, "cpu", "secure", "p/eu/big"),
        (SERVICE, "managed", "managed", "s/any/managed-lora"),
    ],
)
def test_an_offer_says_what_it_is(data: dict[str, Any], kind: str, tier: str, label: str) -> None:
    """It is exactly one of a machine with GPUs, one without and a service; its tier and label follow."""
    one = offer(data)
    assert {"gpu": one.rents_gpus, "cpu": one.is_cpu, "managed": one.is_managed} == {
        key: key == kind for key in ("gpu", "cpu", "managed")
    }
    assert (one.tier, one.label) == (tier, label)
    assert one.tier in TIERS
    assert one.card == data.get("gpu", "")


def test_a_commitment_is_due_whether_it_is_used_or_not() -> None:
    """12 months of 730 h: 1000 $ upfront and 0.50 $ in each of 8,760 h are 5,380 $, 0.61 $ per hour of the term."""
    one = offer(YEAR)
    assert one.term_hours == 8760
    assert one.committed_usd == pytest.approx(5380)
    assert one.full_usd_per_hour == pytest.approx(5380 / 8760)


def test_all_of_a_commitment_may_be_paid_upfront() -> None:
    """An hourly price of nothing is one, beside an upfront payment."""
    one = offer(T4, usd_per_hour=0, commitment={"months": 3, "upfront_usd": 210})
    assert (one.usd_per_hour, one.committed_usd, one.term_hours) == (0, 210, 2190)


def test_without_a_commitment_nothing_is_due() -> None:
    """Only what is used is paid for: no term, nothing committed."""
    for name in ("on demand", "cpu", "left", "own", "service"):
        one = offer(KINDS[name])
        assert (one.term_hours, one.committed_usd, one.full_usd_per_hour) == (0, 0, one.usd_per_hour)


def test_hours_already_paid_for_are_free_unless_they_have_a_price() -> None:
    """The marginal price is nothing; one that is stated counts."""
    assert offer(LEFT).usd_per_hour == 0
    assert offer(LEFT, usd_per_hour=0.1).usd_per_hour == 0.1


def test_an_own_machine_costs_power_and_wear() -> None:
    """0.5 kW at 0.30 $ are 0.15 $, 1,500 $ over 15,000 h are 0.10 $: 0.25 $ an hour, and there is one of it."""
    one = offer(OWN)
    assert one.own is not None
    assert one.own.power_usd_per_hour == pytest.approx(0.15)
    assert one.own.depreciation_usd_per_hour == pytest.approx(0.10)
    assert one.usd_per_hour == pytest.approx(0.25)
    assert one.stock == 1
    assert offer(OWN, stock=4).stock == 4


watts, dollars = st.floats(1, 1e5), st.floats(0, 1e5)


@settings(max_examples=25, derandomize=True)
@given(watts, st.floats(0, 10), dollars, st.floats(1, 1e6))
def test_the_hour_of_an_own_machine_is_the_sum_of_its_parts(w: float, kwh: float, bought: float, hours: float) -> None:
    """Power and wear make up the price to the last digit, and either alone never exceeds it."""
    own = {"power_watts": w, "usd_per_kwh": kwh, "purchase_usd": bought, "lifetime_hours": hours}
    one = offer(T4, own=own)
    assert one.own is not None and one.usd_per_hour is not None
    assert one.usd_per_hour == one.own.power_usd_per_hour + one.own.depreciation_usd_per_hour
    assert one.own.power_usd_per_hour == pytest.approx(w * kwh / 1000)
    assert one.own.depreciation_usd_per_hour * hours == pytest.approx(bought)


def test_what_was_bought_long_ago_costs_power_alone() -> None:
    """Without a purchase there is no wear, whatever the lifetime."""
    for lifetime in (None, 1000.0):
        assert Own(power_watts=200.0, usd_per_kwh=0.5, lifetime_hours=lifetime).depreciation_usd_per_hour == 0
    assert offer(T4, own={"power_watts": 200, "usd_per_kwh": 0.5}).usd_per_hour == pytest.approx(0.1)


@settings(max_examples=25, derandomize=True)
@given(st.sampled_from(MONTHS), dollars, st.floats(0.001, 100))
def test_a_commitment_costs_its_parts(months: int, upfront: float, price: float) -> None:
    """Upfront and every hour of the term, and per hour never less than the hourly price."""
    one = offer(T4, usd_per_hour=price, commitment={"months": months, "upfront_usd": upfront})
    assert one.committed_usd == pytest.approx(upfront + price * 730 * months)
    assert one.full_usd_per_hour is not None and one.full_usd_per_hour >= price * (1 - 1e-9)


def test_dollars_may_be_said() -> None:
    """Saying what is meant anyway changes nothing."""
    assert parse_scenario(GOOD.replace("jobs:", "currency: USD\njobs:")) == parse_scenario(GOOD)
    assert offer(PRICED, currency="USD") == offer(PRICED)


def test_a_service_takes_architectures_by_any_of_their_names() -> None:
    """Aliases become the card's name."""
    one = asked({"provider": "s", "managed": {"architectures": ["MISTRAL-7B", "Llama 3 8B"], "usd_per_run": 1}})
    assert one.offers[0].managed is not None
    assert one.offers[0].managed.architectures == ("mistral-7b", "llama-3-8b")
    alone = asked({"provider": "s", "managed": {"architectures": "mistral-7b", "usd_per_run": 1}})
    assert alone.offers[0].managed is not None and alone.offers[0].managed.architectures == ("mistral-7b",)


@pytest.mark.slow
@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6), st.sampled_from(["", "x"]))
def test_every_way_to_pay_survives_being_written_down(names: list[str], instance: str) -> None:
    """Text, plain data and object say the same; what is derived is not written, and labels stay apart."""
    scenario = asked(PRICED, *({**KINDS[name], "instance": instance} for name in names))
    assert parse_scenario(json_text(scenario_data(scenario))) == scenario
    assert change_scenario(scenario, ()) == scenario
    assert all("usd_per_hour" not in row for row in scenario_data(scenario)["offers"] if "own" in row)
    labels = offer_labels(scenario.offers)
    assert len(set(labels)) == len(labels)


def test_a_network_that_nobody_knows_is_a_fault_in_a_scenario_and_none_in_a_price_list() -> None:
    """A misspelt name would leave the offer out in silence; a price list may name more networks than there are here."""
    offer = {"provider": "s", "region": "any", "managed": {"architectures": ["mistral-7bb"], "usd_per_run": 1}}
    with pytest.raises(ScenarioError) as caught:
        asked(offer)
    (fault,) = caught.value.faults
    assert fault.where == "offers.0.managed.architectures.0" and "mistral-7b" in fault.fix
    listed, faults = json_text({"offers": [{**offer, "date": "2026-11-01", "source": "a page"}]}), list[Fault]()
    (read,) = read_offers(parse_document(listed, "list.yaml"), faults)
    assert not faults
    assert read.managed is not None and read.managed.architectures == ("mistral-7bb",)


def test_a_setting_changes_what_an_own_machine_costs() -> None:
    """The hour's price is derived again from a dearer kWh: 0.5 kW at 0.50 $, and 0.10 $ of wear."""
    dearer = change_scenario(asked(OWN), ["offers.0.own.usd_per_kwh=0.5"])
    assert dearer.offers[0].usd_per_hour == pytest.approx(0.35)


def test_a_price_factor_keeps_the_ways_to_pay_consistent() -> None:
    """It scales all of a commitment; of an own machine it scales the hour, not what a kWh or the machine costs."""
    scenario = parse_scenario(json_text({**question(YEAR, OWN, SERVICE), "adjust": [{"usd_per_hour_factor": 2.0}]}))
    year, own, service = (one for _, one in scenario.labelled_offers())
    assert year.committed_usd == pytest.approx(2 * offer(YEAR).committed_usd)
    assert own.usd_per_hour == pytest.approx(0.5)
    assert own.own == offer(OWN).own
    assert service == scenario.offers[2]


def test_the_nearest_card_is_one_that_is_rented() -> None:
    """Machines without GPU and services are no cards, and no reason to fail."""
    offers = [offer(data) for data in (CPU, SERVICE, PRICED)]
    assert suggest_gpus("RTX3090", offers, read_library([])) == ["T4"]
    assert suggest_offers("p/any/16-core", offers)[0] == "p/any/16-cores"


def test_the_schema_knows_every_way_to_pay() -> None:
    """Editors that read the schema offer the keys, the terms of a commitment and the one currency."""
    schema = scenario_schema()
    properties = schema["$defs"]["Offer"]["properties"]
    assert {"cpu_cores", "ram_gb", "commitment", "committed_hours", "own", "managed"} <= set(properties)
    assert {"disk_gb_per_second", "download_gb_per_second", "currency"} <= set(properties)
    assert schema["$defs"]["Offer"]["required"] == ["provider"]
    assert schema["$defs"]["Commitment"]["properties"]["months"]["enum"] == list(MONTHS)
    assert schema["properties"]["currency"]["const"] == "USD"
    assert {"power_watts", "usd_per_kwh"} <= set(schema["$defs"]["Own"]["properties"])
    assert "architectures" in schema["$defs"]["Managed"]["required"]


def test_plain_data_of_an_offer_reads_back_the_same() -> None:
    """Also outside a scenario: an offer is its own data."""
    for data in KINDS.values():
        assert offer(offer_data(offer(data))) == offer(data)
    assert Commitment(months=1) == Commitment(months=1, upfront_usd=0.0)
