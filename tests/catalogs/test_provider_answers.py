"""What providers' own interfaces answer: pages, wrappers, null fields, and prices that nobody can rent at."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalogs.catalog import Catalog, read_catalog
from planner.errors import InputError
from planner.scenario.offer import Offer

DAY = datetime.date(2026, 11, 20)


def read(folder: Path, answer: Any, name: str = "answer.json", provider: str | None = None) -> Catalog:
    path = folder / name
    path.write_text(answer if isinstance(answer, str) else json.dumps(answer, indent=1), encoding="utf-8")
    return read_catalog(str(path), provider, DAY)


def only(found: Catalog) -> Offer:
    (offer,) = found.offers
    return offer


def reasons(found: Catalog) -> set[str]:
    return set(found.read.left_out)


def refused(folder: Path, answer: Any, **options: Any) -> str:
    """Return the one line with which an answer is refused."""
    with pytest.raises(InputError) as error:
        read(folder, answer, **options)
    (fault,) = error.value.faults
    return str(fault).replace(f"{folder}/", "")


# Vast.ai.


def vast(**changes: Any) -> dict[str, Any]:
    record = {"id": 7, "gpu_name": "RTX 4090", "num_gpus": 2, "gpu_ram": 24564, "dph_total": 0.71, "min_bid": 0.3}
    host = {"geolocation": "Sweden, SE", "cpu_ram": 64000, "cpu_cores_effective": 16.0, "rentable": True}
    return {**record, **host, "rented": False, "verification": "verified", **changes}


@pytest.mark.parametrize("wrapped", [lambda one: {"offers": [one]}, lambda one: [one], lambda one: {"data": [[one]]}])
def test_an_offer_of_vast_is_a_machine_that_can_be_bid_for(tmp_path: Path, wrapped: Any) -> None:
    """Prices are of the whole offer; the region begins with the country."""
    offer = only(read(tmp_path, wrapped(vast())))
    assert (offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus) == ("vast", "SE", "7", "RTX4090", 2)
    assert (offer.usd_per_hour, offer.spot_usd_per_hour, offer.ram_gb, offer.community) == (0.71, 0.3, 64.0, True)
    assert offer.fees.egress_usd_per_gb == 0.06 and offer.date == DAY


def test_a_bid_is_no_price_on_demand_and_a_share_of_a_host_has_its_share_of_memory(tmp_path: Path) -> None:
    """A search for interruptible offers marks them, and their total is that of the bid."""
    bid = only(read(tmp_path, [vast(is_bid=True, dph_total=0.32, gpu_frac=0.5, geolocation="California, US")]))
    assert (bid.usd_per_hour, bid.spot_usd_per_hour) == (None, 0.32)
    assert (bid.ram_gb, bid.region) == (32.0, "US-California")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rentable": False}, "not to be rented now"),
        ({"rented": True}, "not to be rented now"),
        ({"verification": "deverified"}, "a host that Vast.ai no longer vouches for"),
        ({"actual_status": "running"}, "a machine that is rented already, and no offer"),
        ({"gpu_ram": 49140}, "no RTX4090 with 48 GiB is known"),
        ({"gpu_name": "RX 7900 XTX"}, "RX 7900 XTX: the frameworks that are planned"),
        ({"num_gpus": 0}, "no GPU"),
        ({"num_gpus": None}, "no GPU"),
        ({"dph_total": None, "min_bid": None}, "no price (empty or 0.00)"),
    ],
)
def test_what_cannot_be_rented_is_left_out_by_reason(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    """And hides no other offer."""
    found = read(tmp_path, [vast(id=1), vast(id=2, **changes)])
    assert only(found).instance == "1" and any(reason.startswith(why) for reason in reasons(found))


# RunPod.


def runpod(**changes: Any) -> dict[str, Any]:
    prices = {"securePrice": 2.79, "communityPrice": 2.39, "secureSpotPrice": 1.5, "communitySpotPrice": None}
    record = {"id": "NVIDIA H100 80GB HBM3", "displayName": "H100 SXM", "memoryInGb": 80, **prices}
    lowest = {"minimumBidPrice": 1.2, "uninterruptablePrice": 2.39, "stockStatus": "Low"}
    return {**record, "lowestPrice": lowest, "maxGpuCount": 8, **changes}


def test_a_gpu_of_runpod_is_pods_of_two_tiers(tmp_path: Path) -> None:
    """A price is of one GPU: a pod of eight costs eight times as much."""
    found = read(tmp_path, {"data": {"gpuTypes": [runpod()]}})
    prices = {(one.provider, one.gpus): (one.usd_per_hour, one.spot_usd_per_hour) for one in found.offers}
    assert prices["runpod-secure", 1] == (2.79, 1.5) and prices["runpod-secure", 8] == (22.32, 12.0)
    assert prices["runpod-community", 2] == (4.78, None) and len(prices) == 8
    assert {one.tier for one in found.offers} == {"secure", "community"}
    secure = read(tmp_path, {"data": {"gpuTypes": [runpod()]}}, provider="runpod-secure")
    assert {one.provider for one in secure.offers} == {"runpod-secure"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"communityCloud": False}, "not sold in the community cloud"),
        ({"communityPrice": None}, "no price (empty or 0.00)"),
        ({"communityPrice": 0}, "no price (empty or 0.00)"),
    ],
)
def test_a_tier_that_is_not_sold_is_left_out(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    """Also where the answer has a price of it."""
    found = read(tmp_path, [runpod(**changes)])
    assert {one.provider for one in found.offers} == {"runpod-secure"} and why in reasons(found)


def test_a_gpu_of_runpod_without_stock_or_price_says_so(tmp_path: Path) -> None:
    """The two ways in which an answer has nothing to rent."""
    gone = {"minimumBidPrice": None, "uninterruptablePrice": None, "stockStatus": None}
    found = read(tmp_path, [runpod(), runpod(displayName="L4", memoryInGb=24, lowestPrice=gone)])
    assert reasons(found) == {"not in stock now"}
    unpriced = {"id": "NVIDIA L4", "displayName": "L4", "memoryInGb": 24}
    assert "ask for securePrice and communityPrice" in refused(tmp_path, {"data": {"gpuTypes": [unpriced]}})


# Lambda.


def lambda_type(**changes: Any) -> dict[str, Any]:
    specs = {"vcpus": 208, "memory_gib": 1800, "storage_gib": 22528, "gpus": 8}
    named = {"name": "gpu_8x_h100_sxm5", "description": "8x H100 (80 GB SXM5)", "gpu_description": "H100 (80 GB SXM5)"}
    return {**named, "price_cents_per_hour": 2392, "specs": specs, **changes}


def lambda_answer(*machines: dict[str, Any], regions: Any = ({"name": "us-west-1"}, {"name": "us-east-1"})) -> Any:
    return {
        "data": {one["name"]: {"instance_type": one, "regions_with_capacity_available": [*regions]} for one in machines}
    }


def test_a_type_of_lambda_is_an_offer_in_each_region_with_capacity(tmp_path: Path) -> None:
    """Cents become dollars; the form and the memory are those of the description."""
    found = read(tmp_path, lambda_answer(lambda_type()))
    assert [one.region for one in found.offers] == ["us-west-1", "us-east-1"]
    offer = found.offers[0]
    assert (offer.provider, offer.instance, offer.gpu, offer.gpus) == ("lambda", "gpu_8x_h100_sxm5", "H100-80GB", 8)
    assert (offer.usd_per_hour, offer.cpu_cores, offer.interconnect) == (23.92, 208, "nvswitch")
    assert offer.billing.step_seconds == 60


def test_a_type_without_capacity_or_gpu_is_left_out_and_an_older_answer_is_read(tmp_path: Path) -> None:
    """Older answers have no `gpu_description` and no number of GPUs."""
    assert "no region has capacity now" in refused(tmp_path, lambda_answer(lambda_type(), regions=()))
    cpu = lambda_type(name="cpu_4x", description="4x CPU General", gpu_description="N/A", specs={"gpus": 0})
    old = lambda_type(name="gpu_1x_a10", description="1x A10 (24 GB PCIe)", gpu_description=None, specs={"vcpus": 30})
    found = read(tmp_path, lambda_answer(cpu, old, regions=({"name": "us-west-1"},)))
    assert (only(found).gpu, only(found).gpus, reasons(found)) == ("A10", 1, {"no GPU"})


# Azure.


def azure(**changes: Any) -> dict[str, Any]:
    price = {"currencyCode": "USD", "retailPrice": 6.98, "unitPrice": 6.98, "tierMinimumUnits": 0.0}
    names = {"meterName": "NC40ads H100 v5", "skuName": "NC40ads H100 v5", "armSkuName": "Standard_NC40ads_H100_v5"}
    product = {"productName": "Virtual Machines NCadsH100v5 Series", "serviceName": "Virtual Machines"}
    return {
        **price,
        **names,
        **product,
        "armRegionName": "eastus",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        **changes,
    }


def test_meters_of_a_size_are_one_offer_on_demand_and_on_spot(tmp_path: Path) -> None:
    """Its H100 is the NVL; pages of the answer may stand in one list."""
    spot = azure(retailPrice=2.5, meterName="NC40ads H100 v5 Spot", skuName="NC40ads H100 v5 Spot")
    pages = [{"Items": [azure()], "NextPageLink": "https://x"}, {"Items": [spot], "NextPageLink": None}]
    found = read(tmp_path, pages)
    offer = only(found)
    assert (offer.gpu, offer.gpus, offer.region) == ("H100-NVL-94GB", 1, "eastus")
    assert (offer.usd_per_hour, offer.spot_usd_per_hour, found.read.notes) == (6.98, 2.5, {})
    first = read(tmp_path, pages[0])
    assert first.read.notes == {"the answer has more pages, which are not in the file": 1}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"currencyCode": "EUR"}, "a price in EUR: ask for the prices in USD"),
        ({"type": "Reservation", "reservationTerm": "1 Year"}, "a price of the kind Reservation, and not by the hour"),
        ({"type": "DevTestConsumption"}, "a price of the kind DevTestConsumption"),
        ({"productName": "Virtual Machines NCadsH100v5 Series Windows"}, "a price with Windows"),
        ({"skuName": "NC40ads H100 v5 Low Priority"}, "a price of batch (low priority)"),
        ({"unitOfMeasure": "1/Month"}, "a price per 1/Month"),
        ({"serviceName": "Azure Machine Learning"}, "a price of Azure Machine Learning"),
        ({"effectiveEndDate": "2024-01-01T00:00:00Z"}, "a price that has ended"),
        ({"armSkuName": "Standard_D4s_v5"}, "no GPU"),
        ({"armSkuName": "Standard_NV12s_v3"}, "GPUs of the size Standard_NV12s_v3 are not known"),
        ({"armSkuName": "Standard_NC6s_v3"}, "Standard_NC6s_v3: retired on 2025-09-30"),
    ],
)
def test_a_meter_that_is_no_linux_machine_by_the_hour_is_left_out(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    """A reservation stands there with its price of a year, in the same field."""
    found = read(tmp_path, {"Items": [azure(), azure(retailPrice=1.0, **changes)]})
    assert only(found).usd_per_hour == 6.98 and any(reason.startswith(why) for reason in reasons(found))


# Shadeform and Prime Intellect.


def shadeform(**changes: Any) -> dict[str, Any]:
    machine = {
        "gpu_type": "H100",
        "num_gpus": 8,
        "vram_per_gpu_in_gb": 80,
        "memory_in_gb": 1800,
        "interconnect": "sxm5",
    }
    places = [{"region": "canada-1", "available": True}, {"region": "norway-1", "available": False}]
    names = {"cloud": "hyperstack", "shade_instance_type": "H100_sxm5x8", "cloud_instance_type": "n3-H100-SXM5x8"}
    return {**names, "configuration": machine, "hourly_price": 1912, "availability": places, **changes}


def test_a_type_of_shadeform_costs_cents_where_it_is_available(tmp_path: Path) -> None:
    """It stands under the name that SkyPilot gives it, and has no terms of the cloud behind it."""
    found = read(tmp_path, {"instance_types": [shadeform()]})
    offer = only(found)
    assert (offer.provider, offer.region, offer.instance) == ("shadeform", "canada-1", "hyperstack_H100-sxm5x8")
    assert (offer.gpu, offer.usd_per_hour, offer.interconnect) == ("H100-80GB", 19.12, "nvswitch")
    assert reasons(found) == {"not available now"}


def test_spot_of_shadeform_is_never_a_price_on_demand(tmp_path: Path) -> None:
    """Its regions say the kind; without a price of its own it is left out."""
    places = [
        {"region": "a", "available": True, "rental_type": "on_demand"},
        {"region": "b", "available": True, "rental_type": "spot"},
        {"region": "c", "available": True, "rental_type": "spot", "hourly_price": 900},
    ]
    found = read(tmp_path, {"instance_types": [shadeform(availability=places)]})
    assert [(one.region, one.usd_per_hour, one.spot_usd_per_hour) for one in found.offers] == [
        *(("a", 19.12, None), ("c", None, 9.0))
    ]
    assert reasons(found) == {"on spot at a price that is not listed"}


def prime(**changes: Any) -> dict[str, Any]:
    prices = {"onDemand": 19.2, "communityPrice": None, "isVariable": False, "currency": "USD"}
    names = {"cloudId": "x", "gpuType": "H100_80GB", "socket": "SXM5", "provider": "hyperstack", "region": "us"}
    return {
        **names,
        "gpuCount": 8,
        "gpuMemory": 80,
        "prices": prices,
        "stockStatus": "Available",
        "isSpot": False,
        **changes,
    }


@pytest.mark.parametrize("wrapped", [lambda one: {"H100_80GB": [one]}, lambda one: {"items": [one], "totalCount": 1}])
def test_an_offer_of_prime_intellect_costs_dollars_for_the_machine(tmp_path: Path, wrapped: Any) -> None:
    """By GPU, as older answers are, or in pages."""
    offer = only(read(tmp_path, wrapped(prime(vcpu={"defaultCount": 200}, memory={"defaultCount": 1800}))))
    assert (offer.provider, offer.instance, offer.gpu, offer.gpus) == ("primeintellect", "hyperstack_x", "H100-80GB", 8)
    assert (offer.usd_per_hour, offer.spot_usd_per_hour, offer.ram_gb) == (19.2, None, 1800)


def test_offers_of_prime_intellect_on_spot_in_the_community_and_out_of_stock(tmp_path: Path) -> None:
    """A cluster is no machine, and a page of several is said to be one."""
    rows = [
        prime(cloudId="spot", isSpot=True),
        prime(cloudId="host", security="community_cloud", country="US", dataCenter="US-KS-2", stockStatus="Low"),
        prime(cloudId="gone", stockStatus="Out of Stock"),
        prime(cloudId="many", gpuCount=64),
        prime(cloudId="euro", prices={"onDemand": 1.0, "currency": "EUR"}),
    ]
    found = read(tmp_path, {"items": rows, "totalCount": 247})
    spot, host = found.offers
    assert (spot.usd_per_hour, spot.spot_usd_per_hour) == (None, 19.2)
    assert (host.tier, host.region, host.stock_status) == ("community", "US/US-KS-2", "low")
    assert len(reasons(found)) == 3 and found.read.notes == {"the answer has 247 offers, of which 5 are in the file": 5}


# AWS.


def history(zone: str, price: object, **changes: Any) -> dict[str, Any]:
    when = {"Timestamp": "2026-11-20T10:00:00+00:00", "ProductDescription": "Linux/UNIX"}
    return {"AvailabilityZone": zone, "InstanceType": "p4d.24xlarge", "SpotPrice": str(price), **when, **changes}


def test_a_history_of_spot_prices_is_an_offer_at_the_median_of_its_zones(tmp_path: Path) -> None:
    """The newest price of each zone counts, on the day of its time; other systems are left out."""
    rows = [
        history("us-east-1a", 99.0, Timestamp="2026-11-19T10:00:00Z"),
        history("us-east-1a", 11.0),
        history("us-east-1b", 12.0, ProductDescription="Linux/UNIX (Amazon VPC)"),
        history("us-east-1c", 14.0),
        history("us-east-1c", 1.0, ProductDescription="Windows"),
        history("us-east-1d", 0.1, InstanceType="m5.large"),
        history("us-east-1d", 0.1, InstanceType="p9.large"),
    ]
    found = read(tmp_path, {"SpotPriceHistory": rows, "NextToken": ""})
    offer = only(found)
    assert (offer.region, offer.instance, offer.gpu, offer.gpus) == ("us-east-1", "p4d.24xlarge", "A100-40GB", 8)
    assert (offer.usd_per_hour, offer.spot_usd_per_hour, offer.date) == (None, 12.0, DAY)
    assert offer.zones == (("us-east-1a", 11.0), ("us-east-1b", 12.0), ("us-east-1c", 14.0))
    assert reasons(found) == {
        *(
            "an older price of the same zone",
            "a price with Windows",
            "no GPU",
            "GPUs of the type p9.large are not known",
        )
    }


def test_a_history_as_a_table_is_read_in_the_same_way(tmp_path: Path) -> None:
    """It has columns of a SkyPilot catalog, and is none."""
    rows = [history("eu-west-1a", 11.2), history("eu-west-1b", 11.4)]
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    table, answer = read(tmp_path, "\n".join([*lines, ""]), "spot.csv"), read(tmp_path, rows)
    assert [one.zones for one in table.offers] == [one.zones for one in answer.offers]
    assert table.offers[0].spot_usd_per_hour == pytest.approx(11.3) and table.kind == answer.kind


# Refusals, each one line.


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            {"errors": [{"message": "Unauthorized"}], "data": None},
            "answer.json:1: the answer is an error: Unauthorized; ",
        ),
        ({"error": "invalid api key"}, "the answer is an error: invalid api key"),
        ({"detail": "Not authenticated"}, "the answer is an error: Not authenticated"),
        ({"offers": []}, "the answer has no offers; ask with a wider filter"),
        ({"offerCode": "AmazonEC2", "products": {}, "terms": {}}, "is a price list of AWS, which is not read"),
        ({"skus": [{"skuId": "x"}]}, "is a list of SKUs of Google Cloud, which is not read"),
        ({"a": 1}, "no list of machines; give a JSON answer of Vast.ai, RunPod"),
        ([{**vast()}, {**azure()}], "holds answers of several kinds: Vast.ai offers, Azure retail prices"),
        ([vast(dph_total="cheap")], "answer.json:2: dph_total: 'cheap' is not a number; correct the record"),
        ([vast(dph_total=-1)], "dph_total: -1 is negative"),
        ([vast(rented=True)], "no row is an offer: 1 not to be rented now"),
        ({"Items": [azure(currencyCode="EUR")]}, "no row is an offer: 1 a price in EUR: ask for the prices in USD"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_an_answer_without_prices_is_refused_in_a_line(tmp_path: Path, answer: Any, told: str) -> None:
    """With the file, what is wrong and what to do."""
    assert told in refused(tmp_path, answer)


def test_prices_of_another_provider_than_named_are_refused(tmp_path: Path) -> None:
    """The answer says whose it is."""
    told = refused(tmp_path, [vast()], provider="lambda")
    assert "these are Vast.ai offers, and --provider names lambda; leave --provider out" in told


_KEYS = st.sampled_from([*vast(), *runpod(), *azure()])
_JUNK = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)
_RECORDS = (vast(), runpod(), azure(), shadeform(), prime(), history("us-east-1a", 1.0))


@pytest.mark.slow
@given(_JUNK, st.sampled_from(_RECORDS), st.data())
def test_whatever_stands_in_an_answer_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, junk: Any, record: dict[str, Any], data: st.DataObject
) -> None:
    """A record with any value in any field is an offer at a finite price, or a fault with its file."""
    key = data.draw(st.sampled_from(sorted(record)))
    folder = tmp_path_factory.mktemp("answer")
    try:
        found = read(folder, [junk, {**record, key: junk}])
    except InputError as error:
        assert all(fault.file.endswith("answer.json") for fault in error.faults)
    else:
        assert all((one.usd_per_hour or one.spot_usd_per_hour or 0) > 0 for one in found.offers)


def test_an_answer_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is parsed: what is read takes 10 s and 500 MB at most."""
    monkeypatch.setattr("planner.catalogs.catalog.MAX_JSON_BYTES", 100)
    assert "more than the 0 MB that are read; ask for fewer regions" in refused(tmp_path, [vast()])
