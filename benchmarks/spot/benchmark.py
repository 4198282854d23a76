"""Benchmark of the planned use of spot machines and of its predictions: `python -m benchmarks.spot`.

Synthetic zones, recorded markets if given, and cost curves against replays; see `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
from time import process_time
from typing import Any

import numpy as np

from benchmarks.spot.bounds import BoundRun, bound_rows, bound_text
from benchmarks.spot.fleets import judge_recorded
from benchmarks.spot.group_table import group_targets, group_text, halved_targets
from benchmarks.spot.groups import JOBS, SIZES, WINDOWS, Cells, judge_groups, made_group, recorded_groups
from benchmarks.spot.judge import POLICIES, SLACKS, job, summary
from benchmarks.spot.units import check_markets, unit_rows
from benchmarks.spot.waiting import waiting_rows, waiting_targets, waiting_text
from benchmarks.spot.zones import SEED, SETS, TICK_HOURS, WORK_HOURS, judge_zones
from planner.spot.replayed_runs import Greedy, UniformProgress, replay
from planner.spot.states import Ages, SpotStates, ZoneGroup, group_zones, sample_states
from planner.spot.switching_policy import best_policy
from planner.spot.trace_formats import read_traces

ABOVE_OPTIMUM = dict(zip(SLACKS, (7.0, 5.0, 4.0, 4.0), strict=True))
"""Percent: targets for the planned policy on the zones of the first set."""
RUNS_PER_SECOND = 10_000
STATES = SpotStates(up=Ages((0.0, 1.0), (1.0, 0.1)), down=Ages((0.0, 0.5), (1.5, 0.4)))
"""A market to measure speed on: up for 4.3 h on average, down for 1.7 h."""


def speed() -> dict[str, float]:
    """Measure the replays per second of 48 h of work within 96 h at ticks of five minutes, on one core, by policy."""
    run, deadline = job(WORK_HOURS), 2 * WORK_HOURS
    paths = sample_states(STATES, 8192, round(deadline / TICK_HOURS), TICK_HOURS, np.random.default_rng(SEED))
    rates = {}
    planned = best_policy(run, STATES, deadline, tick_hours=TICK_HOURS)
    policies = (planned, Greedy(run, TICK_HOURS), UniformProgress(run, TICK_HOURS, deadline))
    for name, policy in zip(POLICIES, policies, strict=True):
        seconds = []
        for _ in range(3):  # of this process alone: what else the machine does is not counted
            started = process_time()
            replay(policy, run, paths.up, TICK_HOURS, deadline, age_hours=paths.age_hours)
            seconds.append(process_time() - started)
        rates[name] = len(paths.up) / min(seconds)
    return rates


WAITING_ZONES = 50
"""Zones on which policies that wait less are compared with those of least dollars."""
MADE_JOBS = JOBS[:3]
"""Jobs on the groups that are made."""
RECORDED_GROUPS = 9
"""Groups of each size out of recorded zones: there are only nine of eight out of nine."""


MADE, RECORDED = "made groups of zones", "recorded groups of zones"


def group_tables(asked: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of groups of zones, made and recorded, by title."""
    tables = {}
    jobs = [job for job in JOBS if job[0] in asked.work and job[1] in asked.restarts]
    cells = Cells(slacks=tuple(asked.deadlines), windows=asked.windows)
    if asked.groups:
        groups = [(4, made_group(number)) for number in range(asked.groups)]
        made_jobs = [job for job in MADE_JOBS if job in jobs]
        tables[MADE] = judge_groups(groups, made_jobs, asked.processes, cells, asked.progress)
    if asked.together:
        groups = _recorded(asked)
        tables[RECORDED] = judge_groups(groups, jobs, asked.processes, cells, asked.progress)
    return tables


def _recorded(asked: argparse.Namespace) -> list[tuple[int, ZoneGroup]]:
    """Return random groups of the recorded zones."""
    zones = group_zones(read_traces(asked.together))
    return list(recorded_groups(zones, asked.groups_per_size, asked.sizes, asked.seed))


