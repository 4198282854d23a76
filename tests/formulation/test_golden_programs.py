"""The text of the program for each constraint family, held word by word."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np

from planner.formulation import constraints
from planner.formulation.constraints import build_program
from planner.formulation.program import SharedLimits, VariableLayout
from tests.helpers.candidate_tables import NAN, gpus_limit, make_table
from tests.helpers.program_text import program_text

TABLE = make_table(
    [
        {"job": "x", "offer": "a", "provider": "p", "instances": 2, "gpus": 8, "run_h": (4.0, NAN),
         "run_usd": (12.0, NAN), "fixed_usd": 1.0, "start_h": 0.5, "penalty_usd": 3.0},
        {"job": "x", "offer": "b", "provider": "q", "instances": 1, "gpus": 4, "run_h": (5.0, 8.0),
         "late_h": (6.0, 11.0), "run_usd": (10.0, 4.0), "late_usd": (11.0, 6.0),
         "share_low": 0.25, "share_high": 0.75},
        {"job": "y", "offer": "b", "provider": "q", "instances": 3, "gpus": 12, "run_h": (NAN, 7.0),
         "run_usd": (NAN, 9.0)},
    ],
    jobs=("x", "y"),
    offers=("a", "b"),
)  # fmt: skip

ASSIGNMENT = """\
  assignment[x]: 1 choose[x,a,2,0] + 1 choose[x,b,1,1] = 1
  assignment[y]: 1 choose[y,b,3,2] = 1
"""
SHARES = """\
  spot_floor[x,b,1,1]: 0 <= - 0.25 choose[x,b,1,1] + 1 share[x,b,1,1]
  spot_cap[x,b,1,1]: - 0.75 choose[x,b,1,1] + 1 share[x,b,1,1] <= 0
"""
REST = """\
bounds
  0 <= share[x,b,1,1] <= 0.75
integer
  choose[x,a,2,0]
  choose[x,b,1,1]
  choose[y,b,3,2]
"""
COST = "16 choose[x,a,2,0] + 10 choose[x,b,1,1] + 9 choose[y,b,3,2] - 6 share[x,b,1,1]"


def text_of(objective: str, rows: str, rest: str = REST) -> str:
    """The whole text around the rows of one family."""
    return f"minimise\n  {objective}\nsubject to\n{ASSIGNMENT}{SHARES}{rows}{rest}"


def test_a_bare_question_has_assignment_and_share_rows_only() -> None:
    """One way per job; only the candidate with both markets and room between floor and cap has a share."""
    assert program_text(build_program(VariableLayout(TABLE, SharedLimits()))) == text_of(COST, "")


def test_the_budget_row_counts_late_dollars_without_penalties() -> None:
    """13 is fixed 1 and run 12; the share saves 11 - 6 late dollars."""
    row = "  budget: 13 choose[x,a,2,0] + 11 choose[x,b,1,1] + 9 choose[y,b,3,2] - 5 share[x,b,1,1] <= 25.5\n"
    assert program_text(build_program(VariableLayout(TABLE, SharedLimits(budget_usd=25.5)))) == text_of(COST, row)


def test_stock_counts_instances_on_known_offers_only() -> None:
    """A name that the table does not have makes no row."""
    row = "  stock[b]: 1 choose[x,b,1,1] + 3 choose[y,b,3,2] <= 3\n"
    assert program_text(build_program(VariableLayout(TABLE, SharedLimits(stock={"b": 3, "z": 1})))) == text_of(
        COST, row
    )


def test_hours_paid_for_count_machine_hours_on_their_offer_only() -> None:
    """2.5 and 7 machine hours at the confidence, of 8 that are left."""
    table = replace(TABLE, rented_h=np.array([1.0, 2.5, 7.0]))
    row = "  committed[b]: 2.5 choose[x,b,1,1] + 7 choose[y,b,3,2] <= 8\n"
    assert program_text(build_program(VariableLayout(table, SharedLimits(committed={"b": 8.0})))) == text_of(COST, row)


def test_gpus_and_quota_count_gpus() -> None:
    """All of them under max_gpus, those of one provider under its quota."""
    row = (
        "  gpus: 8 choose[x,a,2,0] + 4 choose[x,b,1,1] + 12 choose[y,b,3,2] <= 20\n"
        "  quota[q]: 4 choose[x,b,1,1] + 12 choose[y,b,3,2] <= 16\n"
    )
    assert program_text(
        build_program(VariableLayout(TABLE, SharedLimits(peaks=gpus_limit(TABLE, 20), quota={"q": 16})))
    ) == text_of(COST, row)


def test_the_time_objective_minimises_the_last_finish() -> None:
    """Late hours with start; spot adds 11 - 6 hours per unit of share."""
    row = (
        "  finish[x]: 0 <= - 4.5 choose[x,a,2,0] - 6 choose[x,b,1,1] - 5 share[x,b,1,1] + 1 last\n"
        "  finish[y]: 0 <= - 7 choose[y,b,3,2] + 1 last\n"
    )
    rest = REST.replace("<= 0.75\n", "<= 0.75\n  0 <= last <= 9.75\n")
    assert program_text(build_program(VariableLayout(TABLE, SharedLimits(objective="time")))) == text_of(
        "1 last", row, rest
    )


def test_the_value_of_time_prices_expected_hours() -> None:
    """2 $ per hour: 16 + 2 * 4.5, 10 + 2 * 5, 9 + 2 * 7, -6 + 2 * 3."""
    text = program_text(build_program(VariableLayout(TABLE, SharedLimits(value_of_time_usd_per_hour=2.0))))
    assert text.splitlines()[1] == "  25 choose[x,a,2,0] + 20 choose[x,b,1,1] + 23 choose[y,b,3,2]"


def test_every_family_states_its_equation() -> None:
    """The row name of a family leads back to its function, whose docstring has the equation as its second paragraph."""
    for family in constraints.FAMILIES:
        equation = (inspect.getdoc(family) or "").splitlines()[2]
        assert equation.startswith(family.__name__.removesuffix("_rows"))
        assert "=" in equation
