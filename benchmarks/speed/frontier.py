"""How fast frontiers are traced, against solving: a part of `python -m benchmarks.speed`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from benchmarks.speed.timing import AS_OF, Line, best_times, question_of

if TYPE_CHECKING:
    from planner.results.frontier import Frontier
    from planner.scenario.scenario import Scenario

FIVE_JOBS = (
    ("mistral-7b", 90e6, 48.0),
    ("llama-2-13b", 100e6, 72.0),
    ("tinyllama-1.1b", 100e6, 24.0),
    ("llama-2-7b", 60e6, 48.0),
    ("mistral-7b", 200e6, 96.0),
)
"""Architecture, tokens and deadline in hours of five jobs that share a budget and GPUs."""
MOST_SOLVES = 6
"""Breakpoints of the frontier, evenly spread, that are solved from scratch for the comparison."""


def frontier_lines(repeat: int) -> list[Line]:
    """Measure the frontier of one job against one solve and a solve per breakpoint; and of five jobs, 20 points."""
    from planner.analysis.frontier_question import frontier_of_jobs
    from planner.scenario.scenario import SolveOptions
    from planner.solving.solve import solve

    scenario, library = question_of("quickstart-any")
    options = SolveOptions(as_of=datetime.date.fromisoformat(AS_OF))
    found = frontier_of_jobs(scenario, options, library)
    whole = best_times(lambda: frontier_of_jobs(scenario, options, library), repeat)
    once = best_times(lambda: solve(scenario, options, library), repeat)

    some = found.points[:: -(-len(found.points) // MOST_SOLVES)]

    def from_scratch() -> None:
        for point in some:
            job = scenario.jobs[0].model_copy(update={"deadline_hours": point.hours * (1 + 1e-9)})
            solve(scenario.model_copy(update={"jobs": (job,)}), options, library)

    each = best_times(from_scratch, 0)
    all_points = each.cpu * len(found.points) / len(some)
    five = _five_jobs()
    joint: list[Frontier] = []
    joined = best_times(lambda: joint.append(frontier_of_jobs(five, options, library, points=20)), 0)
    basis = f"{whole} for {len(found.points)} points of {found.candidates.made:,} priced ways"
    return [
        Line("frontier of one job / one solve", whole.cpu / once.cpu, "x", 2.0, True, f"{basis}; a solve {once}"),
        Line(
            "solving from scratch at each point / frontier", all_points / whole.cpu, "x", 5.0, False,
            f"{each} for {len(some)} of them; {basis}",
        ),
        Line(
            "frontier of five jobs, 20 points", joined.cpu, "s", 5.0, True,
            f"{joined}; {len(joint[0].points)} points; {'; '.join(joint[0].notes)}",
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
    changes = {"name": "five-jobs", "jobs": jobs, "limits": limits, "schedule": "side_by_side"}
    return scenario.model_copy(update=changes)
