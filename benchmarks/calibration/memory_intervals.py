"""How far off memory is on rows that no fit has seen, turned into the spreads of models/calibration/memory.yaml.

States (weights, gradients, optimizer) follow from the accounting, so a share of them is taken as certain: spreads are
of ln(measured / predicted) once that is taken off both. How much of them is certain is chosen here, too, by likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from benchmarks.accuracy.predictions import KNOWN_SHARES, USUAL_CONFIDENCE, Prediction
from benchmarks.calibration.evidence import MEASURES, Evidence, weighted_quantile
from benchmarks.calibration.traced import key_of
from planner.arrays import Floats
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK, MemorySpread, memory_spread
from planner.library.schema import Library

USUAL_FRAMEWORKS = ("hf", "hf-fused")
"""The byte accounting of Transformers is known best: these are told apart by what was measured, not by name."""
_UPPER = NormalDist().inv_cdf(USUAL_CONFIDENCE)
"""Deviations of the normal at the confidence at which spreads of the upper side are taken."""
LEAST_LEFT = 1e-3
"""Of a measured figure, what is at least taken as uncertain."""
Groups = Mapping[str, tuple[Sequence[Prediction], Sequence[Prediction]]]
"""By class: its rows, and those that it is drawn towards."""


def memory_spreads(
    known: Sequence[Prediction], unknown: Sequence[Prediction], library: Library, evidence: Evidence
) -> dict[str, float]:
    """Return the spreads and known shares by full key; nothing where there are no rows.

    By kind of figure for Transformers, by name for each other profiled framework, together for those that are
    documented and were not measured. `unknown` are the same rows with their framework forgotten.
    """
    profiled = [p for p in known if p.configuration is not None and p.configuration.profiled]
    if not profiled or not unknown:
        return {}
    share, share_unknown = (likeliest_share(rows, evidence) for rows in (profiled, unknown))
    profiled, unknown = _with_share(profiled, share), _with_share(unknown, share_unknown)
    usual, others = _by_accounting(profiled)
    allocated = [p for p in usual if p.row.peak_kind == "allocated"]
    groups = {"allocated": (allocated, usual), "reserved": ([p for p in usual if p not in allocated], usual)}
    groups |= {name: ([p for p in others if _framework(p) == name], others) for name in own_classes(library)}
    documented = [p for p in known if _class_of(p) == "documented"]
    documented = _with_share(documented, share)
    groups |= {"documented": (documented, others), "unknown": (unknown, unknown)}
    values = {}
    for suffix, covered, reach in MEASURES:
        for name, size in _drawn(groups, profiled, evidence, covered, upper=False).items():
            values[key_of("memory", f"{suffix}_{name}")] = size / reach
    over = _upper_sigmas(_upper_groups(profiled, library), profiled, evidence)
    more: Groups = {"documented": (documented, others), "unknown": (unknown, unknown)}
    over |= _upper_sigmas(more, profiled, evidence)
    values |= {key_of("memory", f"sigma_over_{name}"): sigma for name, sigma in over.items()}
    return {**values, key_of("memory", "known_share"): share, key_of("memory", "known_share_unknown"): share_unknown}


def _by_accounting(profiled: Sequence[Prediction]) -> tuple[list[Prediction], list[Prediction]]:
    usual = [p for p in profiled if _framework(p) in USUAL_FRAMEWORKS]
    return usual, [p for p in profiled if _framework(p) not in USUAL_FRAMEWORKS]


def _upper_groups(profiled: Sequence[Prediction], library: Library) -> Groups:
    """Return the classes of the upper side: Transformers, and each other profiled framework."""
    usual, others = _by_accounting(profiled)
    groups: dict[str, tuple[Sequence[Prediction], Sequence[Prediction]]] = {"usual": (usual, usual)}
    return groups | {name: ([p for p in others if _framework(p) == name], others) for name in own_classes(library)}


def likeliest_share(rows: Sequence[Prediction], evidence: Evidence) -> float:
    """Return the known share under which the measured figures are likeliest.

    Errors e of uncertain bytes are taken as Laplace, of the scale b that fits the rows best: the weighted mean of |e|.
    The density of a measured figure is exp(-|e| / b) / (2 b * uncertain bytes), so -ln of it is ln(2 b) + 1 +
    ln(uncertain) in the mean: errors that grow with all bytes ask for a share of 1, errors that states take no part in
    for a small one.
    """
    weights = evidence.weights(rows)

    def surprise(share: float) -> float:
        found = [p.peak for p in _with_share(rows, share) if p.peak is not None]
        scale = float(np.average([abs(peak.spread_error) for peak in found], weights=weights))
        left = [max(1.0 - peak.certain / peak.measured, LEAST_LEFT) for peak in found]
        return math.log(2.0 * scale) + 1.0 + float(np.average(np.log(left), weights=weights))

    return min(KNOWN_SHARES, key=surprise)


def _upper_sigmas(groups: Groups, everything: Sequence[Prediction], evidence: Evidence) -> dict[str, float]:
    """Return the spread of each class whose margin at the usual confidence holds that share of the rows."""
    sizes = _drawn(groups, everything, evidence, USUAL_CONFIDENCE, upper=True)
    return {name: max(size, 0.0) / _UPPER for name, size in sizes.items()}


def _drawn(
    groups: Groups, everything: Sequence[Prediction], evidence: Evidence, covered: float, upper: bool
) -> dict[str, float]:
    """Return the quantile of the error of each class, drawn towards that of more rows as far as its own say little."""
    found = {}
    for name, (rows, more) in groups.items():
        believed = evidence.believed(rows)
        size = believed * _size(rows, covered, evidence, upper)
        found[name] = size + (1.0 - believed) * _size(more or everything, covered, evidence, upper)
    return found


def _with_share(rows: Sequence[Prediction], share: float) -> list[Prediction]:
    return [replace(p, peak=replace(p.peak, known_share=share)) if p.peak is not None else p for p in rows]


def own_classes(library: Library) -> list[str]:
    """Return the profiled frameworks with a spread of their own."""
    table = library.techniques.frameworks
    return [name for name, facts in table.items() if facts.profiled and name not in USUAL_FRAMEWORKS]


def memory_sigma(prediction: Prediction, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the display and tail spread of a row's memory."""
    assert prediction.configuration is not None
    kind = "allocated" if prediction.row.peak_kind == "allocated" else "reserved"
    own = _framework(prediction)
    name = own if key_of("memory", f"sigma_{own}") in values else _class_of(prediction) or kind
    display = values[key_of("memory", f"sigma_{name}")]
    return display, values.get(key_of("memory", f"sigma_tail_{name}"), display)


def fit_spread(prediction: Prediction, values: Mapping[str, float]) -> MemorySpread:
    """Return the spread that decides whether a row is said to fit."""
    assert prediction.configuration is not None
    prefix = key_of("memory", "")
    bare = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
    return memory_spread(bare, _framework(prediction), prediction.configuration.profiled)


def _class_of(prediction: Prediction) -> str | None:
    """Return the class of a framework whose peaks were not measured; None of one whose were."""
    assert prediction.configuration is not None
    if _framework(prediction) == UNKNOWN_FRAMEWORK:
        return "unknown"
    return None if prediction.configuration.profiled else "documented"


def _framework(prediction: Prediction) -> str:
    assert prediction.configuration is not None
    return prediction.configuration.framework


def _size(rows: Sequence[Prediction], share: float, evidence: Evidence, upper: bool) -> float:
    errors: Floats = np.array([p.peak.spread_error for p in rows if p.peak is not None])
    return weighted_quantile(errors if upper else np.abs(errors), share, evidence.weights(rows))
