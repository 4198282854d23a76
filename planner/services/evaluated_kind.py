"""One kind of machine of a service, computed from its names: replicas, capacity, price, starts, availability."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from planner import generation
from planner.evaluation.evaluated_bill import usd_of_terms
from planner.evaluation.evaluated_hours import group_market, spot_states
from planner.evaluation.evaluated_physics import techniques_of
from planner.evaluation.evaluated_stages import start_of_replicas
from planner.evaluation.named_run import NamedRun, RunContext
from planner.library.schema import Library
from planner.records import record
from planner.results.fleet import FleetKind
from planner.scenario.fees import fee_rate
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario
from planner.scenario.service_load import ServeJob
from planner.services.evaluated_queue import ReplicaQueue

if TYPE_CHECKING:
    from collections.abc import Mapping


@record(frozen=True)
class NamedKind:
    """Everything that decides the figures of a kind, as a search chooses it or as a plan states it."""

    offer: str  # label
    market: Literal["on demand", "spot", "committed"]
    engine: str
    weight_format: str
    kv_bits: int
    gpus_per_replica: int
    pipeline_parallel: int
    by_hour: tuple[int, ...]  # machines of each hour of the cycle

    @classmethod
    def of(cls, stated: FleetKind) -> NamedKind:
        """Return what a plan names."""
        return cls(**{name: getattr(stated, name) for name in cls.__annotations__})

    @property
    def starts(self) -> int:
        """Machines that are started in a cycle, against the hour before."""
        return sum(max(0, now - self.by_hour[hour - 1]) for hour, now in enumerate(self.by_hour))


def context_of_kind(
    named: NamedKind, job: ServeJob, scenario: Scenario, offers: Mapping[str, Offer], library: Library
) -> RunContext:
    """Return one machine of a kind with everything behind its names.

    Raises KeyError for names that lead nowhere, ValueError where the GPUs of a replica are no such division.
    """
    offer, tensor = offers[named.offer], named.gpus_per_replica // named.pipeline_parallel
    if tensor < 1 or tensor * named.pipeline_parallel != named.gpus_per_replica or offer.gpus % named.gpus_per_replica:
        raise ValueError(f"{named.gpus_per_replica} GPUs in {named.pipeline_parallel} groups, {offer.gpus} a machine")
    recipe = generation.serving_recipe(
        named.engine, named.weight_format, named.kv_bits, tensor, named.pipeline_parallel
    )
    run = NamedRun(
        name=job.name,
        offer=named.offer,
        instances=1,
        gpus=offer.gpus,
        gpus_per_instance=offer.gpus,
        techniques=techniques_of(recipe, job, 1, 1),
        spot_share=float(named.market == "spot"),
        kv_bits=named.kv_bits,
    )
    return RunContext(run, job, scenario, library.architecture(job.architecture), offer, offers, library)


@record(frozen=True)
class EvaluatedKind:
    """One machine of a kind: its replicas, and its hours and dollars."""

    named: NamedKind
    context: RunContext
    job: ServeJob

    @property
    def offer(self) -> Offer:
        """The offer of the machine."""
        return self.context.offer

    @property
    def replicas(self) -> int:
        """Replicas of the machine."""
        return self.offer.gpus // self.named.gpus_per_replica

    @cached_property
    def replica(self) -> generation.Replica:
        """Speed and memory of one replica."""
        return generation.Replica(self.context, self.job)

    @cached_property
    def queue(self) -> ReplicaQueue:
        """The requests at one replica."""
        return ReplicaQueue(self.replica, self.job)

    @cached_property
    def load(self) -> float:
        """Greatest load of one replica in the unit of the job: requests per second, or in flight in the mean."""
        rate, _ = self.queue.capacity
        return rate if self.job.load.concurrent is None else self.queue.flight(rate)

    @property
    def capacity(self) -> float:
        """Greatest load of the machine."""
        return self.load * self.replicas

    @property
    def pace(self) -> float:
        """Requests per second for each unit of the load, at the capacity."""
        return 1.0 if self.job.load.concurrent is None else self.queue.capacity[0] / self.load

    @property
    def is_on_spot(self) -> bool:
        """Whether the machine may be lost."""
        return self.named.market == "spot"

    @property
    def group(self) -> str:
        """What is lost together: spot machines with one GPU at one provider."""
        return f"{self.offer.provider}/{self.offer.card}"

    @cached_property
    def stays(self) -> tuple[float, float]:
        """Share of the time that the machine is there, and hours between its losses."""
        if not self.is_on_spot:
            return 1.0, math.inf
        return float(spot_states(self.context).availability()), float(group_market(self.context).mean_up)

    @property
    def answering(self) -> float:
        """Share of the time that the machine is there and has started since it came."""
        share, up = self.stays
        return share * math.exp(-self.start_hours / up)

    @cached_property
    def start_hours(self) -> float:
        """Hours from ordering a machine to its first answer."""
        given = self.job.cold_start_hours
        return start_of_replicas(self.context, self.named.gpus_per_replica)[0] if given is None else given

    @cached_property
    def billed_hours(self) -> tuple[float, float]:
        """Hours billed in an hour for which a machine is wanted, and for a start."""
        if self.named.market == "committed":
            return 1.0, 0.0
        (share, up), started = self.stays, self.start_hours + max(0.0, self.offer.billing.minimum_hours - 1.0)
        return (share * (1.0 + self.start_hours / up) if self.is_on_spot else 1.0), started

    @property
    def hourly_usd(self) -> float:
        """Dollars of an hour that is billed, with its fees; nan where the offer has no such price."""
        offer, fees = self.offer, fee_rate(self.offer.fees, "machine hours") or 0.0
        if self.named.market == "committed":
            if offer.commitment is None:
                return math.nan
            after = self.context.scenario.offer_after_term(offer)
            return usd_of_terms(offer, after, self.job.for_hours) / self.job.for_hours + fees
        usd = offer.spot_usd_per_hour if self.is_on_spot else offer.usd_per_hour
        return math.nan if usd is None else usd + fees

    @property
    def usd_per_hour(self) -> float:
        """Dollars of an hour for which the machine is wanted."""
        return self.hourly_usd * self.billed_hours[0]

    @property
    def start_usd(self) -> float:
        """Dollars of a start."""
        return self.hourly_usd * self.billed_hours[1]

    def latency(self, use: float) -> tuple[float, float]:
        """Return TTFT and TPOT that the asked share stays below, at a share of the capacity."""
        rate = use * self.queue.capacity[0]
        return self.queue.ttft(rate), self.queue.tpot(rate)

    def report(self, use: float) -> FleetKind:
        """Return the kind as a plan reports it, with its latency at a share of its capacity."""
        named, offer, recipe, (first, each) = self.named, self.offer, self.context.recipe, self.latency(use)
        return FleetKind(
            provider=offer.provider,
            region=offer.region,
            instance=offer.instance,
            offer=named.offer,
            market=named.market,
            gpu=offer.card,
            gpus=offer.gpus,
            engine=named.engine,
            weight_format=named.weight_format,
            weight_bits=recipe.weight_bits,
            kv_bits=named.kv_bits,
            gpus_per_replica=named.gpus_per_replica,
            pipeline_parallel=named.pipeline_parallel,
            replicas=self.replicas,
            capacity=self.capacity,
            binds=self.queue.capacity[1],
            usd_per_hour=self.usd_per_hour,
            start_hours=self.start_hours,
            start_usd=self.start_usd,
            availability=self.stays[0],
            ttft_seconds=first,
            tpot_seconds=each,
            committed=named.by_hour[0] if named.market == "committed" else 0,
            by_hour=named.by_hour,
        )
