"""Scenarios without a file: a question asked in options, and a mapping or objects of Python."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from planner.documents.files import (
    Document,
    Marks,
    make_folder,
    parse_document,
    parse_value,
    write_text_atomically,
    yaml_text,
)
from planner.documents.overrides import Settings, as_settings
from planner.documents.tables import parse_json
from planner.documents.validation import name_fix
from planner.errors import Fault, InputError, KeyPath, LibraryError, ScenarioError, format_value, raise_faults
from planner.library.reading import CONFIG_WANTED, CardNames, config_architecture, is_config_path, read_library
from planner.library.schema import Architecture, GpuSpec, Library
from planner.loading.name_resolution import images_wanted
from planner.loading.price_files import cache_folder
from planner.loading.scenario_file import LoadedScenario, default_name, load_document, read_scenario
from planner.scenario.offer import Offer, offer_data, offer_labels
from planner.scenario.scenario import Scenario, scenario_data
from planner.scenario.techniques import FOUR_BIT_LORA

if TYPE_CHECKING:
    from collections.abc import Sequence


# Names that a function or command received, resolved in the library.


def resolve_cards(
    architecture: str | Architecture, gpu: str, library: Library | None
) -> tuple[Architecture, GpuSpec, Library]:
    """Return architecture, GPU and their library; `LibraryError` with every unknown name."""
    faults: list[Fault] = []
    asked_alone = library is None
    if library is None:
        library = _read(architecture, faults)
    network = architecture if isinstance(architecture, Architecture) else None
    if network is None and asked_alone and not faults:
        (network,) = library.architectures.values()
    if network is None and not faults:
        try:
            network = library.architecture(str(architecture))
        except KeyError as error:
            faults.append(Fault(str(architecture), 0, "", str(error.args[0]), "add it to the library that is given"))
    try:
        card = library.gpu(gpu)
    except KeyError:
        faults.append(Fault(gpu, 0, "", "unknown GPU", CardNames("gpus").suggestion(gpu)))
    if faults or network is None:
        raise LibraryError(faults)
    return network, card, library


def _read(architecture: str | Architecture, faults: list[Fault]) -> Library:
    """Return the shipped library with one architecture; without it if it cannot be read."""
    try:
        return read_library([architecture] if isinstance(architecture, str) else [])
    except LibraryError as error:
        faults += error.faults
        return read_library([])


COMMAND_LINE = "command line"
UNQUOTED = re.compile(r"[\w.+-][\w./+-]*\Z")
"""Text that YAML reads as it is written."""
GIVE_AMOUNT = "give --tokens, or --samples with --tokens-per-sample, or --lengths with a table of samples"
PLACES: dict[str, KeyPath] = {
    "model": ("jobs", 0, "architecture"),
    "tokens": ("jobs", 0, "work", "tokens"),
    "samples": ("jobs", 0, "work", "samples"),
    "tokens_per_sample": ("jobs", 0, "work", "tokens_per_sample"),
    "lengths": ("jobs", 0, "work", "lengths"),
    "epochs": ("jobs", 0, "work", "epochs"),
    "deadline": ("jobs", 0, "deadline"),
    "sequence_length": ("jobs", 0, "sequence_length"),
    "method": ("jobs", 0, "techniques", "method"),
    "budget": ("limits", "budget_usd"),
    "max_gpus": ("limits", "max_gpus"),
    "gpus": ("limits", "gpus", "allow"),
    "providers": ("limits", "providers", "allow"),
    "no_spot": ("limits", "spot"),
    "objective": ("objective",),
}
"""Where the value of each option stands in a scenario."""


@dataclass(frozen=True)
class Question:
    """What is asked, as it was typed; the empty text is not asked for."""

    model: str = ""
    tokens: str = ""
    samples: str = ""
    tokens_per_sample: str = ""
    lengths: str = ""
    epochs: str = ""
    sequence_length: str = ""
    method: str = ""
    deadline: str = ""
    budget: str = ""
    gpus: str = ""
    providers: str = ""
    max_gpus: str = ""
    no_spot: bool = False
    objective: str = ""

    @property
    def amount(self) -> str:
        """Return the option that says how much work there is; a table of lengths counts samples."""
        return self.tokens or self.samples or self.lengths

    @property
    def counts_samples(self) -> bool:
        """Whether the amount is in samples, which epochs repeat."""
        return bool(self.samples or self.lengths)

    def options(self) -> dict[str, list[str]]:
        """Return the words of each option that was given, by the name of its field."""
        given: dict[str, list[str]] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value:
                option = f"--{field.name.replace('_', '-')}"
                given[field.name] = [option] if value is True else [option, value]
        return given

    def command(self, program: str) -> str:
        """Return the command line that asks this question of a program."""
        return shlex.join([*program.split(), *(word for words in self.options().values() for word in words)])


def python_question(given: Mapping[str, Any]) -> Question:
    """Return the question of keyword arguments, which may be numbers and durations; `ScenarioError` for the rest."""
    known, faults, said = [field.name for field in fields(Question)], [], dict[str, Any]()
    for name, value in given.items():
        if name not in known:
            faults.append(Fault(COMMAND_LINE, 0, name, "is unknown", name_fix(name, known)))
        elif name == "no_spot":
            said[name] = value
            if not isinstance(value, bool):
                faults.append(Fault(COMMAND_LINE, 0, name, f"{format_value(value)} is no truth value", "give True"))
        elif isinstance(value, datetime.timedelta):
            said[name] = f"{value.total_seconds():g}s"
        elif isinstance(value, (str, int, float, Path)) and not isinstance(value, bool):
            said[name] = f"{value}"
        else:
            faults.append(Fault(COMMAND_LINE, 0, name, f"{format_value(value)} is not text or a number", "write 10M"))
    raise_faults(faults, ScenarioError)
    return Question(**said)


def check_filled(given: Mapping[str, str | bool]) -> None:
    """Raise `ScenarioError` for options, by their field of a question, that are given without a value.

    An empty limit, such as a variable of a script that is not set, would else be none.
    """
    fix = "give its value, or leave the option out"
    empty = [name for name, value in given.items() if isinstance(value, str) and not value.strip(" \t\n,")]
    raise_faults([Fault(f"--{name.replace('_', '-')}", 0, "", "says nothing", fix) for name in empty], ScenarioError)


def settings_of(question: Question) -> list[str]:
    """Return the settings that say of a scenario, and of its first job, what the options of a question say."""
    settings = []
    for name in question.options():
        value, place = getattr(question, name), ".".join(map(str, PLACES[name]))
        if name in ("gpus", "providers"):
            settings.append(f"{place}={_names(value)}")
        elif name == "method" and value.lower() == FOUR_BIT_LORA:
            settings += [f"{place}=lora", "jobs.0.techniques.weight_bits=4"]
        else:
            settings.append(f"{place}={'false' if value is True else value.removeprefix('$')}")
    return settings


def load_question(question: Question, set_: Sequence[str] = ()) -> LoadedScenario:
    """Return the scenario of a question; raises `ScenarioError` with every fault, each under its option."""
    _check_amounts(question)
    return load_document(Document(COMMAND_LINE, _data(question), Marks(0)), Path(), set_, _origins(question))


def load_held(
    question: Question, held: Mapping[KeyPath, tuple[Any, str]], file: str, set_: Sequence[str] = ()
) -> tuple[LoadedScenario, set[KeyPath]]:
    """Return the scenario of a question with values that a file holds, and the places where an option says otherwise.

    `held`: place in the job -> value, and the option and line that a fault of it is shown under. An amount of work in
    the question replaces that of the file, but for the epochs of samples and the images next to text.
    """
    asked, replaced = dict(held), set[KeyPath]()
    given = {PLACES[name][2:] for name in question.options() if PLACES[name][0] == "jobs"}
    counted = {place for place in asked if place[0] == "work" and question.amount}
    if not question.lengths:  # a table of lengths has the images in it
        counted.discard(("work", "image_input"))
    if question.counts_samples and not question.epochs:
        counted.discard(("work", "epochs"))
    elif not question.counts_samples and ("work", "epochs") in asked:  # epochs count samples, whose number is unknown
        counted.add(("work", "epochs"))
    four_bit = {("techniques", "weight_bits"), ("techniques", "quant")} if question.method else set()
    for place in (given | counted | four_bit) & set(asked):
        del asked[place]
        replaced.add(place)
    model = question.model or asked.get(("architecture",), ("",))[0]
    amount = question.amount or asked.get(("work", "steps"), ("",))[0]
    if not model or not amount:
        what = "the model is missing" if not model else "the amount of work is missing"
        fix = "give --model" if not model else _amount_wanted(str(model))
        raise ScenarioError([Fault(file, 0, "", what, fix)])
    data = _data(replace(question, model=str(model), tokens=question.tokens or ("" if question.amount else "1")))
    (job,) = data["jobs"]
    if not question.amount:
        job["work"] = {}
    for (first, *rest), (value, _) in asked.items():
        if rest:
            job.setdefault(first, {})[rest[0]] = value
        else:
            job[first] = value
    origins = {("jobs", 0, *place): origin for place, (_, origin) in asked.items()} | _origins(question)
    return load_document(Document(COMMAND_LINE, data, Marks(0)), Path(), set_, origins), replaced


def _data(question: Question) -> dict[str, Any]:
    try:
        data: dict[str, Any] = parse_document(scenario_text(question), COMMAND_LINE).data
    except InputError as error:
        raise ScenarioError(error.faults) from None
    return data


def _origins(question: Question) -> dict[KeyPath, str]:
    return {PLACES[name]: shlex.join(words) for name, words in question.options().items()}


def _check_amounts(question: Question) -> None:
    faults = []
    if not question.model:
        faults.append(("--model is missing", "such as --model llama-3.1-8b"))
    if not question.amount:
        faults.append(("the amount of work is missing", _amount_wanted(question.model)))
    if faults:
        raise ScenarioError([Fault(COMMAND_LINE, 0, "", *fault) for fault in faults])


def _amount_wanted(model: str) -> str:
    """Return how to give the amount of work that trains a model: of images no option does."""
    if not model:
        return GIVE_AMOUNT
    try:
        (card,) = read_library([model]).architectures.values()
    except (LibraryError, ValueError):  # more than one name, or none: reported once an amount is given
        return GIVE_AMOUNT
    return GIVE_AMOUNT if card.image is None else images_wanted(model)


def scenario_text(question: Question) -> str:
    """Return the scenario file of a question, with comments on what else it may say.

    A scenario that is read from this text is the one that `load_question` returns.
    """
    work = [f"{key}: {_scalar(value)}" for key in _WORK if (value := getattr(question, key))]
    method, bits = ("lora", 4) if question.method.lower() == FOUR_BIT_LORA else (question.method, None)
    lines = [
        "schema: 2",
        f"name: {_name(default_name(question.model))}",
        "jobs:",
        f"  - architecture: {_name(question.model)}  # planner architectures list, or the path of a config.json",
        f"    work: {{{', '.join(work)}}}  # tokens of all epochs, or samples, tokens_per_sample and epochs",
        _line(question.deadline, "    deadline: {}", "36h", "or a day: 2026-11-25 09:00"),
        "    # confidence: 0.9  # probability with which the deadline holds",
        _line(question.sequence_length, "    sequence_length: {}", "2048", "left out: what a sample fits in"),
        "    # global_batch: 64  # sequences per optimizer step",
        f"    {'' if method else '# '}techniques:",
        _line(method, "      method: {}", "lora", "left out: full training and LoRA"),
        _line(str(bits or ""), "      weight_bits: {}", "[16, 8, 4]", "bits of frozen weights; 4 is QLoRA"),
        "limits:" if _has_limits(question) else "# limits:",
        _line(question.budget.removeprefix("$"), "  budget_usd: {}", "20", "dollars for everything"),
        _line(question.max_gpus, "  max_gpus: {}", "8", "at one time"),
        _line(_names(question.gpus), "  gpus: {{allow: {}}}", "[RTX4090, A100-80GB]", "planner gpus list"),
        _line(_names(question.providers), "  providers: {{allow: {}}}", "[aws, gcp]", "planner offers list"),
        _line("false" if question.no_spot else "", "  spot: {}", "false", "no machines that may be taken away"),
        _line(question.objective, "objective: {}", "cost", "cost, time, or {value_of_time_usd_per_hour: 5}"),
        "inventory: [market]  # the price list that ships with the program; add files with your own prices",
    ]
    return "\n".join(["# Keys with a # in front are not set. `planner schema` lists all keys.", *lines, ""])


_WORK = ("tokens", "samples", "tokens_per_sample", "lengths", "epochs")
_LIMITS = ("budget", "max_gpus", "gpus", "providers", "no_spot")


def _has_limits(question: Question) -> bool:
    return any(getattr(question, key) for key in _LIMITS)


def _line(value: str, form: str, example: str, comment: str) -> str:
    """Return a line with the value, or one that is commented out with an example."""
    if value:
        return f"{form.format(value if value.startswith('[') else _scalar(value))}  # {comment}"
    line = form.format(example)
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# {line.lstrip()}  # {comment}"


def _names(listed: str) -> str:
    """Return a list of YAML from names with commas between them; empty without names."""
    names = [part.strip() for part in listed.split(",") if part.strip()]
    return f"[{', '.join(map(_name, names))}]" if names else ""


def _name(text: str) -> str:
    """Return text that YAML reads as text, quoted where it looks like a number or has other signs."""
    return text if UNQUOTED.match(text) and isinstance(parse_value(text, ""), str) else json.dumps(text)


def _scalar(text: str) -> str:
    """Return a value that YAML reads as a number or text, a mapping of an objective as it is."""
    return text if UNQUOTED.match(text) or text.startswith("{") else json.dumps(text)


def relative_to(question: Question, folder: Path) -> Question:
    """Return the question as a file in another folder must ask it: paths start there."""
    from os.path import relpath

    if is_config_path(question.model):
        question = replace(question, model=relpath(question.model, folder))
    return replace(question, lengths=relpath(question.lengths, folder)) if question.lengths else question


# Nearest available alternatives: similar GPUs with offers, similar names of offers.


MAX_SUGGESTIONS = 3

PART_SCORE, MIN_SCORE = 1.0, 0.75
"""Score of an equal part of a name, and the similarity from which a part counts."""


def suggest_gpus(gpu: str, offers: Sequence[Offer], library: Library) -> list[str]:
    """Return GPUs with offers that are most similar to one without: by memory, speed and bandwidth, in factors."""
    card = library.gpu(gpu)
    rented = {library.gpu(offer.card).name: library.gpu(offer.card) for offer in offers if offer.rents_gpus}
    rented.pop(card.name, None)
    return sorted(rented, key=lambda name: (_distance(card, rented[name]), name))[:MAX_SUGGESTIONS]


def _distance(one: GpuSpec, other: GpuSpec) -> float:
    names = ("usable_gib", "matmul16_tflops", "memory_bandwidth_gb_s")
    return sum(abs(math.log(getattr(one, name) / getattr(other, name))) for name in names)


def suggest_offers(label: str, offers: Sequence[Offer]) -> list[str]:
    """Return offers whose provider, region, instance or GPU is in an unknown label; empty if there are none."""
    wanted = [part for part in label.casefold().split("/") if part]
    scored = []
    for known, offer in zip(offer_labels(offers), offers, strict=True):
        parts = {part.casefold() for part in (*known.split("/"), offer.provider, offer.region, offer.card)}
        parts.discard("")
        scored.append((-sum(max(_similarity(want, part) for part in parts) for want in wanted), known))
    best = min(scored, default=(0.0, ""))[0]
    if best > -PART_SCORE:
        return []
    return [known for score, known in sorted(scored)[:MAX_SUGGESTIONS] if score <= best + PART_SCORE / 2]


def _similarity(want: str, part: str) -> float:
    if want == part:
        return PART_SCORE
    import difflib  # late: most names are spelled right

    ratio = max(difflib.SequenceMatcher(None, want, part).ratio(), MIN_SCORE if want in part else 0.0)
    return ratio if ratio >= MIN_SCORE else 0.0


Asked = Scenario | Mapping[str, Any] | str | Path
"""What a function takes as its scenario: one, what one is made of, the path of a file, or a shipped name."""

FILE = "scenario"
"""Name in faults of what comes from no file."""


def build_scenario(
    data: Mapping[str, Any] | None = None, *, folder: str | Path = ".", set_: Settings = (), **keys: Any
) -> Scenario:
    """Return the scenario of a mapping in the form of a file; `keys` are keys of it, too, and replace those given.

    Everything that holds of a file holds here: names in any spelling, inventories, dates, short forms, every fault at
    once. Relative paths start at `folder`. Values may also be numbers of numpy, `date`, `datetime` and `timedelta`,
    tuples, paths, models of this package, and data frames for lists of mappings (a missing value is a key left out).
    The `architecture` of a job may be the content of a `config.json`, or what `import_architecture` returns: it is kept
    in a file of the user's cache folder, which the scenario names, so that a saved one still has it.

    Raises
    ------
    ScenarioError
        With every fault, and the place of each as `jobs.0.deadline`.

    >>> job = {"architecture": "mistral-7b", "work": {"tokens": 10e6}, "deadline": datetime.timedelta(hours=9)}
    >>> build_scenario(jobs=[job], limits={"gpus": ["H100", "L40S"]}).jobs[0].deadline_hours
    9.0
    """
    if not isinstance(data, Mapping | None):
        fix = "give a mapping; read_scenario reads a file or a shipped name"
        raise ScenarioError([Fault(FILE, 0, "", f"is no mapping: {type(data).__name__}", fix)])
    document = _document_of({**(data or {}), **keys}, FILE)
    return load_document(document, Path(folder), as_settings(set_)).scenario


def scenario_of_keys(keys: Mapping[str, Any]) -> Scenario:
    """Return the scenario of the arguments of its class: as `build_scenario`, but GPUs need not be known yet."""
    return load_document(_document_of({"name": FILE, **keys}, "Scenario"), Path(), (), knows_gpus=False).scenario


def _document_of(data: Mapping[str, Any], file: str) -> Document:
    """Return a mapping as the content of a file; what no file can hold is a fault."""
    faults: list[Fault] = []
    plain = _with_kept_models(_plain(data, (), faults), faults)
    raise_faults([fault._replace(file=file) for fault in faults], ScenarioError)
    return Document(file, plain, Marks(0))


def _with_kept_models(data: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """Return the data with the path of a kept file for each model that a job has as its content."""
    jobs = data.get("jobs")
    listed = jobs if isinstance(jobs, list) else [jobs]
    for number, job in enumerate(listed):
        if not isinstance(job, dict):
            continue
        place, models = f"jobs.{number}.architecture", job.get("architecture")
        if isinstance(models, list):
            job["architecture"] = [_kept(model, f"{place}.{at}", faults) for at, model in enumerate(models)]
        else:
            job["architecture"] = _kept(models, place, faults)
        if job["architecture"] is None:
            del job["architecture"]
    return data


def _kept(model: Any, place: str, faults: list[Fault]) -> Any:
    """Return the path of the file in which the content of a config.json, or of a card, is kept; all else as it is."""
    if not (isinstance(model, dict) and ("model_type" in model or "parameters_basis" in model or "layers" in model)):
        return model
    is_config = "model_type" in model
    text = json.dumps(model, indent=2, sort_keys=True) if is_config else yaml_text(model)
    name = re.sub(r"[^\w.-]", "-", str(model["model_type"] if is_config else model.get("name", "model")))[:60]
    of_content = cache_folder("models") / hashlib.sha256(text.encode()).hexdigest()[:10]
    path = of_content / name / "config.json" if is_config else of_content / f"{name}.yaml"
    try:
        if is_config:
            config_architecture(parse_json(text, FILE, CONFIG_WANTED, keeps_infinity=True), name)
        if not path.exists():
            make_folder(path.parent, "set XDG_CACHE_HOME to a folder that is writable")
            write_text_atomically(path, text)
    except InputError as error:
        faults += [
            Fault(FILE, 0, f"{place}.{fault.where}".rstrip("."), fault.what, fault.fix) for fault in error.faults
        ]
    return str(path)


def as_scenario(asked: Asked) -> Scenario:
    """Return a scenario as it is, else that of a mapping, a path or a shipped name; raises ScenarioError."""
    if isinstance(asked, Scenario):
        return asked
    if isinstance(asked, Mapping):
        return build_scenario(asked)
    if isinstance(asked, (str, Path)):
        return read_scenario(asked)
    fix = "give a Scenario, a mapping, the path of a file or the name of a shipped scenario"
    raise ScenarioError([Fault(FILE, 0, "", f"is no scenario: {type(asked).__name__}", fix)])


def scenario_yaml(scenario: Asked) -> str:
    """Return a scenario as the text of a file, which `read_scenario` reads; inventory files stay named.

    >>> scenario = planner.read_scenario("quickstart")
    >>> _ = Path("kept.yaml").write_text(scenario_yaml(scenario))
    >>> planner.read_scenario("kept.yaml") == scenario
    True
    """
    return yaml_text(scenario_data(as_scenario(scenario)))


def plain_rows(rows: Any) -> list[dict[str, Any]]:
    """Return a data frame, or mappings, as plain data: numbers of numpy are Python's, a missing value is no key.

    A column of whole numbers in which one is missing has fractions in pandas; they are whole numbers again here.
    """
    faults: list[Fault] = []
    listed = rows if hasattr(rows, "columns") else list(rows) if isinstance(rows, Iterable) else [rows]
    plain = _plain(listed, ("rows",), faults)
    if not all(isinstance(row, dict) for row in plain):
        faults.append(Fault(FILE, 0, "rows", "are no rows of keys and values", "give a data frame, or mappings"))
    raise_faults(faults, ScenarioError)
    return [{key: _whole(cell) for key, cell in row.items() if not _is_missing(cell)} for row in plain]


def _whole(cell: Any) -> Any:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _plain(value: Any, place: KeyPath, faults: list[Fault]) -> Any:
    """Return a value as a file would hold it; what no file can hold is a fault."""
    if hasattr(value, "columns") and hasattr(value, "to_dict"):  # a data frame, of whatever package
        rows = value.to_dict("records")
        value = [{key: cell for key, cell in row.items() if not _is_missing(cell)} for row in rows]
    elif hasattr(value, "tolist"):  # numbers and arrays of numpy, series of pandas
        if value.dtype.kind in "Mm" and not hasattr(value, "to_numpy"):  # its nanoseconds would be a bare number
            value = value.astype(f"{'timedelta64' if value.dtype.kind == 'm' else 'datetime64'}[us]")
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, (*place, str(key)), faults) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner, (*place, number), faults) for number, inner in enumerate(value)]
    if isinstance(value, BaseModel):
        return _data_of(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if (text := _text_of(value)) is not None:
        return text
    fix = "give a number, a text, a list, a mapping, a date or a model of planner"
    faults.append(Fault(FILE, 0, ".".join(map(str, place)), f"a file cannot hold a {type(value).__name__}", fix))
    return None


def _data_of(model: BaseModel) -> dict[str, Any]:
    """Return a model of this package in the words of a file."""
    if isinstance(model, Offer):
        return offer_data(model)
    if isinstance(model, Architecture):  # a card has other defaults than its class
        return model.model_dump(mode="json", exclude_unset=True)
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _is_missing(cell: Any) -> bool:
    """Return whether a cell of a data frame holds nothing: None, nan, and what pandas has for them."""
    is_nothing = isinstance(cell, (float, datetime.date, datetime.timedelta)) and cell != cell  # nan and NaT
    return cell is None or is_nothing or type(cell).__name__ == "NAType"


def _text_of(value: Any) -> str | None:
    """Return a path, a moment or a duration as it is written in a file."""
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, (datetime.date, Path)):
        return str(value)
    return None
