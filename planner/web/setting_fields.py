"""All fields of a scenario, and the settings that their values make; no value does more than its field says."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from planner.library.reading import is_config_path
from planner.scenario.limits import AllowForbid
from planner.scenario.scenario import Scenario
from planner.web.job_fields import Control, job_controls, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


MOST_VALUE = 4_000
"""Longest value of a field: a list of every provider is shorter."""
CONFIG_MARK = "config:"
"""Start of a model's name that means a config.json given to the page."""
MACHINES_FOLD = "Machines"
"""Heading of what is folded of all jobs."""
OFFERED_GOALS = {"cost": "cheap: the least cost", "time": "fast: the earliest end"}
"""Objectives that a field offers; a value of time, or a loss, stays as the scenario has it."""
FORBID = "!"
"""Start of a list of names that may not be used; without it the list names all that may be. Alone: no tick."""
_PLAIN = re.compile(r"[\w.+-][\w ./:+-]{0,60}\Z", re.ASCII)
"""Text that is put into a setting as it is typed; all other text is quoted, so that it stays one value."""


class Refusal(Exception):
    """Values of fields that make no setting; `faults` names each field."""

    def __init__(self, faults: list[dict[str, str]]):
        self.faults = faults
        super().__init__("; ".join(fault["what"] for fault in faults))


def settings_of(
    controls: list[Control], values: Mapping[str, str], configs: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the setting of each field whose value is not that of the scenario, by key.

    `configs`: names of the config.json files that were given to the page -> the path where each is kept. No other
    path is ever put into a setting: a value cannot make the planner read a file. Raises `Refusal`.
    """
    known = {control.key: control for control in controls}
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
        case "choices" | "names" | "one":
            return f"{path}={_chosen(control, value)}"
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


def _chosen(control: Control, value: str) -> str:
    """Return the value of a field that offers choices: one of them, a list, or names that may or may not be used."""
    if control.kind == "one":
        if value not in dict(control.choices):
            raise ValueError(f"{value[:80]!r} is not among the choices; choose one of them")
        return value
    if control.kind == "choices" and not value and control.may_be_empty:
        return "null"
    listed = _list(value.removeprefix(FORBID), control)
    if listed == "[]" and (value or control.kind == "choices"):
        raise ValueError("none is ticked; tick at least one")
    if control.kind == "choices":
        return listed
    key = "forbid" if value.startswith(FORBID) else "allow"
    return f"{{{f'{key}: {listed}' if value else ''}}}"


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


def values_of(controls: list[Control], settings: str, names: Sequence[str]) -> dict[str, str] | None:
    """Return the fields and values that make settings, so that a button can; None where a field is missing.

    `settings` is one, or several with `--set` before each; `names` are those of the jobs: a place may have the name of
    a job or its number.
    """
    words = [word for word in shlex.split(settings) if word != "--set"] if "--set" in settings else [settings]
    found = [_values_of_one(controls, word, names) for word in words]
    known = [values for values in found if values is not None]
    return {key: text for values in known for key, text in values.items()} if len(known) == len(found) else None


def _values_of_one(controls: list[Control], setting: str, names: Sequence[str]) -> dict[str, str] | None:
    """Return the field and the value that make one setting; None where no field makes it."""
    place, _, value = setting.partition("=")
    start = FORBID if place.endswith(".forbid") else ""
    place = place.removesuffix(".forbid").removesuffix(".allow")
    control = next((one for one in controls if _by_number(one.path, names) == _by_number(place.strip(), names)), None)
    if control is None:
        return None
    found = {control.key: start + _typed(value.strip(), control)}
    try:
        settings_of(controls, found)
    except Refusal:
        return None
    return found


def _by_number(path: str, names: Sequence[str]) -> str:
    """Return a path with the number of a job in place of its name."""
    for index, name in enumerate(names):
        if path.startswith(f"jobs.{name}."):
            return f"jobs.{index}.{path.removeprefix(f'jobs.{name}.')}"
    return path


def _typed(value: str, control: Control) -> str:
    """Return the value of a setting as a person types it in a field."""
    if control.kind == "switch":
        return "on" if value == "true" else "off"
    text = "" if value == "null" else value.strip("[]").replace(" ", "").replace('"', "")
    return text if control.kind in ("choices", "names") else "" if value == "null" else value.strip('"')


# All fields of a scenario: those of each job, then those of all.


def controls_of(scenario: Scenario) -> list[Control]:
    """Return the fields of a scenario: those of each job, then those of all."""
    jobs = scenario.jobs_written or scenario.jobs
    found = [control for index, job in enumerate(jobs) for control in job_controls(job, index, len(jobs) == 1)]
    return found + list(_of_all(scenario))


def _of_all(scenario: Scenario) -> Iterator[Control]:
    """Yield the fields that all jobs share."""
    limits = scenario.limits
    shared = "Limits"
    if scenario.objective in OFFERED_GOALS and all(job.ends for job in scenario.jobs):
        goals = tuple(OFFERED_GOALS.items())
        yield Control("objective", shared, "I want it", "one", "objective", scenario.objective, choices=goals)
    value, hint = plain_text(limits.budget_usd), "dollars for everything; empty: none"
    yield Control("budget", shared, "Budget", "dollars", "limits.budget_usd", value, hint, may_be_empty=True)
    free: dict[str, Any] = {"may_be_empty": True, "fold": MACHINES_FOLD}
    value, hint = plain_text(limits.max_gpus), "empty: any number"
    yield Control("max_gpus", shared, "GPUs at one time", "text", "limits.max_gpus", value, hint, **free)
    if limits.outlay_usd is not None or any(offer.outlay_usd for offer in scenario.offers):
        value, hint = plain_text(limits.outlay_usd), "purchases, upfront payments and blocks; empty: no limit"
        yield Control("outlay", shared, "Paid at once", "dollars", "limits.outlay_usd", value, hint, **free)
    spot = "on" if limits.spot_share.max > 0 else "off"
    yield Control("spot", shared, "Spot machines", "switch", "limits.spot", spot, fold=MACHINES_FOLD)
    rule = f"adjust.{len(scenario.adjust)}"
    yield Control(
        "prices", shared, "Price factor", "factor", rule, "1", "1.2: every price 20 % higher", fold=MACHINES_FOLD
    )
    gpus = sorted({offer.gpu for offer in scenario.offers if offer.rents_gpus and offer.gpu})
    providers = sorted({offer.provider for offer in scenario.offers})
    tiers = sorted({str(offer.tier) for offer in scenario.offers})
    for key, label, names, lists in (
        ("gpus", "GPUs", gpus, limits.gpus),
        ("providers", "Providers", providers, limits.providers),
        ("tiers", "Kinds of hosts", tiers, limits.tiers),
    ):
        if key == "tiers" and len(tiers) < 2:
            continue
        value = _listed(lists, names)
        offered = tuple((name, name) for name in names)
        yield Control(key, shared, label, "names", f"limits.{key}", value, choices=offered, fold=MACHINES_FOLD)


def _listed(lists: AllowForbid, names: list[str]) -> str:
    """Return lists as the page writes them: what may be used, or after `!` what may not."""
    forbidden = [name for name in names if not lists.permits(name)]
    if lists.allow is not None:
        return ",".join(name for name in names if lists.permits(name)) or FORBID
    return FORBID + ",".join(forbidden) if forbidden else ""
