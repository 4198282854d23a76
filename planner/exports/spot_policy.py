"""Say what to rent now by the spot policy of a plan, as `policy.json` beside this file has it; needs Python alone.

    python spot_policy.py --hour 20 --done 0.6 --market down --minutes 10 --running nothing

prints "wait", "spot" or "on_demand". Ask every few minutes, and whenever machines are taken or come back.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Any

_ROUNDING_HOURS = 1e-9


def decide(table: dict[str, Any], hours_left: float, work_left: float, up: bool, age: float, running: str) -> str:
    """Return the action; hours of time, of work and since the market went up or down, unsaved work counted as done."""
    slack = hours_left - work_left
    band = bisect_right(table[f"{'up' if up else 'down'}_bands_begin_hours"][1:], age + _ROUNDING_HOURS)
    rows = next(
        one["do"]
        for one in table["decisions"]
        if (one["market"] == "up", one["age_band"], one["running"]) == (up, band, running)
    )
    times = table["hours_left"]
    step = (times[-1] - times[0]) / max(1, len(times) - 1) or 1.0
    row = rows[min(max(round((hours_left - times[0]) / step), 0), len(times) - 1)]
    scaled = slack * min(1.0, times[-1] / max(hours_left, times[-1]))
    action = str(row[2 * sum(scaled >= bound for bound in row[1::2])])
    needed = table["slack_needed_hours"]
    least = needed["wait"] if action != "spot" else needed["spot" if running == "spot" else "start_spot"]
    return "on_demand" if action != "on_demand" and slack < least - _ROUNDING_HOURS else action


def main() -> None:
    """Read the state of the run from the arguments and print the action."""
    parser = argparse.ArgumentParser(description="What to rent now, by the spot policy of a plan.")
    parser.add_argument("--hour", type=float, required=True, help="hours since the first machines were ordered")
    parser.add_argument("--done", type=float, required=True, help="share of the steps done, 0 to 1")
    parser.add_argument("--market", choices=("up", "down"), required=True, help="whether spot capacity is there")
    parser.add_argument("--minutes", type=float, default=0.0, help="since the market went up or down")
    parser.add_argument("--running", choices=("nothing", "spot", "on_demand"), default="nothing")
    parser.add_argument("--slowness", type=float, default=1.0, help="observed over planned seconds of a step")
    given = parser.parse_args()
    table = json.loads(Path(__file__).with_name("policy.json").read_text(encoding="utf-8"))
    hours_left = table["guaranteed_hours"] * given.slowness - given.hour
    work_left = (1 - given.done) * table["work_hours"] * given.slowness
    up, running = given.market == "up", given.running
    if running == "spot" and not up:
        parser.error("spot machines do not run while the market is down")
    json.dump(decide(table, hours_left, work_left, up, given.minutes / 60, running), sys.stdout)


if __name__ == "__main__":
    main()
