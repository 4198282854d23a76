"""A configuration of a training tool as what it says of a job: the field maps of `models/exports` read backwards."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import Document, Marks, parse_document, read_text
from planner.documents.tables import JsonDocument, parse_json
from planner.errors import Fault, InputError, KeyPath, LibraryError, raise_faults
from planner.exports.field_map import (
    FieldMap,
    Refusal,
    field_maps,
    is_all,
    is_pattern,
    matched_modules,
    names_towers,
    reaches_towers,
    read_maps,
    unread_files,
)
from planner.exports.image_configs import read_image_file
from planner.library.engines import formats_in_name
from planner.library.reading import read_library
from planner.library.schema import Architecture
from planner.library.technique_tables import read_techniques

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


# What a configuration of a training tool says of a job, in plain words.


_OF_ADAPTERS: tuple[KeyPath, ...] = (
    *(("lora", "rank"), ("lora", "targets"), ("lora", "dora"), ("lora", "adapt_head"), ("lora", "experts_16_bit")),
    *(("techniques", "weight_bits"), ("techniques", "quant")),
)


@dataclass(frozen=True)
class Held:
    """A value of the file that the plan keeps: its place in a job, and the field that says it."""

    place: KeyPath
    value: Any
    field: str
    line: int


@dataclass
class ToolFile:
    """What a file says of a job, what has no effect on a plan, and what is not modelled (field -> why)."""

    file: str
    label: str
    held: dict[KeyPath, Held] = field(default_factory=dict)
    without_effect: list[str] = field(default_factory=list)
    unmodelled: dict[str, str] = field(default_factory=dict)
    about: dict[str, KeyPath] = field(default_factory=dict)
    """What is not modelled of a value that is held -> its place: not said where an option replaces the value."""

    def consistent(self) -> ToolFile:
        """Return it without what says nothing of full training: adapters, and bits of a base that is not frozen.

        Where the file leaves it open whether 16-bit weights have fp32 masters, sharding decides: FSDP and DeepSpeed of
        all trainers that are read make them.
        """
        if self._value("techniques", "method") == ["full"]:
            for place in _OF_ADAPTERS:
                self.held.pop(place, None)
            if self._shards() and isinstance(precisions := self._value("techniques", "precision"), list):
                table = read_techniques().values.precision.values
                masters = [name for name in precisions if table[name].autocast]
                place = ("techniques", "precision")
                self.held[place] = replace(self.held[place], value=masters or precisions)
        return self

    def _shards(self) -> bool:
        """Whether the file itself asks for FSDP or DeepSpeed."""
        table = read_techniques().values.sharding.values
        sharded = any(table[name].zero_stage for name in self._value("techniques", "sharding") or ())
        return sharded or self._value("framework") == "deepspeed"

    def _value(self, *place: str) -> Any:
        return self.held[place].value if place in self.held else None


def describe(tool_file: ToolFile, replaced: Collection[KeyPath] = ()) -> list[str]:
    """Return what is held, what has no effect, and what is not modelled, as lines of plain words."""
    lines = [f"From {tool_file.file} ({tool_file.label})"]
    kept = [
        f"{'.'.join(map(str, entry.place))} {_listed(entry)} ({entry.field})"
        for entry in tool_file.held.values()
        if entry.place not in replaced
    ]
    lines.append(f"  Held: {'; '.join(kept) or 'nothing'}")
    if replaced:
        others = [entry.field for entry in tool_file.held.values() if entry.place in replaced and entry.line]
        if others:
            lines.append(f"  Not held, because an option says otherwise: {', '.join(others)}")
    lines.append("  Chosen: machines, and every technique that is not named above")
    if tool_file.without_effect:
        lines.append(f"  No effect on hours, memory or dollars: {', '.join(tool_file.without_effect)}")
    said = {name: why for name, why in tool_file.unmodelled.items() if tool_file.about.get(name) not in replaced}
    lines += [f"  Not modelled: {name}: {why}" for name, why in said.items()]
    return lines


def _listed(held: Held) -> str:
    if isinstance(held.value, dict):
        return ", ".join(f"{key} {value}" for key, value in held.value.items())
    between = ", " if held.place == ("lora", "targets") else " or "
    return between.join(map(str, held.value)) if isinstance(held.value, list) else str(held.value)


NESTED = "deepspeed"
"""Field with the configuration of DeepSpeed, or the path of its file."""
_WANTED = "give a configuration of TRL, Axolotl, LLaMA-Factory, torchtune, LitGPT, verl, DeepSpeed or Accelerate"
PLAIN_TRAINING = "give a file of supervised fine-tuning or pretraining"
_WITHOUT = "to plan without it, take it out of a copy of the file or give it another value"
_UNLIMITED = (
    "samples are not cut, and rows are as long as their longest sample: --sequence-length gives it, "
    "or the length of the scenario is assumed"
)
_PLACES: dict[str, KeyPath] = {
    "model_id": ("architecture",),
    "steps": ("work", "steps"),
    "sequence_length": ("sequence_length",),
    "global_batch": ("global_batch",),
    "resolution": ("work", "resolution"),
    "frames": ("work", "frames"),
    "lora_rank": ("lora", "rank"),
    "lora_modules": ("lora", "targets"),
    "lora_target_text": ("lora", "targets"),
}
"""Fact that a field has -> place in a job that says the same."""
_COUNTS = (
    "steps",
    "sequence_length",
    "global_batch",
    "lora_rank",
    "micro_batch",
    "accumulation_steps",
    "resolution",
    "frames",
)
ALL_OF_A_LAYER = set("qkvo") | {"gate", "up", "down"}
"""Matrices of a dense layer, which are all that adapters extend."""
EMBEDDINGS = frozenset({"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings"})
"""Modules of embedding and head, as models of Transformers call them."""
HEAD = "lm_head"
"""The output layer as a target of adapters, which a plan has next to those of the layers."""
BY_DEFAULT = "by default"
"""Value of a field that the file leaves out, and the default of the tool gives."""


def read_tool_file(path: str | Path) -> ToolFile:
    """Return what a file of one of the tools says; `InputError` with every fault of the file, each with its line.

    Files of reinforcement learning are read by `rl_configs.read_training_file`, which asks this one for all others.
    """
    text, file = read_text(path), str(path)
    if (of_images := read_image_file(text, file)) is not None:
        image_document, tool = of_images.document(file)
        tool_file = _Reader(image_document, Path(file).parent, tool).read()
        tool_file.unmodelled |= of_images.notes
        return tool_file
    is_json = file.endswith(".json")
    document = parse_json(text, file, _WANTED) if is_json else parse_document(text, file, takes_last=True)
    if not isinstance(document.data, dict):
        raise InputError([Fault(file, 1, "", "is no mapping of fields to values", _WANTED)])
    return _Reader(document, Path(file).parent).read()


LEAST_KNOWN = 0.5
"""Share of a file's fields that the map of a tool knows, below which the file is none of that tool."""


