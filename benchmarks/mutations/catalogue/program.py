"""Bugs in the program, its passes and dominance."""

from benchmarks.mutations.catalogue.tests import DOMINANCE, LEXICOGRAPHIC, LIMITS, OPTIMUM, PROGRAMS
from benchmarks.mutations.mutation import Area

AREA = Area()
SHARED = "tests/solving/test_shared_limits_by_hand.py"

AREA.of("planner/formulation/constraints.py", OPTIMUM)
AREA.add(
    "two candidates of a job may be chosen",
    'sparse_rows("assignment", table.job, columns.choose, ones, one, one, label)',
    'sparse_rows("assignment", table.job, columns.choose, ones, one, 2 * one, label)',
    PROGRAMS,
)
AREA.add(
    "the budget is of expected dollars",
    'single_row("budget", columns.late_cost_usd(), upper=budget)',
    'single_row("budget", columns.cost_usd(), upper=budget)',
)
AREA.add("stock counts GPUs", "table.offers, table.instances, limits)", "table.offers, table.gpus, limits)")
AREA.add("hours paid for are not used up", "table.rented_h, limits)", "0 * table.rented_h, limits)")
AREA.add("quota counts instances", "table.providers, table.gpus, limits)", "table.providers, table.instances, limits)")
AREA.add(
    "max_gpus counts instances",
    "columns.vector(one.used(columns.table))",
    "columns.vector(columns.table.instances.astype(float))",
)
AREA.add("the floor of the spot share is dropped", "    spot_floor_rows,\n", "", PROGRAMS)
AREA.add("the cap of the spot share is dropped", "    spot_cap_rows,\n", "")
AREA.add("the last finish is that of no job", "    finish_rows,\n", "")
AREA.add(
    "shares have the sign of their limit wrong",
    "np.concatenate([-limit[which], np.ones(count)])",
    "np.concatenate([limit[which], np.ones(count)])",
)

AREA.of("planner/formulation/program.py", OPTIMUM)
AREA.add(
    "more spot costs what less does", "chosen[:, SPOT] - chosen[:, ON_DEMAND]", "chosen[:, ON_DEMAND] - chosen[:, SPOT]"
)
AREA.add(
    "a fixed spot share costs what none does",
    "np.where(is_split, 0.0, self.table.share_low)",
    "np.zeros(len(self.table))",
)
AREA.add("late hours are expected ones", "self.table.late_hours(self.base_share)", "self.table.hours(self.base_share)")
AREA.add(
    "late dollars are expected ones",
    "self.vector(self.table.late_cost_usd(self.base_share)",
    "self.vector(self.table.cost_usd(self.base_share)",
)

AREA.of("planner/formulation/program.py", OPTIMUM)
AREA.add("penalties are not minimised", "columns.cost_usd() + penalty + ", "columns.cost_usd() + ")
AREA.add("waiting is worth nothing", " + columns.shared.value_of_time_usd_per_hour * columns.hours()", "")

AREA.of("planner/arrays.py", OPTIMUM, LIMITS)
AREA.add(
    "dollars leave out what is fixed",
    "self.fixed_usd + _mix_markets(self.run_usd, spot_share)",
    "_mix_markets(self.run_usd, spot_share)",
    LIMITS,
)
AREA.add(
    "late dollars leave out what is fixed",
    "self.fixed_usd + _mix_markets(self.late_usd, spot_share)",
    "_mix_markets(self.late_usd, spot_share)",
    LIMITS,
)
AREA.add(
    "the markets of a mix are swapped", "per_market[:, SPOT] * share, 0.0)", "per_market[:, SPOT] * (1.0 - share), 0.0)"
)

AREA.of("planner/formulation/constraints.py", DOMINANCE)
AREA.add(
    "fewer GPUs are no reason to stay", "table.gpus.astype(float), table.share_low", "0.0 * table.gpus, table.share_low"
)
AREA.add("late dollars are no reason to stay", "        (table.fixed_usd, table.late_usd),\n", "")
AREA.add("late hours are no reason to stay", "        (table.late_start_h, table.late_h),\n", "")
AREA.add(
    "penalties are no reason to stay",
    "table.fixed_usd + table.penalty_usd, table.run_usd",
    "table.fixed_usd, table.run_usd",
)
AREA.add(
    "stock of the dominating offer is ignored",
    "np.where(stocked[table.offer], table.offer, -1)",
    "np.where(False, table.offer, -1)",
)
AREA.add(
    "quota of the dominating provider is ignored",
    "np.where(limited[table.provider], table.provider, -1)",
    "np.where(False, table.provider, -1)",
)
AREA.add(
    "hours paid for are no reason to stay",
    "np.where(limited[table.offer], table.rented_h, 0.0)",
    "np.where(False, table.rented_h, 0.0)",
)

AREA.of("planner/solving/optimise_choice.py", LEXICOGRAPHIC)
AREA.add("ties go to what rounds", "HOURS_GOAL, LOSSINESS, ", "HOURS_GOAL, ")
AREA.add("a pass may spend what it likes", "return result.objective + goal.slack", "return result.objective + 1e9")
AREA.add(
    "the first pass takes the more expensive share",
    "np.where(high <= low, table.share_high, table.share_low)",
    "np.where(high <= low, table.share_low, table.share_high)",
)
AREA.add("candidates beyond the budget set the bound", "values[table.late_cost_usd(share) <= budget]", "values")
AREA.add(
    "only the first end of a share counts",
    "np.flatnonzero(np.minimum(*ends) <= reached + slack)",
    "np.flatnonzero(ends[0] <= reached + slack)",
)

AREA.of("planner/solving/prepare.py", SHARED)
AREA.add("jobs do not share the stock", "offers if offer.stock is not None}", "offers if False}")
AREA.add("jobs do not share hours paid for", "offers if offer.committed_hours is not None}", "offers if False}")
AREA.add("jobs do not share the GPUs", "peaks=shared_peaks(limits, market),", "peaks=(),")
AREA.add("jobs do not share a quota", "quota=limits.quota)", "quota={})")
AREA.add(
    "an hour is worth nothing to the program",
    "value_of_time_usd_per_hour=scenario.value_of_time_usd_per_hour,",
    "value_of_time_usd_per_hour=0.0,",
)
