"""What every solver adapter owes: hand-worked programs, run on each of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from planner.errors import NoPlanError, SolverError
from planner.formulation.program import Program, Rows, sparse_rows
from planner.formulation.solvers import ADAPTERS, Limit, SolveResult, Termination, get_solver, run

INF = float("inf")


def rows(*entries: tuple[dict[int, float], float, float]) -> Rows:
    """A family of rows from ({column: coefficient}, lower, upper)."""
    triplets = [(i, c, v) for i, (terms, _, _) in enumerate(entries) for c, v in terms.items()]
    row, columns, values = zip(*triplets, strict=True) if triplets else ((), (), ())
    return sparse_rows(
        "row",
        np.array(row, dtype=np.int64),
        np.array(columns, dtype=np.int64),
        np.array(values, dtype=float),
        np.array([entry[1] for entry in entries], dtype=float),
        np.array([entry[2] for entry in entries], dtype=float),
        str,
    )


def program(
    cost: list[float], family: Rows, integer: list[bool], upper: list[float] | None = None, offset: float = 0.0
) -> Program:
    """Minimise `cost` over 0 <= x <= upper (1 unless given)."""
    size = len(cost)
    return Program(
        lower=np.zeros(size),
        upper=np.ones(size) if upper is None else np.array(upper, dtype=float),
        integer=np.array(integer),
        cost=np.array(cost, dtype=float),
        rows=(family,),
        variable_name=lambda i: f"x[{i}]",
        offset=offset,
    )


@dataclass(frozen=True)
class Known:
    """A program and what is true of it; `objective` None where no solution exists."""

    name: str
    program: Program
    objective: float | None
    terminations: tuple[Termination, ...] = (Termination.OPTIMAL,)


KNOWN_PROGRAMS = (
    # The cheapest of three.
    Known("one job", program([3.0, 2.0, 4.0], rows(({0: 1, 1: 1, 2: 1}, 1, 1)), [True] * 3), 2.0),
    # Values 10, 13, 7 with weights 3, 4, 2 and room for 6: the second and third, 20.
    Known("knapsack", program([-10.0, -13.0, -7.0], rows(({0: 3, 1: 4, 2: 2}, -INF, 6)), [True] * 3), -20.0),
    # Two equal ways: any of them, one objective.
    Known("tie", program([2.5, 2.5], rows(({0: 1, 1: 1}, 1, 1)), [True] * 2), 2.5),
    # 10 on demand, 6 cheaper on spot, share at most 0.35 of the chosen: 10 - 6 * 0.35 = 7.9.
    Known(
        "fractional share", program([10.0, -6.0], rows(({0: 1}, 1, 1), ({1: 1, 0: -0.35}, -INF, 0)), [True, False]), 7.9
    ),
    # The share is worth 6 but costs 4 of the room of 1: 10 - 6 / 4 = 8.5, plus the constant 1.
    Known("offset", program([10.0, -6.0], rows(({0: 1}, 1, 1), ({1: 4}, -INF, 1)), [True, False], offset=1.0), 9.5),
    # A row held on both sides: 2 <= 2 x + y <= 2.5 with x, y of 1, x dearer than two y: y = 1, x = 1.
    Known("ranged row", program([5.0, 1.0], rows(({0: 2, 1: 1}, 2, 2.5)), [True, True]), 5.0),
    # Integers beyond 1: 3 x >= 10 needs x = 4.
    Known("integer", program([1.0], rows(({0: 3}, 10, INF)), [True], upper=[10]), 4.0),
    # A variable that stands nowhere must not confuse the order of the others.
    Known("idle variable", program([0.0, 1.0, 0.0, 2.0], rows(({1: 1, 3: 1}, 1, 1)), [True] * 4), 1.0),
    Known("nothing to pay", program([0.0, 0.0], rows(({0: 1, 1: 1}, 1, 1)), [True] * 2), 0.0),
    Known(
        "two rows exclude each other",
        program([1.0, 1.0], rows(({0: 1, 1: 1}, 2, INF), ({0: 1, 1: 1}, -INF, 1)), [True] * 2),
        None,
        (Termination.INFEASIBLE,),
    ),
    # 2 x + 2 y = 1 has fractional solutions only.
    Known(
        "no integer solution",
        program([1.0, 1.0], rows(({0: 2, 1: 2}, 1, 1)), [True] * 2),
        None,
        (Termination.INFEASIBLE,),
    ),
    Known(
        "a row without terms", program([1.0], rows(({0: 1}, 1, 1), ({}, 1, 1)), [True]), None, (Termination.INFEASIBLE,)
    ),
)


@pytest.mark.parametrize("solver", ADAPTERS)
@pytest.mark.parametrize("known", KNOWN_PROGRAMS, ids=lambda known: known.name)
def test_solver_finds_the_known_optimum(solver: str, known: Known) -> None:
    """Each adapter returns the hand-worked objective, a bound not above it, and values that fit."""
    result = run(known.program, solver)
    assert result.termination in known.terminations
    assert result.limit is None
    if known.objective is None:
        assert not result.has_solution
        with pytest.raises(NoPlanError):
            _ = result.values
        assert result.objective is None
        return
    assert result.objective == pytest.approx(known.objective, abs=2e-6)
    if solver == "cp-sat" and not known.program.integer.all():
        assert result.bound is None and result.gap is None  # proven on a grid of shares only
    else:
        assert result.bound is not None and result.bound <= known.objective + 2e-6
        assert result.gap is not None and result.gap <= 1e-5
    assert known.program.violation(result.values) <= 2e-6
    assert np.all(result.values[known.program.integer] == np.round(result.values[known.program.integer]))


@pytest.mark.parametrize("solver", ["highs", "cbc", "scip"])
def test_an_unbounded_program_has_no_plan(solver: str) -> None:
    """Unboundedness is told, not answered with a number (CP-SAT has no unbounded variables)."""
    result = run(program([-1.0], rows(({0: 1}, 0, INF)), [True], upper=[INF]), solver)
    assert result.termination in (Termination.UNBOUNDED, Termination.INFEASIBLE_OR_UNBOUNDED)
    assert not result.has_solution


def market_split(rows_count: int = 4, size: int = 30) -> Program:
    """Row sums to be hit as closely as possible: hard for branch and bound, never infeasible."""
    draw = np.random.default_rng(7)
    weights = draw.integers(0, 100, size=(rows_count, size))
    entries = []
    for i, row in enumerate(weights):
        terms = {c: float(v) for c, v in enumerate(row)}
        terms |= {size + 2 * i: 1.0, size + 2 * i + 1: -1.0}
        half = float(row.sum() // 2)
        entries.append((terms, half, half))
    cost = [0.0] * size + [1.0] * (2 * rows_count)
    upper = [1.0] * size + [10_000.0] * (2 * rows_count)
    return program(cost, rows(*entries), [True] * len(cost), upper=upper)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ADAPTERS)
def test_a_time_limit_is_never_reported_as_an_optimum(solver: str) -> None:
    """Stopped early, a solver says so, its gap is not closed, and what it has keeps every row."""
    hard = market_split()
    result = run(hard, solver, time_limit_seconds=0.5)
    assert result.termination in (Termination.FEASIBLE, Termination.NO_SOLUTION)
    assert result.limit is not None
    if result.has_solution:
        assert hard.violation(result.values) <= 1e-5
        assert result.gap is None or result.gap > 1e-3
        if result.bound is not None and result.objective is not None:
            assert result.bound <= result.objective


SOLVES = """
import sys, threading
import numpy as np
from tests.formulation.test_solver_contract import market_split
from planner.formulation.solvers import run

