"""What a job of generation asks for that no engine, GPU or model has: one fault each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.configurations.observed.comparison import GPUS_PER_MACHINE
from planner.configurations.replicas.recipes import SERVE_ADAPTERS, engines_of, has_kernels, supports
from planner.errors import Fault
from planner.library.inference.engines import read_engines
from planner.library.releases import describe_published, is_16_bit, servable_formats
from planner.scenario.inference import InferenceJob
from planner.scenario.serving.job import ServeJob
from planner.units import TERA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.library.inference.engines import Engine, WeightFormat
    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.scenario.job import Job


MOST_OVER_16_BITS = 4.0
"""Products in 4 bits over those in 16, as the sheets of Blackwell have them: no format is faster."""


def generation_faults(jobs: Sequence[Job], gpus: Sequence[GpuSpec], library: Library) -> Iterator[Fault]:
    """Yield what nothing can do of the prompts of jobs, their measurements, and the test prompts of training jobs."""
    for job in jobs:
        architecture = library.architecture(job.architecture)
        if isinstance(job, InferenceJob):
            yield from request_faults(job, architecture, gpus)
            yield from run_faults(job, architecture, library)
        yield from prompt_faults(job, architecture)


def request_faults(job: InferenceJob, architecture: Architecture, gpus: Sequence[GpuSpec]) -> Iterator[Fault]:
    """Yield what of the job nothing can do: on the model, and on each of the `gpus` that are offered."""
    place = f"jobs.{job.name}"
    if architecture.image is not None:
        fix = "choose a language model"
        yield Fault(job.name, 0, f"{place}.architecture", f"{architecture.name} makes images", fix)
        return
    for index, one in enumerate(job.work.classes):
        if one.input_tokens + one.output_tokens > architecture.max_sequence:
            longer = "input_tokens" if one.input_tokens >= one.output_tokens else "output_tokens"
            row = f"lengths.{index}.{longer}" if job.work.lengths else longer
            where = f"{'load' if isinstance(job, ServeJob) else 'work'}.{row}"
            what = f"{one.input_tokens:,} + {one.output_tokens:,} tokens exceed the context of {architecture.name}"
            yield Fault(job.name, 0, f"{place}.{where}", what, f"at most {architecture.max_sequence:,} together")
            break
    yield from _engine_faults(job, architecture, place, gpus)


def prompt_faults(job: Job, architecture: Architecture) -> Iterator[Fault]:
    """Yield what is wrong with the test prompts of a training job: they exceed the context of the model."""
    wanted = job.stages.evaluation
    if wanted is None or wanted.requests is None:
        return
    longest = (wanted.input_tokens or 0) + (wanted.output_tokens or 0)
    if longest > architecture.max_sequence:
        what = f"{longest:,} tokens exceed the context of {architecture.name}"
        where = f"jobs.{job.name}.stages.evaluation.input_tokens"
        yield Fault(job.name, 0, where, what, f"at most {architecture.max_sequence:,} with the answer")


def run_faults(job: InferenceJob, architecture: Architecture, library: Library) -> Iterator[Fault]:
    """Yield what cannot be of the measurements of a job: beyond the model's context, or beyond any peak of the GPU."""
    for number, run in enumerate(job.measured):
        place = f"jobs.{job.name}.measured.{number}"
        if run.input_tokens + run.output_tokens > architecture.max_sequence:
            what = f"{run.input_tokens + run.output_tokens:,.0f} tokens exceed the context of {architecture.name}"
            yield Fault(job.name, 0, f"{place}.input_tokens", what, f"at most {architecture.max_sequence:,}")
        tokens = (run.input_tokens - run.prefix_tokens + run.output_tokens) / run.output_tokens
        needed = run.output_tokens_per_second * tokens * 2 * architecture.active_parameters / TERA
        peak = MOST_OVER_16_BITS * library.gpu(run.gpu).matmul16_tflops * run.gpus
        if needed > peak:
            what = f"needs {needed:,.0f} TFLOP/s, more than {run.gpus} x {run.gpu} compute in any format"
            yield Fault(job.name, 0, f"{place}.output_tokens_per_second", what, "are unit and GPU count right?")


