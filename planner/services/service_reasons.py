"""Explain a service, alone or with jobs: what holds each kind, what looser limits save, other fleets.

Everything is solved: a relaxation, and the fleet without or of one GPU, provider or market alone.
"""

from __future__ import annotations

import math
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.analysis.why_not_query import OFFER_KEYS, SERVED_KEYS, WhyNotQuery, parse_query
from planner.errors import ScenarioError
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.results.explanation import Alternative, Explanation, KindLimit, ServiceReasons, WhyNot
from planner.results.plan_parts import Relaxation
from planner.results.service_results import BINDING_WORDS, replicas_text
from planner.scenario.limits import AllowForbid
from planner.scenario.offer import offer_labels
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_optimise import FLEET_GAP
from planner.services.fleet_refusals import ServiceTrial, relaxations_of, service_of, try_service
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
    found = Explanation(scenario=scenario.name, status="infeasible")
    if plan.is_feasible:
        found = _summary(scenario, plan)
    if query is not None:
        details: dict[str, Any] = {"why_not": _answer(scenario, plan, query, library, options)}
    elif plan.is_feasible:
        steps = relaxations_of(scenario, plan, library, options)
        details = {"next_steps": steps, "alternatives": tuple(_alternatives(scenario, plan, library, options))}
    else:
        infeasible = solve(scenario, options, library).infeasible
        details = dict(infeasible) if infeasible else {}
    return found.model_copy(update={**details, "seconds": perf_counter() - started})


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
        range(len(offers)), key=lambda one: plan.served.kinds[one].usd_per_hour / plan.served.kinds[one].capacity
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
    found, excluded = try_service(within, library, options), _other_market(scenario, query)
    if found.is_feasible and not excluded:
        same = plan.is_feasible and set(found.machines) == set(plan.machines)
        reasons = () if same or not plan.is_feasible else tuple(_reasons(plan, found))
        return _priced(query, plan, found, "chosen" if same else "possible", reasons)
    free = forced(scenario, query.given, beyond=True, groups=query.groups)
    other = try_service(free, library, options)
    if other.is_feasible:
        if not found.is_feasible:
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
        found = solve(free, options, library).infeasible
    except ScenarioError as error:  # an engine without such weights, a GPU without kernels for them
        return {"reasons": tuple(f"{fault.what}: {fault.fix}" if fault.fix else fault.what for fault in error.faults)}
    nearest = tuple(f"{miss.what}: {miss.reason}" for miss in (found.nearest if found else ()))
    return {"reasons": reasons + nearest or ("no engine runs the model there",), "relax": found.relax if found else ()}


def _reasons(plan: ServiceTrial, other: ServiceTrial) -> Iterator[str]:
    """Yield what makes a fleet more expensive: dollars of a unit of load, idle capacity, starts."""
    unit = plan.served.job.load.unit.removesuffix("s") if plan.served.job.load.unit != "requests/s" else "request/s"
    for name, one in (("it", other), ("the plan", plan)):
        kind = one.served.kinds[one.used[0]]
        each = kind.usd_per_hour / kind.capacity
        binds = BINDING_WORDS[one.served.binding(kind)]
        yield f"{name} pays ${each:.3g} an hour per {unit} at full use, limited by {binds}"
    for name, one in (("it", other), ("the plan", plan)):
        yield f"{name} is used to {one.mean_use * 100:.0f} % of its capacity on average"


def _priced(query: WhyNotQuery, plan: ServiceTrial, found: ServiceTrial, status: Any, reasons: Any) -> WhyNot:
    times = found.usd_per_month / plan.usd_per_month if plan.is_feasible else None
    return WhyNot(
        asked=query.text,
        status=status,
        plan="; ".join(found.machines),
        cost_usd=found.cost_usd,
        hours=found.served.job.for_hours,
        times=times,
        reasons=tuple(reasons),
    )
