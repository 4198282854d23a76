"""Configurations that generate: engines with formats and adapters on machines, their hours and what speeds rest on.

Replicas do not know of one another: each answers its share of the requests, and hours fall with their number.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.arrays import Floats, Integers, distinct_names, first_least
from planner.candidates.market import Market, interconnect_of
from planner.candidates.run_hours import Evidence, RunHours
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.fitting_cells import DOES_NOT_FIT, JobConfigurations
from planner.configurations.grid import (
    Configurations,
    JobShape,
    MemoryShortfall,
    concatenate_configurations,
    network_of,
)
from planner.configurations.recipe import Machine
from planner.estimates.generation import (
    ServedModel,
    ServingHardware,
    ServingStack,
    cycle_seconds,
    decode_step_seconds,
    kv_bytes_per_token,
    makespan_seconds,
    mean_seen_tokens,
    prefill_seconds,
    prompt_seconds,
)
from planner.estimates.inputs import Numbers
from planner.estimates.latency import (
    BatchMeans,
    Lengths,
    batch_means,
    first_token_seconds,
    mean_cycle_seconds,
    rows,
    seconds_per_token,
)
from planner.estimates.memory_fit import fit_probability
from planner.estimates.stage_seconds import NodeGroupCoefficients, StageCoefficients, load_seconds, wall_quantile_factor
from planner.estimates.uncertainty import (
    UNKNOWN_FRAMEWORK,
    Sigmas,
    class_sigmas,
    confidence_factor,
    memory_spread,
    tail_of_68_percent,
)
from planner.estimates.weights import lora_parameters
from planner.estimates.work import trial_work
from planner.generation.engine_recipes import (
    EngineStart,
    ReplicaMemory,
    Serving,
    ServingColumns,
    ServingRecipe,
    coefficient_factors,
    image_flop,
    replica_memory,
    serving_of,
    serving_recipe,
    serving_recipes,
    supports,
)
from planner.library.engines import read_engines
from planner.library.schema import Architecture, Coefficient, GpuSpec, Library
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job, ServedRun
from planner.spot.run import last_checkpoint_fits
from planner.spot.states import SpotStates
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Adapters of LoRA that are served next to the weights: their memory, and what each step reads and computes more.


ADAPTER_BYTES = 2.0
"""Bytes of an adapter's weight: engines keep them in 16 bits (vLLM documentation, LoRA adapters)."""
SERVED_ADAPTERS = "served adapters"
"""What rests on no measurement where adapters are served."""


def adapter_weights(job: InferenceJob, architecture: Architecture) -> float:
    """Return the weights of one adapter that the job serves; 0 where it serves none or they are merged."""
    adapter = job.adapter
    if adapter is None or adapter.served is None:
        return 0.0
    return float(lora_parameters(network_of(architecture), adapter.rank, adapter.targets).trainable)


def with_adapters(serving: Serving, weights: float, served: int) -> Serving:
    """Return a configuration with `served` adapters of as many `weights` next to its own; merged ones change nothing.

    All of them lie in memory, a step reads all of them, and each token is multiplied with one. Example: rank 16 on all
    linear layers of Llama 3.1 8B is 41.9 million weights, 84 MB; ten of them are 0.84 GB, 5 % of the 16-bit weights.
    """
    if not weights:
        return serving
    as_weights = served * weights * ADAPTER_BYTES / serving.weight_bytes
    model = replace(
        serving.model,
        stored_weights=serving.model.stored_weights + as_weights,
        dense_weights=serving.model.dense_weights + as_weights,
        met_weights=serving.model.met_weights + weights,
    )
    return replace(serving, model=model)


def served_priors(job: InferenceJob) -> tuple[str, ...]:
    """Return what of the adapters of a job rests on no measurement."""
    return (SERVED_ADAPTERS,) if job.adapter is not None and job.adapter.served is not None else ()


# Measured generation against its estimate: one factor on the speed of each engine on each GPU.


