"""The offers of a scenario as candidates use them, and what an offer means to the estimates and decides in ties.

Candidates whose dollars are a tie (`solve.ties`) are compared by these steps in turn, and less is better in each:

    own        0 on an own machine, 1 on any other, 2 where a machine or a term is paid at once
    host       0 on the provider's machine, 1 on that of a private host
    evidence   0 where the job has a run of its own on that GPU, 1 where published runs or products were measured, 2
               for a prior
    stock      0 where the offer says how much there is, 1 where that is unknown

Then fewer machines win, then fewer hours: both are columns of every table already. A timetable counts its pauses
between these two, and its hours are the ends of its runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers, median
from planner.configurations.recipe import Machine
from planner.estimates.inputs import Numbers
from planner.estimates.stage_seconds import NodeGroupCoefficients, node_group_market, transfer_seconds
from planner.library.names import typical_ram_gb
from planner.library.schema import GpuSpec, Library
from planner.scenario.job import Job
from planner.scenario.limits import AllowForbid, Limits, PeakLimit, SpotShare, given_peaks, keeps_peaks
from planner.scenario.naming import undominated_groups
from planner.scenario.offer import FeeCount, Offer, fee_rate
from planner.scenario.offer_terms import SpotStatistics, moves_between_regions
from planner.scenario.scenario import Scenario
from planner.spot.states import Ages, DurationShape, SpotStates, states_from_means, states_of_zones
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence


# What an offer means to the estimates: which machines it rents, how fast data move, how its spot market behaves.
#
# Facts that an offer does not state come from `models/calibration/stages.yaml`.


IMAGE_GB_ON_DISK = 10.0
"""Size of the container image, as `image_bytes` of the stages calibration."""


@dataclass(frozen=True)
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

    statistics = []
    for offer in offers:
        market = (
            prior(hosts_of(offer, library)) if offer.spot is None else _single_machine_statistics(offer.spot, library)
        )
        count = len(offer.zones)
        statistics.append(replace(market, basis=_basis_of_zones(market, count), zones=count) if count > 1 else market)
    return tuple(statistics)


def hosts_of(offer: Offer, library: Library) -> int:
    """Return the hosts behind one instance of an offer: those of a slice of chips, else 1."""
    chip = library.gpu(offer.card).chip if offer.rents_gpus else None
    return chip.hosts_of(offer.gpus) if chip else 1


def market_of_nodes(
    offer: Offer, market: SpotMarket, nodes: int, coefficients: NodeGroupCoefficients, library: Library
) -> SpotStates:
    """Return the market of `nodes` machines together, in any one zone: by age as stated, else means as recorded."""
    values = library.calibrations["spot"].values
    given = group_states(offer.spot) if offer.spot is not None and offer.spot.instances == nodes else None
    if given is None:
        group = node_group_market(market.mean_up_hours, market.availability, nodes, coefficients)
        given = states_from_means(float(group.mean_up), float(group.mean_outage), DurationShape.of(values))
    return states_of_zones(given, market.zones, values["zone_exponent"])


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
    return Moves(share * gb * fee_usd(offer, "GB out"), share * gb * GB / pull_bytes_per_second / HOUR, share, gb)


def _basis_of_zones(market: SpotMarket, zones: int) -> str:
    """Return the words that mark a group of zones as a prior: how they fail together was not observed."""
    known = market.basis or "as the offer states it"
    return f"{known} in one zone; any of {zones} zones by m^0.7 (prior)"


def group_states(statistics: SpotStatistics) -> SpotStates | None:
    """Return the market of `statistics.instances` machines together; None where it is not given by age."""
    if statistics.up is None or statistics.outage is None:
        return None
    up, down = (Ages(observed.ages_hours, observed.ends_per_hour) for observed in (statistics.up, statistics.outage))
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
    group = node_group_market(statistics.mean_up_hours, statistics.availability, 1 / statistics.instances, coefficients)
    up, share = float(group.mean_up), min(1.0, float(group.availability))
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


def fee_usd(offer: Offer, count: FeeCount) -> float:
    """Return the dollars per unit of what the fees of an offer count; 0 where they are unknown."""
    return fee_rate(offer.fees, count) or 0.0


def data_egress_usd_per_gb(job: Job, offer: Offer) -> float:
    """Return the dollars per GB that the storage of the user's data charges for sending them; 0 within its region."""
    source = job.stages.transfer
    return 0.0 if source is None or offer.is_in(source.region) else source.egress_usd_per_gb


# The offers of a scenario as candidates use them: at adjusted prices, equal ones merged, GPUs resolved.
#
# Offer a dominates b if they have the same provider, machine and terms (all facts but region, instance and prices), no
# stock or paid hours that jobs share, and a costs no more on demand and no more on spot. Every candidate on b has then
# the same hours on a, at no more dollars in each market, whatever mix or policy it follows. An unknown spot price, or
# one that is not below the price on demand, counts as infinite; offers that are sold on spot only are compared with one
# another, because they pay no switch to on demand.


