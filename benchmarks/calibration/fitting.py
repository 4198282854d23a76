"""A robust fit of many coefficients with weak priors, on predictions of all rows for many calibrations at once.

Minimised is the sum over rows of w * 2 (sqrt(1 + z^2) - 1), z = (ln(measured / predicted) - u) / scale (soft L1), the
sum over coefficients of ((x - prior) / sd)^2, x being ln(value), or logit(value) of shares, and the sum of
(u / source_spread)^2. The offset u of each source is what its runs share (how it counts tokens, its cluster, its
version); it is fitted, too, and then forgotten, so that no coefficient has to explain the habits of one source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.calibration.traced import key_of
from planner.arrays import Floats
from planner.documents.files import read_document

Predict = Callable[[Mapping[str, Floats], int], Floats]

SOURCE_ROWS = 20.0
"""A source of so many rows counts as many rows as it has; larger ones by the square root of their size."""
NOTICED = 0.005
"""A row depends on a coefficient that moves its estimate by so much, in ln, within the deviation of its prior."""
INFORMED_ROWS, INFORMED_SHARE = 3, 0.1
"""A coefficient is measured where so many rows depend on it and take so much of its prior's variance away."""
SAME_CHIP = 0.05
"""A coefficient believed this close to another one is as well measured as that."""
_STEP = 1e-5


@dataclass(frozen=True)
class Free:
    """A coefficient that may move; `parent` gives the prior of one that has none of its own."""

    key: str
    sd: float
    low: float
    high: float
    prior: float = 1.0
    parent: str | None = None
    ratio: float = 1.0
    share: bool = False
    why: str = ""
    kernels: bool = False

    def value(self, x: Any, parent: Any) -> Any:
        """Return the coefficient at x standard deviations from its prior; arrays broadcast."""
        centre = self.prior if parent is None else np.clip(parent * self.ratio, self.low, self.high)
        if self.share:
            odds = centre / (1.0 - centre) * np.exp(x * self.sd)
            found = odds / (1.0 + odds)
        else:
            found = centre * np.exp(x * self.sd)
        return np.clip(found, self.low, self.high)


class Loss(NamedTuple):
    """What the errors of rows are measured by, in ln."""

    scale: float  # up to it a row counts by its square, beyond by its size; also what priors are weighed against
    source_spread: float  # of the offsets of sources
    weight: float = 1.0  # of a row against the priors: below 1 where rows of one source say the same


@dataclass(frozen=True)
class Fit:
    """What a fit found, by key of the free coefficients."""

    values: dict[str, float]
    known: dict[str, float]  # share of the prior's variance that the rows took away, 0 to 1
    spread: dict[str, float]  # standard deviation of ln(value) that is left
    rows: dict[str, int]  # rows that the coefficient moves by 0.5 % or more within its prior's deviation

    def measured(self, free: Sequence[Free]) -> frozenset[str]:
        """Return the keys that the rows inform, or that are nearly tied to such a key."""
        informed = {k for k, rows in self.rows.items() if rows >= INFORMED_ROWS and self.known[k] >= INFORMED_SHARE}
        return _with_same_chips(free, informed)


def of_kernels(free: Sequence[Free]) -> frozenset[str]:
    """Return the keys whose prior rests on measured kernels of that very GPU."""
    return frozenset(one.key for one in free if one.kernels)


def _with_same_chips(free: Sequence[Free], known: Set[str]) -> frozenset[str]:
    found = set()
    for one in free:  # what a coefficient follows stands before it
        if one.key in known or (one.parent in found and 0.0 < one.sd <= SAME_CHIP and not one.kernels):
            found.add(one.key)
    return frozenset(found)


def read_free(names: Sequence[str], file: str = "coefficients.yaml") -> tuple[Free, ...]:
    """Return the free coefficients of these calibration files, from a file of benchmarks/calibration/."""
    table = read_document(Path(__file__).with_name(file)).data
    found = []
    for name in names:
        for entry, facts in table.get(name, {}).items():
            parent = key_of(name, facts["as"]) if "as" in facts else None
            found.append(Free(
                key_of(name, entry), facts["sd"], facts["low"], facts["high"], facts.get("prior", 1.0), parent,
                facts.get("ratio", 1.0), facts.get("share", False), facts["why"], facts.get("kernels", False),
            ))  # fmt: skip
    return tuple(found)


