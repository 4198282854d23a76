"""Shipping what was trained: merged with its base, quantised on CPU or GPU, with bytes, seconds and memory of each.

Numbers: models/calibration/stages.yaml.
Shapes: every argument is a scalar or an array; results broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.estimates.inputs import Coefficients, Network, Numbers
from planner.estimates.time.stage_seconds import merge_seconds
from planner.records import record

HALF_BYTES = 2.0
"""Bytes of a 16-bit weight."""


@record(frozen=True)
class ExportCoefficients(Coefficients):
    """Plain floats, keys of `models/calibration/stages.yaml`; units end the name."""

    merge_bytes_per_weight: float
    merge_fixed_bytes: float
    gguf_weights_per_second: float
    gguf_8_bits_per_weight: float
    gguf_4_bits_per_weight: float
    group_bits_per_weight: float
    gpu_quantise_seconds_per_weight: float
    gpu_quantise_peak_flops: float
    gpu_quantise_slowest: float
    gpu_quantise_samples: float


def merge_ram_bytes(weights: Numbers, coefficients: ExportCoefficients) -> Any:
    """Return the bytes of host memory that merging adapters into `weights` weights takes: 7B weights 23.4 GB."""
    return coefficients.merge_bytes_per_weight * np.asarray(weights) + coefficients.merge_fixed_bytes


def gguf_bytes(weights: Numbers, bits: int, coefficients: ExportCoefficients) -> Any:
    """Return the bytes of a GGUF file of 4 or 8 bits (q4_0, q8_0), embeddings included: 3.43B weights, 4 bits: 1.93 GB.

    A block of 32 weights has one 16-bit scale, which is half a bit per weight.
    """
    of_bits = {4: coefficients.gguf_4_bits_per_weight, 8: coefficients.gguf_8_bits_per_weight}
    return np.asarray(weights) * of_bits[bits] / 8.0


def grouped_bytes(network: Network, weights: float, bits: int, coefficients: ExportCoefficients) -> float:
    """Return the bytes of GPTQ or AWQ weights: linear layers in `bits` with a scale and a zero per group of 128.

    Embedding and head stay in 16 bit. Llama 3 70B at 4 bits: 68.45B weights in 4.156 bits and 2.1B in 16 bits, 39.8 GB.
    """
    kept = min(float(network.embedding_parameters), weights)
    return kept * HALF_BYTES + (weights - kept) * (bits + coefficients.group_bits_per_weight) / 8.0


def gguf_seconds(
    weights: Numbers, made_bytes: Numbers, disk_bytes_per_second: Numbers, coefficients: ExportCoefficients
) -> Any:
    """Return the seconds from 16-bit weights on a disk to a quantised GGUF file, by CPUs.

    First the weights are written as a 16-bit GGUF file, read once and written once; then this is quantised, at the
    speed of the CPUs or of the disk, whichever is slower. 7B weights on a disk of 1 GB/s, 4 bits: 28 s and 28 s.
    """
    half, disk = HALF_BYTES * np.asarray(weights), np.asarray(disk_bytes_per_second)
    quantised = np.maximum(np.asarray(weights) / coefficients.gguf_weights_per_second, (half + made_bytes) / disk)
    return merge_seconds(half, disk) + quantised


def gpu_quantise_seconds(
    weights: Numbers,
    made_bytes: Numbers,
    peak_flops: Numbers,
    disk_bytes_per_second: Numbers,
    coefficients: ExportCoefficients,
) -> Any:
    """Return the seconds of GPTQ or AWQ on one GPU, reading and writing included: 8B weights on an A100, 31 minutes.

    Published times of an A100 and an H100 do not differ by their peaks, so a faster card gains nothing; a slower one
    takes longer by the root of its peak, at most `gpu_quantise_slowest` times as long.
    """
    ratio = np.sqrt(coefficients.gpu_quantise_peak_flops / np.asarray(peak_flops))
    slower = np.clip(ratio, 1.0, coefficients.gpu_quantise_slowest)
    moved = (HALF_BYTES * np.asarray(weights) + made_bytes) / np.asarray(disk_bytes_per_second)
    return np.asarray(weights) * coefficients.gpu_quantise_seconds_per_weight * slower + moved


def gpu_quantise_bytes(network: Network, coefficients: ExportCoefficients) -> float:
    """Return the GPU memory of quantising by layers: two of them, a Hessian in fp32, the activations of the samples.

    Llama 3 70B (80 layers, hidden 8,192, feed-forward 28,672), 128 samples of 2,048 tokens: 3.4, 3.3 and 8.6 GB.
    """
    layers = HALF_BYTES * 2.0 * (network.parameters - network.embedding_parameters) / network.layers
    widest = 4.0 * max(float(network.ffn), float(network.hidden)) ** 2
    return layers + widest + 2.0 * HALF_BYTES * coefficients.gpu_quantise_samples * network.hidden