MANAGED = "managed"
"""In place of a GPU's name, for a service that does not state its GPUs."""
OUTLIER_SHARE = 0.5
"""A spot discount under this share of the median discount of the same instance is an outlier."""
MIN_PEERS = 3
"""Offers of an instance from which on it has a usual discount."""
PRICE_FIELDS = ("usd_per_hour", "spot_usd_per_hour")
TERM_FIELDS = tuple(
    Offer.model_fields.keys()
    - {*PRICE_FIELDS, "region", "zones", "instance", "notes", "currency", "date", "dates", "source"}
)
"""What a plan may depend on besides region, instance and prices."""


@dataclass(frozen=True)
class Market:
    """The offers of a scenario as candidates use them: equal ones merged, GPUs resolved."""

    offers: tuple[Offer, ...]
    labels: tuple[str, ...]
    merged: tuple[int, ...]  # in how many regions each is offered
    is_outdated: Flags  # (offers,), a price that is too old to plan with
    is_outlier: Flags  # (offers,), a spot price far below that of the same instance elsewhere
    cards: tuple[GpuSpec | None, ...]  # None: a managed service
    machines: tuple[tuple[Machine, ...], ...]  # per offer
    distinct_machines: tuple[Machine, ...]
    separate_offers: tuple[Offer, ...] = ()  # that stages on separate machines may rent
    separate_labels: tuple[str, ...] = ()
    after_term: tuple[Offer | None, ...] = ()  # per offer: what bills its machines by the hour once its term is over
    _permitted: dict[tuple[AllowForbid, ...], Flags] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _use_of: dict[str, Floats] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """Return the GPU's name of each offer; `MANAGED` for a managed service."""
        return tuple(card.name if card else MANAGED for card in self.cards)

    @cached_property
    def offers_by_machine(self) -> dict[Machine, Integers]:
        """Return the places of the offers that rent each machine, in their order."""
        # Offers of one kind share their tuple of machines, so only one of each kind is looked up.
        kinds: dict[int, list[int]] = {}
        for index, several in enumerate(self.machines):
            kinds.setdefault(id(several), []).append(index)
        places_of: dict[Machine, list[int]] = {}
        for alike in kinds.values():
            for machine in self.machines[alike[0]]:
                places_of.setdefault(machine, []).extend(alike)
        return {machine: np.sort(np.asarray(places, dtype=np.int64)) for machine, places in places_of.items()}

    def permitted(self, limits: Limits) -> Flags:
        """Return the offers (offers,) that the lists of the limits allow: a plan screens by the same ones often."""
        lists = limits.providers, limits.gpus, limits.regions, limits.tiers
        if lists not in self._permitted:
            self._permitted[lists] = np.asarray([limits.permits(offer) for offer in self.offers], dtype=bool)
        return self._permitted[lists]

    def use_of(self, limit: PeakLimit) -> Floats:
        """Return what one machine of each offer (offers,) uses of a limit on one time; nan where it is not stated.

        A timetable asks for each of its thousands of modes.
        """
        use = limit.of_machine
        if use is None:
            raise ValueError(f"{limit.key} depends on the run")
        if limit.key not in self._use_of:
            uses = np.asarray([use(*rented) for rented in zip(self.offers, self.cards, strict=True)], dtype=float)
            uses.flags.writeable = False
            self._use_of[limit.key] = uses
        return self._use_of[limit.key]

    def is_known(self, limits: Limits) -> Flags:
        """Return the offers (offers,) of which each limit on one time that is given is stated."""
        known = np.ones(len(self.offers), dtype=bool)
        for limit, _ in given_peaks(limits):
            known &= limit.is_of_dollars or ~np.isnan(self.use_of(limit))
        return known

    @property
    def providers(self) -> tuple[str, ...]:
        """Return the providers, each once."""
        return tuple(dict.fromkeys(offer.provider for offer in self.offers))

    def identity_columns(self, jobs: Sequence[str], job: str, offer: Integers) -> dict[str, Any]:
        """Return the columns of a candidate table that name job, offer and provider, for rows of one job."""
        providers = {name: index for index, name in enumerate(self.providers)}
        of_offers = np.asarray([providers[market_offer.provider] for market_offer in self.offers], dtype=np.int64)
        return {
            **{"jobs": tuple(jobs), "offers": self.labels, "providers": tuple(providers)},
            "job": np.full(len(offer), list(jobs).index(job), dtype=np.int64),
            "offer": offer,
            "provider": of_offers[offer],
        }

    def without_stock(self) -> Market:
        """Return the same offers with unlimited stock."""
        return replace(self, offers=tuple(offer.model_copy(update={"stock": None}) for offer in self.offers))

    def managed_services(self, kind: str, architecture: str) -> list[int]:
        """Return the places of the managed services that take a model for a kind of job; adapters do not pretrain."""
        return [
            index
            for index, offer in enumerate(self.offers)
            if offer.managed is not None
            and offer.managed.trains
            and kind != "inference"  # an answer of a service is compared with a plan, and is none
            and architecture in offer.managed.architectures
            and (kind != "pretrain" or offer.managed.method == "full")
        ]


