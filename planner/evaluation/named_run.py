"""What names a run, and what its names mean, looked up once: job, offer, card, recipe, machines."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.configurations.grid import Machine, network_of, with_tower
from planner.configurations.recipe import Recipe, framework_of
from planner.estimates.inputs import Network
from planner.estimates.stage_seconds import StageCoefficients
from planner.estimates.work import TrialWork, trial_work
from planner.evaluation.comparison import Violation
from planner.library.names import typical_ram_gb
from planner.library.schema import Architecture, GpuSpec, Library
from planner.library.technique_tables import FrameworkProfile
from planner.results.plan import Assignment
from planner.results.plan_parts import Pause, SpotPlan, Techniques
from planner.scenario.job import Job, Measured
from planner.scenario.offer import Offer, usd_above_term
from planner.scenario.scenario import Scenario
from planner.spot.drawn_runs import PolicyCosts
from planner.spot.policy_cache import PolicyCache
from planner.spot.run import SpotRun
from planner.spot.states import SpotStates
from planner.spot.switching_policy import WaitingRule
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# What names a run: its job, offer and machines, techniques, places of stages, markets and times. No figures.


@dataclass(frozen=True)
class NamedStage:
    """A stage on a machine of its own."""

    stage: str
    offer: str  # label


@dataclass(frozen=True)
class NamedPolicy:
    """A policy on spot: the hours that it guarantees, what an hour of waiting counts, and a stated rule."""

    guaranteed_hours: float
    waiting_usd_per_hour: float
    rule: WaitingRule | None = None

    @classmethod
    def of(cls, stated: SpotPlan) -> NamedPolicy:
        """Return what a plan names of its policy."""
        return cls(
            stated.guaranteed_hours,
            stated.waiting_usd_per_hour,
            WaitingRule(stated.take_after_up_hours, stated.take_at_once_from_hours),
        )


@dataclass(frozen=True)
class NamedRun:
    """Everything that decides the figures of a run, as a search chooses it or as a plan states it."""

    name: str  # of the job
    offer: str  # label
    instances: int
    gpus: int  # of all instances
    gpus_per_instance: int
    techniques: Techniques
    spot_share: float
    beside: tuple[NamedStage, ...] = ()
    policy: NamedPolicy | None = None
    kv_bits: int | None = None  # of the cache of generation
    fallback: str | None = None  # the change for a run out of memory, of changes that cost equally little time
    start_at_hours: float = 0.0
    pauses: tuple[Pause, ...] = ()
    is_reserved: bool = False  # its machines are paid by a reservation of the plan

    @classmethod
    def of(cls, stated: Assignment) -> NamedRun:
        """Return what an assignment names."""
        given = stated.vram_gib.fallback
        return cls(
            name=stated.name,
            offer=stated.offer,
            instances=stated.instances,
            gpus=stated.gpus,
            gpus_per_instance=stated.gpus_per_instance,
            techniques=stated.techniques,
            spot_share=stated.spot_share,
            beside=tuple(NamedStage(machine.stage, machine.offer) for machine in stated.separate_machines),
            policy=NamedPolicy.of(stated.spot) if stated.spot else None,
            kv_bits=stated.inference.kv_bits if stated.inference else None,
            fallback=given.change if given else None,
            start_at_hours=stated.start_at_hours,
            pauses=stated.pauses,
            is_reserved=stated.is_reserved,
        )

    @property
    def standstill_hours(self) -> float:
        """Hours of closed windows in which the run stands still."""
        return math.fsum(pause.to_hours - pause.from_hours for pause in self.pauses)

    def delay_hours(self, resume_hours: float) -> float:
        """Return what the calendar adds to the hours of the run, where each pause costs `resume_hours`."""
        return self.start_at_hours + self.standstill_hours + len(self.pauses) * resume_hours


SAME = 1e-9
"""Relative difference of figures that differ by rounding alone: arrays and plain floats add in other orders."""


@dataclass(frozen=True, eq=False)
class SearchedPolicy:
    """The run, market and costs of a policy in a search, and the passes that the search has computed."""

    run: SpotRun
    states: SpotStates
    costs: PolicyCosts
    policies: PolicyCache


def is_same(mine: object, found: object) -> bool:
    """Return whether two records are the same but for rounding."""
    if isinstance(mine, float) and isinstance(found, (int, float)):
        return math.isclose(mine, found, rel_tol=SAME, abs_tol=SAME)
    if type(mine) is not type(found):
        return False
    if isinstance(mine, tuple) and isinstance(found, tuple):
        return len(mine) == len(found) and all(map(is_same, mine, found))
    if dataclasses.is_dataclass(mine):
        names = [field.name for field in dataclasses.fields(mine)]
        return all(is_same(getattr(mine, name), getattr(found, name)) for name in names)
    return mine == found


# What a run names, looked up once: its job, offer, card, recipe and machines.


@dataclass(frozen=True)
class RunContext:
    """A named run with everything behind its names; what concerns machines is an error for a managed service."""

    named: NamedRun
    job: Job
    scenario: Scenario
    architecture: Architecture
    offer: Offer  # at the prices of the what-if
    offers: Mapping[str, Offer]  # label -> every offer, at those prices
    library: Library
    searched: SearchedPolicy | None = None
    kept: dict[Any, Any] = field(default_factory=dict, compare=False)  # physics of machines that several plans have

    @cached_property
    def network(self) -> Network:
        """Shape of the architecture."""
        return with_tower(network_of(self.architecture), self.job, self.architecture)

    @cached_property
    def gpu(self) -> GpuSpec:
        """Card of the offer; KeyError where the library has none of that name."""
        return self.library.gpu(self.offer.card)

    @cached_property
    def framework(self) -> FrameworkProfile:
        """Profile of the plan's framework; of a service, whose own is unknown, that of Transformers."""
        return framework_of(self.library, "hf" if self.offer.is_managed else self.recipe.framework)

    @cached_property
    def recipe(self) -> Recipe:
        """The techniques of the plan."""
        return Recipe(
            **{technique.name: getattr(self.named.techniques, technique.name) for technique in fields(Recipe)}
        )

    @cached_property
    def machine(self) -> Machine:
        """Machines of one run: the link is the offer's, else the usual one of the card, and pcie for a single card."""
        offer, instances = self.offer, self.named.instances
        link = offer.interconnect or "pcie"
        network_gbps = offer.network_gbps if instances > 1 else None
        link = "pcie" if offer.gpus == 1 else link
        ram_gb, gpu_gib = offer.ram_gb, offer.gpus * self.gpu.vram_gib
        if ram_gb is None:
            ram_gb = typical_ram_gb(gpu_gib, offer.is_private_host)
        return Machine(self.gpu.name, offer.gpus, instances, link, network_gbps, ram_gb, offer.ram_gb is None)

    @property
    def prior_hosts(self) -> int:
        """Hosts of one instance, of which the prior of spot markets is: those of a slice go together."""
        return self.gpu.chip.hosts.get(self.offer.gpus, 1) if self.gpu.chip else 1

    @cached_property
    def trials(self) -> TrialWork:
        """What the trials of the job multiply one run by."""
        trials = self.job.trials
        return trial_work(trials.count, trials.at_once, trials.halving)

    @cached_property
    def stages(self) -> StageCoefficients:
        """Calibration of the stages."""
        return StageCoefficients.of(self.values("stages"))

    @property
    def observed(self) -> Measured | None:
        """The run of the whole job that was seen on the plan's hardware, which its hours must follow."""
        here = (self.gpu.name, self.machine.gpus)
        seen = (run for run in self.job.measured if run.hours is not None)
        return next((run for run in seen if (run.gpu, run.gpus) == here), None)

    def values(self, calibration: str) -> dict[str, float]:
        """Return the plain numbers of a calibration by key."""
        return self.library.calibrations[calibration].values

    def download_rate_of(self, offer: Offer, of_own_data: bool = False) -> float:
        """Return bytes per second from outside to a machine; own data leave no faster than their place lets them."""
        source, key = self.job.stages.transfer, "pull_bytes_per_second"
        stated = offer.download_gb_per_second
        pull = self.values("stages")[f"community_{key}" if offer.community else key] if stated is None else stated * GB
        is_limited = of_own_data and source is not None and (source.region,) != offer.regions
        return min(pull, (source.gb_per_second or math.inf) * GB) if is_limited and source else pull

    def disk_rate_of(self, offer: Offer) -> float:
        """Return bytes per second of a machine's own disk."""
        stated = offer.disk_gb_per_second
        return self.values("stages")["disk_bytes_per_second"] if stated is None else stated * GB

    def leaving_usd_per_gb(self, offer: Offer) -> float:
        """Return dollars per GB that the user's data cost to leave their place for a machine of the offer."""
        source = self.job.stages.transfer
        return 0.0 if source is None or (source.region,) == offer.regions else source.egress_usd_per_gb


