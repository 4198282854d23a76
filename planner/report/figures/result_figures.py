"""Pictures of results as bars: memory, alternatives, observed and planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.drawing.bars import Ranged, Stack, ranged, stacked
from planner.drawing.scene import Caption
from planner.report import format as words
from planner.report.figures.figure import PICTURE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.drawing.scene import Scene
    from planner.results.calibration import CalibrationResult
    from planner.results.estimate import Estimate
    from planner.results.explanation import Explanation
    from planner.results.fleet_differences import ServiceSimulation
    from planner.results.inference import InferenceEstimate
    from planner.results.market_fit import MarketFit
    from planner.results.tracking import Tracking
    from planner.results.what_if import ManyVariants

MOST_GPUS = 12
"""Most bars of alternatives: the cheapest ones."""
LEAST_PART = 0.05
"""GiB from which on a part of the memory is drawn."""


def estimate_scene(found: Estimate) -> Scene:
    """Return the memory of one GPU by part against what is usable, with the speed in the title."""
    vram = found.vram_gib
    fits = "fits" if vram.fits else "does not fit"
    where = f"{found.architecture} on {words.gpus(found.gpus, found.gpu)}"
    title = f"{where}: {fits}, {words.significant(found.tokens_per_second)} {found.unit}/s"
    return _memory({**vram.parts, **vram.set_aside}, vram.peak, vram.usable, title)


def inference_scene(found: InferenceEstimate) -> Scene:
    """Return the memory of one GPU of a replica by part."""
    memory = found.memory_gib
    where = f"{found.architecture} on {words.gpus(found.gpus, found.gpu)}, {found.engine}"
    title = f"{where}: {words.significant(found.output_tokens_per_second.expected)} tokens/s"
    return _memory(memory.parts, sum(memory.parts.values()), memory.usable, title)


def _memory(parts: Mapping[str, float], peak: float, usable: float, title: str) -> Scene:
    shown = tuple((name.replace("_", " "), size) for name, size in parts.items() if size >= LEAST_PART)
    bar = Stack("GiB per GPU", shown, f"{words.gib(peak)} of {words.gib(usable)} GiB", usable)
    caption = Caption(words.sanitise(title), f"Memory of one GPU by part: {bar.words}")
    return stacked([bar], caption, words.gib_text, "usable memory of the GPU", PICTURE)


def explanation_scene(found: Explanation) -> Scene | None:
    """Return the cost of the best plan on each GPU; None where there is no plan."""
    options = [one for one in found.alternatives if one.by == "gpu" and one.cost_usd is not None]
    first = options[0].job if options else ""
    rows = [
        Ranged(
            words.sanitise(one.name if one.allowed else f"{one.name} (excluded)"),
            one.cost_usd or 0.0,
            ", ".join([words.usd(one.cost_usd or 0.0), *([words.likely(one.hours)] if one.hours is not None else [])]),
            is_chosen=one.chosen,
        )
        for one in options
        if one.job == first
    ][:MOST_GPUS]
    return _bars(rows, f"{found.scenario}: expected cost by GPU") if rows else None


def market_scene(found: MarketFit) -> Scene:
    """Return how long machines stay and are away, with the intervals of both means."""
    means = (("machines stay", found.up.mean_hours), ("machines are away", found.outage.mean_hours))
    rows = [
        Ranged(name, mean.expected, f"{words.hours(mean.expected)} on average", mean.low, mean.high)
        for name, mean in means
    ]
    return _bars(rows, f"Spot market: available in {found.availability.expected * 100:.0f} % of the hours")


def calibration_scene(found: CalibrationResult) -> Scene | None:
    """Return speed and memory as observed and as estimated; None where nothing was compared."""
    rows: list[Ranged] = []
    if found.compared is not None:
        seen = found.compared
        if seen.tokens_per_second is not None:
            speeds = (("observed", seen.tokens_per_second), ("estimated", seen.predicted_tokens_per_second))
            rows = [_speed(name, value, found.unit) for name, value in speeds]
        elif seen.peak_vram_gib is not None:
            peaks = (("observed", seen.peak_vram_gib), ("estimated", seen.predicted_peak_vram_gib))
            rows = [
                Ranged(name, value, words.gib_text(value), is_chosen=name == "observed")
                for name, value in peaks
                if value is not None
            ]
    elif found.generation is not None:
        made = found.generation
        speeds = (("observed", made.output_tokens_per_second), ("estimated", made.predicted_output_tokens_per_second))
        rows = [_speed(name, value, "output tokens") for name, value in speeds]
    return _bars(rows, "The run and its estimate") if rows else None


def _speed(name: str, value: float, unit: str) -> Ranged:
    return Ranged(name, value, f"{words.significant(value)} {unit} per second", is_chosen=name == "observed")


def tracking_scene(found: Tracking) -> Scene:
    """Return the hours of the whole job as planned and as projected, with their 80 % intervals."""
    ends = (("planned", found.planned.hours), ("projected", found.projected.hours))
    rows = [
        Ranged(
            name, hours.expected, f"{words.likely(hours.expected)}, {words.usd(cost.expected)}", hours.low, hours.high,
            name == "projected",
        )
        for (name, hours), cost in zip(ends, (found.planned.cost_usd, found.projected.cost_usd), strict=True)
    ]  # fmt: skip
    if found.planned.deadline_hours is not None:
        due = found.planned.deadline_hours
        rows.append(Ranged("deadline", due, words.hours(due)))
    done = f"{found.observed.share_done * 100:.0f} % done"
    return _bars(rows, f"{found.job}: {done}")


def variants_scene(found: ManyVariants) -> Scene:
    """Return how many variants ended in which status, with the cheapest one in the title."""
    rows = [Ranged(status.replace("_", " "), count, f"{count:,}") for status, count in found.counts.items() if count]
    best = found.cheapest.cost_usd if found.cheapest else None
    cheapest = f"; the cheapest costs {words.usd(best)}" if best is not None else ""
    return _bars(rows, f"{found.scenario}: {found.variants:,} variants{cheapest}")


def service_simulation_scene(found: ServiceSimulation) -> Scene | None:
    """Return the share of the requests within each limit, simulated over the cycle, with the share that is asked."""
    rows = []
    for one, stream, limit in ((o, s, each) for o in found.services for s in o.streams for each in s.limits):
        share, planned = limit.cycle.simulated_share, limit.cycle.predicted_share
        if share is None or limit.limit_seconds is None:
            continue
        shares = [f"{100.0 * share:.1f} %", f"asked {words.significant(100.0 * limit.asked_share)} %"]
        shares += [] if planned is None else [f"planned {100.0 * planned:.1f} %"]
        what = {"ttft": "first token", "tpot": "per token"}[limit.name]
        name = f"{what} within {words.significant(1000.0 * limit.limit_seconds)} ms"
        label = f"{name}, {stream.name}" if len(found.services) == 1 else f"{one.name}: {name}, {stream.name}"
        rows.append(Ranged(label, 100.0 * share, ", ".join(shares), is_chosen=share < limit.asked_share))
    return _bars(rows, f"{found.scenario}: requests within each limit") if rows else None


def _bars(rows: list[Ranged], title: str) -> Scene:
    shown = "; ".join(f"{row.label}: {row.words}" for row in rows)
    return ranged(rows, Caption(words.sanitise(title), shown), PICTURE)
