"""Results of what-if: two plans compared, sweeps over a few or many variants, and the tornado of all limits.

At the end the overview that a report shows: the plan and every analysis of its scenario.

Dollars are expected US dollars and hours expected wall hours, as in a plan, unless a name says otherwise;
None means that there is no plan.
"""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from planner.errors import NoPlanError
from planner.results.explanation import Difference, Explanation
from planner.results.frontier import Frontier
from planner.results.plan import Plan, Status
from planner.results.plan_parts import CutSamples, Part, describe_machines, dollars, html_table
from planner.results.result_tables import Result, Row, Table, TabledResult, varied
from planner.results.service_results import CellService, KindBasis, ServiceDelta, ServiceFrontier, ServiceSimulation
from planner.results.simulation import Simulation
from planner.results.subject_runs import LossRange, ModelChoice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Better = Literal["cheaper", "sooner"]


class Delta(Part):
    """After minus before; None if either has no plan."""

    cost_usd: float | None
    hours: float | None
    loss: float | None = Field(default=None, exclude_if=lambda loss: loss is None)
    """Nats per token, of all jobs together whose model or tokens are open."""


class BillDelta(Part):
    """One line of the bill that changed; None if the line is missing on that side."""

    item: str
    before_usd: float | None
    after_usd: float | None


class JobDelta(Part):
    """What a change did to one job.

    `ruled_out` are candidates that were feasible before, would be better than the plan after, and are infeasible
    now; `dearer` those that are still feasible, but worse than it now. `opened` and `cheaper` are the reverse:
    candidates that are better than the plan before, and were infeasible or worse then. Better means cheaper, or with
    `objective: time` earlier.
    """

    name: str
    changes: tuple[Difference, ...] = ()
    bill: tuple[BillDelta, ...] = ()
    bill_unchanged: BillDelta | None = None
    """All lines that did not change, in one; None if none of them costs anything."""
    delta: Delta
    ruled_out: int = 0
    dearer: int = 0
    opened: int = 0
    cheaper: int = 0


class Effect(Part):
    """What one of several settings does; those of one rule under `adjust` are taken together.

    `alone` is the difference that it makes by itself, `last` the one that it makes after all others, and `share` the
    mean of the two: for two settings the shares add up to the whole difference. None if a plan is missing on either
    side; `alone_status` is the status with this setting alone.
    """

    setting: str
    alone_status: Status
    alone: Delta
    last: Delta
    share: Delta
    ruled_out: int = 0
    opened: int = 0


class WhatIf(Result):
    """Before and after a change of the scenario."""

    schema_version: int = 3
    scenario: str
    settings: tuple[str, ...]
    better: Better
    """What the objective asks for; candidates are counted as better by it."""
    before: Plan
    after: Plan
    delta: Delta
    jobs: tuple[JobDelta, ...] = ()
    services: tuple[ServiceDelta, ...] = ()
    effects: tuple[Effect, ...] = ()
    together: Delta = Delta(cost_usd=None, hours=None)
    """The difference less the shares of all effects."""
    it_would_take: tuple[str, ...] = ()
    """If nothing changed: the values at which something would."""

    @property
    def subject(self) -> str | None:
        """That of either plan."""
        return self.after.subject or self.before.subject

    @property
    def unchanged(self) -> bool:
        """Whether the plan is the same, to the cent and the minute."""
        if (
            self.before.status != self.after.status
            or any(job.changes for job in self.jobs)
            or any(service.changes for service in self.services)
        ):
            return False
        if {service.name for service in self.before.services} != {service.name for service in self.after.services}:
            return False
        if {job.name for job in self.before.jobs} != {job.name for job in self.after.jobs}:
            return False
        return abs(self.delta.cost_usd or 0.0) < 0.005 and abs(self.delta.hours or 0.0) < 0.01

    def _repr_html_(self) -> str:
        """Return a table for notebooks: before and after, a line per job and figure."""
        rows = [("cost", _usd(self.before), _usd(self.after))]
        rows.append(("hours", _hours_text(self.before), _hours_text(self.after)))
        for job in self.jobs:
            rows += [(f"{job.name}: {change.what}", change.before, change.after) for change in job.changes]
            rows += [
                (f"{job.name}: {line.item}", dollars(line.before_usd), dollars(line.after_usd)) for line in job.bill
            ]
        rows += [
            (f"{service.name}: {change.what}", change.before, change.after)
            for service in self.services
            for change in service.changes
        ]
        return html_table(f"{self.scenario}: {', '.join(self.settings)}", ("", "before", "after"), rows)