def values_at(free: Sequence[Free], x: Floats, fixed: Mapping[str, float]) -> dict[str, Floats]:
    """Return all coefficients for the K rows of x, each (K, 1) or, where it may not move, (1, 1)."""
    values = {key: np.full((1, 1), value) for key, value in fixed.items()}
    for index, one in enumerate(free):
        parent = values[one.parent] if one.parent is not None else None
        values[one.key] = one.value(x[:, index : index + 1], parent)
    return values


def source_weights(sources: Sequence[Hashable]) -> Floats:
    """Return the weight of each row: 1 up to SOURCE_ROWS rows of its source, then falling as 1/sqrt(rows)."""
    counts = Counter(sources)
    return np.array([min(1.0, math.sqrt(SOURCE_ROWS / counts[source])) for source in sources])


def fitted(
    predict: Predict,
    measured: Floats,
    sources: Sequence[Hashable],
    free: Sequence[Free],
    fixed: Mapping[str, float],
    loss: Loss,
) -> Fit:
    """Return the coefficients that meet `measured` best; `sources` names the source of each row.

    Needs scipy (extra `calibrate`).
    """
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    scale = loss.scale
    moving = np.array([one.sd > 0 for one in free])
    count = int(moving.sum())
    root = np.sqrt(loss.weight * source_weights(sources))
    names = list(dict.fromkeys(sources))
    belongs = np.array([[float(one == name) for name in names] for one in sources]).reshape(len(sources), len(names))
    offsets = (loss.source_spread / scale) * belongs

    def spread(moved: Floats) -> Floats:
        x = np.zeros((moved.shape[0], len(free)))
        x[:, moving] = moved
        return x

    def errors(x: Floats) -> Floats:
        found = predict(values_at(free, spread(x[:, :count]), fixed), x.shape[0])
        return np.asarray(np.log(measured / found) / scale - x[:, count:] @ offsets.T)

    def residuals(x: Floats) -> Floats:
        return np.concatenate([root * _soft(errors(x[None])[0]), x])

    def jacobian(x: Floats) -> Floats:
        steps = np.eye(count, x.size) * _STEP  # offsets are linear: no steps needed
        z = errors(np.vstack([x, x + steps]))
        slopes = np.hstack([(z[1:] - z[0]).T / _STEP, -offsets])
        return np.vstack([(root * _soft_slope(z[0]))[:, None] * slopes, np.eye(x.size)])

    first = np.zeros(count + len(names))
    answer = least_squares(residuals, first, jacobian, method="trf", x_scale=1.0, ftol=1e-6, xtol=1e-4, max_nfev=60)
    values = values_at(free, spread(answer.x[None, :count]), fixed)
    covariance = np.linalg.inv(answer.jac.T @ answer.jac)[:count, :count]
    chains = _chains(free)[:, moving]
    before, after = (chains**2).sum(axis=1), np.einsum("ij,jk,ik->i", chains, covariance, chains)
    z = errors(np.vstack([answer.x, answer.x + np.eye(count, answer.x.size)]))
    felt = np.zeros(len(free), dtype=int)
    felt[moving] = (np.abs(z[1:] - z[0]) * scale > NOTICED).sum(axis=1)
    return Fit(
        values={one.key: float(values[one.key].flat[0]) for one in free},
        known={one.key: 1.0 - float(a / b) if b else 0.0 for one, a, b in zip(free, after, before, strict=True)},
        spread={
            one.key: math.sqrt(a) * (1.0 - values[one.key].flat[0] if one.share else 1.0)
            for one, a in zip(free, after, strict=True)
        },
        rows={one.key: int(n) for one, n in zip(free, felt, strict=True)},
    )


def _chains(free: Sequence[Free]) -> Floats:
    """Return row i: by how much ln(value) of coefficient i moves with each x, parents included."""
    chains = np.diag([one.sd for one in free])
    place = {one.key: index for index, one in enumerate(free)}
    for index, one in enumerate(free):
        if one.parent in place:
            chains[index] += chains[place[one.parent]]
    return chains


def _soft(z: Floats) -> Floats:
    """Return the square root of the soft L1 loss, with the sign of z."""
    return np.asarray(np.sign(z) * np.sqrt(2.0 * (np.sqrt(1.0 + z * z) - 1.0)))


def _soft_slope(z: Floats) -> Floats:
    """Return the derivative of `_soft`; 1 at 0."""
    root = np.sqrt(1.0 + z * z)
    return np.asarray(np.sqrt((1.0 + root) / 2.0) / root)
