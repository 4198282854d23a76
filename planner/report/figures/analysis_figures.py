"""Figures of the analyses around a plan: alternatives, sensitivity, and earlier prices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from planner.drawing.bars import Ranged, Swing, ranged, swings
from planner.drawing.scene import Caption
from planner.report import words
from planner.report.figures.plan_figures import Figure, Table
from planner.report.what_if_text import effect_of, is_visible
from planner.results.explanation import Explanation
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Option
from planner.results.report_data import PriceHistory
from planner.results.what_if import Tornado

MOST_BARS = 10
"""Most bars of one comparison; the table has all."""
JOBS_WITH_ALTERNATIVES = 4
"""Most jobs whose alternatives are shown."""
Rows = Sequence[tuple[Ranged, tuple[str, ...]]]
HEADER = ("choice", "plan", "likely", "cost", "remark")


def alternative_figures(plan: Plan, explanation: Explanation | None) -> list[Figure]:
    """Return the least cost by GPU, provider, method and framework, for each job."""
    figures: list[Figure] = []
    for job in plan.jobs[:JOBS_WITH_ALTERNATIVES]:
        of_job = f" of {words.sanitise(job.name)}" if len(plan.jobs) > 1 else ""
        for by, title in (("gpu", "GPU"), ("provider", "Provider"), ("method", "Method")):
            rows = _explained(explanation, job.name, by)
            if by == "method" and not rows:
                rows = _options(job.methods, functools.partial(_is_method, _method_of(job)))
            figures += _compared(f"{by}-{len(figures)}", f"{title}{of_job}", rows)
        rows = _options(job.frameworks, functools.partial(_is_method, _framework_of(job)))
        figures += _compared(f"framework-{len(figures)}", f"{'Engine' if job.inference else 'Framework'}{of_job}", rows)
        if explanation is None:
            figures += _compared(f"next-{len(figures)}", f"Next best{of_job}", _with_plan(job))
    return figures


def _with_plan(job: Assignment) -> Rows:
    """Return the runners-up of a job with the plan among them, by rising cost."""
    name = words.sanitise(f"{job.gpu} at {job.provider}")
    machines = words.sanitise(f"{words.gpus(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}")
    took, cost = words.hours(job.hours.expected), words.usd(job.cost_usd)
    bar = Ranged(name, job.cost_usd, f"{cost}, likely {took}", is_chosen=True)
    rows = _options(job.next_best, lambda _: False)
    mine = (bar, (name, machines, took, cost, "chosen"))
    return sorted([mine, *rows], key=lambda row: row[0].value or math.inf) if rows else rows


def _is_method(label: str, option: Option) -> bool:
    return option.label == label


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
    """Return the alternatives that `explain` found, the plan's own choice first."""
    found = (
        [alternative for alternative in explanation.alternatives if alternative.job == job and alternative.by == by]
        if explanation
        else []
    )
    rows = []
    for option in found:
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


def _options(options: Sequence[Option], is_chosen: Callable[[Option], bool]) -> Rows:
    """Return methods, frameworks or runners-up of a plan."""
    rows = []
    for option in sorted(options, key=lambda option: (option.cost_usd is None, option.cost_usd or 0.0)):
        name = words.sanitise(option.label or f"{option.gpu} at {option.provider}")
        machines = words.sanitise(
            f"{words.gpus(option.gpus, option.gpu, option.runs_at_once)} at {option.provider}" if option.gpu else ""
        )
        took = words.hours(option.hours) if option.hours is not None else ""
        cost = words.usd(option.cost_usd) if option.cost_usd is not None else "infeasible"
        remark = option.note or (
            "about: rests on priors" if option.prior else "" if option.allowed else "excluded by the scenario"
        )
        mark = " (prior)" if option.prior else "" if option.allowed else " (excluded)"
        figures = f"{cost}, likely {took}" if took else cost
        bar = Ranged(f"{name}{mark}", option.cost_usd or 0.0, figures, is_chosen=is_chosen(option))
        rows.append((bar, (name, machines, took, cost, words.sanitise(remark))))
    return rows


def _compared(key: str, title: str, rows: Rows) -> list[Figure]:
    """Return a comparison as a figure; none where there is nothing to compare."""
    if len(rows) < 2:
        return []
    bars = [bar for bar, _ in rows if bar.value > 0][:MOST_BARS]
    if not bars:
        return []
    chosen = [bar for bar in bars if bar.is_chosen]
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
