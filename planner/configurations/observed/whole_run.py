"""Observed runs of the whole job, which replace the estimate on their hardware.

An observation names a GPU and their number, not the techniques: on that hardware every configuration that the job
allows has the observed hours, start included, and counts as fitting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.recipe import is_allowed
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.configurations.configuration_table import Configurations
    from planner.configurations.grid import JobShape, Machine
    from planner.scenario.job import Job
    from planner.scenario.observed_run import Measured


def find_observed_run(job: Job, machine: Machine) -> Measured | None:
    """Return the run of the whole job on as many GPUs of this kind, whatever links them."""
    for run in job.measured:
        if run.hours is not None and (run.gpu, run.gpus) == (machine.gpu, machine.gpus):
            return run
    return None


def apply_observed_hours(ways: Configurations, job: Job, shape: JobShape) -> Configurations:
    """Return the configurations with observed hours, and the seconds per step that follow, where there was a run.

    Configurations there that the job does not allow are left out: nothing was observed of them.
    Memory is the observed peak; without one the estimate, at most what the GPU has, because it did run.
    """
    runs = [find_observed_run(job, machine) for machine in ways.machines]
    if not any(runs):
        return ways
    seen = np.asarray([run is not None for run in runs])
    permitted = np.asarray([is_allowed(recipe, job) for recipe in ways.recipes], dtype=bool)
    ways = ways.rows(~seen[ways.machine] | permitted[ways.recipe])
    hours = np.asarray([run.hours if run else np.nan for run in runs], dtype=float)[ways.machine]
    peaks = np.asarray([run.peak_vram_gib if run else np.nan for run in runs], dtype=float)[ways.machine]
    here = seen[ways.machine]
    need = np.where(np.isnan(peaks), np.minimum(ways.fit_gib, ways.usable_gib), peaks)
    return replace(
        ways,
        observed_hours=hours,
        step_seconds=np.where(here, hours * HOUR / shape.steps, ways.step_seconds),
        fit_gib=np.where(here, need, ways.fit_gib),
    )
