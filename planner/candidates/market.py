"""The offers of a scenario as candidates use them: at adjusted prices, equal ones merged, GPUs resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.candidates.offer_terms import machines_of
from planner.scenario.limits import AllowForbid
from planner.scenario.offer import offer_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Integers
    from planner.configurations.grid import Machine
    from planner.library.schema import GpuSpec, Library
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario

MANAGED = "managed"
"""In place of a GPU's name, for a service that does not state its GPUs."""


@dataclass(frozen=True)
class Market:
    """The offers of a scenario as candidates use them: equal ones merged, GPUs resolved."""

    offers: tuple[Offer, ...]
    labels: tuple[str, ...]
    merged: tuple[int, ...]  # in how many regions each is offered
    cards: tuple[GpuSpec | None, ...]  # None: a managed service
    machines: tuple[tuple[Machine, ...], ...]  # per offer
    distinct_machines: tuple[Machine, ...]
    separate_offers: tuple[Offer, ...] = ()  # that stages on separate machines may rent
    separate_labels: tuple[str, ...] = ()

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """Return the GPU's name of each offer; `MANAGED` for a managed service."""
        return tuple(card.name if card else MANAGED for card in self.cards)

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
            and architecture in offer.managed.architectures
            and (kind != "pretrain" or offer.managed.method == "full")
        ]


def build_market(scenario: Scenario, library: Library) -> Market:
    """Return the offers with GPUs at adjusted prices; those that differ only in region become one ("any of 17")."""
    # A limit on regions makes the region matter, and so does the region of the user's data.
    has_data_region = any(job.stages.transfer and job.stages.transfer.region for job in scenario.jobs)
    regional = scenario.limits.regions != AllowForbid() or has_data_region
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
    """Return whether a stage of the job may run on another machine than the training machine."""
    stages = job.stages
    return any(one is not None and set(one.on) != {"machine"} for one in (stages.ingest, stages.evaluation))


def _separate_offers(scenario: Scenario) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Return CPU offers and single GPUs with an hourly price that the lists of the limits allow, and their labels."""
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
    """Return what two offers may differ in apart from region, GPU and price."""
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