def report(zones: int, markets: int, traces: list[str], processes: int) -> dict[str, Any]:
    """Return all figures but those of groups of zones, as plain data."""
    tables = {}
    for kind, count in zip(SETS, (zones, zones // 4), strict=True):
        if count:
            tables[f"synthetic zones: {kind}, 48 h of work"] = summary(judge_zones(kind, count, processes))
    recorded = judge_recorded(traces)
    return {
        "tables": {**tables, **recorded.tables},
        "left_out": list(recorded.left_out),
        "waiting": waiting_rows(min(zones, WAITING_ZONES)) if zones else [],
        "units": unit_rows(check_markets(markets)) if markets else [],
        "runs_per_second": speed() if zones else {},
    }


def targets_met(found: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the targets and whether they are met."""
    lines = []
    for title, rows in found["tables"].items():
        for row in rows:
            slack, planned = row["deadline_over_work"], row["planned"]
            where = f"{title.split(' of work')[0]}, deadline {slack:g} x work"
            if next(iter(SETS)) in title:
                above, error, limit = planned["percent_above_optimum"], planned["standard_error"], ABOVE_OPTIMUM[slack]
                text = f"{where}: {above:.1f} +- {error:.1f} % above the optimum, at most {limit:g}"
                lines.append((text, above <= limit))
            usd = {name: row[name]["percent_of_on_demand"] for name in POLICIES}
            costlier = [name for name in POLICIES[1:] if usd["planned"] > usd[name] + 1e-9]
            lines.append((f"{where}: no more expensive than {' or '.join(costlier or POLICIES[1:])}", not costlier))
    rows = [row for rows in found["tables"].values() for row in rows]
    late = sum(row["planned"]["late"] for row in rows)
    if rows:
        lines.append(
            (f"no deadline missed: {late} of {sum(row['windows'] for row in rows)} planned runs late", late == 0)
        )
    for unit in found["units"]:
        text = (
            f"{unit['form']}: mean cost within {unit['limit_percent']:g} % of the curve on "
            f"{unit['within_limit']} of {unit['markets']} markets, worst {unit['worst_error_percent']:.1f} %; "
            f"deadline met in {unit['least_met_percent']:.1f} % at least"
        )
        met = unit["within_limit"] == unit["markets"] and unit["least_met_percent"] >= 97.0
        lines.append((text, met))
    lines += waiting_targets(found.get("waiting", []))
    for title, rows in found.get("groups", {}).items():
        lines += group_targets(title, rows) + (halved_targets(title, rows) if title == RECORDED else [])
    if found["runs_per_second"]:
        slowest = min(found["runs_per_second"].values())
        lines.append((f"replays per second: {slowest:,.0f}, at least {RUNS_PER_SECOND:,}", slowest >= RUNS_PER_SECOND))
    return lines


def text_of(found: dict[str, Any]) -> str:
    """Return the tables in percent, then the targets."""
    lines = []
    for title, rows in found["tables"].items():
        lines += [f"{title}; {rows[0]['markets']} markets, {rows[0]['windows']} windows each row"]
        lines += ["deadline   % of on-demand cost              % above the optimum (+- error)"]
        lines += ["  / work   planned greedy uniform optimum    planned       greedy        uniform"]
        for row in rows:
            cells = [row[name] for name in POLICIES]
            shares = "".join(f"{cell['percent_of_on_demand']:8.1f}" for cell in cells)
            above = "".join(f"{cell['percent_above_optimum']:7.1f} +- {cell['standard_error']:<3.1f}" for cell in cells)
            lines.append(
                f"{row['deadline_over_work']:8.2f}  {shares}{row['optimum_percent_of_on_demand']:8.1f}  {above}"
            )
        lines.append("")
    lines += [*(f"left out: {reason}" for reason in found["left_out"]), ""] if found["left_out"] else []
    lines += waiting_text(found["waiting"]) if found.get("waiting") else []
    for title, rows in found.get("groups", {}).items():
        lines += group_text(title, rows)
    lines += bound_text(f"{RECORDED}: bounds", found["bounds"]) if found.get("bounds") else []
    lines += _units(found["units"])
    lines += [f"replays per second, {name}: {rate:,.0f}" for name, rate in found["runs_per_second"].items()]
    lines += ["", *(f"{'met   ' if met else 'MISSED'}  {what}" for what, met in targets_met(found))]
    return "\n".join(lines)


def _units(units: list[dict[str, Any]]) -> list[str]:
    """Return the table of curves against replays: a line per form of market."""
    if not units:
        return []
    lines = [f"curves against {units[0]['runs_each']} replays of each market", ""]
    lines += ["                          mean cost off by %     end off by  spot share off  met"]
    lines += ["form             markets  median  worst   bias    % at worst  points at worst  %"]
    for unit in units:
        lines.append(
            f"{unit['form']:<21}{unit['markets']:>3}{unit['median_error_percent']:8.1f}"
            f"{unit['worst_error_percent']:7.1f}{unit['mean_bias_percent']:+7.1f}"
            f"{unit['worst_hours_error_percent']:12.1f}{unit['worst_share_error_points']:15.1f}"
            f"{unit['least_met_percent']:9.1f}"
        )
    return [*lines, ""]


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="all figures as JSON")
    parser.add_argument("--zones", type=int, default=200, help="synthetic zones (default 200); 0 for none")
    parser.add_argument("--markets", type=int, default=40, help="markets for curves against replays (default 40)")
    parser.add_argument("--traces", nargs="*", default=[], help="folders or files of recorded markets")
    _add_group_options(parser)
    asked = parser.parse_args(arguments)
    if asked.bounds and not asked.together:
        parser.error("--bounds needs recorded zones: --together TRACES")
    if asked.windows < 1:
        parser.error(f"--windows: {asked.windows} is not a number of windows, 1 or more")
    found = report(asked.zones, asked.markets, asked.traces, asked.processes)
    found["groups"] = group_tables(asked)
    if asked.bounds:
        jobs = tuple(job for job in JOBS if job[0] in asked.work and job[1] in asked.restarts)
        found["bounds"] = bound_rows(_recorded(asked), BoundRun(jobs, asked.windows), asked.processes, asked.progress)
    print(json.dumps(found, indent=2) if asked.json else text_of(found))
    return 0 if all(met for _, met in targets_met(found)) else 1


def _add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of groups of zones: which ones, and which cells of their table."""
    works, restarts = sorted({job[0] for job in JOBS}), sorted({job[1] for job in JOBS})
    add = parser.add_argument
    add("--groups", type=int, default=60, help="groups of zones that are made (default 60)")
    add("--together", default="", metavar="TRACES", help="zones recorded at the same times, for groups")
    add("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES, help="zones of a recorded group (default all)")
    add("--groups-per-size", type=int, default=RECORDED_GROUPS, help=f"recorded groups (default {RECORDED_GROUPS})")
    add("--seed", type=int, default=SEED, help="draws the recorded groups")
    add("--work", type=float, nargs="+", default=works, choices=works, help="hours of work (default all)")
    add("--restarts", type=float, nargs="+", default=restarts, choices=restarts, help="hours (default all)")
    add("--deadlines", type=float, nargs="+", default=SLACKS, choices=SLACKS, help="over work (default all)")
    add("--windows", type=int, default=WINDOWS, help=f"windows of each half (default {WINDOWS})")
    add("--bounds", action="store_true", help="how close any policy can come, with --together")
    add("--progress", action="store_true", help="a line on standard error for each half")
    add("--processes", type=int, default=min(2, os.cpu_count() or 1), help="(default 2)")
