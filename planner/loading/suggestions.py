"""Nearest available alternatives: similar GPUs with offers, similar names of offers."""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING

from planner.scenario.offer import Offer, offer_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import GpuSpec, Library

MAX_SUGGESTIONS = 3

PART_SCORE, MIN_SCORE = 1.0, 0.75
"""Score of an equal part of a name, and the similarity from which a part counts."""


def suggest_gpus(gpu: str, offers: Sequence[Offer], library: Library) -> list[str]:
    """Return GPUs with offers that are most similar to one without: by memory, speed and bandwidth, in factors."""
    card = library.gpu(gpu)
    rented = {library.gpu(offer.card).name: library.gpu(offer.card) for offer in offers if offer.rents_gpus}
    rented.pop(card.name, None)
    return sorted(rented, key=lambda name: (_distance(card, rented[name]), name))[:MAX_SUGGESTIONS]


def _distance(one: GpuSpec, other: GpuSpec) -> float:
    names = ("usable_gib", "matmul16_tflops", "memory_bandwidth_gb_s")
    return sum(abs(math.log(getattr(one, name) / getattr(other, name))) for name in names)


def suggest_offers(label: str, offers: Sequence[Offer]) -> list[str]:
    """Return offers whose provider, region, instance or GPU is in an unknown label; empty if there are none."""
    wanted = [part for part in label.casefold().split("/") if part]
    scored = []
    for known, offer in zip(offer_labels(offers), offers, strict=True):
        parts = {part.casefold() for part in (*known.split("/"), offer.provider, offer.region, offer.card)}
        parts.discard("")
        scored.append((-sum(max(_similarity(want, part) for part in parts) for want in wanted), known))
    best = min(scored, default=(0.0, ""))[0]
    if best > -PART_SCORE:
        return []
    return [known for score, known in sorted(scored)[:MAX_SUGGESTIONS] if score <= best + PART_SCORE / 2]


def _similarity(want: str, part: str) -> float:
    if want == part:
        return PART_SCORE
    ratio = max(difflib.SequenceMatcher(None, want, part).ratio(), MIN_SCORE if want in part else 0.0)
    return ratio if ratio >= MIN_SCORE else 0.0
