"""Estimate of reinforcement learning: one step by phase, on GPUs that do both in turn or on two pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from planner import generation
from planner.analysis.estimate_question import estimate as estimate_training
from planner.configurations.coefficients import DEFAULT_NETWORK_BYTES_PER_SECOND, PCIE_BYTES_PER_SECOND
from planner.configurations.grid import network_of
from planner.documents.quantities import NotNegative, SequenceLength, Text, TokenMean, read_amount
from planner.documents.validation import Source, find_name, name_fix
from planner.errors import Fault, ScenarioError, raise_faults
from planner.estimates.device import TimeCoefficients, forward_share
from planner.estimates.inputs import Layout, Numbers
from planner.estimates.memory_terms import held_parameters
from planner.estimates.uncertainty import time_factors_of_68_percent
from planner.library.names import split_count
from planner.library.reading import CardNames, is_config_path, teacher_card
from planner.library.schema import Architecture, GpuSpec, Library
from planner.loading.question import resolve_cards
from planner.reinforcement.rl_step import (
    AS_ESTIMATED,
    AnswerLengths,
    RlPhases,
    Rollout,
    fixed_seconds,
    reward_activations_gib,
    reward_gib,
    reward_passes,
    rollout_seconds,
    transfer_seconds,
    with_fixed_sigma,
)
from planner.results.plan_parts import Spread
from planner.results.run_results import Estimate
from planner.results.subject_runs import PhaseMemory, RlEstimate, RlWay, layout_words
from planner.scenario.job import RolloutBits
from planner.scenario.rl_job import (
    ALGORITHMS,
    CRITIC,
    DIVIDING,
    GROUPED,
    LENGTH_CV,
    REFERENCE,
    RL_FRAMEWORK,
    ROLLOUT_ENGINES,
    TRAINER_DEGREES,
)
from planner.scenario.techniques import WHERE, Configuration
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What is known of the algorithms, and the priors of a step.


SAMPLED_PER_KEPT = {"dapo": 3.0}
"""Answers sampled for each that is trained on: DAPO drops prompts whose answers are all right or all wrong, and verl's
recipe draws three times the prompts (verl-project/verl, recipe/dapo: gen_prompt_bsz = 3 * train_prompt_bsz)."""
STEP_SIGMA = 0.3
"""Standard deviation of ln(seconds of a step). Prior: published steps lie about 0.24 around the formulas
(`python -m benchmarks.rl_steps`), 0.12 of one repository and 0.26 of the other, and those of others may lie farther."""
LONGER = 4.0
"""The longest answer that is assumed, as a multiple of the mean."""
REWARD_CAUTION = (
    "seconds of the reward model are a prior: its passes take those of the policy by their active weights, and no "
    "published step has one"
)
"""Note of an estimate and of a plan with a reward model."""
SGLANG_CAUTION = (
    "memory and answers at a time of SGLang are those of its server; its speed is fitted to other figures than that of "
    "vLLM, so that a small difference between them says nothing"
)
"""Note of an estimate and of a plan whose engines are SGLang's."""
FP8_CAUTION = (
    "engines with fp8 weights sample a slightly other policy (off-policy): correct it by importance sampling; what "
    "training loses is not modelled"
)
"""Note of an estimate and of a plan: without the correction verl's accuracy drops (docs/advance/fp8.md)."""
KEPT_SHARE = 0.9
"""Of a GPU's memory that the engine may have while it samples: vLLM's default."""
ENGINE_GPUS = (1, 2, 4, 8)
"""GPUs of one engine that are tried; of those that hold the model and its longest answer the fastest is taken."""
ROLLOUT_FORMATS = {16: None, 8: "fp8"}
"""Format of the engines' weights by their bits; 16: that of the release. verl (docs/advance/fp8.md) and NeMo-RL
(docs/fp8.md) send new weights in 16 bits, and vLLM casts them to fp8 while it loads them."""
MICRO_BATCHES = (1, 2, 4, 8)
"""Longest answers on one GPU at a time that are tried; of those that fit the fastest is taken."""
BYTES_16 = 2.0
"""Bytes of a weight in 16 bits."""
WHOLE_SHARDS = 3
"""The stage of ZeRO that shards the weights, too (arXiv:1910.02054, section 5)."""
FOLLOWING = {
    "sequence_length": "the lengths of prompts and answers",
    "tokens_per_sample": "the lengths of prompts and answers",
    "length_cv": "output_cv",
    "packing": "the answers, which are packed",
    "global_batch": "prompts, answers and updates",
    "accumulation_steps": "prompts, answers and updates",
}
"""Settings of training that a step decides itself, and what they follow from."""
_Whole = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(read_amount)]