def build_market(scenario: Scenario, library: Library) -> Market:
    """Return the offers with GPUs at adjusted prices that a plan may need, in the order of their names.

    The order of the price list therefore decides no tie. Offers that differ only in region become one ("any of
    17"), under their first label; those with a stock or with hours that are paid for stay apart, for each has its own.
    Of those that differ only in region, instance and prices, the ones that another replaces at no higher price are
    left out.
    """
    places = places_that_matter(scenario)
    facts, terms = itemgetter(*places, *TERM_FIELDS), dict[tuple[object, ...], int]()
    groups: dict[tuple[bool, int, object], list[tuple[str, Offer]]] = {}
    every = sorted(scenario.labelled_offers(), key=itemgetter(0))
    for label, offer in every:
        if not offer.is_cpu and not offer.zones:
            term = terms.setdefault(facts(offer.__dict__), len(terms))  # one number is compared in place of 40 facts
            prices = offer.usd_per_hour, offer.spot_usd_per_hour
            finite = label if offer.stock is not None or offer.committed_hours is not None else ""  # each has its own
            key = scenario.limits.is_outdated(offer), term, (offer.instance, prices, finite)
            groups.setdefault(key, []).append((label, offer))
    firsts = [group[0] for group in groups.values()]
    is_outdated = np.asarray([old for old, *_ in groups], dtype=bool)
    merged = [len({offer.region for _, offer in group}) for group in groups.values()]
    labels, listed = [label for label, _ in firsts], [offer for _, offer in firsts]
    several = [labelled for labelled in every if labelled[1].zones]
    is_outlier = flag_spot_outliers([*listed, *(offer for _, offer in several)])
    keep = list(range(len(listed) + len(several)))
    if has_comparable_prices(scenario):
        keep = find_undominated_offers(listed, labels, is_outlier, is_outdated, [term for _, term, *_ in groups])
        left = undominated_groups([offer for _, offer in several], is_outlier[len(listed) :].tolist(), bool(places))
        keep += [len(listed) + place for place in left]
    labels, listed = labels + [label for label, _ in several], listed + [offer for _, offer in several]
    merged += [1] * len(several)
    is_outdated = np.append(is_outdated, [scenario.limits.is_outdated(offer) for _, offer in several]).astype(bool)
    offers = tuple(listed[index] for index in keep)
    cards = tuple(library.gpu(offer.card) if offer.rents_gpus else None for offer in offers)
    # Thousands of offers rent a few hundred kinds of machine: equal ones are made once.
    made: dict[tuple[object, ...], tuple[Machine, ...]] = {}
    machines: list[tuple[Machine, ...]] = []
    for offer, card in zip(offers, cards, strict=True):
        if card is None:
            machines.append(())
            continue
        memory = host_memory_of(offer, card)  # matters to any job: its alternatives train in full, with pages
        kind = (card.name, offer.gpus, offer.max_nodes, offer.interconnect, offer.network_gbps, memory)
        machines.append(made[kind] if kind in made else made.setdefault(kind, machines_of(offer, card, memory)))
    return Market(
        offers,
        tuple(labels[index] for index in keep),
        tuple(merged[index] for index in keep),
        is_outdated[keep],
        is_outlier[keep],
        cards,
        tuple(machines),
        tuple(dict.fromkeys(machine for several in made.values() for machine in several)),
        *_separate_offers(scenario, library),
        tuple(scenario.offer_after_term(offer) for offer in offers),
    )


def with_separate_offers(market: Market, scenario: Scenario, library: Library) -> Market:
    """Return the market with what stages on separate machines may rent in a scenario; itself where that is the same."""
    separate = _separate_offers(scenario, library)
    if separate == (market.separate_offers, market.separate_labels):
        return market
    return replace(market, separate_offers=separate[0], separate_labels=separate[1])


def places_that_matter(scenario: Scenario) -> tuple[str, ...]:
    """Return the fields that say where an offer is, as far as limits or the user's data depend on them.

    `explain` names every region in the limits to keep all offers separate, so instances are kept separate there too.
    """
    if scenario.limits.regions != AllowForbid():
        return "region", "instance"
    has_data_region = any(job.stages.transfer and job.stages.transfer.region for job in scenario.jobs)
    return ("region",) if has_data_region else ()


