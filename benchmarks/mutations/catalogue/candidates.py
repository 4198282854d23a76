"""Bugs in hours and dollars of candidates: machines, managed services, columns of offers."""

from benchmarks.mutations.catalogue.tests import (
    BILLING,
    DEADLINES,
    DEARER_SPOT,
    FEES,
    LIMITS,
    MARKET,
    MERGED,
    ONE_JOB,
    PAYMENTS,
    PLACEMENT,
    ROWS,
    SERVICES,
    STAGES,
)
from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/candidates/candidate_enumeration.py", FEES, ROWS, LIMITS)
AREA.add(
    "a commitment is paid once for all nodes",
    "columns.committed_usd[offer] * instances",
    "columns.committed_usd[offer] * hours.node_groups",
)
AREA.add("data leave their region for nothing", " + columns.source_usd_per_gb * hours.own_gb * instances", "")
AREA.add("data enter for nothing", '"GB in": hours.moved_gb * instances', '"GB in": 0.0 * hours.moved_gb')
AREA.add("the result leaves for nothing", '"GB out": hours.sent_gb', '"GB out": 0.0 * hours.sent_gb')
AREA.add("what is moved is paid for one instance", "hours.moved_gb * instances", "hours.moved_gb", STAGES)
AREA.add("what is kept is charged by the hour", ") / MONTH_HOURS", ")", STAGES)
AREA.add(
    "checkpoints are not kept after the run",
    "np.asarray(run_hours.kept_gb)[machines.recipe] + hours.result_gb",
    "hours.result_gb",
    STAGES,
)
AREA.add(
    "rented hours are those of a run on time",
    "(hours.once * late * groups + hours.group_run * hours.late_factor)",
    "(hours.once * groups + hours.group_run * hours.stretch)",
)
AREA.add("rented hours are those of one instance", "hours.late_factor) * instances", "hours.late_factor)", PAYMENTS)
AREA.add(
    "disks of a late run are charged on time", "storage * (once * late + hours.budget_run)", "storage * (once + run_h)"
)
AREA.add("disks are charged for the run alone", "storage * (once + run_h)", "storage * run_h")
AREA.add(
    "disks of a late run are charged for the run alone",
    "storage * (once * late + hours.budget_run)",
    "storage * hours.budget_run",
)
AREA.add("the hours before the run are free", "outside + run + storage", "run + storage")
AREA.add("the start of one node group is paid", "price * (hours.node_groups * once)", "price * once")
AREA.add("separate machines are free", "storage * (once + run_h) + separate,", "storage * (once + run_h),", STAGES)
AREA.add("separate machines are never late", "+ late_separate * late,\n    )", "+ separate,\n    )")
AREA.add("a late run may stop early", "run * hours.stretch[:, None]", "run")
AREA.add("spot and on-demand prices are swapped", "price = price * machines", "price = price[:, ::-1] * machines")
AREA.add("moving to on demand is free", "outside[:, 1] += ", "0 * ")
AREA.add("moving to on demand is paid at the spot price", "np.nan_to_num(price[:, ON_DEMAND]) * ", "price[:, 1] * ")
AREA.add(
    "the start is never late", "hours.once * late + hours.late_separate * late", "hours.once + hours.late_separate"
)
AREA.add("separate machines take no time", "start_h=hours.once + hours.separate", "start_h=hours.once", STAGES)
AREA.add("a late run on demand may stop early", "run_h[:, ON_DEMAND] * hours.late_factor", "run_h[:, ON_DEMAND] * late")
AREA.add("moving to on demand takes no time", "hours.spot_wall + hours.switch)", "hours.spot_wall)")
AREA.add("penalties count for every technique", "penalty_usd=(uses @ np", "penalty_usd=((uses | True) @ np", ONE_JOB)

AREA.of("planner/candidates/candidate_enumeration.py", FEES, ROWS, STAGES, LIMITS)
AREA.add("boot takes no time", "boot_seconds(pull, run_hours.stages)\n            + ", "")
AREA.add("weights are there already", "+ transfer_seconds(run_hours.weights_gb * GB, pull)", "")
AREA.add("data wait for no storage", "np.where(columns.at_data[self.offer], pull, np", "np.where(True, pull, np")
AREA.add("loading takes no time", "+ run_hours.load_seconds[self.configuration]", "")
AREA.add("raw data are not fetched", "DataAmounts(here, raw, job.data_gb + raw", "DataAmounts(here, raw, job.data_gb")
AREA.add("prepared data do not arrive", "(1.0 - here) * prepared", "0.0 * here", BILLING)
AREA.add("data in their region leave it", "np.where(columns.at_data[self.offer], 0.0, data.own)", "data.own", FEES)
AREA.add("evaluation elsewhere is done twice", "evaluates * run_hours", "run_hours")
AREA.add("a late run stops early", "((work - uncut) / job.early_stopping + uncut", "((work - uncut) + uncut")
AREA.add("disks of one instance are charged", "data.prepared + cached) * self.instances", "data.prepared + cached)")
AREA.add("disks of one node group are charged", "[self.recipe]) * len(ratios)", "[self.recipe])")
AREA.add("raw data take no room", " + data.raw + data.prepared + cached)", ")")
AREA.add("the market of a single node", "self.instances[has],", "1,")
AREA.add(
    "the result leaves as fast as it can",
    "line = np.where(away, line, np.minimum(line, wanted.gb_per_second * GB))",
    "pass",
)

