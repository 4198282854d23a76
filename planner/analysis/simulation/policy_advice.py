"""The policy of a plan as a file, and what it advises at one moment, without solving anything again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from planner.analysis.simulation.job_runs import RunKind, build_job_runs
from planner.analysis.simulation.market_paths import choose_tick_hours
from planner.analysis.simulation.zone_advice import best_zone, zone_rows
from planner.errors import Fault, ScenarioError
from planner.solving.prepare import prepare
from planner.spot.policy.policy_table import advice, to_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario


class SeveralZones(TypedDict, total=False):
    """What is known of the zones of a group: for how many minutes each has been up, None where it has no machines."""

    zones: Mapping[str, float | None]


def policy_tables(scenario: Scenario, plan: Plan, library: Library | None = None) -> dict[str, dict[str, Any]]:
    """Return the switching policy of each job of a plan that follows one, by job, as data that JSON can hold.

    `planner simulate --policy FILE` writes it as `{"scenario": ..., "jobs": {name: table}}`.
    Raises ScenarioError where no job of the plan follows a policy, or the plan is of another scenario.
    """
    tables = {}
    for job_run in build_job_runs(prepare(scenario, library), plan):
        if job_run.kind == RunKind.POLICY and job_run.states is not None:
            tick = choose_tick_hours(job_run.run, job_run.states, job_run.target_hours)
            table = to_table(job_run.policy(tick))
            tables[job_run.job.name] = table | ({"zones": zone_rows(job_run.zones)} if job_run.zones else {})
    if not tables:
        what = "no job of this plan follows a policy on spot"
        fix = "leave --policy out; limits.spot_share.min asks for spot"
        raise ScenarioError([Fault(scenario.name, 0, "", what, fix)])
    return tables


def spot_advice(
    table: Mapping[str, Any],
    hour: float,
    done: float,
    market_up: bool = False,
    minutes: float = 0.0,
    running: str = "nothing",
    slowness: float = 1.0,
    **several: Unpack[SeveralZones],
) -> str:
    """Return what a policy advises now: "wait", "spot" or "on_demand"; with `zones` the zone too: "spot in east-b".

    `table`: of one job, from `policy_tables` or its file. `hour`: since the first machines were ordered.
    `done`: share of the work, 0 to 1, unsaved work counted as done. `minutes`: since the market went up or down.
    `running`: "nothing", "spot" or "on_demand". `slowness`: hours that the work takes at the observed speed, over
    those expected; a slower run has proportionally more of them.
    `zones`, for a policy of several zones, in place of `market_up`: for how many minutes each has been up, None where
    it has no machines; `minutes` is then since the last of them went down, and machines run "spot in east-b".
    Ask every few minutes, and whenever machines are taken or come back. ValueError for what cannot be.

    At hour 20 with 60 % done and the market down for 10 minutes: `spot_advice(table, 20, 0.6, False, 10)`.
    """
    zones, zone = several.get("zones"), ""
    if zones is not None:
        running, _, zone = running.partition(" in ")
        market_up, minutes, zone = _in_zones(table, minutes, running, zones, zone)
    if not 0 <= done <= 1:
        raise ValueError(f"a share of the work lies between 0 and 1, not at {done:g}")
    if running not in ("nothing", "spot", "on_demand"):
        raise ValueError(f'running is "nothing", "spot" or "on_demand", not {running!r}')
    if running == "spot" and not market_up:
        raise ValueError("spot machines do not run while the market is down")
    if not (hour >= 0 and minutes >= 0 and slowness > 0):
        raise ValueError("hours and minutes gone by are not negative, and slowness is positive")
    hours_left = table["guaranteed_hours"] * slowness - hour
    work_left = (1 - done) * table["work_hours"] * slowness
    found = advice(dict(table), hours_left, work_left, market_up, minutes / 60, running)
    return f"spot in {zone}" if found == "spot" and zones is not None else found


def _in_zones(
    table: Mapping[str, Any], minutes: float, running: str, zones: Mapping[str, float | None], zone: str
) -> tuple[bool, float, str]:
    """Return whether any zone is up, for how many minutes the one that counts has been, and its name."""
    best = best_zone(table.get("zones", ()), zones)
    if running != "spot":
        return (False, minutes, "") if best is None else (True, best[1], best[0])
    here = zones.get(zone)
    if here is None:
        raise ValueError(f'running is "spot", but {zone or "no zone"} is not up: after a loss running is "nothing"')
    return True, here, zone
