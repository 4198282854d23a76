"""Bills of whole billing steps: rows as points of fixed spot shares, each with rounded dollars."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, CandidateTable, concatenate
from planner.estimates.billing import round_up_hours

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.offer_columns import OfferColumns
    from planner.candidates.stage_hours import RowHours

COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded where there is a spot market."""
FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are never rounded."""


def apply_billing_steps(
    table: CandidateTable, hours: RowHours, columns: OfferColumns
) -> tuple[CandidateTable, Integers, Flags]:
    """Return the table with coarsely billed rows as points, the row that each came from, and which are rounded.

    A point has a fixed spot share and rounded dollars. The points of a row are its bounds on the share and those of
    `whole_step_shares`: between two of them a larger share is later and not cheaper, so no better share is missed.
    """
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    coarse = has_coarse_billing(table, hours, columns)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    inside, between = whole_step_shares(table, hours, points, columns)
    two = points[table.share_high[points] > table.share_low[points]]
    origin = np.concatenate([smooth, points, inside, two])
    share = np.concatenate([table.share_low[points], between, table.share_high[two]])
    which = np.concatenate([points, inside, two])
    made, at = table.rows(which), hours.rows(which)
    none = np.ones(len(made))
    made = replace(
        made,
        run_usd=made.run_usd + _rounding_usd(made, at, share, none, none, columns),
        late_usd=made.late_usd + _rounding_usd(made, at, share, at.budget, at.stretch, columns),
        share_low=share,
        share_high=share,
    )
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


def has_coarse_billing(table: CandidateTable, hours: RowHours, columns: OfferColumns) -> Flags:
    """Return the rows (n,) whose billing step or minimum is too large a part of their hours to be ignored."""
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    # Without a spot market there is one point, and rounding it costs nothing but the arithmetic.
    smallest = np.where(np.isnan(columns.spot_usd[table.offer]), FINE_STEP_HOURS, COARSE_STEP * hours.run)
    return np.asarray((step > smallest) | (least > hours.once + hours.run), dtype=bool)


def on_demand_rounding_usd(table: CandidateTable, hours: RowHours, columns: OfferColumns) -> Floats:
    """Return the dollars (n,) that whole billing steps add to rows with all work on demand; 0 where none are rounded.

    0.2 h at 17.50 dollars, billed for an hour at least: 14 more than the 3.50 of the hours.
    """
    added = np.zeros(len(table))
    if len(rows := np.flatnonzero(has_coarse_billing(table, hours, columns))):
        made, none = table.rows(rows), np.ones(len(rows))
        added[rows] = _rounding_usd(made, hours.rows(rows), np.zeros(len(rows)), none, none, columns)[:, 0]
    return added


def whole_step_shares(
    table: CandidateTable, hours: RowHours, rows: Integers, columns: OfferColumns
) -> tuple[Integers, Floats]:
    """Return rows and spot shares, inside the bounds of the row, at which all billed hours on demand are used.

    (1 - x) * (once + run) + x * switch hours of a node group on demand are billed in whole steps of `step` h, at least
    `least` h: a share just above such an x pays the same on demand and no less on spot, and ends later.
    A run has few coarse steps.
    """
    rows = rows[(table.share_high[rows] > table.share_low[rows]) & ~np.isnan(table.run_h[rows, ON_DEMAND])]
    low, high, of_row = table.share_low[rows], table.share_high[rows], hours.rows(rows)
    step, least = columns.step_hours[table.offer[rows]], columns.minimum_hours[table.offer[rows]]
    everything, none, most, fewest = (of_row.billed(share)[0][0] for share in (0.0, 1.0, low, high))
    first = np.ceil(np.maximum(fewest, least) / step)
    count = np.maximum(np.floor(most / step) - first + 1, 0).astype(np.int64)
    # The whole steps of each row, then its minimum.
    at = np.repeat(np.arange(len(rows)), count + 1)
    number = np.arange(len(at)) - np.repeat(np.cumsum(count + 1) - (count + 1), count + 1)
    whole = np.where(number < count[at], (first[at] + number) * step[at], least[at])
    saved = everything - none
    shares = (everything[at] - whole) / np.where(saved > 0, saved, np.nan)[at]
    inside = (shares > low[at]) & (shares < high[at])
    return rows[at[inside]], shares[inside]


def _rounding_usd(
    made: CandidateTable, hours: RowHours, share: Floats, late: Floats, stretch: Floats, columns: OfferColumns
) -> Floats:
    """Return what whole billing steps add to the dollars per market (n, 1), so that the mix at `share` is the bill."""
    step, least = columns.step_hours[made.offer], columns.minimum_hours[made.offer]
    prices = (columns.on_demand_usd[made.offer], columns.spot_usd[made.offer])
    added = sum(
        (round_up_hours(one, step, least) - one) * np.nan_to_num(price) * (made.instances // made.node_groups)
        for group in hours.billed(share, late, stretch)
        for one, price in zip(group, prices, strict=True)
    )
    return np.asarray(added)[:, None]
