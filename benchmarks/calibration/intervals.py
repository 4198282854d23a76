"""How far off estimates are on rows that no fit has seen, turned into the spreads that the estimates state.

An estimate takes the largest class that applies (a profile, a card, a size) and adds what is not known. So the number
of each class, and of what is added, is put where the ranges of its rows hold the shares of MEASURES given all others,
in turn until all have settled, and drawn towards what is believed as far as its rows are little evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
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
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK, Sigmas, class_sigmas, efficiency_sigma, time_sigmas
from planner.library.schema import Library

FEW_TOKENS = 2000
_CARDS = {"T4": ("T4",), "V100-16GB": ("V100-16GB", "V100-32GB")}
"""Cards with a class of their own, and where its numbers are written."""
_BELIEVED = {
    "mixture.sigma": 0.5,
    "mixture.sigma_tail": 0.53,
    "V100-16GB.sigma": 0.37,
    "V100-16GB.sigma_tail": 0.26,
    "offload.sigma": 0.5,
    "offload.sigma_tail": 0.53,
}
"""What a class is drawn towards where more is known than its few rows say.

Mixtures of experts on other frameworks were off by up to five times; who published most runs on V100 warns of 40 %;
copies to and from host memory run at what a machine's PCIe, memory and cores give, which no source states.
"""
ADDED = {"efficiency_prior": (0.12, 0.1, 0.2), "network_unknown": (0.2, 0.1, 0.4)}
"""What is added to the largest class: what was judged before any run, and its bounds, which the number keeps.

