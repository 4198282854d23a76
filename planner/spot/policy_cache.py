"""Best policies that were computed once, on one grid, and a policy as plain data that JSON can hold."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner.arrays import Floats
from planner.spot.backward_induction import (
    TIE_FACTOR,
    BackwardInduction,
    DollarBound,
    StartRecord,
    StartTable,
    usd_tables,
)
from planner.spot.markov_chain import (
    ALL_COUNTS,
    COUNTS,
    DEMAND_HOURS,
    DEMAND_STARTS,
    FIGURES,
    FINISH,
    FINISH_VARIANCE,
    INTERRUPTIONS,
    MEANS,
    SPOT_HOURS,
    USD,
    USD_VARIANCE,
    VARIANCES,
    CurveRequest,
    Fineness,
    Grid,
    build_chain_for,
    check_run,
    grid_of,
)
from planner.spot.run import Action, DeadlineGuard, SpotRun
from planner.spot.states import SpotStates
from planner.spot.switching_policy import (
    JUST_AFTER,
    CurvePiece,
    Row,
    SwitchingPolicy,
    WaitingRule,
    pass_of,
    policies_of_pass,
    straight_pieces,
    waiting_rule,
)
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence


# Best policies that were computed once, on one grid, so that every request for a run and a time gets the same.
#
# A pass answers all times up to its horizon, and horizons depend on the run alone: a plan that is solved for one
# deadline and a frontier over all of them tell one cost.


# Cost curves: the least mean cost of a run on a spot market, for every time within which it is guaranteed to end.


@dataclass(frozen=True)
class CurvePoint:
    """The best policy that guarantees `hours`: means over the market, and the spread of the cost.

    Spreads and interruptions are nan where only the figures that candidates are compared by were computed.
    """

    hours: float  # guaranteed
    usd: float
    usd_sd: float
    finish_hours: float  # from the start to the end of the run
    finish_sd: float  # hours
    spot_hours: float  # paid
    on_demand_hours: float  # paid
    spot_share: float  # of the work, 0 to 1
    interruptions: float
    wasted_hours: float  # paid without lasting progress: restarts, checkpoints, lost work
    waiting_hours: float  # nothing rented


@dataclass(frozen=True)
class Curve:
    """Points of a curve by rising guaranteed hours; arrays of shape (points,). `usd` never rises.

    The first point is on demand without a pause, which takes the least time that can be guaranteed.
    """

    hours: Floats
    usd: Floats
    usd_sd: Floats
    finish_hours: Floats
    finish_sd: Floats
    spot_hours: Floats
    on_demand_hours: Floats
    spot_share: Floats
    interruptions: Floats
    wasted_hours: Floats
    waiting_hours: Floats

    def points(self) -> list[CurvePoint]:
        """Return the points by rising hours."""
        columns = [getattr(self, field.name).tolist() for field in fields(CurvePoint)]
        return [CurvePoint(*values) for values in zip(*columns, strict=True)]

    def at(self, guaranteed_hours: float) -> CurvePoint:
        """Return the last point that fits into the time; ValueError where even on-demand machines take longer.

        A point between two of the curve is not interpolated: the earlier one is guaranteed, the later one is not.
        """
        index = int(np.searchsorted(self.hours, guaranteed_hours * (1 + 1e-12), side="right")) - 1
        if index < 0:
            raise ValueError(f"{guaranteed_hours:g} h are less than the {self.hours[0]:g} h of on-demand machines")
        return CurvePoint(**{field.name: float(getattr(self, field.name)[index]) for field in fields(CurvePoint)})


def count_tables(requests: Sequence[CurveRequest], grid: Grid) -> list[StartTable]:
    """Return all counts (ticks, slack, COUNTS) of the best policy of each run, by one backward pass for all of them."""
    return _tables(requests, grid, ALL_COUNTS)


def figure_tables(requests: Sequence[CurveRequest], grid: Grid) -> list[StartTable]:
    """Return the `FIGURES` among the counts, in less time; shapes (ticks, slack, figures)."""
    return _tables(requests, grid, FIGURES)


def _tables(requests: Sequence[CurveRequest], grid: Grid, counts: slice) -> list[StartTable]:
    chain = build_chain_for([request.part for request in requests], grid)
    record = StartRecord(requests, chain, grid.ticks)
    backward = BackwardInduction(chain, record.width, counts)
    for _ in range(grid.ticks):
        record.add(backward.step().counts)
    idle = record.values
    if counts == ALL_COUNTS:
        idle[:, VARIANCES] += np.square(idle[:, MEANS])
    mixed = np.einsum("bm,tkbms->kbts", chain.first, idle)
    if counts == ALL_COUNTS:
        mixed[VARIANCES] -= np.square(mixed[MEANS])
    return record.tables(np.moveaxis(mixed, 0, -1))


def best_point(table: StartTable, hours: float) -> CurvePoint:
    """Return the best policy that guarantees `hours`, on demand alone where nothing is cheaper."""
    return curve_at(table, np.array([hours])).at(hours)


def curve_at(table: StartTable, hours: Floats) -> Curve:
    """Return on demand, and the best policy for each of some guaranteed times."""
    run = table.request.run
    enough = hours[hours > run.work_hours + run.restart_hours * (1 + 1e-9)]
    figures = table.at(enough)
    counts = np.full((len(enough) + 1, COUNTS), np.nan)
    counts[0], counts[1:, : figures.shape[1]] = demand_counts(run), figures
    return build_curve(run, np.append(run.work_hours + run.restart_hours, enough), counts)


def demand_counts(run: SpotRun) -> Floats:
    """Return the exact counts of a run that starts on demand and stays there."""
    hours = run.work_hours + run.restart_hours
    counts = np.zeros(COUNTS)
    counts[USD] = hours * (run.on_demand_usd_per_hour + run.standing_usd_per_hour)
    counts[[FINISH, DEMAND_HOURS, DEMAND_STARTS]] = hours, hours, 1.0
    return counts


def build_curve(run: SpotRun, hours: Floats, counts: Floats) -> Curve:
    """Return the curve of counts (points, COUNTS); where more time costs more, the point of less time is kept."""
    usd = counts[:, USD]
    falls = np.concatenate([[True], usd[1:] < np.minimum.accumulate(usd)[:-1] * TIE_FACTOR])
    kept = counts[np.maximum.accumulate(np.where(falls, np.arange(len(usd)), 0))]
    demand_work = kept[:, DEMAND_HOURS] - run.restart_hours * kept[:, DEMAND_STARTS]
    spot_share = np.clip(1.0 - demand_work / run.work_hours, 0.0, 1.0)
    spot_share[kept[:, SPOT_HOURS] == 0] = 0.0
    paid = kept[:, SPOT_HOURS] + kept[:, DEMAND_HOURS]
    return Curve(
        hours=hours,
        usd=kept[:, USD],
        usd_sd=np.sqrt(np.maximum(kept[:, USD_VARIANCE], 0.0)),
        finish_hours=kept[:, FINISH],
        finish_sd=np.sqrt(np.maximum(kept[:, FINISH_VARIANCE], 0.0)),
        spot_hours=kept[:, SPOT_HOURS],
        on_demand_hours=kept[:, DEMAND_HOURS],
        spot_share=spot_share,
        interruptions=kept[:, INTERRUPTIONS],
        wasted_hours=np.maximum(paid - run.work_hours, 0.0),
        waiting_hours=np.maximum(kept[:, FINISH] - paid, 0.0),
    )


FINENESS = Fineness(256, 181)
"""Within half a percent of a much finer grid, a percent where there are many works of slack (see tests)."""
RUNS_PER_PASS = 8
"""Runs that are computed together: their arrays stay in the processor's cache."""
FIRST_SLACK = 1 / 16
"""Slack of the shortest horizon over the work; each further one has twice as much."""
SAME_TIME = 1e-6
"""Relative: a time this close after the end of a horizon is its end, so that rounding leads to no other grid."""
LONGEST_SLACK = 8.0
"""Slack beyond so many times the work, or so many mean outages with a lost start, saves little more: the longest
horizon serves all times beyond it. Work that is short against the outages can wait for a long up-time."""
MOST_WORKS = 64.0
"""The longest slack in works: a pass for more would take seconds, and work of minutes costs cents."""
NOTICEABLE_SAVING = 3e-3
"""Relative: the grid of a curve errs by as much."""

