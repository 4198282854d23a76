"""Rows of models, and errors of pydantic as complaints, each with its place in the input."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from planner.errors import Fault, KeyPath, ScenarioError, format_value, short_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_Model = TypeVar("_Model", bound=BaseModel)


class Row(BaseModel):
    """A row of a table: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


Complaint = tuple[KeyPath, str, str]
"""A place in the data, what is wrong there, and how to fix it."""

UNKNOWN_KEY = "unknown key"
SYNONYMS = {
    **dict.fromkeys(("price", "cost", "usd", "hourly_price", "price_per_hour", "on_demand"), "usd_per_hour"),
    **dict.fromkeys(("spot_price", "preemptible"), "spot_usd_per_hour"),
    **dict.fromkeys(("batch_size", "batch", "train_batch_size"), "global_batch"),
    **dict.fromkeys(("model", "base_model", "model_name"), "architecture"),
    **dict.fromkeys(("seq_len", "seq_length", "context", "context_length", "max_length"), "sequence_length"),
    **dict.fromkeys(("budget", "max_cost", "max_usd"), "budget_usd"),
    **dict.fromkeys(("outlay", "capex", "upfront", "max_outlay"), "outlay_usd"),
    **dict.fromkeys(("count", "num_gpus", "gpu_count"), "gpus"),
    **dict.fromkeys(("memory_gb", "ram"), "ram_gb"),
    **dict.fromkeys(("cloud", "vendor"), "provider"),
    **dict.fromkeys(("prices", "market", "catalog"), "inventory"),
    **dict.fromkeys(("r", "lora_r", "lora_rank"), "rank"),
    **dict.fromkeys(("start", "start_date", "today"), "now"),
    **dict.fromkeys(("tasks", "runs", "trainings"), "jobs"),
    "checkpointing": "activation_checkpointing",
    "gradient_checkpointing": "activation_checkpointing",
}
"""Words that people use for keys -> the key."""
WITHOUT_EFFECT = frozenset(
    ["lr", "learning_rate", "lr_scheduler", "seed", "warmup", "warmup_ratio", "warmup_steps", "weight_decay", "dropout"]
)
"""Settings of a training that change neither its memory nor its time: no key has them."""
ENDS_OF_KEYS = frozenset(["usd", "hours", "days", "months", "seconds", "gb", "gib", "gbps", "share"])
"""Ends of keys that may be left out when a key is sought."""
ADDED = (
    *("[key]", "word", "value", "of training", "of inference", "of serving", "of a choice"),
    *("of reinforcement learning", "judge", "of a model"),
    *("of names", "of a family", "a number", "a range", "a named law", "an own law"),
)
"""What pydantic adds to the place of an error: keys of mappings, and tags of the members of unions."""
MAX_COMPLAINTS = 100
"""Most errors of one validation that are reported: nobody reads more at a time."""

_KINDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "bool_parsing": "true or false",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "date_type": "a date such as 2024-05-31",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def validation_complaints(error: ValidationError, kind: type[BaseModel], data: Any) -> list[Complaint]:
    """Return every error of validating `data` as `kind`, each at its place in `data`."""
    complaints: list[Complaint] = []
    schema: dict[str, Any] = {}
    for detail in error.errors(include_url=False):
        if len(complaints) == MAX_COMPLAINTS:
            left = error.error_count() - MAX_COMPLAINTS
            return [*complaints, ((), f"{left:,} more faults", "correct those above first")]
        if detail["type"] == "too_short" and detail["input"]:
            continue  # the faults of its items are reported one by one
        path = _place(detail["loc"], data)
        context = detail.get("ctx", {})
        if detail["type"] == "extra_forbidden":
            schema = schema or plain_schema(kind)
            what, key, known = UNKNOWN_KEY, str(path[-1]), keys_at(schema, path[:-1], data)
            sought = SYNONYMS.get(key, key) if SYNONYMS.get(key) not in known else key
            holder = next((name for name in known if sought in keys_at(schema, (*path[:-1], name), data)), "")
            fix = _known_keys(key, known, holder, _elsewhere(key, detail["input"], schema, path))
        elif detail["type"] == "planner":
            what, fix = context["what"], context["fix"]
            path += tuple(context["where"].split(".")) if context["where"] else ()
        else:
            what, fix = _reword(detail["type"], detail.get("input"), context, detail["msg"])
        complaints.append((path, what, fix))
    return complaints


