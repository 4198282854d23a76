"""The files of `models/`: reading them into a `Library`, searches in it, and the models that are made by rule.

Shapes that follow the rules of a family, models between two sizes, and the formats in which weights are published.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import ValidationError

from planner.documents.files import Document, data_folder, read_document, read_shipped
from planner.documents.tables import JsonDocument
from planner.documents.validation import Source, find_name, fold, name_fix, suggest_names, validation_complaints
from planner.errors import Fault, InputError, LibraryError, collect_faults, raise_faults
from planner.library.decoder_keys import NotCovered
from planner.library.engines import (
    Engine,
    formats_in_name,
    formats_of_config,
    read_engines,
    release_name,
    split_release,
    unusable_format,
)
from planner.library.names import find_architecture, find_gpu, gpu_group, gpu_with_memory, refused_chip, split_count
from planner.library.schema import Architecture, Calibration, Card, GpuSpec, Library
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


# Shapes that follow the rules of a family, and the models of a family between two sizes.
#
# A generated shape is called `llama-24x3072`: 24 layers of width 3,072. Its name says all of it, so that every command
# understands it.


VOCABULARY = 32_768
"""Rows of the embedding of a generated shape."""
HEAD_DIM = 128
"""Width of a head, as in LLaMA 7B to 65B (Touvron et al. 2023, arXiv:2302.13971, table 2)."""
FFN_MULTIPLE = 256
"""LLaMA rounds 8/3 of the width up to a multiple of this (`multiple_of` in its release)."""
CONTEXT = 4096
LADDER_LAYERS = range(4, 65, 2)
"""Layers of the ladder; the width is 128 times as much, as LLaMA 7B (32 x 4,096) and 13B (40 x 5,120) have it."""
MOST_LAYERS, MOST_HIDDEN = 200, 32_768
GENERATED_FAMILIES = ("llama",)
"""Families with a rule for shapes; of the others only the shipped models take part."""

_NAME = re.compile(r"llama-(\d{1,3})x(\d{3,5})", re.IGNORECASE)


def generated_name(layers: int, hidden: int) -> str:
    """Return the name of a generated shape."""
    return f"llama-{layers}x{hidden}"


def find_generated(wanted: str) -> str | None:
    """Return the name of the generated shape that a text names; None where it is none that frameworks take."""
    found = _NAME.fullmatch(wanted.strip())
    if found is None:
        return None
    layers, hidden = int(found[1]), int(found[2])
    if not 1 <= layers <= MOST_LAYERS or hidden % HEAD_DIM or not HEAD_DIM <= hidden <= MOST_HIDDEN:
        return None
    return generated_name(layers, hidden)


def describe_misfit(wanted: str) -> str | None:
    """Return why a text of the form of a generated shape names none; None where it does, or has another form."""
    if _NAME.fullmatch(wanted.strip()) is None or find_generated(wanted):
        return None
    return f"1 to {MOST_LAYERS} layers, and a width that {HEAD_DIM} divides, such as llama-24x3072"


def generate(name: str) -> Architecture:
    """Return a generated shape by its name: heads of 128, gated feed-forward of 8/3 of the width, untied head."""
    layers, hidden = (int(part) for part in name.removeprefix("llama-").split("x"))
    ffn = -(-8 * hidden // 3 // FFN_MULTIPLE) * FFN_MULTIPLE
    layer = 4 * hidden**2 + 3 * hidden * ffn + 2 * hidden
    parameters = 2 * VOCABULARY * hidden + layers * layer + hidden
    return Architecture(
        name=name,
        family="llama",
        parameters=parameters,
        active_parameters=parameters,
        parameters_basis="computed",
        layers=layers,
        hidden=hidden,
        heads=hidden // HEAD_DIM,
        kv_heads=hidden // HEAD_DIM,
        head_dim=HEAD_DIM,
        ffn=ffn,
        vocab=VOCABULARY,
        max_sequence=CONTEXT,
        source="made from the rules of LLaMA (arXiv:2302.13971)",
    )


def families() -> dict[str, int]:
    """Return the families of shipped models that are trained on tokens without experts, with their number."""
    counts: dict[str, int] = {}
    for name, family, _ in _dense_models():
        del name
        counts[family] = counts.get(family, 0) + 1
    return counts


def members(family: str, least: float, most: float) -> tuple[str, ...]:
    """Return the names of the family's models with `least` to `most` parameters, smallest first."""
    sizes = [(size, name) for name, its, size in _dense_models() if its == family]
    if family in GENERATED_FAMILIES:
        made = (generate(generated_name(layers, HEAD_DIM * layers)) for layers in LADDER_LAYERS)
        sizes += [(model.parameters, model.name) for model in made]
    return tuple(name for size, name in sorted(sizes) if least <= size <= most)


