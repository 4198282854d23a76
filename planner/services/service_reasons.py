"""Why a service has this fleet, or none: what holds each kind, what looser limits save, other fleets.

Everything is solved: a relaxation, and the fleet without or of one GPU, provider or market alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.analysis.why_not import OFFER_KEYS, SERVED_KEYS, WhyNotQuery, parse_query
from planner.arrays import Floats
from planner.candidates.market import Market, build_market
from planner.errors import Fault, ScenarioError
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.results.explanation import Alternative, Explanation, KindLimit, LimitSensitivity, ServiceReasons, WhyNot
from planner.results.plan_parts import Infeasible, NearMiss, Relaxation
from planner.results.service_results import BINDING_WORDS, replicas_text, span
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import PEAK_LIMITS, AllowForbid, PeakLimit, given_peaks, peak_limit_at
from planner.scenario.offer import offer_labels
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_kinds import ServedKinds, latency_at_use, served_kinds
from planner.services.fleet_optimise import FLEET_GAP, SolvedFleet, optimise_fleet
from planner.services.fleet_plan import fleet_problem
from planner.services.fleet_problem import FleetProblem, cycle_of, first_rows, services_of
from planner.services.fleet_program import fleets_at_prices
from planner.solving.solve import solve
from planner.units import MILLISECONDS, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOM = 1.25
"""How much above the least latency a relaxed limit lies: at the least itself no load is carried."""


def rounded_up(seconds: float) -> float:
    """Return a time rounded up to two digits: 0.0123 is 0.013."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / unit - 1e-9) * unit:.6g}")


def milliseconds(seconds: float) -> str:
    """Return a time as a scenario writes it."""
    return f"{seconds * MILLISECONDS:g}ms"


def explain_none(
    scenario: Scenario,
    served: ServedKinds,
    problem: FleetProblem,
    solved: SolvedFleet,
    market: Market,
    library: Library,
    options: SolveOptions,
) -> Infeasible:
    """Return what would make a fleet possible, each change solved again."""
    job = served.job
    if solved.over_budget_usd is not None:
        needed = solved.over_budget_usd * cycle_of(job.for_hours, problem.hours)
        more = math.ceil(needed)
        change = Relaxation(
            limit="limits.budget_usd", **{"from": scenario.limits.budget_usd, "to": float(more)},
            then=f"${needed:,.2f} for all hours", cost_usd=needed, hours=job.for_hours,
            setting=f"limits.budget_usd={more}",
        )  # fmt: skip
        return Infeasible(relax=(change,))
    if not served.kinds:
        return _relaxed_latency(scenario, job, served, market, library, options)
    return _relaxed_limits(scenario, job, problem, options)


