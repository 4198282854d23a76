"""The two sides of a step of reinforcement learning, in arrays: trainers on machines, and engines that sample.

Every trainer on every machine, every engine on every GPU; `rl_ways` pairs them. All figures are computed in arrays;
`evaluated_rl` computes those of the chosen way again, one run at a time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner import generation
from planner.analysis.estimate_question import possible_runs
from planner.arrays import Flags, Floats, Integers
from planner.candidates.training_hours import configuration_sigmas, unmeasured_sigma
from planner.configurations.grid import grid_inputs, network_of
from planner.configurations.recipe import (
    PIPELINE_DEGREES,
    SPREAD_DEGREES,
    TENSOR_DEGREES,
    GpuClass,
    Machine,
    Recipe,
    find_incompatibility,
    framework_of,
)
from planner.documents.validation import Source
from planner.errors import ScenarioError
from planner.estimates.device import TimeCoefficients, forward_share
from planner.estimates.generation import (
    ServedModel,
    ServingHardware,
    ServingStack,
    decode_step_seconds,
    mean_seen_tokens,
    prompt_seconds,
    seen_tokens,
)
from planner.estimates.inputs import Layout
from planner.estimates.latency import columns, rows
from planner.estimates.memory_fit import estimate_memory, with_paging
from planner.estimates.memory_terms import MemoryCoefficients, held_parameters
from planner.estimates.step_time import step_seconds
from planner.estimates.work import PACKED_FILL
from planner.formulation.constraints import undominated_columns
from planner.library.names import typical_ram_gb
from planner.library.reading import teacher_card
from planner.library.schema import Architecture, GpuSpec, Library
from planner.reinforcement.evaluated_rl import (
    USUAL_CHECKPOINTING,
    engine_share,
    learned_factors,
    spread_of,
    trainer_settings,
)
from planner.reinforcement.rl_estimate import (
    BYTES_16,
    ENGINE_GPUS,
    MICRO_BATCHES,
    ROLLOUT_FORMATS,
    SAMPLED_PER_KEPT,
    STEP_SIGMA,
    copy_machines,
    host_copy_rate,
)
from planner.reinforcement.rl_step import (
    LEFT,
    LIKE_FROM_ROUND,
    POINTS,
    AnswerLengths,
    RlPhases,
    StaleRollout,
    fixed_seconds,
    reward_activations_gib,
    reward_gib,
    reward_passes,
    with_fixed_sigma,
)
from planner.scenario.rl_job import CRITIC, REFERENCE, ROLLOUT_ENGINES, TRAINER_DEGREES, RlJob
from planner.scenario.techniques import WHERE, Configuration
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

USUAL_OPTIMIZER = str(Configuration.model_fields["optimizer"].default)
TRAINER_TOO_LARGE = "the trainer does not fit in memory"
ENGINE_TOO_LARGE = "no engine holds the model and its longest answer"


NO_REWARD, HELD, HOSTED = range(3)
"""Of GPUs that train: no reward model (or it has GPUs of its own), one that stays, one that comes for its passes."""


@dataclass(frozen=True)
class RlQuantities:
    """What of a job the formulas read."""

    job: RlJob
    architecture: Architecture
    sequences: float
    sampled: float
    longest: int
    lengths: AnswerLengths
    compares: bool
    criticises: bool
    factors: RlPhases  # by the observed runs of the job
    reward: Architecture | None  # the model that scores answers, if any does
    reward_place: int = NO_REWARD  # of the trainers that are sought

    @classmethod
    def of(cls, job: RlJob, architecture: Architecture, library: Library) -> RlQuantities:
        """Return the quantities of a job of one model."""
        work, mean = job.work, job.work.mean_output
        longest = work.cut_at or min(int(4.0 * mean), int(architecture.max_sequence - work.input_tokens))
        sequences = float(work.prompts * work.answers)
        per_kept = work.sampled_per_kept or SAMPLED_PER_KEPT.get(job.algorithm, 1.0)
        return cls(
            job, architecture, sequences, sequences * per_kept, longest,
            AnswerLengths(mean, longest, spread_of(work)),
            REFERENCE[job.algorithm] if job.reference is None else job.reference,
            job.algorithm in CRITIC,
            learned_factors(job, architecture, library),
            None if job.reward_model is None else teacher_card(job.reward_model.model),
        )  # fmt: skip

    @property
    def prompt(self) -> float:
        """Mean tokens of a prompt."""
        return self.job.work.input_tokens

    @property
    def mean_tokens(self) -> float:
        """Tokens of a prompt with its answer."""
        return self.prompt + self.job.work.mean_output

    @property
    def of_trainers(self) -> tuple[Any, ...]:
        """What trainers on given machines depend on, but for the techniques that are asked for one by one."""
        work, tokens = self.job.work, (self.prompt, self.longest, self.mean_tokens)
        asked = self.job.techniques
        layout = (asked.sharding, *(getattr(asked, name) for name in TRAINER_DEGREES))
        scores = self.job.reward_model and self.job.reward_model.model, self.reward_place, self.sampled
        return self.architecture, self.sequences, *tokens, self.compares, self.criticises, work.updates, layout, *scores

    def by_reward_place(self) -> Iterator[RlQuantities]:
        """Yield the quantities for each place of a reward model that the job allows."""
        asked, places = self.job.reward_model, [NO_REWARD]
        if asked is not None:
            shared = [place for place in (HELD, HOSTED) if asked.offload in (None, place == HOSTED)]
            places = [*(shared if "shared" in asked.placement else ()), *(places if "own" in asked.placement else ())]
        yield from (replace(self, reward_place=place) for place in places)

    @property
    def reward_passes(self) -> float:
        """Passes of a reward model in those of the policy; 0 without one."""
        if self.reward is None:
            return 0.0
        return reward_passes(self.reward, self.architecture, self.sampled, self.sequences)

    def own_reward_fits(self, card: GpuSpec, gpus: int) -> bool:
        """Return whether GPUs of its own hold a reward model and a pass over the longest answer."""
        if self.reward is None:
            return False
        active = reward_activations_gib(self.reward, generation.widest_values(self.reward), self.prompt + self.longest)
        return bool(reward_gib(self.reward, gpus) + active <= card.usable_gib)

    @property
    def fixed_seconds(self) -> float:
        """Seconds of a step that are in no other phase."""
        return fixed_seconds(self.architecture.parameters) * self.factors.fixed

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights in 16 bits."""
        return 2.0 * self.architecture.parameters


