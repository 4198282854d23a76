"""Inventory files: terms that offers inherit, and faults at the line where they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

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
