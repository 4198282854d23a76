"""From the kinds of a service to the problem of its fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.fleet.problem import FleetProblem, cycle_of

if TYPE_CHECKING:
    from planner.candidates.fleet.kinds import ServedKinds
    from planner.candidates.market import Market
    from planner.scenario.scenario import Scenario


def fleet_problem(served: ServedKinds, market: Market, scenario: Scenario) -> FleetProblem:
    """Return the problem of one job on the limits of its scenario."""
    job, limits, kinds = served.job, scenario.limits, served.kinds
    groups = {name: index for index, name in enumerate(dict.fromkeys(one.group for one in kinds if one.group))}
    available = [1.0] * len(groups)
    for one in kinds:
        if one.group:
            available[groups[one.group]] = min(available[groups[one.group]], one.answering_share)
    providers = {name: index for index, name in enumerate(market.providers)}
    load = np.asarray(job.load.hourly, dtype=float)
    offers = [market.offers[one.offer] for one in kinds]
    return FleetProblem(
        load=load * (1.0 + job.headroom),
        capacity=np.asarray([one.capacity for one in kinds], dtype=float),
        usd=np.asarray([one.usd_per_hour for one in kinds], dtype=float),
        start_usd=np.asarray([one.start_usd for one in kinds], dtype=float),
        gpus=np.asarray([one.gpus for one in offers], dtype=np.int64),
        replicas=np.asarray([one.replicas for one in kinds], dtype=np.int64),
        committed=np.asarray([one.market == "committed" for one in kinds], dtype=bool),
        offer=np.asarray([one.offer for one in kinds], dtype=np.int64),
        provider=np.asarray([providers[one.provider] for one in offers], dtype=np.int64),
        group=np.asarray([groups.get(one.group, -1) for one in kinds], dtype=np.int64),
        availability=np.asarray(available, dtype=float),
        served_share=job.latency.share,
        stock={index: one.stock for index, one in enumerate(market.offers) if one.stock is not None},
        quota={providers[name]: most for name, most in limits.quota.items() if name in providers},
        min_replicas=job.replicas.min,
        max_gpus=limits.max_gpus,
        max_usd_per_hour=limits.max_usd_per_hour,
        budget_usd=None if limits.budget_usd is None else limits.budget_usd / cycle_of(job.for_hours, len(load)),
        most_on_spot=limits.spot_share.max,
        least_on_spot=limits.spot_share.min,
    )
