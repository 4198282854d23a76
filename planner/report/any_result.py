"""Any result as the text that its command prints, and as a picture, also on the axes of a caller."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from planner import generation, open_choices, reinforcement
from planner.documents.files import write_bytes_atomically
from planner.drawing.charts import Ranged, Stack, ranged, stacked
from planner.drawing.scene import Caption, Scene, check_drawable, draw_scene, framed, joined, picture_id, to_svg
from planner.errors import Fault, NoPlanError, ScenarioError, escaped
from planner.report import words
from planner.report.catalog_text import render_market
from planner.report.explanation_text import render as render_explanation
from planner.report.explanation_text import render_technique
from planner.report.frontier_figure import bills_scene, frontier_figure, sweep_scene, tornado_scene
from planner.report.frontier_text import BEST_VALUE, best_value, render_frontier
from planner.report.frontier_text import format_summary as frontier_summary
from planner.report.plan_answer import render_answer, render_details
from planner.report.plan_figures import PICTURE, simulation_scene, timetable_figure
from planner.report.run_text import (
    render_calibration,
    render_estimate,
    render_probe,
    render_simulation,
    render_tracking,
)
from planner.report.what_if_text import render_sweep, render_tornado, render_variants, render_what_if
from planner.results.explanation import Explanation, TechniqueAnswer
from planner.results.fleet import InferenceEstimate
from planner.results.frontier import Frontier
from planner.results.market_results import MarketFit
from planner.results.plan import Plan
from planner.results.plan_parts import dollars
from planner.results.result_tables import Result
from planner.results.run_results import CalibrationResult, Estimate, ProbeVerdict, Tracking
from planner.results.service_results import SHOWN_BY_SUBJECTS
from planner.results.simulation import Simulation
from planner.results.subject_runs import LossCalibration, LossFrontier
from planner.results.what_if import ManyVariants, Sweep, Tornado, WhatIf
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from planner.results.frontier import Point, Segment


ON_AXES = (Frontier, Sweep, Tornado)
"""Results that can be drawn on axes."""
_MOST_BARS = 12
"""Bars of a tornado: those with the largest effect."""
_COST, _HOURS = "expected cost, $", "ends by, hours"
_NO_FIGURE = float("nan")


def draw_on(ax: Any, result: Frontier | Sweep | Tornado) -> None:
    """Draw a result on axes; NoPlanError where nothing has a plan. Only methods of the axes are called."""
    if isinstance(result, Frontier):
        _draw_frontier(ax, result)
    elif isinstance(result, Sweep):
        _draw_sweep(ax, result)
    else:
        _draw_tornado(ax, result)
    ax.set_title(result.scenario)


def _draw_frontier(ax: Any, frontier: Frontier) -> None:
    curves = [("", frontier.points, frontier.segments)]
    if frontier.curves:
        curves = [(curve.label, curve.points, curve.segments) for curve in frontier.curves]
    if not any(points for _, points, _ in curves):
        raise NoPlanError("nothing to draw: the frontier has no points")
    for number, (label, points, segments) in enumerate(curves):
        if points:
            _draw_curve(ax, label, points, segments, f"C{number}")
    if frontier.knee is not None:
        knee = frontier.points[frontier.knee]
        ax.plot([knee.hours], [knee.cost_usd], "o", markersize=10, fillstyle="none", color="black", label=BEST_VALUE)
    if (own := frontier.solved) is not None:
        ax.plot([own.hours], [own.cost_usd], "o", markersize=7, color="black", label="your plan")
    ax.set_xlabel(_HOURS if frontier.confidence is None else f"{_HOURS} ({frontier.confidence:.0%})")
    ax.set_ylabel(_COST)
    if frontier.curves:
        ax.legend()


def _draw_curve(ax: Any, label: str, points: Sequence[Point], segments: Sequence[Segment], color: str) -> None:
    """Draw the slopes as lines, and a dot for each breakpoint."""
    for segment in segments:
        ends = ([segment.hours_from, segment.hours_to], [segment.cost_from_usd, segment.cost_to_usd])
        ax.plot(*ends, "-", color=color)
    hours, usd = [point.hours for point in points], [point.cost_usd for point in points]
    ax.plot(hours, usd, "o", markersize=4, color=color, label=label or "breakpoints")


def _draw_sweep(ax: Any, sweep: Sweep) -> None:
    """Draw cost along one axis as a line, of two axes as a heat map; cells without a plan stay empty."""
    costs = [_NO_FIGURE if cell.cost_usd is None else cell.cost_usd for cell in sweep.cells]
    if all(cost != cost for cost in costs):
        raise NoPlanError("nothing to draw: no cell has a plan")
    first = sweep.axes[0]
    if len(sweep.axes) == 1:
        places = list(range(len(first.values))) if first.numbers is None else list(first.numbers)
        ax.plot(places, costs, "o-")
        ax.set_xticks(places, first.values)
        ax.set_xlabel(first.path)
        ax.set_ylabel(_COST)
        return
    second = sweep.axes[1]
    width = len(second.values)
    mesh = ax.pcolormesh([costs[start : start + width] for start in range(0, len(costs), width)])
    ax.set_xticks([place + 0.5 for place in range(width)], second.values)
    ax.set_yticks([place + 0.5 for place in range(len(first.values))], first.values)
    ax.set_xlabel(second.path)
    ax.set_ylabel(first.path)
    ax.figure.colorbar(mesh, ax=ax, label=_COST)


def _draw_tornado(ax: Any, tornado: Tornado) -> None:
    """Draw a bar from the figure at the lower value to that at the higher one; an end without a plan has none."""
    is_time = tornado.better == "sooner"
    hours = tornado.base.hours
    base = tornado.base.cost_usd if not is_time else hours.expected if hours else None
    if base is None:
        raise NoPlanError("nothing to draw: there is no plan without changes")
    lines = tornado.lines[:_MOST_BARS]
    for place, (_, bar) in enumerate(reversed(lines)):
        for end, color in ((bar.down, "C0"), (bar.up, "C1")):
            figure = end.hours if is_time else end.cost_usd
            if figure is not None:
                ax.barh(place, figure - base, left=base, color=color)
            else:
                ax.text(base, place, end.status, va="center", color=color)
    ax.axvline(base, color="black", linewidth=1)
    ax.set_yticks(range(len(lines)), [name for name, _ in reversed(lines)])
    unit = "likely hours" if is_time else f"{_COST}; {dollars(base)} without changes"
    ax.set_xlabel(f"{unit}; blue: {tornado.by:.0%} less, orange: {tornado.by:.0%} more")


# Pictures of results as bars: memory, alternatives, observed and planned.


MOST_GPUS = 12
"""Most bars of alternatives: the cheapest ones."""
LEAST_PART = 0.05
"""GiB from which on a part of the memory is drawn."""


def estimate_scene(estimate: Estimate) -> Scene:
    """Return the memory of one GPU by part against what is usable, with the speed in the title."""
    vram = estimate.vram_gib
    fits = "fits" if vram.fits else "does not fit"
    where = f"{estimate.architecture} on {words.gpus(estimate.gpus, estimate.gpu)}"
    title = f"{where}: {fits}, {words.significant(estimate.tokens_per_second)} {estimate.unit}/s"
    return _memory({**vram.parts, **vram.set_aside}, vram.peak, vram.usable, title)


def inference_scene(estimate: InferenceEstimate) -> Scene:
    """Return the memory of one GPU of a replica by part."""
    memory = estimate.memory_gib
    where = f"{estimate.architecture} on {words.gpus(estimate.gpus, estimate.gpu)}, {estimate.engine}"
    title = f"{where}: {words.significant(estimate.output_tokens_per_second.expected)} tokens/s"
    return _memory(memory.parts, sum(memory.parts.values()), memory.usable, title)


def _memory(parts: Mapping[str, float], peak: float, usable: float, title: str) -> Scene:
    shown = tuple((name.replace("_", " "), size) for name, size in parts.items() if size >= LEAST_PART)
    bar = Stack("GiB per GPU", shown, f"{words.gib(peak)} of {words.gib(usable)} GiB", usable)
    caption = Caption(words.sanitise(title), f"Memory of one GPU by part: {bar.words}")
    return stacked([bar], caption, words.gib_text, "usable memory of the GPU", PICTURE)


def explanation_scene(explanation: Explanation) -> Scene | None:
    """Return the cost of the best plan on each GPU; None where there is no plan."""
    options = [
        alternative
        for alternative in explanation.alternatives
        if alternative.by == "gpu" and alternative.cost_usd is not None
    ]
    first = options[0].job if options else ""
    rows = [
        Ranged(
            words.sanitise(option.name if option.allowed else f"{option.name} (excluded)"),
            option.cost_usd or 0.0,
            ", ".join(
                [words.usd(option.cost_usd or 0.0), *([words.likely(option.hours)] if option.hours is not None else [])]
            ),
            is_chosen=option.chosen,
        )
        for option in options
        if option.job == first
    ][:MOST_GPUS]
    return bars_scene(rows, f"{explanation.scenario}: expected cost by GPU") if rows else None


def market_scene(fit: MarketFit) -> Scene:
    """Return how long machines stay and are away, with the intervals of both means."""
    means = (("machines stay", fit.up.mean_hours), ("machines are away", fit.outage.mean_hours))
    rows = [
        Ranged(name, mean.expected, f"{words.hours(mean.expected)} on average", mean.low, mean.high)
        for name, mean in means
    ]
    return bars_scene(rows, f"Spot market: available in {fit.availability.expected * 100:.0f} % of the hours")


def calibration_scene(result: CalibrationResult) -> Scene | None:
    """Return speed and memory as observed and as estimated; None where nothing was compared."""
    rows: list[Ranged] = []
    if result.compared is not None:
        seen = result.compared
        if seen.tokens_per_second is not None:
            speeds = (("observed", seen.tokens_per_second), ("estimated", seen.predicted_tokens_per_second))
            rows = [_speed(name, value, result.unit) for name, value in speeds]
        elif seen.peak_vram_gib is not None:
            peaks = (("observed", seen.peak_vram_gib), ("estimated", seen.predicted_peak_vram_gib))
            rows = [
                Ranged(name, value, words.gib_text(value), is_chosen=name == "observed")
                for name, value in peaks
                if value is not None
            ]
    elif result.generation is not None:
        made = result.generation
        speeds = (("observed", made.output_tokens_per_second), ("estimated", made.predicted_output_tokens_per_second))
        rows = [_speed(name, value, "output tokens") for name, value in speeds]
    return bars_scene(rows, "The run and its estimate") if rows else None


def _speed(name: str, value: float, unit: str) -> Ranged:
    return Ranged(name, value, f"{words.significant(value)} {unit} per second", is_chosen=name == "observed")


def tracking_scene(tracking: Tracking) -> Scene:
    """Return the hours of the whole job as planned and as projected, with their 80 % intervals."""
    ends = (("planned", tracking.planned.hours), ("projected", tracking.projected.hours))
    rows = [
        Ranged(
            name, hours.expected, f"{words.likely(hours.expected)}, {words.usd(cost.expected)}",
            hours.low, hours.high, name == "projected",
        )
        for (name, hours), cost in zip(ends, (tracking.planned.cost, tracking.projected.cost), strict=True)
    ]  # fmt: skip
    if tracking.planned.deadline_hours is not None:
        due = tracking.planned.deadline_hours
        rows.append(Ranged("deadline", due, words.hours(due)))
    done = f"{tracking.observed.share_done * 100:.0f} % done"
    return bars_scene(rows, f"{tracking.job}: {done}")


def variants_scene(variants: ManyVariants) -> Scene:
    """Return how many variants ended in which status, with the cheapest one in the title."""
    rows = [Ranged(status.replace("_", " "), count, f"{count:,}") for status, count in variants.counts.items() if count]
    best = variants.cheapest.cost_usd if variants.cheapest else None
    cheapest = f"; the cheapest costs {words.usd(best)}" if best is not None else ""
    return bars_scene(rows, f"{variants.scenario}: {variants.variants:,} variants{cheapest}")


def bars_scene(rows: list[Ranged], title: str) -> Scene:
    """Return rows as bars under a title, in the size of a picture."""
    shown = "; ".join(f"{row.label}: {row.words}" for row in rows)
    return ranged(rows, Caption(words.sanitise(title), shown), PICTURE)


# A picture of any result, for notebooks and files.


SUFFIXES = (".png", ".svg", ".html", ".pdf")
"""Files of a picture; those of `--plot` are the first three."""
PLOT_SUFFIXES = SUFFIXES[:3]
XML = '<?xml version="1.0" encoding="utf-8"?>\n'
"""First line of a file that is a picture as SVG."""


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, which a notebook shows."""

    svg: str

    def _repr_svg_(self) -> str:
        """Return the picture for a notebook."""
        return self.svg


