"""Facts of inference engines, formats (of names and files, too), loads, and of techniques: `models/techniques`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from planner.documents.files import data_folder, parse_value, read_text
from planner.documents.validation import Row, fold
from planner.errors import format_value
from planner.library.decoder_keys import NotCovered

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


class WeightFormat(Row):
    """How weights lie in memory; the keys are explained in `engines.yaml`."""

    bits: int
    bytes: float
    moved: float | None = None
    compute: int
    native: float
    head: int
    experts_only: bool = False
    capability: float
    trained: str
    maker: str
    like: str = ""
    names: tuple[str, ...]
    source: str


GROWING_SHARE = 0.5
"""`held_share` of an engine whose cache grows with the text, and of one without a profile."""


class NamedGpu(Protocol):
    """A GPU as limits of engines see it: its name, and the GiB that a program sees."""

    @property
    def name(self) -> str:
        """Name as in `models/gpus`."""

    @property
    def usable_gib(self) -> float:
        """GiB that a program sees."""


class StepLimits(Row):
    """What an engine lets into one step on GPUs of `gib` and more, those whose name holds a word of `but` excepted."""

    gib: float = 0.0
    but: tuple[str, ...] = ()
    sequences: int
    server: int
    """Prompt tokens of a step of a server."""
    offline: int
    """The same where a script hands over all prompts (vLLM: class LLM)."""

    def holds_for(self, gpu: str, gib: float) -> bool:
        """Return whether these limits hold on a GPU."""
        return gib >= self.gib and not any(word in gpu for word in self.but)


class EngineRelease(Row):
    """What a release of an engine takes at its start, and the releases after it until the next that is listed."""

    version: str
    share: float
    """Of the memory of a GPU, weights, profile and cache together."""
    logit_bytes: float
    """Of one logit while the sampler is profiled."""
    graph_gib: float = 0.0
    """Of captured graphs, where the engine takes them from the cache."""
    source: str

    @property
    def order(self) -> tuple[int, ...]:
        """The version as numbers."""
        return tuple(map(int, self.version.split(".")))


class ExpertPadding(Row):
    """Multiples to which kernels of experts in one format round their matrices, from a compute capability on."""

    format: str
    capability: float
    hidden: int
    width: int

    def ratio(self, hidden: int, width: float) -> float:
        """Return the bytes of a padded expert of so many inputs and so wide on one GPU, over those of its weights.

        Example: gpt-oss of 2,880 and 2,880 to multiples of 256 and 64: 3,072 * 2,880 / 2,880^2 = 1.067.
        """
        padded = math.ceil(hidden / self.hidden) * self.hidden * math.ceil(width / self.width) * self.width
        return padded / (hidden * width)


PROMPT_TOKENS = 8192
"""Prompt tokens of a step of an engine that no limits are known of: vLLM's default on large GPUs."""


