"""The fields of the page, and the settings of a scenario that their values make."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from planner.library.reading import is_config_path
from planner.library.techniques import read_techniques
from planner.scenario.choices.open_job import OpenJob
from planner.scenario.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.errors import Fault
    from planner.scenario.limits import AllowForbid
    from planner.scenario.scenario import Scenario

TECHNIQUES_ON_PAGE = (
    "method",
    "weight_bits",
    "precision",
    "activation_checkpointing",
    "optimizer",
    "sharding",
    "offload",
)
"""Techniques with a field, in this order; the others stay as the scenario has them."""
MOST_VALUE = 4_000
"""Longest value of a field: a list of every provider is shorter."""
CONFIG_MARK = "config:"
"""Start of a model's name that means a config.json given to the page."""
FORBID = "!"
"""Start of a list of names that may not be used; without it the list names all that may be. Alone: no tick."""
_PLAIN = re.compile(r"[\w.+-][\w ./:+-]{0,60}\Z", re.ASCII)
"""Text that is put into a setting as it is typed; all other text is quoted, so that it stays one value."""

Kind = Literal["model", "text", "hours", "dollars", "factor", "switch", "choices", "names"]


@dataclass(frozen=True)
class Control:
    """A field of the page.

    `key` is its name in the address, `path` the place in the scenario, `value` what the scenario has there.
    `choices` are the values of a list, each with its words; an empty choice leaves it to the planner.
    """

    key: str
    group: str
    label: str
    kind: Kind
    path: str
    value: str
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    may_be_empty: bool = False

    def data(self) -> dict[str, Any]:
        """Return the field as the page reads it."""
        return asdict(self)


def controls_of(scenario: Scenario) -> list[Control]:
    """Return the fields of a scenario: those of each job, then those of all."""
    jobs = scenario.jobs_written or scenario.jobs
    found = [control for index, job in enumerate(jobs) for control in _of_job(job, index, len(jobs) == 1)]
    return found + list(_of_all(scenario))


def _of_job(job: Any, index: int, is_alone: bool) -> Iterator[Control]:
    """Yield the fields of one job; a path has its name where that is a plain word."""
    place = f"jobs.{job.name if re.fullmatch(r'[A-Za-z][A-Za-z0-9_-]*', job.name) else index}"
    start = "" if is_alone else f"{index + 1}."
    group = "Job" if is_alone else job.name

    def field(key: str, label: str, kind: Kind, path: str, value: Any, hint: str = "") -> Control:
        text, is_optional = _text(value), kind == "hours"
        return Control(start + key, group, label, kind, f"{place}.{path}", text, hint, may_be_empty=is_optional)

    trains = isinstance(job, Job) and not isinstance(job, OpenJob)
    if trains:
        yield field("model", "Model", "model", "architecture", job.architecture)
        yield from (field(*one) for one in _work_fields(job))
    if hasattr(job, "deadline_hours"):
        hint = "such as 36h, 2d or 2026-12-01 09:00; empty: none"
        yield field("deadline", "Deadline", "hours", "deadline", _hours(job.deadline_hours), hint)
    if trains:
        table = read_techniques()
        yield Control(
            f"{start}framework", group, "Framework", "choices", f"{place}.framework", _text(job.framework),
            choices=tuple((name, one.label) for name, one in table.frameworks.items()),
        )  # fmt: skip
        for name in TECHNIQUES_ON_PAGE:
            choices = tuple((str(value), table.words(name, value)) for value in table.of(name).values)
            value = _text(getattr(job.techniques, name))
            label = name.replace("_", " ").capitalize()
            yield Control(start + name, group, label, "choices", f"{place}.techniques.{name}", value, choices=choices)


