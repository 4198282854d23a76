"""Spread of the speed of a configuration: the classes of uncertainty of a framework, a model and a machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Floats, Integers, distinct_names
from planner.configurations.coefficients import efficiency_of
from planner.configurations.fitting_cells import JobConfigurations
from planner.configurations.grid import Machine
from planner.configurations.recipe import Recipe, framework_of, has_unmeasured_loops
from planner.estimates.uncertainty import Sigmas, class_sigmas, efficiency_sigma, time_sigmas
from planner.library.schema import Architecture, GpuSpec, Library
from planner.scenario.job import Job
from planner.scenario.scenario import token_sigma

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def configuration_sigmas(
    recipes: Sequence[Recipe],
    architecture: Architecture,
    machines: Sequence[Machine],
    machine: Integers,
    tokens_per_micro_batch: Floats | float,
    library: Library,
    unmeasured: Floats | float = 0.0,
) -> Sigmas:
    """Return the spread of ln(time) of configurations on `machines[machine]`, of the shape of `machine`.

    `recipes`: that of each configuration; `unmeasured`: what `chip_sigma` adds to each.
    """
    values = library.calibrations["uncertainty"].values
    names, index = distinct_names([recipe.framework for recipe in recipes])
    hosted = {id(recipe): float(recipe.offloads) for recipe in {id(recipe): recipe for recipe in recipes}.values()}
    rows = [framework_of(library, name) for name in names]
    profiles = [class_sigmas(values, "unknown" if row.unknown else row.kernels) for row in rows]
    profile = Sigmas(
        *(np.asarray(side, dtype=float)[index] for side in zip(*profiles, strict=True)) if profiles else (0.0, 0.0)
    )
    cards = [library.gpu(host.gpu) for host in machines]
    classes = [class_sigmas(values, card.name) for card in cards]
    speeds = library.calibrations["gpu_efficiency"]

    def column(of_machines: Sequence[Any]) -> Floats:
        return np.asarray(of_machines, dtype=float)[machine]

    return time_sigmas(
        values,
        profile,
        Sigmas(column([sigmas.display for sigmas in classes]), column([sigmas.tail for sigmas in classes])),
        column([host.gpus for host in machines]),
        column([host.instances for host in machines]),
        tokens_per_micro_batch,
        mixture=int(architecture.experts > 0),
        offload=np.asarray([hosted[id(recipe)] for recipe in recipes]),
        efficiency=np.hypot(
            column([efficiency_sigma(values, efficiency_of(card, speeds)[1]) for card in cards]), unmeasured
        ),
        network_unknown=column([host.network_gbps is None for host in machines]),
    )


def chip_sigma(card: GpuSpec, method: str, precision: str, chips: int, values: Mapping[str, float]) -> float:
    """Return the spread that a chip other than NVIDIA's adds where its published runs are of another kind, ln.

    Another method, or fewer chips than any of its runs had, and another precision add as squares.
    """
    if card.chip is None:
        return 0.0
    kind = values["unmeasured_kind"] if card.chip.unmeasured(method, chips) else 0.0
    # Of a method without measurements no precision is known.
    known = any(measurement.method == method for measurement in card.chip.measured)
    other = known and not card.chip.has_precision(method, precision)
    return math.hypot(kind, values["unmeasured_precision"] if other else 0.0)


def precision_sigma(precision: str, library: Library) -> float:
    """Return the spread of a precision whose speed is a prior, ln: that of one in which a chip was not measured."""
    is_prior = bool(library.techniques.values.precision.values[precision].prior)
    return library.calibrations["uncertainty"].value("unmeasured_precision") if is_prior else 0.0


def technique_sigma(recipe: Recipe, experts: int, library: Library) -> float:
    """Return the spread of techniques whose speed is a prior, ln; 0 where none is.

    Precision, DoRA, all activations in host memory, tools without measured speeds, and loops over more `experts` of a
    layer than were measured.
    """
    values = library.calibrations["uncertainty"].values
    own = values["prior_technique"] if recipe.has_prior_speed else 0.0
    loops = values["looped_experts"] if has_unmeasured_loops(recipe, experts, library) else 0.0
    return math.hypot(precision_sigma(recipe.precision, library), own, loops)


def unmeasured_sigma(recipe: Recipe, machine: Machine, experts: int, library: Library) -> float:
    """Return the spread of what was not measured of a recipe on a machine, ln: its chip's kind, its techniques."""
    card, values = library.gpu(machine.gpu), library.calibrations["uncertainty"].values
    of_chip = chip_sigma(card, recipe.method, recipe.precision, machine.gpus, values)
    return math.hypot(of_chip, technique_sigma(recipe, experts, library))


def _unmeasured_sigmas(physics: JobConfigurations, library: Library) -> Floats | float:
    """Return what `chip_sigma` and `technique_sigma` add to every configuration."""
    ways, experts = physics.ways, physics.shape.network.experts
    guessed = np.asarray([technique_sigma(recipe, experts, library) for recipe in ways.recipes], dtype=float)
    of_chips = _chip_sigmas(physics, library)
    return np.hypot(of_chips, guessed[ways.recipe]) if guessed.any() else of_chips


def _chip_sigmas(physics: JobConfigurations, library: Library) -> Floats | float:
    """Return what `chip_sigma` adds to every configuration."""
    ways, values = physics.ways, library.calibrations["uncertainty"].values
    cards = [library.gpu(machine.gpu) for machine in ways.machines]
    if all(card.chip is None for card in cards):
        return 0.0
    kinds = list(
        dict.fromkeys((recipe.method, recipe.precision) for recipe in ways.recipes)
    )  # few, of hundreds of recipes
    each = np.zeros((len(cards), len(kinds)))
    for place, (card, machine) in enumerate(zip(cards, ways.machines, strict=True)):
        if card.chip is not None:
            each[place] = [chip_sigma(card, *kind, machine.gpus, values) for kind in kinds]
    kind_of = np.asarray([kinds.index((recipe.method, recipe.precision)) for recipe in ways.recipes])
    return np.asarray(each[ways.machine, kind_of[ways.recipe]], dtype=float)


def spread_of(
    job: Job, architecture: Architecture, physics: JobConfigurations, library: Library
) -> tuple[Floats, Floats]:
    """Return the standard deviations of ln(time) of every configuration: for display, and for deadline and budget.

    What is not known of the tokens themselves, where a law decides them, is independent of the speed.
    """
    ways = physics.ways
    tokens = ways.micro_batch * job.answers * ways.sequence
    recipes = [ways.recipes[index] for index in ways.recipe]
    unmeasured = _unmeasured_sigmas(physics, library)
    found = configuration_sigmas(recipes, architecture, ways.machines, ways.machine, tokens, library, unmeasured)
    cards = [m.gpu for m in ways.machines]
    several = np.asarray([m.instances > 1 for m in ways.machines], dtype=bool)[ways.machine]
    methods = [r.method for r in ways.recipes]
    found = physics.learned.spread(
        found, [cards[i] for i in ways.machine], [methods[i] for i in ways.recipe], several, library
    )
    again = class_sigmas(library.calibrations["uncertainty"].values, "observed")
    observed = ~np.isnan(ways.observed_hours)
    work = token_sigma(job)
    display, tail = np.where(observed, again.display, found.display), np.where(observed, again.tail, found.tail)
    return (np.hypot(display, work), np.hypot(tail, work)) if work else (display, tail)
