"""What is said of services beyond their plan: differences, frontiers, simulations, and a plan of jobs taken apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from planner.results.explanation import Difference, spot_percent
from planner.results.fleet import Fleet, FleetKind, Service, ServingMemory
from planner.results.plan import Plan, Status
from planner.results.plan_parts import Hours, Infeasible, Part, Spread, html_table
from planner.results.result_tables import Result, Table, TabledResult, flattened, infeasible_html
from planner.units import MILLISECONDS

# Differences between two fleets of one service, most important first, and a fleet in a few words.


BINDING_WORDS = {
    "TPOT": "time per token",
    "TTFT": "time to the first token",
    "KV": "the wait for a place",
    "compute": "the replica is nearly saturated",
}
"""What holds the capacity of a kind, in words."""


def span(least: float, most: float) -> str:
    """Return `2`, or `2 to 3`; a solver's minus zero is zero."""
    least, most = least + 0.0, most + 0.0
    return f"{least:,.4g}" if least == most else f"{least:,.4g} to {most:,.4g}"


def replicas_text(least: int, most: int) -> str:
    """Return `1 replica`, `2 replicas` or `1 to 2 replicas`."""
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{count} {'replica' if most == 1 else 'replicas'}"


def describe_kind(kind: FleetKind) -> str:
    """Return a kind with its machines: `1 to 2 of 4 x L40S at aws, spot`; the count is left out where it is one GPU."""
    count = span(min(kind.by_hour), max(kind.by_hour))
    machine = kind.gpu if kind.gpus == 1 else f"{kind.gpus} x {kind.gpu}"
    joined = " x " if kind.gpus == 1 else " of "
    return f"{count}{joined}{machine} at {kind.provider}, {kind.market}"


def describe_kinds(fleet: Fleet) -> tuple[str, ...]:
    """Return the kinds in words, those with most dollars first."""
    return tuple(describe_kind(kind) for kind in fleet.by_dollars)


def month_items(fleet: Fleet) -> list[tuple[str, float]]:
    """Return the dollars of a month by kind of machine, those with most first, then those of starts."""
    cycle = sum(sum(kind.by_hour) * kind.usd_per_hour for kind in fleet.kinds) + fleet.start_usd
    cycles = fleet.usd_per_month / max(cycle, 1e-300)
    by_machine: dict[str, float] = {}
    for by_dollar in fleet.by_dollars:
        machine = by_dollar.gpu if by_dollar.gpus == 1 else f"{by_dollar.gpus} x {by_dollar.gpu}"
        name = f"{machine} at {by_dollar.provider}, {by_dollar.market}"
        by_machine[name] = by_machine.get(name, 0.0) + sum(by_dollar.by_hour) * by_dollar.usd_per_hour * cycles
    return [*by_machine.items(), ("starts", fleet.start_usd * cycles)]


def seconds_text(seconds: float) -> str:
    """Return a time with three digits: 40 ms, 1.25 s."""
    return f"{float(f'{seconds:.3g}'):,g} s" if seconds >= 1 else f"{seconds * MILLISECONDS:.3g} ms"


def _predicted(service: Service, name: str) -> str:
    return next((seconds_text(limit.predicted_seconds) for limit in service.fleet.limits if limit.name == name), "")


FLEET_FEATURES: tuple[tuple[str, Callable[[Service], str]], ...] = (
    ("replicas", lambda service: span(min(service.fleet.replicas_by_hour), max(service.fleet.replicas_by_hour))),
    ("fleet", lambda service: "; ".join(describe_kinds(service.fleet))),
    ("model", lambda service: service.architecture),
    ("load", lambda service: f"{span(min(service.fleet.load), max(service.fleet.load))} {service.fleet.unit}"),
    ("tokens", lambda service: f"{service.input_tokens:,.4g} in, {service.output_tokens:,.4g} out"),
    ("per token", lambda service: _predicted(service, "tpot")),
    ("first token", lambda service: _predicted(service, "ttft")),
    ("spot", lambda service: spot_percent(service.fleet.spot_share)),
    ("served", lambda service: f"{service.fleet.served_share * 100:.1f} %"),
    ("mean use", lambda service: f"{service.fleet.use * 100:.1f} %"),
    ("starts", lambda service: f"{service.fleet.starts:,} a {'day' if len(service.fleet.load) == 24 else 'week'}"),
)
"""What may differ, most important first, and how each side of it reads."""


def compare_services(before: Service, after: Service) -> tuple[Difference, ...]:
    """Return every difference of fleet, load and latency, most important first; empty for equal fleets."""
    return tuple(
        Difference(what=name, before=old, after=new)
        for name, describe in FLEET_FEATURES
        if (old := describe(before)) != (new := describe(after))
    )


# Dollars of a month against the time per token of a service.


