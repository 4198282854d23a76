"""Memory and cores of hosts: how many shipped offers have them, whether they can be, and what stands in for others."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import pytest
import yaml

from planner.documents.files import data_folder, read_document
from planner.documents.tables import parse_csv
from planner.errors import Fault
from planner.library.names import known_host, typical_ram_gb
from planner.library.reading import read_library
from planner.loading.price_files import read_offer_table, read_offers
from planner.loading.scenario_file import parse_scenario
from planner.scenario.offer import Offer
from planner.units import GB, GIB

KNOWN_OFFERS = 511
"""Shipped offers with GPUs whose memory is known, of 565; 12 of 480 before the table of hosts."""
LEAST_SHARE, MOST_SHARE = 0.5, 20.0
"""GB of host memory for each GB of GPU memory: a private host of 16 GB around an RTX 3090, 440 GiB around one A10."""
PRICED: dict[str, Any] = {"usd_per_hour": 10.0, "source": "illustration", "date": "2026-11-01"}


@cache
def shipped() -> tuple[Offer, ...]:
    """The shipped offers with GPUs."""
    faults: list[Fault] = []
    found = read_offers(read_document(data_folder("scenarios") / "inventory" / "market.yaml"), faults)
    assert not faults
    return tuple(offer for offer in found if offer.rents_gpus)


@cache
def gpu_gb(offer_gpu: str) -> float:
    """GB of one GPU."""
    return read_library([]).gpu(offer_gpu).vram_gib * GIB / GB


def share(offer: Offer) -> float:
    """GB of host memory for each GB of GPU memory."""
    assert offer.ram_gb is not None
    return offer.ram_gb / (offer.gpus * gpu_gb(offer.card))


def read_one(**keys: Any) -> Offer:
    """One offer as a scenario reads it."""
    data = {"name": "s", "jobs": [{"name": "j", "architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}}]}
    return parse_scenario(yaml.safe_dump({**data, "offers": [{**PRICED, **keys}]})).offers[0]


def test_nine_of_ten_shipped_offers_state_the_memory_and_the_cores_of_their_host() -> None:
    """What is left are buckets of Vast.ai, reservations without an instance type, and GPUs that no table has."""
    known = [offer for offer in shipped() if offer.ram_gb is not None]
    assert (len(known), len(shipped())) == (KNOWN_OFFERS, 565)
    assert [offer.label for offer in known if offer.cpu_cores is None] == []
    left = {offer.provider for offer in shipped() if offer.ram_gb is None}
    assert left == {"vast", "runpod-secure", "vultr", "crusoe-cloud", "lambda", "hyperstack"}


def test_memory_of_hosts_can_be() -> None:
    """One instance type has one memory, and so many GB for each GB of its GPUs as machines are built with."""
    by_type: dict[tuple[str, str], set[tuple[float | None, float | None]]] = {}
    for offer in shipped():
        if offer.instance:
            name = offer.instance.partition("-reserved-")[0].partition("-committed-")[0]
            by_type.setdefault((offer.provider, name), set()).add((offer.ram_gb, offer.cpu_cores))
    assert {name: found for name, found in by_type.items() if len(found) > 1} == {}
    shares = {offer.label: share(offer) for offer in shipped() if offer.ram_gb is not None}
    assert {label: one for label, one in shares.items() if not LEAST_SHARE <= one <= MOST_SHARE} == {}


def test_more_gpus_have_more_memory() -> None:
    """Of one provider and GPU no machine with more GPUs has less: memory per GPU taken for that of a machine would."""
    by_gpu: dict[tuple[str, str], dict[int, list[float]]] = {}
    for offer in shipped():
        if offer.ram_gb is not None and offer.provider != "vast":
            by_gpu.setdefault((offer.provider, offer.card), {}).setdefault(offer.gpus, []).append(offer.ram_gb)
    for key, by_count in by_gpu.items():
        least = [min(by_count[count]) for count in sorted(by_count)]
        assert least == sorted(least) and len(set(least)) == len(least), key


def test_the_typical_memory_is_the_median_of_what_is_known() -> None:
    """Each machine type once: hosts of a marketplace on one side, all others on the other."""
    for is_private in (False, True):
        known = {
            (offer.provider, offer.instance): share(offer)
            for offer in shipped()
            if offer.ram_gb is not None and offer.is_private_host == is_private
        }
        typical = typical_ram_gb(1000 * GB / GIB, is_private) / 1000
        assert typical == pytest.approx(statistics.median(known.values()), rel=0.005)


@pytest.mark.parametrize(
    ("keys", "ram_gb", "cores"),
    [
        ({"provider": "aws", "instance": "p5.48xlarge", "gpu": "H100-80GB", "gpus": 8}, 2199.0, 192),  # 2 TiB
        ({"provider": "AWS", "instance": "P5.48xlarge", "gpu": "H100", "gpus": 8}, 2199.0, 192),
        ({"provider": "gcp", "instance": "a2-highgpu-1g-committed-36-months", "gpu": "A100", "gpus": 1}, 91.3, 12),
        ({"provider": "runpod", "instance": "any", "gpu": "RTX3090", "gpus": 2}, 50, 8),  # for each GPU of a pod
        ({"provider": "runpod", "gpu": "RTX3090", "gpus": 1}, 25, 4),
        ({"provider": "aws", "instance": "p5.48xlarge", "gpu": "H100", "gpus": 8, "ram_gb": 64}, 64, 192),  # as stated
        ({"provider": "aws", "instance": "p99.metal", "gpu": "H100", "gpus": 8}, None, None),
        ({"provider": "me", "instance": "p5.48xlarge", "gpu": "H100", "gpus": 8}, None, None),
    ],
)
def test_an_offer_of_a_known_type_has_its_host(keys: dict[str, Any], ram_gb: float | None, cores: float | None) -> None:
    """Own offers have it too, by the names of provider and type in any case; what an offer states itself stands."""
    offer = read_one(**keys)
    assert (offer.ram_gb, offer.cpu_cores) == (ram_gb, cores)


def test_rows_of_a_table_have_their_host() -> None:
    """A CSV file of offers is read as an inventory is."""
    text = "provider,instance,gpu,gpus,usd_per_hour\naws,g5.xlarge,A10G,1,1.0\n"
    faults: list[Fault] = []
    offers = read_offer_table(parse_csv(text, "offers.csv"), faults)[1]
    assert not faults
    assert (offers[0].ram_gb, offers[0].cpu_cores) == (17.2, 4)


def test_names_of_providers_are_those_of_the_price_list() -> None:
    """A row under a name that no offer has would fill nothing."""
    for provider, instance, gpu in (("oci", "BM.GPU.H100.8", "H100-80GB"), ("datacrunch", "1A100.22V", "A100-80GB")):
        assert known_host(provider, instance, gpu, 8) is not None
    assert known_host("aws", "", "H100-80GB", 8) is None
