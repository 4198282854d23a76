"""A simulation of services as text: each limit with its shares, predicted and simulated latency, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.estimate_text import draw_bar
from planner.report.fleet_text import LIMIT_HEADS, LIMIT_WORDS, MOST_KINDS
from planner.report.format import line_room
from planner.report.infeasible_text import render_infeasible
from planner.report.service_strip import DAYS
from planner.results.fleet_differences import MILLISECONDS, seconds_text

if TYPE_CHECKING:
    from planner.results.fleet_differences import (
        ServiceReplay,
        ServiceSimulation,
        SimulatedLatency,
        SimulatedLimit,
        SimulatedStream,
    )
    from planner.results.inference import InferenceEstimate
    from planner.results.plan_parts import Spread
    from planner.results.simulation import Simulation


# An estimate of generation as text: the summary, memory as bars, speed, latency, dollars.


def render_inference(estimate: InferenceEstimate) -> str:
    """Return the text without a final newline."""
    lines = [
        _summary(estimate),
        *words.second_lines(estimate.conversion),
        "",
        *words.section("Serve", words.wrap_all(_serve(estimate), line_room(), 2)),
        *words.section("Memory", _memory(estimate)),
        *words.section("Speed", words.wrap_all(_speed(estimate), line_room(), 2)),
        *words.section("Price", words.wrap_all(_price(estimate), line_room(), 2)),
        *words.section("Basis", words.wrap_all(_basis(estimate), line_room(), 2)),
        *words.section("Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3)),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 3)),
    ]
    return "\n".join(lines)


def _summary(estimate: InferenceEstimate) -> str:
    what = f"{words.sanitise(estimate.architecture)} on {words.gpus(estimate.gpus, estimate.gpu)}, {estimate.engine}"
    return f"{what}: {_range(estimate.output_tokens_per_second)} output tokens/s"


def _serve(estimate: InferenceEstimate) -> list[str]:
    shared = f", {estimate.prefix_tokens:,} of them shared" if estimate.prefix_tokens else ""
    formats = f"weights {estimate.weight_format}, cache {estimate.kv_bits} bits"
    lengths = f"{estimate.input_tokens:,} tokens in{shared}, {estimate.output_tokens:,} out"
    split = {"tensor": estimate.tensor_parallel, "pipeline": estimate.pipeline_parallel}
    divided = [f"{name} parallel {degree}" for name, degree in split.items() if degree > 1]
    return [", ".join([formats, lengths, *divided])]


def _memory(estimate: InferenceEstimate) -> list[str]:
    memory, fits = estimate.memory_gib, estimate.requests_that_fit
    lines = [f"{words.gib(memory.usable)} GiB per GPU for {estimate.engine}"]
    parts = sorted(memory.parts.items(), key=lambda part: -part[1])
    lines += [draw_bar(name, size, memory.usable, words.gib, "#") for name, size in parts if size > 0]
    counts = f"{fits.typical:,} requests fit at their mean length, {fits.whole:,} at their full length"
    longest = f"{fits.longest:,} at the model's longest context"
    room = f"{memory.kv_tokens:,} tokens of {memory.kv_bytes_per_token / 1024:,.4g} KiB in the cache"
    return [*lines, *words.wrap_all([f"{counts}, {longest}", room], line_room(), 2)]


def _speed(estimate: InferenceEstimate) -> list[str]:
    requests = f"{words.significant(estimate.requests_per_second)} requests/s"
    lines = [f"{estimate.in_flight:,} requests in flight (limit: {estimate.binds}), {requests}"]
    lines.append(f"time to first token {_range(estimate.ttft_seconds)} s")
    if estimate.output_tokens > 1:
        scaled = estimate.tpot_seconds
        factors = {name: getattr(scaled, name) * MILLISECONDS for name in ("expected", "low", "high")}
        lines[-1] += f", per token after it {_range(type(scaled)(**factors))} ms"
    lines.append(f"one request alone: {words.significant(estimate.single_output_tokens_per_second)} tokens/s")
    if estimate.makespan_seconds is not None:
        lines.append(f"{estimate.requests:,} requests take {words.significant(estimate.makespan_seconds)} s")
    return lines


def _range(spread: Spread) -> str:
    figures = (words.significant(value) for value in (spread.expected, spread.low, spread.high))
    return "{} ({} to {})".format(*figures)


def _price(estimate: InferenceEstimate) -> list[str]:
    prices = estimate.prices
    if prices is None:
        return ["no price: the shipped market does not rent this GPU; give --usd-per-gpu-hour"]
    tokens = f"${words.significant(prices.usd_per_million_output_tokens)} per million output tokens"
    if prices.usd_per_million_input_tokens is not None:
        tokens = f"${words.significant(prices.usd_per_million_input_tokens)} per million input tokens, {tokens}"
    each = f"${words.significant(prices.usd_per_thousand_requests)} per 1,000 requests"
    return [tokens, f"{each}, at ${words.significant(prices.usd_per_gpu_hour)} per GPU-hour ({prices.basis})"]


def _basis(estimate: InferenceEstimate) -> list[str]:
    return [f"{estimate.evidence}; standard deviation of ln(speed) {estimate.sigma:.2f}, ranges hold 80 %"]


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
    for one in service.streams[0].limits:
        if one.limit_seconds is not None and one.cycle.simulated_share is not None:
            asked = words.percent(one.asked_share).replace(".0 %", " %")
            share = words.percent(one.cycle.simulated_share)
            parts.append(f"{share} within {seconds_text(one.limit_seconds)}{LIMIT_HEADS[one.name]} (asked: {asked})")
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
    lines += [_limit_row(one, one.cycle, f"{LIMIT_WORDS[one.name]}, all hours") for one in stream.limits]
    when = busiest_hour(service)
    lines += [_limit_row(one, one.busiest, f"{LIMIT_WORDS[one.name]}, {when}") for one in stream.limits]
    if len(stream.kinds) > 1:
        for kind in stream.kinds[:MOST_KINDS]:
            lines.append(words.shorten(f"  {words.sanitise(f'{kind.gpu} at {kind.provider}')}", words.width()))
            for one in stream.limits:
                text = f"    {LIMIT_WORDS[one.name]}, {when}"
                lines.append(_limit_row(one, kind.ttft if one.name == "ttft" else kind.tpot, text))
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
