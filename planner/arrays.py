"""Arrays that packages share: their types, what is distinct in them, and the candidate table of a job."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


LAST_BITS = 1e-12
"""Relative: values closer than this are equal. What processors disagree about is some bits, 1e-16 each."""


def first_least(values: Floats, axis: int | None = None) -> Integers:
    """Return the first place of the least value, as `np.argmin` does, where values that differ in their last bits tie.

    The last bit of a logarithm or a power depends on the processor; which of two equal rows is taken must not.
    """
    least = np.min(values, axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        near = values <= least + LAST_BITS * np.abs(least)
    return np.asarray(np.argmax(near | (values == least), axis=axis))


def without_last_bits(values: Floats) -> Floats:
    """Return the values rounded to 2^-40 of themselves: numbers that differ in their last bits become equal."""
    bits = np.ascontiguousarray(values, dtype=float).view(np.int64)
    return ((bits + (1 << 11)) & ~((1 << 12) - 1)).view(np.float64)


def median(values: Floats | Sequence[float]) -> float:
    """Return the median of at least one number, none of them nan.

    `np.median` loads masked arrays, which takes as long as a tenth of numpy.
    """
    ordered, middle = np.sort(np.asarray(values, dtype=float)), len(values) // 2
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def distinct(codes: Integers) -> tuple[Integers, Integers]:
    """Return the distinct codes in rising order, and the place (n,) of each code (n,) among them.

    [7, 2, 7] gives [2, 7] and [1, 0, 1]. Codes are from 0 to not much more than their number: they are counted, which
    takes a tenth of the time of sorting them (`np.unique`).
    """
    present = np.flatnonzero(np.bincount(codes))
    place = np.zeros(present[-1] + 1 if len(present) else 0, dtype=np.int64)
    place[present] = np.arange(len(present))
    return present, place[codes]


def distinct_names(names: Sequence[str]) -> tuple[list[str], Integers]:
    """Return the distinct names in order, and the place (n,) of each among them."""
    ordered = sorted(set(names))
    place = {name: number for number, name in enumerate(ordered)}
    return ordered, np.asarray([place[name] for name in names], dtype=np.int64)


ON_DEMAND, SPOT = 0, 1
"""Columns of the per-market arrays of shape (n, 2)."""


@dataclass(frozen=True)
class CandidateTable:
    """Columns of shape (n,), or (n, 2) per market, (n, T) with a column per 0/1 technique, (n, 4) for ties.

    The columns are the symbols of the equations in `planner.formulation.constraints`; index c is a row.
    The per-market columns of a market that a candidate does not have hold nan.
    `share_low` and `share_high` bound the spot share: limits, deadline and offer together. They are equal where the
    billing step allows a single share, and both 1 where the offer is spot only.
    """

    jobs: tuple[str, ...]  # job names; `job` indexes them
    offers: tuple[str, ...]  # offer labels; `offer` indexes them
    providers: tuple[str, ...]  # `provider` indexes them
    job: Integers
    offer: Integers
    provider: Integers
    recipe: Integers  # index into the recipes of the job's candidates
    instances: Integers  # n[c], of all node groups
    gpus: Integers  # of all node groups
    node_groups: Integers  # runs at the same time; each has an equal part of instances and GPUs
    start_h: Floats
    late_start_h: Floats
    run_h: Floats  # (n, 2)
    late_h: Floats  # (n, 2)
    fixed_usd: Floats
    run_usd: Floats  # (n, 2)
    late_usd: Floats  # (n, 2)
    share_low: Floats
    share_high: Floats
    uses: Flags  # (n, T), in the order of `names` in models/techniques/values.yaml
    penalty_usd: Floats  # sum of the penalties of the techniques in use
    tie_steps: Integers  # (n, 4), less is better: the order in `planner.candidates.market`, before machines
    lossiness: Integers  # how much the techniques in use may change what is learnt; breaks ties, 0 for nothing
    fit_gib: Floats
    usable_gib: Floats
    rented_h: Floats  # machine hours on demand of all instances, at the confidence; prepaid hours must cover them
    term_usd: Floats  # (n, 3): of fixed_usd the terms of a commitment, of run_usd and late_usd the hours after them

    def __len__(self) -> int:
        return len(self.job)

    def rows(self, which: NDArray[Any]) -> CandidateTable:
        """Return the table of the rows that a mask or an index array selects, in that order."""
        index = np.flatnonzero(which) if which.dtype == bool else which
        chosen: dict[str, Any] = {name: getattr(self, name).take(index, axis=0) for name in _COLUMNS}
        return replace(self, **chosen)  # `take` is twice as fast as indexing

    @property
    def run_gpus(self) -> Integers:
        """Return the GPUs (n,) of one node group."""
        return self.gpus // self.node_groups

    @cached_property
    def preference(self) -> Integers:
        """Return a number (n,) by which ties are decided before machines and hours; less is better.

        No sum over the jobs of a later step outweighs one of an earlier step: each is at most 2.
        """
        base = 2 * len(self.jobs) + 1
        return self.tie_steps @ base ** np.arange(3, -1, -1)

    def hours(self, spot_share: Floats | float) -> Floats:
        """Return the expected hours (n,) at a spot share."""
        return self.start_h + _mix_markets(self.run_h, spot_share)

    def late_hours(self, spot_share: Floats | float) -> Floats:
        """Return the hours (n,) at a spot share, at the confidence of the job: the left side of the deadline."""
        return self.late_start_h + _mix_markets(self.late_h, spot_share)

    def cost_usd(self, spot_share: Floats | float) -> Floats:
        """Return the expected dollars (n,) at a spot share, without penalties."""
        return self.fixed_usd + _mix_markets(self.run_usd, spot_share)

    def late_cost_usd(self, spot_share: Floats | float) -> Floats:
        """Return the dollars (n,) at a spot share, at the confidence of the budget, without penalties."""
        return self.fixed_usd + _mix_markets(self.late_usd, spot_share)


_COLUMNS = tuple(field.name for field in fields(CandidateTable) if field.name not in ("jobs", "offers", "providers"))


def concatenate(tables: Sequence[CandidateTable]) -> CandidateTable:
    """Return one table of several that have the same `jobs`, `offers` and `providers`."""
    joined: dict[str, Any] = {name: np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS}
    return replace(tables[0], **joined)


def _mix_markets(per_market: Floats, spot_share: Floats | float) -> Floats:
    """Return on_demand * (1 - share) + spot * share (n,); a market without share may be missing (nan)."""
    if isinstance(spot_share, float) and spot_share in (0.0, 1.0):  # most calls
        return per_market[:, SPOT if spot_share else ON_DEMAND]
    share = np.broadcast_to(np.asarray(spot_share, dtype=float), per_market.shape[:1])
    on_demand = np.where(share < 1.0, per_market[:, ON_DEMAND] * (1.0 - share), 0.0)
    spot = np.where(share > 0.0, per_market[:, SPOT] * share, 0.0)
    return on_demand + spot