def _usd(plan: Plan) -> str:
    return dollars(plan.cost.expected) if plan.cost else plan.status


def _hours_text(plan: Plan) -> str:
    return f"{plan.hours.expected:,.1f}" if plan.hours else ""


class Axis(Part):
    """A place in the scenario and the values it takes, as typed; `numbers` without the unit, None for names."""

    path: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None
    unit: str

    @property
    def looser_direction(self) -> Literal["up", "down", ""]:
        """The direction in which a limit is relaxed; empty for what is not a limit, or has no numbers."""
        limit = self.path.startswith("limits.") or self.path.endswith(".deadline")
        if self.numbers is None or not limit:
            return ""
        return "down" if self.path in ("limits.spot_share.min", "limits.vram_headroom") else "up"


class CellModel(Part):
    """What a job trains in a cell, where the scenario leaves it open; `sequences` of a step where these are."""

    architecture: str
    tokens: int
    loss: float | None
    sequences: int | None

    @property
    def words(self) -> str:
        """The model and the batch in words."""
        return self.architecture if self.sequences is None else f"{self.architecture}, {self.sequences:,} a step"


class CellJob(Part):
    """How one job is run in a cell."""

    name: str
    provider: str
    gpu: str
    gpus: int
    runs_at_once: int = 1
    """Runs on node groups in parallel: `gpus` are those of one."""
    method: str
    spot_share: float
    cost_usd: float
    hours: float
    start_hours: float
    model: CellModel | None = Field(default=None, exclude_if=lambda model: model is None)
    """What the job trains, where the scenario leaves it open."""

    @property
    def machines(self) -> str:
        """The machines in words."""
        return describe_machines(self.gpus, self.gpu, self.runs_at_once)


class Cell(Part):
    """The plan at one value of every axis."""

    values: tuple[str, ...]
    status: Status
    cost_usd: float | None = None
    hours: float | None = None
    hours_at_confidence: float | None = None
    jobs: tuple[CellJob, ...] = ()
    services: tuple[CellService, ...] = ()
    cut: tuple[CutSamples, ...] = ()
    """Samples that do not fit in their sequences, by job."""