# Trainers: recipes (R, 1) on machines (H,), with the micro-batch of least seconds.


@dataclass(frozen=True)
class Trainers:
    """Trainers that fit, columns (n,)."""

    machines: tuple[Machine, ...]
    machine: Integers  # place in `machines`
    recipes: tuple[Recipe, ...]  # of each row
    rank: Integers  # of adapters
    micro_batch: Integers
    training: Floats  # seconds of a step
    scoring: Floats
    reward: Floats  # of a reward model on these GPUs, also where it has others
    reward_place: Integers  # on the GPUs that train
    hosted_gib: Floats  # of a GPU's reward model in host memory
    trainable: Floats  # weights
    copy_machines: Floats  # over which one copy of the weights is spread
    states_gib: Floats  # of one GPU, that stay from step to step
    sigma: Floats  # of ln(seconds) of the trainer
    rejected: Counter[str]

    @property
    def seconds(self) -> Floats:
        """Seconds that the trainer works on one step."""
        return self.training + self.scoring + np.where(self.reward_place == NO_REWARD, 0.0, self.reward)


def _questions(job: RlJob) -> Iterator[dict[str, Any]]:
    """Yield the techniques of a trainer that a job allows, in the terms of the estimate, without its layout."""
    asked = job.techniques
    for framework, method in itertools.product(job.framework, asked.method):
        options = itertools.product(
            (asked.weight_bits or (16,)) if method != "full" else (16,),
            asked.activation_checkpointing or (USUAL_CHECKPOINTING,),
            asked.optimizer or (USUAL_OPTIMIZER,),
            job.lora.rank if method != "full" else job.lora.rank[:1],
        )
        for bits, checkpointing, optimizer, rank in options:
            own = trainer_settings(job, framework, method, bits, checkpointing)
            yield own | {"optimizer": optimizer, "lora_rank": rank}


