"""The candidate that a plan takes for one job, with what stands behind its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from planner.candidate_table import CandidateTable
    from planner.candidates.job_candidates import JobCandidates, SpotChoice
    from planner.candidates.market import Market
    from planner.candidates.screening import ScreenedCandidates
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer


@dataclass(frozen=True)
class ChosenCandidate:
    """A row of the uncut table of one job at a spot share; what concerns machines is of no use for a service."""

    candidates: JobCandidates
    market: Market
    row: int
    share: float
    rounded: bool  # billed in whole steps
    figures: CandidateTable  # its row of the screened table
    spot: SpotChoice | None = None
    is_reserved: bool = False  # its machines are paid as a reservation of the plan

    @classmethod
    def of(
        cls, candidates: JobCandidates, screened: ScreenedCandidates, market: Market, row: int, share: float
    ) -> ChosenCandidate:
        """Return a row of the screened table at a spot share, or at a share of a piece of a curve."""
        rounded, figures = bool(screened.rounded[row]), screened.table.rows(np.asarray([row]))
        spot = screened.spot.get(row)
        if row in screened.pieces:
            spot, figures, share = screened.pieces[row].settle(figures, share, candidates.policies)
        return cls(candidates, market, int(screened.rows[row]), share, rounded, figures, spot)

    @property
    def job(self) -> Job:
        """The job of the candidate."""
        return self.candidates.job

    @property
    def place(self) -> int:
        """Index of the offer in the market."""
        return int(self.candidates.table.offer[self.row])

    @property
    def offer(self) -> Offer:
        """The offer that is rented."""
        return self.market.offers[self.place]

    @property
    def configuration(self) -> int:
        """Index into `physics.ways`."""
        return int(self.candidates.configuration[self.row])

    @property
    def machine(self) -> Machine:
        """The machines of one run."""
        ways = self.candidates.physics.ways
        return ways.machines[int(ways.machine[self.configuration])]

    @property
    def recipe(self) -> Recipe:
        """The techniques of the run."""
        return self.candidates.recipes[int(self.candidates.table.recipe[self.row])]

    @property
    def used_machine_hours(self) -> float:
        """Expected hours of all machines on demand."""
        h, row = self.candidates.hours, self.row
        machines = int(self.candidates.table.instances[row]) // h.node_groups
        return (float(h.once[row]) * h.node_groups + float(h.group_run[row])) * machines