def _tool_of(document: Document | JsonDocument) -> FieldMap:
    """Return the map that knows the largest share of a file's fields; InputError where none knows enough of them."""
    names = flattened(document.data)
    meant = next((kind for kind in unread_files() if kind.fits([*names, *document.data])), None)
    if meant is not None:
        raise InputError([Fault(document.file, 1, "", f"is {meant.what}, which is not read here", meant.do or _WANTED)])
    scored = []
    for tool in read_maps().values():
        if not _shows(tool, {*document.data, *names}):
            continue
        known = known_fields(tool)
        share = sum(is_known_field(name, known) for name in names) / len(names)
        scored.append((share, -len(known), tool))
    if not scored:
        problem = "has no field by which a tool that is read here is known"
        raise InputError([Fault(document.file, 1, "", problem, _WANTED)])
    share, _, tool = max(scored, key=lambda score: score[:2])
    if share < LEAST_KNOWN:
        problem = f"looks most like a file of {tool.label}, which has {share:.0%} of its {len(names)} fields"
        raise InputError([Fault(document.file, 1, "", problem, _WANTED)])
    return tool


def _shows(tool: FieldMap, names: Collection[str]) -> bool:
    """Return whether a file with these fields may be one of the tool: it has a field of the tool, and names a model.

    Without a model it has two such fields: files of other programs have a `stage` or a `template`, too.
    """
    shown = set(tool.read.shown_by).intersection(names)
    of_model = next((name for name, value in flattened(tool.always).items() if value == "$model_id"), None)
    return len(shown) > 1 or (bool(shown) and (of_model is None or of_model in {*names, *shown}))


def known_fields(tool: FieldMap) -> set[str]:
    """Return the dotted names of the fields that the map of a tool writes, reads, or leaves to the user."""
    return {*_fields(tool), *tool.read.names()}


def is_known_field(name: str, known: Collection[str]) -> bool:
    """Return whether a map knows a dotted field, or one that it lies in."""
    return any(name.rsplit(".", drop)[0] in known for drop in range(name.count(".") + 1))


def _fields(tool: FieldMap) -> Iterator[str]:
    parts = [tool.always, *(value for values in tool.techniques.values() for value in values.values())]
    for part in (*parts, *(row.write for row in tool.rows), tool.last, tool.defaults):
        yield from flattened(part)


def flattened(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return the values inside mappings by their dotted names; null says nothing."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{before}{key}.")
        elif value is not None:
            flat[f"{before}{key}"] = value
    return flat


