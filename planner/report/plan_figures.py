"""Figures of a plan: bill, memory, timetable, alternatives, earlier prices and its simulation; what a figure is."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.drawing.charts import (
    Labels,
    Lane,
    Moment,
    Ranged,
    Stack,
    Stretch,
    Trace,
    histogram,
    lane_axis,
    lanes,
    panel,
    ranged,
    stacked,
)
from planner.drawing.scene import GAP, Axis, Caption, Scene, Text, headed, joined, room_of_ticks, wrap
from planner.report import plan_sections, words
from planner.report.plan_sections import format_market, format_place
from planner.report.run_text import POLICY_NAMES, format_frequency, format_summary
from planner.results.explanation import Alternative, Explanation
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import BillItem, Option
from planner.results.simulation import PLANNED, Distribution, Histogram, JobReplays, ReplayFigures, Simulation, Timeline
from planner.results.subject_runs import RlRun
from planner.results.what_if import PriceHistory
from planner.units import round_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


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
    label = OVERHEAD if added >= -0.05 * len(parts) else "less in the observed run"
    parts += [(label, added)] if abs(added) >= 0.05 else []
    return [*parts, ("needed", needed), ("free", usable - needed), (f"usable on {job.gpu}", usable)]


def _part(name: str) -> str:
    return words.sanitise(name.replace("_", " "))


def _name(job: Assignment | RlRun) -> str:
    return words.sanitise(job.name)


def timetable_figure(plan: Plan) -> Figure:
    """Return the stages of one job, or which job runs where and when."""
    if len(plan.jobs) == 1 and not plan.is_timetable:
        return _stages(plan.jobs[0])
    places = machine_lanes(plan) if plan.is_timetable else [(format_place(job, False), [job]) for job in plan.jobs]
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
        for name, jobs in places[:MAX_BARS_OF_JOBS]
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
    work_name = "answering" if job.inference else "training"
    on_spot = work * min(1.0, max(0.0, job.spot_share))
    if on_spot > 0:
        yield f"{work_name} on spot", on_spot, ON_SPOT
    if work - on_spot > 1e-6:
        yield f"{work_name} on demand" if on_spot > 0 else work_name, work - on_spot, BY_THE_HOUR
    yield from ((name, hours, STAGE) for name, hours in job.stage_hours.items() if hours > 0 and name not in before)


# Figures of the analyses around the plan: alternatives, earlier prices, and its simulation.


MOST_BARS = 10
"""Most bars of one comparison; the table has all."""
JOBS_WITH_ALTERNATIVES = 4
"""Most jobs whose alternatives are shown."""
COMPARED_BY = (("gpu", "GPU"), ("provider", "Provider"), ("method", "Method"))
Rows = Sequence[tuple[Ranged, tuple[str, ...]]]
HEADER = ("choice", "plan", "likely", "cost", "remark")


def alternative_figures(plan: Plan, explanation: Explanation | None) -> list[Figure]:
    """Return the least cost by GPU, provider, method and framework, for each job."""
    figures: list[Figure] = []
    for job in plan.jobs[:JOBS_WITH_ALTERNATIVES]:
        of_job = f" of {words.sanitise(job.name)}" if len(plan.jobs) > 1 else ""
        for by, title in COMPARED_BY:
            rows = _explained(explanation, job.name, by)
            if by == "method" and not rows:
                rows = _options(job.methods, job, _method_of(job))
            figures += _compared(f"{by}-{len(figures)}", f"{title}{of_job}", rows)
        rows = _options(job.frameworks, job, _framework_of(job))
        figures += _compared(f"framework-{len(figures)}", f"{'Engine' if job.inference else 'Framework'}{of_job}", rows)
        if explanation is None:
            figures += _compared(f"next-{len(figures)}", f"Next best{of_job}", _with_plan(job))
    for run in plan.reinforcement[:JOBS_WITH_ALTERNATIVES]:
        of_job = f" of {words.sanitise(run.name)}" if len(plan.planned) > 1 else ""
        for by, title in COMPARED_BY:
            figures += _compared(f"{by}-{len(figures)}", f"{title}{of_job}", _explained(explanation, run.name, by))
    return figures


def _with_plan(job: Assignment) -> Rows:
    """Return the runners-up of a job with the plan among them; nothing where there are none."""
    name = f"{job.gpu} at {job.provider}"
    return _options((_as_planned(job, name), *job.next_best), job, name) if job.next_best else ()


def _as_planned(job: Assignment, label: str) -> Option:
    """Return the plan itself as an option: what costs least may be a near tie that the plan leaves."""
    return Option(
        label=label,
        provider=job.provider,
        gpu=job.gpu,
        gpus=job.gpus,
        runs_at_once=job.runs_at_once,
        cost_usd=job.cost_usd,
        hours=job.hours.expected,
        note="chosen",
    )


def _method_of(job: Assignment) -> str:
    how = job.techniques
    return (
        "full"
        if how.method == "full"
        else "QLoRA"
        if how.weight_bits == 4
        else "LoRA"
        if how.weight_bits == 16
        else "LoRA 8-bit"
    )


def _framework_of(job: Assignment) -> str:
    """Return the label of the framework in use: the option of the plan's own cost comes first where labels differ."""
    from planner.library.technique_tables import read_techniques

    profile = read_techniques().frameworks.get(job.framework)
    return profile.label if profile else job.framework


