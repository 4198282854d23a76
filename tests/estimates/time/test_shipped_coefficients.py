"""The shipped coefficients of the time estimate are complete and fit their cards and dataclasses."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import Kernels
from planner.estimates.stage_seconds import NodeGroupCoefficients, StageCoefficients
from planner.estimates.uncertainty import class_sigmas
from planner.library.schema import Calibration
from tests.helpers.time_cases import ROOT, calibration, document, kernels_of

PROFILES = ("hf", "hf_plus", "eager", "tuned", "compiled", "fused", "megatron")
FILES = ("time", "kernels", "gpu_efficiency", "uncertainty", "stages")
GPUS = sorted(path.stem for path in (ROOT / "models" / "gpus").glob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_files_are_sets_of_sourced_numbers(name: str) -> None:
    """Each file is a valid set whose name is the file's, every number with unit, basis and source."""
    assert Calibration.model_validate(document(f"models/calibration/{name}.yaml")).name == name


def test_shared_coefficients_are_exactly_the_fields() -> None:
    """time.yaml has one entry per field and nothing that no formula reads."""
    assert set(calibration("time")) == {field.name for field in fields(TimeCoefficients)}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_is_complete(profile: str) -> None:
    """Each profile has a value for every kernel coefficient, and a class of uncertainty."""
    kernels = kernels_of(profile, "nf4", shipped=True)
    assert kernels.element_traffic > 0 and kernels.launch_seconds > 0 and 0 < kernels.overlap < 1
    assert class_sigmas(calibration("uncertainty"), profile).tail > 0
    assert {field.name for field in fields(Kernels)} == set(vars(kernels))


def test_only_hf_launches_shards_slowly() -> None:
    """The 8.9 ms per sharded layer were measured on one profile and are not claimed for others."""
    slow = [profile for profile in PROFILES if kernels_of(profile, shipped=True).fsdp_launch_seconds > 2e-3]
    assert slow == ["hf"]


@pytest.mark.parametrize("gpu", GPUS)
def test_every_card_has_an_efficiency(gpu: str) -> None:
    """Each GPU card has a share of peak in (0, 1.1] and a share of its generation's attention."""
    values = calibration("gpu_efficiency")
    generation = document(f"models/gpus/{gpu}.yaml")["generation"]
    assert 0 < values[gpu] <= 1.1
    assert 0 < values[f"attention.{generation}"] < 1


def test_no_efficiency_without_a_card() -> None:
    """Every entry that is a bare name belongs to a GPU card."""
    bare = {key for key in calibration("gpu_efficiency") if "." not in key} - {"fp32"}
    assert bare == set(GPUS)


def test_a_gpu_counts_as_timed_only_with_products_of_its_own() -> None:
    """The chip of another GPU under another power limit is a prior, and never surer than timed products."""
    entries = document("models/calibration/gpu_efficiency.yaml")["coefficients"]
    timed = {name: entry["source"] for name, entry in entries.items() if entry["basis"] == "kernels"}
    assert timed and all("product" in source and "of its own" not in source for source in timed.values())
    assert all("the same chip" not in source for source in timed.values())
    values = calibration("uncertainty")
    assert values["efficiency_prior"] >= values["efficiency_kernels"] >= (math.log(1.02) - math.log(0.77)) / 2.85


def test_stage_and_node_group_numbers_are_complete() -> None:
    """stages.yaml fills both of its dataclasses, with a spot prior that is a probability."""
    values = calibration("stages")
    assert StageCoefficients.of(values).boot_seconds == 160
    assert NodeGroupCoefficients.of(values).gang_rate_exponent == 0.8
    assert 0 < values["spot_availability"] < 1
