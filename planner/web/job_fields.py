"""The fields of one job, how a value is written in one, and where a fault of a scenario belongs."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from planner.documents.quantities import TOWER_STATES
from planner.errors import Fault, InputError
from planner.library.engines import read_engines, read_load_profiles
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques
from planner.scenario.inference_job import FLAT, InferenceJob, ServeJob
from planner.scenario.job import Job
from planner.scenario.open_job import OpenJob
from planner.units import DAY_HOURS, MILLISECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    what = "sample" if job.trains else "prompt"
    count = images.count if images else 1.0
    yield fields.make("image_count", f"Images of a {what}", "text", f"{path}.count", count, "the mean", **more)
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
    found: list[dict[str, str]] = []
    for fault in faults:
        place = fault.where or fault.file.removeprefix("--set ").partition("=")[0]
        keys = [
            control.key for control in controls if _is_inside(place, control.path) or _is_inside(control.path, place)
        ]
        exact = [control.key for control in controls if _is_inside(place, control.path)]
        where = "" if exact or keys else f"{place}: " if place else ""
        one = {"key": (exact or keys or [""])[0], "what": f"{where}{fault.what}", "fix": fault.fix}
        if one not in found:  # one field may write several places: a price factor is two
            found.append(one)
    return found


def _is_inside(place: str, around: str) -> bool:
    return bool(place) and (place == around or place.startswith(f"{around}."))