CLOSE_GRIDS = 6e-3
"""Relative: grids of two horizons differ by less."""

Key = tuple[SpotRun, SpotStates, float]
"""A run, its market, and the hours within which it must end."""


Found = TypeVar("Found")
Kind = TypeVar("Kind", bound="Hashable")

Span = tuple[float, float]
"""Guaranteed times after the first, up to the second, that one horizon answers."""


def horizon_of(run: SpotRun, states: SpotStates, guaranteed_hours: float) -> float:
    """Return the horizon of a guaranteed time: work + restart + work/16 x 2^i, the first that reaches it.

    The last one is `longest_useful_hours`. 0.5 h of work, a restart of 0.1 h and outages of 4.6 h on average have the
    horizons 0.63125, 0.6625, 0.725 h and so on up to 32.6 h, which are 64 works and the start.
    """
    needed, longest = run.work_hours + run.restart_hours, longest_useful_hours(run, states)
    slack = FIRST_SLACK * run.work_hours
    while needed + slack < min(guaranteed_hours * (1 - SAME_TIME), longest):
        slack *= 2
    return min(needed + slack, longest)


def longest_useful_hours(run: SpotRun, states: SpotStates) -> float:
    """Return the longest horizon: more time saves little."""
    # A start that is lost takes slack, too: up to the up-time, and no more than the work.
    attempt = states.down.mean() + min(states.up.mean(), run.work_hours)
    by_outages = min(LONGEST_SLACK * attempt, MOST_WORKS * run.work_hours)
    return run.work_hours + run.restart_hours + max(LONGEST_SLACK * run.work_hours, by_outages)