def solve() -> None:
    for _ in range(3):
        run(market_split(3, 12), relative_gap=1e-7, time_limit_seconds=0.5)

threads = [threading.Thread(target=solve) for _ in range(8)]
for thread in threads:
    thread.start()
for number in range(1000):
    print(number, flush=True)
for thread in threads:
    thread.join()
print("end")
"""


@pytest.mark.slow
def test_threads_that_solve_leave_standard_output_to_the_others() -> None:
    """Eight solve while another prints a thousand lines: all arrive, and nothing else does."""
    done = subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*map(str, range(1000)), "end"]


FORKS = """
import os, resource, sys
from tests.formulation.test_solver_contract import market_split
from planner.formulation.solvers import run

def solve() -> float:
    return run(market_split(3, 12), sys.argv[1], relative_gap=1e-7).objective

before = solve()
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
resource.setrlimit(resource.RLIMIT_CPU, (600, 600))  # without its threads a solver waits at full speed
os._exit(0 if solve() == before else 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("solver", ADAPTERS)
def test_a_process_that_has_solved_may_fork(solver: str) -> None:
    """A server that loads, tries and then forks its workers: each of them solves, too."""
    done = subprocess.run([sys.executable, "-c", FORKS, solver], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_solver_is_named() -> None:
    """The error names what was asked for and what there is."""
    with pytest.raises(SolverError, match=r"'gurobi'.*highs"):
        get_solver("gurobi")


@pytest.mark.parametrize("broken", [float("nan"), INF])
def test_a_program_with_a_broken_number_is_refused(broken: float) -> None:
    """A nan or infinite coefficient never reaches a solver."""
    with pytest.raises(SolverError, match="finite"):
        run(program([broken], rows(({0: 1}, 1, 1)), [True]))


def test_a_gap_is_known_only_where_a_bound_is() -> None:
    """Without a bound the gap is None; an objective of 0 that is proven has gap 0."""
    plain = {"solver": "s", "seconds": 0.0, "solution": np.zeros(1)}
    assert SolveResult(Termination.FEASIBLE, objective=5.0, limit=Limit.TIME, **plain).gap is None
    assert SolveResult(Termination.OPTIMAL, objective=0.0, bound=0.0, **plain).gap == 0.0
    assert SolveResult(Termination.FEASIBLE, objective=5.0, bound=4.0, **plain).gap == pytest.approx(0.2)
