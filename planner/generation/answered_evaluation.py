"""Evaluation by generation: how long the trained model takes to answer test prompts on the machines that are chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.grid import Machine
from planner.estimates.time.stage_seconds import StageCoefficients, load_seconds
from planner.generation.engine_recipes import serving_recipe, supports
from planner.generation.replica_enumeration import ReplicaSpeeds, ServedGpu, replica_speeds
from planner.library.engines import read_engines
from planner.library.schema import Architecture, GpuSpec, Library
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIGHTS = ("bf16", "nf4")
"""Formats of the weights, the first that fits: a model that was trained on 4-bit weights may fit in 4 bits alone."""


def generating_job(job: Job) -> InferenceJob | None:
    """Return the prompts of a job's evaluation as a job of their own; None where it generates nothing."""
    wanted = job.stages.evaluation
    if wanted is None or wanted.requests is None:
        return None
    work = {name: getattr(wanted, name) for name in ("requests", "input_tokens", "output_tokens")}
    return InferenceJob.model_validate(
        {"name": job.name, "kind": "inference", "architecture": job.architecture, "work": work}
    )


def engine_on(gpu: GpuSpec) -> str:
    """Return vLLM where it runs on the GPU, else Transformers, which runs on all."""
    return "vllm" if supports(read_engines().engines["vllm"], gpu) else "hf"


def generation_hours(
    job: Job, architecture: Architecture, machines: Sequence[Machine], library: Library
) -> list[float]:
    """Return the hours of evaluation by generation on each of the training machines; empty without such a stage.

    The trained weights are on the machine's disk already: the engine loads them, compiles, and answers.
    """
    if generating_job(job) is None:
        return []
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
    known: dict[tuple[str, int], Generating | None] = {}
    found = []
    for machine in machines:
        kind = machine.gpu, machine.gpus_per_instance
        if kind not in known:
            known[kind] = generating_on(job, architecture, *kind, library, only_16_bits=False)
        made = known[kind]
        answering = made.seconds(machine.instances) if made is not None else 0.0
        pcie = PCIE_BYTES_PER_SECOND[library.gpu(machine.gpu).pcie_gen]
        loading = load_seconds(architecture.download_gb * GB, 1, disk, pcie, stages, 0, 1)
        found.append((answering + float(loading)) / HOUR)
    return found


class Generating(NamedTuple):
    """Replicas of one machine that answer the test prompts."""

    speeds: ReplicaSpeeds
    chosen: int  # of the recipes
    replicas: int  # on one machine

    def seconds(self, machines: int) -> float:
        """Return the seconds until machines side by side have answered all prompts."""
        replicas = np.full((1, 1), float(self.replicas * machines))
        return float(self.speeds.run_seconds([self.chosen], replicas)[0][0, 0])


def generating_on(
    job: Job, architecture: Architecture, gpu: str, each: int, library: Library, only_16_bits: bool
) -> Generating | None:
    """Return the replicas on a machine of `each` GPUs, every one on as few of them as hold it.

    None where 16-bit weights are asked for and the machine does not hold them. Otherwise 4-bit weights that it does
    not hold either answer one prompt after the other, as from host memory.
    """
    asked = generating_job(job)
    assert asked is not None
    card = library.gpu(gpu)
    degrees = [tp for tp in (1, 2, 4, 8, 16, 32, 64) if each % tp == 0 and architecture.split_fault(tp) is None]
    engine = engine_on(card)
    if not read_engines().engines[engine].tensor:
        degrees = [1]
    which = [
        ServedGpu(gpu, serving_recipe(engine, form, 16, tp, 1))
        for form in (WEIGHTS[:1] if only_16_bits else WEIGHTS)
        for tp in degrees
    ]
    speeds = replica_speeds(asked, architecture, which, library, None)
    found = next((index for index, flight in enumerate(speeds.flight) if flight >= 1), None)
    if found is None and only_16_bits:
        return None
    if found is None:
        speeds, found = replace(speeds, flight=np.maximum(speeds.flight, 1.0)), len(which) - 1
    return Generating(speeds, found, each // which[found].recipe.tensor_parallel)
