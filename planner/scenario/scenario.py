"""Scenarios: jobs, offers, limits and what to minimise; taken apart by kind, or with open jobs decided."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from planner.documents.files import yaml_text
from planner.documents.quantities import (
    Currency,
    Date,
    NotNegative,
    Positive,
    Price,
    Rows,
    StrictModel,
    Text,
    ZeroOrMany,
    parse_instant,
    validation_error,
    zone_of,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, KeyPath, ScenarioError, format_value
from planner.library.reading import members
from planner.scenario.inference_job import InferenceJob, ServeJob, job_form
from planner.scenario.job import Job
from planner.scenario.job_stages import Trials, Work
from planner.scenario.limits import Limits, check_horizon, limits_spending
from planner.scenario.naming import OfferedNames, labelled_offers, resolve_offered
from planner.scenario.offer import Adjust, Offer, offer_data, offer_labels
from planner.scenario.offer_terms import Horizon
from planner.scenario.open_job import BEST_TOKENS, OPEN_FORM, Family, OpenJob, is_open
from planner.scenario.rl_job import RlJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class ValueOfTime(StrictModel):
    """Minimise dollars plus the value of the hours."""

    value_of_time_usd_per_hour: Price
    """Dollars that an hour is worth."""


def _word_or_value(value: Any) -> Any:
    """Return the value if it is an objective; else raise a fault."""
    value = (find_name(value, ("cost", "time", "loss")) or value) if isinstance(value, str) else value
    if value not in ("cost", "time", "loss") and not isinstance(value, (dict, ValueOfTime)):
        raise validation_error(
            f"{format_value(value)} is not an objective", "cost, time, loss, or {value_of_time_usd_per_hour: 5}"
        )
    return value


def _objective_form(value: Any) -> str:
    """Return the tag of the form in which an objective is written."""
    return "word" if isinstance(value, str) else "value"


Objective = Annotated[
    Annotated[Literal["cost", "time", "loss"], Tag("word")] | Annotated[ValueOfTime, Tag("value")],
    Discriminator(_objective_form),
    BeforeValidator(_word_or_value),
]


def _names_differ(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Return the jobs if all names differ; else raise a fault."""
    twice = [name for name, times in Counter(job.name for job in jobs).items() if times > 1]
    if twice:
        raise validation_error(f"several jobs are called {', '.join(twice)}", "every job needs its own name")
    return jobs