class Sweep(TabledResult):
    """Plans along one axis, or along two (cells row by row: the last axis runs fastest)."""

    schema_version: int = 3
    scenario: str
    settings: tuple[str, ...]
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    loosest: tuple[str, ...] | None = None
    """If no cell has a plan: the values of the least restrictive cell."""
    unsolved: Plan | None = None
    """The answer of `solve` for that cell: why there is no plan, and which relaxations give one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Values per axis."""
        return tuple(len(axis.values) for axis in self.axes)

    def cell(self, *values: str) -> Cell:
        """Return the cell at the values as typed; raise NoPlanError if the sweep has none there."""
        for cell in self.cells:
            if cell.values == values:
                return cell
        raise NoPlanError(f"the sweep has no cell at {', '.join(values)}")

    def table(self) -> Table:
        """Return a row per cell: the value on each axis, as a number where it is one, status, cost, hours, machines.

        A duration has two columns: its text by the name of the axis, and its hours.
        """
        rows: list[Row] = []
        for cell in self.cells:
            row: Row = {}
            for axis, value in zip(self.axes, cell.values, strict=True):
                row |= varied(axis.path, value)
            row |= {name: getattr(cell, name) for name in ("status", "cost_usd", "hours", "hours_at_confidence")}
            row |= {
                "plan": "; ".join(f"{job.machines}, {job.provider}, {job.method}" for job in cell.jobs),
                "gpus": sum(job.gpus * job.runs_at_once for job in cell.jobs),
                "services_usd_per_month": sum(service.usd_per_month for service in cell.services),
            }
            if any(job.model for other in self.cells for job in other.jobs):
                row |= {name: figure for name, figure in trained_figures(cell.jobs).items()}
            rows.append(row)
        return Table(rows, f"{self.scenario}: sweep", str(self))

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per cell."""
        header = (*(axis.path for axis in self.axes), "cost", "hours", "what is rented")
        rows = [
            (
                *cell.values,
                dollars(cell.cost_usd) or cell.status,
                f"{cell.hours:,.1f}" if cell.hours is not None else "",
                "; ".join(
                    [f"{job.machines} at {job.provider}, {job.method}" for job in cell.jobs]
                    + [machines for service in cell.services for machines in service.machines]
                ),
            )
            for cell in self.cells
        ]
        return html_table(self.scenario, header, rows)


class Endpoint(Part):
    """One end of a bar: the value, and the plan that it gives."""

    value: str
    settings: tuple[str, ...]
    status: Status
    cost_usd: float | None = None
    hours: float | None = None


class Bar(Part):
    """The effect of one limit, price or estimate on cost and hours, changed down and up; the larger effect counts."""

    what: str
    path: str
    base: str
    down: Endpoint
    up: Endpoint
    effect_usd: float
    effect_hours: float = 0.0

    @property
    def can_fail(self) -> bool:
        """Whether one of the ends leaves no plan."""
        return "infeasible" in (self.down.status, self.up.status)


PRICES = " prices"
"""End of the names of bars that change a price."""


def _merge_names(names: list[str]) -> str:
    """Return `A5000, vast on demand prices` of `A5000 on demand prices` and `vast on demand prices`."""
    market = " on demand prices" if names[0].endswith(" on demand prices") else " spot prices"
    return names[0] if len(names) == 1 else ", ".join(name.removesuffix(market) for name in names) + market


class Tornado(TabledResult):
    """Every limit, price and estimate changed by the share `by`, largest effect first.

    The effect is that on the objective: `better` is cheaper (dollars) or sooner (hours). A bar with an end that
    leaves no plan comes before all others; `base` is the plan without changes.
    """

    schema_version: int = 3
    scenario: str
    settings: tuple[str, ...]
    by: float
    base: Plan
    bars: tuple[Bar, ...]
    better: Better = "cheaper"
    fixed: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """What the scenario leaves open and is fixed here, as `solve` chose it."""

    @property
    def lines(self) -> tuple[tuple[str, Bar], ...]:
        """The bars with their names; prices that do the same, as of a card and of its only provider, as one."""
        alike: dict[object, list[Bar]] = {}
        for bar in self.bars:
            figures = ((end.status, end.cost_usd or 0.0, end.hours or 0.0) for end in (bar.down, bar.up))
            ends = tuple((status, round(usd, 6), round(hours, 6)) for status, usd, hours in figures)
            key = (bar.path, ends) if bar.what.endswith(PRICES) else bar.what
            alike.setdefault(key, []).append(bar)
        return tuple((_merge_names([bar.what for bar in bars]), bars[0]) for bars in alike.values())

    def effect(self, bar: Bar) -> float:
        """Return the larger change of the objective, in dollars or hours."""
        return bar.effect_hours if self.better == "sooner" else bar.effect_usd

    def table(self) -> Table:
        """Return a row per bar, largest effect first: both ends with their status, dollars and hours."""
        rows: list[Row] = []
        for name, bar in self.lines:
            row: Row = {"what": name, "path": bar.path, "base": bar.base}
            for side, end in (("down", bar.down), ("up", bar.up)):
                row |= {f"{side}_{key}": getattr(end, key) for key in ("value", "status", "cost_usd", "hours")}
            rows.append({**row, "effect_usd": bar.effect_usd, "effect_hours": bar.effect_hours})
        return Table(rows, f"{self.scenario}: each limit and price at {self.by:.0%} less and more", str(self))

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per bar, largest effect first."""
        sides = [f"{what} at {sign}{self.by:.0%}" for what in ("cost", "hours") for sign in "-+"]
        rows = [
            (
                name,
                bar.base,
                dollars(bar.down.cost_usd) or bar.down.status,
                dollars(bar.up.cost_usd) or bar.up.status,
                *("" if end.hours is None else f"{end.hours:,.1f}" for end in (bar.down, bar.up)),
                f"{bar.effect_hours:,.1f} h" if self.better == "sooner" else dollars(bar.effect_usd),
            )
            for name, bar in self.lines
        ]
        return html_table(f"{self.scenario}: {_usd(self.base)}", ("what", "now", *sides, "effect"), rows)


# Results of a sweep over many variants: a row per variant, and a summary of all.


