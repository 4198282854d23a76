"""The offers of a scenario as candidates use them: at adjusted prices, equal ones merged, GPUs resolved.

Offer a dominates b if they have the same provider, machine and terms (all facts but region, instance and prices), no
stock or paid hours that jobs share, and a costs no more on demand and no more on spot. Every candidate on b has then
the same hours on a, at no more dollars in each market, whatever mix or policy it follows. An unknown spot price, or one
that is not below the price on demand, counts as infinite; offers that are sold on spot only are compared with one
another, because they pay no switch to on demand.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import median
from planner.candidates.offer_terms import host_memory_of, machines_of
from planner.records import record
from planner.scenario.limits import AllowForbid, SpotShare
from planner.scenario.offer import Offer
from planner.scenario.zone_groups import undominated_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Integers
    from planner.configurations.grid import Machine
    from planner.library.schema import GpuSpec, Library
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits
    from planner.scenario.scenario import Scenario

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


@record(frozen=True)
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
    _permitted: dict[tuple[AllowForbid, ...], Flags] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

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
        found: dict[Machine, list[int]] = {}
        for alike in kinds.values():
            for machine in self.machines[alike[0]]:
                found.setdefault(machine, []).extend(alike)
        return {machine: np.sort(np.asarray(places, dtype=np.int64)) for machine, places in found.items()}

    def permitted(self, limits: Limits) -> Flags:
        """Return the offers (offers,) that the lists of the limits allow: a plan screens by the same ones often."""
        lists = limits.providers, limits.gpus, limits.regions, limits.tiers
        if lists not in self._permitted:
            self._permitted[lists] = np.asarray([limits.permits(offer) for offer in self.offers], dtype=bool)
        return self._permitted[lists]

    @property
    def providers(self) -> tuple[str, ...]:
        """Return the providers, each once."""
        return tuple(dict.fromkeys(offer.provider for offer in self.offers))

    def identity_columns(self, jobs: Sequence[str], job: str, offer: Integers) -> dict[str, Any]:
        """Return the columns of a candidate table that name job, offer and provider, for rows of one job."""
        providers = {name: index for index, name in enumerate(self.providers)}
        return {
            **{"jobs": tuple(jobs), "offers": self.labels, "providers": tuple(providers)},
            "job": np.full(len(offer), list(jobs).index(job), dtype=np.int64),
            "offer": offer,
            "provider": np.asarray([providers[one.provider] for one in self.offers], dtype=np.int64)[offer],
        }

    def without_stock(self) -> Market:
        """Return the same offers with unlimited stock."""
        return replace(self, offers=tuple(one.model_copy(update={"stock": None}) for one in self.offers))

    def services(self, kind: str, architecture: str) -> list[int]:
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
    labels, found = [label for label, _ in firsts], [offer for _, offer in firsts]
    several = [one for one in every if one[1].zones]
    is_outlier = flag_spot_outliers([*found, *(offer for _, offer in several)])
    keep = list(range(len(found) + len(several)))
    if has_comparable_prices(scenario):
        keep = find_undominated_offers(found, labels, is_outlier, is_outdated, [term for _, term, *_ in groups])
        left = undominated_groups([one for _, one in several], is_outlier[len(found) :].tolist(), bool(places))
        keep += [len(found) + place for place in left]
    labels, found = labels + [label for label, _ in several], found + [offer for _, offer in several]
    merged += [1] * len(several)
    is_outdated = np.append(is_outdated, [scenario.limits.is_outdated(offer) for _, offer in several]).astype(bool)
    offers = tuple(found[index] for index in keep)
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
        *_separate_offers(scenario),
    )


def with_separate_offers(market: Market, scenario: Scenario) -> Market:
    """Return the market with what stages on separate machines may rent in a scenario; itself where that is the same."""
    found = _separate_offers(scenario)
    if found == (market.separate_offers, market.separate_labels):
        return market
    return replace(market, separate_offers=found[0], separate_labels=found[1])


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
    places = [one.on for one in (stages.ingest, stages.evaluation) if one is not None]
    places += [stages.export.places] if stages.export is not None else []
    return any(set(one) != {"machine"} for one in places)


def _separate_offers(scenario: Scenario) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Return CPU offers and single GPUs with an hourly price that the lists of the limits allow, and their labels."""
    if not any(needs_separate_machines(job) for job in scenario.jobs):
        return (), ()
    limits = scenario.limits
    found = [
        (offer, label)
        for label, offer in scenario.labelled_offers()
        if (offer.is_cpu or (offer.gpus == 1 and not offer.zones))
        and offer.usd_per_hour is not None
        and not offer.is_reservation
        and offer.committed_hours is None
        and offer.stock != 0
        and limits.permits(offer)
    ]
    return tuple(offer for offer, _ in found), tuple(label for _, label in found)
