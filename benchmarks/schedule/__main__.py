"""Solve published instances, `python -m benchmarks.schedule FOLDER [--seconds 60]`, or drawn portfolios, `--drawn 12`.

FOLDER has PSPLIB files (`.sm`), flexible job shops (`.fjs`) and `optimum.csv` with the best known makespans. The exit
code is 1 if a makespan is above the best known one, below a proven bound, or breaks a rule of its instance.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.schedule.at_once import measure_at_once
from benchmarks.schedule.instances import READERS, best_known
from benchmarks.schedule.portfolios import SEED, SHARED, Measured, measure
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.timetable_problem import violations
from planner.timetable.timetable_search import best_greedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTENDED = 1 / 9
"""How far the simple rule must be above the jobs alone for a plan without reservations to save a tenth: 1/(1 + 1/9)."""
WITH_RESERVATION = ("reservation", "everything")


def solve_instance(path: Path, known: tuple[int, int], seconds: float) -> bool:
    """Print what is found of one instance; return whether it is as good as the best known."""
    problem = READERS[path.suffix](path)
    hint = best_greedy(problem)
    result = solve_timetable(problem, SearchLimits(seconds, hint=hint))
    if result.schedule is None or result.objective is None:
        print(f"{path.name:<14} no timetable in {seconds:g} s")
        return False
    broken = violations(problem, result.schedule)
    first = max(hint.end(problem, index) for index in range(len(problem.tasks))) if hint else 0
    low, high = known
    good = not broken and low <= result.objective <= high
    print(
        f"{path.name:<14} {result.objective:>5} (greedy {first}, best known {high}, bound {result.bound:g}) "
        f"{result.termination.value:<9} {result.seconds:5.1f} s{'' if good else '  NOT AS GOOD'}{'; '.join(broken)}"
    )
    return good


def savings(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the median savings of all portfolios, of those that contend, and of those with a reservation to buy."""
    known = [one for one in measured if one.saved is not None]
    kinds = (
        ("all", known),
        (f"rule over {CONTENDED:.1%} above jobs alone", [one for one in known if (one.contends or 0.0) > CONTENDED]),
        ("a reservation to buy", [one for one in known if one.shared in WITH_RESERVATION]),
    )
    for name, some in kinds:
        if some:
            found, most = median(one.saved or 0.0 for one in some), median(one.most_saved or 0.0 for one in some)
            yield (
                f"cheaper than the better simple rule, {name}: {found:.1%} in the median of {len(some)} portfolios, "
                f"no plan more than {most:.1%}"
            )


def main() -> int:
    """Solve every instance of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="published instances with their optimum.csv")
    parser.add_argument("--drawn", type=int, nargs="*", default=[], help="numbers of jobs of drawn portfolios")
    parser.add_argument("--shared", nargs="*", choices=SHARED, default=SHARED, help="what the drawn jobs share")
    parser.add_argument("--seeds", type=int, default=1, help="portfolios of each number and kind (default 1)")
    parser.add_argument("--at-once", type=int, nargs="*", default=[], help="numbers of jobs that all start at once")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each instance (default 60)")
    asked = parser.parse_args()
    measured = []
    for count in asked.drawn:
        for shared in asked.shared:
            for seed in range(SEED, SEED + asked.seeds):
                measured.append(measure(count, shared, (10.0, asked.seconds), seed))
                print(measured[-1], flush=True)
    print("\n".join(savings(measured)))
    for count in asked.at_once:
        print(measure_at_once(count), flush=True)
    if asked.folder is None:
        return 0
    known = best_known(asked.folder)
    results = [solve_instance(asked.folder / name, bounds, asked.seconds) for name, bounds in sorted(known.items())]
    print(f"{sum(results)} of {len(results)} instances as good as the best known")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