def has_comparable_prices(scenario: Scenario) -> bool:
    """Return whether a lower price is never worse.

    The best policy at lower prices may do another share of its work on spot, and may pay more dollars to save hours
    that have a value. So a limit on the share, or on dollars where hours have a value, may need a higher price.
    """
    limits = scenario.limits
    return limits.spot_share == SpotShare() and (limits.budget_usd is None or not scenario.value_of_time_usd_per_hour)


def find_undominated_offers(
    offers: Sequence[Offer], labels: Sequence[str], is_outlier: Flags, is_outdated: Flags, terms: Sequence[int]
) -> list[int]:
    """Return the places of the offers that no other dominates; of equal ones the first name stays.

    Only offers of equal `terms` are compared. An outlying spot price dominates only outliers, an old price only old
    ones: a plan says what it costs without or with them.
    """
    keep: list[int] = []
    classes: dict[tuple[object, ...], list[tuple[float, float, str, int]]] = {}
    for index, (offer, label) in enumerate(zip(offers, labels, strict=True)):
        if offer.gpu is None or offer.stock is not None or offer.is_reservation or offer.committed_hours is not None:
            keep.append(index)
            continue
        on_demand = np.inf if offer.usd_per_hour is None else offer.usd_per_hour
        spot = offer.spot_usd_per_hour if offer.has_spot else None
        key = (offer.usd_per_hour is None, bool(is_outlier[index]), bool(is_outdated[index]), terms[index])
        classes.setdefault(key, []).append((on_demand, np.inf if spot is None else spot, label, index))
    for members in classes.values():
        least = None
        for _, spot_usd, _, index in sorted(members):
            if least is None or spot_usd < least:
                least = spot_usd
                keep.append(index)
    return sorted(keep)


def flag_spot_outliers(offers: Sequence[Offer]) -> Flags:
    """Return the offers (offers,) whose ratio of spot to on-demand price is far below that of their instance.

    Such a price is probably an error of the price list, and a search for the least cost over thousands of prices
    finds these errors first. Of a group of zones the cheapest one counts.
    """
    ratios: dict[tuple[str, str, str], list[float]] = {}
    ratio = np.full(len(offers), np.nan)
    kinds = [(offer.provider, offer.instance, offer.card) for offer in offers]
    for index, (kind, offer) in enumerate(zip(kinds, offers, strict=True)):
        if offer.has_spot and offer.usd_per_hour and offer.spot_usd_per_hour is not None:
            least = min((usd for _, usd in offer.zones), default=offer.spot_usd_per_hour)
            ratio[index] = least / offer.usd_per_hour
            if not offer.zones:
                ratios.setdefault(kind, []).append(float(ratio[index]))
    usual = {kind: median(peers) for kind, peers in ratios.items() if len(peers) >= MIN_PEERS}
    return np.asarray(ratio < OUTLIER_SHARE * np.asarray([usual.get(kind, np.nan) for kind in kinds], dtype=float))


def needs_separate_machines(job: Job) -> bool:
    """Return whether a stage of the job may run on another machine than the training machine."""
    stages = job.stages
    places = [stage.on for stage in (stages.ingest, stages.evaluation) if stage is not None]
    places += [stages.export.places] if stages.export is not None else []
    return any(set(place) != {"machine"} for place in places)


def _separate_offers(scenario: Scenario, library: Library) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Return CPU offers and single GPUs with an hourly price that the limits allow, and their labels."""
    if not any(needs_separate_machines(job) for job in scenario.jobs):
        return (), ()
    limits = scenario.limits
    labelled = [
        (offer, label)
        for label, offer in scenario.labelled_offers()
        if (offer.is_cpu or (offer.gpus == 1 and not offer.zones))
        and offer.usd_per_hour is not None
        and not (offer.is_reservation or offer.outlay_usd)
        and offer.committed_hours is None
        and offer.stock != 0
        and limits.permits(offer)
        and keeps_peaks(offer, limits, library.gpu(offer.card) if offer.rents_gpus else None)
    ]
    return tuple(offer for offer, _ in labelled), tuple(label for _, label in labelled)


def offer_steps(offers: Sequence[Offer]) -> Integers:
    """Return the steps (offers, 3) that an offer decides: own, host, stock."""
    steps = [
        (
            2 if offer.outlay_usd else offer.tier != "own",
            offer.tier == "community",
            offer.stock is None and offer.stock_status is None,
        )
        for offer in offers
    ]
    return np.asarray(steps, dtype=np.int64).reshape(len(offers), 3)


def tie_steps(offers: Integers, evidence: Integers) -> Integers:
    """Return the steps (n, 4) of candidates in their order, of those of their offers (n, 3) and their evidence (n,)."""
    return np.column_stack([offers[:, 0], offers[:, 1], evidence, offers[:, 2]])