def _relaxed_latency(
    scenario: Scenario, job: ServeJob, served: ServedKinds, market: Market, library: Library, options: SolveOptions
) -> Infeasible:
    """Return the least latency of any kind, and a fleet where the limits allow a little more."""
    alone = latency_at_use(unlimited(job), served.speeds, library, np.full(len(served.speeds.which), 1e-6))
    fits = (served.speeds.flight >= 1) & (served.speeds.fit_probability >= job.memory_confidence)
    if not bool(np.any(fits)):
        return Infeasible()
    asked = {"ttft": job.latency.ttft_seconds, "tpot": job.latency.tpot_seconds}
    reached = {name: np.where(fits, seconds, np.inf) for name, seconds in zip(("ttft", "tpot"), alone, strict=True)}
    wanted = {name: limit for name, limit in asked.items() if limit is not None}
    # The kind that exceeds the limits by the least factor says how far they must go.
    excess = np.max([reached[name] / limit for name, limit in wanted.items()], axis=0)
    best = int(np.argmin(excess))
    nearest = tuple(
        NearMiss(
            job=job.name, what=f"{served.speeds.which[best].gpu}, {served.speeds.which[best].recipe.method_label}",
            reason=f"{milliseconds(rounded_up(float(reached[name][best])))} {name.upper()} at no load",
            shortfall=float(reached[name][best] - limit) * MILLISECONDS, unit="ms",
        )
        for name, limit in wanted.items()
        if reached[name][best] >= limit
    )  # fmt: skip
    to = {name: max(limit, rounded_up(ROOM * float(reached[name][best]))) for name, limit in wanted.items()}
    latency = job.latency.model_copy(update={f"{name}_seconds": seconds for name, seconds in to.items()})
    other = job.model_copy(update={"latency": latency})
    kinds_served = served_kinds(other, library.architecture(job.architecture), market, scenario.limits, library)
    problem = fleet_problem(kinds_served, market, scenario)
    solved = optimise_fleet(problem, options)
    if solved.fleets is None:
        return Infeasible(nearest=nearest)
    usd = problem.cost(solved.fleets)
    then = f"${usd * MONTH_HOURS / problem.hours:,.0f} a month"
    relax = tuple(
        Relaxation(
            limit=f"jobs.{job.name}.latency.{name}",
            **{"from": milliseconds(limit), "to": milliseconds(to[name])},
            then=then, cost_usd=usd * cycle_of(job.for_hours, problem.hours), hours=job.for_hours,
            setting=f"jobs.{job.name}.latency.{name}={milliseconds(to[name])}",
        )
        for name, limit in wanted.items()
        if to[name] > limit
    )  # fmt: skip
    return Infeasible(relax=relax, nearest=nearest)


def unlimited(job: ServeJob) -> ServeJob:
    """Return the job without limits on latency."""
    free = job.latency.model_copy(update={"ttft_seconds": None, "tpot_seconds": None})
    return job.model_copy(update={"latency": free})


def _relaxed_limits(scenario: Scenario, job: ServeJob, problem: FleetProblem, options: SolveOptions) -> Infeasible:
    """Return single limits without which there is a fleet, with its dollars."""
    limits = scenario.limits
    ways = [
        *((limit.path, most, problem.without_peak(limit.key)) for limit, most in given_peaks(limits)),
        ("limits.quota", limits.quota or None, replace(problem, quota={})),
        (f"jobs.{job.name}.latency.share", job.latency.share, replace(problem, served_share=0.0)),
        (f"jobs.{job.name}.most_kinds", job.most_kinds, replace(problem, most_kinds=None)),
        ("limits.spot_share.min", limits.spot_share.min or None, replace(problem, least_on_spot=0.0)),
    ]
    ways_out: list[Relaxation] = []
    for name, value, other in ways:
        solved = optimise_fleet(replace(other, budget_usd=None), options) if value is not None else None
        if solved is None or solved.fleets is None:
            continue
        to: float | str | None = None
        if (limit := peak_limit_at(name)) is not None and not limit.is_of_dollars:
            to, solved = _least_of(problem, limit, solved, options)
        usd = other.cost(_fleets_of(solved))
        ways_out.append(
            Relaxation(
                limit=name, **{"from": str(value) if isinstance(value, dict) else value, "to": to},
                way=len(ways_out) + 1,
                then=f"${usd * MONTH_HOURS / problem.hours:,.0f} a month",
                cost_usd=usd * cycle_of(job.for_hours, problem.hours), hours=job.for_hours,
                setting="" if to is None else f"{name}={to:.10g}",
            )
        )  # fmt: skip
    return Infeasible(relax=tuple(ways_out))


def _fleets_of(solved: SolvedFleet) -> Floats:
    """Return the fleets of a solution that has some."""
    assert solved.fleets is not None
    return solved.fleets