Publishers who do not state their network mostly have a fast one, so their rows alone would say too little.
"""
PASSES, HALVINGS = 5, 15
"""Passes over all classes, and steps to find each number within 1 %."""
_JUDGED = ("observed", "offload")
"""Classes that no rows inform, or whose rows say too little: 20 of host offload, of four organisations, ask for 0.36,
but 16 of others were off by 48 % in the median, with one in its range."""
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
    offload: Floats
    bases: tuple[str, ...]  # what the efficiency of the card rests on
    network_unknown: Floats
    shape_unknown: Floats

    @classmethod
    def of(cls, predictions: Sequence[Prediction], library: Library) -> Timed:
        """Return the rows of the predictions that have a speed."""
        found: dict[str, list[Any]] = {name: [] for name in cls.__dataclass_fields__}
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
            found["mixture"].append(setup.network.experts > 0)
            found["offload"].append(bool(setup.states.host_optimizer))
            found["bases"].append(setup.host.efficiency_basis)
            found["network_unknown"].append(setup.host.network_unknown)
            found["shape_unknown"].append(not setup.network.shape_known)
        profiles, cards, bases = (tuple(found.pop(name)) for name in ("profiles", "cards", "bases"))
        numbers = {name: np.array(values, dtype=float) for name, values in found.items()}
        return cls(profiles=profiles, cards=cards, bases=bases, **numbers)

    def sigmas(self, values: Mapping[str, float]) -> Sigmas:
        """Return the spreads that the estimate states with these numbers of uncertainty.yaml (bare keys)."""

        def column(names: Sequence[str]) -> Sigmas:
            each, places = np.unique(names, return_inverse=True)
            classes = [class_sigmas(values, name) for name in each.tolist()]
            return Sigmas(*(np.array([one[i] for one in classes])[places] for i in (0, 1)))

        added = {basis: efficiency_sigma(values, basis) for basis in set(self.bases)}
        found = time_sigmas(
            values,
            column(self.profiles),
            column(self.cards),
            self.gpus,
            self.nodes,
            self.tokens,
            mixture=self.mixture,
            offload=self.offload,
            efficiency=np.array([added[basis] for basis in self.bases]),
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
        found["offload"] = self.offload > 0
        found["few_tokens"] = self.tokens < FEW_TOKENS
        found["efficiency_prior"] = np.array([basis not in ("measured", "kernels") for basis in self.bases])
        found["network_unknown"] = (self.nodes > 1) & (self.network_unknown > 0)
        return found


def time_spreads(
    honest: Sequence[Prediction],
    known: Sequence[Prediction],
    unknown: Sequence[Prediction],
    fixed: Mapping[str, float],
    library: Library,
    evidence: Evidence,
) -> dict[str, float]:
    """Return the numbers of uncertainty.yaml by full key, from rows judged by fits that have not seen them.

    `honest` rows have a framework that the fit has, or none; `known` are all with their framework named, `unknown` with
    it forgotten. These inform the classes that no honest row has. `fixed` holds what is not estimated, and all of it
    where there are no rows.
    """
    prefix = key_of(_FILE, "")
    values = {key.removeprefix(prefix): value for key, value in fixed.items() if key.startswith(prefix)}
    if not honest or not known or not unknown:
        return {prefix + key: value for key, value in values.items()}
    first, *others = (Side.of(rows, library, evidence) for rows in (honest, known, unknown))
    profiles = [*profile_classes(library), "unknown"]
    for which, (suffix, share, reach) in enumerate(MEASURES):
        everything = weighted_quantile(np.abs(first.rows.errors), share, first.weights) / reach
        settled = [name for name in first.classes if which == 0 or name not in ADDED]
        for name in dict.fromkeys((*profiles, *settled)):
            values |= dict.fromkeys(_keys(name, suffix), _believed(name, suffix, everything))
        for _ in range(PASSES):
            for name in settled:
                first.settle(values, name, which, _believed(name, suffix, everything))
        for side in others:
            for name in [name for name in profiles if name in side.classes and name not in first.classes]:
                side.settle(values, name, which, everything)
    blind = [p for p, is_blind in zip(known, evidence.is_blind(known), strict=True) if is_blind]
    if 0 < len(blind) < len(known):
        names = [*profiles, *(name for name in first.classes if name not in ADDED)]
        _widen(values, dict.fromkeys(names), Side.of(blind, library, evidence), evidence.believed(blind))
    for suffix, *_ in MEASURES:  # of an unknown framework a later fit finds less: its strangers were further off
        key = f"{UNKNOWN_FRAMEWORK}.{suffix}"
        values[key] = max(values[key], fixed.get(prefix + key, 0.0))
    values |= _differences(known)
    return {prefix + key: value for key, value in values.items()}


def _widen(values: dict[str, float], names: Iterable[str], strangers: Side, believed: float) -> None:
    """Multiply these classes by what strangers are further off than their ranges hold, as far as they are evidence."""
    for which, (suffix, share, reach) in enumerate(MEASURES):
        stated = strangers.rows.sigmas(values)[which]
        ratio = weighted_quantile(np.abs(strangers.rows.errors) / (reach * stated), share, strangers.weights)
        factor = max(ratio, 1.0) ** believed
        for key in dict.fromkeys(key for name in names for key in _keys(name, suffix)):
            values[key] *= factor


def _keys(name: str, suffix: str) -> list[str]:
    """Return where the number of a class is written."""
    return [name] if name in ADDED else [f"{written}.{suffix}" for written in _CARDS.get(name, (name,))]


def _believed(name: str, suffix: str, everything: float) -> float:
    """Return what the number of a class is drawn towards."""
    return ADDED[name][0] if name in ADDED else _BELIEVED.get(f"{name}.{suffix}", everything)


@dataclass(frozen=True)
class Side:
    """Rows with their weights, and which of them belong to each class, with the share that they have in its number."""

    rows: Timed
    weights: Floats
    classes: dict[str, NDArray[np.bool_]]
    believed: dict[str, float]

    @classmethod
    def of(cls, predictions: Sequence[Prediction], library: Library, evidence: Evidence) -> Side:
        """Return the rows of predictions that have a speed, and the classes that some of them belong to."""
        rows = Timed.of(predictions, library)
        classes = {name: members for name, members in rows.classes().items() if members.any()}
        believed = {
            name: evidence.believed([p for p, there in zip(predictions, members, strict=True) if there])
            for name, members in classes.items()
        }
        return cls(rows, evidence.weights(predictions), classes, believed)

    def settle(self, values: dict[str, float], name: str, which: int, prior: float) -> None:
        """Put the number of a class where its rows are covered as asked, all other numbers as they are.

        It is drawn towards what is believed, in ln, as far as its rows say little. Tails are no lighter than a
        normal's: few rows of one source may all be off alike.
        """
        suffix, share, reach = MEASURES[which]
        members, keys = self.classes[name], _keys(name, suffix)

        def covered(number: float) -> bool:
            values.update(dict.fromkeys(keys, number))
            within = np.abs(self.rows.errors) <= reach * self.rows.sigmas(values)[which]
            return float(np.average(within[members], weights=self.weights[members])) >= share

        number = prior * (_bisect(covered, prior) / prior) ** self.believed[name]
        if name in ADDED:
            _, low, high = ADDED[name]
            number = min(max(number, low), high)
        for key in keys:
            values[key] = max(number, values[key.replace(".sigma_tail", ".sigma")]) if which else number


def estimated_keys(values: Iterable[str]) -> list[str]:
    """Return those of the full keys that `time_spreads` and `memory_spreads` estimate; the rest is judgement."""
    found = [key for key in values if re.search(r"sigma|difference|known_share|efficiency_prior|network_unknown", key)]
    return [key for key in found if key.partition(":")[2].partition(".")[0] not in _JUDGED]


def profile_classes(library: Library) -> list[str]:
    """Return the classes of uncertainty of all framework profiles but the unknown one."""
    table = library.techniques.frameworks
    return list(dict.fromkeys(facts.kernels for facts in table.values() if not facts.unknown))


def _bisect(covered: Callable[[float], bool], prior: float) -> float:
    """Return the smallest number, between a fifth and five times `prior`, with which enough rows are covered."""
    low, high = prior / 5.0, prior * 5.0
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if covered(middle) else (middle, high)
    return high


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
    for nearer, farther in pairwise(f"difference.{name}" for name in ("same_card", "other_card", "other_source")):
        if nearer in found and farther in found:  # what shares less is no surer
            found[farther] = max(found[nearer], found[farther])
    return found


def _spread_out(errors: Sequence[float], most: int = 20) -> list[float]:
    """Return at most `most` order statistics of the errors, evenly placed, so that large sources do not decide."""
    return [quantile(errors, (i + 0.5) / most) for i in range(most)] if len(errors) > most else list(errors)
