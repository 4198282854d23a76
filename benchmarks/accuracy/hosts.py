"""From the columns of a row to the card and the machine it ran on; what no column says is assumed here, and named."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.networks import Incomplete, NotExpressible
from benchmarks.accuracy.recipes import FRAMEWORK_NAMES
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND, efficiency_of, hardware_numbers, linear_share
from planner.estimates.inputs import Hardware
from planner.library.schema import GpuSpec, Library
from planner.units import GB, GIB, TERA

GPUS_PER_NODE = {"GB200": 72, "GB300": 72, "Trainium1": 16}
GPUS_PER_NODE |= {"TPU-v4": 4096, "TPU-v5e": 256, "TPU-v5p": 8960, "TPU-v6e": 256, "TPU7x": 9216}
"""Chips that links of their own join: a rack of the NVL72 systems, a pod of TPUs (a source says less of its slices than
that), an instance of Trainium; every other card is taken to come in eights."""
USUAL_GPUS_PER_NODE = 8

NETWORK_GB_S = {"Ampere": 200.0, "Hopper": 400.0, "Blackwell": 400.0, "CDNA3": 400.0, "CDNA4": 400.0}
"""GB/s per node by generation where NVLink joins the node: eight links of 200 or 400 Gb/s, as such systems ship.

Used where the column `network_gbps` is blank; other machines take the estimate's default for an unknown one.
"""
ASSUMED_NETWORK = 0.5
"""Spread of an unknown network that the usual one of its GPU leaves: clusters have half to twice as many links."""

NETWORK_OF_RACK_GB_S = {"GB200": 72 * 50.0, "GB300": 72 * 100.0, "Trainium1": 100.0}
NETWORK_OF_RACK_GB_S |= {"TPU-v5e": 800.0, "TPU-v6e": 3200.0}
"""GB/s per rack of 72 GPUs: one link of 400 Gb/s (GB200) or 800 Gb/s (GB300) for each (NVIDIA's DGX data sheets); of a
pod of TPUs 6.4 and 25.6 Tb/s (Cloud TPU documentation); of an instance of Trainium 800 Gb/s (AWS, trn1.32xlarge)."""

PCIE_GENERATION = {"RTX3090": 3}
"""Slots of the host where they are older than the card: desktop boards of its year mostly gave generation 3."""

HBM2E_H100 = {"bandwidth": 2400 * GB, "usable_bytes": 95 * GIB}
"""H100 with 96 GB of HBM2e under 500 W (torchtitan docs/performance.md): 2.4 TB/s."""
HBM2E_H100_EFFICIENCY = "H100-PCIe-80GB"
"""The card whose share of the peak it takes: the same chip under the nearest power limit."""


@dataclass(frozen=True)
class Host:
    """The machine of a row."""

    gpu: GpuSpec
    gpus_per_node: int
    hardware: Hardware
    efficiency_basis: str
    network_unknown: float  # 0 stated, ASSUMED_NETWORK the usual one of its GPU, 1 a guess


def gpu_of_row(row: Row, library: Library) -> GpuSpec:
    """Return the GPU; Incomplete where the column is blank, NotExpressible where no GPU here has its name."""
    name = re.sub(r"\s*\(.*\)$", "", row.cells.get("gpu", "")).strip()
    if not name:
        raise Incomplete("the GPU")
    memory = row.positive("gpu_mem_gb")
    plain = re.sub(r"-HBM2e-500W|-SXM\d?$|-OAM$", "", name)
    plain = plain.removesuffix("-SXM")
    stems = dict.fromkeys((name, plain, name.replace(" ", ""), plain.replace(" ", "")))
    sized = [f"{stem}-{memory:g}GB" for stem in stems] if memory else []
    if plain != name and plain.startswith("H100"):
        sized = ["H100-80GB"]
    for wanted in (*sized, *stems, *(f"{stem}-80GB" for stem in stems)):
        try:
            return library.gpu(wanted)
        except KeyError:
            continue
    raise NotExpressible(f"the GPU {name!r}, of which there is no card")


def host_of_row(row: Row, library: Library, precision: str) -> Host:
    """Return the GPU with its links, in the precision of the recipe (and fp8 or fp4 where the row trains in it)."""
    gpu = gpu_of_row(row, library)
    together = GPUS_PER_NODE.get(gpu.name, USUAL_GPUS_PER_NODE)
    usual = NETWORK_GB_S.get(gpu.generation) if gpu.nvlink_by_default else None
    usual = NETWORK_OF_RACK_GB_S.get(gpu.name, usual)
    stated = row.positive("network_gbps")
    network_gbps = stated or (usual * 8 if usual else None)
    link = "nvlink" if gpu.nvlink_by_default else "pcie"
    hardware = hardware_numbers(gpu, link, network_gbps, precision, library)
    if gpu.name in PCIE_GENERATION:
        hardware = replace(hardware, pcie=PCIE_BYTES_PER_SECOND[PCIE_GENERATION[gpu.name]])
    if "hbm2e" in row.text("gpu"):
        share = efficiency_of(library.gpu(HBM2E_H100_EFFICIENCY), library.calibrations["gpu_efficiency"])[0]
        # The power limit slows attention as it slows products.
        attention = hardware.attention_efficiency * (share / hardware.efficiency)
        hardware = replace(hardware, **HBM2E_H100, efficiency=share, attention_efficiency=attention)
    if "power limit" in row.text("gpu"):
        hardware = _under_power_limit(hardware, library)
    hardware = replace(hardware, linear_peak=_linear_peak(row, gpu, hardware, library))
    basis = efficiency_of(gpu, library.calibrations["gpu_efficiency"])[1]
    return Host(gpu, together, hardware, basis, 0.0 if stated else ASSUMED_NETWORK if usual else 1.0)


def _under_power_limit(hardware: Hardware, library: Library) -> Hardware:
    """Return the GPU with clocks below its sheet: products and attention slow down alike, memory does not."""
    share = library.calibrations["gpu_efficiency"].value("limit.power")
    return replace(
        hardware, efficiency=hardware.efficiency * share, attention_efficiency=hardware.attention_efficiency * share
    )


def _linear_peak(row: Row, gpu: GpuSpec, hardware: Hardware, library: Library) -> float:
    """Return the FLOP/s of linear layers: a share of the fp8 peak where the row computes in eight or four bits."""
    text = row.text("precision")
    if "int8" in text:
        raise NotExpressible("products in int8")
    shares = library.calibrations["kernels"]
    if "fp8" not in text and "fp4" not in text:
        return float(hardware.linear_peak)
    if gpu.fp8_tflops is None:
        raise NotExpressible(f"fp8 on {gpu.name}, whose card has no fp8 peak")
    eight = gpu.fp8_tflops * TERA
    if "fp4" in text:
        return shares.value("linear_share.nvfp4_fused") * 2 * eight
    named = FRAMEWORK_NAMES.get(row.text("framework"), row.text("framework"))
    fused = named in ("nemo", "megatron") or "(te)" in row.text("attention")
    return linear_share("linear_share.fp8_fused" if fused else "linear_share.fp8_torch", gpu, shares) * eight
