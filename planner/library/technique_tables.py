"""The tables of techniques: values and words, what each refuses, bytes, kernels and rules."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache, cached_property
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, get_args

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from planner.documents.files import data_folder, read_document
from planner.documents.validation import Row, Source, find_name, name_fix, validation_complaints
from planner.errors import Fault, LibraryError

# Rows of the tables in `models/techniques`: values, bytes and rules.


PeakKey = Literal["fp32_tflops", "tf32_tflops", "tensor16_tflops", "fp8_tflops"]
"""Keys of a GPU's sheet that hold a peak, the widest format first."""
PEAK_KEYS: tuple[PeakKey, ...] = get_args(PeakKey)


def _as_tuples(when: Any) -> Any:
    """Give a single value of a condition the form of a list of one."""
    if not isinstance(when, dict):
        return when
    return {key: value if isinstance(value, list) else [value] for key, value in when.items()}


def _as_tuple(value: Any) -> Any:
    """Give a single text the form of a list of one."""
    return [value] if isinstance(value, str) else value


Matrices = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
"""One matrix, or several that one module holds."""

Condition = Annotated[dict[str, tuple[str | int | bool | None, ...]], BeforeValidator(_as_tuples)]
"""Facts by name with the values that they may have; all must hold."""


def holds(when: Condition, facts: Mapping[str, Any]) -> bool:
    """Return whether every fact that a condition names has one of its values."""
    for key, wanted in when.items():  # noqa: SIM110 - thousands of times for a plan: a generator takes twice as long
        if facts[key] not in wanted:
            return False
    return True


class Lossy(Row):
    """What a plan calls a value that can change what is learnt, and doing without it; `grade` is how much it rounds."""

    name: str
    without: str
    grade: int = Field(default=1, ge=1)


class Value(Row):
    """One value of a technique: its words in reports, and the 0/1 name that it counts as.

    `prior` is what a plan says of an estimate that rests on no run.
    """

    words: str | None = None
    prior: str = ""
    label: str | None = None  # of a rung of the ladder of methods
    technique: str | None = None
    lossy: Lossy | None = None


class WeightBits(Value):
    """Bits of a weight, and the quantisation where a job asks for none; `quant_of`: of frameworks that lack it."""

    quant: str
    quant_of: dict[str, str] = Field(default_factory=dict)


class Precision(Value):
    """How training computes; with `autocast` from fp32 masters, with `rounds` on rounded weights and inputs."""

    compute: str
    autocast: bool = False
    rounds: bool = False


class Sharding(Value):
    """The ZeRO stage; `hybrid` shards inside a machine only."""

    zero_stage: Literal[0, 1, 2, 3] = 0
    hybrid: bool = False
    exposed: str | None = None


class Attention(Value):
    """Kernels of attention, and the widest element that they compute in; `gain`: their speed over that of flash."""

    max_element_bytes: float | None = None
    gain: str | None = None
    meets: Literal["all", "sqrt"] = "all"


class Checkpointing(Value):
    """Whether what is kept of the activations lies in host memory; with `keeps_all` nothing is computed again.

    `blocks`: which of the equal blocks of a diffusion transformer run again, half of them, or all in pairs.
    With `attention_hosted` what its attention keeps lies in host memory, of blocks that run again, too.
    """

    hosted: bool = False
    keeps_all: bool = False
    blocks: Literal["half", "pairs"] | None = None
    attention_hosted: bool = False


class Optimizer(Value):
    """Whether the states are managed pages; `paged_as` names the same update in pages.

    `sharded` is what a plan says where the states are sharded with the weights. With `in_backward` each weight is
    stepped in the backward pass, once its gradient is whole, which leaves nothing to add up over micro-steps.
    """

    paged: bool = False
    in_backward: bool = False
    paged_as: str | None = None
    sharded: str = ""


