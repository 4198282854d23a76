"""Rows of the tables in `models/techniques`: values, bytes and rules."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

PeakKey = Literal["fp32_tflops", "tf32_tflops", "tensor16_tflops", "fp8_tflops"]
"""Keys of a GPU's sheet that hold a peak, the widest format first."""
PEAK_KEYS: tuple[PeakKey, ...] = get_args(PeakKey)


class Row(BaseModel):
    """A row of a table: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


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

Condition = Annotated[dict[str, tuple[str | int | bool, ...]], BeforeValidator(_as_tuples)]
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
    """One value of a technique: its words in reports, and the 0/1 name that it counts as."""

    words: str | None = None
    label: str | None = None  # of a rung of the ladder of methods
    technique: str | None = None
    lossy: Lossy | None = None


class WeightBits(Value):
    """Bits of a weight, and the quantisation where a job asks for none."""

    quant: str


class Precision(Value):
    """How training computes; with `autocast` from fp32 masters."""

    compute: str
    autocast: bool = False


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


class Optimizer(Value):
    """Whether the states are managed pages; `paged_as` names the same update in pages.

    `sharded` is what a plan says where the states are sharded with the weights.
    """

    paged: bool = False
    paged_as: str | None = None
    sharded: str = ""


class Offload(Value):
    """What of the states lies in host memory."""

    optimizer: bool = False
    weights: bool = False


class Latents(Value):
    """Whether images are encoded once, before training."""

    cached: bool = False


class Default(Row):
    """Values that are tried where a job does not say, under a condition."""

    values: tuple[str | int, ...]
    when: Condition = {}
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
        first = {one.values[0]: one.words for one in self.tried}
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
    activation_checkpointing: Technique[str, Value]
    sharding: Technique[str, Sharding]
    attention: Technique[str, Attention]
    optimizer: Technique[str, Optimizer]
    offload: Technique[str, Offload]
    latents: Technique[str, Latents]
    compute: dict[str, Compute]
    synonyms: dict[str, str]


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


class QuantisedBytes(Row):
    """Stored bytes of a quantised linear weight, and who quantises it."""

    bits: int
    weight_bytes: float = Field(alias="weight")
    prepared: bool
    bitsandbytes: bool = False


class LossBytes(Row):
    """Bytes per token and vocabulary entry of the loss."""

    logit_bytes: float = Field(alias="bytes")
    materialised: bool


class Bytes(Row):
    """`bytes.yaml`: what a technique puts on a parameter or a logit."""

    source: str
    training: dict[str, TrainingBytes]
    optimizers: dict[str, OptimizerBytes]
    adapters: dict[str, AdapterBytes]
    quantised: dict[str, QuantisedBytes]
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
    families: dict[str, str]

    def of(self, family: str) -> dict[str, tuple[str, ...]]:
        """Return the modules of one layer of a family, by path."""
        return self.modules[self.families.get(family, "llama")]

    @property
    def names(self) -> frozenset[str]:
        """Return the last parts of all paths: what people list as target modules."""
        return frozenset(path.rpartition(".")[2] for modules in self.modules.values() for path in modules)

    def chosen(self, family: str, targets: str | tuple[str, ...]) -> tuple[str, ...]:
        """Return the modules of a family that adapters extend, by the last part of the path where that is enough."""
        from planner.estimates.adapters import is_chosen, letters_of  # late: it loads numpy

        paths = [path for path, parts in self.of(family).items() if is_chosen(path, letters_of(parts), targets)]
        names = [path.rpartition(".")[2] for path in self.of(family)]
        short = (path.rpartition(".")[2] for path in paths)
        return tuple(name if names.count(name) == 1 else path for name, path in zip(short, paths, strict=True))

    def family_of(self, names: Collection[str]) -> str | None:
        """Return the modules, by their key, that have every one of the names; None where none or several differ."""
        found = [
            key for key, modules in self.modules.items() if set(names) <= {path.rpartition(".")[2] for path in modules}
        ]
        return found[0] if found else None
