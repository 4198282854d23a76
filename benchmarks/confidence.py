"""What a confidence of memory costs: `python -m benchmarks.confidence TABLE.csv... [--scenarios] [--json]`.

For each level: how many published runs that failed for want of memory it would have accepted (false fit), how many
that ran it would have refused (false reject), and with `--scenarios` the dollars of the shipped scenarios under it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy import scores
from benchmarks.accuracy.benchmark import profile_named
from benchmarks.accuracy.measurements import read_measurements
from benchmarks.accuracy.predictions import Predictor
from planner.errors import InputError
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, read_scenario
from planner.solving.solve import solve

LEVELS = (0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
SCENARIOS = Path(__file__).parent.parent / "scenarios"


def verdicts_by_level(tables: Sequence[str]) -> dict[str, Any]:
    """Return false fits and false rejections of all rows of the tables that say whether they ran, by level."""
    predictor = Predictor(read_library())
    rows = [row for table in tables for row in read_measurements(table)]
    judged = [p for p in predictor.predict(rows) if p.fit_chance is not None and profile_named(p)]
    return {
        f"{level:g}": dict(
            scores.fit_scores((p.row.out_of_memory, p.fit_chance is not None and p.fit_chance >= level) for p in judged)
        )
        for level in LEVELS
    }


def dollars_by_level(paths: Sequence[Path]) -> dict[str, dict[str, float | None]]:
    """Return the least cost of each scenario by level; None where it is infeasible."""
    found: dict[str, dict[str, float | None]] = {}
    for path in paths:
        scenario = read_scenario(path)
        for level in LEVELS:
            settings = [f"jobs.{index}.confidence.memory={level}" for index in range(len(scenario.jobs))]
            plan = solve(change_scenario(scenario, settings))
            usd = plan.cost.expected if plan.cost is not None else None
            found.setdefault(path.stem, {})[f"{level:g}"] = usd
    return found


def text_of(verdicts: dict[str, Any], dollars: dict[str, dict[str, float | None]]) -> str:
    """Return both tables as text."""
    lines = ["confidence   ran out of memory, said to fit      ran, said not to fit"]
    for level, fit in verdicts.items():
        shares = [
            f"{(fit[key] or 0) * 100:5.1f} %  {fit[f'{key}_count']:>3} of {fit[n]:<4}"
            for key, n in (("false_fit", "n_oom"), ("false_reject", "n_ok"))
        ]
        lines.append(f"{level:<12} {shares[0]:<35} {shares[1]}")
    if dollars:
        lines += ["", f"{'scenario':<32}" + "".join(f"{level:>13}" for level in verdicts)]
    for name, by_level in dollars.items():
        figures = ["-" if usd is None else f"{usd:,.2f}" for usd in by_level.values()]
        lines.append(f"{name:<32}" + "".join(f"{figure:>13}" for figure in figures))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 2 where one cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.confidence", description=__doc__)
    parser.add_argument("tables", metavar="TABLE.csv", nargs="+")
    parser.add_argument("--scenarios", action="store_true", help="solve the scenarios directly under scenarios/ too")
    parser.add_argument("--json", action="store_true", help="one JSON document in place of text")
    chosen = parser.parse_args(arguments)
    try:
        verdicts = verdicts_by_level(chosen.tables)
        dollars = dollars_by_level(sorted(SCENARIOS.glob("*.yaml"))) if chosen.scenarios else {}
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps({"fit": verdicts, "dollars": dollars}) if chosen.json else text_of(verdicts, dollars))
    return 0


if __name__ == "__main__":
    sys.exit(main())