def _dense_models() -> list[tuple[str, str, int]]:
    """Return name, family and parameters of the shipped decoders without experts that a job may leave open."""
    folder = data_folder("models") / "architectures"
    cards = (read_shipped(path).data for path in sorted(folder.glob("*.yaml")))
    return [
        (card["name"], card["family"], int(card["parameters"]))
        for card in cards
        if card.get("kind", "decoder") == "decoder" and not card.get("experts") and not card.get("named_only")
    ]


# Formats in which the weights of a model are published, what its name says of them, and who can use them.
#
# A model is released in one format, the first of `Architecture.published`. Of a release in 16 bits any other format can
# be made. Of one that is quantised already (gpt-oss in MXFP4, DeepSeek-V3 in FP8) only the formats that are published
# exist. A name such as `Qwen/Qwen2.5-7B-Instruct-AWQ` means the model `qwen2.5-7b-awq`, which has that format alone.


def is_16_bit(architecture: Architecture) -> bool:
    """Return whether the release is in 16 bits (or 32), so that every other format can be made of it."""
    return read_engines().formats[architecture.published[0]].bits >= 16


def servable_formats(engine: Engine, architecture: Architecture) -> tuple[str, ...]:
    """Return the formats in which an engine can serve a model, those that are meant first before others.

    Of a release in 16 bits all that the engine loads, of a quantised one those of them that are published.
    """
    if is_16_bit(architecture):
        table, own = read_engines(), architecture.published
        # Of two alike the one that can be downloaded is meant.
        kinds = [table.fitted_as(form) for form in engine.formats]
        return tuple(sorted(engine.formats, key=lambda form: (kinds.index(table.fitted_as(form)), form not in own)))
    return tuple(form for form in architecture.published if form in engine.formats)


