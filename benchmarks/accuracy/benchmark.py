"""Our estimates against published measurements: `python -m benchmarks.accuracy TABLE.csv [--json] [--plot DIR]`.

The table has the columns of benchmarks/validation.csv, or some of them; a blank cell is unknown.
Headline figures are rows of quality A and B whose framework is named and whose sequences have the length stated;
all other rows that can be predicted are reported apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.accuracy import baselines, scores
from benchmarks.accuracy.configurations import Configuration
from benchmarks.accuracy.measurements import Row, read_measurements
from benchmarks.accuracy.predictions import Comparison, Prediction, Predictor
from benchmarks.accuracy.scores import Speed
from benchmarks.accuracy.splits import HALVES, organisation, side
from benchmarks.accuracy.text import text_of
from benchmarks.cost.prices import usd_per_gpu_hour
from planner.errors import InputError
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK
from planner.library.reading import read_library
from planner.library.schema import Library

FIGURES = ("memory", "throughput")
Grouping = Callable[[Prediction], str]
GROUPINGS: dict[str, Grouping] = {
    "method": lambda p: p.row.text("method") or "unknown",
    "gpu": lambda p: p.row.cells.get("gpu", "unknown"),
    "framework": lambda p: p.row.text("framework") or "unknown",
    "quality": lambda p: p.row.quality,
    "organisation": lambda p: organisation(p.row),
}


def compared(prediction: Prediction, figure: str) -> Comparison | None:
    """Return the measured and predicted figure of a row."""
    return prediction.peak if figure == "memory" else prediction.speed


def complete(prediction: Prediction, figure: str) -> bool:
    """Return whether the row has the figure and every column that an estimate of it needs."""
    return compared(prediction, figure) is not None or any(name == figure for name, _ in prediction.inexpressible)


def profile_named(prediction: Prediction) -> bool:
    """Return whether the table names the framework; blank means profile unknown."""
    return bool(prediction.row.text("framework"))


def lengths_known(prediction: Prediction) -> bool:
    """Return whether sequences were processed at the length stated, not at one derived from a mean."""
    return prediction.row.lengths is None or prediction.row.lengths.full


def headline(prediction: Prediction, figure: str) -> bool:
    """Return whether a row counts in the first table."""
    known = figure == "memory" or lengths_known(prediction)
    return prediction.row.headline and profile_named(prediction) and known


def summary(predictions: Sequence[Prediction], figure: str) -> dict[str, Any]:
    """Return the errors of one figure with its counts and the coverage of our intervals."""
    found = [c for p in predictions if (c := compared(p, figure)) is not None]
    result = scores.errors([c.error for c in found])
    result["n_complete"] = sum(complete(p, figure) for p in predictions)
    result["share_predicted"] = result["n"] / result["n_complete"] if result["n_complete"] else None
    result["coverage"] = scores.coverage(*_ranges(found))
    result["classes"] = class_coverage(predictions, figure)
    result["organisations"] = mean_over_organisations(predictions, figure)
    result["kinds"] = {
        name: {**mean_over_organisations(rows, figure), "rows": len(rows), "range": range_of(rows, figure)}
        for name, rows in by_kind(predictions, figure).items()
    }
    result["worst_kind"] = worst_kind(result["kinds"])
    return result


KINDS: dict[str, Callable[[Prediction, str], bool]] = {
    "allocated": lambda p, figure: figure == "memory" and p.row.peak_kind == "allocated",
    "reserved": lambda p, figure: figure == "memory" and p.row.peak_kind == "reserved",
    "device": lambda p, figure: figure == "memory" and p.row.peak_kind == "device",
    "one GPU": lambda p, _: _setup(p).layout.gpus == 1,
    "several GPUs": lambda p, _: _setup(p).layout.gpus > 1,
    "measured profile": lambda p, _: _setup(p).profiled,
    "documented profile": lambda p, _: not _setup(p).profiled and _setup(p).framework != UNKNOWN_FRAMEWORK,
    "unknown framework": lambda p, _: _setup(p).framework == UNKNOWN_FRAMEWORK,
    "host offload": lambda p, _: bool(_setup(p).states.host_optimizer),
}
"""Kinds of measurement whose errors are reported apart: what was read, on how many GPUs, what is known of a framework.

