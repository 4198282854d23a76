"""The result of `solve`: a plan, or why there is none.

Dollars are expected US dollars, hours are wall hours, memory is GiB per GPU, unless a name says otherwise.
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic_core import CoreSchema

from planner.documents.tables import json_text
from planner.errors import Fault, NoPlanError, ScenarioError
from planner.results.fleet import BulkGeneration, Service
from planner.results.plan_parts import (
    Baseline,
    BillItem,
    CandidateCounts,
    CommitmentUse,
    Count,
    CutSamples,
    FirstPurchase,
    FurtherWay,
    HostedTuning,
    HostMemory,
    Hours,
    Infeasible,
    LossyChoice,
    NeededAtOnce,
    ObservedRun,
    Option,
    Part,
    Pause,
    PlanEvidence,
    Purchase,
    QualityNote,
    Reservation,
    SeparateMachine,
    SharedLimit,
    SpotPlan,
    Spread,
    Techniques,
    Vram,
    describe_machines,
    html_table,
    joint_late_usd,
)
from planner.results.result_tables import Row, Table, TabledResult, flattened, infeasible_html
from planner.results.subject_runs import ModelChoice, RlRun
from planner.units import round_up

if TYPE_CHECKING:
    from planner.results.result_tables import DataFrame

# The data path and the exported result as a plan states them.


class DataPath(Part):
    """What training reads, against what storage and cores can do; hours are those of one run."""

    read_bytes_per_second: float
    storage_bytes_per_second: float
    cores_used: float | None
    """Cores that would tokenise the text while it is trained on; None of images."""
    cores: float
    """Of all machines of the run."""
    cores_known: bool
    """False: a usual number per GPU, because the offer does not state it."""
    saved_hours: float
    """What reading without any delay would save: the most that caching or prefetching data can bring."""
    latents_saved_hours: float = 0.0
    """What computing the latents of images once would save, where it is done in every epoch."""


class ExportedResult(Part):
    """What leaves as the result, and where it is made."""

    format: str
    bits: int | None
    """Of quantised weights; None of adapters and 16-bit weights."""
    gb: float
    ram_gb: float
    """GB of host memory that merging takes; 0 where nothing is merged."""
    offer: str | None
    """Of the machine that merges or quantises; None: the one that trains."""
    ram_known: bool
    """Whether the memory of that machine is known."""


NOT_OF_ALL = (
    "evidence",
    "host_memory",
    "inference",
    "purchase",
    "hosted",
    "fallbacks",
    "lead_hours",
    "outlay_usd",
    "data_path",
    "export",
    "model",
    "usd_of_runs",
    "hours_of_runs",
)
"""Parts of an assignment that most jobs do not have; they are left out of its JSON then."""
Status = Literal["optimal", "feasible", "infeasible", "no_plan"]
SAME_HOUR = 1e-6
"""Hours by which two moments may differ."""


class Assignment(Part):
    """The configuration, hours and cost of one job."""

    subject: ClassVar[str | None] = None
    """The core plans it."""

    name: str
    architecture: str
    provider: str
    region: str
    instance: str
    offer: str
    framework: str = ""
    gpu: str
    gpus: Count
    gpus_per_instance: Count
    instances: Count
    interconnect: str
    spot_share: float
    switch_to_on_demand_at_hours: float | None
    techniques: Techniques
    vram_gib: Vram
    host_memory: HostMemory | None = None
    """None where no states lie in host memory."""
    tokens_per_second: float
    tokens_per_second_low: float
    tokens_per_second_high: float
    unit: Literal["tokens", "images", "videos"] = "tokens"
    sequence_length: int
    global_batch: int
    packing: str
    steps: Count
    steps_before: int = 0
    """Steps that the run had done when this plan of the rest was made; `steps` are those after them."""
    step_seconds: float
    sigma: float
    sigma_in_tails: float
    hours: Hours
    start_hours: float
    training_hours: float
    stage_hours: dict[str, float] = Field(default_factory=dict)
    """Wall hours of the stages other than start and training."""
    separate_machines: tuple[SeparateMachine, ...] = ()
    tier: str = "secure"
    trials: Count = 1
    runs_at_once: Count = 1
    """Runs in parallel; `gpus` and `instances` are those of one run."""
    commitment: CommitmentUse | None = None
    spot: SpotPlan | None = None
    """Guarantees and expectations of a run that follows a spot policy; else None."""
    fed_by_storage: bool = False
    """Whether storage, not the GPUs, limits the speed of a step."""
    observed_hours: float | None = None
    """Observed hours of the whole job on this hardware, start included; None if all hours are estimated."""
    observed_runs: tuple[ObservedRun, ...] = ()
    """Observed speeds and peaks that the estimates follow."""
    speed_factor: float = 1.0
    """Factor on the estimated speed of every configuration of the job, from `observed_runs`."""
    memory_factor: float = 1.0
    """Factor on the bytes that grow with the batch, from peaks observed at the same setting."""
    deadline_hours: float | None
    deadline_probability: float | None
    cost: Spread
    cost_at_confidence: float
    cost_usd: float
    usd_of_runs: tuple[tuple[float, ...], ...] = ()
    """Of a job on spot, dollars in equally likely cases: a row for each speed, from fast to slow, by rising dollars."""
    hours_of_runs: tuple[tuple[float, ...], ...] = ()
    """Of a job that has spot machines and no others, hours in equally likely cases, as `usd_of_runs`."""
    outlay_usd: float = 0.0
    """What its machines cost at once, by purchase, upfront or as a block; 0 where a reservation of the plan pays."""
    bill: tuple[BillItem, ...]
    price_date: str
    price_age_days: int | None
    price_source: str
    lossy_techniques: tuple[LossyChoice, ...] = ()
    quality: tuple[QualityNote, ...] = ()
    conversion: str | None = None
    """What of the weights a user must make, or what frameworks make of the release; None where they are taken as is."""
    methods: tuple[Option, ...] = ()
    cheaper_at_risk: tuple[Option, ...] = ()
    """A plan that only the confidence of memory excludes, if it is cheaper; its note has the setting that admits it."""
    safer: tuple[Option, ...] = ()
    """The best plans without what is less sure here: `secure` on no host of a private person, `on demand` without spot;
    the note of each has the setting that asks for it. One without figures is not within the limits."""
    frameworks: tuple[Option, ...] = ()
    """The best plan of each framework; those that the job does not use are priors."""
    next_best: tuple[Option, ...] = ()
    evidence: PlanEvidence | None = None
    """None in plans of older versions, and of services."""
    compared_by: str = ""
    """Objective by which alternatives are compared, if it is not plain dollars or hours."""
    binding: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    start_at_hours: float = 0.0
    """When the job starts, from the start of the plan."""
    end_at_hours: float | None = None
    """When its machines are free again at the confidence of the job; None in plans of older versions."""
    data_path: DataPath | None = None
    """None of generation, services and observed runs."""
    export: ExportedResult | None = None
    inference: BulkGeneration | None = None
    """Of a job of generation."""
    model: ModelChoice | None = None
    """What was chosen of a job that left its model, its tokens or its batch open."""
    lead_hours: float = 0.0
    """Hours from the order to the machine, before which the job cannot start."""
    purchase: Purchase | None = None
    """What buying its machines would cost; None where none of that kind is for sale, or nothing is rented."""
    pays_first: FirstPurchase | None = None
    """Which machine to buy pays first; None where the scenario lists none, or nothing is rented."""
    hosted: HostedTuning | None = None
    """What a service that trains by the token takes; None without one, and without machines that could do it."""
    fallbacks: tuple[FurtherWay, ...] = ()
    """As many further ways as `limits.fallbacks` asks for, cheapest first."""
    reservation: int | None = None
    """Place in `Plan.reservations` of what pays for its machines, which are then not on its bill."""
    pauses: tuple[Pause, ...] = ()
    """When the run stands still, because the windows of its machine are closed."""
    resume_hours: float = 0.0
    """What each pause costs on the machine at the confidence of the job: a checkpoint, and one more start."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data of a job without the parts that it does not have."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key not in NOT_OF_ALL or getattr(self, key)}

    @property
    def rented(self) -> "tuple[Assignment, ...]":
        """Its machines by kind, of which a job has one; a service may have several."""
        return (self,)

    @property
    def machines_named(self) -> set[tuple[str, str]]:
        """Providers with their GPUs, of the plan and of its other ways."""
        others = {(way.provider, way.gpu) for ways in (self.next_best, self.fallbacks) for way in ways}
        return {(self.provider, self.gpu), *others}

    @property
    def gpus_named(self) -> list[tuple[str, str]]:
        """The GPU of its machines with its key in the JSON of a part; none of what is sold by the token."""
        return [("gpu", self.gpu)] if self.gpus else []

    @property
    def engines_named(self) -> list[tuple[str, str]]:
        """The engine that answers, with its key; none of training."""
        return [("inference.engine", self.inference.engine)] if self.inference else []

    @property
    def offers_named(self) -> set[str]:
        """Labels of the offers that its machines, services by the token and further ways are."""
        names = {self.offer, *(machine.offer for machine in self.separate_machines)}
        names |= {hosted.offer for hosted in (self.inference.api if self.inference else ())}
        for way in (way for fallback in self.fallbacks for way in fallback.jobs):
            others = [*way.get("separate_machines", ()), *(way.get("inference") or {}).get("api", ())]
            names |= {str(part["offer"]) for part in (way, *others)}
        return names

    @property
    def tokens_per_step(self) -> float:
        """Real tokens (images) of one optimizer step, over all GPUs of one run."""
        return self.tokens_per_second * self.step_seconds

    @property
    def is_reserved(self) -> bool:
        """Whether its machines are paid by a reservation of the plan."""
        return self.reservation is not None

    @property
    def paused_hours(self) -> float:
        """Hours in which the run stands still, and what it loses by that."""
        return math.fsum(pause.to_hours - pause.from_hours + self.resume_hours for pause in self.pauses)

    @property
    def finish_hours(self) -> float:
        """Hours from the start of the plan until the job ends, at its confidence."""
        return self.hours.at_confidence if self.end_at_hours is None else self.end_at_hours

    @property
    def held_hours(self) -> float:
        """Hours from start to end in which its machines are in use."""
        return (
            self.finish_hours
            - self.start_at_hours
            - math.fsum(pause.to_hours - pause.from_hours for pause in self.pauses)
        )

    @property
    def held(self) -> tuple[tuple[str, str, int], ...]:
        """Provider, model and number of the GPUs that it holds, all runs at once."""
        return ((self.provider, self.gpu, self.gpus * self.runs_at_once),) if self.gpus else ()

    @property
    def delay_hours(self) -> float:
        """Hours before the start and in closed windows: what the calendar adds to the hours of the run."""
        return 0.0 if self.end_at_hours is None else max(0.0, self.end_at_hours - self.hours.at_confidence)

    @property
    def has_fallback(self) -> bool:
        """Return whether the run can move to on demand if spot is not available."""
        moves = any(line.item == "move to on demand" for line in self.bill)
        return self.spot is not None or self.spot_share < 1 or moves

    @property
    def scarce_usd(self) -> float | None:
        """Dollars of a run on spot where little capacity appears; None where they are not much more than expected."""
        if not self.spot_share or not self.has_fallback or self.cost.high <= MUCH_MORE * self.cost.expected:
            return None
        return self.cost.high


