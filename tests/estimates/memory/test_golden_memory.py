"""Published peaks of memory against the estimate, with the coefficients that they were computed with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.estimates.inputs import Activations, Layout, Network, Stack, States
from planner.estimates.memory_fit import PHASES, MemoryEstimate
from planner.estimates.memory_terms import MemoryCoefficients
from planner.units import GB, GIB
from tests.helpers.memory_cases import estimate_memory, largest_micro_batch, need_bytes

HERE = Path(__file__).parent
TABLE = yaml.safe_load((HERE / "golden_memory.yaml").read_text(encoding="utf-8"))
CALIBRATION = yaml.safe_load((HERE.parents[2] / "models" / "calibration" / "memory.yaml").read_text(encoding="utf-8"))[
    "coefficients"
]
GOLDEN = yaml.safe_load((HERE.parent / "golden_coefficients.yaml").read_text(encoding="utf-8"))["memory"]
COEFFICIENTS = MemoryCoefficients(**GOLDEN)


def setup_of(case: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the estimate that a case of the table describes."""
    network = dict(TABLE["networks"][case["network"]])
    parts = {}
    for part in ("states", "activations"):
        flags = dict(case[part])
        parts[part] = {**TABLE["recipes"][part][flags.pop("recipe")], **flags}
    layout = dict(case["layout"])
    return {
        "network": Network(active_parameters=network["parameters"], **network),
        "layout": Layout(longest_sequence=layout["sequence"], **layout),
        "states": States(**{"trainable": network["parameters"], **parts["states"]}),
        "activations": Activations(**parts["activations"]),
        "stack": Stack(**case.get("stack", {})),
        "coefficients": COEFFICIENTS,
    }


def names(cases: list[dict[str, Any]]) -> list[str]:
    """Identifiers of a list of cases."""
    return [case["id"] for case in cases]


def estimate(case: dict[str, Any]) -> MemoryEstimate:
    """The estimate of a case on its card (no cap where the card is not stated)."""
    return estimate_memory(**setup_of(case), usable_bytes=case.get("usable_gib", float("inf")) * GIB)


@pytest.mark.parametrize("case", TABLE["cases"], ids=names(TABLE["cases"]))
def test_published_peak_is_met(case: dict[str, Any]) -> None:
    """The estimate meets what was measured within the tolerance of the case, in the phase named."""
    found = estimate(case)
    measured = case["measured"]
    measured_bytes = measured["gib"] * GIB if "gib" in measured else measured["gb"] * GB
    assert float(getattr(found, case["kind"])) == pytest.approx(measured_bytes, rel=case["tolerance"])
    if "phase" in case:
        assert PHASES[int(found.phase)] == case["phase"]


@pytest.mark.parametrize("case", TABLE["cases"], ids=names(TABLE["cases"]))
def test_formulas_are_those_that_were_fitted(case: dict[str, Any]) -> None:
    """The estimate repeats, within 0.5 %, what the formulas gave when their coefficients were fitted."""
    assert float(getattr(estimate(case), case["kind"])) / GIB == pytest.approx(case["model_gib"], rel=0.005)


def test_eager_attention_needs_more_than_fused() -> None:
    """Where the same run was measured with eager and fused attention, the estimate orders them alike."""
    by_id = {case["id"]: case for case in TABLE["cases"]}
    eager, fused = by_id["8a TinyLlama LoRA eager"], by_id["8b TinyLlama LoRA sdpa"]
    assert estimate(eager).allocated > estimate(fused).allocated


@pytest.mark.parametrize("case", TABLE["capacity"], ids=names(TABLE["capacity"]))
def test_longest_sequence_that_fits_fills_the_card(case: dict[str, Any]) -> None:
    """At the longest sequence reported to fit a card, the allocated bytes come close to its usable memory."""
    filled = float(estimate(case).allocated) / (case["usable_gib"] * GIB)
    assert filled == pytest.approx(1.0, abs=case["tolerance"])


@pytest.mark.parametrize("case", TABLE["out_of_memory"], ids=names(TABLE["out_of_memory"]))
def test_run_that_died_is_refused(case: dict[str, Any]) -> None:
    """What ran out of memory does not pass the fit rule, and the largest micro-batch is below it."""
    arguments, usable = setup_of(case), case["usable_gib"] * GIB
    assert need_bytes(**arguments, usable_bytes=usable) > usable
    assert largest_micro_batch(**arguments, usable_bytes=usable) < case["layout"]["micro_batch"]


@pytest.mark.parametrize("name", CALIBRATION)
def test_coefficient_carries_its_evidence(name: str) -> None:
    """Every coefficient that ships lies in its range, where it has one, and states unit, basis and source."""
    entry = CALIBRATION[name]
    if "low" in entry:
        assert entry["low"] <= entry["value"] <= entry["high"]
    assert entry["basis"] in ("measured", "prior")
    assert entry["unit"]
    assert len(entry["source"]) > 10