def divided_recipes(
    job: RlJob, recipes: Sequence[Recipe], card: GpuSpec, architecture: Architecture, library: Library
) -> list[Recipe]:
    """Return recipes of several GPUs at every degree that the job allows, or that is tried where it says nothing.

    Sequences are divided only where a job says so.
    """
    asked, possible, kind = job.techniques, list[Recipe](), GpuClass.of(card)
    experts = [1, *(degree for degree in SPREAD_DEGREES if architecture.experts and architecture.experts % degree == 0)]
    for recipe in recipes:
        if not framework_of(library, recipe.framework).parallel:
            possible.append(recipe)
            continue
        degrees = itertools.product(
            asked.tensor_parallel or TENSOR_DEGREES, asked.pipeline_parallel or PIPELINE_DEGREES,
            asked.context_parallel or (1,), asked.expert_parallel or experts,
        )  # fmt: skip
        several = (
            replace(
                recipe, tensor_parallel=tensor, pipeline_parallel=pipeline, context_parallel=context,
                expert_parallel=expert,
            )
            for tensor, pipeline, context, expert in degrees
            if pipeline <= architecture.layers
        )  # fmt: skip
        possible += [
            divided for divided in several if find_incompatibility(divided, kind, library, architecture) is None
        ]
    return possible


def find_trainers(
    quantities: RlQuantities,
    machines: Sequence[Machine],
    library: Library,
    headroom: float | None,
    known: dict[Any, Any],
) -> Trainers:
    """Return the fastest micro-batch of every recipe on every machine that holds it.

    `known` has what earlier searches with the same library found on the same machines, and gets what is found here.
    """
    rejected, pieces = Counter[str](), list[dict[str, Any]]()
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, machine in enumerate(machines):
        groups.setdefault((machine.gpu, machine.gpus > 1), []).append(index)
    inputs: dict[Any, Any] = {}
    for question in _questions(quantities.job):
        for (gpu, _), members in groups.items():
            own = tuple(machines[index] for index in members)
            for placed in quantities.by_reward_place():
                key = (placed.of_trainers, str(question), gpu, own, headroom)
                if key not in known:
                    known[key] = _trainers_of(placed, question, gpu, own, library, headroom, inputs)
                trained = known[key]
                if isinstance(trained, str):
                    rejected[trained] += len(members)
                    continue
                rejected[TRAINER_TOO_LARGE] += len(members) - len(set(trained["machine"]))
                pieces.append({**trained, "machine": np.asarray(members, dtype=np.int64)[trained["machine"]]})
    return _joined(quantities, pieces, machines, library, rejected)


def _joined(
    quantities: RlQuantities, pieces: Sequence[dict[str, Any]], machines: Sequence[Machine], library: Library,
    rejected: Counter[str],
) -> Trainers:  # fmt: skip
    """Return the rows of all questions, with their uncertainty."""
    recipes = tuple(recipe for piece in pieces for recipe in piece["recipes"])

    def column(name: str, kind: type) -> Any:
        return np.concatenate([piece[name] for piece in pieces]).astype(kind) if pieces else np.zeros(0, kind)

    machine = column("machine", np.int64)
    kinds = [
        unmeasured_sigma(recipe, machines[at], quantities.architecture.experts, library)
        for recipe, at in zip(recipes, machine, strict=True)
    ]
    sigma = np.zeros(0)
    if recipes:
        spread = configuration_sigmas(
            recipes, quantities.architecture, machines, machine, column("tokens", float), library, np.asarray(kinds)
        )
        sigma = np.broadcast_to(np.asarray(spread.display, dtype=float), machine.shape)
    return Trainers(
        tuple(machines), machine, recipes, column("rank", np.int64), column("micro_batch", np.int64),
        column("training", float) * quantities.factors.training,
        column("scoring", float) * quantities.factors.log_probabilities,
        column("reward", float) * quantities.factors.factor("reward"), column("reward_place", np.int64),
        column("hosted_gib", float),
        column("trainable", float), column("copy_machines", float),
        column("states_gib", float), sigma, rejected,
    )  # fmt: skip


