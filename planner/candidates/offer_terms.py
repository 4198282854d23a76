"""What an offer means to the estimates: which machine it rents, how long it takes to start, how spot behaves there.

Facts that an offer leaves open are filled in from `models/calibration/stages.yaml`, and said so by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.configurations.grid import Machine
from planner.estimates.preemption import NodeGroupCoefficients, node_group_market
from planner.spot.market.states import Ages, SpotStates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.scenario.scenario import Offer, SpotStatistics

IMAGE_GB_ON_DISK = 10.0
"""Room for the container image, as `image_bytes` of the stages calibration."""
UNKNOWN_FEE = "unknown: not included"


@dataclass(frozen=True)
class SpotMarket:
    """How one spot machine comes and goes, in hours; `basis` is empty where the offer states it."""

    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    basis: str


def interconnect_of(offer: Offer, gpu: GpuSpec) -> str:
    """The link between cards of one instance: what the offer says, else what the form means."""
    if offer.gpus == 1:
        return "pcie"
    return offer.interconnect or ("nvlink" if gpu.nvlink_by_default else "pcie")


def machines_of(offer: Offer, gpu: GpuSpec) -> tuple[Machine, ...]:
    """The machines that an offer can rent: one instance up to `max_nodes`."""
    link = interconnect_of(offer, gpu)
    return tuple(
        Machine(gpu.name, offer.gpus, nodes, link, offer.network_gbps if nodes > 1 else None)
        for nodes in range(1, offer.max_nodes + 1)
    )


def spot_market(offer: Offer, library: Library) -> SpotMarket:
    """The offer's statistics, or the prior with its basis."""
    return spot_markets([offer], library)[0]


def spot_markets(offers: Sequence[Offer], library: Library) -> tuple[SpotMarket, ...]:
    """The same for many offers: those without statistics share one prior."""
    stages = library.calibrations["stages"]
    up, share = stages.value("spot_mean_up_hours"), stages.value("spot_availability")
    basis = f"prior: up {up:g} h, available {share:.0%} of the time"
    prior = SpotMarket(share, up, up * (1 - share) / share, basis)
    return tuple(prior if offer.spot is None else _single_machine_statistics(offer.spot, library) for offer in offers)


def group_states(told: SpotStatistics) -> SpotStates | None:
    """The market of `told.instances` machines together where it is told by age; None where only means are."""
    if told.up is None or told.outage is None:
        return None
    up, down = (Ages(one.ages_hours, one.ends_per_hour) for one in (told.up, told.outage))
    return SpotStates(up, down)


def _single_machine_statistics(told: SpotStatistics, library: Library) -> SpotMarket:
    """The statistics of a single machine, from those of `told.instances` together."""
    if told.instances == 1:
        return SpotMarket(told.availability, told.mean_up_hours, told.mean_outage_hours, "")
    stages = library.calibrations["stages"]
    gang = NodeGroupCoefficients.of({key: stages.value(key) for key in stages.coefficients})
    one = node_group_market(told.mean_up_hours, told.availability, 1 / told.instances, gang)
    up, share = float(one.mean_up), min(1.0, float(one.availability))
    return SpotMarket(share, up, up * (1 - share) / share, "")


def disk_gb(architecture: Architecture, data_gb: float) -> float:
    """Disk of one instance: twice the weights (download and result), the data, the image."""
    return 2 * architecture.download_gb + data_gb + IMAGE_GB_ON_DISK
