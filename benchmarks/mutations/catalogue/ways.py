"""Bugs in what an owned machine costs, in what buying is compared with, and in further ways."""

from benchmarks.mutations.mutation import Area

AREA = Area()
HOURS, WAYS = "tests/scenario/ownership/test_machines.py", "tests/solving/test_further_ways.py"

AREA.of("planner/scenario/offer_terms.py", HOURS)
AREA.add("the whole purchase is worn out", "self.purchase_usd * (1.0 - self.residual_share)", "self.purchase_usd")
AREA.add("the building needs no power", "WATTS_PER_KILOWATT * pue", "WATTS_PER_KILOWATT")
AREA.add("standing costs are of a month of day and night", "/ self.hours_per_month if", "/ MONTH_HOURS if")
AREA.add("a server draws its nameplate", "* LOAD_OF_NAMEPLATE", "* 1.0")
AREA.add(
    "a month of use is a lifetime",
    "return self.months * self.hours_per_month\n        return",
    "return self.hours_per_month\n        return",
)

AREA.add("a machine is kept when it is dead", "min(horizon.months, self.life_months)", "horizon.months")
AREA.add("capital costs nothing", "/ (1.0 - 1.0 / growth) * months", "/ (1.0 - 1.0 / growth) * 0.0 * months")
OUTLAY = "tests/solving/test_outlay.py"
AREA.of("planner/scenario/offer.py", OUTLAY)
AREA.add("a purchase is paid by the hour alone", "return self.buy.purchase_usd", "return 0.0")
AREA.of("planner/results/plan.py", OUTLAY)
AREA.add("each job in turn buys a machine", "if start <= at + SAME_HOUR and at < end - SAME_HOUR", "")
AREA.of("planner/timetable/timetable_problem.py", OUTLAY)
AREA.add("a timetable pays nothing at once", "shared.outlay: offer.outlay_usd", "shared.outlay: 0.0")
AREA.of("planner/candidates/market.py", OUTLAY)
AREA.add("a stage buys its machine", "(offer.is_reservation or offer.outlay_usd)", "offer.is_reservation")

AREA.of("planner/solving/binding_limits.py", WAYS)
AREA.add("buying saves the whole rent", "(rent - running) / machines", "rent / machines")
AREA.add("a machine is worth most when it is oldest", "lost = buy.lost_usd(months)", "lost = buy.lost_usd(0.0)")
AREA.add("a start is work that is lost", "if line.item not in NO_WORK", "if line.item in NO_WORK")

AREA.of("planner/solving/alternatives.py", WAYS)
AREA.add(
    "a further way is that of the plan", "barred: list[Place] = [(job.provider, job.gpu)]", "barred: list[Place] = []"
)
AREA.add("the second way is the first again", "        barred.append((mine.provider, mine.gpu))\n", "")
AREA.add("one way fewer suffices", "while len(ways) < wanted:", "while len(ways) < wanted - 1:")

AREA.of("planner/candidates/candidate_enumeration.py", WAYS)
AREA.add("a machine that is ordered is there at once", "late_separate * late + lead", "late_separate * late")
AREA.of("planner/scenario/job.py", WAYS)
AREA.add(
    "nothing is kept for finding a machine",
    "else self.deadline_hours - self.start_slack_hours",
    "else self.deadline_hours",
)
