"""What a plan names of a kind of a service and may not: offer, market, engine, format, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import generation
from planner.evaluation.comparison import Broken
from planner.services.evaluated_kind import EvaluatedKind

if TYPE_CHECKING:
    from collections.abc import Iterator


def choices_of_kind(kind: EvaluatedKind) -> Iterator[Broken]:
    """Yield what the plan names of a kind and its machines of each hour, and may not; and where it may not fit."""
    named, offer, job, limits = kind.named, kind.offer, kind.job, kind.context.scenario.limits
    place = f"fleet.{named.offer}"
    if not limits.permits(offer) or limits.is_outdated(offer):
        yield place, "an offer that the limits allow", offer.label
    if (named.market == "committed") != (offer.commitment is not None):
        yield f"{place}.market", "committed where the offer is a commitment", named.market
    if named.market == "committed" and len(set(named.by_hour)) > 1:
        yield f"{place}.by_hour", "the same number in every hour", "several"
    if min(named.by_hour) < 0:
        yield f"{place}.by_hour", "numbers of at least 0", min(named.by_hour)
    for what, wanted, found in generation.choices_of_replicas(kind.context, job):
        yield f"{place}.{what}", wanted, found
    fit = kind.replica.fit_probability if kind.replica.fitting else 0.0
    if fit <= 0.0 or (fit < job.memory_confidence and limits.vram_headroom is None):
        yield f"{place}.memory", job.memory_confidence, fit
