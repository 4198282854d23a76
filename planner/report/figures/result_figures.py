"""Pictures of results, for notebooks and files: memory, alternatives, observed and planned."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from planner import open_choices
from planner.documents.files import write_bytes_atomically
from planner.drawing.bars import Ranged, Stack, ranged, stacked
from planner.drawing.image import check_drawable, draw_scene
from planner.drawing.scene import Caption, Scene, framed, joined, to_svg
from planner.drawing.sketch import picture_id
from planner.errors import Fault, NoPlanError, ScenarioError, escaped
from planner.records import record
from planner.report import words
from planner.report.figures.axes_figures import ON_AXES, draw_on
from planner.report.figures.frontier_figure import frontier_figure
from planner.report.figures.plan_figures import PICTURE, timetable_figure
from planner.report.figures.simulation_figures import simulation_scene
from planner.report.figures.what_if_figures import bills_scene, sweep_scene, tornado_scene
from planner.report.frontier_text import format_summary as frontier_summary
from planner.report.frontier_text import knee
from planner.report.plan_text import render
from planner.report.sweep_text import render_sweep
from planner.report.what_if_text import render_tornado, render_what_if
from planner.results.chosen_model import LossFrontier
from planner.results.estimate import Estimate
from planner.results.explanation import Explanation
from planner.results.frontier import Frontier
from planner.results.inference import InferenceEstimate
from planner.results.market_results import MarketFit
from planner.results.plan import Plan
from planner.results.result_tables import Result
from planner.results.run_results import CalibrationResult, Tracking
from planner.results.service_results import SHOWN_BY_SUBJECTS
from planner.results.simulation import Simulation
from planner.results.what_if import ManyVariants, Sweep, Tornado, WhatIf
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes


# Pictures of results as bars: memory, alternatives, observed and planned.


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
    options = [
        alternative
        for alternative in found.alternatives
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
    return bars_scene(rows, f"{found.scenario}: expected cost by GPU") if rows else None


def market_scene(found: MarketFit) -> Scene:
    """Return how long machines stay and are away, with the intervals of both means."""
    means = (("machines stay", found.up.mean_hours), ("machines are away", found.outage.mean_hours))
    rows = [
        Ranged(name, mean.expected, f"{words.hours(mean.expected)} on average", mean.low, mean.high)
        for name, mean in means
    ]
    return bars_scene(rows, f"Spot market: available in {found.availability.expected * 100:.0f} % of the hours")


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
    return bars_scene(rows, "The run and its estimate") if rows else None


def _speed(name: str, value: float, unit: str) -> Ranged:
    return Ranged(name, value, f"{words.significant(value)} {unit} per second", is_chosen=name == "observed")


def tracking_scene(found: Tracking) -> Scene:
    """Return the hours of the whole job as planned and as projected, with their 80 % intervals."""
    ends = (("planned", found.planned.hours), ("projected", found.projected.hours))
    rows = [
        Ranged(
            name, hours.expected, f"{words.likely(hours.expected)}, {words.usd(cost.expected)}",
            hours.low, hours.high, name == "projected",
        )
        for (name, hours), cost in zip(ends, (found.planned.cost, found.projected.cost), strict=True)
    ]  # fmt: skip
    if found.planned.deadline_hours is not None:
        due = found.planned.deadline_hours
        rows.append(Ranged("deadline", due, words.hours(due)))
    done = f"{found.observed.share_done * 100:.0f} % done"
    return bars_scene(rows, f"{found.job}: {done}")


def variants_scene(found: ManyVariants) -> Scene:
    """Return how many variants ended in which status, with the cheapest one in the title."""
    rows = [Ranged(status.replace("_", " "), count, f"{count:,}") for status, count in found.counts.items() if count]
    best = found.cheapest.cost_usd if found.cheapest else None
    cheapest = f"; the cheapest costs {words.usd(best)}" if best is not None else ""
    return bars_scene(rows, f"{found.scenario}: {found.variants:,} variants{cheapest}")


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


@record(frozen=True)
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
    title = _first_line(render, plan)
    return joined([[part] for part in parts], title, "; ".join(part.description for part in parts))


def _frontier_scene(found: Frontier) -> Scene | None:
    if not found.points or (chart := frontier_figure(found, None).draw) is None:
        return None
    with words.unwrapped():
        title = "; ".join(text for text in (frontier_summary(found), knee(found)) if text)
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
        what = f"{suffix or 'no suffix'} is not a supported picture format"
        raise ScenarioError([Fault(str(path), 0, "", what, f"use one of {', '.join(suffixes)}")])
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
