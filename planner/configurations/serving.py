"""One served configuration as the formulas of generation take it: dimensions, and sheet figures times coefficients."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.estimates.batching import ServedModel, ServingHardware, ServingStack
from planner.library.engines import GROWING_SHARE, WeightFormat, read_engines
from planner.records import record
from planner.units import GB, TERA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planner.library.schema import Architecture, GpuSpec, Library

OTHER_ENGINE = "other"
"""An engine without a profile: it gets the coefficients that all engines share."""

TIMED_ATTENTION = ("Ampere", "Ada", "Hopper", "Blackwell")
"""Generations whose attention of prompts has a coefficient of its own; others start from that of training."""

EXPERT_LAUNCHES = 10 / 40
"""Kernels of one expert over those of a dense layer, of an engine that loops over experts: the tokens that chose it are
found, gathered, multiplied with three matrices, weighted and added back; a layer has about forty."""

QUANTITIES = (
    *("bandwidth", "cache_bandwidth", "flops", "attention_flops", "link_bytes_per_second", "link_seconds"),
    *("layer_seconds", "step_seconds", "sequence_seconds", "request_seconds", "arrival_seconds"),
    *("wait_share", "sequences"),
)
"""What is a sheet figure (or 1) times coefficients of `models/calibration/inference.yaml`."""


@record(frozen=True)
class Serving:
    """One configuration: what is known of it, and which coefficients it depends on."""

    model: ServedModel
    tensor: int
    pipeline: int
    weight_bytes: float
    kv_bytes: float
    held_share: float  # of an answer: its cache that a request in flight holds in the mean
    base: Mapping[str, float]  # quantity -> sheet figure
    keys: Mapping[str, tuple[str, ...]]  # quantity -> coefficients that multiply it


def served_model(architecture: Architecture, weights: WeightFormat, rounds_head: bool = False) -> ServedModel:
    """Return the dimensions of an architecture; embeddings kept in another format than the rest weigh in its bytes.

    `rounds_head`: the output head has the format of the rest where it is a matrix of its own.
    """
    a = architecture
    table = float(a.vocab * a.hidden)
    matrices = 2 if a.gated else 1
    each_expert = (matrices + 1.0) * a.hidden * a.ffn
    experts = a.experts * each_expert * (a.layers - a.dense_layers) if a.experts else 0.0
    scale = weights.head / 8.0 / weights.bytes if weights.head else 1.0  # bytes of the head over those of a weight
    extra = 0.0 if a.tied_embeddings else table * scale
    head = table if rounds_head and not a.tied_embeddings else table * scale
    body = a.parameters - experts - table * (1 if a.tied_embeddings else 2)
    met = a.active_parameters - table * (1 if a.tied_embeddings else 2) + table
    return ServedModel(
        layers=a.layers,
        hidden=a.hidden,
        attention_width=a.heads * a.head_dim,
        cache_layers=a.layers - a.linear_layers,
        kv_heads=a.kv_heads,
        head_dim=a.head_dim,
        latent=a.kv_lora_rank + a.rope_head_dim if a.kv_lora_rank else 0,
        window=a.sliding_window,
        window_share=a.sliding_layer_share,
        dense_weights=body + head,
        expert_weights=experts,
        experts=a.experts,
        experts_per_token=a.experts_per_token,
        stored_weights=body + experts + head + extra,
        met_weights=met,
    )


def serving_of(
    architecture: Architecture,
    gpu: GpuSpec,
    library: Library,
    *,
    engine: str,
    weights: str,
    kv_bits: float = 16,
    division: tuple[int, int] = (1, 1),
) -> Serving:
    """Return a configuration with its sheet figures and the keys of its coefficients.

    `division`: GPUs that share each layer, and groups among which the layers are divided.
    """
    table = read_engines()
    form, profile, fitted = table.formats[weights], table.engines.get(engine), table.fitted_as(weights)
    link = "nvlink" if gpu.nvlink_by_default else "pcie" if has_peer_access(gpu) else "host"
    speeds = library.calibrations["gpu_efficiency"]
    peak = _peak_tflops(gpu, form) * TERA * speeds.value(gpu.name)
    timed = gpu.generation in TIMED_ATTENTION
    attention = gpu.matmul16_tflops * TERA * (1.0 if timed else speeds.value(f"attention.{gpu.generation}"))
    per_link = gpu.nvlink_gb_s * GB / 2 if link == "nvlink" else PCIE_BYTES_PER_SECOND[gpu.pcie_gen]
    reach = gpu.memory_bandwidth_gb_s * GB
    mixed = architecture.experts > 0
    loops = profile is not None and profile.loops_experts
    base = dict.fromkeys(QUANTITIES, 1.0) | {
        "bandwidth": reach * form.bytes / (form.moved or form.bytes),
        "cache_bandwidth": reach / (cache_moves(architecture) if profile is not None and profile.copies_cache else 1.0),
        "flops": peak,
        "attention_flops": attention,
        "link_bytes_per_second": per_link,
        "layer_seconds": 1.0 + architecture.experts * EXPERT_LAUNCHES if loops else 1.0,
    }

    def by_engine(name: str) -> tuple[str, ...]:
        return name, f"{name}.{engine}"

    host = (f"host.{gpu.generation}", f"card.{gpu.name}")
    kernels = (f"launch.{fitted}", f"launch.{engine}.{fitted}", f"mixture.{engine if mixed else 'none'}")
    grouped = f"experts.{'mixture' if mixed else 'none'}"
    by_format = (f"reading.{fitted}", f"reading.{engine}.{fitted}")
    keys = {
        "bandwidth": (*by_engine("bandwidth"), f"memory.{gpu.name}", *by_format),
        "cache_bandwidth": (*by_engine("cache_bandwidth"), f"memory.{gpu.name}"),
        "flops": (*by_engine("flops"), f"products.{gpu.name}", f"products.{fitted}", grouped),
        "attention_flops": (f"attention_flops.{gpu.generation if timed else 'other'}",),
        "link_bytes_per_second": (f"link.{link}",),
        "link_seconds": (f"link_seconds.{link}",),
        "layer_seconds": (*by_engine("layer_seconds"), *host, *kernels),
        "step_seconds": by_engine("step_seconds"),
        "sequence_seconds": by_engine("sequence_seconds"),
        "request_seconds": by_engine("request_seconds"),
        "arrival_seconds": by_engine("arrival_seconds"),
        "wait_share": ("wait_share",),
        "sequences": by_engine("sequences"),
    }  # fmt: skip
    held = GROWING_SHARE if profile is None else profile.held_share
    model = served_model(architecture, form, profile is not None and profile.rounds_head)
    return Serving(model, *division, form.bytes, kv_bits / 8.0, held, base, keys)


def cache_moves(architecture: Architecture) -> float:
    """Return how often the cache passes through memory in a step of an engine that copies it.

    Read and written one token longer, read once more by attention; with fewer heads of keys than of queries also read
    to be repeated for each query head, and then written and read as often as they are. Example: 32 query heads on 8:
    2 + 1 + 2 * 4 = 11 times; 3 times where each query head has its own.
    """
    repeats = 1.0 if architecture.kv_lora_rank else architecture.heads / architecture.kv_heads
    return 3.0 + 2.0 * repeats if repeats > 1.0 else 3.0


def has_peer_access(gpu: GpuSpec) -> bool:
    """Return whether GPUs reach the memory of one another over PCIe; GeForce GPUs exchange through host memory.

    NVIDIA's driver offers no peer access on GeForce since Ampere (its answer on the RTX 4090 in the developer forum);
    the one older GeForce that ships is treated alike.
    """
    return not any(name.startswith("GeForce") for name in gpu.aliases)


def _peak_tflops(gpu: GpuSpec, form: WeightFormat) -> float:
    """Return the dense peak of the sheet that products of a format take.

    8-bit products: the FP8 peak, twice the 16-bit peak of Turing and newer GPUs without FP8 (their INT8 rate). 4-bit
    products: twice that. A GPU older than the products of a format turns its weights into 16 bit.
    """
    if form.compute == 32:
        return gpu.fp32_tflops
    if form.compute > 8 or not gpu.tensor16_tflops or _capability(gpu) < form.native:
        return gpu.matmul16_tflops
    turing = gpu.generation in ("Turing", "Ampere")
    eight = gpu.fp8_tflops or (2.0 if turing else 1.0) * gpu.matmul16_tflops
    return eight * 8.0 / form.compute


def _capability(gpu: GpuSpec) -> float:
    """Return the CUDA compute capability; other vendors' present GPUs have the products of every format."""
    return float(gpu.compute_capability) if gpu.vendor == "NVIDIA" else float("inf")


