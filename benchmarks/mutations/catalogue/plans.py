"""Bugs in the figures and the bill of a plan, and in simulations of it."""

from benchmarks.mutations.catalogue.tests import BILLING, FEES, LIMITS, PAYMENTS, ROWS, SERVICES, STAGES, STREAMS
from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/decode/bill.py", ROWS, FEES, STAGES, LIMITS)
AREA.add(
    "the bill of a late run is on time",
    "(float(h.budget[row]), float(h.stretch[row])) if late else (1.0, 1.0)",
    "(1.0, 1.0)",
)
AREA.add(
    "hours on demand and on spot are swapped",
    "(1.0 - share) * hours * machines, share * hours * machines",
    "share * hours * machines, (1.0 - share) * hours * machines",
)
AREA.add("hours of one instance are billed", "machines = n * late_factor", "machines = late_factor")
AREA.add(
    "one start is billed for all node groups",
    '"start and load": node_groups * float(h.start[row])',
    '"start and load": float(h.start[row])',
)
AREA.add("waiting is not billed", '"wait for trials": waiting * stretch', '"wait for trials": 0.0', BILLING)
AREA.add("what is lost on spot is not billed", "share * lost * stretch * machines", "0.0")
AREA.add("steps are billed for one instance", "- hours[0]) * instances for", "- hours[0]) for", BILLING)
AREA.add(
    "a commitment is billed once",
    "machines = float(chosen.candidates.table.instances[chosen.row])\n    return",
    "machines = 1.0\n    return",
)
AREA.add("storage is billed by the hour", "* wall_hours / MONTH_HOURS", "* wall_hours")
AREA.add("transfers are billed for one machine", "float(h.moved_gb[row]) * machines", "float(h.moved_gb[row])")
AREA.add("the minimum of a service is not billed", "if minimum > MIN_USD:", "if minimum > 1e9:", SERVICES, PAYMENTS)
AREA.add(
    "spot is billed at the on-demand price",
    '_line("gpu spot", spot, "h", spot_price)',
    '_line("gpu spot", spot, "h", price)',
)
AREA.add(
    "starts of a policy are not billed",
    '"starts on demand": (on_demand * machines, 0.0)',
    '"starts on demand": (0.0, 0.0)',
)
AREA.add(
    "wear of own machines is free",
    "for name, part in parts.items() if part]",
    "for name, part in list(parts.items())[:1] if part]",
    PAYMENTS,
)

AREA.of("planner/decode/assignment.py", SERVICES, STAGES, LIMITS)
AREA.add(
    "a service has no upload in its hours",
    "once = service.upload_hours + service.export_hours",
    "once = service.export_hours",
)
AREA.add(
    "hours of a plan are late ones",
    "float(chosen.figures.hours(share)[0]), float",
    "float(chosen.figures.late_hours(share)[0]), float",
)
AREA.add("training counts the start", "hours - start - math.fsum", "hours - math.fsum")

AREA.of("planner/decode/probability.py", "tests/decode/test_probability_by_hand.py")
AREA.add("chances are those of another tail", "math.sqrt(2 + t * t)", "math.sqrt(1 + t * t)")
AREA.add("a chance counts the wrong way", "math.log(deadline / hours) / scale", "math.log(hours / deadline) / scale")

AREA.of("planner/analysis/simulation/simulate.py", STREAMS)
AREA.add("one random stream for every job", "np.random.default_rng(seed)) for", "np.random.default_rng(seeds[1])) for")
AREA.add(
    "every run is as fast as expected",
    "np.ones(runs) if settings.exact_speed else",
    "np.ones(runs) if True else",
    "tests/analysis/simulation/test_simulate.py",
)
