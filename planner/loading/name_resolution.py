"""Names and dates of a scenario resolved: models and GPUs in the library, loads in files, dates as hours from `now`.

Works on plain data before validation, so that a misspelt name is reported with all other faults.
An alias is replaced by the name in the library.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError, ValidationError

from planner.documents.files import read_document, read_shipped
from planner.documents.overrides import replace_value
from planner.documents.quantities import (
    at_clock,
    clock_changes,
    format_hours,
    hours_between,
    is_instant,
    parse_count,
    parse_hours,
    parse_instant,
    users_zone,
    written_in,
    written_zone,
    zone_of,
)
from planner.documents.validation import Source, suggest_names
from planner.errors import Fault, InputError, KeyPath, LibraryError
from planner.library.engines import read_load_profiles
from planner.library.reading import CardNames, is_config_path, read_config, read_library, release_bits
from planner.library.schema import describe_slices
from planner.scenario.inference_job import DAY, DEFAULT_WEIGHT_BITS, FLAT, FORMS, WEEK, job_form
from planner.scenario.job_stages import PromptImages, gather_lengths
from planner.scenario.offer import Offer
from planner.scenario.offer_terms import ClockChange, Window, default_power_watts
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def _resolve_other_models(data: Any, names: CardNames, folder: Path, source: Source, faults: list[Fault]) -> Any:
    """Return the data with the names of teachers and reward models resolved; unknown ones are faults."""
    of_rewards = texts_at(data, ("jobs", "*", "reward", "model"))
    for path, wanted in [*texts_at(data, ("jobs", "*", "teacher")), *of_rewards]:
        is_file = is_config_path(wanted) and path[-1] == "model"
        card = os.path.abspath(source.folder(path, folder) / wanted) if is_file else names.canonical(wanted)
        if card is None:
            faults.append(source.fault(path, f"unknown architecture {wanted!r}", names.suggestion(wanted)))
        elif card != wanted:
            data = replace_value(data, path, card)
    return data


def resolve_architectures(data: Any, folder: Path, source: Source, faults: list[Fault]) -> Any:
    """Return the data with aliases and paths resolved; unknown names and unsuitable work are faults."""
    names, released = CardNames("architectures"), dict[Any, list[tuple[str, ...]]]()
    data = _resolve_other_models(data, names, folder, source, faults)
    for path, wanted in list(texts_at(data, ("jobs", "*", "architecture", "*"))):
        if is_config_path(wanted):
            resolved = os.path.abspath(source.folder(path, folder) / wanted)
            try:
                read = read_config(resolved)
                kind: str = read.kind
                released.setdefault(path[1], []).append(read.published)
            except InputError as error:
                faults.extend(
                    fault if fault.line else source.fault(path, fault.what, fault.fix) for fault in error.faults
                )
                continue
        else:
            card = names.canonical(wanted)
            if card is None:
                faults.append(source.fault(path, f"unknown architecture {wanted!r}", names.suggestion(wanted)))
                continue
            resolved, kind = card, _kind_of(names, card)
            released.setdefault(path[1], []).append(names.published(card))
        if resolved != wanted:
            data = replace_value(data, path, resolved)
        work = data["jobs"][path[1]].get("work")
        if isinstance(work, dict):
            _check_work(path[:2], work, resolved, kind, source, faults)
    for index, published in released.items():
        data = _with_image_tokens(_with_released_bits(data, ("jobs", index), published), index, source, faults)
    return data


def _with_image_tokens(data: Any, index: int | str, source: Source, faults: list[Fault]) -> Any:
    """Return the data with the tokens of the images of prompts, which follow from the model of their job."""
    job = data["jobs"][index]
    part = "load" if "load" in job else "work"
    given = job.get(part)
    if not isinstance(given, dict) or not isinstance(given.get("image_input"), dict):
        return data
    if part == "work" and job.get("kind") != "inference":
        return data
    path: KeyPath = ("jobs", index, part, "image_input")
    named = [name for _, name in texts_at(job, ("architecture", "*"))]
    if len(named) != 1:
        fix = "give one model, and plan the others by themselves"
        faults.append(source.fault(path, "images of prompts have other tokens in each model", fix))
        return replace_value(data, path, {**given["image_input"], "tokens": 0})
    try:
        images = PromptImages.model_validate({**given["image_input"], "tokens": None})
        (card,) = read_library(named).architectures.values()
    except (ValidationError, LibraryError):  # each is reported where scenarios are validated
        return replace_value(data, path, {**given["image_input"], "tokens": 0})
    complaints = images.faults(card.name, card.tower)
    refused = [source.fault((*path, key) if key else path, *complaint) for key, *complaint in complaints]
    faults.extend(refused)
    tokens = 0 if refused or card.tower is None else images.tokens_of(card.tower)
    return replace_value(data, path, {**given["image_input"], "tokens": tokens})


def _with_released_bits(data: Any, path: KeyPath, published: list[tuple[str, ...]]) -> Any:
    """Return the data with the bits of a quantised release where a job of generation names no weights."""
    job = data["jobs"][path[1]]
    given = job.get("techniques") or {}
    if job.get("kind") not in ("inference", "serve") and "load" not in job:
        return data
    bits = [bits for release in published if (bits := release_bits(release)) is not None]
    if not bits or not isinstance(given, dict) or {"weight_bits", "weight_format"} & given.keys():
        return data
    others = DEFAULT_WEIGHT_BITS if len(bits) < len(published) else ()  # of models that the job may choose instead
    return replace_value(data, path, {**job, "techniques": {**given, "weight_bits": [*{*sum(bits, ()), *others}]}})


def _kind_of(names: CardNames, card: str) -> str:
    """Return decoder or diffusion; `read_library` reports a card that cannot be read."""
    try:
        return str(read_document(names.folder / f"{card}.yaml").data.get("kind", "decoder"))
    except InputError:
        return "decoder"


def images_wanted(name: str) -> str:
    """Return how the work of a network of images is given: no option of a command states it."""
    how = f"planner solve images-flux-lora --set jobs.0.architecture={name} --set jobs.0.work.images=40"
    return f"give images, epochs and resolution, as in {how}"


def _check_work(job: KeyPath, work: dict[str, Any], name: str, kind: str, source: Source, faults: list[Fault]) -> None:
    if kind == "decoder" and work.get("images") is not None:
        what = f"{name} is trained on tokens, not on images"
        faults.append(source.fault((*job, "work", "images"), what, "give samples and tokens_per_sample, or tokens"))
    for unit in ("samples", "tokens") if kind == "diffusion" else ():
        if work.get(unit) is not None:
            what = f"{name} is trained on images, not on {unit}"
            faults.append(source.fault((*job, "work", unit), what, images_wanted(name)))


LENGTH_COLUMNS = ("input_tokens", "output_tokens", "count")
SAMPLE_COLUMNS = ("tokens", "count")


def resolve_lengths(data: Any, folder: Path, source: Source, faults: list[Fault]) -> Any:
    """Return the data with tables of lengths (CSV files) in place of their paths; what is wrong in them is a fault.

    Lengths of answers of reinforcement learning may be JSON lines, too.
    """
    places = (("jobs", "*", "work", "lengths"), ("jobs", "*", "load", "lengths"))
    for path, wanted in [text for place in places for text in texts_at(data, place)]:
        form = job_form(data["jobs"][path[1]])
        is_single = form not in (FORMS["inference"], FORMS["serve"])
        columns = SAMPLE_COLUMNS if is_single else LENGTH_COLUMNS
        try:
            file = source.folder(path, folder) / wanted
            counts = read_answer_lengths(file) if form == FORMS["rl"] else read_lengths(file, columns)
        except InputError as error:
            faults.extend(fault if fault.line else source.fault(path, fault.what, fault.fix) for fault in error.faults)
            counts = {(1,) * (len(columns) - 1): 1}  # no second fault for what could not be read
        rows: list[dict[str, float]] = [dict(zip(columns, (*key, count), strict=True)) for key, count in counts.items()]
        if is_single:
            gathered = gather_lengths({key[0]: count for key, count in counts.items()})
            rows = [{"tokens": tokens, "count": count} for tokens, count in gathered]
        data = replace_value(data, path, rows)
    return data


ANSWER_KEYS = ("tokens", "output_tokens", "completion_tokens", "response_length", "completion_length", "length")
"""Names of the length of an answer in the logs of users, the preferred first."""


def read_answer_lengths(path: Path) -> dict[tuple[int, ...], int]:
    """Return how often each length of an answer occurs in a log of a user: a row, or a line of JSON, for each answer.

    A CSV has the columns of `read_lengths`, or among others one of `ANSWER_KEYS`; a line of JSON is a number, or has
    one of these keys. `InputError` where no length is found, and for what is no number of tokens.
    """
    from planner.documents.files import file_name, read_text
    from planner.documents.tables import MAX_CSV_BYTES, first_faults, read_csv

    text = read_text(path, MAX_CSV_BYTES)
    if not text.lstrip()[:1].isdigit() and not text.lstrip().startswith("{"):
        table = read_csv(path)
        key = next((name for name in ANSWER_KEYS if name in table.columns), None)
        if key is None or set(table.columns) <= set(SAMPLE_COLUMNS):
            return read_lengths(path, SAMPLE_COLUMNS)
        at = table.columns.index(key)
        rows: list[tuple[int, Any]] = [(line, cells[at]) for line, cells in table.rows]
    else:
        rows = list(_json_lengths(text))
    file, faults, counts = file_name(path), list[Fault](), dict[tuple[int, ...], int]()
    for line, value in rows:
        number = _whole(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
        if number is None:
            what = "no length of an answer" if value is None else f"{str(value)[:40]!r} is no number of tokens"
            fix = f"give a number, or one of the keys {', '.join(ANSWER_KEYS)}"
            faults.append(Fault(file, line, "", what, fix if value is None else "give a whole number of at least 1"))
        else:
            counts[(number,)] = counts.get((number,), 0) + 1
    if faults:
        raise InputError(first_faults(faults))
    return counts


def _json_lengths(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the line and the length of an answer of each line of JSON; None where it has none."""
    for line, part in enumerate(text.splitlines(), 1):
        if not part.strip():
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            value = part.strip()
        if isinstance(value, dict):
            value = next((value[key] for key in ANSWER_KEYS if key in value), None)
        yield line, int(value) if isinstance(value, float) and value.is_integer() else value


