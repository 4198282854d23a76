"""What may serve a model: engines, formats of weights and cache, and on which GPUs they run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.configurations.recipe import UNSHARDED, Recipe
from planner.library.inference.engines import Engine, WeightFormat, read_engines
from planner.library.releases import describe_published, is_16_bit, servable_formats
from planner.library.techniques import read_techniques

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.library.schema import Architecture, GpuSpec
    from planner.scenario.inference import InferenceJob

GENERATE = "generate"
"""In place of a method: nothing is trained."""
ALL_BITS = (16, 8, 4)
"""Bits of weights whose price the ladder of a plan shows, allowed or not."""
BY_THEMSELVES = ("vllm", "sglang", "trt-llm")
"""Engines that take part unnamed: a pool for the cache, and published measurements of many requests in flight."""

SERVE_ADAPTERS = ("vllm", "sglang", "trt-llm", "llama.cpp", "exllamav2", "hf")
"""Engines that serve several adapters next to the weights, as their documentation says of LoRA."""


@dataclass(frozen=True)
class ServingRecipe(Recipe):
    """An engine with its formats: `framework` is the engine, `quant` the format of the weights."""

    kv_bits: int = 16
    released: bool = False  # the weights are in the format of the release, so nothing is rounded

    @property
    def method_label(self) -> str:
        """The rung of the ladder: vLLM 16-bit, SGLang 8-bit."""
        cache = "" if self.kv_bits == 16 else f", {self.kv_bits}-bit cache"
        return f"{self.engine.label} {self.weight_bits}-bit{cache}"

    @property
    def resumes(self) -> bool:
        """Whether a lost machine costs no more than its requests in flight: always."""
        return True

    @property
    def engine(self) -> Engine:
        """The facts of the engine."""
        return read_engines().engines[self.framework]

    @property
    def form(self) -> WeightFormat:
        """The facts of the format of the weights."""
        return read_engines().formats[self.quant]

    @property
    def lossiness(self) -> int:
        """How much weights and cache round."""
        return (0 if self.released else super().lossiness) + (self.kv_bits < 16)

    def uses(self, accumulates: bool) -> tuple[bool, ...]:
        """Return that no 0/1 technique of training is on."""
        del accumulates
        return (False,) * len(read_techniques().values.names)


def serving_recipe(
    engine: str, weights: str, kv_bits: int, tensor: int, pipeline: int, released: bool = False
) -> ServingRecipe:
    """Return the recipe of an engine with its formats, and how the GPUs of a replica share the model."""
    bits, none = read_engines().formats[weights].bits, UNSHARDED
    return ServingRecipe(
        *(GENERATE, bits, weights, none, none, none, none, none, tensor, pipeline, engine),
        kv_bits=kv_bits,
        released=released,
    )


def capability(gpu: GpuSpec) -> float:
    """Return the CUDA compute capability; that of Hopper for AMD's CDNA3, which has FP8 and no FP4."""
    try:
        return float(gpu.compute_capability)
    except ValueError:
        return 9.0


def has_kernels(form: WeightFormat, gpu: GpuSpec) -> bool:
    """Return whether a GPU computes with a format of weights."""
    return capability(gpu) >= form.capability and (gpu.bf16 or form.bits != 16 or gpu.tensor16_tflops is not None)


def supports(engine: Engine, gpu: GpuSpec) -> bool:
    """Return whether an engine runs on a GPU at all."""
    return gpu.vendor in engine.vendors and capability(gpu) >= engine.capability


def engines_of(job: InferenceJob) -> tuple[str, ...]:
    """Return the engines that a job may use: those that it names, else those that take part by themselves."""
    named = job.techniques.engine or BY_THEMSELVES
    if job.adapter is None or job.adapter.served is None:
        return named
    return tuple(name for name in named if name in SERVE_ADAPTERS) or named  # where none does, that is a fault


def format_of(engine: str, bits: int, gpu: GpuSpec, job: InferenceJob, architecture: Architecture) -> str | None:
    """Return the format of so many bits: the first that the engine can serve the model in, with kernels of the GPU."""
    table, asked = read_engines(), job.techniques.weight_format
    for name in servable_formats(table.engines[engine], architecture):
        form = table.formats[name]
        if form.bits == bits and has_kernels(form, gpu) and (asked is None or name in asked):
            return name
    return None


def serving_recipes(
    job: InferenceJob, architecture: Architecture, gpu: GpuSpec, gpus_per_instance: int
) -> Iterator[ServingRecipe | str]:
    """Yield what may serve the model on machines of one kind, and as text why an engine or a format may not.

    Bits that the job excludes are made too, because the plan prices each rung of the ladder.
    """
    table = read_engines()
    degrees = [one for one in range(1, gpus_per_instance + 1) if gpus_per_instance % one == 0]
    for name in engines_of(job):
        engine = table.engines[name]
        if not supports(engine, gpu):
            yield f"{engine.label} does not support the GPU"
            continue
        for bits, kv_bits in itertools.product(ALL_BITS, job.techniques.kv_bits):
            weights = format_of(name, bits, gpu, job, architecture)
            if kv_bits not in engine.kv_bits:
                yield f"{engine.label} has no cache of {kv_bits} bits"
            elif weights is None:
                if bits in job.techniques.weight_bits:
                    known = any(table.formats[one].bits == bits for one in servable_formats(engine, architecture))
                    there = "" if known or is_16_bit(architecture) else f": {describe_published(architecture)}"
                    yield f"{engine.label} has no {bits}-bit weights for the GPU{there}"
            else:
                yield from _divided(job, architecture, engine, degrees, (name, weights, kv_bits))


def _divided(
    job: InferenceJob, architecture: Architecture, engine: Engine, degrees: list[int], what: tuple[str, str, int]
) -> Iterator[ServingRecipe | str]:
    """Yield a recipe for each number of GPUs that may hold the model together: as many as divide a machine."""
    asked = job.techniques.tensor_parallel
    if asked is not None:
        degrees = [one for one in degrees if one in asked]
        if not degrees:
            yield "the tensor parallel degree does not divide the GPUs of a machine"
    for degree in degrees:
        fault = architecture.split_fault(degree) if engine.tensor else None
        if fault is None:
            released = what[1] == architecture.published[0]
            yield serving_recipe(*what, *((degree, 1) if engine.tensor else (1, degree)), released)
        elif asked is not None:
            yield fault
