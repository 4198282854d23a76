"""An inventory that is too large to plan with is refused with its size."""

from __future__ import annotations

import pytest

from planner.loading import scenario_file
from tests.helpers.scenarios import GOOD, told


def test_too_many_offers_are_refused_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered for the test: 200,000 offers take a while to write."""
    monkeypatch.setattr(scenario_file, "MAX_OFFERS", 1)
    (fault,) = told(GOOD)
    assert fault == (
        "s.yaml:7: offers: 2 offers: more than 1; lower max_nodes, or leave out offers that no job may use"
    )


def test_too_many_sizes_of_machines_are_refused_with_their_number() -> None:
    """Each number of nodes of each kind of machine is compared; equal kinds count once."""
    offer = "{{provider: p{0}, gpu: RTX3090, gpus: {0}, usd_per_hour: 1, max_nodes: 1000}}"
    many = "offers: [" + ", ".join(offer.format(number) for number in range(1, 53)) + "]"
    (fault,) = told(GOOD.partition("offers:")[0] + many)
    assert "offers: 52,000 sizes of machines, from 1 to max_nodes each: more than 50,000; lower max_nodes" in fault
    equal = many.replace("gpus: ", "gpus: 1, cpu_cores: ")
    scenario_file.parse_scenario(GOOD.partition("offers:")[0] + equal)