def _work_fields(job: Job) -> Iterator[tuple[str, str, Kind, str, Any, str]]:
    """Yield the fields of the amount of work in the form that the scenario has."""
    labels = {"tokens": "Tokens", "samples": "Samples", "images": "Images", "steps": "Steps"}
    for name, label in labels.items():
        if (value := getattr(job.work, name)) is not None:
            yield name, label, "text", f"work.{name}", _count(value), "such as 24M" if name == "tokens" else ""
    if job.work.tokens_per_sample is not None:
        yield "tokens_per_sample", "Tokens per sample", "text", "work.tokens_per_sample", job.work.tokens_per_sample, ""
    if job.work.samples is not None or job.work.images is not None:
        yield "epochs", "Epochs", "text", "work.epochs", job.work.epochs, ""


def _of_all(scenario: Scenario) -> Iterator[Control]:
    """Yield the fields that all jobs share."""
    limits = scenario.limits
    shared = "Limits"
    for key, label, kind, name, hint in (
        ("budget", "Budget", "dollars", "budget_usd", "dollars for everything; empty: none"),
        ("max_gpus", "GPUs at one time", "text", "max_gpus", "empty: any number"),
    ):
        value = _text(getattr(limits, name))
        yield Control(key, shared, label, kind, f"limits.{name}", value, hint, may_be_empty=True)  # type: ignore[arg-type]
    spot = "on" if limits.spot_share.max > 0 else "off"
    yield Control("spot", shared, "Spot machines", "switch", "limits.spot", spot)
    rule = f"adjust.{len(scenario.adjust)}"
    yield Control("prices", shared, "Price factor", "factor", rule, "1", "1.2: every price 20 % higher")
    gpus = sorted({offer.gpu for offer in scenario.offers if offer.rents_gpus and offer.gpu})
    providers = sorted({offer.provider for offer in scenario.offers})
    for key, label, names, lists in (
        ("gpus", "GPUs", gpus, limits.gpus),
        ("providers", "Providers", providers, limits.providers),
    ):
        value = _listed(lists, names)
        yield Control(
            key, shared, label, "names", f"limits.{key}", value, choices=tuple((name, name) for name in names)
        )


def _listed(lists: AllowForbid, names: list[str]) -> str:
    """Return lists as the page writes them: what may be used, or after `!` what may not."""
    forbidden = [name for name in names if not lists.permits(name)]
    if lists.allow is not None:
        return ",".join(name for name in names if lists.permits(name)) or FORBID
    return FORBID + ",".join(forbidden) if forbidden else ""


def _text(value: Any) -> str:
    """Return a value of a scenario as it is typed; a list with commas, empty where nothing is given."""
    if value is None:
        return ""
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _count(value: float) -> str:
    """Return a number as people write it: whole millions as 24M, whole billions as 2B."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if value >= size and value % size == 0:
            return f"{value / size:.0f}{unit}"
    return f"{value:.12g}"


def _hours(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}h"


class Refusal(Exception):
    """Values of fields that make no setting; `faults` names each field."""

    def __init__(self, faults: list[dict[str, str]]):
        self.faults = faults
        super().__init__("; ".join(one["what"] for one in faults))


def settings_of(
    controls: list[Control], values: Mapping[str, str], configs: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the setting of each field whose value is not that of the scenario, by key.

    `configs`: names of the config.json files that were given to the page -> the path where each is kept. No other
    path is ever put into a setting: a value cannot make the planner read a file. Raises `Refusal`.
    """
    known = {one.key: one for one in controls}
    faults = [
        _fault("", f"no field is called {key[:80]!r}", "open the page again") for key in values if key not in known
    ]
    found: dict[str, str] = {}
    for key, control in known.items():
        value = values.get(key, control.value).strip()
        if value == control.value:
            continue
        try:
            found[key] = _setting(control, value, configs or {})
        except ValueError as error:
            what, _, fix = str(error).partition("; ")
            faults.append(_fault(key, what, fix))
    if faults:
        raise Refusal(faults)
    return found


