"""Bugs in the figures of services: in their search, their evaluation, the queues that both share, and their audit."""

from benchmarks.mutations.catalogue.tests import FEW, FLEET, KINDS, QUEUES, SERVED
from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/services/fleet_kinds.py", SERVED)
AREA.add("a machine of the search carries 5 % more", "capacity=rate * replicas", "capacity=rate * replicas * 1.05")
AREA.add("starts are free in the search", "start_usd=priced.usd * start_billed", "start_usd=0.0")
AREA.add("spot of the search is never lost", "usd = priced.usd * priced.availability", "usd = priced.usd * 1.0")

AREA.of("planner/services/fleet_kinds.py", SERVED)
AREA.add("the search expects, not with confidence", "return certain * expected_factor", "return expected_factor")
AREA.add("the search has half of the places", "np.clip(np.floor(cache /", "np.clip(np.floor(0.5 * cache /", KINDS)
AREA.add("the search halves four times", "range(CAPACITY_HALVINGS)", "range(4)")

AREA.of("planner/services/fleet_plan.py", SERVED)
AREA.add("a plan names the machines of another kind", "fleets[:, place].astype", "fleets[:, used[0]].astype")
AREA.add(
    "a plan names the whole machine for a replica",
    "gpus_per_replica=recipe.tensor_parallel * recipe.pipeline_parallel",
    "gpus_per_replica=8",
)

AREA.add(
    "a service by the token keeps its price at any load",
    "loaded.of_few(factor)[0] - price.usd * factor",
    "loaded.of_few(factor)[0] - price.usd",
    "tests/solving/test_break_even.py",
)

AREA.of("planner/services/evaluated_fleet.py", SERVED)
AREA.add("starts cost twice", "self.hourly_usd * self.billed_hours[1]", "2 * self.hourly_usd * self.billed_hours[1]")
AREA.add("spot is paid while it is lost", "share * (1.0 + self.start_hours / up)", "(1.0 + self.start_hours / up)")
AREA.add("a machine has one replica", "self.offer.gpus // self.named.gpus_per_replica", "2")
AREA.add("latency is that of an idle replica", "rate = use * self.queue.capacity[0]", "rate = 0.01", QUEUES)
AREA.add("latency is that of half the use", "rate = use * self.queue.capacity[0]", "rate = use * self.load * 0.5")

AREA.of("planner/generation/evaluated_replica.py", SERVED)
AREA.add("an engine's own memory is free", "usable - weights - active - overhead", "usable - weights - active")
AREA.add("activations are no part of a replica", '"activations": active,', '"activations": 0.0,')
AREA.add(
    "an engine takes all memory of a GPU", "share, weights, active + overhead)", "1.0, weights, active + overhead)"
)

AREA.of("planner/services/evaluated_fleet.py", SERVED, QUEUES)
AREA.add("times are expected, not with confidence", "return certain / (self.job", "return 1.0 / (self.job")
AREA.add("prompts take as long as estimated", "stack.request_seconds) * self.slow", "stack.request_seconds)")
AREA.add("a place is held for the arrival too", "seconds[0] * self.slow - self.arrival", "seconds[0] * self.slow")
AREA.add("the first token has no arrival", "quantile[0]) + self.arrival", "quantile[0])")
AREA.add("requests wait for no place", "places = self.waits(rate) if waits else (", "places = (", QUEUES)
AREA.add("a step lasts as long as estimated", "return np.asarray(seconds * self.slow, dtype=float)", "return seconds")
AREA.add("a fleet of the plan halves four times", "range(CAPACITY_HALVINGS)", "range(4)")

AREA.of("planner/estimates/latency.py", QUEUES)
AREA.add("the first free place is no wait", "return first + more * mean,", "return more * mean,")
AREA.add("all requests wait alike", "np.square(mean) * more / (1.0 - use)", "np.square(mean) * more")
AREA.add("all meet the mean number", "met = square / mean", "met = mean")

AREA.of("planner/estimates/latency.py", QUEUES)
AREA.add("the step under way is no wait", "(waited[:, None, None] - others) / work", "(waited[:, None, None]) / work")
AREA.add(
    "steps last as without prompts", "step[:, None] + done, work - done", "step[:, None] + 0.0 * done, work - done"
)

AREA.of("planner/services/evaluated_fleet.py", FLEET)
AREA.add("headroom costs no use", "load * (1.0 + self.job.headroom)", "load")
AREA.add("a fleet starts for free", "math.fsum(self.usd_by_hour) + self.start_usd", "math.fsum(self.usd_by_hour)")
AREA.add("the lost are served", "able + groups[name]), (likely * (1.0", "able + groups[name]), (0.0 * (1.0")
AREA.add(
    "hours of a share count alike",
    "load * share for load, share in zip(self.load",
    "share for load, share in zip(self.load",
)
AREA.add("fees are of wanted hours only", "+ started * kind.named.starts", "- started * kind.named.starts")
AREA.add("requests answer at full pace", "kind.pace * kind.capacity", "kind.capacity")
AREA.add(
    "a month is billed for all hours", "fleet.usd * job.for_hours / fleet.hours", "fleet.usd * job.for_hours / 730"
)

AREA.of("planner/services/evaluated_fleet.py", SERVED)
AREA.add("an hour is used half", "use_by_hour=tuple(self.use)", "use_by_hour=tuple(use / 2 for use in self.use)")
AREA.add("an hour has a replica more", "round(standing) for standing", "round(standing) + 1 for standing")
AREA.add("latency is that of the mean use", "min(max(self.use), 1.0)", "min(self.mean_by_load(self.use), 1.0)")

AREA.of("planner/services/fleet_problem.py", FEW)
AREA.add("a tiny replica counts", "return np.asarray(is_even & (np", "return np.asarray((np")
AREA.add("an hour may have any kinds", "is_even & (np.count_nonzero(used, axis=1) <=", "is_even & (0 <=")

AREA.of("planner/services/fleet_optimise.py", FEW)
AREA.add("a pair stands on no replicas", "np.maximum(carried, standing / self.replicas)", "carried")
AREA.add(
    "a pair carries a load without the row",
    "load - count * problem.capacity[some], 0.0",
    "load - 0 * problem.capacity[some], 0.0",
)

AREA.of("planner/services/audited_fleet.py", FEW)
AREA.add("the audit counts no kinds", "most_kinds, len(fleet.kinds)", "most_kinds, 0")

AREA.of("planner/services/audited_fleet.py", SERVED)
AREA.add("an hour may have no replica", '("replicas", job.replicas.min,', '("replicas", 0,')
AREA.add(
    "a dear hour is not seen",
    'compare(name, "", _completed(made, service), service',
    'compare(name, "", service, service',
)
