"""How far off estimates are on rows that no fit has seen, turned into the spreads that the estimates state.

Each class of rows (a profile, a card, a size) gets the 68th and 95th percentile of its |ln(measured / predicted)|,
drawn towards those of all rows as far as its own are little evidence. Since an estimate takes the largest class that
applies, all classes are then scaled by one factor, so that the ranges hold the shares of MEASURES.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.predictions import Prediction
from benchmarks.accuracy.scores import quantile
from benchmarks.accuracy.splits import family
from benchmarks.calibration.evidence import MEASURES, Evidence, weighted_quantile
from benchmarks.calibration.fitting import source_weights
from benchmarks.calibration.traced import key_of
from planner.arrays import Floats
from planner.configurations.recipe import framework_of
from planner.estimates.uncertainty import Sigmas, class_sigmas, efficiency_sigma, time_sigmas
from planner.library.schema import Library

FEW_TOKENS = 2000
_CARDS = {"T4": ("T4",), "V100-16GB": ("V100-16GB", "V100-32GB")}
"""Cards with a class of their own, and where its numbers are written."""
_BELIEVED = {"mixture.sigma": 0.5, "mixture.sigma_tail": 0.53, "V100-16GB.sigma": 0.37, "V100-16GB.sigma_tail": 0.26}
"""What a class is drawn towards where more is known than its few rows say.

