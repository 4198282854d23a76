"""The candidate that a plan takes for one job: in words, its memory by part, and the names of its run to evaluate."""

from __future__ import annotations

import bisect
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import planner
from planner.arrays import CandidateTable
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.candidates.spot_candidates import ScreenedCandidates, SpotChoice, policy_costs
from planner.configurations.coefficients import recipe_spread
from planner.configurations.compared_runs import NO_CORRECTION, Correction
from planner.configurations.grid import JobShape, grid_inputs
from planner.configurations.recipe import Machine, Recipe, excluding_techniques, length_spread, mean_tokens
from planner.estimates.billing import break_even_hours
from planner.estimates.inputs import Layout, TimedSetup
from planner.estimates.memory_fit import (
    PHASES,
    MemoryEstimate,
    MemoryLines,
    estimate_memory,
    fit_probability,
    host_bytes,
    memory_lines,
    with_paging,
)
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.uncertainty import MemorySpread
from planner.estimates.work import NEGLIGIBLE_CUT, default_sequence
from planner.evaluation.comparison import Tolerance, Violation, compare, unit_of
from planner.evaluation.evaluated_physics import NamedPolicy, NamedRun, NamedStage, hourly_price, techniques_of
from planner.library.schema import Architecture, ImageSize, ImageTokens, ImageWork, Library
from planner.results.plan import Assignment, Inputs, Planned
from planner.results.plan_parts import CutSamples, HostMemory, Option, Pause, Vram, describe_machines
from planner.scenario.job import DEFAULT_MEMORY_CONFIDENCE, Job
from planner.scenario.limits import Limits
from planner.scenario.offer import Offer, offer_data, offer_labels
from planner.scenario.scenario import Scenario, scenario_data
from planner.spot.drawn_runs import PolicyCosts, late_dollars
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# The candidate that a plan takes for one job, with what stands behind its numbers.


