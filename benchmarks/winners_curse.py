"""How far the cheapest of many uncertain estimates is too low: `python -m benchmarks.winners_curse [SCENARIO.yaml]`.

The plan is the cheapest of all candidates by estimate, so it is more often one whose speed is overestimated. What is
simulated: planner/solving/plan_evidence.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario
from planner.solving.plan_evidence import own_parts, priced, simulate
from planner.solving.prepare import prepare

SCENARIOS = Path(__file__).parent.parent / "scenarios"
DEFAULT = ("quickstart", "llama-2-7b-full-vs-lora", "seven-b-billion-tokens", "pretrain-1b")


def curses(paths: Sequence[Path], as_of: datetime.date | None = None) -> dict[str, dict[str, Any]]:
    """Return the figures of scenarios of one job on a day, by name: on another day other prices are too old."""
    found = {}
    for path in paths:
        scenario = read_scenario(path).on_day(as_of)
        library = read_library([job.architecture for job in scenario.jobs])
        parts = own_parts(library.calibrations["uncertainty"].values)
        drawn = priced(prepare(scenario, library, with_policies=False))
        found[path.stem] = {"candidates": drawn.usd.size, **simulate(drawn, parts)._asdict()}
    return found


def text_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table."""
    lines = [f"{'scenario':<32}{'candidates':>12}{'costs more, %':>18}{'than the best, %':>18}"]
    for name, one in found.items():
        more, best = math.expm1(one["flattery"]) * 100, one["regret"] * 100
        lines.append(f"{name:<32}{one['candidates']:>12,}{more:>18.1f}{best:>18.1f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 2 where a scenario cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.winners_curse", description=__doc__)
    parser.add_argument("scenarios", metavar="SCENARIO.yaml", nargs="*")
    parser.add_argument("--json", action="store_true", help="one JSON document in place of text")
    parser.add_argument("--as-of", type=datetime.date.fromisoformat, metavar="DATE", help="prices as on this day")
    chosen = parser.parse_args(arguments)
    paths = [Path(name) for name in chosen.scenarios] or [SCENARIOS / f"{name}.yaml" for name in DEFAULT]
    try:
        found = curses(paths, chosen.as_of)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(found) if chosen.json else text_of(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
