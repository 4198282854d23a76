"""The offers of a scenario as candidates see them: at the prices of the what-if, equal ones merged, cards resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from planner.candidates.offer_terms import machines_of
from planner.scenario.scenario import AllowForbid, Job, Offer, Scenario, offer_labels

if TYPE_CHECKING:
    from planner.configurations.grid import Machine
    from planner.library.schema import GpuSpec, Library

MANAGED = "managed"
"""Stands where a card's name would, for a service that does not tell its cards."""


@dataclass(frozen=True)
class Market:
    """The offers of a scenario as the candidates see them: equal ones merged, cards resolved."""

    offers: tuple[Offer, ...]
    labels: tuple[str, ...]
    merged: tuple[int, ...]  # in how many regions each is offered
    cards: tuple[GpuSpec | None, ...]  # None: a managed service
    machines: tuple[tuple[Machine, ...], ...]  # per offer
    distinct_machines: tuple[Machine, ...]
    separate_offers: tuple[
        Offer, ...
    ] = ()  # what stages with machines of their own may use, within the lists of the limits
    separate_labels: tuple[str, ...] = ()

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """The card's name of each offer, or what stands for one."""
        return tuple(card.name if card else MANAGED for card in self.cards)

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(offer.provider for offer in self.offers))

    def without_stock(self) -> Market:
        """The same offers, each with as many machines as anyone asks for."""
        return replace(self, offers=tuple(one.model_copy(update={"stock": None}) for one in self.offers))

    def services(self, kind: str, architecture: str) -> list[int]:
        """Places of the managed services that take a network for a kind of job; adapters do not pretrain."""
        return [
            index
            for index, offer in enumerate(self.offers)
            if offer.managed is not None
            and architecture in offer.managed.architectures
            and (kind != "pretrain" or offer.managed.method == "full")
        ]


def build_market(scenario: Scenario, library: Library) -> Market:
    """Offers with GPUs at the prices of the what-if; those that differ in region alone become one ("any of 17")."""
    # A limit on regions makes the region matter, and so does a place where the data lie.
    told_apart = any(job.stages.transfer and job.stages.transfer.region for job in scenario.jobs)
    regional = scenario.limits.regions != AllowForbid() or told_apart
    groups: list[tuple[str, list[Offer]]] = []
    near: dict[tuple[object, ...], list[list[Offer]]] = {}
    for label, offer in zip(offer_labels(scenario.offers), scenario.adjusted_offers(), strict=True):
        if offer.is_cpu:
            continue
        where = offer.region if regional else ""
        key = (where, offer.provider, offer.instance, offer.card, offer.usd_per_hour, offer.spot_usd_per_hour)
        alike = near.setdefault(key, [])
        for group in alike:
            if _facts(group[0]) == _facts(offer):
                group.append(offer)
                break
        else:
            alike.append([offer])
            groups.append((label, alike[-1]))
    offers = tuple(group[0] for _, group in groups)
    cards = tuple(library.gpu(offer.card) if offer.rents_gpus else None for offer in offers)
    # Thousands of offers rent a few hundred kinds of machine: equal ones are made once.
    made: dict[tuple[object, ...], tuple[Machine, ...]] = {}
    machines: list[tuple[Machine, ...]] = []
    for offer, card in zip(offers, cards, strict=True):
        if card is None:
            machines.append(())
            continue
        kind = (card.name, offer.gpus, offer.max_nodes, offer.interconnect, offer.network_gbps)
        machines.append(made[kind] if kind in made else made.setdefault(kind, machines_of(offer, card)))
    return Market(
        offers,
        tuple(label for label, _ in groups),
        tuple(len({offer.region for offer in group}) for _, group in groups),
        cards,
        tuple(machines),
        tuple(dict.fromkeys(machine for several in made.values() for machine in several)),
        *_separate_offers(scenario),
    )


def needs_separate_machines(job: Job) -> bool:
    """Whether a stage of the job may be done elsewhere than on its training machine."""
    stages = job.stages
    return any(one is not None and set(one.on) != {"machine"} for one in (stages.ingest, stages.evaluation))


def _separate_offers(scenario: Scenario) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """CPU offers and single GPUs at an hourly price that the lists of the limits allow."""
    if not any(needs_separate_machines(job) for job in scenario.jobs):
        return (), ()
    limits = scenario.limits
    found = [
        (offer, label)
        for label, offer in zip(offer_labels(scenario.offers), scenario.adjusted_offers(), strict=True)
        if (offer.is_cpu or offer.gpus == 1)
        and offer.usd_per_hour is not None
        and offer.commitment is None
        and offer.committed_hours is None
        and offer.stock != 0
        and limits.permits(offer)
    ]
    return tuple(offer for offer, _ in found), tuple(label for _, label in found)


def _facts(offer: Offer) -> tuple[object, ...]:
    """What, beside place, card and price, tells two offers apart."""
    return (
        offer.stock,
        offer.gpus,
        offer.max_nodes,
        offer.interconnect,
        offer.network_gbps,
        offer.disk_gb_per_second,
        offer.download_gb_per_second,
        offer.cpu_cores,
        offer.ram_gb,
        offer.spot,
        offer.spot_notice_seconds,
        offer.billing,
        offer.fees,
        offer.community,
        offer.commitment,
        offer.committed_hours,
        offer.own,
        offer.managed,
    )
