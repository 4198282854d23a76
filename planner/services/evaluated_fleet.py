"""A service computed from its names: machines of each hour, dollars, starts, shares, latency, prices by the token.

Only what names the fleet is given: each kind and its machines of each hour. Nothing of how it was found is known here.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from planner import generation
from planner.library.schema import Library
from planner.records import record
from planner.results.fleet import Fleet, FleetKind, LatencyLimit, Service
from planner.results.inference import ApiPrice
from planner.results.plan_parts import BillItem
from planner.scenario.fees import FEE_UNITS, fees_that_count
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario
from planner.scenario.service_load import ServeJob
from planner.services.evaluated_kind import EvaluatedKind, NamedKind, context_of_kind
from planner.units import HOUR, MEGA, MONTH_HOURS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence

MOST_INDEPENDENT = 12
"""Spot groups of an hour that are lost on their own; smaller ones beyond that are never counted."""


@record(frozen=True)
class EvaluatedFleet:
    """The kinds of a service with everything behind their names; lists have an element for each hour of the cycle."""

    job: ServeJob
    offers: Mapping[str, Offer]  # label -> every offer of the scenario
    kinds: tuple[EvaluatedKind, ...]

    @cached_property
    def load(self) -> list[float]:
        """Load that must be carried, headroom among it."""
        return [load * (1.0 + self.job.headroom) for load in self.job.load.hourly]

    @property
    def hours(self) -> int:
        """Hours of a cycle."""
        return len(self.load)

    def summed(self, figure: Callable[[EvaluatedKind], float]) -> list[float]:
        """Return a figure of one machine, summed over the machines."""
        figures = [figure(kind) for kind in self.kinds]
        machines = zip(*(kind.named.by_hour for kind in self.kinds), strict=True)
        return [math.fsum(each * count for each, count in zip(figures, hour, strict=True)) for hour in machines]

    @cached_property
    def able(self) -> list[float]:
        """Load that the machines carry."""
        return self.summed(lambda kind: kind.capacity)

    @cached_property
    def on_spot(self) -> list[float]:
        """Load that the machines on spot carry."""
        return self.summed(lambda kind: kind.capacity * kind.is_on_spot)

    @cached_property
    def use(self) -> list[float]:
        """Load over capacity; 0 where there is no machine."""
        return [load / able if able else 0.0 for load, able in zip(self.load, self.able, strict=True)]

    @cached_property
    def replicas(self) -> list[int]:
        """Replicas that stand."""
        return [round(standing) for standing in self.summed(lambda kind: kind.replicas)]

    def mean_by_load(self, shares: Sequence[float]) -> float:
        """Return the mean of hourly shares, each hour as often as it has load."""
        return math.fsum(load * share for load, share in zip(self.load, shares, strict=True)) / math.fsum(self.load)

    @cached_property
    def requests(self) -> float:
        """Requests of a cycle; those in flight are answered as fast as at the capacity of their machines."""
        answered = self.summed(lambda kind: kind.pace * kind.capacity)
        rates = zip(self.job.load.hourly, answered, self.able, strict=True)
        return math.fsum(load * (rate / able if able else 0.0) for load, rate, able in rates) * HOUR

    @cached_property
    def start_usd(self) -> float:
        """Dollars of the starts of a cycle."""
        return math.fsum(kind.named.starts * kind.start_usd for kind in self.kinds)

    @cached_property
    def usd_by_hour(self) -> list[float]:
        """Dollars of the machines, without starts."""
        return self.summed(lambda kind: kind.usd_per_hour)

    @property
    def usd(self) -> float:
        """Dollars of a cycle."""
        return math.fsum(self.usd_by_hour) + self.start_usd

    @cached_property
    def served(self) -> list[float]:
        """Share of the load that is served on average."""
        return [self._served_in(hour) for hour in range(self.hours)]

    def _served_in(self, hour: int) -> float:
        """Return the share of an hour's load that is served: each spot group is lost on its own, all cases together."""
        wanted, groups, there = self.load[hour], dict[str, float](), dict[str, float]()
        if not wanted:
            return 1.0
        for kind in self.kinds:
            if kind.is_on_spot:
                there[kind.group] = min(there.get(kind.group, 1.0), kind.answering)
                groups[kind.group] = groups.get(kind.group, 0.0) + kind.capacity * kind.named.by_hour[hour]
        cases = [(1.0, self.able[hour] - self.on_spot[hour])]
        for name in sorted(groups, key=lambda group: -groups[group])[:MOST_INDEPENDENT]:
            cases = [
                case
                for likely, able in cases
                for case in ((likely * there[name], able + groups[name]), (likely * (1.0 - there[name]), able))
            ]
        return math.fsum(likely * min(1.0, able / wanted) for likely, able in cases)

    def fees(self) -> tuple[BillItem, ...]:
        """Return the fees by the machine hour of a month, a line each.

        One machine that is always wanted, at $0.005: 730 h, $3.65.
        """
        lines, cycles = [], MONTH_HOURS / self.hours
        for fee in fees_that_count("machine hours"):
            paid = [(_billed_hours(kind), rate) for kind in self.kinds if (rate := fee.rate(kind.offer.fees))]
            if hours := math.fsum(each for each, _ in paid) * cycles:
                usd, unit = math.fsum(each * rate for each, rate in paid) * cycles, FEE_UNITS[fee.counts]
                lines.append(BillItem(item=fee.item, usd=usd, quantity=hours, unit=unit, rate_usd=usd / hours))
        return tuple(lines)

    def api(self) -> tuple[ApiPrice, ...]:
        """Return the services that answer with the model for the tokens of a month, cheapest first.

        From which load a fleet costs less is not known here: that of another load has other machines.
        """
        found, requests = [], self.requests * MONTH_HOURS / self.hours
        for label, offer, price, all_usd in generation.usd_by_the_token(self.job, self.offers):
            each = all_usd / self.job.work.total_requests
            found.append(
                ApiPrice(
                    offer=label,
                    usd=each * requests,
                    usd_per_thousand_requests=each * 1000.0,
                    hosts_tuned=price.hosts_tuned,
                    pays_from_requests=None,
                    source=offer.source,
                )
            )
        return tuple(sorted(found, key=lambda price: (price.usd, price.offer)))

    def report(self) -> Fleet:
        """Return the fleet as a plan reports it; simpler fleets beside it are not known here."""
        cycles, work, share = MONTH_HOURS / self.hours, self.job.work, self.job.latency.share
        usd, requests = self.usd * cycles, self.requests * cycles
        tokens = (work.total_input_tokens + work.total_output_tokens) / work.total_requests
        kinds = tuple(kind.report(min(max(self.use), 1.0)) for kind in self.kinds)
        return Fleet(
            kinds=kinds,
            load=self.job.load.hourly,
            unit=self.job.load.unit,
            use_by_hour=tuple(self.use),
            use=self.mean_by_load(self.use),
            replicas_by_hour=tuple(self.replicas),
            usd_per_month=usd,
            usd_per_million_tokens=usd / (requests * tokens) * MEGA,
            usd_per_thousand_requests=usd / requests * 1000.0,
            starts=sum(kind.named.starts for kind in self.kinds),
            start_usd=self.start_usd,
            fees=self.fees(),
            spot_share=self.mean_by_load(
                [spot / able if able else 0.0 for spot, able in zip(self.on_spot, self.able, strict=True)]
            ),
            served_share=self.mean_by_load(self.served),
            within_limits_share=share,
            limits=_limits(self.job, kinds),
            api=self.api(),
        )


