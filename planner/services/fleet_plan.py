"""From the kinds of a service to the problem of its fleet, and from machines by the hour to its plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import Floats, Integers
from planner.candidates.market import Market
from planner.configurations.grid import prompt_notes
from planner.configurations.recipe import weights_to_make
from planner.errors import AuditError
from planner.evaluation.comparison import Violation, compare, unit_of
from planner.formulation.program import Peak
from planner.library.schema import Library
from planner.results.fleet import FleetBaseline, FleetKind, Service
from planner.results.plan_parts import Option
from planner.results.service_results import seconds_text
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import PeakLimit, given_peaks
from planner.scenario.scenario import Scenario
from planner.services.evaluated_fleet import EvaluatedFleet, EvaluatedKind, NamedKind, evaluate_fleet, evaluate_service
from planner.services.fleet_kinds import ReplicaKind, ServedKinds, Traffic
from planner.services.fleet_optimise import FLEET_GAP, SimpleFleet, SolvedFleet, optimise_fleet, served_on_average
from planner.services.fleet_problem import FleetProblem, cycle_of
from planner.solving.binding_limits import bracket
from planner.solving.chosen import SEARCH_TOLERANCE
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from planner.results.fleet import ApiPrice
    from planner.scenario.scenario import SolveOptions


MORE_LOAD = (1.0, 10.0)
"""Multiples of the load at which a fleet may cost less than a service by the token, the least first."""
LEAST_LOAD = 1e-4
"""Multiple of the load below which nothing is searched."""
MOST_LOAD_PROOFS = 6
"""Most fleets of all kinds that one search takes to prove its result; they seldom are more than two."""


class FoundFleet(NamedTuple):
    """A fleet that was found for a problem, and simpler ones."""

    problem: FleetProblem
    solved: SolvedFleet
    simple: Sequence[SimpleFleet]


def build_service(
    served: ServedKinds, found: FoundFleet, market: Market, scenario: Scenario, library: Library, as_of: datetime.date
) -> Service:
    """Return the service of a fleet that was found: the figures of what the fleet names, and notes.

    Raises AuditError where the search has other figures of its kinds: one of the two is wrong.
    """
    job, problem, fleets = served.job, found.problem, found.solved.fleets
    assert fleets is not None
    used = np.flatnonzero(np.any(fleets > 0, axis=0)).tolist()
    fleet = evaluate_fleet(named_kinds(served, market, fleets, used), job, scenario, library)
    made = evaluate_service(fleet, as_of)
    if wrong := compare_with_search(fleet, made, served, problem, fleets):
        differences = "; ".join(str(violation) for violation in wrong[:5])
        raise AuditError(f"the plan is not the fleet that the search chose: {differences}")
    month = MONTH_HOURS / problem.hours
    baselines = tuple(_baseline(served, market, simple, month) for simple in found.simple)
    any_mix = _any_mix(served, market, found, month)
    others = {
        "assumed": (*_default_limits(job), *_conversions(served, used, library)),
        "bound_usd": min(made.cost_usd, found.solved.bound * cycle_of(job.for_hours, problem.hours)),
        "kinds_made": len(served.kinds),
        "kinds_left": found.solved.kept,
        "fleet": made.fleet.model_copy(update={"baselines": baselines, "any_mix": any_mix}),
        "notes": _notes(served, used, library),
    }
    return made.model_copy(update=others)


class _LoadedFleets:
    """The cheapest fleets (hours, kinds) of multiples of a load, with their dollars of a month; without the budget."""

    def __init__(self, problem: FleetProblem, options: SolveOptions) -> None:
        self._problem, self._options = replace(problem, budget_usd=None), options
        self._month = MONTH_HOURS / problem.hours
        self._all = dict[float, tuple[float, Floats]]()
        self._few: NDArray[np.bool_] = np.zeros(problem.kinds, dtype=bool)  # kinds that were cheapest at some load

    def of_all(self, factor: float) -> float:
        """Return the dollars on all kinds; those that are used are of the few from then on."""
        if factor not in self._all:
            self._all[factor] = self._fleets(factor, np.ones(self._problem.kinds, dtype=bool))
            self._few |= np.any(self._all[factor][1] > 0, axis=0)
        return self._all[factor][0]

    def of_few(self, factor: float) -> tuple[float, Floats]:
        """Return the dollars and the fleets on the kinds that were cheapest at some load."""
        return self._fleets(factor, self._few)

    def _fleets(self, factor: float, kinds: NDArray[np.bool_]) -> tuple[float, Floats]:
        problem = replace(self._problem, load=self._problem.load * factor).choosing(kinds)
        fleets, whole = optimise_fleet(problem, self._options).fleets, np.zeros((problem.hours, len(kinds)))
        if fleets is None:
            return math.inf, whole
        whole[:, kinds] = fleets
        return problem.cost(fleets) * self._month, whole


def with_paying_loads(
    service: Service, served: ServedKinds, problem: FleetProblem, market: Market, options: SolveOptions
) -> Service:
    """Return the service with the requests of a month from which a fleet costs less than each service by the token.

    The load of every hour is scaled, and the fleet of each load is solved for. A fleet of thousands of kinds takes
    much longer than one of a few, so that the load is searched among those that were cheapest at some load, and proven
    by a fleet of all kinds just below it, as `planner/solving/binding_limits.py` does.
    """
    loaded = _LoadedFleets(problem, options)
    requests = service.fleet.usd_per_month / service.fleet.usd_per_thousand_requests * 1000.0

    def paying(price: ApiPrice) -> ApiPrice:
        top = next((factor for factor in MORE_LOAD if loaded.of_all(factor) < price.usd * factor), None)
        if top is None:
            return price
        if loaded.of_all(LEAST_LOAD) < price.usd * LEAST_LOAD:
            return price.model_copy(update={"pays_from_requests": 0.0})
        for _ in range(MOST_LOAD_PROOFS):
            low, high = bracket(lambda factor: loaded.of_few(factor)[0] - price.usd * factor, LEAST_LOAD, top)
            if loaded.of_all(low) >= price.usd * low:
                machines = _main_kind(served, market, *loaded.of_few(high))
                return price.model_copy(update={"pays_from_requests": high * requests, "pays_on": machines})
            top = low
        return price

    api = tuple(paying(price) for price in service.fleet.api[: generation.MOST_API_PRICES])
    api += service.fleet.api[generation.MOST_API_PRICES :]
    return service.model_copy(update={"fleet": service.fleet.model_copy(update={"api": api})})


def _main_kind(served: ServedKinds, market: Market, usd: float, fleets: Floats) -> Option:
    """Return the kind of a fleet (hours, kinds) whose machines work most, as many as in its busiest hour."""
    kind = int(np.argmax(fleets.sum(axis=0)))
    offer = market.offers[served.kinds[kind].offer]
    return Option(
        label="fleet",
        provider=offer.provider,
        gpu=offer.card,
        gpus=offer.gpus,
        runs_at_once=int(fleets[:, kind].max()),
        cost_usd=usd,
        hours=None,
    )


def named_kinds(served: ServedKinds, market: Market, fleets: Floats, used: Sequence[int]) -> list[NamedKind]:
    """Return what decides the figures of the kinds of a fleet (hours, kinds)."""
    named = []
    for place in used:
        kind = served.kinds[place]
        recipe = served.recipe(kind)
        named.append(
            NamedKind(
                offer=market.labels[kind.offer],
                market=kind.market,
                engine=recipe.framework,
                weight_format=recipe.quant,
                kv_bits=recipe.kv_bits,
                gpus_per_replica=recipe.tensor_parallel * recipe.pipeline_parallel,
                pipeline_parallel=recipe.pipeline_parallel,
                by_hour=tuple(fleets[:, place].astype(int).tolist()),
            )
        )
    return named


Compared = tuple[str, "float | str | tuple[float, ...]", "float | str | tuple[float, ...]"]
"""A figure's name, what the search has, and what the plan has."""
COMPARED_FIGURES = ("replicas", "capacity", "usd_per_hour", "start_hours", "start_usd", "availability")
"""Figures that the search and a plan have of each kind."""
LATENCY_TOLERANCE = replace(SEARCH_TOLERANCE, hours=1e-5)
"""How far a latency may be off: a capacity, and from it the load at which latency is predicted, is found by halving."""


