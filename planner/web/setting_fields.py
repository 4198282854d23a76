"""The fields of the page: those of one job, all of a scenario, and the settings that their values make.

No value does more than its field says.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from planner.documents.quantities import TOWER_STATES
from planner.errors import Fault, InputError
from planner.library.engines import read_engines, read_load_profiles
from planner.library.reading import is_config_path, read_library
from planner.library.technique_tables import read_techniques
from planner.scenario.inference_job import FLAT, InferenceJob, ServeJob
from planner.scenario.job import Job
from planner.scenario.limits import AllowForbid
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import Scenario
from planner.units import DAY_HOURS, MILLISECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# A field of the page, and how a value of a scenario is written in it.


Kind = Literal["model", "text", "hours", "dollars", "factor", "switch", "one", "choices", "names"]


@dataclass(frozen=True)
class Control:
    """A field of the page.

    `key` is its name in the address, `path` the place in the scenario, `value` what the scenario has there.
    `choices` are the values of a list, each with its words; an empty choice leaves it to the planner where the field
    may be empty. `fold` is the heading under which the field is hidden until it is opened.
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
    fold: str = ""

    def data(self) -> dict[str, Any]:
        """Return the field as the page reads it."""
        return asdict(self)


def plain_text(value: Any) -> str:
    """Return a value of a scenario as it is typed; a list with commas, empty where nothing is given."""
    if value is None:
        return ""
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def count_text(value: float) -> str:
    """Return a number as people write it: whole millions as 24M, whole billions as 2B."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if value >= size and value % size == 0:
            return f"{value / size:.0f}{unit}"
    return f"{value:.12g}"


def hours_text(value: float | None) -> str:
    """Return hours with their unit."""
    return "" if value is None else f"{value:.10g}h"


def days_text(hours: float) -> str:
    """Return a long time in whole days where it has them."""
    return hours_text(hours) if hours % DAY_HOURS else f"{hours / DAY_HOURS:.10g}d"


def latency_text(seconds: float | None) -> str:
    """Return a time as people write it: 40ms, 1.5s."""
    if seconds is None:
        return ""
    return f"{seconds:.12g}s" if seconds >= 1 else f"{seconds * MILLISECONDS:.12g}ms"


TECHNIQUES_ON_PAGE = (
    "method",
    "weight_bits",
    "precision",
    "activation_checkpointing",
    "optimizer",
    "sharding",
    "offload",
)
"""Techniques of training with a field, in this order; the others stay as the scenario has them."""
WRITTEN_HOURS = "numbers"
"""The profile of a scenario that gives a number for each hour."""
MORE = "More of the job"
"""Heading of what is folded: the first fields are those that most questions change."""
_FOLD_OF_TRAINING, _FOLD_OF_ENGINES = "Techniques and frameworks", "Engines and weights"
_NO_LIMIT = "empty: no limit"
_TOWER_WORDS = ("frozen", "adapters of its own", "all its weights trained")
_WEIGHT_BITS = (("16", "16 bit"), ("8", "8 bit"), ("4", "4 bit"))


class _Fields:
    """Makes the fields of one job: their keys, their group and their places."""

    def __init__(self, job: Any, index: int, is_alone: bool):
        """Make it; a path has the name of the job where that is a plain word."""
        self.place = f"jobs.{job.name if re.fullmatch(r'[A-Za-z][A-Za-z0-9_-]*', job.name) else index}"
        self.start = "" if is_alone else f"{index + 1}."
        self.group = "Job" if is_alone else job.name

    def make(self, key: str, label: str, kind: Kind, path: str, value: Any, hint: str = "", **rest: Any) -> Control:
        """Return a field; the rest is that of `Control`."""
        place = f"{self.place}.{path}"
        return Control(self.start + key, self.group, label, kind, place, plain_text(value), hint, **rest)


def job_controls(job: Any, index: int, is_alone: bool) -> Iterator[Control]:
    """Yield the fields of one job."""
    fields = _Fields(job, index, is_alone)
    is_known = not isinstance(job, OpenJob)
    if is_known:
        yield fields.make("model", "Model", "model", "architecture", job.architecture)
    if not job.ends:
        yield from _of_load(job, fields)
        return
    if not job.trains:
        yield from _prompts(job, job.work, "work", fields)
    elif is_known:
        yield from _work(job, fields)
    if hasattr(job, "deadline_hours"):
        hint = "such as 36h, 2d or 2026-12-01 09:00; empty: none"
        hours = hours_text(job.deadline_hours)
        yield fields.make("deadline", "Deadline", "hours", "deadline", hours, hint, may_be_empty=True)
        if is_known and job.trains:
            hint = "probability of keeping the deadline, such as 0.9"
            yield fields.make(
                "confidence", "Confidence", "text", "confidence.deadline", job.confidence, hint, fold=MORE
            )
    if not job.trains:
        yield from _engines(job, fields)
    elif is_known:
        yield from _training(job, fields)


def _work(job: Job, fields: _Fields) -> Iterator[Control]:
    """Yield the fields of the amount of work in the form that the scenario has."""
    images = "Videos" if (job.work.frames or 1) > 1 else "Images"
    labels = {"tokens": "Tokens", "samples": "Samples", "images": images, "steps": "Steps"}
    for name, label in labels.items():
        if (value := getattr(job.work, name)) is not None:
            hint = {"tokens": "such as 24M", "samples": "such as 50,000"}.get(name, "")
            yield fields.make(name, label, "text", f"work.{name}", count_text(value), hint)
    if (value := job.work.tokens_per_sample) is not None:
        hint = "the mean, such as 800 or 1.2k"
        yield fields.make("tokens_per_sample", "Tokens per sample", "text", "work.tokens_per_sample", value, hint)
    on_images = job.work.images is not None or job.work.resolution is not None
    if on_images:
        yield from _images(job, fields)
    else:
        yield from _images_next_to_text(job, job.work, "work", fields)
        hint = "tokens, such as 4k; empty: so many that a sample fits in"
        given, key = job.sequence_length, "sequence_length"
        yield fields.make(key, "Sequence length", "text", key, given, hint, may_be_empty=True, fold=MORE)
    if job.work.samples is not None or job.work.images is not None:
        yield fields.make("epochs", "Epochs", "text", "work.epochs", job.work.epochs)


def _images(job: Job, fields: _Fields) -> Iterator[Control]:
    """Yield the size of the samples of a network of images or videos, and whether their latents are cached."""
    hint = "pixels of a side, such as 1024; empty: that of the network"
    given = job.work.resolution
    yield fields.make("resolution", "Resolution", "text", "work.resolution", given, hint, may_be_empty=True)
    hint = "of a video, such as 81; empty: that of the network"
    frames: dict[str, Any] = {"may_be_empty": True, "fold": "" if job.work.frames else MORE}
    yield fields.make("frames", "Frames", "text", "work.frames", job.work.frames, hint, **frames)
    table = read_techniques()
    choices = tuple((str(value), table.words("latents", value)) for value in table.of("latents").values)
    latents = job.techniques.latents
    yield fields.make(
        "latents", "Latents", "choices", "techniques.latents", latents, choices=choices, may_be_empty=True
    )


def _images_next_to_text(job: Job, given: Any, place: str, fields: _Fields) -> Iterator[Control]:
    """Yield the images of samples or prompts, where the scenario has some or the model reads them."""
    images, path = given.image_input, f"{place}.image_input"
    if images is None and not _reads_images(job.architecture):
        return
    more: dict[str, Any] = {"fold": MORE}
    size = images.size if images else ""
    hint = "pixels of an image, such as 1280x720" + ("" if images else "; empty: text alone")
    first: dict[str, Any] = {} if images else {**more, "may_be_empty": True}
    yield fields.make("image_size", "Image size", "text", f"{path}.size", size, hint, **first)
    holder = "sample" if job.trains else "prompt"
    count = images.count if images else 1.0
    yield fields.make("image_count", f"Images of a {holder}", "text", f"{path}.count", count, "the mean", **more)
    hint = "to which its processor shrinks an image, such as 1,003,520; empty: as released"
    most = images.max_pixels if images else None
    yield fields.make(
        "max_pixels", "Pixels at the most", "text", f"{path}.max_pixels", most, hint, may_be_empty=True, **more
    )
    if job.trains:
        tower = images.tower if images else TOWER_STATES[0]
        choices = tuple((state, words) for state, words in zip(TOWER_STATES, _TOWER_WORDS, strict=True))
        yield fields.make("tower", "Image tower", "one", f"{path}.tower", tower, choices=choices, **more)


def _reads_images(architecture: str) -> bool:
    """Return whether a model has an image tower that is known; of a model that cannot be read not."""
    try:
        (card,) = read_library([architecture]).architectures.values()
    except InputError:
        return False
    return card.tower is not None


def _training(job: Job, fields: _Fields) -> Iterator[Control]:
    """Yield framework and techniques; nothing ticked leaves them to the planner."""
    table = read_techniques()
    free: dict[str, Any] = {"may_be_empty": True, "fold": _FOLD_OF_TRAINING}
    frameworks = tuple((name, framework.label) for name, framework in table.frameworks.items())
    yield fields.make("framework", "Framework", "choices", "framework", job.framework, choices=frameworks, **free)
    for name in TECHNIQUES_ON_PAGE:
        choices = tuple((str(value), table.words(name, value)) for value in table.of(name).values)
        value, label = getattr(job.techniques, name), name.replace("_", " ").capitalize()
        fold = "" if name == "method" else _FOLD_OF_TRAINING
        yield fields.make(name, label, "choices", f"techniques.{name}", value, choices=choices, **free | {"fold": fold})


def _prompts(job: InferenceJob, given: Any, place: str, fields: _Fields) -> Iterator[Control]:
    """Yield the lengths of prompts and answers, and how many there are; a table of lengths has no field."""
    if getattr(given, "requests", None) is not None:
        yield fields.make("requests", "Requests", "text", f"{place}.requests", count_text(given.requests), "such as 2M")
    if not given.lengths:
        yield fields.make("input_tokens", "Tokens of a prompt", "text", f"{place}.input_tokens", given.input_tokens)
        yield fields.make("output_tokens", "Tokens of an answer", "text", f"{place}.output_tokens", given.output_tokens)
    yield from _images_next_to_text(job, given, place, fields)
    hint, shared = "the beginning that all prompts share", given.prefix_tokens
    yield fields.make("prefix_tokens", "Of these shared", "text", f"{place}.prefix_tokens", shared, hint, fold=MORE)


def _of_load(job: ServeJob, fields: _Fields) -> Iterator[Control]:
    """Yield load, lengths, limits on latency, replicas, how long it runs, and what may answer."""
    load, latency = job.load, job.latency
    peak: dict[str, Any] = {"may_be_empty": True}
    yield fields.make(
        "per_second", "Requests a second at the peak", "text", "load.per_second", load.per_second,
        "or, in its place, requests in flight", **peak,
    )  # fmt: skip
    yield fields.make(
        "concurrent", "Requests in flight at the peak", "text", "load.concurrent", load.concurrent, fold=MORE, **peak
    )
    names = {FLAT: "flat: the same in every hour", **{name: f"{name} hours" for name in read_load_profiles()}}
    written = load.profile if isinstance(load.profile, str) else WRITTEN_HOURS
    if written == WRITTEN_HOURS:
        names[WRITTEN_HOURS] = f"the {len(load.profile)} numbers of the scenario"
    choices = tuple(names.items())
    yield fields.make("profile", "Load by the hour", "one", "load.profile", written, choices=choices)
    yield from _prompts(job, load, "load", fields)
    for key, label, seconds in (
        ("ttft", "Limit: first token", latency.ttft_seconds),
        ("tpot", "Limit: per token", latency.tpot_seconds),
    ):
        hint = f"such as {'1s' if key == 'ttft' else '40ms'}; {_NO_LIMIT}"
        yield fields.make(key, label, "text", f"latency.{key}", latency_text(seconds), hint, may_be_empty=True)
    hint = "0.95: of 100 requests 95 keep each limit"
    yield fields.make("share", "Share within the limits", "text", "latency.share", latency.share, hint, fold=MORE)
    yield fields.make("replicas", "Replicas at the least", "text", "replicas.min", job.replicas.min, fold=MORE)
    hint = "an offer with one engine and format; empty: any mix"
    most = "" if job.most_kinds is None else job.most_kinds
    yield fields.make(
        "kinds", "Kinds of machines at the most", "text", "most_kinds", most, hint, may_be_empty=True, fold=MORE
    )
    hint = "0.2: room for a fifth more than the load"
    yield fields.make("headroom", "Headroom", "text", "headroom", job.headroom, hint, fold=MORE)
    yield fields.make("for", "Runs for", "text", "for", days_text(job.for_hours), "such as 30d", fold=MORE)
    yield from _engines(job, fields)


def _engines(job: InferenceJob, fields: _Fields) -> Iterator[Control]:
    """Yield what answers: engines, where no tick leaves the choice, and bits of weights, which need a tick."""
    engines = tuple((name, engine.label) for name, engine in read_engines().engines.items())
    fold = {"fold": _FOLD_OF_ENGINES}
    yield fields.make(
        "engine", "Engines", "choices", "techniques.engine", job.techniques.engine,
        choices=engines, may_be_empty=True, **fold,
    )  # fmt: skip
    bits = job.techniques.weight_bits
    yield fields.make("weight_bits", "Weights", "choices", "techniques.weight_bits", bits, choices=_WEIGHT_BITS, **fold)


# Where on the page a fault of a scenario belongs.


def locate(faults: tuple[Fault, ...], controls: list[Control]) -> list[dict[str, str]]:
    """Return faults of a scenario, each once, with its field; an empty key where there is none."""
    located: list[dict[str, str]] = []
    for fault in faults:
        place = fault.where or fault.file.removeprefix("--set ").partition("=")[0]
        keys = [
            control.key for control in controls if _is_inside(place, control.path) or _is_inside(control.path, place)
        ]
        exact = [control.key for control in controls if _is_inside(place, control.path)]
        where = "" if exact or keys else f"{place}: " if place else ""
        entry = {"key": (exact or keys or [""])[0], "what": f"{where}{fault.what}", "fix": fault.fix}
        if entry not in located:  # one field may write several places: a price factor is two
            located.append(entry)
    return located


def _is_inside(place: str, around: str) -> bool:
    return bool(place) and (place == around or place.startswith(f"{around}."))


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
    settings: dict[str, str] = {}
    for key, control in known.items():
        value = values.get(key, control.value).strip()
        if value == control.value:
            continue
        try:
            settings[key] = _setting(control, value, configs or {})
        except ValueError as error:
            problem, _, fix = str(error).partition("; ")
            faults.append(_fault(key, problem, fix))
    if faults:
        raise Refusal(faults)
    return settings


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
    per_word = [_values_of_one(controls, word, names) for word in words]
    known = [values for values in per_word if values is not None]
    return {key: text for values in known for key, text in values.items()} if len(known) == len(per_word) else None


def _values_of_one(controls: list[Control], setting: str, names: Sequence[str]) -> dict[str, str] | None:
    """Return the field and the value that make one setting; None where no field makes it."""
    place, _, value = setting.partition("=")
    start = FORBID if place.endswith(".forbid") else ""
    place = place.removesuffix(".forbid").removesuffix(".allow")
    control = next(
        (field for field in controls if _by_number(field.path, names) == _by_number(place.strip(), names)), None
    )
    if control is None:
        return None
    values = {control.key: start + _typed(value.strip(), control)}
    try:
        settings_of(controls, values)
    except Refusal:
        return None
    return values


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
    controls = [control for index, job in enumerate(jobs) for control in job_controls(job, index, len(jobs) == 1)]
    return controls + list(_of_all(scenario))


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
