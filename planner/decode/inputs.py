"""What a plan was made from: the scenario as it was read, and the offers that the plan names."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from planner.results.plan import Inputs
from planner.scenario.offer import offer_data, offer_labels
from planner.scenario.scenario import scenario_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario

PACKAGES = {"planner": "finetune-planner", "ortools": "ortools"}
"""What decides a plan beside its inputs."""


def build_inputs(scenario: Scenario, jobs: Sequence[Assignment]) -> Inputs:
    """Return the inputs of a plan.

    Of each machine that the plan rents or names as the next best, all offers are included: the plan says in how many
    regions it is offered.
    """
    named = {(job.provider, job.gpu) for job in jobs}
    named |= {(one.provider, one.gpu) for job in jobs for one in job.runner_up}
    beside = {one.offer for job in jobs for one in job.beside}
    rented = {job.offer for job in jobs}
    labels = offer_labels(scenario.offers)
    kept = [
        offer_data(offer)
        for label, offer in zip(labels, scenario.offers, strict=True)
        if label in beside | rented or (offer.provider, offer.card) in named
    ]
    data = {key: value for key, value in scenario_data(scenario).items() if key != "offers"}
    return Inputs(scenario=data, offers=tuple(kept), versions=_versions())


def _versions() -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name, package in PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:  # a checkout that is not installed
            found[name] = "unknown"
    return found