def spans_up_to(run: SpotRun, states: SpotStates, longest_hours: float) -> list[Span]:
    """Return the guaranteed times that each horizon answers, up to `longest_hours`; none where nothing is left."""
    spans = []
    begin = run.work_hours + run.restart_hours
    while begin * JUST_AFTER < longest_hours:
        end = horizon_of(run, states, begin * JUST_AFTER)
        if end <= begin * JUST_AFTER:  # the longest horizon
            break
        spans.append((begin, min(end, longest_hours)))
        begin = end
    return spans


class PolicyCache:
    """Passes that were computed once: another deadline within the same horizon, or another budget, needs no new one."""

    def __init__(self) -> None:
        self._usd: dict[Key, StartTable] = {}
        self._counts: dict[Key, StartTable] = {}
        self._figures: dict[Key, StartTable] = {}
        self._of_horizon: dict[Key, DollarBound] = {}
        self._bounds: dict[Key, float] = {}
        self._starting: dict[Key, SwitchingPolicy] = {}
        self._rules: dict[Key, WaitingRule] = {}

    def drop_passes(self) -> None:
        """Forget the passes of all candidates that were compared: of many jobs they fill most of the memory.

        A plan reads those of the chosen ones, in other figures.
        """
        self._usd.clear()
        self._figures.clear()
        self._of_horizon.clear()

    def usd_bound(self, run: SpotRun, states: SpotStates, hours: float) -> float:
        """Return dollars below which no policy on spot within `hours` stays, as `least_usd` finds them: without a pass.

        inf where the time allows no start on spot.
        """
        key = (run, states, hours)
        if key not in self._bounds:
            horizon = _horizon_key(*key)
            if horizon not in self._of_horizon:
                request = CurveRequest(*horizon)
                self._of_horizon[horizon] = DollarBound.of(request, pass_grid(request))
            self._bounds[key] = self._of_horizon[horizon].within(hours)
        return self._bounds[key]

    def least_usd(self, keys: Sequence[Key]) -> Floats:
        """Return the dollars of the best policy of each (run, market, hours); inf where there is no slack for one."""
        tables = _look_up(self._usd, [_horizon_key(*key) for key in keys], usd_tables, pass_grid)
        usd = [float(table.at(np.array([hours]))[0]) for table, (_, _, hours) in zip(tables, keys, strict=True)]
        enough = [hours - run.work_hours > run.restart_hours * (1 + 1e-9) for run, _, hours in keys]
        return np.where(enough, usd, np.inf)

    def best_points(self, keys: Sequence[Key]) -> list[CurvePoint]:
        """Return the best policy of each (run, market, hours), on demand alone where nothing is cheaper.

        ValueError as `check_run` raises it.
        """
        for run, _, hours in keys:
            check_run(run, hours)
        tables = _look_up(self._counts, [_horizon_key(*key) for key in keys], count_tables, pass_grid)
        return [best_point(table, hours) for table, (_, _, hours) in zip(tables, keys, strict=True)]

    def figures(self, keys: Sequence[Key]) -> list[CurvePoint]:
        """Return the same points with the figures that candidates are compared by: no spreads, no interruptions.

        ValueError as `check_run` raises it.
        """
        for run, _, hours in keys:
            check_run(run, hours)
        at = [_horizon_key(*key) for key in keys]
        known = {**self._figures, **{key: self._counts[key] for key in at if key in self._counts}}
        tables = _look_up(known, at, figure_tables, pass_grid)
        self._figures = known
        return [best_point(table, hours) for table, (_, _, hours) in zip(tables, keys, strict=True)]

    def best_within(self, keys: Sequence[Key]) -> list[CurvePoint]:
        """Return `figures`, or those of the end of the horizon before where that costs less.

        Its grid is finer, so that a little more time would seem to cost up to half a percent more. Where more time
        saves more than that, no pass is needed to know.
        """
        points = self.figures(keys)
        before: dict[int, Key] = {}
        for place, (run, states, hours) in enumerate(keys):
            spans, table = spans_up_to(run, states, hours), self._figures[_horizon_key(run, states, hours)]
            if len(spans) > 1 and points[place].usd > best_point(table, spans[-2][1]).usd * (1 - CLOSE_GRIDS):
                before[place] = run, states, spans[-2][1]
        for place, point in zip(before, self.figures(list(before.values())), strict=True):
            points[place] = min(points[place], point, key=lambda candidate: candidate.usd)
        return points

    def rules(self, keys: Sequence[Key]) -> list[WaitingRule]:
        """Return when the best policy of each (run, market, hours) takes a spot machine.

        ValueError as `check_run` raises it.
        """
        for run, _, hours in keys:
            check_run(run, hours)
        starts = partial(policies_of_pass, only_starts=True)
        policies = _look_up(self._starting, [_horizon_key(*key) for key in keys], starts, pass_of)
        for key, policy in zip(keys, policies, strict=True):
            if key not in self._rules:
                self._rules[key] = waiting_rule(CurveRequest(*key), policy)
        return [self._rules[key] for key in keys]

    def usd_curves(
        self, asked: Sequence[tuple[SpotRun, SpotStates, Sequence[Span]]]
    ) -> list[list[tuple[Floats, Floats]]]:
        """Return the ticks in each span of each run on a market, and the dollars of the best policy within them."""
        keys = [[_horizon_key(run, states, end) for _, end in spans] for run, states, spans in asked]
        _look_up(self._usd, [key for several in keys for key in several], usd_tables, pass_grid)
        curves = []
        for (_, _, spans), several in zip(asked, keys, strict=True):
            tables = [self._usd[key] for key in several]
            hours = [table.hours_in(*span) for table, span in zip(tables, spans, strict=True)]
            curves.append([(times, table.at(times)) for table, times in zip(tables, hours, strict=True)])
        return curves

    def pieces(self, run: SpotRun, states: SpotStates, spans: Sequence[Span]) -> list[CurvePiece]:
        """Return the curve of a run in some spans as straight pieces, by rising hours."""
        tables = _look_up(self._usd, [_horizon_key(run, states, end) for _, end in spans], usd_tables, pass_grid)
        return [piece for table, span in zip(tables, spans, strict=True) for piece in straight_pieces(table, *span)]

    def close_points(self, run: SpotRun, states: SpotStates, pieces: Sequence[CurvePiece]) -> list[CurvePoint]:
        """Return the policies at the ends of pieces and between, no two neighbours noticeably apart in dollars."""
        hours = [time for piece in pieces for time in piece.divided(NOTICEABLE_SAVING)]
        return self.figures([(run, states, time) for time in dict.fromkeys(hours)])


