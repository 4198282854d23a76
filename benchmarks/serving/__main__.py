"""Plan services on the shipped market: `python -m benchmarks.serving [--per-second 1 12 100] [--cycles day week]`.

Each line has the seconds of the search (of the processor and on the clock), the gap, dollars of a month, and how far
simpler fleets lie above them. The last lines compare with two hourly programs, on demand and for requests of six sizes:
one that routes by size as Melange states it (`melange.py`), and one that divides requests by prompt length on equal
terms (`divided.py`). The exit code is 1 if a fleet costs more than a simpler one.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.serving.divided import divided_hours, neighbouring_groups
from benchmarks.serving.hours import hours_of_plan, in_time, with_starts
from benchmarks.serving.melange import routed_hours
from planner.candidates.market import build_market
from planner.generation.replica_enumeration import lengths_of
from planner.library.engines import read_load_profiles
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario
from planner.scenario.scenario import SolveOptions
from planner.services.evaluated_fleet import grouped_lengths
from planner.services.fleet_kinds import mixture_rates, served_kinds
from planner.services.fleet_optimise import optimise_fleet, simple_fleets
from planner.services.fleet_plan import fleet_problem
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from benchmarks.serving.hours import Hour
    from planner.arrays import Floats
    from planner.library.schema import Library
    from planner.services.fleet_kinds import ServedKinds
    from planner.services.fleet_problem import FleetProblem

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
COMPARED = (
    f"{'the plan above an hourly program':<38} {'as it is':>10}  {'its bound':>10}  {'no starts':>10}  {'starts':>10}  "
    f"{'routing':>10}  in time  fullest"
)
"""The dollars of the plan over those of a program: both as they are, over its bound, without the plan's starts, with
starts of both; what routing saves the program itself; and how many answers keep the limit per token, and how
full the fullest machine is for its latency."""
SIMPLER = "above it: one kind for the peak, by the hour, the mix of the peak"


class Case(NamedTuple):
    """The problem of a service, and its kinds at the latency of the job."""

    problem: FleetProblem
    served: ServedKinds
    library: Library

    @property
    def share(self) -> Floats:
        """Share of each size of requests."""
        lengths = grouped_lengths(lengths_of(self.served.job))
        return np.asarray(lengths.count, dtype=float) / lengths.requests

    def rates(self, mixtures: Floats) -> Floats:
        """Return the greatest rate (mixtures, kinds) of a machine for mixtures (mixtures, sizes)."""
        each = mixture_rates(self.served.job, self.served.speeds, self.library, mixtures)
        return np.stack([each[:, one.which] * one.replicas for one in self.served.kinds], axis=1)


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
    return Case(fleet_problem(served, market, scenario), served, library)


def measured(name: str, problem: FleetProblem) -> tuple[str, Floats | None, bool]:
    """Return a line of the table, the fleets (hours, kinds), and if nothing simpler costs less."""
    wall, processor = perf_counter(), process_time()
    found = optimise_fleet(problem, OPTIONS)
    wall, processor = perf_counter() - wall, process_time() - processor
    if found.fleets is None:
        return f"{name:<34} no fleet", None, False
    usd = problem.cost(found.fleets)
    simpler = [one.usd for one in simple_fleets(problem, OPTIONS)]
    above = "  ".join("      -" if one is None else f"{one / usd - 1:+7.1%}" for one in simpler)
    month = usd * MONTH_HOURS / problem.hours
    kinds = f"{found.kept} of {problem.kinds:,}"
    line = f"{name:<34} {kinds:>11} {processor:6.1f} {wall:6.1f} {found.gap(usd):6.2%} {month:12,.2f}  {above}"
    good = all(one is None or usd <= one * (1 + 1e-9) for one in simpler)
    return line, found.fleets, good


def compared(one: Case, fleets: Floats) -> list[str]:
    """Return the lines that compare fleets (hours, kinds) with the hourly programs."""
    problem, share = one.problem, one.share
    loads, times = np.unique(problem.load, return_counts=True)
    groups, alone = neighbouring_groups(share), one.rates(np.eye(len(share)))
    with np.errstate(divide="ignore"):
        together = 1.0 / np.sum(share[:, None] / alone, axis=0, keepdims=True)
    of_groups = one.rates(groups)
    stated = routed_hours(loads, share, alone, problem.usd)
    stated_together = routed_hours(loads, np.ones(1), together, problem.usd, slices=0)
    divided = divided_hours(loads, groups, of_groups, problem.usd)
    divided_together = divided_hours(loads, groups[:1], of_groups[:1], problem.usd)
    usd, hours_usd = problem.cost(fleets), float(np.sum(fleets @ problem.usd))

    def line(name: str, hours: list[Hour], same_for_all: list[Hour]) -> str:
        least, same = (float(times @ [each.usd for each in several]) for several in (hours, same_for_all))
        bound = float(times @ [each.bound for each in hours])
        above = (usd / least, usd / bound, hours_usd / least, usd / with_starts(problem, hours), same / least)
        cells = "  ".join(f"{each - 1:+10.1%}" for each in above)
        return f"  {name:<38} {cells}  {_judged(one, hours, times * loads)}"

    plan = hours_of_plan(problem, fleets, share)
    return [
        f"  {COMPARED}",
        line("routed by size, as Melange states it", stated, stated_together),
        line("divided by prompt, at true capacities", divided, divided_together),
        f"  {'the plan':<98}  {_judged(one, plan, problem.load)}",
    ]


def _judged(one: Case, hours: list[Hour], weights: Floats) -> str:
    """Return the simulated share of answers within the limit per token, and the use of the fullest machine.

    The use is the load over the greatest one of the mixture that the machine gets.
    """
    kept = np.average(in_time(one.served, hours), weights=weights)
    streams = [stream for hour in hours for stream in hour.streams if np.any(stream.rate > 0)]
    mixes = np.round([stream.rate / np.sum(stream.rate) for stream in streams], 9)
    different, which = np.unique(mixes, axis=0, return_inverse=True)
    able = one.rates(different)[np.ravel(which), [stream.kind for stream in streams]]
    fullest = np.max([float(np.sum(stream.rate)) for stream in streams] / np.maximum(able, 1e-300))
    return f"{kept:7.1%}  {fullest:7.1%}"


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
        line, fleets, good = measured(f"six sizes, day, {per_second:g}/s", one.problem)
        fine &= good
        print("\n".join([line, *(compared(one, fleets) if fleets is not None else [])]), flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