class RlSettings(BaseModel):
    """The sampling side of a step, as a user asks for it; None is chosen, and said."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    algorithm: Annotated[Text, BeforeValidator(lambda word: find_name(word, ALGORITHMS) or word)] = "grpo"
    """grpo, dapo, rloo, ppo or reinforce++."""
    prompts: _Whole = 128
    """Prompts of a step."""
    answers: _Whole = 8
    """Answers to each prompt."""
    input: TokenMean = 512.0
    """Mean tokens of a prompt."""
    output: Annotated[TokenMean, Field(ge=1)] = 1024.0
    """Mean tokens of an answer."""
    longest_output: SequenceLength | None = None
    """Tokens at which an answer is cut; None: four times the mean."""
    output_cv: Annotated[float, Field(gt=0.0, le=5.0)] = LENGTH_CV
    """Spread of the lengths of answers, as a share of their mean."""
    updates: _Whole = 1
    """Optimizer steps for the answers of one step."""
    sampled_per_kept: Annotated[float, Field(ge=1.0, le=100.0)] | None = None
    """Answers sampled for each that is trained on; None: that of the algorithm."""
    reference: bool | None = None
    """Whether a reference policy is compared with; None: as the algorithm does."""
    rollout_gpus: Annotated[int, Field(ge=1, le=4096)] | None = None
    """GPUs that only sample; None: the training GPUs do both in turn."""
    rollout_gpu: Text | None = None
    """GPU of the engines, where it is another."""
    rollout_parallel: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs that share each layer of an engine; None: the number whose rollout is the fastest."""
    rollout_weight_bits: RolloutBits = 16
    """Bits of the engines' weights: 16, or 8 (fp8)."""
    rollout_engine: Annotated[
        Literal["vllm", "sglang"], BeforeValidator(lambda word: find_name(word, tuple(ROLLOUT_ENGINES)) or word)
    ] = "vllm"
    """What samples: vllm or sglang."""
    reward_model: Text | None = None
    """Model that scores each answer in one pass; None: rewards are by rule."""
    reward_gpus: Annotated[int, Field(ge=1, le=4096)] | None = None
    """GPUs of the trainer's kind that only score; None: the training GPUs do."""
    reward_offload: bool = False
    """Whether the reward model lies in host memory between its passes."""
    overlap: bool = False
    """Whether answers of the next step are sampled while the trainer works."""
    steps: _Whole = 100
    """Steps in all."""
    usd_per_gpu_hour: NotNegative | None = None
    """Price of a training GPU; None: the least of the shipped market."""
    rollout_usd_per_gpu_hour: NotNegative | None = None
    """Price of a GPU that only samples; None: of the same kind as `usd_per_gpu_hour`, else the least of the market."""


RL_FIELDS = frozenset(RlSettings.model_fields)


def estimate_rl(
    architecture: str | Architecture, gpu: str, library: Library | None = None, **settings: Any
) -> RlEstimate:
    """Return seconds, memory and dollars of one step of reinforcement learning, by phase.

    `settings` are the fields of `RlSettings` (prompts, answers, lengths, how GPUs are divided) and those of
    `planner.scenario.techniques.Configuration` for the trainer (`gpus`, `method`, `framework` and so on).

    Raises `ScenarioError` for what cannot run, `LibraryError` for unknown names.

    >>> estimate_rl("qwen2.5-7b", "8xH100", output=1500, longest_output=8192).step_seconds.expected > 60
    True
    """
    return _build(resolve_step(architecture, gpu, library, **settings))


def resolve_step(architecture: str | Architecture, gpu: str, library: Library | None = None, **settings: Any) -> RlStep:
    """Return the step that `estimate_rl` estimates, with its names resolved; settings and errors are its own."""
    count, gpu = split_count(gpu)
    if count is not None and settings.setdefault("gpus", count) != count:
        problem = f"{count} by the name of the GPU, {settings['gpus']} here"
        raise ScenarioError([Fault(WHERE, 0, "gpus", problem, "give one of the two")])
    asked = Source(WHERE).validate(RlSettings, {key: value for key, value in settings.items() if key in RL_FIELDS})
    of_trainer = {key: value for key, value in settings.items() if key not in RL_FIELDS}
    refuse_following(of_trainer, FOLLOWING)
    name = architecture if isinstance(architecture, str) else architecture.name
    trainer = Source(WHERE).validate(
        Configuration, {"architecture": name, "gpu": gpu, "method": "full", "framework": RL_FRAMEWORK, **of_trainer}
    )
    network, card, library = resolve_cards(architecture, gpu, library)
    engines_card = resolve_cards(network, asked.rollout_gpu, library)[1] if asked.rollout_gpu else card
    _check(asked, trainer, network)
    return RlStep(asked, trainer, of_trainer, network, card, engines_card, library)


def refuse_following(given: Mapping[str, Any], following: Mapping[str, str]) -> None:
    """Raise a fault for each setting that follows from others."""
    faults = [
        Fault(WHERE, 0, name, f"follows from {source}", "leave it out")
        for name, source in following.items()
        if name in given
    ]
    raise_faults(faults, ScenarioError)