def _horizon_key(run: SpotRun, states: SpotStates, hours: float) -> Key:
    return run, states, horizon_of(run, states, hours)


def _look_up(
    known: dict[Key, Found],
    keys: Sequence[Key],
    compute: Callable[[list[CurveRequest], Kind], list[Found]],
    kind_of: Callable[[CurveRequest], Kind],
) -> list[Found]:
    """Return what is known of (run, market, hours); the unknown is computed together, in blocks of one kind of pass."""
    by_kind: dict[Kind, list[Key]] = {}
    for key in dict.fromkeys(key for key in keys if key not in known):
        by_kind.setdefault(kind_of(CurveRequest(*key)), []).append(key)
    for kind, missing in by_kind.items():
        for first in range(0, len(missing), RUNS_PER_PASS):
            keep_going()
            block = missing[first : first + RUNS_PER_PASS]
            known.update(zip(block, compute([CurveRequest(*key) for key in block], kind), strict=True))
    return [known[key] for key in keys]


def pass_grid(request: CurveRequest) -> Grid:
    """Return the grid on which a request is computed."""
    return grid_of(request.part, FINENESS)


# A switching policy as plain data that JSON can hold, and the policy that such data describes.


ACTION_NAMES: dict[int, str] = {Action.WAIT: "wait", Action.SPOT: "spot", Action.ON_DEMAND: "on_demand"}
"""Actions as they are written."""
RUNNING_NAMES: dict[int, str] = {**ACTION_NAMES, Action.WAIT: "nothing"}
"""What runs, as it is written."""
_ACTIONS = {name: action for action, name in ACTION_NAMES.items()}
_RUNNING = {name: action for action, name in RUNNING_NAMES.items()}
FORMAT = "switching policy, version 1"


