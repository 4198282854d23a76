"""A switching policy written down as plain data, and read again; `advice` follows it without any of our arithmetic."""

from __future__ import annotations

import math
from typing import Any

from planner.spot.policy.deadline_guard import ROUNDING, DeadlineGuard
from planner.spot.policy.run import ON_DEMAND, SPOT, WAIT
from planner.spot.policy.switching_policy import Row, SwitchingPolicy

ACTION_NAMES = {WAIT: "wait", SPOT: "spot", ON_DEMAND: "on_demand"}
"""Actions, and what runs, as they are written."""
_NUMBERS = {word: number for number, word in ACTION_NAMES.items()}
RUNNING = {WAIT: "nothing", SPOT: "spot", ON_DEMAND: "on_demand"}
_RUNS = {word: number for number, word in RUNNING.items()}
FORMAT = "switching policy, version 1"


def to_table(policy: SwitchingPolicy) -> dict[str, Any]:
    """The policy as data that JSON can hold.

    `decisions`: one entry per state of the market and of what runs; `do[i]` belongs to `hours_left[i]` and is an
    action, then from which slack on (hours left minus hours of work left) the next action holds, and so on.
    """
    return {
        "format": FORMAT,
        "name": policy.name,
        "work_hours": policy.work_hours,
        "guaranteed_hours": policy.guaranteed_hours,
        "slack_needed_hours": policy.guard.as_dict(),
        "up_bands_begin_hours": list(policy.up_begins),
        "down_bands_begin_hours": list(policy.down_begins),
        "hours_left": list(policy.hours_left),
        "decisions": [
            {"market": "up" if up else "down", "age_band": band, "running": RUNNING[running],
             "do": [_encode_row(row) for row in rows]}
            for (up, band, running), rows in policy.rows.items()
        ],
    }  # fmt: skip


def from_table(table: dict[str, Any]) -> SwitchingPolicy:
    """The policy that `to_table` wrote; ValueError where the data is something else."""
    if table.get("format") != FORMAT:
        raise ValueError(f"not a {FORMAT}: format is {table.get('format')!r}")
    rows = {
        (entry["market"] == "up", int(entry["age_band"]), _RUNS[entry["running"]]): tuple(
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
    """What a table says: "wait", "spot" or "on_demand".

    `work_left_hours`: unsaved work counts as done. `age_hours`: since the market went up or down. `running`:
    "nothing", "spot" or "on_demand".
    At hour 20 of 40 with 60 % of 25 hours done and the market down for 10 minutes:
    `advice(table, 20, 10, False, 1 / 6, "nothing")`.
    """
    market = "up" if market_up else "down"
    begins = table[f"{market}_bands_begin_hours"]
    band = sum(age_hours >= begin for begin in begins[1:])
    entry = next(
        each
        for each in table["decisions"]
        if (each["market"], each["age_band"], each["running"]) == (market, band, running)
    )
    rows = table["hours_left"]
    step = (rows[-1] - rows[0]) / max(1, len(rows) - 1) or 1.0
    nearest = min(max(round((hours_left - rows[0]) / step), 0), len(rows) - 1)
    slack = hours_left - work_left_hours
    shown = slack * min(1.0, rows[-1] / hours_left) if hours_left > 0 else slack
    action, *rest = entry["do"][nearest]
    for begin, following in zip(rest[::2], rest[1::2], strict=True):
        if shown >= begin:
            action = following
    needed = table["slack_needed_hours"]
    if action == "wait":
        kept = needed["wait"]
    elif action == "spot":
        kept = needed["spot" if running == "spot" else "start_spot"]
    else:
        return "on_demand"
    return str(action) if slack >= kept - ROUNDING else "on_demand"


def _encode_row(row: Row) -> list[str | float]:
    written: list[str | float] = [ACTION_NAMES[row[0][1]]]
    for slack, action in row[1:]:
        written += [slack, ACTION_NAMES[action]]
    return written


def _decode_row(written: list[Any]) -> Row:
    first, *rest = written
    steps = zip(rest[::2], rest[1::2], strict=True)
    return ((-math.inf, _NUMBERS[first]), *((float(slack), _NUMBERS[action]) for slack, action in steps))
