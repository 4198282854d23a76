"""Candidates that break a filter are made too, each with the limits that it breaks.

A filter is a limit that admits a single candidate or not: the lists of GPUs, providers, regions and tiers, the
job's techniques, the VRAM margin. What can be exceeded by an amount (hours, dollars, counts) is a soft constraint of
the elastic program instead, so candidates are uncut here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import Flags, Integers
from planner.candidate_table import CandidateTable, concatenate
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.candidates.screening import screen
from planner.candidates.spot_search import MEAN_SHARES
from planner.configurations.coefficients import memory_margin
from planner.configurations.recipe import Recipe, frameworks_of, quantisations
from planner.formulation.dominance import find_undominated
from planner.formulation.program import SharedLimits
from planner.library.schema import Library
from planner.library.technique_tables import read_techniques
from planner.scenario.inference_job import InferenceTechniques
from planner.scenario.job import Job
from planner.scenario.limits import UNLIMITED_HOURS, AllowForbid, Limits
from planner.scenario.scenario import Scenario
from planner.scenario.techniques import Techniques
from planner.solving.prepare import PreparedScenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# Limits that admit a single candidate or not, and which candidates break them.


LISTS = {"providers": "provider", "gpus": "gpu", "regions": "region", "tiers": "tier"}
"""Limit -> the field of an offer that it reads."""
TECHNIQUES = (
    *("weight_bits", "precision", "activation_checkpointing", "sharding", "attention", "optimizer", "offload"),
    "latents",
)
"""Techniques that a recipe has under the same name, without the method and how its weights are quantised."""
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
HEADROOM, MAX_PRICE_AGE, TOOLS = "limits.vram_headroom", "limits.max_price_age", "limits.tools"
WITHOUT_LIST = (HEADROOM, MAX_PRICE_AGE, TOOLS)
"""Limits of single candidates that name no values: they are lifted as a whole."""


class CandidateFilter(NamedTuple):
    """A limit that excludes candidates: its path in the scenario, and the value that would have to be admitted."""

    path: str
    value: str = ""  # empty for the VRAM margin and the age of prices
    job: int = -1  # index, if it is a technique of one job


@dataclass(frozen=True)
class FilterCatalog:
    """The filters of a scenario that candidates break, numbered in the order in which they are found."""

    scenario: Scenario
    market: Market
    library: Library
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
        of_tools = CandidateFilter(TOOLS) if limits.tools else None
        broken.append(self._numbers([None, of_tools])[self._refused_by_tools(piece, table)])
        of_recipe = [_technique_filters(recipe, self.scenario.jobs[job], job, self.library) for recipe in piece.recipes]
        for name in ("method", "quant", *TECHNIQUES, *DEGREES):
            numbers = self._numbers([filters.get(name) for filters in of_recipe])[table.recipe]
            # Sharding is a technique on several GPUs only.
            broken.append(np.where(table.gpus > 1, numbers, -1) if name == "sharding" else numbers)
        no_margin = piece.headroom == 0.0 and limits.vram_headroom != 0.0
        broken.append(self._numbers([CandidateFilter(HEADROOM) if no_margin else None]).repeat(len(table)))
        return np.stack(broken, axis=1)

    def _refused_by_tools(self, piece: JobCandidates, table: CandidateTable) -> Integers:
        """Return 1 for the rows (n,) of a table that one of the tools refuses, else 0."""
        refused, tools = np.zeros(len(table), dtype=bool), self.scenario.limits.tools
        if tools:
            from planner.candidates.tool_support import keeps_spot, tool_refusals

            for _, rows in tool_refusals(replace(piece, table=table), self.market, tools):
                refused |= rows
            refused |= (table.share_low > 0) & ~keeps_spot(table, self.market, tools)
        return refused.astype(np.int64)

    def _numbers(self, filters: Sequence[CandidateFilter | None]) -> Integers:
        """Return the number of each filter, -1 for None."""
        numbers = [
            -1 if candidate_filter is None else self.numbers.setdefault(candidate_filter, len(self.numbers))
            for candidate_filter in filters
        ]
        return np.asarray(numbers, dtype=np.int64)


def _technique_filters(recipe: Recipe, job: Job, index: int, library: Library) -> dict[str, CandidateFilter]:
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
    if given.quant is not None and recipe.quant not in quantisations(recipe.weight_bits, given.quant, library):
        excluded["quant"] = recipe.quant
    together = given.tensor_parallel or given.pipeline_parallel
    for name in DEGREES:
        degree, asked = getattr(recipe, name), getattr(given, name)
        if (asked or (together and name in DEGREES[:2])) and degree not in (asked or (1,)):
            excluded[name] = degree
    return {
        name: CandidateFilter(f"jobs.{job.name}.techniques.{name}", str(value), index)
        for name, value in excluded.items()
    }


@dataclass(frozen=True)
class RelaxedCandidates:
    """Every candidate of every job, as one table with uncut spot shares, and which filters each breaks."""

    scenario: Scenario
    market: Market
    table: CandidateTable
    pieces: tuple[JobCandidates, ...]
    piece: Integers  # row -> index into pieces
    row: Integers  # row -> row of that piece's uncut table
    filters: tuple[CandidateFilter, ...]
    breaks: Flags  # (n, filters)

    def rows(self, which: Integers | Flags) -> RelaxedCandidates:
        """Return the same with only some rows."""
        return replace(
            self, table=self.table.rows(which), piece=self.piece[which], row=self.row[which], breaks=self.breaks[which]
        )


def margin_of(job: Job, limits: Limits, library: Library) -> float:
    """Return the margin of the fit rule for a job, the widest of its frameworks and of what it may offload."""
    if limits.vram_headroom is not None:
        return limits.vram_headroom
    if not job.trains:  # an engine leaves what it does not take
        return 0.0
    table = library.techniques
    tried = job.techniques.offload or table.tried("offload")
    hosted = any(table.values.offload.values[name].optimizer for name in tried)
    return max(memory_margin(name, job.memory_confidence, library, hosted) for name in frameworks_of(job, library))


def unrestricted_techniques(given: Techniques) -> Techniques:
    """Return techniques that restrict nothing, with the same adapters, quantisation and penalties.

    Optimizers and offload that are tried only where a job lists them stay, with those that are tried anyway; latents,
    where a job says how it reads them, may be read in every way. Of generation the bits of the weights are freed, and
    engines stay.
    """
    if isinstance(given, InferenceTechniques):
        return given.model_copy(update={} if given.weight_format else {"weight_bits": generation.ALL_BITS})
    table, listed = read_techniques(), {}
    for name in ("optimizer", "offload"):
        if (values := getattr(given, name)) is not None:
            anyway = (value for row in table.of(name).tried for value in row.values)
            listed[name] = tuple(dict.fromkeys((*values, *anyway)))
    if given.latents is not None:
        listed["latents"] = tuple(dict.fromkeys((*given.latents, *table.of("latents").values)))
    return Techniques(quant=given.quant, penalty_usd=given.penalty_usd, lora=given.lora_given, **listed)


def relax_candidates(
    prepared: PreparedScenario, instead: Mapping[int, Sequence[JobCandidates]] | None = None
) -> RelaxedCandidates:
    """Return the candidates of a scenario together with those that its filters exclude.

    `instead` gives some jobs (by index) other candidates than all of these.
    """
    scenario, market, library = prepared.scenario, prepared.market, prepared.library
    catalog = FilterCatalog(scenario, market, library)
    pieces: list[JobCandidates] = []
    found: list[tuple[CandidateTable, Integers, Integers, Integers]] = []
    for index, candidate in enumerate(prepared.candidates):
        for piece in (instead or {}).get(index) or pieces_of(candidate, scenario.limits, market, library):
            for whole, every in _without_deadline_cut(piece, scenario.limits, market, library):
                known = market.is_known(scenario.limits)[whole.offer]  # no value of a limit admits the others
                table, rows = whole.rows(known), every[known]
                piece_of = np.full(len(rows), len(pieces), dtype=np.int64)
                found.append((table, piece_of, rows, catalog.violations(piece, index, table)))
            pieces.append(piece)
    tables, *columns = zip(*found, strict=True)
    piece_column, row_column, numbers = map(np.concatenate, columns)
    breaks = np.zeros((len(numbers), len(catalog.numbers) + 1), dtype=bool)
    np.put_along_axis(breaks, numbers, True, axis=1)  # -1, no filter, is the last column
    filters = tuple(catalog.numbers)
    table = concatenate(tables)
    return RelaxedCandidates(scenario, market, table, tuple(pieces), piece_column, row_column, filters, breaks[:, :-1])


def pieces_of(one: JobCandidates, limits: Limits, market: Market, library: Library) -> Iterator[JobCandidates]:
    """Yield the candidates as given, with unrestricted techniques, and with these but without a VRAM margin."""
    yield one
    unrestricted = unrestricted_techniques(one.job.techniques)
    job = one.job.model_copy(update={"techniques": unrestricted})
    names = one.table.jobs

    def made(headroom: float | None) -> JobCandidates:
        margins = Margins(headroom, limits.budget_confidence)
        return enumerate_candidates(job, one.architecture, market, names, library, margins)

    if unrestricted != one.job.techniques:
        yield made(limits.vram_headroom)
    if margin_of(job, limits, library) > 0:
        yield made(0.0)


def _without_deadline_cut(
    piece: JobCandidates, limits: Limits, market: Market, library: Library
) -> Iterator[tuple[CandidateTable, Integers]]:
    """Yield all rows with their whole range of spot shares, and their rows in the uncut table.

    Rows that are billed in coarse steps come twice: also at the share that the present deadline cuts to. What an
    offer has left, in machines or in hours paid for, is a soft constraint of the elastic program, too.
    """
    free = replace(piece, job=piece.job.model_copy(update={"deadline_hours": None}))
    stockless = market.without_stock()
    free, piece = free.without_hours_limit(), piece.without_hours_limit()
    unlimited = Limits(max_hours=UNLIMITED_HOURS, max_price_age=None)
    lifted = screen(free, stockless, unlimited, library, method_filter=False, scope=MEAN_SHARES)
    yield lifted.table, lifted.rows
    timed = Limits(max_hours=limits.max_hours, spot_share=limits.spot_share, max_price_age=None)
    cut = screen(piece, stockless, timed, library, method_filter=False, scope=MEAN_SHARES)
    inside = cut.rounded & (cut.table.share_low > 0) & (cut.table.share_low < 1)
    yield cut.table.rows(inside), cut.rows[inside]


def undominated_candidates(relaxed: RelaxedCandidates, shared: SharedLimits, max_filters: int) -> RelaxedCandidates:
    """Return rows that break at most so many filters and that no row breaking the same filters or fewer dominates.

    Rows are grouped by the set of filters that they break. A row may replace another in every plan only if it breaks
    no filter that the other keeps, so each group is compared with itself and with the fronts of its subsets.
    """
    within = np.flatnonzero(relaxed.breaks.sum(axis=1) <= max_filters)
    packed = np.packbits(relaxed.breaks[within], axis=1) if relaxed.filters else np.zeros((len(within), 1), np.uint8)
    sets, group = np.unique(packed, axis=0, return_inverse=True)
    group = group.reshape(-1)
    first = [within[np.argmax(group == number)] for number in range(len(sets))]
    broken = [frozenset(np.flatnonzero(relaxed.breaks[row]).tolist()) for row in first]
    fronts: dict[frozenset[int], Integers] = {}
    for number in sorted(range(len(sets)), key=lambda index: (len(broken[index]), sorted(broken[index]))):
        members = within[group == number]
        rivals = [front for fewer, front in fronts.items() if fewer < broken[number]]
        pool = np.concatenate([*rivals, members])
        keep = find_undominated(relaxed.table.rows(pool), shared)
        fronts[broken[number]] = members[keep[len(pool) - len(members) :]]
    return relaxed.rows(np.sort(np.concatenate(list(fronts.values()))) if fronts else within)
