"""Seconds around the training steps, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.estimates.stage_seconds import (
    StageCoefficients,
    asynchronous_stall_seconds,
    boot_seconds,
    checkpoint_bytes,
    checkpoint_seconds,
    checkpoint_stall_seconds,
    evaluation_seconds,
    fed_step_seconds,
    goodput_factor,
    kept_checkpoint_bytes,
    load_seconds,
    step_bytes,
    tokenise_seconds,
    transfer_seconds,
)
from tests.helpers.time_cases import CHECKPOINTING, calibration

STAGES = StageCoefficients.of(calibration("stages"))


def test_boot_pulls_the_image() -> None:
    """A machine with a slow line pulls its container longer: 160 s plus 10 GB."""
    np.testing.assert_allclose(boot_seconds(np.array([0.5e9, 0.1e9]), STAGES), [180.0, 260.0])


def test_download_is_size_over_rate() -> None:
    """14 GB at 0.5 GB/s take 28 s."""
    assert float(transfer_seconds(14e9, 0.5e9)) == pytest.approx(28.0)


def test_load_by_hand() -> None:
    """A 7B network in 16 bit: read at 0.6 of the disk, moved at half of the slot, 15 s more."""
    seconds = load_seconds(14e9, 1, 1e9, 24e9, STAGES)
    assert float(seconds) == pytest.approx(14 / 0.6 + 14 / 12 + 15)


def test_load_extras() -> None:
    """Connecting, quantising and compiling add their seconds."""
    plain = float(load_seconds(14e9, 1, 1e9, 24e9, STAGES))
    assert float(load_seconds(14e9, 8, 1e9, 24e9, STAGES)) - plain == pytest.approx(20.8)
    quantised = load_seconds(14e9, 1, 1e9, 24e9, STAGES, quantised_weights=7e9)
    assert float(quantised) - plain == pytest.approx(2 * 7e9 / 3e9)
    compiled = load_seconds(14e9, 1, 1e9, 24e9, STAGES, compiled=1)
    assert float(compiled) - plain == pytest.approx(120.0)


def test_tokenising_uses_all_cores() -> None:
    """90M tokens on 16 cores at 200,000 tokens/s each take 28 s."""
    assert float(tokenise_seconds(90e6, 16, STAGES)) == pytest.approx(28.125)


def test_storage_holds_training_back() -> None:
    """A step is no faster than its tokens arrive at four bytes each."""
    assert float(fed_step_seconds(1.0, 1e6, 1e9, STAGES)) == 1.0
    assert float(fed_step_seconds(1.0, 1e6, 1e6, STAGES)) == pytest.approx(4.0)


def test_images_are_fed_by_their_pixels() -> None:
    """256 images of 512 pixels per side at half a byte per pixel are 33.6 MB: 0.34 s from a store of 0.1 GB/s."""
    assert float(step_bytes(256, STAGES, 512)) == pytest.approx(256 * 512**2 / 2)
    np.testing.assert_allclose(step_bytes(np.array([8, 8]), STAGES, np.array([0, 1024])), [32, 8 * 1024**2 / 2])
    assert float(fed_step_seconds(0.2, 256, 0.1e9, STAGES, 512)) == pytest.approx(0.3355, abs=1e-4)
    assert float(fed_step_seconds(0.5, 256, 0.1e9, STAGES, 512)) == 0.5


def test_evaluation_is_a_forward_pass() -> None:
    """Full training costs three forward passes per token, LoRA two, full recompute one more."""
    none, full = CHECKPOINTING["none"], CHECKPOINTING["full"]
    assert float(evaluation_seconds(2.7e6, 1e3, 0, none, STAGES)) == pytest.approx(1000.0)
    assert float(evaluation_seconds(1.8e6, 1e3, 1, none, STAGES)) == pytest.approx(1000.0)
    assert float(evaluation_seconds(3.6e6, 1e3, 0, full, STAGES)) == pytest.approx(1000.0)


def test_checkpoint_sizes() -> None:
    """A resumable checkpoint takes 14 bytes per trained parameter."""
    assert float(checkpoint_bytes(7e9, STAGES)) == pytest.approx(98e9)


def test_checkpoint_writes_from_all_nodes_up_to_the_store() -> None:
    """Two nodes write twice as fast until the store is the limit; an asynchronous copy stalls far less."""
    alone = float(checkpoint_seconds(98e9, 1, 1e9, math.inf, STAGES))
    assert alone == pytest.approx(100.0)
    assert float(checkpoint_seconds(98e9, 2, 1e9, math.inf, STAGES)) == pytest.approx(51.0)
    assert float(checkpoint_seconds(98e9, 2, 1e9, 0.5e9, STAGES)) == pytest.approx(198.0)
    stall = float(asynchronous_stall_seconds(98e9, 8, 24e9, STAGES))
    assert stall == pytest.approx(98 / (8 * 0.23 * 24))
    assert stall < alone / 10


def test_weights_alone_are_smaller_than_what_resumes() -> None:
    """7B parameters: 98 GB to resume from or 14 GB of weights; 40M fp32 adapters: 0.56 or 0.16 GB."""
    np.testing.assert_allclose(kept_checkpoint_bytes(7e9, 2, np.array([1, 0]), STAGES), [98e9, 14e9])
    np.testing.assert_allclose(kept_checkpoint_bytes(40e6, 4, np.array([1, 0]), STAGES), [0.56e9, 0.16e9])


def test_checkpoints_too_close_together_hold_training_up() -> None:
    """A write of 100 s behind the training costs its copy of 3 s, and what a shorter interval does not cover."""
    stalls = checkpoint_stall_seconds(100.0, 3.0, np.array([600.0, 97.0, 60.0, 0.0]), 1)
    np.testing.assert_allclose(stalls, [3, 3, 40, 100])
    assert float(checkpoint_stall_seconds(100.0, 3.0, 600.0, 0)) == 100


def test_goodput_of_long_and_wide_runs() -> None:
    """Several nodes or more than 72 hours lose 10 %, one node 3 %; spot loses on its market."""
    hours, nodes, spot = np.array([10, 100, 10, 100]), np.array([1, 1, 2, 2]), np.array([0, 0, 0, 1])
    np.testing.assert_allclose(goodput_factor(hours, nodes, spot, STAGES), [1.03, 1.10, 1.10, 1.03])
