"""Fits the coefficients of both estimates to a table of published runs and judges them on rows held out.

The table has the columns of benchmarks/validation.csv, or some of them; rows of the headline of benchmarks.accuracy are
fitted. Without --out the calibration that ships is replaced. The same table gives the same bytes. Tables of --strangers
take part in no fit: their organisations show how far off a fit is for a user whom it has not seen.
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
from benchmarks.calibration.held_out import (
    FILES,
    PredictedRows,
    Shipped,
    Table,
    counts,
    folds,
    parts_judged,
    split_predictions,
    spreads,
)
from benchmarks.calibration.intervals import estimated_keys
from benchmarks.calibration.memory_intervals import FACTORS, own_classes
from benchmarks.calibration.targets import beaten
from benchmarks.calibration.text import text_of
from benchmarks.calibration.traced import key_of
from planner.documents.files import data_folder
from planner.errors import InputError
from planner.library.reading import read_library

SPREAD_FILES = {"memory": (), "throughput": ("uncertainty",)}
"""Where the spreads of an estimate are, if not among its coefficients."""

_OTHERS = tuple(key_of("uncertainty", f"{name}.") for name in ("xla", "habana"))
"""Profiles of chips other than NVIDIA's, whose spreads `benchmarks.accelerators` writes."""
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
    return {**fitted_numbers(table), **stated_spreads(table)}


def fitted_numbers(table: Table) -> dict[str, Found]:
    """Return the coefficients of the estimates."""
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
    return found


def stated_spreads(table: PredictedRows) -> dict[str, Found]:
    """Return the spreads of the estimates: of organisations that were in no fit, each judged by one without it."""
    if isinstance(table, Shipped):
        parts = table.parts()
        stated = spreads(table, parts, of_sources=True, inner=parts)
        # What two configurations share, rows that the coefficients were fitted on do not say.
        kept = {key: value for key, value in stated.items() if not key.startswith(key_of("uncertainty", "difference."))}
        return _said(kept, table)
    everything = np.ones(len(table.rows), dtype=bool)
    parts, inner = (parts_judged(table, everything, split) for split in ("organisation", "configuration"))
    return _said(spreads(table, parts, of_sources=True, inner=inner), table)


def _said(stated: Mapping[str, float], table: PredictedRows) -> dict[str, Found]:
    """Return spreads with what they rest on; those of chips other than NVIDIA's are of another command."""
    found = {}
    figures_of = table.fitted_figures if isinstance(table, Table) else FIGURES
    files = {key_of(name, "") for figure in figures_of for name in (*FILES[figure], *SPREAD_FILES[figure])}
    for key in estimated_keys(stated):
        if not key.startswith(tuple(files)) or stated[key] == table.fixed.get(key) or key.startswith(_OTHERS):
            continue
        upper = key.startswith(key_of("memory", "sigma_over_"))
        unit = "1" if not upper and key.endswith((*FACTORS, *own_classes(table.library))) else "ln"
        source = UPPER_SOURCE if upper else LEFT_OUT_SOURCE
        found[key] = Found(stated[key], None, None, "measured", source, None if key in table.fixed else unit)
    return found


def described(table: PredictedRows) -> dict[str, str]:
    """Return what each file says of its fit."""
    said = {}
    for figure in FIGURES:
        rows = [p for p, fits in zip(table.known, table.fits_on, strict=True) if fits and counts(p, figure)]
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
    parser.add_argument("--strangers", metavar="TABLE.csv", nargs="*", default=[], help="judged, but in no fit")
    parser.add_argument("--spreads", action="store_true", help="fit nothing: spreads alone, of what ships")
    parser.add_argument("--judge", action="store_true", help="print the held-out figures alone, write nothing")
    chosen = parser.parse_args(arguments)
    asked = (chosen.only,) if chosen.only else FIGURES
    try:
        rows, others = (
            [row for path in paths for row in read_measurements(path)] for paths in (chosen.table, chosen.strangers)
        )
        if chosen.spreads:
            shipped = Shipped(rows, read_library(), others)
            return _write(stated_spreads(shipped), shipped, chosen.out)
        table = Table(rows, read_library(), asked, others)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    splits, groups = judgement(table)
    found: Mapping[str, Found] = {} if chosen.judge else calibration(table)
    print(text_of(splits, groups, found, table, ", ".join(Path(path).name for path in chosen.table)))
    return 0 if chosen.judge else _write(found, table, chosen.out)


def _write(found: Mapping[str, Found], table: PredictedRows, out: str | None) -> int:
    """Write the files with these numbers; 0."""
    models = data_folder("models")
    for path in write_calibration(models, Path(out) if out else models, found, described(table)):
        print(f"wrote {path}", file=sys.stderr)
    return 0
