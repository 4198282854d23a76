"""Field maps of `models/exports`: how decisions are spelt in one version of a tool, and the patterns of adapters.

PEFT 0.21.2, `tuners_utils.check_target_module_exists`: a string has to match the whole name, such as
`model.layers.0.self_attn.q_proj`; an entry of a list is the name or its end after a dot. A pattern is tried on the
names of every family of `models/techniques/linears.yaml`, because a file may be read before its model is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from string import Template
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from planner.documents.files import Document, data_folder, read_document
from planner.documents.tables import json_text
from planner.documents.validation import Row, Source, validation_complaints
from planner.errors import LibraryError, plan_with
from planner.library.technique_tables import Condition, holds, read_techniques
from planner.results.plan import Assignment
from planner.scenario.job_stages import PromptImages
from planner.scenario.offer import Offer

# Field maps of `models/exports`: how the decisions of a plan are spelt in one version of one tool.


Facts = Mapping[str, Any]
"""What an export needs to know of a job, by name; conditions and `$name` of a map refer to it."""


class Writing(Row):
    """Fields that are written, and packages that are needed, where a condition holds."""

    when: Condition
    write: dict[str, Any] = Field(default_factory=dict)
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files of `models/exports` that are written too."""
    beside: dict[str, Any] = Field(default_factory=dict)
    """Name of a file of JSON that is written too -> what it holds, with `$name` for facts; None is left out."""


class Remark(Row):
    """What a reader of the file must know, or why it cannot be written, where a condition holds."""

    when: Condition
    text: str
    setting: str = ""
    """Of a refusal: the setting of a job of kind rl with which it can be written, such as `staleness=0`."""


class ReadRow(Row):
    """What of a job a file holds whose fields have these values.

    `any` means every value but false and empty, `absent` for a field that the file does not have.
    """

    when: Condition
    hold: dict[str, Any]
    """Place in a job, with dots, -> value."""


class Refusal(Row):
    """Why no plan has what a field asks for.

    another_task: the file is not one of supervised training, so that taking the field out would plan another job.
    fix: what to do where it is neither another file nor to take the field out.
    """

    why: str
    another_task: bool = False
    fix: str = ""


class RefusedRow(Refusal):
    """A file whose fields have these values asks for what no plan has; the first field is named."""

    when: Condition


class TargetRow(Row):
    """Matrices that adapters extend where the fields of a file, or the defaults of the tool, have these values."""

    when: Condition
    add: tuple[str, ...]


class ReadImages(Row):
    """How a file says that its data have images: by any of the `shown_by` fields."""

    shown_by: tuple[str, ...]
    pixels: str
    """Field with the pixels to which the tool shrinks images."""
    usual: int
    """Its default."""
    trains: str
    """Field that is false where the tower is trained, by adapters where the method has some."""