@dataclass(frozen=True)
class ChosenCandidate:
    """A row of the uncut table of one job at a spot share; what concerns machines is of no use for a service."""

    candidates: JobCandidates
    market: Market
    row: int
    share: float
    rounded: bool  # billed in whole steps
    figures: CandidateTable  # its row of the screened table
    spot: SpotChoice | None = None
    is_reserved: bool = False  # its machines are paid as a reservation of the plan
    pauses: tuple[Pause, ...] = ()  # in which its machine is taken from it
    start_at_hours: float | None = None  # in a timetable; None: as soon as the machine is there
    waiting_usd: float = 0.0  # price of an hour of waiting that its policy weighs, beyond that of the limits

    @classmethod
    def of(
        cls, candidates: JobCandidates, screened: ScreenedCandidates, market: Market, row: int, share: float
    ) -> ChosenCandidate:
        """Return a row of the screened table at a spot share, or at a share of a piece of a curve."""
        rounded, figures = bool(screened.rounded[row]), screened.table.rows(np.asarray([row]))
        spot = screened.spot.get(row)
        lead = float(candidates.columns.lead_hours[int(figures.offer[0])])
        if lead:  # the plan says when the run starts; its hours are those of the run
            figures = replace(figures, start_h=figures.start_h - lead, late_start_h=figures.late_start_h - lead)
        if row in screened.pieces:
            spot, figures, share = screened.pieces[row].settle(figures, share, candidates.policies)
        return cls(candidates, market, int(screened.rows[row]), share, rounded, figures, spot)

    def with_less_waiting(self, room_usd: float, late_room_usd: float, low_share: float) -> ChosenCandidate:
        """Return the candidate on the policy of nearly its dollars that waits least; itself where there is none.

        It may cost `room_usd` more, and `late_room_usd` at the confidence; `low_share` is the least share on spot.
        """
        if self.spot is None:
            return self
        policies, before = self.candidates.policies, self.spot
        most_usd = before.point.usd + room_usd
        if (calmer := before.with_less_waiting(policies, most_usd, low_share)) is None:
            return self
        spot, price = calmer
        more_usd = spot.point.usd - price * spot.point.finish_hours - before.point.usd
        (late,) = late_dollars([self.policy_costs(spot)], self.candidates.run_hours.budget_confidence)
        if late > float(self.figures.late_cost_usd(self.share)[0]) + late_room_usd:
            return self
        figures = replace(
            self.figures,
            run_h=self.figures.run_h + spot.point.finish_hours - before.point.finish_hours,
            run_usd=self.figures.run_usd + more_usd,
            late_usd=np.full_like(self.figures.late_usd, late - float(self.figures.fixed_usd[0])),
            share_low=np.full(1, spot.point.spot_share),
            share_high=np.full(1, spot.point.spot_share),
        )
        return replace(self, spot=spot, share=spot.point.spot_share, figures=figures, waiting_usd=price)

    def policy_costs(self, spot: SpotChoice) -> PolicyCosts:
        """Return what the dollars of the candidate on a policy depend on."""
        fixed = float(self.figures.fixed_usd[0])
        return policy_costs(self.candidates, self.row, fixed, spot.run, spot.states, spot.point.hours)

    @property
    def job(self) -> Job:
        """The job of the candidate."""
        return self.candidates.job

    @property
    def place(self) -> int:
        """Index of the offer in the market."""
        return int(self.candidates.table.offer[self.row])

    @property
    def offer(self) -> Offer:
        """The offer that is rented."""
        return self.market.offers[self.place]

    @property
    def lead_hours(self) -> float:
        """Hours from the order to the machine."""
        return self.offer.lead_hours

    @property
    def configuration(self) -> int:
        """Index into `physics.ways`."""
        return int(self.candidates.configuration[self.row])

    @property
    def machine(self) -> Machine:
        """The machines of one run."""
        ways = self.candidates.physics.ways
        return ways.machines[int(ways.machine[self.configuration])]

    @property
    def recipe(self) -> Recipe:
        """The techniques of the run."""
        return self.candidates.recipes[int(self.candidates.table.recipe[self.row])]

    @property
    def used_machine_hours(self) -> float:
        """Expected hours of all machines on demand."""
        h, row = self.candidates.hours, self.row
        machines = int(self.candidates.table.instances[row]) // h.node_groups
        return (float(h.once[row]) * h.node_groups + float(h.group_run[row])) * machines


# What a plan was made from: the scenario as it was read, and the offers that the plan names.


def build_inputs(scenario: Scenario, planned: Sequence[Planned], solvers: Mapping[str, str]) -> Inputs:
    """Return the inputs of a plan; `solvers` has the version of each solver package.

    Of each machine that the plan rents or names as the next best, all offers are included: the plan says in how many
    regions it is offered.
    """
    named = {machine for part in planned for machine in part.machines_named}
    rented = {label for part in planned for label in part.offers_named}
    labels = offer_labels(scenario.offers)
    kept = [
        offer_data(offer)
        for label, offer in zip(labels, scenario.offers, strict=True)
        if label in rented or (offer.provider, offer.card) in named
    ]
    data = {key: value for key, value in scenario_data(scenario).items() if key != "offers"}
    python = ".".join(map(str, sys.version_info[:3]))
    versions = {"python": python, "planner": planner.__version__, **solvers}
    return Inputs(scenario=data, offers=tuple(kept), versions=versions)


# From how many hours of use on a commitment pays, against equal machines by the hour.


def describe_break_even(market: Market, offer: Offer, machines: float) -> str:
    """Return the use above which a commitment costs less than equal machines by the hour, such as `pays from 365 h`.

    Empty without a commitment, and where no offer has equal machines by the hour.
    """
    hours = pays_from_hours(market, offer, machines) if offer.commitment is not None else None
    if hours is None:
        return ""
    return f"pays from {hours:,.0f} h of use" if hours <= offer.term_hours * machines else "never pays in its term"