@overload
def plot(result: Result, path: str | Path, *, ax: None = None) -> None: ...
@overload
def plot(result: Result, path: None = None, *, ax: None = None) -> Picture: ...
@overload
def plot(result: Result, path: None = None, *, ax: Axes) -> Axes: ...
def plot(result: Any, path: str | Path | None = None, *, ax: Any = None) -> Any:
    """Draw a result: return it as a picture that a notebook shows, write it into a file, or draw it on axes.

    A frontier, a simulation and what `what_if`, `sweep` and `tornado` return have the picture of `--plot`. A plan is
    drawn as its timetable, a service as its machines by the hour, an estimate as the memory of one GPU, an explanation
    as the cost on each GPU, a calibration, a market fit and a tracked run as bars of what was observed and expected,
    and the simulation of a service as the share of its requests within each limit.

    Parameters
    ----------
    result
        What a public function of the package returned.
    path
        A file that ends in `.svg`, `.html`, `.png` or `.pdf`; the last two need the extra `plot`.
    ax
        Axes of Matplotlib on which a frontier, a sweep or a tornado is drawn, in dollars and hours; they are returned.

    Raises
    ------
    TypeError
        The object is no result that has a picture, or none that can be drawn on axes.
    NoPlanError
        There is nothing to draw, such as in an infeasible plan.
    ScenarioError
        The suffix is not supported, or the extra `plot` is missing.

    Examples
    --------
    >>> plot(planner.estimate("mistral-7b", "A10G", weight_bits=4)).svg[:5]
    '<?xml'
    """
    if ax is not None:
        if path is not None:
            raise TypeError("give a file or axes, not both: axes are saved by their own figure")
        if not isinstance(result, ON_AXES):
            known = ", ".join(kind.__name__ for kind in ON_AXES)
            raise TypeError(f"{type(result).__name__} cannot be drawn on axes; results that can: {known}")
        draw_on(ax, result)
        return ax
    scene = scene_of(result)
    if path is None:
        return Picture(XML + _svg(scene))
    write_picture(scene, path)
    return None


