"""Fits the coefficients of accelerators other than NVIDIA's and judges them with one model left out at a time.

Only rows on chips with a `chip` block in their card are read, and only the coefficients of `accelerators.yaml` may
move. The spread of each kernel set is that of the rows that were left out. Without --judge the values are written into
models/calibration/.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.accuracy.measurements import Row, read_measurements
from benchmarks.accuracy.predictions import Prediction, Predictor
from benchmarks.accuracy.scores import quantile
from benchmarks.accuracy.splits import family
from benchmarks.calibration.files import CALIBRATIONS, Found, write_calibration
from benchmarks.calibration.fitting import Fit, Free, Loss, fitted, read_free
from benchmarks.calibration.held_out import TIME_FILES, counts
from benchmarks.calibration.stacking import SpeedRows
from benchmarks.calibration.traced import key_of, shipped_values, traced_library
from planner.documents.files import data_folder
from planner.errors import InputError
from planner.library.reading import read_library
from planner.library.schema import Library

NORMAL_90 = 1.645
"""Deviations within which 90 % of a normal lie: how tails are stated."""
LOSS = Loss(0.1, 0.05)
"""As LOSSES of held_out.py measures errors, each run by itself: few of these rows have twins."""
LEAST_ROWS = 5
"""Rows from which on a kernel set or a chip has a spread of its own."""
KERNELS = {"maxtext": "xla", "neuronx": "xla", "optimum-habana": "habana"}
"""Kernel set of the profiles that only accelerators other than NVIDIA's have."""


def rows_on_chips(rows: Sequence[Row], library: Library) -> list[Prediction]:
    """Return the predictions of the headline's speeds on accelerators other than NVIDIA's."""
    found = Predictor(traced_library(library)).predict(rows)
    return [p for p in found if counts(p, "throughput") and _chip(p) is not None]


def _chip(prediction: Prediction) -> object | None:
    setup = prediction.configuration
    return setup.host.gpu.chip if setup and setup.host else None


def fit_of(rows: Sequence[Prediction], free: Sequence[Free], fixed: Mapping[str, float]) -> Fit:
    """Return the free coefficients as these rows have them; all others as fixed."""
    speeds = SpeedRows.of(rows)
    return fitted(speeds.predicted, speeds.measured, [family(p.row) for p in rows], free, fixed, LOSS)


def left_out(rows: Sequence[Prediction], free: Sequence[Free], fixed: Mapping[str, float]) -> list[float]:
    """Return ln(measured / predicted) of every row, by a fit on the rows of all other models."""
    errors = [0.0] * len(rows)
    for model in dict.fromkeys(_model(p) for p in rows):
        places = [i for i, p in enumerate(rows) if _model(p) == model]
        fit = fit_of([p for p in rows if _model(p) != model], free, fixed)
        judged = SpeedRows.of([rows[i] for i in places])
        values = {key: _column(value) for key, value in {**fixed, **fit.values}.items()}
        predicted = judged.predicted(values, 1)[0]
        for i, measured, speed in zip(places, judged.measured, predicted, strict=True):
            errors[i] = math.log(float(measured) / float(speed))
    return errors


def _column(value: float) -> object:
    import numpy as np

    return np.full((1, 1), value)


def _model(prediction: Prediction) -> str:
    return prediction.row.text("model")


def table(rows: Sequence[Prediction], errors: Sequence[float]) -> str:
    """Return the errors of predicted over measured by chip, by kernel set and together, in %."""
    groups: dict[str, list[float]] = {"all": []}
    for p, error in zip(rows, errors, strict=True):
        setup = p.configuration
        assert setup is not None and setup.host is not None
        off = math.exp(-error) - 1.0
        for name in ("all", setup.host.gpu.name, f"{setup.framework}"):
            groups.setdefault(name, []).append(off)
    lines = [f"{'left out by model':<20}{'n':>5}{'median':>9}{'MAPE':>8}{'bias':>8}"]
    for name, several in groups.items():
        sizes = [abs(one) for one in several]
        mean = sum(sizes) / len(sizes)
        numbers = f"{100 * median(sizes):>9.1f}{100 * mean:>8.1f}{100 * sum(several) / len(several):>+8.1f}"
        lines.append(f"{name:<20}{len(several):>5}{numbers}")
    return "\n".join(lines)


def found_coefficients(
    rows: Sequence[Prediction], errors: Sequence[float], free: Sequence[Free], fixed: Mapping[str, float]
) -> dict[str, Found]:
    """Return every free coefficient with its evidence, and the spreads of the kernel sets from the rows left out."""
    fit = fit_of(rows, free, fixed)
    measured = fit.measured(free)
    found = {}
    for one in free:
        value, left = fit.values[one.key], math.exp(fit.spread[one.key])
        runs = f"fitted, {fit.rows[one.key]} published runs depend on it; prior: {one.why}"
        source = runs if one.key in measured else f"{one.why}; the runs of the fit hardly inform it"
        low, high = max(value / left, min(one.low, value)), min(value * left, max(one.high, value))
        found[one.key] = Found(value, low, high, "measured" if one.key in measured else "prior", source)
    return found | _spreads(rows, errors)


def _spreads(rows: Sequence[Prediction], errors: Sequence[float]) -> dict[str, Found]:
    """Return the spreads of each kernel set and chip that has rows enough: percentiles of the rows left out."""
    classes: dict[str, list[float]] = {}
    for p, error in zip(rows, errors, strict=True):
        setup = p.configuration
        assert setup is not None and setup.host is not None
        kernels = KERNELS.get(setup.framework)
        for name in (setup.host.gpu.name, *([kernels] if kernels else [])):
            classes.setdefault(name, []).append(abs(error))
    found = {}
    for name, sizes in classes.items():
        if len(sizes) < LEAST_ROWS:
            continue
        why = f"{len(sizes)} published runs, each judged by a fit without its model"
        for kind, share, scale in (("sigma", 0.68, 1.0), ("sigma_tail", 0.9, NORMAL_90)):
            value = quantile(sizes, share) / scale
            found[key_of("uncertainty", f"{name}.{kind}")] = Found(value, None, None, "measured", why, "ln")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the left-out errors and write the coefficients; 2 where a table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerators", description=__doc__)
    parser.add_argument("table", metavar="TABLE.csv", nargs="+", help="several are taken together")
    parser.add_argument("--judge", action="store_true", help="print the left-out errors alone, write nothing")
    chosen = parser.parse_args(arguments)
    library = read_library()
    try:
        rows = rows_on_chips([row for path in chosen.table for row in read_measurements(path)], library)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    free, fixed = read_free(TIME_FILES, "accelerators.yaml"), shipped_values(library)
    errors = left_out(rows, free, fixed)
    print(table(rows, errors))
    if chosen.judge:
        return 0
    models = data_folder("models")
    said = {name: library.calibrations[name].description for name in CALIBRATIONS}
    for path in write_calibration(models, models, found_coefficients(rows, errors, free, fixed), said):
        print(path)
    return 0