def _explained(explanation: Explanation | None, job: str, by: str) -> Rows:
    """Return the alternatives that `explain` found, by rising cost."""
    alternatives = (
        [alternative for alternative in explanation.alternatives if alternative.job == job and alternative.by == by]
        if explanation
        else []
    )
    rows = []
    for option in sorted(alternatives, key=_by_cost):
        name = words.sanitise(option.name)
        took = words.hours(option.hours) if option.hours is not None else ""
        cost = words.usd(option.cost_usd) if option.cost_usd is not None else ""
        remark = (
            "chosen"
            if option.chosen
            else (option.verdict if option.allowed else f"excluded by the scenario; {option.verdict}".rstrip("; "))
        )
        mark = "" if option.allowed else " (excluded)"
        figures = f"{cost}, likely {took}" if took else cost
        bar = Ranged(f"{name}{mark}", option.cost_usd or 0.0, figures, is_chosen=option.chosen)
        rows.append((bar, (name, words.sanitise(option.plan), took, cost, words.sanitise(remark))))
    return rows


def _by_cost(option: Option | Alternative) -> tuple[bool, float]:
    """Return the sort key by rising cost; what is infeasible comes last."""
    return option.cost_usd is None, option.cost_usd or 0.0


def _options(options: Sequence[Option], job: Assignment, own: str) -> Rows:
    """Return methods, frameworks or runners-up of a plan by rising cost; that with the label `own` is the plan."""
    rows = []
    shown = [_as_planned(job, own) if option.label == own else option for option in options]
    for option in sorted(shown, key=_by_cost):
        name = words.sanitise(option.label or f"{option.gpu} at {option.provider}")
        machines = words.sanitise(
            f"{words.gpus(option.gpus, option.gpu, option.runs_at_once)} at {option.provider}" if option.gpu else ""
        )
        took = words.hours(option.hours) if option.hours is not None else ""
        cost = words.usd(option.cost_usd) if option.cost_usd is not None else "infeasible"
        remark = "about: rests on priors" if option.prior else option.note
        remark = remark or ("" if option.allowed else "excluded by the scenario")
        mark = " (prior)" if option.prior else "" if option.allowed else " (excluded)"
        figures = f"{cost}, likely {took}" if took else cost
        bar = Ranged(f"{name}{mark}", option.cost_usd or 0.0, figures, is_chosen=option.label == own)
        rows.append((bar, (name, machines, took, cost, words.sanitise(remark))))
    return rows


def _compared(key: str, title: str, rows: Rows) -> list[Figure]:
    """Return a comparison as a figure; none where there is nothing to compare."""
    if len(rows) < 2:
        return []
    priced = [bar for bar, _ in rows if bar.value > 0 or bar.is_chosen]
    chosen = [bar for bar in priced if bar.is_chosen]
    bars = priced[:MOST_BARS]
    if chosen and chosen[0] not in bars:
        bars = [*bars[:-1], chosen[0]]
    if not bars:
        return []
    allowed = [bar for bar in bars if bar.label[-1:] != ")"] or bars
    named = f"the plan has {chosen[0].label}, {chosen[0].words}" if chosen else ""
    cheapest = min(allowed, key=lambda bar: bar.value)
    least = f"the cheapest is {cheapest.label}, {cheapest.words}" if not cheapest.is_chosen else ""
    noun = title if title.startswith("GPU") else title[0].lower() + title[1:]
    lead = "; ".join(text for text in (f"Least cost by {noun}", named, least) if text)
    draw = functools.partial(ranged, bars, Caption(title, lead))
    return [Figure(key, title, f"{lead}.", draw, Table(HEADER, tuple(row for _, row in rows)))]