Pooled, one kind of which much is published (Transformers, the bytes that torch has allocated) hides the others."""
LEAST_OF_KIND = 3
"""Organisations that a kind needs to be the headline: fewer say more of themselves than of the kind."""


def by_kind(predictions: Sequence[Prediction], figure: str) -> dict[str, list[Prediction]]:
    """Return the rows with the figure of each kind that has some."""
    measured = [p for p in predictions if compared(p, figure) is not None]
    found = {name: [p for p in measured if belongs(p, figure)] for name, belongs in KINDS.items()}
    return {name: rows for name, rows in found.items() if rows}


def worst_kind(kinds: Mapping[str, Any]) -> str | None:
    """Return the kind of enough organisations with the largest mean error; None where none has them."""
    enough = [name for name, one in kinds.items() if one["n"] >= LEAST_OF_KIND]
    return max(enough, key=lambda name: float(kinds[name]["mape"]), default=None)


def range_of(predictions: Sequence[Prediction], figure: str) -> dict[str, Any]:
    """Return the shares inside the 68 and 95 % ranges, and the mean stated spread over the one that 68 % need."""
    found = [c for p in predictions if (c := compared(p, figure)) is not None]
    coverage, needed = scores.coverage(*_ranges(found)), scores.quantile([abs(c.spread_error) for c in found], 0.68)
    shares = {name: coverage[name] for name in ("interval_68", "interval_95")}
    return {**shares, "width": fmean(c.sigma for c in found) / needed if needed else None}


def _ranges(found: Sequence[Comparison]) -> tuple[list[float], list[float], list[float]]:
    """Return how far figures are off, and both spreads of each."""
    return [c.spread_error for c in found], [c.sigma for c in found], [c.sigma_tail for c in found]


CLASSES: dict[str, Callable[[Prediction], bool]] = {
    "framework seen": lambda p: _setup(p).framework != "unknown",
    "framework unseen": lambda p: _setup(p).framework == "unknown",
    "one GPU": lambda p: _setup(p).layout.gpus == 1,
    "several GPUs": lambda p: _setup(p).layout.gpus > 1,
    "full": lambda p: _setup(p).recipe.method == "full",
    "LoRA": lambda p: _setup(p).recipe.method == "lora" and not _setup(p).states.quantised,
    "quantised": lambda p: bool(_setup(p).states.quantised),
}
"""Classes whose ranges are judged each on its own."""
LEAST_OF_CLASS = 25


def _setup(prediction: Prediction) -> Configuration:
    assert prediction.configuration is not None
    return prediction.configuration


def class_coverage(predictions: Sequence[Prediction], figure: str) -> dict[str, Any]:
    """Return for each class of enough rows the rows inside the 68 and 95 % ranges, with 95 % Wilson intervals."""
    found: dict[str, Any] = {}
    for name, belongs in CLASSES.items():
        members = [c for p in predictions if (c := compared(p, figure)) is not None and belongs(p)]
        if len(members) >= LEAST_OF_CLASS:
            counts = scores.inside(*_ranges(members))
            found[name] = {key: scores.share(count, len(members)) for key, count in counts.items()}
    return found


def mean_over_organisations(predictions: Sequence[Prediction], figure: str) -> dict[str, Any]:
    """Return the mean over organisations of each one's MAPE and median error, and how many there are."""
    each = list(by_group(predictions, figure, GROUPINGS["organisation"]).values())
    means = {key: fmean(one[key] for one in each) if each else None for key in ("mape", "median_ape")}
    return {"n": len(each), **means}


def by_group(predictions: Sequence[Prediction], figure: str, key: Grouping) -> dict[str, Any]:
    """Return the errors by group, the largest group first."""
    groups = scores.grouped((p for p in predictions if compared(p, figure) is not None), key)
    found = {str(name): scores.errors([_error(p, figure) for p in members]) for name, members in groups.items()}
    return dict(sorted(found.items(), key=lambda item: (-item[1]["n"], item[0])))


def _error(prediction: Prediction, figure: str) -> float:
    comparison = compared(prediction, figure)
    assert comparison is not None
    return comparison.error


def speeds(
    predictions: Sequence[Prediction], library: Library, rule: Callable[[Configuration], float] | None = None
) -> list[Speed]:
    """Return the speeds per GPU with prices; `rule` replaces our prediction by that of a baseline."""
    found = []
    for p in predictions:
        if p.speed is None or p.configuration is None or p.configuration.host is None:
            continue
        gpus = float(p.configuration.layout.gpus)
        predicted = p.speed.predicted if rule is None else rule(p.configuration)
        price = usd_per_gpu_hour(p.configuration.host.gpu.name, library)
        found.append(Speed(p.row, p.speed.measured / gpus, predicted / gpus, price))
    return found


