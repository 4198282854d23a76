"""From the kinds of a service to the problem of its fleet, and from machines by the hour to its plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner import generation
from planner.arrays import Floats
from planner.candidates.market import Market
from planner.configurations.recipe import weights_to_make
from planner.decode.notes import age_in_days
from planner.formulation.program import Peak
from planner.library.names import hosted_name
from planner.library.schema import Library
from planner.results.fleet import Fleet, FleetBaseline, FleetKind, LatencyLimit, Service
from planner.results.inference import ApiPrice
from planner.results.plan_parts import BillItem
from planner.results.service_results import seconds_text
from planner.scenario.fees import FEE_UNITS, fees_that_count
from planner.scenario.peak_limits import PeakLimit, given_peaks
from planner.scenario.scenario import Scenario
from planner.scenario.service_load import ServeJob
from planner.services.fleet_kinds import ReplicaKind, ServedKinds
from planner.services.fleet_optimise import SimpleFleet, SolvedFleet, served_on_average
from planner.services.fleet_problem import FleetProblem, cycle_of, uses
from planner.services.replica_traffic import latency_at_use
from planner.units import HOUR, MEGA, MONTH_HOURS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence


def build_service(
    served: ServedKinds,
    problem: FleetProblem,
    solved: SolvedFleet,
    simple: Sequence[SimpleFleet],
    market: Market,
    library: Library,
    as_of: datetime.date,
) -> Service:
    """Return the service of a fleet that was found."""
    job, fleets = served.job, solved.fleets
    assert fleets is not None
    cycles = cycle_of(job.for_hours, problem.hours)
    used = np.flatnonzero(np.any(fleets > 0, axis=0)).tolist()
    offers = [market.offers[served.kinds[one].offer] for one in used]
    work = job.work
    usd = problem.cost(fleets) * cycles
    oldest = [age for offer in offers if (age := age_in_days(offer, as_of)) is not None]
    return Service(
        name=job.name,
        architecture=job.architecture,
        assumed=(*_default_limits(job), *_conversions(served, used, library)),
        for_hours=job.for_hours,
        input_tokens=work.total_input_tokens / work.total_requests,
        output_tokens=work.total_output_tokens / work.total_requests,
        prefix_tokens=work.prefix_tokens,
        cost_usd=usd,
        bound_usd=min(usd, solved.bound * cycles),
        price_date=max((offer.date_text for offer in offers), default=""),
        price_age_days=max(oldest, default=None),
        price_source="; ".join(dict.fromkeys(offer.source for offer in offers if offer.source)),
        kinds_made=len(served.kinds),
        kinds_left=solved.kept,
        fleet=_fleet(served, problem, fleets, simple, market, library),
        notes=_notes(served, used, library),
    )


def _fleet(
    served: ServedKinds,
    problem: FleetProblem,
    fleets: Floats,
    simple: Sequence[SimpleFleet],
    market: Market,
    library: Library,
) -> Fleet:
    """Return the fleet in figures."""
    job = served.job
    load, used = np.asarray(job.load.hourly), np.flatnonzero(np.any(fleets > 0, axis=0)).tolist()
    use = uses(fleets.tolist(), problem)
    fullest = float(np.max(use))
    full = np.full(len(served.speeds.which), min(fullest, 1.0))
    first, each = latency_at_use(job, served.speeds, library, full, served.capacities)
    kinds = tuple(_kind(served, market, one, fleets[:, one], (first, each)) for one in used)
    started = np.maximum(fleets - np.roll(fleets, 1, axis=0), 0.0)
    month = MONTH_HOURS / problem.hours
    usd = problem.cost(fleets) * month
    requests = requests_per_cycle(served, problem, fleets) * month
    tokens = (job.work.total_input_tokens + job.work.total_output_tokens) / job.work.total_requests
    able = fleets * problem.capacity
    spot = np.sum(able[:, problem.is_spot], axis=1) / np.maximum(np.sum(able, axis=1), 1e-300)
    limits = job.latency
    return Fleet(
        kinds=kinds,
        load=tuple(load.tolist()),
        unit=job.load.unit,
        use_by_hour=tuple(use.tolist()),
        use=float(np.average(use, weights=problem.load)) if np.sum(problem.load) else 0.0,
        replicas_by_hour=tuple((fleets @ problem.replicas).astype(int).tolist()),
        usd_per_month=usd,
        usd_per_million_tokens=usd / (requests * tokens) * MEGA,
        usd_per_thousand_requests=usd / requests * 1000.0,
        starts=int(np.sum(started)),
        start_usd=float(np.sum(started @ problem.start_usd)),
        fees=_fees(served, market, (fleets * month, started * month)),
        spot_share=float(np.average(spot, weights=load)) if np.sum(load) else 0.0,
        served_share=served_on_average(_of_used(served, problem, used), fleets),
        within_limits_share=limits.share,
        limits=_limits(job, kinds),
        baselines=tuple(_baseline(served, market, one, month) for one in simple),
        api=_api(job, market, usd, requests, _floor(problem, fleets) * MONTH_HOURS),
    )


def _fees(served: ServedKinds, market: Market, machines: tuple[Floats, Floats]) -> tuple[BillItem, ...]:
    """Return the fees by the machine hour, a line each; machines by hour and kind (hours, kinds): wanted, and started.

    A month of one machine that is always wanted, at $0.005: 730 h, $3.65.
    """
    lines = []
    wanted, started = (np.sum(machine, axis=0) for machine in machines)
    for fee in fees_that_count("machine hours"):
        rates = np.asarray([fee.rate(market.offers[kind.offer].fees) or 0.0 for kind in served.kinds], dtype=float)
        billed = np.asarray([kind.billed_hours for kind in served.kinds], dtype=float)
        hours = (wanted * billed[:, 0] + started * billed[:, 1]) * (rates > 0)
        if quantity := float(np.sum(hours)):
            usd, unit = float(hours @ rates), FEE_UNITS[fee.counts]
            lines.append(BillItem(item=fee.item, usd=usd, quantity=quantity, unit=unit, rate_usd=usd / quantity))
    return tuple(lines)


def _of_used(served: ServedKinds, problem: FleetProblem, used: Sequence[int]) -> FleetProblem:
    """Return the problem in which a spot group answers as often as the kinds of the fleet, not as all kinds of it."""
    there = problem.availability.copy()
    for group in set(problem.group[used].tolist()) - {-1}:
        there[group] = min(served.kinds[one].answering_share for one in used if problem.group[one] == group)
    return replace(problem, availability=there)


def _limits(job: ServeJob, kinds: Sequence[FleetKind]) -> tuple[LatencyLimit, ...]:
    """Return the limits on latency with what is predicted of the slowest kind."""
    first, each = max(kind.ttft_seconds for kind in kinds), max(kind.tpot_seconds for kind in kinds)
    return (
        LatencyLimit(name="ttft", limit_seconds=job.latency.ttft_seconds, predicted_seconds=first),
        LatencyLimit(name="tpot", limit_seconds=job.latency.tpot_seconds, predicted_seconds=each),
    )


def _baseline(served: ServedKinds, market: Market, one: SimpleFleet, month: float) -> FleetBaseline:
    """Return a simpler fleet with its dollars of a month, `month` cycles long."""
    machines = "" if one.kind < 0 else _machines(served, market, one)
    return FleetBaseline(name=one.name, usd_per_month=None if one.usd is None else one.usd * month, machines=machines)


def _machines(served: ServedKinds, market: Market, one: SimpleFleet) -> str:
    offer = market.offers[served.kinds[one.kind].offer]
    return f"{one.machines * offer.gpus:,} x {offer.card} at {offer.provider}"


def requests_per_cycle(served: ServedKinds, problem: FleetProblem, fleets: Floats) -> float:
    """Return the requests of a cycle; those in flight are answered as fast as at the capacity of their machines."""
    if served.job.load.concurrent is None:
        return float(np.sum(served.job.load.hourly)) * HOUR
    each = [
        served.capacities.rate[kind.which] / max(served.capacities.flight[kind.which], 1e-300) for kind in served.kinds
    ]
    able = fleets * problem.capacity
    pace = (able @ np.asarray(each)) / np.maximum(np.sum(able, axis=1), 1e-300)
    return float(np.sum(np.asarray(served.job.load.hourly) * pace)) * HOUR


def _default_limits(job: ServeJob) -> tuple[str, ...]:
    """Return the limits on latency that nobody gave, and the keys that change them."""
    latency, keys = job.latency, job.latency.by_default
    words = {"ttft": "first token within", "tpot": "each further token within"}
    told = [f"{words[key]} {seconds_text(getattr(latency, f'{key}_seconds'))}" for key in keys]
    where = " and ".join(f"jobs.{job.name}.latency.{key}" for key in keys)
    return (f"by default: {', '.join(told)}; {where} change{'s' * (len(keys) == 1)} that",) if keys else ()


def _conversions(served: ServedKinds, used: Sequence[int], library: Library) -> tuple[str, ...]:
    """Return what of the weights of the fleet a user must make, each once."""
    architecture, found = library.architecture(served.job.architecture), list[str]()
    for place in used:
        recipe = served.recipe(served.kinds[place])
        gpu = library.gpu(served.speeds.which[served.kinds[place].which].gpu)
        made = weights_to_make(served.job, recipe, architecture, gpu)
        found += [made] if made is not None else []
    return tuple(dict.fromkeys(found))


def _floor(problem: FleetProblem, fleets: Floats) -> float:
    """Return the dollars of the cheapest hour of the fleet: what stands however few requests come."""
    return float(np.min(fleets @ problem.usd))


def _kind(
    served: ServedKinds, market: Market, place: int, machines: Floats, latency: tuple[Floats, Floats]
) -> FleetKind:
    """Return one kind of a fleet."""
    kind = served.kinds[place]
    offer, recipe = market.offers[kind.offer], served.recipe(kind)
    return FleetKind(
        provider=offer.provider,
        region=offer.region,
        instance=offer.instance,
        offer=market.labels[kind.offer],
        market=kind.market,
        gpu=offer.card,
        gpus=offer.gpus,
        engine=recipe.framework,
        weight_format=recipe.quant,
        weight_bits=recipe.weight_bits,
        kv_bits=recipe.kv_bits,
        gpus_per_replica=recipe.tensor_parallel * recipe.pipeline_parallel,
        pipeline_parallel=recipe.pipeline_parallel,
        replicas=kind.replicas,
        capacity=kind.capacity,
        binds=served.binding(kind),
        usd_per_hour=kind.usd_per_hour,
        start_hours=kind.start_hours,
        start_usd=kind.start_usd,
        availability=kind.availability,
        ttft_seconds=float(latency[0][kind.which]),
        tpot_seconds=float(latency[1][kind.which]),
        committed=int(machines[0]) if kind.market == "committed" else 0,
        by_hour=tuple(machines.astype(int).tolist()),
    )


def _api(job: ServeJob, market: Market, usd: float, requests: float, standing: float) -> tuple[ApiPrice, ...]:
    """Return the services that answer with the model for the tokens of a month, cheapest first.

    A fleet pays from standing / (dollars of a request at the service) requests a month on, where a request at the
    fleet's full load costs less; `standing` is what the fleet of its quietest hour costs for a month.
    """
    work, found = job.work, []
    for label, offer in zip(market.labels, market.offers, strict=True):
        one = offer.managed
        if one is None or not one.answers or hosted_name(job.architecture) not in one.architectures:
            continue
        each_in, each_out = one.usd_per_million_input_tokens or 0.0, one.usd_per_million_output_tokens or 0.0
        each = (each_in * work.total_input_tokens + each_out * work.total_output_tokens) / MEGA / work.total_requests
        found.append(
            ApiPrice(
                offer=label,
                usd=each * requests,
                usd_per_thousand_requests=each * 1000.0,
                hosts_tuned=one.hosts_tuned,
                pays_from_requests=standing / each if each * requests > usd else None,
                source=offer.source,
            )
        )
    return tuple(sorted(found, key=lambda one: (one.usd, one.offer)))


def _notes(served: ServedKinds, used: Sequence[int], library: Library) -> tuple[str, ...]:
    """Return what the figures rest on."""
    coefficients = library.calibrations["inference"].coefficients
    priors = [
        part
        for one in used
        for part in generation.prior_parts(
            coefficients,
            served.recipe(served.kinds[one]).framework,
            served.recipe(served.kinds[one]).engine.label,
            served.speeds.which[served.kinds[one].which].gpu,
            served.recipe(served.kinds[one]).quant,
        )
    ]
    notes = [f"no published measurements inform {', '.join(dict.fromkeys(priors))}: a prior"] if priors else []
    slow = max(float(served.capacities.slow[served.kinds[one].which]) for one in used)
    sure = math.floor(served.job.confidence * 100)
    notes.append(f"latency limits hold with {sure} % probability: estimated times are multiplied by {slow:.2f}")
    if any(served.kinds[one].market == "spot" for one in used):
        notes.append("what the others cannot carry while a spot group is lost is refused, not queued")
    return (*notes, generation.ROUGH_BATCHES)


# From the kinds of a service to the problem of its fleet.


def _peak(limit: PeakLimit, most: float, kinds: Sequence[ReplicaKind], market: Market) -> Peak:
    """Return a limit on what is used at one time, with what one machine of each kind uses."""
    if limit.is_of_dollars:
        return Peak(limit.key, most, np.asarray([kind.usd_per_hour for kind in kinds], dtype=float))
    return Peak(limit.key, most, market.use_of(limit)[[kind.offer for kind in kinds]])


def fleet_problem(served: ServedKinds, market: Market, scenario: Scenario) -> FleetProblem:
    """Return the problem of one job on the limits of its scenario."""
    job, limits, kinds = served.job, scenario.limits, served.kinds
    groups = {name: index for index, name in enumerate(dict.fromkeys(kind.group for kind in kinds if kind.group))}
    available = [1.0] * len(groups)
    for kind in kinds:
        if kind.group:
            available[groups[kind.group]] = min(available[groups[kind.group]], kind.answering_share)
    providers = {name: index for index, name in enumerate(market.providers)}
    load = np.asarray(job.load.hourly, dtype=float)
    offers = [market.offers[kind.offer] for kind in kinds]
    return FleetProblem(
        load=load * (1.0 + job.headroom),
        capacity=np.asarray([kind.capacity for kind in kinds], dtype=float),
        usd=np.asarray([kind.usd_per_hour for kind in kinds], dtype=float),
        start_usd=np.asarray([kind.start_usd for kind in kinds], dtype=float),
        gpus=np.asarray([offer.gpus for offer in offers], dtype=np.int64),
        replicas=np.asarray([kind.replicas for kind in kinds], dtype=np.int64),
        committed=np.asarray([kind.market == "committed" for kind in kinds], dtype=bool),
        offer=np.asarray([kind.offer for kind in kinds], dtype=np.int64),
        provider=np.asarray([providers[offer.provider] for offer in offers], dtype=np.int64),
        group=np.asarray([groups.get(kind.group, -1) for kind in kinds], dtype=np.int64),
        availability=np.asarray(available, dtype=float),
        served_share=job.latency.share,
        stock={index: offer.stock for index, offer in enumerate(market.offers) if offer.stock is not None},
        quota={providers[name]: most for name, most in limits.quota.items() if name in providers},
        min_replicas=job.replicas.min,
        peaks=tuple(_peak(limit, most, kinds, market) for limit, most in given_peaks(limits)),
        budget_usd=None if limits.budget_usd is None else limits.budget_usd / cycle_of(job.for_hours, len(load)),
        most_on_spot=limits.spot_share.max,
        least_on_spot=limits.spot_share.min,
    )
