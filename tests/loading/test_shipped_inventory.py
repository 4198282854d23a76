"""The shipped inventories hold what a planner may trust: dated, sourced, distinct offers of known cards."""

from __future__ import annotations

import datetime
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.documents.files import data_folder, read_document, read_shipped
from planner.errors import Fault
from planner.library.names import unsold_type
from planner.loading.price_files import read_offers
from planner.loading.scenario_file import read_scenario
from planner.scenario.offer import TIERS, Offer
from planner.solving.solve import solve

SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C where it is there: the market takes the one in Python seconds."""
ROOT = Path(__file__).parents[2]
INVENTORY = ROOT / "scenarios" / "inventory"
MARKET, ARTICLES, WAYS = "market.yaml", "articles-2024.yaml", "ways-to-pay.yaml"
NAMED = {"runpod-community", "runpod-secure", "vast", "lambda", "vultr", "aws", "gcp", "azure"}
BILLED = NAMED | {"coreweave", "hyperstack", "nebius", "oracle-cloud", "paperspace", "scaleway", "verda"}
"""Providers whose billing step was found in their own or in secondary sources."""

Row = dict[str, Any]


def read(name: str) -> dict[str, Any]:
    """An inventory as plain data."""
    document: dict[str, Any] = yaml.load((INVENTORY / name).read_text(encoding="utf-8"), Loader=SafeLoader)
    return document


def market() -> list[Row]:
    """The rows of the market inventory."""
    offers: list[Row] = read(MARKET)["offers"]
    return offers


def hourly_usd(row: Row) -> float | None:
    """What an hour of an instance costs, what is paid upfront spread over its months; None where only spot is sold."""
    term = row.get("commitment", {"months": 1, "upfront_usd": 0})
    hour: float | None = row.get("usd_per_hour")
    return None if hour is None else hour + term.get("upfront_usd", 0) / (term["months"] * 730)


def test_the_market_is_wide() -> None:
    """A few hundred offers of at least a dozen providers, the ones every user asks for among them."""
    providers = Counter(offer["provider"] for offer in market())
    assert 250 <= providers.total() <= 650
    assert len(providers) >= 12
    assert set(providers) >= NAMED


@pytest.mark.parametrize("name", [MARKET, ARTICLES])
def test_prices_are_dollars_with_a_date_and_a_source(name: str) -> None:
    """Every offer says what it costs, since when and according to whom."""
    document = read(name)
    newest = datetime.date.fromisoformat(document["date"])
    assert document["currency"] == "USD"
    for offer in document["offers"]:
        prices = [hourly_usd(offer), *([offer["spot_usd_per_hour"]] if "spot_usd_per_hour" in offer else [])]
        assert min(price for price in prices if price is not None) > 0, offer
        assert datetime.date.fromisoformat(offer["dates"]["to"] if "dates" in offer else offer["date"]) <= newest, offer
        assert document["sources"][offer["source"]], offer


@pytest.mark.parametrize("name", [MARKET, ARTICLES, WAYS])
def test_every_source_is_used(name: str) -> None:
    """A source that no offer names is a left-over."""
    document = read(name)
    assert {offer["source"] for offer in document["offers"]} == set(document["sources"])


@pytest.mark.parametrize("name", [MARKET, ARTICLES, WAYS])
def test_cards_are_known(name: str) -> None:
    """Every GPU of an offer has a card in models/gpus, every network of a service one in models/architectures."""
    gpus, architectures = (
        {path.stem for path in (ROOT / "models" / kind).glob("*.yaml")} for kind in ("gpus", "architectures")
    )
    offers = read(name)["offers"]
    assert {offer["gpu"] for offer in offers if "gpu" in offer} <= gpus
    assert {name for o in offers if "managed" in o for name in o["managed"]["architectures"]} <= architectures


@pytest.mark.parametrize("name", [MARKET, ARTICLES, WAYS])
def test_nothing_is_offered_twice(name: str) -> None:
    """Provider, region, instance and GPU count tell offers apart."""
    keys = Counter((o["provider"], o.get("region"), o["instance"], o.get("gpus")) for o in read(name)["offers"])
    assert [key for key, times in keys.items() if times > 1] == []


def test_spot_is_not_dearer_than_on_demand() -> None:
    """A spot price over the list price would be a slip of the pen; rounding may lift it a little."""
    both = [offer for offer in market() if {"usd_per_hour", "spot_usd_per_hour"} <= set(offer)]
    assert both
    assert [o for o in both if o["spot_usd_per_hour"] > 1.05 * o["usd_per_hour"]] == []


def test_a_price_per_gpu_is_near_the_median_of_its_gpu() -> None:
    """The price of one GPU for that of eight is a factor 8, and a decimal point one of 10.

    Hosts give V100 boards away for a twentieth of what clouds ask for them; Paperspace asks for an A5000 eight times
    what private hosts do.
    """
    by_gpu: dict[str, list[tuple[float, Row]]] = {}
    for offer in market():
        price = hourly_usd(offer)
        wide = offer.get("gpu") == "V100-16GB" or (offer["provider"], offer.get("gpu")) == ("paperspace", "A5000")
        if "gpu" in offer and price is not None and not wide:
            by_gpu.setdefault(offer["gpu"], []).append((price / offer["gpus"], offer))
    assert len(by_gpu) > 25
    for prices in by_gpu.values():
        middle = statistics.median(price for price, _ in prices)
        assert [offer for price, offer in prices if not middle / 7 < price < middle * 7] == []


def test_a_spot_price_is_no_twentieth_of_the_price_on_demand() -> None:
    """AWS and GCP listed down to a tenth; less looks like the price of one GPU."""
    listed = [offer for offer in market() if "spot_usd_per_hour" in offer and "usd_per_hour" in offer]
    assert len(listed) > 100
    assert [offer for offer in listed if offer["spot_usd_per_hour"] < 0.05 * offer["usd_per_hour"]] == []


MIDDLE = re.compile(
    r"(?P<none>no discount on spot in the )?median of (?P<zones>\d+) zones, (?P<low>[\d.]+) to (?P<high>[\d.]+)"
)


def test_a_median_over_zones_is_one() -> None:
    """The upper of two middle prices is none: p5e in us-east-2 stood at 63.0, with zones at 18.7 and 63.0."""
    zoned = [offer for offer in market() if "zones" in offer]
    assert len(zoned) >= 40
    for offer in zoned:
        middle = statistics.median(offer["zones"].values())
        assert offer["spot_usd_per_hour"] == pytest.approx(middle, abs=6e-5), offer
    for offer in market():
        if (found := MIDDLE.search(offer.get("notes", ""))) is None:
            continue
        ends = float(found["low"]), float(found["high"])
        if found["zones"] == "2" and not found["none"]:
            assert offer["spot_usd_per_hour"] == pytest.approx(sum(ends) / 2, abs=6e-5), offer
        assert not (found["none"] and found["zones"] == "2" and ends[0] < ends[1]), offer


def test_what_is_not_sold_has_no_price() -> None:
    """No row of a retired instance type, and no price on demand where spot alone is sold."""
    for offer in market():
        unsold = unsold_type(offer["provider"], offer["instance"])
        assert unsold is None or (unsold.sold_on_spot and "usd_per_hour" not in offer), offer
    spot_only = {offer["instance"] for offer in market() if unsold_type(offer["provider"], offer["instance"])}
    assert spot_only >= {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-8g", "a4-highgpu-8g"}
    assert {name for name in spot_only if not name.startswith(("a3-", "a4-"))} == {
        name for name in (offer["instance"] for offer in market()) if name.endswith("-spot")
    }


def test_a_row_without_a_price_on_demand_says_why() -> None:
    """Its type is one that is sold on spot alone, or its note says that no price on demand is published."""
    for offer in market():
        if "usd_per_hour" not in offer:
            is_known = unsold_type(offer["provider"], offer["instance"]) is not None
            assert is_known or "on demand" in offer["notes"], offer


CATALOG_NAMES = {
    "aws": r"[a-z]\w+(-b\d+)?\.\d*x?(large|metal)",
    "azure": r"Standard_N[CDV]\w+",
    "coreweave": r"gd-\d+x\w+(-i\d+)?|[a-z]+\d+-\d+x",
    "crusoe-cloud": r"[a-z]+\d+\w*(-\d+gb)?(-sxm)?(-ib)?\.\d+x",
    "digitalocean": r"gpu-\w+x\d+-\d+gb((-lc)?-spot)?",
    "gcp": r"(a2|a3|a4|g2|g4)-\w+-\d+g?|v\d\w*-\d+",
    "hyperstack": r"n\d-[\w-]+x\d+(-NVLink)?",
    "jarvis-labs": r"\d+x_\w+_\d+V_\d+G",
    "lambda": r"gpu_\d+x_\w+",
    "nebius": r"gpu-\w+(-\w+)?_\dgpu-\d+vcpu-\d+gb",
    "oracle-cloud": r"(BM|VM)\.GPU[\w.-]+",
    "ovhcloud": r"[a-z]\d\w*-\d+",
    "paperspace": r"[A-Z]\d+\w*",
    "scaleway": r"[A-Z0-9]+-\w+(-\w+)?",
    "verda": r"\d\w+(\.\d+S)?\.\d+V",
    "vultr": r"v(cg|bm)-[\w-]+",
}
"""How the catalog of a provider names its instances; what is not of this form cannot be started."""
WITHOUT_NAMES = {"runpod-secure", "runpod-community", "vast"}
"""Providers that are asked for a GPU and a number of them: their rows have names of our own."""


def test_instances_have_the_names_of_their_catalog() -> None:
    """`1x-h100-sxm` stood for Lambda's `gpu_1x_h100_sxm5`, which an export could not start."""
    named = [o for o in market() if o["provider"] not in WITHOUT_NAMES and "commitment" not in o]
    assert {offer["provider"] for offer in named} == set(CATALOG_NAMES)
    odd = [o["instance"] for o in named if not re.fullmatch(CATALOG_NAMES[o["provider"]], o["instance"])]
    assert odd == []