class Engine(Row):
    """What an inference engine takes; the keys are explained in `engines.yaml`."""

    label: str
    formats: tuple[str, ...]
    makes: tuple[str, ...] = ()
    kv_bits: tuple[int, ...]
    sequences: int
    pool: bool
    share: float
    tensor: bool
    vendors: tuple[str, ...]
    capability: float
    loops_experts: bool = False
    reserves: bool = False
    copies_cache: bool = False
    rounds_head: bool = False
    steps: tuple[StepLimits, ...] = ()
    releases: tuple[EngineRelease, ...] = ()
    account: Literal["whole", "static", "free"] = "whole"
    padding: tuple[ExpertPadding, ...] = ()
    names: tuple[str, ...]
    source: str

    def limits_on(self, gpu: NamedGpu) -> StepLimits:
        """Return what one step takes in on a GPU: the first entry of `steps` that holds for it."""
        limited = next((limits for limits in self.steps if limits.holds_for(gpu.name, gpu.usable_gib)), None)
        return limited or StepLimits(sequences=self.sequences, server=PROMPT_TOKENS, offline=PROMPT_TOKENS)

    def usable(self, memory: float, share: float, weights: float, others: float) -> float:
        """Return the bytes that weights, cache and what else is alive (`others`) may take of `memory` on one GPU.

        whole: a share of the memory for all of them. static: a share for weights and cache, the others lie outside.
        free: a share of what weights and others leave is the cache. Example of 80 with weights of 16, others of 4 and a
        share of 0.9: 72, 76 and 74; the cache has 52, 56 and 54.
        """
        if self.account == "static":
            return min(memory, share * memory + others)
        if self.account == "free":
            return memory - (1.0 - share) * max(memory - weights - others, 0.0)
        return share * memory

    def expert_padding(self, form: str, capability: float, hidden: int, width: float) -> float:
        """Return the bytes of a padded expert over those of its weights; 1 where kernels do not round."""
        rows = (row for row in self.padding if row.format == form and capability >= row.capability)
        return next((row.ratio(hidden, width) for row in rows), 1.0)

    def releases_of(self, version: str | None) -> tuple[EngineRelease, ...]:
        """Return the row that holds for a version such as 0.11.2, and every row where none is given.

        Empty for an engine without rows, and for a version before the first.
        """
        if version is None:
            return self.releases
        wanted = tuple(map(int, version.split(".")))
        return tuple(row for row in self.releases if row.order <= wanted)[-1:]

    @property
    def held_share(self) -> float:
        """The share of an answer whose cache a request in flight holds in the mean.

        A cache that grows with the text is half full of the answer in the mean; an engine that reserves it holds all.
        Example: 1,000 + 1,000 tokens hold 2,000 in TensorRT-LLM and 1,500 in vLLM.
        """
        return 1.0 if self.reserves else GROWING_SHARE


class Mark(Row):
    """Words of the name of a repository that say its format."""

    words: tuple[str, ...]
    formats: tuple[str, ...]


class EngineTable(Row):
    """Engines and formats by name, and how the names and files of models say a format; `engines.yaml` explains it."""

    formats: dict[str, WeightFormat]
    engines: dict[str, Engine]
    release: str
    gguf: tuple[str, ...]
    marks: tuple[Mark, ...]
    unusable: dict[str, str]
    methods: dict[str, dict[str, str]]

    def engine_behind(self, written: str) -> str | None:
        """Return the engine of that name or other spelling; None where there is none."""
        return _behind(written, self.engines)

    def fitted_as(self, name: str) -> str:
        """Return the format whose coefficients of speed hold for a format: its own, or one that was fitted with it."""
        return (self.formats[name].like if name in self.formats else "") or name

    def is_16_bit(self, name: str) -> bool:
        """Return whether weights of a known format lie in 16 bits, as releases and merged models do."""
        return self.formats[name].bits == 16

    def format_behind(self, written: str) -> str | None:
        """Return the format of that name or other spelling, what stands in brackets left out; None where unknown."""
        return _behind(written.partition("(")[0], self.formats)


def _behind(written: str, rows: Mapping[str, Engine | WeightFormat]) -> str | None:
    wanted = written.strip().casefold()
    found = next((name for name, row in rows.items() if wanted == name or wanted in row.names), None)
    if found is None and (key := fold(written)):
        labels = ((name, (name, getattr(row, "label", name), *row.names)) for name, row in rows.items())
        found = next((name for name, words in labels if key in map(fold, words)), None)
    return found


def read_engines() -> EngineTable:
    """Return the table."""
    return _read(data_folder("models"))


@cache
def _read(models: Path) -> EngineTable:
    file = str(models / "techniques" / "engines.yaml")
    return EngineTable.model_validate(parse_value(read_text(file), file))


# Shipped profiles of load: `models/techniques/load_profiles.yaml`.


class LoadProfile(Row):
    """Load by the hour of a week, from Monday 0:00 on, as shares of the peak."""

    numbers: tuple[float, ...]
    source: str


def read_load_profiles() -> Mapping[str, LoadProfile]:
    """Return the profiles by name."""
    return _load_profiles_read(data_folder("models"))


@cache
def _load_profiles_read(models: Path) -> dict[str, LoadProfile]:
    file = str(models / "techniques" / "load_profiles.yaml")
    return {name: LoadProfile.model_validate(row) for name, row in parse_value(read_text(file), file).items()}


@dataclass(frozen=True)
class QualityFact:
    """One finding, with the setting that it was made in and its source."""

    against: str
    setting: str
    finding: str
    source: str
    technique: str = ""  # 0/1 name, empty where one value of a technique is meant
    value: tuple[tuple[str, str], ...] = ()
    short: str = ""


