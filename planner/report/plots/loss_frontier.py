"""A frontier of loss against dollars as a picture, with the sizes along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.choices.model import count, format_loss_ends
from planner.report.plots.style import COLORS, NOTE_SIZE, TEXT_COLOR, open_picture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.results.choices.model import LossFrontier


def draw_loss_frontier(found: LossFrontier, path: str | Path, caption: Sequence[str]) -> None:
    """Draw loss over dollars, one dot and label per budget; raises like `open_picture`."""
    points = found.points
    models = list(dict.fromkeys(one.architecture for one in points))
    with open_picture(path, caption, height=4.4, title=format_loss_ends(found)) as (_, axes):
        axes.plot([one.budget_usd for one in points], [one.loss for one in points], color=TEXT_COLOR, linewidth=1.0)
        last = ""
        for one in points:
            color = COLORS[models.index(one.architecture) % len(COLORS)]
            axes.plot([one.budget_usd], [one.loss], "o", color=color, markersize=6)
            # The area above a falling line is free: a model is named at its first dot.
            name = f", {words.sanitise(one.architecture)} ({count(one.parameters)})" if one.architecture != last else ""
            axes.annotate(
                f"{count(one.tokens)}{'' if last else ' tokens'}{name}",
                (one.budget_usd, one.loss),
                xytext=(5, 5),
                textcoords="offset points",
                fontsize=NOTE_SIZE,
                color=color,
            )
            last = one.architecture
        axes.set_xscale("log")
        ticks = [one.budget_usd for one in points][::2]
        axes.set_xticks(ticks, [words.usd(usd).removesuffix(".00") for usd in ticks])
        axes.minorticks_off()
        axes.set_xlim(right=max(ticks[-1], points[-1].budget_usd) * 2.0)
        axes.set_ylim(top=axes.get_ylim()[1] + 0.08 * (axes.get_ylim()[1] - axes.get_ylim()[0]))
        axes.set_xlabel("budget")
        axes.set_ylabel(f"loss, nats per token (law: {found.law})")