def test_bare_metal_of_oracle_is_paid_for_an_hour_at_least() -> None:
    """A virtual machine for a minute."""
    faults: list[Fault] = []
    offers = [one for one in read_offers(read_document(INVENTORY / MARKET), faults) if one.provider == "oracle-cloud"]
    assert not faults and {one.instance[:2] for one in offers} == {"BM", "VM"}
    for offer in offers:
        least = 1 if offer.instance.startswith("BM.") else 0.0167
        assert (offer.billing.step_seconds, offer.billing.minimum_hours) == (1, least), offer.label


def test_sizes_of_one_gpu_are_of_one_day_where_their_price_is_linear() -> None:
    """Verda's prices move daily: one GPU at the price of a day and eight at that of another one compare two days."""
    sizes: dict[str, set[tuple[str, float]]] = {}
    for offer in market():
        if offer["provider"] == "verda":
            sizes.setdefault(offer["gpu"], set()).add((offer["date"], round(offer["usd_per_hour"] / offer["gpus"], 4)))
    assert len(sizes) > 5
    assert {gpu: found for gpu, found in sizes.items() if len(found) > 1} == {}


def test_a_window_ends_with_what_its_source_has() -> None:
    """Replies recorded in a test are not newer than the commit that brought them."""
    recorded = {o["provider"]: o["dates"]["to"] for o in market() if o["source"] == "gpuhunt-recorded"}
    assert recorded == {"vultr": "2025-01-08"}


