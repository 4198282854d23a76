"""Pictures of a service: load and machines over the week, and dollars of a month against the time per token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.report import format as words
from planner.report.inference.fleet import headline
from planner.report.plots.style import (
    ACCENT_COLOR,
    COLORS,
    MONTH_LABEL,
    MUTED_COLOR,
    TEXT_COLOR,
    open_picture,
    tick_usd,
)
from planner.report.serving.frontier import summary
from planner.report.serving.strip import DAYS
from planner.results.serving.differences import MILLISECONDS, by_dollars, describe_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.results.plan import Plan
    from planner.results.serving.fleet import Fleet, FleetKind, Service
    from planner.results.serving.frontier import ServiceFrontier

MOST_COLOURED_KINDS = 8
"""Kinds with a colour of their own; the others are one."""
MARKET_HATCHES = {"on demand": "", "committed": "xx", "spot": "///"}
"""Pattern of a market: what may be lost is hatched."""
SERVICE_INCHES = 6.4
_DAY = 24


def draw_services(plan: Plan, path: str | Path, caption: Sequence[str]) -> None:
    """Draw load and replicas of each service over its day or week; raises like `open_picture`."""
    rows = 2 * len(plan.services)
    title = headline(plan.services[0]) if len(plan.services) == 1 else f"{words.sanitise(plan.scenario)}: services"
    height = SERVICE_INCHES * len(plan.services)
    with open_picture(path, caption, height=height, rows=rows, title=title) as (figure, axes):
        for index, service in enumerate(plan.services):
            above, below = axes[2 * index], axes[2 * index + 1]
            _load(above, service)
            _replicas(below, service.fleet)
            _hours(above, len(service.fleet.load), False)
            _hours(below, len(service.fleet.load), True)
        figure.align_ylabels()


def _steps(values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a line of steps: each hour has its value from its beginning to its end."""
    hours = np.arange(len(values) + 1, dtype=float)
    return hours, np.append(np.asarray(values, dtype=float), values[-1])


def _load(axes: Any, service: Service) -> None:
    """Draw the load, and what the fleet can carry within the limits, all of it and what is not on spot."""
    fleet = service.fleet
    able = np.asarray([_capacity(fleet, hour, False) for hour in range(len(fleet.load))])
    firm = np.asarray([_capacity(fleet, hour, True) for hour in range(len(fleet.load))])
    hours, load = _steps(fleet.load)
    axes.fill_between(hours, load, step="post", color=COLORS[0], alpha=0.3, linewidth=0, label="load")
    axes.step(hours, load, where="post", color=COLORS[0], linewidth=1.2)
    axes.step(*_steps(able.tolist()), where="post", color=TEXT_COLOR, linewidth=1.2, label="capacity within the limits")
    if np.any(firm < able) and np.any(firm > 0):
        label = "capacity that is not on spot"
        axes.step(*_steps(firm.tolist()), where="post", color=ACCENT_COLOR, linewidth=1.2, linestyle="--", label=label)
    axes.set_ylim(0, float(np.max(able)) * 1.25)
    axes.set_ylabel(fleet.unit)
    axes.legend(loc="upper left", ncols=2)


def _capacity(fleet: Fleet, hour: int, firm: bool) -> float:
    return sum(one.capacity * one.by_hour[hour] for one in fleet.kinds if not firm or one.market != "spot")


def _replicas(axes: Any, fleet: Fleet) -> None:
    """Draw the replicas of each kind on top of one another; what is on spot is hatched."""
    ordered = sorted(by_dollars(fleet), key=lambda kind: kind.market == "spot")
    shown = sorted(by_dollars(fleet)[:MOST_COLOURED_KINDS], key=ordered.index)
    base = np.zeros(len(fleet.load) + 1)
    for index, kind in enumerate(shown):
        base = _stack(axes, base, kind.by_hour, kind.replicas, COLORS[index % len(COLORS)], kind)
    rest = [kind for kind in ordered if kind not in shown]
    if rest:
        counts = [sum(one.by_hour[hour] * one.replicas for one in rest) for hour in range(len(fleet.load))]
        hours, values = _steps(counts)
        axes.fill_between(
            hours, base, base + values, step="post", color=MUTED_COLOR, linewidth=0, label=f"{len(rest)} more kinds"
        )
        base = base + values
    axes.set_ylim(0, float(np.max(base)) * 1.05)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("replicas")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=1, title="hatched: on spot", handlelength=1.4)


def _stack(axes: Any, base: np.ndarray, by_hour: Sequence[int], each: int, color: str, kind: FleetKind) -> np.ndarray:
    """Draw one kind on top of those before; return the top."""
    hours, values = _steps([count * each for count in by_hour])
    axes.fill_between(
        hours, base, base + values, step="post", facecolor=color, edgecolor="white", linewidth=0.3,
        hatch=MARKET_HATCHES[kind.market], label=words.sanitise(describe_kind(kind)),
    )  # fmt: skip
    return np.asarray(base + values)


def _hours(axes: Any, hours: int, named: bool) -> None:
    """Mark the days of a week, or hours of a day."""
    axes.set_xlim(0, hours)
    if hours == _DAY:
        axes.set_xticks(range(0, _DAY + 1, 6), [f"{hour}:00" for hour in range(0, _DAY + 1, 6)] if named else [""] * 5)
        return
    days = hours // _DAY
    axes.set_xticks(range(0, hours + 1, _DAY), [""] * (days + 1))
    axes.set_xticks(range(_DAY // 2, hours, _DAY), list(DAYS[:days]) if named else [""] * days, minor=True)
    axes.tick_params(axis="x", which="minor", length=0)
    axes.grid(axis="x", color=MUTED_COLOR, linewidth=0.4, alpha=0.5)


def draw_service_frontier(found: ServiceFrontier, path: str | Path, caption: Sequence[str]) -> None:
    """Draw dollars of a month over the limit on the time per token with the bound; raises like `open_picture`."""
    points = found.points
    limits = [one.tpot_seconds * MILLISECONDS for one in points]
    with open_picture(path, caption, title=summary(found)) as (_, axes):
        usd, bound = [one.usd_per_month for one in points], [one.bound_usd_per_month for one in points]
        axes.step(limits, usd, where="post", color=COLORS[0], linewidth=1.2)
        axes.plot(limits, usd, "o", color=COLORS[0], markersize=5, label="cheapest fleet that was found")
        axes.plot(limits, bound, "_", color=ACCENT_COLOR, markersize=9, label="no fleet costs less")
        for one, limit in zip(points, limits, strict=True):
            if one.asked:
                label = "limit of the scenario"
                axes.plot(
                    [limit], [one.usd_per_month], "o", color=ACCENT_COLOR, markersize=10, fillstyle="none", label=label
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.set_xticks(limits, [f"{limit:.3g}" for limit in limits])
        ticks = _usd_ticks(min(bound), max(usd))
        axes.set_yticks(ticks, [tick_usd(value) for value in ticks])
        axes.set_xlabel("limit on the time per token, ms")
        axes.set_ylabel(MONTH_LABEL)
        axes.legend()


def _usd_ticks(least: float, most: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten around some dollars."""
    powers = range(int(np.floor(np.log10(max(least, 1e-2)))) - 1, int(np.ceil(np.log10(max(most, 1e-2)))) + 1)
    steps = [factor * 10.0**power for power in powers for factor in (1.0, 2.0, 5.0)]
    return [one for one in steps if 0.7 * least <= one <= 1.4 * most]