class Reading(Row):
    """How a file of the tool is read: what the fields that the map writes do not say by themselves."""

    shown_by: tuple[str, ...] = ()
    """Fields of which every file of the tool has at least one; none: files of the tool are not read."""
    refused: tuple[RefusedRow, ...] = ()
    refuses_repeated: bool = False
    """Whether the tool itself refuses a key that is there twice; PyYAML takes the last."""

    techniques: tuple[str, ...] = ()
    """Techniques whose fields are read backwards."""
    by_default: tuple[str, ...] = ()
    """Those of them that the defaults of the tool decide where a file does not name them."""
    also: dict[str, str] = Field(default_factory=dict)
    """Field -> `$name` of the fact that it says, of fields that the map does not write."""
    absent: dict[str, Any] = Field(default_factory=dict)
    """Default of the tool for a field that a file leaves out."""
    same: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Field -> value as some write it -> the one that the map writes."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Field, or the fields that it holds -> the name that the map has for it."""
    parts: dict[str, str] = Field(default_factory=dict)
    """Field -> regular expression whose named groups are fields of their own, such as the name of a builder.

    Every entry of a list must match; a field without a match is left as it is.
    """
    any_of: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Name -> fields of which one is enough for it to be true."""
    only: dict[str, Refusal] = Field(default_factory=dict)
    """Field that has no other values than those of `same` -> why another one is refused."""
    merged: tuple[str, ...] = ()
    """Lists of mappings that are read as one where they agree, such as data sets."""
    targets: tuple[TargetRow, ...] = ()
    """Where each matrix that adapters extend has a field of its own."""
    target_list: str = ""
    """Field with a list of more such matrices."""
    target_names: dict[str, str] = Field(default_factory=dict)
    """Name that the tool has for a matrix -> that of a plan."""
    whole_experts: str = ""
    """What a note says of experts where the tool neither quantises them nor adapts them with all linear layers."""
    quantises_experts: str = ""
    """Field with which the tool quantises them, too."""
    nested: str = "deepspeed"
    """Field with the configuration of DeepSpeed, or the path of its file."""
    unlimited: tuple[str, ...] = ()
    """Fields of a length that cut nothing where they are null, or left out without a default."""
    unsaid: dict[str, str] = Field(default_factory=dict)
    """Field -> what a note says where a file leaves it out."""
    details: tuple[str, ...] = ()
    """Fields that need not agree, because memory and speed do not depend on them."""
    rows: tuple[ReadRow, ...] = ()
    images: ReadImages | None = None
    """Where the fields for images next to text are; None: the tool has none."""
    epochs: str = ""
    samples_per_gpu: str = ""
    """Field with the samples of one GPU in a step, which gives the accumulation where a file does not name that."""
    steps_per_epoch: str = ""
    """Field that limits the steps of each epoch."""
    steps_end: bool = False
    """Whether a number of steps makes that of epochs a formality."""
    without_effect: tuple[str, ...] = ()
    unmodelled: dict[str, str] = Field(default_factory=dict)
    """Field -> why a plan does not have it."""

    def names(self) -> tuple[str, ...]:
        """Return the fields that are named here."""
        rows = (name for row in self.rows for name in row.when)
        refused = (name for row in self.refused for name in row.when)
        targets = (name for row in self.targets for name in row.when)
        named = (*self.absent, *self.renamed, *rows, *refused, self.epochs, *self.without_effect, *self.unmodelled)
        others = (
            *self.parts,
            *self.also,
            *self.unsaid,
            *self.unlimited,
            *(name for names in self.any_of.values() for name in names),
            self.steps_per_epoch,
            *targets,
        )
        images = self.images.shown_by if self.images else ()
        return (*named, *self.shown_by, *self.same, *self.details, *images, *others)


class UnreadFile(Row):
    """A kind of file that no map reads, see `models/exports/unread/files.yaml`."""

    what: str
    shows: tuple[tuple[str, ...], ...]
    """Lists of fields, of which all of one list are in such a file."""
    do: str = ""

    def fits(self, names: Collection[str]) -> bool:
        """Return whether a file with these dotted fields is of this kind."""
        return any(all(any(_is_named(name, field) for name in names) for field in fields) for fields in self.shows)


class UnreadFiles(Row):
    """All of `models/exports/unread/files.yaml`."""

    files: tuple[UnreadFile, ...]


def _is_named(name: str, field: str) -> bool:
    """Return whether a dotted name is a field, `*` for any part, or lies inside of it."""
    own, wanted = name.split("."), field.split(".")
    return len(own) >= len(wanted) and all(part in ("*", given) for part, given in zip(wanted, own, strict=False))


class Tool(Row):
    """What every map says of its tool."""

    target: str
    label: str
    version: str
    checked: dict[str, str]
    """Package -> release that the map was checked with."""
    source: str
    file: str


class Starter(Row):
    """Commands that start any program of Python in the processes of a run; empty where there is one process alone."""

    alone: str = ""
    together: str = ""


class Checkpoints(Row):
    """What folders of checkpoints are called, and the file without which one is not complete."""

    name: str = "checkpoint-*"
    last: str = "trainer_state.json"


class TunedTool(Row):
    """What of a map differs where a tool does something else with samples than supervised fine-tuning."""

    words: dict[str, str] = Field(default_factory=dict)
    """Part of a command or of the name of a file -> what stands there instead."""
    write: dict[str, Any] = Field(default_factory=dict)
    """Fields that are written over those of the map; null takes one out."""
    techniques: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    """Values of techniques in place of those of the map."""
    notes: tuple[Remark, ...] = ()
    defaults: dict[str, Any] = Field(default_factory=dict)


class FieldMap(Tool):
    """The fields of a training tool. A value of a technique that `techniques` does not list cannot be expressed."""

    kind: Literal["trainer"]
    unit: Literal["tokens", "images"] = "tokens"
    """What the networks that it trains are trained on."""
    networks: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Model, or class of models, that a tool names for itself -> fields; others are refused. Empty: it takes all."""
    around: dict[str, Any] = Field(default_factory=dict)
    """What is around the fields in the file, `$settings` where they go; empty: nothing."""
    blocks: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Model, or class of models -> blocks that the tool counts, and the most of them that it swaps."""
    run: str = ""
    """Command that runs the file on one machine; `$resume` is where the option goes that names a checkpoint."""
    launch: str = ""
    """The same on every machine of several, with `NODE_RANK` and `HEAD_IP`; empty if it trains nothing itself."""
    flags: str = ""
    """Options of several machines, which the commands that start processes have in common; `$port` differs."""
    starter: Starter = Starter()
    entry: tuple[str, ...] = ()
    """Module that the commands run in each process, and its options in a probe; empty: no probe runs the tool."""
    download: str = ""
    """Command that fetches the weights of the Hub, where the tool stores them otherwise than the Hub's own."""
    resume: str = ""
    """What to add to go on from the checkpoint in `LATEST`, if there is one."""
    resumes: tuple[str, ...] = ("full", "lora")
    """Methods whose checkpoints a run can go on from."""
    checkpoints: Checkpoints = Checkpoints()
    format: Literal["yaml", "json", "python", "json alone", "command"] = "yaml"
    """`json alone`: JSON of a tool that refuses keys that it does not know, so that remarks are a file of their own."""
    saves_adapters: bool = True
    """Whether its adapters are those of PEFT, which `models/exports/results/merge_adapters.py` merges."""
    frameworks: tuple[str, ...]
    always: dict[str, Any] = Field(default_factory=dict)
    techniques: dict[str, dict[str, dict[str, Any]]]
    rows: tuple[Writing, ...] = ()
    refused: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    defaults: dict[str, Any] = Field(default_factory=dict)
    """Written as comments: what the plan does not decide."""
    needs: dict[str, str] = Field(default_factory=dict)
    """Fields without which the tool does not start -> the option that gives them."""
    images: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """State of a tower -> what it writes for images next to text; empty: no file for such data is written."""
    packages: tuple[str, ...] = ()
    tuning: dict[str, TunedTool] = Field(default_factory=dict)
    """What it does with samples besides supervised fine-tuning."""
    last: dict[str, Any] = Field(default_factory=dict)
    """Written over all others: of a map for preference tuning."""
    elsewhere: tuple[str, ...] = ()
    """Techniques that the script sets which is launched with this file."""
    read: Reading = Reading()

    def settings(self, facts: Facts) -> dict[str, Any]:
        """Return the fields that a plan decides; those whose fact is None are left out."""
        settings: dict[str, Any] = {}
        for part in self.of(facts)._parts(facts):
            _merge(settings, fill_in(part, facts))
        if percent := settings.pop("swapped_percent", 0):
            settings["blocks_to_swap"] = self.swapped_blocks(percent, facts)
        return settings

    def of(self, facts: Facts) -> FieldMap:
        """Return the map of what is done with samples: itself for supervised fine-tuning."""
        tuning = facts["tuning"]
        return _tuned_map(self.target, tuning) if tuning in self.tuning else self

    def _parts(self, facts: Facts) -> Iterator[dict[str, Any]]:
        yield self.always
        yield from (values.get(str(facts[name]), {}) for name, values in self.techniques.items())
        yield from (row.write for row in self.rows if holds(row.when, facts))
        yield self.images.get(str(facts["tower"]), {})
        yield self._network(facts) or {}
        yield self.last

    def _network(self, facts: Facts) -> dict[str, Any] | None:
        """Return the fields by which the tool knows the network of a job; None where it has none for it."""
        return self.networks.get(facts["model"], self.networks.get(facts["family"]))

    def swapped_blocks(self, percent: float, facts: Facts) -> int:
        """Return how many blocks are so many per cent of a network: 50 % of 38 of FLUX.1 are 19, and 90 % are 34."""
        counted, most = self.blocks.get(facts["model"], self.blocks.get(facts["family"], (0, 0)))
        return min(round(percent / 100 * counted), most)

    def packages_of(self, facts: Facts) -> tuple[str, ...]:
        """Return the packages that a run needs, with the releases that were checked."""
        added = (package for row in self.rows if holds(row.when, facts) for package in row.packages)
        return tuple(dict.fromkeys((*self.packages, *added)))

    def files_of(self, facts: Facts) -> dict[str, str]:
        """Return the text of each file that a run needs in addition to its settings, by its name."""
        rows = [row for row in self.rows if holds(row.when, facts)]
        texts = {
            name: json_text(_known(fill_in(data, facts))) + "\n" for row in rows for name, data in row.beside.items()
        }
        for name in (file for row in rows for file in row.files):
            texts[name] = (data_folder("models") / "exports" / name).read_text(encoding="utf-8")
        return texts

    def refusals(self, facts: Facts) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield what cannot be expressed: technique (or framework), why, and the values that can."""
        if facts["unit"] != self.unit:
            others = " or ".join(name for name, tool in field_maps().items() if tool.unit == facts["unit"] and tool.run)
            yield "", f"{self.label} trains {_TRAINED[self.unit]} only, and this is no such job: --to {others}", ()
            return
        if self.blocks and facts["swaps_blocks"] and not self.swapped_blocks(100, facts):
            yield "", f"{self.label} swaps no blocks of {facts['model']} here", ()
        if self.networks and self._network(facts) is None:
            yield "", f"{self.label} {self.version} has no training of {facts['model']} here", ()
        if facts["tuning"] != "sft" and facts["tuning"] not in self.tuning:
            yield "", f"{self.label} has no {facts['tuning']} here", ()
        if facts["has_images"] and not self.images:
            yield "", f"{self.label}: no file for images next to text is written, llamafactory and trl have one", ()
        elif facts["has_images"] and facts["tower"] not in self.images:
            yield "", f"{self.label}: no file is written for a tower that is {facts['tower']}", ()
        if facts["framework"] not in self.frameworks:
            yield "framework", f"{self.label} does not run {facts['framework']}", self.frameworks
        for name, values in self.of(facts).techniques.items():
            if str(facts[name]) not in values:
                yield name, f"{self.label} has no {name} {facts[name]}", tuple(values)
        yield from (("", f"{self.label}: {refusal.text}", ()) for refusal in self.refused if holds(refusal.when, facts))

    def remarks(self, facts: Facts) -> Iterator[str]:
        """Yield what a reader of the file must know, each `$name` replaced by the fact."""
        yield from (Template(note.text).substitute(facts) for note in self.notes if holds(note.when, facts))


_TRAINED = {"tokens": "language models", "images": "networks of images and videos"}


class Provider(Row):
    """A provider under the name that a launcher has for it."""

    name: str
    regions: bool = True
    """Whether the regions of the price list are those of the launcher."""
    gpus: dict[str, str] = Field(default_factory=dict)
    """GPUs that it spells otherwise there than elsewhere."""
    keeps: bool = True
    """Whether a folder can be mounted there that outlives the machines."""
    shares: bool = True
    """Whether several machines can mount it at a time."""
    image: Literal["always", "where needed", "never"] = "always"
    """Whether a task names a container image: its machines are containers, can start one, or take none."""
    note: str = ""

    def keeps_for(self, machines: int) -> bool:
        """Whether what so many machines write together outlives them."""
        return self.keeps and (self.shares or machines == 1)


class LaunchMap(Tool):
    """The names that a launcher of machines has for providers and GPUs."""

    kind: Literal["launcher"]
    run: str
    providers: dict[str, Provider] = Field(default_factory=dict)
    """Empty for a cluster, whose machines are there already."""
    gpus: dict[str, str] = Field(default_factory=dict)
    run_on_spot: str = ""
    """Command for machines that may be taken away, where it is another."""
    stop: str
    """Command that ends the run and its bill; `$name` is that of the job."""
    stop_on_spot: str = ""
    """Of a run that `run_on_spot` started, where it is another."""
    first: str = ""
    """What must be there before the first run."""
    first_of_gated: str = ""
    """The same where the model is gated, if it is more."""
    starts: tuple[str, ...] = ()
    """Files of a whole folder without which its own starts nothing."""
    machines: dict[str, dict[int, str]] = Field(default_factory=dict)
    """GPU -> number of GPUs -> name of the machine, where a launcher rents by that name."""

    def refusal(self, provider: str, gpu: str) -> tuple[str, str] | None:
        """Return why machines of a provider with a GPU cannot be rented through it, and what to do; None: they can."""
        if not self.providers:
            return None
        known = self.providers.get(provider)
        if known is None:
            fix = f"{plan_with('limits.providers', self.providers)}, or export to another launcher"
            return f"{self.label} rents nothing from {provider}", fix
        if self.name_of(gpu, known) is None:
            fix = f"{plan_with('limits.gpus.forbid', [gpu])}, or rent it yourself and export for the trainer alone"
            return f"{self.label} has no name for {gpu}", fix
        return None

    def name_of(self, gpu: str, provider: Provider) -> str | None:
        """Return a GPU of a provider under the launcher's name."""
        return provider.gpus.get(gpu) or self.gpus.get(gpu)

    def machine(self, gpu: str, gpus: int, instance: str, instances: int) -> str | None:
        """Return the machine to rent by name, of a launcher that rents so; None where it has none, or takes one."""
        names = self.machines.get(gpu, {})
        name = instance if instance in names.values() else names.get(gpus)
        return name if instances == 1 else None

    def refuses(self, offer: Offer) -> str | None:
        """Return why machines of an offer cannot be rented through it; None: they can."""
        if (refused := self.refusal(offer.provider, offer.card)) is not None:
            return refused[0]
        if self.providers and offer.usd_per_hour is None and not offer.has_spot:
            return f"{self.label} rents by the hour, and {offer.label} has no such price"
        return None

    def keeps_nothing(self, provider: str, on_spot: bool, machines: int = 1) -> bool:
        """Whether a run on spot there would lose what it has saved."""
        return on_spot and provider in self.providers and not self.providers[provider].keeps_for(machines)

    def command(self, job: Assignment) -> str:
        """Return the command that launches a job."""
        return self.run_on_spot if self.run_on_spot and job.spot_share > 0 else self.run

    def first_needs(self, name: str, is_gated: bool) -> str:
        """Return what must be there before the first run of a job with this name in tasks; empty: nothing."""
        return Template((is_gated and self.first_of_gated) or self.first).substitute(name=name)

    def stop_command(self, job: Assignment) -> str:
        """Return the command that stops a job, with `$name`."""
        return self.stop_on_spot if self.stop_on_spot and job.spot_share > 0 else self.stop