class Offload(Value):
    """What of the states lies in host memory."""

    optimizer: bool = False
    weights: bool = False
    frozen: bool = False
    swapped: float = Field(default=0.0, ge=0, lt=1)  # share of the blocks of a frozen network


class Latents(Value):
    """Whether images are encoded once, before training."""

    cached: bool = False


class Reference(Value):
    """What preference tuning compares with: a copy of the model, or log-probabilities that are computed `once`."""

    copied: bool = False
    hosted: bool = False
    once: bool = False


class Tuning(Row):
    """What a training job does with a sample of so many sequences."""

    words: str
    answers: int = 1
    reference: bool = False
    further: int = 0
    scalar: bool = False
    teacher: bool = False
    loss_16_bit: str | None = None  # row of bytes.yaml where nothing casts its logits to fp32

    def further_forwards(self, once: bool, epochs: float) -> float:
        """Return the passes without gradients of a step: of the policy, and of its reference.

        Those of log-probabilities that are computed `once` are spread over the epochs that read them.
        """
        passes = (1 + self.further) * self.reference
        return self.further + (passes / max(1.0, epochs) if once else float(passes))


class Default(Row):
    """Values that are tried where a job does not say, under a condition."""

    values: tuple[str | int, ...]
    when: Condition = Field(default_factory=dict)
    words: str = ""  # of the condition


K = TypeVar("K", str, int)
V = TypeVar("V", bound=Value)


class Technique(Row, Generic[K, V]):
    """The values of one field, and which of them are tried."""

    values: dict[K, V]
    tried: tuple[Default, ...]
    estimated: tuple[str, ...] = ()
    help: str
    assumed: str = ""

    @property
    def assumed_words(self) -> str:
        """Return what `planner estimate` says of an option that is not given."""
        if self.assumed or self.estimated:
            return self.assumed or self.estimated[0]
        first = {attempt.values[0]: attempt.words for attempt in self.tried}
        return ", ".join(f"{value} {words}".strip() for value, words in first.items())


class Compute(Row):
    """How products are computed: keys of the sheet that hold the peak, in order, and bytes of an element."""

    peak: tuple[PeakKey, ...]
    element_bytes: float
    efficiency: str | None = None  # key of gpu_efficiency in place of the GPU's own share of peak
    linear_peak: PeakKey | None = None  # of linear layers, where it is another
    linear_share: str | None = None  # key of kernels: share of that peak which is left after casts

    def peak_key(self, peaks: Mapping[PeakKey, float] | frozenset[PeakKey]) -> PeakKey | None:
        """Return the first of the wanted peaks that a sheet has; None where it has none."""
        return next((key for key in self.peak if key in peaks), None)

    def missing_peak(self, peaks: Mapping[PeakKey, float] | frozenset[PeakKey]) -> str | None:
        """Return the peak that a sheet lacks; None where it has all that are needed."""
        if self.linear_peak is not None and self.linear_peak not in peaks:
            return self.linear_peak
        return None if self.peak_key(peaks) else " or ".join(self.peak)


class Values(Row):
    """`values.yaml`: what may be asked for."""

    source: str
    names: tuple[str, ...]
    method: Technique[str, Value]
    weight_bits: Technique[int, WeightBits]
    quant: Technique[str, Value]
    precision: Technique[str, Precision]
    activation_checkpointing: Technique[str, Checkpointing]
    sharding: Technique[str, Sharding]
    attention: Technique[str, Attention]
    optimizer: Technique[str, Optimizer]
    offload: Technique[str, Offload]
    latents: Technique[str, Latents]
    reference: Technique[str, Reference]
    tuning: dict[str, Tuning]
    compute: dict[str, Compute]
    synonyms: dict[str, str]


# pickle finds a class by its name in its module, where one with parameters has none of its own.
globals().update({kind.__name__: kind for kind in Technique.__subclasses__()})


