"""What "hours x price" leaves out: the bill of a whole job compared with that of most calculators.

    python -m benchmarks.bill [SCENARIO ...] [--as-of DATE] [--json]

The naive bill is one run's training steps at the speed of the plan, times the price of the plan's own machines: what
remains where a calculator knows the GPUs, their price and the right speed, and nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from planner.errors import InputError
from planner.estimates.work import trial_work
from planner.loading.scenario_file import read_scenario
from planner.results.plan import Assignment
from planner.scenario.job import Job
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from planner.units import HOUR

SCENARIOS = ("bill-aws-adapter", "bill-runpod-trials", "bill-marketplace-70b")
TRAINING = ("gpu on demand", "gpu spot")
UNKNOWN = "not included"
WIDTH = 80


@dataclass(frozen=True)
class Line:
    """One item of the bill: dollars, and the share of the whole bill."""

    item: str
    usd: float
    share: float


@dataclass(frozen=True)
class Comparison:
    """The whole bill of one job, its first line the naive bill; `unpriced` are items without a stated price."""

    scenario: str
    job: str
    machines: str
    hours: float
    lines: tuple[Line, ...]
    unpriced: tuple[str, ...]
    usd: float
    naive_usd: float

    @property
    def left_out(self) -> float:
        """Share of the whole bill that the naive one leaves out."""
        return 1.0 - self.naive_usd / self.usd


def compared(scenario: str, as_of: datetime.date) -> list[Comparison]:
    """Return the bills of every job of a scenario, a file or a shipped name.

    InputError where the scenario is none; ValueError where it has no plan, or one that rents no machine by the hour.
    """
    question = read_scenario(scenario)
    plan = solve(question, SolveOptions(as_of=as_of))
    if not plan.jobs:
        raise ValueError(f"{question.name} has no plan: {plan.status}")
    return [_of_job(question.name, job, made) for job, made in zip(question.jobs, plan.jobs, strict=True)]


def _of_job(scenario: str, job: Job, made: Assignment) -> Comparison:
    trained = [line for line in made.bill if line.item in TRAINING]
    hours = sum(line.quantity or 0.0 for line in trained)
    if not hours:
        raise ValueError(f"{made.name} rents no machine by the hour: hours x price does not apply")
    usd = sum(line.usd for line in trained)
    naive = made.steps * made.step_seconds / HOUR * made.instances * usd / hours
    several = trial_work(job.trials.count, job.trials.at_once, job.trials.halving).work
    full = usd / several / job.early_stopping
    items = {
        "training steps of one run (hours x price)": naive,
        "restarts and hiccups": full - naive,
        "stopped early": full * (job.early_stopping - 1.0),
        f"the other trials, {job.trials.count - 1} of {job.trials.count}": usd - full * job.early_stopping,
    }
    items |= {line.item: line.usd for line in made.bill if line.item not in TRAINING}
    return Comparison(
        scenario=scenario,
        job=made.name,
        machines=f"{_gangs(made)}{made.gpus} x {made.gpu} at {made.provider}",
        hours=made.hours.expected,
        lines=tuple(Line(item, usd, usd / made.cost_usd) for item, usd in items.items() if abs(usd) >= 0.005),
        unpriced=tuple(line.item for line in made.bill if UNKNOWN in line.basis),
        usd=made.cost_usd,
        naive_usd=naive,
    )


def _gangs(made: Assignment) -> str:
    return f"{made.runs_at_once} runs on " if made.runs_at_once > 1 else ""


def text(found: Sequence[Comparison]) -> str:
    """Return a table per job, in lines of at most 80 columns."""
    return "\n\n".join("\n".join(_table(one)) for one in found)


def _table(one: Comparison) -> list[str]:
    name = one.scenario if one.job == one.scenario else f"{one.scenario}, {one.job}"
    lines = [f"{name}: {one.machines}, {one.hours:.1f} h"[:WIDTH], f"  {'item':<54}{'dollars':>12}{'share':>12}"]
    lines += [
        f"  {line.item:<54}{line.usd:>12,.2f}{line.share * 100:>10.1f} %"
        for line in (*one.lines, Line("the whole bill", one.usd, 1.0))
    ]
    if one.unpriced:
        lines.append(f"  not priced by its provider: {', '.join(one.unpriced)}")
    return [*lines, f"  hours x price leaves out {one.left_out * 100:.1f} % of the bill"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; exit code 2 for a scenario that is none or that it does not apply to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bill", description="What hours x price leaves out.")
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS, metavar="SCENARIO", help="file or shipped name")
    as_date = datetime.date.fromisoformat
    parser.add_argument("--as-of", type=as_date, default=None, metavar="DATE", help="day of the plan")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    as_of = options.as_of or datetime.date.today()
    try:
        found = [one for name in options.scenarios for one in compared(name, as_of)]
    except (InputError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([{**asdict(one), "left_out": one.left_out} for one in found], indent=2))
    else:
        print(text(found))
    return 0
