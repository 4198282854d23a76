"""Candidates that break a filter are made too, each with the filters that it breaks.

A filter is a limit that lets a single candidate in or not: the lists of GPUs, providers, regions and tiers, the
job's techniques, the VRAM margin. What can be exceeded by an amount (hours, dollars, counts) is a row of the elastic
program instead, so candidates are uncut here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable, concatenate
from planner.candidates.enumeration import enumerate_candidates
from planner.candidates.screening import screen
from planner.configurations.recipe import Recipe, framework_of
from planner.formulation.dominance import find_undominated
from planner.scenario.limits import UNLIMITED_HOURS, AllowForbid, Limits
from planner.scenario.scenario import Job, Scenario, Techniques

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.arrays import Flags, Integers
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.formulation.shared_limits import SharedLimits
    from planner.library.schema import Library

LISTS = {"providers": "provider", "gpus": "gpu", "regions": "region", "tiers": "tier"}
"""Limit -> the field of an offer that it reads."""
FIELDS = ("weight_bits", "precision", "activation_checkpointing", "sharding", "attention", "optimizer")
"""Techniques that a recipe has under the same name, the method left out."""
DEGREES = ("tensor_parallel", "pipeline_parallel")
HEADROOM = "limits.vram_headroom"


@dataclass(frozen=True, order=True)
class CandidateFilter:
    """A limit that keeps candidates out: its path in the scenario, and the value that would have to be let in."""

    path: str
    value: str = ""  # empty for the VRAM margin
    job: int = -1  # index, where it is a technique of one job


@dataclass(frozen=True)
class RelaxedCandidates:
    """Every candidate of every job, as one table with uncut spot shares, and which filters each breaks."""

    scenario: Scenario
    library: Library
    market: Market
    table: CandidateTable
    pieces: tuple[JobCandidates, ...]
    piece: Integers  # row -> index into pieces
    row: Integers  # row -> row of that piece's uncut table
    filters: tuple[CandidateFilter, ...]
    breaks: Flags  # (n, filters)

    def rows(self, which: Integers | Flags) -> RelaxedCandidates:
        """The same with only some rows."""
        return replace(
            self, table=self.table.rows(which), piece=self.piece[which], row=self.row[which], breaks=self.breaks[which]
        )


def margin_of(job: Job, limits: Limits, library: Library) -> float:
    """The margin m of the fit rule that holds for the job."""
    if limits.vram_headroom is not None:
        return limits.vram_headroom
    profiled = framework_of(library, job.framework).profiled
    return library.calibrations["memory"].value("margin" if profiled else "margin_unknown")


def unrestricted_techniques(asked: Techniques) -> Techniques:
    """Every technique that makes sense, with the same adapters, quantisation and penalties."""
    return Techniques(quant=asked.quant, penalty_usd=asked.penalty_usd, lora=asked.lora_given)


def relax_candidates(
    scenario: Scenario,
    market: Market,
    candidates: Sequence[JobCandidates],
    library: Library,
    instead: Mapping[int, Sequence[JobCandidates]] | None = None,
) -> RelaxedCandidates:
    """The candidates of the scenario and beside them those that its filters would never have made.

    `instead` gives some jobs (by index) other candidates than all of these.
    """
    known: dict[CandidateFilter, int] = {}
    pieces: list[JobCandidates] = []
    tables: list[CandidateTable] = []
    piece_of: list[Integers] = []
    row_of: list[Integers] = []
    broken: list[list[tuple[Flags, int]]] = []
    for index, one in enumerate(candidates):
        for piece in (instead or {}).get(index) or _pieces(one, scenario.limits, market, library):
            for table, rows in _without_deadline_cut(piece, scenario.limits, market, library):
                tight = piece.headroom == 0.0 and scenario.limits.vram_headroom != 0.0
                broken.append(_find_violations(piece, index, one.job, table, tight, scenario.limits, market, known))
                tables.append(table)
                row_of.append(rows)
                piece_of.append(np.full(len(rows), len(pieces), dtype=np.int64))
            pieces.append(piece)
    breaks = np.zeros((sum(map(len, row_of)), len(known)), dtype=bool)
    start = 0
    for rows, pairs in zip(row_of, broken, strict=True):
        for which, number in pairs:
            breaks[start : start + len(rows), number] |= which
        start += len(rows)
    return RelaxedCandidates(
        scenario,
        library,
        market,
        concatenate(tables),
        tuple(pieces),
        np.concatenate(piece_of),
        np.concatenate(row_of),
        tuple(known),
        breaks,
    )


def _pieces(one: JobCandidates, limits: Limits, market: Market, library: Library) -> Iterator[JobCandidates]:
    """As asked; with every technique that makes sense; and the same without any margin of memory."""
    yield one
    asked = one.job.techniques
    free = unrestricted_techniques(asked)
    job = one.job.model_copy(update={"techniques": free})
    names = one.table.jobs

    def made(headroom: float | None) -> JobCandidates:
        return enumerate_candidates(job, one.architecture, market, names, library, headroom)

    if free != asked:
        yield made(limits.vram_headroom)
    if margin_of(job, limits, library) > 0:
        yield made(0.0)


def _without_deadline_cut(
    piece: JobCandidates, limits: Limits, market: Market, library: Library
) -> Iterator[tuple[CandidateTable, Integers]]:
    """All rows with their whole range of spot shares; coarse bills also at the share that today's deadline cuts to.

    What an offer has left, in machines or in hours paid for, is a row of the elastic program, too.
    """
    free = replace(piece, job=piece.job.model_copy(update={"deadline_hours": None}))
    stockless = market.without_stock()
    free, piece = free.without_hours_limit(), piece.without_hours_limit()
    lifted = screen(free, stockless, Limits(max_hours=UNLIMITED_HOURS), library, method_filter=False)
    yield lifted.table, lifted.rows
    timed = Limits(max_hours=limits.max_hours, spot_share=limits.spot_share)
    cut = screen(piece, stockless, timed, library, method_filter=False)
    inside = cut.rounded & (cut.table.share_low > 0) & (cut.table.share_low < 1)
    yield cut.table.rows(inside), cut.rows[inside]


def _find_violations(
    piece: JobCandidates,
    index: int,
    asked: Job,
    table: CandidateTable,
    tight: bool,
    limits: Limits,
    market: Market,
    known: dict[CandidateFilter, int],
) -> list[tuple[Flags, int]]:
    """Pairs of (rows that break it, number of the filter); filters met for the first time get the next number."""
    found: list[tuple[Flags, int]] = []

    def add(per_thing: Sequence[CandidateFilter | None], owner: Integers) -> None:
        numbers = np.asarray([-1 if f is None else known.setdefault(f, len(known)) for f in per_thing], dtype=np.int64)
        of_row = numbers[owner] if len(numbers) else np.zeros(0, dtype=np.int64)
        found.extend((of_row == number, int(number)) for number in np.unique(of_row[of_row >= 0]))

    for name, field in LISTS.items():
        rule: AllowForbid = getattr(limits, name)
        if rule != AllowForbid():
            values = [getattr(offer, field) for offer in market.offers]  # no card: a list of cards says nothing
            barred = [value is not None and not rule.permits(value) for value in values]
            filters = [
                CandidateFilter(f"limits.{name}", str(v)) if no else None for v, no in zip(values, barred, strict=True)
            ]
            add(filters, table.offer)
    recipes = piece.recipes
    several = {True: {r: _technique_filters(r, asked, index, True) for r in set(recipes)}}
    several[False] = {r: _technique_filters(r, asked, index, False) for r in set(recipes)}
    for field in ("method", *FIELDS, *DEGREES):
        for shared in (False, True):
            which = (table.gpus > 1) == shared
            per_recipe = [several[shared][recipe].get(field) for recipe in recipes]
            if any(per_recipe):
                before = len(found)
                add(per_recipe, table.recipe)
                found[before:] = [(rows & which, number) for rows, number in found[before:]]
    if tight:
        add([CandidateFilter(HEADROOM)], np.zeros(len(table), dtype=np.int64))
    return found


def _technique_filters(recipe: Recipe, asked: Job, index: int, several: bool) -> dict[str, CandidateFilter]:
    """What the job's `techniques` would have to let in for this recipe, by field.

    The same rules as in `planner.configurations.recipe`.
    """
    wanted = asked.techniques
    out: dict[str, object] = {}
    if wanted.method is not None and recipe.method not in wanted.method:
        out["method"] = recipe.method
    for field in FIELDS:
        given = getattr(wanted, field)
        if given is None or getattr(recipe, field) in given:
            continue
        if field == "weight_bits" and recipe.method == "full" and wanted.method is not None:
            continue  # full training keeps 16-bit weights whatever was said of a LoRA base
        if field == "sharding" and not several:
            continue
        out[field] = getattr(recipe, field)
    if wanted.tensor_parallel or wanted.pipeline_parallel:
        for field in DEGREES:
            degree = getattr(recipe, field)
            if degree not in (getattr(wanted, field) or (1,)):
                out[field] = degree
    return {
        name: CandidateFilter(f"jobs.{asked.name}.techniques.{name}", str(value), index) for name, value in out.items()
    }


def undominated_candidates(wide: RelaxedCandidates, question: SharedLimits, most: int) -> RelaxedCandidates:
    """Rows that break at most so many filters and that no row breaking the same filters or fewer dominates."""
    within = np.flatnonzero(wide.breaks.sum(axis=1) <= most)
    packed = np.packbits(wide.breaks[within], axis=1) if wide.filters else np.zeros((len(within), 1), dtype=np.uint8)
    kinds, kind = np.unique(packed, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    broken = [frozenset(np.flatnonzero(wide.breaks[within[np.argmax(kind == k)]]).tolist()) for k in range(len(kinds))]
    fronts: dict[frozenset[int], Integers] = {}
    for number in sorted(range(len(kinds)), key=lambda k: (len(broken[k]), sorted(broken[k]))):
        members = within[kind == number]
        rivals = [front for fewer, front in fronts.items() if fewer < broken[number]]
        pool = np.concatenate([*rivals, members])
        keep = find_undominated(wide.table.rows(pool), question)
        fronts[broken[number]] = members[keep[len(pool) - len(members) :]]
    return wide.rows(np.sort(np.concatenate(list(fronts.values()))) if fronts else within)
