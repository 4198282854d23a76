"""Objectives: one vector of coefficients per goal, one entry per variable."""

from __future__ import annotations

import numpy as np

from planner.arrays import Floats
from planner.formulation.program import VariableLayout


def cost_objective(columns: VariableLayout) -> Floats:
    """Return expected dollars with penalties and the value of time.

    sum_c ( fixed_usd*choose + sum_m run_usd*share + penalty_usd*choose ) + value_of_time*sum_j hours_j
    """
    penalty = columns.vector(columns.table.penalty_usd)
    return columns.cost_usd() + penalty + columns.shared.value_of_time_usd_per_hour * columns.hours()


def preference_objective(columns: VariableLayout) -> Floats:
    """Return what ties are decided by before machines and hours, summed over the jobs.

    sum_c preference[c]*choose[c]
    """
    return columns.vector(columns.table.preference.astype(float))


def machines_objective(columns: VariableLayout) -> Floats:
    """Return the machines, summed over the jobs.

    sum_c instances[c]*choose[c]
    """
    return columns.vector(columns.table.instances.astype(float))


def hours_objective(columns: VariableLayout) -> Floats:
    """Return the hours at the requested confidence, summed over the jobs.

    sum_j late_j,    late_j = sum_{c of j} ( late_start_h*choose + sum_m late_h*share )
    """
    return columns.late_hours()


def time_objective(columns: VariableLayout) -> Floats:
    """Return the hours at which the last job ends, at the requested confidence.

    last
    """
    values = np.zeros(columns.size)
    values[columns.last] = 1.0
    return values


def lossiness_objective(columns: VariableLayout) -> Floats:
    """Return how much the techniques in use may change what is learnt, summed over the jobs.

    sum_c lossiness[c]*choose[c]
    """
    return columns.vector(columns.table.lossiness.astype(float))


def memory_objective(columns: VariableLayout) -> Floats:
    """Return less the GiB per GPU that stay free.

    - sum_c ( usable_gib[c] - fit_gib[c] )*choose[c]
    """
    return columns.vector(columns.table.fit_gib - columns.table.usable_gib)


def name_objective(columns: VariableLayout) -> Floats:
    """Return a number for each plan that depends on the names of its offers alone.

    sum_{j,c of j} weight[j]*rank[c]*choose[c],    rank by (offer label, row order) within the job

    The weights are `1 + (j*golden ratio mod 1)`: multiples of an irrational number, so that hardly any two plans have
    the same sum and every solver ends at the same plan.
    """
    table = columns.table
    order_of_offer = np.empty(len(table.offers), dtype=np.int64)
    order_of_offer[np.argsort(np.array(table.offers))] = np.arange(len(table.offers))
    order = np.lexsort((np.arange(len(table)), order_of_offer[table.offer], table.job))
    first_of_job = np.searchsorted(table.job[order], np.arange(len(table.jobs)))
    rank = np.empty(len(table))
    rank[order] = np.arange(len(table)) - first_of_job[table.job[order]]
    weight = 1.0 + np.mod(np.arange(len(table.jobs)) * (1.0 + np.sqrt(5.0)) / 2.0, 1.0)
    return columns.vector(weight[table.job] * rank)
