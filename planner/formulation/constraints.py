"""Rows of the program by constraint family, and the candidates that no optimal plan needs under them.

A family is one function, which returns its rows as data and states their equation.
Indices: job j, offer o, provider p, candidate c, market m; `share` is the spot share. Only what jobs share is a row:
limits on one job alone have filtered its candidates before. The budget is a row even for one job. Two families have
no row of their own: `split` is substituted (see `VariableLayout`), and `deadline` is the cut in `share_high` of the
table. Dominated candidates are found before the program is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import ON_DEMAND, SPOT, CandidateTable, Flags, Floats, Integers, median
from planner.formulation.program import (
    INFINITY,
    Program,
    Rows,
    SharedLimits,
    VariableLayout,
    cost_objective,
    single_row,
    sparse_rows,
    time_objective,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


MAX_RIVALS = 64
"""Strong candidates that everything is compared with first; they dominate most of a market table."""

COMPRESS = 0.7
"""Share of candidates left below which they are copied into a smaller table."""

COMPARED_AT_ONCE = 512
"""Candidates compared with the front at a time: the comparison stays in the cache of the processor."""

MAX_FRONT = 4000
"""Most members of a front that later candidates are compared with; a pair not compared only keeps more."""


def find_undominated(
    table: CandidateTable, shared: SharedLimits, keeps_ties: bool = False, kinds: Integers | None = None
) -> Flags:
    """Return a mask (n,) of the candidates that the program needs; dropping the others never changes its optimum.

    c dominates c' of the same job if, at every spot share that c' may have, c may have it too and takes no more
    expected hours, late hours, expected dollars with penalty and late dollars; if it takes no more GPUs, and no more
    of what is limited at one time; and if every stock, quota or committed row that holds c holds c' with at least the
    same coefficient. Replacing c' by c at the same share then keeps every row and raises neither objective. Each
    quantity is linear in the share, so comparing it at share 0 and at share 1 is enough (a market that c' does not
    use counts as infinite). This drops more candidates than comparing start and markets one by one. Penalties are
    compared as dollars in the objective: after the filters this is the only effect of techniques on the program. Of
    two that dominate each other stays the one that ties prefer, then the less lossy, with more free VRAM, of the
    first name. With `keeps_ties` a candidate dominates none that ties prefer or that is less lossy: a tie within a
    slack can then choose that one. Fewer machines are such a preference, too. `kinds` (offers,) are those of a typical
    stock: with them stays what the program needs if any of its limits become rows.
    """
    keep = np.zeros(len(table), dtype=bool)
    values = _values(table, shared)
    if keeps_ties:
        values = np.concatenate([values, np.array([table.preference, table.instances, table.lossiness], dtype=float)])
    score = _score(values)
    fronts: dict[tuple[int, int, int], Integers] = {}
    for (job, offer, provider), members in _groups(table, shared, kinds):
        # If nothing is limited all four keys are the same; the set keeps one.
        keys = {(job, o, p) for o in (-1, offer) for p in (-1, provider)} & fronts.keys()
        others = [fronts[key] for key in sorted(keys)]
        front = _front(table, values, score, members, others)
        fronts[job, offer, provider] = front
        keep[front] = True
    return keep


def _groups(
    table: CandidateTable, shared: SharedLimits, kinds: Integers | None
) -> list[tuple[tuple[int, int, int], Integers]]:
    """Return candidates by (job, offer with a limit or -1, provider with a quota or -1), in that order.

    With `kinds` a provider and GPU with a typical stock take the place of the provider.

    A member may replace members of its own group, and of groups of the same job that are in all its limited rows. On
    one offer fewer GPUs are fewer instances, so comparing GPUs covers stock and quota; machine hours are compared if
    they are limited.
    """
    limited_offers = shared.stock.keys() | shared.committed.keys()
    stocked = np.array([name in limited_offers for name in table.offers], dtype=bool)
    limited = np.array([name in shared.quota for name in table.providers], dtype=bool)
    offer = np.where(stocked[table.offer], table.offer, -1)
    provider = np.where(limited[table.provider], table.provider, -1)
    width = len(table.providers) + 1
    if kinds is not None:
        kind = kinds[table.offer]
        provider = np.where(kind >= 0, len(table.providers) + kind, provider)
        width += int(kinds.max(initial=0)) + 1
    code = (table.job * (len(table.offers) + 1) + offer + 1) * width + provider + 1
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    groups = np.split(order, starts[1:]) if len(order) else []
    return [((int(table.job[g[0]]), int(offer[g[0]]), int(provider[g[0]])), g) for g in groups]


def _values(table: CandidateTable, shared: SharedLimits) -> Floats:
    """Return what a dominating candidate must not exceed, (11, n), and a row for each limit on more than GPUs."""
    unused = {ON_DEMAND: table.share_low >= 1.0, SPOT: table.share_high <= 0.0}
    columns = []
    for fixed, per_market in (
        (table.fixed_usd + table.penalty_usd, table.run_usd),
        (table.start_h, table.run_h),
        (table.fixed_usd, table.late_usd),
        (table.late_start_h, table.late_h),
    ):
        for market in (ON_DEMAND, SPOT):
            total = fixed + per_market[:, market]
            columns.append(np.where(unused[market] | np.isnan(total), np.inf, total))
    columns += [table.gpus.astype(float), table.share_low, -table.share_high]
    gpus = columns[-3]
    columns += [used for peak in shared.peaks if not np.array_equal(used := peak.used(table), gpus)]
    if shared.committed:
        limited = np.array([name in shared.committed for name in table.offers], dtype=bool)
        columns.append(np.where(limited[table.offer], table.rented_h, 0.0))
    return np.array(columns)


def _score(values: Floats) -> Floats:
    """Return a number (n,) that is never higher for a dominating candidate.

    It is a sum of increasing functions of each value, so candidates in order of their score meet every candidate that
    can dominate them earlier. Each value is scaled by its median excess over the least, from about 1,000 candidates.
    """
    score = np.zeros(values.shape[1])
    for column in values:
        finite = column[np.isfinite(column)]
        if len(finite) == 0:
            continue
        least = float(finite.min())
        typical = median(finite[:: 1 + len(finite) // 1000]) - least or 1.0
        score -= typical / (column - least + typical)
    return score


def _front(table: CandidateTable, values: Floats, score: Floats, members: Integers, others: list[Integers]) -> Integers:
    """Return the members that neither `others` nor another member dominates, best score first."""
    rivals = np.concatenate(others) if others else np.empty(0, dtype=np.int64)
    if len(members) > COMPARED_AT_ONCE:
        members = _remove_dominated(values, score, members, rivals)
    members = members[_order(table, score, members)]
    ranks = _ranks(values[:, np.concatenate([rivals, members])])
    return members[_undominated(ranks[:, : min(len(rivals), MAX_FRONT)], ranks[:, len(rivals) :])]


def undominated_columns(values: NDArray[Any]) -> Integers:
    """Return the columns of values (k, n) that no earlier one dominates: that is nowhere above it.

    A column that dominates another comes first; of equal ones the first stays.
    """
    ranks = _ranks(values)
    return _undominated(ranks[:, :0], ranks)


def _undominated(front: NDArray[Any], waiting: NDArray[Any]) -> Integers:
    """Return the places in `waiting` (k, n) that neither the front (k, f) nor an earlier place dominates."""
    kept = [np.empty(0, dtype=np.int64)]
    for start in range(0, waiting.shape[1], COMPARED_AT_ONCE):
        block = waiting[:, start : start + COMPARED_AT_ONCE]
        alive = np.flatnonzero(~_below(front, block).any(axis=0))
        block = block[:, alive]
        earlier = np.triu(_below(block, block), k=1)
        # Dominance is transitive: what a dominated column dominates, its own dominator does, too.
        alive, block = alive[best := ~earlier.any(axis=0)], block[:, best]
        kept.append(start + alive)
        if front.shape[1] < MAX_FRONT:
            front = np.concatenate([front, block], axis=1)
    return np.concatenate(kept)


def _remove_dominated(values: Floats, score: Floats, members: Integers, rivals: Integers) -> Integers:
    """Return the members that a few strong candidates do not dominate; equal scores are left for later."""
    pool = np.concatenate([rivals, members])
    strong = pool[np.argpartition(score[pool], min(MAX_RIVALS, len(pool) - 1))[:MAX_RIVALS]]
    left, mine, marks = members, values[:, members], score[members]
    stay = np.ones(len(left), dtype=bool)
    for row in strong[np.argsort(score[strong], kind="stable")]:
        worse = np.flatnonzero((mine[0] >= values[0, row]) & (marks > score[row]) & stay)
        for column, limit in zip(mine[1:], values[1:, row], strict=True):
            worse = worse[column[worse] >= limit]
        stay[worse] = False
        if np.count_nonzero(stay) < COMPRESS * len(stay):  # copying each time would cost more than it saves
            left, mine, marks = left[stay], mine[:, stay], marks[stay]
            stay = np.ones(len(left), dtype=bool)
    return left[stay]


def _order(table: CandidateTable, score: Floats, members: Integers) -> Integers:
    """Return the order of the members: best score, what ties prefer, less lossy, more free VRAM, first name and row."""
    names = np.empty(len(table.offers), dtype=np.int64)
    names[np.argsort(np.array(table.offers))] = np.arange(len(table.offers))
    free = table.usable_gib[members] - table.fit_gib[members]
    preferred = table.instances[members], table.preference[members]
    by_name = members, names[table.offer[members]]
    return np.lexsort((*by_name, -free, table.lossiness[members], *preferred, score[members]))


def _ranks(values: Floats) -> NDArray[Any]:
    """Return each row of values as dense ranks: the same comparisons, on the smallest integers that hold them."""
    kind = np.int16 if values.shape[1] < 2**15 else np.int32
    return np.array([np.unique(row, return_inverse=True)[1] for row in values], dtype=kind)


def _below(front: NDArray[Any], block: NDArray[Any]) -> Flags:
    """Return whether (front, block) the first is nowhere above the second."""
    below = np.ones((front.shape[1], block.shape[1]), dtype=bool)
    if below.size:
        for ours, theirs in zip(front, block, strict=True):
            below &= ours[:, None] <= theirs[None, :]
    return below