MUCH_MORE = 1.5
"""Times the expected dollars from which on those of a run with little spot capacity are said."""

SAME_MOMENT_HOURS = 1e-6
"""What ends within this time of a start makes room for it."""


def plan_figures(
    jobs: tuple[Assignment, ...],
    reservations: tuple[Reservation, ...] = (),
    budget_confidence: float | None = None,
    runs: tuple[RlRun, ...] = (),
) -> dict[str, Any]:
    """Return the fields of a plan that follow from its jobs: costs add up, the last job to end sets the hours.

    Dollars at the confidence of several jobs are those of their sum where it is given, else the sum of theirs. `runs`
    are jobs of reinforcement learning.
    """
    paid = math.fsum(reservation.usd for reservation in reservations)
    planned: tuple[Assignment | RlRun, ...] = (*jobs, *runs)
    late = paid + math.fsum(job.cost_at_confidence for job in planned)
    if budget_confidence is not None:
        late = joint_late_usd(jobs, budget_confidence, paid)
    cost = {key: paid + math.fsum(getattr(job.cost, key) for job in planned) for key in Spread.model_fields}
    hours = {key: max(job.delay_hours + getattr(job.hours, key) for job in planned) for key in Hours.model_fields}
    return {
        "cost": Spread(**cost),
        "cost_at_confidence": late,
        "outlay_usd": outlay_of(jobs, reservations),
        "hours": Hours(**hours),
        "price_age_days": max((job.price_age_days for job in planned if job.price_age_days is not None), default=None),
        "jobs": jobs,
        **({"reinforcement": runs} if runs else {}),
        "reservations": reservations,
        "at_one_time": (together := needed_at_once(planned if jobs else ())),
        "most_of_each": () if (each := most_of_each(planned if jobs else ())) == together else each,
    }