SIZED_POD = re.compile(r"(?:ask-)?(?P<gpus>\d+)x-(?:(?!vcpu).)*?-(?P<gib>\d+)gb")
FAMILIES = {
    **{"p4d.": "A100-40GB", "p4de.": "A100-80GB", "p5.": "H100-80GB", "p5e": "H200", "p6-b200.": "B200"},
    **{"a2-highgpu": "A100-40GB", "a2-ultragpu": "A100-80GB", "a3-highgpu": "H100-80GB", "g2-standard": "L4"},
    **{"a3-megagpu": "H100-80GB", "a3-ultragpu": "H200", "a4-highgpu": "B200", "p6-b300.": "B300"},
}
"""Beginnings of instance types by the GPU of the family (pages of AWS and GCP on their instance types)."""


def test_the_memory_in_a_name_is_that_of_the_card() -> None:
    """A pod called 8x-h100-80gb has eight GPUs of 80 GiB, and a family has one GPU."""
    cards = {path.stem: yaml.safe_load(path.read_text())["vram_gib"] for path in (ROOT / "models/gpus").glob("*.yaml")}
    rows = market()
    named = [(SIZED_POD.match(offer["instance"]), offer) for offer in rows if "gpu" in offer]
    sized = [(found, offer) for found, offer in named if found]
    assert len(sized) > 60
    for found, offer in sized:
        assert int(found["gpus"]) == offer["gpus"], offer
        assert float(found["gib"]) == pytest.approx(cards[offer["gpu"]], rel=0.1), offer
    for begins, gpu in FAMILIES.items():
        of_family = {offer["gpu"] for offer in rows if offer["instance"].startswith(begins)}
        assert of_family == {gpu}, begins


