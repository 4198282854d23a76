"""What a run names, looked up once: its job, offer, card, recipe and machines."""

from __future__ import annotations

import math
from dataclasses import field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.configurations.grid import Machine, network_of
from planner.configurations.recipe import Recipe, framework_of
from planner.estimates.time.stage_seconds import StageCoefficients
from planner.estimates.trials import trial_work
from planner.evaluation.comparison import Violation
from planner.library.known_machines import typical_ram_gb
from planner.records import record
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.estimates.inputs import Network
    from planner.estimates.trials import TrialWork
    from planner.evaluation.named_run import NamedRun, SearchedPolicy
    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.library.technique_tables import FrameworkProfile
    from planner.scenario.job import Job
    from planner.scenario.observed_run import Measured
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario


@record(frozen=True)
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
        return network_of(self.architecture)

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
        return Recipe(**{one.name: getattr(self.named.techniques, one.name) for one in fields(Recipe)})

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
    job = next((one for one in scenario.jobs if one.name == name), None)
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
    """Return the least price per hour of as many equal GPUs, of the same provider if it has one."""
    alike = [
        (offer.provider != mine.provider, offer.usd_per_hour)
        for offer in offers
        if (offer.gpu, offer.gpus) == (mine.gpu, mine.gpus) and offer.usd_per_hour
        if (offer.commitment, offer.committed_hours, offer.own, offer.block) == (None, None, None, None)
    ]
    return min(alike)[1] if alike else None
