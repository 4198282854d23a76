"""Say what to rent now by the spot policy of a plan, as `policy.json` beside this file has it; needs Python alone.

    python spot_policy.py --hour 20 --done 0.6 --market down --minutes 10 --running nothing

prints "wait", "spot" or "on_demand". Ask every few minutes, and whenever machines are taken or come back.
A run that may move between zones states for how many minutes each has been up, and learns which one to take:

    python spot_policy.py --hour 20 --done 0.6 --zones east/a=5 east/b=300 east/c=down --running "spot in east/a"
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Any

_ROUNDING_HOURS = 1e-9
_DAY_HOURS = 24.0


def decide(table: dict[str, Any], hours_left: float, work_left: float, up: bool, age: float, running: str) -> str:
    """Return the action; hours of time, of work and since the market went up or down, unsaved work counted as done."""
    slack = hours_left - work_left
    band = bisect_right(table[f"{'up' if up else 'down'}_bands_begin_hours"][1:], age + _ROUNDING_HOURS)
    rows = next(
        decision["do"]
        for decision in table["decisions"]
        if (decision["market"] == "up", decision["age_band"], decision["running"]) == (up, band, running)
    )
    times = table["hours_left"]
    step = (times[-1] - times[0]) / max(1, len(times) - 1) or 1.0
    row = rows[min(max(round((hours_left - times[0]) / step), 0), len(times) - 1)]
    scaled = slack * min(1.0, times[-1] / max(hours_left, times[-1]))
    action = str(row[2 * sum(scaled >= bound for bound in row[1::2])])
    needed = table["slack_needed_hours"]
    least = needed["wait"] if action != "spot" else needed["spot" if running == "spot" else "start_spot"]
    return "on_demand" if action != "on_demand" and slack < least - _ROUNDING_HOURS else action


def expected_rest(zone: dict[str, Any], hours: float) -> float:
    """Return the mean hours that machines still stay in a zone which has been up for `hours`, at most a day."""
    begins, rates = zone["ages_hours"], zone["ends_per_hour"]
    rest, alive = 0.0, 1.0
    for begin, end, rate in zip(begins, [*begins[1:], math.inf], rates, strict=True):
        width = max(min(end, hours + _DAY_HOURS) - max(begin, hours), 0.0)
        ended = -math.expm1(-rate * width)
        rest += alive * (width if rate == 0 else ended / rate)
        alive *= 1 - ended
    return rest


def best_zone(table: dict[str, Any], up_minutes: dict[str, float]) -> str:
    """Return the zone with the longest expected rest of its up-time per dollar, of those that are up."""
    known = {zone["zone"]: zone for zone in table["zones"]}

    def worth(name: str) -> float:
        return expected_rest(known[name], up_minutes[name] / 60) / max(float(known[name]["usd_per_hour"]), 1e-9)

    return max(up_minutes, key=worth)


def read_zones(table: dict[str, Any], given: list[str]) -> dict[str, float]:
    """Return the minutes for which each zone that is up has been so; ValueError for what is no zone, or no minutes."""
    known, found = [zone["zone"] for zone in table.get("zones", ())], {}
    for statement in given:
        name, _, minutes = statement.rpartition("=")
        if name not in known:
            raise ValueError(f"{statement} names no zone of this policy: {', '.join(known) or 'it has none'}")
        if minutes != "down" and not minutes.replace(".", "", 1).isdecimal():
            raise ValueError(f"{statement}: minutes are a number that is not negative, or down")
        if minutes != "down":
            found[name] = float(minutes)
    return found


def main() -> None:
    """Read the state of the run from the arguments and print the action."""
    parser = argparse.ArgumentParser(description="What to rent now, by the spot policy of a plan.")
    parser.add_argument("--hour", type=float, required=True, help="hours since the first machines were ordered")
    parser.add_argument("--done", type=float, required=True, help="share of the steps done, 0 to 1")
    seen = parser.add_mutually_exclusive_group(required=True)
    seen.add_argument("--market", choices=("up", "down"), help="whether spot capacity is there")
    seen.add_argument("--zones", nargs="+", metavar="ZONE=MINUTES", help="since a zone went up, or down")
    parser.add_argument("--minutes", type=float, default=0.0, help="since the market went up or down")
    parser.add_argument("--running", default="nothing", help='nothing, on_demand, spot, or "spot in ZONE"')
    parser.add_argument("--slowness", type=float, default=1.0, help="observed over planned seconds of a step")
    given = parser.parse_args()
    table = json.loads(Path(__file__).with_name("policy.json").read_text(encoding="utf-8"))
    hours_left = table["guaranteed_hours"] * given.slowness - given.hour
    work_left = (1 - given.done) * table["work_hours"] * given.slowness
    up, minutes, zone = given.market == "up", given.minutes, ""
    running, _, here = given.running.partition(" in ")
    if running not in ("nothing", "spot", "on_demand"):
        parser.error(f'--running is nothing, on_demand, spot or "spot in ZONE", not {given.running}')
    if given.zones:
        try:
            zones = read_zones(table, given.zones)
        except ValueError as error:
            parser.error(str(error))
        if running == "spot" and here not in zones:
            parser.error(f"{here or 'no zone'} is not up: after a loss --running is nothing")
        if up := bool(zones):
            zone = here if running == "spot" else best_zone(table, zones)
            minutes = zones[zone]
    if running == "spot" and not up:
        parser.error("spot machines do not run while the market is down")
    action = decide(table, hours_left, work_left, up, minutes / 60, running)
    json.dump(f"spot in {zone}" if action == "spot" and zone else action, sys.stdout)


if __name__ == "__main__":
    main()