def _least_of(
    problem: FleetProblem, limit: PeakLimit, free: SolvedFleet, options: SolveOptions
) -> tuple[float, SolvedFleet]:
    """Return a value of a limit on what is used at one time with which there is a fleet, and that fleet.

    Of GPUs it is what the cheapest fleet `free` of the limit uses, and less may do. Of another limit it is the least
    that a fleet of the peak uses, where the service then has a fleet in every hour.
    """
    peak = next(limited for limited in problem.peaks if limited.key == limit.key)
    cheapest = limit.rounded_up(float(np.max(_fleets_of(free) @ peak.each)))
    if limit.is_whole:
        return cheapest, free
    other, hour = problem.without_peak(limit.key), np.asarray([int(np.argmax(problem.load))])
    losses = first_rows(other.availability, other.served_share)
    fleets, _ = fleets_at_prices(other, peak.each[None, :], hour, options.solver, losses)
    if not np.isnan(fleets).any():
        least = limit.rounded_up(float(fleets[0] @ peak.each))
        peaks = tuple(replace(peak, most=least) if peak.key == limit.key else peak for peak in problem.peaks)
        solved = optimise_fleet(replace(problem, peaks=peaks, budget_usd=None), options)
        if solved.fleets is not None:
            return least, solved
    return cheapest, free


# A service solved for its dollars alone: what a limit, a GPU or a provider is worth, without a plan around it.


@dataclass(frozen=True)
class ServiceTrial:
    """The cheapest fleet of a scenario's service; without fleets there is none within its limits."""

    served: ServedKinds
    market: Market
    problem: FleetProblem
    solved: SolvedFleet

    @property
    def is_feasible(self) -> bool:
        """Whether there is a fleet."""
        return self.solved.fleets is not None

    @property
    def fleets(self) -> Floats:
        """Machines (hours, kinds); none without a fleet."""
        return np.zeros((self.problem.hours, 0)) if self.solved.fleets is None else self.solved.fleets

    @property
    def usd_per_month(self) -> float:
        """Dollars of a month; infinite without a fleet."""
        if self.solved.fleets is None:
            return float("inf")
        return self.problem.cost(self.solved.fleets) * MONTH_HOURS / self.problem.hours

    @property
    def bound_usd_per_month(self) -> float:
        """Dollars of a month below which no fleet costs."""
        return min(self.solved.bound * MONTH_HOURS / self.problem.hours, self.usd_per_month)

    @property
    def gap(self) -> float:
        """How far the dollars may lie above the least ones, as their share."""
        return max(0.0, self.usd_per_month - self.bound_usd_per_month) / max(self.usd_per_month, 1e-9)

    @property
    def mean_use(self) -> float:
        """Load over capacity, weighted by load."""
        able = self.fleets @ self.problem.capacity
        return float(np.average(self.problem.load / np.maximum(able, 1e-300), weights=self.problem.load))

    @property
    def cost_usd(self) -> float:
        """Dollars of all hours that the service runs."""
        return self.usd_per_month * self.served.job.for_hours / MONTH_HOURS

    @property
    def used(self) -> list[int]:
        """Places of the kinds of the fleet, those with most dollars first."""
        if self.solved.fleets is None:
            return []
        usd = np.sum(self.solved.fleets, axis=0) * self.problem.usd
        return [kind for kind in np.argsort(-usd, kind="stable").tolist() if np.any(self.solved.fleets[:, kind] > 0)]

    @property
    def machines(self) -> tuple[str, ...]:
        """The kinds in words, those with most dollars first."""
        return tuple(self._machines(kind) for kind in self.used)

    @property
    def binds(self) -> tuple[str, ...]:
        """What holds the capacity of the kinds, the one with most dollars first."""
        return tuple(dict.fromkeys(self.served.binding(self.served.kinds[kind]) for kind in self.used))

    @property
    def replicas(self) -> tuple[int, int]:
        """Least and most replicas of an hour."""
        if self.solved.fleets is None:
            return 0, 0
        by_hour = self.solved.fleets @ self.problem.replicas
        return int(np.min(by_hour)), int(np.max(by_hour))

    def _machines(self, place: int) -> str:
        kind = self.served.kinds[place]
        offer, count = self.market.offers[kind.offer], self.fleets[:, place]
        machine = f"x {offer.card}" if offer.gpus == 1 else f"of {offer.gpus} x {offer.card}"
        return f"{span(float(np.min(count)), float(np.max(count)))} {machine} at {offer.provider}, {kind.market}"


