"""Ratios of speed, both sides of each measured in one run: `python -m benchmarks.speed`.

Least of several repetitions: what else the machine does only ever adds time. Ratios are of CPU seconds. Each line
also has the CPU seconds, the same in units of a fixed loop of numpy that is timed in the run, and seconds on the clock.
"""

from __future__ import annotations

import argparse
import datetime
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.speed.catalogs import catalog_lines
from benchmarks.speed.estimates import estimates_lines
from benchmarks.speed.frontier import frontier_lines
from benchmarks.speed.llm_analysis import llm_analysis_times
from benchmarks.speed.timing import AS_OF, Line, best_times, machine_load, numpy_loop, process_times, question_of

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.scenario.offer import Offer

OFFERS, SEED = 5000, 20261121
HELP = "from planner.cli import main; main(['--help'])"
SOLVE = f"from planner.cli import main; main(['solve', 'NAME', '--as-of', '{AS_OF}'])"
SCENARIOS = {"quickstart": (2.8, 0.3), "spot-heavy": (4.0, 0.5)}
"""Scenario -> most times its imports in a fresh process, and CPU seconds in a running one."""
IMPORTS = "import numpy, pydantic, highspy"


def against(what: str, ours: str, theirs: str, target: float, repeat: int) -> Line:
    """Measure a cold process of ours against one that only imports."""
    mine, other = process_times(ours, repeat), process_times(theirs, repeat)
    return Line(what, mine.cpu / other.cpu, "x", target, True, f"{mine}; imports {other}")


def help_lines(repeat: int) -> list[Line]:
    """Measure `--help` against importing click."""
    return [against("planner --help / import click", HELP, "import click", 3.0, repeat)]


def solve_lines(repeat: int) -> list[Line]:
    """Measure solves in a fresh process against importing what they need, and in a running one."""
    from planner.scenario.scenario import SolveOptions
    from planner.solving.solve import solve

    lines, options = [], SolveOptions(as_of=datetime.date.fromisoformat(AS_OF))
    for name, (cold, warm) in SCENARIOS.items():
        lines.append(against(f"planner solve {name} / its imports", SOLVE.replace("NAME", name), IMPORTS, cold, repeat))
        scenario, library = question_of(name)
        times = best_times(partial(solve, scenario, options, library), repeat)
        lines.append(Line(f"solve {name} in a running process", times.cpu, "s", warm, True, str(times)))
    return lines


def candidates_lines(repeat: int) -> list[Line]:
    """Measure memory and time of a grid at once, against one configuration at a time."""
    estimate, recipes, machines = _grid()
    cells = len(recipes) * len(machines)
    at_once = best_times(lambda: estimate(recipes, machines), repeat)
    some = random.Random(SEED).sample([(r, m) for r in recipes for m in machines], 200)
    prepared = [estimate.prepared([recipe], [machine]) for recipe, machine in some]

    def one_by_one() -> None:
        for inputs in prepared:
            estimate.run(inputs)

    loop = best_times(one_by_one, repeat)
    rate, loop_rate = cells / at_once.cpu, len(some) / loop.cpu
    basis = f"{rate:,.0f} per second on a grid of {len(recipes)} recipes x {len(machines)} machines ({at_once})"
    lines = [
        Line(
            "candidates per second / one at a time", rate / loop_rate, "x", 300.0, False,
            f"{basis}, inputs made in the time; {loop_rate:,.0f} one at a time ({loop}), inputs made before",
        )
    ]  # fmt: skip
    theirs = llm_analysis_times(len(some), repeat)
    if theirs is None:
        print("llm-analysis is not installed (pip install llm-analysis==0.2.2): no comparison with it")
        return lines
    their_rate = len(some) / theirs.cpu
    told = f"{basis}; {their_rate:,.0f} of llm-analysis, one at a time ({theirs})"
    return [*lines, Line("candidates per second / llm-analysis", rate / their_rate, "x", 200.0, False, told)]


def _grid() -> tuple[_Estimate, list[Any], list[Any]]:
    """Return the recipes of a 7B fine-tuning times machines of all Ampere cards: counts and networks differ."""
    from planner.configurations.recipe import GpuClass, Machine, enumerate_recipes, with_parallel_degrees

    scenario, library = question_of("quickstart-any")
    job = scenario.jobs[0]
    like = GpuClass.of(library.gpu("A100-80GB"))
    cards = [card for card in library.gpus.values() if GpuClass.of(card) == like]
    plain = enumerate_recipes(job, like, True, library)
    recipes = [
        with_parallel_degrees(recipe, tensor, pipeline)
        for recipe in plain
        for tensor in (1, 2, 4, 8)
        for pipeline in (1, 2)
    ]
    machines = [
        Machine(card.name, per_instance, instances, "pcie", network)
        for card in cards
        for per_instance in (1, 2, 4, 8)
        for instances in (1, 2, 3, 4, 8, 16)
        for network in (100.0, 400.0)
    ]
    return _Estimate(job, library), recipes, machines


