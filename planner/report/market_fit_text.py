"""A fitted spot market as text: availability, the block to paste, and its uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room

if TYPE_CHECKING:
    from planner.results.market_fit import EndsByAge, FittedDuration, MarketFit, TraceReport
    from planner.results.plan_parts import Spread

NAME_COLUMNS = 32
"""Columns of a trace's name."""
MOST_TRACES = 20
"""Most traces in the list."""


def render_market(fit: MarketFit) -> str:
    """Return the text of a fit: the summary, the block, then what it is based on."""
    lines = [_summary(fit), "", fit.spot_yaml.rstrip(), ""]
    lines += words.section("Share", words.wrap_lines(_available(fit), line_room(), 3))
    lines += words.section("Up", _durations(fit.up, fit.spot.up))
    lines += words.section("Outage", _durations(fit.outage, fit.spot.outage))
    lines += words.section("Ages", words.wrap_lines(_ages(fit), line_room(), 3))
    lines += words.section("Traces", _traces(fit.traces))
    return "\n".join([*lines, *words.section("Notes", words.wrap_all(fit.notes, line_room(), 5))])


def span(hours: float) -> str:
    """Return hours from one hour on, minutes below."""
    return words.hours(hours) if hours >= 0.995 else f"{max(1, round(hours * 60))} min"


def _summary(fit: MarketFit) -> str:
    machines = f"{fit.instances} machines" if fit.instances > 1 else "1 machine"
    share = f"{fit.availability.expected * 100:.0f} %"
    name = fit.traces[0].name if len(fit.traces) == 1 else f"{len(fit.traces)} traces"
    brief = f"{machines} available {share} of the time"
    whole = f"{brief}, for {span(fit.up.mean_hours.expected)} on average"
    return words.first_fitting(name, whole, brief)


def _available(fit: MarketFit) -> str:
    low, high = (f"{share * 100:.0f}" for share in (fit.availability.low, fit.availability.high))
    count = "1 interruption" if fit.interruptions == 1 else f"{fit.interruptions:,} interruptions"
    factor = f"{fit.up.known_to_factor:.1f}"
    known = f"{count} in {words.hours(fit.hours)}: the mean up-time is known to a factor of {factor}"
    return f"{low} to {high} % of the time ({fit.share_of_hours * 100:.0f} % of the observed hours); {known}"


def _durations(fitted: FittedDuration, block: EndsByAge) -> list[str]:
    mean = f"{span(fitted.mean_hours.expected)} on average ({_between(fitted.mean_hours)})"
    mean += f", {fitted.ends:,} observed to the end" + (f", CV {fitted.cv:.1f}" if fitted.cv is not None else "")
    return words.wrap_lines(mean, line_room(), 1) + words.wrap_lines(_rates(block), line_room(), 3)


def _between(interval: Spread) -> str:
    """Return an interval, such as `12 to 21 min` or `17 min to 1.5 h`."""
    low, high = span(interval.low), span(interval.high)
    return f"{low.removesuffix(high[high.index(' ') :])} to {high}"


def _rates(block: EndsByAge) -> str:
    """Return the rates, such as `ends 4.08 times an hour up to an age of 13 min, then 0.86`."""
    rates = [words.significant(rate) for rate in block.ends_per_hour]
    untils = [f" up to an age of {span(age)}" for age in block.ages_hours[1:]] + [""]
    first = f"ends {rates[0]} times an hour{untils[0]}"
    rest = (f"{rate}{until}" for rate, until in zip(rates[1:], untils[1:], strict=True))
    return ", then ".join([first, *rest]) + (" at any age" if len(rates) == 1 else "")


def _ages(fit: MarketFit) -> str:
    held_out = fit.held_out
    if held_out is None:
        return "too few ends to compare rates by age with one constant rate"
    ratio = held_out.likelier_by
    if ratio > 1.02:
        how = f"{ratio:.2f} times as well as"
    else:
        how = "no better than" if ratio >= 0.98 else f"worse (x {ratio:.2f}) than"
    return f"rates by age predict an end {how} one constant rate, on the held-out half ({held_out.ends:,} ends)"


def _traces(traces: tuple[TraceReport, ...]) -> list[str]:
    lines = [f"{'':<{NAME_COLUMNS}}{'hours':>8}{'avail.':>7}{'up':>8}{'outage':>8}{'lost':>6}"]
    for trace in traces[:MOST_TRACES]:
        up, outage = ("-" if mean is None else span(mean) for mean in (trace.mean_up_hours, trace.mean_outage_hours))
        name = words.sanitise(trace.name)  # the end distinguishes the traces of trace collection
        name = name if len(name) <= NAME_COLUMNS else f"...{name[3 - NAME_COLUMNS :]}"
        share = f"{trace.availability * 100:.0f} %"
        lines.append(f"{name:<{NAME_COLUMNS}}{trace.hours:>8,.1f}{share:>7}{up:>8}{outage:>8}{trace.interruptions:>6,}")
    left = len(traces) - MOST_TRACES
    return lines + ([f"and {left} more (--json lists them)"] if left > 0 else [])
