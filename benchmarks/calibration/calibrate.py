"""Fits the coefficients of both estimates to a table of published runs and judges them on rows held out.

The table has the columns of benchmarks/validation.csv, or some of them; rows of the headline of benchmarks.accuracy are
fitted. Without --out the calibration that ships is replaced. The same table gives the same bytes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.benchmark import FIGURES, baseline_figures, figures, worst
from benchmarks.accuracy.measurements import read_measurements
from benchmarks.accuracy.splits import organisation, side
from benchmarks.calibration.files import Found, write_calibration
from benchmarks.calibration.fitting import of_kernels
from benchmarks.calibration.held_out import FILES, Table, counts, folds, parts_judged, split_predictions, spreads
from benchmarks.calibration.intervals import estimated_keys
from benchmarks.calibration.memory_intervals import FACTORS
from benchmarks.calibration.targets import beaten
from benchmarks.calibration.text import text_of
from benchmarks.calibration.traced import key_of
from planner.documents.files import data_folder
from planner.errors import InputError
from planner.library.reading import read_library

SPREAD_FILES = {"memory": (), "throughput": ("uncertainty",)}
"""Where the spreads of an estimate are, if not among its coefficients."""

LEFT_OUT_SOURCE = "from published runs of organisations left out of the fit"
UPPER_SOURCE = "from published runs that a fit has not seen: what they took, and whether they ran"


def judgement(table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures of each split on rows outside the fit, and the groups with the largest errors."""
    splits, groups = {}, {}
    for split, predictions in split_predictions(table).items():
        found = figures(predictions, table.library)
        rules = baseline_figures(predictions, table.library)
        splits[split] = {**found, "beaten": beaten(found, rules)}
        groups[split] = {figure: worst(predictions, figure) for figure in FIGURES}
    return splits, groups


def refits(table: Table) -> list[dict[str, float]]:
    """Return the values of fits on halves of the table, by configuration and source, and without one organisation."""
    everything = np.ones(len(table.rows), dtype=bool)
    chosen = [
        np.array([side(row, split) for row in table.rows]) == half
        for split in ("configuration", "source")
        for half in (0, 1)
    ]
    chosen += [everything & ~part for part in folds(table, everything, "organisation")]
    return [dict(table.fit(some).values) for some in chosen]


def calibration(table: Table) -> dict[str, Found]:
    """Return every fitted number with its range and its evidence, by key.

    A range holds all refits and what the fit itself leaves open, one standard deviation to each side.
    """
    everything = np.ones(len(table.rows), dtype=bool)
    fit = table.fit(everything)
    again = refits(table)
    free = tuple(one for figure in table.fitted_figures for one in table.free[FILES[figure]])
    measured, kernels = fit.measured(free), of_kernels(free)
    found = {}
    for one in free:
        value, left = fit.values[one.key], math.exp(fit.spread[one.key])
        if one.key in measured:
            reached = [value / left, value * left, *(values[one.key] for values in again)]
            source = f"fitted, {fit.rows[one.key]} published runs depend on it; prior: {one.why}"
            found[one.key] = Found(value, min(reached), max(reached), "measured", source)
        else:
            basis = "kernels" if one.key in kernels else "prior"
            found[one.key] = Found(value, None, None, basis, f"{one.why}; the runs of the fit hardly inform it")
    parts, inner = (parts_judged(table, everything, split) for split in ("organisation", "configuration"))
    stated = spreads(table, parts, of_sources=True, inner=inner)
    files = {key_of(name, "") for figure in table.fitted_figures for name in (*FILES[figure], *SPREAD_FILES[figure])}
    for key in estimated_keys(stated):
        if not key.startswith(tuple(files)):
            continue
        source = UPPER_SOURCE if key_of("memory", "sigma_over_") in key else LEFT_OUT_SOURCE
        unit = "1" if key.endswith(FACTORS) else "ln"
        found[key] = Found(stated[key], None, None, "measured", source, None if key in table.fixed else unit)
    return found


def described(table: Table) -> dict[str, str]:
    """Return what each file says of its fit."""
    said = {}
    for figure in FIGURES:
        rows = [p for p in table.known if counts(p, figure)]
        sources = len({organisation(p.row) for p in rows})
        said[figure] = f"{len(rows)} published runs of {sources} organisations (python -m benchmarks.calibrate)"
    return {
        "memory": f"Factors of the memory estimate, fitted on {said['memory']}.",
        "time": f"Coefficients of step time, fitted on {said['throughput']}.",
        "kernels": f"Kernel and launch coefficients of each framework profile, fitted on {said['throughput']}.",
        "gpu_efficiency": f"Share of peak that each card reaches in training, fitted on {said['throughput']}.",
        "uncertainty": f"Log-normal spread of the time estimate by class, from {said['throughput']}.",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report and write the calibration; 2 where the table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    parser.add_argument("table", metavar="TABLE.csv", nargs="+", help="several are taken together")
    parser.add_argument("--out", metavar="DIR", help="write below this folder in place of models/")
    parser.add_argument("--only", choices=FIGURES, help="fit this estimate alone; the other stays as it ships")
    parser.add_argument("--judge", action="store_true", help="print the held-out figures alone, write nothing")
    chosen = parser.parse_args(arguments)
    asked = (chosen.only,) if chosen.only else FIGURES
    try:
        table = Table([row for path in chosen.table for row in read_measurements(path)], read_library(), asked)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    splits, groups = judgement(table)
    found: Mapping[str, Found] = {} if chosen.judge else calibration(table)
    print(text_of(splits, groups, found, table, ", ".join(Path(path).name for path in chosen.table)))
    if not chosen.judge:
        models = data_folder("models")
        for path in write_calibration(models, Path(chosen.out) if chosen.out else models, found, described(table)):
            print(f"wrote {path}", file=sys.stderr)
    return 0