class _Estimate:
    """Largest micro-batch, memory need and step time of every recipe on every machine."""

    def __init__(self, job: Any, library: Library) -> None:
        from planner.configurations.grid import shape_of
        from planner.estimates.device import TimeCoefficients
        from planner.estimates.memory_terms import MemoryCoefficients

        self.job, self.library = job, library
        self.shape = shape_of(job, library.architecture(job.architecture))
        self.memory = MemoryCoefficients.of(library.calibrations["memory"].values)
        self.time = TimeCoefficients.of(library.calibrations["time"].values)

    def prepared(self, recipes: list[Any], machines: list[Any]) -> Any:
        """Return the inputs of the estimates, shapes (R, 1) and (H,)."""
        from planner.configurations.grid import grid_inputs

        return grid_inputs(self.job, self.shape, recipes, machines, self.library)

    def run(self, inputs: Any) -> tuple[Any, Any, Any]:
        """Return the micro-batch, bytes needed and seconds per step, shape (R, H)."""
        from planner.estimates.memory_fit import memory_lines
        from planner.estimates.step_time import step_seconds

        usable = inputs.hardware.usable_bytes
        lines = memory_lines(inputs, self.memory)
        largest = lines.largest_micro_batch(usable)
        micro = np.clip(largest, 1, self.job.global_batch)
        seconds = step_seconds(replace(inputs, layout=replace(inputs.layout, micro_batch=micro)), self.time)
        return micro, lines.need(micro, usable), seconds

    def __call__(self, recipes: list[Any], machines: list[Any]) -> tuple[Any, Any, Any]:
        return self.run(self.prepared(recipes, machines))


def market_lines(repeat: int) -> list[Line]:
    """Measure one job on a market of 5,000 offers: the solve alone, once its candidates are made."""
    from planner.candidates.candidate_enumeration import enumerate_candidates
    from planner.candidates.market import build_market
    from planner.candidates.screening import screen
    from planner.formulation.constraints import find_undominated
    from planner.formulation.program import SharedLimits
    from planner.formulation.solvers import run
    from planner.solving.optimise_choice import solve_lexicographic
    from planner.solving.prepare import shared_peaks

    scenario, library = question_of("quickstart-any")
    scenario = scenario.model_copy(update={"offers": _many(scenario.offers)})
    job = scenario.jobs[0]
    architecture = library.architecture(job.architecture)
    started = perf_counter()
    market = build_market(scenario, library)
    found = enumerate_candidates(job, architecture, market, [job.name], library)
    table = screen(found, market, scenario.limits, library).table
    made = perf_counter() - started
    question = SharedLimits(budget_usd=scenario.limits.budget_usd, peaks=shared_peaks(scenario.limits, market))
    kept = int(find_undominated(table, question).sum())

    def solve() -> None:
        solve_lexicographic(table.rows(find_undominated(table, question)), question, run).rows  # noqa: B018

    times = best_times(solve, repeat)
    basis = (
        f"{times}; {len(table):,} candidates on {len(market.offers):,} offers made in {made:.2f} s, "
        f"{kept:,} of them undominated; dominance and all passes are in the time"
    )
    return [
        Line("one job on 5,000 offers, solve", times.cpu, "s", 0.3, True, basis),
        _curves_line(found, market, scenario.limits, library, repeat),
    ]


def _curves_line(found: Any, market: Any, limits: Any, library: Library, repeat: int) -> Line:
    """Measure the screening with spot policies of all candidates that a bound leaves, over that without."""
    from planner.candidates.screening import screen
    from planner.spot.policy_cache import PolicyCache

    def curves() -> Any:
        return screen(replace(found, policies=PolicyCache()), market, limits, library, waiting_usd=0.0)

    plain = best_times(lambda: screen(found, market, limits, library), repeat)
    told: list[int] = []
    times = best_times(lambda: told.append(len(curves().spot)), repeat)
    return Line(
        "market curves of one job on 5,000 offers", times.cpu - plain.cpu, "s", 1.0, True,
        f"{times}; {told[0]} candidates on spot may matter; screening without their curves {plain}",
    )  # fmt: skip


CHANGES = {
    "a deadline": "jobs.quickstart-any.deadline=8h",
    "a budget": "limits.budget_usd=20",
    "a price factor": "adjust=[{match: {gpu: A5000}, usd_per_hour_factor: 1.2}]",
    "a forbidden card": "limits.gpus.forbid=[A5000]",
}


