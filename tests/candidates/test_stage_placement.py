"""Data are prepared where the memory for it is, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from tests.helpers.stage_scenarios import CPU, RENTED, asked, library, planned, solved

SMALL = {**RENTED, "ram_gb": 16}
ROOMY: dict[str, Any] = {**RENTED, "provider": "q", "ram_gb": 64, "usd_per_hour": 5.0}
WANTED = {"ingest": {"raw_gb": 50, "tokens": 1e9, "ram_gb": 32}}
HERE = {"ingest": {**WANTED["ingest"], "on": "machine"}}


def test_a_machine_of_too_little_memory_prepares_no_data() -> None:
    """With 16 GB where 32 are asked for, the cheap machine gives way to a dear one, and the reason is counted."""
    plan = solved(asked(SMALL, ROOMY, stages=HERE))
    assert plan.jobs[0].provider == "q"
    assert plan.candidates.reasons["its memory is too small to prepare the data"] > 0


def test_memory_elsewhere_will_do() -> None:
    """The small machine trains where a CPU offer with the memory prepares."""
    told = planned(SMALL, {**CPU, "ram_gb": 64}, stages=WANTED)
    assert (told.provider, [one.provider for one in told.separate_machines]) == ("p", ["c"])


def test_a_provider_that_is_forbidden_prepares_no_data() -> None:
    """The cheaper of two CPU offers prepares; where its provider is forbidden, the other one does."""
    offers = (SMALL, {**CPU, "ram_gb": 64}, {**CPU, "provider": "d", "ram_gb": 64, "usd_per_hour": 9.0})
    assert [one.provider for one in planned(*offers, stages=WANTED).separate_machines] == ["c"]
    told = planned(*offers, stages=WANTED, limits={"providers": {"forbid": ["c"]}})
    assert [one.provider for one in told.separate_machines] == ["d"]


def test_unknown_memory_is_enough() -> None:
    """What an offer does not say rules nothing out."""
    assert planned(RENTED, stages=HERE).provider == "p"


def test_an_observed_run_had_its_memory() -> None:
    """A machine on which the whole job was seen prepares what it did, whatever its offer says."""
    measured = [{"gpu": "A100-80GB", "gpus": 1, "hours": 2}]
    assert planned(SMALL, stages=HERE, measured=measured).observed_hours == 2


def test_memory_that_nobody_has_is_a_fault() -> None:
    """Where every place lacks memory, the stage is told with what would be enough."""
    with pytest.raises(ScenarioError) as caught:
        solved(asked(SMALL, {**CPU, "ram_gb": 16}, stages=WANTED))
    (fault,) = caught.value.faults
    assert fault.where == "jobs.job.stages.ingest.on"
    assert fault.what == "no offer can run this stage on machine or cpu"
    assert fault.fix == "offer a machine with 32 GB of RAM, or require less: ram_gb"


def test_the_audit_asks_for_the_memory() -> None:
    """A plan that prepares data on its own machine fails where that has less memory than is asked for."""
    plan = solved(asked({**RENTED, "ram_gb": 64}, stages=HERE))
    found = audit(plan, asked(SMALL, stages=HERE), library())
    assert "place of ingest" in {one.what for one in found}