def fit(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the false fits and false rejections of the rows that say whether they ran."""
    verdicts = [(p.row.out_of_memory, p.fits) for p in predictions if p.need_bytes is not None]
    return dict(scores.fit_scores(verdicts))


def figures(predictions: Sequence[Prediction], library: Library) -> dict[str, Any]:
    """Return both figures, the fit rule, order and regret of some rows, without groups."""
    counted = {figure: [p for p in predictions if headline(p, figure)] for figure in FIGURES}
    found = speeds(counted["throughput"], library)
    return {
        "memory": summary(counted["memory"], "memory"),
        "throughput": {
            **summary(counted["throughput"], "throughput"),
            "pairs": scores.pairs(found),
            "pairs_same_dimensions": scores.pairs(found, scores.same_dimensions),
            "regret": scores.regret(found),
            "regret_same_dimensions": scores.regret(found, scores.same_dimensions),
        },
        "fit": fit(counted["memory"]),
    }


def baseline_figures(predictions: Sequence[Prediction], library: Library) -> dict[str, Any]:
    """Return the figures of the rules of thumb on the rows of the headline."""
    timed = [p for p in predictions if headline(p, "throughput")]

    def off(rule: Callable[[Configuration], float], figure: str) -> dict[str, Any]:
        found = [(p.configuration, compared(p, figure)) for p in predictions if headline(p, figure)]
        return scores.errors(
            [rule(setup) / c.measured - 1.0 for setup, c in found if setup is not None and c is not None]
        )

    return {
        "memory": {name: off(rule, "memory") for name, rule in baselines.MEMORY.items()},
        "throughput": {
            name: {**off(rule, "throughput"), "pairs": scores.pairs(speeds(timed, library, rule))}
            for name, rule in baselines.THROUGHPUT.items()
        },
    }


def skipped(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Return why figures have no prediction, and the rows that each reason costs, the largest first."""
    counts: Counter[str] = Counter()
    for p in predictions:
        counts.update(f"{figure}, not stated: {what}" for figure, what in p.missing)
        counts.update(f"{figure}, not expressible: {what}" for figure, what in p.inexpressible)
        counts.update(f"{figure}, contradicts itself: {what}" for figure, what in p.contradictions)
    return dict(counts.most_common())


def apart(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the figures of rows outside the headline: doubtful quality, unnamed framework, derived lengths."""
    sets = {
        "quality C": [p for p in predictions if not p.row.headline],
        "framework not named": [p for p in predictions if p.row.headline and not profile_named(p)],
        "lengths from a mean": [replace(p, peak=None) for p in predictions if p.row.headline and not lengths_known(p)],
    }
    return {name: {figure: summary(rows, figure) for figure in FIGURES} for name, rows in sets.items()}


def worst(predictions: Sequence[Prediction], figure: str, at_least: int = 5) -> list[dict[str, Any]]:
    """Return the groups of framework, method and GPU with the largest median error."""

    def name(p: Prediction) -> str:
        return ", ".join(GROUPINGS[key](p) for key in ("framework", "method", "gpu"))

    groups = by_group([p for p in predictions if headline(p, figure)], figure, name)
    found = [{"group": group, **errors} for group, errors in groups.items() if errors["n"] >= at_least]
    return sorted(found, key=lambda entry: -entry["median_ape"])


def report(rows: Sequence[Row], library: Library) -> dict[str, Any]:
    """Return all figures of a table, ready for JSON; shares and errors are fractions."""
    predictor = Predictor(library)
    predictions = predictor.predict(rows)
    answer = {"rows": len(rows), **figures(predictions, library)}
    for figure in FIGURES:
        shown = [p for p in predictions if headline(p, figure)]
        any_quality = [p for p in predictions if profile_named(p) and (figure == "memory" or lengths_known(p))]
        answer[figure]["by"] = {
            name: by_group(any_quality if name == "quality" else shown, figure, key) for name, key in GROUPINGS.items()
        }
        answer[figure]["worst"] = worst(predictions, figure)
    answer["skipped"] = skipped(predictions)
    answer["apart"] = apart(predictions)
    answer["baselines"] = baseline_figures(predictions, library)
    answer["splits"] = split_figures(predictions, predictor.predict(rows, as_unknown=True), library)
    return answer


def split_figures(known: Sequence[Prediction], unknown: Sequence[Prediction], library: Library) -> dict[str, Any]:
    """Return the figures of each split: of its two sides, and of both together.

    The shipped calibration has seen both sides, so nothing is held out; benchmarks.calibrate judges that.
    """
    answer: dict[str, Any] = {}
    for split in HALVES:
        rows = unknown if split == "source_unknown" else known
        sides = {f"side {half}": [p for p in rows if side(p.row, split) == half] for half in (0, 1)}
        answer[split] = {
            "held_out": False,
            **{name: figures(chosen, library) for name, chosen in {"both": rows, **sides}.items()},
        }
    return answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 2 where the table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("table", metavar="TABLE.csv", nargs="+", help="several are taken together")
    parser.add_argument("--json", action="store_true", help="one JSON document in place of text")
    parser.add_argument("--brief", action="store_true", help="the headlines alone")
    parser.add_argument("--plot", metavar="DIR", help="write pictures into this folder")
    chosen = parser.parse_args(arguments)
    try:
        rows = [row for path in chosen.table for row in read_measurements(path)]
        library = read_library()
        answer = report(rows, library)
        if chosen.plot:
            from benchmarks.accuracy.plots import write_pictures

            predictions = Predictor(library).predict(rows)
            memory, throughput = (
                [(p, c) for p in predictions if headline(p, figure) and (c := compared(p, figure)) is not None]
                for figure in FIGURES
            )
            written = write_pictures(memory, throughput, chosen.plot)
            print("\n".join(f"wrote {path}" for path in written), file=sys.stderr)
    except InputError as error:
        if chosen.json:
            print(json.dumps({"status": "error", "errors": [fault._asdict() for fault in error.faults]}))
        print(error, file=sys.stderr)
        return 2
    print(
        json.dumps(answer, indent=2)
        if chosen.json
        else text_of(answer, ", ".join(Path(path).name for path in chosen.table), chosen.brief)
    )
    return 0
