"""Techniques that may cost quality and that nobody asked for, with the price of doing without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.results.plan_parts import LossyChoice
from planner.solving.alternatives import with_excluded_methods
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job
    from planner.solving.prepare import PreparedScenario


class _Lossy(NamedTuple):
    """A technique that rounds: what a plan calls it, its key, which recipes use it, and what doing without means."""

    words: str
    key: str
    uses: Callable[[Recipe], bool]
    without: str


LOSSY = (
    _Lossy("4-bit weights", "weight_bits", lambda recipe: recipe.weight_bits == 4, "16-bit"),
    _Lossy("8-bit weights", "weight_bits", lambda recipe: recipe.weight_bits == 8, "16-bit"),
    _Lossy("8-bit optimizer", "optimizer", lambda recipe: recipe.optimizer.endswith("_8bit"), "32-bit states"),
    _Lossy("fp16", "precision", lambda recipe: recipe.precision == "fp16_mixed", "bf16"),
    _Lossy("fp8", "precision", lambda recipe: recipe.precision.startswith("fp8"), "bf16"),
)


def _kinds(job: Job) -> tuple[_Lossy, ...]:
    """Return every kind of rounding that a job may meet; of the ranks that it lists, each but the highest is one."""
    ranks = sorted(set(job.lora.rank))
    return (
        *LOSSY,
        *(_Lossy(f"LoRA rank {rank}", "lora_rank", _has_rank(rank), f"rank {ranks[-1]}") for rank in ranks[:-1]),
    )


def _has_rank(rank: int) -> Callable[[Recipe], bool]:
    return lambda recipe: recipe.lora_rank == rank


def find_lossy(prepared: PreparedScenario, job: int, recipe: Recipe) -> tuple[LossyChoice, ...]:
    """Return the lossy techniques of a plan that its job left open, each with the least cost without.

    The method stays the same. Without 4 or 8 bits means LoRA on 16-bit weights, also where the techniques exclude it.
    """
    candidates = prepared.candidates[job]
    asked, kinds = candidates.job.techniques, _kinds(candidates.job)
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
