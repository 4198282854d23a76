"""Figures of the analyses around a service: memory of its GPUs, simulated latency, and what other fleets cost."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from planner.drawing.bars import Ranged, Stack, ranged, stacked
from planner.drawing.scene import Caption
from planner.report import format as words
from planner.report.figures.analysis_figures import MOST_BARS
from planner.report.figures.figure import Figure, Table
from planner.report.inference.plan import engine_name
from planner.report.inference.simulation import busiest_hour, refused
from planner.report.serving.explanation import month_usd, times_text
from planner.results.serving.differences import seconds_text
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.explanation import Alternative, Explanation
    from planner.results.serving.rests import KindBasis
    from planner.results.serving.simulation import ServiceReplay, ServiceSimulation, SimulatedLatency, SimulatedLimit
    from planner.results.simulation import Simulation

REPLICA_PARTS = {"kv_cache": "KV cache", "overhead": "engine and CUDA"}
LEFT_FREE = "left free by the engine"
STREAM_WORDS = {"Poisson": "one by one", "bursts": "in bursts"}
FLEET_TITLES = {"gpu": "GPU", "provider": "Provider", "market": "Market"}


def replica_memory_figure(bases: Sequence[KindBasis]) -> Figure | None:
    """Return the memory of one GPU of each kind by part, a bar for each GPU, engine and format; None without kinds."""
    if not bases:
        return None
    stacks: dict[str, Stack] = {}
    rows: list[tuple[str, ...]] = []
    for one in bases:
        memory, name = one.memory_gib, _served_gpu(one)
        if name in stacks:
            continue
        used = sum(memory.parts.values())
        parts = {REPLICA_PARTS.get(part, part): size for part, size in memory.parts.items()}
        text = f"{words.gib(used)} of {words.gib(one.whole_gib)} GiB"
        stacks[name] = Stack(name, tuple(parts.items()), text, one.whole_gib)
        # Each is rounded as it is shown, so that the rows add up.
        shown = {part: round(size, 1) for part, size in parts.items()}
        shown[LEFT_FREE] = max(0.0, round(one.whole_gib, 1) - sum(shown.values()))
        rows += [(name, part, f"{words.gib(size)} GiB") for part, size in shown.items()]
        rows.append((name, "memory of the GPU", f"{words.gib(one.whole_gib)} GiB"))
        rows.append((name, "tokens in the cache", f"{memory.kv_tokens:,}"))
        rows.append((name, "requests in flight at most", f"{one.most_in_flight:,}"))
    least = min(bases, key=lambda one: one.most_in_flight)
    lead = (
        f"The engine fills its share of the GPU with the KV cache; a replica on {least.gpu} has room for "
        f"{least.most_in_flight:,} requests at one time"
        f"{', the least of all kinds' if len(stacks) > 1 else ''}"
    )
    draw = functools.partial(
        stacked, list(stacks.values())[:MOST_BARS], Caption("Memory of one GPU of a replica", lead), words.gib_text,
        "memory of the GPU", has_sums=len(stacks) == 1,
    )  # fmt: skip
    return Figure(
        "replica-memory", "Memory of a replica", f"{lead}.", draw, Table(("GPU", "part", "size"), tuple(rows))
    )


def _served_gpu(one: KindBasis) -> str:
    form = one.weight_format.removesuffix("-weights")
    return words.sanitise(f"{one.gpu}, {engine_name(one.engine)}, {form}")


def latency_figures(found: ServiceSimulation | Simulation) -> list[Figure]:
    """Return each latency of each service as simulated, next to what the plan predicts and to its limit."""
    figures: list[Figure] = []
    for number, service in enumerate(found.services):
        several = f" of {words.sanitise(service.name)}" if len(found.services) > 1 else ""
        limits = service.streams[0].limits if service.streams else ()
        figures += [_latency_figure(one, service, found, f"{one.name}-{number}", several) for one in limits]
    return figures


def _latency_figure(
    limit: SimulatedLimit, service: ServiceReplay, found: ServiceSimulation | Simulation, key: str, several: str
) -> Figure:
    """Return the time that the asked share of the requests stays below: planned, simulated, over all and busiest."""
    asked, seconds = words.share_text(limit.asked_share), limit.limit_seconds
    within = "" if seconds is None else f"within {seconds_text(seconds)}"
    when = {"all hours": "cycle", busiest_hour(service): "busiest"}
    bars: list[Ranged] = []
    rows: list[tuple[str, ...]] = []
    for hours, field in when.items():
        plan: SimulatedLatency = getattr(limit, field)
        bars.append(_bar(f"plan, {hours}", plan.predicted_seconds, plan.predicted_share, limit, True))
        for stream in service.streams:
            same = next(one for one in stream.limits if one.name == limit.name)
            met: SimulatedLatency = getattr(same, field)
            name = STREAM_WORDS[stream.name]
            bars.append(_bar(f"{name}, {hours}", met.simulated_seconds, met.simulated_share, limit, False))
            rows.append(_row(f"{name}, {hours}", met))
    for stream in service.streams:
        for kind in stream.kinds:
            met = kind.ttft if limit.name == "ttft" else kind.tpot
            name = f"{STREAM_WORDS[stream.name]}, {kind.gpu} at {kind.provider} in the busiest hour"
            rows.append(_row(words.sanitise(name), met))
    simulated = next(one for one in service.streams[0].limits if one.name == limit.name).cycle
    share = "" if simulated.simulated_share is None else f"{words.percent(simulated.simulated_share)} {within}; "
    lead = (
        f"{share}{asked} within {seconds_text(simulated.simulated_seconds)} as simulated, "
        f"{seconds_text(simulated.predicted_seconds)} as planned, over all hours"
    )
    title = f"{'Time to the first token' if limit.name == 'ttft' else 'Time per token'}{several}"
    sampled = (
        f"{found.runs:,} requests in each of {service.distinct_hours:,} distinct hours, {service.requests:,} in all"
    )
    notes = (
        f"Bars: the time that {asked} of the requests stay below, and in brackets the share within the limit; "
        f"{busiest_hour(service)} is the busiest hour. "
        f"Simulated: {sampled}; gaps between requests in bursts are twice as varied as between those one by one.",
        f"Refused: {refused(service)}.",
        *(f"{note[0].upper()}{note[1:]}." for note in map(words.sanitise, found.notes)),
    )
    head = ("what", "planned within the limit", "simulated", f"planned, {asked} below", "simulated")
    mark = f"limit, {seconds_text(seconds)}" if seconds is not None else ""
    draw = functools.partial(ranged, bars, Caption(title, lead), limit=mark)
    return Figure(key, title, f"{lead}.", draw, Table(head, tuple(rows)), notes if limit.name == "tpot" else notes[:1])


def _bar(label: str, seconds: float, share: float | None, limit: SimulatedLimit, is_plan: bool) -> Ranged:
    text = seconds_text(seconds)
    if share is not None and limit.limit_seconds is not None:
        text += f" ({words.percent(share)})"
    return Ranged(label, seconds, text, is_chosen=is_plan, limit=limit.limit_seconds)


def _row(name: str, met: SimulatedLatency) -> tuple[str, ...]:
    shares = ["" if one is None else words.percent(one) for one in (met.predicted_share, met.simulated_share)]
    return (name, *shares, seconds_text(met.predicted_seconds), seconds_text(met.simulated_seconds))


def fleet_alternatives(explanation: Explanation | None) -> list[Figure]:
    """Return what fleets of one GPU, one provider or one market alone cost a month, next to the plan."""
    if explanation is None or explanation.service is None:
        return []
    figures = []
    for by, title in FLEET_TITLES.items():
        found = [one for one in explanation.alternatives if one.by == by]
        if found:
            figures.append(_alternatives(by, title, found, explanation))
    return figures


def _alternatives(by: str, title: str, found: Sequence[Alternative], explanation: Explanation) -> Figure:
    service, hours = explanation.service, explanation.hours or MONTH_HOURS
    assert service is not None
    usd = service.usd_per_month
    bars = [Ranged("this fleet", usd, words.usd(usd), is_chosen=True)]
    rows: list[tuple[str, ...]] = [("this fleet", words.sanitise(explanation.plan), words.usd(usd), "chosen")]
    for one in found:
        name = words.sanitise(one.name.replace("_", " "))
        if one.cost_usd is None:
            rows.append((f"{name} alone", "", "", words.sanitise(one.verdict)))
            continue
        month = words.usd(month_usd(one.cost_usd, hours))
        times = times_text(1.0 + (one.difference or 0.0))
        bars.append(Ranged(f"{name} alone", month_usd(one.cost_usd, hours), f"{month}, {times}"))
        rows.append((f"{name} alone", words.sanitise(one.plan), month, times))
    lead = f"Least dollars of a month with one {title if by == 'gpu' else title.lower()} alone"
    draw = functools.partial(ranged, bars[:MOST_BARS], Caption(title, lead))
    return Figure(
        f"fleet-{by}", title, f"{lead}.", draw, Table(("choice", "fleet", "a month", "against it"), tuple(rows))
    )