class TrainingBytes(Row):
    """Bytes per parameter of full training; the fields are those of `States`."""

    weight_bytes: float = Field(alias="w")
    gradient_bytes: float = Field(alias="g")
    optimizer_bytes: float = Field(alias="o")
    step_bytes: float = Field(alias="t")
    cast_bytes: float = Field(alias="cast")
    optimizer_traffic_bytes: float = Field(alias="traffic")
    reduced_bytes: float = Field(alias="reduced")
    added_bytes: float = Field(alias="added")
    gathered_bytes: float = Field(alias="gathered")
    extra_gradient_bytes: float = Field(default=0.0, alias="extra_gradient")
    extra_sharded_bytes: float = Field(default=0.0, alias="extra_sharded")


class AdapterBytes(Row):
    """Bytes per weight of an adapter; the fields are those of `States`."""

    adapter_bytes: float = Field(alias="w")
    gradient_bytes: float = Field(alias="g")
    optimizer_bytes: float = Field(alias="o")
    step_bytes: float = Field(alias="t")
    optimizer_traffic_bytes: float = Field(alias="traffic")
    reduced_bytes: float = Field(alias="reduced")
    adapter_copies: float = Field(alias="copies")
    adapter_pass_bytes: float = Field(alias="pass")


class OptimizerBytes(Row):
    """Bytes per trained parameter of an optimizer in place of AdamW's two moments."""

    optimizer_bytes: float = Field(alias="o")
    traffic_saved_bytes: float = Field(alias="traffic_saved")
    largest_bytes: float = Field(default=0.0, alias="largest")  # per weight of the largest matrix, while stepping
    layer_share: float | None = Field(default=None, alias="layers")  # of AdamW's moments; embedding and head keep both

    def kept_bytes(self, moments: float, embedding_share: float) -> float:
        """Return the bytes per weight of its states, from AdamW's `moments` and the share of embedding and head."""
        if self.layer_share is None:
            return self.optimizer_bytes
        return moments * (embedding_share + (1.0 - embedding_share) * self.layer_share)


class QuantisedBytes(Row):
    """Stored bytes of a quantised linear weight, and who quantises it."""

    bits: int
    weight_bytes: float = Field(alias="weight")
    prepared: bool
    bitsandbytes: bool = False
    kept_bytes: float = Field(default=0.0, alias="kept")
    # Where inputs are rounded, too: bytes kept, moved in each pass, and alive while one product is differentiated, per
    # element of a linear's input; bytes per weight of the matrix in work.
    input_bytes: float = Field(default=0.0, alias="input")
    forward_bytes: float = Field(default=0.0, alias="forward")
    backward_bytes: float = Field(default=0.0, alias="backward")
    input_passing_bytes: float = Field(default=0.0, alias="input_passing")
    passing_bytes: float = Field(default=0.0, alias="passing")
    fp8_products: bool = False


class RoundedBytes(Row):
    """Bytes that a linear layer keeps where it rounds: per weight, per element of its input, of the matrix in work."""

    weight_bytes: float = Field(alias="weight")
    input_bytes: float = Field(alias="input")
    passing_bytes: float = Field(alias="passing")


class MagnitudeBytes(Row):
    """What DoRA adds to LoRA: copies of each adapted linear's output, and bytes per weight of the matrix in work."""

    output_copies: float = Field(alias="output")
    passing_bytes: float = Field(alias="passing")


class LossBytes(Row):
    """Bytes per token and vocabulary entry of the loss."""

    logit_bytes: float = Field(alias="bytes")
    materialised: bool
    gradient_in_forward: bool = False


class Bytes(Row):
    """`bytes.yaml`: what a technique puts on a parameter or a logit."""

    source: str
    training: dict[str, TrainingBytes]
    optimizers: dict[str, OptimizerBytes]
    adapters: dict[str, AdapterBytes]
    quantised: dict[str, QuantisedBytes]
    rounded: dict[str, RoundedBytes]
    magnitudes: MagnitudeBytes
    loss: dict[str, LossBytes]


