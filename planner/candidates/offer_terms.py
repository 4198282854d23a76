"""What an offer means to the estimates: which machines it rents, how fast data move, how its spot market behaves.

Facts that an offer does not state come from `models/calibration/stages.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.configurations.grid import Machine
from planner.estimates.preemption import NodeGroupCoefficients, node_group_market
from planner.estimates.time.stages import transfer_seconds
from planner.spot.market.states import Ages, SpotStates
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import GpuSpec, Library
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer
    from planner.scenario.spot_statistics import SpotStatistics

IMAGE_GB_ON_DISK = 10.0
"""Size of the container image, as `image_bytes` of the stages calibration."""
UNKNOWN_FEE = "unknown: not included"


@dataclass(frozen=True)
class SpotMarket:
    """Interruption process of one spot machine, in hours; `basis` is empty where the offer states it."""

    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    basis: str


def interconnect_of(offer: Offer) -> str:
    """Return the link between the GPUs of one instance: as the offer or its instance type states, else PCIe."""
    return (offer.interconnect or "pcie") if offer.gpus > 1 else "pcie"


def machines_of(offer: Offer, gpu: GpuSpec, ram_gb: float | None = None) -> tuple[Machine, ...]:
    """Return the machines that an offer can rent: one instance up to `max_nodes`; `ram_gb` where it matters."""
    link = interconnect_of(offer)
    return tuple(
        Machine(gpu.name, offer.gpus, nodes, link, offer.network_gbps if nodes > 1 else None, ram_gb)
        for nodes in range(1, offer.max_nodes + 1)
    )


def spot_markets(offers: Sequence[Offer], library: Library) -> tuple[SpotMarket, ...]:
    """Return the spot statistics of many offers: those without share one prior."""
    stages = library.calibrations["stages"]
    up, share = stages.value("spot_mean_up_hours"), stages.value("spot_availability")
    basis = f"prior: up {up:g} h, available {share:.0%} of the time"
    prior = SpotMarket(share, up, up * (1 - share) / share, basis)
    return tuple(prior if offer.spot is None else _single_machine_statistics(offer.spot, library) for offer in offers)


def group_states(statistics: SpotStatistics) -> SpotStates | None:
    """Return the market of `statistics.instances` machines together; None where it is not given by age."""
    if statistics.up is None or statistics.outage is None:
        return None
    up, down = (Ages(one.ages_hours, one.ends_per_hour) for one in (statistics.up, statistics.outage))
    return SpotStates(up, down, statistics.another_zone)


def _single_machine_statistics(statistics: SpotStatistics, library: Library) -> SpotMarket:
    """Return the statistics of a single machine from those of `statistics.instances` together."""
    if statistics.instances == 1:
        return SpotMarket(statistics.availability, statistics.mean_up_hours, statistics.mean_outage_hours, "")
    stages = library.calibrations["stages"]
    coefficients = NodeGroupCoefficients.of(stages.values)
    one = node_group_market(statistics.mean_up_hours, statistics.availability, 1 / statistics.instances, coefficients)
    up, share = float(one.mean_up), min(1.0, float(one.availability))
    return SpotMarket(share, up, up * (1 - share) / share, "")


def disk_gb(weights_gb: float, data_gb: float) -> float:
    """Return the GB on the disk of one instance: the weights twice (download and result), the data, the image."""
    return 2 * weights_gb + data_gb + IMAGE_GB_ON_DISK


def download_rate(offer: Offer, library: Library) -> float:
    """Return the download rate of a machine in bytes per second: as the offer states, else that of its class."""
    if offer.download_gb_per_second is not None:
        return offer.download_gb_per_second * GB
    key = "community_pull_bytes_per_second" if offer.community else "pull_bytes_per_second"
    return library.calibrations["stages"].value(key)


def disk_rate(offer: Offer, library: Library) -> float:
    """Return the rate of the disk of a machine in bytes per second."""
    if offer.disk_gb_per_second is not None:
        return offer.disk_gb_per_second * GB
    return library.calibrations["stages"].value("disk_bytes_per_second")


def data_transfer_seconds(gb: float, job: Job, offer: Offer, pull: float) -> float:
    """Return the seconds to move the user's data to a machine, no faster than their storage sends to other regions."""
    source = job.stages.transfer
    if source is not None and source.gb_per_second is not None and source.region != offer.region:
        pull = min(pull, source.gb_per_second * GB)
    return float(transfer_seconds(gb * GB, pull))


def data_egress_usd_per_gb(job: Job, offer: Offer) -> float:
    """Return the dollars per GB that the storage of the user's data charges for sending them; 0 within its region."""
    source = job.stages.transfer
    return 0.0 if source is None or source.region == offer.region else source.egress_usd_per_gb