def require_service(scenario: Scenario) -> None:
    """Raise `ScenarioError` where no job is a service."""
    if not services_of(scenario):
        fix = "give a job of kind: serve"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", "no job is a service", fix)])


def service_of(scenario: Scenario, command: str) -> ServeJob:
    """Return the only job of a scenario, a service; ScenarioError where other jobs run next to it."""
    require_service(scenario)
    job = services_of(scenario)[0]
    if len(scenario.jobs) > 1:
        problem = f"{command} takes a service alone, and there are {len(scenario.jobs)} jobs"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", problem, "give the service a scenario of its own")])
    return job


def with_latency(job: ServeJob, **limits: float | None) -> ServeJob:
    """Return the job with other limits on latency, such as `tpot_seconds`, or another share."""
    return job.model_copy(update={"latency": job.latency.model_copy(update=limits)})


def try_service(
    scenario: Scenario,
    library: Library,
    options: SolveOptions,
    job: ServeJob | None = None,
    among: ServiceTrial | None = None,
    pair_gap: float | None = None,
    known: ServedKinds | None = None,
) -> ServiceTrial:
    """Return the cheapest fleet of a scenario's service, or of another `job` in its place.

    `among` has the market, and what other services leave of shared limits in each hour. `pair_gap` is
    that of `optimise_fleet`: inf where the fleet alone is asked for, and not its bound. Capacities of
    `known` kinds are taken where they are the same.
    """
    job = job or service_of(scenario, "this")
    market = among.market if among else build_market(scenario, library)
    served = served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library, known)
    problem = fleet_problem(served, market, scenario)
    if among and among.problem.room is not None:
        problem = replace(problem, room=among.problem.room, rooms=among.problem.rooms)
    return ServiceTrial(served, market, problem, optimise_fleet(problem, options, pair_gap=pair_gap))


# What looser limits of a service save, each verified by solving.


LOOSER = 1.25
"""Factor on a limit on latency."""
LESS_SURE = 0.05
"""Share of the requests that need not be in time any more."""
LEAST_RELAXED_SAVING = 0.005
"""Share of the dollars below which a relaxation saves nothing."""
LEAST_LATENCY_SHARE = 0.5
MOST_QUICK = 6_000
"""Kinds that dominance leaves times different loads, up to which a plan says what a looser latency saves."""


class _Change(NamedTuple):
    """A limit, its values before and after as a scenario writes them, and what is solved."""

    limit: str
    old: float | str
    new: float | str
    setting: str
    scenario: Scenario
    job: ServeJob


def relaxations_of(
    scenario: Scenario, plan: ServiceTrial, library: Library, options: SolveOptions
) -> tuple[LimitSensitivity, ...]:
    """Return what each limit saves where it is a step looser, the largest saving first; those that save nothing last.

    A step is a quarter of a limit on latency, five hundredths of the share, one replica, or a limit left out.
    """
    relaxations = [_worth(change, plan, library, options) for change in _changes(scenario, plan.served.job)]
    return tuple(sorted(relaxations, key=lambda step: (step.change_to is None, step.delta_usd or 0.0)))


def looser_latency(
    scenario: Scenario, plan: ServiceTrial, library: Library, options: SolveOptions
) -> Relaxation | None:
    """Return what a quarter more of the latency that holds the fleet saves.

    None where it saves nothing, where no latency holds it, or where to find out would take long.
    """
    name = {"TPOT": "tpot", "TTFT": "ttft"}.get(plan.binds[0] if plan.binds else "", "")
    limit = f"jobs.{plan.served.job.name}.latency.{name}"
    change = next((tried for tried in _changes(scenario, plan.served.job) if tried.limit == limit), None)
    if change is None or plan.solved.kept * len(np.unique(plan.problem.load)) > MOST_QUICK:
        return None
    step = _worth(change, plan, library, options)
    if step.change_to is None or step.cost_usd is None:
        return None
    saved = -(step.delta_usd or 0.0) * MONTH_HOURS / plan.served.job.for_hours
    return Relaxation(
        limit=step.limit, **{"from": step.change_from, "to": step.change_to}, then=f"saves ${saved:,.2f} a month",
        cost_usd=step.cost_usd, hours=plan.served.job.for_hours, setting=step.setting,
    )  # fmt: skip