def pays_from_hours(market: Market, offer: Offer, machines: float) -> float | None:
    """Return the machine hours of use from which on a commitment pays; None without equal machines by the hour."""
    price = hourly_price(offer, market.offers)
    return float(break_even_hours(offer.committed_usd * machines, price)) if price else None


# A row of the uncut table of a job in words.


def describe_jobs(jobs: Sequence[JobCandidates], words: Sequence[str]) -> str:
    """Return what is said of each job, with its name if there are several."""
    if len(jobs) == 1:
        return words[0]
    return "; ".join(f"{job.job.name}: {text}" for job, text in zip(jobs, words, strict=True))


def describe_candidate(candidates: JobCandidates, row: int, share: float, market: Market) -> str:
    """Describe one row of the uncut table at a spot share in a few words."""
    table = candidates.table
    offer = market.offers[int(table.offer[row])]
    recipe = recipe_of(candidates, row)
    spot = "" if share < 0.005 else ", spot" if share >= 0.995 else f", spot {share * 100:.0f} %"
    machines = describe_machines(int(table.run_gpus[row]), offer.card, int(table.node_groups[row]))
    return f"{machines} at {offer.provider}, {describe_method(recipe)}{spot}"


def recipe_of(candidates: JobCandidates, row: int) -> Recipe:
    """Return the recipe of a row of the uncut table."""
    return candidates.recipes[int(candidates.table.recipe[row])]


def describe_method(recipe: Recipe) -> str:
    """Return the usual name of the method of a recipe."""
    return "full training" if recipe.method == "full" else recipe.method_label


def why_excluded(recipes: Sequence[Recipe], job: Job) -> str:
    """Return which keys of the job's `techniques` exclude the recipes of one method; empty if one is allowed."""
    excluding = [excluding_techniques(recipe, job) for recipe in recipes]
    if not all(excluding):
        return ""
    keys = dict.fromkeys(key for keys_of_recipe in excluding for key in keys_of_recipe)
    return f"excluded by {' and '.join(f'`techniques.{key}`' for key in keys)}"


MOST_PIXELS, UNET_MULTIPLE = 16_384, 64
"""Pixels per side beyond which no larger image is looked for, and of which sides of a U-Net are multiples."""


