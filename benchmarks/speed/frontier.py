"""How fast frontiers are traced, against solving: a part of `python -m benchmarks.speed`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from benchmarks.speed.timing import AS_OF, Line, best_seconds, question_of

if TYPE_CHECKING:
    from planner.scenario.scenario import Scenario

FIVE_JOBS = (
    ("mistral-7b", 90e6, 48.0),
    ("llama-2-13b", 100e6, 72.0),
    ("tinyllama-1.1b", 100e6, 24.0),
    ("llama-2-7b", 60e6, 48.0),
    ("mistral-7b", 200e6, 96.0),
)
"""Architecture, tokens and deadline in hours of five jobs that share a budget and GPUs."""


def frontier_lines(repeat: int) -> list[Line]:
    """Measure the frontier of one job against one solve and a solve per breakpoint; and of five jobs, 20 points."""
    from planner.analysis.frontier.frontier import frontier
    from planner.scenario.scenario import SolveOptions
    from planner.solving.solve import solve

    scenario, library = question_of("quickstart-any")
    options = SolveOptions(as_of=datetime.date.fromisoformat(AS_OF))
    found = frontier(scenario, options, library)
    whole = best_seconds(lambda: frontier(scenario, options, library), repeat)
    once = best_seconds(lambda: solve(scenario, options, library), repeat)

    def from_scratch() -> None:
        for point in found.points:
            job = scenario.jobs[0].model_copy(update={"deadline_hours": point.hours * (1 + 1e-9)})
            solve(scenario.model_copy(update={"jobs": (job,)}), options, library)

    each = best_seconds(from_scratch, 1)
    five = _five_jobs()
    joint = frontier(five, options, library, points=20)
    seconds = best_seconds(lambda: frontier(five, options, library, points=20), 1)
    basis = f"{whole:.3f} s for {len(found.points)} points of {found.candidates.made:,} priced ways"
    return [
        Line("frontier of one job / one solve", whole / once, "x", 2.0, True, f"{basis}, against {once:.3f} s"),
        Line(
            "solving from scratch at each point / frontier", each / whole, "x", 5.0, False,
            f"{each:.2f} s for a solve per point, against {basis}",
        ),
        Line(
            "frontier of five jobs, 20 points", seconds, "s", 10.0, True,
            f"{len(joint.points)} points of {joint.candidates.made:,} priced ways; {'; '.join(joint.notes)}",
        ),
    ]  # fmt: skip


def _five_jobs() -> Scenario:
    """Return the five trainings that share 60 dollars and 16 GPUs on the market inventory."""
    scenario, _ = question_of("quickstart-any")
    like = scenario.jobs[0]
    jobs = tuple(
        type(like).model_validate(
            {
                "name": f"job{number}",
                "architecture": architecture,
                "work": {"tokens": tokens},
                "sequence_length": 2048,
                "global_batch": 64,
                "deadline": f"{hours}h",
            }
        )
        for number, (architecture, tokens, hours) in enumerate(FIVE_JOBS)
    )
    limits = scenario.limits.model_copy(update={"budget_usd": 60.0, "max_gpus": 16})
    return scenario.model_copy(update={"name": "five-jobs", "jobs": jobs, "limits": limits})
