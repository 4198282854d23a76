"""The page of `planner app`: latency of each field by the clock and in CPU seconds, and the size of the page.

    python -m benchmarks.app [SCENARIO] [--rounds 5]

Needs the extra `web`. It starts the server of the page in this process, as a browser does it asks for a plan after each
change, and measures the process that solves. Each field is moved alone from the scenario as opened.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from planner.loading.scenario_file import load_scenario
from planner.scenario.scenario import SolveOptions
from planner.web.app_page import OpenedScenario, render_app
from planner.web.setting_fields import settings_of
from planner.web.workers import Engine

MOST_MEDIAN_CPU_SECONDS = 0.15
"""Aim for a change of budget, prices or forbidden GPUs: a person sees no wait."""
MOST_PAGE_BYTES = 100_000
WIDTH = 700
AIMED = ("budget", "prices", "gpus")
"""Fields with the aim; a change of model or work makes all candidates anew, and a service has no aim."""


@dataclass(frozen=True)
class Latency:
    """Medians of one field over its values, in seconds: of the plan, and with alternatives and reasons (`whole`)."""

    field: str
    wall: float
    cpu: float
    whole: float
    aim: bool


def moves(opened: OpenedScenario, rounds: int) -> dict[str, list[str]]:
    """Return values to move each field to, all of them different."""
    gpus = [name for control in opened.controls if control.key == "gpus" for name, _ in control.choices]
    tokens = [f"{20 + 3 * k}M" for k in range(rounds)]
    known = {
        "per_second": [f"{10 + k}" for k in range(rounds)],
        "tpot": [f"{42 + 3 * k}ms" for k in range(rounds)],
        "replicas": ["1", "3"],
        "budget": [f"{8 + k}" for k in range(rounds)],
        "prices": [f"{1.1 + k / 10:.1f}" for k in range(rounds)],
        "gpus": [f"!{name}" for name in gpus[:rounds]],
        "deadline": [f"{24 + k}h" for k in range(rounds)],
        "spot": ["off"],
        "tokens": tokens,
        "samples": [f"{40_000 + 1000 * k}" for k in range(rounds)],
        "method": ["full,lora"],
    }
    return {key: values for key, values in known.items() if any(one.key == key for one in opened.controls)}


def measure(opened: OpenedScenario, rounds: int) -> tuple[list[Latency], float]:
    """Return the latency of every field, and the CPU seconds of a first solve without anything to start from."""
    engine = Engine(opened.scenario, SolveOptions())
    request: dict[str, Any] = {"task": "plan", "reference": (), "settings": (), "width": WIDTH}
    began = process_time()
    engine.answer(request)
    first = process_time() - began
    found = []
    for key, values in moves(opened, rounds).items():
        walls, cpus, wholes = [], [], []
        for value in values:
            settings = tuple(settings_of(opened.controls, {key: value}).values())
            wall, cpu = perf_counter(), process_time()
            answer = engine.answer({**request, "settings": settings, "brief": True})
            walls.append(perf_counter() - wall)
            cpus.append(process_time() - cpu)
            if not answer.get("whole"):  # of a service the first answer is all
                engine.answer({**request, "settings": settings})
            wholes.append(process_time() - cpu)
            if "faults" in answer:
                raise SystemExit(f"{key}={value}: {answer['faults']}")
        figures = map(statistics.median, (walls, cpus, wholes))
        found.append(Latency(key, *figures, key in AIMED and not opened.serves))
    return found, first


def main() -> int:
    """Print a table; return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app", description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", nargs="?", default="quickstart")
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    loaded = load_scenario(wanted.scenario)
    document = loaded.source.document
    opened = OpenedScenario(loaded.scenario, document.data if document else {}, wanted.scenario, (), (wanted.scenario,))
    found, first = measure(opened, wanted.rounds)
    size = len(render_app(opened, opened.controls, "token", "nonce").encode())
    print(f"{wanted.scenario}: first solve {first * 1000:,.0f} ms CPU; medians of up to {wanted.rounds} values")
    print(f"{'field':<12}{'wall':>10}{'CPU':>10}{'of first':>10}{'of aim':>10}{'in all':>10}")
    missed = False
    for one in found:
        aim = f"{one.cpu / MOST_MEDIAN_CPU_SECONDS:.2f}" if one.aim else ""
        missed |= one.aim and one.cpu > MOST_MEDIAN_CPU_SECONDS
        walls = f"{one.wall * 1000:,.0f} ms"
        cpu, whole = (f"{seconds * 1000:,.0f} ms" for seconds in (one.cpu, one.whole))
        print(f"{one.field:<12}{walls:>10}{cpu:>10}{one.cpu / first:>10.2f}{aim:>10}{whole:>10}")
    print(f"page {size / 1000:,.0f} kB, {size / MOST_PAGE_BYTES:.2f} of {MOST_PAGE_BYTES / 1000:,.0f} kB")
    return int(missed or size > MOST_PAGE_BYTES)


if __name__ == "__main__":
    sys.exit(main())