def fill_in(value: Any, facts: Facts) -> Any:
    """Return a value with each `$name` replaced by the fact, in mappings and lists too."""
    if isinstance(value, str) and value.startswith("$"):
        return facts[value[1:]]
    if isinstance(value, dict):
        return {key: fill_in(item, facts) for key, item in value.items()}
    return [fill_in(item, facts) for item in value] if isinstance(value, list) else value


def _known(value: Any) -> Any:
    """Return a value without the keys and entries that are None."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if item is not None}
    return [_known(item) for item in value if item is not None] if isinstance(value, list) else value


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    """Write fields over those before them, mappings key by key; None takes a field out."""
    for key, value in more.items():
        if isinstance(value, dict):
            before = into.get(key)
            into[key] = before if isinstance(before, dict) else {}
            _merge(into[key], value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


AnyMap = TypeVar("AnyMap", bound=Row)


@cache
def _read_maps() -> dict[str, FieldMap | LaunchMap]:
    maps: dict[str, FieldMap | LaunchMap] = {}
    for path in sorted((data_folder("models") / "exports").glob("*.yaml")):
        document = read_document(path)
        tool_map = (
            validated(LaunchMap, document) if document.data.get("kind") == "launcher" else validated(FieldMap, document)
        )
        maps[tool_map.target] = tool_map
    return maps


def validated(kind: type[AnyMap], document: Document) -> AnyMap:
    """Return the map that a file holds; `LibraryError` with every fault of the file."""
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        complaints = validation_complaints(error, kind, document.data)
        raise LibraryError(Source(document.file, document).faults(complaints)) from None


def field_maps() -> dict[str, FieldMap]:
    """Return the maps of training tools by target; `LibraryError` with every fault of a file."""
    return {name: tool_map for name, tool_map in _read_maps().items() if isinstance(tool_map, FieldMap)}


@cache
def rl_maps() -> dict[str, FieldMap]:
    """Return the maps of tools that train by reinforcement learning alone, by target."""
    paths = sorted((data_folder("models") / "exports" / "rl").glob("*.yaml"))
    return {tool.target: tool for tool in (validated(FieldMap, read_document(path)) for path in paths)}


@cache
def read_maps() -> dict[str, FieldMap]:
    """Return the maps that files are read by: those of the exports, and those of tools that are read alone."""
    maps = dict(field_maps())
    for path in sorted((data_folder("models") / "exports" / "read").glob("*.yaml")):
        field_map = validated(FieldMap, read_document(path))
        maps[field_map.target] = field_map
    return maps


@cache
def unread_files() -> tuple[UnreadFile, ...]:
    """Return the kinds of files that are known and not read."""
    path = data_folder("models") / "exports" / "unread" / "files.yaml"
    return validated(UnreadFiles, read_document(path)).files


@cache
def _tuned_map(target: str, tuning: str) -> FieldMap:
    """Return the map of a tool with what differs where it does something else with samples."""
    tool = field_maps()[target]
    own = tool.tuning[tuning]

    def said(text: str) -> str:
        return reduce(lambda so_far, pair: so_far.replace(*pair), own.words.items(), text)

    commands = {name: said(getattr(tool, name)) for name in ("file", "run", "launch")}
    update: dict[str, Any] = {
        **commands,
        "entry": tuple(map(said, tool.entry)),
        "techniques": {**tool.techniques, **own.techniques},
        "last": own.write,
        "notes": (*tool.notes, *own.notes),
        "defaults": {**tool.defaults, **own.defaults},
    }
    return tool.model_copy(update=update)


def launch_maps() -> dict[str, LaunchMap]:
    """Return the maps of launchers by target."""
    return {name: tool_map for name, tool_map in _read_maps().items() if isinstance(tool_map, LaunchMap)}


STARTING_ALL = (
    *("trl", "axolotl", "llamafactory", "unsloth", "litgpt"),
    *("simpletuner", "diffusers", "kohya", "ai-toolkit"),
)
"""Trainers that a task or a whole folder starts, the preferred one first."""


def first_able(facts: Facts, asked: Sequence[str] = ()) -> FieldMap:
    """Return what a task starts: of the trainers that are asked for (default: all) the first that can, or the first."""
    maps, names = field_maps(), asked or STARTING_ALL
    able = (maps[name] for name in names if next(maps[name].refusals(facts), None) is None)
    same = [name for name in names if maps[name].unit == facts["unit"]] or names
    if facts["unit"] == "images":
        same = [name for name in same if facts["framework"] in maps[name].frameworks] or same
    return next(able, maps[same[0]]).of(facts)


# Maps of `models/exports/engines`: how the settings of a plan of generation are spelt in one version of one engine.


class EngineMap(Row):
    """Commands of an engine; the keys are explained in `vllm-0.33.yaml`."""

    engine: str
    label: str
    version: str
    checked: dict[str, str]
    source: str
    packages: tuple[str, ...]
    serve: tuple[str, ...]
    formats: dict[str, tuple[str, ...]]
    made: dict[str, tuple[str, ...]]
    cache: dict[int, tuple[str, ...]]
    prefix: dict[bool, tuple[str, ...]]
    adapters: tuple[str, ...]
    ranks: tuple[int, ...]
    measure: tuple[str, ...]
    images: tuple[str, ...] = ()
    pixels: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    image: str = ""

    @property
    def tool(self) -> Tool:
        """The engine as headers name tools."""
        return Tool(
            target=self.engine, label=self.label, version=self.version, checked=self.checked, source=self.source,
            file="generate.py",
        )  # fmt: skip

    def image_words(self, images: PromptImages | None) -> list[str]:
        """Return what the command says of the images of prompts."""
        if images is None:
            return []
        known = {"modality": "video" if images.frames else "image", "most": math.ceil(images.count)}
        words = (*self.images, *(self.pixels if images.max_pixels else ()))
        return filled(words, {**known, "max_pixels": images.max_pixels})

    def image_remarks(self, images: PromptImages | None) -> list[str]:
        """Return what a reader must know of the images of prompts."""
        if images is None:
            return []
        remark = f"images: at most {math.ceil(images.count)} in a prompt; measurements of the engine send text alone"
        tiles = f"max_tiles {images.max_tiles}: {self.label} takes it from preprocessor_config.json of the model"
        return [remark, *([tiles] if images.max_tiles is not None else [])]

    def room_for(self, rank: int) -> int | None:
        """Return the rank that the engine reserves room for; None where it has none as large."""
        return (
            rank if not self.ranks else min((supported for supported in self.ranks if supported >= rank), default=None)
        )


def filled(words: tuple[str, ...], settings: dict[str, Any]) -> list[str]:
    """Return a command with the settings in place of their names; names that are no setting stay."""
    texts = list(words)
    for name, value in settings.items():
        texts = [word.replace("{" + name + "}", str(value)) for word in texts]
    return texts


@cache
def engine_maps() -> dict[str, EngineMap]:
    """Return the maps by engine; `LibraryError` with every fault of a file."""
    maps: dict[str, EngineMap] = {}
    for path in sorted((data_folder("models") / "exports" / "engines").glob("*.yaml")):
        engine_map = validated(EngineMap, read_document(path))
        maps[engine_map.engine] = engine_map
    return maps


ROOTS = (
    "model.layers.{}.",
    "model.language_model.layers.{}.",
    "language_model.model.layers.{}.",
    "model.text_model.layers.{}.",
    "model.decoder.layers.{}.",
    "transformer.h.{}.",
    "transformer.blocks.{}.",
    "gpt_neox.layers.{}.",
)
"""What precedes the path of a module in a layer, in classes of Transformers."""
TOWERS = (
    "vision_tower.vision_model.encoder.layers.1.",
    "vision_tower.encoder.layers.1.",
    "vision_tower.transformer.layers.1.",
    "vision_tower.timm_model.blocks.1.",
    "vision_model.encoder.layers.1.",
    "vision_model.transformer.layers.1.",
    "visual.blocks.1.",
    "audio_tower.layers.1.",
    "img_processor.vision_model.encoder.layers.1.",
)
"""What precedes a module of the towers of images and sound in classes of Transformers, perhaps after `model.`."""
OF_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "qkv", "proj")
OF_MLP = ("fc1", "fc2", "gate_proj", "up_proj", "down_proj", "linear_fc1", "linear_fc2")
OF_TOWERS = (
    *(f"{block}.{name}" for block in ("self_attn", "attn", "attention") for name in OF_ATTENTION),
    *(f"{block}.{name}" for block in ("mlp", "feed_forward") for name in OF_MLP),
)
"""Linear layers of such a tower."""
LAYERS = range(32)
"""Layers that a pattern is tried on."""


def is_pattern(text: str) -> bool:
    """Return whether a string is a regular expression: it has a sign that no name of a module and no list has."""
    return re.search(r"[\\*+?|()\[\]^$]", text) is not None


def matched_modules(pattern: str) -> tuple[list[str], bool]:
    """Return the paths of the modules in a layer that a pattern matches, and whether it leaves layers of one out.

    Example: `model.layers.[0-9]+.(self_attn|mlp).(q|down)_proj` gives mlp.down_proj and self_attn.q_proj, False.
    Raises re.error for what is no regular expression.
    """
    compiled = re.compile(pattern)
    covered: list[str] = []
    leaves_out = False
    for path in sorted(read_techniques().linears.paths):
        matched = max(
            sum(compiled.fullmatch(root.format(layer) + path) is not None for layer in LAYERS) for root in ROOTS
        )
        if matched:
            covered.append(path)
            leaves_out |= matched < len(LAYERS)
    return covered, leaves_out


def reaches_towers(pattern: str) -> bool:
    """Return whether a pattern matches linear layers of a tower of images or sound, as `.*_proj` does.

    Raises re.error for what is no regular expression.
    """
    compiled = re.compile(pattern)
    names = (before + tower + path for before in ("", "model.") for tower in TOWERS for path in OF_TOWERS)
    return any(compiled.fullmatch(name) for name in names)


def names_towers(pattern: str) -> bool:
    """Return whether a pattern asks for such a tower by its name, outside of what it rules out."""
    asked = re.sub(r"\(\?[!<]!?[^()]*(?:\([^()]*\))?[^()]*\)", "", pattern)
    return re.search("vision|visual|audio|image|img", asked) is not None


def is_all(paths: Collection[str]) -> bool:
    """Return whether these are all modules of all families: such a pattern means all linear layers."""
    return set(paths) == read_techniques().linears.paths
