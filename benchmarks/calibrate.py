"""Fits the coefficients of both estimates to a table of published runs and judges them on rows held out.

`python -m benchmarks.calibrate TABLE.csv [--out DIR]`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.accuracy import FIGURES, baseline_figures, figures, worst
from benchmarks.held_out import Table, split_predictions
from benchmarks.measurements import read_measurements
from benchmarks.targets import beaten, table_of
from planner.cards import read_library
from planner.errors import InputError


def judgement(table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures of each split on rows that the fit has not seen, and the groups that are furthest off."""
    splits, groups = {}, {}
    for split, predictions in split_predictions(table).items():
        found = figures(predictions, table.library)
        rules = baseline_figures(predictions, table.library)
        splits[split] = {**found, "beaten": beaten(found, rules)}
        groups[split] = {figure: worst(predictions, figure) for figure in FIGURES}
    return splits, groups


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; 2 where the table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    parser.add_argument("table", metavar="TABLE.csv")
    chosen = parser.parse_args(arguments)
    try:
        table = Table(read_measurements(chosen.table), read_library())
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    splits, groups = judgement(table)
    print(table_of(splits))
    for split, by_figure in groups.items():
        for figure, entries in by_figure.items():
            print(f"\nFurthest off, {split}, {figure}")
            for e in entries[:15]:
                shown = f"{100 * e['median_ape']:>7.1f}{100 * e['p90_ape']:>7.1f}{100 * e['bias']:>+7.1f}"
                print(f"  {e['group']:<50}{e['n']:>5}{shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
