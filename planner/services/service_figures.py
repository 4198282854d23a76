"""Figures of a service: load, replicas, dollars against the time per token, bill, other fleets, memory, latency."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from planner import generation
from planner.drawing.charts import Labels, Ranged, Stack, Trace, panel, ranged, stacked
from planner.drawing.scene import SERIES, Axis, Caption, Scene, fit_axis, headed, joined, money, roles_of, room_of_ticks
from planner.report import words
from planner.report.any_result import bars_scene
from planner.report.plan_figures import MONTH_LABEL, MOST_BARS, PICTURE, Figure, Table
from planner.results.explanation import Alternative, Explanation
from planner.results.fleet import Fleet, Service
from planner.results.plan import Plan
from planner.results.service_results import (
    KindBasis,
    ServiceFrontier,
    ServiceReplay,
    ServiceSimulation,
    SimulatedLatency,
    SimulatedLimit,
    describe_kind,
    month_items,
    seconds_text,
    span,
)
from planner.results.simulation import Simulation
from planner.services.fleet_text import DAYS, fleet_headline, pays_from, proven_in_short
from planner.services.service_texts import busiest_hour, month_usd, refused, service_frontier_summary, times_text
from planner.units import MILLISECONDS, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

AXIS_ROOM, PANEL_HEIGHT = 52.0, 120.0
"""Pixels: room of the axis, height of a panel."""
REPLICA_PARTS = {"kv_cache": "KV cache", "overhead": "engine and CUDA"}
LEFT_FREE = "left free by the engine"
STREAM_WORDS = {"Poisson": "one by one", "bursts": "in bursts"}
FLEET_TITLES = {"gpu": "GPU", "provider": "Provider", "market": "Market"}
_DAY = 24


def load_figure(service: Service) -> Figure:
    """Return load and capacity above, replicas by kind below, and the table of every hour."""
    fleet = service.fleet
    least, most = min(fleet.replicas_by_hour), max(fleet.replicas_by_hour)
    lead = (
        f"{span(least, most)} replicas for {span(min(fleet.load), max(fleet.load))} {fleet.unit}; "
        f"mean use {words.percent(fleet.use)}, {words.percent(fleet.spot_share)} of the capacity on spot"
    )
    rows = [
        (
            _hour(hour, len(fleet.load)),
            words.significant(fleet.load[hour]),
            words.significant(_capacity(fleet, hour)),
            words.percent(fleet.use_by_hour[hour]),
            f"{fleet.replicas_by_hour[hour]:,}",
            f"{sum(kind.by_hour[hour] * kind.replicas for kind in fleet.kinds if kind.market == 'spot'):,}",
        )
        for hour in range(len(fleet.load))
    ]
    caption = Caption("Load and replicas", lead)
    head = ("hour", fleet.unit, "capacity", "use", "replicas", "on spot")
    return Figure(
        "load", "Load and replicas", f"{lead}.", functools.partial(_week, fleet, caption), Table(head, tuple(rows))
    )


def load_scenes(plan: Plan) -> list[Scene]:
    """Return load and machines of each service by the hour, named where anything else is planned."""
    charts = [(service, load_figure(service).draw) for service in plan.services]
    is_alone = len(plan.planned) == 1
    return [
        chart(PICTURE) if is_alone else headed(chart(PICTURE), fleet_headline(service))
        for service, chart in charts
        if chart is not None
    ]


def _hour(hour: int, hours: int) -> str:
    return f"{hour % _DAY}:00" if hours == _DAY else f"{DAYS[hour // _DAY]} {hour % _DAY}:00"


def _capacity(fleet: Fleet, hour: int, is_firm: bool = False) -> float:
    """Return the capacity of an hour; `is_firm`: without spot."""
    return sum(kind.capacity * kind.by_hour[hour] for kind in fleet.kinds if not is_firm or kind.market != "spot")


def _week(fleet: Fleet, caption: Caption, width: float) -> Scene:
    """Return load and capacity above, and replicas of each kind on top of one another below; spot is striped."""
    hours = len(fleet.load)
    able = [_capacity(fleet, hour) for hour in range(hours)]
    firm = [_capacity(fleet, hour, is_firm=True) for hour in range(hours)]
    across = Axis(0.0, float(hours), AXIS_ROOM, width - 12.0)
    up = Axis(0.0, max(able) * 1.1, 22.0 + PANEL_HEIGHT, 22.0)
    count = Axis(0.0, 1.05 * max(fleet.replicas_by_hour), 22.0 + PANEL_HEIGHT, 22.0)
    notes = [f"{words.significant(load)} {fleet.unit}" for load in fleet.load]
    traces = [
        _by_hour(fleet.load, "c5", "load", notes, is_area=True),
        _by_hour(able, "ink", "capacity within the limits"),
    ]
    if any(least < every for least, every in zip(firm, able, strict=True)) and max(firm) > 0:
        traces.append(replace(_by_hour(firm, "accent", "capacity that is not on spot"), dashed=True))
    labels = Labels(
        fleet.unit,
        across=functools.partial(_hour_label, hours),
        at=tuple(range(0, hours + 1, 6)) if hours == _DAY else tuple(range(_DAY // 2, hours, _DAY)),
        grid=tuple(range(0, hours + 1, 6 if hours == _DAY else _DAY)),
    )
    replicas = replace(labels, title="replicas by kind", whole=True)
    bare = Caption(caption.title, caption.description)
    panels = [[panel(traces, across, up, labels, bare, width)]]
    panels.append([panel(_kinds(fleet), across, count, replicas, bare, width)])
    return joined(panels, caption.title, caption.description)


def _kinds(fleet: Fleet) -> list[Trace]:
    """Return the replicas of each kind above those of the kinds before; kinds for which no colour is left are one."""
    hours = range(len(fleet.load))
    ordered = sorted(fleet.by_dollars[: len(SERIES)], key=lambda kind: kind.market == "spot")
    rest = fleet.by_dollars[len(SERIES) :]
    roles = roles_of([kind.gpu for kind in ordered])
    groups = [(words.sanitise(describe_kind(kind)), role, [kind]) for kind, role in zip(ordered, roles, strict=True)]
    groups += [(f"{len(rest)} more kinds", "muted", list(rest))] if rest else []
    base = [0.0 for _ in hours]
    traces = []
    for name, role, kinds in groups:
        counts = [sum(kind.by_hour[hour] * kind.replicas for kind in kinds) for hour in hours]
        base = [low + more for low, more in zip(base, counts, strict=True)]
        is_striped = all(kind.market == "spot" for kind in kinds)
        notes = [f"{more} of {name}" for more in counts]
        traces.append(replace(_by_hour(base, role, name, notes, is_area=True), is_striped=is_striped))
    return traces


def _by_hour(values: Sequence[float], role: str, name: str, notes: Sequence[str] = (), is_area: bool = False) -> Trace:
    """Return a step for each stretch of hours with the same value and note."""
    hours = len(values)
    seen = list(zip(values, notes or values, strict=True))
    starts = [hour for hour in range(hours) if hour == 0 or seen[hour] != seen[hour - 1]]
    points = [(float(hour), values[hour]) for hour in starts] + [(float(hours), values[-1])]
    words_of = tuple(f"{_hour(hour, hours)}: {notes[hour]}" for hour in starts) if notes else ()
    return Trace(tuple(points), role, name, 0.0 if is_area else 1.5, steps="after", is_area=is_area, words=words_of)


def _hour_label(hours: int, hour: float) -> str:
    """Return the name of the day, or the hour of one day."""
    return f"{hour:.0f}:00" if hours == _DAY else DAYS[int(hour) // _DAY]


def service_frontier_figure(frontier: ServiceFrontier) -> Figure:
    """Return dollars of a month over the limit on the time per token."""
    rows = [
        (
            f"{seconds_text(point.tpot_seconds)}{' (asked)' if point.asked else ''}", words.usd(point.usd_per_month),
            proven_in_short(point.gap), span(point.least_replicas, point.most_replicas),
            "; ".join(map(words.sanitise, point.machines)),
        )
        for point in frontier.points
    ]  # fmt: skip
    lead = service_frontier_summary(frontier)
    caption = Caption("Dollars against the time per token", lead, "limit on the time per token, ms")
    head = ("per token", "a month", "proven within", "replicas", "fleet")
    draw = functools.partial(_steps, frontier, caption)
    return Figure("latency", "Dollars against the time per token", f"{lead}.", draw, Table(head, tuple(rows)))


def _steps(frontier: ServiceFrontier, caption: Caption, width: float) -> Scene:
    """Return a line that falls from point to point, below it what no fleet undercuts, and the limit of the scenario."""
    points = frontier.points
    limits = tuple(point.tpot_seconds * MILLISECONDS for point in points)
    usd, bounds = [point.usd_per_month for point in points], [point.bound_usd_per_month for point in points]
    up = fit_axis(min([bound for bound in bounds if bound > 0] or usd), max(usd), 250.0, 22.0)
    across = fit_axis(min(limits), max(limits), room_of_ticks(up, money), width - 12.0)
    notes = tuple(f"{seconds_text(point.tpot_seconds)}: {words.usd(point.usd_per_month)} a month" for point in points)
    places = tuple(zip(limits, usd, strict=True))
    proven = tuple((limit, bound) for limit, bound in zip(limits, bounds, strict=True) if bound > 0)
    asked = tuple(place for place, point in zip(places, points, strict=True) if point.asked)
    traces = [
        Trace(places, "c0", "cheapest fleet that was found", steps="after", mark="dot", words=notes),
        Trace(proven, "accent", "no fleet costs less", width=0.0, mark="dash"),
        Trace(asked, "accent", "limit of the scenario" if asked else "", width=0.0, mark="ring"),
    ]
    labels = Labels(MONTH_LABEL, up=money, across=lambda limit: f"{limit:.3g}", at=limits)
    return panel(traces, across, up, labels, caption, width)


def month_bill_figure(plan: Plan) -> Figure:
    """Return the dollars of a month by kind of machine and their starts, a bar for each service."""
    stacks, rows = [], []
    for service in plan.services:
        fleet = service.fleet
        parts = [(words.sanitise(name), usd) for name, usd in month_items(fleet)]
        stacks.append(
            Stack(
                words.sanitise(service.name), tuple(part for part in parts if round(part[1], 2) > 0),
                words.usd(fleet.usd_per_month),
            )
        )  # fmt: skip
        rows += [(words.sanitise(service.name), name, words.usd(usd)) for name, usd in parts]
        rows.append((words.sanitise(service.name), "all", words.usd(fleet.usd_per_month)))
    lead = f"{words.usd(sum(service.fleet.usd_per_month for service in plan.services))} a month"
    draw = functools.partial(stacked, stacks, Caption("Bill of a month", lead), words.usd, "")
    table = Table(("service", "item", "a month"), tuple(rows))
    return Figure("bill", "Bill of a month", f"{lead}.", draw, table)


def simpler_figure(service: Service) -> Figure:
    """Return what simpler fleets and services that answer by the token cost a month, as a table."""
    fleet = service.fleet
    rows = [("this fleet", words.usd(fleet.usd_per_month), "")]
    if not fleet.baselines:
        rows.append(("simpler fleets", "", "not computed within the time limit"))
    for baseline in fleet.other_fleets:
        usd = "impossible within the limits" if baseline.usd_per_month is None else words.usd(baseline.usd_per_month)
        how = f"on {words.sanitise(baseline.machines)}" if baseline.machines else ""
        rows.append((words.sanitise(baseline.name), usd, how))
    for api in fleet.api:
        how = "; ".join([generation.HOSTS[api.hosts_tuned], *pays_from(api, fleet)])
        rows.append((words.sanitise(api.offer), words.usd(api.usd), how))
    lead = "What the same load costs with one kind of machine, always on, or at a service that answers by the token."
    table, title = Table(("instead", "a month", "how"), tuple(rows)), "Simpler fleets and services"
    bars = [Ranged("this fleet", fleet.usd_per_month, words.usd(fleet.usd_per_month), is_chosen=True)]
    others = [(baseline.name, baseline.usd_per_month) for baseline in fleet.other_fleets] + [
        (price.offer, price.usd) for price in fleet.api
    ]
    bars += [
        Ranged(words.sanitise(name), usd_per_month, words.usd(usd_per_month))
        for name, usd_per_month in others
        if usd_per_month is not None
    ]
    draw = functools.partial(ranged, bars[:MOST_BARS], Caption(title, lead)) if len(bars) > 1 else None
    return Figure("simpler", title, lead, draw, table)


def replica_memory_figure(bases: Sequence[KindBasis]) -> Figure | None:
    """Return the memory of one GPU of each kind by part, a bar for each GPU, engine and format; None without kinds."""
    if not bases:
        return None
    stacks: dict[str, Stack] = {}
    rows: list[tuple[str, ...]] = []
    for basis in bases:
        memory, name = basis.memory_gib, _served_gpu(basis)
        if name in stacks:
            continue
        used = sum(memory.parts.values())
        parts = {REPLICA_PARTS.get(part, part): size for part, size in memory.parts.items()}
        text = f"{words.gib(used)} of {words.gib(basis.whole_gib)} GiB"
        stacks[name] = Stack(name, tuple(parts.items()), text, basis.whole_gib)
        # Each is rounded as it is shown, so that the rows add up.
        shown = {part: round(size, 1) for part, size in parts.items()}
        shown[LEFT_FREE] = max(0.0, round(basis.whole_gib, 1) - sum(shown.values()))
        rows += [(name, part, f"{words.gib(size)} GiB") for part, size in shown.items()]
        rows.append((name, "memory of the GPU", f"{words.gib(basis.whole_gib)} GiB"))
        rows.append((name, "tokens in the cache", f"{memory.kv_tokens:,}"))
        rows.append((name, "requests in flight at most", f"{basis.most_in_flight:,}"))
    least = min(bases, key=lambda kind_basis: kind_basis.most_in_flight)
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


def _served_gpu(basis: KindBasis) -> str:
    form = basis.weight_format.removesuffix("-weights")
    return words.sanitise(f"{basis.gpu}, {generation.engine_name(basis.engine)}, {form}")


def latency_figures(simulation: ServiceSimulation | Simulation) -> list[Figure]:
    """Return each latency of each service as simulated, next to what the plan predicts and to its limit."""
    figures: list[Figure] = []
    for number, service in enumerate(simulation.services):
        several = f" of {words.sanitise(service.name)}" if len(simulation.services) > 1 else ""
        limits = service.streams[0].limits if service.streams else ()
        figures += [_latency_figure(limit, service, simulation, f"{limit.name}-{number}", several) for limit in limits]
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
            same = next(found for found in stream.limits if found.name == limit.name)
            met: SimulatedLatency = getattr(same, field)
            name = STREAM_WORDS[stream.name]
            bars.append(_bar(f"{name}, {hours}", met.simulated_seconds, met.simulated_share, limit, False))
            rows.append(_row(f"{name}, {hours}", met))
    for stream in service.streams:
        for kind in stream.kinds:
            met = kind.ttft if limit.name == "ttft" else kind.tpot
            name = f"{STREAM_WORDS[stream.name]}, {kind.gpu} at {kind.provider} in the busiest hour"
            rows.append(_row(words.sanitise(name), met))
    simulated = next(found for found in service.streams[0].limits if found.name == limit.name).cycle
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
    shares = ["" if share is None else words.percent(share) for share in (met.predicted_share, met.simulated_share)]
    return (name, *shares, seconds_text(met.predicted_seconds), seconds_text(met.simulated_seconds))


def fleet_alternatives(explanation: Explanation | None) -> list[Figure]:
    """Return what fleets of one GPU, one provider or one market alone cost a month, next to the plan."""
    if explanation is None or explanation.service is None:
        return []
    figures = []
    for by, title in FLEET_TITLES.items():
        alternatives = [alternative for alternative in explanation.alternatives if alternative.by == by]
        if alternatives:
            figures.append(_alternatives(by, title, alternatives, explanation))
    return figures


def _alternatives(by: str, title: str, alternatives: Sequence[Alternative], explanation: Explanation) -> Figure:
    service, hours = explanation.service, explanation.hours or MONTH_HOURS
    assert service is not None
    usd = service.usd_per_month
    bars = [Ranged("this fleet", usd, words.usd(usd), is_chosen=True)]
    rows: list[tuple[str, ...]] = [("this fleet", words.sanitise(explanation.plan), words.usd(usd), "chosen")]
    for alternative in alternatives:
        name = words.sanitise(alternative.name.replace("_", " "))
        if alternative.cost_usd is None:
            rows.append((f"{name} alone", "", "", words.sanitise(alternative.verdict)))
            continue
        month = words.usd(month_usd(alternative.cost_usd, hours))
        times = times_text(1.0 + (alternative.difference or 0.0))
        bars.append(Ranged(f"{name} alone", month_usd(alternative.cost_usd, hours), f"{month}, {times}"))
        rows.append((f"{name} alone", words.sanitise(alternative.plan), month, times))
    lead = f"Least dollars of a month with one {title if by == 'gpu' else title.lower()} alone"
    draw = functools.partial(ranged, bars[:MOST_BARS], Caption(title, lead))
    return Figure(
        f"fleet-{by}", title, f"{lead}.", draw, Table(("choice", "fleet", "a month", "against it"), tuple(rows))
    )


def service_simulation_scene(simulation: ServiceSimulation) -> Scene | None:
    """Return the share of the requests within each limit, simulated over the cycle, with the share that is asked."""
    rows = []
    limits = [
        (service, stream, limit)
        for service in simulation.services
        for stream in service.streams
        for limit in stream.limits
    ]
    for service, stream, limit in limits:
        share, planned = limit.cycle.simulated_share, limit.cycle.predicted_share
        if share is None or limit.limit_seconds is None:
            continue
        shares = [f"{100.0 * share:.1f} %", f"asked {words.significant(100.0 * limit.asked_share)} %"]
        shares += [] if planned is None else [f"planned {100.0 * planned:.1f} %"]
        latency = {"ttft": "first token", "tpot": "per token"}[limit.name]
        name = f"{latency} within {words.significant(1000.0 * limit.limit_seconds)} ms"
        label = f"{name}, {stream.name}" if len(simulation.services) == 1 else f"{service.name}: {name}, {stream.name}"
        rows.append(Ranged(label, 100.0 * share, ", ".join(shares), is_chosen=share < limit.asked_share))
    return bars_scene(rows, f"{simulation.scenario}: requests within each limit") if rows else None


def service_frontier_scene(frontier: ServiceFrontier) -> Scene | None:
    """Return the curve as a picture with its summary as the title; None without a point."""
    chart = service_frontier_figure(frontier).draw if frontier.points else None
    return None if chart is None else replace(chart(PICTURE), title=service_frontier_summary(frontier))