def quality_facts() -> tuple[QualityFact, ...]:
    """Return every finding, in the order of the file."""
    return _quality_read(str(data_folder("models") / "techniques" / "quality.yaml"))


@cache
def _quality_read(file: str) -> tuple[QualityFact, ...]:
    rows: list[dict[str, Any]] = parse_value(read_text(file), file)
    return tuple(QualityFact(**{**row, "value": tuple(row.get("value", {}).items())}) for row in rows)


def facts_on(in_use: Collection[str], values: Mapping[str, Any]) -> tuple[QualityFact, ...]:
    """Return what is worth a note on techniques in use, by their 0/1 names and values."""
    return tuple(
        fact
        for fact in quality_facts()
        if fact.short and (fact.technique in in_use or (fact.value and all(values.get(k) == v for k, v in fact.value)))
    )


@dataclass(frozen=True)
class Published:
    """What was found on a technique that articles recommend, and whether a scenario decides it."""

    name: str
    decides: str
    """`yes`, `no`, or for what kind of job."""
    why: str
    where: str
    """Key of a scenario; empty where there is none."""
    found: tuple[QualityFact, ...]


@cache
def published_techniques() -> dict[str, Published]:
    """Return every technique of `published.yaml` by name, in the order of the file."""
    file = str(data_folder("models") / "techniques" / "published.yaml")
    rows: dict[str, dict[str, Any]] = parse_value(read_text(file), file)
    techniques = {}
    for name, row in rows.items():
        facts = tuple(QualityFact(against="", **fact) for fact in row["found"])
        techniques[name] = Published(name, row["decides"], row["why"], row["where"], facts)
    return techniques


def _format_words(name: str) -> set[str]:
    return set(re.split(r"[-_ :.]+", name.casefold().rpartition("/")[2]))


def formats_in_name(name: str) -> tuple[str, ...]:
    """Return the formats of weights that the name of a repository says; none where it says nothing."""
    words = _format_words(name)

    def said(pattern: str) -> bool:
        return any(re.fullmatch(pattern, word) for word in words)

    return next((mark.formats for mark in read_engines().marks if all(map(said, mark.words))), ())


def unusable_format(name: str) -> str | None:
    """Return the format of weights that a name says and nothing here loads: MLX of `mlx-community/...`; else None."""
    owner = name.casefold().rpartition("/")[0]
    labels = [label for word, label in read_engines().unusable.items() if word in _format_words(name)]
    return "MLX" if "mlx" in owner.split("-") else labels[0] if labels else None


def release_name(base: str, published: tuple[str, ...], formats: tuple[str, ...]) -> str:
    """Return the name of a model that is read from weights in some formats.

    The base itself where it is released so, and for GGUF files of a 4-bit release, which keep its blocks.
    """
    table = read_engines()
    if not formats or published[0] == formats[0]:
        return base
    if formats == table.gguf and table.formats[published[0]].bits < 8:
        return base
    return f"{base}-{formats[0]}"


def split_release(name: str, bases: frozenset[str]) -> tuple[str, str] | None:
    """Return base and format of a name that `release_name` made; None for any other."""
    table = read_engines()
    for form in table.formats:
        base = name.removesuffix(f"-{form}")
        if base != name and base in bases:
            return base, form
    return None


def hosted_name(architecture: str) -> str:
    """Return the name under which services that answer by the token offer a model, whatever format it is read from."""
    table = read_engines()
    ends = [f"-{form}" for form in table.formats]
    return next((architecture.removesuffix(end) for end in ends if architecture.endswith(end)), architecture)


# The format of weights that a release states.


