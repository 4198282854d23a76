"""Links between GPUs: PCIe unless the offer or its instance type says otherwise."""

from __future__ import annotations

import json

import pytest

from planner.documents.files import data_folder, parse_value
from planner.library.names import known_interconnect, unsold_type
from planner.loading.scenario_file import parse_scenario
from planner.solving.solve import solve


@pytest.mark.parametrize(
    ("provider", "instance", "link"),
    [
        ("aws", "p4d.24xlarge", "nvswitch"),
        ("AWS", "P3.8xlarge", "nvlink"),
        ("aws", "p3.2xlarge", None),  # one GPU
        ("aws", "g5.12xlarge", None),
        ("azure", "standard_nd96isr_h100_v5", "nvswitch"),
        ("vast", "p4d.24xlarge", None),
    ],
)
def test_types_are_known_by_provider_and_the_beginning_of_their_name(
    provider: str, instance: str, link: str | None
) -> None:
    """In any case; the same name elsewhere says nothing."""
    assert known_interconnect(provider, instance) == link


def test_every_known_link_has_a_source() -> None:
    """A fact without a source is a guess."""
    for file in ("interconnect.yaml", "unsold.yaml"):
        text = (data_folder("models") / "machines" / file).read_text(encoding="utf-8")
        assert all(len(row["source"]) > 20 and row["instances"] for row in parse_value(text, ""))


@pytest.mark.parametrize(
    ("provider", "instance", "sold"),
    [
        ("gcp", "a3-highgpu-1g", "on spot"),
        ("GCP", "A3-HighGPU-4g", "on spot"),
        ("gcp", "a3-highgpu-8g", "on demand"),
        ("gcp", "a4-highgpu-8g", "on spot"),
        ("gcp", "a2-highgpu-1g", "on demand"),
        ("azure", "Standard_NC6s_v3", "no more"),
        ("azure", "Standard_NC6s_v4", "on demand"),
        ("aws", "p3.8xlarge", "no more"),
        ("aws", "p3dn.24xlarge", "on demand"),
        ("vast", "p3.8xlarge", "on demand"),
    ],
)
def test_types_that_are_not_sold_are_known_by_provider_and_name(provider: str, instance: str, sold: str) -> None:
    """In any case; the same name elsewhere says nothing."""
    unsold = unsold_type(provider, instance)
    assert sold == ("on demand" if unsold is None else "on spot" if unsold.sold_on_spot else "no more")


@pytest.mark.parametrize(
    ("offer", "link", "told"),
    [
        ({"provider": "market"}, "pcie", True),
        ({"provider": "market", "interconnect": "nvlink"}, "nvlink", False),
        ({"provider": "aws", "instance": "p5.48xlarge"}, "nvswitch", False),
        ({"provider": "aws", "instance": "p5.48xlarge", "interconnect": "pcie"}, "pcie", False),
    ],
)
def test_a_plan_says_where_pcie_was_assumed(offer: dict[str, str], link: str, told: bool) -> None:
    """Eight H100 of a marketplace may be PCIe cards: the plan counts on no more, and says so."""
    job = {"architecture": "mistral-7b", "work": {"tokens": "5M"}, "techniques": {"method": "lora"}}
    rented = {"gpu": "H100-80GB", "gpus": 8, "usd_per_hour": 20.0, **offer}
    plan = solve(parse_scenario(json.dumps({"jobs": [job], "offers": [rented]})))
    assert plan.jobs[0].interconnect == link
    assert any("PCIe assumed" in note for note in plan.warnings) == told