def outlay_of(jobs: tuple[Assignment, ...], reservations: tuple[Reservation, ...] = ()) -> float:
    """Return the dollars that are paid at once; machines that jobs use in turn are paid once.

    Two jobs in turn on a machine for $2,500: $2,500; at one time on two: $5,000.
    """
    paid = [reservation.outlay_usd for reservation in reservations]
    for offer in {job.offer for job in jobs if job.outlay_usd}:
        users = [job for job in jobs if job.offer == offer]
        begins = [(job.start_at_hours, job.finish_hours, job.outlay_usd) for job in users]
        paid.append(
            max(
                math.fsum(usd for start, end, usd in begins if start <= at + SAME_HOUR and at < end - SAME_HOUR)
                for at, *_ in begins
            )
        )
    return math.fsum(paid)


def needed_at_once(jobs: Sequence[Assignment | RlRun]) -> tuple[NeededAtOnce, ...]:
    """Return the GPUs of each model at each provider that several jobs hold at the first moment of most GPUs in all."""
    held = _held_at_starts(jobs)
    return _sorted_needs(max(held, key=lambda kinds: sum(kinds.values()), default={}))


def most_of_each(jobs: Sequence[Assignment | RlRun]) -> tuple[NeededAtOnce, ...]:
    """Return the most GPUs of each model at each provider that several jobs hold at any moment, most first.

    Of jobs in turn these moments may differ.
    """
    most: dict[tuple[str, str], int] = {}
    for held in _held_at_starts(jobs):
        for kind, gpus in held.items():
            most[kind] = max(most.get(kind, 0), gpus)
    return _sorted_needs(most)