@dataclass(frozen=True)
class MemoryEvaluator:
    """Memory of one recipe on one machine at any batch and sequence length."""

    inputs: TimedSetup
    coefficients: MemoryCoefficients
    usable_gib: float
    several_gpus: bool
    spread: MemorySpread  # of what is uncertain, as observed peaks leave it

    @classmethod
    def of(
        cls,
        job: Job,
        shape: JobShape,
        recipe: Recipe,
        machine: Machine,
        headroom: float | None,
        library: Library,
        learned: Correction = NO_CORRECTION,
    ) -> MemoryEvaluator:
        """Return the evaluator.

        `headroom` (a share) replaces the margin of the fit rule, `learned` are corrections from observed peaks.
        """
        inputs = learned.correct_memory(grid_inputs(job, shape, [recipe], [machine], library), [recipe], [machine])
        if headroom is not None:
            inputs = replace(inputs, stack=inputs.stack.with_margin(headroom))
        before = recipe_spread(recipe, library)
        spread = learned.fit_spread(before, recipe, machine.gpus, library)
        return cls(
            inputs,
            MemoryCoefficients.of(library.calibrations["memory"].values),
            as_scalar(inputs.hardware.usable_bytes) / GIB,
            machine.gpus > 1,
            spread,
        )

    def at(self, micro_batch: float, accumulation: float, sequence: float | None = None) -> MemoryEstimate:
        """Return the bytes of a batch; `sequence` (tokens) replaces the longest sequence of the job."""
        layout = replace(self._layout(accumulation, sequence), micro_batch=float(micro_batch))
        return estimate_memory(replace(self.inputs, layout=layout), self.coefficients, self.usable_gib * GIB)

    def need_gib(self, micro_batch: float, accumulation: float, sequence: float | None = None) -> float:
        """Return the left side of the fit rule in GiB."""
        return as_scalar(self._lines(accumulation, sequence).need(micro_batch, self.usable_gib * GIB)) / GIB

    def fits(self, micro_batch: float, accumulation: float, sequence: float | None = None) -> bool:
        """Return whether the need is at most the usable memory of the GPU."""
        return self.need_gib(micro_batch, accumulation, sequence) <= self.usable_gib

    def largest_micro_batch(self, accumulation: float) -> int:
        """Return the largest micro-batch that fits; 0 where one sequence does not."""
        return int(as_scalar(self._lines(accumulation, None).largest_micro_batch(self.usable_gib * GIB)))

    def evaluation_sequences(self, sequence_bytes: float) -> int:
        """Return the sequences of a batch of evaluation that fit, `sequence_bytes` of logits each."""
        lines = self._lines(1, None)
        return int(as_scalar(lines.evaluation_sequences(self.usable_gib * GIB, sequence_bytes)))

    def longest_sequence(self, micro_batch: float, accumulation: float, most: int = 2**24) -> int:
        """Return the tokens of the longest sequence that fits, at most `most`; 0 where one token does not.

        By bisection: the need never falls as the sequence grows.
        """
        low, high = 0, 1
        while high <= most and self.fits(micro_batch, accumulation, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(micro_batch, accumulation, middle) else (low, middle)
        return min(low, most)

    @property
    def encoders_gib(self) -> float:
        """Memory of the text encoders and the autoencoder of a network of images; 0 where their outputs are cached."""
        return as_scalar(self.inputs.stack.encoders_gib)

    def largest_resolution(self, image: ImageTokens | ImageWork, size: ImageSize) -> int:
        """Return the pixels per side of the largest images, or videos of as many frames, that fit one by one.

        0 where none does; `MOST_PIXELS` where all do. Sides are whole tokens of the network, of a U-Net multiples of
        `UNET_MULTIPLE`.
        """
        longest = self.longest_sequence(1, 1)
        step = image.pixels_per_token if isinstance(image, ImageTokens) else UNET_MULTIPLE
        sides = range(step, MOST_PIXELS + 1, step)
        sized = bisect.bisect_right(
            sides, float(longest), key=lambda side: image.memory_tokens(replace(size, resolution=side))
        )
        return sides[sized - 1] if sized else 0

    def vram(self, estimate: MemoryEstimate) -> Vram:
        """Return an estimate as a plan states it."""
        allocated, need = as_scalar(estimate.allocated), as_scalar(estimate.need)
        widest = as_scalar(estimate.widest_margin(self.spread.known_share))
        return Vram(
            peak=need / GIB,
            allocated=allocated / GIB,
            usable=self.usable_gib,
            fit_probability=as_scalar(fit_probability(widest, self.spread.sigma, self.spread.most)),
            phase=PHASES[int(as_scalar(estimate.phase))],
            parts={name: as_scalar(part) / GIB for name, part in estimate.breakdown.items()},
            set_aside=self.inputs.stack.encoders,
        )

    def host_memory(self, micro_batch: float, accumulation: float, machine: Machine) -> HostMemory | None:
        """Return what states take of the memory of a host: offloaded ones, and pages that leave the card, else None."""
        layout = replace(self._layout(accumulation, None), micro_batch=float(micro_batch))
        inputs = with_paging(replace(self.inputs, layout=layout), self.coefficients)
        bytes_per_gpu = host_bytes(inputs, self.coefficients)
        taken_gb = as_scalar(bytes_per_gpu) * as_scalar(inputs.layout.gpus_per_node) / GB
        if not taken_gb or machine.ram_gb is None:
            return None
        return HostMemory(taken_gb=taken_gb, total_gb=machine.ram_gb, assumed=machine.assumes_ram)

    @property
    def context_gib(self) -> float:
        """Return the context of the fit rule, not the larger one that a monitor shows."""
        stack = self.inputs.stack
        return as_scalar(stack.context_gib) + (as_scalar(stack.fit_nccl_gib) if self.several_gpus else 0.0)

    def _lines(self, accumulation: float, sequence: float | None) -> MemoryLines:
        """Return the memory as linear functions of the micro-batch."""
        return memory_lines(replace(self.inputs, layout=self._layout(accumulation, sequence)), self.coefficients)

    def _layout(self, accumulation: float, sequence: float | None) -> Layout:
        """Return the layout with other accumulation steps and, if given, another sequence length."""
        layout = replace(self.inputs.layout, accumulation=float(accumulation))
        return layout if sequence is None else replace(layout, longest_sequence=float(sequence))


def as_scalar(values: object) -> float:
    """Return the only element of an array, or the scalar itself."""
    return float(np.asarray(values, dtype=float).reshape(-1)[0])


# Assignments: what a chosen row names, evaluated, and compared with what the search has of the row.


SEARCH_TOLERANCE = Tolerance(hours=1e-6, gib=1e-6, usd=1e-4)
"""How far the row of a search may be from the plan: it computes many rows at once, in arrays and in another order."""


def name_run(chosen: ChosenCandidate, limits: Limits) -> NamedRun:
    """Return what decides the figures of a chosen row."""
    candidates, row, recipe = chosen.candidates, chosen.row, chosen.recipe
    machine = None if candidates.is_managed_service[row] else chosen.machine
    waiting = chosen.waiting_usd + (limits.waiting_usd_per_hour or 0.0)
    return NamedRun(
        name=chosen.job.name,
        offer=chosen.market.labels[chosen.place],
        instances=machine.instances if machine else 0,
        gpus=machine.gpus if machine else 0,
        gpus_per_instance=machine.gpus_per_instance if machine else 0,
        techniques=techniques_of(recipe, chosen.job, *candidates.batch(row)),
        spot_share=chosen.share,
        separate_machines=tuple(
            NamedStage(separate_stage.stage, separate_stage.label)
            for separate_stage in candidates.placement_of(row).separate_stages
        ),
        policy=NamedPolicy(chosen.spot.point.hours, waiting) if chosen.spot else None,
        kv_bits=getattr(recipe, "kv_bits", None),  # of an engine
        start_at_hours=chosen.lead_hours if chosen.start_at_hours is None else chosen.start_at_hours,
        pauses=chosen.pauses,
        is_reserved=chosen.is_reserved,
    )


def compare_with_row(made: Assignment, chosen: ChosenCandidate) -> list[Violation]:
    """Return where a plan has other hours, dollars or bytes than the row of the search."""
    figures, share = chosen.figures, chosen.share
    pairs = {
        "hours.expected": (figures.hours(share), made.hours.expected),
        "hours.at_confidence": (figures.late_hours(share), made.hours.at_confidence),
    }
    if made.inference is None:  # the cache of generation takes what is left
        pairs["vram_gib.peak"] = (figures.fit_gib, made.vram_gib.peak)
    if not made.pauses:  # a timetable adds what they cost
        terms, after, late_after = figures.term_usd[0] * chosen.is_reserved  # paid apart from the jobs
        pairs["cost_usd"] = (figures.cost_usd(share) - terms - after, made.cost_usd)
        if chosen.spot is None:  # of a policy they are drawn: the search bounds them where a budget asks for them
            pairs["cost_at_confidence"] = (figures.late_cost_usd(share) - terms - late_after, made.cost_at_confidence)
    return [
        broken
        for figure, (row, plan) in pairs.items()
        for broken in compare(
            made.name, figure, float(row[0]), plan, SEARCH_TOLERANCE, unit_of(figure.partition(".")[0])
        )
    ]


def option_at(
    label: str, candidates: JobCandidates, market: Market, at: tuple[CandidateTable, int, float], **marks: Any
) -> Option:
    """Return a candidate as another way to run a job, with `marks`: note, allowed, prior.

    `at`: a table of the candidates, its row and a spot share. Of a row that follows a spot policy the hours at the
    confidence are the deadline that the policy keeps.
    """
    table, row, share = at
    return Option(
        label=label,
        **_keeps_and_rent(at, market),
        method=candidates.recipes[int(table.recipe[row])].method_label,
        **marks,
        **figures_of(table, row, share, market),
    )


def _keeps_and_rent(at: tuple[CandidateTable, int, float], market: Market) -> dict[str, Any]:
    """Return the hours that a candidate keeps at the confidence, the rent of all its machines, and how it is paid."""
    table, row, share = at
    offer = market.offers[int(table.offer[row])]
    return {
        "hours_at_confidence": float(table.rows(np.asarray([row])).late_hours(share)[0]),
        "usd_per_hour": rent_usd_per_hour(offer, int(table.gpus[row]), share),
        "tier": offer.tier,
        "spot_share": share,
    }


def nothing_there(label: str, note: str, allowed: bool = True) -> Option:
    """Return another way that no configuration within the limits gives; the note says why."""
    nothing = {"provider": "", "gpu": "", "gpus": 0, "cost_usd": None, "hours": None}
    return Option(label=label, allowed=allowed, note=note, **nothing)


def rent_usd_per_hour(offer: Offer, gpus: int, share: float) -> float | None:
    """Return the rent of machines with so many GPUs in all; None where they are not rented by the hour."""
    on_demand, spot = offer.usd_per_hour, offer.spot_usd_per_hour
    if not offer.is_by_the_hour or not offer.gpus:
        return None
    machine_usd = (0.0 if share >= 1 or on_demand is None else (1 - share) * on_demand) + share * (spot or 0.0)
    return machine_usd * gpus / offer.gpus


def figures_of(table: CandidateTable, row: int, share: float, market: Market) -> dict[str, Any]:
    """Return what a candidate rents, and its cost and hours at a spot share."""
    offer, of_row = int(table.offer[row]), table.rows(np.asarray([row]))
    return {
        "provider": market.offers[offer].provider,
        "gpu": market.gpus[offer],
        "gpus": int(table.run_gpus[row]),
        "runs_at_once": int(table.node_groups[row]),
        "cost_usd": float(of_row.cost_usd(share)[0]),
        "hours": float(of_row.hours(share)[0]),
    }


TIGHT_FIT_PROBABILITY = DEFAULT_MEMORY_CONFIDENCE
"""Probability of fitting in memory below which the plan says how to ask for more room: less than is asked for."""


def on_host_memory(host: HostMemory | None, how: str) -> list[str]:
    """Return a note where the memory of the host is assumed; `how` says where it can be stated."""
    if host is None or not host.assumed:
        return []
    assumption = f"host memory assumed: {host.total_gb:,.0f} GB, as half of such machines have"
    return [f"{assumption}; states need {host.taken_gb:,.0f}: check it, {how}"]


def cut_samples(job: Job, shape: JobShape, architecture: Architecture) -> CutSamples | None:
    """Return what the sequences of a job do not hold of its samples; None where that is nothing, or negligible."""
    if shape.cut_share < NEGLIGIBLE_CUT:
        return None
    context = architecture.max_sequence
    mean, spread = mean_tokens(job, architecture), length_spread(job, architecture)
    whole = default_sequence(job.packing, mean, spread, context, job.sequence_lengths)
    held = whole if whole > shape.sequence else None
    setting = f"jobs.{job.name}.sequence_length={held}" if held else ""
    return CutSamples(job=job.name, share=shape.cut_share, sequence_length=shape.sequence, holds=held, setting=setting)
