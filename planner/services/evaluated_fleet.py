"""A service in plain floats, from its names: each kind and its queue, the machines of each hour, dollars, latency.

One configuration at a time: arrays have one row, which is the replica, or a place for each length of the requests.

Only what names the fleet is given: each kind and its machines of each hour. Nothing of how it was found is known here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner import generation
from planner.arrays import Floats
from planner.estimates.generation import CHUNK_TOKENS, decode_step_seconds, prompt_seconds
from planner.estimates.latency import (
    MOST_BUSY,
    BatchMeans,
    FirstTokens,
    Lengths,
    Places,
    Present,
    PromptMix,
    TokenTimes,
    batch_means,
    gamma_quantile,
    mean_cycle_seconds,
    token_seconds_quantile,
    wait_moments,
    wait_points,
)
from planner.estimates.uncertainty import confidence_factor
from planner.evaluation.evaluate import usd_of_terms
from planner.evaluation.evaluated_hours import group_market, spot_states
from planner.evaluation.evaluated_physics import NamedRun, RunContext, techniques_of
from planner.evaluation.evaluated_stages import start_of_replicas
from planner.library.schema import Library
from planner.results.fleet import ApiPrice, Fleet, FleetKind, LatencyLimit, Service
from planner.results.plan_parts import BillItem
from planner.scenario.inference_job import ServeJob
from planner.scenario.offer import FEE_UNITS, Offer, fee_rate, fees_that_count
from planner.scenario.scenario import Scenario
from planner.units import HOUR, MEGA, MONTH_HOURS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence


MOST_LENGTHS = 24
"""Lengths that are distinguished; a longer table is joined into as many groups of neighbours."""


def grouped_lengths(lengths: Lengths) -> Lengths:
    """Return the lengths, at most MOST_LENGTHS of them: neighbours in total length are joined at their mean."""
    count = np.asarray(lengths.count, dtype=float)
    if len(count) <= MOST_LENGTHS:
        return lengths
    order = np.lexsort((lengths.prompt, lengths.prompt + lengths.output))
    group = np.minimum((np.cumsum(count[order]) - count[order] / 2.0) / np.sum(count) * MOST_LENGTHS, MOST_LENGTHS - 1)
    group = group.astype(int)
    whole = np.bincount(group, weights=count[order])
    prompt, output = (
        np.bincount(group, weights=tokens[order] * count[order]) / np.maximum(whole, 1e-300)
        for tokens in (lengths.prompt, lengths.output)
    )
    some = whole > 0
    return Lengths(prompt[some], output[some], whole[some], lengths.prefix)


CAPACITY_HALVINGS = 30
BEYOND = 1.001
"""Factor on a capacity at which is asked whether places alone hold it."""
LEAST_USE = 1e-5
"""Share of its greatest rate below which a replica is of no use."""


@dataclass(frozen=True)
class ReplicaQueue:
    """Requests of a service at one replica; all times are seconds at the confidence of the job."""

    replica: generation.Replica
    job: ServeJob

    @cached_property
    def slow(self) -> float:
        """Factor on all estimated times."""
        certain = float(confidence_factor(self.replica.sigmas.tail, self.job.confidence))
        return certain / (self.job.efficiency * self.replica.factor)

    @cached_property
    def lengths(self) -> Lengths:
        """Requests by length (c,), neighbours joined where there are many."""
        return grouped_lengths(generation.lengths_of(self.job))

    @cached_property
    def means(self) -> BatchMeans:
        """What a request needs in the mean."""
        model, hardware, stack = self.replica.inputs
        return batch_means(model, hardware, stack, self.lengths)

    @cached_property
    def prompts(self) -> PromptMix:
        """Prompts by length, and the seconds of them that fit into one step."""
        (model, hardware, stack), lengths = self.replica.inputs, self.lengths
        own, share = lengths.prompt - lengths.prefix, lengths.count / lengths.requests
        seconds = (prompt_seconds(model, hardware, own, lengths.prefix) + stack.request_seconds) * self.slow
        tokens = np.maximum(own, 1.0)
        most = float(seconds @ share) / float(tokens @ share) * CHUNK_TOKENS
        return PromptMix(share, seconds[None, :], np.ceil(tokens / CHUNK_TOKENS), np.array([most]))

    @cached_property
    def arrival(self) -> float:
        """Seconds from sending a request to its turn, in which others go on."""
        return float(self.replica.inputs[2].arrival_seconds[0]) * self.slow

    def hold(self, flight: Floats) -> Floats:
        """Return the mean seconds (k,) for which a request has a place among `flight` (k,), itself one of them."""
        model, hardware, stack = self.replica.inputs
        seconds = mean_cycle_seconds(model, hardware, stack, self.means, flight[None, :])
        return np.asarray(seconds[0] * self.slow - self.arrival, dtype=float)

    def step(self, flight: Floats) -> Floats:
        """Return the seconds (1,) of a step without prompts."""
        model, hardware, stack = self.replica.inputs
        seconds = decode_step_seconds(model, hardware, stack, flight, self.means.context)
        return np.asarray(seconds * self.slow, dtype=float)

    @cached_property
    def places(self) -> float:
        """Requests in flight that memory and engine allow in the mean; ValueError where the longest does not fit."""
        if not self.replica.fitting:
            raise ValueError("the longest request does not fit")
        tokens = float(self.means.cached_tokens[0])
        most = self.replica.most
        return float(min(max(math.floor(self.replica.memory["cache"] / (tokens * self.replica.token_bytes)), 1), most))

    @cached_property
    def queue(self) -> Places:
        """The places, and what a request takes while so many are taken."""
        return Places.of(np.array([self.places]), self.hold(np.arange(1.0, self.places + 1.0))[None, :])

    @property
    def greatest(self) -> float:
        """Requests per second of a saturated replica."""
        return float(self.queue.greatest[0])

    def present(self, rate: float) -> Present:
        """Return the requests that are there at a rate, in requests per second as all rates here."""
        return self.queue.present(np.array([rate]))

    def flight(self, rate: float) -> float:
        """Return the mean number of requests that have a place."""
        return float(self.present(rate).flight[0])

    def tpot(self, rate: float) -> float:
        """Return the time per token that the asked share stays below. The prompt of a request is before its own."""
        present, mean, output = self.present(rate), self.prompts.mean, self.means.output
        met, width = present.met, np.maximum(0.05 * present.met, 0.05)
        alone, inside, beyond = self.hold(np.concatenate([np.ones(1), met, met + width]))
        times = TokenTimes(
            share=self.prompts.share,
            output=np.asarray(self.lengths.output, dtype=float),
            rate=(met - 1.0) / inside,
            others=met - 1.0,
            variance=present.variance,
            token=(inside - mean) / output,
            alone=(alone - mean) / output,
            slope=np.maximum((beyond - inside) / width - mean, 0.0) / output,
            prompt=mean,
            prompt_square=self.prompts.mean_square,
        )
        return float(token_seconds_quantile(self.job.latency.share, times)[0])

    def first_tokens(self, rate: float) -> FirstTokens:
        """Return when requests that have a place have their first token, arrival left out."""
        present = self.present(rate)
        many = gamma_quantile(self.job.latency.share, present.flight, np.maximum(present.variance, 1e-12))
        passing = (present.met - 1.0) / self.hold(present.met)
        return FirstTokens.of(self.prompts, passing, self.step(np.minimum(many, self.places)))

    def waits(self, rate: float) -> tuple[Floats, Floats]:
        """Return waits (1, p) for a place, and the shares (1, p) of the requests that wait so long."""
        present = self.present(rate)
        token = (self.queue.full - self.prompts.mean) / self.means.output
        seconds = self.prompts.seconds + token * self.lengths.output
        return wait_points(present, *wait_moments(self.queue.number, present.use, seconds, self.prompts.share))

    def ttft(self, rate: float) -> float:
        """Return the time to the first token that the asked share stays below."""
        quantile = self.first_tokens(rate).quantile(self.job.latency.share, *self.waits(rate))
        return float(quantile[0]) + self.arrival

    def in_time(self, rate: float, limit: float, waits: bool = True) -> float:
        """Return the share of the requests with a first token within a limit; without `waits` for a place."""
        places = self.waits(rate) if waits else (np.zeros((1, 1)), np.ones((1, 1)))
        return float(self.first_tokens(rate).within(np.array([limit - self.arrival]), *places)[0])

    @cached_property
    def capacity(self) -> tuple[float, str]:
        """Greatest requests per second within all limits, 0 where none is of use, and the limit that holds them.

        A wait for a place holds them where requests that have one would be in time.
        """
        limits, rate, binds = self.job.latency, MOST_BUSY * self.greatest, "compute"
        per_token, first = limits.tpot_seconds, limits.ttft_seconds
        if per_token is not None:
            kept = greatest_rate(lambda at: self.tpot(at) <= per_token, rate)
            rate, binds = kept, "TPOT" if kept < rate else binds
        if first is not None:
            kept = greatest_rate(lambda at: self.in_time(at, first) >= limits.share, rate)
            if kept < rate:
                rate, placed = kept, self.in_time(kept * BEYOND, first, waits=False) >= limits.share
                binds = "KV" if placed else "TTFT"
        return (rate, binds) if rate > LEAST_USE * self.greatest else (0.0, binds)


def greatest_rate(keeps: Callable[[float], bool], most: float) -> float:
    """Return the greatest rate up to `most` that keeps a limit."""
    if keeps(most):
        return most
    low, high = 0.0, most
    for _ in range(CAPACITY_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        named, offer, recipe, (first, per_token) = self.named, self.offer, self.context.recipe, self.latency(use)
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
            tpot_seconds=per_token,
            committed=named.by_hour[0] if named.market == "committed" else 0,
            by_hour=named.by_hour,
        )


MOST_INDEPENDENT = 12
"""Spot groups of an hour that are lost on their own; smaller ones beyond that are never counted."""


@dataclass(frozen=True)
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
        return [math.fsum(amount * count for amount, count in zip(figures, hour, strict=True)) for hour in machines]

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
            if hours := math.fsum(amount for amount, _ in paid) * cycles:
                usd, unit = math.fsum(amount * rate for amount, rate in paid) * cycles, FEE_UNITS[fee.counts]
                lines.append(BillItem(item=fee.item, usd=usd, quantity=hours, unit=unit, rate_usd=usd / hours))
        return tuple(lines)

    def api(self) -> tuple[ApiPrice, ...]:
        """Return the services that answer with the model for the tokens of a month, cheapest first.

        From which load a fleet costs less is not known here: that of another load has other machines.
        """
        prices, requests = [], self.requests * MONTH_HOURS / self.hours
        for label, offer, price, all_usd in generation.usd_by_the_token(self.job, self.offers):
            usd_of_request = all_usd / self.job.work.total_requests
            prices.append(
                ApiPrice(
                    offer=label,
                    usd=usd_of_request * requests,
                    usd_per_thousand_requests=usd_of_request * 1000.0,
                    hosts_tuned=price.hosts_tuned,
                    pays_from_requests=None,
                    source=offer.source,
                )
            )
        return tuple(sorted(prices, key=lambda price: (price.usd, price.offer)))

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
    first, per_token = max(kind.ttft_seconds for kind in kinds), max(kind.tpot_seconds for kind in kinds)
    return (
        LatencyLimit(name="ttft", limit_seconds=job.latency.ttft_seconds, predicted_seconds=first),
        LatencyLimit(name="tpot", limit_seconds=job.latency.tpot_seconds, predicted_seconds=per_token),
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
