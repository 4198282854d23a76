"""Reinforcement learning as a job: the answers of a step, the algorithm, what may be chosen of the engines."""

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from planner.documents.quantities import (
    Count,
    OneOrMany,
    Positive,
    PositiveInteger,
    Price,
    Rows,
    SequenceLength,
    StrictModel,
    Text,
    TokenMean,
    WholeNumber,
    validation_error,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import format_value
from planner.library.technique_tables import read_techniques
from planner.scenario.job import DEFAULT_MEMORY_CONFIDENCE, Job, RolloutBits, kind_of_job
from planner.scenario.job_stages import MAX_SAMPLE_CLASSES, SampleClass, Work
from planner.scenario.techniques import Checkpointing, Method, OneOf, Optimizer, Sharding, Techniques, WeightBits

REFERENCE = {"grpo": True, "rloo": True, "ppo": True, "reinforce++": True, "dapo": False}
"""Whether the algorithm compares with a reference policy by default: DAPO drops the penalty (arXiv:2503.14476, 2.3)."""
CRITIC = {"ppo"}
"""Algorithms that train a network of values next to the policy (arXiv:1707.06347); as large as the policy here."""
GROUPED = {"grpo", "dapo", "rloo"}
"""Algorithms that compare the answers to one prompt with one another (arXiv:2402.03300, 4.1; 2402.14740, 3.3)."""
ALGORITHMS = tuple(REFERENCE)
LENGTH_CV = 0.8
"""Spread of the lengths of answers to different prompts, as a share of their mean. A prior: no log was given."""
RL_FRAMEWORKS: tuple[str, ...] = read_techniques().allowed("rl_framework")
"""Trainers of policies: FSDP (TRL, verl, OpenRLHF) shards, Megatron-core (verl, NeMo-RL) divides layers."""
RL_FRAMEWORK = RL_FRAMEWORKS[0]
"""The trainer that is assumed."""
DIVIDING = tuple(name for name in RL_FRAMEWORKS if read_techniques().frameworks[name].parallel)
"""Those that divide layers."""
TRAINER_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
"""By how many GPUs a trainer divides layers, their stack, sequences and experts."""
MOST_STALENESS = 8
"""Most steps that answers may be behind the policy: published asynchronous runs stay below (arXiv:2505.24298)."""


def _algorithm(value: Any) -> Any:
    """Return the algorithm that a word means; a fault that names all of them."""
    if not isinstance(value, str) or (name := find_name(value, ALGORITHMS)) is None:
        raise validation_error(f"unknown algorithm {format_value(value)}", name_fix(str(value), ALGORITHMS))
    return name


def _framework(value: Any) -> Any:
    """Return the trainer that a word means; a fault that names those of reinforcement learning."""
    if not isinstance(value, str) or (name := find_name(value, RL_FRAMEWORKS)) is None:
        what = f"not modelled for kind rl: framework {format_value(value)}"
        raise validation_error(what, f"give {' or '.join(RL_FRAMEWORKS)}")
    return name


RlFramework = Annotated[str, OneOf("rl_framework"), BeforeValidator(_framework)]


class RlWork(Work):
    """Steps, and the answers that each of them samples and trains on."""

    steps: Count
    """Steps in all; of a run that goes on those that are left."""
    steps_before: WholeNumber = 0
    """Steps that a run that goes on has done, besides `steps`."""
    prompts: PositiveInteger = 128
    """Prompts of a step."""
    answers: PositiveInteger = 8
    """Answers to each prompt."""
    input_tokens: Annotated[TokenMean, Field(ge=1)]
    """Mean tokens of a prompt."""
    output_tokens: Annotated[TokenMean, Field(ge=1)] | None = None
    """Mean tokens of an answer."""
    longest_output: SequenceLength | None = None
    """Tokens at which an answer is cut; left out, the longest of `lengths`, else four times the mean."""
    output_cv: Annotated[float, Field(gt=0.0, le=5.0)] | None = None
    """Spread of the lengths of answers, as a share of their mean; left out, that of `lengths`, else 0.8."""
    lengths: Annotated[Rows[SampleClass], Field(max_length=MAX_SAMPLE_CLASSES)] = ()
    """Answers of a log by length, in place of their mean; a file may name a CSV table."""
    updates: PositiveInteger = 1
    """Optimizer steps for the answers of one step."""
    sampled_per_kept: Annotated[float, Field(ge=1.0, le=100.0)] | None = None
    """Answers sampled for each that is trained on; left out, that of the algorithm."""

    if not TYPE_CHECKING:  # what supervised training counts is nothing here
        samples: ClassVar[None] = None
        tokens_per_sample: ClassVar[None] = None
        epochs: ClassVar[float] = 1.0
        tokens: ClassVar[None] = None
        images: ClassVar[None] = None
        resolution: ClassVar[None] = None
        frames: ClassVar[None] = None
        image_input: ClassVar[None] = None

    @property
    def sample_lengths(self) -> tuple[tuple[float, int], ...]:
        """Nothing: no sample of a data set is trained on."""
        return ()

    @property
    def cut_lengths(self) -> tuple[tuple[float, int], ...]:
        """Tokens and count of the answers of a log, cut at `longest_output`: a cut answer counts as what is left."""
        longest = math.inf if self.longest_output is None else self.longest_output
        return tuple((min(float(row.tokens), longest), row.count) for row in self.lengths)

    @property
    def mean_output(self) -> float:
        """Mean tokens of an answer, after the cut."""
        if self.output_tokens is not None:
            return self.output_tokens
        rows = self.cut_lengths
        return math.fsum(tokens * count for tokens, count in rows) / sum(count for _, count in rows)

    @property
    def cut_at(self) -> int | None:
        """Tokens at which an answer is cut; None: left to the estimate."""
        if self.longest_output is not None or not self.lengths:
            return self.longest_output
        return math.ceil(max(row.tokens for row in self.lengths))

    @property
    def spread(self) -> float:
        """Spread of the lengths of answers, as a share of their mean."""
        if self.output_cv is not None or not self.lengths:
            return self.output_cv or LENGTH_CV
        mean, rows = self.mean_output, self.cut_lengths
        variance = math.fsum(count * (tokens / mean - 1.0) ** 2 for tokens, count in rows)
        variance /= sum(count for _, count in rows)
        return max(math.sqrt(variance), 0.01)

    @model_validator(mode="after")
    def _fill_from_lengths(self) -> Self:
        return self

    @model_validator(mode="after")
    def _has_one_amount(self) -> Self:
        if self.lengths and self.output_tokens is not None:
            raise validation_error("output_tokens and lengths contradict each other", "keep one", "output_tokens")
        if not self.lengths and self.output_tokens is None:
            fix = "give output_tokens, or lengths: a table of tokens and count"
            raise validation_error("the lengths of answers are missing", fix)
        if self.cut_at is not None and self.cut_at < self.mean_output:
            what = f"{self.cut_at:,} tokens are fewer than the mean of {self.mean_output:,.0f}"
            raise validation_error(what, "give at least the mean", "longest_output")
        if self.prompts * self.answers < self.updates:
            what = f"{self.prompts * self.answers:,} answers cannot be divided among {self.updates:,} updates"
            raise validation_error(what, "give fewer", "updates")
        return self


class RlTechniques(Techniques):
    """What of the trainer may be chosen; None is every value that makes sense."""

    method: OneOrMany[Method] = ("full",)
    """`full`, the default, or `lora`; a value or a list."""

    if not TYPE_CHECKING:  # what no trainer of these algorithms leaves open here
        quant: ClassVar[None] = None
        precision: ClassVar[None] = None
        attention: ClassVar[None] = None
        offload: ClassVar[None] = None
        latents: ClassVar[None] = None
        penalty_usd: ClassVar[dict[str, float]] = {}


ROLLOUT_ENGINES = {"vllm": "offline", "sglang": "server"}
"""Engines that sample, each with the use whose memory is known: what a script changes in that of SGLang is not."""


class RolloutChoice(StrictModel):
    """What may be chosen of the engines that sample answers."""

    placement: OneOrMany[Literal["colocated", "apart"]] = ("colocated", "apart")
    """`colocated`: all GPUs train and sample in turn; `apart`: some do one, some the other; a value or a list."""
    tensor_parallel: OneOrMany[Literal[1, 2, 4, 8]] | None = None
    """GPUs of one engine, a value or a list; left out: the number with the fastest rollout."""
    weight_bits: OneOrMany[RolloutBits] = (16,)
    """Bits of the engines' weights: 16, or 8 (fp8) on GPUs that have it; a value or a list."""
    engine: OneOrMany[Literal["vllm", "sglang"]] = ("vllm",)
    """What samples: `vllm`, `sglang`, or both."""


class Judge(StrictModel):
    """A model behind an API that judges each answer."""

    usd_per_million_input_tokens: Price
    """Dollars per million tokens of prompt and answer that it reads."""
    usd_per_million_output_tokens: Price
    """Dollars per million tokens that it writes."""
    output_tokens: Annotated[TokenMean, Field(ge=1)] = 200.0
    """Mean tokens of a verdict."""

    def usd(self, answers: float, tokens_each: float) -> float:
        """Return the dollars of judging answers of so many tokens each, prompts included.

        1,024 answers of 2,000 tokens at $1 and $4, verdicts of 200 tokens: $2.048 + $0.819.
        """
        read = answers * tokens_each * self.usd_per_million_input_tokens
        return (read + answers * self.output_tokens * self.usd_per_million_output_tokens) / 1e6


REWARD_PLACEMENTS: tuple[Literal["shared", "own"], ...] = ("shared", "own")


class RewardModel(StrictModel):
    """A model of one's own that scores each answer in one pass over prompt and answer."""

    model: Text
    """Name, repository or `config.json` of the model whose head is the score."""
    placement: OneOrMany[Literal["shared", "own"]] = ("shared",)
    """`shared`: on the GPUs that train; `own`: on GPUs next to them; a value or a list."""
    offload: bool | None = None
    """Whether its weights leave shared GPUs between its passes; left out, chosen."""

    @model_validator(mode="before")
    @classmethod
    def _writes_nothing(cls, value: Any) -> Any:
        if isinstance(value, dict) and "output_tokens" in value:
            fix = "leave output_tokens out: it scores in one pass; or give the prices of a judge by API"
            raise validation_error("not modelled for kind rl: a model of one's own that writes verdicts", fix)
        return value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.offload is not None and "shared" not in self.placement:
            what = "a reward model on GPUs of its own stays there"
            raise validation_error(what, "leave it out, or allow placement shared", "offload")
        return self


def _reward_form(value: Any) -> str:
    """Return the tag of the form in which a reward is written."""
    if isinstance(value, RewardModel) or (isinstance(value, dict) and value.keys() & RewardModel.model_fields.keys()):
        return "of a model"
    return "judge" if isinstance(value, (dict, Judge)) else "word"


def _reward(value: Any) -> Any:
    """Return a reward; a fault for a reward model without its name."""
    if value == "model":
        raise validation_error("a reward model without its name", "give reward: {model: NAME}, or rule")
    return value


Reward = Annotated[
    Annotated[Literal["rule"], Tag("word")]
    | Annotated[Judge, Tag("judge")]
    | Annotated[RewardModel, Tag("of a model")],
    Discriminator(_reward_form),
    BeforeValidator(_reward),
]

NOT_MODELLED = {
    "release_hours": "a release",
    "due_hours": "a due date",
    "trials": "several trials",
    "early_stopping": "early stopping",
    "stages": "stages around training",
    "teacher": "a teacher",
    "tuning": "a method of tuning next to its algorithm",
}
"""Fields of other jobs that are refused by name."""


class MeasuredRl(StrictModel):
    """An observed run of this job: mean seconds of a step and of its phases, and how it was set up.

    Each phase corrects the estimate of the same phase in all ways to run the job; phases that are not measured share
    what is left of the step. What else is left out is that of the job.
    """

    gpu: Text
    """GPU that trains."""
    gpus: PositiveInteger
    """GPUs that train, over all machines."""
    step_seconds: Positive | None = None
    """From one step to the next."""
    rollout_seconds: Positive | None = None
    """Sampling of the answers of a step."""
    log_probabilities_seconds: Positive | None = None
    """Passes forward of policy, reference and critic."""
    training_seconds: Positive | None = None
    """Updates on the answers of a step."""
    new_weights_seconds: Positive | None = None
    """From the trainer to the engines."""
    rollout_gpu: Text | None = None
    """GPU of the engines; left out, that of the trainer."""
    rollout_gpus: PositiveInteger | None = None
    """GPUs that only sample; left out, those of the trainer do both in turn."""
    shares_machine: bool = False
    """Whether the GPUs that only sample are in the machine of the trainer."""
    tensor_parallel: PositiveInteger | None = None
    """GPUs of one engine; left out, the number with the fastest rollout."""
    rollout_weight_bits: RolloutBits | None = None
    """Bits of the engines' weights: 16 or 8."""
    overlapped: bool = False
    """Whether the engines sampled while the trainer worked."""
    instances: PositiveInteger | None = None
    """Machines that train."""
    interconnect: Literal["nvlink", "nvswitch", "pcie"] | None = None
    """What connects the GPUs of a machine."""
    network_gbps: Positive | None = None
    """Network of a machine that trains in Gbit/s, if there are several."""
    weights_gbps: Positive | None = None
    """Network that new weights cross to engines on machines of their own, in Gbit/s."""
    framework: RlFramework | None = None
    """Trainer: `fsdp` or `megatron`."""
    trainer_tensor_parallel: PositiveInteger | None = None
    """GPUs that share a layer of the trainer."""
    pipeline_parallel: PositiveInteger | None = None
    """GPUs that share the trainer's stack of layers."""
    context_parallel: PositiveInteger | None = None
    """GPUs of the trainer that share a sequence."""
    expert_parallel: PositiveInteger | None = None
    """GPUs of the trainer that share the experts of a mixture."""
    method: Method | None = None
    """`full` or `lora`."""
    weight_bits: WeightBits | None = None
    """Bits of the frozen weights: 16, 8 or 4."""
    sharding: Sharding | None = None
    """What the GPUs share among them, such as `zero3`."""
    activation_checkpointing: Checkpointing | None = None
    """Which activations are computed anew in the backward pass."""
    optimizer: Optimizer | None = None
    """Optimizer and the bits of its states."""
    micro_batch: PositiveInteger | None = None
    """Of the longest answers on a GPU at a time."""
    lora_rank: PositiveInteger | None = None
    """Rank of the adapters."""
    prompts: PositiveInteger | None = None
    """Prompts of a step."""
    answers: PositiveInteger | None = None
    """Answers to each prompt."""
    input_tokens: Annotated[TokenMean, Field(ge=1)] | None = None
    """Mean tokens of a prompt."""
    output_tokens: Annotated[TokenMean, Field(ge=1)] | None = None
    """Mean tokens of an answer."""
    longest_output: SequenceLength | None = None
    """Tokens at which an answer was cut."""
    output_cv: Annotated[float, Field(gt=0.0, le=5.0)] | None = None
    """Spread of the lengths of answers, as a share of their mean."""
    updates: PositiveInteger | None = None
    """Optimizer steps for the answers of one step."""

    @property
    def degrees(self) -> dict[str, int]:
        """By how many GPUs the trainer divides layers, their stack, sequences and experts; 1 where not stated."""
        given = (self.trainer_tensor_parallel, self.pipeline_parallel, self.context_parallel, self.expert_parallel)
        return {name: degree or 1 for name, degree in zip(TRAINER_DEGREES, given, strict=True)}

    @property
    def phase_seconds(self) -> dict[str, float]:
        """Seconds of the phases that were measured, by their name."""
        names = ("rollout", "log_probabilities", "training", "new_weights")
        return {name: seconds for name in names if (seconds := getattr(self, f"{name}_seconds")) is not None}

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.step_seconds is None and not self.phase_seconds:
            raise validation_error("no observation given", "give step_seconds, or seconds of a phase")
        if self.rollout_gpus is None and (self.overlapped or self.shares_machine or self.rollout_gpu):
            what = "engines on GPUs of their own, or at work next to the trainer, without their number"
            raise validation_error(what, "give rollout_gpus", "rollout_gpus")
        if None not in (self.longest_output, self.output_tokens) and self.longest_output < self.output_tokens:  # type: ignore[operator]
            what = f"{self.longest_output:,} tokens are fewer than the mean of {self.output_tokens:,.0f}"
            raise validation_error(what, "give at least the mean", "longest_output")
        return self


class RlJob(Job):
    """Steps of reinforcement learning: answers sampled with engines, and a policy that is trained on them."""

    kind: Annotated[Literal["rl"], BeforeValidator(kind_of_job)]  # type: ignore[assignment]
    """`rl`: reinforcement learning."""
    work: RlWork
    """Steps, and the answers of each."""
    algorithm: Annotated[Literal["grpo", "dapo", "rloo", "ppo", "reinforce++"], BeforeValidator(_algorithm)] = "grpo"
    """`grpo`, `dapo`, `rloo`, `ppo` or `reinforce++`."""
    reference: bool | None = None
    """Whether a reference policy is compared with; left out, as the algorithm does."""
    critic: bool | None = None
    """Whether a network of values is trained, too: with `ppo` alone."""
    reward: Reward = "rule"
    """`rule`, a model of one's own by its name, or a judge by API with its prices."""
    staleness: Annotated[int, Field(ge=0, le=MOST_STALENESS)] = 0
    """Most steps that answers may be behind the policy; 0: the engines wait for new weights."""
    rollout: RolloutChoice = RolloutChoice()
    """What may be chosen of the engines."""
    framework: OneOrMany[RlFramework] = (RL_FRAMEWORK,)
    """Trainers that may be used: `fsdp`, `megatron`; a value or a list."""
    techniques: RlTechniques = RlTechniques()
    """What may be chosen of the trainer."""
    measured: Rows[MeasuredRl] = ()  # type: ignore[assignment]
    """Observed runs of this job: they correct the seconds of the phases."""

    subject: ClassVar[str | None] = "rl"

    if not TYPE_CHECKING:  # settings of supervised training
        sequence_length: ClassVar[None] = None
        global_batch: ClassVar[int] = 1
        packing: ClassVar[str] = "fixed"
        ema: ClassVar[str] = "none"
        length_cv: ClassVar[float] = 0.0
        efficiency: ClassVar[float] = 1.0

    @property
    def reward_model(self) -> RewardModel | None:
        """The model of one's own that scores answers, if any does."""
        return self.reward if isinstance(self.reward, RewardModel) else None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for field, words in NOT_MODELLED.items():
            if field in self.model_fields_set and getattr(self, field) != type(self).model_fields[field].default:
                key = type(self).model_fields[field].alias or field
                raise validation_error(f"not modelled for kind rl: {words}", "leave it out", key)
        if self.memory_confidence != DEFAULT_MEMORY_CONFIDENCE:
            what = "not modelled for kind rl: a confidence of memory"
            raise validation_error(what, "give limits.vram_headroom, or leave it out", "confidence")
        if self.techniques.reference is not None:
            what = "not modelled for kind rl: how a reference is held"
            fix = "leave it out; whether there is one is reference: true or false of the job"
            raise validation_error(what, fix, "techniques.reference")
        if self.algorithm in GROUPED and self.work.answers < 2:
            what = f"{self.algorithm} compares the answers to a prompt: 1 has none to compare with"
            raise validation_error(what, "give 2 or more", "work.answers")
        criticises = self.algorithm in CRITIC
        if self.critic is not None and self.critic != criticises:
            what = f"{self.algorithm} {'trains a critic' if criticises else 'has no critic'}"
            raise validation_error(what, "leave it out" if criticises else "leave it out, or give ppo", "critic")
        if self.staleness and "apart" not in self.rollout.placement:
            what = "GPUs that sample and train in turn have no stale answers"
            raise validation_error(what, "leave it out, or allow rollout.placement apart", "staleness")
        given = (self.lora_given, self.techniques.lora_given)
        if None not in given and given[0] != given[1]:
            raise validation_error("lora is given twice, differently", "keep one", "lora")
        return self

    @model_validator(mode="after")
    def _divides_with_megatron(self) -> Self:
        for name in TRAINER_DEGREES:
            if not set(self.framework) & set(DIVIDING) and max(getattr(self.techniques, name) or (1,)) > 1:
                what = f"framework {' and '.join(self.framework)} shards, and divides no layers"
                raise validation_error(
                    what, f"allow framework {' or '.join(DIVIDING)}, or leave it out", f"techniques.{name}"
                )
        return self
