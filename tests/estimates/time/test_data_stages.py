"""Data before the run, evaluation beside it and results after it: worked by hand, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.stage_seconds import (
    StageCoefficients,
    evaluation_bytes,
    evaluation_fits,
    evaluation_seconds,
    forward_tokens_per_second_cpu,
    forward_tokens_per_second_gpu,
    ingest_batches,
    ingest_io_seconds,
    ingest_seconds,
    machine_cores,
    merge_seconds,
    retained_gb_months,
    tokenise_seconds,
    transfer_seconds,
)
from tests.helpers.time_cases import CHECKPOINTING, calibration

STAGES = StageCoefficients.of(calibration("stages"))
LAW = settings(max_examples=120, derandomize=True)
RAW = st.floats(1e6, 1e13)
TOKENS = st.just(0.0) | st.floats(1e3, 1e13)
CORES = st.floats(1, 256)
RAM = st.floats(1e9, 2e12)
DISK = st.floats(1e6, 1e10)


def test_fifty_gb_in_32_gb_of_memory() -> None:
    """Half of 32 GB holds the text of a batch: 50 GB are at least 4 batches, and 13 with a quarter of the memory."""
    images = (50e9, 0, 8)  # nothing to tokenise: no reason for more batches than memory asks for
    np.testing.assert_allclose(ingest_batches(*images, np.array([32e9, 8e9]), 0.5e9, STAGES), [4, 13])
    assert float(ingest_seconds(*images, 32e9, 0.5e9, STAGES)) == pytest.approx(50 / 0.5 + 4 * 2)


def test_ingest_that_the_disk_holds_up() -> None:
    """50 GB of which 1B tokens are taken, 64 cores, 0.2 GB/s: (50 + 4) / 0.2 = 270 s of disk hide 78 s of cores."""
    io, cpu = 54e9 / 0.2e9, 1e9 / (64 * 200e3)
    assert float(ingest_io_seconds(50e9, 1e9, 0.2e9, STAGES)) == pytest.approx(io) == pytest.approx(270)
    # sqrt(78 / 2) = 6.2: 6 batches cost 13.0 + 12 s, 7 cost 11.2 + 14 s.
    assert float(ingest_batches(50e9, 1e9, 64, 32e9, 0.2e9, STAGES)) == 6
    assert float(ingest_seconds(50e9, 1e9, 64, 32e9, 0.2e9, STAGES)) == pytest.approx(io + cpu / 6 + 12)


def test_ingest_that_the_cores_hold_up() -> None:
    """All 12.5B tokens of the same text: 977 s on the cores, of 500 s of disk only one batch in 16 shows."""
    cpu = 12.5e9 / (64 * 200e3)
    assert float(ingest_seconds(50e9, 12.5e9, 64, 32e9, 0.2e9, STAGES)) == pytest.approx(cpu + 500 / 16 + 32)


@LAW
@given(RAW, TOKENS, CORES, RAM, DISK)
def test_ingest_takes_its_longer_part_at_least(
    raw: float, tokens: float, cores: float, ram: float, disk: float
) -> None:
    """Never below pure reading and writing nor pure tokenising; starts apart, never above one after the other."""
    io = float(ingest_io_seconds(raw, tokens, disk, STAGES))
    cpu = float(tokenise_seconds(tokens, cores, STAGES))
    batches = float(ingest_batches(raw, tokens, cores, ram, disk, STAGES))
    seconds = float(ingest_seconds(raw, tokens, cores, ram, disk, STAGES))
    assert max(io, cpu) <= seconds <= (io + cpu) * (1 + 1e-12) + batches * STAGES.ingest_batch_seconds
    assert batches == int(batches) >= 1
    assert raw <= batches * STAGES.ingest_ram_share * ram * (1 + 1e-12)


@LAW
@given(RAW, TOKENS, CORES, RAM, DISK, st.floats(1, 50))
def test_more_of_a_machine_is_never_slower(
    raw: float, tokens: float, cores: float, ram: float, disk: float, more: float
) -> None:
    """More memory, more cores and a faster disk never lengthen ingest; more text or tokens never shorten it."""
    before = float(ingest_seconds(raw, tokens, cores, ram, disk, STAGES)) * (1 + 1e-9)
    assert float(ingest_seconds(raw, tokens, cores, ram * more, disk, STAGES)) <= before
    assert float(ingest_seconds(raw, tokens, cores * more, ram, disk, STAGES)) <= before
    assert float(ingest_seconds(raw, tokens, cores, ram, disk * more, STAGES)) <= before
    assert float(ingest_seconds(raw * more, tokens, cores, ram, disk, STAGES)) * (1 + 1e-9) >= before / (1 + 1e-9)
    assert float(ingest_seconds(raw, tokens * more, cores, ram, disk, STAGES)) * (1 + 1e-9) >= before / (1 + 1e-9)


@LAW
@given(RAW, TOKENS, CORES, RAM, DISK)
def test_no_other_number_of_batches_is_faster(raw: float, tokens: float, cores: float, ram: float, disk: float) -> None:
    """Among all numbers of batches that memory allows, the one taken is the best."""
    io, cpu = float(ingest_io_seconds(raw, tokens, disk, STAGES)), float(tokenise_seconds(tokens, cores, STAGES))
    batches = float(ingest_batches(raw, tokens, cores, ram, disk, STAGES))
    fewest = np.ceil(raw / (STAGES.ingest_ram_share * ram))
    others = np.unique(np.maximum(fewest, np.array([1, batches - 1, batches, batches + 1, 2 * batches])))
    seconds = max(io, cpu) + min(io, cpu) / others + others * STAGES.ingest_batch_seconds
    found = float(ingest_seconds(raw, tokens, cores, ram, disk, STAGES))
    assert found <= seconds.min() * (1 + 1e-12)


def test_ingest_broadcasts() -> None:
    """Columns of machines against rows of memory give a grid."""
    grid = ingest_seconds(50e9, 1e9, np.array([8, 16])[:, None], np.array([8e9, 32e9, 128e9]), 0.5e9, STAGES)
    assert grid.shape == (2, 3)


def test_cores_of_a_machine() -> None:
    """A machine with 8 GPUs is taken to have 64 cores where its offer does not say."""
    np.testing.assert_allclose(machine_cores(np.array([1, 8]), STAGES), [8, 64])


def test_results_leave_and_stay() -> None:
    """14 GB at 0.1 GB/s, merged on a disk of 0.6 GB/s; 100 GB for 30 of the 30.4 days of a billing month."""
    assert float(transfer_seconds(14e9, 0.1e9)) == pytest.approx(140)
    assert float(merge_seconds(14e9, 0.6e9)) == pytest.approx(28 / 0.6)
    assert float(retained_gb_months(100, 720)) == pytest.approx(98.63, abs=0.01)


def test_forward_rates_by_hand() -> None:
    """7B parameters: 312 TFLOP/s x 0.7 x 0.9 over 14 GFLOP per token; 32 cores x 30 GFLOP/s over the same."""
    assert float(forward_tokens_per_second_gpu(7e9, 312e12, 0.7, STAGES)) == pytest.approx(14_040)
    assert float(forward_tokens_per_second_cpu(7e9, 32, STAGES)) == pytest.approx(68.57, abs=0.01)


def test_what_a_card_can_evaluate() -> None:
    """16.8 GB for 7B parameters fit on 22 GiB and not on 15; experts that sleep must be held all the same."""
    assert float(evaluation_bytes(7e9, STAGES)) == pytest.approx(16.8e9)
    np.testing.assert_array_equal(evaluation_fits(7e9, np.array([15, 22]) * 2**30, STAGES), [False, True])


@settings(max_examples=60, derandomize=True)
@given(st.floats(1e8, 1e12), st.floats(1e13, 1e15), st.floats(0.2, 1.0), st.sampled_from([0, 1]))
def test_one_gpu_agrees_with_a_training_machine(active: float, peak: float, efficiency: float, frozen: int) -> None:
    """A card that trains at the same share of its peak evaluates as fast as one rented for that alone."""
    flop_per_token = 2 * active * (3 - frozen)
    training = peak * efficiency / flop_per_token
    there = 1e9 / float(forward_tokens_per_second_gpu(active, peak, efficiency, STAGES))
    assert float(evaluation_seconds(1e9, training, frozen, CHECKPOINTING["none"], STAGES)) == pytest.approx(there)


@settings(max_examples=60, derandomize=True)
@given(st.floats(1e8, 1e12), st.floats(1, 256), st.floats(1, 10))
def test_more_cores_and_fewer_parameters_are_never_slower(active: float, cores: float, more: float) -> None:
    """Rates grow with cores and fall with the parameters that a token meets."""
    rate = float(forward_tokens_per_second_cpu(active, cores, STAGES))
    assert float(forward_tokens_per_second_cpu(active, cores * more, STAGES)) >= rate
    assert float(forward_tokens_per_second_cpu(active * more, cores, STAGES)) <= rate