def compare_with_search(
    fleet: EvaluatedFleet, made: Service, served: ServedKinds, problem: FleetProblem, fleets: Floats
) -> list[Violation]:
    """Return where a plan has other figures than the kinds and the fleet (hours, kinds) that the search chose.

    Of each kind its replicas, capacity, dollars, start, latency and bytes; of the fleet its dollars, its replicas and
    use of each hour, and the share that is served.
    """
    used = np.flatnonzero(np.any(fleets > 0, axis=0)).tolist()
    able, usd = fleets @ problem.capacity, problem.cost(fleets) * cycle_of(served.job.for_hours, problem.hours)
    use = np.divide(problem.load, able, out=np.zeros_like(able), where=able > 0)
    share = served_on_average(_of_used(served, problem, used), fleets)
    rows = [served.kinds[place] for place in used]
    figures: list[Compared] = []
    for row, kind, evaluated in zip(rows, made.fleet.kinds, fleet.kinds, strict=True):
        figures += _compared_kind(served, row, kind, evaluated)
    figures += [
        ("cost_usd", usd, made.cost_usd),
        ("fleet.served_share", share, made.fleet.served_share),
        ("fleet.use_by_hour", tuple(use.tolist()), made.fleet.use_by_hour),
        ("fleet.replicas_by_hour", tuple((fleets @ problem.replicas).tolist()), _floats(made.fleet.replicas_by_hour)),
    ]
    latencies = zip(*_latencies(served, np.asarray([row.which for row in rows]), float(np.max(use))), strict=True)
    of_latency: list[Compared] = [
        (f"fleet.{kind.offer}.latency", both, (kind.ttft_seconds, kind.tpot_seconds))
        for kind, both in zip(made.fleet.kinds, latencies, strict=True)
    ]
    return [
        broken
        for compared, tolerance in ((figures, SEARCH_TOLERANCE), (of_latency, LATENCY_TOLERANCE))
        for figure, searched, planned in compared
        for broken in compare(made.name, figure, searched, planned, tolerance, unit_of(figure))
    ]