class Rule(Row):
    """Techniques, or a technique and a GPU, that do not work together."""

    when: Condition
    reason: str
    source: str


class Rules(Row):
    """`rules.yaml`: what is refused, the first that holds gives the reason."""

    rules: tuple[Rule, ...]


class Linears(Row):
    """`linears.yaml`: names of the linear layers that adapters can extend."""

    source: str
    modules: dict[str, dict[str, Matrices]]
    named: tuple[str, ...]
    families: dict[str, str]

    def of(self, family: str) -> dict[str, tuple[str, ...]]:
        """Return the modules of one layer of a family, by path."""
        return self.modules[self.families.get(family, "llama")]

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths of the modules of all families."""
        return frozenset(path for modules in self.modules.values() for path in modules)

    @property
    def names(self) -> frozenset[str]:
        """Return the last parts of all paths: what people list as target modules."""
        return frozenset(path.rpartition(".")[2] for path in self.paths)

    @property
    def endings(self) -> frozenset[str]:
        """Return the ends of all paths after a dot: `self_attn.q_proj` of a list of target modules."""
        return frozenset(path.split(".", drop)[-1] for path in self.paths for drop in range(path.count(".") + 1))

    def chosen(self, family: str, targets: str | tuple[str, ...]) -> tuple[str, ...]:
        """Return the modules of a family that adapters extend, by the last part of the path where that is enough."""
        from planner.estimates.weights import is_chosen, letters_of  # late: it loads numpy

        paths = [path for path, parts in self.of(family).items() if is_chosen(path, letters_of(parts), targets)]
        names = [path.rpartition(".")[2] for path in self.of(family)]
        short = (path.rpartition(".")[2] for path in paths)
        return tuple(name if names.count(name) == 1 else path for name, path in zip(short, paths, strict=True))

    def family_of(self, names: Collection[str]) -> str | None:
        """Return the modules, by their key, that have every one of the names; None where none or several differ."""
        families = [
            key for key, modules in self.modules.items() if set(names) <= {path.rpartition(".")[2] for path in modules}
        ]
        return families[0] if families else None


# The table of techniques: their values and words, what each refuses, its bytes and its kernels.
#
# Everything comes from `models/techniques/*.yaml`; no other module lists the values of a technique.


# Rows of `models/techniques/frameworks.yaml`: what each training framework implies, and whether it takes part.


LEAST_RUNS = 15
"""Published runs that a framework's profile rests on at least, where it takes part without being named."""


class BlockSwap(Row):
    """How a tool moves the blocks that lie in host memory; the keys are explained in `frameworks.yaml`."""

    ring: float = Field(ge=0)
    crossings: float = Field(ge=2)


