"""Scenario files to validated scenarios: inventories, what may be left out or open, every fault at once."""

from __future__ import annotations

import functools
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from planner.documents.files import Document, Marks, data_folder, parse_document, read_document, read_shipped
from planner.documents.overrides import Settings, as_settings, check_ranges, override, suggest_for_unknown_keys
from planner.documents.validation import (
    SYNONYMS,
    UNKNOWN_KEY,
    Source,
    find_name,
    name_fix,
    plain_schema,
    suggest_names,
    validate_spelled,
    validation_complaints,
)
from planner.errors import Fault, InputError, KeyPath, ScenarioError, raise_faults
from planner.library.reading import CardNames, families, members
from planner.loading.name_resolution import (
    check_lengths,
    offers_by_clock,
    refuse_keys_of_runs,
    resolve_architectures,
    resolve_dates,
    resolve_gpus,
    resolve_lengths,
    resolve_load,
    resolve_offer_names,
)
from planner.loading.price_files import mark_price_lag, read_offers, validate_offers
from planner.scenario.naming import OfferedNames, hand_on_labels, resolve_offered
from planner.scenario.offer import Offer
from planner.scenario.open_job import MOST_ALTERNATIVES, Family, OpenJob
from planner.scenario.scenario import (
    MAX_OFFERS,
    NO_TRAINING_OFFER,
    Scenario,
    ScenarioFile,
    architectures_of,
    choice_faults,
    scenario_data,
    split_trials,
    with_token_sigmas,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# Faults of what a scenario leaves open: families without models, losses that no model reaches, contradictions.


def check_choices(scenario: Scenario | ScenarioFile, source: Source) -> None:
    """Raise ScenarioError with every fault of what a scenario leaves open."""
    faults = [source.fault(tuple(where.split(".")), what, fix) for where, what, fix in choice_faults(scenario)]
    for index, job in enumerate(scenario.jobs):
        if isinstance(job, OpenJob):
            model_faults = _model_faults(job)
            faults += [source.fault(("jobs", index, *place), what, fix) for place, what, fix in model_faults]
    raise_faults(faults, ScenarioError)


def _model_faults(job: OpenJob) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield place, fault and remedy of the models that a job leaves open."""
    asked = job.models
    if isinstance(asked, Family):
        known = families()
        if asked.family not in known:
            yield ("architecture", "family"), f"unknown family {asked.family!r}", name_fix(asked.family, sorted(known))
            return
        least, most = asked.parameters.least, asked.parameters.most
        if not members(asked.family, least, most):
            near = (*members(asked.family, 0, least)[-1:], *members(asked.family, most, math.inf)[:1])
            what = f"no model of {asked.family} has {least:,} to {most:,} parameters"
            fix = f"widen the range to the nearest: {' or '.join(near)}"
            yield ("architecture", "parameters"), what, fix
            return
    elif len(set(asked)) < len(asked):
        twice = next(name for name in asked if asked.count(name) > 1)
        yield ("architecture",), f"{twice} is listed twice", "list each model once"
    count = len(architectures_of(job)) * len(job.batches)
    if count > MOST_ALTERNATIVES:
        what = f"{count:,} models and batches are more than {MOST_ALTERNATIVES}"
        yield ("architecture",), what, "narrow the range of sizes or of batches"


# What a scenario may leave out: names, and the inventory where nothing is listed.


MARKET = "market"
"""Name of the shipped price list, which is the inventory of a scenario without offers."""


PURCHASE = "purchase"
"""Name of the shipped list of machines to buy."""


PRICE_BOOK = "prices"
"""Name of the price book in a scenario's `inventory`."""


def shipped_inventory(name: str) -> Path | None:
    """Return the file of a shipped inventory, None where no file has that name."""
    return data_folder("scenarios") / "inventory" / f"{name}.yaml" if name in (MARKET, PURCHASE) else None


def default_name(architecture: str) -> str:
    """Return the name of what trains this model: the last part of its name, or the folder of a config.json."""
    path = PurePosixPath(architecture.strip())
    part = path.parent.name if path.name == "config.json" and path.parent.name not in ("", "..") else path.name
    for ending in (".json", ".yaml", ".yml"):
        part = part.removesuffix(ending)
    return part or "job"


def fill_names(data: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the data with a name for each job that has none, and for the scenario: that of its file."""
    jobs = data.get("jobs")
    if isinstance(jobs, list):
        names = (job.get("name") for job in jobs if isinstance(job, dict))
        taken = {name for name in names if isinstance(name, str)}
        data = {**data, "jobs": [_named(job, taken) for job in jobs]}
    if "name" not in data:
        data = {"name": PurePosixPath(file).stem or "scenario", **data}
    return data


def _named(job: Any, taken: set[str]) -> Any:
    """Return a job with a name of its own: the model's, or `job`; with a number from the second one on."""
    if not isinstance(job, dict) or "name" in job or "architecture" not in job:
        return job
    base = default_name(job["architecture"]) if isinstance(job["architecture"], str) else "job"
    numbered = (f"{base}-{number}" if number > 1 else base for number in range(1, len(taken) + 2))
    name = next(name for name in numbered if name not in taken)
    taken.add(name)
    return {"name": name, **job}


# Inventories by name or path: the shipped market, the price book, YAML and CSV files.


def read_inventory(name: str, folder: Path, faults: list[Fault]) -> tuple[Offer, ...]:
    """Return the offers of an inventory; faults inside it are added, `InputError` is raised where there is none.

    A path is relative to `folder`.
    """
    if name == PRICE_BOOK and not os.path.isfile(folder / name):
        from planner.loading.price_files import read_price_book  # late, as tables are: most inventories are YAML

        return tuple(_of_book(offer) for _, offers in read_price_book() for offer in offers)
    path = shipped_inventory(name) or folder / name
    if not os.path.isfile(path):  # not Path.is_file, which raises for too long a name
        where = f"{MARKET} for the shipped prices, {PURCHASE} for machines to buy, or {PRICE_BOOK} for the price book"
        fix = f"give a path relative to the folder of the scenario, or {where}"
        what = "not a file" if os.path.exists(path) else "no such file"
        raise InputError([Fault("", 0, "", f"{what}: {path}", fix)])
    if str(path).casefold().endswith(".csv"):
        from planner.documents.tables import read_csv
        from planner.loading.price_files import read_offer_table

        return read_offer_table(read_csv(path), faults)[1]
    is_shipped = path.resolve().is_relative_to(data_folder("scenarios").resolve())
    return read_offers((read_shipped if is_shipped else read_document)(path), faults)


def shipped_purchases() -> tuple[Offer, ...]:
    """Return the machines of the shipped list of purchases, with which a plan compares those that it rents."""
    return _purchases_of(data_folder("scenarios"))


@functools.lru_cache(maxsize=1)  # asked for at every change of a scenario
def _purchases_of(folder: Path) -> tuple[Offer, ...]:
    faults: list[Fault] = []
    offers = read_inventory(PURCHASE, folder, faults)
    raise_faults(faults, InputError)
    return offers


def _of_book(offer: Offer) -> Offer:
    """Return an offer whose source says that the price book had it, so that a plan says it too."""
    return offer.model_copy(update={"source": f"price book: {offer.source}" if offer.source else "price book"})


MAX_MACHINE_SIZES = 50_000
"""Most machines to compare, each number of nodes counted: a hundred times the shipped market, in 8 s and 0.5 GB."""


PLAN_KEYS = frozenset(("status", "candidates", "jobs"))
"""Keys that distinguish a plan from a scenario."""


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario with the source of its values, so that faults found later have file and line."""

    scenario: Scenario
    source: Source

    @contextmanager
    def locate_faults(self) -> Iterator[None]:
        """Add file and line to the faults of the scenario that are raised inside."""
        try:
            yield
        except ScenarioError as error:
            raise ScenarioError([self.locate(fault) for fault in error.faults]) from None

    def locate(self, fault: Fault) -> Fault:
        """Return the fault with its line; unchanged if it has one or is not about this scenario."""
        jobs = self.scenario.jobs
        if fault.line or fault.file not in (self.scenario.name, *(job.name for job in jobs)):
            return fault
        for index, job in enumerate(jobs):
            if fault.where.startswith(prefix := f"jobs.{job.name}."):
                rest = fault.where.removeprefix(prefix).split(".")
                path = ("jobs", index, *(int(part) if part.isdigit() else part for part in rest))
                return self.source.fault(path, fault.what, fault.fix)
        return fault


def read_scenario(path_or_name: str | Path, set_: Settings = ()) -> Scenario:
    """Return the scenario of a file, a shipped name or standard input (`-`), with `PATH=VALUE` settings applied.

    Raises `ScenarioError` with every fault of the scenario, its inventories and the settings.

    >>> planner.read_scenario("quickstart", {"jobs.0.deadline": "12h"}).jobs[0].deadline_hours
    12.0
    """
    return load_scenario(path_or_name, as_settings(set_)).scenario


def load_scenario(path_or_name: str | Path, set_: Sequence[str] = ()) -> LoadedScenario:
    """Return the scenario with the sources of its values; raises like `read_scenario`."""
    try:
        path = _find_file(path_or_name)
        document = read_document(path)
    except InputError as error:
        raise ScenarioError(error.faults) from None
    return load_document(document, Path() if str(path) == "-" else Path(path).parent, set_)


def parse_scenario(text: str, folder: str | Path = ".", file: str = "scenario", set_: Sequence[str] = ()) -> Scenario:
    """Return the scenario of a text; relative paths start at `folder`. Raises like `read_scenario`."""
    try:
        document = parse_document(text, file)
    except InputError as error:
        raise ScenarioError(error.faults) from None
    return load_document(document, Path(folder), set_).scenario


def change_scenario(scenario: Scenario, set_: Settings) -> Scenario:
    """Return the scenario with settings applied and validated again, without reading its inventory files again.

    Settings are `PATH=VALUE` texts, one or several, or a mapping from path to value.
    Raises `ScenarioError`, also for other inventory files, because their folder is unknown here.

    >>> scenario = planner.read_scenario("quickstart")
    >>> planner.change_scenario(scenario, {"limits.budget_usd": 4}).limits.budget_usd
    4.0
    """
    data = scenario_data(scenario)
    for job in data["jobs"]:
        job.pop("token_sigma", None)
    data, origins, faults = override(data, as_settings(set_))
    source = Source(scenario.name, None, origins)
    touched = next((path for path in origins if path[0] == "inventory"), None)
    if touched:
        faults.append(source.fault(touched, "the inventory cannot be changed here", "set it when the scenario is read"))
    from_files = scenario.offers[: len(scenario.offers) - len(scenario.offers_inline)]
    changed = _validate(data, Path(), source, from_files, faults)
    changed = changed.on_day(scenario.limits.today)
    hand_on_labels(scenario.__dict__, changed.__dict__)
    return with_token_sigmas(changed, scenario)


def load_document(
    document: Document,
    folder: Path,
    set_: Sequence[str],
    options: Mapping[KeyPath, str] | None = None,
    knows_gpus: bool = True,
) -> LoadedScenario:
    """Return the scenario of a document with the sources of its values; raises like `read_scenario`.

    `options` are the command-line options that wrote values of the document, by place. Without `knows_gpus` its offers
    may have GPUs that are in no file of the package.
    """
    if document.data.keys() >= PLAN_KEYS:
        fix = "give the scenario that it was solved from; planner simulate SCENARIO --plan FILE replays a plan"
        raise ScenarioError([Fault(document.file, 1, "", "is a plan that solve wrote, and no scenario", fix)])
    document, misspelt = _with_jobs(document)
    data, origins, faults = override(fill_names(document.data, document.file), set_)
    source = Source(document.file, document, {**(options or {}), **origins})
    faults += misspelt
    if not {"jobs", "inventory", "offers"} & data.keys():  # perhaps a file of passwords: nothing of it is shown
        fix = "give a file with the keys name and jobs; planner schema lists all keys"
        fix = "the key is jobs, not job; planner schema lists all keys" if "job" in data else fix
        raise ScenarioError([*faults, source.fault((), "is not a scenario: it has no jobs", fix)])
    if not data.get("inventory") and not data.get("offers"):
        data = {**data, "inventory": [MARKET]}
    before = len(faults)
    from_files = _inventories(data.get("inventory"), folder, source, faults)
    is_complete = len(faults) == before
    scenario = _validate(data, folder, source, from_files, faults, is_complete=is_complete, knows_gpus=knows_gpus)
    return LoadedScenario(scenario, source)


def _means_jobs(key: str) -> bool:
    return bool(suggest_names(key, ["jobs"])) or SYNONYMS.get(key.casefold()) == "jobs"


def _with_jobs(document: Document) -> tuple[Document, list[Fault]]:
    """Return the document with its jobs under their key, and the fault of another one that is meant by it.

    So the faults inside of the jobs are reported, too.
    """
    data = document.data
    if "jobs" in data:
        return document, []
    meant = [
        key
        for key, value in data.items()
        if isinstance(value, list) and all(isinstance(job, dict) for job in value) and _means_jobs(str(key))
    ]
    if len(meant) != 1:
        return document, []
    (key,) = meant
    marks = document.marks
    children = {"jobs" if name == key else name: inner for name, inner in marks.children.items()}
    renamed = {"jobs" if name == key else name: value for name, value in data.items()}
    fault = Fault(document.file, document.line((key,)), str(key), UNKNOWN_KEY, "did you mean jobs?")
    return Document(document.file, renamed, Marks(marks.line, children)), [fault]


def _validate(
    data: dict[str, Any],
    folder: Path,
    source: Source,
    from_files: tuple[Offer, ...],
    faults: list[Fault],
    is_complete: bool = True,
    knows_gpus: bool = True,
) -> Scenario:
    """Return the scenario of plain data; raises every fault together, including those found before.

    Without `is_complete` offers of a file are missing, so that names of offers may be unknown for that alone.
    """
    gpus = CardNames("gpus")
    data = resolve_dates(data, source, faults)
    data = resolve_architectures(data, folder, source, faults)
    data = resolve_gpus(data, gpus, source, faults)
    data = refuse_keys_of_runs(data, source, faults)
    data = resolve_load(resolve_lengths(data, folder, source, faults), folder, source, faults)
    check_lengths(data, source, faults)
    inline: tuple[Offer, ...] = ()
    written = data.get("offers")
    if isinstance(written, list):
        written = _drop_partial_offers(written, bool(from_files), source, faults)
        named = resolve_offer_names(written, gpus, source, faults, of_scenario=True, knows_gpus=knows_gpus)
        inline = validate_offers(named, source, faults)
        data = {**data, "offers": []}  # validated above
        is_complete = is_complete and len(inline) == len(written)
    offers = mark_price_lag(offers_by_clock(from_files, data.get("now")) + inline)
    names = OfferedNames(offers, is_complete)
    data = resolve_offered(data, names, lambda path, what, fix: faults.append(source.fault(path, what, fix)))
    if offers and all(offer.is_cpu for offer in offers):
        faults.append(source.fault(("offers",) if written else ("inventory",), *NO_TRAINING_OFFER))
    for what in _oversizes(offers):
        fix = "lower max_nodes, or leave out offers that no job may use"
        faults.append(source.fault(("offers",) if written else ("inventory",), what, fix))
    check_ranges(data.get("vary"), source, faults)
    validated: ScenarioFile | None = None
    try:
        validated = validate_spelled(ScenarioFile, data)
    except ValidationError as error:
        complaints = validation_complaints(error, ScenarioFile, data)
        schema = plain_schema(ScenarioFile) if source.origins else {}
        faults.extend(source.faults(suggest_for_unknown_keys(complaints, source.origins, schema, data)))
    if faults or validated is None:
        raise ScenarioError(list(dict.fromkeys(faults)))
    fields = {**dict(validated), "offers": offers, "offers_inline": inline}
    check_choices(validated, source)
    if validated.horizon is None:
        listed = tuple(offer for offer in offers if offer.buy is not None)
        fields["for_sale"] = (*listed, *shipped_purchases())
    if any(job.trials.split for job in validated.jobs):
        fields |= {"jobs": split_trials(validated.jobs), "jobs_written": validated.jobs}
    return source.validate(Scenario, {"schema": fields.pop("schema_version"), **fields})


def _oversizes(offers: Sequence[Offer]) -> list[str]:
    """Return what of the offers is more than can be planned with."""
    kinds = {
        (offer.max_nodes, offer.gpu, offer.gpus, offer.interconnect, offer.network_gbps)
        for offer in offers
        if offer.rents_gpus
    }
    counts = (
        (len(offers), MAX_OFFERS, "offers"),
        (sum(kind[0] for kind in kinds), MAX_MACHINE_SIZES, "sizes of machines, from 1 to max_nodes each"),
    )
    return [f"{count:,} {what}: more than {most:,}" for count, most, what in counts if count > most]


def _drop_partial_offers(written: list[Any], has_files: bool, source: Source, faults: list[Fault]) -> list[Any]:
    """Return the offers without incomplete ones made by settings only, which meant an offer of an inventory file."""
    kept = []
    for index, offer in enumerate(written):
        set_ = {place[2] for place in source.origins if place[:2] == ("offers", index) and len(place) > 2}
        only_set = isinstance(offer, dict) and bool(set_) and set(offer) <= set_
        if has_files and only_set and not {"gpu", "provider"} & set_:
            what = "is not in the scenario; offers of inventory files are changed by adjust"
            fix = "write it as adjust.0={match: {gpu: H100-80GB}, usd_per_hour_factor: 1.2}"
            faults.append(source.fault(("offers", index), what, fix))
        else:
            kept.append(offer)
    return kept


def _inventories(named: Any, folder: Path, source: Source, faults: list[Fault]) -> tuple[Offer, ...]:
    """Return the offers of all inventory files; validation reports what is not a list of names."""
    offers: list[Offer] = []
    items = named if isinstance(named, list) else [named]
    for index, name in enumerate(items):
        if not isinstance(name, str) or not name:
            continue
        place = ("inventory", index) if isinstance(named, list) else ("inventory",)
        try:
            read = read_inventory(name, source.folder(place, folder), faults)
            offers += read
            if name == PRICE_BOOK and MARKET not in items and not os.path.isfile(folder / name):
                offers += _beside_book(read)
        except InputError as error:
            faults += [fault if fault.file else source.fault(place, fault.what, fault.fix) for fault in error.faults]
    return tuple(offers)


def _beside_book(read: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return what the shipped list has of the providers of the price book and no list by the hour states."""
    from planner.loading.price_files import shipped_beside_prices

    return shipped_beside_prices({offer.provider for offer in read})


def shipped_scenarios() -> dict[str, Path]:
    """Return the shipped scenarios by name: those of the folder, then those of each subject."""
    folder = data_folder("scenarios")
    subjects = ("whole-job", "timetable", "decisions", "generation", "choices", "serving", "tuning", "reinforcement")
    patterns = ("*.yaml", *(f"{subject}/*.yaml" for subject in subjects))
    files = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    return {path.stem: path for path in files}


def _find_file(path_or_name: str | Path) -> str | Path:
    """Return the file of that path, else the shipped scenario of that name."""
    name = str(path_or_name)
    if name == "-" or os.path.exists(name):
        return path_or_name
    shipped = shipped_scenarios()
    meant = find_name(name.removesuffix(".yaml"), shipped) if os.sep not in name else None
    if meant is not None:
        return shipped[meant]
    fix = name_fix(Path(name).stem, sorted(shipped), "planner scenarios list")
    raise InputError([Fault(name, 0, "", "no such file and no shipped scenario of that name", fix)])