class ServicePoint(Part):
    """The least dollars at a limit on the time per token; no point is both tighter and cheaper than another."""

    tpot_seconds: float
    """The limit."""
    usd_per_month: float
    bound_usd_per_month: float
    """Below which no fleet keeps this limit."""
    gap: float
    least_replicas: int
    most_replicas: int
    machines: tuple[str, ...]
    """Such as `1 to 2 x H100-80GB at nebius, spot`, those with most dollars first."""
    binds: tuple[str, ...]
    """What holds the capacity of these kinds."""
    asked: bool = False
    """Whether it is the limit of the scenario."""
    setting: str
    """PATH=VALUE for `--set` that gives this limit."""


class ServiceFrontier(TabledResult):
    """Dollars of a month against the limit on the time per token, tightest first."""

    schema_version: int = 3
    scenario: str
    status: Status
    points: tuple[ServicePoint, ...] = ()
    share: float
    """Of the requests that the limit holds for."""
    ttft_seconds: float | None = None
    """Limit on the time to the first token, the same at every point."""
    load: float
    """At the peak."""
    unit: str
    least_tpot_seconds: float | None = None
    """That any kind reaches at no load: no limit below it can be kept."""
    solved: int = 0
    seconds: float
    as_of: str
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()

    @property
    def subject(self) -> str | None:
        """Services show it."""
        return "serve"

    def table(self) -> Table:
        """Return a row per limit on the time per token, tightest first; `machines` are the kinds of its fleet."""
        rows = [{**flattened(point), "machines": "; ".join(point.machines)} for point in self.points]
        return Table(rows, f"{self.scenario}: dollars against the time per token", str(self))

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per point; without points why there are none."""
        if not self.points:
            return infeasible_html(self.scenario, self.status, self.infeasible)
        rows = [
            (
                f"{point.tpot_seconds * 1000:.4g} ms",
                f"${point.usd_per_month:,.2f}",
                "no bound" if point.gap >= 1.0 else f"{point.gap:.1%}",
                "; ".join(point.machines),
            )
            for point in self.points
        ]
        return html_table(f"{self.scenario}: {self.status}", ("per token", "a month", "gap", "fleet"), rows)


# What the machines of a service rest on: memory of their GPUs, measurements behind their speed, their price.


class KindBasis(Part):
    """What one kind of machines of a fleet rests on."""

    service: str
    offer: str
    machine: str
    """Such as `1 x L40S at aws, spot`."""
    gpu: str
    engine: str
    weight_format: str
    memory_gib: ServingMemory
    """Of one GPU of a replica."""
    whole_gib: float
    """Of the GPU; the engine leaves what its `usable` is less."""
    most_in_flight: int
    """Requests of one replica whose cache fits and that the engine takes, at their mean length."""
    longest_context: int
    """Tokens of the longest request of the load."""
    priors: tuple[str, ...] = ()
    """What no published measurement informs; the speed of the others is calibrated on measurements."""
    is_measured: bool = False
    """Whether the job's own measurements inform the speed."""
    slow: float
    """Factor on all estimated times that holds with the confidence of the job."""
    price_date: str
    price_age_days: int | None
    price_source: str


# The result of `simulate` for services: what requests met on a simulated fleet, next to what the plan predicts.


class SimulatedLatency(Part):
    """One latency of some requests; the quantile is that of the share that the service asks for."""

    predicted_seconds: float
    simulated_seconds: float
    predicted_share: float | None = None
    """Of the requests within the limit; None without a limit."""
    simulated_share: float | None = None


class SimulatedLimit(Part):
    """A limit on latency: in the busiest hour with the whole fleet, and over the cycle with losses."""

    name: Literal["ttft", "tpot"]
    limit_seconds: float | None
    asked_share: float
    busiest: SimulatedLatency
    cycle: SimulatedLatency


class SimulatedKind(Part):
    """The replicas of one kind in the busiest hour, with the whole fleet there."""

    offer: str
    provider: str
    gpu: str
    use: float
    """Share of its capacity."""
    requests_per_second: float
    """Of one replica."""
    ttft: SimulatedLatency
    tpot: SimulatedLatency


class SimulatedStream(Part):
    """Requests of one burstiness."""

    name: Literal["Poisson", "bursts"]
    shape: float
    """Of the gamma gaps between requests: 1 is a Poisson stream, less are bursts."""
    limits: tuple[SimulatedLimit, ...]
    kinds: tuple[SimulatedKind, ...]


class ServiceReplay(Part):
    """One service over its cycle."""

    name: str
    cycle_hours: int
    distinct_hours: int
    requests: int
    """Simulated, of all streams."""
    busiest_hour: int
    busiest_use: float
    refused_share: float
    """Of the requests, while spot groups are lost or start again, each on its own."""
    predicted_refused_share: float
    """As the plan says."""
    cut_share: float
    """Of the requests that a loss ends on their machine."""
    streams: tuple[SimulatedStream, ...]


