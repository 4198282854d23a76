"""Differences between two plans, and the share that each of several settings has in them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.results.what_if import Delta, Effect
from planner.scenario.choices.definite import architectures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario


def library_of(scenarios: Sequence[Scenario]) -> Library:
    """Return one library for several scenarios, so that they can share prepared candidates."""
    return read_library(dict.fromkeys(name for one in scenarios for job in one.jobs for name in architectures_of(job)))


def difference(before: Plan, after: Plan) -> Delta:
    """Return expected dollars and hours of `after` less those of `before`; None if either has no plan."""
    if before.cost_usd is None or after.cost_usd is None or before.hours is None or after.hours is None:
        return Delta(cost_usd=None, hours=None)
    return Delta(
        cost_usd=after.cost_usd.expected - before.cost_usd.expected, hours=after.hours.expected - before.hours.expected
    )


def group_settings(settings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return settings that belong together: those of one rule under `adjust`; all others one by one."""
    groups: dict[str, list[str]] = {}
    for index, setting in enumerate(settings):
        steps = setting.partition("=")[0].strip().split(".")
        key = ".".join(steps[:2]) if steps[0] == "adjust" and len(steps) > 1 else str(index)
        groups.setdefault(key, []).append(setting)
    return [tuple(group) for group in groups.values()]


def separable_settings(scenario: Scenario, settings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the groups of settings whose effects can be told apart; none where some are valid together alone.

    Requests in flight in place of requests a second are two settings: either alone is a contradiction.
    """
    groups = group_settings(settings)
    if len(groups) < 2:
        return []
    rests = [[setting for other in groups if other is not group for setting in other] for group in groups]
    try:
        for some in (*groups, *rests):
            change_scenario(scenario, some)
    except InputError:
        return []
    return groups


def mean_of(one: float | None, other: float | None) -> float | None:
    """Return the mean of two figures; None if either is unknown."""
    return None if one is None or other is None else (one + other) / 2


def rest_of(delta: Delta, effects: tuple[Effect, ...]) -> Delta:
    """Return the difference less the shares of all effects; None where a share is unknown."""

    def left(whole: float | None, shares: list[float | None]) -> float | None:
        known = [share for share in shares if share is not None]
        return None if whole is None or not shares or len(known) < len(shares) else whole - math.fsum(known)

    return Delta(
        cost_usd=left(delta.cost_usd, [one.share.cost_usd for one in effects]),
        hours=left(delta.hours, [one.share.hours for one in effects]),
    )