def draw_file(result: Any, path: str | Path, caption: Sequence[str]) -> None:
    """Draw a result into a file; `caption` is the text that an HTML page shows below it. Raises like `plot`."""
    write_picture(scene_of(result), path, caption)


def scene_of(result: Any) -> Scene:
    """Return the picture of a result with its title; raises TypeError and NoPlanError like `plot`."""
    if type(result) not in SCENES:
        known = sorted(kind.__name__ for kind in SCENES)
        raise TypeError(f"{type(result).__name__} has no picture; results with one: {', '.join(known)}")
    scene = SCENES[type(result)](result)
    if scene is None:
        raise NoPlanError("nothing to draw: the result has no plan or no figures")
    return framed(scene)


def _plan_scene(plan: Plan) -> Scene | None:
    """Return the timetable of the jobs, and load and machines of each service by the hour."""
    parts = []
    if plan.jobs and (chart := timetable_figure(plan).draw) is not None:
        parts.append(chart(PICTURE))
    if (subject := shown_by(plan)) is not None:
        parts += subject.plan_scenes(plan)
    if not parts:
        return None
    title = _first_line(render_answer, plan)
    return joined([[part] for part in parts], title, "; ".join(part.description for part in parts))


def _frontier_scene(frontier: Frontier) -> Scene | None:
    if not frontier.points or (chart := frontier_figure(frontier, None).draw) is None:
        return None
    with words.unwrapped():
        title = "; ".join(text for text in (frontier_summary(frontier), best_value(frontier)) if text)
    return dataclasses.replace(chart(PICTURE), title=title)


