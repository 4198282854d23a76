"""Curves on a grid of horizons that hangs on the run alone, so that whoever asks for a guaranteed time gets the same.

A plan that is solved for one deadline and a frontier over all of them must not tell two prices for one thing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.market.states import SpotStates
from planner.spot.policy.backward_induction import BackwardInduction
from planner.spot.policy.cost_curve import Curve, CurvePoint, build_curve, demand_counts, start_counts
from planner.spot.policy.discretisation import CurveRequest, build_chain_for, check_run
from planner.spot.policy.run import SpotRun

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_TICKS, BATCH_POINTS = 128, 96
"""Where many candidates are compared: within one percent, two at twice the time of the work."""
BLOCK = 8
"""Runs that are computed together: their arrays stay in the processor's cache."""
FIRST_SLACK = 0.25
"""Slack of the shortest horizon over the work; each further one has twice as much."""
MAX_STORED_POINTS = 80
"""Times of a horizon that a curve tells: closer ones differ by less than the grid errs."""
MOST_DOUBLINGS = 5
"""Beyond slack of 8 times the work nothing worth telling is saved: the longest horizon serves all times beyond it."""

Key = tuple[SpotRun, SpotStates, float]
"""A run, its market, and a horizon of it."""


def horizon_of(run: SpotRun, guaranteed_hours: float) -> float:
    """The horizon that answers for a guaranteed time: work + restart + work/4 x 2^i, the first that reaches it."""
    needed = run.work_hours + run.restart_hours
    slack = FIRST_SLACK * run.work_hours
    for _ in range(MOST_DOUBLINGS):
        if needed + slack >= guaranteed_hours:
            break
        slack *= 2
    return needed + slack


def horizons_up_to(run: SpotRun, longest_hours: float) -> list[float]:
    """All horizons up to the one that answers for `longest_hours`."""
    last = horizon_of(run, longest_hours)
    found = [horizon_of(run, run.work_hours + run.restart_hours)]
    while found[-1] < last * (1 - 1e-12):
        found.append(horizon_of(run, found[-1] * (1 + 1e-9) + 1e-9))
    return found


class CurveCache:
    """Curves that were computed once, for whoever asks again: a changed budget or deadline mostly needs no new one."""

    def __init__(self) -> None:
        self._known: dict[Key, Curve] = {}

    def of(self, asked: Sequence[Key]) -> tuple[Curve, ...]:
        """The curve of each (run, market, horizon); those that are not known yet are computed together, in blocks.

        ValueError where on-demand machines are not sold or do not make the horizon.
        """
        missing = list(dict.fromkeys(key for key in asked if key not in self._known))
        questions = [CurveRequest(*key) for key in missing]
        for question in questions:
            check_run(question.run, question.guaranteed_hours)
        alike: dict[int, list[int]] = {}
        for number, question in enumerate(questions):
            alike.setdefault(step_count_for(question), []).append(number)
        for steps, several in alike.items():
            for first in range(0, len(several), BLOCK):
                block = several[first : first + BLOCK]
                for number, curve in zip(block, _compute_batch([questions[i] for i in block], steps), strict=True):
                    self._known[missing[number]] = curve
        return tuple(self._known[key] for key in asked)

    def points(self, run: SpotRun, states: SpotStates, longest_hours: float) -> list[CurvePoint]:
        """What can be had within each time up to `longest_hours`, by rising hours: of each horizon the part that it
        answers for. ValueError where even on demand takes longer.
        """
        horizons = horizons_up_to(run, longest_hours)
        found: list[CurvePoint] = []
        for before, curve in zip((0.0, *horizons), self.of([(run, states, one) for one in horizons]), strict=False):
            found += curve.points(before, longest_hours)
        return found

    def latest_points(self, asked: Sequence[Key]) -> list[list[CurvePoint]]:
        """Of `points` those that may be the best within each guaranteed time: the last two horizons'."""
        keys: list[list[Key]] = []
        for run, states, hours in asked:
            keys.append([(run, states, one) for one in horizons_up_to(run, hours)[-2:]])
        self.of([key for several in keys for key in several])
        found = []
        for (run, _, hours), several in zip(asked, keys, strict=True):
            first = horizons_up_to(run, hours)[-3:-2] or [0.0]
            begins = [*first, *(key[2] for key in several)]
            curves = self.of(several)
            found.append([p for begin, c in zip(begins, curves, strict=False) for p in c.points(begin, hours)])
        return found


def step_count_for(question: CurveRequest) -> int:
    """Ticks of a curve: `BATCH_TICKS` times a power of the root of 2, the first that tells its market's states apart.

    They hang on the question alone: whoever is computed beside it must not move its points.
    """
    steps = float(BATCH_TICKS)
    while steps < question.part.resolving_ticks * (1 - 1e-9):
        steps *= math.sqrt(2)
    return round(steps)


def _compute_batch(questions: Sequence[CurveRequest], steps: int) -> list[Curve]:
    parts = [question.part for question in questions]
    chain = build_chain_for(parts, steps, BATCH_POINTS)
    backward = BackwardInduction(chain)
    hours = [[question.run.work_hours + question.run.restart_hours] for question in questions]
    found = [[demand_counts(question.run)] for question in questions]
    work = np.array([part.run.work_hours for part in parts])
    restart = np.array([part.run.restart_hours for part in parts])
    every = max(1, steps // MAX_STORED_POINTS)
    for number in range(1, steps + 1):
        moment = backward.step()
        slack = number * chain.tick - work
        if (steps - number) % every or not (slack > restart).any():
            continue
        counts = start_counts(chain, moment.counts, np.maximum(slack, 0.0))
        for i, question in enumerate(questions):
            if slack[i] > restart[i]:
                hours[i].append((slack[i] + work[i]) * question.parts)
                found[i].append(counts[i] * question.parts)
    return [build_curve(question.run, np.array(hours[i]), np.array(found[i])) for i, question in enumerate(questions)]
