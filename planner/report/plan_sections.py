"""The parts of the text of a plan: one function per section, each from one assignment."""

from __future__ import annotations

from planner.library.techniques import read_techniques
from planner.report import format as words
from planner.results.estimate import Estimate
from planner.results.plan import Assignment, Option, Plan

ROOM = words.WIDTH - words.LABEL

Run = Assignment | Estimate
"""What has techniques, a batch, machines and a speed."""


def format_optimality(plan: Plan) -> str:
    """Whether the plan is proven, else how far from the bound it may be."""
    if plan.gap is not None and (plan.status != "optimal" or plan.gap >= 0.0005):
        return f"within {words.percent(plan.gap)}"
    return "proven" if plan.status == "optimal" else "not proven"


def format_place(job: Assignment, with_region: bool = True) -> str:
    """Such as `1 x RTX3090 at vast (CA-QC)`, or `3 x (1 x RTX3090) at vast` for runs side by side."""
    region = f" ({job.region})" if with_region and job.region not in ("", "any") else ""
    return words.sanitise(f"{machines_of_all(job)} at {job.provider}{region}")


def machines_of_all(job: Assignment) -> str:
    """The GPUs of one run, and how many such runs there are side by side."""
    return words.gpus(job.gpus, job.gpu, job.runs_at_once)


def format_market(spot_share: float, tier: str = "secure") -> str:
    """Whether the machines are booked on demand, as spot, or as a mix; own and committed ones say so."""
    if tier in ("own", "managed", "committed"):
        return {"own": "own", "managed": "per token or run", "committed": "committed"}[tier]
    if spot_share <= 0:
        return "on demand"
    return "spot" if spot_share >= 0.995 else f"spot {spot_share * 100:.0f} %"


def techniques(job: Run, brief: bool = False) -> str:
    """What is switched on; `brief` leaves out what rarely differs."""
    how, table = job.techniques, read_techniques()
    if how.precision == "managed":
        return f"{'LoRA' if how.method == 'lora' else 'full training'} by a service that does not tell how"
    if how.method == "lora":
        article = "an" if how.weight_bits == 8 else "a"
        base = f"{how.weight_bits}-bit base"
        base += f" ({how.quant})" if how.quant not in ("", "none") else ""
        first = f"LoRA r{how.lora_rank} on {article} {base}" if how.lora_rank else f"LoRA on {article} {base}"
    else:
        first = table.words("method", how.method)
    said = [first, *(table.words(field, getattr(how, field)) for field in ("precision", "activation_checkpointing"))]
    if not brief:
        said += [table.words(field, getattr(how, field)) for field in ("attention", "optimizer")]
        said += [job.packing] if job.unit == "tokens" else []
    return ", ".join(said)


def batch(job: Run) -> str:
    """How a global batch is put together."""
    how = job.techniques
    if not job.gpus:
        return ""
    ranks = job.gpus // (how.tensor_parallel * how.pipeline_parallel)
    each = "" if ranks == 1 else f" x {ranks:,} {'GPUs' if ranks == job.gpus else 'groups of GPUs'}"
    steps = "step" if how.accumulation_steps == 1 else "steps"
    plural = "" if job.global_batch == 1 else "s"
    size = f"image{plural}"
    if job.unit == "tokens":
        size = f"sequence{plural} of {job.sequence_length:,} tokens"
    made = f"{how.micro_batch} x {how.accumulation_steps} {steps}{each}"
    return f"micro-batch {made} = {job.global_batch:,} {size}"


def machines(job: Run) -> str:
    """What several GPUs stand in and how they share the work; empty for one GPU."""
    if job.gpus == 1:
        return ""
    how = job.techniques
    count = "1 machine" if job.instances == 1 else f"{job.instances} machines"
    parts = [f"{count} of {job.gpus_per_instance} GPUs ({job.interconnect})"]
    if how.sharding != "none":
        parts.append(how.sharding)
    if how.tensor_parallel > 1:
        parts.append(f"tensor parallel {how.tensor_parallel}")
    if how.pipeline_parallel > 1:
        parts.append(f"pipeline parallel {how.pipeline_parallel}")
    return ", ".join(parts)


def train(job: Assignment) -> list[str]:
    """Technique, batch, machines and trials, in at most five lines."""
    rest = [batch(job)] + ([machines(job)] if job.gpus > 1 else []) + [trials(job)]
    return words.wrap_lines(techniques(job), ROOM, 2) + [words.shorten(line, ROOM) for line in rest if line]


