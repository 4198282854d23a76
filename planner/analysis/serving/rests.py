"""What each kind of machines of a service rests on: memory of its GPU by part, measurements, source of its price."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.serving.fleet import simulated_fleet
from planner.configurations.replicas.evidence import prior_parts
from planner.configurations.replicas.measured import is_measured
from planner.decode.notes import age_in_days
from planner.library.reading import read_library
from planner.results.inference import ServingMemory
from planner.results.serving.rests import KindBasis
from planner.scenario.serving.job import ServeJob
from planner.units import GIB

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario


def kind_bases(scenario: Scenario, plan: Plan, library: Library | None = None) -> tuple[KindBasis, ...]:
    """Return what every kind of every service of a plan rests on.

    Empty without services, and where a plan that was changed by hand names what its scenario does not have.
    """
    offered = {label for label, _ in scenario.labelled_offers()}
    if not plan.services or any(kind.offer not in offered for one in plan.services for kind in one.fleet.kinds):
        return ()
    library = library or read_library([job.architecture for job in scenario.jobs])
    jobs = {job.name: job for job in scenario.jobs if isinstance(job, ServeJob)}
    offers, as_of = dict(scenario.labelled_offers()), datetime.date.fromisoformat(plan.as_of)
    coefficients = library.calibrations["inference"].coefficients
    found = []
    for service in plan.services:
        job = jobs[service.name]
        fleet = simulated_fleet(service, job, scenario, library)
        speeds = fleet.speeds
        longest = max(one.input_tokens + one.output_tokens for one in job.work.classes)
        for at, kind in enumerate(service.fleet.kinds):
            offer, recipe, memory = offers[kind.offer], speeds.which[at].recipe, speeds.memory[at]
            gpu = library.gpu(speeds.which[at].gpu)
            per_token = float(np.ravel(speeds.token_bytes)[at])
            found.append(
                KindBasis(
                    service=service.name,
                    offer=kind.offer,
                    machine=f"{kind.gpus} x {kind.gpu} at {kind.provider}, {kind.market}",
                    gpu=gpu.name,
                    engine=kind.engine,
                    weight_format=kind.weight_format,
                    memory_gib=ServingMemory(
                        usable=memory.usable / GIB,
                        parts={name: size / GIB for name, size in memory.parts.items()},
                        kv_bytes_per_token=per_token,
                        kv_tokens=int(memory.cache // per_token),
                    ),
                    whole_gib=gpu.usable_gib,
                    most_in_flight=int(speeds.flight[at]),
                    longest_context=int(longest),
                    priors=prior_parts(coefficients, recipe.framework, recipe.engine.label, gpu.name, recipe.quant),
                    is_measured=is_measured(job, recipe, gpu.name),
                    slow=float(fleet.slow[at]),
                    price_date=offer.date_text,
                    price_age_days=age_in_days(offer, as_of),
                    price_source=offer.source,
                )
            )
    return tuple(found)
