"""The rejected ways that came nearest, one of each kind, with what would make them fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import screen
from planner.configurations.recipe import is_allowed
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.decode.probability import deadline_probability
from planner.results.plan import NearMiss
from planner.scenario.limits import latest_finish_hours
from planner.solving.infeasibility.elastic_program import STOCK, ElasticProgram, ElasticSolution, SoftConstraint
from planner.solving.infeasibility.relaxations import build_changes, round_up
from planner.solving.resolve import describe_candidate, try_solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.configurations.configuration_table import MemoryShortfall
    from planner.scenario.scenario import Job
    from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates
    from planner.solving.prepare import PreparedScenario

STEP_TOKENS = 128
"""Sequence lengths are proposed in multiples of it, as kernels like them."""
MAX_SHORTFALL_SHARE = 0.5
"""Shortfall over the card's memory beyond which a way is not near, unless nothing is nearer."""
MAX_MEMORY_MISSES = 2
"""Cards that are told as short of memory, per job."""
MANY_ACCUMULATION_STEPS = 64.0
"""Accumulation steps beyond any pipeline degree: the memory of a micro-batch that is repeated."""
MAX_SERVICE_MISSES = 2
"""Services that are told as not taking the network, per job."""
HOURS_STEP = 0.1
"""Hours that an offer would have to have left are told in multiples of it."""


def find_near_misses(prepared: PreparedScenario, wide: RelaxedCandidates) -> tuple[NearMiss, ...]:
    """Per job: the least late, the least over the budget, the least over the GPUs, and the cards shortest of memory;
    what offers have too little of, and services that take other networks.

    A job that has ways of its own is not held up by time or memory where others share its limits.
    """
    several = len(prepared.candidates) > 1
    found: list[NearMiss] = []
    for index in range(len(prepared.candidates)):
        if several and len(prepared.screened[index].table):
            continue
        found += [*_least_late(prepared, index), *_fewest_gpus(prepared, index), *_memory_shortfalls(prepared, index)]
        found += _unsupported_services(prepared, index)
    return (*_least_over_budget(prepared), *_stock_shortfalls(prepared, wide), *found)