class FrameworkProfile(Row):
    """What a training framework implies for memory and speed; the keys are explained in `frameworks.yaml`."""

    loss: str
    norm_units: float
    adapters: str
    fused_step: bool
    kernels: str
    sharding: tuple[str, ...]
    allowed: tuple[str, ...]
    parallel: bool
    profiled: bool
    basis: Literal["peaks", "fits", "shared", "documented", "none"]
    label: str
    kernel_set: str
    runs: int
    maintained: bool
    kinds: tuple[str, ...] = ("finetune", "pretrain")
    tuning: tuple[str, ...] = ()  # what it does with samples, besides supervised fine-tuning
    tuning_loss: str | None = None  # row of the loss there, where it is not `loss`
    families: tuple[str, ...] | None = None  # of architectures; None: all
    without: tuple[str, ...] = ()  # networks of these families, by name, that are not planned with it
    adapts_all: bool = False  # its adapters are on all linear layers, never on some
    images: bool = False  # it trains diffusion networks, and no language models
    averages: bool = False  # it keeps an average of the trained weights where a job asks for one
    vendors: tuple[str, ...] = ("NVIDIA", "AMD")  # of the GPUs that it runs on
    compiles_graphs: bool = False  # the whole step, before every start
    facts: str
    unknown: bool = False
    prepared: bool = True
    masters: str | None = None
    deepspeed_masters: dict[str, str] = Field(default_factory=dict)  # by precision, in place of `masters`
    deepspeed_zero3: bool = False
    megatron: bool = False
    compiled: bool = False
    sequence_parallel: bool = False
    fused_rope: bool = False
    fused_swiglu: bool = False
    reduces_at_end: bool = False
    offloaded_checkpoints: bool = False
    selective: Literal["operators", "attention", "scores"] = "operators"
    fsdp_adapters_keep_gradients: bool = False
    input_hooks: bool = False
    frozen_quantised_factor: bool = True
    load_whole: bool = False
    no_sync: bool = False
    resumes_adapters: bool = True
    working_factor: float = 0.0
    context_parallel: Literal["", "gather", "ring", "heads"] = ""
    expert_parallel: bool = False
    expert_dispatch: Literal["expert", "node"] = "expert"
    grouped_experts: Literal["", "plain", "all"] = ""
    stores: dict[str, str] = Field(default_factory=dict)
    block_swap: BlockSwap | None = None
    frozen_buffers: float = 2.0
    prior_speed: bool = False
    rl: bool = False  # it trains policies of reinforcement learning; the first such row does where a job names none

    @property
    def compiles(self) -> Literal["", "torch", "graphs"]:
        """What is compiled before every start: layers by torch.compile, or the whole step for a chip."""
        return "graphs" if self.compiles_graphs else "torch" if self.compiled else ""

    @property
    def takes_part(self) -> bool:
        """Whether it is tried where a job names no framework: an untested profile must not win by being optimistic.

        On chips that no profile with measured memory runs on, measured speed is enough.
        """
        others_chips = "NVIDIA" not in self.vendors
        return self.maintained and (self.profiled or others_chips) and self.runs >= LEAST_RUNS

    def trains(self, kind: str, family: str, tuning: str = "sft", images: bool = False) -> bool:
        """Return whether it trains such a job and family of architectures at all, `images` of diffusion networks."""
        own = kind in self.kinds and images == self.images and (self.families is None or family in self.families)
        return own and self.tunes(tuning)

    def takes_network(self, name: str, family: str, images: bool) -> bool:
        """Return whether it trains this network: of `images` those of its families but `without`, else any of text."""
        own = self.families is None or family in self.families
        return images == self.images and (not images or (own and name not in self.without))

    def tunes(self, tuning: str) -> bool:
        """Return whether it has a method of `tuning` in values.yaml."""
        return tuning == "sft" or tuning in self.tuning


class Frameworks(Row):
    """`frameworks.yaml`: profiles by name."""

    source: str
    frameworks: dict[str, FrameworkProfile]


TechniqueField = Literal[
    "method",
    "weight_bits",
    "quant",
    "precision",
    "activation_checkpointing",
    "sharding",
    "attention",
    "optimizer",
    "offload",
    "latents",
    "reference",
]
"""The keys of a job's `techniques` whose values are names; the parallel degrees are numbers."""
TECHNIQUE_FIELDS: tuple[TechniqueField, ...] = get_args(TechniqueField)


_FACTS_OF_MANY = ("framework", "generation", "vendor", "bf16")
"""Facts that conditions of rules name and that many recipes share."""