def _check(asked: RlSettings, trainer: Configuration, network: Architecture) -> None:
    """Raise every fault of a question."""
    faults = [Fault(WHERE, 0, *fault) for fault in (*_length_faults(asked, network), *_division_faults(asked, trainer))]
    longest = asked.longest_output or min(LONGER * asked.output, network.max_sequence - asked.input)
    faults += [Fault(WHERE, 0, *fault) for fault in reward_model_faults(asked.reward_model, asked.input + longest)]
    if asked.algorithm not in REFERENCE:
        problem, fix = f"unknown algorithm {asked.algorithm!r}", name_fix(asked.algorithm, ALGORITHMS)
        faults.append(Fault(WHERE, 0, "algorithm", problem, fix))
    if asked.algorithm in GROUPED and asked.answers < 2:
        problem = f"{asked.algorithm} compares the answers to a prompt: 1 has none to compare with"
        faults.append(Fault(WHERE, 0, "answers", problem, "give 2 or more"))
    if network.image is not None:
        faults.append(Fault(WHERE, 0, "", f"{network.name} makes images", "choose a language model"))
    raise_faults(faults, ScenarioError)


def _length_faults(asked: RlSettings, network: Architecture) -> Iterator[tuple[str, str, str]]:
    """Yield place, fault and mend of lengths that do not fit each other or the model."""
    longest = asked.longest_output or asked.output
    if longest < asked.output:
        problem = f"{longest:,} tokens are fewer than the mean of {asked.output:,.0f}"
        yield "longest_output", problem, "give at least the mean"
    if asked.input + longest > network.max_sequence:
        where = "longest_output" if asked.longest_output else "output"
        problem = f"{asked.input:,.0f} + {longest:,.0f} tokens exceed the context of {network.name}"
        yield where, problem, f"at most {network.max_sequence:,} together"


def reward_model_faults(name: str | None, tokens: float) -> Iterator[tuple[str, str, str]]:
    """Yield place, fault and mend of a reward model that is unknown, or cannot read the longest answer."""
    if name is None:
        return
    if not is_config_path(name) and (names := CardNames("architectures")).canonical(name) is None:
        yield "reward_model", f"unknown architecture {name!r}", names.suggestion(name)
        return
    card = teacher_card(name)
    if card.image is not None:
        yield "reward_model", f"{card.name} makes images", "choose a language model"
    elif tokens > card.max_sequence:
        problem = (
            f"prompts and answers of up to {tokens:,.0f} tokens exceed the context of {card.name}, which scores them"
        )
        yield "reward_model", problem, f"give longest_output: at most {card.max_sequence:,} tokens together"


def _division_faults(asked: RlSettings, trainer: Configuration) -> Iterator[tuple[str, str, str]]:
    """Yield place, fault and mend of GPUs and answers that cannot be divided so."""
    if asked.overlap and asked.rollout_gpus is None:
        yield "overlap", "the same GPUs cannot sample and train at one time", "give --rollout-gpus"
    if asked.rollout_gpu is not None and asked.rollout_gpus is None:
        yield "rollout_gpu", "engines on another GPU need GPUs of their own", "give --rollout-gpus"
    if asked.reward_model is None and (asked.reward_gpus is not None or asked.reward_offload):
        yield "reward_gpus" if asked.reward_gpus else "reward_offload", "no model scores answers", "give --reward-model"
    elif asked.reward_gpus is not None and asked.reward_offload:
        problem = "a reward model on GPUs of its own stays there"
        yield "reward_offload", problem, "leave out --reward-gpus or --reward-offload"
    if asked.rollout_usd_per_gpu_hour is not None and asked.rollout_gpus is None:
        yield "rollout_usd_per_gpu_hour", "no GPUs only sample", "give --rollout-gpus, or leave it out"
    divided = [name for name in TRAINER_DEGREES if (getattr(trainer, name) or 1) > 1]
    if divided and trainer.framework not in DIVIDING:
        problem = f"framework {trainer.framework} shards, and divides no layers"
        yield divided[0], problem, f"give --framework {' or '.join(DIVIDING)}, or leave it out"
    most = asked.rollout_gpus or trainer.gpus
    if asked.rollout_parallel and most % asked.rollout_parallel:
        yield "rollout_parallel", f"{asked.rollout_parallel} does not divide {most} GPUs", "give a divisor"
    if asked.prompts * asked.answers < asked.updates:
        problem = f"{asked.prompts * asked.answers:,} answers cannot be divided among {asked.updates:,} updates"
        yield "updates", problem, "give fewer"


class EngineChoice(NamedTuple):
    """An engine on some GPUs, how many there are, and their rollout."""

    setup: generation.ReplicaSetup
    engines: int
    rollout: Rollout