def _least_late(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    one, screened = prepared.candidates[index], prepared.screened[index]
    limits, job = prepared.scenario.limits, one.job
    rows = np.flatnonzero(screened.lateness > 0)
    if not len(rows):
        return
    row = int(rows[np.argmin(screened.lateness[rows])])
    table = one.table
    low = max(float(table.share_low[row]), limits.spot_share.min)
    high = min(float(table.share_high[row]), limits.spot_share.max)
    late = {share: float(table.late_hours(share)[row]) for share in (low, high)}
    share = min(late, key=lambda end: late[end])
    latest = latest_finish_hours(job, limits)
    chance = deadline_probability(latest, float(table.hours(share)[row]), late[share], job.confidence)
    yield NearMiss(
        job=job.name,
        what=describe_candidate(one, row, share, prepared.market),
        reason=f"misses the deadline at {job.confidence * 100:.3g} % confidence",
        shortfall=float(screened.lateness[row]),
        unit="h",
        fix=f"on time in {int(chance * 100)} of 100 cases" if chance is not None else "",
    )


def _least_over_budget(prepared: PreparedScenario) -> Iterator[NearMiss]:
    """The plan of least dollars at the confidence that meets all other limits, where it exceeds the budget."""
    scenario, limits = prepared.scenario, prepared.scenario.limits
    if limits.budget_usd is None:
        return
    asked = scenario.model_copy(update={"limits": limits.model_copy(update={"budget_usd": None}), "objective": "cost"})
    cheapest = try_solve(_price_at_confidence(replace(prepared, scenario=asked)))
    if cheapest is None or cheapest.late_usd <= limits.budget_usd:
        return
    yield NearMiss(
        job=scenario.jobs[0].name if len(scenario.jobs) == 1 else "",
        what=cheapest.description,
        reason="exceeds the budget at the asked confidence",
        shortfall=cheapest.late_usd - limits.budget_usd,
        unit="usd",
    )


def _price_at_confidence(prepared: PreparedScenario) -> PreparedScenario:
    """The same question with the dollars at the confidence as the price: what a budget is compared with."""
    priced = tuple(
        replace(one, table=replace(one.table, run_usd=one.table.late_usd, penalty_usd=np.zeros(len(one.table))))
        for one in prepared.screened
    )
    return replace(prepared, screened=priced)


def _fewest_gpus(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """The way of fewest GPUs that would do if nothing counted GPUs; only where counting leaves none."""
    limits, one = prepared.scenario.limits, prepared.candidates[index]
    if (limits.max_gpus is None and not limits.quota) or len(prepared.screened[index].table):
        return
    free = screen(one, prepared.market, limits.model_copy(update={"max_gpus": None, "quota": {}}), prepared.library)
    if not len(free.table):
        return
    row = int(np.argmin(free.table.gpus))
    gpus = int(free.table.gpus[row])
    provider = free.table.providers[int(free.table.provider[row])]
    most = min(limits.max_gpus or gpus, limits.quota.get(provider, gpus))
    if gpus > most:
        what = describe_candidate(one, int(free.rows[row]), float(free.table.share_low[row]), prepared.market)
        yield NearMiss(
            job=one.job.name,
            what=what,
            reason="needs more GPUs than a limit allows",
            shortfall=gpus - most,
            unit="GPUs",
        )


def _stock_shortfalls(prepared: PreparedScenario, wide: RelaxedCandidates) -> Iterator[NearMiss]:
    """What offers have too little of, in machines or hours paid for, where a plan would be possible with more."""
    elastic = ElasticProgram.of(wide)
    found = elastic.solve(elastic.offer_paths) if elastic.offer_paths else None
    if found is None and elastic.offer_paths and elastic.solve(elastic.relaxable_paths) is None:
        found = elastic.solve((*elastic.relaxable_paths, *elastic.offer_paths))
    if found is None:
        return
    settings = [change.setting for change in build_changes(found, elastic, prepared)]
    for soft in elastic.soft:
        if soft.path in elastic.offer_paths and soft.path in found.excess:
            yield _stock_shortfall(prepared, elastic, found, soft, settings)


def _stock_shortfall(
    prepared: PreparedScenario,
    elastic: ElasticProgram,
    found: ElasticSolution,
    soft: SoftConstraint,
    settings: list[str],
) -> NearMiss:
    """One offer that has too few machines or hours left for a plan."""
    wide, jobs, stock = elastic.relaxed, prepared.scenario.jobs, soft.path.startswith(STOCK)
    label, short = soft.path.partition(" of ")[2], found.excess[soft.path]
    needed = (
        f"{soft.current + short:.0f} in stock" if stock else f"{round_up(soft.current + short, HOURS_STEP):g} h left"
    )
    row, share = int(found.rows[0]), float(found.shares[0])
    one = describe_candidate(wide.pieces[int(wide.piece[row])], int(wide.row[row]), share, wide.market)
    alone = len(jobs) == 1
    what = "machines in stock" if stock else "hours paid for"
    return NearMiss(
        job=jobs[0].name if alone else "",
        what=one if alone else "all jobs together",
        reason=f"{'needs' if alone else 'need'} more {what} than {label} has",
        shortfall=short,
        unit="machines" if stock else "machine hours",
        fix=" and ".join((f"{needed} would do", *settings)),
    )


def _unsupported_services(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """Services that do not take the network of a job that nobody can train."""
    one = prepared.candidates[index]
    services = [offer for offer in prepared.market.offers if offer.managed is not None]
    if len(one.table):
        return
    for offer in services[:MAX_SERVICE_MISSES]:
        taken = offer.managed.architectures if offer.managed else ()
        name = one.architecture.name
        yield NearMiss(
            job=one.job.name,
            what=f"managed service at {offer.provider}",
            reason="trains adapters, which are no pretraining" if name in taken else f"does not take {name}",
            shortfall=0.0,
            unit="",
            fix=f"offer machines with GPUs{'' if name in taken else f', or a service that takes {name}'}",
        )


def _memory_shortfalls(prepared: PreparedScenario, index: int) -> Iterator[NearMiss]:
    """The cards that lack least memory for a method that the job allows, with the sequence length that would fit."""
    one, limits = prepared.candidates[index], prepared.scenario.limits
    rented = _permitted_gpus(prepared)
    best: dict[str, MemoryShortfall] = {}
    for miss in sorted(one.physics.misses, key=lambda miss: miss.shortfall):
        few = limits.max_gpus is None or miss.machine.gpus <= limits.max_gpus
        if few and miss.machine.gpu in rented and is_allowed(miss.recipe, one.job):
            best.setdefault(miss.machine.gpu, miss)
    fitting = {one.physics.ways.machines[m].gpu for m in np.unique(one.physics.ways.machine)}
    near = [
        (card, miss)
        for card, miss in best.items()
        if miss.shortfall <= MAX_SHORTFALL_SHARE * prepared.library.gpu(card).usable_gib
    ]
    for card, miss in (near or list(best.items())[:1])[:MAX_MEMORY_MISSES]:
        asked = (one.job, one.physics.shape, miss.recipe, miss.machine, limits.vram_headroom, prepared.library)
        probe = MemoryEvaluator.of(*asked, learned=one.physics.learned)
        yield NearMiss(
            job=one.job.name,
            what=f"{miss.machine.gpus:,} x {card}, {miss.recipe.method_label}",
            reason=f"does not fit in {probe.usable_gib:.1f} GiB per GPU",
            shortfall=miss.shortfall,
            unit="GiB",
            fix=_suggest_fix(probe, one.job, one.physics.shape.sequence, card in fitting),
        )


def _suggest_fix(probe: MemoryEvaluator, job: Job, sequence: int, fits_otherwise: bool) -> str:
    """The longest sequence that would fit; else that another method does."""
    longest = probe.longest_sequence(1, MANY_ACCUMULATION_STEPS, sequence) // STEP_TOKENS * STEP_TOKENS
    if 0 < longest < sequence and job.work.images is None:
        return f"sequence_length {longest:,} would fit"
    return "other methods or counts of it fit" if fits_otherwise else "no sequence length would fit"


def _permitted_gpus(prepared: PreparedScenario) -> set[str]:
    """Cards of offers that the lists permit."""
    market, limits = prepared.market, prepared.scenario.limits
    pairs = zip(market.offers, market.cards, strict=True)
    return {card.name for offer, card in pairs if card and limits.permits(offer)}
