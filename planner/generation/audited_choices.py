"""What replicas name of engine, formats and division and may not: of generation, and of each kind of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.evaluation.comparison import Broken
from planner.evaluation.named_run import RunContext
from planner.library.engines import Engine, WeightFormat, read_engines
from planner.library.model_ladder import servable_formats
from planner.library.schema import GpuSpec
from planner.scenario.inference_job import InferenceJob

if TYPE_CHECKING:
    from collections.abc import Iterator


_BY_THEMSELVES = ("vllm", "sglang", "trt-llm")  # engines that a job may use without naming them
_WITHOUT_ADAPTERS = ("gpt-fast", "autoawq")  # that serve no adapters next to the weights
_CDNA3_CAPABILITY = 9.0  # AMD's CDNA3 has what Hopper has


def choices_of_replicas(context: RunContext, job: InferenceJob) -> Iterator[Broken]:
    """Yield what the plan names of engine, formats and GPUs, and may not."""
    table, recipe, asked = read_engines(), context.recipe, job.techniques
    engine, form = table.engines.get(recipe.framework), table.formats.get(recipe.quant)
    if engine is None or form is None or recipe.framework not in (asked.engine or _BY_THEMSELVES):
        yield "engine", "an engine and a format that the job allows", recipe.framework
        return
    if job.adapter is not None and job.adapter.served is not None and recipe.framework in _WITHOUT_ADAPTERS:
        yield "engine", "one that serves adapters", recipe.framework
    yield from _formats(context, job, engine, form)
    yield from _division(context, job, engine)
    longest = max(requests.input_tokens + requests.output_tokens for requests in job.work.classes)
    if longest > context.architecture.max_sequence:
        yield "context", f"at most {context.architecture.max_sequence}", longest


def gpu_capability(gpu: GpuSpec) -> float:
    """Return the compute capability of a GPU; those of AMD count as CDNA3."""
    try:
        return float(gpu.compute_capability)
    except ValueError:
        return _CDNA3_CAPABILITY


def _formats(context: RunContext, job: InferenceJob, engine: Engine, form: WeightFormat) -> Iterator[Broken]:
    """Yield formats that the job does not allow, the engine does not load or the GPU does not compute."""
    gpu, recipe, asked, kv_bits = context.gpu, context.recipe, job.techniques, context.named.kv_bits
    capability = gpu_capability(gpu)
    if gpu.vendor not in engine.vendors or capability < max(engine.capability, form.capability):
        yield "engine on the GPU", f"{engine.capability} or newer", gpu.name
    if form.bits == 16 and not gpu.bf16 and gpu.tensor16_tflops is None:
        yield "weight_format", "one that the GPU computes", recipe.quant
    if recipe.quant not in servable_formats(engine, context.architecture) or recipe.weight_bits != form.bits:
        yield "weight_format", "one that the engine loads and the model exists in", recipe.quant
    if form.bits not in asked.weight_bits or (asked.weight_format and recipe.quant not in asked.weight_format):
        yield "weight_bits", " or ".join(map(str, asked.weight_bits)), form.bits
    if kv_bits not in asked.kv_bits or kv_bits not in engine.kv_bits:
        yield "kv_bits", " or ".join(map(str, asked.kv_bits)), kv_bits


def _division(context: RunContext, job: InferenceJob, engine: Engine) -> Iterator[Broken]:
    """Yield machines that do not divide into replicas as the engine and the job allow."""
    recipe, plan, asked = context.recipe, context.named, job.techniques
    together = recipe.tensor_parallel * recipe.pipeline_parallel
    unused = recipe.pipeline_parallel if engine.tensor else recipe.tensor_parallel
    if together < 1 or plan.gpus_per_instance % together or unused != 1:
        yield "GPUs per replica", f"a divisor of {plan.gpus_per_instance}", together
    fault = context.architecture.split_fault(together) if engine.tensor else None
    if fault is not None:
        yield "GPUs per replica", "a number that the layers divide by", fault
    if asked.tensor_parallel and together not in asked.tensor_parallel:
        yield "tensor_parallel", " or ".join(map(str, asked.tensor_parallel)), together
    if plan.instances < 1:
        yield "instances", "at least 1", plan.instances
