"""Chips other than NVIDIA's: what of a run was measured, which slices are sold, and what is refused by name."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

import planner
from planner.candidates.training_hours import chip_sigma
from planner.configurations.coefficients import chip_notes, linear_share
from planner.errors import LibraryError, ScenarioError
from planner.library.names import refused_chip
from planner.library.reading import read_library
from planner.library.schema import Chip

LIBRARY = read_library([])
VALUES = LIBRARY.calibrations["uncertainty"].values
PLANNED = {"MI300X", "TPU-v5e", "TPU-v5p", "TPU-v6e"}
ESTIMATED = {"TPU-v4", "TPU7x", "Gaudi1", "Gaudi2", "Gaudi3", "MI325X", "MI350X", "MI355X", "Trainium1"}


def test_every_chip_is_planned_with_or_says_why_it_is_not() -> None:
    """Four are planned with; of nine there is no price of a usual size, or no run of a usual one."""
    chips = {name: card.chip for name, card in LIBRARY.gpus.items() if card.chip is not None}
    assert set(chips) == PLANNED | ESTIMATED
    assert {name for name, chip in chips.items() if not chip.estimate_only} == PLANNED
    assert all(card.chip is None for card in LIBRARY.gpus.values() if card.vendor == "NVIDIA")


def test_a_kind_is_measured_by_its_method_and_its_chips() -> None:
    """TPU v5e has runs of full training from 256 chips on, and none of LoRA."""
    chip = LIBRARY.gpu("TPU-v5e").chip
    assert chip is not None
    assert chip.unmeasured("full", 256) is None
    assert chip.unmeasured("full", 8) == "no published run on fewer than 256 chips"
    assert chip.unmeasured("lora", 256) == "no published run of lora training"
    assert chip.refusal("full", 8, may_be_unmeasured=True) is None
    assert chip.refusal("full", 8, may_be_unmeasured=False) == "no published run on fewer than 256 chips"


@pytest.mark.parametrize("name", sorted(ESTIMATED))
def test_a_chip_for_estimates_alone_is_refused_whatever_is_allowed(name: str) -> None:
    """`limits.unmeasured` opens kinds of training, not chips without a price."""
    chip = LIBRARY.gpu(name).chip
    assert chip is not None
    assert "`planner estimate` only" in str(chip.refusal(chip.measured[0].method, 10_000, may_be_unmeasured=True))


def test_another_precision_and_another_kind_widen_the_range() -> None:
    """LoRA on MI300X was measured in fp8: 0.15 for bf16; v5e on 8 chips 0.35; NVIDIA's cards nothing."""
    mi300x, v5e = LIBRARY.gpu("MI300X"), LIBRARY.gpu("TPU-v5e")
    assert chip_sigma(mi300x, "lora", "fp8_te", 8, VALUES) == 0
    assert chip_sigma(mi300x, "lora", "bf16_mixed", 8, VALUES) == pytest.approx(0.15)
    assert chip_sigma(v5e, "full", "bf16_mixed", 8, VALUES) == pytest.approx(0.35)
    assert chip_sigma(v5e, "full", "bf16", 8, VALUES) == pytest.approx(math.hypot(0.35, 0.15))
    assert chip_sigma(LIBRARY.gpu("H100-80GB"), "lora", "bf16", 1, VALUES) == 0


def test_notes_say_what_was_not_measured() -> None:
    """The first words of a plan on an unmeasured kind, and nothing of NVIDIA's cards."""
    assert chip_notes(LIBRARY.gpu("A100-80GB"), "full", "bf16_mixed", 8) == []
    first, *others = chip_notes(LIBRARY.gpu("TPU-v5e"), "full", "bf16_mixed", 16)
    assert first.startswith("NOT MEASURED on TPU-v5e: no published run on fewer than 256 chips")
    assert "the slice has 4 hosts and stops when one is lost" in others


def test_a_generation_may_have_its_own_share_of_a_narrow_peak() -> None:
    """fp8 of Transformer Engine on CDNA3 has runs of its own; Hopper takes the usual share."""
    kernels = LIBRARY.calibrations["kernels"]
    usual = kernels.value("linear_share.fp8_fused")
    assert linear_share("linear_share.fp8_fused", LIBRARY.gpu("H100-80GB"), kernels) == usual
    assert linear_share("linear_share.fp8_fused", LIBRARY.gpu("MI300X"), kernels) != usual


def test_hosts_have_as_many_chips_each() -> None:
    """A slice of 6 chips on 4 hosts is a mistake of the card."""
    with pytest.raises(ValidationError, match="6 chips cannot be spread evenly over 4 hosts"):
        Chip(measured=(), hosts={6: 4})


@pytest.mark.parametrize("name", ["Trainium2", "trainium 2", "TPU-v3", "MI250X"])
def test_other_chips_are_refused_by_name_with_the_reason(name: str) -> None:
    """In any spelling, and a card of NVIDIA's is not among them."""
    assert refused_chip(name)
    assert refused_chip("H100-80GB") is None
    with pytest.raises(LibraryError, match="nothing is planned with it"):
        planner.estimate("llama-3.2-1b", name)


def test_an_estimate_takes_the_framework_and_the_method_of_the_chip() -> None:
    """MaxText and full training on a TPU; LoRA there is refused."""
    found = planner.estimate("llama-3.2-1b", "TPU-v6e", LIBRARY_OF_ONE, gpus=16)
    assert (found.profile, found.techniques.method, found.instances, found.interconnect) == (
        "maxtext",
        "full",
        1,
        "ici",
    )
    with pytest.raises(ScenarioError, match="no speed of LoRA on this chip is published"):
        planner.estimate("llama-3.2-1b", "TPU-v6e", LIBRARY_OF_ONE, gpus=16, method="lora")


def test_a_slice_that_is_not_sold_is_refused() -> None:
    """12 chips of v5e are none; 512 are two slices of 256."""
    with pytest.raises(ScenarioError, match="12 chips are no slice that is sold"):
        planner.estimate("llama-3.2-1b", "TPU-v5e", LIBRARY_OF_ONE, gpus=12)
    assert planner.estimate("llama-3.2-1b", "TPU-v5e", LIBRARY_OF_ONE, gpus=512).instances == 2


LIBRARY_OF_ONE = read_library(["llama-3.2-1b"])