class TechniqueTable(Row):
    """All files of `models/techniques`, checked against one another."""

    values: Values
    bytes: Bytes
    frameworks: dict[str, FrameworkProfile]
    rules: tuple[Rule, ...]
    linears: Linears

    def framework(self, name: str) -> FrameworkProfile:
        """Return the profile that a name in any spelling means; KeyError names the nearest ones."""
        if (found := find_name(name, self.frameworks)) is None:
            raise KeyError(f"no framework {name!r}; {name_fix(name, sorted(self.frameworks))}")
        return self.frameworks[found]

    def of(self, field: str) -> Technique[Any, Any]:
        """Return the values of one of `TECHNIQUE_FIELDS`."""
        technique: Technique[Any, Any] = getattr(self.values, field)
        return technique

    def allowed(self, field: str) -> tuple[Any, ...]:
        """Return the values that may be asked for, of a technique, `framework`, `tuning` or the 0/1 `names`.

        `rl_framework`: the frameworks that train policies of reinforcement learning.
        """
        if field in ("framework", "tuning"):
            return tuple(self.frameworks if field == "framework" else self.values.tuning)
        if field == "rl_framework":
            return tuple(name for name, profile in self.frameworks.items() if profile.rl)
        return self.values.names if field == "names" else tuple(self.of(field).values)

    def planned(self, field: str) -> tuple[Any, ...]:
        """Return the values that a plan may have: those allowed, none, and the quantisation that other bits bring."""
        implied = [row.quant for row in self.values.weight_bits.values.values()] if field == "quant" else []
        return (*dict.fromkeys((*self.allowed(field), *implied)), None, "none")

    def method_label(self, method: str, weight_bits: int) -> str:
        """Return the name of a method with its bits, such as `QLoRA`: the rung of the ladder."""
        values = self.values
        return values.method.values[method].label or str(values.weight_bits.values[weight_bits].label)

    def words(self, field: str, value: Any) -> str:
        """Return what reports call a value; the value itself where the table has no other words."""
        row = self.of(field).values.get(value)
        return str(row.words if row is not None and row.words else value)

    def tried(self, field: str, **facts: Any) -> tuple[Any, ...]:
        """Return the values that are tried where a job does not say, given facts of the recipe and the GPU."""
        return next((attempt.values for attempt in self.of(field).tried if holds(attempt.when, facts)), ())

    def in_use(self, settings: Mapping[str, Any], accumulates: bool) -> frozenset[str]:
        """Return the 0/1 names of the techniques that settings (values by field) switch on."""
        rows = (self.of(field).values.get(settings[field]) for field in TECHNIQUE_FIELDS)
        names = {row.technique for row in rows if row is not None and row.technique}
        return frozenset(names | ({"gradient_accumulation"} if accumulates else set()))

    def lossiness(self, settings: Mapping[str, Any]) -> int:
        """Return the sum of the grades of the lossy values in settings (values by field); 0 where nothing rounds."""
        rows = (self.of(field).values.get(settings[field]) for field in TECHNIQUE_FIELDS)
        return sum(row.lossy.grade for row in rows if row is not None and row.lossy)

    def compute(self, precision: str) -> Compute:
        """Return how a precision computes; KeyError for an unknown one."""
        return self.values.compute[self.values.precision.values[precision].compute]

    def refusals(self, facts: Mapping[str, Any]) -> Iterator[str]:
        """Yield why a recipe does not work on a GPU; `facts` holds the fields of both, and `framework`."""
        profile = self.frameworks[facts["framework"]]
        if facts["splits_sequences"] and not profile.context_parallel:
            yield "this framework has no context parallelism here"
        if facts["expert_parallel"] > 1 and not profile.expert_parallel:
            yield "this framework has no expert parallelism here"
        if facts["tensor_parallel"] * facts["pipeline_parallel"] > 1 and profile.images:
            yield "this framework divides neither layers nor their stack among GPUs"
        if self.values.offload.values[facts["offload"]].swapped and profile.block_swap is None:
            yield "this framework swaps no blocks here"
        yield from (reason for when, reason in self._rules_left(facts) if holds(when, facts))
        missing = self.compute(facts["precision"]).missing_peak(facts["peaks"])
        if missing:
            yield f"precision {facts['precision']}: the GPU has no {missing}"

    def _rules_left(self, facts: Mapping[str, Any]) -> list[tuple[Condition, str]]:
        """Return conditions and reasons of the rules that the framework and the card of a recipe leave open.

        Thousands of recipes share a few of these.
        """
        given = tuple(facts[key] for key in _FACTS_OF_MANY)
        if given not in self._known_rules:
            known = dict(zip(_FACTS_OF_MANY, given, strict=True))
            self._known_rules[given] = [
                ({key: wanted for key, wanted in rule.when.items() if key not in known}, rule.reason)
                for rule in self.rules
                if all(known[key] in wanted for key, wanted in rule.when.items() if key in known)
            ]
        return self._known_rules[given]

    @cached_property
    def _known_rules(self) -> dict[tuple[Any, ...], list[tuple[Condition, str]]]:
        """Return the rules that are left, by the facts of many recipes; filled when they are asked for."""
        return {}

    @model_validator(mode="after")
    def _names_rows_that_exist(self) -> Self:
        unknown = [f"{where}: {name}" for where, name, known in self._references() if name not in known]
        if unknown:
            raise ValueError(f"names without a row: {', '.join(unknown)}")
        return self

    def _references(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield each name that one table takes from another, with what is known there."""
        for field in TECHNIQUE_FIELDS:
            technique = self.of(field)
            yield from ((field, row.technique, self.values.names) for row in technique.values.values() if row.technique)
            tried = [value for attempt in technique.tried for value in attempt.values]
            yield from ((f"{field}.tried", value, technique.values) for value in (*tried, *technique.estimated))
        optimizers = self.values.optimizer.values
        yield from (("optimizer.paged_as", row.paged_as, optimizers) for row in optimizers.values() if row.paged_as)
        for name, precision in self.values.precision.values.items():
            yield f"precision.{name}", precision.compute, self.values.compute
            yield "training bytes", name, self.bytes.training
        yield from (("quantised bytes", name, self.bytes.quantised) for name in self.values.quant.values)
        for name, tuning in self.values.tuning.items():
            yield from ((f"{name}.loss_16_bit", loss, self.bytes.loss) for loss in (tuning.loss_16_bit,) if loss)
        for name, profile in self.frameworks.items():
            yield f"{name}.loss", profile.loss, self.bytes.loss
            yield f"{name}.tuning_loss", profile.tuning_loss or profile.loss, self.bytes.loss
            yield from ((f"{name}.tuning", tuning, self.values.tuning) for tuning in profile.tuning)
            yield f"{name}.adapters", profile.adapters, self.bytes.adapters
            yield from ((f"{name}.allowed", sharding, self.values.sharding.values) for sharding in profile.allowed)
            yield from ((f"{name}.sharding", sharding, profile.allowed) for sharding in profile.sharding)
        yield from (("linears.families", name, self.linears.modules) for name in self.linears.families.values())
        for rule in self.rules:
            known = [
                (key, set(self.planned(key))) for key in rule.when if key in (*TECHNIQUE_FIELDS, "framework", "tuning")
            ]
            yield from ((f"rule on {key}", value, values) for key, values in known for value in rule.when[key])


_Rows = TypeVar("_Rows", bound=Row)


def _read(name: str, kind: type[_Rows]) -> _Rows:
    path = data_folder("models") / "techniques" / f"{name}.yaml"
    document = read_document(path)
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        complaints = validation_complaints(error, kind, document.data)
        raise LibraryError(Source(str(path), document).faults(complaints)) from None


@cache
def read_techniques() -> TechniqueTable:
    """Read and check the table; `LibraryError` with every fault of a file."""
    try:
        return TechniqueTable(
            values=_read("values", Values),
            bytes=_read("bytes", Bytes),
            frameworks=_read("frameworks", Frameworks).frameworks,
            rules=_read("rules", Rules).rules,
            linears=_read("linears", Linears),
        )
    except ValidationError as error:
        what = str(error.errors()[0]["msg"])
        raise LibraryError([Fault(str(data_folder("models") / "techniques"), 0, "", what, "add the row")]) from None