class ServingColumns:
    """Configurations as columns (n,), from which coefficients make the inputs of the formulas."""

    def __init__(self, servings: Sequence[Serving]):
        def fact(name: str) -> Any:
            return np.array([float(getattr(serving, name)) for serving in servings])

        names = [field.name for field in fields(ServedModel)]
        self.model = ServedModel(
            **{name: np.array([float(getattr(s.model, name)) for s in servings]) for name in names}
        )
        self._base = {name: np.array([serving.base[name] for serving in servings]) for name in QUANTITIES}
        self._division = {name: fact(name) for name in ("tensor", "pipeline")}
        self._bytes = {name: fact(name) for name in ("weight_bytes", "kv_bytes", "held_share")}

    def inputs(self, factor: Callable[[str], Any]) -> tuple[ServedModel, ServingHardware, ServingStack]:
        """Return the inputs, given the product of the coefficients (n,) of each quantity."""
        rates = {name: base * factor(name) for name, base in self._base.items() if name != "sequences"}
        own = {field.name for field in fields(ServingHardware)}
        hardware = ServingHardware(**{n: value for n, value in rates.items() if n in own}, **self._division)
        return self.model, hardware, ServingStack(**{n: v for n, v in rates.items() if n not in own}, **self._bytes)


def coefficient_factors(servings: Sequence[Serving], values: Mapping[str, float]) -> Callable[[str], Any]:
    """Return the function that gives the product of each quantity's coefficients (n,); what has no entry counts 1."""
    return lambda name: np.array([np.prod([values.get(key, 1.0) for key in s.keys[name]]) for s in servings])