COUNTED = re.compile(
    r"gpu_(?P<lambda>\d+)x_|gd-(?P<coreweave>\d+)x|.*-(?P<nodes>\d+)x$|.*\.(?P<crusoe>\d+)x$"
    r"|gpu-[a-z0-9]+x(?P<digitalocean>\d)-|n3-[\w-]+x(?P<hyperstack>\d+)(-NVLink)?$"
    r"|(?P<verda>\d)[A-Z]\w*(\.\d+S)?\.\d+V|(BM|VM)\.GPU\.[\w.-]+\.(?P<oracle>\d+)$|a[234]-\w+-(?P<gcp>\d+)g$"
    r"|gpu-[\w-]+_(?P<nebius>\d)gpu-"
)
"""Where a name has the number of GPUs."""


def test_the_number_in_a_name_is_that_of_its_gpus() -> None:
    """The rate of one GPU under the name of eight would be an eighth of the price. GB200 comes in racks of 18."""
    counted = 0
    for offer in market():
        found = COUNTED.match(offer["instance"])
        if found is None or offer["provider"] in WITHOUT_NAMES or "gpu" not in offer:
            continue
        counted += 1
        count = int(next(number for number in found.groupdict().values() if number))
        assert offer["gpus"] == count * (18 if offer["instance"] == "gb200-4x" else 1), offer
    assert counted > 150


RENTED = {
    "B200": {"coreweave", "gcp", "hyperstack", "lambda", "runpod-secure"},
    "B300": {"hyperstack", "runpod-secure", "verda"},
    "GB200": {"coreweave", "oracle-cloud"},
    "H200": {"crusoe-cloud", "digitalocean", "gcp"},
    "H100-80GB": {"crusoe-cloud", "digitalocean"},
    "RTXPRO6000-96GB": {"coreweave", "hyperstack", "runpod-secure"},
    "MI300X": {"crusoe-cloud"},
    "MI350X": {"digitalocean"},
}
"""What is rented in 2026, and who was missing: Lambda's B200 stood as a cluster of 16 alone."""


def test_what_is_rented_in_2026_is_there() -> None:
    """Each GPU at the providers that rent it by the hour or on spot, Lambda's B200 from one to eight."""
    sellers: dict[str, set[str]] = {}
    for offer in market():
        if "commitment" not in offer and "gpu" in offer:
            sellers.setdefault(offer["gpu"], set()).add(offer["provider"])
    assert {gpu: names - sellers[gpu] for gpu, names in RENTED.items() if names - sellers[gpu]} == {}
    sizes = {o["gpus"] for o in market() if o["provider"] == "lambda" and o.get("gpu") == "B200"}
    assert sizes >= {1, 2, 4, 8}


def committed() -> list[Row]:
    """The rows of the market that are paid for a term, used or not."""
    return [offer for offer in market() if "commitment" in offer]


