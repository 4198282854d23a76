"""What a run says of the spread of memory that only ran, or ran out of it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from benchmarks.accuracy.measurements import Row, read_measurements
from benchmarks.accuracy.predictions import Comparison, Prediction, Predictor
from benchmarks.calibration.evidence import Evidence, quantile_of_new_group, weighted_quantile
from benchmarks.calibration.memory_intervals import upper_sigmas
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
from planner.arrays import Floats
from planner.estimates.uncertainty import MemorySpread
from planner.library.reading import read_library

SCATTER = Scatter(between=0.2, within=0.1)


@cache
def predicted(as_unknown: bool = False) -> list[Prediction]:
    """The rows of the validation table, with their own frameworks or as those of a stranger."""
    table = read_measurements(Path(__file__).parents[2] / "benchmarks" / "validation.csv")
    return list(Predictor(read_library()).predict(table, as_unknown=as_unknown))


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


def groups(*shared: float, runs: int = 30) -> list[tuple[Floats, Floats]]:
    """Groups of runs, off by a part that they share and by up to 0.03 of their own."""
    own = np.linspace(-0.03, 0.03, runs)
    return [(one + own, np.ones(runs)) for one in shared]


def test_a_new_group_is_as_far_off_as_groups_are() -> None:
    """Twelve groups with a spread of 0.2: 95 % lie below 1.645 * 0.2 = 0.33, a little more as it is estimated."""
    shared = [0.2 * NormalDist().inv_cdf((i + 0.5) / 12) for i in range(12)]
    found = quantile_of_new_group(groups(*shared), 0.95)
    assert found == pytest.approx(0.33, abs=0.04)
    assert quantile_of_new_group(groups(*shared), 0.5) == pytest.approx(0.0, abs=1e-6)
    assert quantile_of_new_group([], 0.95) == quantile_of_new_group([(np.zeros(0), np.zeros(0))], 0.95) == 0.0


def test_no_group_decides_the_spread_of_a_new_one_alone() -> None:
    """One of seven at 0.8: the margin grows, and stays below it, whether five runs say so or fifty."""
    near = (-0.03, -0.02, -0.01, 0.01, 0.02, 0.03)
    without, few, many = (
        quantile_of_new_group([*groups(*near), *groups(*far, runs=runs)], 0.95)
        for far, runs in (((), 1), ((0.8,), 5), ((0.8,), 50))
    )
    assert without + 0.2 < few < 0.7
    assert many == pytest.approx(few, abs=0.05)
    assert quantile_of_new_group(groups(*near[:3]), 0.95) > without  # fewer groups leave more open


@pytest.mark.slow
def test_the_margin_of_an_unknown_framework_needs_no_verdicts() -> None:
    """Runs that ran or failed somewhere change nothing: publishers print what ran."""
    library, evidence = read_library(), Evidence(of_sources=True)
    rows = [p for p in predicted(as_unknown=True) if p.peak is not None]
    known = [p for p in predicted() if p.peak is not None]
    either = [upper_sigmas(known, [], some, library, evidence) for some in (rows, [*rows, judged(-0.5), judged(1.0)])]
    assert either[0]["unknown"] == either[1]["unknown"]


@pytest.mark.slow
def test_what_is_less_well_known_is_never_more_certain() -> None:
    """InternEvo as a stranger, llm-foundry by its verdicts alone, and small runs that decide little."""
    library = read_library()
    rows = [p for p in predicted() if p.peak is not None or has_verdict(p)]
    strange = [p for p in rows if p.row.text("framework") in ("internevo", "llm-foundry")]
    known = [p for p in rows if p not in strange]
    forgotten = Predictor(library).predict([p.row for p in strange], as_unknown=True)
    found = upper_sigmas(known, strange, forgotten, library, Evidence(of_sources=True))
    assert found["unknown"] >= found["documented"] >= found["usual"] > 0.0
    assert found["internevo"] >= found["usual"] and found["llm-foundry"] >= found["usual"]


def _of_thirty(one: Prediction) -> list[Prediction]:
    """The same run of thirty organisations."""
    rows = [replace(one.row, cells={**one.row.cells, "source": f"owner{n}/runs"}) for n in range(30)]
    return [replace(one, row=row) for row in rows]


def test_runs_that_leave_their_card_empty_decide_no_margin() -> None:
    """Runs of thirty others that took five times their estimate: they count where they fill their card, else not."""
    library = read_library()
    rows = [p for p in predicted() if p.peak is not None or has_verdict(p)]
    hf = [p for p in rows if p.peak and p.row.text("framework") == "hf"]
    one = next(p for p in hf if p.row.text("cpu_offload") in ("", "no"))
    assert one.peak is not None
    off = replace(one, peak=replace(one.peak, measured=5.0 * one.peak.predicted))
    full, empty = (replace(off, usable_bytes=off.peak.predicted * room) for room in (1.0, 1e9) if off.peak)
    margins = [
        upper_sigmas([*rows, *_of_thirty(more)], [], rows, library, Evidence(of_sources=True))["usual"]
        for more in (full, empty)
    ]
    assert margins[0] > margins[1] + 0.1