def _worth(change: _Change, plan: ServiceTrial, library: Library, options: SolveOptions) -> LimitSensitivity:
    """Return what a change saves."""
    same = None if change.limit.startswith("limits.") else plan
    other = try_service(change.scenario, library, options, change.job, among=same, pair_gap=math.inf, known=plan.served)
    facts: dict[str, Any] = {"worth": "choice", "limit": change.limit, "from": change.old}
    saved = plan.usd_per_month - other.usd_per_month
    if not other.is_feasible or saved < LEAST_RELAXED_SAVING * plan.usd_per_month:
        return LimitSensitivity(**facts, **{"to": None}, note=f"no gain at {change.new}")
    delta = other.cost_usd - plan.cost_usd
    return LimitSensitivity(
        **facts,
        **{"to": change.new},
        plan="; ".join(other.machines),
        cost_usd=other.cost_usd,
        hours=other.served.job.for_hours,
        delta_usd=delta,
        delta_hours=0.0,
        gain=-delta,
        setting=change.setting,
    )


def _changes(scenario: Scenario, job: ServeJob) -> Iterator[_Change]:
    """Yield a looser value of each limit that the scenario sets."""
    where, limits = f"jobs.{job.name}", scenario.limits
    for name in ("tpot", "ttft"):
        seconds = getattr(job.latency, f"{name}_seconds")
        if seconds is not None:
            looser = rounded_up(LOOSER * seconds)
            texts = milliseconds(seconds), milliseconds(looser)
            path = f"{where}.latency.{name}"
            yield _Change(
                path, *texts, f"{path}={texts[1]}", scenario, with_latency(job, **{f"{name}_seconds": looser})
            )
    share = round(job.latency.share - LESS_SURE, 6)
    if share >= LEAST_LATENCY_SHARE:
        path = f"{where}.latency.share"
        yield _Change(path, job.latency.share, share, f"{path}={share:g}", scenario, with_latency(job, share=share))
    yield from _changes_of_fleet(scenario, job)
    plain = type(limits)()
    for name in ("providers", "gpus", "regions", "quota", *(limit.key for limit in PEAK_LIMITS)):
        if getattr(limits, name) != getattr(plain, name):
            changed = scenario.model_copy(update={"limits": limits.model_copy(update={name: getattr(plain, name)})})
            nothing = "null" if getattr(plain, name) is None else "{}"
            yield _Change(f"limits.{name}", "as given", "none", f"limits.{name}={nothing}", changed, job)
    if limits.spot_share.max < 1:
        bounds = limits.spot_share.model_copy(update={"max": 1.0})
        changed = scenario.model_copy(update={"limits": limits.model_copy(update={"spot_share": bounds})})
        if limits.spot_share.max == 0:
            yield _Change("limits.spot", "false", "true", "limits.spot=true", changed, job)
        else:
            yield _Change("limits.spot_share.max", limits.spot_share.max, 1.0, "limits.spot_share.max=1", changed, job)


