"""Hours of a job's ways: start, training, spot, and how sure they are.

One array element per way, or per (way, offer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.estimates.preemption import (
    GangCoefficients,
    Interrupted,
    gang_market,
    interrupted_run,
    wall_quantile_factor,
)
from planner.estimates.setup import Numbers
from planner.estimates.stages import (
    StageCoefficients,
    asynchronous_stall_seconds,
    boot_seconds,
    checkpoint_bytes,
    download_seconds,
    goodput_factor,
    load_seconds,
)
from planner.estimates.uncertainty import class_of, late_factor
from planner.hardware import PCIE_BYTES_PER_SECOND
from planner.library import Architecture, Library
from planner.recipes import Recipe, framework_of
from planner.scenario import Job
from planner.setups import recipe_setup
from planner.spreads import spreads
from planner.table import Flags, Floats, Integers
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from planner.candidates import OfferColumns
    from planner.ways import Physics


class OnSpot(NamedTuple):
    """Hours of all the work on spot, per (way, offer): paid, expected wall, wall at the confidence; no start in any."""

    paid: Floats
    wall: Floats
    late_wall: Floats


@dataclass(frozen=True)
class Running:
    """Columns (ways,) in hours, and what a machine needs to start; `export_gb` per recipe."""

    run_hours: Floats  # on demand, goodput in; as observed where the whole job was
    observed: Flags  # hours are those of an observed run, its start among them
    load_seconds: Floats
    sigma: Floats
    sigma_tail: Floats
    late_factor: Floats
    stall_seconds: Floats  # per checkpoint
    export_gb: tuple[float, ...]
    moved_gb: float  # weights and data that every instance downloads
    stages: StageCoefficients
    pull: tuple[float, float]  # bytes per second: data-centre clouds, community hosts
    gang: GangCoefficients
    outage_cv: float
    wall_factor: float

    def start_hours(self, community: Flags, way: Integers) -> Floats:
        """What a run needs before its first step, per (way, offer); 0 where it is part of the observed hours."""
        return np.where(self.observed[way], 0.0, self.restart_hours(community, way))

    def restart_hours(self, community: Flags | bool, way: Integers | int) -> Floats:
        """Boot, image, download, load: per (way, offer)."""
        pull = np.where(community, self.pull[1], self.pull[0])
        return np.asarray(
            (
                boot_seconds(pull, self.stages)
                + download_seconds(self.moved_gb * GB, pull)
                + self.load_seconds[way]
            )
            / HOUR
        )

    def on_spot(self, columns: OfferColumns, offer: Integers, way: Integers, nodes: Integers) -> OnSpot:
        """Interrupted hours of the gang; nan where the offer has no spot market."""
        has = ~np.isnan(columns.spot_usd[offer])
        paid, wall, late = (np.full(len(way), np.nan) for _ in range(3))
        if has.any():
            which, where = way[has], offer[has]
            restart = self.restart_hours(columns.community[where], which)
            run = self.interrupted(
                which, nodes[has], restart, columns.mean_up_hours[where], columns.availability[where]
            )
            paid[has], wall[has] = run.paid, run.wall
            late[has] = run.wall * self.late_factor[which] * self.wall_factor
        return OnSpot(paid, wall, late)

    def interrupted(
        self, way: Integers | int, nodes: Numbers, restart: Numbers, mean_up_hours: Numbers, availability: Numbers
    ) -> Interrupted:
        """All the work of a way on spot: gangs of `nodes` instances, `restart` hours lost after each interruption.

        All arguments broadcast; the market is that of one instance. No start in the hours returned.
        """
        market = gang_market(mean_up_hours, availability, nodes, self.gang)
        stall = self.stall_seconds[way] / HOUR
        return interrupted_run(self.run_hours[way], restart, stall, market, self.gang, self.outage_cv)


def running_hours(job: Job, architecture: Architecture, physics: Physics, library: Library) -> Running:
    """Start, training and spot figures of every way of a job."""
    ways, shape = physics.ways, physics.shape
    stages = StageCoefficients.of(values_of(library, "stages"))
    extra = library.calibrations["stages"]
    machines = ways.machines
    nodes = per_machine([m.instances for m in machines])[ways.machine]
    gpus = per_machine([m.gpus for m in machines])[ways.machine]
    pcie = per_machine([PCIE_BYTES_PER_SECOND[library.gpu(m.gpu).pcie_gen] for m in machines])[ways.machine]
    quantised = np.asarray(
        [shape.network.parameters * (r.weight_bits < 16) for r in ways.recipes], dtype=float
    )
    compiled = int(bool(framework_of(library, job.framework).get("compiled")))
    # The same recipe stands once for every class of card.
    states = {r: recipe_setup(r, job, shape.network, library).states for r in dict.fromkeys(ways.recipes)}
    setups = [states[r] for r in ways.recipes]
    trained = np.asarray([s.trainable for s in setups], dtype=float)[ways.recipe]
    observed = ~np.isnan(ways.observed_hours)
    estimated = shape.steps * ways.step_seconds / job.efficiency / HOUR
    step_hours = np.where(observed, ways.observed_hours, estimated)
    load = load_seconds(
        architecture.download_gb * GB,
        gpus,
        np.inf,
        job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency,
        pcie,
        stages,
        quantised[ways.recipe],
        compiled,
    )
    sigma, tail = sigmas(job, architecture, physics, library)
    return Running(
        run_hours=np.where(observed, step_hours, step_hours * goodput_factor(step_hours, nodes, 0, stages)),
        observed=observed,
        load_seconds=np.asarray(load, dtype=float),
        sigma=sigma,
        sigma_tail=tail,
        late_factor=np.asarray(late_factor(tail, job.confidence), dtype=float),
        stall_seconds=np.asarray(
            asynchronous_stall_seconds(checkpoint_bytes(trained, stages), gpus, pcie, stages), dtype=float
        )
        + stages.checkpoint_fixed_seconds,
        export_gb=tuple(
            export_gb(recipe, float(s.trainable), float(s.adapter_bytes), architecture)
            for recipe, s in zip(ways.recipes, setups, strict=True)
        ),
        moved_gb=architecture.download_gb + job.data_gb,
        stages=stages,
        pull=(extra.value("pull_bytes_per_second"), extra.value("community_pull_bytes_per_second")),
        gang=GangCoefficients.of(values_of(library, "stages")),
        outage_cv=extra.value("spot_outage_cv"),
        wall_factor=wall_quantile_factor(
            job.confidence, library.calibrations["uncertainty"].value("wall_spread")
        ),
    )


def export_gb(recipe: Recipe, trainable: float, adapter_bytes: float, architecture: Architecture) -> float:
    """GB of the result: the adapters, or all weights in 16 bit."""
    if recipe.method == "lora":
        return float(trainable) * adapter_bytes / GB
    return architecture.download_gb


def sigmas(job: Job, architecture: Architecture, physics: Physics, library: Library) -> tuple[Floats, Floats]:
    """Spread of ln(time) of every way: for display, and for deadline and budget."""
    ways = physics.ways
    tokens = ways.micro_batch * ways.sequence
    found = spreads(job.framework, architecture, ways.machines, ways.machine, tokens, library)
    cards = [m.gpu for m in ways.machines]
    several = np.asarray([m.instances > 1 for m in ways.machines], dtype=bool)[ways.machine]
    methods = [r.method for r in ways.recipes]
    found = physics.learned.spread(
        found, [cards[i] for i in ways.machine], [methods[i] for i in ways.recipe], several, library
    )
    again = class_of(values_of(library, "uncertainty"), "observed")
    observed = ~np.isnan(ways.observed_hours)
    return np.where(observed, again.display, found.display), np.where(observed, again.tail, found.tail)


def per_machine(values: Sequence[float] | Floats) -> Floats:
    """A column of machines as floats, usable as a look-up even when empty."""
    return np.asarray(values, dtype=float)


def values_of(library: Library, name: str) -> dict[str, float]:
    """The plain values of a calibration by key."""
    return {key: entry.value for key, entry in library.calibrations[name].coefficients.items()}


__all__ = ["OnSpot", "Running", "export_gb", "running_hours", "sigmas", "values_of"]
