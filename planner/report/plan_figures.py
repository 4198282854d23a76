"""Figures of the plan itself: the bill, the memory of each GPU, and the timetable; what a figure is."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.drawing.charts import Labels, Lane, Moment, Stack, Stretch, Trace, lane_axis, lanes, panel, stacked
from planner.drawing.scene import Axis, Caption, Scene, joined, room_of_ticks
from planner.report import plan_sections, words
from planner.report.plan_sections import format_market, format_place
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import BillItem
from planner.results.subject_runs import RlRun
from planner.units import round_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# A figure of the report: its title, a sentence, a picture in any width, and the table behind it.


WIDE, NARROW = 840.0, 320.0
"""Widths in which each picture is drawn: for a page or paper, and for a telephone or a column of 80 mm."""
PICTURE = 510.0
"""Width of a picture as a file of its own: reduced to a column of 80 mm, its letters are still five points high."""
COST_LABEL, MONTH_LABEL = "expected cost", "dollars a month"


@dataclass(frozen=True)
class Table:
    """A table of texts; cells that start with a digit or a dollar sign are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture with the table behind it; `draw` returns the picture in a width, None: the table says it all."""

    key: str
    title: str
    lead: str
    draw: Callable[[float], Scene] | None
    table: Table
    notes: tuple[str, ...] = ()


# Figures of the plan itself: the bill, the memory of each GPU, and the timetable.


MAX_BARS_OF_JOBS = 40
"""Most jobs with a bar of their own; the tables have all."""
USE_HIGH = 90.0
"""Height of the GPUs in use."""
OVERHEAD = "overhead and margin"
"""What the fit rule adds to live tensors: runtime, fragmentation, and the error of the estimate."""
ON_SPOT, BY_THE_HOUR, STAGE, WAITING, RESERVED = "c2", "c0", "c6", "soft", "soft"
"""Colours of a timetable."""


def bill_figure(plan: Plan) -> Figure:
    """Return the bill as stacked bars, a bar for each job."""
    jobs = plan.parts_that_end[:MAX_BARS_OF_JOBS]
    stacks = [
        Stack(
            _name(job),
            tuple((item_name(line, job.gpu), line.usd) for line in job.bill if round(line.usd, 2) > 0),
            words.usd(job.cost_usd),
        )
        for job in jobs
    ]
    stacks += [
        Stack(words.sanitise(reservation.offer), (("reserved", reservation.usd),), words.usd(reservation.usd))
        for reservation in plan.reservations
    ]
    lines = [(job, line) for job in plan.parts_that_end for line in job.bill]
    amounts, rest = [line.usd for _, line in lines] + [reservation.usd for reservation in plan.reservations], 0.0
    if plan.cost is not None:
        amounts, rest = plan_sections.added_up(amounts, plan.cost.expected)
    rows = [
        (
            _name(job), item_name(line, job.gpu), _how(line),
            "" if line.rate_usd is None else words.rate(line.rate_usd),
            words.usd(usd), words.sanitise(line.basis) or "price of the offer",
        )
        for (job, line), usd in zip(lines, amounts, strict=False)
    ]  # fmt: skip
    rows += [
        (
            "all",
            f"reserved: {words.sanitise(reservation.offer)}",
            f"{reservation.count} x",
            "",
            words.usd(usd),
            "price of the offer",
        )
        for reservation, usd in zip(plan.reservations, amounts[len(lines) :], strict=True)
    ]
    lead = ""
    if plan.cost is not None:
        spread = words.usd_between(plan.cost.low, plan.cost.high)
        total = words.usd(plan.cost.expected)
        lead = f"{total} expected; {spread} with 80 % probability"
        if rest:
            rows.append(("all", "rounding", "", "", words.usd(rest), "amounts are shown in whole cents"))
        rows.append(("total", "", "", "", total, spread))
    draw = functools.partial(stacked, stacks, Caption("Bill", f"Bill by item: {lead}"), words.usd, "")
    head = ("job", "item", "amount", "rate", "dollars", "basis")
    return Figure("bill", "Bill", f"{lead}.", draw, Table(head, tuple(rows)))


def item_name(line: BillItem, gpu: str) -> str:
    """Return an item of a bill in the words of the screen, as a page shows it."""
    return words.sanitise(plan_sections.item_name(line.item, gpu))


def _how(line: BillItem) -> str:
    return "" if line.quantity is None or not line.unit else plan_sections.quantity(line.quantity, line.unit)


def memory_figure(plan: Plan) -> Figure | None:
    """Return the memory of one GPU by part against what is usable, a bar for each job; None without GPUs."""
    jobs = [job for job in plan.jobs if job.gpus and job.vram_gib.parts]
    if not jobs:
        return None
    stacks = []
    for job in jobs[:MAX_BARS_OF_JOBS]:
        vram = job.vram_gib
        parts = [(_part(name), size) for name, size in {**vram.parts, **vram.set_aside}.items() if size >= 0.05]
        rest = vram.peak - math.fsum(size for _, size in parts)
        parts += [(OVERHEAD, rest)] if rest > 0.05 else []
        stacks.append(
            Stack(_name(job), tuple(parts), f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB", vram.usable)
        )
    rows = [(_name(job), name, f"{words.gib(size)} GiB") for job in jobs for name, size in _memory_rows(job)]
    lead = "; ".join(
        f"{f'{_name(job)}: ' if len(jobs) > 1 else ''}"
        f"{words.gib(job.vram_gib.peak)} of {words.gib(job.vram_gib.usable)} "
        f"GiB of {job.gpu}, fits with {words.probability_text(job.vram_gib.fit_probability)} probability"
        for job in jobs[:3]
    ) + (f"; {len(jobs) - 3} more jobs" if len(jobs) > 3 else "")
    draw = functools.partial(
        stacked, stacks, Caption("Memory of one GPU", lead), words.gib_text, "usable memory of the GPU",
        has_sums=len(stacks) == 1,
    )  # fmt: skip
    return Figure("memory", "Memory of one GPU", f"{lead}.", draw, Table(("job", "part", "size"), tuple(rows)))


def _memory_rows(job: Assignment) -> list[tuple[str, float]]:
    """Return the parts of the memory of one GPU and what is added to them, which make up what is needed, and the rest.

    Each is rounded as it is shown, so that the rows add up.
    """
    vram = job.vram_gib
    parts = [(_part(name), round(size, 1)) for name, size in {**vram.parts, **vram.set_aside}.items()]
    needed, usable = round(vram.peak, 1), round(vram.usable, 1)
    added = needed - math.fsum(size for _, size in parts)
    what = OVERHEAD if added >= -0.05 * len(parts) else "less in the observed run"
    parts += [(what, added)] if abs(added) >= 0.05 else []
    return [*parts, ("needed", needed), ("free", usable - needed), (f"usable on {job.gpu}", usable)]


def _part(name: str) -> str:
    return words.sanitise(name.replace("_", " "))


def _name(job: Assignment | RlRun) -> str:
    return words.sanitise(job.name)


def timetable_figure(plan: Plan) -> Figure:
    """Return the stages of one job, or which job runs where and when."""
    if len(plan.jobs) == 1 and not plan.is_timetable:
        return _stages(plan.jobs[0])
    found = machine_lanes(plan) if plan.is_timetable else [(format_place(job, False), [job]) for job in plan.jobs]
    rows = [
        Lane(
            words.sanitise(name),
            tuple(_stretch(job, start, end) for job in jobs for start, end in _times(job)),
            tuple(job.deadline_hours for job in jobs if job.deadline_hours is not None),
            tuple(
                Stretch(
                    reservation.start_hours,
                    min(reservation.end_hours, _last(plan)),
                    RESERVED,
                    "",
                    f"reserved: {reservation.offer}",
                )
                for number, reservation in enumerate(plan.reservations)
                if any(job.reservation == number for job in jobs)
            ),
        )
        for name, jobs in found[:MAX_BARS_OF_JOBS]
    ]
    table = [
        (_name(job), format_place(job), f"{job.start_at_hours:.1f} h", f"{round_up(job.finish_hours, 1):.1f} h",
         words.usd(job.cost_usd),
         "" if job.deadline_hours is None else f"{words.given_hours(job.deadline_hours)} h")
        for job in sorted(plan.jobs, key=lambda job: (job.start_at_hours, job.name))
    ]  # fmt: skip
    since = f", hours from {plan.now.replace('T', ' ')}" if plan.now else ", hours"
    ends = f"by hour {words.plain_number(_last(plan))}"
    lead = f"1 job, which ends {ends}" if len(plan.jobs) == 1 else f"{len(plan.jobs)} jobs; the last one ends {ends}"
    kinds = {stretch.role: stretch for row in rows for stretch in row.stretches}
    legend = [
        (name, role)
        for name, role in (("on demand", BY_THE_HOUR), ("spot", ON_SPOT), ("own or reserved", "c3"))
        if role in kinds
    ]
    legend += [("reserved", RESERVED)] if plan.reservations else []
    visible = any(due <= 1.02 * _last(plan) for row in rows for due in row.due)
    legend += [("deadline of a job", "accent")] if visible else []
    caption = Caption("Timetable", lead, f"at the confidence of each job{since}")
    draw = functools.partial(_with_use, plan, rows, legend, caption)
    head = ("job", "machines", "start", "ends by", "cost", "deadline")
    return Figure("timetable", "Timetable", f"{lead}.", draw, Table(head, tuple(table)))


def _with_use(
    plan: Plan, rows: Sequence[Lane], legend: Sequence[tuple[str, str]], caption: Caption, width: float
) -> Scene:
    """Return the lanes, and below them the GPUs in use where jobs take turns."""
    levels = _gpus_in_use(plan) if plan.is_timetable else []
    most = max((level for _, level in levels), default=0)
    if not most:
        return lanes(rows, (), legend, caption, width)
    up = Axis(0.0, 1.1 * most, 22.0 + USE_HIGH, 22.0)
    axis = lane_axis(rows, (), width)
    axis = Axis(axis.low, axis.high, max(axis.start, room_of_ticks(up)), axis.end)
    area = Trace(tuple(levels), "soft", width=0.0, steps="after", is_area=True)
    use = Trace(tuple(levels), "ink", width=1.2, steps="after")
    labels = Labels("GPUs in use", whole=True)
    above = lanes(rows, (), legend, Caption(caption.title, caption.description), width, axis)
    below = panel([area, use], axis, up, labels, Caption("", "", caption.axis), width)
    return joined([[above], [below]], caption.title, caption.description)


def _gpus_in_use(plan: Plan) -> list[tuple[float, float]]:
    """Return the hours at which the number of GPUs in use changes, each with the number from then on."""
    changes: dict[float, int] = {}
    for job in plan.jobs:
        gpus = job.gpus * job.runs_at_once
        for start, end in stretches_of(job):
            changes[start] = changes.get(start, 0) + gpus
            changes[end] = changes.get(end, 0) - gpus
    times = sorted(changes)
    return list(zip(times, itertools.accumulate(float(changes[time]) for time in times), strict=True))


def machine_lanes(plan: Plan) -> list[tuple[str, list[Assignment]]]:
    """Return lanes of jobs that do not overlap, with the offer of each: a machine, or jobs that could share one."""
    lanes: list[tuple[str, list[Assignment]]] = []
    by_place = {job.offer: f"{job.gpus} x {job.gpu}\n{job.provider}" for job in plan.jobs}
    for job in sorted(plan.jobs, key=lambda job: (job.offer, job.start_at_hours, job.name)):
        name = by_place[job.offer].replace("\n", ", ")
        free = (
            jobs
            for place, jobs in lanes
            if place == name and (jobs[-1].end_at_hours or 0.0) <= job.start_at_hours + 1e-9
        )
        lane = next(free, None)
        if lane is None:
            lanes.append((name, [job]))
        else:
            lane.append(job)
    return lanes


def stretches_of(job: Assignment) -> list[tuple[float, float]]:
    """Return from when to when a job runs: once, or before, between and after its pauses."""
    begins = [job.start_at_hours, *(pause.to_hours for pause in job.pauses)]
    return list(zip(begins, [*(pause.from_hours for pause in job.pauses), job.end_at_hours or 0.0], strict=True))


def _times(job: Assignment) -> list[tuple[float, float]]:
    return stretches_of(job) if job.end_at_hours is not None else [(0.0, job.finish_hours)]


def _stretch(job: Assignment, start: float, end: float) -> Stretch:
    own = job.is_reserved or job.tier in ("own", "committed")
    role = "c3" if own else ON_SPOT if job.spot_share > 0 else BY_THE_HOUR
    market = format_market(job.spot_share, job.tier)
    how = f"{_name(job)}: {words.plain_number(start)} to {words.plain_number(end)} h, {market}"
    return Stretch(start, end, role, _name(job), how)


def _last(plan: Plan) -> float:
    return max(job.finish_hours for job in plan.jobs)


def _stages(job: Assignment) -> Figure:
    """Return the stages of one job one after the other, with the guard of a spot policy and the deadline."""
    rows: list[Lane] = []
    table: list[tuple[str, ...]] = []
    at = 0.0
    for name, hours, role in _parts(job):
        rows.append(Lane(name, (Stretch(at, at + hours, role, "", f"{name}: {words.hours(hours)}"),)))
        table.append((name, words.hours(at) if at else "0.0 h", words.hours(hours)))
        at += hours
    moments = [Moment(job.hours.expected, f"likely end, {words.hours(job.hours.expected)}", "ink")]
    if job.hours.at_confidence > job.hours.expected * 1.001:
        late = words.shown_by(job.hours.at_confidence)
        moments.append(Moment(late, f"ends by, {words.hours(late)}", "ink"))
    guard = job.spot.latest_on_demand_hours if job.spot else None
    guard = job.switch_to_on_demand_at_hours if guard is None and 0 < job.spot_share < 1 else guard
    if guard is not None:
        moments.append(Moment(guard, f"guard: on demand from {words.hours(guard)} at the latest", "c3"))
    if job.deadline_hours is not None and job.deadline_hours <= 4 * job.hours.at_confidence:
        moments.append(Moment(job.deadline_hours, f"deadline, {words.hours(job.deadline_hours)}", "accent"))
    table += [(moment.name, words.hours(moment.hours), "") for moment in moments]
    interval = words.between(job.hours.low, job.hours.high)
    lead = f"{words.likely_and_by(job.hours)}; {interval} with 80 % probability"
    names = {
        ON_SPOT: "on spot",
        BY_THE_HOUR: "on demand",
        STAGE: "before and after training",
        WAITING: "waiting for spot",
    }
    used = [stretch.role for row in rows for stretch in row.stretches]
    legend = [(names[role], role) for role in dict.fromkeys(used) if role in names]
    draw = functools.partial(lanes, rows, moments, legend, Caption("Timetable", lead, "expected hours"))
    return Figure("timetable", "Timetable", f"{lead}.", draw, Table(("stage", "from", "takes"), tuple(table)))


def _parts(job: Assignment) -> Iterator[tuple[str, float, str]]:
    """Yield the stages in their order, those on spot by the expected share of the work."""
    before = {name: hours for name, hours in job.stage_hours.items() if name == "prepare data"}
    waiting = job.spot.waiting_hours if job.spot else 0.0
    yield from ((name, hours, STAGE) for name, hours in before.items() if hours > 0)
    if job.start_hours > 0:
        yield ("start" if job.gpus else "upload"), job.start_hours, STAGE
    if waiting > 0:
        yield "waiting", waiting, WAITING
    work = job.training_hours - waiting
    what = "answering" if job.inference else "training"
    on_spot = work * min(1.0, max(0.0, job.spot_share))
    if on_spot > 0:
        yield f"{what} on spot", on_spot, ON_SPOT
    if work - on_spot > 1e-6:
        yield f"{what} on demand" if on_spot > 0 else what, work - on_spot, BY_THE_HOUR
    yield from ((name, hours, STAGE) for name, hours in job.stage_hours.items() if hours > 0 and name not in before)
