"""Differences between two fleets of one service, most important first, and a fleet in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.results.differences import Difference, spot_percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.results.serving.fleet import Fleet, FleetKind, Service

MILLISECONDS = 1000.0
BINDING_WORDS = {
    "TPOT": "time per token",
    "TTFT": "time to the first token",
    "KV": "the wait for a place",
    "compute": "the replica is nearly saturated",
}
"""What holds the capacity of a kind, in words."""


def span(least: float, most: float) -> str:
    """Return `2`, or `2 to 3`; a solver's minus zero is zero."""
    least, most = least + 0.0, most + 0.0
    return f"{least:,.4g}" if least == most else f"{least:,.4g} to {most:,.4g}"


def replicas_text(least: int, most: int) -> str:
    """Return `1 replica`, `2 replicas` or `1 to 2 replicas`."""
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{count} {'replica' if most == 1 else 'replicas'}"


def describe_kind(kind: FleetKind) -> str:
    """Return a kind with its machines: `1 to 2 of 4 x L40S at aws, spot`; the count is left out where it is one GPU."""
    count = span(min(kind.by_hour), max(kind.by_hour))
    machine = kind.gpu if kind.gpus == 1 else f"{kind.gpus} x {kind.gpu}"
    joined = " x " if kind.gpus == 1 else " of "
    return f"{count}{joined}{machine} at {kind.provider}, {kind.market}"


def by_dollars(fleet: Fleet) -> list[FleetKind]:
    """Return the kinds, those with most dollars first."""
    return sorted(fleet.kinds, key=lambda kind: -sum(kind.by_hour) * kind.usd_per_hour)


def describe_kinds(fleet: Fleet) -> tuple[str, ...]:
    """Return the kinds in words, those with most dollars first."""
    return tuple(describe_kind(kind) for kind in by_dollars(fleet))


def month_items(fleet: Fleet) -> list[tuple[str, float]]:
    """Return the dollars of a month by kind of machine, those with most first, then those of starts."""
    cycle = sum(sum(one.by_hour) * one.usd_per_hour for one in fleet.kinds) + fleet.start_usd
    cycles = fleet.usd_per_month / max(cycle, 1e-300)
    found: dict[str, float] = {}
    for one in by_dollars(fleet):
        machine = one.gpu if one.gpus == 1 else f"{one.gpus} x {one.gpu}"
        name = f"{machine} at {one.provider}, {one.market}"
        found[name] = found.get(name, 0.0) + sum(one.by_hour) * one.usd_per_hour * cycles
    return [*found.items(), ("starts", fleet.start_usd * cycles)]


def seconds_text(seconds: float) -> str:
    """Return a time with three digits: 40 ms, 1.25 s."""
    return f"{float(f'{seconds:.3g}'):,g} s" if seconds >= 1 else f"{seconds * MILLISECONDS:.3g} ms"


def _predicted(service: Service, name: str) -> str:
    return next((seconds_text(one.predicted_seconds) for one in service.fleet.limits if one.name == name), "")


FLEET_FEATURES: tuple[tuple[str, Callable[[Service], str]], ...] = (
    ("replicas", lambda one: span(min(one.fleet.replicas_by_hour), max(one.fleet.replicas_by_hour))),
    ("fleet", lambda one: "; ".join(describe_kinds(one.fleet))),
    ("model", lambda one: one.architecture),
    ("load", lambda one: f"{span(min(one.fleet.load), max(one.fleet.load))} {one.fleet.unit}"),
    ("tokens", lambda one: f"{one.input_tokens:,.4g} in, {one.output_tokens:,.4g} out"),
    ("per token", lambda one: _predicted(one, "tpot")),
    ("first token", lambda one: _predicted(one, "ttft")),
    ("spot", lambda one: spot_percent(one.fleet.spot_share)),
    ("served", lambda one: f"{one.fleet.served_share * 100:.1f} %"),
    ("mean use", lambda one: f"{one.fleet.use * 100:.1f} %"),
    ("starts", lambda one: f"{one.fleet.starts:,} a {'day' if len(one.fleet.load) == 24 else 'week'}"),
)
"""What may differ, most important first, and how each side of it reads."""


def compare_services(before: Service, after: Service) -> tuple[Difference, ...]:
    """Return every difference of fleet, load and latency, most important first; empty for equal fleets."""
    return tuple(
        Difference(what=name, before=old, after=new)
        for name, describe in FLEET_FEATURES
        if (old := describe(before)) != (new := describe(after))
    )
