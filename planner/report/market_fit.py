"""A fitted spot market as text: how often machines are there, the block to paste, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from planner.results.market_fit import EndsByAge, FittedDuration, MarketFit, TraceReport
    from planner.results.plan import Spread

ROOM = words.WIDTH - words.LABEL
NAMES = 32
"""Columns of a trace's name."""
MOST_TRACES = 20
"""Traces that are listed."""


def render_market(fit: MarketFit) -> str:
    """The verdict first, then the block, then what it rests on."""
    lines = [_summary(fit), "", fit.spot_yaml.rstrip(), ""]
    lines += words.section("There", words.wrap_lines(_available(fit), ROOM, 3))
    lines += words.section("Up", _durations(fit.up, fit.spot.up))
    lines += words.section("Outage", _durations(fit.outage, fit.spot.outage))
    lines += words.section("Ages", words.wrap_lines(_ages(fit), ROOM, 3))
    lines += words.section("Traces", _traces(fit.traces))
    notes = [part for note in fit.notes for part in words.wrap_lines(note, ROOM, 5)]
    return "\n".join([*lines, *words.section("Notes", notes)])


def span(hours: float) -> str:
    """Hours from one hour on, minutes below."""
    return words.hours(hours) if hours >= 0.995 else f"{max(1, round(hours * 60))} min"


def _summary(fit: MarketFit) -> str:
    several = fit.instances > 1
    machines = f"{fit.instances} machines are" if several else "1 machine is"
    share = f"{fit.availability.expected * 100:.0f} %"
    name = fit.traces[0].name if len(fit.traces) == 1 else f"{len(fit.traces)} traces"
    brief = f"{machines} there {share} of the time"
    whole = f"{brief}, {span(fit.up.mean_hours.expected)} at a stretch"
    return words.first_fitting(name, whole, brief)


def _available(fit: MarketFit) -> str:
    low, high = (f"{share * 100:.0f}" for share in (fit.availability.low, fit.availability.high))
    count = "1 interruption" if fit.interruptions == 1 else f"{fit.interruptions:,} interruptions"
    factor = f"{fit.up.known_to_factor:.1f}"
    sure = f"{count} in {words.hours(fit.hours)}: the mean up-time is known to a factor of {factor}"
    return f"{low} to {high} % of the time ({fit.share_of_hours * 100:.0f} % of the hours seen); {sure}"


def _durations(told: FittedDuration, block: EndsByAge) -> list[str]:
    mean = f"{span(told.mean_hours.expected)} on average ({_between(told.mean_hours)}), {told.ends:,} seen to the end"
    mean += f", CV {told.cv:.1f}" if told.cv is not None else ""
    return words.wrap_lines(mean, ROOM, 1) + words.wrap_lines(_rates(block), ROOM, 3)


def _between(interval: Spread) -> str:
    """Such as `12 to 21 min`, `17 min to 1.5 h`."""
    low, high = span(interval.low), span(interval.high)
    return f"{low.removesuffix(high[high.index(' ') :])} to {high}"


def _rates(block: EndsByAge) -> str:
    """Such as `ends 4.08 times an hour until 13 min old, then 0.86`."""
    rates = [words.significant(rate) for rate in block.ends_per_hour]
    untils = [f" until {span(age)} old" for age in block.ages_hours[1:]] + [""]
    first = f"ends {rates[0]} times an hour{untils[0]}"
    rest = (f"{rate}{until}" for rate, until in zip(rates[1:], untils[1:], strict=True))
    return ", then ".join([first, *rest]) + (" at any age" if len(rates) == 1 else "")


def _ages(fit: MarketFit) -> str:
    told = fit.held_out
    if told is None:
        return "too few ends to judge whether rates by age say more than one constant rate"
    judged = f"judged on the half of the time that was not fitted on ({told.ends:,} ends)"
    if told.likelier_by > 1.02:
        how = f"{told.likelier_by:.2f} times as well as"
    else:
        how = "no better than" if told.likelier_by >= 0.98 else f"worse (x {told.likelier_by:.2f}) than"
    return f"rates by age foretell an end {how} one constant rate, {judged}"


def _traces(traces: tuple[TraceReport, ...]) -> list[str]:
    lines = [f"{'':<{NAMES}}{'hours':>8}{'there':>7}{'up':>8}{'outage':>8}{'lost':>6}"]
    for one in traces[:MOST_TRACES]:
        up, outage = ("-" if mean is None else span(mean) for mean in (one.mean_up_hours, one.mean_outage_hours))
        name = words.sanitise(one.name)  # its end is what tells places of one collection apart
        name = name if len(name) <= NAMES else f"...{name[3 - NAMES :]}"
        share = f"{one.availability * 100:.0f} %"
        lines.append(f"{name:<{NAMES}}{one.hours:>8,.1f}{share:>7}{up:>8}{outage:>8}{one.interruptions:>6,}")
    left = len(traces) - MOST_TRACES
    return lines + ([f"and {left} more (--json lists them)"] if left > 0 else [])