def read_lengths(path: Path, columns: tuple[str, ...]) -> dict[tuple[int, ...], int]:
    """Return how often each row of a table of lengths occurs; the last of its columns is `count`.

    `InputError` for columns that are no such table and cells without counts. A table without
    `count` has a row for each request or sample.
    """
    from planner.documents.tables import first_faults, read_csv  # late: few jobs have a table

    table, faults = read_csv(path), list[Fault]()
    for column in table.columns:
        if column not in columns:
            close = suggest_names(column, columns)
            fix = f"did you mean {close}?" if close else f"the columns are {', '.join(columns)}"
            faults.append(Fault(table.file, 1, column, "unknown column", fix))
    missing = [column for column in columns[:-1] if column not in table.columns]
    if missing:
        faults.append(Fault(table.file, 1, "", f"no column {' and '.join(missing)}", "add it"))
    if faults:
        raise InputError(faults)
    unit, counts = "requests" if columns == LENGTH_COLUMNS else "samples", dict[tuple[int, ...], int]()
    for line, cells in table.rows:
        row = dict(zip(table.columns, cells, strict=True))
        numbers = [_whole(row.get(name, "1")) for name in columns]
        for name, number in zip(columns, numbers, strict=True):
            if number is None:
                fix = "give a whole number of at least 1"
                faults.append(Fault(table.file, line, name, f"{row[name]!r} is no number of tokens or {unit}", fix))
        *key, count = (number or 0 for number in numbers)
        counts[tuple(key)] = counts.get(tuple(key), 0) + count
    if faults:
        raise InputError(first_faults(faults))
    return counts


