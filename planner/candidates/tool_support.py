"""What the tools of `limits.tools` can carry: a candidate stays where every one of them exports it without a fault.

The rules are those that refuse an export: of a trainer `FieldMap.refusals`, of a launcher `LaunchMap.refusal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import CandidateTable, Flags, distinct_names
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.configurations.recipe import Recipe, sequence_of
from planner.errors import InputError
from planner.exports.facts import technique_facts
from planner.exports.field_map import FieldMap, LaunchMap, field_maps, first_able, launch_maps
from planner.exports.script_parts import image_of
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


TRAINS_ITSELF = "a managed service trains it itself: there is nothing to export"


def tool_refusals(candidates: JobCandidates, market: Market, tools: Sequence[str]) -> Iterator[tuple[str, Flags]]:
    """Yield why some of the tools refuse candidates, and which rows (n,) of the table; a row may be yielded twice."""
    launchers = [launch_maps()[name] for name in tools if name in launch_maps()]
    trainers = [field_maps()[name] for name in tools if name in field_maps()]
    table = candidates.table
    of_offer = [_offer_refusal(offer, launchers) for offer in market.offers]
    reasons, which = distinct_names([reason or "" for reason in of_offer])
    for number, reason in enumerate(reasons):
        if reason:
            yield reason, which[table.offer] == number
    for tool in launchers:
        if tool.machines:
            yield f"{tool.label} has no job on so many GPUs of its machine", _lacks_machine(candidates, market, tool)
    yield from _recipe_refusals(candidates, market, trainers)


def keeps_spot(table: CandidateTable, market: Market, tools: Sequence[str]) -> Flags:
    """Return the rows (n,) whose spot machines every launcher can use: what is saved outlives them there.

    Several machines of a run write to one volume, which not every provider's volume allows.
    """
    launchers = [launch_maps()[name] for name in tools if name in launch_maps()]
    single, several = (
        np.asarray(
            [
                not any(tool.keeps_nothing(offer.provider, True, machines) for tool in launchers)
                for offer in market.offers
            ]
        )
        for machines in (1, 2)
    )
    return np.asarray(np.where(table.instances > 1, several[table.offer], single[table.offer]), dtype=bool)


def _offer_refusal(offer: Offer, launchers: Sequence[LaunchMap]) -> str | None:
    """Return why machines of an offer cannot be had with the tools."""
    if offer.managed is not None:
        return TRAINS_ITSELF
    if not offer.rents_gpus:
        return None
    try:
        image_of(offer.card)
    except InputError as error:
        return error.faults[0].what
    return next((refused for tool in launchers if (refused := tool.refuses(offer)) is not None), None)


def _lacks_machine(candidates: JobCandidates, market: Market, tool: LaunchMap) -> Flags:
    """Return the rows (n,) whose machines a launcher does not rent under a name of its own."""
    table = candidates.table
    pairs, which = np.unique(np.stack([table.offer, table.instances]), axis=1, return_inverse=True)
    lacks = []
    for offer_number, instances in pairs.T.tolist():
        offer = market.offers[int(offer_number)]
        machine = tool.machine(offer.card, offer.gpus, offer.instance, int(instances)) if offer.rents_gpus else None
        lacks.append(machine is None)
    return np.asarray(lacks, dtype=bool)[which.reshape(-1)]


def _recipe_refusals(
    candidates: JobCandidates, market: Market, trainers: Sequence[FieldMap]
) -> Iterator[tuple[str, Flags]]:
    """Yield the first refusal of each recipe on each kind of GPU, of which the release of PyTorch decides."""
    table = candidates.table
    cards = [offer.card if offer.rents_gpus and offer.managed is None else None for offer in market.offers]
    releases, class_of = distinct_names([_release(card) for card in cards])
    shown = {release: card for card in cards if card is not None and (release := _release(card))}
    reasons: dict[str, Flags] = {}
    used = set(zip(table.recipe.tolist(), class_of[table.offer].tolist(), strict=True))
    for recipe, kind in sorted(used):
        card = shown.get(releases[kind])
        reason = None if card is None else _refusal(candidates, candidates.recipes[recipe], card, trainers)
        if reason is not None:
            shape = len(candidates.recipes), len(releases)
            reasons.setdefault(reason, np.zeros(shape, dtype=bool))[recipe, kind] = True
    for reason, cells in reasons.items():
        yield reason, cells[table.recipe, class_of[table.offer]]


def _release(card: str | None) -> str:
    """Return the release of PyTorch for a GPU with a word before it; empty for one without an image."""
    try:
        return f"torch {image_of(card).torch}" if card is not None else ""
    except InputError:
        return ""


def _refusal(candidates: JobCandidates, recipe: Recipe, card: str, trainers: Sequence[FieldMap]) -> str | None:
    job = candidates.job
    techniques = vars(recipe) | {"lora_targets": job.lora.targets if recipe.method == "lora" else None}
    sequence = sequence_of(job, candidates.architecture)
    facts = technique_facts(techniques, job, candidates.architecture, card, sequence)
    for tool in trainers or [first_able(facts)]:
        refused = next(tool.refusals(facts), None)
        if refused is not None:
            return refused[1]
    return None
