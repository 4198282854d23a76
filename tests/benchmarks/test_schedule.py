"""Readers of published scheduling instances, on small ones written here, and portfolios that are drawn."""

from __future__ import annotations

from pathlib import Path

from benchmarks.schedule.instances import best_known, read_flexible_shop, read_psplib
from benchmarks.schedule.portfolios import SHARED, draw
from planner.timetable.cp_sat_timetable import solve_timetable

PROJECT = """jobs (incl. supersource/sink ):  4
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        1          1           4
   3        1          1           4
   4        1          0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2
------------------------------------------------------------------------
  1      1     0       0    0
  2      1     5       2    0
  3      1     4       2    1
  4      1     0       0    0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  R 2
    3    1
"""
SHOP = "2 2 1.5\n2 2 1 3 2 5 1 2 4\n1 1 1 3\n"


def test_a_project_is_read_and_solved(tmp_path: Path) -> None:
    """Two activities that do not fit beside each other take 5 + 4."""
    path = tmp_path / "p.sm"
    path.write_text(PROJECT, encoding="utf-8")
    problem = read_psplib(path)
    assert [task.after for task in problem.tasks] == [(), ((0, 0),), ((0, 0),), ((1, 0), (2, 0))]
    assert [one.capacity for one in problem.resources] == [3, 1]
    assert solve_timetable(problem).objective == 9


def test_a_flexible_shop_is_read_and_solved(tmp_path: Path) -> None:
    """3 + 4 on machines 1 and 2, while the other job waits for machine 1: the last ends after 7."""
    path = tmp_path / "s.fjs"
    path.write_text(SHOP, encoding="utf-8")
    problem = read_flexible_shop(path)
    assert [len(task.modes) for task in problem.tasks] == [2, 1, 1]
    assert solve_timetable(problem).objective == 7


def test_best_known_makespans_may_be_a_range(tmp_path: Path) -> None:
    """A range is the best known lower and upper bound."""
    (tmp_path / "optimum.csv").write_text("problem,optimum\na.sm,9\nb.fjs,24..26\n", encoding="utf-8")
    assert best_known(tmp_path) == {"a.sm": (9, 9), "b.fjs": (24, 26)}


def test_drawn_portfolios_are_the_same_every_time_and_share_something() -> None:
    """Equal seeds draw equal jobs; each kind has a finite thing."""
    for shared in SHARED:
        one, other = draw(12, shared), draw(12, shared)
        assert one.jobs == other.jobs and len(one.jobs) == 12
        finite = [offer for offer in one.offers if offer.own or offer.is_reservation]
        assert finite or one.limits.max_gpus is not None
