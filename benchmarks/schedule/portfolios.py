"""Portfolios of jobs that compete, drawn from shipped architectures on the shipped market: `--drawn 12 --shared own`.

What is shared is scarce on purpose: a portfolio that does not contend is solved by the simple rule.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time

from planner.documents.files import data_folder
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import Scenario
from planner.solving.prepare import prepare
from planner.timetable.modes import build_timetable
from planner.timetable.timetable_problem import UNITS_PER_USD, Schedule, Timetable, objective_value
from planner.timetable.timetable_result import PROVEN_GAP
from planner.timetable.timetable_search import ORDERS, TimetableSearch, best_greedy, greedy_timetable

SHARED = ("own", "gpus", "reservation", "everything")
ARCHITECTURES = ("tinyllama-1.1b", "mistral-7b", "llama-2-7b", "llama-2-13b", "llama-3-8b")
LAST_HOURS = 96
"""The last deadline of the drawn jobs, and the end of the reservation."""
BLOCK_USD = 16
"""A machine for that time: half of what the cheapest offer of it by the hour costs ($0.34, `market.yaml`)."""
SEED = 20261122


def draw(count: int, shared: str, seed: int = SEED) -> Scenario:
    """Return a portfolio of `count` jobs that share machines, GPUs, a reservation, or all of them."""
    random_ = random.Random(f"{seed}-{count}-{shared}")
    jobs, total = [], 0.0
    for number in range(count):
        tokens, hours = random_.choice([20, 40, 80, 160]) * 10**6, random_.choice([12, 24, 48, LAST_HOURS])
        total += tokens
        jobs.append(
            f"  - {{name: job-{number:03d}, architecture: {random_.choice(ARCHITECTURES)}, work: {{tokens: {tokens}}}, "
            f"deadline: {hours}h, techniques: {{method: lora}}"
            + (f", release: {random_.choice([1, 2, 4])}h" if random_.random() < 0.3 else "")
            + (f", after: job-{number - 1:03d}" if number and hours == LAST_HOURS and random_.random() < 0.3 else "")
            + "}"
        )
    offers, limits = [], ["spot_share: {max: 0}"]
    if shared in ("own", "everything"):
        own = "own: {power_watts: 500, usd_per_kwh: 0.3}"
        offers.append(f"  - {{provider: lab, gpu: RTX4090, gpus: 1, stock: {max(1, count // 8)}, {own}}}")
        offers.append(f"  - {{provider: desk, gpu: RTX3090, gpus: 1, stock: {max(1, count // 12)}, {own}}}")
    if shared in ("gpus", "everything"):
        limits.append(f"max_gpus: {max(2, count // 4)}")
    if shared in ("reservation", "everything"):
        block = f"block: {{start: 0h, end: {LAST_HOURS}h, usd: {BLOCK_USD}}}"
        offers.append(f"  - {{provider: term, gpu: RTX4090, gpus: 1, usd_per_hour: 0, stock: {count}, {block}}}")
    listed = "offers:\n" + "\n".join(offers) + "\n" if offers else ""
    text = (
        f"name: {shared}-{count}\ninventory: [market]\n{listed}"
        f"limits: {{{', '.join(limits)}}}\njobs:\n" + "\n".join(jobs) + "\n"
    )
    return parse_scenario(text, data_folder("scenarios"))


@dataclass(frozen=True)
class Measured:
    """What one portfolio took and cost; dollars are the objective of the timetable."""

    name: str
    shared: str
    prepare_seconds: float
    build_seconds: float
    modes: int
    first_plan_seconds: float
    alone: float  # dollars where each job had the machines for itself, and nothing is reserved
    rules: dict[str, float | None]  # dollars by simple rule
    found: dict[float, tuple[float | None, float]]  # seconds -> dollars and the larger bound
    proven: bool
    cpu_seconds: float  # of the search, all threads: on a busy machine the seconds of the clock are worth less
    peak_gb: float

    @property
    def rule(self) -> float | None:
        """Return the dollars of the better simple rule; None where no rule has a plan."""
        return min((one for one in self.rules.values() if one is not None), default=None)

    @property
    def saved(self) -> float | None:
        """Return by how much the last plan is cheaper than the better simple rule; None where no rule has a plan."""
        usd, _ = list(self.found.values())[-1]
        return 1 - usd / self.rule if self.rule and usd is not None else None

    @property
    def most_saved(self) -> float | None:
        """Return the most that any plan could save, by the bound."""
        _, bound = list(self.found.values())[-1]
        return 1 - bound / self.rule if self.rule else None

    @property
    def contends(self) -> float | None:
        """Return by how much the better simple rule costs more than the jobs alone: what they take from each other."""
        return self.rule / self.alone - 1 if self.rule else None

    def __str__(self) -> str:
        rules = ", ".join(f"{name} {'none' if usd is None else f'${usd:,.2f}'}" for name, usd in self.rules.items())
        gaps = ", ".join(
            f"{seconds:g} s ${usd:,.2f} gap {(usd - bound) / usd:.2%}" if usd else f"{seconds:g} s no plan"
            for seconds, (usd, bound) in self.found.items()
        )
        return (
            f"{self.name:<16} prepared {self.prepare_seconds:.1f} s, {self.modes} modes {self.build_seconds:.1f} s, "
            f"first plan {self.first_plan_seconds:.2f} s; {rules}; {gaps}{' proven' if self.proven else ''}; "
            f"{self._saving()}, "
            f"{self.cpu_seconds:.0f} CPU s, {self.peak_gb:.2f} GB"
        )

    def _saving(self) -> str:
        if self.saved is None or self.most_saved is None or self.contends is None:
            return "no rule has a plan"
        return f"saves {self.saved:.1%} of at most {self.most_saved:.1%}, the rule {self.contends:.1%} above jobs alone"


def measure(count: int, shared: str, seconds: Sequence[float], seed: int = SEED) -> Measured:
    """Solve one portfolio for each time limit; the last one continues with the bound of the linear program."""
    started = perf_counter()
    prepared = prepare(draw(count, shared, seed))
    prepared_at = perf_counter()
    problem = build_timetable(prepared).problem
    built_at = perf_counter()
    rules: dict[str, float | None] = {order: _usd(problem, greedy_timetable(problem, order)) for order in ORDERS}
    search = TimetableSearch(problem, best_greedy(problem), PROVEN_GAP)
    first, worked, begun = perf_counter() - built_at, process_time(), perf_counter()
    found: dict[float, tuple[float | None, float]] = {}
    for limit in seconds:
        search.improve(begun + limit - perf_counter())
        found[limit] = (_usd(problem, search.schedule), search.bound / UNITS_PER_USD)
    return Measured(
        f"{shared}-{count}",
        shared,
        prepared_at - started,
        built_at - prepared_at,
        sum(len(task.modes) for task in problem.tasks),
        first,
        alone_usd(problem),
        rules,
        found,
        search.is_proven,
        process_time() - worked,
        peak_gb(),
    )


def alone_usd(problem: Timetable) -> float:
    """Return the dollars of the jobs in their cheapest modes without reservations, as if each were alone."""
    lots = {number for number, one in enumerate(problem.resources) if one.price is not None}
    modes = ([m for m in task.modes if not lots.intersection(which for which, _ in m.needs)] for task in problem.tasks)
    return sum(min(mode.cost for mode in some) for some in modes) / UNITS_PER_USD


def peak_gb() -> float:
    """Return the most memory that this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _usd(problem: Timetable, schedule: Schedule | None) -> float | None:
    return None if schedule is None else objective_value(problem, schedule) / UNITS_PER_USD
