"""Limits that admit a single candidate or not, and which candidates break them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from planner.scenario.limits import AllowForbid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.arrays import Flags, Integers
    from planner.candidate_table import CandidateTable
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job
    from planner.scenario.scenario import Scenario

LISTS = {"providers": "provider", "gpus": "gpu", "regions": "region", "tiers": "tier"}
"""Limit -> the field of an offer that it reads."""
TECHNIQUES = ("weight_bits", "precision", "activation_checkpointing", "sharding", "attention", "optimizer")
"""Techniques that a recipe has under the same name, without the method."""
DEGREES = ("tensor_parallel", "pipeline_parallel")
HEADROOM = "limits.vram_headroom"


@dataclass(frozen=True, order=True)
class CandidateFilter:
    """A limit that excludes candidates: its path in the scenario, and the value that would have to be admitted."""

    path: str
    value: str = ""  # empty for the VRAM margin
    job: int = -1  # index, if it is a technique of one job


@dataclass(frozen=True)
class FilterCatalog:
    """The filters of a scenario that candidates break, numbered in the order in which they are found."""

    scenario: Scenario
    market: Market
    numbers: dict[CandidateFilter, int] = field(default_factory=dict)

    def violations(self, piece: JobCandidates, job: int, table: CandidateTable) -> Iterator[tuple[Flags, int]]:
        """Yield pairs of the rows (n,) of a job's table that break a filter, and the filter's number."""
        limits = self.scenario.limits
        for name, offer_field in LISTS.items():
            rule: AllowForbid = getattr(limits, name)
            if rule != AllowForbid():
                values = [getattr(offer, offer_field) for offer in self.market.offers]
                # An offer without a GPU has no value: a list of GPUs does not apply to it.
                filters = [
                    None if value is None or rule.permits(value) else CandidateFilter(f"limits.{name}", str(value))
                    for value in values
                ]
                yield from self._broken(filters, table.offer)
        yield from self._technique_violations(piece, job, table)
        if piece.headroom == 0.0 and limits.vram_headroom != 0.0:
            yield from self._broken([CandidateFilter(HEADROOM)], np.zeros(len(table), dtype=np.int64))

    def _technique_violations(
        self, piece: JobCandidates, job: int, table: CandidateTable
    ) -> Iterator[tuple[Flags, int]]:
        """Yield the same for the job's techniques; sharding is a technique on several GPUs only."""
        given, recipes = self.scenario.jobs[job], piece.recipes
        of_recipe = {
            several: {recipe: _technique_filters(recipe, given, job, several) for recipe in set(recipes)}
            for several in (False, True)
        }
        for name in ("method", *TECHNIQUES, *DEGREES):
            for several in (False, True):
                filters = [of_recipe[several][recipe].get(name) for recipe in recipes]
                if any(filters):
                    members = (table.gpus > 1) == several
                    yield from ((rows & members, number) for rows, number in self._broken(filters, table.recipe))

    def _broken(self, filters: Sequence[CandidateFilter | None], owner: Integers) -> list[tuple[Flags, int]]:
        """Return rows and number of each filter; `owner` (n,) indexes `filters`, which are of offers or recipes."""
        numbers = [-1 if one is None else self.numbers.setdefault(one, len(self.numbers)) for one in filters]
        of_row = np.asarray(numbers, dtype=np.int64)[owner] if numbers else np.zeros(0, dtype=np.int64)
        return [(of_row == number, int(number)) for number in np.unique(of_row[of_row >= 0])]


def _technique_filters(recipe: Recipe, job: Job, index: int, several: bool) -> dict[str, CandidateFilter]:
    """Return what the job's `techniques` would have to admit for a recipe on one or several GPUs, by field.

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
        if not keeps_weights and (several or name != "sharding"):
            excluded[name] = getattr(recipe, name)
    if given.tensor_parallel or given.pipeline_parallel:
        for name in DEGREES:
            degree = getattr(recipe, name)
            if degree not in (getattr(given, name) or (1,)):
                excluded[name] = degree
    return {
        name: CandidateFilter(f"jobs.{job.name}.techniques.{name}", str(value), index)
        for name, value in excluded.items()
    }
