"""What was considered for a plan: how many candidates, and the nearest ones where there is no plan."""

from pydantic import Field

from planner.results.plan_parts import NearMiss, Part, Relaxation


class Infeasible(Part, defer_build=True):
    """Why there is no plan."""

    relax: tuple[Relaxation, ...] = ()
    nearest: tuple[NearMiss, ...] = ()


class CandidateCounts(Part):
    """Numbers of candidates: priced, rejected with a reason, and dominated by another one."""

    made: int
    rejected: int
    dominated: int
    offers: int = 0
    """Offers that candidates were made for."""
    outdated_offers: int = 0
    """Offers that were left out for the age of their price."""
    reasons: dict[str, int] = Field(default_factory=dict)