def _changes_of_fleet(scenario: Scenario, job: ServeJob) -> Iterator[_Change]:
    """Yield a looser value of what the job asks of its machines: replicas, kinds, headroom."""
    where = f"jobs.{job.name}"
    if job.replicas.min > 1:
        fewer = job.replicas.min - 1
        other = job.model_copy(update={"replicas": job.replicas.model_copy(update={"min": fewer})})
        yield _Change(
            f"{where}.replicas.min", job.replicas.min, fewer, f"{where}.replicas.min={fewer}", scenario, other
        )
    if job.most_kinds is not None:
        path, other = f"{where}.most_kinds", job.model_copy(update={"most_kinds": None})
        yield _Change(path, job.most_kinds, "any", f"{path}=null", scenario, other)
    if job.headroom > 0:
        other = job.model_copy(update={"headroom": 0.0})
        yield _Change(f"{where}.headroom", job.headroom, 0.0, f"{where}.headroom=0", scenario, other)


MOST_FLEETS = 4
"""GPUs, and providers, whose fleet alone is solved."""
MARKET_BOUNDS = {"spot": {"min": 1.0, "max": 1.0}, "on_demand": {"min": 0.0, "max": 0.0}}
"""Shares on spot that a market of a query means."""
SAME_FLEET = 0.005
"""Share of the dollars below which two fleets cost the same."""


def explain_service(
    scenario: Scenario, why_not: str | None = None, options: SolveOptions | None = None, library: Library | None = None
) -> Explanation:
    """Return why the fleet of a service is as it is, or why there is none; raises like `explain`."""
    started, options = perf_counter(), options or SolveOptions()
    job = service_of(scenario, "explain")
    library = library or read_library([job.architecture])
    query = parse_query(why_not, scenario, library) if why_not is not None else None
    plan = try_service(scenario, library, options)
    explanation = Explanation(scenario=scenario.name, status="infeasible")
    if plan.is_feasible:
        explanation = _summary(scenario, plan)
    if query is not None:
        details: dict[str, Any] = {"why_not": _answer(scenario, plan, query, library, options)}
    elif plan.is_feasible:
        steps = relaxations_of(scenario, plan, library, options)
        details = {"next_steps": steps, "alternatives": tuple(_alternatives(scenario, plan, library, options))}
    else:
        infeasible = solve(scenario, options, library).infeasible
        details = dict(infeasible) if infeasible else {}
    return explanation.model_copy(update={**details, "seconds": perf_counter() - started})


def _summary(scenario: Scenario, plan: ServiceTrial) -> Explanation:
    """Return the fleet and what holds each of its kinds."""
    usd, gap = plan.usd_per_month, plan.gap
    return Explanation(
        scenario=scenario.name,
        status="optimal" if gap <= FLEET_GAP else "feasible",
        plan=f"{replicas_text(*plan.replicas)}: {'; '.join(plan.machines)}",
        cost_usd=plan.cost_usd,
        hours=plan.served.job.for_hours,
        service=ServiceReasons(
            usd_per_month=usd,
            gap=gap,
            unit=plan.served.job.load.unit,
            kinds=tuple(_kind(plan, place) for place in plan.used),
        ),
    )


def _kind(plan: ServiceTrial, place: int) -> KindLimit:
    kind = plan.served.kinds[place]
    offer, recipe = plan.market.offers[kind.offer], plan.served.recipe(kind)
    return KindLimit(
        machine=f"{offer.gpus} x {offer.card} at {offer.provider}, {kind.market}",
        engine=recipe.framework,
        weight_format=recipe.quant,
        binds=plan.served.binding(kind),
        capacity=kind.capacity,
        usd_per_capacity=kind.usd_per_hour / kind.capacity,
    )


def _alternatives(
    scenario: Scenario, plan: ServiceTrial, library: Library, options: SolveOptions
) -> Iterator[Alternative]:
    """Yield the fleet of each GPU and provider of the plan and of the next best alone, and of either market."""
    offers = [plan.market.offers[kind.offer] for kind in plan.served.kinds]
    order = sorted(
        range(len(offers)), key=lambda place: plan.served.kinds[place].usd_per_hour / plan.served.kinds[place].capacity
    )
    for by in ("gpu", "provider"):
        used = [getattr(offers[offer], by) for offer in plan.used]
        near = [getattr(offers[offer], by) for offer in order]
        names = list(dict.fromkeys([*used[:2], *near]))[:MOST_FLEETS]
        rows = [_alternative(by, name, {by: name}, scenario, plan, library, options) for name in names]
        yield from sorted(rows, key=lambda row: (row.cost_usd is None, row.cost_usd or 0.0))
    if any(kind.market == "spot" for kind in plan.served.kinds):
        for market in MARKET_BOUNDS:
            yield _alternative("market", market, {"market": market}, scenario, plan, library, options)