def trials(job: Assignment) -> str:
    """How often the run is done; empty for one run."""
    if job.trials == 1:
        return ""
    together = f", {job.runs_at_once} side by side" if job.runs_at_once > 1 else ", one after the other"
    return f"{job.trials:,} trials{together}"


def memory(job: Assignment) -> list[str]:
    """The bar, the biggest parts and the phase that limits, in at most three lines."""
    vram = job.vram_gib
    if not job.gpus:
        return []
    head = (f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB", words.bar(vram.peak / vram.usable))
    biggest = sorted(vram.parts.items(), key=lambda part: (-part[1], part[0]))[:4]
    shown = [f"{name.replace('_', ' ')} {words.gib(size)}" for name, size in biggest if size >= 0.05]
    fits = f"fits in {words.probability_text(vram.fit_probability)}"
    if job.observed_hours is not None:
        fits = "fits: it was run"
        if vram.allocated > vram.peak:  # its parts would contradict what was seen
            return words.join_parts([*head, fits, f"estimated {words.gib(vram.allocated)} GiB"], "  ", ROOM, 3)
    return words.join_parts([*head, fits, *shown, f"limit: {vram.phase}"], "  ", ROOM, 3)


def rate(job: Run) -> str:
    """Work per second with its interval."""
    low, high = (words.significant(v) for v in (job.tokens_per_second_low, job.tokens_per_second_high))
    return f"{words.significant(job.tokens_per_second)} {job.unit}/s ({low} to {high})"


def speed(job: Assignment) -> list[str]:
    """Work per second, and the steps."""
    count = f"{job.steps:,} step{'' if job.steps == 1 else 's'}"
    steps = f", {count} of {words.significant(job.step_seconds)} s" if job.step_seconds else ""
    paced = ", as fast as storage feeds it" if job.fed_by_storage else ""
    return words.wrap_lines(f"{rate(job)}{steps}{paced}", ROOM, 2 if paced else 1)


def time(job: Assignment) -> list[str]:
    """Where the hours go, and the chance to meet the deadline."""
    interval = f"({words.between(job.hours.low, job.hours.high)})"
    whole = f"{words.hours(job.hours.expected)} in all {interval}"
    if job.observed_hours is None:
        before = {name: hours for name, hours in job.stage_hours.items() if name == "prepare data"}
        waiting = job.spot.waiting_hours if job.spot else 0.0
        training = {"training": job.training_hours - waiting, "waiting": waiting}
        # A service has no machine to start: what comes before are the data on their way to it.
        first = "start" if job.gpus else "upload"
        stages = {**before, first: job.start_hours, **training, **job.stage_hours}
        said = [f"{name} {words.hours(hours)}" for name, hours in stages.items() if hours > 0]
        lines = [", ".join([*said, whole])] if len(said) < 3 else [*words.join_parts(said, ", ", ROOM, 2), whole]
    else:
        lines = [_format_observed(job, whole, interval)]
    lines += [holds] if (holds := format_job_deadline(job)) else []
    if job.spot is None and job.spot_share > 0 and job.switch_to_on_demand_at_hours is not None:
        switch = words.plain_number(job.switch_to_on_demand_at_hours)
        lines.append(f"on demand from hour {switch}, if not done on spot")
    return [words.shorten(line, ROOM) for line in lines]


def _format_observed(job: Assignment, whole: str, interval: str) -> str:
    """Hours that were seen, and what spot or trials make of them."""
    seen = words.hours(job.observed_hours or 0.0)
    if job.trials > 1:
        return f"{seen} each, as observed, {whole}"
    if job.spot_share > 0:
        return f"{seen} as observed, on spot {whole}"
    return f"{seen} for the whole job, as observed {interval}"


def format_job_deadline(job: Assignment) -> str:
    """How sure the deadline of a job is; empty without one."""
    if job.deadline_hours is None or job.deadline_probability is None:
        return ""
    return deadline(job.deadline_hours, job.deadline_probability, job.has_fallback, job.spot is not None)


def deadline(limit_hours: float, probability: float, fallback: bool = True, guarded: bool = False) -> str:
    """How sure the deadline is; on spot alone it is an expectation of the market, which nothing holds up.

    `guarded`: a policy on spot keeps it on every path of the market; what it saves of its time is in hand besides.
    """
    if not fallback:
        likely = words.probability_text(probability)
        return f"deadline {words.plain_number(limit_hours)} h: expected in {likely}, without fallback"
    least = "at least " if guarded else ""
    return f"the {words.plain_number(limit_hours)} h deadline holds in {least}{words.probability_text(probability)}"


def methods(job: Assignment) -> list[str]:
    """The ladder: every method with its least cost."""
    rungs = [format_method(option, job) for option in job.ladder]
    return words.join_parts(rungs, "   ", ROOM, 3) if rungs else []


def format_method(option: Option, job: Assignment) -> str:
    """One method: its cost, and the hardware where it is another than the plan's."""
    if option.cost_usd is None:
        return f"{option.label}: {option.note or 'no way'}"
    other = (option.gpu, option.gpus) != (job.gpu, job.gpus)
    count = f"{option.gpus:,} x " if option.gpus > 1 else ""
    on = f" on {count}{option.gpu}" if other and option.gpu else ""
    mark = "" if option.allowed else " (not allowed here)"
    return f"{option.label} {words.usd(option.cost_usd)}{on}{mark}"


def methods_brief(job: Assignment) -> str:
    """The ladder without hardware, what the job may not choose last."""
    said: list[str] = []
    barred: list[str] = []
    for one in job.ladder:
        if one.cost_usd is not None:
            (said if one.allowed else barred).append(f"{one.label} {words.usd(one.cost_usd)}")
    said += [f"not allowed here: {', '.join(barred)}"] if barred else []
    return "; ".join(said)


def format_alternatives(job: Assignment) -> list[str]:
    """The best alternatives, at most two in two lines each; what they are compared by, if more than dollars."""
    lines = [words.shorten(f"compared by {job.compared_by}:", ROOM)] if job.compared_by and job.runner_up else []
    for option in job.runner_up[:2]:
        what = f"{words.gpus(option.gpus, option.gpu, option.runs_at_once)} at {option.provider}"
        cost = f" {words.usd(option.cost_usd)}" if option.cost_usd is not None else ""
        took = f", {words.hours(option.hours)}" if option.hours is not None else ""
        note = f": {option.note}" if option.note else ""
        lines += words.wrap_lines(f"{what}{cost}{took}{note}", ROOM, 2)
    return lines


def limits(job: Assignment) -> list[str]:
    """What holds the plan back."""
    return words.wrap_lines("; ".join(job.binding) or "none binds", ROOM, 2)


def spot(job: Assignment) -> list[str]:
    """What the policy on spot saves, expects and guarantees, in at most three lines; empty without one."""
    told = job.spot
    if told is None:
        return []
    saved = f"saves {words.usd(told.saving_usd)} of on demand, give or take {words.usd(told.usd_sd)}"
    times = f"{told.interruptions:,.1f} interruption{'' if round(told.interruptions, 1) == 1 else 's'}"
    lost = f"{words.hours(told.wasted_hours)} paid for starts and lost work"
    guard = f"on demand at hour {words.plain_number(told.latest_on_demand_hours)} at the latest, should spot never come"
    return words.join_parts([saved, times, lost, guard], "; ", ROOM, 3)


def budget(plan: Plan) -> str:
    """How sure the budget is; empty without one."""
    if plan.budget_usd is None or plan.budget_probability is None:
        return ""
    return f"the {words.usd(plan.budget_usd)} budget holds in {words.probability_text(plan.budget_probability)}"


def commitment(job: Assignment) -> list[str]:
    """What a commitment would have to be used for to pay, in at most two lines."""
    told = job.commitment
    if told is None:
        return []
    months = f"{told.months} month{'s' if told.months > 1 else ''}"
    used = f"{words.hours(told.used_hours)} of the {words.hours(told.term_hours)} paid for"
    share = told.break_even_share
    if told.break_even_hours is None or told.on_demand_usd_per_hour is None or share is None:
        pays = "nobody here rents the like by the hour to compare with"
    else:
        against = f"against {words.rate(told.on_demand_usd_per_hour)} an hour"
        pays = f"pays from {words.hours(told.break_even_hours)} of use on ({words.percent(share)}) {against}"
        if share > 1:
            pays = f"never pays {against}"
    return words.wrap_lines(f"{months}, {words.usd(told.usd)}: uses {used}; {pays}", ROOM, 2)


def prices(job: Assignment) -> list[str]:
    """How old the price is and where it is from."""
    days = job.price_age_days
    age = "of unknown age" if days is None else f"{days:,} day{'' if days == 1 else 's'} old"
    date = f" ({job.price_date})" if job.price_date else ""
    source = f"; {job.price_source}" if job.price_source else ""
    return words.wrap_lines(f"{age}{date}{source}", ROOM, 1)