AREA.of("planner/candidates/candidate_enumeration.py", DEADLINES)
AREA.add("spot waits at the quantile of the speed alone", " * run_hours.wall_factor", "")
AREA.add("disks on spot wait at the quantile of the speed alone", " * run_hours.budget_wall_factor", "")

AREA.of("planner/candidates/job_candidates.py", SERVICES, FEES, LIMITS)
AREA.add("sending data to a service takes no time", 'once = self._column("upload_hours") + ', "once = ")
AREA.add("results of a service take no time", ' + self._column("export_hours")\n        uses', "\n        uses")
AREA.add("sending is never late", 'late_start_h=once * self._column("late")', "late_start_h=once")
AREA.add(
    "a late run at a service stops early", 'late_usd=self._on_demand("late_usd")', 'late_usd=self._on_demand("usd")'
)
AREA.add(
    "a late run at a service takes no longer", 'late_h=self._on_demand("late_hours")', 'late_h=self._on_demand("hours")'
)
AREA.add("what moves to a service is free", 'fixed_usd=self._column("moved_usd")', "fixed_usd=zeros")
AREA.add("evaluation at a service is free", "(shape.tokens + evaluated_tokens(job, shape))", "shape.tokens", STAGES)
AREA.add("a service charges one trial", "managed_usd(tokens * trials.work * share", "managed_usd(tokens * share")
AREA.add("a service trains all trials at once", "tokens * trials.wall / rate", "tokens / rate")
AREA.add("raw data are not sent to a service", " + (stages.ingest.raw_gb if stages.ingest else 0.0)", "")

AREA.of("planner/candidates/job_candidates.py", FEES, ROWS, ONE_JOB, LIMITS)
AREA.add(
    "hours under a commitment are paid again", "0.0 if o.commitment else o.usd_per_hour", "o.usd_per_hour", PAYMENTS
)
AREA.add(
    "spot is used though it costs more",
    "o.spot_usd_per_hour if o.has_spot else None",
    "o.spot_usd_per_hour",
    DEARER_SPOT,
)
AREA.add("storage is charged per hour", "offer] / MONTH_HOURS", "offer]")
AREA.add("billing steps are hours", ".step_seconds for o in offers]) / HOUR", ".step_seconds for o in offers])")
AREA.add("minimum hours are forgotten", "column([o.billing.minimum_hours for", "column([0.0 for")
AREA.add(
    "a commitment has no end",
    "use_hours=column([o.use_hours for o in offers]",
    "use_hours=column([None for o in offers]",
    PAYMENTS,
)
AREA.add("fees of what enters and what is kept are swapped", "index(count), offer]", "index(count) * -1, offer]")

AREA.of("planner/candidates/market.py", STAGES, LIMITS)
AREA.add("the result takes no room on disk", "2 * weights_gb + data_gb", "weights_gb + data_gb")
AREA.add(
    "downloads are in GiB", "return offer.download_gb_per_second * GB", "return offer.download_gb_per_second * 2**30"
)
AREA.add("links inside a region are slow too", " and not offer.is_in(source.region):", ":", SERVICES)
AREA.add(
    "data pay to leave for their own region", "source is None or offer.is_in(source.region)", "source is None", SERVICES
)

AREA.of("planner/candidates/market.py", MERGED, MARKET)
AREA.add("offers with other fees are merged", '{*PRICE_FIELDS, "region", ', '{*PRICE_FIELDS, "fees", "region", ')
AREA.add(
    "offers with other stock are merged",
    '{*PRICE_FIELDS, "region", ',
    '{*PRICE_FIELDS, "stock", "region", ',
    equivalent="an offer with a stock is merged with none: its label is part of the key",
)
AREA.add("offers of all regions are merged", 'return ("region",) if has_data_region else ()', "return ()", FEES)
AREA.add("separate machines ignore the lists", "        and limits.permits(offer)\n", "", PLACEMENT)

AREA.of("planner/candidates/run_hours.py", ROWS, DEADLINES, LIMITS, BILLING)
AREA.add("preparing data is not rented", "self.start + self.ingest + self.export", "self.start + self.export", STAGES)
AREA.add("evaluation takes no time", "self.training + self.evaluation + ", "self.training + ", STAGES)
AREA.add("hours on spot before the run are not billed", "share * (self.once + paid)", "share * paid")
AREA.add("late separate machines do not delay", "(self.after_start + self.late_separate)", "self.after_start")