def plain_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model without descriptions, for which its source would be read."""
    from pydantic.json_schema import GenerateJsonSchema

    return kind.model_json_schema(by_alias=True, schema_generator=GenerateJsonSchema)


def faults_of_call(error: ValidationError, kind: type, keys: dict[str, Any]) -> list[Fault]:
    """Return the faults of a class that was called with wrong values."""
    plain = {key: value for key, value in keys.items() if not hasattr(value, "model_fields_set")}
    complaints = validation_complaints(error, kind, plain)
    return [Fault(kind.__name__, 0, ".".join(map(str, path)), what, fix) for path, what, fix in complaints]


def validate_spelled(kind: type[_Model], data: Any) -> _Model:
    """Return data as a model; a word of a short list is read in any case and spelling. `ValidationError` for the rest.

    Only what fails as written is looked at, so that correct data costs nothing.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        spelled = data
        for detail in error.errors(include_url=False):
            if detail["type"] == "literal_error" and isinstance(detail["input"], str):
                allowed = re.findall(r"'([^']*)'", detail.get("ctx", {}).get("expected", ""))
                name = find_name(detail["input"], allowed)
                spelled = spelled if name is None else _replaced(spelled, _place(detail["loc"], data), name)
        if spelled is data:
            raise
    return kind.model_validate(spelled)


def _replaced(data: Any, path: KeyPath, value: str) -> Any:
    """Return a copy of data with the text at a place replaced, or the data where no text is there."""
    if not path:
        return value if isinstance(data, str) else data
    if not _holds(data, path[0]):
        return data
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = _replaced(data[path[0]], path[1:], value)
    return copy


def fold(text: str) -> str:
    """Return the letters and digits of a name in lower case: spellings that differ in nothing else are one name."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def find_name(word: object, known: Iterable[str]) -> str | None:
    """Return the known name that a word is, whatever its case and separators; None where none or several are meant."""
    names = list(known)
    if word in names or not isinstance(word, str):
        return word if isinstance(word, str) else None
    found = {name for name in names if fold(name) == fold(word)}
    return found.pop() if len(found) == 1 and fold(word) else None


def suggest_names(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return up to three known names similar to the word, joined by "or"; empty if none is."""
    import difflib  # late: most files have no fault

    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    close = difflib.get_close_matches(folded, by_folded, n=3, cutoff=cutoff)
    if not close and len(folded) >= 3:
        close = sorted((name for name in by_folded if folded in name), key=len)[:3]
    return " or ".join(by_folded[name] for name in close)


MOST_NAMES = 3
"""Names that a fault of an unknown one suggests."""


def name_fix(word: str, known: Iterable[str], listing: str = "") -> str:
    """Return how to correct an unknown name: similar names, else the three that are nearest; never all of them.

    `listing` is the command that prints all.
    """
    names = list(dict.fromkeys(known))
    if close := suggest_names(word, names):
        return f"did you mean {close}?"
    import difflib

    folded = word.casefold()[:100]
    nearest = sorted(names, key=lambda name: -difflib.SequenceMatcher(None, folded, name.casefold()).ratio())
    few = nearest[:MOST_NAMES]
    if not few:
        return f"none is known; see {listing}" if listing else "leave it out: there is none"
    said = f"known: {', '.join(few)}" if len(names) <= MOST_NAMES else f"the nearest are {', '.join(few)}"
    return f"{said}; all: {listing}" if listing and len(names) > MOST_NAMES else said


def meant_name(word: str, known: Iterable[str], where: str, what: str, listing: str = "") -> str:
    """Return the known name that a word is, whatever its case and separators; `ScenarioError` with the nearest three.

    `where` is what the word was given as, such as an option, and `what` says what no name is; `listing` is the command
    that prints all names.
    """
    names = list(known)
    if (found := find_name(word, names)) is None:
        raise ScenarioError([Fault(where, 0, "", f"{what} {format_value(word)}", name_fix(word, names, listing))])
    return found


def keys_at(schema: dict[str, Any], path: KeyPath, data: Any = None) -> list[str]:
    """Return the keys that a JSON Schema allows in the mapping at a place; of several forms those that `data` has."""
    nodes = list_alternatives(schema, schema)
    for part in path:
        inside: list[dict[str, Any]] = []
        for node in nodes:
            if isinstance(part, int):
                inside += list_alternatives(node.get("items"), schema)
            elif part in node.get("properties", {}):
                inside += list_alternatives(node["properties"][part], schema)
            else:
                inside += list_alternatives(node.get("additionalProperties"), schema)
        data = data[part] if _holds(data, part) else None
        nodes = forms_of(inside, data)
    return list(dict.fromkeys(key for node in nodes for key in node.get("properties", {})))


