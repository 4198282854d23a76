"""Small pictures of results for notebooks, as SVG: a bill, a timetable, a frontier."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from planner.drawing.bars import Lane, Stack, Stretch, lanes, stacked
from planner.drawing.curve import Breakpoint, Run, curve
from planner.drawing.scene import SERIES, Caption, Scene, framed, roles_of, to_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

SKETCH_WIDTH = 520.0
"""CSS pixels of a picture in a notebook."""
MOST_ROWS_SKETCHED = 24
"""Most bars or lanes; the table below the picture has all."""


class Charge(Protocol):
    """A line of a bill."""

    @property
    def item(self) -> str:
        """What is paid for."""

    @property
    def usd(self) -> float:
        """Dollars."""


class Placed(Protocol):
    """A job on its machines, as a plan has it: the attributes of an `Assignment` that are drawn."""

    @property
    def name(self) -> str:
        """The job."""

    @property
    def gpu(self) -> str:
        """The GPU."""

    @property
    def gpus(self) -> int:
        """Number of GPUs."""

    @property
    def provider(self) -> str:
        """Who rents the machine out."""

    @property
    def start_at_hours(self) -> float:
        """When it begins."""

    @property
    def end_at_hours(self) -> float | None:
        """When it ends; None if that is unknown."""

    @property
    def bill(self) -> Sequence[Charge]:
        """What it costs."""


def plan_picture(jobs: Sequence[Placed], is_timetable: bool) -> str:
    """Return the timetable of jobs that take turns, else the bill, as SVG."""
    return timetable_sketch(jobs) if is_timetable else bill_sketch(jobs)


def bill_sketch(jobs: Sequence[Placed]) -> str:
    """Return the bill of each job as a stacked bar; empty where nothing costs anything."""
    rows = []
    for job in jobs:
        parts = tuple((line.item, line.usd) for line in job.bill if round(line.usd, 2) > 0)
        rows.append(Stack(job.name, parts, f"${sum(line.usd for line in job.bill):,.2f}"))
    rows = [row for row in rows if row.parts][:MOST_ROWS_SKETCHED]
    words = "; ".join(f"{row.label}: {row.words}" for row in rows)
    caption = Caption("Bill", f"Bill by item: {words}")
    return _svg(stacked(rows, caption, lambda usd: f"${usd:,.2f}", "", SKETCH_WIDTH)) if rows else ""


def timetable_sketch(jobs: Sequence[Placed]) -> str:
    """Return which job runs when, a lane for each job in the order of their starts; empty without jobs."""
    if not jobs:
        return ""
    machines = {job.name: f"{job.gpus} x {job.gpu}, {job.provider}" for job in jobs}
    cards = {machines[job.name]: job.gpu for job in jobs}
    roles = dict(zip(cards, roles_of(list(cards.values())), strict=True))
    ordered = sorted(jobs, key=lambda job: (job.start_at_hours, job.name))
    rows = []
    for job in ordered[:MOST_ROWS_SKETCHED]:
        where, end = machines[job.name], job.end_at_hours or job.start_at_hours
        rows.append(Lane(job.name, (Stretch(job.start_at_hours, end, roles[where], "", f"{job.name}: {where}"),)))
    words = "; ".join(f"{job.name}: from {job.start_at_hours:.1f} h on {machines[job.name]}" for job in ordered)
    legend = list(roles.items())[: len(SERIES)]
    return _svg(lanes(rows, (), legend, Caption("Timetable", words, "hours"), SKETCH_WIDTH))


def frontier_sketch(points: Sequence[Breakpoint], runs: Sequence[Run], confidence: float | None) -> str:
    """Return cost against time; empty without points."""
    if not points:
        return ""
    sure = f" ({confidence * 100:.0f} %)" if confidence is not None else ""
    ends = f"${points[0].usd:,.2f} by {points[0].hours:.3g} h to ${points[-1].usd:,.2f} by {points[-1].hours:.3g} h"
    caption = Caption("Cost against time", ends, f"ends by{sure}, hours")
    return _svg(curve(points, runs, None, caption, SKETCH_WIDTH))


def _svg(scene: Scene) -> str:
    """Return a picture whose ids differ from those of other pictures of the notebook."""
    return to_svg(framed(scene), picture_id(scene), standalone=True)


def picture_id(scene: Scene) -> str:
    """Return an id that only pictures with the same title and the same words share."""
    return f"planner-{hashlib.sha256(f'{scene.title}: {scene.description}'.encode()).hexdigest()[:12]}"