def _floats(counts: Sequence[int]) -> tuple[float, ...]:
    return tuple(float(count) for count in counts)


def _compared_kind(
    served: ServedKinds, row: ReplicaKind, kind: FleetKind, evaluated: EvaluatedKind
) -> Iterator[Compared]:
    """Yield the figures of one kind: of its machine, and the bytes on one GPU of a replica."""
    where = f"fleet.{kind.offer}"
    yield f"{where}.binds", served.binding(row), kind.binds
    for name in COMPARED_FIGURES:
        yield f"{where}.{name}", float(getattr(row, name)), float(getattr(kind, name))
    searched = served.speeds.memory[row.which]
    for part, size in evaluated.replica.memory.items():
        yield f"{where}.{part}_bytes", float(getattr(searched, part)), float(size)


def _latencies(served: ServedKinds, which: Integers, use: float) -> tuple[Floats, Floats]:
    """Return TTFT and TPOT (k,) of some recipes (k,) at a share of their capacity, as the search computes them."""
    traffic = Traffic.of(served.job, served.speeds, served.capacities.slow).choosing(which)
    rate = min(use, 1.0) * served.capacities.rate[which]
    return traffic.ttft(rate), traffic.tpot(rate)


def _of_used(served: ServedKinds, problem: FleetProblem, used: Sequence[int]) -> FleetProblem:
    """Return the problem in which a spot group answers as often as the kinds of the fleet, not as all kinds of it."""
    there = problem.availability.copy()
    for group in set(problem.group[used].tolist()) - {-1}:
        there[group] = min(served.kinds[kind].answering_share for kind in used if problem.group[kind] == group)
    return replace(problem, availability=there)


def _baseline(served: ServedKinds, market: Market, fleet: SimpleFleet, month: float) -> FleetBaseline:
    """Return a simpler fleet with its dollars of a month, `month` cycles long."""
    machines = "" if fleet.kind < 0 else _machines(served, market, fleet)
    return FleetBaseline(
        name=fleet.name, usd_per_month=None if fleet.usd is None else fleet.usd * month, machines=machines
    )


