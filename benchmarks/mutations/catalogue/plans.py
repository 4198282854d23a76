"""Bugs in the figures and the bill of a plan, and in simulations of it."""

from benchmarks.mutations.catalogue.tests import BILLING, FEES, LIMITS, PAYMENTS, ROWS, SERVICES, STAGES, STREAMS
from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/evaluation/evaluate.py", FEES, ROWS, STAGES, LIMITS)
AREA.add("the bill of a late run is on time", "(hours.late, stages.stretch) if is_late else (1.0, 1.0)", "(1.0, 1.0)")
AREA.add(
    "hours on demand and on spot are swapped",
    "((1 - share) * one * n * every, share * one * n * every)",
    "(share * one * n * every, (1 - share) * one * n * every)",
)
AREA.add(
    "hours of one instance are billed",
    "trials, n, share = context.job.trials, context.machine.instances, context",
    "trials, n, share = context.job.trials, 1, context",
)
AREA.add(
    "one start is billed for all node groups", '"start and load": k * stages.start', '"start and load": stages.start'
)
AREA.add("waiting is not billed", '"wait for trials": stages.waiting * longer', '"wait for trials": 0.0', BILLING)
AREA.add("what is lost on spot is not billed", "all_groups_hours * (paid - 1.0)", "all_groups_hours * 0.0")
AREA.add("steps are billed for one instance", "- used[market] * every) * n", "- used[market] * every)", BILLING)
AREA.add("a commitment is billed once", "machines * groups * term.terms, unit", "term.terms, unit")
AREA.add("storage is billed by the hour", "* groups * rented / MONTH_HOURS", "* groups * rented")
AREA.add("transfers are billed for one machine", "stages.moved_gb * machines * groups", "stages.moved_gb")
AREA.add("the minimum of a service is not billed", "if missing > 1e-9:", "if missing > 1e9:", SERVICES, PAYMENTS)
AREA.add(
    "spot is billed at the on-demand price",
    '_line("gpu spot", uses["gpu"][1], "h", spot)',
    '_line("gpu spot", uses["gpu"][1], "h", price)',
)
AREA.add(
    "starts of a policy are not billed",
    '"starts on demand": ((point.on_demand_hours - (1 - x) * stages.run) * longer * n, 0.0)',
    '"starts on demand": (0.0, 0.0)',
)
AREA.add(
    "wear of own machines is free",
    "for item, part in parts.items() if part]",
    "for item, part in list(parts.items())[:1] if part]",
    PAYMENTS,
)

AREA.of("planner/evaluation/evaluate.py", SERVICES, STAGES, LIMITS)
AREA.add(
    "a service has no upload in its hours",
    "expected = upload + full * job.early_stopping + export",
    "expected = full * job.early_stopping + export",
)
AREA.add("hours of a plan are late ones", "Hours(expected=expected, low=low", "Hours(expected=late, low=low")
AREA.add("training counts the start", "expected - self.start - math.fsum", "expected - math.fsum")

AREA.of("planner/evaluation/evaluated_hours.py", "tests/solving/test_probability_by_hand.py")
AREA.add("chances are those of another tail", "math.sqrt(2 + t * t)", "math.sqrt(1 + t * t)")
AREA.add("a chance counts the wrong way", "math.log(limit / expected) /", "math.log(expected / limit) /")

AREA.of("planner/analysis/simulate_question.py", STREAMS)
AREA.add("one random stream for every job", "np.random.default_rng(seed)) for", "np.random.default_rng(seeds[1])) for")
AREA.add(
    "every run is as fast as expected",
    "np.ones(runs) if settings.exact_speed else",
    "np.ones(runs) if True else",
    "tests/analysis/simulation/test_simulate.py",
)