def _titled(draw: Callable[[Any, float], Scene], text: Callable[[Any], str]) -> Callable[[Any], Scene]:
    """Return a function that draws a result with the first line of its text as the title."""
    return lambda result: dataclasses.replace(draw(result, PICTURE), title=_first_line(text, result))


def _first_line(text: Callable[[Any], str], result: Any) -> str:
    with words.unwrapped():
        return text(result).partition("\n")[0]


def _scene_of_subject(result: Any) -> Scene | None:
    subject = shown_by(result)
    return None if subject is None else subject.scene(result)


SCENES: dict[type, Callable[[Any], Scene | None]] = {
    Plan: _plan_scene,
    Frontier: _frontier_scene,
    LossFrontier: lambda found: open_choices.loss_picture(found),
    Simulation: lambda found: simulation_scene(found, PICTURE) if found.jobs and found.cost_usd else None,
    WhatIf: _titled(bills_scene, render_what_if),
    Sweep: _titled(sweep_scene, render_sweep),
    Tornado: _titled(tornado_scene, render_tornado),
    Estimate: estimate_scene,
    InferenceEstimate: inference_scene,
    Explanation: explanation_scene,
    MarketFit: market_scene,
    CalibrationResult: calibration_scene,
    Tracking: tracking_scene,
    ManyVariants: variants_scene,
    **dict.fromkeys(SHOWN_BY_SUBJECTS, _scene_of_subject),
}
"""Results with a picture; None where there is nothing to draw."""


