"""What a run says of the spread of memory that only ran, or ran out of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.predictions import Comparison, Prediction
from benchmarks.calibration.evidence import weighted_quantile
from benchmarks.calibration.verdicts import (
    GRID,
    Errors,
    Scatter,
    errors_of,
    expected_errors,
    has_verdict,
    scatter_of,
    shared_part,
    surprise,
)
from planner.estimates.uncertainty import MemorySpread

SCATTER = Scatter(between=0.2, within=0.1)


def measured(error: float, owner: str = "some") -> Prediction:
    """A run whose peak was measured, off by `error` in ln."""
    row = Row(1, {"source": f"{owner}/runs: table", "framework": "hf", "status": "ok"})
    return Prediction(row, peak=Comparison(1e10 * math.exp(error), 1e10, 0.0, 0.0))


def judged(edge: float, status: str = "ok", owner: str = "some") -> Prediction:
    """A run without a peak, that an error of `edge` would just let fit."""
    row = Row(1, {"source": f"{owner}/runs: table", "framework": "hf", "status": status})
    spread = MemorySpread(0.2, 0.5)
    return Prediction(row, need_bytes=1e10, widest_margins={0.5: math.expm1(edge)}, fit_spread=spread)


def reach(errors: Errors) -> float:
    """The error that 95 % of the weight does not exceed."""
    return weighted_quantile(errors.values, 0.95, errors.weights)


def test_the_scatter_is_between_organisations_and_within_them() -> None:
    """Two organisations at +0.3 and -0.3, whose runs lie 0.1 around that."""
    rows = [measured(0.3 + x, "one") for x in (-0.1, 0.0, 0.1)] + [measured(-0.3 + x, "two") for x in (-0.1, 0.0, 0.1)]
    found = scatter_of(rows)
    assert found.between == pytest.approx(0.3)
    assert found.within == pytest.approx(0.1 / 0.6745)
    assert scatter_of([]).between > 0.0


def test_without_evidence_a_further_run_is_as_uncertain_as_both_parts() -> None:
    """0.2 and 0.1 as squares: 1.645 times 0.2236 at 95 %, on a grid of 0.02."""
    assert reach(expected_errors([], SCATTER)) == pytest.approx(1.645 * math.hypot(0.2, 0.1), abs=0.02)


def test_runs_that_ran_near_the_edge_narrow_what_is_expected_and_failures_widen_it() -> None:
    """Ten runs that just fitted say that the shared part is not large; ten that just failed that it is."""
    before = reach(expected_errors([], SCATTER))
    ran, failed = [judged(0.1)] * 10, [judged(0.1, "oom")] * 10
    assert reach(expected_errors(ran, SCATTER)) < before - 0.1
    assert reach(expected_errors(failed, SCATTER)) > before + 0.1
    assert reach(expected_errors([judged(1.5)] * 10, SCATTER)) == pytest.approx(before)


def test_many_alike_runs_count_by_the_root_of_their_number() -> None:
    """Eighty runs of one organisation say as much as forty that were independent."""
    forty = 2.0 * (shared_part([judged(0.1)] * 20, SCATTER) + 0.5 * (GRID / 0.2) ** 2) - 0.5 * (GRID / 0.2) ** 2
    assert shared_part([judged(0.1)] * 80, SCATTER) == pytest.approx(forty - forty.max())


def test_a_measured_run_sets_the_shared_part() -> None:
    """Five runs 0.3 above their estimate: most likely 0.3 * (5 / 0.01) / (5 / 0.01 + 1 / 0.04)."""
    found = GRID[np.argmax(shared_part([measured(0.3)] * 5, SCATTER))]
    assert found == pytest.approx(0.3 * 500 / 525, abs=0.011)


def test_an_expected_verdict_is_no_evidence() -> None:
    """A run at an even chance counts half, one that could hardly fail hardly."""
    assert surprise(judged(0.0), SCATTER) == pytest.approx(0.5)
    assert surprise(judged(0.0, "oom"), SCATTER) == pytest.approx(0.5)
    assert surprise(judged(1.0), SCATTER) < 0.001
    assert surprise(judged(1.0, "oom"), SCATTER) > 0.999


def test_a_row_counts_as_the_errors_that_its_verdict_leaves() -> None:
    """Measured rows as they are; a run that ran none above its edge, one that failed none below."""
    rows = [measured(0.05), judged(0.1), judged(-0.1, "oom")]
    found = errors_of(rows, np.array([2.0, 1.0, 1.0]), SCATTER)
    assert (found.values[0], found.weights[0]) == (pytest.approx(0.05), 2.0)
    ran, failed = found.weights[1 : 1 + GRID.size], found.weights[1 + GRID.size :]
    assert ran[GRID > 0.101].sum() == 0.0 and failed[GRID < -0.101].sum() == 0.0
    assert ran.sum() == pytest.approx(surprise(rows[1], SCATTER))
    assert [has_verdict(p) for p in rows] == [False, True, True]


def test_a_verdict_that_contradicts_everything_keeps_its_side() -> None:
    """A run that ran at a fifth of its need: all its weight lies where it can."""
    far = judged(-1.9)
    found = errors_of([measured(0.0), *[measured(0.0)] * 50, far], np.ones(52), SCATTER)
    assert found.weights[51:][GRID > -1.89].sum() == 0.0
    assert found.weights[51:].sum() > 0.9