def price_figures(histories: Sequence[PriceHistory]) -> list[Figure]:
    """Return the stored prices of each offer of the plan by day, where the price book has two days or more."""
    figures = []
    for number, history in enumerate(histories):
        days = history.days
        key = "usd_per_hour" if days[-1].usd_per_hour is not None else "spot_usd_per_hour"
        known = [(day.date.isoformat(), price) for day in days if (price := getattr(day, key)) is not None]
        if len(known) < 2:
            continue
        market = "on demand" if key == "usd_per_hour" else "spot"
        bars = [
            Ranged(day, price, words.rate(price), is_chosen=day == known[-1][0]) for day, price in known[-MOST_BARS:]
        ]
        prices = [price for _, price in known]
        name = words.sanitise(history.offer)
        lead = f"{name}, {market}: {words.rate(min(prices))} to {words.rate(max(prices))} an hour on {len(known)} days"
        rows = tuple(
            (
                day.date.isoformat(),
                words.rate(day.usd_per_hour) if day.usd_per_hour is not None else "",
                words.rate(day.spot_usd_per_hour) if day.spot_usd_per_hour is not None else "",
            )
            for day in days
        )
        title = "Price history"
        draw = functools.partial(ranged, bars, Caption(title, lead))
        figures.append(Figure(f"prices-{number}", title, f"{lead}.", draw, Table(("day", "on demand", "spot"), rows)))
    return figures


RUN_ROLES = {"spot": "c2", "on demand": "c0"}
"""Colours of what runs, those of a timetable."""
AVAILABLE = "soft"
REPLAY_HIGH = 190.0
"""Height of the work done over time."""


def simulation_scene(simulation: Simulation, width: float) -> Scene:
    """Return one replay, the distributions of cost and of hours next to each other, and the policies."""
    summary = words.sanitise(" ".join(format_summary(simulation)))
    rows: list[list[Scene]] = []
    job = next((job for job in simulation.jobs if job.told is not None), None)
    if job is not None and job.told is not None:
        rows += _replay(job, job.told, len(simulation.jobs) > 1, width)
    half = (width - GAP) / 2
    spreads = [figure for figure in simulation_figures(simulation) if figure.key in ("cost-runs", "hours-runs")]
    if spreads:
        rows.append([headed((spread.draw or _in_words(spread))(half), spread.title) for spread in spreads])
    if policies := list(_policy_bars(simulation)):
        title = "Mean cost of policies on the same markets"
        rows.append([headed(ranged(policies, Caption(title, title), width), title)])
    return joined(rows, summary, summary)


def _in_words(spread: Figure) -> Callable[[float], Scene]:
    """Return a function that draws the sentence of a distribution which is a single figure."""

    def draw(width: float) -> Scene:
        lines = wrap(spread.lead, width, 4)
        texts = tuple(Text(0, 14 + 18.0 * at, line) for at, line in enumerate(lines))
        return Scene(width, 8 + 18.0 * len(lines), spread.title, spread.lead, texts)

    return draw


def _policy_bars(simulation: Simulation) -> Iterator[Ranged]:
    """Yield a bar per policy with its cost, where there are several; the planned one in colour."""
    for name, figures in simulation.policies.items() if len(simulation.policies) > 1 else ():
        if figures.cost_usd is not None:
            met = figures.deadline_hit_rate
            in_time = f", {format_frequency(met)} in time" if met is not None else ""
            mean = figures.cost_usd.mean
            yield Ranged(POLICY_NAMES.get(name, name), mean, f"{words.usd(mean)}{in_time}", is_chosen=name == PLANNED)


def _replay(job: JobReplays, timeline: Timeline, several: bool, width: float) -> list[list[Scene]]:
    """Return the work done over time and the guard; below it the available market and what ran."""
    rows = list(_bands(timeline))
    end = max(timeline.stretches[-1].to_hours, timeline.ends_by_hours)
    axis = lane_axis(rows, (), width)
    axis = Axis(0.0, 1.04 * end, max(axis.start, 46.0), axis.end)
    done = timeline.stretches[-1].to_hours
    traces = [
        Trace(tuple(timeline.progress), "ink", "work done", width=1.8),
        Trace(((done, 1.0),), "ink", width=0.0, mark="dot"),
    ]
    if timeline.guard is not None:
        traces.append(Trace(tuple(timeline.guard), "accent", "guard: on demand to the right of it", dashed=True))
    due = words.hours(timeline.ends_by_hours)
    moments = ((timeline.ends_by_hours, f"done by {due}", "muted"),)
    replay = f"{words.sanitise(job.name)}: one replay" if several else "One replay"
    count = f"{timeline.interruptions} interruption{'' if timeline.interruptions == 1 else 's'}"
    machines = f"{words.gpus(job.gpus, job.gpu)} at {words.sanitise(job.provider)}"
    heading = f"{replay}, {machines}: {words.usd(timeline.usd)}, {count}"
    up = Axis(0.0, 1.0, 22.0 + REPLAY_HIGH, 26.0)
    labels = Labels("", up=lambda share: f"{share * 100:.0f} %", moments=moments)
    above = panel(traces, axis, up, labels, Caption(heading, heading), width)
    below = lanes(rows, (), (), Caption("", "", "hours since machines were ordered"), width, axis)
    return [[headed(above, heading)], [below]]


