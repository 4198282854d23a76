"""What names a run: its job, offer and machines, techniques, places of stages, markets and times. No figures."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from planner.records import record
from planner.spot.policy.switching_policy import WaitingRule

if TYPE_CHECKING:
    from planner.results.plan import Assignment
    from planner.results.plan_parts import Pause, SpotPlan, Techniques
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.policy_cache import PolicyCache
    from planner.spot.policy.policy_odds import PolicyCosts
    from planner.spot.policy.run import SpotRun


@record(frozen=True)
class NamedStage:
    """A stage on a machine of its own."""

    stage: str
    offer: str  # label


@record(frozen=True)
class NamedPolicy:
    """A policy on spot: the hours that it guarantees, what an hour of waiting counts, and a stated rule."""

    guaranteed_hours: float
    waiting_usd_per_hour: float
    rule: WaitingRule | None = None

    @classmethod
    def of(cls, stated: SpotPlan) -> NamedPolicy:
        """Return what a plan names of its policy."""
        return cls(
            stated.guaranteed_hours,
            stated.waiting_usd_per_hour,
            WaitingRule(stated.take_after_up_hours, stated.take_at_once_from_hours),
        )


@record(frozen=True)
class NamedRun:
    """Everything that decides the figures of a run, as a search chooses it or as a plan states it."""

    name: str  # of the job
    offer: str  # label
    instances: int
    gpus: int  # of all instances
    gpus_per_instance: int
    techniques: Techniques
    spot_share: float
    beside: tuple[NamedStage, ...] = ()
    policy: NamedPolicy | None = None
    kv_bits: int | None = None  # of the cache of generation
    fallback: str | None = None  # the change for a run out of memory, of changes that cost equally little time
    start_at_hours: float = 0.0
    pauses: tuple[Pause, ...] = ()
    is_reserved: bool = False  # its machines are paid by a reservation of the plan

    @classmethod
    def of(cls, stated: Assignment) -> NamedRun:
        """Return what an assignment names."""
        given = stated.vram_gib.fallback
        return cls(
            name=stated.name,
            offer=stated.offer,
            instances=stated.instances,
            gpus=stated.gpus,
            gpus_per_instance=stated.gpus_per_instance,
            techniques=stated.techniques,
            spot_share=stated.spot_share,
            beside=tuple(NamedStage(one.stage, one.offer) for one in stated.beside),
            policy=NamedPolicy.of(stated.spot) if stated.spot else None,
            kv_bits=stated.inference.kv_bits if stated.inference else None,
            fallback=given.change if given else None,
            start_at_hours=stated.start_at_hours,
            pauses=stated.pauses,
            is_reserved=stated.is_reserved,
        )

    @property
    def standstill_hours(self) -> float:
        """Hours of closed windows in which the run stands still."""
        return math.fsum(one.to_hours - one.from_hours for one in self.pauses)

    def delay_hours(self, resume_hours: float) -> float:
        """Return what the calendar adds to the hours of the run, where each pause costs `resume_hours`."""
        return self.start_at_hours + self.standstill_hours + len(self.pauses) * resume_hours


SAME = 1e-9
"""Relative difference of figures that differ by rounding alone: arrays and plain floats add in other orders."""


@record(frozen=True, eq=False)
class SearchedPolicy:
    """The run, market and costs of a policy in a search, and the passes that the search has computed."""

    run: SpotRun
    states: SpotStates
    costs: PolicyCosts
    policies: PolicyCache


def is_same(mine: object, found: object) -> bool:
    """Return whether two records are the same but for rounding."""
    if isinstance(mine, float) and isinstance(found, (int, float)):
        return math.isclose(mine, found, rel_tol=SAME, abs_tol=SAME)
    if type(mine) is not type(found):
        return False
    if isinstance(mine, tuple) and isinstance(found, tuple):
        return len(mine) == len(found) and all(map(is_same, mine, found))
    if dataclasses.is_dataclass(mine):
        names = [field.name for field in dataclasses.fields(mine)]
        return all(is_same(getattr(mine, name), getattr(found, name)) for name in names)
    return mine == found
