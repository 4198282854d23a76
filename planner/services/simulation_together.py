"""Simulation of a plan with jobs and a service: the jobs on many markets, the service request by request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.simulation.market_paths import SimulationArguments
from planner.errors import Fault, ScenarioError
from planner.library.schema import Library
from planner.results.plan import Plan
from planner.results.service_results import jobs_alone, services_usd
from planner.results.simulation import Simulation
from planner.scenario.scenario import Scenario, SolveOptions, services_of, without_services
from planner.services.service_simulation import simulate_service

if TYPE_CHECKING:
    from collections.abc import Callable


RECORDED_NOTE = "traces are those of the jobs; losses of the service follow the spot market of its offers"


def simulate_together(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions | None,
    library: Library | None,
    arguments: SimulationArguments,
    replay: Callable[[Scenario, Plan], Simulation],
) -> Simulation:
    """Return the replays of the jobs, made by `replay`, with the simulation of the services.

    Raises ScenarioError for a scenario of services alone, and what the two simulations raise.
    """
    if len(services_of(scenario)) == len(scenario.jobs):
        raise ScenarioError([Fault(scenario.name, 0, "jobs", "has services alone", "use simulate_service")])
    own = {name: arguments[name] for name in ("runs", "seed", "exact_speed") if name in arguments}
    served = simulate_service(scenario, plan, options=options, library=library, **own)  # type: ignore[arg-type]
    if not served.services:
        facts = {name: getattr(served, name) for name in ("scenario", "status", "runs", "seed", "exact_speed", "as_of")}
        return Simulation(**facts, seconds=served.seconds, infeasible=served.infeasible, plan=served.plan)
    usd = services_usd(served.plan)
    found = replay(without_services(scenario, usd), jobs_alone(served.plan))
    recorded = (RECORDED_NOTE,) if arguments.get("traces") else ()
    update = {
        "services": served.services,
        "services_usd": usd,
        "seconds": found.seconds + served.seconds,
        "notes": (*found.notes, *served.notes, *recorded),
    }
    return found.model_copy(update=update)