def _jobs_follow_jobs(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Return the jobs if every `after` names another job and none waits for itself; else raise a fault."""
    left = {job.name: {predecessor.job for predecessor in job.after} for job in jobs}
    for index, job in enumerate(jobs):
        for predecessor in job.after:
            if predecessor.job not in left or predecessor.job == job.name:
                what = f"{job.name} waits for {format_value(predecessor.job)}, which is no other job"
                others = [name for name in left if name != job.name]
                fix = name_fix(predecessor.job, others) if others else "leave `after` out: there is no other job"
                raise validation_error(what, fix, f"{index}.after")
    while ready := [name for name, others in left.items() if not others & left.keys()]:
        for name in ready:
            del left[name]
    if left:
        what = f"{' and '.join(left)} wait for each other"
        raise validation_error(what, "drop one `after`", "after")
    return jobs


def split_trials(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Return the jobs with a job for each trial where trials are split: the first in place of its job, others last.

    What waits for such a job waits for all its trials.
    """
    names = {job.name: [f"{job.name}-{k + 1}" for k in range(job.trials.count)] for job in jobs if job.trials.split}
    first, others = [], []
    for job in jobs:
        after = tuple(
            predecessor.model_copy(update={"job": name})
            for predecessor in job.after
            for name in names.get(predecessor.job, [predecessor.job])
        )
        if job.name not in names:
            first.append(job.model_copy(update={"after": after}) if job.after != after else job)
            continue
        made = [job.model_copy(update={"name": n, "after": after, "trials": Trials()}) for n in names[job.name]]
        first.append(made[0])
        others += made[1:]
    return (*first, *others)


def _now(value: Any) -> Any:
    """Return the text of a point in time; else raise a fault."""
    if isinstance(value, datetime.datetime):
        value = value.isoformat(" ", "minutes")
    parse_instant(value)
    return value


Now = Annotated[str, BeforeValidator(_now, json_schema_input_type=str)]
"""A day and time, as in `2026-11-21 09:00 UTC`."""


NEAR_TIE_SHARE = 0.01
"""Share of the least cost that decides nothing; no fixed cents, which are much of a small plan."""

MOST_ABOVE_LEAST = 0.015
"""Share of the least cost that a near tie and less waiting for spot machines may cost together."""


class SolveSettings(StrictModel):
    """How one plan is picked among plans of nearly the same cost."""

    ties: NotNegative | None = None
    """Dollars above the least cost within which other wishes decide; None: 1 % of it; 0: the strict optimum."""


def _job_form(value: Any) -> str:
    """Return the tag of the form in which a job is written."""
    if isinstance(value, OpenJob) or (
        isinstance(value, dict) and is_open(value) and value.get("kind") not in ("inference", "serve", "rl")
    ):
        return OPEN_FORM
    return job_form(value)


AnyJob = Annotated[
    Annotated[Job, Tag("of training")]
    | Annotated[InferenceJob, Tag("of inference")]
    | Annotated[ServeJob, Tag("of serving")]
    | Annotated[RlJob, Tag("of reinforcement learning")]
    | Annotated[OpenJob, Tag(OPEN_FORM)],
    Discriminator(_job_form),
]
"""A job of any form, by its `kind` and by what it leaves open."""


class _ScenarioBase(StrictModel):
    """The fields of a scenario apart from its offers."""

    schema_version: Literal[2] | None = Field(default=None, alias="schema")
    """Version of the defaults that the file expects."""
    name: Text = "scenario"
    """Name of the scenario; left out: the name of its file."""
    description: str = ""
    """One sentence for the reader."""
    now: Now | None = None
    """Day and time that durations count from, such as `2026-11-21 09:00 UTC`; None: the clock."""
    inventory: ZeroOrMany[Text] = ()
    """Offer files, relative to the scenario's file; `market` is the shipped price list."""
    jobs: Annotated[Rows[AnyJob], Field(min_length=1), AfterValidator(_names_differ), AfterValidator(_jobs_follow_jobs)]
    """What is trained, answered or served."""
    limits: Limits = Limits()
    """Limits that all jobs keep together."""
    horizon: Horizon | None = None
    """How long machines that are bought will be used; None: nothing is bought."""
    adjust: Rows[Adjust] = ()
    """Factors on prices: what if they were others."""
    objective: Objective = "cost"
    """What is least: `cost`, `time`, dollars plus a value of hours, or `loss`."""
    solve: SolveSettings = SolveSettings()
    """How one plan is picked among plans of nearly the same cost."""
    currency: Currency = "USD"
    """Currency of all dollars."""
    schedule: Literal["over_time", "side_by_side"] = "over_time"
    """Whether jobs may wait for one another's machines."""
    vary: ZeroOrMany[Text] = ()
    """Ranges for `what-if`, such as `jobs.0.work.steps=500:2000:500`."""


class ScenarioFile(_ScenarioBase):
    """A scenario as it is written: offers in inventory files, inline, or both."""

    offers: Rows[Offer] = ()
    """Offers in the scenario itself."""


MAX_OFFERS = 200_000
"""Most offers of a scenario: hundreds of times the shipped market; more would take minutes and gigabytes."""
NO_TRAINING_OFFER = (
    "no offer has a GPU",
    "machines without a GPU run stages only: add an offer with gpu and gpus, or a managed service",
)


def _refuse(place: KeyPath, what: str, fix: str) -> None:
    """Raise a fault of a scenario that is made in Python."""
    raise ScenarioError([Fault("Scenario", 0, ".".join(map(str, place)), what, fix)])


def _validated_once(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Return offers that were validated with their file as they are: there may be thousands."""
    is_known = type(value) is tuple and all(type(offer) is Offer for offer in value)
    return value if is_known else validate(value)


class Scenario(_ScenarioBase):
    """A scenario with all its offers: those of the inventory files first, inline offers last.

    Prices are as read; `labelled_offers` applies `adjust`.
    """

    model_error = ScenarioError

    offers: Annotated[Rows[Offer], WrapValidator(_validated_once)]
    """All offers: those of inventory files first."""
    offers_inline: Rows[Offer] = ()
    """Those that the scenario itself has."""
    for_sale: Rows[Offer] = ()
    """Machines whose purchase a plan without a horizon compares its own machines with."""
    jobs_written: Rows[Job] = ()
    """Jobs as in the file, where trials of some are split into `jobs`."""

    def written_name(self, job: str) -> str:
        """Return the name of a job in the file: that of all its trials for one of them."""
        split = (written_job.name for written_job in self.jobs_written if written_job.trials.split)
        return next((name for name in split if job.rpartition("-")[0] == name), job)

    def __repr__(self) -> str:
        jobs, offers = len(self.jobs), len(self.offers)
        return f"<Scenario {self.name}: {jobs:,} job{'s' * (jobs != 1)}, {offers:,} offers, objective {self.objective}>"

    __str__ = __repr__

    # What reads files is made above scenarios, and found by its name: an import would close a circle.

    @classmethod
    def build(cls, data: Mapping[str, Any] | None = None, **keys: Any) -> Scenario:
        """Return the scenario of a mapping in the form of a file, as `planner.build_scenario` does.

        >>> job = {"architecture": "mistral-7b", "work": {"tokens": 10e6}}
        >>> planner.Scenario.build({"jobs": [job]}, limits={"gpus": {"forbid": "a100-80g"}}).limits.gpus.forbid
        ('A100-80GB',)
        """
        made: Scenario = import_module("planner").build_scenario(data, **keys)
        return made

    @classmethod
    def from_yaml(cls, text: str, folder: str | Path = ".") -> Scenario:
        """Return the scenario of the text of a file, YAML or JSON; relative paths start at `folder`.

        Raises
        ------
        ScenarioError
            With every fault, and its line.
        """
        made: Scenario = import_module("planner.loading.scenario_file").parse_scenario(text, folder)
        return made

    @classmethod
    def from_json(cls, text: str, folder: str | Path = ".") -> Scenario:
        """Return the scenario of JSON that `to_json` wrote, as `from_yaml` does."""
        return cls.from_yaml(text, folder)

    def to_yaml(self) -> str:
        """Return the text of a file that `from_yaml` and `planner.read_scenario` read; inventory files stay named.

        >>> scenario = planner.read_scenario("quickstart")
        >>> planner.Scenario.from_yaml(scenario.to_yaml()) == scenario
        True
        """
        return yaml_text(scenario_data(self))

    def to_json(self) -> str:
        """Return what `to_yaml` returns as JSON.

        >>> scenario = planner.read_scenario("quickstart")
        >>> planner.Scenario.from_json(scenario.to_json()) == scenario
        True
        """
        return json.dumps(scenario_data(self), indent=2)

    def with_settings(self, settings: Mapping[str, Any] | str | Iterable[str]) -> Scenario:
        """Return the scenario with settings, as `planner.change_scenario` does.

        >>> planner.read_scenario("quickstart").with_settings({"limits.budget_usd": 4}).limits.budget_usd
        4.0
        """
        changed: Scenario = import_module("planner").change_scenario(self, settings)
        return changed

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; what new limits and factors name is looked up among the offers, as everywhere.

        Raises
        ------
        ScenarioError
            For a name that means nothing.
        """
        changed = {key: update[key] for key in ("limits", "adjust") if update and key in update}
        limits = changed.get("limits")
        # Most copies have the names of the original, which are found already, and perhaps fewer offers than these name.
        if isinstance(limits, Limits) and limits.names <= self.limits.names:
            del changed["limits"]
        if changed and update:
            names = OfferedNames(update.get("offers", self.offers))
            update = {**update, **resolve_offered(changed, names, _refuse)}
        return super().model_copy(update=update, deep=deep)

    @classmethod
    def model_construct(  # type: ignore[override]  # the plugin for types gives each class keywords of its own
        cls, _fields_set: set[str] | None = None, **values: Any
    ) -> Self:
        """Return a scenario that is validated as every other: what its names mean is part of it."""
        del _fields_set
        return cls(**values)

    @property
    def objective_kind(self) -> Literal["cost", "time"]:
        """Return what is minimised first; a value of time is part of the cost, and the least loss is found before."""
        return "time" if self.objective == "time" else "cost"

    @property
    def value_of_time_usd_per_hour(self) -> float:
        """Return the value of an hour in dollars; 0 unless the objective states it."""
        return self.objective.value_of_time_usd_per_hour if isinstance(self.objective, ValueOfTime) else 0.0

    @property
    def now_text(self) -> str:
        """The moment that hours count from, as `2026-11-25T09:00+00:00`; empty where none is stated."""
        return "" if self.now is None else parse_instant(self.now).isoformat(timespec="minutes")

    @property
    def zone(self) -> str:
        """The name of the zone that `now` is written in, in which moments are shown; empty where it names none."""
        return zone_of(self.now)

    @property
    def needs_timetable(self) -> bool:
        """Whether something in the scenario has a meaning only where starts are chosen."""
        limits = self.limits
        return bool(
            limits.budgets
            or limits_spending(limits)
            or any(job.needs_timetable for job in self.jobs)
            or any(offer.block or offer.available for offer in self.offers)
        )

    @property
    def has_plain_dollars(self) -> bool:
        """Whether the objective is dollars and nothing else: no hours, no value of time, no penalties."""
        penalties = any(any(job.techniques.penalty_usd.values()) for job in self.jobs)
        return self.objective_kind == "cost" and not self.value_of_time_usd_per_hour and not penalties

    @property
    def waits_less(self) -> bool:
        """Whether a policy on spot may cost a little more to wait less: nobody said what waiting or an hour costs."""
        strict = self.solve.ties == 0 or self.limits.waiting_usd_per_hour is not None
        return not strict and self.objective == "cost"

    def near_tie_usd(self, least_usd: float) -> float:
        """Return by how much a plan may cost more than the least cost if the order of ties prefers it.

        Nothing where the scenario itself says what an hour is worth.
        """
        if self.solve.ties is not None:
            return self.solve.ties
        if self.value_of_time_usd_per_hour:
            return 0.0
        return NEAR_TIE_SHARE * max(least_usd, 0.0)

    def labelled_offers(self) -> list[tuple[str, Offer]]:
        """Return every offer by its label, at the prices of the what-if: each zone alone, then groups of zones."""
        return list(labelled_offers(self.__dict__, self.offers, self.adjust, self.limits, self.horizon))

    def offer_after_term(self, mine: Offer) -> Offer | None:
        """Return what bills the same machine by the hour once the term of a commitment is over; None: it is renewed.

        It is the cheapest offer of the same provider, place and GPUs that the limits permit, with machines enough for
        all jobs; a service may need any number of them. Runs at once are renewed: their ends differ.
        """
        if mine.commitment is None or mine.has_spot or any(job.trials.at_once > 1 for job in self.jobs):
            return None
        most = math.inf if any(not job.ends for job in self.jobs) else mine.max_nodes * len(self.jobs)
        place = mine.provider, mine.region, mine.gpu, mine.gpus
        successors = [
            (offer.usd_per_hour, label, offer)
            for label, offer in self.labelled_offers()
            if offer.usd_per_hour is not None and offer.is_by_the_hour and not offer.available
            if (offer.provider, offer.region, offer.gpu, offer.gpus) == place
            if self.limits.permits(offer) and not self.limits.is_outdated(offer)
            if offer.stock is None or offer.stock >= most
        ]
        return min(successors, key=itemgetter(0, 1))[2] if successors else None

    def offers_as_read(self) -> list[tuple[str, Offer]]:
        """Return every offer by its label as its file has it: what another scenario of the same offers is made from."""
        return list(zip(offer_labels(self.offers), self.offers, strict=True))

    @classmethod
    def made_by_hand(cls, keys: dict[str, Any]) -> Scenario:
        """Return the scenario that the reader of files makes of the keys, so that there is no other.

        A GPU that the package does not know stays: a library of one's own may have it.
        """
        if "schema_version" in keys or "offers_inline" in keys:
            fix = "save it with planner.scenario_yaml, and read it with planner.read_scenario"
            what = "is a dump of a scenario, whose words are not those of a file"
            raise ScenarioError([Fault("Scenario", 0, "", what, fix)])
        made: Scenario = import_module("planner.loading.question").scenario_of_keys(keys)
        return made

    @model_validator(mode="wrap")
    @classmethod
    def _with_resolved_names(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Scenario:
        """Return what the reader of files makes of a mapping; its own data has all offers, and names of them."""
        if not isinstance(data, dict):
            return validate(data)
        offers = (*(data.get("offers_inline") or ()), *(data.get("offers") or ()))
        is_read = "offers_inline" in data and not any(isinstance(offer, dict) for offer in offers)
        return validate(data) if is_read else cls.made_by_hand(data)

    @model_validator(mode="after")
    def _has_offers(self) -> Self:
        """Raise a fault where no offer can train."""
        if not self.offers:
            raise validation_error("no offers given", "give inventory: [FILE] or offers: [...]", "offers")
        check_horizon(self.horizon, self.offers, self.offers_inline)
        if all(offer.is_cpu for offer in self.offers):
            raise validation_error(*NO_TRAINING_OFFER, "offers")
        return self

    @model_validator(mode="after")
    def _has_one_schedule(self) -> Self:
        """Raise a fault where times are given and jobs may not wait."""
        if self.schedule == "side_by_side" and self.needs_timetable:
            fix = "drop it, or release, due, after, available, block, budgets and max_usd_per_hour"
            raise validation_error("side_by_side leaves no choice of starts", fix, "schedule")
        return self

    def on_day(self, day: datetime.date | None) -> Self:
        """Return the scenario with the day against which its `limits.max_price_age` counts; itself for None."""
        if day is None or day == self.limits.today:
            return self
        limits = self.limits.model_copy()
        limits._today = day
        return self.model_copy(update={"limits": limits})


class SolveOptions(StrictModel):
    """How to solve: nothing here changes what is optimal."""

    solver: Literal["highs", "cbc", "scip", "cp-sat"] = "highs"
    """Which solver searches."""
    gap: NotNegative = 0.0
    """Relative distance to the optimum at which the search may stop."""
    time_limit_seconds: Positive | None = None
    """Longest time of the whole call; None: no limit."""
    as_of: Date | None = None
    """The day on which ages of prices are counted; None: today."""


_NOT_OF_FILE = ("offers", "offers_inline", "for_sale", "jobs", "jobs_written")


def scenario_data(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as plain data in the form of its file, without defaults; inventory files stay named."""
    data = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(_NOT_OF_FILE))
    data["name"] = scenario.name  # names are never left out: settings find jobs by them
    jobs = scenario.jobs_written or scenario.jobs
    data["jobs"] = [
        {"name": job.name, **job.model_dump(mode="json", by_alias=True, exclude_defaults=True)} for job in jobs
    ]
    if not data.get("limits", True):  # they differ from the defaults by the day of the question alone
        del data["limits"]
    if scenario.limits.caps_price_age:  # counts otherwise than the default, of which it may have the value
        data.setdefault("limits", {})["max_price_age"] = scenario.limits.model_dump(mode="json")["max_price_age_hours"]
    if scenario.offers_inline:
        data["offers"] = [offer_data(offer) for offer in scenario.offers_inline]
    return data


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file."""
    schema = ScenarioFile.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "planner scenario"}


# A scenario without some of its jobs: what the others are planned with alone.


_PLAIN_NAME = re.compile(r"[A-Za-z][\w-]*")


def setting_path(path: str, scenario: Scenario) -> str:
    """Return a path as `--set` reads it: a job whose name could be misread is given by its index."""
    for index, job in enumerate(scenario.jobs):
        if path.startswith(f"jobs.{job.name}."):
            name = job.name if _PLAIN_NAME.fullmatch(job.name) else str(index)
            return f"jobs.{name}.{path.removeprefix(f'jobs.{job.name}.')}"
    return path


def without_jobs(scenario: Scenario, names: set[str], budget_usd: float | None) -> Scenario:
    """Return the scenario without some of its jobs, and with the budget that the others have."""
    jobs = tuple(job for job in scenario.jobs if job.name not in names)
    written = tuple(job for job in scenario.jobs_written if job.name not in names)
    limits = scenario.limits.model_copy(update={"budget_usd": budget_usd})
    return scenario.model_copy(update={"jobs": jobs, "jobs_written": written, "limits": limits})


def ends_before(scenario: Scenario, name: str) -> set[str]:
    """Return the jobs that have ended when a job starts: those that it waits for, and those that these wait for."""
    waits = {job.name: {predecessor.job for predecessor in job.after} for job in scenario.jobs}
    before, open_ = set[str](), [*waits[name]]
    while open_:
        job = open_.pop()
        if job not in before:
            before.add(job)
            open_ += waits[job]
    return before


# A job that leaves something open, with that decided: an ordinary job.


class DefiniteJob(Job, defer_build=True):
    """A job whose tokens follow from a law, which adds to the uncertainty of its hours."""

    token_sigma: NotNegative = 0.0
    """Standard deviation of the logarithm of its tokens."""


def token_sigma(job: Job) -> float:
    """Return the standard deviation of the logarithm of a job's tokens; 0 where they are given."""
    return job.token_sigma if isinstance(job, DefiniteJob) else 0.0


def with_token_sigmas(scenario: Scenario, before: Scenario) -> Scenario:
    """Return a changed scenario in which the tokens of jobs are as uncertain as before: no key of a file says that."""
    sigmas = {job.name: token_sigma(job) for job in before.jobs if token_sigma(job)}
    if not sigmas:
        return scenario
    jobs = []
    for job in scenario.jobs:
        fields = {name: getattr(job, name) for name in Job.model_fields if name in job.model_fields_set}
        sigma = sigmas.get(job.name)
        jobs.append(job if sigma is None else DefiniteJob.model_construct(**fields, token_sigma=sigma))
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def open_job(scenario: Scenario | ScenarioFile) -> OpenJob | None:
    """Return the first job of a scenario that leaves something open; None where none does."""
    return next(iter(open_jobs(scenario)), None)


def open_jobs(scenario: Scenario | ScenarioFile) -> tuple[OpenJob, ...]:
    """Return the jobs of a scenario that leave something open."""
    return tuple(job for job in scenario.jobs if isinstance(job, OpenJob))


def rl_job_of(scenario: Scenario | ScenarioFile) -> RlJob | None:
    """Return the first job of reinforcement learning; None where there is none."""
    return next((job for job in scenario.jobs if isinstance(job, RlJob)), None)


def architectures_of(job: Job) -> tuple[str, ...]:
    """Return the models that a job may train."""
    if not isinstance(job, OpenJob):
        return (job.architecture,)
    asked = job.models
    if isinstance(asked, Family):
        return members(asked.family, asked.parameters.least, asked.parameters.most)
    return asked


def decide(job: OpenJob, architecture: str, batch: int, tokens: int | None, sigma: float = 0.0) -> Job:
    """Return the job with its model, its batch in sequences and its tokens; None keeps the work that is given."""
    fields = {name: getattr(job, name) for name in Job.model_fields if name in job.model_fields_set}
    if tokens is None:
        given = {name: getattr(job.work, name) for name in Work.model_fields if name in job.work.model_fields_set}
        work = Work.model_construct(**given)
    else:
        work = Work(tokens=tokens)
    decided = {"architecture": architecture, "global_batch": batch, "work": work, "token_sigma": sigma}
    return DefiniteJob.model_construct(**{**fields, **decided})


def decide_scenario(scenario: Scenario, *decided: Job) -> Scenario:
    """Return the scenario with definite jobs in place of the open ones of their names; of the least loss, dollars."""
    by_name = {job.name: job for job in decided}
    jobs = tuple(by_name.get(job.name, job) for job in scenario.jobs)
    objective = "cost" if scenario.objective == "loss" else scenario.objective
    return scenario.model_copy(update={"jobs": jobs, "objective": objective})


def choice_faults(scenario: Scenario | ScenarioFile) -> list[tuple[str, str, str]]:
    """Return place, fault and remedy of what the open job of a scenario and the rest of it contradict."""
    jobs, faults = open_jobs(scenario), []
    least_loss = bool(jobs) and all(job.wants_least_loss for job in jobs)
    if jobs and len(scenario.jobs) > 1:
        if not least_loss:
            job = next(job for job in jobs if not job.wants_least_loss)
            what = f"{job.name} leaves its model or its batch open, and there are other jobs"
            fix = f"plan it alone, give its share of the budget, or ask for tokens: {BEST_TOKENS}"
            faults.append(("jobs", what, fix))
        elif not all(job.ends for job in scenario.jobs):
            what = f"{jobs[0].name} leaves its tokens open, and there is a service"
            faults.append(("jobs", what, "plan it alone, and give its share of the budget"))
    if scenario.objective == "loss" and not least_loss:
        fix = f"give the job work: {{tokens: {BEST_TOKENS}}}, or minimise cost or time"
        faults.append(("objective", "the least loss of work that is given", fix))
    if least_loss and scenario.objective != "loss":
        faults.append(("objective", f"tokens: {BEST_TOKENS} asks for the least loss", "add objective: loss"))
    if least_loss and scenario.limits.budget_usd is None and any(job.deadline_hours is None for job in jobs):
        fix = "add limits.budget_usd: 200, or a deadline"
        faults.append(("limits", "without a budget or a deadline more tokens are always better", fix))
    return faults