def _engine_faults(
    job: InferenceJob, architecture: Architecture, place: str, gpus: Sequence[GpuSpec]
) -> Iterator[Fault]:
    table, asked = read_engines(), job.techniques
    engines = {name: table.engines[name] for name in engines_of(job)}
    labels = ", ".join(one.label for one in engines.values())
    if not any(set(asked.kv_bits) & set(one.kv_bits) for one in engines.values()):
        have = sorted({bits for one in engines.values() for bits in one.kv_bits}, reverse=True)
        what = f"{labels} has no cache of {' or '.join(map(str, asked.kv_bits))} bits"
        yield Fault(job.name, 0, f"{place}.techniques.kv_bits", what, f"choose {' or '.join(map(str, have))}")
    formats, fault = _usable_formats(job, architecture, engines, f"{place}.techniques")
    if fault is not None:
        yield fault
        return
    served = job.adapter is not None and job.adapter.served is not None
    if served and not any(name in SERVE_ADAPTERS for name in engines):
        fix = f"merge them, or choose {', '.join(SERVE_ADAPTERS)}"
        yield Fault(job.name, 0, f"{place}.adapter.served", f"{labels} serves no adapters next to the weights", fix)
    names = ", ".join(dict.fromkeys(one.name for one in gpus))
    if gpus and not any(supports(engine, gpu) for engine in engines.values() for gpu in gpus):
        need = min(one.capability for one in engines.values())
        what = f"{labels} does not support {names}"
        yield Fault(
            job.name, 0, f"{place}.techniques.engine", what, f"offer a GPU of compute capability {need} or newer"
        )
    elif gpus and not any(has_kernels(form, gpu) for form in formats.values() for gpu in gpus):
        what = f"{names} has no kernels for {' or '.join(formats)}"
        need = min(one.capability for one in formats.values())
        fix = f"they need compute capability {need} or newer"
        yield Fault(job.name, 0, f"{place}.techniques.weight_bits", what, fix)
    for degree in asked.tensor_parallel or ():
        where = f"{place}.techniques.tensor_parallel"
        if not any(one.tensor for one in engines.values()) and degree > 1:
            what = f"{labels} does not split layers among GPUs"
            yield Fault(job.name, 0, where, what, "choose 1, or vllm, sglang, trt-llm")
        elif (why := architecture.split_fault(degree)) is not None and any(one.tensor for one in engines.values()):
            yield Fault(job.name, 0, where, why, f"such as {', '.join(map(str, divisions(architecture)))}")


def divisions(architecture: Architecture) -> list[int]:
    """Return the numbers of GPUs of one machine that the layers of a model divide among, up to 8."""
    return [degree for degree in range(1, GPUS_PER_MACHINE + 1) if architecture.split_fault(degree) is None]


def _usable_formats(
    job: InferenceJob, architecture: Architecture, engines: Mapping[str, Engine], place: str
) -> tuple[dict[str, WeightFormat], Fault | None]:
    """Return the formats that engines can serve the model in and the job allows; without any the fault.

    What the job says may ask for a format that the model is not published in, or that its engines do not load.
    """
    table, asked, bits = read_engines(), job.techniques.weight_format, job.techniques.weight_bits
    loaded = {name: table.formats[name] for one in engines.values() for name in one.formats}
    there = {name for one in engines.values() for name in servable_formats(one, architecture)}
    found = {
        name: form
        for name, form in loaded.items()
        if name in there and form.bits in bits and name in (asked or (name,))
    }
    if found:
        return found, None
    where = f"{place}.{'weight_format' if asked else 'weight_bits'}"
    labels, wanted = ", ".join(one.label for one in engines.values()), " or ".join(map(str, asked or bits))
    if not there:
        what = f"{labels} loads no {' or '.join(architecture.published)} weights, in which {architecture.name} exists"
        fix = "name another engine, or the release that the weights were made from"
        return {}, Fault(job.name, 0, f"{place}.engine", what, fix)
    if is_16_bit(architecture):
        have = sorted({form.bits for form in loaded.values()}, reverse=True)
        what = f"{labels} has no weights of {' or '.join(map(str, bits))} bits"
        return {}, Fault(job.name, 0, f"{place}.weight_bits", what, f"choose {' or '.join(map(str, have))}")
    what = f"{describe_published(architecture)}, not in {wanted}{'' if asked else ' bits'}"
    have = sorted({table.formats[name].bits for name in there}, reverse=True)
    fix = f"leave it out, or choose {' or '.join(sorted(there) if asked else map(str, have))}"
    return {}, Fault(job.name, 0, where, what, fix)
