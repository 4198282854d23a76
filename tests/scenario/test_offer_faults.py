"""What is refused of an offer, and what is told of it: one message per fault, and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.payment_scenarios import CPU, LEFT, OWN, PRICED, SERVICE, T4, YEAR, asked, faults
from tests.helpers.scenarios import GOOD, told


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (
            {"provider": "p", "usd_per_hour": 1},
            "offers.1: the rented hardware is missing; "
            "give gpu and gpus, cpu_cores for a machine without GPU, or managed for a service",
        ),
        (
            {"provider": "p", "gpu": "T4", "usd_per_hour": 1},
            "offers.1.gpus: the number of T4 is missing; give gpus, the GPUs of one instance",
        ),
        (
            {"provider": "p", "gpus": 2, "usd_per_hour": 1},
            "offers.1.gpu: the name of its 2 GPUs is missing; give gpu, such as H100-80GB",
        ),
        (
            {"provider": "p", "ram_gb": 8, "usd_per_hour": 1},
            "offers.1: the rented hardware is missing; "
            "give gpu and gpus, cpu_cores for a machine without GPU, or managed for a service",
        ),
        (
            {"provider": "p", "cpu_cores": 8},
            "offers.1.usd_per_hour: a machine without GPU has no price; give usd_per_hour, in dollars",
        ),
        (
            {"provider": "p", "cpu_cores": 8, "spot_usd_per_hour": 1},
            "offers.1.usd_per_hour: a machine without GPU has no price; give usd_per_hour, in dollars",
        ),
        ({**CPU, "cpu_cores": 0}, "offers.1.cpu_cores: 0 is out of range; must be more than 0"),
        ({**PRICED, "usd_per_hour": -1}, "offers.1.usd_per_hour: -1 is out of range; must be at least 0"),
        (
            {**PRICED, "fees": {"network_storage_usd_per_gb_month": -1}},
            "offers.1.fees.network_storage_usd_per_gb_month: -1 is out of range; must be at least 0",
        ),
        (
            {**PRICED, "egress_usd_per_gb": 1},
            "offers.1.egress_usd_per_gb: unknown key; write it below fees, as fees: {egress_usd_per_gb: ...}",
        ),
        ({**PRICED, "disk_gb_per_second": 0}, "offers.1.disk_gb_per_second: 0 is out of range; must be more than 0"),
        (
            {**PRICED, "commitment": {"months": 2}},
            "offers.1.commitment.months: 2 is not a commitment term; one of 1, 3, 6, 12, 36 months",
        ),
        (
            {**PRICED, "commitment": {"months": "12"}},
            "offers.1.commitment.months: '12' is not a commitment term; one of 1, 3, 6, 12, 36 months",
        ),
        (
            {**PRICED, "commitment": {"months": 12, "upfront_usd": -5}},
            "offers.1.commitment.upfront_usd: -5 is out of range; must be at least 0",
        ),
        (
            {**T4, "commitment": {"months": 12, "upfront_usd": 5}},
            "offers.1.usd_per_hour: a commitment without an hourly price; "
            "give usd_per_hour, which is due in every hour of the term; 0 where all of it is paid upfront",
        ),
        (
            {**T4, "usd_per_hour": 0, "commitment": {"months": 12}},
            "offers.1.commitment: a commitment that costs nothing; "
            "give usd_per_hour or upfront_usd; hours already paid for are committed_hours",
        ),
        (
            {**YEAR, "spot_usd_per_hour": 0.1},
            "offers.1.spot_usd_per_hour: a spot price together with commitment; "
            "leave it out: the spot price belongs to another offer",
        ),
        (
            {**LEFT, "spot_usd_per_hour": 0.1},
            "offers.1.spot_usd_per_hour: a spot price together with committed_hours; "
            "leave it out: the spot price belongs to another offer",
        ),
        ({**LEFT, "committed_hours": 0}, "offers.1.committed_hours: 0 is out of range; must be more than 0"),
        (
            {**YEAR, "committed_hours": 3},
            "offers.1: commitment, committed_hours exclude each other; keep one, and add another offer for the rest",
        ),
        (
            {**OWN, **SERVICE, "gpu": None, "gpus": 0},
            "offers.1: own, managed exclude each other; keep one, and add another offer for the rest",
        ),
        (
            {"provider": "desk", "cpu_cores": 8, "own": {"usd_per_kwh": 0.3}},
            "offers.1.own.power_watts: the power is missing; give power_watts, of one machine under load",
        ),
        (
            {**T4, "own": {"power_watts": 0, "usd_per_kwh": 0.3}},
            "offers.1.own.power_watts: 0 is out of range; must be more than 0",
        ),
        (
            {**T4, "own": {"power_watts": 300, "usd_per_kwh": -0.3}},
            "offers.1.own.usd_per_kwh: -0.3 is out of range; must be at least 0",
        ),
        (
            {**T4, "own": {"power_watts": 300, "usd_per_kwh": 0.3, "purchase_usd": 900}},
            "offers.1.own.lifetime_hours: a purchase without a lifetime; "
            "give lifetime_hours, the hours of use that purchase_usd is spread over",
        ),
        (
            {**OWN, "usd_per_hour": 1},
            "offers.1.usd_per_hour: an own machine with a price; "
            "leave it out: the hour's price follows from power and purchase",
        ),
        (
            {"provider": "s", "managed": {"architectures": ["mistral-7b"]}},
            "offers.1.managed: a managed service without a price; "
            "give usd_per_million_tokens or usd_per_run, in dollars",
        ),
        ({"provider": "s", "managed": {"usd_per_run": 3}}, "offers.1.managed.architectures: is missing; add it"),
        (
            {"provider": "s", "managed": {"usd_per_run": 3, "architectures": []}},
            "offers.1.managed.architectures: is empty; give at least one",
        ),
        (
            {"provider": "s", "managed": {"usd_per_run": -3, "architectures": ["mistral-7b"]}},
            "offers.1.managed.usd_per_run: -3 is out of range; must be at least 0",
        ),
        (
            {**SERVICE, "gpu": "T4", "gpus": 1},
            "offers.1.gpu: a managed service has no gpu; leave it out, or leave managed out",
        ),
        (
            {**SERVICE, "usd_per_hour": 0},
            "offers.1.usd_per_hour: a managed service has no usd_per_hour; leave it out; prices belong in managed",
        ),
        ({**PRICED, "currency": "EUR"}, "offers.1.currency: prices in EUR; convert the prices to USD"),
    ],
)
def test_a_faulty_offer_is_told_once_and_what_would_be_right(data: dict[str, Any], fault: str) -> None:
    """One message per fault, at the key it is about."""
    assert faults(PRICED, data) == [fault]


def test_a_fault_names_file_and_line(tmp_path: Path) -> None:
    """A managed service without a price, in the inventory that it is written in."""
    (tmp_path / "m.yaml").write_text(
        "currency: USD\noffers:\n  - {provider: p, gpu: T4, gpus: 1, usd_per_hour: 1}\n"
        "  - provider: s\n    managed:\n      architectures: [mistral-7b]\n",
        encoding="utf-8",
    )
    (found,) = told(GOOD.replace("jobs:", "inventory: [m.yaml]\njobs:"), tmp_path)
    assert found.startswith(f"{tmp_path / 'm.yaml'}:5: offers.1.managed: a managed service without a price")


@pytest.mark.parametrize(
    ("addition", "fault"),
    [
        ("currency: EUR", "s.yaml:2: currency: prices in EUR; convert the prices to USD"),
        ("currency: 5", "s.yaml:2: currency: 5 is not a currency; convert the prices to USD"),
        (
            "limits: {tiers: {forbid: [community, cheap]}}",
            "s.yaml:2: limits.tiers.forbid: 'cheap' is not a tier of offers; the nearest are secure, committed, bought",
        ),
    ],
)
def test_a_scenario_is_told_what_currency_and_tiers_there_are(addition: str, fault: str) -> None:
    """Another currency is no unknown key, and a misspelt tier does not limit nothing in silence."""
    assert told(GOOD.replace("jobs:", f"{addition}\njobs:")) == [fault]


def test_machines_without_gpu_train_nothing() -> None:
    """A scenario whose offers have no GPU is refused; a service beside them will do."""
    assert faults(CPU) == [
        "offers: no offer has a GPU; "
        "machines without a GPU run stages only: add an offer with gpu and gpus, or a managed service"
    ]
    assert len(asked(CPU, SERVICE).offers) == 2