def _held_at_starts(jobs: Sequence[Assignment | RlRun]) -> list[dict[tuple[str, str], int]]:
    """Return the GPUs that several jobs hold by provider and model, at each start in order of time."""
    users = [job for job in jobs if job.gpus]
    if len(jobs) < 2:
        return []
    moments = sorted({job.start_at_hours for job in users})
    by_moment: list[dict[tuple[str, str], int]] = [{} for _ in moments]
    for job in users:  # of hundreds of jobs few moments differ: most start at once
        first = bisect_left(moments, job.start_at_hours)
        after = bisect_left(moments, job.finish_hours - SAME_MOMENT_HOURS)
        for held in by_moment[first : max(after, first + 1)]:
            for provider, gpu, gpus in job.held:
                held[provider, gpu] = held.get((provider, gpu), 0) + gpus
    return by_moment


def _sorted_needs(kinds: Mapping[tuple[str, str], int]) -> tuple[NeededAtOnce, ...]:
    needs = [NeededAtOnce(provider=provider, gpu=gpu, gpus=gpus) for (provider, gpu), gpus in kinds.items()]
    return tuple(sorted(needs, key=lambda one: -one.gpus))


class Inputs(Part):
    """What a plan was made from, so that it can be checked and carried out without its files."""

    scenario: dict[str, Any]
    """The scenario in the form of its file, names resolved and settings applied; its offers are below."""
    offers: tuple[dict[str, Any], ...]
    """The offers that the plan rents or names as the next best, with their terms, at the prices as read."""
    versions: dict[str, str]


TieStep = Literal["own", "host", "evidence", "stock", "machines", "pauses", "hours", "rounding"]
"""A step of a near tie, in their order, see `planner.candidates.market`; only runs of a timetable pause."""