def _nulls(data: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the dotted names of the fields that are null."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _nulls(value, f"{before}{key}.")
        elif value is None:
            yield f"{before}{key}"


def _number(value: Any) -> Any:
    """Return a count with underscores, such as 500_000, as the number that the tools' YAML reads it as."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,3}(_\d{3})+", value) else value


_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


def _plain(value: Any) -> Any:
    """Return a value as two spellings of it compare: words for true and false, text without case."""
    if isinstance(value, str):
        return _WORDS.get(value.casefold(), value.casefold())
    return value


class _Reader:
    """One file: every field is consumed by what reads it, and what is left over is listed."""

    def __init__(self, document: Document | JsonDocument, folder: Path, tool: FieldMap | None = None):
        self.document, self.folder = document, folder
        chosen = tool or _tool_of(document)
        self.tool = chosen
        self.faults: list[Fault] = []
        self.answer = ToolFile(document.file, f"{chosen.label} {chosen.version}")
        self.nested = document.data.get(chosen.read.nested) if chosen.target != NESTED else None
        data = {key: value for key, value in document.data.items() if value is not self.nested or value is None}
        self.written: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        for name, value in flattened(_merged_lists(resolved(data, data), chosen.read.merged)).items():
            kept = self._renamed(name)
            for part, text in self._parts(kept, value).items():
                meant = chosen.read.same.get(part, {}).get(str(text), text)
                if part == "fsdp" and isinstance(text, str):
                    meant = text.split()  # as Transformers reads its options
                if meant != "auto":  # left to the tool
                    self.written[part], self.values[part] = name, _number(meant)
        if "." in chosen.read.nested:
            self.nested = self.values.pop(chosen.read.nested, None)
        self.left = set(self.values)
        self.nulls = {self._renamed(name) for name in _nulls(data)}
        for shown, names in chosen.read.any_of.items():
            given = [
                name for name in self.values if any(name == field or name.startswith(f"{field}.") for field in names)
            ]
            if given:
                self.values[shown], self.written[shown] = True, self.written[given[0]]

    def _renamed(self, name: str) -> str:
        """Return the name that the map has for a field: the longest part of its path that has another name there."""
        for drop in range(name.count(".") + 1):
            first = name.rsplit(".", drop)[0]
            if first in self.tool.read.renamed:
                return self.tool.read.renamed[first] + name.removeprefix(first)
        return name

    def _parts(self, name: str, value: Any) -> dict[str, Any]:
        """Return the fields that the value of one holds, such as adapters and builder of the path of a class."""
        pattern = self.tool.read.parts.get(name)
        texts = value if isinstance(value, list) else [value]
        matches = [re.fullmatch(pattern, text) if pattern and isinstance(text, str) else None for text in texts]
        if not all(matches):
            return {name: value}
        groups = (match.groupdict() for match in matches if match is not None)
        return {part: text for group in groups for part, text in group.items() if text is not None} or {name: value}

    def read(self) -> ToolFile:
        """Return what the file says; `InputError` with every fault."""
        self._refused()
        self._counts_and_names()
        for row in self.tool.read.rows:
            if all(matches(self.values.get(name), wanted) for name, wanted in row.when.items()):
                name = next((name for name in row.when if name in self.values), BY_DEFAULT)
                for place, value in row.hold.items():
                    self._hold(tuple(place.split(".")), value, name)
                self.left -= set(row.when)
        for technique in self.tool.read.techniques:
            self._technique(technique)
        self._hold_experts()
        self._hold_images()
        self._hold_targets_by_matrix()
        self._batch()
        for name, why in self.tool.read.unsaid.items():
            if name not in self.values:
                self.answer.unmodelled[f"{name} (left out)"] = why
        self._leftovers()
        if isinstance(self.nested, (str, dict)) and self.nested != "":
            self._read_nested()
        runs = Held(("framework",), list(self.tool.frameworks), self.tool.label, 0)  # a launcher: those that it starts
        self.answer.held.setdefault(runs.place, runs)
        self._repeated()
        raise_faults(self._faults_that_count())
        return self.answer.consistent()

    def _repeated(self) -> None:
        """Say which of two values counts of a key that is repeated, or refuse it as the tool does."""
        places = self.document.repeated if isinstance(self.document, Document) else {}
        for place, line in places.items():
            name, again = ".".join(map(str, place)), self.document.line(place)
            if self.tool.read.refuses_repeated:
                problem = f"is repeated, first on line {line}, which {self.tool.label} itself refuses"
                self.faults.append(Fault(self.document.file, again, name, problem, "keep one of them"))
            else:
                self.answer.unmodelled[f"{name} of line {line}"] = (
                    f"the key is repeated on line {again}, and {self.tool.label} takes the last"
                )

    def _faults_that_count(self) -> list[Fault]:
        """Return the faults without those of adapters where nothing but full training reads them: `lora_r: 0`."""
        method = self.answer.held.get(("techniques", "method"))
        if method is None or method.value != ["full"]:
            return self.faults
        unread = {self.written.get(name) for name, fact in self._templates() if fact[1:].startswith("lora_")}
        return [fault for fault in self.faults if fault.where not in unread]

    def _line(self, name: str) -> int:
        return self.document.line(tuple(self.written.get(name, name).split(".")))

    def _hold(self, place: KeyPath, value: Any, name: str) -> None:
        line = 0 if name == BY_DEFAULT else self._line(name)
        self.answer.held.setdefault(place, Held(place, value, self.written.get(name, name), line))

    def _fault(self, name: str, what: str, fix: str) -> None:
        self.faults.append(Fault(self.document.file, self._line(name), self.written.get(name, name), what, fix))

    def _refused(self) -> None:
        """Refuse a file that asks for what no plan has, by the field that asks for it."""
        for name, row in self.tool.read.only.items():
            if name in self.values and self.values[name] not in self.tool.read.same[name].values():
                self._refuse(name, row)
        for row in self.tool.read.refused:
            if all(matches(self._whole(name), wanted) for name, wanted in row.when.items()):
                self._refuse(next(iter(row.when)), row)

    def _whole(self, name: str) -> Any:
        """Return the value of a field; true for one that holds others, which are reported under names of their own."""
        inside = next((field for field in self.values if field.startswith(f"{name}.")), None)
        if name in self.values or inside is None:
            return self.values.get(name)
        self.written.setdefault(name, self.written[inside].removesuffix(inside.removeprefix(name)))
        return True

    def _hold_experts(self) -> None:
        """Hold what the tool does with routed experts that are no linear layers: whole in 16 bits, without adapters.

        Those that the file quantises, or whose release is quantised, have the bits of all weights.
        """
        read, model = self.tool.read, self.facts.get("model_id")
        card = mixture(model) if read.whole_experts and isinstance(model, str) else None
        if card is None:
            return
        targets, bits = (self.answer.held.get(place) for place in (("lora", "targets"), ("techniques", "weight_bits")))
        if targets is not None and targets.value == "all-linear" and self._value_of_method() != ["full"]:
            linears = read_techniques().linears.of(card.family).items()
            others = [path for path, parts in linears if not any(part.startswith("experts.") for part in parts)]
            self.answer.held["lora", "targets"] = replace(targets, value=others)
            self.answer.unmodelled[f"{targets.field} of experts"] = f"{read.whole_experts}, and adapters leave them out"
        if bits is None or bits.value == [16] or formats_in_name(str(model)):
            return
        if self.values.get(read.quantises_experts) is True:
            return
        self.answer.held["lora", "experts_16_bit"] = replace(bits, place=("lora", "experts_16_bit"), value=True)
        self.answer.unmodelled[f"{bits.field} of experts"] = f"{read.whole_experts}, and stay in 16 bits"

    def _hold_images(self) -> None:
        """Hold the images of the data as large as the tool lets them be; say so where no field speaks of any.

        Of 262,144 pixels a square of 512: a file names data, not the sizes and the number of their images.
        """
        read, model = self.tool.read.images, self.facts.get("model_id")
        name = next((field for field in read.shown_by if field in self.values), "") if read else ""
        if read is None or not name:
            if isinstance(model, str) and (card := known_card(model)) is not None and card.tower is not None:
                self.answer.unmodelled["images"] = f"{card.name} reads them; where the data have some, {_ADD_IMAGES}"
            return
        most = self.values.get(read.pixels, read.usual)
        if not isinstance(most, int) or most < 1:
            self._fault(read.pixels, f"{short_text(most)} is no number of pixels", "give such as 262144")
            return
        self.left -= set(read.shown_by)
        images: dict[str, Any] = {"size": math.isqrt(most)}
        if self.values.get(read.trains) is False:
            images["tower"] = "lora" if self._value_of_method() == ["lora"] else "trained"
        self._hold(("work", "image_input"), images, read.pixels if read.pixels in self.values else name)
        told = f"one image of {most:,} pixels in each sample; of others {_ADD_IMAGES}"
        self.answer.unmodelled["images"] = f"{told}, and tokens_per_sample of the text"

    def _value_of_method(self) -> Any:
        held = self.answer.held.get(("techniques", "method"))
        return held.value if held is not None else None

    def _refuse(self, name: str, row: Refusal) -> None:
        fix = row.fix or (PLAIN_TRAINING if row.another_task else _WITHOUT)
        self._fault(name, f"{short_text(self._whole(name))}: {row.why}", fix)

    def _counts_and_names(self) -> None:
        """Read the fields whose value is a fact of the job, and the epochs."""
        self.facts: dict[str, Any] = {}
        names = {fact[1:]: name for name, fact in self._templates() if fact[1:] in (*_PLACES, *_COUNTS)}
        for fact, name in names.items():
            if name not in self.values:
                self._by_default(fact, name)
                continue
            self.left.discard(name)
            value = self.values[name]
            if not (self._is_count(name, value) if fact in _COUNTS else self._is_name(name, value)):
                continue
            value = _cached_repository(value) if fact == "model_id" else value
            self.facts[fact] = value
            if fact in _PLACES:
                if _PLACES[fact] == ("lora", "targets"):
                    self._hold_targets(value, name)
                else:
                    self._hold(_PLACES[fact], value, name)
        self._epochs()

    def _epochs(self) -> None:
        """Hold the epochs, or the steps where the file limits those of each epoch."""
        read, epochs = self.tool.read, self.tool.read.epochs
        if epochs in self.values:
            self.left.discard(epochs)
            value = self.values[epochs]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                self._fault(epochs, f"{value!r} is not a number of epochs", "such as 3")
                return
            if not (read.steps_end and "steps" in self.facts):
                self._hold(("work", "epochs"), value, epochs)
        elif epochs in read.absent and "steps" not in self.facts:
            self._hold(("work", "epochs"), read.absent[epochs], BY_DEFAULT)
        limit = read.steps_per_epoch
        if limit in self.values:
            self.left.discard(limit)
            if self._is_count(limit, self.values[limit]) and epochs in self.values:
                steps = int(self.values[limit] * self.values[epochs])
                self._hold(("work", "steps"), steps, limit)
                self.answer.about[self._shown(limit)] = ("work", "steps")
                self.answer.unmodelled[self._shown(limit)] = (
                    f"{steps} steps of all epochs are held; they are fewer where the data end before"
                )

    def _hold_targets(self, value: Any, name: str) -> None:
        """Hold the modules that adapters extend: a list by ends of names, a string as a regular expression."""
        if not (isinstance(value, str) and is_pattern(value)):
            targets = _targets(value)
            if isinstance(targets, list) and HEAD in targets and len(targets) > 1:
                targets = [target for target in targets if target != HEAD]
                self._hold(("lora", "adapt_head"), True, name)
            if whole := [target for target in targets if target in EMBEDDINGS]:
                self._fault(name, f"{' and '.join(whole)}: a plan has no adapters there", self._trains_embeddings())
            self._hold(("lora", "targets"), targets, name)
            return
        try:
            modules, leaves_out = matched_modules(value)
        except re.error as error:
            self._fault(name, f"is no regular expression: {error}", "such as '.*(q|v)_proj', or a list of names")
            return
        if names_towers(value) and (reaches_towers(value) or not modules):
            why = "adapters in an encoder of images or sound are not planned"
            self._fault(name, f"{short_text(value)}: {why}", "name the language layers alone")
            return
        if not modules:
            self._fault(name, f"{short_text(value)} matches no linear layer that is known", "such as '.*(q|v)_proj'")
            return
        self._hold(("lora", "targets"), modules if leaves_out or not is_all(modules) else "all-linear", name)
        notes = ["adapters of a plan lie in every layer that has such a module"] if leaves_out else []
        if reaches_towers(value):
            notes.append("adapters in an encoder of images or sound, which it matches too, are not counted")
        if notes:
            self.answer.unmodelled[self._shown(name)] = "; ".join(notes)

    def _trains_embeddings(self) -> str:
        """Return how a file of the tool trains embedding and head next to adapters."""
        rows = (row for row in self.tool.read.rows if row.hold.get("lora.train_embeddings"))
        fields = [name for row in rows for name in row.when]
        return (
            f"list them under {fields[0]}, which trains them whole"
            if fields
            else "leave them out of a copy of the file"
        )

    def _hold_targets_by_matrix(self) -> None:
        """Hold the matrices that adapters extend where each has a field of its own."""
        read = self.tool.read
        chosen: list[str] = []
        for row in read.targets:
            if all(matches(self.values.get(name, read.absent.get(name)), wanted) for name, wanted in row.when.items()):
                chosen += row.add
            self.left -= set(row.when)
        self.left.discard(read.target_list)
        listed = self.values.get(read.target_list) or []
        if not isinstance(listed, list):
            self._fault(read.target_list, f"{short_text(listed)} is no list", "such as [q_proj, v_proj]")
            return
        names = dict.fromkeys(read.target_names.get(str(name), str(name)) for name in (*listed, *chosen))
        if not (read.targets and names):
            return
        field = (
            read.target_list
            if listed
            else next((name for row in read.targets for name in row.when if name in self.values), BY_DEFAULT)
        )
        self._hold(("lora", "targets"), "all-linear" if set(names) >= ALL_OF_A_LAYER else list(names), field)

    def _by_default(self, fact: str, name: str) -> None:
        """Hold the tool's default of a field that the file leaves out."""
        value = None if name in self.nulls else self.tool.read.absent.get(name)
        if value is None and name in self.tool.read.unlimited:
            self.answer.unmodelled[f"{name} null"] = _UNLIMITED
        if value is not None and fact in _PLACES:
            place = _PLACES[fact]
            self._hold(place, _targets(value) if place == ("lora", "targets") else value, BY_DEFAULT)

    def _is_count(self, name: str, value: Any) -> bool:
        """Return whether a value is a positive number; -1 steps are not set, all else that is none is a fault."""
        if name == "max_steps" and value == -1:
            return False
        if isinstance(value, bool) or not isinstance(value, int):
            self._fault(name, f"{value!r} is not a whole number", "such as 8")
            return False
        if value <= 0:
            self._fault(name, f"{value} is not positive", "such as 8")
        return value > 0

    def _is_name(self, name: str, value: Any) -> bool:
        if isinstance(value, (str, list)) and value:
            return True
        self._fault(name, f"{value!r} is not a name", "give a name")
        return False

    def _templates(self) -> Iterator[tuple[str, str]]:
        parts = [self.tool.always, *(value for values in self.tool.techniques.values() for value in values.values())]
        for part in (*parts, *(row.write for row in self.tool.rows), self.tool.read.also):
            yield from (
                (key, text) for key, text in flattened(part).items() if isinstance(text, str) and text[:1] == "$"
            )

    def _technique(self, technique: str) -> None:
        """Hold the values of a technique that agree with the file and say the most of it."""
        read, values = self.tool.read, self.tool.techniques[technique]
        best: list[str] = []
        most, used = -1, set[str]()
        for value, fields in values.items():
            constants = {name: constant for name, constant in flattened(fields).items() if str(constant)[:1] != "$"}
            equal = {
                name
                for name, constant in constants.items()
                if _plain(self.values.get(name, read.absent.get(name))) == _plain(constant)
            }
            stated = equal & self.values.keys()
            if constants.keys() - equal <= set(read.details) and len(stated) >= most:
                best = [*best, value] if len(stated) == most else [value]
                most, used = len(stated), constants.keys() & self.values.keys()
        mine = {name for fields in values.values() for name in flattened(fields)} & set(self.values)
        if technique == "quant" and most == 0 and formats_in_name(str(self.facts.get("model_id", ""))):
            return  # the release is quantised: its name says how
        unknown = self._unknown(technique)
        if unknown:
            self._no_value(technique, unknown)
            return
        if best and (most > 0 or technique in read.by_default):
            said = min(used, key=lambda name: (name in read.details, name), default=BY_DEFAULT)
            self._hold_technique(technique, best, said)
            self.left -= used
        if not best and ("techniques", technique) not in self.answer.held:
            self._no_value(technique, sorted(mine & self.left))

    def _unknown(self, technique: str) -> list[str]:
        """Return the fields of a technique whose value no value of the technique has."""
        values, details = self.tool.techniques[technique].values(), self.tool.read.details
        known: dict[str, list[Any]] = {}
        for fields in values:
            for name, constant in flattened(fields).items():
                known.setdefault(name, []).append(_plain(constant))
        return sorted(
            name
            for name in known.keys() & self.left - set(details)
            if not any(str(constant)[:1] == "$" for constant in known[name])
            and _plain(self.values[name]) not in known[name]
        )

    def _no_value(self, technique: str, names: list[str]) -> None:
        """Refuse a value that no plan has, where memory depends on it; kernels of attention are chosen instead."""
        values = self.tool.techniques[technique]
        self.left -= set(names)
        if technique == "attention":
            for name in names:
                why = f"no {technique} of a plan has this name; chosen from {', '.join(values)}"
                self.answer.unmodelled[self._shown(name)] = why
            return
        for name in names[:1]:
            written = [flattened(fields).get(name) for fields in values.values()]
            known = list(dict.fromkeys(str(text) for text in written if text is not None))
            fix = f"a plan has {', '.join(known)}"
            self._fault(name, f"{short_text(self.values[name])}: no {technique} of a plan is this", fix)

    def _hold_technique(self, technique: str, best: list[str], name: str) -> None:
        if technique == "packing":
            self._hold(("packing",), best[0], name)
        elif technique == "quant":
            table = read_techniques()
            rows = table.bytes.quantised
            bits = sorted({rows[choice].bits if choice in rows else 16 for choice in best})
            self._hold(("techniques", "weight_bits"), bits, name)
            if bits == [4] or best != [table.values.weight_bits.values[bits[0]].quant]:  # not what the bits alone mean
                self._hold(("techniques", "quant"), best, name)
        else:
            self._hold(("techniques", technique), best, name)

    def _batch(self) -> None:
        """Hold the sequences per step; without a number of GPUs they are those of one."""
        names = {value[1:]: name for name, value in self._templates()}
        if self._samples_per_gpu(names):
            return
        stated = [fact for fact in ("micro_batch", "accumulation_steps") if fact in self.facts]
        has_default = bool(self.tool.read.epochs) and names.get("micro_batch") in self.tool.read.absent
        if ("global_batch",) in self.answer.held and "micro_batch" in self.facts:
            self.answer.unmodelled[self._shown(names["micro_batch"])] = (
                "how a step divides into micro-batches is chosen"
            )
        if ("global_batch",) in self.answer.held or not (stated or has_default):
            return
        if "micro_batch" not in names:  # accumulation alone says nothing of how many sequences there are
            name = names["accumulation_steps"]
            why = "the micro-batch that it multiplies stands elsewhere: --set jobs.0.global_batch= holds their product"
            self.answer.unmodelled[self._shown(name)] = why
            return
        used = [fact for fact in ("micro_batch", "accumulation_steps") if fact in names]
        micro, steps = (
            self.facts.get(fact) or self.tool.read.absent.get(names.get(fact, ""), 1)
            for fact in ("micro_batch", "accumulation_steps")
        )
        self._hold(("global_batch",), micro * steps, names[stated[0]] if stated else BY_DEFAULT)
        self.answer.unmodelled[" x ".join((*(names[fact] for fact in used), *["1"] * (2 - len(used))))] = (
            f"{micro} x {steps} = {self._held_samples(micro * steps)} of one GPU; "
            "a file for N GPUs makes N times as many: --set jobs.0.global_batch=. "
            "How they divide into micro-batches is chosen"
        )

    def _held_samples(self, count: int) -> str:
        """Return that so many sequences, images or videos per step are held, in words."""
        frames = self.answer.held.get(("work", "frames"))
        noun = "sequence" if self.tool.unit == "tokens" else "video" if frames and frames.value > 1 else "image"
        return f"{count} {noun} per step is held, that" if count == 1 else f"{count} {noun}s per step are held, those"

    def _samples_per_gpu(self, names: Mapping[str, str]) -> bool:
        """Hold the sequences per step that a field states for one GPU, in whole micro-batches; false without it."""
        name = self.tool.read.samples_per_gpu
        stated = self.values.get(name)
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 1:
            return False
        micro = self.facts.get("micro_batch") or self.tool.read.absent.get(names["micro_batch"], 1)
        held = stated // micro * micro
        if held < 1:
            self._fault(name, f"{stated} samples are less than a micro-batch of {micro}", "give a multiple of it")
            return True
        self._hold(("global_batch",), held, name)
        self.left.discard(name)
        self.answer.unmodelled[self._shown(name)] = (
            f"{held} sequences per step are held, those of one GPU; a file for N GPUs makes N times as many: "
            "--set jobs.0.global_batch=. How they divide into micro-batches is chosen"
        )
        return True

    def _leftovers(self) -> None:
        """List what nothing read, by the longest part of its path that the map says something of."""
        read = self.tool.read
        nothing = {*read.details, *read.without_effect}
        for name in sorted(self.left):
            around = [name.rsplit(".", drop)[0] for drop in range(name.count(".") + 1)]
            key = next((part for part in around if part in nothing or part in read.unmodelled), None)
            shown = self.written[name] if key is None else self.written[name].removesuffix(name.removeprefix(key))
            if key in nothing:
                self.answer.without_effect += [] if shown in self.answer.without_effect else [shown]
            elif key is not None and key != name:
                self.answer.unmodelled[shown] = read.unmodelled[key]
            else:
                why = read.unmodelled.get(name, "not taken into account: no field of the map has it")
                self.answer.unmodelled[self._shown(name)] = why

    def _shown(self, name: str) -> str:
        return f"{self.written[name]} {short_text(self.values[name])}"

    def _read_nested(self) -> None:
        """Read the configuration of DeepSpeed that the file has or names."""
        tool = field_maps()[NESTED]
        if isinstance(self.nested, dict):
            document: Document | JsonDocument = Document(self.document.file, self.nested, self._marks())
        else:
            path = self._found(str(self.nested))
            if path is None:
                self._assume_nested(str(self.nested))
                return
            document = parse_json(read_text(path), str(path), "give the JSON file of DeepSpeed")
            if not isinstance(document.data, dict):
                raise InputError([Fault(str(path), 1, "", "is no mapping of fields to values", _WANTED)])
        reader = _Reader(document, self.folder, tool)
        nested = reader.read()
        if "global_batch" in reader.facts:  # over all GPUs, which the fields of the trainer leave open
            self.answer.held.pop(("global_batch",), None)
            self.answer.unmodelled = {name: why for name, why in self.answer.unmodelled.items() if " x " not in name}
        for place, entry in nested.held.items():
            if place == ("framework",) and isinstance(entry.value, str):
                self._hold_framework(entry.value)
            self.answer.held.setdefault(place, entry)
        self.answer.without_effect += nested.without_effect
        self.answer.unmodelled |= {
            name: why for name, why in nested.unmodelled.items() if " x " not in name or not self.facts
        }

    def _hold_framework(self, name: str) -> None:
        """Hold the framework that the configuration of DeepSpeed means, where the file leaves it open."""
        place = ("framework",)
        own = self.answer.held.get(place)
        if own is None or (isinstance(own.value, list) and name in own.value):
            self.answer.held[place] = Held(place, name, NESTED, own.line if own else 0)

    def _found(self, name: str) -> Path | None:
        """Return the file that a path means: in the working directory, as for the tools, else next to this file."""
        return next((path for path in (Path(name), self.folder / name) if path.is_file()), None)

    def _assume_nested(self, name: str) -> None:
        """Hold the stage that the name of a missing file of DeepSpeed says, with a note."""
        file = Path(name).name.casefold()
        stage = re.search(r"(?:zero|z)[_-]?([123])", file)
        assumed = "its settings are chosen"
        if stage is not None:
            self._hold(("techniques", "sharding"), [f"zero{stage[1]}"], NESTED)
            assumed = f"stage {stage[1]} is assumed from its name, its other settings are chosen"
        if stage is not None and "offload" in file and "param" not in file:
            hosted = "optimizer_and_weights" if stage[1] == "3" else "optimizer"
            if stage[1] == "2":  # on one GPU a plan calls it no sharding
                self.answer.held["techniques", "sharding"] = Held(
                    ("techniques", "sharding"), ["none", "zero2"], NESTED, self._line(NESTED)
                )
            self._hold(("techniques", "offload"), [hosted], NESTED)
            assumed = f"stage {stage[1]} and {hosted} in host memory are assumed from its name"
        if stage is not None and stage[1] == "3":
            self._hold_framework("deepspeed")
        self.answer.unmodelled[f"{NESTED} {name}"] = f"no such file here or next to this one: {assumed}"

    def _marks(self) -> Any:
        marks = self.document.marks if isinstance(self.document, Document) else None
        return marks.children.get(NESTED, Marks(1)) if marks else Marks(1)


_ADD_IMAGES = "add --set 'jobs.0.work.image_input={size: 1280x720, count: 1}'"


def known_card(model: str) -> Architecture | None:
    """Return a model of the library; None of names that it does not know."""
    try:
        (card,) = read_library([model]).architectures.values()
    except LibraryError:
        return None
    return card


def mixture(model: str) -> Architecture | None:
    """Return a model of the library that is a mixture of experts; None of all others, and of names it does not know."""
    card = known_card(model)
    return card if card is not None and card.experts > 0 else None


_CACHED = re.compile(r"models--([^/]+?)--([^/]+)(?:/|$)")


def _cached_repository(value: Any) -> Any:
    """Return the repository that a path of the cache of huggingface_hub names, where it lies on another machine."""
    match = _CACHED.search(value) if isinstance(value, str) else None
    return f"{match[1]}/{match[2]}" if match and not Path(value).exists() else value


def resolved(value: Any, whole: Mapping[str, Any]) -> Any:
    """Return a value with each `${a.b}` replaced by what is there, as OmegaConf reads it; others stay."""
    if isinstance(value, dict):
        return {key: resolved(item, whole) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, whole) for item in value]
    meant = re.fullmatch(r"\$\{([\w.]+)\}", value) if isinstance(value, str) else None
    entry: Any = whole
    for key in meant[1].split(".") if meant else ():
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry if meant and isinstance(entry, (str, int, float, list)) and entry != value else value


def _merged_lists(data: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the fields with each list of mappings under one of the names as the mapping of what all of them say."""
    merged = dict(data)
    for name in names:
        entries = merged.get(name)
        if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
            first = entries[0]
            merged[name] = {key: value for key, value in first.items() if all(e.get(key) == value for e in entries)}
    return merged


def matches(value: Any, wanted: tuple[Any, ...]) -> bool:
    """Return whether a value is one of those wanted; `any` is all but false and empty, `several` a number above one.

    A list is one of them where one of its entries is.
    """
    if value is None:
        return "absent" in wanted
    if "several" in wanted and isinstance(value, int) and value > 1:
        return True
    if isinstance(value, list) and "any" not in wanted:
        return any(matches(entry, wanted) for entry in value)
    return bool(value) if "any" in wanted else _plain(value) in {_plain(choice) for choice in wanted}


def _targets(value: Any) -> Any:
    """Return modules as a scenario lists them; `all` and `all-linear` are all linear layers."""
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else [str(name) for name in value]
    return "all-linear" if names in (["all"], ["all-linear"]) else names


def short_text(value: Any) -> str:
    """Return a value as a message shows it, in at most 40 characters."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
