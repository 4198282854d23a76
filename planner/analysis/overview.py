"""Everything that a report shows: the plan, its frontier, reasons, sensitivity, replays and price history."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from planner import open_choices, services
from planner.errors import InputError, NoPlanError, SolverError
from planner.library.schema import Library
from planner.loading.price_files import read_last_days
from planner.results.fleet import FleetKind, Service
from planner.results.plan import Assignment, Plan
from planner.results.report_data import Overview, PriceDay, PriceHistory, Section
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario, SolveOptions, open_jobs, refuse_rl, services_of
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared

# The prices that the price book has of the machines of a plan, day by day.


MAX_DAYS = 60
"""Most days of one machine, the newest ones."""


def price_series(scenario: Scenario, plan: Plan) -> tuple[PriceHistory, ...]:
    """Return the stored prices of every offer that the plan rents; nothing of offers that the book does not have.

    An offer that a service rents on spot too has one history with both prices. Raises `InputError` where the book is
    damaged.
    """
    found: dict[str, PriceHistory] = {}
    for machines in (rented for part in plan.planned for rented in part.rented):
        offer = next((offer for offer in scenario.offers if _is_of(offer, machines)), None)
        if offer is not None and offer.rents_gpus and machines.offer not in found:
            days = _days(offer)
            if days:
                found[machines.offer] = PriceHistory(offer=machines.offer, days=days)
    return tuple(found.values())


def _is_of(offer: Offer, rented: Assignment | FleetKind) -> bool:
    """Return whether an offer is what a job, or a kind of machines of a service, rents."""
    same = (offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus)
    return same == (rented.provider, rented.region, rented.instance, rented.gpu, rented.gpus_per_instance)


def _days(offer: Offer) -> tuple[PriceDay, ...]:
    """Return the prices of an offer on each stored day, the oldest first."""
    days = []
    for day, offers in read_last_days(offer.provider, MAX_DAYS):
        same = [stored_offer for stored_offer in offers if _machine(stored_offer) == _machine(offer)]
        if same:
            prices = {"usd_per_hour": same[0].usd_per_hour, "spot_usd_per_hour": same[0].spot_usd_per_hour}
            days.append(PriceDay(date=day, **prices))
    return tuple(days)


def _machine(offer: Offer) -> tuple[object, ...]:
    """Return what stays the same of a machine from day to day."""
    return offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus, offer.community


_Task = tuple[Section, str, Callable[[], object]]

REPORT_RUNS = 2_000
"""Replays of a report: enough for a histogram, and a fifth of those of `simulate`."""
HOUR_REQUESTS, MOST_REQUESTS = 10_000, 1_000_000
"""Requests of each distinct hour of a service, as many as `simulate` takes, and most of all hours of a stream."""


MOST_CANDIDATES_IN_TURN = 20_000
"""Candidates of jobs that take turns above which the tornado, twenty timetables or more, is left to `what-if`."""


MOST_SERVICE_CHOICES = 300
"""Kinds of machines times loads of a service above which the tornado, twenty fleets or more, is left to `what-if`."""


def overview(
    scenario: Scenario,
    plan: Plan | None = None,
    *,
    options: SolveOptions | None = None,
    library: Library | None = None,
    wanted: Collection[Section] | None = None,
    runs: int | None = None,
    seed: int = 0,
) -> Overview:
    """Return the plan of a scenario and the analyses around it.

    Parameters
    ----------
    plan
        Shown as it is; without one the scenario is solved.
    wanted
        The analyses; all if None. Of an infeasible scenario there are none: its plan has the explanation.
    runs, seed
        Of the simulation: replays of jobs, `REPORT_RUNS` if None, or requests of each distinct hour of a service.

    Raises
    ------
    ScenarioError, LibraryError, SolverError
        As `solve` does. An analysis that finds no plan within its limits is left out, with the reason.
    """
    options = options or SolveOptions()
    scenario = refuse_rl(scenario.on_day(options.as_of), "a report with figures")
    given = plan is not None
    if open_jobs(scenario):
        fixed = open_choices.fix_choice(scenario, options, library, plan)
        if not fixed.plan.jobs:
            return Overview(plan=fixed.plan, of_file=given)
        asked: dict[str, Any] = {"options": options, "library": library, "wanted": wanted, "runs": runs, "seed": seed}
        found_of_choice = overview(fixed.scenario, fixed.definite, **asked)
        return found_of_choice.model_copy(update={"plan": fixed.plan, "fixed": fixed.lines, "of_file": given})
    if plan is None:
        serves = bool(services_of(scenario))
        plan = solve(scenario, options, library) if serves else solve_prepared(prepare(scenario, library), options)
    if not plan.planned:
        return Overview(plan=plan, of_file=given)
    replays = (runs, seed)
    tasks = _tasks(scenario, plan, options, library, replays) if plan.jobs else []
    tasks = [*tasks, *_service_tasks(scenario, plan, options, library, replays)] if plan.services else tasks
    found: dict[str, Any] = {}
    skipped: dict[Section, str] = {}
    for name, field, run in tasks:
        if wanted is not None and name not in wanted:
            skipped[name] = "not asked for"
            continue
        if name == "tornado" and (why := _left_to_what_if(plan)):
            skipped[name] = f"{why}: planner what-if --tornado"
            continue
        try:
            found[field] = run()
        except (InputError, NoPlanError, SolverError) as error:
            skipped[name] = str(error)
    return Overview(
        plan=plan, of_file=given, skipped=skipped, bases=services.kind_bases(scenario, plan, library), **found
    )


def _left_to_what_if(plan: Plan) -> str:
    """Return why a report has no tornado; empty where it has one."""
    if any(_choices(service) > MOST_SERVICE_CHOICES for service in plan.services):
        return "takes a minute or more for so many kinds of machines"
    if plan.is_timetable and plan.candidates.made > MOST_CANDIDATES_IN_TURN:
        return "takes minutes where jobs take turns on so many candidates"
    return ""


def _tornado(scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None) -> object:
    """Return the tornado around the plan of a scenario; its module is loaded late."""
    from planner.analysis.what_if_sweep import tornado

    return tornado(scenario, options, library, plan=plan)


def _choices(service: Service) -> int:
    """Return how many kinds of machines there are to choose from, times the different loads."""
    return service.kinds_left * len(set(service.fleet.load))


def _hour_requests(plan: Plan) -> int:
    """Return how many requests of each distinct hour are simulated: fewer where there are many such hours."""
    hours = 1
    for service in plan.services:
        replicas = zip(*(kind.by_hour for kind in service.fleet.kinds), strict=True)
        hours = max(hours, len(set(zip(service.fleet.load, replicas, strict=True))))
    return min(HOUR_REQUESTS, MOST_REQUESTS // hours)


def _service_tasks(
    scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None, replays: tuple[int | None, int]
) -> list[_Task]:
    """Return the analyses of a service; of one next to jobs that which theirs do not have."""

    def frontier() -> object:

        return (services.frontier_of_service if plan.jobs else services.service_frontier)(scenario, options, library)

    def reasons() -> object:

        return services.explain_service(scenario, options=options, library=library)

    def simulation() -> object:

        runs = replays[0] or _hour_requests(plan)
        return services.simulate_service(scenario, plan, options=options, library=library, runs=runs, seed=replays[1])

    found: list[_Task] = [("frontier", "service_frontier", frontier)]
    if not plan.jobs:
        found.append(("reasons", "explanation", reasons))
        found.append(("tornado", "tornado", lambda: _tornado(scenario, plan, options, library)))
        found.append(("simulation", "service_simulation", simulation))
        found.append(("prices", "prices", lambda: price_series(scenario, plan)))
    return found


def _tasks(
    scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None, replays: tuple[int | None, int]
) -> list[_Task]:
    """Return the analyses: name, the field of their answer, and the call; their modules are loaded late."""

    def frontier() -> object:
        from planner.analysis.frontier.frontier_question import frontier as trace

        return trace(scenario, options, library)

    def reasons() -> object:
        from planner.analysis.explain.limit_sensitivity import explain

        return explain(scenario, options=options, library=library)

    def simulation() -> object:
        from planner.analysis.simulation.simulate_question import simulate

        runs = replays[0] or REPORT_RUNS
        return simulate(scenario, plan, options=options, library=library, runs=runs, seed=replays[1])

    return [
        ("frontier", "frontier", frontier),
        ("reasons", "explanation", reasons),
        ("tornado", "tornado", lambda: _tornado(scenario, plan, options, library)),
        ("simulation", "simulation", simulation),
        ("prices", "prices", lambda: price_series(scenario, plan)),
    ]
