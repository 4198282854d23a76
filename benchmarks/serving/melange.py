"""An hourly program over kinds of machines that may route requests by their size.

The formulation is that of Melange (Griggs et al. 2024, https://arxiv.org/abs/2404.14527): requests fall into buckets
of one size, each bucket into slices of equal rate. A slice goes to one kind; on kind j it takes rate / greatest rate of
that size on j of a machine. Whole machines of each kind carry what goes there, at the least dollars of the hour.
Nothing is paid for starts, and the router knows the length of every answer before it is written. A machine is taken to
carry as much of each size as it would of that size alone, whatever else it has. In truth several sizes on one machine
slow each other down: see `divided.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.serving.hours import Hour, Stream
from planner.formulation.program import INFINITY, Program, sparse_rows
from planner.formulation.solvers import run

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats

SLICES = 8
"""Of each bucket, as in the paper."""
GAP = 1e-3
SECONDS = 20.0
"""Limit of one hour's program; its bound is what is compared."""


def useful_kinds(rates: Floats, usd: Floats) -> Flags:
    """Return the kinds (kinds,) that copies of no other one replace at every size; `rates` (buckets, kinds)."""
    order = np.lexsort((np.arange(len(usd)), usd / np.maximum(np.max(rates, axis=0), 1e-300)))
    kept: list[int] = []
    for b in order.tolist():
        with np.errstate(divide="ignore", invalid="ignore"):
            copies = np.ceil(np.nanmax(rates[:, [b]] / rates[:, kept], axis=0) * (1 - 1e-9)) if kept else np.zeros(0)
        if rates[:, b].any() and not np.any(copies * usd[kept] <= usd[b] * (1 + 1e-9)):
            kept.append(b)
    return np.isin(np.arange(len(usd)), kept)


def routed_program(rate: Floats, rates: Floats, usd: Floats, slices: int = SLICES) -> Program:
    """Return the program of an hour with a rate (buckets,); 0 slices let each bucket be divided freely.

    Variables: slices x (buckets * kinds), then machines (kinds,).
    """
    buckets, kinds = rates.shape
    count = buckets * kinds
    parts = slices or 1
    with np.errstate(divide="ignore"):
        taken = np.where(rates > 0, (rate[:, None] / parts) / rates, np.inf)
    able = np.isfinite(taken)
    taken = np.where(able, taken, 0.0)
    index, own = np.arange(count), np.arange(kinds)
    whole = np.full(buckets, float(parts))
    each = sparse_rows("each", np.repeat(np.arange(buckets), kinds), index, np.ones(count), whole, whole, str)
    rows = np.concatenate([np.tile(own, buckets), own])
    terms = np.concatenate([taken.ravel(), -np.ones(kinds)])
    carried = sparse_rows(
        "carried", rows, np.arange(count + kinds), terms, np.full(kinds, -INFINITY), np.zeros(kinds), str
    )
    most = np.ceil(np.sum(taken, axis=0) * parts) + 1.0
    return Program(
        lower=np.zeros(count + kinds),
        upper=np.concatenate([np.where(able, float(parts), 0.0).ravel(), most]),
        integer=np.concatenate([np.full(count, slices > 0), np.ones(kinds, dtype=bool)]),
        cost=np.concatenate([np.zeros(count), usd]),
        rows=(each, carried),
        variable_name=str,
    )


def routed_hours(loads: Floats, share: Floats, rates: Floats, usd: Floats, slices: int = SLICES) -> list[Hour]:
    """Return the fleet of each load; what goes to a kind is spread evenly over its machines."""
    keep = np.flatnonzero(useful_kinds(rates, usd))
    found, cells = [], (len(share), len(keep))
    for load in loads.tolist():
        program = routed_program(load * share, rates[:, keep], usd[keep], slices)
        answer = run(program, relative_gap=GAP, time_limit_seconds=SECONDS)
        sent = answer.values[: share.size * len(keep)].reshape(cells) / (slices or 1) * load * share[:, None]
        count = np.round(answer.values[share.size * len(keep) :])
        streams = tuple(
            Stream(int(keep[one]), int(count[one]), sent[:, one] / count[one]) for one in np.flatnonzero(count).tolist()
        )
        machines = np.zeros(len(usd))
        machines[keep] = count
        found.append(Hour(load, float(usd @ machines), float(answer.bound or 0.0), machines, streams))
    return found