Planned = Assignment | Service | RlRun
"""Whatever a plan has: a job of training or generation, a service, or a job of reinforcement learning."""


class Plan(TabledResult):
    """The result of `solve`."""

    schema_version: int = 3
    scenario: str
    status: Status
    objective: float | None
    bound: float | None
    gap: float | None
    solver: str
    seconds: float
    as_of: str
    candidates: CandidateCounts
    cost: Spread | None
    """Dollars of the whole plan; the expected ones are `cost_usd` too, as everywhere."""
    cost_at_confidence: float | None = None
    outlay_usd: float = 0.0
    """Dollars that are paid at once: purchases, what commitments ask upfront, blocks. Jobs carry it by their hours."""
    budget_usd: float | None = None
    budget_probability: float | None = None
    """Probability that the cost is within the budget, with fully correlated lateness of the jobs."""
    hours: Hours | None
    jobs: tuple[Assignment, ...] = ()
    least_cost_usd: float | None = None
    """Dollars of the strict optimum, than which a plan may cost a near tie more. None if not only dollars count."""
    tie_decided_by: TieStep | None = None
    """What a plan that costs more than that has in return, the first step of a near tie in which the two differ."""
    faster: tuple[Option, ...] = ()
    """The least cost of plans that end in half and in a quarter of the hours, by candidates within the limits."""
    price_age_days: int | None = None
    """Age of the oldest price that the plan rests on; None if none is dated."""
    infeasible: Infeasible | None = None
    cut: tuple[CutSamples, ...] = ()
    """Jobs whose samples are longer than their sequences, whether there is a plan or not."""
    reservations: tuple[Reservation, ...] = ()
    baseline: Baseline | None = None
    shared_limits: tuple[SharedLimit, ...] = ()
    """Of a small timetable, limits without which it costs less."""
    idle_hours: dict[str, float] = Field(default_factory=dict)
    """Hours of own machines until the last end in which no job runs, by offer."""
    now: str = ""
    """Date and time that hours count from; empty if the scenario states none."""
    zone: str = ""
    """Zone in which moments are shown, such as Europe/Berlin; empty: that of `now`."""
    warnings: tuple[str, ...] = ()
    at_one_time: tuple[NeededAtOnce, ...] = ()
    """The GPUs of each model at each provider that several jobs hold at the first moment of most GPUs, most first."""
    most_of_each: tuple[NeededAtOnce, ...] = ()
    """The most of each at any moment, where that is more of some kind, as of jobs in turn: what quotas need."""
    keeps_typical_stock: bool = True
    """Whether training jobs rent no more side by side than `limits.typical_stock`; False: no plan was found that does.
    """
    inputs: Inputs | None = None
    services: tuple[Service, ...] = ()
    """Fleets by the hour; in JSON they stand among the jobs."""
    reinforcement: tuple[RlRun, ...] = ()
    """Jobs of reinforcement learning."""
    shared_bound_usd: float | None = None
    """Least dollars of services that share a limit; None where the sum of their bounds holds."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema of the JSON: services stand among the jobs, expected dollars have a key of their own."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties")
        if properties is None:  # of what is written no more is known than of what is read
            return schema
        service = properties.pop("services")["items"]
        properties["jobs"]["items"] = {"anyOf": [properties["jobs"]["items"], service]}
        properties["cost_usd"] = {
            "anyOf": [{"type": "number"}, {"type": "null"}],
            "description": "Expected dollars, as in `cost`.",
        }
        return schema

    @property
    def cost_usd(self) -> float | None:
        """Expected dollars, as `cost` has them; in JSON too."""
        return None if self.cost is None else self.cost.expected

    @model_validator(mode="before")
    @classmethod
    def _services_are_jobs_with_a_fleet(cls, data: Any) -> Any:
        """Return the data of a plan file with the services apart from the jobs."""
        jobs = data.get("jobs") if isinstance(data, dict) else None
        rows = jobs if isinstance(jobs, list) else []
        served = [row for row in rows if isinstance(row, dict) and "fleet" in row]
        if not isinstance(data, dict) or not (served or "cost_usd" in data):
            return data
        kept = {key: value for key, value in data.items() if key != "cost_usd"}
        if "cost_usd" in data and data["cost_usd"] != _expected(data.get("cost")):
            raise ValueError("cost_usd is not the expected figure of cost")
        return {**kept, "jobs": [row for row in rows if row not in served], "services": served} if served else kept

    @model_serializer(mode="wrap")
    def _services_stand_among_the_jobs(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data with the services after the jobs."""
        data: dict[str, Any] = handler(self)
        data["jobs"] = [*data["jobs"], *data.pop("services", ())]
        data["cost_usd"] = self.cost_usd
        left_out = {
            "shared_bound_usd": data["shared_bound_usd"] is None,
            "reinforcement": not data["reinforcement"],
            "cut": not data["cut"],
            "outlay_usd": not data["outlay_usd"],
            "at_one_time": not data["at_one_time"],
            "most_of_each": not data["most_of_each"],
            "keeps_typical_stock": data["keeps_typical_stock"],
        }  # most plans have none
        return {key: value for key, value in data.items() if not left_out.get(key)}

    @property
    def is_timetable(self) -> bool:
        """Whether jobs take turns: a job starts later, something is reserved, or a simple rule was compared with."""
        return bool(self.baseline or self.reservations or any(job.start_at_hours > job.lead_hours for job in self.jobs))

    @property
    def subject(self) -> str | None:
        """That of the first part that the core does not plan."""
        return next((part.subject for part in self.planned if part.subject is not None), None)

    @property
    def only_job(self) -> Assignment | None:
        """Its job, where it has nothing else and takes no turns."""
        return self.jobs[0] if len(self.planned) == 1 == len(self.jobs) and not self.is_timetable else None

    @property
    def planned(self) -> tuple[Planned, ...]:
        """Whatever the plan has: jobs of training and generation, services, jobs of reinforcement learning."""
        return (*self.jobs, *self.services, *self.reinforcement)

    @property
    def parts_that_end(self) -> "tuple[Assignment | RlRun, ...]":
        """Its jobs of training, generation and reinforcement learning."""
        return (*self.jobs, *self.reinforcement)

    def table(self, of: Literal["jobs", "bill"] = "jobs") -> Table:
        """Return a row per job and service, or per line of the bill, whose dollars add up to those of the plan."""
        rows = _bill_rows(self) if of == "bill" else [_job_row(part) for part in self.planned]
        return Table(rows, f"{self.scenario}: {of}")

    def to_dataframe(self, of: Literal["jobs", "bill"] = "jobs") -> "DataFrame":
        """Return `table(of)` as a data frame; MissingExtraError, an ImportError, where pandas is not installed."""
        return self.table(of).to_dataframe()

    def _repr_html_(self) -> str:
        """Return a picture, and jobs, services and bill as tables, for notebooks; without a plan why there is none."""
        from planner.drawing.charts import plan_picture

        if not self.planned:
            return infeasible_html(self.scenario, self.status, self.infeasible)
        cost, hours = self.cost, self.hours
        figures = (
            f", ${cost.expected:,.2f}, likely {hours.expected:.1f} h, by {round_up(hours.at_confidence, 1):.1f} h"
            if cost and hours
            else ""
        )
        header = ("job", "machines", "provider", "method", "spot share", "likely", "by", "cost")
        rows = [
            (
                job.name,
                describe_machines(job.gpus, job.gpu, job.runs_at_once),
                job.provider,
                f"{job.techniques.method}, {job.techniques.weight_bits} bit",
                f"{job.spot_share:.0%}",
                f"{job.hours.expected:.1f} h",
                f"{round_up(job.hours.at_confidence, 1):.1f} h",
                f"${job.cost_usd:,.2f}",
            )
            for job in self.jobs
        ]
        bill = [(row["job"], row["item"], f"${row['usd']:,.2f}") for row in _bill_rows(self)]
        caption = f"{self.scenario}: {self.status}{figures}"
        tables = html_table(caption, header, rows) if rows else ""
        tables += _services_html(self, "services" if rows else caption) if self.services else ""
        tables += html_table("bill", ("job", "item", "dollars"), bill) if bill else ""
        return plan_picture(self.jobs, self.is_timetable) + tables

    def assignment(self, job: str) -> Assignment:
        """Return the assignment of a job; NoPlanError if it has none."""
        if named := [assignment for assignment in self.jobs if assignment.name == job]:
            return named[0]
        raise NoPlanError(f"no plan for {job!r}: the scenario is {self.status}")