def test_commitments_are_real_ones_of_named_providers() -> None:
    """Terms that AWS, GCP, Lambda, RunPod and Vultr publish, each with a price of a day and the term in its name."""
    terms = {(offer["provider"], offer["commitment"]["months"]) for offer in committed()}
    assert terms == {("aws", 12), ("gcp", 12), ("gcp", 36), ("lambda", 1), ("runpod-secure", 6), ("vultr", 36)}
    for offer in committed():
        months = offer["commitment"]["months"]
        assert "date" in offer and "spot_usd_per_hour" not in offer, offer
        assert offer["instance"].endswith(f"-{months}-months") or offer["provider"] == "lambda", offer


def test_what_is_paid_upfront_is_the_published_rate_over_the_term() -> None:
    """RunPod's H200 costs 3.12 $ per hour for 6 months, 13,665.60 $; Vultr's L40S 0.848 $ for 36, 22,285.44 $."""
    upfront = {offer["instance"]: offer["commitment"].get("upfront_usd") for offer in committed()}
    assert upfront["1x-h200-savings-plan-6-months"] == pytest.approx(3.12 * 6 * 730)
    assert upfront["1x-l40s-prepaid-36-months"] == pytest.approx(0.848 * 36 * 730)
    assert upfront["8x-h100-sxm-prepaid-36-months"] == pytest.approx(8 * 2.30 * 36 * 730)


def test_a_commitment_costs_less_per_hour_than_the_same_machine_by_the_hour() -> None:
    """Nobody commits for nothing; Lambda's clusters are dearer than its single machines, as its page says."""
    by_the_hour = {
        (offer["provider"], offer["region"], offer["gpu"], offer["gpus"]): hourly_usd(offer)
        for offer in market()
        if "gpu" in offer and "commitment" not in offer
    }
    compared = 0
    for offer in committed():
        single = by_the_hour.get((offer["provider"], offer["region"], offer["gpu"], offer["gpus"]))
        if single is not None:
            compared += 1
            assert hourly_usd(offer) < single, offer
    assert compared >= 10


def test_vast_has_a_spot_price_with_its_day() -> None:
    """The median bid of a recorded market for one card; elsewhere its bids were not found."""
    (row,) = [offer for offer in market() if offer["provider"] == "vast" and "spot_usd_per_hour" in offer]
    assert (row["gpu"], row["usd_per_hour"], row["spot_usd_per_hour"]) == ("RTX5090", 0.535, 0.322)


def test_runpod_gets_no_spot_discount() -> None:
    """RunPod listed interruptible pods at the price on demand in 2026, so none is credited."""
    runpod = [offer for offer in market() if offer["provider"].startswith("runpod")]
    listed = [offer for offer in runpod if "spot_usd_per_hour" in offer]
    assert listed
    assert all(offer["spot_usd_per_hour"] >= offer["usd_per_hour"] for offer in listed)


def test_runpod_pods_cost_the_card_times_their_number() -> None:
    """Pods of 2, 4 and 8 GPUs cost that many times a pod of one."""
    runpod = [o for o in market() if "runpod" in o["provider"] and "commitment" not in o]
    pods = {(o["provider"], o["gpu"], o["gpus"]): o["usd_per_hour"] for o in runpod}
    assert {gpus for _, _, gpus in pods} == {1, 2, 4, 8}
    for (provider, gpu, gpus), price in pods.items():
        assert price == pytest.approx(gpus * pods[provider, gpu, 1], abs=1e-3), (provider, gpu, gpus)


@pytest.mark.slow
def test_known_terms_are_there() -> None:
    """Billing steps are stated where they are known, and every provider with terms says from where."""
    terms = read(MARKET)["terms"]
    assert set(terms) >= BILLED
    assert set(terms) <= {offer["provider"] for offer in market()}
    for provider, said in terms.items():
        assert said["source"], provider
        assert provider not in BILLED or said["billing"]["step_seconds"] > 0, provider
    assert terms["vultr"]["billing"] == {"step_seconds": 3600, "minimum_hours": 1}
    assert [name for name, said in terms.items() if said.get("community")] == ["runpod-community", "vast"]