def check_picture(path: str | Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise ScenarioError where a picture cannot have this suffix, or the extra that draws it is missing."""
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        wrong = f"{suffix or 'no suffix'} is not a supported picture format"
        raise ScenarioError([Fault(str(path), 0, "", wrong, f"use one of {', '.join(suffixes)}")])
    if suffix in (".png", ".pdf"):
        check_drawable(str(path))


def write_picture(scene: Scene, path: str | Path, caption: Sequence[str] = ()) -> None:
    """Write a picture in the format of its suffix; `caption` are lines that an HTML page shows below it.

    Raises ScenarioError like `check_picture`, OSError if the file cannot be written.
    """
    check_picture(path)
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind in ("png", "pdf"):
        content = draw_scene(scene, kind)
    else:
        content = (_page(_svg(scene), caption) if kind == "html" else XML + _svg(scene)).encode()
    write_bytes_atomically(Path(path), content)


def _svg(scene: Scene) -> str:
    return to_svg(scene, picture_id(scene), standalone=True)


def _page(svg: str, caption: Sequence[str]) -> str:
    """Return a self-contained HTML page: the picture, and the text below it."""
    text = escaped("\n".join(caption))
    title = escaped(caption[0]) if caption else "planner"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        "<style>body{max-width:60rem;margin:2rem auto;padding:0 1rem;font-family:sans-serif}"
        "svg{max-width:100%;height:auto}pre{overflow-x:auto}</style></head>\n"
        f"<body>{svg}\n<pre>{text}</pre></body></html>\n"
    )


def _text_of_subject(result: Result) -> str:
    subject = shown_by(result)
    assert subject is not None
    return subject.text(result)


TEXTS: dict[type[Result], Callable[[Any], str]] = {
    Plan: render_answer,
    Frontier: render_frontier,
    LossCalibration: lambda found: open_choices.render_loss_calibration(found),
    LossFrontier: lambda found: open_choices.render_loss_frontier(found),
    Simulation: render_simulation,
    WhatIf: render_what_if,
    Sweep: render_sweep,
    Tornado: render_tornado,
    ManyVariants: render_variants,
    Estimate: render_estimate,
    reinforcement.PreferenceEstimate: lambda found: reinforcement.render_preference(found),
    reinforcement.RlEstimate: lambda found: reinforcement.render_rl(found),
    InferenceEstimate: lambda found: generation.render_inference(found),
    Explanation: render_explanation,
    TechniqueAnswer: render_technique,
    MarketFit: render_market,
    CalibrationResult: render_calibration,
    Tracking: render_tracking,
    ProbeVerdict: render_probe,
    **dict.fromkeys(SHOWN_BY_SUBJECTS, _text_of_subject),
}
"""What writes the text of each result."""


def render_result(result: Result) -> str:
    """Return the text of a result in lines as wide as the terminal."""
    return TEXTS[type(result)](result)


def text(result: Result, width: int = words.WIDTH, *, details: bool = False) -> str:
    """Return the text of a result as its command prints it, in lines of `width` columns; `str(result)` is the same.

    `details`: of a plan everything that there is to say, as `solve --details` prints it.

    >>> text(planner.estimate("mistral-7b", "A10G", weight_bits=4)).splitlines()[0]
    'mistral-7b on 1 x A10G: fits, ...'
    """
    with words.text_width(width):
        if details and isinstance(result, Plan):
            return render_details(result)
        return render_result(result)
