"""Bugs in spot markets, policies and their candidates."""

from benchmarks.mutations.catalogue.tests import CURVES, LIMITS, POLICY, PREEMPTION, ROWS
from benchmarks.mutations.mutation import Area

AREA = Area()
CANDIDATES = "tests/candidates/test_spot_candidates.py"
SLOW_POLICY = f"{CANDIDATES}::test_a_slow_run_on_a_policy_does_not_stop_early_and_keeps_its_disks"

AREA.of("planner/candidates/spot_candidates.py", ROWS, LIMITS, CANDIDATES)
AREA.add(
    "waiting costs no storage",
    "self.standing = self.storage + target.usd_per_hour",
    "self.standing = 0 * self.storage + target.usd_per_hour",
)
AREA.add(
    "an hour is worth nothing to a policy",
    "self.standing = self.storage + target.usd_per_hour",
    "self.standing = self.storage",
)
AREA.add("a policy pays no fees", "self.outside_usd = table.fixed_usd + ", "self.outside_usd = 0 * table.fixed_usd + ")
AREA.add(
    "an observed run starts twice",
    "h.run - h.restart, h.run)",
    "h.run, h.run)",
    "tests/configurations/observed/test_whole_run.py",
)
AREA.add("the bound is no bound", "np.minimum(work, self._group_availability[which] * guarantee)", "0.0 * work")
AREA.add(
    "the bound forgets to work on demand",
    "self.on_demand[which] * (work - on_spot)",
    "0 * self.on_demand[which]",
    equivalent="a lower bound that is lower leaves more policies to compute and the same cheapest one",
)
AREA.of("planner/candidates/spot_candidates.py", ROWS, LIMITS, CANDIDATES)
AREA.add(
    "spot that costs more than on demand is a policy",
    "np.where(usd < on_demand, usd, np.inf)",
    "np.where(usd > on_demand, usd, np.inf)",
)
AREA.add(
    "a late policy ends on time",
    "policy_late_hours(h, one) - rows.late_start_h",
    "self.outside_run[which] - rows.start_h + one",
)

AREA.of("planner/candidates/spot_candidates.py", SLOW_POLICY)
AREA.add(
    "disks of a late policy are charged on time",
    "self._slow_usd(which, compute + storage[:, None] * finish)",
    "self._slow_usd(which, compute) + (storage * h.budget)[:, None] * finish",
)
AREA.add("a late policy stops early", "usd * h.stretch[which, None]", "usd")

AREA.of("planner/spot/run.py", CURVES, POLICY)
AREA.add(
    "nothing is lost in an interruption",
    "0.0 if run.last_checkpoint else min(run.interval_hours + run.write_hours, run.work_hours)",
    "0.0",
)
AREA.add("the write in flight is safe", "min(run.interval_hours + run.write_hours,", "min(run.interval_hours,")
AREA.add("a write may be cut off by the next", "max(interval, write_hours,", "max(interval,")
AREA.add("checkpoints are free", "run.interval_hours / (run.interval_hours + run.stall_hours)", "1.0")
AREA.add("no notice is long enough", "notice_seconds > 0 and write_seconds <= notice_seconds", "False", CANDIDATES)
AREA.add("any notice is long enough", "write_seconds <= notice_seconds", "True", CANDIDATES)

AREA.of("planner/spot/run.py", POLICY, CURVES)
AREA.add("the guard forgets the work lost", "spot = restart + lost + stalls", "spot = restart + stalls")
AREA.add(
    "the guard forgets its own restart",
    "return restart + tick, spot, restart + spot",
    "return restart + tick, spot, spot",
)
AREA.add("the guard forgets the tick", "return restart + tick, spot", "return restart, spot")

AREA.of("planner/spot/markov_chain.py", CURVES, POLICY)
AREA.add(
    "spot is paid at the on-demand price",
    "cost[row, 2 * m :, USD] += run.spot_usd_per_hour * hours",
    "cost[row, 2 * m :, USD] += run.on_demand_usd_per_hour * hours",
)
AREA.add(
    "waiting is free",
    "cost[row, :, USD] = run.standing_usd_per_hour * hours",
    "cost[row, m:, USD] = run.standing_usd_per_hour * hours",
)
AREA.add("an interruption loses no work", "points - stalls - lost]", "points - stalls]")
AREA.add("up-times do not end", "market[here, other] += leave[band]", "market[here, here] += leave[band]")
AREA.add(
    "a run begins while the market is up",
    "    chances[ups : ups + len(down)] = down\n",
    "    chances[0] += sum(down)\n",
)
AREA.add("restarts are free", "[points - restart] * m", "[points] * m")

AREA.of("planner/spot/policy_cache.py", CURVES)
AREA.add(
    "a point beyond the guarantee is taken",
    'side="right")) - 1\n        if index < 0',
    'side="right"))\n        if index < 0',
)
AREA.add(
    "the restart is not part of the demand", "hours = run.work_hours + run.restart_hours\n", "hours = run.work_hours\n"
)

AREA.of("planner/spot/backward_induction.py", CURVES, POLICY)
AREA.add("the worse of waiting and on demand is chosen", "waits = wait < demand", "waits = wait > demand")
AREA.add(
    "what a start loses in its first tick is nothing",
    "self._start_spot += chance * rows",
    "self._start_spot += 0 * chance * rows",
    "tests/spot/policy/test_first_tick.py",
)

AREA.of("planner/spot/market_fit.py", "tests/spot/market/test_zones.py")
AREA.add("a zone is what its own ends say", "(ends + ZONE_WEIGHT) / (exposed", "ends / (exposed")
AREA.add(
    "the age of an up-time is forgotten", "math.log(2) / (rate.scale_hours * powers)", "rate.scale_hours + 0 * powers"
)

AREA.of("planner/estimates/stage_seconds.py", PREEMPTION)
AREA.add(
    "a node group is interrupted like one instance",
    "np.exp(-coefficients.gang_rate_exponent * np.log(k))",
    "1.0 / (k * 0 + 1)",
)
AREA.add(
    "node groups are more available",
    "np.exp(coefficients.gang_availability_exponent * np.log(k))",
    "np.exp(-coefficients.gang_availability_exponent * np.log(k))",
)
AREA.add(
    "Young's interval without its root",
    "np.sqrt(2.0 * np.asarray(stall) * np.minimum(mean_up, _INFINITE_UPTIME))",
    "2.0 * np.asarray(stall) * np.minimum(mean_up, _INFINITE_UPTIME)",
)
AREA.add("the first wait is forgotten", "wall = wait + paid", "wall = paid")
AREA.add("interruptions do not wait", " + interruptions * market.mean_outage", "")