def _trainers_of(
    quantities: RlQuantities,
    question: dict[str, Any],
    gpu: str,
    machines: Sequence[Machine],
    library: Library,
    headroom: float | None,
    known: dict[Any, Any],
) -> dict[str, Any] | str:
    """Return columns of the trainers that fit, one row for each recipe and machine; a reason where none can run."""
    several, card = machines[0].gpus > 1, library.gpu(gpu)
    gpus, architecture = 2 if several else 1, quantities.architecture
    asked: dict[str, Any] = {"architecture": architecture.name, "gpu": gpu, "gpus": gpus, **question}
    longest, mean = int(quantities.prompt + quantities.longest), int(quantities.mean_tokens)
    try:
        runs = [
            possible_runs(
                Source(WHERE).validate(Configuration, {**asked, "sequence_length": tokens}),
                architecture, card, library, known.get("network"),
            )
            for tokens in (longest, mean)
        ]  # fmt: skip
    except ScenarioError as error:
        return error.faults[0].what
    known.setdefault("network", runs[0].shape.network)
    shardings = quantities.job.techniques.sharding if several else None
    recipes = [recipe for recipe in runs[0].recipes if shardings is None or recipe.sharding in shardings]
    if not recipes:
        return "the framework has no such sharding"
    if several:
        recipes = divided_recipes(quantities.job, recipes, card, architecture, library)
    wanted = {name: degrees for name in TRAINER_DEGREES if (degrees := getattr(quantities.job.techniques, name))}
    recipes = [recipe for recipe in recipes if all(getattr(recipe, name) in wanted[name] for name in wanted)]
    if not recipes:
        return "no layout divides the model so"
    inputs = [
        grid_inputs(run.job, run.shape, recipes, machines, library, known.setdefault((str(question), at), {}))
        for at, run in enumerate(runs)
    ]
    if headroom is not None:
        inputs = [replace(batches, stack=batches.stack.with_margin(headroom)) for batches in inputs]
    best = _best_batches(quantities, inputs, runs[1].shape.sequence, recipes, machines, library)
    r, h = np.nonzero(np.isfinite(best["training"]))
    share = [forward_share(recipe.method != "full", recipe.activation_checkpointing != "none") for recipe in recipes]
    chosen = {name: values[r, h] for name, values in best.items()}
    forward = chosen["training"] * np.asarray(share)[r] / (2.0 if quantities.criticises else 1.0)
    scoring = forward * (1 + quantities.compares + quantities.criticises)
    reward = forward * quantities.reward_passes + chosen["hosted_gib"] * GIB / host_copy_rate(card, library)
    rank = np.full(len(r), question["lora_rank"])
    trainable = np.broadcast_to(np.asarray(inputs[0].states.trainable, dtype=float), best["training"].shape)[r, h]
    spread = np.broadcast_to(copy_machines(inputs[0].layout), best["training"].shape)[r, h]
    figures = {**chosen, "scoring": scoring, "machine": h, "recipes": [recipes[index] for index in r]}
    return figures | {
        "rank": rank,
        "trainable": trainable,
        "copy_machines": spread,
        "reward": reward,
        "reward_place": np.full(len(r), quantities.reward_place),
    }


def _best_batches(
    quantities: RlQuantities,
    inputs: Sequence[Any],
    mean: int,
    recipes: Sequence[Recipe],
    machines: Sequence[Machine],
    library: Library,
) -> dict[str, Floats]:
    """Return columns (R, H) at the micro-batch of least seconds; seconds of training are infinite where none fits.

    `inputs` are those of the longest answers, which decide the memory, and of `mean` tokens, which decide the time.
    """
    memory = MemoryCoefficients.of(library.calibrations["memory"].values)
    time = TimeCoefficients.of(library.calibrations["time"].values)
    shape, layout = (len(recipes), len(machines)), inputs[0].layout
    ranks = np.maximum(np.floor(np.broadcast_to(np.asarray(layout.data_parallel, dtype=float), shape)), 1.0)
    possible = _possible(layout, shape)
    best = {name: np.full(shape, np.nan) for name in ("micro_batch", "states_gib", "tokens", "hosted_gib")}
    best["training"] = np.full(shape, np.inf)
    usable, updates = np.asarray(inputs[0].hardware.usable_bytes, dtype=float) / GIB, quantities.job.work.updates
    for micro in MICRO_BATCHES:
        own = np.ceil(quantities.sequences / (updates * ranks))
        shorter = np.maximum(
            1.0, np.minimum(np.floor(micro * (quantities.prompt + quantities.longest) / quantities.mean_tokens), own)
        )
        steps = np.maximum(1.0, np.round(quantities.sequences / (updates * ranks * shorter)))
        need, states, hosted = _memory_of(quantities, inputs[0], recipes, machines, (micro, steps), memory)
        shaped = replace(inputs[1].layout, micro_batch=shorter, accumulation=steps, sequence=float(mean))
        seconds = step_seconds(with_paging(replace(inputs[1], layout=shaped), memory), time)
        rate = shorter * steps * ranks * PACKED_FILL * mean / seconds
        training = np.maximum(quantities.sequences * quantities.mean_tokens / rate, updates * seconds)
        training = np.broadcast_to(training * (2.0 if quantities.criticises else 1.0), shape)
        better = possible & (need <= usable) & (training < best["training"])
        here: dict[str, Any] = {
            "training": training,
            "micro_batch": float(micro),
            "states_gib": states,
            "tokens": shorter * mean,
            "hosted_gib": hosted,
        }
        best = {name: np.where(better, here[name], best[name]) for name in best}
    return best


