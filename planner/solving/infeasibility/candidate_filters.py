"""Limits that admit a single candidate or not, and which candidates break them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Integers
    from planner.candidate_table import CandidateTable
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job
    from planner.scenario.limits import AllowForbid
    from planner.scenario.scenario import Scenario

LISTS = {"providers": "provider", "gpus": "gpu", "regions": "region", "tiers": "tier"}
"""Limit -> the field of an offer that it reads."""
TECHNIQUES = ("weight_bits", "precision", "activation_checkpointing", "sharding", "attention", "optimizer", "offload")
"""Techniques that a recipe has under the same name, without the method."""
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
HEADROOM, MAX_PRICE_AGE = "limits.vram_headroom", "limits.max_price_age"
WITHOUT_LIST = (HEADROOM, MAX_PRICE_AGE)
"""Limits of single candidates that name no values: they are lifted as a whole."""


class CandidateFilter(NamedTuple):
    """A limit that excludes candidates: its path in the scenario, and the value that would have to be admitted."""

    path: str
    value: str = ""  # empty for the VRAM margin and the age of prices
    job: int = -1  # index, if it is a technique of one job


@record(frozen=True)
class FilterCatalog:
    """The filters of a scenario that candidates break, numbered in the order in which they are found."""

    scenario: Scenario
    market: Market
    numbers: dict[CandidateFilter, int] = field(default_factory=dict)

    def violations(self, piece: JobCandidates, job: int, table: CandidateTable) -> Integers:
        """Return the numbers (n, rules) of the filters that rows of a job's table break, -1 for rules they keep."""
        limits, broken = self.scenario.limits, []
        for name, offer_field in LISTS.items():
            rule: AllowForbid = getattr(limits, name)
            values = [getattr(offer, offer_field) for offer in self.market.offers]
            # An offer without a GPU has no value: a list of GPUs does not apply to it.
            filters = [
                None if value is None or rule.permits(value) else CandidateFilter(f"limits.{name}", str(value))
                for value in values
            ]
            broken.append(self._numbers(filters)[table.offer])
        too_old = CandidateFilter(MAX_PRICE_AGE)
        aged = [too_old if limits.is_outdated(offer) else None for offer in self.market.offers]
        broken.append(self._numbers(aged)[table.offer])
        of_recipe = [_technique_filters(recipe, self.scenario.jobs[job], job) for recipe in piece.recipes]
        for name in ("method", *TECHNIQUES, *DEGREES):
            numbers = self._numbers([filters.get(name) for filters in of_recipe])[table.recipe]
            # Sharding is a technique on several GPUs only.
            broken.append(np.where(table.gpus > 1, numbers, -1) if name == "sharding" else numbers)
        no_margin = piece.headroom == 0.0 and limits.vram_headroom != 0.0
        broken.append(self._numbers([CandidateFilter(HEADROOM) if no_margin else None]).repeat(len(table)))
        return np.stack(broken, axis=1)

    def _numbers(self, filters: Sequence[CandidateFilter | None]) -> Integers:
        """Return the number of each filter, -1 for None."""
        numbers = [-1 if one is None else self.numbers.setdefault(one, len(self.numbers)) for one in filters]
        return np.asarray(numbers, dtype=np.int64)


def _technique_filters(recipe: Recipe, job: Job, index: int) -> dict[str, CandidateFilter]:
    """Return what the job's `techniques` would have to admit for a recipe, by field.

    The rules are those of `planner.configurations.recipe`.
    """
    given = job.techniques
    excluded: dict[str, object] = {}
    if given.method is not None and recipe.method not in given.method:
        excluded["method"] = recipe.method
    for name in TECHNIQUES:
        allowed = getattr(given, name)
        if allowed is None or getattr(recipe, name) in allowed:
            continue
        # Full training keeps 16-bit weights, whatever the scenario says of a LoRA base.
        keeps_weights = name == "weight_bits" and recipe.method == "full" and given.method is not None
        if not keeps_weights:
            excluded[name] = getattr(recipe, name)
    together = given.tensor_parallel or given.pipeline_parallel
    for name in DEGREES:
        degree, asked = getattr(recipe, name), getattr(given, name)
        if (asked or (together and name in DEGREES[:2])) and degree not in (asked or (1,)):
            excluded[name] = degree
    return {
        name: CandidateFilter(f"jobs.{job.name}.techniques.{name}", str(value), index)
        for name, value in excluded.items()
    }