def to_table(policy: SwitchingPolicy) -> dict[str, Any]:
    """Return the policy as data that JSON can hold.

    `decisions`: one entry per state of the market and of what runs. `do[i]` belongs to `hours_left[i]`: an action, then
    the slack (hours left minus hours of work left) from which the next action holds, and so on.
    """
    return {
        "format": FORMAT,
        "name": policy.name,
        "work_hours": policy.work_hours,
        "guaranteed_hours": policy.guaranteed_hours,
        "slack_needed_hours": asdict(policy.guard),
        "up_bands_begin_hours": list(policy.up_begins),
        "down_bands_begin_hours": list(policy.down_begins),
        "hours_left": list(policy.hours_left),
        "decisions": [
            {
                "market": "up" if up else "down",
                "age_band": band,
                "running": RUNNING_NAMES[running],
                "do": [_encode_row(row) for row in rows],
            }
            for (up, band, running), rows in policy.rows.items()
        ],
    }


def from_table(table: dict[str, Any]) -> SwitchingPolicy:
    """Return the policy that `to_table` wrote; ValueError where the data is something else."""
    if table.get("format") != FORMAT:
        raise ValueError(f"not a {FORMAT}: format is {table.get('format')!r}")
    rows = {
        (entry["market"] == "up", int(entry["age_band"]), _RUNNING[entry["running"]]): tuple(
            _decode_row(written) for written in entry["do"]
        )
        for entry in table["decisions"]
    }
    return SwitchingPolicy(
        guard=DeadlineGuard(**table["slack_needed_hours"]),
        guaranteed_hours=float(table["guaranteed_hours"]),
        work_hours=float(table["work_hours"]),
        up_begins=tuple(table["up_bands_begin_hours"]),
        down_begins=tuple(table["down_bands_begin_hours"]),
        hours_left=tuple(table["hours_left"]),
        rows=rows,
        name=table["name"],
    )


def advice(
    table: dict[str, Any], hours_left: float, work_left_hours: float, market_up: bool, age_hours: float, running: str
) -> str:
    """Return what a table advises: "wait", "spot" or "on_demand".

    `work_left_hours`: unsaved work counts as done. `age_hours`: since the market went up or down. `running`:
    "nothing", "spot" or "on_demand".
    At hour 20 of 40 with 60 % of 25 hours done and the market down for 10 minutes:
    `advice(table, 20, 10, False, 1 / 6, "nothing")`.
    """
    state = (work_left_hours, hours_left, market_up, age_hours, _RUNNING[running])
    action = from_table(table).decide(*(np.array([value]) for value in state))
    return ACTION_NAMES[int(action[0])]


def _encode_row(row: Row) -> list[str | float]:
    """Return the actions and the slacks between them; the first action holds at any slack."""
    return [entry for slack, action in row for entry in (slack, ACTION_NAMES[action])][1:]


def _decode_row(written: list[Any]) -> Row:
    slacks, actions = [-math.inf, *written[1::2]], written[::2]
    return tuple((float(slack), _ACTIONS[action]) for slack, action in zip(slacks, actions, strict=True))