def _possible(layout: Layout, shape: tuple[int, int]) -> Flags:
    """Return whether the GPUs of machines are a multiple of the degrees, and layers are shared within a machine."""
    ranks = np.broadcast_to(np.asarray(layout.data_parallel, dtype=float), shape)
    within = np.broadcast_to(np.less_equal(layout.tensor, layout.gpus_per_node), shape)
    return np.asarray((ranks >= 1.0) & (ranks == np.floor(ranks)) & within & layout.divides_experts)


def _memory_of(
    quantities: RlQuantities,
    inputs: Any,
    recipes: Sequence[Recipe],
    machines: Sequence[Machine],
    batch: tuple[int, Floats],
    memory: MemoryCoefficients,
) -> tuple[Floats, Floats, Floats]:
    """Return GiB (R, H) of one GPU with the longest answers, reference and critic included, and of what stays.

    Then those of a reward model that lies in host memory between its passes. The worst phase decides: training, or
    those passes.
    """
    shape = (len(recipes), len(machines))
    layout = replace(inputs.layout, micro_batch=float(batch[0]), accumulation=batch[1])
    usable = np.asarray(inputs.hardware.usable_bytes, dtype=float)
    estimate = estimate_memory(replace(inputs, layout=layout), memory, usable)
    part = {name: np.broadcast_to(np.asarray(size), shape) / GIB for name, size in estimate.breakdown.items()}
    lasting = part["weights"] + part["adapters"] + part["optimizer"]
    full = np.asarray([recipe.method == "full" for recipe in recipes])[:, None]
    whole = BYTES_16 * np.broadcast_to(np.asarray(held_parameters(inputs.network, layout)), shape) / GIB
    reference = np.where(full, whole, 0.0) if quantities.compares else np.zeros(shape)
    gradients = np.where(part["gradients"] > 0, part["gradients"], np.where(full, part["weights"], 0.0))
    critic = lasting + gradients if quantities.criticises else np.zeros(shape)
    alone = np.broadcast_to(np.asarray(estimate.need), shape) / GIB
    need, states = alone + reference + critic, lasting * (2.0 if quantities.criticises else 1.0) + reference
    if quantities.reward is None or quantities.reward_place == NO_REWARD:
        return need, states, np.zeros(shape)
    shard = BYTES_16 * np.broadcast_to(np.asarray(held_parameters(network_of(quantities.reward), layout)), shape) / GIB
    tokens = batch[0] * (quantities.prompt + quantities.longest)
    active = reward_activations_gib(quantities.reward, generation.widest_values(quantities.reward), tokens)
    scoring = states + shard + active + alone - sum(part.values())
    held, hosted = (shard, np.zeros(shape)) if quantities.reward_place == HELD else (np.zeros(shape), shard)
    return np.maximum(need + held, scoring), states + held, hosted


# Engines: replicas on GPUs, and rollouts of so many of them.


class EngineKey(NamedTuple):
    """What the speed and the memory of an engine follow from."""

    gpu: str
    link: str
    gpus: int
    kept_gib: float  # of the trainer
    weight_bits: int
    engine: str = "vllm"


@dataclass(frozen=True)
class Engines:
    """Engines that hold the model and its longest answer, columns (n,)."""

    keys: tuple[EngineKey, ...]
    seats: Floats
    inputs: tuple[ServedModel, ServingHardware, ServingStack]

    @property
    def place(self) -> dict[EngineKey, int]:
        """Row of each engine."""
        return {key: index for index, key in enumerate(self.keys)}


