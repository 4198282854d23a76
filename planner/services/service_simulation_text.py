"""A simulation of services as text: each limit with its shares, predicted and simulated latency, what is refused."""

from __future__ import annotations

from planner.report import words
from planner.report.infeasible_text import render_infeasible
from planner.report.words import line_room
from planner.results.service_results import (
    ServiceReplay,
    ServiceSimulation,
    SimulatedLatency,
    SimulatedLimit,
    SimulatedStream,
    seconds_text,
)
from planner.results.simulation import Simulation
from planner.services.fleet_text import DAYS, LIMIT_HEADS, LIMIT_WORDS, MOST_KINDS

_DAY = 24
LATENCY_HEADER = ("", "limit", "asked", "plan", "simulated", "plan", "simulated")
LATENCY_ROOM = (27, 8, 7, 9, 10, 9, 10)
"""Columns of the table: what, limit, and the share within it and the quantile, each as predicted and simulated."""


def render_service_simulation(found: ServiceSimulation) -> str:
    """Return the text of a simulation of services without a final newline."""
    if not found.services:
        return "\n".join(render_infeasible(found.plan))
    lines = service_replays(found)
    return "\n".join([*lines, *words.section("Notes", words.wrap_all(found.notes, line_room(), 3))])


def service_replays(found: ServiceSimulation | Simulation) -> list[str]:
    """Return the lines of each service, with an empty line between two."""
    lines: list[str] = []
    for service in found.services:
        lines += [*([""] if lines else []), *_service(service, found)]
    return lines


def _service(service: ServiceReplay, found: ServiceSimulation | Simulation) -> list[str]:
    """Return the lines of one service."""
    lines = [*words.wrap_lines(_headline(service), words.width(), 3), ""]
    for stream in service.streams:
        lines += [*_table(service, stream), ""]
    lines += words.section("Refused", words.wrap_lines(refused(service), line_room(), 4))
    runs = f"{found.runs:,} requests in each of {service.distinct_hours:,} distinct hours, Poisson and in bursts"
    cycle = "day" if service.cycle_hours == _DAY else "week"
    text = f"{runs}, {service.requests:,} in all; hours count by their requests of a {cycle}"
    return [*lines, *words.section("Sampled", words.wrap_lines(text, line_room(), 3))]


def _headline(service: ServiceReplay) -> str:
    """Return how much of the requests is within each limit, and what is refused."""
    parts = []
    for limit in service.streams[0].limits:
        if limit.limit_seconds is not None and limit.cycle.simulated_share is not None:
            asked = words.percent(limit.asked_share).replace(".0 %", " %")
            share = words.percent(limit.cycle.simulated_share)
            parts.append(
                f"{share} within {seconds_text(limit.limit_seconds)}{LIMIT_HEADS[limit.name]} (asked: {asked})"
            )
    held = ", ".join(parts) or "no limit on latency"
    refused = f"{_share(service.refused_share)} refused" if service.refused_share else "none refused"
    return f"{words.sanitise(service.name)}: {held}, {refused}"


def _table(service: ServiceReplay, stream: SimulatedStream) -> list[str]:
    """Return the figures of one stream."""
    words_of = {"Poisson": "Poisson arrivals", "bursts": "bursts (gaps twice as varied as a Poisson stream's)"}
    share = words.percent(stream.limits[0].asked_share).replace(".0 %", " %")
    heads = (
        " " * sum(LATENCY_ROOM[:3])
        + "within limit".rjust(sum(LATENCY_ROOM[3:5]))
        + f"{share} below".rjust(sum(LATENCY_ROOM[5:]))
    )
    lines = [words_of[stream.name], heads, _row(LATENCY_HEADER)]
    lines += [_limit_row(limit, limit.cycle, f"{LIMIT_WORDS[limit.name]}, all hours") for limit in stream.limits]
    when = busiest_hour(service)
    lines += [_limit_row(limit, limit.busiest, f"{LIMIT_WORDS[limit.name]}, {when}") for limit in stream.limits]
    if len(stream.kinds) > 1:
        for kind in stream.kinds[:MOST_KINDS]:
            lines.append(words.shorten(f"  {words.sanitise(f'{kind.gpu} at {kind.provider}')}", words.width()))
            for limit in stream.limits:
                text = f"    {LIMIT_WORDS[limit.name]}, {when}"
                lines.append(_limit_row(limit, kind.ttft if limit.name == "ttft" else kind.tpot, text))
    if len(stream.kinds) > MOST_KINDS:
        lines.append(f"  {len(stream.kinds) - MOST_KINDS:,} more kinds: --json")
    return lines


def _limit_row(one: SimulatedLimit, found: SimulatedLatency, text: str) -> str:
    """Return one line of the table."""
    limit = "none" if one.limit_seconds is None else seconds_text(one.limit_seconds)
    shares = [found.predicted_share, found.simulated_share]
    inside = ["" if share is None else words.percent(share) for share in shares]
    asked = "" if one.limit_seconds is None else words.percent(one.asked_share).replace(".0 %", " %")
    return _row(
        (text, limit, asked, *inside, seconds_text(found.predicted_seconds), seconds_text(found.simulated_seconds))
    )


def _row(cells: tuple[str, ...]) -> str:
    """Return a line of the table: the first cell to the left, figures to the right."""
    first = words.shorten(cells[0], LATENCY_ROOM[0]).ljust(LATENCY_ROOM[0])
    return (first + "".join(cell.rjust(room) for cell, room in zip(cells[1:], LATENCY_ROOM[1:], strict=True))).rstrip()


def busiest_hour(service: ServiceReplay) -> str:
    """Return the busiest hour: Mon 18:00, or 18:00 of a day."""
    day, hour = divmod(service.busiest_hour, _DAY)
    return f"{hour}:00" if service.cycle_hours == _DAY else f"{DAYS[day]} {hour}:00"


def refused(service: ServiceReplay) -> str:
    """Return what is refused, next to what the plan says."""
    if not service.refused_share and not service.predicted_refused_share:
        return "none"
    planned = _share(service.predicted_refused_share)
    cut = f"; {_share(service.cut_share)} are cut off by a loss and have to be sent again" if service.cut_share else ""
    return (
        f"{_share(service.refused_share)} of the requests while spot groups are lost or start again "
        f"(plan: {planned}){cut}"
    )


def _share(share: float) -> str:
    """Return a share of the requests; what is there is never shown as none."""
    return "below 0.1 %" if 0.0 < share < 0.001 else words.percent(share)
