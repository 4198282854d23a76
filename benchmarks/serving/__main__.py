"""Plan services on the shipped market: `python -m benchmarks.serving [--per-second 1 12 100] [--cycles day week]`.

Each line has the seconds of the search (of the processor and on the clock), the gap, dollars of a month, and how far
simpler fleets lie above them. `routed` compares with an hourly program that routes by size (`melange.py`), on demand
and for requests of six sizes. The exit code is 1 if a fleet costs more than a simpler one.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.serving.melange import routed_usd
from planner.candidates.fleet.kinds import served_kinds
from planner.candidates.market import build_market
from planner.configurations.replicas.capacity import length_rates
from planner.library.inference.load_profiles import read_load_profiles
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.fleet.baselines import simple_fleets
from planner.solving.fleet.optimise import optimise_fleet
from planner.solving.fleet.problem import fleet_problem
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.formulation.fleet.problem import FleetProblem

SCENARIO = "serve-office-hours"
OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 24))
MARKETS = {
    "on demand": ("limits.spot_share={max: 0}",),
    "spot": (),
    "a year": ("limits.spot_share={max: 0}", "jobs.JOB.for=365d"),
    "spot, a year": ("jobs.JOB.for=365d",),
}
"""With a year commitments pay."""
SIZES = ((100, 50, 30), (300, 150, 25), (800, 200, 20), (1500, 400, 12), (3000, 300, 8), (6000, 500, 5))
"""Tokens of prompt and answer, and their share in percent: short questions, chats, and documents."""
SIMPLER = "above it: one kind for the peak, by the hour, the mix of the peak"


class Case(NamedTuple):
    """The problem of a service, and what routing by size needs: shares, rates of each size (sizes, kinds)."""

    problem: FleetProblem
    share: Floats
    rates: Floats


def case(per_second: float, cycle: str, settings: tuple[str, ...], sizes: bool = False) -> Case:
    """Return the shipped service at another load, for a day or a week."""
    week = read_load_profiles()["office"].numbers
    written = [f"jobs.JOB.load.per_second={per_second:g}", *settings]
    if cycle == "day":
        written.append(f"jobs.JOB.load.profile={list(week[:24])}")
    if sizes:
        rows = ", ".join(f"{{input_tokens: {a}, output_tokens: {b}, count: {n}}}" for a, b, n in SIZES)
        written += ["jobs.JOB.load.input_tokens=null", "jobs.JOB.load.output_tokens=null"]
        written += [f"jobs.JOB.load.lengths=[{rows}]", "jobs.JOB.replicas={min: 0}", "jobs.JOB.latency.ttft=3s"]
    scenario = read_scenario(SCENARIO, [one.replace("JOB", SCENARIO) for one in written])
    job = scenario.jobs[0]
    library = read_library([job.architecture])
    market = build_market(scenario, library)
    served = served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library)  # type: ignore[arg-type]
    share, rates = length_rates(job, served.speeds, library)  # type: ignore[arg-type]
    of_kind = np.stack([rates[:, one.which] * one.replicas for one in served.kinds], axis=1)
    return Case(fleet_problem(served, market, scenario), share, of_kind)


def measured(name: str, problem: FleetProblem) -> tuple[str, tuple[float, float], bool]:
    """Return a line of the table, the dollars of a cycle with and without starts, and if nothing simpler costs less."""
    wall, processor = perf_counter(), process_time()
    found = optimise_fleet(problem, OPTIONS)
    wall, processor = perf_counter() - wall, process_time() - processor
    if found.fleets is None:
        return f"{name:<34} no fleet", (np.inf, np.inf), False
    usd = problem.cost(found.fleets)
    simpler = [one.usd for one in simple_fleets(problem, OPTIONS)]
    above = "  ".join("      -" if one is None else f"{one / usd - 1:+7.1%}" for one in simpler)
    month = usd * MONTH_HOURS / problem.hours
    kinds = f"{found.kept} of {problem.kinds:,}"
    line = f"{name:<34} {kinds:>11} {processor:6.1f} {wall:6.1f} {found.gap(usd):6.2%} {month:12,.2f}  {above}"
    good = all(one is None or usd <= one * (1 + 1e-9) for one in simpler)
    return line, (usd, float(np.sum(found.fleets @ problem.usd))), good


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-second", type=float, nargs="*", default=[1.0, 12.0, 100.0])
    parser.add_argument("--cycles", nargs="*", choices=("day", "week"), default=["day", "week"])
    asked = parser.parse_args()
    fine = True
    print(f"{'service':<34} {'kinds':>11} {'CPU s':>6} {'s':>6} {'gap':>6} {'$ a month':>12}  {SIMPLER}")
    for cycle in asked.cycles:
        for per_second in asked.per_second:
            for name, settings in MARKETS.items():
                one = case(per_second, cycle, settings)
                line, _, good = measured(f"{cycle}, {per_second:g}/s, {name}", one.problem)
                fine &= good
                print(line, flush=True)
    for per_second in asked.per_second:
        one = case(per_second, "day", MARKETS["on demand"], sizes=True)
        line, (usd, hours_usd), good = measured(f"six sizes, day, {per_second:g}/s", one.problem)
        fine &= good
        loads, times = np.unique(one.problem.load, return_counts=True)
        dollars, bounds = routed_usd(loads, one.share, one.rates, one.problem.usd)
        print(line, flush=True)
        routed, least = usd / (times @ dollars) - 1, usd / (times @ bounds) - 1
        alone = hours_usd / (times @ dollars) - 1
        print(f"  above routing by size: {routed:+.1%}, without our starts {alone:+.1%}; above its bound {least:+.1%}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
