"""Inventory files: terms that offers inherit, and faults at the line where they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.loading.scenario_file import parse_scenario
from tests.helpers.scenarios import GOOD, told

OFFER = "{provider: p, gpu: T4, gpus: 1, usd_per_hour: 1}"
DATED = "{provider: p, gpu: T4, gpus: 1, usd_per_hour: 1, date: 2026-01-01}"


def test_terms_are_defaults_of_a_providers_offers(tmp_path: Path) -> None:
    """An offer may differ in a single fee; dates and sources come from the file, texts of sources by key."""
    (tmp_path / "m.yaml").write_text(
        """\
date: 2026-01-02
currency: USD
sources: {page: the price page}
terms:
  p:
    billing: {step_seconds: 60}
    fees: {egress_usd_per_gb: 0.1, storage_usd_per_gb_month: 0.2}
    network_gbps: 100
offers:
  - {provider: p, gpu: T4, gpus: 1, usd_per_hour: 1, source: page}
  - {provider: p, gpu: T4, gpus: 2, usd_per_hour: 2, date: 2025-01-01, fees: {egress_usd_per_gb: 0}}
  - {provider: q, gpu: T4, gpus: 1, spot_usd_per_hour: 3, max_nodes: null}
""",
        encoding="utf-8",
    )
    scenario = parse_scenario(GOOD.replace("jobs:", "inventory: m.yaml\njobs:"), tmp_path)
    first, second, third = scenario.offers[:3]
    assert (first.billing.step_seconds, first.network_gbps, first.source) == (60, 100, "the price page")
    assert (second.fees.egress_usd_per_gb, second.fees.storage_usd_per_gb_month) == (0, 0.2)
    assert [str(offer.date) for offer in (first, second, third)] == ["2026-01-02", "2025-01-01", "2026-01-02"]
    assert (third.billing.step_seconds, third.max_nodes, third.fees.egress_usd_per_gb) == (1, 1, None)
    assert scenario.offers[3:] == scenario.offers_inline


def test_a_managed_service_pays_no_fee_of_machine_hours(tmp_path: Path) -> None:
    """Terms of its provider are those of the machines; a fee that is written at the service itself is refused."""
    path = tmp_path / "m.yaml"
    service = "{provider: p, source: x, managed: {architectures: [mistral-7b], usd_per_million_tokens: 1}%s}"
    text = (
        "date: 2026-01-01\nterms: {p: {fees: {public_ip_usd_per_hour: 0.01, egress_usd_per_gb: 0.1}}}\n"
        f"offers:\n  - {OFFER}\n  - {service}\n"
    )
    path.write_text(text % "", encoding="utf-8")
    asked = GOOD.replace("jobs:", "inventory: m.yaml\njobs:")
    machine, managed = parse_scenario(asked, tmp_path).offers[:2]
    assert (machine.fees.public_ip_usd_per_hour, machine.fees.egress_usd_per_gb) == (0.01, 0.1)
    assert (managed.fees.public_ip_usd_per_hour, managed.fees.egress_usd_per_gb) == (None, 0.1)
    path.write_text(text % ", fees: {public_ip_usd_per_hour: 5}", encoding="utf-8")
    with pytest.raises(InputError, match=r"m.yaml:5: .*a managed service has no machines, so no fees.public_ip"):
        parse_scenario(asked, tmp_path)


@pytest.mark.parametrize(
    ("inventory", "fault"),
    [
        ("currency: USD\noffers: []", "m.yaml:2: offers: is empty"),
        ("currency: USD\noffers: [5]", "m.yaml:2: offers.0: 5 is not a mapping"),
        ("currency: USD\noffers: 5", "m.yaml:2: offers: 5 is not a list"),
        ("currency: USD", "m.yaml:1: is not an inventory: it has no offers"),
        ("", "the file is empty"),
        (
            f"currency: USD\nterms: {{p: {{billing: {{step: 1}}}}}}\noffers: [{OFFER}, {OFFER}]",
            "m.yaml:2: terms.p.billing.step: unknown key; did you mean step_seconds?",
        ),
        (f"currency: USD\noffers:\n  - {OFFER.replace('T4', 'T5')}", "m.yaml:3: offers.0.gpu: unknown GPU 'T5'"),
        (f"currency: USD\ndate: soon\noffers:\n  - {DATED}", "m.yaml:2: date: 'soon' is not a date"),
        (f"currency: USD\ndate: soon\noffers: [{OFFER}, {OFFER}]", "m.yaml:2: date: 'soon' is not a date"),
    ],
)
def test_a_fault_of_an_inventory_is_told_at_its_own_line(tmp_path: Path, inventory: str, fault: str) -> None:
    """The file that is wrong is the file that is named, once, however many offers inherit the fault."""
    (tmp_path / "m.yaml").write_text(inventory, encoding="utf-8")
    (found,) = told(GOOD.replace("jobs:", "inventory: [m.yaml]\njobs:"), tmp_path)
    assert fault in found
