"""What a plan was made from: the scenario as it was read, and the offers that the plan names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import planner
from planner.results.plan import Inputs
from planner.scenario.offer import offer_data, offer_labels
from planner.scenario.scenario import scenario_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.results.fleet import Service
    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario


def build_inputs(scenario: Scenario, jobs: Sequence[Assignment], solvers: Mapping[str, str]) -> Inputs:
    """Return the inputs of a plan; `solvers` has the version of each solver package.

    Of each machine that the plan rents or names as the next best, all offers are included: the plan says in how many
    regions it is offered.
    """
    return _inputs(scenario, *_of_jobs(jobs), solvers)


def build_service_inputs(scenario: Scenario, services: Sequence[Service], solvers: Mapping[str, str]) -> Inputs:
    """Return the inputs of a plan of services: the offers of each machine of a fleet, and the APIs that it names."""
    return _inputs(scenario, *_of_services(services), solvers)


def build_joint_inputs(
    scenario: Scenario, jobs: Sequence[Assignment], services: Sequence[Service], solvers: Mapping[str, str]
) -> Inputs:
    """Return the inputs of a plan of jobs and services."""
    (named, rented), (served, answered) = _of_jobs(jobs), _of_services(services)
    return _inputs(scenario, named | served, rented | answered, solvers)


def _of_jobs(jobs: Sequence[Assignment]) -> tuple[set[tuple[str, str]], set[str]]:
    """Return providers with their GPUs, and the labels of offers, that jobs name."""
    named = {(job.provider, job.gpu) for job in jobs}
    named |= {(one.provider, one.gpu) for job in jobs for one in job.runner_up}
    named |= {(one.provider, one.gpu) for job in jobs for one in job.fallbacks}
    rented = {job.offer for job in jobs} | {one.offer for job in jobs for one in job.beside}
    rented |= {one.offer for job in jobs if job.inference for one in job.inference.api}
    for way in (way for job in jobs for one in job.fallbacks for way in one.jobs):
        others = [*way.get("beside", ()), *(way.get("inference") or {}).get("api", ())]
        rented |= {str(one["offer"]) for one in (way, *others)}
    return named, rented


def _of_services(services: Sequence[Service]) -> tuple[set[tuple[str, str]], set[str]]:
    """Return providers with their GPUs, and the labels of offers, that services name."""
    kinds = [kind for service in services for kind in service.fleet.kinds]
    api = {one.offer for service in services for one in service.fleet.api}
    return {(kind.provider, kind.gpu) for kind in kinds}, api | {kind.offer for kind in kinds}


def _inputs(scenario: Scenario, named: set[tuple[str, str]], rented: set[str], solvers: Mapping[str, str]) -> Inputs:
    labels = offer_labels(scenario.offers)
    kept = [
        offer_data(offer)
        for label, offer in zip(labels, scenario.offers, strict=True)
        if label in rented or (offer.provider, offer.card) in named
    ]
    data = {key: value for key, value in scenario_data(scenario).items() if key != "offers"}
    python = ".".join(map(str, sys.version_info[:3]))
    versions = {"python": python, "planner": planner.__version__, **solvers}
    return Inputs(scenario=data, offers=tuple(kept), versions=versions)
