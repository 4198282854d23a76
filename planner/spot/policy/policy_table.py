"""A switching policy as plain data that JSON can hold, and the policy that such data describes."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from planner.spot.policy.deadline_guard import DeadlineGuard
from planner.spot.policy.run import Action
from planner.spot.policy.switching_policy import Row, SwitchingPolicy

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
