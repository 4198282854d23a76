"""What an offer means to the estimates: which machines it rents, how fast data move, how its spot market behaves.

Facts that an offer does not state come from `models/calibration/stages.yaml`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.configurations.grid import Machine
from planner.estimates.preemption import NodeGroupCoefficients, node_group_market
from planner.estimates.time.stage_seconds import transfer_seconds
from planner.library.known_machines import typical_ram_gb
from planner.records import record
from planner.scenario.zone_prices import moves_between_regions
from planner.spot.market.duration_shapes import DurationShape, states_from_means
from planner.spot.market.states import Ages, SpotStates
from planner.spot.market.zone_prior import states_of_zones
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.estimates.inputs import Numbers
    from planner.library.schema import GpuSpec, Library
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer
    from planner.scenario.spot_statistics import SpotStatistics

IMAGE_GB_ON_DISK = 10.0
"""Size of the container image, as `image_bytes` of the stages calibration."""
UNKNOWN_FEE = "unknown: not included"


@record(frozen=True)
class SpotMarket:
    """Interruption process of one spot machine, in hours; `basis` is empty where the offer states it."""

    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    basis: str
    zones: int = 1  # that a run may move among, each with this market


def interconnect_of(offer: Offer) -> str:
    """Return the link between the GPUs of one instance: as the offer or its instance type states, else PCIe."""
    return (offer.interconnect or "pcie") if offer.gpus > 1 else "pcie"


class HostMemory(NamedTuple):
    """The memory of a host in GB, and whether it is that of its class."""

    ram_gb: float
    is_assumed: bool = False


def host_memory_of(offer: Offer, gpu: GpuSpec) -> HostMemory:
    """Return the memory of one instance: as the offer states it, else the typical one of its class."""
    if offer.ram_gb is not None:
        return HostMemory(offer.ram_gb)
    return HostMemory(typical_ram_gb(gpu.vram_gib * offer.gpus, offer.is_private_host), is_assumed=True)


def machines_of(offer: Offer, gpu: GpuSpec, memory: HostMemory) -> tuple[Machine, ...]:
    """Return the machines that an offer can rent: one instance up to `max_nodes`."""
    link = interconnect_of(offer)
    return tuple(
        Machine(gpu.name, offer.gpus, nodes, link, offer.network_gbps if nodes > 1 else None, *memory)
        for nodes in range(1, offer.max_nodes + 1)
    )


def spot_markets(offers: Sequence[Offer], library: Library) -> tuple[SpotMarket, ...]:
    """Return the spot statistics of many offers: those without share one prior."""
    stages = library.calibrations["stages"]
    up, share = stages.value("spot_mean_up_hours"), stages.value("spot_availability")
    basis = f"prior: up {up:g} h, available {share:.0%} of the time"
    coefficients = NodeGroupCoefficients.of(stages.values)

    @cache
    def prior(hosts: int) -> SpotMarket:
        """Return the market of a slice: all its hosts are lost with any of them, like a group of so many machines."""
        group = node_group_market(up, share, hosts, coefficients)
        return SpotMarket(float(group.availability), float(group.mean_up), float(group.mean_outage), basis)

    found = []
    for offer in offers:
        one = prior(hosts_of(offer, library)) if offer.spot is None else _single_machine_statistics(offer.spot, library)
        count = len(offer.zones)
        found.append(replace(one, basis=_basis_of_zones(one, count), zones=count) if count > 1 else one)
    return tuple(found)


def hosts_of(offer: Offer, library: Library) -> int:
    """Return the hosts behind one instance of an offer: those of a slice of chips, else 1."""
    chip = library.gpu(offer.card).chip if offer.rents_gpus else None
    return chip.hosts_of(offer.gpus) if chip else 1


def market_of_nodes(
    offer: Offer, one: SpotMarket, nodes: int, coefficients: NodeGroupCoefficients, library: Library
) -> SpotStates:
    """Return the market of `nodes` machines together, in any one zone: by age as stated, else means as recorded."""
    values = library.calibrations["spot"].values
    given = group_states(offer.spot) if offer.spot is not None and offer.spot.instances == nodes else None
    if given is None:
        group = node_group_market(one.mean_up_hours, one.availability, nodes, coefficients)
        given = states_from_means(float(group.mean_up), float(group.mean_outage), DurationShape.of(values))
    return states_of_zones(given, one.zones, values["zone_exponent"])


class Moves(NamedTuple):
    """What a loss of machines costs beyond a restart where the run goes on in another region; means over all losses."""

    usd: Any  # of one loss; 0 where the fee is unknown
    hours: Any  # of one loss
    share: float  # of the losses after which it goes on elsewhere
    gb: Any  # checkpoint and data that are copied then


def moves_of(offer: Offer, checkpoint_gb: Numbers, data_gb: float, pull_bytes_per_second: Numbers) -> Moves:
    """Return the moves of a run between regions: checkpoint and data leave one at its fee and are loaded in the other.

    10 GB at $0.09 and 0.25 GB/s, half of the moves: $0.45 and 20 s each.
    """
    share, gb = moves_between_regions(offer.zones), checkpoint_gb + data_gb
    fee = offer.fees.egress_usd_per_gb or 0.0
    return Moves(share * gb * fee, share * gb * GB / pull_bytes_per_second / HOUR, share, gb)


def _basis_of_zones(one: SpotMarket, zones: int) -> str:
    """Return the words that mark a group of zones as a prior: how they fail together was not observed."""
    known = one.basis or "as the offer states it"
    return f"{known} in one zone; any of {zones} zones by m^0.7 (prior)"


def group_states(statistics: SpotStatistics) -> SpotStates | None:
    """Return the market of `statistics.instances` machines together; None where it is not given by age."""
    if statistics.up is None or statistics.outage is None:
        return None
    up, down = (Ages(one.ages_hours, one.ends_per_hour) for one in (statistics.up, statistics.outage))
    return SpotStates(up, down, statistics.another_zone)


def stated_availability(statistics: SpotStatistics | None, machines: int) -> float:
    """Return the share of time that an offer states by age for just so many machines together, else 0."""
    given = group_states(statistics) if statistics is not None and statistics.instances == machines else None
    return 0.0 if given is None else given.availability()


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
    if source is not None and source.gb_per_second is not None and not offer.is_in(source.region):
        pull = min(pull, source.gb_per_second * GB)
    return float(transfer_seconds(gb * GB, pull))


def data_egress_usd_per_gb(job: Job, offer: Offer) -> float:
    """Return the dollars per GB that the storage of the user's data charges for sending them; 0 within its region."""
    source = job.stages.transfer
    return 0.0 if source is None or offer.is_in(source.region) else source.egress_usd_per_gb
