"""Bugs in filters, deadlines, billing steps and separate machines."""

from benchmarks.mutations.catalogue.tests import (
    BILLING,
    DEADLINES,
    FEES,
    LIMITS,
    ONE_JOB,
    PAYMENTS,
    PLACEMENT,
    ROUNDING,
    ROWS,
    SHARES,
    STAGES,
    TRIALS,
)
from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/candidates/run_hours.py", SHARES, DEADLINES, LIMITS)
AREA.add(
    "a deadline ignores the late start",
    "slack = latest_hours - table.late_start_h",
    "slack = latest_hours + 0 * table.late_start_h",
)
AREA.add("a deadline counts the start on time", "latest_hours - table.late_start_h", "latest_hours - table.start_h")
AREA.add("all spot is allowed where half is", "(slack - on_demand) / (spot - on_demand)", "1.0 + 0 * spot")
AREA.add("spot alone is never late", "only_spot = np.where(spot <= slack, 1.0, -1.0)", "only_spot = np.ones(len(spot))")
AREA.add("on demand is never late", "np.where(on_demand <= slack, 0.0, -1.0)", "np.zeros(len(on_demand))")
AREA.add(
    "a guarantee ignores what is late outside the run",
    "(latest_hours - hours.late_outside_run) / hours",
    "latest_hours / hours",
)
AREA.add(
    "a guarantee ignores the error of the speed",
    "hours.late_outside_run) / hours.late_factor",
    "hours.late_outside_run) / hours.stretch",
)

AREA.of("planner/scenario/limits.py", DEADLINES)
AREA.add(
    "the longest run is ignored next to a deadline",
    "else min(longest, job.planned_deadline_hours)",
    "else job.planned_deadline_hours",
)
AREA.add(
    "the later of deadline and longest run counts",
    "min(longest, job.planned_deadline_hours)",
    "max(longest, job.planned_deadline_hours)",
)

AREA.of("planner/candidates/spot_candidates.py", ONE_JOB, ROWS, BILLING, FEES)
AREA.add("rounding for one instance", "(made.instances // made.node_groups)\n", "1\n")
AREA.add("minimum charges are no reason to round", " | (least > hours.once + hours.run)", "", LIMITS)
AREA.add(
    "steps of an hour are rounded nowhere",
    "FINE_STEP_HOURS, COARSE_STEP * hours.run)",
    "COARSE_STEP * hours.run, COARSE_STEP * hours.run)",
)

AREA.of("planner/candidates/screening.py", ONE_JOB, ROWS, BILLING, FEES)
AREA.add(
    "late hours are rounded as on time",
    "_rounding_usd(made, at, share, late, stretch, columns)",
    "_rounding_usd(made, at, share, none, none, columns)",
    LIMITS,
    ONE_JOB,
    ROWS,
)
AREA.add("hours left are not looked at", "table.rented_h > left", "table.rented_h > np.inf")
AREA.add(
    "the term of a commitment is not looked at",
    "candidates.hours_rented() > columns.use_hours",
    "0 * candidates.hours_rented() > columns.use_hours",
    PAYMENTS,
)
AREA.add("stock counts GPUs", "(table.instances > stock", "(table.gpus > stock", ONE_JOB)
AREA.add("quota counts instances", "(table.gpus > quota", "(table.instances > quota", ONE_JOB)
AREA.add("max_gpus counts instances", "used > most * (1.0", "table.instances > most * (1.0", ONE_JOB)
AREA.add(
    "the least spot share is ignored", "np.maximum(table.share_low, limits.spot_share.min)", "table.share_low", ONE_JOB
)
AREA.add(
    "the largest spot share is ignored",
    "np.minimum(table.share_high, limits.spot_share.max)",
    "table.share_high",
    ONE_JOB,
)

AREA.of("planner/candidates/job_candidates.py", PLACEMENT)
AREA.add(
    "a commitment may end before a late run",
    "self.hours.run * self.hours.stretch) * self.hours.late",
    "self.hours.run)",
    PAYMENTS,
)
AREA.add(
    "too little memory to prepare data",
    "self.columns.ram_gb[self.table.offer] < wanted.ram_gb",
    "self.columns.ram_gb[self.table.offer] < 0",
    PLACEMENT,
    STAGES,
)

AREA.of("planner/candidates/stage_hours.py", PLACEMENT, STAGES)
AREA.add("separate machines are billed without steps", "billed * price", "hours * price")
AREA.add("late separate machines are billed on time", "late * price", "billed * price", LIMITS)
AREA.add("fetching raw data is free", "moved = wanted.raw_gb * (", "moved = 0 * (")

AREA.of("planner/estimates/billing.py", ROUNDING)
AREA.add("billing steps are rounded down", "np.ceil(np.asarray(hours)", "np.floor(np.asarray(hours)")
AREA.add("terms are not renewed", "np.ceil(np.asarray(late_hours)", "0 * np.ceil(np.asarray(late_hours)")
AREA.add(
    "a minimum is added to the hours",
    "np.maximum(steps * step_hours, minimum_hours)",
    "steps * step_hours + minimum_hours",
)
AREA.add("a market that is not used pays the minimum", "np.asarray(hours) > HOURS_TOLERANCE", "np.asarray(hours) > -1")
AREA.add("the minimum of a service is per job", "runs * minimum_usd)", "minimum_usd)")

AREA.of("planner/estimates/work.py", TRIALS)
AREA.add(
    "survivors of a rung are rounded up",
    "math.floor(count / halving**i + _ROUNDING)",
    "math.ceil(count / halving**i - _ROUNDING)",
)
AREA.add(
    "node groups wait for nobody",
    "waiting += max(0,",
    "waiting += 0 * max(0,",
    "tests/candidates/test_billing_steps.py",
)
