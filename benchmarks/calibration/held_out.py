"""Fits on one part of a table, judged on another: every figure of a split comes from rows that its fit never saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.benchmark import FIGURES, compared, headline, lengths_known
from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.predictions import KNOWN_SHARES, Comparison, Prediction, Predictor
from benchmarks.accuracy.splits import DOCUMENTED, family, inner_side, organisation, side
from benchmarks.calibration.evidence import Evidence
from benchmarks.calibration.fitting import Fit, Loss, fitted, read_free, values_at
from benchmarks.calibration.intervals import Timed, time_spreads
from benchmarks.calibration.memory_intervals import JudgedRows, fit_spread, memory_sigma, memory_spreads
from benchmarks.calibration.stacking import MemoryRows, SpeedRows
from benchmarks.calibration.traced import key_of, shipped_values, traced_library
from benchmarks.calibration.verdicts import has_verdict
from planner.library.schema import Library

MEMORY_FILES = ("memory", "bytes")
TIME_FILES = ("time", "kernels", "gpu_efficiency")
FILES = {"memory": MEMORY_FILES, "throughput": TIME_FILES}
LOSSES = {MEMORY_FILES: Loss(0.05, 0.08), TIME_FILES: Loss(0.1, 0.1, weight=0.25)}
"""Scales and spreads were chosen on fits within the sides, both sides' results in view; figures hardly depend on them.
Four runs count as one in throughput: of weights of 1, 0.5, 0.25 and 0.12 the other organisations choose 0.12 for eleven
of thirteen left out and 0.25 for two; the two are equal in the end, and the configuration split is better at 0.25."""


class PredictedRows:
    """The rows of a table and those of strangers, which take part in no fit, with what is predicted of them."""

    known: tuple[Prediction, ...]
    unknown: tuple[Prediction, ...]
    """The same with every framework forgotten."""

    def __init__(self, rows: Sequence[Row], library: Library, strangers: Sequence[Row]):
        self.library, self.fixed = library, shipped_values(library)
        self.fits_on: NDArray[np.bool_] = np.arange(len(rows) + len(strangers)) < len(rows)
        self.rows = (*rows, *strangers)
        self.blind = frozenset(map(organisation, strangers)) - frozenset(map(organisation, rows))


class Table(PredictedRows):
    """The rows of a table, made into setups once and for all, from which coefficients are fitted."""

    def __init__(
        self,
        rows: Sequence[Row],
        library: Library,
        fitted_figures: Sequence[str] = FIGURES,
        strangers: Sequence[Row] = (),
    ):
        super().__init__(rows, library, strangers)
        self.fitted_figures = tuple(fitted_figures)  # coefficients of the others stay as they ship
        predictor = Predictor(traced_library(library))
        self.known, self.unknown = (tuple(predictor.predict(self.rows, as_unknown)) for as_unknown in (False, True))
        self.free = {files: read_free(files) for files in (MEMORY_FILES, TIME_FILES)}
        self._fits: dict[bytes, Fit] = {}

    def fit(self, chosen: NDArray[np.bool_]) -> Fit:
        """Return the free coefficients of the estimates, fitted on the chosen rows of the headline."""
        chosen = chosen & self.fits_on
        key = chosen.tobytes()
        if key not in self._fits:
            one, other = (self._fit_figure(chosen, figure) for figure in FIGURES)
            self._fits[key] = Fit(*(vars(one)[name] | vars(other)[name] for name in vars(one)))
        return self._fits[key]

    def _fit_figure(self, chosen: NDArray[np.bool_], figure: str) -> Fit:
        files = FILES[figure]
        if figure not in self.fitted_figures:
            keys = [one.key for one in self.free[files]]
            nothing = dict.fromkeys(keys, 0.0)
            return Fit({key: self.fixed[key] for key in keys}, nothing, nothing, dict.fromkeys(keys, 0))
        counted = [self.known[i] for i in np.flatnonzero(chosen) if counts(self.known[i], figure)]
        rows = MemoryRows.of(counted, self.library) if figure == "memory" else SpeedRows.of(counted)
        sources = [family(p.row) for p in counted]
        return fitted(rows.predicted, rows.measured, sources, self.free[files], self.fixed, LOSSES[files])


class Shipped(PredictedRows):
    """The rows of a table as the shipped coefficients judge them, without a fit: what spreads are taken from.

    Rows of organisations that were there when the estimates were made tell how classes differ, those of `strangers`
    how far off an estimate is for somebody whom it has not seen (`Evidence.blind`).
    """

    def __init__(self, rows: Sequence[Row], library: Library, strangers: Sequence[Row]):
        super().__init__(rows, library, strangers)
        predictor = Predictor(library)
        either = (predictor.predict(self.rows, as_unknown) for as_unknown in (False, True))
        self.known, self.unknown = (
            tuple(p if lengths_known(p) else replace(p, speed=None) for p in predictions) for predictions in either
        )

    def parts(self) -> list[Part]:
        """Return the rows of each organisation with a figure; a framework is a stranger's where no other one has it."""
        found, everything = [], np.ones(len(self.rows), dtype=bool)
        for part in folds(self, everything, "organisation"):
            places = np.flatnonzero(part).tolist()
            if any(counts(self.known[i], figure) for i in places for figure in FIGURES):
                either = ({i: rows[i] for i in places} for rows in (self.known, self.unknown))
                found.append(Part(*either, strangers(self, everything, part)))
        return found