def secure_fleet(
    served: ServedKinds, found: FoundFleet, market: Market, options: SolveOptions, until: float | None
) -> FleetBaseline | None:
    """Return the best fleet without machines of private persons; None where the one found has none of these."""
    fleets, hosts = found.solved.fleets, [market.offers[kind.offer].tier == "community" for kind in served.kinds]
    is_secure = ~np.asarray(hosts, dtype=bool)
    if fleets is None or not np.any(fleets[:, ~is_secure] > 0):
        return None
    problem, places = found.problem.choosing(is_secure), np.flatnonzero(is_secure)
    other = optimise_fleet(problem, options, until).fleets if len(places) else None
    if other is None:
        return FleetBaseline(name="secure", usd_per_month=None)
    most = [(int(places[kind]), int(other[:, kind].max())) for kind in np.flatnonzero(np.any(other > 0, axis=0))]
    machines = " + ".join(_machines(served, market, SimpleFleet("", None, kind, count)) for kind, count in most)
    usd = problem.cost(other) * MONTH_HOURS / problem.hours
    return FleetBaseline(name="secure", usd_per_month=usd, machines=machines)


def _any_mix(served: ServedKinds, market: Market, found: FoundFleet, month: float) -> FleetBaseline | None:
    """Return the fleet of any number of kinds with its dollars of a month; None where the plan costs no more."""
    fleets, plan = found.solved.any_mix, found.solved.fleets
    if fleets is None or plan is None:
        return None
    usd, most = found.problem.cost(fleets) * month, found.problem.cost(plan) * month
    if usd >= most * (1.0 - FLEET_GAP):
        return None
    kinds = [served.kinds[place] for place in np.flatnonzero(np.any(fleets > 0, axis=0)).tolist()]
    providers = sorted({market.offers[kind.offer].provider for kind in kinds})
    machines = f"{len(kinds):,} kinds at {', '.join(providers)}"
    return FleetBaseline(name="any mix of kinds", usd_per_month=usd, machines=machines)


def _machines(served: ServedKinds, market: Market, fleet: SimpleFleet) -> str:
    offer = market.offers[served.kinds[fleet.kind].offer]
    return f"{fleet.machines * offer.gpus:,} x {offer.card} at {offer.provider}"


def _default_limits(job: ServeJob) -> tuple[str, ...]:
    """Return the limits on latency that nobody gave, and the keys that change them."""
    latency, keys = job.latency, job.latency.by_default
    words = {"ttft": "first token within", "tpot": "each further token within"}
    told = [f"{words[key]} {seconds_text(getattr(latency, f'{key}_seconds'))}" for key in keys]
    where = " and ".join(f"jobs.{job.name}.latency.{key}" for key in keys)
    return (f"by default: {', '.join(told)}; {where} change{'s' * (len(keys) == 1)} that",) if keys else ()


def _conversions(served: ServedKinds, used: Sequence[int], library: Library) -> tuple[str, ...]:
    """Return what of the weights of the fleet a user must make, each once."""
    architecture, notes = library.architecture(served.job.architecture), list[str]()
    for place in used:
        recipe = served.recipe(served.kinds[place])
        gpu = library.gpu(served.speeds.which[served.kinds[place].which].gpu)
        made = weights_to_make(served.job, recipe, architecture, gpu)
        notes += [made] if made is not None else []
    return tuple(dict.fromkeys(notes))


def _notes(served: ServedKinds, used: Sequence[int], library: Library) -> tuple[str, ...]:
    """Return what the figures rest on."""
    coefficients = library.calibrations["inference"].coefficients
    priors = [
        part
        for kind in used
        for part in generation.prior_parts(
            coefficients,
            served.recipe(served.kinds[kind]).framework,
            served.recipe(served.kinds[kind]).engine.label,
            served.speeds.which[served.kinds[kind].which].gpu,
            served.recipe(served.kinds[kind]).quant,
        )
    ]
    notes = [f"no published measurements inform {', '.join(dict.fromkeys(priors))}: a prior"] if priors else []
    notes += prompt_notes(served.job, library.architecture(served.job.architecture))
    slow = max(float(served.capacities.slow[served.kinds[kind].which]) for kind in used)
    sure = math.floor(served.job.confidence * 100)
    notes.append(f"latency limits hold with {sure} % probability: estimated times are multiplied by {slow:.2f}")
    if any(served.kinds[kind].market == "spot" for kind in used):
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
        most_kinds=job.most_kinds,
        peaks=tuple(_peak(limit, most, kinds, market) for limit, most in given_peaks(limits)),
        budget_usd=None if limits.budget_usd is None else limits.budget_usd / cycle_of(job.for_hours, len(load)),
        most_on_spot=limits.spot_share.max,
        least_on_spot=limits.spot_share.min,
    )
