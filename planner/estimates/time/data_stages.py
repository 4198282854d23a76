"""Stages that may run on separate machines: raw text to token ids, evaluation, moving and keeping results.

Numbers: models/calibration/stages.yaml, most of them assumptions of the right size.
Shapes: every argument is a scalar or an array; results broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.time.stages import StageCoefficients, tokenise_seconds
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from planner.estimates.inputs import Numbers

_FORWARD_FLOP = 2.0
"""FLOP per parameter that a token meets: a multiplication and an addition. Attention over the context is left out."""


def machine_cores(gpus: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the CPU cores of a machine whose offer does not state them: a number per GPU, an assumption."""
    return coefficients.cores_per_gpu * np.asarray(gpus)


def ingest_io_seconds(
    raw_bytes: Numbers, tokens: Numbers, disk_bytes_per_second: Numbers, coefficients: StageCoefficients
) -> Any:
    """Return the seconds of reading the raw text and writing its token ids on one disk, at its real speed."""
    moved = np.asarray(raw_bytes) + coefficients.ingest_bytes_per_token * np.asarray(tokens)
    return moved / np.asarray(disk_bytes_per_second)


def ingest_batches(
    raw_bytes: Numbers,
    tokens: Numbers,
    cores: Numbers,
    ram_bytes: Numbers,
    disk_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
) -> Any:
    """Return the number of batches of the raw text: as many as memory requires, more where overlap pays.

    50 GB with 32 GB of memory, half of it for the text of a batch, are 4 batches at the least.
    `b` batches leave (the shorter of reading and tokenising) / b of it uncovered and start b times, least at
    b = sqrt(shorter / seconds per start).
    """
    io = ingest_io_seconds(raw_bytes, tokens, disk_bytes_per_second, coefficients)
    shorter = np.minimum(io, tokenise_seconds(tokens, cores, coefficients))
    fewer = np.maximum(1.0, np.floor(np.sqrt(shorter / coefficients.ingest_batch_seconds)))
    more = shorter / (fewer * (fewer + 1.0)) > coefficients.ingest_batch_seconds
    needed = np.ceil(np.asarray(raw_bytes) / (coefficients.ingest_ram_share * np.asarray(ram_bytes)))
    return np.maximum(needed, fewer + more)


def ingest_seconds(
    raw_bytes: Numbers,
    tokens: Numbers,
    cores: Numbers,
    ram_bytes: Numbers,
    disk_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
) -> Any:
    """Return the seconds from raw text to token ids on a disk, in batches; 0 tokens (images) are only read.

    While one batch is tokenised the next is read, so the longer of both counts, and one batch of the shorter:
    max(io, cpu) + min(io, cpu) / batches + batches * seconds per start.
    50 GB of which 1B tokens are taken, on 64 cores with 32 GB and a disk of 0.2 GB/s: io 270 s over cpu 78 s,
    6 batches, 295 s. With all its 12.5B tokens it is io 500 s, cpu 977 s: text that is tokenised whole is held up
    by its cores, unless the disk is a slow remote one.
    """
    io = ingest_io_seconds(raw_bytes, tokens, disk_bytes_per_second, coefficients)
    cpu = tokenise_seconds(tokens, cores, coefficients)
    batches = ingest_batches(raw_bytes, tokens, cores, ram_bytes, disk_bytes_per_second, coefficients)
    starts = batches * coefficients.ingest_batch_seconds
    return np.maximum(io, cpu) + np.minimum(io, cpu) / batches + starts


def evaluation_bytes(parameters: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the bytes that forward passes need: all 16-bit weights and activations. 7B parameters: 16.8 GB."""
    return coefficients.evaluation_memory_factor * coefficients.weight_bytes_per_parameter * np.asarray(parameters)


def evaluation_fits(parameters: Numbers, usable_bytes: Numbers, coefficients: StageCoefficients) -> Any:
    """Return whether a GPU (or a machine's memory) holds the whole network for forward passes."""
    return evaluation_bytes(parameters, coefficients) <= np.asarray(usable_bytes)


def forward_tokens_per_second_gpu(
    active_parameters: Numbers, peak_flops: Numbers, efficiency: Numbers, coefficients: StageCoefficients
) -> Any:
    """Return the tokens per second of forward passes in large batches on one GPU.

    `peak_flops` in 16 bit, of which training reaches `efficiency` and forward passes alone a little less.
    7B parameters at 0.7 of 312 TFLOP/s: 14,040 tokens/s. Generating text token by token is far slower.
    """
    reached = np.asarray(peak_flops) * efficiency * coefficients.evaluation_factor
    return reached / (_FORWARD_FLOP * np.asarray(active_parameters))


def forward_tokens_per_second_cpu(active_parameters: Numbers, cores: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the tokens per second of forward passes on CPU cores: 69 for 7B parameters on 32 cores."""
    reached = np.asarray(cores) * coefficients.cpu_flop_per_core_second
    return reached / (_FORWARD_FLOP * np.asarray(active_parameters))


def merge_seconds(weight_bytes: Numbers, disk_bytes_per_second: Numbers) -> Any:
    """Return the seconds of merging adapters into the 16-bit weights, which are read once and written once.

    14 GB on a disk that reaches 0.6 GB/s take 47 s; the additions themselves are negligible.
    """
    return 2.0 * np.asarray(weight_bytes) / np.asarray(disk_bytes_per_second)


def retained_gb_months(gb: Numbers, hours: Numbers) -> Any:
    """Return the GB-months of storage, in billing months of 730 hours: 100 GB for 30 days are 98.6."""
    return np.asarray(gb) * np.asarray(hours) / MONTH_HOURS
