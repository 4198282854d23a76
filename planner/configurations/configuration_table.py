"""Configurations of one job as columns: a recipe on a machine with its batch, speed and memory, not yet priced."""

from __future__ import annotations

import functools
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import distinct
from planner.configurations.recipe import lossiness_of
from planner.library.techniques import read_techniques
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job


@record(frozen=True)
class Configurations:
    """Columns of shape (n,): configurations that fit."""

    recipes: tuple[Recipe, ...]
    machines: tuple[Machine, ...]
    recipe: Integers
    machine: Integers
    micro_batch: Integers
    accumulation: Integers
    step_seconds: Floats
    sequence: Floats  # tokens per sequence as processed
    fit_gib: Floats
    usable_gib: Floats
    observed_hours: Floats  # of the whole job; nan where all is estimated

    def __len__(self) -> int:
        return len(self.recipe)

    @functools.cached_property
    def lossiness(self) -> Integers:
        """Return `lossiness_of` the recipes (recipes,): a plan compares the same ones on many offers."""
        return lossiness_of(self.recipes)

    def rows(self, which: Integers | Flags) -> Configurations:
        """Return the configurations that a mask or an index array selects."""
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})

    def with_used_lists(self) -> tuple[Configurations, Integers]:
        """Return the same configurations with none but their recipes and machines, and the places of these recipes."""
        (recipes, recipe), (machines, machine) = distinct(self.recipe), distinct(self.machine)
        used = tuple(self.recipes[place] for place in recipes.tolist())
        rented = tuple(self.machines[place] for place in machines.tolist())
        return replace(self, recipes=used, machines=rented, recipe=recipe, machine=machine), recipes


COLUMNS = tuple(field.name for field in fields(Configurations))[2:]
"""The fields of `Configurations` with an element per configuration."""


@record(frozen=True)
class MemoryShortfall:
    """A recipe on a machine whose memory is too small, and by how much."""

    recipe: Recipe
    machine: Machine
    shortfall_gib: float


@record(frozen=True)
class HostShortfall:
    """A recipe that fits on the GPUs of a machine, whose host has too little memory for its states."""

    recipe: Recipe
    machine: Machine
    taken_gb: float

    @property
    def shortfall_gb(self) -> float:
        """GB that the host lacks."""
        return self.taken_gb - (self.machine.ram_gb or 0.0)


def concatenate_configurations(pieces: Sequence[Configurations]) -> Configurations:
    """Return one set of columns; the recipes and machines of the pieces are listed one after the other."""
    empty = np.zeros(0)
    if not pieces:
        return Configurations((), (), *(empty.astype(np.int64),) * 4, *(empty,) * 5)
    recipes = [recipe for piece in pieces for recipe in piece.recipes]
    machines = [machine for piece in pieces for machine in piece.machines]
    recipe_base = np.cumsum([0, *(len(piece.recipes) for piece in pieces)])
    machine_base = np.cumsum([0, *(len(piece.machines) for piece in pieces)])
    return Configurations(
        tuple(recipes),
        tuple(machines),
        np.concatenate([piece.recipe + base for piece, base in zip(pieces, recipe_base, strict=False)]),
        np.concatenate([piece.machine + base for piece, base in zip(pieces, machine_base, strict=False)]),
        *(np.concatenate([getattr(piece, name) for piece in pieces]) for name in COLUMNS[2:]),
    )


def technique_uses(ways: Configurations, which: Integers) -> Flags:
    """Return the techniques (k, T) that some configurations (k,) use."""
    names = read_techniques().values.names
    recipes, of = distinct(ways.recipe[which])
    by_recipe = np.asarray([_uses(ways.recipes[one], names) for one in recipes.tolist()], dtype=bool)
    return by_recipe.reshape(-1, 2, len(names))[of, (ways.accumulation[which] > 1).astype(np.int64)]


def technique_penalties(job: Job, ways: Configurations) -> Floats:
    """Return the sum of the penalties (n,) of the techniques that each configuration uses."""
    penalties = np.asarray(job.techniques.penalties_usd)
    if not penalties.any():
        return np.zeros(len(ways))
    return np.asarray(technique_uses(ways, np.arange(len(ways))) @ penalties, dtype=float)


@functools.lru_cache(maxsize=4096)  # recipes repeat: on other GPUs, and whenever a limit is lifted
def _uses(recipe: Recipe, names: tuple[str, ...]) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return which of the table's `names` are in use without and with accumulation."""
    del names  # part of the key alone: another table of techniques has other names
    return recipe.uses(False), recipe.uses(True)