def resolve_names(named: NamedRun, scenario: Scenario, library: Library) -> tuple[RunContext | None, list[Violation]]:
    """Return the things behind the names, or None and the names that lead nowhere."""
    name = named.name
    job = next((job for job in scenario.jobs if job.name == name), None)
    offers = dict(scenario.labelled_offers())
    offer = offers.get(named.offer)
    if job is None:
        return None, [Violation(name, "job", "a job of the scenario", name)]
    if offer is None or offer.is_cpu:
        return None, [Violation(name, "offer", "an offer of the scenario that trains", named.offer)]
    try:
        architecture = library.architecture(job.architecture)
    except KeyError as error:
        return None, [Violation(name, "architecture", "an architecture of the library", str(error.args[0]))]
    return RunContext(named, job, scenario, architecture, offer, offers, library), []


def hourly_price(mine: Offer, offers: Iterable[Offer]) -> float | None:
    """Return the least price per hour of as many equal GPUs, of the same provider if it has one; None without any.

    Fees of machine hours count as in `usd_above_term`. None where nothing is saved.
    """
    alike = [
        (offer.provider != mine.provider, usd_above_term(mine, offer))
        for offer in offers
        if (offer.gpu, offer.gpus) == (mine.gpu, mine.gpus) and offer.usd_per_hour
        if (offer.commitment, offer.committed_hours, offer.own, offer.block) == (None, None, None, None)
    ]
    return min(alike)[1] if alike and min(alike)[1] > 0 else None
