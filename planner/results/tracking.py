"""The result of `track`: a running job against its plan, what it will take, and what could be done about it."""

from __future__ import annotations

from planner.results.html import html_table
from planner.results.plan import Plan
from planner.results.plan_parts import Hours, Part, Spread


class ObservedProgress(Part):
    """What the logs of a run say; hours count from the order of its machines."""

    steps: int
    share_done: float
    step_seconds: float | None
    """Mean without warm-up and standstills; None where the logs time nothing."""
    step_spread: float | None
    """Spread of single steps, or of logging intervals, as a share; None where only the whole run is timed."""
    timed_steps: int
    warm_up_steps: int
    tokens_per_second: float | None
    """In the unit of the plan, tokens or images, by wall time: evaluation and checkpoints are in it."""
    elapsed_hours: float
    standing_hours: float
    """In which nothing advanced: between attempts, and where the clock of the log stands out."""
    restarts: int
    repeated_steps: int
    peak_vram_gib: float | None
    peak_kind: str | None
    free_vram_gib: float | None
    """Usable memory of one GPU minus the peak."""
    gpu_utilisation: float | None
    """Mean share of time in which the GPUs computed."""
    last_loss: float | None
    spent_usd: float
    spent_is_given: bool
    """Whether the dollars were given; else they follow from the prices of the plan."""


class PlannedProgress(Part):
    """The same figures of the plan."""

    steps: int
    step_seconds: float
    tokens_per_second: float
    unit: str
    hours: Hours
    cost_usd: Spread
    peak_vram_gib: float
    usable_vram_gib: float
    deadline_hours: float | None
    deadline_probability: float | None
    confidence: float
    budget_usd: float | None


class ProjectedEnd(Part):
    """Hours and dollars of the whole job, from the order of its machines."""

    hours: Spread
    cost_usd: Spread
    deadline_probability: float | None
    left_hours: float


class Cause(Part):
    """A part of the difference between the projected and the planned hours."""

    what: str
    hours: float


class Choice(Part):
    """One way to do what is left; dollars and hours of what is left alone."""

    what: str
    """`stay`, `move`, or `restart` on the same machines."""
    machines: str
    provider: str
    cost_usd: float
    hours: Spread
    deadline_probability: float | None


class Tracking(Part):
    """The result of `planner track` for one job."""

    scenario: str
    job: str
    logs: tuple[str, ...]
    """Each with its format."""
    observed: ObservedProgress
    planned: PlannedProgress
    projected: ProjectedEnd
    causes: tuple[Cause, ...]
    """They add up to the difference of the hours."""
    notes: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    """What could be done now, the best first; empty unless it was asked."""
    replan: Plan | None = None
    """The plan of what is left, of the first choice."""

    @property
    def is_on_time(self) -> bool:
        """Whether the deadline is kept with the confidence that the job asks for; true without a deadline."""
        chance = self.projected.deadline_probability
        return chance is None or chance >= self.planned.confidence

    def _repr_html_(self) -> str:
        """Return the observed and planned figures as a table for notebooks."""
        seen, plan, end = self.observed, self.planned, self.projected
        rows = [
            ("seconds per step", f"{seen.step_seconds or 0:.3g}", f"{plan.step_seconds:.3g}"),
            ("hours", f"{end.hours.expected:.1f}", f"{plan.hours.expected:.1f}"),
            ("cost", f"${end.cost_usd.expected:,.2f}", f"${plan.cost_usd.expected:,.2f}"),
        ]
        return html_table(f"{self.job}: {100 * seen.share_done:.0f} % done", ("what", "projected", "planned"), rows)