def _whole(text: str) -> int | None:
    """Return a whole number of at least 1, written as any number of tokens is; None for anything else."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text) or None
    try:
        return parse_count(text)
    except PydanticCustomError:
        return None


UNKNOWN_LENGTH = ("samples of unknown length", "add tokens_per_sample (the mean)")


def check_lengths(data: Any, source: Source, faults: list[Fault]) -> None:
    """Add the fault of samples without a length, which is found with the other faults of a job only here."""
    jobs = data.get("jobs")
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        work = job.get("work") if isinstance(job, dict) else None
        if not isinstance(work, dict) or job.get("packing") == "fixed" or work.get("samples") is None:
            continue
        if all(work.get(key) is None for key in ("tokens_per_sample", "lengths", "tokens", "steps", "images")):
            faults.append(source.fault(("jobs", index, "work"), *UNKNOWN_LENGTH))


def resolve_gpus(data: Any, names: CardNames, source: Source, faults: list[Fault]) -> Any:
    """Return the data with GPUs of observed runs resolved; unknown ones and peaks above their memory are faults."""
    for key in ("gpu", "rollout_gpu"):
        for path, wanted in list(texts_at(data, ("jobs", "*", "measured", "*", key))):
            data = _resolved_gpu(data, path, wanted, names, source, faults)
    for path, card in texts_at(data, ("jobs", "*", "measured", "*", "gpu")):
        _check_peak(data["jobs"][path[1]]["measured"][path[3]], path[:-1], card, names, source, faults)
    return data


def _check_peak(
    run: dict[str, Any], path: KeyPath, card: str, names: CardNames, source: Source, faults: list[Fault]
) -> None:
    peak = run.get("peak_vram_gib")
    if card not in names.names or isinstance(peak, bool) or not isinstance(peak, (int, float)):
        return
    holds = read_document(names.folder / f"{card}.yaml").data.get("vram_gib")
    if isinstance(holds, (int, float)) and peak > holds:
        fix = "give the peak of one GPU in GiB (2^30 bytes), not of all"
        faults.append(source.fault((*path, "peak_vram_gib"), f"{peak:g} is more than the {holds:g} GiB of {card}", fix))


def resolve_offer_names(
    offers: Any,
    names: CardNames,
    source: Source,
    faults: list[Fault],
    *,
    of_scenario: bool = False,
    knows_gpus: bool = True,
) -> Any:
    """Return a list of offers under the key `offers` with GPU aliases resolved.

    Architectures of a managed service are resolved too. A price list may name more than there are cards of: those are
    kept, and no job can ask for them. In the scenario that asks, such a name is a fault; without `knows_gpus` a GPU
    is none.
    """
    data: Any = {"offers": offers}
    slices_of = cache(partial(_slices_of, names))  # a few cards are those of hundreds of offers
    for path, wanted in list(texts_at(data, ("offers", "*", "gpu"))):
        if not knows_gpus and names.canonical(wanted) is None:
            continue
        data = _resolved_gpu(data, path, wanted, names, source, faults)
        offer = data["offers"][path[1]]
        if offer["gpu"] in names.names and isinstance(offer.get("gpus"), int):
            _check_slice(offer, path[:-1], slices_of(offer["gpu"]), source, faults)
    architectures = CardNames("architectures")
    for path, wanted in list(texts_at(data, ("offers", "*", "managed", "architectures", "*"))):
        card = architectures.canonical(wanted)
        if card is None and of_scenario:
            faults.append(source.fault(path, f"unknown architecture {wanted!r}", architectures.suggestion(wanted)))
        data = replace_value(data, path, card) if card not in (None, wanted) else data
    return with_power(data["offers"], names)


def with_power(offers: Any, names: CardNames) -> Any:
    """Return offers whose own machines, and those to buy, have a power: where none is stated, that of such a server."""
    if not isinstance(offers, list):
        return offers
    filled = []
    for offer in offers:
        ways = [key for key in ("own", "buy") if isinstance(offer, dict) and isinstance(offer.get(key), dict)]
        for key in ways:
            card, gpus, owned = offer.get("gpu"), offer.get("gpus"), offer[key]
            if card in names.names and type(gpus) is int and gpus > 0 and "power_watts" not in owned:
                tdp = read_document(names.folder / f"{card}.yaml").data.get("tdp_w")  # not published of some chips
                watts = {} if tdp is None else {"power_watts": default_power_watts(tdp, gpus)}
                offer = {**offer, key: {**watts, **owned}}
        filled.append(offer)
    return filled


def _slices_of(names: CardNames, card: str) -> dict[int, int]:
    """Return the hosts of each slice of chips that is sold, by its chips; none of a GPU."""
    chip = read_shipped(names.folder / f"{card}.yaml").data.get("chip") or {}
    return {int(count): hosts for count, hosts in chip.get("hosts", {}).items()}


def _check_slice(
    offer: dict[str, Any], path: KeyPath, slices: dict[int, int], source: Source, faults: list[Fault]
) -> None:
    """Add the fault of a number of chips that is no slice which is sold."""
    if slices and offer["gpus"] not in slices:
        what = f"{offer['gpus']} chips are no slice that is sold"
        faults.append(source.fault((*path, "gpus"), what, describe_slices(offer["gpu"], slices)))


def _resolved_gpu(data: Any, path: KeyPath, wanted: str, names: CardNames, source: Source, faults: list[Fault]) -> Any:
    card = names.canonical(wanted)
    if card is None:
        faults.append(source.fault(path, f"unknown GPU {wanted!r}", names.suggestion(wanted)))
        return data
    return data if card == wanted else replace_value(data, path, card)


def texts_at(data: Any, place: tuple[str, ...], path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield every text at a place in which `*` is any item of a list, or a single value in its place."""
    if not place:
        if isinstance(data, str):
            yield path, data
    elif place[0] == "*" and isinstance(data, list):
        for index, item in enumerate(data):
            yield from texts_at(item, place[1:], (*path, index))
    elif place == ("*",):
        yield from texts_at(data, (), path)
    elif isinstance(data, dict) and place[0] in data:
        yield from texts_at(data[place[0]], place[1:], (*path, place[0]))