class Generated(NamedTuple):
    """Speed and latency of one replica."""

    output_tokens_per_second: float
    ttft_seconds: float
    tpot_seconds: float


def predicted_run(run: ServedRun, job: InferenceJob, architecture: Architecture, library: Library) -> Generated:
    """Return the estimate of a measured run: its lengths, its requests in flight, its start and its tail."""
    division = (run.tensor_parallel or run.gpus, run.gpus // (run.tensor_parallel or run.gpus))
    plain = serving_of(
        architecture, library.gpu(run.gpu), library,
        engine=run.engine, weights=run.weight_format, kv_bits=run.kv_bits, division=division,
    )  # fmt: skip
    served = (job.adapter.served or 0) if job.adapter else 0
    serving = with_adapters(plain, adapter_weights(job, architecture), served)
    values = library.calibrations["inference"].values
    model, hardware, stack = ServingColumns([serving]).inputs(coefficient_factors([serving], values))
    prefix, own = float(run.prefix_tokens), max(run.input_tokens - run.prefix_tokens, 0.0)

    def cycle(sequences: float) -> float:
        return float(cycle_seconds(model, hardware, stack, sequences, own, run.output_tokens, prefix)[0])

    flight, requests = run.in_flight, run.requests or 1000 * run.in_flight
    seconds = float(makespan_seconds(requests, min(flight, requests), np.vectorize(cycle)))
    seen = mean_seen_tokens(model, run.input_tokens, run.output_tokens)
    step = decode_step_seconds(model, hardware, stack, flight, seen)
    alone = prefill_seconds(model, hardware, stack, max(own, 1.0), prefix)
    taken_in = prompt_seconds(model, hardware, own, prefix) + stack.request_seconds
    first = float(first_token_seconds(stack, alone, step, taken_in, flight - 1)[0])
    tpot = float(seconds_per_token(cycle(flight), first, run.output_tokens)) if run.output_tokens > 1 else 0.0
    return Generated(requests * run.output_tokens / seconds, first, tpot)


def speed_factors(job: InferenceJob, architecture: Architecture, library: Library) -> dict[tuple[str, str], float]:
    """Return measured over estimated speed by engine and GPU: the geometric mean of its runs.

    Runs of 1.2 and 1.5 times the estimate: 1.34. Other engines and GPUs keep their estimates.
    """
    logs_by_engine: dict[tuple[str, str], list[float]] = {}
    for run in job.measured:
        predicted = predicted_run(run, job, architecture, library).output_tokens_per_second
        logs_by_engine.setdefault((run.engine, run.gpu), []).append(math.log(run.output_tokens_per_second / predicted))
    return {key: math.exp(math.fsum(logs) / len(logs)) for key, logs in logs_by_engine.items()}


def is_measured(job: InferenceJob, recipe: ServingRecipe, gpu: str) -> bool:
    """Return whether the job has a run of the engine on the GPU in the same formats of weights and cache."""
    here = (recipe.framework, gpu, recipe.quant, recipe.kv_bits)
    return any((run.engine, run.gpu, run.weight_format, run.kv_bits) == here for run in job.measured)


SHORTEST_RUN_HOURS = 0.1
"""Work that each machine has at least where there are several: with less, machines start rather than work."""


def lengths_of(job: InferenceJob) -> Lengths:
    """Return the requests of a job as columns."""
    classes = job.work.classes
    prompt, output, count = (
        np.asarray([getattr(request_class, name) for request_class in classes], dtype=float)
        for name in ("input_tokens", "output_tokens", "count")
    )
    return Lengths(prompt, output, count, float(job.work.prefix_tokens))


def shape_of_requests(job: InferenceJob, architecture: Architecture) -> JobShape:
    """Return the work in requests (steps) and tokens that are written."""
    work = job.work
    longest = max(request_class.input_tokens + request_class.output_tokens for request_class in work.classes)
    requests = work.total_requests
    mean = (work.total_input_tokens + work.total_output_tokens) / requests
    written = float(work.total_output_tokens)
    return JobShape(network_of(architecture), longest, float(longest), mean, written, float(requests), 1.0, "tokens")


class ServedGpu(NamedTuple):
    """A recipe on one kind of GPU."""

    gpu: str
    recipe: ServingRecipe


@dataclass(frozen=True)
class ReplicaSpeeds:
    """Speed and memory of recipes on GPUs, columns (n,)."""

    which: tuple[ServedGpu, ...]
    memory: tuple[ReplicaMemory, ...]
    flight: Floats  # requests at one time that memory and engine allow; 0 where the longest does not fit
    need: Floats  # bytes on one GPU with the longest request alone
    fit_probability: Floats
    requests: float
    inputs: tuple[ServedModel, ServingHardware, ServingStack]
    means: BatchMeans  # of all requests
    alone_seconds: Floats  # of the request with the longest answer, alone
    token_bytes: Floats  # of the cache on one GPU, per token
    most: Floats  # requests at one time that the engine allows by itself
    factor: Floats  # measured over estimated speed

    def cycle(self, chosen: Sequence[int], sequences: Floats) -> Floats:
        """Return the mean seconds (k, m) of a request with `sequences` (k, m) in flight."""
        model, hardware, stack = self.inputs
        seconds = mean_cycle_seconds(
            rows(model, chosen), rows(hardware, chosen), rows(stack, chosen), rows(self.means, chosen), sequences
        )
        return np.asarray(seconds, dtype=float) / self.factor[chosen][:, None]

    def run_seconds(self, chosen: Sequence[int], replicas: Floats) -> tuple[Floats, Floats]:
        """Return seconds until all requests are answered by `replicas` (k, m), and requests in flight of each."""
        per_replica = np.ceil(self.requests / replicas)
        flight = np.minimum(self.flight[chosen][:, None], per_replica)
        seconds = makespan_seconds(per_replica, flight, lambda sequences: self.cycle(chosen, sequences))
        return np.maximum(seconds, self.alone_seconds[chosen][:, None]), flight


def replica_speeds(
    job: InferenceJob, architecture: Architecture, which: Sequence[ServedGpu], library: Library, headroom: float | None
) -> ReplicaSpeeds:
    """Return speed and memory of recipes on GPUs, whatever the number of machines."""
    calibration, lengths = library.calibrations["inference"], lengths_of(job)
    servings = _servings(job, architecture, which, library)
    longest_prompt = float(np.max(lengths.prompt))
    memory = tuple(
        replica_memory(
            serving, architecture, library.gpu(served_gpu.gpu), served_gpu.recipe.engine, longest_prompt,
            calibration.coefficients, EngineStart(headroom=headroom or 0.0),
        )
        for serving, served_gpu in zip(servings, which, strict=True)
    )  # fmt: skip
    inputs = ServingColumns(servings).inputs(coefficient_factors(servings, calibration.values))
    model, hardware, stack = inputs
    means = batch_means(model, hardware, stack, lengths)
    slowest = int(np.argmax(lengths.output))
    alone = Lengths(lengths.prompt[[slowest]], lengths.output[[slowest]], np.ones(1), lengths.prefix)
    alone_means = batch_means(model, hardware, stack, alone)
    measured = speed_factors(job, architecture, library)
    factor = np.asarray([measured.get((served_gpu.recipe.framework, served_gpu.gpu), 1.0) for served_gpu in which])
    alone_seconds = mean_cycle_seconds(model, hardware, stack, alone_means, np.ones((len(which), 1)))[:, 0] / factor
    per_token = kv_bytes_per_token(model, stack.kv_bytes, hardware.tensor, hardware.pipeline)
    cache, fixed = (np.asarray([getattr(replica, name) for replica in memory]) for name in ("cache", "fixed"))
    longest = means.longest_tokens * per_token
    fits = cache >= longest
    most = np.asarray(
        [served_gpu.recipe.engine.limits_on(library.gpu(served_gpu.gpu)).sequences for served_gpu in which], dtype=float
    )
    flight = np.where(fits, np.clip(np.floor(cache / (means.cached_tokens * per_token)), 1.0, most), 0.0)
    weights = np.asarray([replica.weights for replica in memory])
    sigma = memory_spread(library.calibrations["memory"].values, UNKNOWN_FRAMEWORK, False).sigma
    # Weights are known to the byte: what may be larger than estimated is all else, into what the engine leaves too.
    whole = np.asarray(
        [library.gpu(served_gpu.gpu).usable_gib * GIB * (1.0 - (headroom or 0.0)) for served_gpu in which]
    )
    chance = fit_probability((whole - weights) / (fixed + longest - weights) - 1.0, sigma)
    return ReplicaSpeeds(
        tuple(which), memory, flight, fixed + longest, np.asarray(chance, dtype=float), lengths.requests,
        inputs, means, np.asarray(alone_seconds, dtype=float), np.asarray(per_token, dtype=float),
        most, factor,
    )  # fmt: skip


def _servings(
    job: InferenceJob, architecture: Architecture, which: Sequence[ServedGpu], library: Library
) -> list[Serving]:
    """Return recipes on GPUs as configurations with their sheet figures, adapters and images included."""
    plain = (
        serving_of(
            architecture, library.gpu(served_gpu.gpu), library,
            engine=served_gpu.recipe.framework, weights=served_gpu.recipe.quant, kv_bits=served_gpu.recipe.kv_bits,
            division=(served_gpu.recipe.tensor_parallel, served_gpu.recipe.pipeline_parallel),
        )
        for served_gpu in which
    )  # fmt: skip
    adapter, served = adapter_weights(job, architecture), (job.adapter.served or 0) if job.adapter else 0
    flop = image_flop(architecture, job.work.image_input)
    return [replace(with_adapters(serving, adapter, served), image_flop=flop) for serving in plain]


def enumerate_replicas(
    job: InferenceJob,
    architecture: Architecture,
    machines: Sequence[Machine],
    library: Library,
    headroom: float | None = None,
) -> JobConfigurations:
    """Return every engine and format on every number of machines, GPUs per replica as fast as any; count the others.

    Of the degrees of parallelism the fastest of each machine, engine and format is kept.
    """
    rejected: Counter[str] = Counter()
    kinds: dict[tuple[str, int, str], list[Machine]] = {}
    for machine in machines:
        kinds.setdefault((machine.gpu, machine.gpus_per_instance, machine.link), []).append(machine)
    recipes: dict[tuple[str, int], list[ServingRecipe]] = {}
    for gpu, gpus, _ in kinds:
        if (gpu, gpus) not in recipes:
            served = list(serving_recipes(job, architecture, library.gpu(gpu), gpus))
            recipes[gpu, gpus] = [recipe for recipe in served if isinstance(recipe, ServingRecipe)]
            rejected.update(reason for reason in served if isinstance(reason, str))
    which = list(dict.fromkeys(ServedGpu(gpu, recipe) for (gpu, _), several in recipes.items() for recipe in several))
    shape = shape_of_requests(job, architecture)
    if not which:
        return JobConfigurations(shape, tuple(machines), concatenate_configurations([]), (), rejected)
    speeds = replica_speeds(job, architecture, which, library, headroom)
    place = {served_gpu: index for index, served_gpu in enumerate(which)}
    pieces, misses = [], []
    for (gpu, gpus, _), several in kinds.items():
        chosen = [place[ServedGpu(gpu, recipe)] for recipe in recipes[gpu, gpus]]
        fitting = [index for index in chosen if _fits(speeds, index, job, headroom)]
        rejected[DOES_NOT_FIT] += len(chosen) - len(fitting)
        misses += _shortfalls(speeds, [row for row in chosen if row not in fitting], fitting, several[0])
        if fitting:
            pieces.append(_rows_of_kind(speeds, fitting, several))
    ways = _with_each_recipe_once(concatenate_configurations(pieces))
    return JobConfigurations(shape, tuple(machines), ways, tuple(misses), rejected)


def _with_each_recipe_once(ways: Configurations) -> Configurations:
    """Return the same configurations, whose kinds of machines share their recipes."""
    number = {recipe: index for index, recipe in enumerate(dict.fromkeys(ways.recipes))}
    renamed = np.asarray([number[recipe] for recipe in ways.recipes], dtype=np.int64)
    return replace(ways, recipes=tuple(number), recipe=renamed[ways.recipe])


def _fits(speeds: ReplicaSpeeds, index: int, job: InferenceJob, headroom: float | None) -> bool:
    sure = headroom is not None or speeds.fit_probability[index] >= job.memory_confidence
    return bool(speeds.flight[index] >= 1 and sure)


def _rows_of_kind(speeds: ReplicaSpeeds, fitting: Sequence[int], machines: Sequence[Machine]) -> Configurations:
    """Return the configurations of one kind of machine: for each number of them the best division of each recipe."""
    recipes = [speeds.which[index].recipe for index in fitting]
    together = np.asarray([recipe.tensor_parallel * recipe.pipeline_parallel for recipe in recipes], dtype=float)
    gpus = np.asarray([machine.gpus for machine in machines], dtype=float)
    seconds, flight = speeds.run_seconds(fitting, gpus[None, :] / together[:, None])
    labels = np.asarray([recipe.method_label for recipe in recipes])
    instances = np.asarray([machine.instances for machine in machines])
    keep = np.zeros(seconds.shape, dtype=bool)
    for label in dict.fromkeys(labels):
        members = np.flatnonzero(labels == label)
        best = members[first_least(seconds[members], axis=0)]
        keep[best, np.arange(len(machines))] = True
    keep &= (seconds >= SHORTEST_RUN_HOURS * HOUR) | (instances == np.min(instances))
    r, m = np.nonzero(keep)
    at = np.asarray(fitting)[r]
    usable = np.asarray([replica.usable for replica in speeds.memory])
    return Configurations(
        tuple(recipes),
        tuple(machines),
        r,
        m,
        flight[r, m].astype(np.int64),
        np.ones(len(r), dtype=np.int64),
        seconds[r, m] / speeds.requests,
        np.full(len(r), 1.0),
        speeds.need[at] / GIB,
        usable[at] / GIB,
        np.full(len(r), np.nan),
    )


def _shortfalls(
    speeds: ReplicaSpeeds, missing: Sequence[int], fitting: Sequence[int], machine: Machine
) -> list[MemoryShortfall]:
    """Return by how much each rung of the ladder that fits nowhere on a machine misses, at its nearest."""
    placed = {speeds.which[index].recipe.method_label for index in fitting}
    nearest: dict[str, MemoryShortfall] = {}
    for index in missing:
        recipe = speeds.which[index].recipe
        short = float(speeds.need[index] - speeds.memory[index].usable) / GIB
        best = nearest.get(recipe.method_label)
        if recipe.method_label not in placed and (best is None or short < best.shortfall_gib):
            nearest[recipe.method_label] = MemoryShortfall(recipe, machine, short)
    return list(nearest.values())


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
    hours = []
    for machine in machines:
        kind = machine.gpu, machine.gpus_per_instance
        if kind not in known:
            known[kind] = generating_on(job, architecture, *kind, library, only_16_bits=False)
        made = known[kind]
        answering = made.seconds(machine.instances) if made is not None else 0.0
        pcie = PCIE_BYTES_PER_SECOND[library.gpu(machine.gpu).pcie_gen]
        loading = load_seconds(architecture.download_gb * GB, 1, disk, pcie, stages, 0, 1)
        hours.append((answering + float(loading)) / HOUR)
    return hours


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
    job: Job, architecture: Architecture, gpu: str, gpus: int, library: Library, only_16_bits: bool
) -> Generating | None:
    """Return the replicas on a machine of `gpus` GPUs, every one on as few of them as hold it.

    None where 16-bit weights are asked for and the machine does not hold them. Otherwise 4-bit weights that it does
    not hold either answer one prompt after the other, as from host memory.
    """
    asked = generating_job(job)
    assert asked is not None
    card = library.gpu(gpu)
    degrees = [tp for tp in (1, 2, 4, 8, 16, 32, 64) if gpus % tp == 0 and architecture.split_fault(tp) is None]
    engine = engine_on(card)
    if not read_engines().engines[engine].tensor:
        degrees = [1]
    which = [
        ServedGpu(gpu, serving_recipe(engine, form, 16, tp, 1))
        for form in (WEIGHTS[:1] if only_16_bits else WEIGHTS)
        for tp in degrees
    ]
    speeds = replica_speeds(asked, architecture, which, library, None)
    smallest = next((index for index, flight in enumerate(speeds.flight) if flight >= 1), None)
    if smallest is None and only_16_bits:
        return None
    if smallest is None:
        speeds, smallest = replace(speeds, flight=np.maximum(speeds.flight, 1.0)), len(which) - 1
    return Generating(speeds, smallest, gpus // which[smallest].recipe.tensor_parallel)


ROUGH_BATCHES = (
    "many requests in flight: most measurements are of engines of 2024, so real ones may be faster; measure first"
)


def coefficient_or(coefficients: Mapping[str, Coefficient], key: str, otherwise: float) -> float:
    """Return a coefficient's value, or another where there is none."""
    entry = coefficients.get(key)
    return entry.value if entry else otherwise


def prior_parts(
    coefficients: Mapping[str, Coefficient], engine: str, label: str, gpu: str, weights: str
) -> tuple[str, ...]:
    """Return what no published measurement informs: engine (by its `label`), GPU, format."""
    keys = {
        f"engine {label}": f"spread.{engine}",
        f"GPU {gpu}": f"memory.{gpu}",
        f"format {weights}": f"reading.{read_engines().fitted_as(weights)}",
    }
    entries = {part: coefficients.get(key) for part, key in keys.items()}
    return tuple(part for part, entry in entries.items() if entry is None or entry.basis != "measured")


def speed_sigma(coefficients: Mapping[str, Coefficient], engine: str, is_prior: bool) -> float:
    """Return the standard deviation of ln(speed): the engine's, else that of all; wider where a part is a prior."""
    own = coefficient_or(coefficients, f"spread.{engine}", coefficient_or(coefficients, "spread", 0.4))
    return math.hypot(own, coefficient_or(coefficients, "spread.prior", 0.2) if is_prior else 0.0)


# The market as a job of generation sees it: any number of machines of an offer, which need no common network.


MOST_MACHINES = 1024
"""Machines of one job at the most."""
ALL_COUNTS_UP_TO = 32
"""Numbers of machines up to which each is tried; above, sixteen to every doubling."""


@lru_cache(maxsize=1)
def machine_counts() -> tuple[int, ...]:
    """Return the numbers of machines that are tried."""
    counts, step = list(range(1, ALL_COUNTS_UP_TO + 1)), 1
    while counts[-1] < MOST_MACHINES:
        step *= 2
        counts += range(counts[-1] + step, min(2 * counts[-1], MOST_MACHINES) + 1, step)
    return tuple(counts)


def market_of(market: Market) -> Market:
    """Return the market with the machines that a job of generation may rent: any number of each offer."""
    made: dict[tuple[object, ...], tuple[Machine, ...]] = {}
    machines: list[tuple[Machine, ...]] = []
    for offer, card in zip(market.offers, market.cards, strict=True):
        if card is None:
            machines.append(())
            continue
        link, most = interconnect_of(offer), offer.stock
        kind = card.name, offer.gpus, link, None if most is None else min(most, MOST_MACHINES)
        if kind not in made:
            counts = (n for n in machine_counts() if most is None or n <= most)
            made[kind] = tuple(Machine(card.name, offer.gpus, n, link, None) for n in counts)
        machines.append(made[kind])
    distinct = tuple(dict.fromkeys(machine for several in made.values() for machine in several))
    return replace(market, machines=tuple(machines), distinct_machines=distinct)


TEXT_BYTES_PER_TOKEN = 4.0
"""Bytes of an answer per token: about four letters of English (tokenizer documentation of OpenAI)."""


@dataclass(frozen=True)
class ReplicaHours(RunHours):
    """Columns (configurations,): the same where machines do not need one another, and nothing is checkpointed."""

    cycle_hours: Floats  # of one request among those in flight: a lost machine loses half of it in the mean

    def gang(self, nodes: Any) -> Any:
        """Return that every machine is lost by itself."""
        return np.ones_like(np.asarray(nodes))

    def exposure_hours(self, configuration: Integers) -> Floats:
        """Return the hours (n,) of a request in flight."""
        return np.asarray(self.cycle_hours[configuration], dtype=float)

    def lost_hours(self, restart: Numbers, configuration: Integers | int) -> Any:
        """Return a restart, with one load, and half of the requests in flight."""
        return np.asarray(restart) + self.cycle_hours[configuration] / 2.0

    def write_seconds(self, configuration: Integers | int, nodes: Numbers) -> Any:
        """Return 0: nothing is written where machines are lost or pause."""
        del configuration
        return np.zeros_like(np.asarray(nodes, dtype=float))

    def checkpoints(
        self, configuration: int, nodes: int, states: SpotStates, notice_seconds: float
    ) -> tuple[float, float, bool]:
        """Return the hours of a request in flight, no write, and whether requests end within the notice."""
        del nodes, states
        cycle = float(self.cycle_hours[configuration])
        return cycle, 0.0, last_checkpoint_fits(notice_seconds, cycle * HOUR)


def result_gb(job: InferenceJob) -> float:
    """Return the GB of all answers: as stated, else 4 bytes per output token."""
    wanted = job.stages.export
    if wanted is not None and wanted.gb is not None:
        return wanted.gb
    return job.work.total_output_tokens * TEXT_BYTES_PER_TOKEN / GB


def _spreads(
    job: InferenceJob, recipes: list[ServingRecipe], physics: JobConfigurations, library: Library
) -> tuple[Floats, Floats]:
    """Return the 68 % spread and that of the tail (n,) of the seconds of every configuration."""
    ways = physics.ways
    gpus_by_name, gpu = distinct_names([machine.gpu for machine in ways.machines])
    of_gpu = [[_sigmas(job, recipe, name, library) for name in gpus_by_name] for recipe in recipes]
    shape = (len(recipes), len(gpus_by_name), 2)  # also where there is no machine at all
    spreads = np.asarray(of_gpu, dtype=float).reshape(shape)[ways.recipe, gpu[ways.machine]]
    return spreads[:, 0], spreads[:, 1]


def compute_replica_hours(
    job: InferenceJob,
    architecture: Architecture,
    physics: JobConfigurations,
    library: Library,
    budget_confidence: float,
) -> ReplicaHours:
    """Return the hours of every configuration of a job of generation, for all its trials."""
    values, ways = library.calibrations["stages"].values, physics.ways
    stages = StageCoefficients.of(values)
    spread = library.calibrations["uncertainty"].value("wall_spread")
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    none = np.zeros(len(ways))
    recipes = [recipe for recipe in ways.recipes if isinstance(recipe, ServingRecipe)]
    step_seconds = ways.step_seconds / job.efficiency
    hours = physics.shape.steps * step_seconds / HOUR
    sigma, tail = _spreads(job, recipes, physics, library)
    together = np.asarray([recipe.tensor_parallel * recipe.pipeline_parallel for recipe in recipes], dtype=float)
    gpus = np.asarray([machine.gpus for machine in ways.machines], dtype=float)
    replicas = gpus[ways.machine] / together[ways.recipe]
    rounds = np.maximum(1.0, np.ceil(physics.shape.steps / replicas) / np.maximum(ways.micro_batch, 1))
    load = _loading_seconds(job, architecture, physics, library, together[ways.recipe])
    return ReplicaHours(
        training_hours=hours * trials.wall,
        evaluation_hours=none,
        checkpoint_hours=none,
        reload_hours=load / HOUR * trials.reloads_wall,
        reload_share=trials.reloads / trials.reloads_wall if trials.reloads_wall else 1.0,
        observed=np.zeros(len(ways), dtype=bool),
        evidence=_evidence(job, recipes, physics, library),
        step_seconds=step_seconds,
        load_seconds=load,
        sigma=sigma,
        sigma_tail=tail,
        confidence_factor=np.asarray(confidence_factor(tail, job.confidence), dtype=float),
        budget_factor=np.asarray(confidence_factor(tail, budget_confidence), dtype=float),
        stall_seconds=none,
        saved_bytes=none,
        disk_bytes_per_second=job.storage_gb_per_second * GB,
        trained_gb=(result_gb(job),) * len(recipes),
        export_gb=(result_gb(job),) * len(recipes),
        latent_hours=none,
        latent_gb=(0.0,) * len(recipes),
        kept_gb=(0.0,) * len(recipes),
        adapts=(False,) * len(recipes),
        weights_gb=architecture.release_gb,
        stages=stages,
        node_group=NodeGroupCoefficients.of(values),
        outage_cv=values["spot_outage_cv"],
        wall_factor=wall_quantile_factor(job.confidence, spread),
        budget_wall_factor=wall_quantile_factor(budget_confidence, spread),
        budget_confidence=budget_confidence,
        cycle_hours=hours / rounds,
    )


def _loading_seconds(
    job: InferenceJob, architecture: Architecture, physics: JobConfigurations, library: Library, together: Floats
) -> Floats:
    """Return the seconds (n,) in which the GPUs of a replica, `together` (n,), load the weights."""
    ways, stages = physics.ways, StageCoefficients.of(library.calibrations["stages"].values)
    pcie = np.asarray(
        [PCIE_BYTES_PER_SECOND[library.gpu(machine.gpu).pcie_gen] for machine in ways.machines], dtype=float
    )
    disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
    size = architecture.release_gb * GB
    return np.asarray(load_seconds(size, together, disk, pcie[ways.machine], stages, 0, 1), dtype=float)


def _evidence(
    job: InferenceJob, recipes: list[ServingRecipe], physics: JobConfigurations, library: Library
) -> Integers:
    """Return what the speed of every configuration (n,) rests on, as numbers of `Evidence`."""
    ways, coefficients = physics.ways, library.calibrations["inference"].coefficients
    gpus, place = distinct_names([machine.gpu for machine in ways.machines])

    def of(recipe: ServingRecipe, gpu: str) -> Evidence:
        if is_measured(job, recipe, gpu):
            return Evidence.OWN_RUN
        priors = prior_parts(coefficients, recipe.framework, recipe.engine.label, gpu, recipe.quant)
        return Evidence.PRIOR if priors + served_priors(job) else Evidence.PUBLISHED_RUNS

    codes = np.asarray([[of(recipe, gpu) for gpu in gpus] for recipe in recipes], dtype=np.int64)
    return np.asarray(codes.reshape(len(recipes), len(gpus))[ways.recipe, place[ways.machine]])


def _sigmas(job: InferenceJob, recipe: ServingRecipe, gpu: str, library: Library) -> Sigmas:
    """Return the standard deviations of ln(speed): of an observed run where engine, GPU and formats were measured."""
    if is_measured(job, recipe, gpu):
        return class_sigmas(library.calibrations["uncertainty"].values, "observed")
    coefficients = library.calibrations["inference"].coefficients
    priors = prior_parts(coefficients, recipe.framework, recipe.engine.label, gpu, recipe.quant)
    sigma = speed_sigma(coefficients, recipe.framework, bool(priors + served_priors(job)))
    return Sigmas(sigma, float(tail_of_68_percent(sigma)))