def _bands(timeline: Timeline) -> Iterator[Lane]:
    """Yield when machines were there and what ran, a lane per zone where there were several."""
    parts = timeline.stretches
    for zone in timeline.zones:
        ran = [Stretch(part.from_hours, part.to_hours, RUN_ROLES["spot"]) for part in parts if part.zone == zone.zone]
        up = tuple(Stretch(begin, end, AVAILABLE) for begin, end in zone.up)
        yield Lane(words.sanitise(zone.zone), tuple(ran), behind=up)
    if not timeline.zones:
        up = tuple(Stretch(part.from_hours, part.to_hours, AVAILABLE) for part in parts if part.market_up)
        yield Lane("market available", up)
    for running, role in RUN_ROLES.items():
        ran = [Stretch(part.from_hours, part.to_hours, role) for part in parts if part.running == running]
        if ran:
            yield Lane(f"runs on {running.removeprefix('on ')}", tuple(ran))


def simulation_figures(simulation: Simulation) -> list[Figure]:
    """Return the distributions of cost and of hours over the replays, with the figures of the plan."""
    if simulation.cost_usd is None or simulation.hours is None or simulation.predicted is None:
        return []
    summary = words.sanitise(" ".join(format_summary(simulation)))
    cost = [(simulation.predicted.cost_usd, f"plan {words.usd(simulation.predicted.cost_usd)}", "ink")]
    if simulation.budget_usd is not None:
        cost.append((simulation.budget_usd, f"budget {words.usd(simulation.budget_usd)}", "accent"))
    hours = [(simulation.predicted.hours, f"plan, {words.likely(simulation.predicted.hours)}", "ink")]
    deadlines = {job.deadline_hours for job in simulation.jobs if job.deadline_hours is not None}
    if len(deadlines) == 1:
        limit = deadlines.pop()
        hours.append((limit, f"deadline {words.given_hours(limit)} h", "accent"))
    figures = []
    for key, title, spread, bins, marks, show, axis_title in (
        ("cost-runs", "Simulated cost", simulation.cost_usd, simulation.cost_histogram, cost, words.usd, "dollars"),
        (
            "hours-runs",
            "Simulated finish",
            simulation.hours,
            simulation.hours_histogram,
            hours,
            words.hours,
            "hours until done",
        ),
    ):
        figures += _spread(key, title, spread, bins, marks, show, f"{axis_title}, {simulation.runs:,} runs")
    if figures:
        table, notes = _policies(simulation), tuple(map(words.sanitise, simulation.notes))
        figures.append(Figure("policies", "Policies on the same markets", summary, None, table, notes))
    return figures


def _spread(
    key: str, title: str, spread: Distribution, bins: Histogram | None, marks: Sequence[tuple[float, str, str]],
    show: Callable[[float], str], axis_title: str,
) -> list[Figure]:  # fmt: skip
    """Return a distribution as a histogram; as its quantiles alone where all runs are equal."""
    lead = f"{show(spread.p05)} to {show(spread.p95)} in 90 of 100 runs, "
    lead += f"median {show(spread.p50)}, mean {show(spread.mean)}"
    lead += "".join(f"; {name}" for _, name, _ in marks)
    draw = None
    if bins is not None and len(bins.counts) > 1:
        draw = functools.partial(histogram, bins.edges, bins.counts, marks, Caption(title, lead, axis_title), show)
    notes = ("The first and the last bar take all runs beyond them.",) if draw else ()
    rows = (
        tuple(
            (f"{show(begin)} to {show(end)}", f"{count:,}")
            for begin, end, count in zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True) if count
        )
        if bins is not None and len(bins.counts) > 1
        else ((show(spread.mean), "all"),)
    )  # fmt: skip
    return [Figure(key, title, f"{lead}.", draw, Table(("from, to", "runs"), rows), notes)]


def _policies(simulation: Simulation) -> Table:
    """Return the figures of each policy; of the plan alone where there is no spot."""
    rows = []
    policies: Mapping[str, ReplayFigures | Simulation] = simulation.policies or {PLANNED: simulation}
    for name, figures in policies.items():
        cost, hours, met = figures.cost_usd, figures.hours, figures.deadline_hit_rate
        rows.append(
            (
                POLICY_NAMES.get(name, name),
                f"{words.usd(cost.mean)} ({words.usd_between(cost.p05, cost.p95)})" if cost else "",
                f"{words.hours(hours.mean)} ({words.between(hours.p05, hours.p95)})" if hours else "",
                format_frequency(met) if met is not None else "",
                f"{figures.interruptions:,.1f}" if figures.interruptions is not None else "",
            )
        )
    head = ("policy", "cost: mean (5 to 95 %)", "hours: mean (5 to 95 %)", "deadline met", "interruptions")
    return Table(head, tuple(rows))