def test_clusters_have_a_fabric() -> None:
    """Several nodes are offered only where something is known of the network between them."""
    clusters = [offer for offer in market() if offer.get("max_nodes", 1) > 1]
    assert clusters
    assert all(offer["gpus"] == 8 for offer in clusters)
    assert all("network_gbps" in offer or "InfiniBand" in offer.get("notes", "") for offer in clusters)


def test_articles_print_these_prices() -> None:
    """The prices of the articles per GPU and hour, as the first row of each provider and card has them."""
    singles = {(o["provider"], o["gpu"]): o["usd_per_hour"] for o in read(ARTICLES)["offers"] if o["gpus"] == 1}
    assert singles == {
        ("runpod", "RTX3090"): 0.50,
        ("runpod", "A100-80GB"): 3.00,
        ("vast", "RTX3090"): 0.30,
        ("vast", "A100-80GB"): 2.50,
        ("lambda", "A100-80GB"): 4.00,
        ("vultr", "A100-80GB"): 3.50,
        ("brev", "A10G"): 1.00,
    }


def test_machines_without_gpu_are_offered_for_the_stages() -> None:
    """Some with 32 GB of memory and more, at a price that anybody pays by the hour."""
    bare = [offer for offer in market() if "gpu" not in offer]
    assert len(bare) >= 3
    assert all(offer["ram_gb"] >= 32 and offer["cpu_cores"] >= 8 and offer["usd_per_hour"] > 0 for offer in bare)


def ways() -> tuple[Offer, ...]:
    """The offers of the inventory with one offer per way to pay."""
    faults: list[Fault] = []
    found = read_offers(read_document(INVENTORY / WAYS), faults)
    assert not faults
    return found


def test_every_way_to_pay_has_an_offer() -> None:
    """Each tier, commitments with and without an hourly price, hours left over, per token and per run, and cores.

    Machines to buy have a list of their own, because they need a horizon.
    """
    offers = ways()
    assert {offer.tier for offer in offers} == set(TIERS) - {"bought"}
    assert {offer.commitment.months for offer in offers if offer.commitment} == {1, 3, 12}
    assert any(offer.committed_hours for offer in offers) and any(offer.is_cpu for offer in offers)
    services = [offer.managed for offer in offers if offer.managed]
    assert any(service.usd_per_run for service in services)
    assert any(service.usd_per_million_tokens for service in services)


def test_a_price_that_nobody_published_says_so() -> None:
    """Illustrations stand under names of no provider, and a real provider's figure has a source of its own."""
    invented = {offer.provider for offer in ways() if offer.source == "illustration, not a price"}
    assert invented == {"example-cloud", "example-service", "desk"}
    assert invented.isdisjoint(offer.provider for offer in ways() if offer.source != "illustration, not a price")
    assert invented.isdisjoint(offer["provider"] for offer in market())


def test_prepaid_hours_cost_what_the_discount_leaves() -> None:
    """0.137 $ an hour less 20 % over 730 h, and less 30 % over 2,190 h, to the cent."""
    by_term = {offer.commitment.months: offer.committed_usd for offer in ways() if offer.commitment}
    assert by_term[1] == pytest.approx(0.137 * 0.8 * 730, abs=0.005)
    assert by_term[3] == pytest.approx(0.137 * 0.7 * 2190, abs=0.005)


@pytest.mark.long
def test_nobody_changes_what_was_parsed_once() -> None:
    """A plan and a changed scenario leave the data of the shipped files as they were, for who reads them next."""
    path = data_folder("scenarios") / "inventory" / "market.yaml"
    cards = sorted((data_folder("models") / "gpus").glob("*.yaml"))
    kept = repr([read_shipped(one).data for one in (path, *cards)])
    solve(
        read_scenario("quickstart", ["limits.budget_usd=50", "adjust=[{match: {gpu: A5000}, usd_per_hour_factor: 2}]"])
    )
    assert repr([read_shipped(one).data for one in (path, *cards)]) == kept
