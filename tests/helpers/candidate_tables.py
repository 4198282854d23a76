"""Small candidate tables for tests: written by hand, drawn at random, and solved by trying everything."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from planner.arrays import ON_DEMAND, SPOT, CandidateTable
from planner.formulation.program import Peak, SharedLimits
from planner.library.technique_tables import read_techniques

NAN = float("nan")


def make_table(
    rows: Sequence[dict[str, object]],
    jobs: Sequence[str] = ("train",),
    offers: Sequence[str] = ("a", "b", "c", "d"),
    providers: Sequence[str] = ("p", "q"),
) -> CandidateTable:
    """A table from one dict per row; what a dict leaves out is plain.

    `run_h` and `run_usd` are pairs (on demand, spot); the late ones default to them. A market is missing
    where its hours are nan.
    """
    index = {name: i for names in (jobs, offers, providers) for i, name in enumerate(names)}

    def column(key: str, default: object, kind: type) -> np.ndarray:
        return np.array([row.get(key, default) for row in rows], dtype=kind)

    def pairs(key: str, fallback: str) -> np.ndarray:
        values = [row.get(key, row.get(fallback, (1.0, NAN))) for row in rows]
        return np.array(values, dtype=float).reshape(len(rows), 2)

    run_h = pairs("run_h", "run_h")
    high = np.where(np.isnan(run_h[:, SPOT]), 0.0, 1.0)
    low = np.where(np.isnan(run_h[:, ON_DEMAND]), 1.0, 0.0)
    return CandidateTable(
        jobs=tuple(jobs),
        offers=tuple(offers),
        providers=tuple(providers),
        job=np.array([index[row.get("job", jobs[0])] for row in rows], dtype=np.int64),
        offer=np.array([index[row.get("offer", offers[0])] for row in rows], dtype=np.int64),
        provider=np.array([index[row.get("provider", providers[0])] for row in rows], dtype=np.int64),
        recipe=np.array([row.get("recipe", i) for i, row in enumerate(rows)], dtype=np.int64),
        instances=column("instances", 1, np.int64),
        gpus=column("gpus", 1, np.int64),
        start_h=column("start_h", 0.0, float),
        late_start_h=np.array([r.get("late_start_h", r.get("start_h", 0.0)) for r in rows], dtype=float),
        run_h=run_h,
        late_h=pairs("late_h", "run_h"),
        fixed_usd=column("fixed_usd", 0.0, float),
        run_usd=pairs("run_usd", "run_usd"),
        late_usd=pairs("late_usd", "run_usd"),
        share_low=np.array([r.get("share_low", low[i]) for i, r in enumerate(rows)], dtype=float),
        share_high=np.array([r.get("share_high", high[i]) for i, r in enumerate(rows)], dtype=float),
        uses=np.zeros((len(rows), len(read_techniques().values.names)), dtype=bool),
        penalty_usd=column("penalty_usd", 0.0, float),
        tie_steps=np.array([row.get("tie_steps", (0, 0, 0, 0)) for row in rows], dtype=np.int64).reshape(len(rows), 4),
        lossiness=column("lossiness", 0, np.int64),
        fit_gib=column("fit_gib", 10.0, float),
        usable_gib=column("usable_gib", 20.0, float),
        rented_h=column("rented_h", 0.0, float),
        term_usd=np.zeros((len(rows), 3)),
        node_groups=np.ones(len(rows), dtype=np.int64),
    )


def random_table(seed: int, rows: int, jobs: int = 1, offers: int = 4, step: float = 0.0) -> CandidateTable:
    """A random table; offers alternate between two providers; `step` rounds all numbers, to make ties."""
    draw = np.random.default_rng(seed)

    def rounded(values: np.ndarray) -> np.ndarray:
        return np.maximum(step, np.round(values / step) * step) if step else values

    offer = draw.integers(offers, size=rows)
    instances = draw.integers(1, 4, size=rows)
    kind = draw.integers(4, size=rows)  # 0 on demand only, 1 spot only, 2 and 3 both
    run_h = rounded(np.column_stack([hours := draw.uniform(1, 9, rows), hours * draw.uniform(1, 2, rows)]))
    late_h = rounded(run_h * draw.uniform(1.0, 1.5, (rows, 1)))
    discount = np.column_stack([np.ones(rows), draw.uniform(0.2, 1, rows)])
    run_usd = rounded(draw.uniform(1, 9, (rows, 1)) * discount)
    late_usd = rounded(run_usd * draw.uniform(1.0, 1.5, (rows, 1)))
    for values in (run_h, late_h, run_usd, late_usd):
        values[kind == 0, SPOT] = NAN
        values[kind == 1, ON_DEMAND] = NAN
    low = np.select([kind == 0, kind == 1], [0.0, 1.0], np.where(draw.random(rows) < 0.5, 0.0, 0.25))
    high = np.select([kind == 0, kind == 1], [0.0, 1.0], np.where(draw.random(rows) < 0.5, 0.75, low))
    return CandidateTable(
        jobs=tuple(f"job{i}" for i in range(jobs)),
        offers=tuple(f"offer{i}" for i in range(offers)),
        providers=("p", "q"),
        job=np.concatenate([np.arange(min(jobs, rows)), draw.integers(jobs, size=max(0, rows - jobs))]),
        offer=offer,
        provider=offer % 2,
        recipe=np.arange(rows),
        instances=instances,
        gpus=instances * (1 + offer % 3),
        start_h=(start := rounded(draw.uniform(0, 1, rows))),
        late_start_h=start * 1.25,
        run_h=run_h,
        late_h=late_h,
        fixed_usd=rounded(draw.uniform(0, 1, rows)),
        run_usd=run_usd,
        late_usd=late_usd,
        share_low=low,
        share_high=high,
        uses=np.zeros((rows, len(read_techniques().values.names)), dtype=bool),
        penalty_usd=np.where(draw.random(rows) < 0.2, 1.0, 0.0),
        fit_gib=rounded(draw.uniform(5, 10, rows)),
        usable_gib=np.full(rows, 20.0),
        rented_h=np.round(draw.uniform(1, 9, rows), 1),
        term_usd=np.zeros((rows, 3)),
        node_groups=np.ones(rows, dtype=np.int64),
        tie_steps=np.zeros((rows, 4), dtype=np.int64),
        lossiness=draw.integers(3, size=rows),
    )


def gpus_limit(table: CandidateTable, most: int | None) -> tuple[Peak, ...]:
    """Return a limit on the GPUs at one time, of which each offer has as many as the machines of its rows."""
    each = np.zeros(len(table.offers))
    each[table.offer] = table.gpus / table.instances
    return () if most is None else (Peak("max_gpus", float(most), each),)


@st.composite
def small_cases(
    draw: st.DrawFn, objective: str | None = "cost", step: float = 0.0
) -> tuple[CandidateTable, SharedLimits]:
    """A table of 1 to 3 jobs and at most 9 rows, with any mix of shared limits; objective None draws it."""
    jobs = draw(st.integers(1, 3))
    rows = draw(st.integers(jobs, 9))
    table = random_table(draw(st.integers(0, 10**6)), rows, jobs, step=step)
    budget = draw(st.none() | st.floats(3.0 * jobs, 9.0 * jobs).map(lambda value: round(value, 1)))
    question = SharedLimits(
        budget_usd=budget,
        peaks=gpus_limit(table, draw(st.none() | st.integers(jobs, 6 * jobs))),
        quota=draw(st.dictionaries(st.sampled_from(table.providers), st.integers(1, 9))),
        stock=draw(st.dictionaries(st.sampled_from(table.offers), st.integers(0, 4))),
        committed=draw(st.dictionaries(st.sampled_from(table.offers), st.integers(2, 20).map(float), max_size=2)),
        objective=objective or draw(st.sampled_from(["cost", "time"])),
        value_of_time_usd_per_hour=draw(st.sampled_from([0.0, 0.5])),
    )
    return table, question


def brute_force(table: CandidateTable, question: SharedLimits) -> float | None:
    """The least objective of the first pass over every combination of rows and shares; None if there is none.

    For each combination of one row per job, the least objective over the shares is a small linear problem
    whose optimum lies at a vertex: it is searched among all ends, and along every edge where the budget
    binds. For the objective `time`, shares are searched by the least common finish (bisection).
    """
    members = [np.flatnonzero(table.job == job) for job in range(len(table.jobs))]
    best: float | None = None
    for rows in itertools.product(*members):
        if not limits_hold(table, question, rows):
            continue
        value = (_least_finish if question.objective == "time" else _least_cost)(table, question, rows)
        if value is not None and (best is None or value < best):
            best = value
    return best


def limits_hold(table: CandidateTable, question: SharedLimits, rows: Sequence[int]) -> bool:
    """Whether one row per job keeps within GPUs, stock, quota and hours paid for."""
    if any(sum(one.each[table.offer[c]] * table.instances[c] for c in rows) > one.most for one in question.peaks):
        return False
    for offer, stock in question.stock.items():
        if sum(int(table.instances[c]) for c in rows if table.offers[table.offer[c]] == offer) > stock:
            return False
    for offer, left in question.committed.items():
        if sum(float(table.rented_h[c]) for c in rows if table.offers[table.offer[c]] == offer) > left + 1e-9:
            return False
    for provider, quota in question.quota.items():
        if sum(int(table.gpus[c]) for c in rows if table.providers[table.provider[c]] == provider) > quota:
            return False
    return True


def _line(table: CandidateTable, c: int, which: str, share: float) -> float:
    return float(getattr(table.rows(np.array([c])), which)(share)[0])


def _objective(table: CandidateTable, question: SharedLimits, c: int, share: float) -> float:
    hours = question.value_of_time_usd_per_hour * _line(table, c, "hours", share)
    return _line(table, c, "cost_usd", share) + float(table.penalty_usd[c]) + hours


def _least_cost(table: CandidateTable, question: SharedLimits, rows: Sequence[int]) -> float | None:
    budget = np.inf if question.budget_usd is None else question.budget_usd
    ends = [sorted({float(table.share_low[c]), float(table.share_high[c])}) for c in rows]
    points: list[tuple[float, ...]] = list(itertools.product(*ends))
    for i, c in enumerate(rows):  # edges: all shares but one at an end, that one where the budget binds
        if len(ends[i]) == 1 or not np.isfinite(budget):
            continue
        for others in itertools.product(*ends[:i], [0.0], *ends[i + 1 :]):
            rest = sum(_line(table, k, "late_cost_usd", others[m]) for m, k in enumerate(rows) if m != i)
            first = _line(table, c, "late_cost_usd", ends[i][0])
            last = _line(table, c, "late_cost_usd", ends[i][1])
            if first != last:
                t = (budget - rest - first) / (last - first)
                if 0.0 < t < 1.0:
                    share = ends[i][0] + t * (ends[i][1] - ends[i][0])
                    points.append((*others[:i], share, *others[i + 1 :]))
    fitting = [
        point
        for point in points
        if sum(_line(table, c, "late_cost_usd", s) for c, s in zip(rows, point, strict=True)) <= budget + 1e-9
    ]
    if not fitting:
        return None
    return min(sum(_objective(table, question, c, s) for c, s in zip(rows, point, strict=True)) for point in fitting)


def _least_finish(table: CandidateTable, question: SharedLimits, rows: Sequence[int]) -> float | None:
    budget = 1e12 if question.budget_usd is None else question.budget_usd

    def least_late_cost(finish: float) -> float:
        """Least late dollars with every job done by then; infinite where one cannot be."""
        total = 0.0
        for c in rows:
            low, high = float(table.share_low[c]), float(table.share_high[c])
            first, last = _line(table, c, "late_hours", low), _line(table, c, "late_hours", high)
            if min(first, last) > finish + 1e-12:
                return np.inf
            shares = [s for s, hours in ((low, first), (high, last)) if hours <= finish + 1e-12]
            if first != last and max(first, last) > finish:
                shares.append(low + (high - low) * (finish - first) / (last - first))
            total += min(_line(table, c, "late_cost_usd", s) for s in shares)
        return total

    bounds = (table.share_low, table.share_high)
    ends = [_line(table, c, "late_hours", float(share[c])) for c in rows for share in bounds]
    lower, upper = 0.0, max(ends)
    if least_late_cost(upper) > budget + 1e-9:
        return None
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if least_late_cost(middle) <= budget + 1e-9 else (middle, upper)
    return upper