VariantStatus = Literal["optimal", "feasible", "infeasible", "no_plan", "error"]
"""The status of a plan, or `error` where a variant could not be solved at all."""


class Variant(Part):
    """The plan at one value of every range; expected dollars and hours as in a `Cell`."""

    values: tuple[str, ...]
    status: VariantStatus
    error: str = ""
    """Why the variant could not be solved; the others are solved all the same."""
    cost_usd: float | None = None
    hours: float | None = None
    hours_at_confidence: float | None = None
    jobs: tuple[CellJob, ...] = ()
    services: tuple[CellService, ...] = ()
    cut: tuple[CutSamples, ...] = ()
    """Samples that do not fit in their sequences, by job."""


class ManyVariants(Result):
    """A summary of a sweep whose rows are in a file."""

    schema_version: int = 3
    scenario: str
    paths: tuple[str, ...]
    """What varies; `values` of a variant are in this order."""
    variants: int
    resumed: int
    """Variants that an interrupted run had solved already."""
    counts: dict[VariantStatus, int]
    cheapest: Variant | None
    fastest: Variant | None
    best: Variant | None = Field(default=None, exclude_if=lambda variant: variant is None)
    """Of the least loss, where the scenario leaves model or tokens open."""
    cut: tuple[CutSamples, ...] = ()
    """Of each job whose samples are cut, the variant that cuts most."""
    cutting: int = 0
    """Variants that cut samples."""
    errors: tuple[Variant, ...]
    """The first variants that could not be solved."""
    seconds: float
    workers: int
    file: str = ""


def loss_of(models: Iterable[CellModel | ModelChoice | None]) -> float | None:
    """Return the sum of the losses of all models that have one; None where none has."""
    losses = [model.loss for model in models if model is not None]
    known = [loss.value if isinstance(loss, LossRange) else loss for loss in losses if loss is not None]
    return math.fsum(known) if known else None


def trained_figures(jobs: Sequence[CellJob]) -> dict[str, str | float | None]:
    """Return the models and tokens of jobs that leave them open, and the sum of their losses."""
    models = [job.model for job in jobs if job.model is not None]
    return {
        "models": "; ".join(model.words for model in models),
        "tokens": sum(model.tokens for model in models) or None,
        "loss": loss_of(models),
    }


def most_cut(cells: Sequence[Cell | Variant]) -> tuple[tuple[CutSamples, ...], int]:
    """Return of each job whose samples some cells cut the greatest cut, and the number of cells that cut."""
    most: dict[str, CutSamples] = {}
    for cut in (cut for cell in cells for cut in cell.cut):
        if cut.job not in most or cut.share > most[cut.job].share:
            most[cut.job] = cut
    return tuple(most.values()), sum(bool(cell.cut) for cell in cells)


# The plan and the analyses of one scenario together: what a report shows.


Section = Literal["frontier", "reasons", "tornado", "simulation", "prices"]
"""An analysis of a report beyond the plan."""


class PriceDay(Part):
    """Prices of one machine that the price book has of a day; dollars per instance and hour, None: not sold so."""

    date: datetime.date
    usd_per_hour: float | None
    spot_usd_per_hour: float | None


class PriceHistory(Part):
    """The stored prices of one offer of the plan, the oldest first."""

    offer: str
    days: tuple[PriceDay, ...]


class Overview(Part):
    """A plan and the analyses of its scenario; None where one was not asked for, or has nothing to say."""

    plan: Plan
    frontier: Frontier | None = None
    service_frontier: ServiceFrontier | None = None
    """Where the plan has a service; without other jobs in place of `frontier`."""
    explanation: Explanation | None = None
    tornado: Tornado | None = None
    simulation: Simulation | None = None
    service_simulation: ServiceSimulation | None = None
    """Of a service without jobs before it; next to jobs the replays of both are in `simulation`."""
    bases: tuple[KindBasis, ...] = ()
    """What each kind of machines of the services rests on."""
    prices: tuple[PriceHistory, ...] = ()
    fixed: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """What the scenario leaves open and is fixed here, as `solve` chose it."""
    of_file: bool = False
    """Whether the plan was read from a file: other offers than those it carries are not known then."""
    skipped: dict[Section, str] = Field(default_factory=dict)
    """Why an analysis is missing, by its name."""