def forms_of(forms: list[dict[str, Any]], data: Any) -> list[dict[str, Any]]:
    """Return the forms whose `kind` is that of the data; all where none is, or where there is no data."""

    def is_meant(form: dict[str, Any]) -> bool:
        kind = form.get("properties", {}).get("kind")
        given = data.get("kind", kind.get("default")) if kind else None
        return kind is None or given in (kind.get("enum") or (kind.get("const"),))

    if not isinstance(data, dict):
        return forms
    meant = [form for form in forms if is_meant(form)]
    return meant if any("properties" in form for form in meant) else forms


def _holds(data: Any, part: int | str) -> bool:
    """Return whether a mapping has a key, or a list as many items."""
    if isinstance(data, dict):
        return part in data
    return isinstance(data, (list, tuple)) and isinstance(part, int) and 0 <= part < len(data)


def _place(loc: tuple[int | str, ...], data: Any) -> KeyPath:
    """Return the location of an error without what pydantic adds (union members, indices of a single value)."""
    path: list[int | str] = []
    for position, part in enumerate(loc):
        if _holds(data, part):
            data = data[part]
        elif not (isinstance(data, dict) and position == len(loc) - 1 and part not in ADDED):
            continue
        path.append(part)
    return tuple(path)


def list_alternatives(node: Any, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of a node, references resolved."""
    if not isinstance(node, dict):
        return []
    if "$ref" in node:
        return list_alternatives(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], schema)
    branches = [branch for key in ("anyOf", "oneOf", "allOf") for branch in node.get(key, ())]
    return [node] + [form for branch in branches for form in list_alternatives(branch, schema)]


def _elsewhere(key: str, value: Any, schema: dict[str, Any], path: KeyPath) -> str:
    """Return where else in the document a key stands, by itself, with its unit or as a list; else empty.

    Examples: `limits.budget_usd` for `budget`, `limits.gpus` for a GPU of a job, `limits.max_gpus` for their number.
    """
    count = isinstance(value, int) and not isinstance(value, bool)
    tops = sorted(keys_at(schema, ()), key=lambda top: top == "offers")  # what is offered is seldom what was meant
    for top in tops:
        for below in ((top,), (top, 0)):
            if below[0] == path[0] and len(below) == len(path) - 1:
                continue  # its own neighbours
            names = keys_at(schema, below)
            with_unit = [
                name for name in names if name.rpartition("_")[0] == key and name.rpartition("_")[2] in ENDS_OF_KEYS
            ]
            forms = [f"max_{key}"] * count + [key, *with_unit, *([] if count else [f"{key}s"])]
            if found := next((form for form in forms if form in names), ""):
                return ".".join(map(str, (*below, found)))
    return ""


def _known_keys(key: str, known: list[str], holder: str, elsewhere: str) -> str:
    """Return the key that may have been meant.

    `holder`: one of the known keys below which the key exists; `elsewhere`: another place of the document that has it.
    """
    meant = SYNONYMS.get(key.casefold().replace("-", "_"))
    if holder and meant not in known:
        return f"write it below {holder}, as {holder}: {{{meant or key}: ...}}"
    if meant is None and key in WITHOUT_EFFECT:
        return "leave it out: no plan depends on it"
    close = meant if meant in known else suggest_names(key, known)
    if close:
        return f"did you mean {close}?"
    return f"write it as {elsewhere}" if elsewhere else f"known keys: {', '.join(sorted(known))}"


def _reword(kind: str, value: Any, context: dict[str, Any], message: str) -> tuple[str, str]:
    if kind == "missing" and isinstance(value, (list, tuple)):
        return "has too few values", "add what is missing"
    if kind == "missing":
        return "is missing", "add it"
    if kind == "literal_error":
        return _not_one_of(value, context["expected"])
    if kind in _KINDS:
        return f"{format_value(value)} is not {_KINDS[kind]}", _how_to_write(kind, value)
    if kind in _BOUNDS:
        key, bound = _BOUNDS[kind]
        limit = context[key]
        shown = f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
        share = f"; write {value:g} % as {value / 100:g}" if key == "le" and limit == 1 and 1 < value <= 100 else ""
        return f"{format_value(value)} is out of range", f"must be {bound} {shown}{share}"
    if kind == "finite_number":
        return f"{format_value(value)} is not a finite number", "give a finite number"
    if kind in ("too_short", "string_too_short"):
        return "is empty", "give at least one" if kind == "too_short" else "give a name"
    return message.removeprefix("Value error, "), "correct the value"


def _not_one_of(value: Any, expected: str) -> tuple[str, str]:
    choices = [text or number for text, number in re.findall(r"'([^']*)'|(\d+)", expected)]
    close = suggest_names(value, choices) if isinstance(value, str) else ""
    what = f"{format_value(value)} is not one of {', '.join(choices)}"
    return what, f"did you mean {close}?" if close else "give one of them"


_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?%")


def _how_to_write(kind: str, value: Any) -> str:
    if kind == "string_type" and not isinstance(value, (dict, list)):
        return "put it in quotes if it is a name"
    if kind == "float_type" and isinstance(value, str) and (share := _PERCENT.fullmatch(value)):
        return f"write it as a share: {float(share[1]) / 100:g}"
    if kind in ("float_type", "int_type") and isinstance(value, str) and _THOUSANDS.fullmatch(value):
        return f"write it without commas: {value.replace(',', '')}"
    if kind in ("float_type", "int_type") and isinstance(value, str):
        return "write it without quotes and unit: the name of the key has the unit"
    return f"give {_KINDS[kind]}"


# The file and line, or the setting, that each value of the input came from.


class HasLines(Protocol):
    """A document that knows the line of each of its values."""

    @property
    def data(self) -> Any:
        """What the document says, as plain data."""

    def line(self, path: KeyPath) -> int:
        """Return the line of a value, or of the nearest one around it."""
        ...


@dataclass(frozen=True)
class Source:
    """A document, and the places in its data that a setting `PATH=VALUE` or an option `--name value` wrote."""

    file: str
    document: HasLines | None = None
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def folder(self, path: KeyPath, own: Path) -> Path:
        """Return the folder of a relative path: the working folder if a setting wrote it, else `own`."""
        is_set = any(path[:length] in self.origins for length in range(1, len(path) + 1))
        return Path() if is_set else own

    def fault(self, path: KeyPath, what: str, fix: str) -> Fault:
        """Return the fault at a place, with the setting that wrote the value, or else its line."""
        shown_path = (*path[:-1], short_key(str(path[-1]))) if what == UNKNOWN_KEY else path
        where = ".".join(map(str, shown_path))
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                setting = self.origins[path[:length]]
                if setting.startswith("--"):
                    return Fault(setting, 0, "", what, fix)
                shown = ".".join((_typed_path(setting), *map(str, path[length:])))
                return Fault(setting_name(setting), 0, shown, what, fix)
        # A setting may also have created the faulty mapping: `limit.x=1` creates an unknown `limit`.
        inside = [(place, setting) for place, setting in self.origins.items() if place[: len(path)] == path]
        if inside and (self.document is None or self.document.line(path) == self.document.line(path[:-1])):
            place, setting = inside[-1]
            if setting.startswith("--"):
                return Fault(setting, 0, "", what, fix)
            rest = "." + ".".join(map(str, place[len(path) :]))
            typed = _typed_path(setting)
            shown = typed.removesuffix(rest) if typed.endswith(rest) else where
            return Fault(setting_name(setting), 0, shown, what, fix)
        return Fault(self.file, self.document.line(path) if self.document else 0, where, what, fix)

    def faults(self, complaints: Iterable[Complaint]) -> list[Fault]:
        """Return the faults of many complaints."""
        return [self.fault(*complaint) for complaint in complaints]

    def validate(self, kind: type[_Model], data: dict[str, Any]) -> _Model:
        """Return the data as a model; `ScenarioError` with every fault."""
        try:
            return validate_spelled(kind, data)
        except ValidationError as error:
            raise ScenarioError(self.faults(validation_complaints(error, kind, data))) from None


def _typed_path(setting: str) -> str:
    """Return the path as it was typed, with a job by its name if that was typed."""
    return setting.partition("=")[0].strip()


def setting_name(setting: str) -> str:
    """Return the name of a setting in a fault, in place of a file."""
    return f"--set {setting if len(setting) <= 80 else setting[:77] + '...'}"