def find_engines(
    quantities: RlQuantities, wanted: Iterable[EngineKey], library: Library
) -> tuple[Engines, Counter[str]]:
    """Return the engines among those wanted that hold the model and its longest answer."""
    keys, seats, servings, rejected = [], [], [], Counter[str]()
    for key in dict.fromkeys(wanted):
        gpu, link, count, kept, bits, engine = key
        card = library.gpu(gpu)
        share = engine_share(kept, card)
        if count * card.usable_gib * share * GIB < quantities.weight_bytes * bits / 16.0:
            rejected[ENGINE_TOO_LARGE] += 1
            continue
        try:
            setup, _ = generation.resolve_replica(
                quantities.architecture, gpu, library, gpus=count, interconnect=link or None,
                input=max(round(quantities.prompt), 1), output=max(round(quantities.job.work.mean_output), 1),
                engine=engine, use=ROLLOUT_ENGINES[engine], memory_share=share, weight_format=ROLLOUT_FORMATS[bits],
            )  # fmt: skip
            if setup.memory.kv_tokens < quantities.prompt + quantities.longest:
                rejected[ENGINE_TOO_LARGE] += 1
                continue
        except ScenarioError as error:
            rejected[error.faults[0].what] += 1
            continue
        keys.append(key)
        seats.append(float(setup.seats))
        servings.append(setup.serving)
    calibration = library.calibrations["inference"].values
    inputs = generation.ServingColumns(servings).inputs(generation.coefficient_factors(servings, calibration))
    return Engines(tuple(keys), np.asarray(seats), inputs), rejected


def rollout_columns(quantities: RlQuantities, engines: Engines, which: Integers, replicas: Floats) -> Floats:
    """Return the seconds (n,) of the rollout of a step on `replicas` (n,) engines of a kind `which` (n,)."""
    seconds = np.full(len(which), np.inf)
    count = np.minimum(replicas, max(int(quantities.sampled), 1))
    seated = np.minimum(quantities.sampled / count, engines.seats[which])
    waits = quantities.sampled / count > seated * (1.0 + 1e-12)
    for several, fluid in ((np.flatnonzero(~waits), _at_once), (np.flatnonzero(waits), _in_turn)):
        for start in range(0, len(several), 512):
            part = several[start : start + 512]
            if len(part):
                seconds[part] = _seconds(quantities, engines, which[part], count[part], seated[part], fluid)
    return seconds * quantities.factors.rollout


def stale_columns(
    quantities: RlQuantities, engines: Engines, which: Integers, replicas: Floats, plain: Floats
) -> Floats:
    """Return the seconds (n,) of a step's rollout where answers may be several steps behind; `plain` if they are not.

    `plain` are the seconds of rollouts that end before the next begins.
    """
    if quantities.job.staleness < 2 or not len(which):
        return plain
    stale = StaleRollout(quantities.prompt, quantities.job.work.answers, quantities.sampled, quantities.job.staleness)
    (model, hardware, stack), picked = engines.inputs, which.tolist()
    inputs = rows(model, picked), rows(hardware, picked), rows(stack, picked)
    seconds = stale.seconds(inputs, quantities.lengths, engines.seats[which], replicas) * quantities.factors.rollout
    return np.asarray(np.minimum(plain, seconds), dtype=float)


def _at_once(quantities: RlQuantities, longer: Floats, count: Floats, seated: Floats) -> tuple[Floats, Floats, Floats]:
    """Return answers alive (n, T), their mean age (n, T) and answers taken in (n, T), where each has a seat."""
    alive = seated[:, None] * longer[None, :-1]
    alive = np.where(alive * count[:, None] > LEFT, alive, 0.0)
    alive[:, 0] = seated
    width = quantities.lengths.longest / POINTS
    ages = np.broadcast_to(quantities.prompt + (np.arange(POINTS) + 0.5) * width, alive.shape)
    started = np.zeros_like(alive)
    started[:, 0] = seated
    return alive, ages, started


