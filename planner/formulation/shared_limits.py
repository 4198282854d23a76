"""Limits and objective that the jobs of a scenario share."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping


@record(frozen=True)
class SharedLimits:
    """Everything that jobs share; limits on one job alone are filters on its candidates.

    `quota` maps provider names to GPUs, `stock` maps offer labels to instances, `committed` to machine hours that
    are paid for already; a missing name has no such limit, and `None` means no limit.
    `value_of_time_usd_per_hour` prices expected hours.
    """

    budget_usd: float | None = None
    max_gpus: int | None = None
    quota: Mapping[str, int] = field(default_factory=dict)
    stock: Mapping[str, int] = field(default_factory=dict)
    committed: Mapping[str, float] = field(default_factory=dict)
    objective: Literal["cost", "time"] = "cost"
    value_of_time_usd_per_hour: float = 0.0