# The load of a service by the hour from a CSV file, in place of its path.


LOAD_COLUMNS = ("hour", "per_second")


def resolve_load(data: Any, folder: Path, source: Source, faults: list[Fault]) -> Any:
    """Return the data with the numbers of load files in place of their paths; what is wrong in them is a fault."""
    for path, wanted in list(texts_at(data, ("jobs", "*", "load", "profile"))):
        if wanted == FLAT or wanted in read_load_profiles() or not wanted.lower().endswith(".csv"):
            continue
        try:
            numbers = read_load(source.folder(path, folder) / wanted)
        except InputError as error:
            faults.extend(fault if fault.line else source.fault(path, fault.what, fault.fix) for fault in error.faults)
            numbers = [1.0] * DAY  # no second fault for what could not be read
        data = replace_value(data, path, numbers)
    return data


def read_load(path: Path) -> list[float]:
    """Return the load of each hour; `InputError` for other columns, cells that are no load, hours twice or missing."""
    from planner.documents.tables import first_faults, read_csv  # late: few services have a table

    table = read_csv(path)
    if sorted(table.columns) != sorted(LOAD_COLUMNS):
        fix = f"the columns are {', '.join(LOAD_COLUMNS)}"
        raise InputError([Fault(table.file, 1, "", f"columns {', '.join(table.columns)}", fix)])
    faults: list[Fault] = []
    loads: dict[int, float] = {}
    for line, cells in table.rows:
        row = dict(zip(table.columns, cells, strict=True))
        hour = int(row["hour"]) if row["hour"].isascii() and row["hour"].isdigit() else None
        load = _number(row["per_second"])
        if hour is None or hour >= WEEK:
            faults.append(Fault(table.file, line, "hour", f"{row['hour']!r} is no hour", f"0 to {WEEK - 1}"))
        elif hour in loads:
            faults.append(Fault(table.file, line, "hour", f"hour {hour} is there twice", "keep one"))
        elif load is None:
            what = f"{row['per_second']!r} is no load"
            faults.append(Fault(table.file, line, "per_second", what, "give requests per second, 0 or more"))
        else:
            loads[hour] = load
    if not faults and sorted(loads) not in (list(range(DAY)), list(range(WEEK))):
        fix = f"give hours 0 to {DAY - 1} of a day, or 0 to {WEEK - 1} of a week from Monday 0:00 on"
        faults.append(Fault(table.file, 1, "hour", f"a profile of {len(loads)} hours", fix))
    if faults:
        raise InputError(first_faults(faults))
    return [loads[hour] for hour in sorted(loads)]


