"""Curves on a grid of horizons that hangs on the run alone, so that whoever asks for a guaranteed time gets the same.

A plan that is solved for one deadline and a frontier over all of them must not tell two prices for one thing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.spot.backward import Backward
from planner.spot.curve import (
    BATCH_POINTS,
    BATCH_TICKS,
    BLOCK,
    Curve,
    CurvePoint,
    curve_of,
    demand_counts,
    start_counts,
    ticks_of,
)
from planner.spot.grids import Question, chain_of, checked
from planner.spot.run import SpotRun
from planner.spot.states import SpotStates

FIRST_SLACK = 0.25
"""Slack of the shortest horizon over the work; each further one has twice as much."""
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


class Curves:
    """Curves that were computed once, for whoever asks again: a changed budget or deadline mostly needs no new one."""

    def __init__(self) -> None:
        self._known: dict[Key, Curve] = {}

    def of(self, asked: Sequence[Key]) -> tuple[Curve, ...]:
        """The curve of each (run, market, horizon); those that are not known yet are computed together, in blocks.

        ValueError where on-demand machines are not sold or do not make the horizon.
        """
        missing = list(dict.fromkeys(key for key in asked if key not in self._known))
        questions = [Question(*key) for key in missing]
        for question in questions:
            checked(question.run, question.guaranteed_hours)
        order = sorted(range(len(missing)), key=lambda i: questions[i].part.wanted_ticks)
        for first in range(0, len(order), BLOCK):
            block = order[first : first + BLOCK]
            for number, curve in zip(block, _together([questions[i] for i in block]), strict=True):
                self._known[missing[number]] = curve
        return tuple(self._known[key] for key in asked)

    def points(self, asked: Sequence[Key]) -> tuple[CurvePoint, ...]:
        """The best of each run on its market within a guaranteed time; ValueError where even on demand takes longer."""
        found = self.of([(run, states, horizon_of(run, hours)) for run, states, hours in asked])
        return tuple(curve.at(hours) for curve, (_, _, hours) in zip(found, asked, strict=True))


def _together(questions: Sequence[Question]) -> list[Curve]:
    parts = [question.part for question in questions]
    steps = ticks_of(parts, BATCH_TICKS)
    chain = chain_of(parts, steps, BATCH_POINTS)
    backward = Backward(chain)
    hours = [[question.run.work_hours + question.run.restart_hours] for question in questions]
    found = [[demand_counts(question.run)] for question in questions]
    work = np.array([part.run.work_hours for part in parts])
    restart = np.array([part.run.restart_hours for part in parts])
    for number in range(1, steps + 1):
        moment = backward.step()
        slack = number * chain.tick - work
        if not (slack > restart).any():
            continue
        counts = start_counts(chain, moment.counts, np.maximum(slack, 0.0))
        for i, question in enumerate(questions):
            if slack[i] > restart[i]:
                hours[i].append((slack[i] + work[i]) * question.parts)
                found[i].append(counts[i] * question.parts)
    return [
        curve_of(question.run, np.array(hours[i]), np.array(found[i])) for i, question in enumerate(questions)
    ]
