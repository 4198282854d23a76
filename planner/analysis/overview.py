"""Everything that a report shows: the plan, its frontier, reasons, sensitivity, replays and price history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from planner.errors import InputError, NoPlanError, SolverError
from planner.library.schema import Library
from planner.loading.price_files import read_last_days
from planner.results.fleet import FleetKind
from planner.results.plan import Assignment, Plan
from planner.results.subject_runs import RlPool
from planner.results.what_if import Overview, PriceDay, PriceHistory, Section
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare, sharing_candidates
from planner.solving.solve import solve_prepared
from planner.subjects import subject_of

# The prices that the price book has of the machines of a plan, day by day.


MAX_DAYS = 60
"""Most days of one machine, the newest ones."""


def price_series(scenario: Scenario, plan: Plan) -> tuple[PriceHistory, ...]:
    """Return the stored prices of every offer that the plan rents; nothing of offers that the book does not have.

    An offer that a service rents on spot too has one history with both prices. Raises `InputError` where the book is
    damaged.
    """
    histories: dict[str, PriceHistory] = {}
    for machines in (rented for part in plan.planned for rented in part.rented):
        offer = next((offer for offer in scenario.offers if _is_of(offer, machines)), None)
        if offer is not None and offer.rents_gpus and machines.offer not in histories:
            days = _days(offer)
            if days:
                histories[machines.offer] = PriceHistory(offer=machines.offer, days=days)
    return tuple(histories.values())


def _is_of(offer: Offer, rented: Assignment | FleetKind | RlPool) -> bool:
    """Return whether an offer is what a job, a kind of machines of a service, or a pool rents."""
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


Task = tuple[Section, str, Callable[[], object]]
"""An analysis of a report: its name, the field of its answer, and the call."""

REPORT_RUNS = 2_000
"""Replays of a report: enough for a histogram, and a fifth of those of `simulate`."""
MOST_CANDIDATES_IN_TURN = 20_000
"""Candidates of jobs that take turns above which the tornado, twenty timetables or more, is left to `what-if`."""


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
    scenario = scenario.on_day(options.as_of)
    if (subject := subject_of(scenario)) is not None:
        return subject.overview(scenario, plan, options, library, wanted, runs, seed)
    given = plan is not None
    prepared = prepare(scenario, library)
    plan = solve_prepared(prepared, options) if plan is None else plan
    if not plan.planned:
        return Overview(plan=plan, of_file=given)
    tasks = job_tasks(scenario, plan, options, prepared.library, runs, seed)
    with sharing_candidates(prepared):
        answers = run_tasks(tasks, wanted, {"tornado": left_to_what_if(plan)})
    return Overview(plan=plan, of_file=given, **answers)


TORNADO = "planner what-if --tornado"


def run_tasks(
    tasks: Iterable[Task], wanted: Collection[Section] | None, left_out: Mapping[Section, str]
) -> dict[str, Any]:
    """Return the answers of analyses by their fields, and why others are skipped, such as those left to a command."""
    answers: dict[str, Any] = {}
    skipped: dict[Section, str] = {}
    for name, field, run in tasks:
        if wanted is not None and name not in wanted:
            skipped[name] = "not asked for"
            continue
        if why := left_out.get(name):
            skipped[name] = why
            continue
        try:
            answers[field] = run()
        except (InputError, NoPlanError, SolverError) as error:
            skipped[name] = str(error)
    return {**answers, "skipped": skipped}


def left_to_what_if(plan: Plan) -> str:
    """Return why a report has no tornado, and the command that has it; empty where the report has one."""
    if plan.is_timetable and plan.candidates.made > MOST_CANDIDATES_IN_TURN:
        return f"takes minutes where jobs take turns on so many candidates: {TORNADO}"
    return ""


def tornado_of(scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None) -> object:
    """Return the tornado around the plan of a scenario; its module is loaded late."""
    from planner.analysis.what_if_question import tornado

    return tornado(scenario, options, library, plan=plan)


def job_tasks(
    scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None, runs: int | None, seed: int
) -> list[Task]:
    """Return the analyses of jobs: name, the field of their answer, and the call; their modules are loaded late."""

    def frontier() -> object:
        from planner.analysis.frontier_question import frontier_of_jobs as trace

        return trace(scenario, options, library).with_plan(plan)

    def reasons() -> object:
        from planner.analysis.limit_sensitivity import explain

        return explain(scenario, options=options, library=library)

    def simulation() -> object:
        from planner.analysis.simulate_question import simulate

        return simulate(scenario, plan, options=options, library=library, runs=runs or REPORT_RUNS, seed=seed)

    return [
        ("frontier", "frontier", frontier),
        ("reasons", "explanation", reasons),
        ("tornado", "tornado", lambda: tornado_of(scenario, plan, options, library)),
        ("simulation", "simulation", simulation),
        ("prices", "prices", lambda: price_series(scenario, plan)),
    ]
