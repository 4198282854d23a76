"""From what the elastic program needs to settings that a user can type, each held to by solving the new question."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from planner.errors import ScenarioError
from planner.results.plan import Relaxation
from planner.scenario.scenario import Scenario
from planner.solving.infeasibility.elastic_program import Elastic, Found, Soft, is_offered
from planner.solving.infeasibility.relaxed_candidates import HEADROOM, Filter, margin_of
from planner.solving.prepare import Prepared
from planner.solving.resolve import Trial, attempt, changed

HOURS_STEP, USD_STEP, SHARE_STEP, MARGIN_STEP = 0.01, 0.01, 0.01, 0.001
"""Proposals are rounded away from the old limit to these, so that they can be typed and still suffice."""
PLAIN_NAME = re.compile(r"[A-Za-z][\w-]*")

Attempt = Callable[[Prepared], Trial | None]


@dataclass(frozen=True)
class Change:
    """One limit moved: its path as the scenario writes it, both values, and the setting that does it."""

    limit: str
    old: float | str
    new: float | str
    setting: str


def changes_of(found: Found, elastic: Elastic, prepared: Prepared) -> list[Change]:
    """The settings that a plan of the elastic program needs, all of them together; empty where they are not the user's.

    The VRAM margin is set to nothing here; `loosened` gives back what is not needed.
    """
    scenario = prepared.scenario
    filters = sorted(elastic.wide.filters[number] for number in found.filters)
    made = [_opened(path, list(group), scenario) for path, group in groupby(filters, key=lambda one: one.path)]
    for one in elastic.soft:
        if one.path in found.excess and not is_offered(one.path):
            made.append(_moved(one, found.excess[one.path], scenario))
    margin = max(margin_of(job, scenario.limits, prepared.library) for job in scenario.jobs)
    return [replace(change, old=margin) if change.limit == HEADROOM else change for change in made]


def loosened(
    prepared: Prepared, changes: Sequence[Change], solve: Attempt = attempt
) -> tuple[Trial, list[Change]] | None:
    """The plan under the changes, and the changes with no more VRAM margin given away than it takes.

    None where the changed question has no plan after all, or is none.
    """
    trial = _tried(prepared, changes, solve)
    if trial is None:
        return None
    kept = list(changes)
    place = next((i for i, one in enumerate(kept) if one.limit == HEADROOM), None)
    if place is not None and isinstance(kept[place].old, float):
        steps = math.ceil(float(kept[place].old) / MARGIN_STEP - 1e-9)  # the largest margin is the smallest change
        low, high = 0, steps  # low suffices, high is the limit as it is
        while high - low > 1:
            middle = (low + high) // 2
            kept[place] = replace(kept[place], new=middle * MARGIN_STEP, setting=f"{HEADROOM}={middle * MARGIN_STEP:g}")
            again = _tried(prepared, kept, solve)
            low, high, trial = (middle, high, again) if again else (low, middle, trial)
        kept[place] = replace(kept[place], new=low * MARGIN_STEP, setting=f"{HEADROOM}={low * MARGIN_STEP:g}")
    return trial, kept


def _tried(prepared: Prepared, changes: Iterable[Change], solve: Attempt) -> Trial | None:
    try:
        return solve(changed(prepared, [one.setting for one in changes]))
    except ScenarioError:  # values that do not go together: then it is no way out
        return None


def relaxations(trial: Trial, changes: Sequence[Change], way: int) -> list[Relaxation]:
    """One way out as the plan tells it: an entry per limit, with the same number and the same plan behind it."""
    then = f"{trial.words}, ${trial.cost_usd:,.2f}"
    if trial.prepared.scenario.limits.budget_usd is not None:
        # A budget is kept at the asked confidence, so that figure is said beside the expected one.
        then += f" expected, ${trial.late_usd:,.2f} at the asked confidence"
    return [
        Relaxation(
            limit=one.limit,
            change_from=one.old,
            change_to=one.new,
            then=then,
            way=way,
            setting=one.setting,
            cost_usd=trial.cost_usd,
            hours=trial.hours,
        )
        for one in changes
    ]


def _moved(one: Soft, excess: float, scenario: Scenario) -> Change:
    """A soft limit at the value that suffices."""
    value = one.current + one.sense * excess
    if one.path.endswith(".deadline"):
        new = above(value, HOURS_STEP)
        return Change(one.path, one.current, new, f"{setting_path(one.path, scenario)}={new:g}h")
    if one.path == "limits.max_hours":
        new = above(value, HOURS_STEP)
    elif one.path == "limits.budget_usd":
        new = above(value, USD_STEP)
        return Change(one.path, one.current, new, f"{one.path}={new:.2f}")
    elif one.path == "limits.spot_share.min":
        new = max(0.0, round(math.floor(value / SHARE_STEP - 1e-6) * SHARE_STEP, 2))
    elif one.path == "limits.spot_share.max":
        # Where cost counts, a policy takes the share that it takes: less than all might be none.
        new = 1.0 if scenario.objective_kind == "cost" else min(1.0, above(value, SHARE_STEP))
    else:
        new = float(round(value))
    return Change(one.path, one.current, new, f"{one.path}={new:.10g}")


def above(value: float, step: float) -> float:
    """Rounded up to a figure that a user can type and that still suffices."""
    return round(math.ceil(value / step + 1e-6) * step, 2)


def _opened(path: str, filters: list[Filter], scenario: Scenario) -> Change:
    """A list that lets some more values in."""
    if path == HEADROOM:
        return Change(path, 0.0, 0.0, f"{HEADROOM}=0")
    values = [one.value for one in filters]
    allowed = f"allow also {' and '.join(values)}"
    if filters[0].job >= 0:
        field = path.rpartition(".")[2]
        given = getattr(scenario.jobs[filters[0].job].techniques, field) or (1,)
        text = _flow([*map(str, given), *values])
        return Change(path, ", ".join(map(str, given)), allowed, f"{setting_path(path, scenario)}={text}")
    rule = getattr(scenario.limits, path.rpartition(".")[2])
    forbid = [name for name in rule.forbid if name not in values]
    if rule.allow is None:
        return Change(path, f"forbid {', '.join(rule.forbid)}", allowed, f"{path}.forbid={_flow(forbid)}")
    allow = [*rule.allow, *(value for value in values if value not in rule.allow)]
    if forbid == list(rule.forbid):
        return Change(path, f"allow {', '.join(rule.allow)}", allowed, f"{path}.allow={_flow(allow)}")
    both = f"{{allow: {_flow(allow)}, forbid: {_flow(forbid)}}}"
    return Change(path, f"allow {', '.join(rule.allow)}", allowed, f"{path}={both}")


def _flow(names: Sequence[str]) -> str:
    """A list as YAML in one line; what could be read as something else stands in quotes."""
    safe = [name if name.isdecimal() or _is_plain(name) else json.dumps(name) for name in names]
    return f"[{','.join(safe)}]"


def _is_plain(name: str) -> bool:
    plain = re.fullmatch(r"[A-Za-z][\w.-]*", name)
    return bool(plain) and name.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none")


def setting_path(path: str, scenario: Scenario) -> str:
    """A path as `--set` reads it: a job whose name could be misread is called by its index."""
    for index, job in enumerate(scenario.jobs):
        if path.startswith(f"jobs.{job.name}."):
            name = job.name if PLAIN_NAME.fullmatch(job.name) else str(index)
            return f"jobs.{name}.{path.removeprefix(f'jobs.{job.name}.')}"
    return path