def _number(text: str) -> float | None:
    """Return a finite number that is not negative; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


# Keys of other kinds of jobs in a service: each is refused with the key that says the same of a service.


LOAD_EXAMPLE = "{per_second: 12, profile: office, input_tokens: 800, output_tokens: 200}"
LENGTH_KEYS = ("input_tokens", "output_tokens", "prefix_tokens", "lengths")
"""Keys of `work` that are keys of `load` too."""
OF_RUNS = {
    "deadline": ("a service has no deadline", "for: 30d says how long it runs, latency: {tpot: 40ms} how fast it is"),
    "due": ("a service has no due date", "for: 30d says how long it runs"),
    "release": ("a service has no release", "for: 30d says how long it runs"),
    "trials": ("a service has no trials", "leave it out"),
    "stages": ("a service has no stages", "cold_start: 5m is the time from ordering a machine to its first answer"),
    "data_gb": ("a service reads no data", "leave it out; cold_start has the time to load the weights"),
}
"""What a key means where a job has an end, and what says the same of a service."""


def refuse_keys_of_runs(data: dict[str, Any], source: Source, faults: list[Fault]) -> dict[str, Any]:
    """Return the data without keys that only jobs with an end have; each is a fault, and so is a missing load."""
    jobs = data.get("jobs")
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        if not isinstance(job, dict) or job_form(job) != FORMS["serve"]:
            continue
        kept = {key: value for key, value in job.items() if key not in (*OF_RUNS, "work")}
        for key, (what, fix) in OF_RUNS.items():
            if key in job:
                faults.append(source.fault(("jobs", index, key), what, fix))
        if "work" in job:
            faults.append(source.fault(("jobs", index, "work"), "a service has no work", f"give {_load_keys(job)}"))
        if job.get("load") is None:
            if "work" not in job:
                faults.append(source.fault(("jobs", index, "load"), "is missing", f"such as load: {LOAD_EXAMPLE}"))
            # No second fault for what is missing.
            kept["load"] = {"per_second": 1, "input_tokens": 1, "output_tokens": 1}
        data = replace_value(data, ("jobs", index), kept)
    return data


def _load_keys(job: dict[str, Any]) -> str:
    """Return the keys of `load` that say what the keys of `work` were meant to say."""
    work = job["work"]
    given = [key for key in LENGTH_KEYS if isinstance(work, dict) and key in work]
    if given and isinstance(job.get("load"), dict):
        return ", ".join(f"load.{key}" for key in given) + " instead"
    return f"load: {LOAD_EXAMPLE} instead"


MOMENTS = (
    ("jobs", "*", "deadline"),
    ("jobs", "*", "release"),
    ("jobs", "*", "due"),
    ("offers", "*", "block", "start"),
    ("offers", "*", "block", "end"),
    ("offers", "*", "available", "*", "from"),
    ("offers", "*", "available", "*", "to"),
    ("limits", "budgets", "*", "from"),
    ("limits", "budgets", "*", "to"),
)
"""Places of a scenario that may hold a date instead of a duration."""
MAY_BE_NOW = ("release", "start", "from")
"""Keys of moments at which something begins."""
BEGUN = ("release", "available")
"""Keys of what may have begun before `now`: a job that waits since then, and windows, of which the rest is left."""


def resolve_dates(data: dict[str, Any], source: Source, faults: list[Fault]) -> dict[str, Any]:
    """Return the data with every date as hours from `now`, which is the clock where it is not set.

    The `now` that dates were counted from stays in the data, so that a change of another value moves no date. It is
    written in the zone of the user: its own, or the first that a date names. Windows that return by the day have the
    changes of the clock of their zone.
    """
    dated = [(path, value) for place in MOMENTS for path, value in _values_at(data, place) if is_instant(value)]
    if not dated and data.get("now") is None:
        return data
    try:
        zone = users_zone(data.get("now"), [value for _, value in dated])
        now = parse_instant(data["now"]) if data.get("now") is not None else _clock(dated[0][1])
    except PydanticCustomError:
        return data  # the validation reports it
    if zone and zone != zone_of(data.get("now")):
        data = {**data, "now": written_in(now, zone)}
    elif data.get("now") is None:
        data = {**data, "now": now.isoformat(sep=" ", timespec="minutes")}
    data = _budgets_by_clock(data, now, zone)
    moments = {path: _hours_until(value, now, path, source, faults) for path, value in dated}
    written = dict(dated)
    for path, hours in moments.items():
        data = replace_value(data, path, _written(hours))
    for place, windows in list(_values_at(data, ("offers", "*", "available"))):
        if not isinstance(windows, list) or not windows:
            continue
        left = []
        for index, window in enumerate(windows):
            date = written.get((*place, index, "from"))
            clock = written_zone(date) if date is not None else zone
            parts = _left_of(window, (*place, index), moments, now, written)
            left += [_by_clock(part, now, clock, date is not None) for part in parts]
        if not left:
            fix = "give a later one, or set now (--now) to the day on which the job may start"
            faults.append(source.fault(place, "every window is over", fix))
        data = data if left == windows else replace_value(data, place, left)
    return data


def _budgets_by_clock(data: dict[str, Any], now: datetime.datetime, zone: str) -> dict[str, Any]:
    """Return the data with the changes of the clock from the present `now` on in budgets by day and week."""
    for path, budget in list(_values_at(data, ("limits", "budgets", "*"))):
        if zone and isinstance(budget, dict) and budget.get("per") in ("day", "week"):
            changes = [change.model_dump(by_alias=True, mode="json") for change in _changes(now, zone)]
            if changes or "clock_changes" in budget:
                data = replace_value(data, path, budget | {"clock_changes": changes})
    return data


def offers_by_clock(offers: tuple[Offer, ...], now: object) -> tuple[Offer, ...]:
    """Return offers of files with the changes of the clock of `now` in windows that return by the day."""
    if not (zone := zone_of(now)) or not any(offer.available for offer in offers):
        return offers
    changes = _changes(parse_instant(now), zone)
    return tuple(
        offer.model_copy(
            update={
                "available": tuple(
                    window.with_clock(changes, False)
                    if window.returns_by_clock() and not window.clock_changes
                    else window
                    for window in offer.available
                )
            }
        )
        if offer.available
        else offer
        for offer in offers
    )


def _clock(date: object) -> datetime.datetime:
    """Return the present minute, with the offset of a date where that has no name of a zone."""
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    try:
        return now.astimezone(parse_instant(date).tzinfo)
    except PydanticCustomError:  # which is reported where the date is read
        return now


def _changes(now: datetime.datetime, zone: str) -> tuple[ClockChange, ...]:
    """Return the changes of the clock of a zone from `now` on."""
    return tuple(
        ClockChange.model_validate({"at": _written(hours_between(now, at)), "forward_hours": hours})
        for at, hours in clock_changes(now, zone)
    )


def _by_clock(window: Any, now: datetime.datetime, zone: str, has_dates: bool) -> Any:
    """Return a window that returns by the day with the changes of its clock; the validation reports what is none."""
    if not zone or not isinstance(window, dict) or "every" not in window or window.get("clock_changes"):
        return window
    try:
        read = Window.model_validate(window)
    except ValidationError:
        return window
    changes = _changes(now, zone) if read.returns_by_clock() else ()
    if not changes:
        return window
    return read.with_clock(changes, has_dates).model_dump(by_alias=True, mode="json")


def _left_of(
    window: Any,
    place: KeyPath,
    moments: Mapping[KeyPath, float],
    now: datetime.datetime,
    written: Mapping[KeyPath, Any],
) -> list[Any]:
    """Return the parts of a window that lie ahead of `now`.

    At 23:00, of a window from 20:00 to 8:00 that returns every day: 0 h to 9 h, and 21 h to 33 h every 24 h. It returns
    by the clock of its zone.
    """
    begin, end = moments.get((*place, "from"), 0.0), moments.get((*place, "to"), math.inf)
    if begin >= 0 or not begin < end < math.inf:
        return [window]  # it has not begun, or the validation reports it
    if "every" not in window:
        return [window] if end > 0 else []
    try:
        every = parse_hours(window["every"])
        dates = [parse_instant(written[(*place, key)]) for key in ("from", "to")]
    except PydanticCustomError:
        return [window]
    zone = written_zone(written[(*place, "from")]) if every % DAY_HOURS == 0 else ""

    def turn(times: int) -> tuple[float, float]:
        if not zone:
            return begin + times * every, end + times * every
        first, last = (hours_between(now, at_clock(date, times * every / DAY_HOURS, zone)) for date in dates)
        return first, last

    times = math.floor(-begin / every)  # how often it has begun again
    times -= turn(times)[0] > 0
    times += turn(times + 1)[0] <= 0
    end, following = turn(times)[1], turn(times + 1)
    again = window | {"from": _written(following[0]), "to": _written(following[1])}
    now_open = {key: value for key, value in window.items() if key != "every"} | {"from": "0h", "to": _written(end)}
    return [now_open, again] if end > 0 else [again]


def _written(hours: float) -> str:
    """Return hours from `now` as a scenario has them; what has begun is open from `now` on."""
    return format_hours(hours) if hours > 0 else "0h"


def _hours_until(value: str, now: datetime.datetime, path: KeyPath, source: Source, faults: list[Fault]) -> float:
    """Return the hours from `now` to a date; what is no date, or over, is a fault."""
    try:
        hours = hours_between(now, parse_instant(value))
    except PydanticCustomError as error:
        context = error.context or {}
        faults.append(source.fault(path, context["what"], context["fix"]))
        return 1.0
    over = hours < 0 or (hours == 0 and path[-1] not in MAY_BE_NOW)
    if over and not any(key in BEGUN for key in path):
        fix = "give a later day, or set now (--now) to the day on which the job may start"
        faults.append(source.fault(path, f"{value} is over", fix))
        return 1.0
    return hours


def _values_at(data: Any, place: tuple[str, ...], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value at a place in which `*` is any item of a list."""
    if not place:
        yield path, data
    elif place[0] == "*" and isinstance(data, list):
        for index, item in enumerate(data):
            yield from _values_at(item, place[1:], (*path, index))
    elif isinstance(data, dict) and place[0] in data:
        yield from _values_at(data[place[0]], place[1:], (*path, place[0]))
