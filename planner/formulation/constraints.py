"""Constraint families: one function each, which returns its rows as data and states their equation.

Indices: job j, offer o, provider p, candidate c, market m; `share` is the spot share. Only what jobs share is a row:
limits on one job alone have filtered its candidates before. The budget is a row even for one job. Two families have
no row of their own: `split` is substituted (see `VariableLayout`), and `deadline` is the cut in `share_high` of the
table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.arrays import Floats, Integers
from planner.formulation.program import (
    INFINITY,
    Program,
    Rows,
    VariableLayout,
    cost_objective,
    single_row,
    sparse_rows,
    time_objective,
)

Family = Callable[[VariableLayout], tuple[Rows, ...]]


def assignment_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per job: it gets exactly one candidate.

    assignment[j]    sum_{c of j} choose[c] = 1
    """
    table = columns.table
    one = np.ones(len(table.jobs))
    ones = np.ones(len(table))
    label = table.jobs.__getitem__
    return (sparse_rows("assignment", table.job, columns.choose, ones, one, one, label),)


def spot_floor_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per split candidate with a floor on its spot share.

    spot_floor[c]    share[c] >= share_low[c]*choose[c]
    """
    low = columns.table.share_low[columns.split]
    return _share_rows("spot_floor", columns, low, np.flatnonzero(low > 0.0), 0.0, INFINITY)


def spot_cap_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per split candidate: the cap on its spot share.

    spot_cap[c]    share[c] <= share_high[c]*choose[c]

    The cap also holds the deadline: `share_high` is at most the largest spot share whose late hours meet it.
    """
    high = columns.table.share_high[columns.split]
    return _share_rows("spot_cap", columns, high, np.arange(len(high)), -INFINITY, 0.0)


def budget_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return the row of the budget on dollars at the confidence of the budget; none without a budget.

    budget    sum_c ( fixed_usd[c]*choose[c] + sum_m late_usd[c,m]*share[c,m] ) <= budget_usd

    All jobs are taken to be late together. Of jobs on several spot markets the amount on the right is searched
    (`planner.solving.optimise_choice`), because what they need together is no sum over the jobs.
    """
    budget = columns.shared.budget_usd
    return () if budget is None else (single_row("budget", columns.late_cost_usd(), upper=budget),)


def stock_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per offer that has a limited number of machines.

    stock[o]    sum_{c on o} n[c]*choose[c] <= stock[o]
    """
    table, stock = columns.table, columns.shared.stock
    limits = np.array([stock.get(offer, INFINITY) for offer in table.offers], dtype=float)
    return _limit_rows("stock", table.offer, table.offers, table.instances, limits)


def committed_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per offer that has a limited number of paid hours left.

    committed[o]    sum_{c on o} rented_h[c]*choose[c] <= committed_h[o]

    `rented_h` are machine hours at the requested confidence, of offers that have no spot market.
    """
    table, committed = columns.table, columns.shared.committed
    limits = np.array([committed.get(offer, INFINITY) for offer in table.offers], dtype=float)
    return _limit_rows("committed", table.offer, table.offers, table.rented_h, limits)


def peak_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per limit on what all jobs use at one time; its name is that of the limit, such as `gpus`.

    peak[l]    sum_c use[l,o]*n[c]*choose[c] <= most[l]

    `use` is what one machine of the offer of c uses: of `gpus` its GPUs, and `most` is `max_gpus`.
    """
    peaks = columns.shared.peaks
    return tuple(single_row(peak.name, columns.vector(peak.used(columns.table)), upper=peak.most) for peak in peaks)


def quota_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per provider with a quota of GPUs.

    quota[p]    sum_{c at p} gpus[c]*choose[c] <= quota[p]
    """
    table, quota = columns.table, columns.shared.quota
    limits = np.array([quota.get(provider, INFINITY) for provider in table.providers], dtype=float)
    return _limit_rows("quota", table.provider, table.providers, table.gpus, limits)


def finish_rows(columns: VariableLayout) -> tuple[Rows, ...]:
    """Return one row per job if hours are minimised: the last finish is no earlier than its own.

    finish[j]    last >= sum_{c of j} ( late_start_h[c]*choose[c] + sum_m late_h[c,m]*share[c,m] )
    """
    if columns.last is None:
        return ()
    table = columns.table
    jobs = len(table.jobs)
    everything = np.concatenate([columns.choose, columns.share])
    row = np.concatenate([table.job, table.job[columns.split], np.arange(jobs)])
    column = np.concatenate([everything, np.full(jobs, columns.last)])
    hours = np.concatenate([-columns.late_hours()[everything], np.ones(jobs)])
    lower, upper = np.zeros(jobs), np.full(jobs, INFINITY)
    return (sparse_rows("finish", row, column, hours, lower, upper, table.jobs.__getitem__),)


FAMILIES: tuple[Family, ...] = (
    assignment_rows,
    spot_floor_rows,
    spot_cap_rows,
    budget_rows,
    stock_rows,
    committed_rows,
    peak_rows,
    quota_rows,
    finish_rows,
)
"""Every family, in the order of the program text."""


def _share_rows(
    family: str, columns: VariableLayout, limit: Floats, which: Integers, lower: float, upper: float
) -> tuple[Rows, ...]:
    """Return rows `lower <= share[c] - limit[c]*choose[c] <= upper` for some of the split candidates."""
    if len(which) == 0:
        return ()
    candidates, count = columns.split[which], len(which)
    rows = sparse_rows(
        family,
        np.concatenate([np.arange(count), np.arange(count)]),
        np.concatenate([candidates, columns.share[which]]),
        np.concatenate([-limit[which], np.ones(count)]),
        np.full(count, lower),
        np.full(count, upper),
        lambda i: columns.candidate_label(int(candidates[i])),
    )
    return (rows,)


def _limit_rows(
    family: str, owner: Integers, names: tuple[str, ...], amount: Integers | Floats, limits: Floats
) -> tuple[Rows, ...]:
    """Return one row per owner (offer, provider) that has a limit and a candidate; `owner` (n,) indexes `names`."""
    present = np.bincount(owner, minlength=len(names)) > 0
    limited = np.flatnonzero(np.isfinite(limits) & present)
    if len(limited) == 0:
        return ()
    position = np.full(len(names), -1, dtype=np.int64)
    position[limited] = np.arange(len(limited))
    candidates = np.flatnonzero(position[owner] >= 0)
    rows = sparse_rows(
        family,
        position[owner[candidates]],
        candidates,
        amount[candidates].astype(float),
        np.full(len(limited), -INFINITY),
        limits[limited],
        lambda i: names[limited[i]],
    )
    return (rows,)


def build_program(columns: VariableLayout) -> Program:
    """Return the program of the first pass: every family of rows, and the objective of the scenario."""
    lower, upper, integer = columns.bounds()
    objective = time_objective if columns.shared.objective == "time" else cost_objective
    return Program(
        lower=lower,
        upper=upper,
        integer=integer,
        cost=objective(columns),
        rows=tuple(rows for family in FAMILIES for rows in family(columns)),
        variable_name=columns.name,
    )
