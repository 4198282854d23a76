"""Speeds of one GPU as the time estimate takes them, from its sheet and the shares of it that GPUs reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.estimates.inputs import Hardware, Layout
from planner.units import GB, GIB, TERA

if TYPE_CHECKING:
    from planner.library.schema import Calibration, GpuSpec, Library

PCIE_BYTES_PER_SECOND = {3: 12e9, 4: 24e9, 5: 48e9, 6: 96e9}
"""One direction of a 16-lane slot as reached in practice, by generation: what the time estimate was fitted with."""
DEFAULT_NETWORK_BYTES_PER_SECOND = 12.5 * GB
"""Per node where the offer does not say: a link of 100 Gb/s, a guess that widens the configuration's spread."""


def hardware_numbers(gpu: GpuSpec, link: str, network_gbps: float | None, precision: str, library: Library) -> Hardware:
    """Return the speeds of one GPU in one precision; `link` is nvlink, nvswitch, ici (of TPU slices) or pcie."""
    speeds = library.calibrations["gpu_efficiency"]
    nvlink = gpu.nvlink_gb_s * GB / 2 if link in ("nvlink", "nvswitch", "ici") else 0.0
    peak, linear_peak = peaks_of(gpu, precision, library)
    efficiency = library.techniques.compute(precision).efficiency
    return Hardware(
        peak=peak,
        linear_peak=linear_peak,
        bandwidth=gpu.memory_bandwidth_gb_s * GB,
        nvlink=nvlink,
        pcie=PCIE_BYTES_PER_SECOND[gpu.pcie_gen],
        network=network_gbps * GB / 8 if network_gbps else DEFAULT_NETWORK_BYTES_PER_SECOND,
        efficiency=speeds.value(efficiency) if efficiency else efficiency_of(gpu, speeds)[0],
        attention_efficiency=_attention_efficiency(gpu, speeds),
        host_factor=_factor(speeds, f"host.{gpu.name}"),
        dequant_factor=_factor(speeds, f"dequant.{gpu.name}"),
        fp32_peak=gpu.fp32_tflops * TERA,
        usable_bytes=gpu.usable_gib * GIB,
    )


def peaks_of(gpu: GpuSpec, precision: str, library: Library) -> tuple[float, float]:
    """Return the peak in FLOP/s of a precision, and that of its linear layers; ValueError where the GPU lacks one."""
    compute = library.techniques.compute(precision)
    key = compute.peak_key(gpu.peaks)
    missing = compute.missing_peak(gpu.peaks)
    if key is None or missing:
        raise ValueError(f"{gpu.name} has no {missing}, the peak of {precision}")
    peak = gpu.peaks[key] * TERA
    if compute.linear_peak is None:
        return peak, peak
    kernels = library.calibrations["kernels"]
    share = linear_share(compute.linear_share, gpu, kernels) if compute.linear_share else 1.0
    return peak, share * gpu.peaks[compute.linear_peak] * TERA


def linear_share(key: str, gpu: GpuSpec, kernels: Calibration) -> float:
    """Return the share of a narrow peak that linear layers reach: of the GPU's generation where it has its own."""
    own = f"{key}.{gpu.generation}"
    return kernels.value(own if own in kernels.coefficients else key)


def fastest_precision(gpu: GpuSpec, library: Library) -> str:
    """Return the precision with the highest peak of linear layers on a GPU."""
    table, peaks = library.techniques, gpu.peaks
    possible = [one for one in table.allowed("precision") if table.compute(one).missing_peak(peaks) is None]
    return str(max(possible, key=lambda one: peaks_of(gpu, one, library)[1]))


def efficiency_of(gpu: GpuSpec, speeds: Calibration) -> tuple[float, str]:
    """Return the best share of peak that the GPU reaches, and what that rests on.

    `measured` training runs, measured `kernels` (matrix products alone), or a `prior`.
    """
    entry = speeds.coefficients[gpu.name]
    return entry.value, entry.basis


def efficiency_notes(gpu: GpuSpec, library: Library) -> list[str]:
    """Return what a plan says of a speed that no training run was measured for."""
    _, basis = efficiency_of(gpu, library.calibrations["gpu_efficiency"])
    if basis == "measured":
        return []
    source = (
        "measured matrix products, not from training runs" if basis == "kernels" else "a prior, not from measurements"
    )
    return [f"speed of {gpu.name} is from {source}"]


def chip_notes(gpu: GpuSpec, method: str, precision: str, chips: int) -> list[str]:
    """Return what a plan or an estimate says of a chip other than NVIDIA's: what of the run was not measured."""
    chip = gpu.chip
    if chip is None:
        return []
    why, notes = chip.unmeasured(method, chips), []
    if why is not None:
        notes.append(f"NOT MEASURED on {gpu.name}: {why}; the range is widened by a guess")
    seen = [one.precision for one in chip.measured if one.method == method]
    if seen and precision not in seen:
        runs = f"published {method} runs on {gpu.name} are in {' and '.join(seen)}"
        notes.append(f"{runs}: the range is wider for {precision}")
    if chip.hosts:
        upper = "synthetic data without checkpoints: an upper bound, so expect more hours"
        notes.append(f"speed of {gpu.name} is from its maker's runs on {upper}")
    if chip.hosts_of(chips) > 1:
        notes.append(f"the slice has {chip.hosts_of(chips)} hosts and stops when one is lost")
    return notes


def expert_notes(tensor: int, pipeline: int, expert: int, gpus: int) -> list[str]:
    """Return what a plan or an estimate says of experts that tensor parallelism does not divide."""
    layout = Layout(1, 1, 1, 1, gpus, 1, tensor, pipeline, expert=expert)
    if layout.expert_tensor == tensor:
        return []
    why = f"TP {tensor} x EP {expert} does not divide the {gpus // pipeline} GPUs of a stage"
    return [f"each expert is whole on its GPU, so set expert tensor parallelism to 1: {why}"]


def _attention_efficiency(gpu: GpuSpec, speeds: Calibration) -> float:
    """Return the share of peak in fused attention: of the GPU where there is a figure, else of its generation."""
    own = f"attention.{gpu.name}"
    return speeds.value(own if own in speeds.coefficients else f"attention.{gpu.generation}")


def _factor(speeds: Calibration, key: str) -> float:
    """Return a factor that only few GPUs have; 1 for all others."""
    return speeds.value(key) if key in speeds.coefficients else 1.0
