"""Evaluation by generation, evaluated a second time: replicas that answer test prompts on the machines of the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.configurations.serving_recipes import supports
from planner.estimates.time import stage_seconds as stages
from planner.evaluation.evaluated_replica import Replica
from planner.library.engines import read_engines
from planner.scenario.inference_job import InferenceJob
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from planner.evaluation.run_context import RunContext
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario


def answering_seconds(context: RunContext, offer: Offer, instances: int, forms: tuple[str, ...]) -> float | None:
    """Return the seconds of one run's prompts on machines of an offer; None where no division holds the weights.

    Replicas of as few GPUs as hold the model in the first of the formats that any holds.
    """
    wanted = context.job.stages.evaluation
    assert wanted is not None
    names = ("requests", "input_tokens", "output_tokens")
    job = InferenceJob.model_validate(
        {
            "name": context.job.name, "kind": "inference", "architecture": context.job.architecture,
            "work": {name: getattr(wanted, name) for name in names},
        }
    )  # fmt: skip
    engines, card = read_engines().engines, context.library.gpu(offer.card)
    engine = "vllm" if supports(engines["vllm"], card) else "hf"
    degree, last = 1, None
    degrees = []
    while degree <= min(offer.gpus, 64 if engines[engine].tensor else 1):
        degrees += [degree] if offer.gpus % degree == 0 and context.architecture.split_fault(degree) is None else []
        degree *= 2
    for form in forms:
        for tensor in degrees or [1]:
            used = {"framework": engine, "quant": form, "weight_bits": read_engines().formats[form].bits}
            used |= {"tensor_parallel": tensor, "pipeline_parallel": 1}
            named = context.named.techniques.model_copy(update=used)
            run = replace(context.named, techniques=named, kv_bits=None, instances=instances)
            last = Replica(replace(context, named=run, job=job, offer=offer, scenario=_unlimited(context)), job)
            if last.fitting:
                return float(last.run[0])
    if len(forms) == 1 or last is None:
        return None
    alone = last.cycle(1.0)  # one prompt after the other, as from host memory
    each = -(-job.work.total_requests // (instances * offer.gpus // last.together))
    return each * alone


def _unlimited(context: RunContext) -> Scenario:
    """Return the scenario without a share of memory that stays free: it is a limit of training."""
    limits = context.scenario.limits.model_copy(update={"vram_headroom": None})
    return context.scenario.model_copy(update={"limits": limits})


def hours_on_machine(context: RunContext) -> float:
    """Return the hours on the training machines: loading and compiling the trained weights, then the answers."""
    job, coefficients = context.job, context.stages
    disk = job.storage_gb_per_second * GB * job.load_efficiency / coefficients.disk_efficiency
    size, slot = context.architecture.download_gb * GB, PCIE_BYTES_PER_SECOND[context.gpu.pcie_gen]
    loading = float(stages.load_seconds(size, 1, disk, slot, coefficients, 0, 1))
    answering = answering_seconds(context, context.offer, context.machine.instances, ("bf16", "nf4")) or 0.0
    return (loading + answering) / HOUR