def release_bits(published: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the bits of weights that are meant where none are given: those of a quantised release, else None."""
    bits = read_engines().formats[published[0]].bits
    return None if bits >= 16 else (bits,)


def describe_published(architecture: Architecture) -> str:
    """Return a clause such as `gpt-oss-20b is published in mxfp4 and bf16`."""
    *most, last = architecture.published
    return f"{architecture.name} is published in {', '.join(most)}{' and ' if most else ''}{last}"


WHOLE_SHARE = 0.8
"""Share of the memory that weights in 16 bits may take where an engine quantises them while it loads them."""


def conversion(architecture: Architecture, form: str, engine: Engine, own: bool, usable_gib: float) -> str | None:
    """Return what a user must do to have weights in a format; None where they are the release or the engine makes them.

    `own`: the weights are the user's own, in 16 bits, such as merged adapters. `usable_gib`: of the GPUs of a replica,
    which hold the weights in 16 bits where the engine quantises them.
    """
    formats, published = read_engines().formats, architecture.published
    from_16_bit = own or is_16_bit(architecture)
    if (form == published[0] and not own) or (formats[form].bits >= 16 and from_16_bit):
        return None
    if form in engine.makes and from_16_bit and architecture.parameters * 2 / GIB < WHOLE_SHARE * usable_gib:
        return None
    if form in published and not own:
        return f"needs a copy in {form}: it is published, and the release is in {published[0]}"
    release = "merged weights are in bf16" if own else f"the release is in {published[0]}"
    return f"needs weights that you convert to {form} with {formats[form].maker}: {release}"


FUSED_EXPERTS = frozenset({"gpt_oss", "llama4_text"})
"""Families whose experts are one tensor, not linear layers: bitsandbytes leaves them in 16 bits (linears.yaml; issue
1849 of bitsandbytes, pull request 1965 of 2026-06). Unsloth's own loading holds them as linear layers."""


def training_refusal(
    architecture: Architecture, method: str, bits: int, quant: str, framework: str, whole_experts: bool = False
) -> str | None:
    """Return why a model cannot be trained so from the weights that are published; None where it can.

    Weights in fp8, mxfp4 and GGUF are dequantised to 16 bits when they are loaded (Transformers documentation:
    FineGrainedFP8, MXFP4, GGUF), and all methods follow. Others stay frozen as they are. `whole_experts`: experts keep
    16 bits whatever the others have.
    """
    form = architecture.published[0]
    kept = read_engines().formats[form].trained
    if kept == "none":
        return f"{architecture.name} holds {form} weights, which no framework trains: name its 16-bit release"
    if kept == "16 bit":
        if bits < 16 and architecture.family in FUSED_EXPERTS and framework != "unsloth" and not whole_experts:
            return f"the experts of {architecture.name} are no linear layers, which alone are quantised here"
        return None
    if method != "lora" or quant.partition("_")[0] != kept:  # nf4_dq: the same blocks
        return f"{architecture.name} holds {form} weights: they are trained as they are (lora, quant {kept})"
    return None


def held_quant(architecture: Architecture) -> str | None:
    """Return the quantisation in which a base stays frozen because its weights are published so; None where none."""
    kept = read_engines().formats[architecture.published[0]].trained
    return None if kept in ("16 bit", "none") else kept


def training_conversion(architecture: Architecture, bits: int) -> str | None:
    """Return what frameworks make of a quantised release to train it; None where they take it as it is."""
    form = architecture.published[0]
    row = read_engines().formats[form]
    if row.bits >= 16 or row.trained != "16 bit":
        return None
    then = "" if bits >= 16 else f", then quantised to {bits} bits"
    return f"trains {form} weights dequantised to bf16{then} (the release is in {form})"


_Card = TypeVar("_Card", bound=Card)


def is_config_path(architecture: str) -> bool:
    """Whether an architecture is a path (a Hugging Face config.json, or a card of one's own) rather than a name."""
    return architecture.endswith((".json", ".yaml", ".yml"))


_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class CardNames:
    """Names of the cards of one kind; aliases are read only when a name is no card's own."""

    def __init__(self, kind: Literal["architectures", "gpus"]):
        self._find = find_gpu if kind == "gpus" else find_architecture
        self.folder = data_folder("models") / kind
        self.names = tuple(sorted(path.stem for path in self.folder.glob("*.yaml")))
        self.own = frozenset(self.names)
        self._listing = f"planner {kind} list"

    @cached_property
    def by_alias(self) -> dict[str, str]:
        """Case-folded name or alias -> name."""
        aliases: dict[str, str] = {}
        for name in self.names:
            for alias in read_shipped(self.folder / f"{name}.yaml").data.get("aliases", ()):
                aliases.setdefault(alias.casefold(), name)
        return aliases | {name.casefold(): name for name in self.names}

    def canonical(self, wanted: str) -> str | None:
        """Return the name behind a name, alias or other spelling of one in any case; None where there is none."""
        if wanted in self.own:
            return wanted
        if self._find is find_architecture and (made := find_generated(wanted)) is not None:
            return made
        found = self.by_alias.get(wanted.casefold())
        if found is not None or self._find is not find_architecture:
            found = found or self._find(wanted, self.by_alias) or self._by_letters(wanted)
            return found or gpu_with_memory(wanted, self.canonical, self._memory_gib)
        found = None if unusable_format(wanted) else self._find(wanted, self.by_alias) or self._by_letters(wanted)
        if found is None:
            return None
        return release_name(found, self.published(found), formats_in_name(wanted))

    def _memory_gib(self, gpu: str) -> float:
        return float(read_shipped(self.folder / f"{gpu}.yaml").data["vram_gib"])

    def published(self, card: str) -> tuple[str, ...]:
        """Return the formats in which an architecture is published, that of its release first."""
        split = split_release(card, self.own)
        if split is not None:
            return (split[1],)
        shipped = card in self.own and read_shipped(self.folder / f"{card}.yaml").data.get("published")
        return tuple(shipped or (read_engines().release,))

    def _by_letters(self, wanted: str) -> str | None:
        """Return the card whose name or alias has the same letters and digits; None where none or several have."""
        key = fold(wanted)
        names = {name for alias, name in self.by_alias.items() if key and fold(alias) == key}
        return names.pop() if len(names) == 1 else None

    def group(self, wanted: str) -> tuple[str, ...]:
        """Return every GPU that a word means where several may stand: a chip, a card, a generation or a vendor."""
        if several := gpu_group(wanted, self.names):
            return several
        if (card := self.canonical(wanted)) is not None:
            return (card,)
        facts = ((name, read_shipped(self.folder / f"{name}.yaml").data) for name in self.names)
        key = fold(wanted)
        return tuple(name for name, card in facts if key in (fold(card["generation"]), fold(card["vendor"])))

    def suggestion(self, wanted: str) -> str:
        """Return what may have been meant."""
        if self._find is find_architecture and (misfit := describe_misfit(wanted)) is not None:
            return misfit
        if self._find is find_architecture and (label := unusable_format(wanted)) is not None:
            base = self._find(wanted, self.by_alias)
            release = f": name the release that they were made from{f', {base}' if base else ''}"
            return f"its name says {label} weights, which no engine and no framework here loads{release}"
        count, name = split_count(wanted)
        counted = self.canonical(name) if count is not None else None
        if counted is not None:
            return f"a count does not belong here: write {counted}"
        why = refused_chip(name) if self._find is find_gpu else None
        if why is not None:
            return f"nothing is planned with it: {why}"
        # Aliases are for recognising, names for suggesting: a near alias leads to its name.
        close = suggest_names(wanted, self.by_alias)
        names = dict.fromkeys(self.by_alias[alias] for alias in close.split(" or ")) if close else {}
        if self._find is not find_architecture:
            return f"did you mean {' or '.join(names)}?" if names else name_fix(wanted, self.names, self._listing)
        return self._nearest_architectures(wanted, tuple(names))

    def _nearest_architectures(self, wanted: str, close: tuple[str, ...]) -> str:
        """Return up to three names of the family that a name begins with, and how a model is planned without a card."""
        own = wanted.rpartition("/")[2].casefold()
        alike = {name: _same_letters(own, name) for name in self.names}
        least = max(3, len(re.split(r"[^a-z]", own)[0]))
        kin = [name for name in alike if alike[name] >= least]
        names = sorted(kin, key=lambda name: (-alike[name], name not in close))[:3] or list(close)[:3]
        by_hub = f"`planner architectures import {wanted} -o model.yaml` fetches it (extra: hub)"
        path = f"the path of its config.json works{f', and {by_hub}' if _REPOSITORY.fullmatch(wanted) else ''}"
        return f"did you mean {' or '.join(names)}? Else {path}" if names else f"{path}; known: {self._listing}"


def _same_letters(one: str, other: str) -> int:
    """Return how many characters two names have in common from their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (mine, its) in pairs if mine != its), min(len(one), len(other)))


class Cards(Mapping[str, _Card]):
    """The cards of a folder by name, each read when first asked for: a plan on the market needs half of the GPUs."""

    def __init__(self, folder: Path, kind: type[_Card]) -> None:
        self._kind, self._paths = kind, {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        self._read: dict[str, _Card] = {}

    def __getitem__(self, name: str) -> _Card:
        """Return a card; KeyError where there is none, LibraryError with every fault of its file."""
        if name not in self._read:
            faults: list[Fault] = []
            with collect_faults(faults):
                self._read |= _validated(self._paths[name], read_shipped(self._paths[name]), self._kind, faults)
            raise_faults(faults, LibraryError)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._paths)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._paths)

    def __repr__(self) -> str:
        return f"<{len(self)} of {self._kind.__name__}>"


def architecture_names() -> tuple[str, ...]:
    """Return the names of the architectures, sorted."""
    return CardNames("architectures").names


def read_library(architectures: Iterable[str] | None = None) -> Library:
    """Read everything under `models/`; if `architectures` is given, only those (name, alias or config.json path).

    Raises `LibraryError` with every fault of every card that is read. GPUs and coefficients are read when they are
    asked for, except where everything is.
    """
    faults: list[Fault] = []
    models = data_folder("models")
    chosen = _read_architectures(architectures, faults)
    gpus, calibrations = Cards(models / "gpus", GpuSpec), Cards(models / "calibration", Calibration)
    if architectures is None:
        _read_all(gpus, faults)
        _read_all(calibrations, faults)
    raise_faults(faults, LibraryError)
    return Library(architectures=chosen, gpus=gpus, calibrations=calibrations)


def _read_architectures(wanted: Iterable[str] | None, faults: list[Fault]) -> dict[str, Architecture]:
    folder = data_folder("models") / "architectures"
    if wanted is None:
        return _read_all(Cards(folder, Architecture), faults)
    names = CardNames("architectures")
    architectures: dict[str, Architecture] = {}
    for name in dict.fromkeys(wanted):
        with collect_faults(faults):
            architectures |= _one_architecture(name, names, faults)
    return architectures


def _one_architecture(name: str, names: CardNames, faults: list[Fault]) -> dict[str, Architecture]:
    if is_config_path(name):
        return {name: read_config(name)}
    card = names.canonical(name)
    if card is None and os.path.isdir(name):
        raise InputError([Fault(name, 0, "", "a folder is no model", "give the config.json in it")])
    if card is None:
        raise InputError([Fault(name, 0, "", "unknown architecture", names.suggestion(name))])
    if find_generated(card) is not None:
        return {card: generate(card)}
    split = split_release(card, frozenset(names.names)) if card not in names.names else None
    if split is not None:
        (base,) = _one_architecture(split[0], names, faults).values()
        return {card: base.released_in(split[1])}
    path = names.folder / f"{card}.yaml"
    return _validated(path, read_shipped(path), Architecture, faults)


def read_config(path: str) -> Architecture:
    """Return the architecture that a config.json or a card describes, named by its path; or raise `InputError`."""
    from planner.documents.tables import read_json

    if path.endswith(".json"):
        return config_architecture(read_json(path, CONFIG_WANTED, keeps_infinity=True), path, formats_next_to(path))
    document = read_document(path)
    source = Source(path, document)
    try:
        card = Architecture.model_validate(document.data)
    except ValidationError as error:
        raise InputError(source.faults(validation_complaints(error, Architecture, document.data))) from None
    if card.kind == "decoder" and card.parameters_basis != "estimate":
        _check_count(card, source)
    return card.model_copy(update={"name": path})


COUNT_TOLERANCE = 0.01
"""Largest relative difference of the weights that a card of one's own states from those that its dimensions give."""


def _check_count(card: Architecture, source: Source) -> None:
    from planner.library.huggingface import count_of_card

    try:
        count = count_of_card(card.model_dump())
    except ValueError as error:
        raise InputError([source.fault((), str(error), "correct one of the two")]) from None
    if abs(count - card.parameters) > COUNT_TOLERANCE * card.parameters:
        what = f"{card.parameters:.4g}, where the dimensions give {count:.4g}"
        raise InputError([source.fault(("parameters",), what, "correct what is wrong, or import the model again")])


CONFIG_WANTED = "give the config.json of a causal language model"


CONFIG, MODELOPT_FILE = "config.json", "hf_quant_config.json"
"""The file of a model, and the one in which ModelOpt writes the format of its weights; engines read both."""


def formats_next_to(path: str | Path) -> JsonDocument | None:
    """Return ModelOpt's file in the folder of a config.json; None where there is none, or the file is another."""
    from planner.documents.tables import read_json

    folder, file = os.path.split(path)
    formats = os.path.join(folder, MODELOPT_FILE)
    return read_json(formats, MODELOPT_WANTED) if file == CONFIG and os.path.isfile(formats) else None


MODELOPT_WANTED = "give the file as ModelOpt wrote it, or take it away to plan the model in 16 bits"


def config_architecture(document: JsonDocument, name: str, formats: JsonDocument | None = None) -> Architecture:
    """Return the architecture that a Hugging Face config.json describes; `InputError` with the line of each fault.

    `formats`: the file in which ModelOpt says the format of the weights, where config.json itself does not.
    """
    from planner.library.huggingface import architecture_from_config, language_path

    config = document.data
    if not isinstance(config, dict):
        raise InputError([document.fault((), "the top of the file is not a mapping", CONFIG_WANTED)])
    if formats is not None and not config.get("quantization_config"):
        return _in_formats(document, name, formats)
    try:
        return Architecture.model_validate(architecture_from_config(config, name))
    except LibraryError as error:
        inside, path = config, language_path(config)
        for part in path:
            inside = inside[part]
        places = [(*path, fault.where) if fault.where in inside else (fault.where,) for fault in error.faults]
        faults = [
            fault._replace(file=document.file, line=document.line(place))
            for fault, place in zip(error.faults, places, strict=True)
        ]
        raise InputError(faults) from None
    except ValidationError as error:
        raise InputError(
            Source(document.file, document).faults(validation_complaints(error, Architecture, {}))
        ) from None


def _in_formats(document: JsonDocument, name: str, formats: JsonDocument) -> Architecture:
    """Return the architecture of a config.json in the format of weights that ModelOpt's file says."""
    card = config_architecture(document, name)
    try:
        published = formats_of_config({"quantization_config": formats.data})
    except NotCovered as refused:
        _, what, fix = map(str, refused.args)
        raise InputError([formats.fault(("quantization",), what, fix)]) from None
    if published == (read_engines().release,):  # the cache alone is quantised
        return card
    return card.model_copy(update={"published": published, "published_source": MODELOPT_FILE})


def _read_all(cards: Cards[_Card], faults: list[Fault]) -> dict[str, _Card]:
    """Return the cards of a folder that have no fault."""
    chosen: dict[str, _Card] = {}
    for name in cards:
        with collect_faults(faults):
            chosen[name] = cards[name]
    return chosen


def _validated(path: Path, document: Document, kind: type[_Card], faults: list[Fault]) -> dict[str, _Card]:
    """Return a document as validated data under its name, which is that of its file; nothing where it is faulty."""
    source = Source(str(path), document)
    try:
        card = kind.model_validate(document.data)
    except ValidationError as error:
        faults.extend(source.faults(validation_complaints(error, kind, document.data)))
        return {}
    name: Any = getattr(card, "name", None)
    if name != path.stem:
        faults.append(source.fault(("name",), f"{name!r} is not the file's name", f"call it {path.stem!r}"))
        return {}
    return {name: card}


@cache
def tool_names() -> tuple[str, ...]:
    """Return the tools of training and the launchers: a file is named by its tool and version."""
    files = sorted((data_folder("models") / "exports").glob("*.yaml"))
    return tuple(dict.fromkeys(path.stem.rpartition("-")[0] for path in files))


def find_cards(
    cards: Mapping[str, Architecture], words: Sequence[str] = (), family: str | None = None
) -> list[Architecture]:
    """Return the architectures of a family whose name, alias or family has each of the words, in any case.

    `LibraryError` with what may have been meant where there is none.
    """
    families = {card.family for card in cards.values()}
    if family is not None:
        known = find_name(family, families)
        if known is None:
            raise LibraryError([Fault(family, 0, "", "unknown family", name_fix(family, sorted(families)))])
        family = known
    parts = [part for word in words for part in word.casefold().split()]
    paths = [
        card
        for card in cards.values()
        if family in (None, card.family) and all(part in _searched(card) for part in parts)
    ]
    if not paths:
        wanted = " ".join(words)
        what = f"no architecture{f' of {family}' if family else ''} has these words"
        raise LibraryError([Fault(wanted, 0, "", what, CardNames("architectures").suggestion("-".join(parts)))])
    return paths


def _searched(card: Architecture) -> str:
    return " ".join((card.name, card.family, *card.aliases)).casefold()


@cache
def teacher_card(name: str) -> Architecture:
    """Return the card of a teacher, by name or path."""
    (card,) = read_library([name]).architectures.values()
    return card
