"""Changes of limits as settings that a user can type."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from planner.scenario.limits import peak_limit_at
from planner.scenario.scenario import Scenario, setting_path
from planner.solving.infeasibility.elastic_program import (
    HEADROOM,
    MAX_PRICE_AGE,
    TOOLS,
    CandidateFilter,
    ElasticProgram,
    ElasticSolution,
    SoftConstraint,
    margin_of,
)
from planner.solving.prepare import PreparedScenario
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence


HOURS_STEP, USD_STEP, SHARE_STEP, MARGIN_STEP, CONFIDENCE_STEP = 0.01, 0.01, 0.01, 0.001, 0.01
"""New limits are rounded away from the old ones to multiples of these: they can be typed and still suffice."""
BUDGET = "limits.budget_usd"
"""Path of the budget."""
SPOT_CAP = "limits.spot_share.max"
"""Path of the largest share on spot."""


@dataclass(frozen=True)
class LimitChange:
    """One changed limit: its path in the scenario, both values, and the setting that changes it."""

    limit: str
    old: float | str
    new: float | str
    setting: str


def build_changes(found: ElasticSolution, elastic: ElasticProgram, prepared: PreparedScenario) -> list[LimitChange]:
    """Return the changes that a plan of the elastic program needs; empty if only offers have too little left.

    The VRAM margin becomes 0 here; `verify_relaxation` gives back what is not needed, as a confidence where that rules.
    """
    scenario = prepared.scenario
    filters = sorted(elastic.relaxed.filters[number] for number in found.filters)
    made = [
        extend_list(path, list(group), scenario)
        for path, group in groupby(filters, key=lambda candidate_filter: candidate_filter.path)
    ]
    exceeded = (
        constraint for constraint in elastic.soft if constraint.path in found.excess and not constraint.is_of_offer
    )
    made += [_move_limit(constraint, found.excess[constraint.path], scenario) for constraint in exceeded]
    margin = max(margin_of(job, scenario.limits, prepared.library) for job in scenario.jobs)
    return [replace(change, old=margin) if change.limit == HEADROOM else change for change in made]


def _move_limit(one: SoftConstraint, excess: float, scenario: Scenario) -> LimitChange:
    """Return the change of a soft constraint to the value that suffices."""
    value, path = one.current + one.sense * excess, one.path
    unit, digits = "", ".10g"
    if path == SPOT_CAP and one.current == 0:
        # A scenario that says `spot: false` has this cap too, and no share undoes that word.
        return LimitChange("limits.spot", "false", "true", "limits.spot=true")
    if path.endswith((".deadline", "limits.max_hours")):
        new = round_up(value, HOURS_STEP)
        unit, digits = ("h", "g") if path.endswith(".deadline") else ("", digits)
    elif path == BUDGET:
        new, digits = round_up(value, USD_STEP), ".2f"
    elif path == "limits.spot_share.min":
        new = max(0.0, round(math.floor(value / SHARE_STEP - 1e-6) * SHARE_STEP, 2))
    elif path == SPOT_CAP:
        # If cost is minimised, a switching policy takes a share of its own, which a cap may exclude altogether.
        new = 1.0 if scenario.objective_kind == "cost" else min(1.0, round_up(value, SHARE_STEP))
    else:
        peak = peak_limit_at(path)
        new = float(round(value)) if peak is None or peak.is_whole else peak.rounded_up(value)
    return LimitChange(path, one.current, new, f"{setting_path(path, scenario)}={new:{digits}}{unit}")


def round_up(value: float, step: float) -> float:
    """Round up to a figure that a user can type and that still suffices."""
    return round(math.ceil(value / step + 1e-6) * step, 2)


def extend_list(path: str, filters: list[CandidateFilter], scenario: Scenario) -> LimitChange:
    """Return the change of a list or limit that admits the values of some filters."""
    if path == HEADROOM:
        return LimitChange(path, 0.0, 0.0, f"{HEADROOM}=0")
    if path == TOOLS:
        return LimitChange(path, ", ".join(scenario.limits.tools), "none", f"{path}=[]")
    if path == MAX_PRICE_AGE:
        days = (scenario.limits.max_price_age_hours or 0.0) / DAY_HOURS
        return LimitChange(path, f"{days:.4g} d", "none", f"{path}=null")
    values = [candidate_filter.value for candidate_filter in filters]
    allowed = f"allow also {' and '.join(values)}"
    if filters[0].job >= 0:
        field = path.rpartition(".")[2]
        given = getattr(scenario.jobs[filters[0].job].techniques, field) or (1,)
        text = _format_list([*map(str, given), *values])
        return LimitChange(path, ", ".join(map(str, given)), allowed, f"{setting_path(path, scenario)}={text}")
    rule = getattr(scenario.limits, path.rpartition(".")[2])
    forbid = [name for name in rule.forbid if name not in values]
    if rule.allow is None:
        return LimitChange(path, f"forbid {', '.join(rule.forbid)}", allowed, f"{path}.forbid={_format_list(forbid)}")
    allow = [*rule.allow, *(value for value in values if value not in rule.allow)]
    setting = f"{path}.allow={_format_list(allow)}"
    if forbid != list(rule.forbid):
        setting = f"{path}={{allow: {_format_list(allow)}, forbid: {_format_list(forbid)}}}"
    return LimitChange(path, f"allow {', '.join(rule.allow)}", allowed, setting)


def _format_list(names: Sequence[str]) -> str:
    """Return a list as YAML in one line; names that YAML could read as something else are quoted."""
    safe = [name if name.isdecimal() or _is_plain(name) else json.dumps(name) for name in names]
    return f"[{','.join(safe)}]"


def _is_plain(name: str) -> bool:
    plain = re.fullmatch(r"[A-Za-z][\w.-]*", name)
    return bool(plain) and name.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none")


def limit_key(path: str) -> str:
    """Return the key of a limit in the scenario, such as `deadline` or `quota`."""
    scope, _, rest = path.partition(".")
    return rest.partition(".")[0] if scope == "limits" else rest.rpartition(".")[2]
