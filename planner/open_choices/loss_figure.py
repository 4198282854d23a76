"""The curve of loss against dollars as a picture."""

from __future__ import annotations

from dataclasses import replace

from planner.drawing.axis import fit_axis, room_of_ticks
from planner.drawing.panel import Labels, Trace, panel
from planner.drawing.scene import SERIES, Caption, Scene
from planner.open_choices.model_choice_text import format_loss_ends, render_loss_frontier
from planner.report import words
from planner.report.figures.plan_figures import PICTURE
from planner.results.chosen_model import LossFrontier
from planner.units import count_text


def loss_scene(found: LossFrontier, width: float) -> Scene:
    """Return loss over dollars, a dot for each budget with its tokens, the first one of each model with its name."""
    points = found.points
    budgets, losses = [point.budget_usd for point in points], [point.loss for point in points]
    up = fit_axis(min(losses), max(losses), 300.0, 22.0)
    across = fit_axis(min(budgets), 2.6 * max(budgets), room_of_ticks(up), width - 12.0)
    models = list(dict.fromkeys(point.architecture for point in points))
    traces = [Trace(tuple(zip(budgets, losses, strict=True)), "ink", width=1.0)]
    names: list[tuple[float, float, str, str]] = []
    for index, model in enumerate(models):
        role = SERIES[index % len(SERIES)]
        of_model = [point for point in points if point.architecture == model]
        label = f"{words.sanitise(model)} ({count_text(of_model[0].parameters)})"
        shown = tuple(
            f"{words.usd(point.budget_usd)}: loss {point.loss:.3f}, {count_text(point.tokens)} tokens"
            for point in of_model
        )
        places = tuple((point.budget_usd, point.loss) for point in of_model)
        traces.append(Trace(places, role, label, width=0.0, mark="dot", words=shown))
        names += [(point.budget_usd, point.loss, f"{count_text(point.tokens)} tokens", role) for point in of_model]
    labels = Labels(f"loss, nats per token (law: {found.law})", across=_budget, at=tuple(budgets), names=tuple(names))
    title = format_loss_ends(found)
    return panel(traces, across, up, labels, Caption(title, title, "budget"), width)


def _budget(usd: float) -> str:
    return words.usd(usd).removesuffix(".00")


def loss_picture(found: LossFrontier) -> Scene | None:
    """Return the curve in the size of a picture, with the first line of its text as the title; None without a point."""
    if not found.points:
        return None
    with words.unwrapped():
        title = render_loss_frontier(found).partition("\n")[0]
    return replace(loss_scene(found, PICTURE), title=title)