def lasting_gib(run: Estimate) -> float:
    """Return GiB of one training GPU that last from step to step: weights and the optimizer's states."""
    return sum(run.vram_gib.parts.get(name, 0.0) for name in ("weights", "adapters", "optimizer"))


def layout_of(run: Estimate, library: Library) -> Layout:
    """Return how a run divides the model and the batch among its GPUs."""
    used = run.techniques
    sharding = library.techniques.values.sharding.values[used.sharding]
    degrees = {name.removesuffix("_parallel"): getattr(used, name) for name in TRAINER_DEGREES}
    return Layout(
        used.micro_batch, used.accumulation_steps, 1, 1, run.gpus, run.gpus_per_instance, **degrees,
        zero_stage=sharding.zero_stage, hybrid=float(sharding.hybrid),
    )  # fmt: skip


def copy_machines(layout: Layout) -> Numbers:
    """Return over how many machines one copy of the trainer's weights is spread: those of its shards or its stages.

    32 GPUs in machines of 8: at stage 3 over 4; tensor parallel 8 and pipeline parallel 2 at stage 1 over 2.
    """
    machines = np.divide(layout.gpus, layout.gpus_per_node)
    whole = np.greater_equal(layout.zero_stage, WHOLE_SHARDS) & np.equal(layout.hybrid, 0)
    group = np.divide(np.multiply(layout.tensor, layout.pipeline), layout.gpus_per_node)
    return np.where(whole, machines, np.minimum(np.maximum(np.ceil(group), 1.0), machines))


def host_copy_rate(card: GpuSpec, library: Library) -> float:
    """Return the bytes per second from host memory to a GPU."""
    time = TimeCoefficients.of(library.calibrations["time"].values)
    return time.host_copy_utilisation * PCIE_BYTES_PER_SECOND[card.pcie_gen]


def more_sharded(library: Library) -> list[str]:
    """Return the shardings of gradients and weights over all GPUs, which leave more room, the least first."""
    values = library.techniques.values.sharding.values
    shardings = [name for name, value in values.items() if value.zero_stage >= WHOLE_SHARDS - 1 and not value.hybrid]
    return sorted(shardings, key=lambda name: values[name].zero_stage)