class ServiceSimulation(Result):
    """The result of `planner simulate` for services."""

    schema_version: int = 3
    scenario: str
    status: Status
    runs: int
    """Requests of each distinct hour."""
    seed: int
    exact_speed: bool
    services: tuple[ServiceReplay, ...] = ()
    seconds: float
    as_of: str
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()
    plan: Plan = Field(repr=False)
    """The plan that was simulated."""

    @property
    def subject(self) -> str | None:
        """Services show it."""
        return "serve"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per service and limit; without a fleet why there is none."""
        if not self.services:
            return infeasible_html(self.scenario, self.status, self.infeasible)
        rows = [
            (
                service.name,
                f"{stream.name}: {limit.name}",
                "" if limit.limit_seconds is None else f"{limit.limit_seconds:.3g} s",
                f"{limit.busiest.predicted_seconds:.3g} s",
                f"{limit.busiest.simulated_seconds:.3g} s",
                f"{limit.cycle.simulated_seconds:.3g} s",
            )
            for service in self.services
            for stream in service.streams
            for limit in stream.limits
        ]
        header = ("service", "latency", "limit", "predicted", "simulated", "with losses")
        return html_table(f"{self.scenario}: {self.runs:,} requests of each hour", header, rows)


SHOWN_BY_SUBJECTS = (ServiceFrontier, ServiceSimulation)
"""Results that a subject alone shows: their text, and their picture."""


# A plan of jobs and a service taken apart: the jobs alone, as their own plan would say it.


SHARING = "services share "
"""How the warning begins that says which limits hold services together."""
_ROUNDING = 1e-6
"""Gap that is none: what is left of sums of dollars that were added and taken off again."""


def services_usd(plan: Plan) -> float:
    """Return the dollars of the services of a plan."""
    return math.fsum(service.cost_usd for service in plan.services)


def services_bound_usd(plan: Plan) -> float:
    """Return the dollars below which the services of a plan cost no less together."""
    if plan.shared_bound_usd is not None:
        return plan.shared_bound_usd
    return math.fsum(service.bound_usd for service in plan.services)


def sharing_of(plan: Plan) -> tuple[str, ...]:
    """Return what services of a plan share, and how they were planned for it; empty where each is planned alone."""
    return tuple(warning for warning in plan.warnings if warning.startswith(SHARING))


def jobs_alone(plan: Plan) -> Plan:
    """Return a plan without its services: dollars, bound and budget less theirs, hours until the last job ends.

    A plan of jobs or of services alone is returned as it is.
    """
    if not (plan.jobs and plan.services):
        return plan
    usd, least = services_usd(plan), services_bound_usd(plan)
    objective = None if plan.objective is None else plan.objective - usd
    bound = None if plan.bound is None else plan.bound - least
    gap = None if objective is None or bound is None else max(0.0, objective - bound) / max(abs(objective), 1e-9)
    cost, late = plan.cost, plan.cost_at_confidence
    hours = {name: max(job.delay_hours + getattr(job.hours, name) for job in plan.jobs) for name in Hours.model_fields}
    ages = [job.price_age_days for job in plan.jobs if job.price_age_days is not None]
    return plan.model_copy(
        update={
            "services": (),
            "shared_bound_usd": None,
            "warnings": tuple(warning for warning in plan.warnings if not warning.startswith(SHARING)),
            "status": "optimal" if gap is not None and gap <= _ROUNDING else plan.status,
            "objective": objective,
            "bound": bound,
            "gap": gap,
            "cost": None if cost is None else Spread(**{name: each - usd for name, each in dict(cost).items()}),
            "cost_at_confidence": None if late is None else late - usd,
            "outlay_usd": plan.outlay_usd - sum(service.outlay_usd for service in plan.services),
            "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd - usd,
            "budget_usd": None if plan.budget_usd is None else plan.budget_usd - usd,
            "hours": Hours(**hours),
            "price_age_days": max(ages, default=None),
        }
    )


# Services in what-if and sweeps: what a change did to one, and its fleet in a cell.


class ServiceDelta(Part):
    """What a change did to one service."""

    name: str
    usd_per_month: float
    """After minus before."""
    proven_usd_per_month: float
    """By which either plan may lie above the least one: a smaller difference may be none."""
    changes: tuple[Difference, ...] = ()


class CellService(Part):
    """The fleet of one service in a cell."""

    name: str
    usd_per_month: float
    least_replicas: int
    most_replicas: int
    machines: tuple[str, ...]
    """Such as `1 to 2 x H100-80GB at nebius, spot`, those with most dollars first."""
    ttft_seconds: float
    tpot_seconds: float
    """That the asked share of the requests stays below in the busiest hour."""