def _expected(cost: Any) -> Any:
    """Return the expected figure of a range, of data or validated; None where there is none."""
    return cost.get("expected") if isinstance(cost, dict) else getattr(cost, "expected", None)


# A plan as tables.


def _job_row(part: Planned) -> Row:
    """Return the figures of a job or a service as one row; memory in GiB, what depends on its kind may be missing."""
    if isinstance(part, Service):
        fleet = part.fleet
        figures = ("unit", "usd_per_month", "usd_per_million_tokens", "usd_per_thousand_requests", "spot_share")
        row = flattened(part, ("price_date", "price_source", "bound_usd", "kinds_made", "kinds_left"))
        row |= {name: getattr(fleet, name) for name in figures}
        row |= {"least_replicas": min(fleet.replicas_by_hour), "most_replicas": max(fleet.replicas_by_hour)}
        return row | {f"{limit.name}_seconds": limit.predicted_seconds for limit in fleet.limits}
    if isinstance(part, RlRun):
        return flattened(part, ("cost", "price_source", "bound_usd", "sigma", "changes"))
    row = flattened(part, (*NOT_OF_ALL, "cost", "compared_by", "price_source", "reservation", "spot", "commitment"))
    row |= {"cost_usd_low": part.cost.low, "cost_usd_high": part.cost.high}
    techniques = flattened(part.techniques, ("framework",))
    row |= {name: value for name, value in techniques.items() if name not in row}
    memory = part.vram_gib
    return row | {"vram_gib": memory.peak, "usable_gib": memory.usable, "fit_probability": memory.fit_probability}