@dataclass(frozen=True)
class RlStep:
    """One step on stated GPUs: the question with its model, cards and library."""

    asked: RlSettings
    trainer: Configuration
    of_trainer: dict[str, Any]  # what was given of it
    network: Architecture
    card: GpuSpec
    engines_card: GpuSpec
    library: Library
    engines_link: str | None = None  # between the GPUs of an engine; None: that of the GPU
    engine_share: float = KEPT_SHARE  # of a GPU's memory for the engine
    between: float | None = None  # bytes per second from trainer to engines; None: that of the trainer, or no network
    shares_machine: bool = False  # engines have GPUs of their own in the trainer's machine
    factors: RlPhases = AS_ESTIMATED  # of observed runs
    tokens_at_once: float | None = None  # of a micro-batch; None: those of its longest answers

    @property
    def sequences(self) -> int:
        """Answers that a step trains on."""
        return self.asked.prompts * self.asked.answers

    @property
    def sampled(self) -> float:
        """Answers that a step samples."""
        per_kept = self.asked.sampled_per_kept or SAMPLED_PER_KEPT.get(self.asked.algorithm, 1.0)
        return self.sequences * per_kept

    @property
    def longest(self) -> int:
        """Tokens at which an answer is cut."""
        usual = min(int(LONGER * self.asked.output), int(self.network.max_sequence - self.asked.input))
        return self.asked.longest_output or usual

    @property
    def lengths(self) -> AnswerLengths:
        """Tokens of answers."""
        return AnswerLengths(self.asked.output, self.longest, self.asked.output_cv)

    @property
    def compares(self) -> bool:
        """Whether there is a reference policy."""
        return REFERENCE[self.asked.algorithm] if self.asked.reference is None else self.asked.reference

    @property
    def criticises(self) -> bool:
        """Whether a network of values is trained, too."""
        return self.asked.algorithm in CRITIC

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights in 16 bits, which engines load; of fp8 they cast them."""
        return BYTES_16 * self.network.parameters

    @cached_property
    def reward(self) -> Architecture | None:
        """The model that scores answers, if any does."""
        return None if self.asked.reward_model is None else teacher_card(self.asked.reward_model)

    @property
    def shares_reward(self) -> bool:
        """Whether a reward model is on the GPUs that train."""
        return self.reward is not None and not self.asked.reward_gpus

    @property
    def rollout_gpus(self) -> int:
        """GPUs with engines."""
        return self.asked.rollout_gpus or self.trainer.gpus

    @property
    def mean_tokens(self) -> float:
        """Tokens of a prompt with its answer."""
        return self.asked.input + self.asked.output

    @property
    def ranks(self) -> int:
        """Groups of training GPUs that work on sequences of their own."""
        return max(1, self.trainer.gpus // self.trainer.group)

    @property
    def micro_batch(self) -> int:
        """Answers of mean length on one rank at a time: as many tokens as `--micro-batch` of the longest, else one."""
        own = -(-self.sequences // (self.asked.updates * self.ranks))
        return max(1, min(int((self.tokens_at_once or self.longest_at_once) / self.mean_tokens), own))

    @property
    def longest_at_once(self) -> float:
        """Tokens of a micro-batch of the longest answers."""
        return (self.trainer.micro_batch or 1) * (self.asked.input + self.longest)

    @property
    def accumulation(self) -> int:
        """Micro-batches of one optimizer step."""
        return max(1, round(self.sequences / (self.asked.updates * self.ranks * self.micro_batch)))

    def _train(self, sequence: float, micro_batch: int, sharding: str | None) -> Estimate:
        given = {"method": "full", "framework": RL_FRAMEWORK, **self.of_trainer, "gpus": self.trainer.gpus}
        given |= {"micro_batch": micro_batch, "accumulation_steps": self.accumulation}
        given |= {} if sharding is None else {"sharding": sharding}
        card, length = self.card.name, int(sequence)
        try:
            return estimate_training(self.network, card, self.library, sequence_length=length, **given)
        except ScenarioError as error:
            (first, *_) = error.faults
            if given["framework"] == RL_FRAMEWORK or not first.fix.startswith("framework "):
                raise
            # Of the remedies of supervised training the trainers of policies alone are one here.
            given["framework"] = RL_FRAMEWORK
            estimate_training(self.network, card, self.library, sequence_length=length, **given)
            raise ScenarioError([first._replace(fix=f"framework {RL_FRAMEWORK} would work")]) from None

    @cached_property
    def largest(self) -> Estimate:
        """The trainer with the longest answers in a micro-batch, which decides the memory.

        Where a sharding is not asked for, the least that has room for reference and critic, too.
        """
        sequence, micro_batch = self.asked.input + self.longest, self.trainer.micro_batch or 1
        trained = self._train(sequence, micro_batch, None)
        if self.trainer.sharding is not None or self.trainer.gpus == 1:
            return trained
        for sharding in more_sharded(self.library):
            if self.training_memory(trained).fits:
                break
            try:
                trained = min(trained, self._train(sequence, micro_batch, sharding), key=lambda run: run.vram_gib.peak)
            except ScenarioError:  # the framework has no such sharding
                continue
        return trained

    @cached_property
    def speed(self) -> Estimate:
        """The trainer at the mean length, with the recipe and the tokens of a micro-batch whose memory is stated."""
        sharding = self.largest.techniques.sharding if self.trainer.gpus > 1 else None
        return self._train(self.mean_tokens, self.micro_batch, sharding)

    def training_memory(self, run: Estimate) -> PhaseMemory:
        """Return the memory of a training GPU: that of the run, of the reference and of the critic."""
        parts = {name: size for name, size in run.vram_gib.parts.items() if size > 0}
        parts["set aside"] = sum(run.vram_gib.set_aside.values())
        if self.compares and run.techniques.method == "full":
            parts["reference"] = BYTES_16 * self._held_parameters(run) / GIB
        if self.criticises:
            alike = parts.get("weights", 0.0) if run.techniques.method == "full" else 0.0
            parts["critic"] = lasting_gib(run) + (parts.get("gradients") or alike)
        if self.reward is not None and self.shares_reward and not self.asked.reward_offload:
            parts["reward model"] = self.reward_shard_gib(run)
        further = ("reference", "critic", "reward model")
        peak = run.vram_gib.peak + sum(parts.get(name, 0.0) for name in further)
        usable = run.vram_gib.usable
        return PhaseMemory(
            phase="training", gpu=self.card.name, peak=peak, usable=usable, parts=parts, fits=peak <= usable
        )

    def reward_shard_gib(self, run: Estimate) -> float:
        """Return GiB of a reward model on one GPU: divided as the trainer's weights are, or over GPUs of its own."""
        if self.reward is None:
            return 0.0
        if self.asked.reward_gpus:
            return float(reward_gib(self.reward, self.asked.reward_gpus))
        return BYTES_16 * float(held_parameters(network_of(self.reward), layout_of(run, self.library))) / GIB

    def scoring_memory(self, run: Estimate) -> PhaseMemory | None:
        """Return the memory of a GPU while a reward model scores the longest answers, next to states that stay."""
        if self.reward is None:
            return None
        widest, tokens = generation.widest_values(self.reward), self.asked.input + self.longest
        at_once = 1 if self.asked.reward_gpus else self.trainer.micro_batch or 1
        parts = {"reward model": self.reward_shard_gib(run)}
        parts["activations"] = float(reward_activations_gib(self.reward, widest, at_once * tokens))
        if self.shares_reward:
            parts["states of the trainer"] = lasting_gib(run) * (2.0 if self.criticises else 1.0)
            if self.compares and run.techniques.method == "full":
                parts["reference"] = BYTES_16 * self._held_parameters(run) / GIB
            parts["set aside"] = sum(run.vram_gib.set_aside.values())
        peak, usable = sum(parts.values()), run.vram_gib.usable
        return PhaseMemory(
            phase="rewards", gpu=self.card.name, peak=peak, usable=usable, parts=parts, fits=peak <= usable
        )

    def _held_parameters(self, run: Estimate) -> float:
        """Return the weights of a copy of the model that a GPU of the trainer holds."""
        return float(held_parameters(network_of(self.network), layout_of(run, self.library)))

    @cached_property
    def training_seconds(self) -> float:
        """Seconds of training on a step's answers, at least one optimizer step each; twice with a critic."""
        seconds = max(
            self.sequences * self.mean_tokens / self.speed.tokens_per_second,
            self.asked.updates * self.speed.step_seconds.total,
        )
        return seconds * (2.0 if self.criticises else 1.0)

    @cached_property
    def scoring_seconds(self) -> float:
        """Seconds of passes forward over a step's answers: policy, reference, values."""
        return self.pass_seconds * (1 + self.compares + self.criticises)

    @cached_property
    def pass_seconds(self) -> float:
        """Seconds of one pass forward of the policy over a step's answers."""
        told = self.speed.techniques
        share: float = forward_share(told.method != "full", told.activation_checkpointing != "none")
        return self.training_seconds / (2.0 if self.criticises else 1.0) * share

    @cached_property
    def reward_seconds(self) -> float:
        """Seconds of the passes of a reward model, and of its way from host memory where it lies there."""
        if self.reward is None:
            return 0.0
        seconds = self.pass_seconds * reward_passes(self.reward, self.network, self.sampled, self.sequences)
        if self.asked.reward_gpus:
            return seconds * self.trainer.gpus / self.asked.reward_gpus
        moved = self.reward_shard_gib(self.largest) * GIB if self.asked.reward_offload else 0.0
        return seconds + moved / host_copy_rate(self.card, self.library)

    @cached_property
    def engine(self) -> EngineChoice:
        """The engine whose rollout is the fastest among the numbers of GPUs that hold it; `ScenarioError` if none."""
        asked, choices, refused = self.asked, list[EngineChoice](), ""
        counts = [asked.rollout_parallel] if asked.rollout_parallel else ENGINE_GPUS
        for count in (count for count in counts if self.rollout_gpus % count == 0):
            link = self.engines_link if count > 1 else None
            try:
                setup, _ = generation.resolve_replica(
                    self.network, self.engines_card.name, self.library, gpus=count,
                    input=max(round(asked.input), 1), output=max(round(asked.output), 1),
                    engine=asked.rollout_engine, use=ROLLOUT_ENGINES[asked.rollout_engine],
                    memory_share=self.engine_share, interconnect=link,
                    weight_format=ROLLOUT_FORMATS[asked.rollout_weight_bits],
                )  # fmt: skip
                if setup.memory.kv_tokens >= asked.input + self.longest:
                    choices.append(self._with(setup, self.rollout_gpus // count))
            except ScenarioError as error:
                refused = refused or f": {error.faults[0].what}"
        if choices:
            return min(choices, key=lambda choice: choice.rollout.seconds)
        where = next((name for name in ("rollout_parallel", "rollout_gpus") if getattr(asked, name)), "gpus")
        tried = " or ".join(str(count) for count in counts if self.rollout_gpus % count == 0)
        problem = f"no engine on {tried} {self.engines_card.name} holds an answer of {self.longest:,} tokens{refused}"
        fix = "an engine has 1, 2, 4 or 8 GPUs of one machine: give a multiple of them, or a GPU with more memory"
        raise ScenarioError([Fault(WHERE, 0, where, problem, fix)])

    def _with(self, setup: generation.ReplicaSetup, engines: int) -> EngineChoice:
        """Return the rollout on so many replicas."""
        rollout = rollout_seconds(
            (setup.model, setup.hardware, setup.stack), self.lengths, self.asked.input, self.asked.answers,
            self.sampled, setup.seats, engines,
        )  # fmt: skip
        return EngineChoice(setup, engines, rollout)

    @cached_property
    def new_weights(self) -> float:
        """Seconds until the engines have the weights of this step."""
        gbps = self.trainer.network_gbps
        network = self.between or (gbps * GB / 8.0 if gbps else DEFAULT_NETWORK_BYTES_PER_SECOND)
        is_apart = bool(self.asked.rollout_gpus) and not self.shares_machine
        crossing = 1.0 if is_apart else 1.0 - 1.0 / copy_machines(layout_of(self.largest, self.library))
        return float(transfer_seconds(self.weight_bytes, network, crossing))

    @cached_property
    def phases(self) -> RlPhases:
        """Seconds of the phases of one step."""
        rollout, fixed = self.engine.rollout.seconds, fixed_seconds(self.network.parameters)
        phases_of_step = RlPhases(rollout, self.scoring_seconds, self.training_seconds, self.new_weights, fixed)
        scores = "own_reward" if self.asked.reward_gpus else "reward"
        phases_of_step = replace(phases_of_step, **{scores: self.reward_seconds})
        return phases_of_step.times(self.factors)


# Memory of each phase, other ways, dollars, and the answer.


def phase_memory(step: RlStep) -> tuple[PhaseMemory, ...]:
    """Return the memory of all phases; on the same GPUs each has them while the other's states are elsewhere."""
    sampling = {name: size for name, size in step.engine.setup.memory.parts.items() if size > 0}
    peak, usable = sum(sampling.values()), step.engines_card.usable_gib
    rollout = PhaseMemory(
        phase="rollout", gpu=step.engines_card.name, peak=peak, usable=usable, parts=sampling, fits=True
    )
    scoring = step.scoring_memory(step.largest)
    return rollout, *(() if scoring is None else (scoring,)), step.training_memory(step.largest)


def _price(step: RlStep) -> tuple[float, str] | None:
    """Return dollars per hour of all GPUs, and what they rest on."""
    asked = step.asked

    def of(card: GpuSpec, given: float | None) -> tuple[float, str] | None:
        if given is not None:
            return given, "given"
        least = generation.least_usd_per_gpu_hour(card.name, step.library)
        return least and (least[0], f"least on demand in the shipped market: {least[1]}")

    own = of(step.card, asked.usd_per_gpu_hour)
    theirs = own
    if asked.rollout_gpus and (asked.rollout_usd_per_gpu_hour is not None or step.engines_card != step.card):
        theirs = of(step.engines_card, asked.rollout_usd_per_gpu_hour)
    if own is None or theirs is None:
        return None
    usd = own[0] * (step.trainer.gpus + (asked.reward_gpus or 0)) + theirs[0] * (asked.rollout_gpus or 0)
    bases = dict.fromkeys((own[1], theirs[1]) if asked.rollout_gpus else (own[1],))
    return usd, "; ".join(bases)


def _divided(step: RlStep, training: int, rollout: int, overlap: bool) -> RlStep:
    """Return the step with its GPUs divided otherwise."""
    asked = step.asked.model_copy(update={"rollout_gpus": rollout or None, "overlap": overlap})
    return replace(step, asked=asked, trainer=step.trainer.model_copy(update={"gpus": training}))


def _ways(step: RlStep) -> tuple[RlWay, ...]:
    """Return other ways to divide as many GPUs of one kind, that of least seconds first."""
    total = step.trainer.gpus + (step.asked.rollout_gpus or 0)
    if step.engines_card != step.card or step.of_trainer.get("instances"):
        return ()
    divisions = [(total, 0, False)] + [
        (total - rollout, rollout, True)
        for rollout in dict.fromkeys((total // 4, total // 2, total - total // 4))
        if 0 < rollout < total
    ]
    own = (step.trainer.gpus, step.asked.rollout_gpus or 0, step.asked.overlap)
    ways = []
    for training, rollout, overlap in divisions:
        try:
            other = _divided(step, training, rollout, overlap)
            if (training, rollout, overlap) == own or not all(phase.fits for phase in phase_memory(other)):
                continue
            seconds, price = other.phases.step_seconds(overlap), _price(other)
        except ScenarioError:
            continue
        idle, share = other.phases.idle(overlap, rollout > 0)
        ways.append(
            RlWay(
                training_gpus=training,
                rollout_gpus=rollout,
                overlapped=overlap,
                step_seconds=seconds,
                idle=idle,
                idle_share=share,
                usd_per_100_steps=price and price[0] * seconds / HOUR * 100.0,
            )
        )
    return tuple(sorted(ways, key=lambda way: way.step_seconds))


def _changes(step: RlStep) -> dict[str, float]:
    """Return the seconds of a step with one thing of the question changed, and as many tokens on a GPU at a time."""

    def seconds(**changed: Any) -> float:
        asked = step.asked.model_copy(update=changed)
        other = replace(step, asked=asked, tokens_at_once=step.longest_at_once)
        return other.phases.step_seconds(step.asked.overlap)

    seconds_changed = {"twice the answers to each prompt": seconds(answers=2 * step.asked.answers)}
    longest = min(2 * step.longest, int(step.network.max_sequence - step.asked.input))
    if longest > step.longest:
        seconds_changed[f"answers up to {longest:,} tokens, of the same mean"] = seconds(longest_output=longest)
    seconds_changed["answers of twice the spread in length"] = seconds(output_cv=2.0 * step.asked.output_cv)
    return seconds_changed


def _assumed(step: RlStep) -> tuple[str, ...]:
    asked, given = step.asked, step.asked.model_fields_set
    told = {
        "algorithm": asked.algorithm,
        "prompts": f"{asked.prompts:,} prompts",
        "answers": f"{asked.answers:,} answers to each",
        "input": f"prompts of {asked.input:,.0f} tokens",
        "output": f"answers of {asked.output:,.0f} tokens",
        "longest_output": f"answers cut at {step.longest:,}",
        "output_cv": f"spread of lengths {asked.output_cv:g} of their mean",
    }
    said = [words for name, words in told.items() if name not in given]
    if asked.sampled_per_kept is None and asked.algorithm in SAMPLED_PER_KEPT:
        said.append(f"{SAMPLED_PER_KEPT[asked.algorithm]:g} answers sampled for each that is kept")
    return (*said, *(word for word in step.speed.assumed if "tokens per sequence" not in word))


def _notes(step: RlStep) -> tuple[str, ...]:
    notes = ["rewards are by rule: a reward model or a judge takes seconds and dollars that are not in this"]
    notes = notes if step.reward is None else [REWARD_CAUTION]
    run, parts = step.largest, step.training_memory(step.largest).parts
    if not step.asked.rollout_gpus:
        copies = lasting_gib(run) * (2.0 if step.criticises else 1.0) + parts.get("reference", 0.0)
        copies += step.reward_shard_gib(run) if step.shares_reward else 0.0
        held = copies * GIB / GB * run.gpus_per_instance
        notes.append(f"while the engines sample, the trainer's states lie in host memory: {held:,.0f} GB of a machine")
    if step.asked.reward_offload:
        held = step.reward_shard_gib(run) * GIB / GB * run.gpus_per_instance
        notes.append(f"between its passes the reward model lies in host memory: {held:,.0f} GB of a machine")
    if step.asked.overlap:
        notes.append("the answers are of the policy one step before (off-policy)")
    if step.asked.rollout_engine == "sglang":
        notes.append(SGLANG_CAUTION)
    if step.asked.rollout_weight_bits < 16:
        notes.append(FP8_CAUTION)
    if len(layout := layout_words(step.trainer)) > 1:
        divided = f"answers are divided among {step.ranks} x {step.trainer.group} GPUs"
        notes.append(f"trainer: {', '.join(layout)}; {divided}")
    if run.techniques.method != "full":
        notes.append("the engines get all weights with the adapters merged")
    return (*notes, *step.speed.notes)


def step_sigma(step: RlStep) -> float:
    """Return the standard deviation of ln(seconds): a prior, and where the trainer is less sure that of its share."""
    phases = step.phases
    whole = phases.step_seconds(False)
    training = phases.trainer / whole
    sigma = max(STEP_SIGMA, training * step.speed.sigma + (1.0 - training) * STEP_SIGMA)
    share = phases.fixed / phases.step_seconds(step.asked.overlap)
    return float(with_fixed_sigma(sigma, step.network.parameters, share))


def _build(step: RlStep) -> RlEstimate:
    asked, phases = step.asked, step.phases
    seconds = phases.step_seconds(asked.overlap)
    sigma = step_sigma(step)
    low, high = (float(factor) for factor in time_factors_of_68_percent(sigma))
    price = _price(step)
    idle, share = phases.idle(asked.overlap, asked.rollout_gpus is not None)

    def spread(value: float) -> Spread:
        return Spread(expected=value, low=value * low, high=value * high)

    return RlEstimate(
        architecture=step.network.name,
        algorithm=asked.algorithm,
        method=step.speed.techniques.method,
        gpu=step.card.name,
        training_gpus=step.trainer.gpus,
        rollout_gpu=step.engines_card.name,
        rollout_gpus=asked.rollout_gpus or 0,
        overlapped=asked.overlap,
        engine=step.engine.setup.served.name,
        engines=step.engine.engines,
        gpus_per_engine=step.engine.setup.asked.gpus,
        rollout_weight_bits=asked.rollout_weight_bits,
        sequences=step.sequences,
        sampled=round(step.sampled),
        seats=step.engine.setup.seats,
        input_tokens=asked.input,
        output_tokens=asked.output,
        longest_output=step.longest,
        step_seconds=spread(seconds),
        reward_model=asked.reward_model or "",
        reward_gpus=asked.reward_gpus or 0,
        phases=phases.by_name,
        tail_seconds=step.engine.rollout.tail_seconds,
        tail_ended_share=step.engine.rollout.tail_share,
        idle=idle,
        idle_share=share,
        steps=asked.steps,
        hours=spread(seconds * asked.steps / HOUR),
        usd_per_100_steps=price and spread(price[0] * seconds / HOUR * 100.0),
        price_basis=price[1] if price else "",
        changes=_changes(step),
        memory=phase_memory(step),
        ways=_ways(step),
        evidence="prior",
        sigma=sigma,
        assumed=_assumed(step),
        notes=_notes(step),
    )