def _in_turn(quantities: RlQuantities, longer: Floats, count: Floats, seated: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the same where answers wait for a seat: those of each age end by their hazard, others take the seats."""
    waiting = quantities.sampled / count - seated
    waiting -= np.maximum(waiting / seated - LIKE_FROM_ROUND, 0.0) * seated
    hazard = 1.0 - longer[1:] / np.maximum(longer[:-1], 1e-300)
    ages = quantities.prompt + (np.arange(POINTS) + 0.5) * quantities.lengths.longest / POINTS
    alive = np.zeros((len(seated), POINTS))
    alive[:, 0] = seated
    counts, means, started = list[Floats](), list[Floats](), [seated]
    while True:
        there = alive.sum(axis=1)
        going = (waiting > 0.0) | (there * count > LEFT)
        if not going.any():
            break
        counts.append(np.where(going, there, 0.0))
        means.append(alive @ ages / np.maximum(there, 1e-300))
        left = alive * (1.0 - hazard)
        alive[:, 1:], alive[:, 0] = left[:, :-1], 0.0
        fresh = np.where(going, np.minimum(waiting, seated - alive.sum(axis=1)), 0.0)
        alive[:, 0] = fresh
        waiting = waiting - fresh
        started.append(fresh)
    return np.stack(counts, 1), np.stack(means, 1), np.stack(started[:-1], 1)


def _seconds(
    quantities: RlQuantities, engines: Engines, which: Integers, count: Floats, seated: Floats, fluid: Any
) -> Floats:
    """Return the seconds of rollouts (n,), given how their answers come and go."""
    (model, hardware, stack), picked = engines.inputs, which.tolist()
    model, hardware = columns(rows(model, picked)), columns(rows(hardware, picked))
    stack = columns(rows(stack, picked))
    width = quantities.lengths.longest / POINTS
    longer = quantities.lengths.longer_than(np.arange(POINTS + 1, dtype=np.float64) * width)
    alive, ages, started = fluid(quantities, longer, count, seated)
    of_engine, column = quantities.sampled / count, seated[:, None]
    taken_in = prompt_seconds(model, hardware, quantities.prompt) / quantities.job.work.answers + stack.request_seconds
    context = mean_seen_tokens(model, quantities.prompt, quantities.lengths.mean)
    step = decode_step_seconds(model, hardware, stack, column, context)
    rounds = np.maximum((of_engine - seated) / seated - LIKE_FROM_ROUND, 0.0)[:, None]
    full = (rounds * (quantities.lengths.mean * step + column * taken_in))[:, 0]
    steps = decode_step_seconds(model, hardware, stack, np.maximum(alive, 1.0), seen_tokens(model, ages))
    ended = np.log1p(-np.minimum(alive / column, 1.0 - 1e-12))
    running = -np.expm1(column * count[:, None] * ended)
    return np.asarray(full + (steps * width * running + started * taken_in).sum(axis=1), dtype=float)


def engine_counts(job: RlJob, gpus: int) -> list[int]:
    """Return the numbers of GPUs of one engine that a machine with so many of them allows."""
    return [count for count in job.rollout.tensor_parallel or ENGINE_GPUS if gpus % count == 0]


def machine_of(card: GpuSpec, offer: Any, instances: int, gpus: int) -> Machine:
    """Return machines of an offer with so many GPUs each, as the estimate sees them."""
    link = (offer.interconnect or "pcie") if gpus > 1 else "pcie"
    ram, network = offer.ram_gb, offer.network_gbps if instances > 1 else None
    return Machine(
        card.name, gpus, instances, link, network, ram or typical_ram_gb(gpus * card.vram_gib, is_private=False),
        ram is None,
    )  # fmt: skip


def step_sigmas(
    quantities: RlQuantities, trainers: Trainers, rows: Integers, rollout: Floats, rest: Floats, overlapped: bool
) -> Floats:
    """Return the standard deviation (n,) of ln(seconds of a step): a prior, of the trainer's share its own.

    `rest`: seconds of new weights and what is in no phase, of which the latter are less sure than the step.
    """
    seconds = trainers.seconds[rows]
    training = seconds / (rollout + seconds + rest)
    sigma = np.maximum(STEP_SIGMA, training * trainers.sigma[rows] + (1.0 - training) * STEP_SIGMA)
    step = (np.maximum(rollout, seconds) if overlapped else rollout + seconds) + rest
    return np.asarray(with_fixed_sigma(sigma, quantities.architecture.parameters, quantities.fixed_seconds / step))


def undominated(*columns: Floats) -> Integers:
    """Return the rows (k,) of columns (n,) that no other row beats or equals in all of them, less being better."""
    values = np.stack(columns)
    order = np.lexsort(columns[::-1])
    return order[undominated_columns(values[:, order])]


def undominated_rows(rows: Sequence[int], columns: Iterable[Floats]) -> list[int]:
    """Return those of some rows that no other of them is as good as in all columns; of equal ones the first."""
    if len(rows) < 2:
        return list(rows)
    return [rows[place] for place in undominated(*(np.asarray(column)[rows] for column in columns)).tolist()]