def formats_of_config(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the format of weights that a config.json says under `quantization_config`; bf16 without it.

    `NotCovered` for what nothing here loads, and for layers of several formats.
    """
    wanted = config.get("quantization_config") or config.get("compression_config")
    if wanted is None:
        return (read_engines().release,)
    if not isinstance(wanted, Mapping):
        raise NotCovered("quantization_config", f"{format_value(wanted)} is no mapping", "leave it out, or correct it")
    formats = _formats_of(wanted)
    if len(formats) != 1 or None in formats:
        what = f"weights of {_stated_format(wanted)} are loaded by no engine here"
        if len(formats) > 1:
            what = f"layers of several formats ({_stated_format(wanted)}), where the estimates have one for all"
        raise NotCovered("quantization_config", what, "give the config.json of the release that they were made from")
    return tuple(form for form in formats if form is not None)


def _formats_of(wanted: Mapping[str, Any]) -> list[str | None]:
    """Return the formats that the parts of a release have, each once; None for what nothing here loads."""
    table = read_engines()
    algorithm = _algorithm(wanted)
    if algorithm is not None:  # of ModelOpt, whatever quant_method says next to it
        parts = _algorithms_by_layer(wanted) if algorithm.casefold() == MIXED else (algorithm,)
        return list(dict.fromkeys(table.methods["modelopt"].get(part.casefold()) for part in parts)) or [None]
    method = _method(wanted)
    if method in ("compressed-tensors", "quark"):
        groups = wanted.get("config_groups")
        return list(dict.fromkeys(map(_of_group, groups.values()))) if isinstance(groups, Mapping) else [None]
    row = table.methods.get(method, {})
    bits = str(wanted.get("bits", wanted.get("w_bit"))).casefold()
    loaded = (key for key in ("load_in_4bit", "load_in_8bit") if wanted.get(key))
    return [next((row[name] for name in (*loaded, bits, "any") if name in row), None)]


MIXED = "mixed_precision"
"""The algorithm of ModelOpt under which each layer has one of its own."""


def _algorithm(wanted: Mapping[str, Any]) -> str | None:
    """Return the algorithm of ModelOpt, in config.json or in its own file; `NO_QUANT` where the cache alone has one."""
    inner = wanted.get("quantization")
    for part in (wanted, inner if isinstance(inner, Mapping) else {}):
        if part.get("quant_algo") or ("quant_algo" in part and part.get("quant_method") in (None, "modelopt")):
            return str(part["quant_algo"] or "NO_QUANT")
    return None


def _algorithms_by_layer(wanted: Mapping[str, Any]) -> tuple[str, ...]:
    inner = wanted.get("quantization")
    layers = wanted.get("quantized_layers") or (inner.get("quantized_layers") if isinstance(inner, Mapping) else None)
    if not isinstance(layers, Mapping):
        return ()
    named = (str(row["quant_algo"]) for row in layers.values() if isinstance(row, Mapping) and row.get("quant_algo"))
    return tuple(sorted(set(named)))


def _method(wanted: Mapping[str, Any]) -> str:
    return str(wanted.get("quant_method") or wanted.get("quant_type") or "").casefold()


def _of_group(group: Any) -> str | None:
    """Return the format of one group of compressed-tensors: bits and type of weights, and of inputs."""
    if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
        return None
    weights = group["weights"]
    whole, bits = weights.get("type", "int") == "int", weights.get("num_bits")
    if whole:
        return {4: "gptq", 8: "int8" if group.get("input_activations") else "int8-weights"}.get(bits)
    four = "mxfp4" if weights.get("group_size") == 32 else "nvfp4"
    return {4: four, 8: "fp8"}.get(bits)


def _stated_format(wanted: Mapping[str, Any]) -> str:
    """Return what a file says of the format of its weights, such as `quant_method 'gptq' with bits 3`."""
    algorithm, groups = _algorithm(wanted), wanted.get("config_groups")
    if algorithm is not None:
        parts = _algorithms_by_layer(wanted)
        return f"quant_algo {algorithm}{': ' if parts else ''}{' and '.join(parts)}"
    said = f"quant_method {format_value(wanted['quant_method'])}" if "quant_method" in wanted else "no quant_method"
    if isinstance(groups, Mapping):
        weights = [group["weights"] for group in groups.values() if isinstance(group, Mapping) and group.get("weights")]
        kinds = [
            f"{weight.get('num_bits')}-bit {weight.get('type', 'int')}"
            for weight in weights
            if isinstance(weight, Mapping)
        ]
        return f"{said}{': ' if kinds else ''}{' and '.join(dict.fromkeys(kinds))}"
    bits = wanted.get("bits", wanted.get("w_bit"))
    return said if bits is None else f"{said} with bits {format_value(bits)}"
