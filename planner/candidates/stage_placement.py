"""Stages on separate machines: preparing data on a CPU offer, evaluating on one GPU or on a CPU.

The training machines are not rented meanwhile, so the hours and dollars of such a stage depend only on the job and
the offer.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

from planner.candidates.offer_terms import data_egress_usd_per_gb, data_transfer_seconds, disk_rate, download_rate
from planner.configurations.grid import evaluated_tokens
from planner.configurations.hardware import PCIE_BYTES_PER_SECOND, efficiency_of
from planner.errors import Fault, ScenarioError
from planner.estimates.billing import round_up_hours
from planner.estimates.time.stage_seconds import (
    StageCoefficients,
    boot_seconds,
    evaluation_fits,
    forward_tokens_per_second_cpu,
    forward_tokens_per_second_gpu,
    ingest_seconds,
    load_seconds,
    transfer_seconds,
)
from planner.estimates.trials import trial_work
from planner.records import record
from planner.units import GB, GIB, HOUR, TERA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.candidates.market import Market
    from planner.configurations.grid import JobShape
    from planner.estimates.inputs import Network
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer

TOKEN_GB = 4.0 / GB
"""Size of a token id on disk."""


@record(frozen=True)
class SeparateStage:
    """A stage on a machine that is rented for it alone: hours as rented, and dollars."""

    stage: Literal["ingest", "evaluation", "export"]
    label: str
    offer: Offer
    hours: float  # expected, on the wall clock
    late_hours: float  # where the run does not stop early; without the error of the estimate
    usd: float
    late_usd: float
    billed_hours: float
    moved_usd: float  # of `usd`, for data that move in and out


@record(frozen=True)
class Placement:
    """Separate machines of the stages that may have one; None: on the training machine, or no such stage."""

    ingest: SeparateStage | None = None
    evaluation: SeparateStage | None = None
    export: SeparateStage | None = None
    adapts: bool | None = None  # whether it is for runs that train adapters, or for full training; None: for both

    @property
    def separate_stages(self) -> tuple[SeparateStage, ...]:
        """Return the stages on separate machines."""
        return tuple(one for one in (self.ingest, self.evaluation, self.export) if one is not None)

    def hours_of(self, stage: str) -> float:
        """Return the hours of a stage on a separate machine; 0 where it has none."""
        return sum(one.hours for one in self.separate_stages if one.stage == stage)

    def total(self, figure: Literal["hours", "late_hours", "usd", "late_usd"]) -> float:
        """Return a figure of the separate machines, summed."""
        return float(sum(getattr(one, figure) for one in self.separate_stages))


def enumerate_placements(
    job: Job, architecture: Architecture, shape: JobShape, market: Market, library: Library
) -> tuple[Placement, ...]:
    """Return every combination of places that may be the best one: no other takes less time and less money.

    Empty where no machine can run a stage but a managed service takes the job. Raises ScenarioError where none does.
    """
    ingest = _options(job, "ingest", _ingest_options(job, shape, market, library))
    evaluation = _options(job, "evaluation", _evaluation_options(job, architecture, shape, market, library))
    missing = [stage for stage, found in (("ingest", ingest), ("evaluation", evaluation)) if not found]
    if missing and not market.services(job.kind, architecture.name):
        raise ScenarioError([no_machine_fault(job, stage) for stage in missing])
    return tuple(Placement(a, b) for a, b in itertools.product(ingest, evaluation))


def _options(job: Job, stage: str, found: Iterable[SeparateStage]) -> list[SeparateStage | None]:
    """Return None where the training machine may run the stage (or there is none), then undominated machines."""
    wanted = getattr(job.stages, stage)
    if wanted is None:
        return [None]
    own: list[SeparateStage | None] = [None] if "machine" in wanted.on else []
    return [*own, *undominated(found)]


def undominated(found: Iterable[SeparateStage]) -> list[SeparateStage]:
    """Return the machines of a stage of which no other takes less time and less money."""
    best: list[SeparateStage] = []
    for one in sorted(found, key=lambda option: (option.hours, option.usd, option.label)):
        if not best or one.usd < best[-1].usd:
            best.append(one)
    return best


def no_machine_fault(job: Job, stage: str) -> Fault:
    """Return the fault of a stage that no offer can run."""
    wanted = getattr(job.stages, stage)
    places = " or ".join(place.replace("_", " ") for place in wanted.on)
    needs = f"{wanted.ram_gb:g} GB of RAM" if stage == "ingest" else "room for the weights"
    fix = f"offer a machine with {needs}, or allow it on the training machine: on: [machine]"
    if "machine" in wanted.on:  # then every place has too little memory
        fix = f"offer a machine with {needs}, or require less: ram_gb"
    return Fault(job.name, 0, f"jobs.{job.name}.stages.{stage}.on", f"no offer can run this stage on {places}", fix)


def _ingest_options(job: Job, shape: JobShape, market: Market, library: Library) -> Iterator[SeparateStage]:
    """Yield the CPU machines that can prepare the data."""
    wanted = job.stages.ingest
    if wanted is None or "cpu" not in wanted.on:
        return
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    tokens = ingested_tokens(job, shape)
    for label, offer in zip(market.separate_labels, market.separate_offers, strict=True):
        if not offer.is_cpu or (offer.ram_gb is not None and offer.ram_gb < wanted.ram_gb):
            continue
        fetched = data_transfer_seconds(wanted.raw_gb, job, offer, download_rate(offer, library))
        worked = ingest_seconds(
            wanted.raw_gb * GB,
            tokens,
            offer.cpu_cores or 1.0,
            (offer.ram_gb or wanted.ram_gb) * GB,
            disk_rate(offer, library),
            stages,
        )
        hours = (stages.boot_seconds + fetched + float(worked)) / HOUR
        moved = wanted.raw_gb * (data_egress_usd_per_gb(job, offer) + (offer.fees.ingress_usd_per_gb or 0.0))
        moved += prepared_gb(job, shape) * (offer.fees.egress_usd_per_gb or 0.0)
        yield separate_stage("ingest", label, offer, hours, hours, moved)


def _evaluation_options(
    job: Job, architecture: Architecture, shape: JobShape, market: Market, library: Library
) -> Iterator[SeparateStage]:
    """Yield the machines with one GPU, or none, that can evaluate the model."""
    wanted = job.stages.evaluation
    if wanted is None or shape.unit == "images":
        return
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    tokens = evaluated_tokens(job, shape)
    weights = architecture.download_gb
    for label, offer in zip(market.separate_labels, market.separate_offers, strict=True):
        worked = _evaluation_seconds(job, architecture, shape.network, offer, library, tokens, stages)
        if worked is None:
            continue
        pull = download_rate(offer, library)
        slot = PCIE_BYTES_PER_SECOND[library.gpu(offer.card).pcie_gen] if offer.rents_gpus else float("inf")
        load = load_seconds(
            weights * GB, 1, disk_rate(offer, library) * job.load_efficiency / stages.disk_efficiency, slot, stages
        )
        ready = float(boot_seconds(pull, stages) + transfer_seconds(weights * GB, pull) + load)
        cut = 1.0 if wanted.answers_prompts else job.early_stopping
        hours, late = ((ready + share * worked * trials.work) / HOUR for share in (cut, 1.0))
        yield separate_stage("evaluation", label, offer, hours, late, weights * (offer.fees.ingress_usd_per_gb or 0.0))


def _evaluation_seconds(
    job: Job,
    architecture: Architecture,
    network: Network,
    offer: Offer,
    library: Library,
    tokens: float,
    stages: StageCoefficients,
) -> float | None:
    """Return the seconds in which an offer evaluates one run; None where it cannot."""
    wanted = job.stages.evaluation
    if wanted is None or wanted.requests is None:
        rate = _forward_rate(job, network, offer, library, stages)
        return None if rate is None else tokens / rate
    if "one_gpu" not in wanted.on or not offer.rents_gpus or offer.gpus != 1 or offer.usd_per_hour is None:
        return None
    from planner.configurations.answered_evaluation import generating_on  # late: what only generation needs

    answering = generating_on(job, architecture, offer.card, 1, library, only_16_bits=True)
    return None if answering is None else answering.seconds(1) + stages.compile_seconds


def _forward_rate(
    job: Job, network: Network, offer: Offer, library: Library, stages: StageCoefficients
) -> float | None:
    """Return the tokens per second that an offer evaluates; None where it cannot."""
    wanted = job.stages.evaluation
    assert wanted is not None
    if offer.is_cpu:
        ram = (offer.ram_gb or 0.0) * GB
        if "cpu" not in wanted.on or not evaluation_fits(network.parameters, ram, stages):
            return None
        return float(forward_tokens_per_second_cpu(network.active_parameters, offer.cpu_cores or 1.0, stages))
    if "one_gpu" not in wanted.on or offer.gpus != 1 or offer.usd_per_hour is None:
        return None
    card = library.gpu(offer.card)
    if not evaluation_fits(network.parameters, card.usable_gib * GIB, stages):
        return None
    peak = card.matmul16_tflops * TERA
    efficiency, _ = efficiency_of(card, library.calibrations["gpu_efficiency"])
    return float(forward_tokens_per_second_gpu(network.active_parameters, peak, efficiency, stages))


def ingested_tokens(job: Job, shape: JobShape) -> float:
    """Return the tokens that preparing the data makes: as stated, else those of one epoch; 0 for images."""
    wanted = job.stages.ingest
    if wanted is None or shape.unit == "images":
        return 0.0
    return float(wanted.tokens) if wanted.tokens is not None else shape.tokens / job.work.epochs


def prepared_gb(job: Job, shape: JobShape) -> float:
    """Return the GB that preparing the data makes: token ids, or the images themselves."""
    wanted = job.stages.ingest
    if wanted is None:
        return 0.0
    return wanted.raw_gb if shape.unit == "images" else ingested_tokens(job, shape) * TOKEN_GB


def separate_stage(
    stage: Literal["ingest", "evaluation", "export"],
    label: str,
    offer: Offer,
    hours: float,
    late_hours: float,
    moved_usd: float,
) -> SeparateStage:
    """Return the stage with hours as the offer bills them: whole steps, at least its minimum."""
    step, least = offer.billing.step_seconds / HOUR, offer.billing.minimum_hours
    billed, late = (float(round_up_hours(one, step, least)) for one in (hours, late_hours))
    price = offer.usd_per_hour or 0.0
    return SeparateStage(
        stage, label, offer, hours, late_hours, billed * price + moved_usd, late * price + moved_usd, billed, moved_usd
    )