def _billed_hours(kind: EvaluatedKind) -> float:
    """Return the machine hours of a cycle that are billed: wanted, and started."""
    wanted, started = kind.billed_hours
    return wanted * sum(kind.named.by_hour) + started * kind.named.starts


def _limits(job: ServeJob, kinds: Sequence[FleetKind]) -> tuple[LatencyLimit, ...]:
    """Return the limits on latency with what is predicted of the slowest kind."""
    first, each = max(kind.ttft_seconds for kind in kinds), max(kind.tpot_seconds for kind in kinds)
    return (
        LatencyLimit(name="ttft", limit_seconds=job.latency.ttft_seconds, predicted_seconds=first),
        LatencyLimit(name="tpot", limit_seconds=job.latency.tpot_seconds, predicted_seconds=each),
    )


def evaluate_fleet(kinds: Sequence[NamedKind], job: ServeJob, scenario: Scenario, library: Library) -> EvaluatedFleet:
    """Return the fleet of a job that names make.

    Raises KeyError for names that lead nowhere, ValueError for a division or hours that are none.
    """
    offers = dict(scenario.labelled_offers())
    if not kinds or any(len(kind.by_hour) != len(job.load.hourly) for kind in kinds):
        raise ValueError("a kind has no number of machines for each hour")
    evaluated = (EvaluatedKind(kind, context_of_kind(kind, job, scenario, offers, library), job) for kind in kinds)
    return EvaluatedFleet(job, offers, tuple(evaluated))


def evaluate_service(fleet: EvaluatedFleet, as_of: datetime.date) -> Service:
    """Return what a plan says of a service and its names decide.

    Not known here: the bound below it, how many kinds there were, when it starts, simpler fleets, looser limits, words.
    """
    job, work, offers = fleet.job, fleet.job.work, [kind.offer for kind in fleet.kinds]
    usd = fleet.usd * job.for_hours / fleet.hours
    return Service(
        name=job.name,
        architecture=job.architecture,
        for_hours=job.for_hours,
        input_tokens=work.total_input_tokens / work.total_requests,
        output_tokens=work.total_output_tokens / work.total_requests,
        prefix_tokens=work.prefix_tokens,
        cost_usd=usd,
        outlay_usd=math.fsum(kind.offer.outlay_usd * max(kind.named.by_hour) for kind in fleet.kinds),
        bound_usd=usd,
        price_date=max(offer.date_text for offer in offers),
        price_age_days=max(((as_of - offer.first_date).days for offer in offers if offer.first_date), default=None),
        price_source="; ".join(dict.fromkeys(offer.source for offer in offers if offer.source)),
        fleet=fleet.report(),
    )