def _alternative(
    by: Any, name: str, given: dict[str, Any], scenario: Scenario, plan: ServiceTrial, library: Library,
    options: SolveOptions,
) -> Alternative:  # fmt: skip
    """Return the cheapest fleet of one GPU, provider or market alone."""
    other = try_service(forced(scenario, given), library, options, pair_gap=math.inf, known=plan.served)
    job = plan.served.job.name
    if not other.is_feasible:
        return Alternative(by=by, job=job, name=name, plan="", verdict="no fleet within the limits", allowed=False)
    difference = other.usd_per_month / plan.usd_per_month - 1.0
    chosen = abs(difference) <= SAME_FLEET and set(other.machines) == set(plan.machines)
    return Alternative(
        by=by,
        job=job,
        name=name,
        plan="; ".join(other.machines),
        cost_usd=other.cost_usd,
        hours=other.served.job.for_hours,
        difference=difference,
        verdict="the plan" if chosen else "",
        chosen=chosen,
    )


def forced(
    scenario: Scenario,
    given: dict[str, Any],
    beyond: bool = False,
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Scenario:
    """Return the scenario with what a query names alone: its offers, its market, its techniques.

    `beyond` leaves out the lists of providers, GPUs and regions that limits allow or forbid. `groups`: word of the
    query -> the names that it means, where they are several.
    """
    where = {key: value for key, value in given.items() if key in (*OFFER_KEYS, "gpus")}
    offers = tuple(
        offer
        for label, offer in zip(offer_labels(scenario.offers), scenario.offers, strict=True)
        if all(
            (label if key == "offer" else getattr(offer, key)) in groups.get(value, (value,))
            for key, value in where.items()
        )
    )
    changes: dict[str, Any] = {}
    if "market" in given:
        bounds = scenario.limits.spot_share.model_copy(update=MARKET_BOUNDS[given["market"]])
        changes["spot_share"] = bounds
    if beyond:
        changes |= dict.fromkeys(("providers", "gpus", "regions"), AllowForbid())
    techniques = {key: (value,) for key, value in given.items() if key in SERVED_KEYS}
    if "weight_format" in given and "weight_bits" not in given:
        techniques["weight_bits"] = (read_engines().formats[given["weight_format"]].bits,)
    job = scenario.jobs[0]
    job = job.model_copy(update={"techniques": job.techniques.model_copy(update=techniques)})
    limits = scenario.limits.model_copy(update=changes)
    return scenario.model_copy(update={"offers": offers, "offers_inline": (), "limits": limits, "jobs": (job,)})


def _answer(
    scenario: Scenario, plan: ServiceTrial, query: WhyNotQuery, library: Library, options: SolveOptions
) -> WhyNot:
    """Return what the fleet costs where it is of what the query names alone, or what excludes that."""
    within = forced(scenario, query.given, groups=query.groups)
    if not within.offers:
        return WhyNot(asked=query.text, status="impossible", reasons=("no offer has it",))
    trial, excluded = try_service(within, library, options), _other_market(scenario, query)
    if trial.is_feasible and not excluded:
        same = plan.is_feasible and set(trial.machines) == set(plan.machines)
        reasons = () if same or not plan.is_feasible else tuple(_reasons(plan, trial))
        return _priced(query, plan, trial, "chosen" if same else "possible", reasons)
    free = forced(scenario, query.given, beyond=True, groups=query.groups)
    other = try_service(free, library, options)
    if other.is_feasible:
        if not trial.is_feasible:
            excluded += [
                key for key in ("providers", "gpus", "regions") if getattr(scenario.limits, key) != AllowForbid()
            ]
        relax = tuple(
            Relaxation(limit=f"limits.{key}", **{"from": "given", "to": "none"}, setting=_without(key, scenario))
            for key in excluded
        )
        reasons = (f"excluded by {', '.join(f'limits.{key}' for key in excluded)}",)
        return _priced(query, plan, other, "beyond", reasons).model_copy(update={"relax": relax})
    return WhyNot(asked=query.text, status="impossible", **_blockers(scenario, free, other, query, library, options))


def _other_market(scenario: Scenario, query: WhyNotQuery) -> list[str]:
    """Return the limit that excludes the market of a query, if any."""
    share, market = scenario.limits.spot_share, query.given.get("market")
    excludes = (market == "spot" and share.max < 1) or (market == "on_demand" and share.min > 0)
    return ["spot_share"] if excludes else []


def _without(limit: str, scenario: Scenario) -> str:
    """Return the setting that leaves out a limit which excludes what a query names."""
    share = scenario.limits.spot_share
    if limit != "spot_share":
        return f"limits.{limit}={{}}"
    return "limits.spot=true" if share.max == 0 else "limits.spot_share={}"


def _blockers(
    scenario: Scenario, free: Scenario, other: ServiceTrial, query: WhyNotQuery, library: Library, options: SolveOptions
) -> dict[str, Any]:
    """Return why no fleet is of what a query names alone, and the smallest change that admits one."""
    if other.served.kinds:
        reason = "it cannot carry the load alone within the limits (stock, quota, GPUs, dollars, spot)"
        if query.given.get("market") == "spot":
            share = scenario.jobs[0].latency.share  # type: ignore[union-attr]
            reason = f"spot groups are lost as a whole: on them alone less than {share * 100:.10g} % is served in time"
        return {"reasons": (reason,)}
    counts = other.served.rejected.most_common(2)
    reasons = tuple(f"{why} ({count} of {other.served.made} ways)" for why, count in counts)
    try:
        infeasible = solve(free, options, library).infeasible
    except ScenarioError as error:  # an engine without such weights, a GPU without kernels for them
        return {"reasons": tuple(f"{fault.what}: {fault.fix}" if fault.fix else fault.what for fault in error.faults)}
    nearest = tuple(f"{miss.what}: {miss.reason}" for miss in (infeasible.nearest if infeasible else ()))
    return {
        "reasons": reasons + nearest or ("no engine runs the model there",),
        "relax": infeasible.relax if infeasible else (),
    }


def _reasons(plan: ServiceTrial, other: ServiceTrial) -> Iterator[str]:
    """Yield what makes a fleet more expensive: dollars of a unit of load, idle capacity, starts."""
    unit = plan.served.job.load.unit.removesuffix("s") if plan.served.job.load.unit != "requests/s" else "request/s"
    for name, trial in (("it", other), ("the plan", plan)):
        kind = trial.served.kinds[trial.used[0]]
        usd_of_unit = kind.usd_per_hour / kind.capacity
        binds = BINDING_WORDS[trial.served.binding(kind)]
        yield f"{name} pays ${usd_of_unit:.3g} an hour per {unit} at full use, limited by {binds}"
    for name, trial in (("it", other), ("the plan", plan)):
        yield f"{name} is used to {trial.mean_use * 100:.0f} % of its capacity on average"


def _priced(query: WhyNotQuery, plan: ServiceTrial, trial: ServiceTrial, status: Any, reasons: Any) -> WhyNot:
    times = trial.usd_per_month / plan.usd_per_month if plan.is_feasible else None
    return WhyNot(
        asked=query.text,
        status=status,
        plan="; ".join(trial.machines),
        cost_usd=trial.cost_usd,
        hours=trial.served.job.for_hours,
        times=times,
        reasons=tuple(reasons),
    )
