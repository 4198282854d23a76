"""Techniques that may cost quality and that nobody asked for, with the price of doing without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.library.releases import held_quant
from planner.library.techniques import TECHNIQUE_FIELDS, read_techniques
from planner.results.plan_parts import LossyChoice
from planner.solving.alternatives import with_excluded_methods
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job
    from planner.solving.prepare import PreparedScenario


class _Lossy(NamedTuple):
    """A technique that can change what is learnt: name, key, the recipes that use it, and doing without."""

    words: str
    key: str
    uses: Callable[[Recipe], bool]
    without: str


def _kinds(job: Job) -> tuple[_Lossy, ...]:
    """Return every kind of rounding that a job may meet; of the ranks that it lists, each but the highest is one."""
    ranks = sorted(set(job.lora.rank))
    return (
        *_of_table(),
        *(_Lossy(f"LoRA rank {rank}", "lora_rank", _has_rank(rank), f"rank {ranks[-1]}") for rank in ranks[:-1]),
    )


def _of_table() -> tuple[_Lossy, ...]:
    """Return the values that the table of techniques calls lossy; values of one name are one kind."""
    table, kinds = read_techniques(), dict[tuple[str, str], _Lossy]()
    for key in TECHNIQUE_FIELDS:
        lossy = {value: row.lossy for value, row in table.of(key).values.items() if row.lossy}
        for name, without in dict.fromkeys((one.name, one.without) for one in lossy.values()):
            values = frozenset(value for value, one in lossy.items() if one.name == name)
            kinds[key, name] = _Lossy(name, key, _has_one_of(key, values), without)
    return tuple(kinds.values())


def _has_one_of(key: str, values: frozenset[str | int]) -> Callable[[Recipe], bool]:
    return lambda recipe: getattr(recipe, key) in values


def _has_rank(rank: int) -> Callable[[Recipe], bool]:
    return lambda recipe: recipe.lora_rank == rank


def find_lossy(prepared: PreparedScenario, job: int, recipe: Recipe) -> tuple[LossyChoice, ...]:
    """Return the lossy techniques of a plan that its job left open, each with the least cost without.

    The method stays the same. Without 4 or 8 bits means LoRA on 16-bit weights, also where the techniques exclude it.
    """
    candidates = prepared.candidates[job]
    asked, kinds = candidates.job.techniques, _kinds(candidates.job)
    if getattr(recipe, "released", False) or held_quant(candidates.architecture) is not None:
        kinds = tuple(one for one in kinds if one.key != "weight_bits")
    chosen = [one for one in kinds if one.uses(recipe) and len(getattr(asked, one.key, None) or ()) != 1]
    if not chosen or recipe.precision == "managed":
        return ()
    table = with_excluded_methods(prepared, job)
    value, share = CandidateObjective.of(prepared.scenario).best(table)
    found = []
    for one in chosen:
        kept = [other.method == recipe.method and not _is_as_lossy(one, other, kinds) for other in candidates.recipes]
        rows = np.flatnonzero(np.asarray(kept, dtype=bool)[table.recipe] & np.isfinite(value))
        usd = hours = None
        if len(rows):
            best = rows[[int(np.argmin(value[rows]))]]
            usd, hours = (
                float(figure(share[best])[0]) for figure in (table.rows(best).cost_usd, table.rows(best).hours)
            )
        found.append(LossyChoice(technique=one.words, without=one.without, cost_usd=usd, hours=hours))
    return tuple(found)


def _is_as_lossy(one: _Lossy, recipe: Recipe, kinds: Sequence[_Lossy]) -> bool:
    """Return whether a recipe rounds in the same key: 8 bits are not what doing without 4 bits means."""
    return any(other.key == one.key and other.uses(recipe) for other in kinds)
