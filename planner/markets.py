"""The offers of a scenario as candidates see them: at the prices of the what-if, equal ones merged, cards resolved."""

from __future__ import annotations

from dataclasses import dataclass

from planner.grid import Machine
from planner.library import GpuSpec, Library
from planner.scenario import AllowForbid, Offer, Scenario, adjusted_offers, offer_labels
from planner.terms import machines_of


@dataclass(frozen=True)
class Market:
    """The offers of a scenario as the candidates see them: equal ones merged, cards resolved."""

    offers: tuple[Offer, ...]
    labels: tuple[str, ...]
    merged: tuple[int, ...]  # how many offers each stands for
    cards: tuple[GpuSpec, ...]
    machines: tuple[tuple[Machine, ...], ...]  # per offer
    distinct: tuple[Machine, ...]

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(offer.provider for offer in self.offers))


def market_of(scenario: Scenario, library: Library) -> Market:
    """Offers with GPUs at the prices of the what-if; those that differ in region alone become one ("any of 17")."""
    # A limit on regions makes the region matter.
    regional = scenario.limits.regions != AllowForbid()
    groups: list[tuple[str, list[Offer]]] = []
    near: dict[tuple[object, ...], list[list[Offer]]] = {}
    for label, offer in zip(offer_labels(scenario.offers), adjusted_offers(scenario), strict=True):
        if not offer.rents_gpus:
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
    cards = tuple(library.gpu(offer.card) for offer in offers)
    # Thousands of offers rent a few hundred kinds of machine: equal ones are made once.
    made: dict[tuple[object, ...], tuple[Machine, ...]] = {}
    machines = []
    for offer, card in zip(offers, cards, strict=True):
        kind = (card.name, offer.gpus, offer.max_nodes, offer.interconnect, offer.network_gbps)
        machines.append(made[kind] if kind in made else made.setdefault(kind, machines_of(offer, card)))
    return Market(
        offers,
        tuple(label for label, _ in groups),
        tuple(len(group) for _, group in groups),
        cards,
        tuple(machines),
        tuple(dict.fromkeys(machine for several in made.values() for machine in several)),
    )


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
        offer.billing,
        offer.fees,
        offer.community,
        offer.commitment,
        offer.committed_hours,
        offer.own,
    )
