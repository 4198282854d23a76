"""Speeds of one card as the time estimate takes them, from its sheet and what cards reach of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.estimates.inputs import Hardware
from planner.units import GB, GIB, TERA

if TYPE_CHECKING:
    from planner.library.schema import Calibration, GpuSpec, Library

PCIE_BYTES_PER_SECOND = {3: 12e9, 4: 24e9, 5: 48e9, 6: 96e9}
"""One direction of a 16-lane slot as reached in practice, by generation: what the time estimate was fitted with."""
DEFAULT_NETWORK_BYTES_PER_SECOND = 12.5 * GB
"""Per node where the offer does not say: a link of 100 Gb/s, a guess that widens the candidate's spread."""


def hardware_numbers(
    gpu: GpuSpec, link: str, network_gbps: float | None, recipe_precision: str, library: Library
) -> Hardware:
    """Speeds of one card in one precision; `link` is nvlink, nvswitch or pcie."""
    speeds = library.calibrations["gpu_efficiency"]
    nvlink = gpu.nvlink_gb_s * GB / 2 if link in ("nvlink", "nvswitch") else 0.0
    peak = _peak(gpu, recipe_precision)
    return Hardware(
        peak=peak,
        linear_peak=peak,
        bandwidth=gpu.memory_bandwidth_gb_s * GB,
        nvlink=nvlink,
        pcie=PCIE_BYTES_PER_SECOND[gpu.pcie_gen],
        network=network_gbps * GB / 8 if network_gbps else DEFAULT_NETWORK_BYTES_PER_SECOND,
        efficiency=efficiency_of(gpu, speeds)[0] if recipe_precision not in ("fp32", "tf32") else speeds.value("fp32"),
        attention_efficiency=_attention_efficiency(gpu, speeds),
        host_factor=_factor(speeds, f"host.{gpu.name}"),
        dequant_factor=_factor(speeds, f"dequant.{gpu.name}"),
        fp32_peak=gpu.fp32_tflops * TERA,
        usable_bytes=gpu.usable_gib * GIB,
    )


def efficiency_of(gpu: GpuSpec, speeds: Calibration) -> tuple[float, bool]:
    """Best share of peak that the card reaches, and whether that is measured (else a prior)."""
    entry = speeds.coefficients[gpu.name]
    return entry.value, entry.basis == "measured"


def _peak(gpu: GpuSpec, precision: str) -> float:
    if precision == "fp32":
        return gpu.fp32_tflops * TERA
    if precision == "tf32":
        return (gpu.tf32_tflops or gpu.fp32_tflops) * TERA
    return gpu.matmul16_tflops * TERA


def _attention_efficiency(gpu: GpuSpec, speeds: Calibration) -> float:
    """Share of peak in fused attention: the card's own figure where there is one, else its generation's."""
    own = f"attention.{gpu.name}"
    return speeds.value(own if own in speeds.coefficients else f"attention.{gpu.generation}")


def _factor(speeds: Calibration, key: str) -> float:
    """A factor that only few cards have; 1 for all others."""
    return speeds.value(key) if key in speeds.coefficients else 1.0
