"""The frontier that a scenario has: dollars against hours, against the time per token, or the loss against dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.documents.validation import meant_name
from planner.errors import Fault, ScenarioError
from planner.loading.building import Question, as_scenario
from planner.results.frontier import DEFAULT_POINTS
from planner.subjects import Subject, subject_of

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.results.chosen_model import LossFrontier
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.service_results import ServiceFrontier
    from planner.scenario.scenario import Scenario, SolveOptions


def traces_its_own(scenario: Scenario, job: str | None, by: str | None = None) -> Subject | None:
    """Return what traces a frontier of its own for a scenario; None where the frontier is of cost against time.

    `job` is whose it shall be, where jobs stand next to a service.

    Raises
    ------
    ScenarioError
        No job has the name, there is no service to tell jobs from, or curves are asked for where there are none.
    """
    found = subject_of(scenario)
    if scenario.objective != "loss":
        endless = {one.name for one in scenario.jobs if not one.ends}
        names = [one.name for one in scenario.jobs]
        if job is not None and not endless:
            raise ScenarioError([Fault("--job", 0, "", "is for jobs next to a service", "leave it out")])
        asked = names if job is None else [meant_name(job, names, "--job", "the scenario has no job")]
        found = found if endless.issuperset(asked) else None
    if by is not None and found is not None:
        raise ScenarioError([Fault("--by", 0, "", "divides a frontier of cost against time", "leave it out")])
    return found


def frontier(
    scenario: Question,
    options: SolveOptions | None = None,
    library: Library | None = None,
    by: GroupBy | None = None,
    points: int | None = None,
    job: str | None = None,
) -> Frontier | ServiceFrontier | LossFrontier:
    """Return the frontier of a scenario, as the command `planner frontier` does.

    Of jobs it is the cost for every deadline (`Frontier`), of a service the dollars of a month for limits on the time
    per token (`ServiceFrontier`), with `objective: loss` the least loss for every budget (`LossFrontier`).

    Parameters
    ----------
    by
        Of jobs: one curve more for each `method`, `gpu` or `provider`.
    points
        Most points to solve; 20, of a service 10. One job alone has every breakpoint, whatever is asked for.
    job
        Where jobs stand next to a service: whose frontier; that of the jobs by default.

    Raises
    ------
    ScenarioError, LibraryError
        The scenario or a name cannot be used. An infeasible one is a result with that status and its explanation.
    SolverError
        The solver failed.

    Examples
    --------
    >>> found = planner.frontier("quickstart")
    >>> found.points[0].hours < found.points[-1].hours and found.points[0].cost_usd > found.points[-1].cost_usd
    True
    >>> type(planner.frontier("serve-office-hours", points=2)).__name__
    'ServiceFrontier'
    """
    scenario = as_scenario(scenario)
    own = traces_its_own(scenario, job, by)
    if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 2):
        raise ScenarioError([Fault("--points", 0, "", f"{points!r} is no number of points", "give 2 or more")])
    if own is not None:
        return own.own_frontier(scenario, options, library, points)
    # Late: numpy and the solvers, which a wrong question does not need.
    from planner.analysis.frontier.frontier_question import frontier as frontier_of_jobs

    return frontier_of_jobs(scenario, options, library, by, points or DEFAULT_POINTS)