def what_if_lines(repeat: int) -> list[Line]:
    """Measure one job again with one value changed, in a running process: change, solve, audit."""
    scenario, library = question_of("quickstart-any")
    many = scenario.model_copy(update={"offers": _many(scenario.offers)})
    return [
        *_changed(scenario, library, "the market", 0.1, repeat),
        *_changed(many, library, "5,000 offers", 0.2, repeat),
    ]


def _changed(scenario: Any, library: Library, where: str, target: float, repeat: int) -> list[Line]:
    from planner.loading.scenario_file import change_scenario
    from planner.scenario.scenario import SolveOptions
    from planner.solving.prepare import prepare
    from planner.solving.solve import solve, solve_prepared

    options = SolveOptions(as_of=datetime.date.fromisoformat(AS_OF))
    before = prepare(scenario, library)
    scratch = best_times(partial(solve, scenario, options, library), 1)

    def again(setting: str) -> None:
        solve_prepared(prepare(change_scenario(scenario, [setting]), library, before), options)

    lines = []
    for name, setting in CHANGES.items():
        times = best_times(partial(again, setting), repeat)
        basis = f"{times}: {times.cpu / scratch.cpu:.2f} of the {scratch.cpu:.2f} s that it takes from scratch"
        lines.append(Line(f"what-if on {where}, {name}", times.cpu, "s", target, True, basis))
    return lines


def _many(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """Return 5,000 offers: the shipped ones repeatedly, each price changed by up to 20 %, no two alike."""
    chance = random.Random(SEED)

    def jittered(offer: Offer, copy: int) -> Offer:
        factor = chance.uniform(0.8, 1.2)
        prices = {
            name: None if getattr(offer, name) is None else getattr(offer, name) * factor
            for name in ("usd_per_hour", "spot_usd_per_hour")
        }
        return offer.model_copy(update={**prices, "instance": f"{offer.instance}-{copy}"})

    copies = range(-(-OFFERS // len(offers)))
    return tuple(jittered(offer, copy) for copy in copies for offer in offers)[:OFFERS]


ALIKE_JOBS = 30
"""Jobs of a study of seeds, which differ in name alone."""


def jobs_lines(repeat: int) -> list[Line]:
    """Measure a study of seeds, whose jobs differ in name alone, against one of its jobs."""
    from planner.scenario.limits import Limits
    from planner.scenario.scenario import SolveOptions
    from planner.solving.solve import solve

    scenario, library = question_of("quickstart-any")
    options, like = SolveOptions(as_of=datetime.date.fromisoformat(AS_OF)), scenario.jobs[0]
    one = scenario.model_copy(update={"limits": Limits()})
    jobs = tuple(like.model_copy(update={"name": f"seed-{number}"}) for number in range(ALIKE_JOBS))
    alone = best_times(partial(solve, one, options, library), repeat)
    times = best_times(partial(solve, one.model_copy(update={"jobs": jobs}), options, library), repeat)
    what = f"{ALIKE_JOBS} jobs that differ in name alone / one of them"
    return [Line(what, times.cpu / alone.cpu, "x", 4.0, True, f"{times}; one {alone}")]


REINFORCEMENT = (
    *(f"reinforcement/rl-{name}" for name in ("7b-one-card", "8b-grpo", "32b-dapo", "30b-mixture", "8b-spot")),
    *(f"tuning/dpo-{size}" for size in ("8b", "70b")),
)
"""Shipped scenarios of reinforcement learning and preference tuning."""


def reinforcement_lines(repeat: int) -> list[Line]:
    """Measure solves with a proof of reinforcement learning and preference tuning in a running process."""
    from planner.scenario.scenario import SolveOptions
    from planner.solving.solve import solve

    lines, options = [], SolveOptions(as_of=datetime.date.fromisoformat(AS_OF))
    for name in REINFORCEMENT:
        scenario, library = question_of(name)
        if solve(scenario, options, library).gap != 0.0:
            raise AssertionError(f"{name} is not proven")
        times = best_times(partial(solve, scenario, options, library), repeat)
        lines.append(Line(f"solve {name} in a running process", times.cpu, "s", 5.0, True, str(times)))
    return lines


PARTS: dict[str, Callable[[int], list[Line]]] = {
    "help": help_lines,
    "solve": solve_lines,
    "candidates": candidates_lines,
    "estimates": estimates_lines,
    "market": market_lines,
    "frontier": frontier_lines,
    "what-if": what_if_lines,
    "jobs": jobs_lines,
    "reinforcement": reinforcement_lines,
    "catalogs": catalog_lines,
}


def main() -> int:
    """Print every figure with its target; return 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS))
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    lines = []
    print(
        f"{machine_load()}; a loop of numpy takes CPU {numpy_loop().cpu:.3f} s, wall {numpy_loop().wall:.3f} s",
        flush=True,
    )
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            for line in part(arguments.repeat):
                print(line, flush=True)
                lines.append(line)
    print(machine_load())
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
