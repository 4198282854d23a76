"""How far off memory is on rows that no fit has seen, turned into the spreads of models/calibration/memory.yaml.

States (weights, gradients, optimizer) follow from the accounting, so a share of them is taken as certain: spreads are
of ln(measured / predicted) once that is taken off both. How much of them is certain is chosen here, too, by likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.memory_spread import KINDS, USUAL_FRAMEWORKS, memory_classes, memory_sigmas
from benchmarks.accuracy.predictions import KNOWN_SHARES, Prediction
from benchmarks.accuracy.splits import organisation
from benchmarks.calibration.evidence import MEASURES, Evidence, class_factors, quantile_of_new_group, weighted_quantile
from benchmarks.calibration.fitting import source_weights
from benchmarks.calibration.traced import key_of
from benchmarks.calibration.verdicts import Errors, errors_of, expected_errors, groups_of, has_verdict, scatter_of
from planner.arrays import Floats
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK, MemorySpread, memory_spread
from planner.library.schema import Library

FACTORS = ("one_gpu", "several_gpus", "full", "lora", "quantised", "documented", "unknown", "offload")
"""Classes which are factors on the spread of a kind of figure, next to each other profiled framework by name."""
_UPPER_SHARE = 0.95
"""Share of errors below the quantile from which spreads of the upper side are taken."""
_UPPER = NormalDist().inv_cdf(_UPPER_SHARE)
"""Deviations of the normal there."""
LEAST_LEFT = 1e-3
"""Of a measured figure, what is at least taken as uncertain."""


class JudgedRows(NamedTuple):
    """Rows that a fit without them has judged, measured or with a verdict alone."""

    honest: Sequence[Prediction]  # as somebody could have predicted them who had not seen them
    named: Sequence[Prediction]  # with their framework named, whether the fit has other rows of it or not
    known: Sequence[Prediction]  # by a fit that has
    strangers: Sequence[Prediction]  # by a fit that has none: what documentation is worth
    forgotten: Sequence[Prediction]  # the strangers with their framework treated as unknown


def memory_spreads(rows: JudgedRows, library: Library, evidence: Evidence) -> dict[str, float]:
    """Return the spreads and known shares by full key; nothing where there are no rows.

    A spread is a product of class factors of the honest rows: of the kind of figure, the number of GPUs, the method,
    the accounting (by name for each profiled framework but Transformers, together for those that are documented and
    were not measured), and of states in host memory.
    """
    profiled = [p for p in _measured(rows.named) if p.configuration is not None and p.configuration.profiled]
    unknown = _measured(rows.forgotten)
    if not profiled or not unknown:
        return {}
    share, share_unknown = (likeliest_share(some, evidence) for some in (profiled, unknown))
    profiled, unknown = _with_share(profiled, share), _with_share(unknown, share_unknown)
    named = _with_share(_measured(rows.named), share)
    honest = [p for p in _measured(rows.honest) if _class_of(p) != "unknown"]
    guessed = [p for p in _measured(rows.honest) if _class_of(p) == "unknown"]
    honest = [*_with_share(honest, share), *_with_share(guessed, share_unknown)]
    values = _sigmas(honest, [*named, *unknown], library, evidence)
    known, strangers = _with_share(rows.known, share), _with_share(rows.strangers, share)
    over = upper_sigmas(known, strangers, _with_share(rows.forgotten, share_unknown), library, evidence)
    values |= {key_of("memory", f"sigma_over_{name}"): sigma for name, sigma in over.items()}
    return {**values, key_of("memory", "known_share"): share, key_of("memory", "known_share_unknown"): share_unknown}


def _sigmas(
    honest: Sequence[Prediction], more: Sequence[Prediction], library: Library, evidence: Evidence
) -> dict[str, float]:
    """Return the two-sided spreads and the factors on them by full key, both of them for each measure.

    Honest rows decide. A class that they lack has the rows of it among `more`: a framework that one organisation has
    alone, and, where no row is a stranger, the unknown one.
    """
    absent = [name for name in _classes(more) if name not in _classes(honest)]
    without = dict.fromkeys((*KINDS, *FACTORS, *own_classes(library)), 1.0)
    values = {}
    for suffix, covered, reach in MEASURES:
        overall, factors = _factors(honest, covered, evidence)
        factors.pop(_SEEN, None)
        factors = {**without, **factors}
        for name in absent:
            rows = [p for p in more if name in _names(p)]
            rest = [overall * math.prod(factors[other] for other in _names(p) if other != name) for p in rows]
            own = weighted_quantile(_sizes(rows) / np.array(rest), covered, evidence.weights(rows))
            factors[name] = own ** evidence.believed(rows)
        for name, factor in factors.items():
            size = overall / reach if name in KINDS else 1.0
            values[key_of("memory", f"{suffix}_{name}")] = factor * size
    return values


_SEEN = "seen"
"""A class that no estimate has: rows of organisations that were there when the estimates were made."""
SEEN_SHARE = 0.2
"""Weight of their rows. What fits them best says little of what fits strangers best: adapters on one GPU are met within
2 % where the accounting was written for them, and no better than anything else where it was not."""


def _factors(rows: Sequence[Prediction], covered: float, evidence: Evidence) -> tuple[float, dict[str, float]]:
    """Return the size of errors of a stranger's rows, and the factors of their classes.

    Rows of organisations that were seen tell how classes differ, `SEEN_SHARE` as much as strangers'; a factor of their
    own takes up how much better they are met.
    """
    classes, seen, weights = _classes(rows), ~evidence.is_blind(rows), evidence.weights(rows)
    if seen.any() and not seen.all():
        classes[_SEEN] = seen
        weights = np.where(seen, SEEN_SHARE, 1.0) * weights
    believed = {
        name: evidence.believed([p for p, there in zip(rows, members, strict=True) if there])
        for name, members in classes.items()
    }
    return class_factors(_sizes(rows), classes, believed, evidence.share_of_another(covered), weights)


def _names(prediction: Prediction) -> tuple[str, ...]:
    assert prediction.configuration is not None
    return memory_classes(prediction.row, prediction.configuration)


def _classes(rows: Sequence[Prediction]) -> dict[str, NDArray[np.bool_]]:
    """Return which rows belong to each class that some of them have."""
    each = [_names(p) for p in rows]
    there = dict.fromkeys(name for names in each for name in names)
    return {name: np.array([name in names for names in each]) for name in there}


def _sizes(rows: Sequence[Prediction]) -> Floats:
    return np.array([abs(p.peak.spread_error) for p in rows if p.peak is not None])


def upper_sigmas(
    known: Sequence[Prediction],
    strangers: Sequence[Prediction],
    unknown: Sequence[Prediction],
    library: Library,
    evidence: Evidence,
) -> dict[str, float]:
    """Return the spread of each class whose margin at the usual confidence holds that share of its errors.

    It is that of an organisation of which nothing was seen (`Evidence.blind`), as far as there are some. A framework
    that fits have seen is drawn towards all that they have seen; what is documented towards frameworks other than
    Transformers that they have not. One without a measured peak has the spread that its verdicts leave, an
    unknown one that of a further group, drawn towards the documented ones. States in host memory are a class of their
    own, of any framework.
    What is less well known is no more certain: at least as wide as all that were seen, the unknown as the documented.
    """
    offloaded = [p for p in _measured([*known, *strangers]) if _offloads(p)]
    known, strangers, unknown = ([p for p in rows if not _offloads(p)] for rows in (known, strangers, unknown))
    profiled = [p for p in _measured(known) if _class_of(p) is None]
    usual, others = _by_accounting(profiled)
    strange = _by_accounting(strangers)[1] or others
    documented = [p for p in (*known, *strangers) if _class_of(p) == "documented"]
    everything, between = _reach(_exact(profiled, evidence)), scatter_of(_measured(strange))
    found = {"usual": _reach(_exact(usual, evidence))}
    believed = evidence.believed(_measured(documented))
    drawn = believed * _reach(_all_errors(documented, evidence)) if documented else 0.0
    found["documented"] = max(drawn + (1.0 - believed) * _reach(_all_errors(strange, evidence)), everything)
    believed = evidence.believed(_measured(unknown))
    drawn = believed * _reach_of_new(_measured(unknown)) + (1.0 - believed) * found["documented"]
    found["unknown"] = max(drawn, found["documented"])
    for name, own in _own(others, library).items():
        believed = evidence.believed(own)
        found[name] = believed * _reach(_exact(own, evidence)) + (1.0 - believed) * everything
        either = ([p for p in some if _framework(p) == name] for some in (strangers, known))
        judged = next((some for some in either if some), [])
        if not own:
            expected = _reach(expected_errors(judged, between)) if judged else found["documented"]
            found[name] = max(expected, everything)
    # What strangers are further off than the rest, at the same confidence, as far as they are evidence.
    blind = [p for p, is_blind in zip(profiled, evidence.is_blind(profiled), strict=True) if is_blind]
    ratio = _reach(_exact(blind, evidence)) / everything if blind and everything > 0.0 else 1.0
    further = max(ratio, 1.0) ** evidence.believed(blind)
    found = {name: further * reach for name, reach in found.items()}
    believed = evidence.believed(offloaded)
    of_hosts = _reach(_exact(offloaded, evidence)) if offloaded else 0.0
    found["offload"] = max(believed * of_hosts + (1.0 - believed) * found["unknown"], found["documented"])
    return {name: max(reach, 0.0) / _UPPER for name, reach in found.items()}


def _exact(rows: Sequence[Prediction], evidence: Evidence) -> Errors:
    values: Floats = np.array([p.peak.spread_error for p in rows if p.peak is not None])
    return Errors(values, evidence.weights(rows) * _fills(rows))


def _fills(rows: Sequence[Prediction]) -> Floats:
    """Return what share of its card each row is predicted to take, at most 1: as far as that, it decides a fit.

    Runs that take a tenth of a card are further off in relation, by what does not grow, and would have fitted anyway.
    """
    taken = [p.peak.predicted / p.usable_bytes if p.peak is not None else 1.0 for p in rows]
    fills: Floats = np.minimum(np.array(taken), 1.0)
    return fills if fills.any() else np.ones(fills.shape)


def _all_errors(rows: Sequence[Prediction], evidence: Evidence) -> Errors:
    """Return measured errors, and what verdicts leave of the others."""
    some = [p for p in rows if p.peak is not None or has_verdict(p)]
    return errors_of(some, evidence.weights(some) * _fills(some), scatter_of(_measured(some)))


def _reach_of_new(rows: Sequence[Prediction]) -> float:
    """Return the error that a run of a framework without any measured run stays below at the usual confidence.

    From peaks alone: publishers print what ran, so verdicts would say too little of what fails.
    """
    weights = source_weights([organisation(p.row) for p in rows]) * _fills(rows)
    weight_of = {id(p): weight for p, weight in zip(rows, weights, strict=True)}
    groups = []
    for some in groups_of(rows).values():
        errors: Floats = np.array([p.peak.spread_error for p in some if p.peak is not None])
        groups.append((errors, np.array([weight_of[id(p)] for p in some])))
    return quantile_of_new_group(groups, _UPPER_SHARE)


def _reach(errors: Errors) -> float:
    return weighted_quantile(errors.values, _UPPER_SHARE, errors.weights)


def _measured(rows: Sequence[Prediction]) -> list[Prediction]:
    return [p for p in rows if p.peak is not None]


def _own(others: Sequence[Prediction], library: Library) -> dict[str, list[Prediction]]:
    """Return the rows of each framework with a spread of its own."""
    return {name: [p for p in others if _framework(p) == name] for name in own_classes(library)}


def _by_accounting(profiled: Sequence[Prediction]) -> tuple[list[Prediction], list[Prediction]]:
    usual = [p for p in profiled if _framework(p) in USUAL_FRAMEWORKS]
    return usual, [p for p in profiled if _framework(p) not in USUAL_FRAMEWORKS]


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


def _with_share(rows: Sequence[Prediction], share: float) -> list[Prediction]:
    """Return rows whose errors and margins are of what this share of their states leaves uncertain."""
    found = []
    for p in rows:
        peak = p.peak and replace(p.peak, known_share=share)
        spread = p.fit_spread and p.fit_spread._replace(known_share=share)
        found.append(replace(p, peak=peak, fit_spread=spread))
    return found


def own_classes(library: Library) -> list[str]:
    """Return the profiled frameworks with a spread of their own."""
    table = library.techniques.frameworks
    return [name for name, facts in table.items() if facts.profiled and name not in USUAL_FRAMEWORKS]


def memory_sigma(prediction: Prediction, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the display and tail spread of a row's memory."""
    assert prediction.configuration is not None
    return memory_sigmas(_bare(values), prediction.row, prediction.configuration)


def fit_spread(prediction: Prediction, values: Mapping[str, float]) -> MemorySpread:
    """Return the spread that decides whether a row is said to fit."""
    assert prediction.configuration is not None
    return memory_spread(
        _bare(values), _framework(prediction), prediction.configuration.profiled, _offloads(prediction)
    )


def _bare(values: Mapping[str, float]) -> dict[str, float]:
    prefix = key_of("memory", "")
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _class_of(prediction: Prediction) -> str | None:
    """Return the class of a framework whose peaks were not measured; None of one whose were."""
    assert prediction.configuration is not None
    if _framework(prediction) == UNKNOWN_FRAMEWORK:
        return "unknown"
    return None if prediction.configuration.profiled else "documented"


def _offloads(prediction: Prediction) -> bool:
    """Return whether states lie in host memory; what has no peak has no configuration, and counts with the others."""
    configuration = prediction.configuration
    return configuration is not None and bool(configuration.states.host_optimizer)


def _framework(prediction: Prediction) -> str:
    assert prediction.configuration is not None
    return prediction.configuration.framework
