"""Spread of the speed of a configuration: the classes of uncertainty of a framework, a model and a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.configurations.hardware import efficiency_of
from planner.configurations.recipe import framework_of
from planner.estimates.uncertainty import Sigmas, class_sigmas, efficiency_sigma, time_sigmas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats, Integers
    from planner.configurations.enumeration import JobConfigurations
    from planner.configurations.grid import Machine
    from planner.library.schema import Architecture, Library


def configuration_sigmas(
    frameworks: Sequence[str],
    architecture: Architecture,
    machines: Sequence[Machine],
    machine: Integers,
    tokens_per_micro_batch: Floats | float,
    library: Library,
) -> Sigmas:
    """Return the spread of ln(time) of configurations on `machines[machine]`, of the shape of `machine`.

    `frameworks`: the name of each configuration's.
    """
    values = library.calibrations["uncertainty"].values
    names, index = np.unique(np.asarray(frameworks, dtype=str), return_inverse=True)
    rows = [framework_of(library, str(name)) for name in names]
    profiles = [class_sigmas(values, "unknown" if row.unknown else row.kernels) for row in rows]
    profile = Sigmas(
        *(np.asarray(side, dtype=float)[index] for side in zip(*profiles, strict=True)) if profiles else (0.0, 0.0)
    )
    cards = [library.gpu(one.gpu) for one in machines]
    classes = [class_sigmas(values, card.name) for card in cards]
    speeds = library.calibrations["gpu_efficiency"]

    def column(of_machines: Sequence[Any]) -> Floats:
        return np.asarray(of_machines, dtype=float)[machine]

    return time_sigmas(
        values,
        profile,
        Sigmas(column([one.display for one in classes]), column([one.tail for one in classes])),
        column([one.gpus for one in machines]),
        column([one.instances for one in machines]),
        tokens_per_micro_batch,
        # A diffusion network is no stack of equal layers: its estimate is coarse, as unsure as a mixture of experts.
        mixture=int(architecture.experts > 0 or architecture.kind == "diffusion"),
        efficiency=column([efficiency_sigma(values, efficiency_of(card, speeds)[1]) for card in cards]),
        network_unknown=column([one.network_gbps is None for one in machines]),
    )


def spread_of(architecture: Architecture, physics: JobConfigurations, library: Library) -> tuple[Floats, Floats]:
    """Return the standard deviations of ln(time) of every configuration: for display, and for deadline and budget."""
    ways = physics.ways
    tokens = ways.micro_batch * ways.sequence
    frameworks = [ways.recipes[index].framework for index in ways.recipe]
    found = configuration_sigmas(frameworks, architecture, ways.machines, ways.machine, tokens, library)
    cards = [m.gpu for m in ways.machines]
    several = np.asarray([m.instances > 1 for m in ways.machines], dtype=bool)[ways.machine]
    methods = [r.method for r in ways.recipes]
    found = physics.learned.spread(
        found, [cards[i] for i in ways.machine], [methods[i] for i in ways.recipe], several, library
    )
    again = class_sigmas(library.calibrations["uncertainty"].values, "observed")
    observed = ~np.isnan(ways.observed_hours)
    return np.where(observed, again.display, found.display), np.where(observed, again.tail, found.tail)