def _bill_rows(plan: Plan) -> list[Row]:
    """Return the lines of the bill of a plan: of its jobs, of what is reserved for them, and of its services."""
    rows = [{"job": job.name, **flattened(line)} for job in plan.parts_that_end for line in job.bill]
    rows += [
        {"job": "", "item": f"reservation of {reservation.count} x {reservation.offer}", "usd": reservation.usd}
        for reservation in plan.reservations
    ]
    rows += [
        {
            "job": service.name,
            "item": "fleet",
            "usd": service.cost_usd,
            "quantity": service.for_hours,
            "unit": "h",
            "rate_usd": service.cost_usd / service.for_hours,
        }
        for service in plan.services
    ]
    return rows


def plan_text(plan: Plan, indent: int = 2) -> str:
    """Return a plan as its file has it: `solve -o` and `export --all` write it so."""
    return json_text(plan.model_dump(mode="json", by_alias=True), indent=indent) + "\n"


def plan_fingerprint(plan: Plan) -> str:
    """Return the SHA-256 of a plan as its file has it."""
    text = plan_text(plan).removesuffix("\n")
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def require_plan(plan: object) -> None:
    """Raise `ScenarioError` where something else than a plan is given, such as the path of its file."""
    if not isinstance(plan, Plan):
        fix = "planner.read_plan reads the file of a plan"
        raise ScenarioError([Fault("plan", 0, "", f"is no plan: {type(plan).__name__}", fix)])


def _services_html(plan: Plan, caption: str) -> str:
    """Return the services of a plan as a table for notebooks: machines, dollars, latency."""
    rows = [
        (
            service.name,
            service.architecture,
            "; ".join(
                f"{min(kind.by_hour)} to {max(kind.by_hour)} x {describe_machines(kind.gpus, kind.gpu)} "
                f"at {kind.provider}, {kind.market}"
                for kind in service.fleet.by_dollars
            ),
            f"${service.fleet.usd_per_month:,.2f}",
            f"${service.cost_usd:,.2f}",
            *(
                next((f"{limit.predicted_seconds:.3g} s" for limit in service.fleet.limits if limit.name == name), "")
                for name in ("ttft", "tpot")
            ),
        )
        for service in plan.services
    ]
    header = ("service", "model", "machines", "a month", "cost", "first token", "per token")
    return html_table(caption, header, rows)