def _setting(control: Control, value: str, configs: Mapping[str, str]) -> str:
    """Return `PATH=VALUE`; ValueError says what is wrong with the value, and what would be right."""
    if len(value) > MOST_VALUE:
        raise ValueError(f"{len(value):,} characters; at most {MOST_VALUE:,}")
    path = control.path
    match control.kind:
        case "model":
            return f"{path}={_model(value, configs)}"
        case "choices":
            return f"{path}={_list(value, control) if value else 'null'}"
        case "names":
            key, listed = "forbid" if value.startswith(FORBID) else "allow", _list(value.removeprefix(FORBID), control)
            if value and listed == "[]":
                raise ValueError("none is ticked; tick at least one")
            return f"{path}={{{f'{key}: {listed}' if value else ''}}}"
        case "switch":
            if value not in ("on", "off"):
                raise ValueError("neither on nor off; switch it")
            return f"{path}={'true' if value == 'on' else 'false'}"
        case "factor":
            number = _factor(value)
            return f"{path}={{usd_per_hour_factor: {number}, spot_usd_per_hour_factor: {number}}}"
        case "dollars":
            value = value.removeprefix("$").replace(",", "")
    return f"{path}={'null' if control.may_be_empty and not value else _scalar(value)}"


def _factor(value: str) -> str:
    try:
        if float(value) > 0:
            return _scalar(value)
    except ValueError:
        raise ValueError(f"{value[:80]!r} is not a number; give one such as 1.2") from None
    raise ValueError(f"{value[:80]} is out of range; give more than 0")


def _scalar(value: str) -> str:
    """Return a value that YAML reads as a number or as text, never as a list or a mapping."""
    if not value:
        raise ValueError("empty; give a value")
    _check_printable(value)
    return (
        value
        if _PLAIN.match(value) and not value.endswith(":") and ": " not in value
        else json.dumps(value, ensure_ascii=False)
    )


def _model(value: str, configs: Mapping[str, str]) -> str:
    if value.startswith(CONFIG_MARK):
        if value not in configs:
            raise ValueError("this config.json is not here any more; drop it on the page again")
        return json.dumps(configs[value])
    if not value:
        raise ValueError("the model is missing; such as llama-3.1-8b")
    _check_printable(value)
    if is_config_path(value.casefold()):
        raise ValueError("the page reads no files by their path; drop the config.json on the page")
    return json.dumps(value, ensure_ascii=False)


def _check_printable(value: str) -> None:
    if not value.isprintable():
        raise ValueError("has a sign that cannot be seen, such as a line break; remove it")


def _list(value: str, control: Control) -> str:
    """Return names with commas between them as a list; only values that the field offers."""
    names = [name for name in (part.strip() for part in value.split(",")) if name]
    known = dict(control.choices)
    if wrong := [name for name in names if name not in known]:
        raise ValueError(f"{wrong[0][:80]!r} is not among the choices; tick one of them")
    return json.dumps([int(name) if control.path.endswith(".weight_bits") else name for name in names])


def _fault(key: str, what: str, fix: str) -> dict[str, str]:
    return {"key": key, "what": what, "fix": fix}


def locate(faults: tuple[Fault, ...], controls: list[Control]) -> list[dict[str, str]]:
    """Return faults of a scenario, each once, with its field; an empty key where there is none."""
    found: list[dict[str, str]] = []
    for fault in faults:
        place = fault.where or fault.file.removeprefix("--set ").partition("=")[0]
        keys = [one.key for one in controls if _is_inside(place, one.path) or _is_inside(one.path, place)]
        exact = [one.key for one in controls if _is_inside(place, one.path)]
        where = "" if exact or keys else f"{place}: " if place else ""
        one = _fault((exact or keys or [""])[0], f"{where}{fault.what}", fault.fix)
        if one not in found:  # one field may write several places: a price factor is two
            found.append(one)
    return found


def _is_inside(place: str, around: str) -> bool:
    return bool(place) and (place == around or place.startswith(f"{around}."))