def counts(prediction: Prediction, figure: str) -> bool:
    """Return whether a row is fitted and judged: of the headline, and measured."""
    return headline(prediction, figure) and compared(prediction, figure) is not None


def judged(table: Table, fit: Fit, predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return the predictions made again with what a fit found; rows of derived lengths keep no speed.

    Whether the efficiency of a card is measured is for the rows of the fit to say, too.
    """
    values, library = {**table.fixed, **fit.values}, table.library
    measured = fit.measured(table.free[TIME_FILES])
    columns = {key: np.full((1, 1), value) for key, value in values.items()}
    found = list(predictions)
    sized = [i for i, p in enumerate(found) if p.peak is not None or p.need_bytes is not None]
    if sized:
        sizes = MemoryRows.of([found[i] for i in sized], library).estimates(columns, 1)
        for place, i in enumerate(sized):
            p, (peak, known, need) = found[i], (float(sizes[name][0, place]) for name in ("peak", "known", "need"))
            found[i] = replace(
                p,
                peak=None if p.peak is None else replace(p.peak, predicted=peak, known=known),
                need_bytes=None if p.need_bytes is None else need,
                widest_margins=dict(zip(KNOWN_SHARES, sizes["widest"][0, place].tolist(), strict=True)),
            )
    timed = [i for i, p in enumerate(found) if p.speed is not None and lengths_known(p)]
    if timed:
        speeds = SpeedRows.of([found[i] for i in timed]).predicted(columns, 1)[0]
        for i, speed in zip(timed, speeds, strict=True):
            found[i] = replace(found[i], speed=_again(found[i].speed, float(speed)))
    found = [p if lengths_known(p) else replace(p, speed=None) for p in found]
    return [_informed(p, measured) for p in found] if "throughput" in table.fitted_figures else found


def _informed(prediction: Prediction, measured: frozenset[str]) -> Prediction:
    setup = prediction.configuration
    if setup is None or setup.host is None:
        return prediction
    host = setup.host
    if key_of("gpu_efficiency", host.gpu.name) in measured:
        host = replace(host, efficiency_basis="measured")
    elif host.efficiency_basis == "measured":
        host = replace(host, efficiency_basis="prior")
    return replace(prediction, configuration=replace(setup, host=host))


def _again(comparison: Comparison | None, predicted: float) -> Comparison:
    assert comparison is not None
    return replace(comparison, predicted=predicted)


def with_spreads(predictions: Sequence[Prediction], values: Mapping[str, float], library: Library) -> list[Prediction]:
    """Return the predictions with the spreads that these values state."""
    bare = {key.partition(":")[2]: value for key, value in values.items() if key.startswith("uncertainty:")}
    timed = [p for p in predictions if p.speed is not None]
    sigmas = Timed.of(timed, library).sigmas(bare) if timed else None
    found, place = [], 0
    for p in predictions:
        if p.speed is not None and sigmas is not None:
            display, tail = float(sigmas.display[place]), float(sigmas.tail[place])
            p, place = replace(p, speed=p.speed.with_sigmas(display, tail)), place + 1
        if p.configuration is not None:
            spread = fit_spread(p, values)
            peak = p.peak and replace(p.peak, known_share=spread.known_share).with_sigmas(*memory_sigma(p, values))
            p = replace(p, peak=peak, fit_spread=spread)
        found.append(p)
    return found


def unfitted(table: Table, forgotten: frozenset[int] = frozenset()) -> list[Prediction]:
    """Return the predictions with every free coefficient at its prior: what was believed, without any row.

    Rows of the indices `forgotten` have their framework treated as unknown, as their organisation's split judges them.
    """
    free = (*table.free[MEMORY_FILES], *table.free[TIME_FILES])
    values = values_at(free, np.zeros((1, len(free))), table.fixed)
    keys = [one.key for one in free]
    nothing = dict.fromkeys(keys, 0.0)
    prior = Fit({key: float(values[key].flat[0]) for key in keys}, nothing, nothing, dict.fromkeys(keys, 0))
    either = [(table.unknown if i in forgotten else table.known)[i] for i in range(len(table.rows))]
    return judged(table, prior, either)


def strangers(table: PredictedRows, chosen: NDArray[np.bool_], part: NDArray[np.bool_]) -> frozenset[int]:
    """Return the rows of a part with a framework that no other chosen row informs."""
    seen = frameworks(table, chosen & ~part)
    return frozenset(i for i in np.flatnonzero(part).tolist() if table.rows[i].text("framework") not in seen)


def folds(table: PredictedRows, chosen: NDArray[np.bool_], split: str) -> list[NDArray[np.bool_]]:
    """Return the parts of the chosen rows, each of which the others can judge as the split judges its rows."""
    name_of = inner_side if split == "configuration" else organisation
    parts = [str(name_of(row)) for row in table.rows]
    names = dict.fromkeys(part for part, there in zip(parts, chosen, strict=True) if there)
    return [chosen & np.array([part == name for part in parts]) for name in names]


class Part(NamedTuple):
    """Rows that a fit on other rows has judged: by index, with their framework named and forgotten."""

    named: dict[int, Prediction]
    forgotten: dict[int, Prediction]
    strangers: frozenset[int]  # rows with a framework that no other row of the fit has

    def honest(self) -> list[Prediction]:
        """Return the predictions that somebody could have made without these rows."""
        return [self.forgotten[i] if i in self.strangers else p for i, p in self.named.items()]


def parts_judged(table: Table, chosen: NDArray[np.bool_], split: str) -> list[Part]:
    """Return the parts of the chosen rows that hold a figure, each judged by a fit on the other chosen rows.

    A framework is a stranger's where no row of the fit has it.
    """
    found = []
    for part in folds(table, chosen, split):
        places = np.flatnonzero(part)
        if not any(counts(table.known[i], figure) for i in places for figure in FIGURES):
            continue
        fit = table.fit(chosen & ~part)
        named, forgotten = (
            dict(zip(places.tolist(), judged(table, fit, [rows[i] for i in places]), strict=True))
            for rows in (table.known, table.unknown)
        )
        found.append(Part(named, forgotten, strangers(table, chosen, part)))
    return found


def _judges(prediction: Prediction) -> bool:
    """Return whether a row of the headline says by its verdict what its missing peak does not."""
    return headline(prediction, "memory") and has_verdict(prediction)


def frameworks(table: PredictedRows, chosen: NDArray[np.bool_]) -> frozenset[str]:
    """Return the frameworks that the chosen rows inform: those of rows that are fitted."""
    rows = [table.known[i] for i in np.flatnonzero(chosen & table.fits_on)]
    return frozenset(p.row.text("framework") for p in rows if any(counts(p, figure) for figure in FIGURES))


def spreads(
    table: PredictedRows, parts: Sequence[Part], of_sources: bool, inner: Sequence[Part] = ()
) -> dict[str, float]:
    """Return the spreads that these judged rows show; `of_sources` where new rows come from new organisations.

    Those of an unknown framework come from strangers, where there are any. What a fit is worth that has the framework
    of a stranger, `inner` says: parts within organisations.
    """
    named = [p for part in parts for p in part.named.values()]
    strange = [(i, part) for part in parts for i in part.strangers]
    everybody = [p for part in parts for p in part.forgotten.values()]
    forgotten = [part.forgotten[i] for i, part in strange] or everybody
    evidence = Evidence(of_sources=of_sources, blind=table.blind if of_sources else frozenset())
    there = {i for i, _ in strange}
    known = [p for part in parts for i, p in part.named.items() if i not in there]
    known += [part.named[i] for part in inner for i in part.named if i in there and i not in part.strangers]
    honest = [p for part in parts for p in part.honest()]
    several = (honest, named, known, [part.named[i] for i, part in strange], forgotten)
    judged_rows = JudgedRows(*([p for p in rows if counts(p, "memory") or _judges(p)] for rows in several))
    of_each = (honest, named, forgotten, everybody)
    timed, by_name, without, all_without = ([p for p in rows if counts(p, "throughput")] for rows in of_each)
    return {
        **time_spreads(timed, by_name, without or all_without, table.fixed, table.library, evidence),
        **memory_spreads(judged_rows, table.library, evidence),
    }


def split_predictions(table: Table) -> dict[str, list[Prediction]]:
    """Return by split the predictions of all rows, each by a fit without it and by the spreads of other rows.

    Rows that no fit judges, because their organisation has no figure to judge, are left out.
    """
    everything = np.ones(len(table.rows), dtype=bool)
    parts = parts_judged(table, everything, "organisation")
    inner = parts_judged(table, everything, "configuration")
    left_out: dict[str, list[Prediction]] = {"organisation": [], "organisation_unknown": [], DOCUMENTED: []}
    for part in parts:
        # The residuals of the others come from fits that have seen this part, as in cross-conformal prediction: fits
        # without both would be as many as pairs of organisations.
        others = [other for other in parts if other is not part]
        values = {**table.fixed, **spreads(table, others, of_sources=True, inner=inner)}
        either = (part.honest(), list(part.forgotten.values()), list(part.named.values()))
        for split, rows in zip(left_out, either, strict=True):
            left_out[split] += with_spreads(rows, values, table.library)
    return {**left_out, "configuration": _halves(table)}


def _halves(table: Table) -> list[Prediction]:
    """Return the predictions of all rows, each by the fit and the spreads of the other half of the configurations."""
    sides = np.array([side(row, "configuration") for row in table.rows])
    found: dict[int, Prediction] = {}
    for half in (0, 1):
        train, chosen = sides == 1 - half, np.flatnonzero(sides == half)
        stated = spreads(table, parts_judged(table, train, "configuration"), of_sources=False)
        again = judged(table, table.fit(train), [table.known[i] for i in chosen])
        values = {**table.fixed, **stated}
        found |= dict(zip(chosen.tolist(), with_spreads(again, values, table.library), strict=True))
    return [found[i] for i in np.flatnonzero(table.fits_on).tolist()]