Mixtures of experts on other frameworks were off by up to five times; who published most runs on V100 warns of 40 %.
"""
_JUDGED = ("observed", "offload")
"""Classes that no rows inform."""
_FILE = "uncertainty"


@dataclass(frozen=True)
class Timed:
    """Rows with a speed: their log errors, and what decides their spread, each of shape (n,)."""

    errors: Floats  # ln(measured / predicted)
    profiles: tuple[str, ...]  # class of uncertainty
    cards: tuple[str, ...]
    gpus: Floats
    nodes: Floats
    tokens: Floats  # per micro-batch
    mixture: Floats
    efficiency: Floats  # what the evidence of the card adds, ln
    network_unknown: Floats
    shape_unknown: Floats

    @classmethod
    def of(cls, predictions: Sequence[Prediction], library: Library) -> Timed:
        """Return the rows of the predictions that have a speed."""
        found: dict[str, list[Any]] = {name: [] for name in cls.__dataclass_fields__}
        spreads = library.calibrations["uncertainty"].values
        for p in predictions:
            setup = p.configuration
            assert setup is not None and setup.host is not None and p.speed is not None
            profile = framework_of(library, setup.framework)
            found["errors"].append(p.speed.log_error)
            found["profiles"].append("unknown" if profile.unknown else profile.kernels)
            found["cards"].append(setup.host.gpu.name)
            found["gpus"].append(setup.layout.gpus)
            found["nodes"].append(math.ceil(setup.layout.gpus / setup.layout.gpus_per_node))
            found["tokens"].append(setup.layout.micro_batch * setup.layout.sequence)
            found["mixture"].append(setup.network.experts > 0 or bool(setup.states.host_optimizer))
            found["efficiency"].append(efficiency_sigma(spreads, setup.host.efficiency_basis))
            found["network_unknown"].append(setup.host.network_unknown)
            found["shape_unknown"].append(not setup.network.shape_known)
        profiles, cards = tuple(found.pop("profiles")), tuple(found.pop("cards"))
        numbers = {name: np.array(values, dtype=float) for name, values in found.items()}
        return cls(profiles=profiles, cards=cards, **numbers)

    def sigmas(self, values: Mapping[str, float]) -> Sigmas:
        """Return the spreads that the estimate states with these numbers of uncertainty.yaml (bare keys)."""

        def column(names: Sequence[str]) -> Sigmas:
            classes = [class_sigmas(values, name) for name in names]
            return Sigmas(*(np.array([one[i] for one in classes]) for i in (0, 1)))

        found = time_sigmas(
            values,
            column(self.profiles),
            column(self.cards),
            self.gpus,
            self.nodes,
            self.tokens,
            mixture=self.mixture,
            efficiency=self.efficiency,
            network_unknown=self.network_unknown,
            shape_unknown=self.shape_unknown,
        )
        return Sigmas(*(np.broadcast_to(one, self.errors.shape) for one in found))

    def classes(self) -> dict[str, NDArray[np.bool_]]:
        """Return which rows belong to each class, by the name of its numbers."""
        profiles, cards = np.array(self.profiles), np.array(self.cards)
        found = {name: profiles == name for name in dict.fromkeys(self.profiles)}
        found |= {name: np.isin(cards, several) for name, several in _CARDS.items()}
        found["one_node"] = (self.gpus > 1) & (self.nodes == 1)
        found["several_nodes"] = self.nodes > 1
        found["mixture"] = self.mixture > 0
        found["few_tokens"] = self.tokens < FEW_TOKENS
        return found


def time_spreads(
    known: Sequence[Prediction],
    unknown: Sequence[Prediction],
    fixed: Mapping[str, float],
    library: Library,
    evidence: Evidence,
) -> dict[str, float]:
    """Return the numbers of uncertainty.yaml by full key, from rows judged by fits that have not seen them.

    `unknown` are the same rows with their framework forgotten; `fixed` holds what is not estimated, and all of it
    where there are no rows.
    """
    prefix = key_of(_FILE, "")
    values = {key.removeprefix(prefix): value for key, value in fixed.items() if key.startswith(prefix)}
    if not known or not unknown:
        return {prefix + key: value for key, value in values.items()}
    rows = Timed.of(known, library)
    size, weights = np.abs(rows.errors), evidence.weights(known)
    none = np.zeros(size.shape, dtype=bool)
    groups = {name: none for name in profile_classes(library)} | rows.classes()
    for which, (suffix, share, reach) in enumerate(MEASURES):
        everything = weighted_quantile(size, share, weights) / reach
        for name, members in groups.items():
            own = weighted_quantile(size[members], share, weights[members]) / reach
            believed = evidence.believed([p for p, there in zip(known, members, strict=True) if there])
            drawn = believed * own + (1.0 - believed) * _BELIEVED.get(f"{name}.{suffix}", everything)
            for written in _CARDS.get(name, (name,)):
                # Tails are no lighter than a normal's: few rows of one source may all be off alike.
                values[f"{written}.{suffix}"] = max(drawn, values[f"{written}.sigma"]) if which else drawn
        scaled = [f"{name}.{suffix}" for names in groups for name in _CARDS.get(names, (names,))]
        _scale(values, scaled, rows, weights, which)
        forgotten = Timed.of(unknown, library)
        its_weights = evidence.weights(unknown)
        values[f"unknown.{suffix}"] = weighted_quantile(np.abs(forgotten.errors), share, its_weights) / reach
        # Never less than its own: where sizes have wider classes the rest of its rows would be left without any.
        _scale(values, [f"unknown.{suffix}"], forgotten, its_weights, which, least=1.0)
    values |= _differences(known)
    return {prefix + key: value for key, value in values.items()}


def estimated_keys(values: Iterable[str]) -> list[str]:
    """Return those of the full keys that `time_spreads` and `memory_spreads` estimate; the rest is judgement."""
    found = [key for key in values if re.search(r"sigma|difference|known_share", key)]
    return [key for key in found if key.partition(":")[2].partition(".")[0] not in _JUDGED]


def profile_classes(library: Library) -> list[str]:
    """Return the classes of uncertainty of all framework profiles but the unknown one."""
    table = library.techniques.frameworks
    return list(dict.fromkeys(facts.kernels for facts in table.values() if not facts.unknown))


def _scale(
    values: dict[str, float], keys: Sequence[str], rows: Timed, weights: Floats, which: int, least: float = 0.2
) -> None:
    """Multiply these keys by the factor, `least` or more, with which the range covers its share of the rows."""
    _, share, reach = MEASURES[which]
    before = {key: values[key] for key in keys}

    def covered(factor: float) -> float:
        values.update({key: value * factor for key, value in before.items()})
        within = np.abs(rows.errors) <= reach * rows.sigmas(values)[which]
        return float(np.average(within, weights=weights))

    _bisect(covered, share, least)


def _bisect(covered: Callable[[float], float], share: float, low: float = 0.2, high: float = 5.0) -> None:
    """Leave `covered` at the smallest factor in (low, high) that reaches `share`."""
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if covered(middle) >= share else (middle, high)
    covered(high)


def _differences(known: Sequence[Prediction]) -> dict[str, float]:
    """Spread of the difference of two log errors: within a source on one card and on two, and across sources.

    Pairs of large sources weigh less, as rows do.
    """
    groups: dict[str, list[tuple[str, float]]] = {}
    for p in known:
        assert p.configuration is not None and p.configuration.host is not None and p.speed is not None
        groups.setdefault(family(p.row), []).append((p.configuration.host.gpu.name, p.speed.log_error))
    within: dict[str, list[tuple[str, float]]] = {"same_card": [], "other_card": []}
    for source, rows in groups.items():
        for one, other in combinations(rows, 2):
            within["same_card" if one[0] == other[0] else "other_card"].append((source, abs(one[1] - other[1])))
    across = [
        (f"{mine} {theirs}", abs(one - other))
        for mine, theirs in combinations(groups, 2)
        for one in _spread_out([e for _, e in groups[mine]])
        for other in _spread_out([e for _, e in groups[theirs]])
    ]
    found = {}
    for name, pairs in (*within.items(), ("other_source", across)):
        if pairs:
            gaps = np.array([gap for _, gap in pairs])
            found[f"difference.{name}"] = weighted_quantile(gaps, 0.68, source_weights([owner for owner, _ in pairs]))
    return found


def _spread_out(errors: Sequence[float], most: int = 20) -> list[float]:
    """Return at most `most` order statistics of the errors, evenly placed, so that large sources do not decide."""
    return [quantile(errors, (i + 0.5) / most) for i in range(most)] if len(errors) > most else list(errors)
