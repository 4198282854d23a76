"""Figures of the analyses around a plan: alternatives, sensitivity, earlier prices, and its simulation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from planner.drawing.charts import (
    Labels,
    Lane,
    Ranged,
    Stretch,
    Swing,
    Trace,
    histogram,
    lane_axis,
    lanes,
    panel,
    ranged,
    swings,
)
from planner.drawing.scene import GAP, Axis, Caption, Scene, Text, headed, joined, wrap
from planner.report import words
from planner.report.plan_figures import Figure, Table
from planner.report.simulation_text import POLICY_NAMES, format_frequency, format_summary
from planner.report.what_if_text import effect_of, is_visible
from planner.results.explanation import Alternative, Explanation
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Option
from planner.results.simulation import PLANNED, Distribution, Histogram, JobReplays, ReplayFigures, Simulation, Timeline
from planner.results.what_if import PriceHistory, Tornado

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
    found = (
        [alternative for alternative in explanation.alternatives if alternative.job == job and alternative.by == by]
        if explanation
        else []
    )
    rows = []
    for option in sorted(found, key=_by_cost):
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
    what = title if title.startswith("GPU") else title[0].lower() + title[1:]
    lead = "; ".join(text for text in (f"Least cost by {what}", named, least) if text)
    draw = functools.partial(ranged, bars, Caption(title, lead))
    return [Figure(key, title, f"{lead}.", draw, Table(HEADER, tuple(row for _, row in rows)))]


def tornado_figure(found: Tornado, most: int = MOST_BARS) -> Figure | None:
    """Return what a change of each limit, price and estimate does to the plan; None where nothing has an effect.

    `most` are the bars that are drawn; the table has all.
    """
    by_time = found.better == "sooner"
    visible = [(name, bar) for name, bar in found.lines if is_visible(found, bar)]
    if not visible:
        return None
    share, unit = f"{found.by * 100:.3g} %", "hours" if by_time else "dollars"
    show = words.hours if by_time else _signed
    rows, table = [], []
    for name, bar in visible:
        down, up = (effect_of(end, found.base, by_time) for end in (bar.down, bar.up))
        texts = ["no plan" if change is None else show(change) for change in (down, up)]
        label = words.sanitise(name)
        rows.append(Swing(label, down, up, f"{label}: {texts[0]} at {bar.down.value}, {texts[1]} at {bar.up.value}"))
        table.append((label, bar.base, f"{bar.down.value}: {texts[0]}", f"{bar.up.value}: {texts[1]}"))
    idle = [words.sanitise(name) for name, bar in found.lines if not is_visible(found, bar)]
    lead = f"Each limit, price and estimate alone, {share} down and up; the largest effect: {rows[0].label}"
    names = (f"{share} less", f"{share} more")
    title = f"change of the expected {'hours' if by_time else 'cost'}"
    draw = functools.partial(
        swings,
        rows[:most],
        Caption("What the plan depends on", lead, title),
        names,
        _hours_tick if by_time else _signed,
    )
    notes = (f"No effect: {'; '.join(idle)}.",) if idle else ()
    head = ("what", "now", f"{unit} at {share} less", f"{unit} at {share} more")
    return Figure("tornado", "What the plan depends on", f"{lead}.", draw, Table(head, tuple(table)), notes)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{words.usd(value)}"


def _hours_tick(value: float) -> str:
    return words.plain_number(value)


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


def simulation_scene(found: Simulation, width: float) -> Scene:
    """Return one replay, the distributions of cost and of hours next to each other, and the policies."""
    summary = words.sanitise(" ".join(format_summary(found)))
    rows: list[list[Scene]] = []
    job = next((job for job in found.jobs if job.told is not None), None)
    if job is not None and job.told is not None:
        rows += _replay(job, job.told, len(found.jobs) > 1, width)
    half = (width - GAP) / 2
    spreads = [figure for figure in simulation_figures(found) if figure.key in ("cost-runs", "hours-runs")]
    if spreads:
        rows.append([headed((spread.draw or _in_words(spread))(half), spread.title) for spread in spreads])
    if policies := list(_policy_bars(found)):
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


def _policy_bars(found: Simulation) -> Iterator[Ranged]:
    """Yield a bar per policy with its cost, where there are several; the planned one in colour."""
    for name, figures in found.policies.items() if len(found.policies) > 1 else ():
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


def simulation_figures(found: Simulation) -> list[Figure]:
    """Return the distributions of cost and of hours over the replays, with the figures of the plan."""
    if found.cost_usd is None or found.hours is None or found.predicted is None:
        return []
    summary = words.sanitise(" ".join(format_summary(found)))
    cost = [(found.predicted.cost_usd, f"plan {words.usd(found.predicted.cost_usd)}", "ink")]
    if found.budget_usd is not None:
        cost.append((found.budget_usd, f"budget {words.usd(found.budget_usd)}", "accent"))
    hours = [(found.predicted.hours, f"plan, {words.likely(found.predicted.hours)}", "ink")]
    deadlines = {job.deadline_hours for job in found.jobs if job.deadline_hours is not None}
    if len(deadlines) == 1:
        limit = deadlines.pop()
        hours.append((limit, f"deadline {words.given_hours(limit)} h", "accent"))
    figures = []
    for key, title, spread, bins, marks, show, axis_title in (
        ("cost-runs", "Simulated cost", found.cost_usd, found.cost_histogram, cost, words.usd, "dollars"),
        ("hours-runs", "Simulated finish", found.hours, found.hours_histogram, hours, words.hours, "hours until done"),
    ):
        figures += _spread(key, title, spread, bins, marks, show, f"{axis_title}, {found.runs:,} runs")
    if figures:
        table, notes = _policies(found), tuple(map(words.sanitise, found.notes))
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


def _policies(found: Simulation) -> Table:
    """Return the figures of each policy; of the plan alone where there is no spot."""
    rows = []
    policies: Mapping[str, ReplayFigures | Simulation] = found.policies or {PLANNED: found}
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
