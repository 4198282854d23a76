"""Sections of the text of a plan: its bill, its stages, its notes, one function per section."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner import generation
from planner.documents.quantities import moment_after
from planner.library.engines import formats_in_name, read_engines
from planner.library.technique_tables import read_techniques
from planner.report import words
from planner.report.words import line_room
from planner.results.explanation import device_noun
from planner.results.fleet import BulkGeneration
from planner.results.plan import Assignment, DataPath, Plan
from planner.results.plan_parts import (
    BEYOND_TYPICAL_STOCK,
    TYPICAL_STOCK_HOLDS,
    BillItem,
    CutSamples,
    HostMemory,
    Hours,
    Option,
    Purchase,
    Reservation,
    SpotPlan,
    Spread,
)
from planner.results.run_results import Estimate
from planner.results.subject_runs import RlRun
from planner.units import DAY_HOURS, MEGA

if TYPE_CHECKING:
    from collections.abc import Sequence


# Sections of the text of a plan, one function per section.


Run = Assignment | Estimate
"""A type with techniques, a batch, machines and a speed."""


def generation_of(job: Run) -> BulkGeneration | None:
    """Return what a plan says of generation; None of training."""
    return job.inference if isinstance(job, Assignment) else None


def cut_text(cut: CutSamples) -> str:
    """Return how much of the samples the sequences of a job do not hold, and what holds it."""
    whose = f" of {words.sanitise(cut.job)}" if cut.job else ""
    cuts = f"samples{whose} are cut to {cut.sequence_length:,} tokens"
    lost = f"{words.percent(cut.share)} of their tokens are not trained on"
    asks = f"--set {shlex.quote(cut.setting)}" if not cut.setting.startswith("--") else cut.setting
    return f"{cuts}: {lost}; " + (f"{asks} holds them" if cut.holds else "the model reads no more")


def cut_lines(cuts: Sequence[CutSamples]) -> list[str]:
    """Return the lines of `cut_text` that stand below the first line of an answer, at most two for each job."""
    texts = (words.wrap_lines(cut_text(cut), words.width() - 2, 2) for cut in cuts)
    return [f"{'  ' if number else '! '}{line}" for text in texts for number, line in enumerate(text)]


def variant_cut_lines(cuts: Sequence[CutSamples], cutting: int, variants: int) -> list[str]:
    """Return the lines below the first line of a sweep: of each job the greatest cut, and how many variants cut."""
    if not cuts:
        return []
    first = f"! {cutting:,} of {variants:,} variants cut samples; the greatest cut:" if cutting < variants else ""
    return [*([first] if first else []), *cut_lines(cuts)]


def format_optimality(plan: Plan) -> str:
    """Return `optimal`, or how far from the optimum the plan can be."""
    if plan.gap is not None and (plan.status != "optimal" or plan.gap >= 0.0005):
        return f"within {words.percent(plan.gap)} of optimum" if plan.gap < 1.0 else "no bound within the time limit"
    return "optimal" if plan.status == "optimal" else "optimality unknown"


def format_place(job: Assignment, with_region: bool = True) -> str:
    """Return the place, such as `1 x RTX3090 at vast (CA-QC)`, or `3 x (1 x RTX3090) at vast` for parallel runs."""
    region = f" ({job.region})" if with_region and job.region not in ("", "any") else ""
    return words.sanitise(f"{words.gpus(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}{region}")


def format_market(spot_share: float, tier: str = "secure") -> str:
    """Return how the machines are paid: on demand, spot, a mix, own, bought or committed."""
    words_of = {"own": "own", "bought": "bought", "managed": "per token or run", "committed": "committed"}
    if tier in words_of:
        return words_of[tier]
    if spot_share <= 0:
        return "on demand"
    return "spot" if spot_share >= 0.995 else f"spot {spot_share * 100:.0f} %"


MOSTLY = 0.9
"""Share of the hours on spot from which on a plan is called one on spot."""


def payment_words(tier: str, spot_share: float) -> str:
    """Return how machines are paid where that is not by the hour on demand; empty where it is."""
    if tier in ("secure", "community", "") and spot_share >= MOSTLY:
        return "spot"
    paid = format_market(spot_share, tier)
    return "" if paid == "on demand" else paid


def market_words(run: Assignment | Option, private: str = "private host") -> str:
    """Return whose machines are rented and how they are paid, such as `private host, spot`; empty for plain on demand.

    `private` are the words for the host of a private person.
    """
    hosts = [private] if run.tier == "community" else []
    return ", ".join(part for part in (*hosts, payment_words(run.tier, run.spot_share)) if part)


def method_words(job: Assignment) -> str:
    """Return the method of a job as the table of ways names it."""
    made = job.inference
    if made is not None:
        cache = "" if made.kv_bits == 16 else f", {made.kv_bits}-bit cache"
        return f"{generation.engine_name(made.engine)} {job.techniques.weight_bits}-bit{cache}"
    return method_label(job)


def _quantisation(job: Run) -> str:
    """Return how the frozen weights are quantised: by the name of the release where it was quantised before.

    A base in AWQ is counted by the row of GPTQ (models/techniques/engines.yaml).
    """
    quant = job.techniques.quant
    published = formats_in_name(job.architecture)
    counted_so = published and read_engines().formats[published[0]].trained == quant
    return published[0] if counted_so else quant


def techniques(job: Run, brief: bool = False) -> str:
    """Return the techniques; `brief` omits those that rarely differ."""
    how, table = job.techniques, read_techniques()
    if made := generation_of(job):
        return f"{generation.engine_words(made)}; {generation.request_words(made)}"
    if how.precision == "managed":
        return f"{'LoRA' if how.method == 'lora' else 'full training'} by a managed service, technique unknown"
    if how.method == "lora":
        article = "an" if how.weight_bits == 8 else "a"
        base = f"{how.weight_bits}-bit base"
        base += f" ({_quantisation(job)})" if how.quant not in ("", "none") else ""
        adapters = f"{'DoRA' if how.dora else 'LoRA'}{f' r{how.lora_rank}' if how.lora_rank else ''}"
        first = f"{adapters} on {article} {base}{' with experts in 16 bits' if how.experts_16_bit else ''}"
        first += ", adapters at the head" if how.adapt_head else ""
    else:
        first = table.words("method", how.method)
    if how.tuning != "sft":
        first = f"{table.values.tuning[how.tuning].words} with {first}"
    parts = [first, *(table.words(field, getattr(how, field)) for field in ("precision", "activation_checkpointing"))]
    parts += [table.words("reference", how.reference)] if how.reference else []
    hosted = table.values.offload.values[how.offload]
    parts += [table.words("offload", how.offload)] if brief and hosted.swapped else []
    if not brief:
        parts += [table.words(field, getattr(how, field)) for field in ("attention", "optimizer")]
        parts += [table.words("offload", how.offload)] if hosted.technique else []
        parts += [table.words("latents", how.latents)] if how.latents else []
        parts += [job.packing] if job.unit == "tokens" else []
    return ", ".join(parts)


def method_label(job: Assignment) -> str:
    """Return the method of a training job with its bits, such as `QLoRA`."""
    return read_techniques().method_label(job.techniques.method, job.techniques.weight_bits)


def framework_label(job: Assignment) -> str:
    """Return the name of the framework; empty for a managed service."""
    profile = read_techniques().frameworks.get(job.framework)
    return profile.label if profile else ""


def kernels(job: Assignment) -> str:
    """Return the framework and its kernels; empty for a managed service."""
    profile = read_techniques().frameworks.get(job.framework)
    return f"{profile.label}: {profile.kernel_set}" if profile else ""


def batch(job: Run) -> str:
    """Return how the global batch is made up."""
    how = job.techniques
    if not job.gpus or generation_of(job):
        return ""
    ranks = job.gpus // (how.tensor_parallel * how.pipeline_parallel * how.context_parallel)
    several = device_noun(job.gpu, ranks)
    groups = "" if ranks == 1 else f" x {ranks:,} {several if ranks == job.gpus else f'groups of {several}'}"
    steps = "step" if how.accumulation_steps == 1 else "steps"
    plural = "" if job.global_batch == 1 else "s"
    size = f"{job.unit.removesuffix('s')}{plural}"
    if job.unit == "tokens":
        pairs = read_techniques().values.tuning[how.tuning].answers > 1
        size = f"{'pair' if pairs else 'sequence'}{plural}{' of sequences' if pairs else ''}"
        size += f" of {job.sequence_length:,} tokens"
    made = f"{how.micro_batch} x {how.accumulation_steps} {steps}{groups}"
    return f"micro-batch {made} = {job.global_batch:,} {size}"


def machines(job: Run) -> str:
    """Return the machines of several GPUs and how they share the work; empty for one GPU."""
    if job.gpus == 1:
        return ""
    how = job.techniques
    count = "1 machine" if job.instances == 1 else f"{job.instances} machines"
    per_machine, link = job.gpus_per_instance, "" if job.gpus_per_instance == 1 else f" ({job.interconnect})"
    parts = [f"{count} of {per_machine} {device_noun(job.gpu, per_machine)}{link}"]
    parts += [how.sharding] if how.sharding != "none" else []
    parallel = tuple((name, getattr(how, f"{name}_parallel")) for name in ("tensor", "pipeline", "context", "expert"))
    parts += [f"{name} parallel {gpus}" for name, gpus in parallel if gpus > 1]
    return ", ".join(parts)


def train(job: Assignment) -> list[str]:
    """Return technique, batch, machines and trials in at most six lines; of generation engine, requests, machines."""
    if made := generation_of(job):
        return generation.serve_lines(made, machines(job), trials(job))
    rest = [kernels(job), batch(job)] + ([machines(job)] if job.gpus > 1 else []) + [trials(job)]
    return words.wrap_lines(techniques(job), line_room(), 2) + words.wrap_all(filter(None, rest), line_room(), 1)


def trials(job: Assignment) -> str:
    """Return the number of runs; empty for one run."""
    if job.trials == 1:
        return ""
    together = f", {job.runs_at_once} in parallel" if job.runs_at_once > 1 else ", one after the other"
    return f"{job.trials:,} trials{together}"


def memory(job: Assignment) -> list[str]:
    """Return the bar, the largest parts and the phase of the peak in at most three lines."""
    vram = job.vram_gib
    if not job.gpus:
        return []
    head = (f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB", words.bar(vram.peak / vram.usable))
    biggest = sorted({**vram.parts, **vram.set_aside}.items(), key=lambda part: (-part[1], part[0]))[:4]
    shown = [f"{name.replace('_', ' ')} {words.gib(size)}" for name, size in biggest if size >= 0.05]
    if made := generation_of(job):
        text = generation.flight_words(made)
        return words.join_parts([*head, *shown], "  ", line_room(), 2) + words.wrap_lines(text, line_room(), 2)
    fits = f"fits with {words.probability_text(vram.fit_probability)} probability"
    if job.observed_hours is not None:
        fits = "fits: observed"
        if vram.allocated > vram.peak:  # the estimated parts would contradict the observed peak
            return words.join_parts([*head, fits, f"estimated {words.gib(vram.allocated)} GiB"], "  ", line_room(), 3)
    lines = words.join_parts([*head, fits, *shown, f"peak in: {vram.phase}"], "  ", line_room(), 3)
    return [*lines, *host_memory(job.host_memory)]


def host_memory(host: HostMemory | None) -> list[str]:
    """Return what states take of the memory of the host, and whether that is assumed; no line where they take none."""
    if host is None:
        return []
    return [f"host: {host_memory_text(host)}"]


def host_memory_text(host: HostMemory) -> str:
    """Return what states take of the memory of a machine, and whether that is assumed."""
    known = " (assumed)" if host.assumed else ""
    return f"{words.significant(host.taken_gb)} of {host.total_gb:,.0f} GB per machine{known}"


def rate(job: Run) -> str:
    """Return tokens, images or videos per second with their interval."""
    low, high = (words.significant(v) for v in (job.tokens_per_second_low, job.tokens_per_second_high))
    return f"{words.significant(job.tokens_per_second)} {job.unit}/s ({low} to {high})"


def speed(job: Assignment) -> list[str]:
    """Return tokens, images or videos per second, and the steps."""
    if made := generation_of(job):
        return generation.speed_lines(made, rate(job))
    count = f"{job.steps:,} step{'' if job.steps == 1 else 's'}"
    steps = f", {count} of {words.significant(job.step_seconds)} s" if job.step_seconds else ""
    paced = ", limited by storage" if job.fed_by_storage else ""
    bound = ", an upper bound" if is_upper_bound(job) else ""
    return words.wrap_lines(f"{rate(job)}{bound}{steps}{paced}", line_room(), 2 if paced or bound else 1)


def is_upper_bound(job: Assignment) -> bool:
    """Return whether the speed of a job is one that its run can only miss, as a note says."""
    return any("an upper bound" in note for note in job.notes)


def time(job: Assignment) -> list[str]:
    """Return the hours by stage, and the probability to meet the deadline."""
    interval = f"({range_of_hours(job.hours)})"
    late = words.by(job.hours.at_confidence)
    whole = f"{words.likely(job.hours.expected)} in total {interval}, {late}"
    if job.observed_hours is None:
        before = {name: hours for name, hours in job.stage_hours.items() if name == "prepare data"}
        waiting = job.spot.waiting_hours if job.spot else 0.0
        name = "answering" if job.inference else "training"
        training = {name: job.training_hours - waiting, "waiting": waiting}
        # A managed service has no machine to start: the hours before training are the upload of the data.
        first = "start" if job.gpus else "upload"
        stages = {**before, first: job.start_hours, **training, **job.stage_hours}
        steps = [f"{name} {words.hours(hours)}" for name, hours in stages.items() if hours > 0]
        one_line = ", ".join([*steps, whole])
        fits = len(steps) < 3 and len(one_line) <= line_room()
        lines = [one_line] if fits else [*words.join_parts(steps, ", ", line_room(), 2), whole]
    else:
        lines = words.wrap_lines(_format_observed(job, whole, f"{interval}, {late}"), line_room(), 2)
    if job.lead_hours:
        lines.append(f"starts when the machine is there, at hour {words.plain_number(job.lead_hours)}")
    lines += [chance] if (chance := format_job_deadline(job)) else []
    if job.spot is None and job.spot_share > 0 and job.switch_to_on_demand_at_hours is not None:
        switch = words.plain_number(job.switch_to_on_demand_at_hours)
        lines.append(f"switches to on demand at hour {switch} if not done on spot")
    return words.wrap_all(lines, line_room(), 1)


def range_of_hours(hours: Hours) -> str:
    """Return the 80 % range of hours; where another confidence than 90 % is asked for it does not end at the *by*."""
    text = words.hours_between(hours)
    return text if words.hours(hours.high) == words.hours(hours.at_confidence) else f"{text} with 80 %"


def _format_observed(job: Assignment, whole: str, interval: str) -> str:
    """Return the observed hours, and the hours with spot, trials or an expected early stop."""
    observed = words.hours(job.observed_hours or 0.0)
    if job.trials > 1:
        return f"{observed} each (observed), {whole}"
    if job.spot_share > 0:
        return f"{observed} observed, on spot {whole}"
    if job.hours.expected < (job.observed_hours or 0.0):
        return f"{observed} observed to the end, {whole}"
    return f"likely {observed} for the whole job, observed {interval}"


def format_job_deadline(job: Assignment) -> str:
    """Return the probability to meet the deadline of a job; empty without one."""
    if job.deadline_hours is None or job.deadline_probability is None:
        return ""
    # A spot policy keeps the deadline on every path of the market, so that the probability is a lower bound.
    chance = words.chance_text(job.deadline_probability, at_least=job.spot is not None)
    without = "" if job.has_fallback else " (no fallback)"
    return f"meets the {words.given_hours(job.deadline_hours)} h deadline with {chance} probability{without}"


def deadline_day(plan: Plan, job: Assignment) -> list[str]:
    """Return the day and time of the deadline with its zone, where the plan knows from when hours count."""
    if not plan.now or job.deadline_hours is None:
        return []
    moment = moment_after(plan.now, job.deadline_hours, plan.zone)
    offset = moment.strftime("%z")
    name = "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:]}"
    zone = f"{plan.zone} ({name})" if plan.zone not in ("", "UTC") else name
    return [f"the deadline is {moment:%Y-%m-%d %H:%M} {zone}"]


def spot(job: Assignment) -> list[str]:
    """Return what the spot policy saves and expects, and the rule it follows."""
    policy = job.spot
    if policy is None:
        return []
    saved = _saved_on_spot(job, policy)
    times = f"{policy.interruptions:,.1f} interruption{'' if round(policy.interruptions, 1) == 1 else 's'}"
    times += " of each machine" if job.inference and job.instances > 1 else ""
    lost = f"{words.hours(policy.wasted_hours)} of restarts and lost work"
    rule = words.wrap_all([waiting_rule(policy)], line_room(), 2)
    return words.wrap_lines(f"{saved}; {times}; {lost}", line_room(), 3) + rule + _zones(policy)


def _saved_on_spot(job: Assignment, policy: SpotPlan) -> str:
    """Return what spot saves against the best plan on demand, where it is known and costs more, else on these machines.

    The machines that are best on spot are often not those that one would rent on demand.
    """
    on_demand = next((option.cost_usd for option in job.safer if option.label == "on demand"), None)
    if on_demand is not None and on_demand > job.cost_usd:
        usd, against = words.usd(on_demand - job.cost_usd), f"against {words.usd(on_demand)} on demand"
        return f"may save {usd} (assumed market) {against}" if policy.basis else f"saves {usd} {against}"
    against = "against these machines on demand"
    if policy.basis:  # a guess: from no machines at all to machines at any time
        most = words.usd(policy.saving_usd + policy.outage_usd)
        return f"may save {words.usd(policy.saving_usd)} (0 to {most}; assumed market) {against}"
    return f"saves {words.usd(policy.saving_usd)} ± {words.usd(policy.usd_sd)} {against}"


def _zones(policy: SpotPlan) -> list[str]:
    """Return among how many zones the run moves, the cheapest first; nothing where it stays in one."""
    by_price = sorted(policy.zones, key=lambda name: (policy.zones[name], name))
    if not by_price:
        return []
    low, high = (words.usd(policy.zones[name]) for name in (by_price[0], by_price[-1]))
    prices = low if low == high else f"{low} to {high}"
    first, *others = [name.rpartition("/")[2] for name in by_price[:3]] + ["..."] * (len(by_price) > 3)
    text = f"moves among {len(by_price)} zones at {prices} an hour: {first}"
    return words.join_parts([text, *others], ", ", line_room(), 1)


def waiting_rule(policy: SpotPlan) -> str:
    """Return in plain words when a run that waits takes a machine, and when it moves to on demand at the latest."""
    latest = f"on demand from hour {words.plain_number(policy.latest_on_demand_hours)} at the latest"
    after, at_once = policy.take_after_up_hours, policy.take_at_once_from_hours
    if after is None:
        return latest
    if after <= 0:
        return f"take a spot machine as soon as there is one; {latest}"
    rule = f"take a spot machine once the market has been up for {words.hours(after)}"
    if at_once is not None:
        rule += f", from hour {words.plain_number(at_once)} on at once"
    return f"{rule}; {latest}"


def budget(plan: Plan) -> list[str]:
    """Return the probability to keep the budget; empty without one."""
    if plan.budget_usd is None or plan.budget_probability is None:
        return []
    chance = words.chance_text(plan.budget_probability)
    return [f"within the {words.usd(plan.budget_usd)} budget with {chance} probability"]


def outlay_text(plan: Plan) -> str:
    """Return what is paid on the first day next to what the jobs are charged with; empty where nothing is."""
    if not plan.outlay_usd or plan.cost is None:
        return ""
    whose = "the job is" if len(plan.jobs) == 1 else "the jobs are" if plan.jobs else "the service is"
    charged = f"{whose} charged with {words.usd(plan.cost.expected)}"
    counts = ", which is what budget_usd counts" if plan.budget_usd is not None else ""
    bought = plan.jobs[0].purchase if len(plan.jobs) == 1 else None
    is_known = bought is not None and bought.is_bought and bought.rent_usd_per_hour is not None
    back = f", {price_back(bought)}" if bought is not None and is_known else ""
    offers = [job.offer for job in plan.jobs if job.tier == "bought"]
    fewer = "; jobs in turn need fewer machines" if len(set(offers)) < len(offers) and not plan.is_timetable else ""
    lead = max((job.lead_hours for job in plan.jobs if job.tier == "bought"), default=0.0)
    there = f"; delivered after {lead / DAY_HOURS:,.0f} days" if lead else ""
    return f"paid at once: ${plan.outlay_usd:,.0f} (limits.outlay_usd){back}{there}; {charged}{counts}{fewer}"


def price_back(bought: Purchase) -> str:
    """Return when the rent that is saved is the whole price of machines."""
    life, hours = bought.life_months, bought.price_back_hours
    if hours is None:
        return "never back: it saves no rent"
    months = hours / bought.hours_per_month
    if life is not None and months > life:
        return f"not back in the {life:,.0f} months that it lives"
    return f"back after {words.significant(months)} months of use"


def outlay(plan: Plan) -> list[str]:
    """Return the lines below the first one on what is paid at once."""
    return words.second_lines(outlay_text(plan) or None)


def commitment(job: Assignment) -> list[str]:
    """Return the use of a commitment and its break-even in at most three lines."""
    term = job.commitment
    if term is None:
        return []
    months = f"{term.months} month{'s' if term.months > 1 else ''}"
    months = months if term.terms == 1 else f"{term.terms} terms of {months}"
    used = f"{words.hours(term.used_hours)} of the {words.hours(term.term_hours)} paid for"
    used += f", then {words.hours(term.after_hours)} on demand" if term.after_hours else ""
    share = term.break_even_share
    if term.break_even_hours is None or term.on_demand_usd_per_hour is None or share is None:
        pays = "no offer by the hour to compare with"
    else:
        against = f"against {words.rate(term.on_demand_usd_per_hour)} an hour"
        pays = f"breaks even at {words.hours(term.break_even_hours)} of use ({words.percent(share)}) {against}"
        if share > 1:
            pays = f"never breaks even {against}"
    return words.wrap_lines(f"{months}, {words.usd(term.usd)}: uses {used}; {pays}", line_room(), 3)


RENEWS_PRICES = "planner prices update"
"""The command that renews the prices."""
OLD_PRICE_DAYS = 60
"""Age from which on that of a price is said below the first line."""


MOST_JOBS_IN_BLOCKS = 12
"""Jobs up to which the lines of each show what all need at one time."""
MOST_NEEDS_NAMED = 4
"""Most GPUs and providers that are named of what many jobs need at one time."""


def at_one_time(plan: Plan) -> list[str]:
    """Return the GPUs that many jobs need at one time, and what a guess of the stock does to the plan."""
    guessed = guesses_of_stock(plan)
    if len(plan.jobs) <= MOST_JOBS_IN_BLOCKS and not guessed:
        return []
    kinds = [f"{need.gpus:,} {need.gpu} at {need.provider}" for need in plan.at_one_time]
    rest = sum(need.gpus for need in plan.at_one_time[MOST_NEEDS_NAMED:])
    named = ", ".join([*kinds[:MOST_NEEDS_NAMED], *([f"{rest:,} others"] if rest else [])])
    lines = words.second_lines(f"at one time: {named}" if named else None)
    return [*lines, *(line for note in guessed for line in words.second_lines(note))]


def guesses_of_stock(plan: Plan) -> list[str]:
    """Return the warnings of a plan that say what the typical stock does to it."""
    return [note for note in plan.warnings if note.startswith((TYPICAL_STOCK_HOLDS, BEYOND_TYPICAL_STOCK))]


def old_prices(plan: Plan) -> list[str]:
    """Return the line that says how old the prices of a plan are and what renews them; none while they are new."""
    age = old_prices_text(plan)
    return [f"  ({age}) newer ones: {RENEWS_PRICES}"] if age else []


def old_prices_text(plan: Plan) -> str:
    """Return how old the prices of a plan are; empty while they are new."""
    if plan.price_age_days is None or plan.price_age_days <= OLD_PRICE_DAYS:
        return ""
    return f"prices {plan.price_age_days:,} days old"


def on_a_prior(job: Assignment) -> list[str]:
    """Return the lines below the first that say which figure of a plan is a guess, and the best plan without it."""
    return words.second_lines(prior_text(job))


def prior_text(job: Assignment) -> str:
    """Return which figure of a job is a guess, and the best plan whose speed is none; empty where none is.

    The hours of that plan are the likely ones: those at the confidence would need its whole evaluation.
    """
    rests = job.evidence
    if rests is None or rests.speed != "prior":
        return ""
    text, known = "the speed is a prior, not from measurements", rests.known
    if known is None or known.cost_usd is None or known.hours is None:
        return f"{text}: no plan within the limits has a measured speed"
    machines = f"{words.gpus(known.gpus, known.gpu, known.runs_at_once)} at {words.sanitise(known.provider)}"
    figures = f"{words.usd(known.cost_usd)}, {words.likely(known.hours)}"
    return f"{text}; best with a measured speed: {machines}, {figures}"


def assumed_market_text(plan: Plan) -> str:
    """Return what the plan costs on demand, where an assumed spot market alone keeps it within the budget; else empty.

    On demand on the same machines; a plan on a market that is fitted to traces, or without a budget, has no such line.
    """
    saved = [job.spot.saving_usd for job in plan.jobs if job.spot is not None and job.spot.basis]
    if not saved or plan.budget_usd is None or plan.cost is None:
        return ""
    usd = plan.cost.expected + math.fsum(saved)
    if usd <= plan.budget_usd:
        return ""
    whole = "the same run" if len(plan.jobs) == 1 else "the same plan"
    return f"on demand {whole} costs {words.usd(usd)}: only the assumed spot market keeps it within the budget"


def evidence(job: Assignment) -> list[str]:
    """Return what the figures of a job rest on, and how far the cheapest estimate is too low; none in older plans."""
    rests = job.evidence
    if rests is None:
        return []
    named = {"speed": rests.speed, "memory": rests.memory, "price": rests.price, "spot market": rests.spot}
    lines = words.wrap_lines(", ".join(f"{name} {word}" for name, word in named.items() if word), line_room(), 1)
    pick = pick_text(job)
    return [*lines, *words.wrap_lines(pick, line_room(), 2)] if pick else lines


MUCH_TOO_LOW = 0.1
"""Share by which the cheapest of many estimates is too low, from which on it is said above the plan."""


def pick_text(job: Assignment) -> str:
    """Return what the cheapest of many uncertain estimates costs more on average; empty where it is little."""
    rests = job.evidence
    if rests is None or rests.optimizer_curse is None or rests.estimates is None:
        return ""
    more = f"{rests.optimizer_curse * 100:.0f} % more on average"
    return f"cheapest of {rests.estimates:,} estimates: such picks cost {more}"


def much_too_low_text(job: Assignment) -> str:
    """Return what the plan will cost on average, as the cheapest of many estimates, where that is much more."""
    rests = job.evidence
    if rests is None or (rests.optimizer_curse or 0.0) < MUCH_TOO_LOW:
        return ""
    curse = rests.optimizer_curse or 0.0
    of = f"{rests.estimates:,} uncertain estimates" if rests.estimates is not None else "many uncertain estimates"
    return f"cheapest of {of}: expect {curse * 100:.0f} % more, {words.usd(job.cost_usd * (1.0 + curse))}"


def prices(job: Assignment) -> list[str]:
    """Return the age and the source of the price."""
    return words.wrap_lines(price_text(job), line_room(), 4)


def price_text(job: Assignment) -> str:
    """Return the age and the source of the price as one line."""
    days = job.price_age_days
    if days is None:
        age = "of unknown age"
    elif days < 0:
        age = "newer than the date asked for"
    else:
        age = f"{days:,} day{'' if days == 1 else 's'} old"
    date = f" ({job.price_date})" if job.price_date else ""
    source = f"; {job.price_source.removesuffix(f', {job.price_date}')}" if job.price_source else ""
    return f"{age}{date}{source}"


# The bill of a plan as text: items, what is not included, total.


NOT_INCLUDED = "not included"
"""Part of the basis of a bill item whose price is unknown."""

ITEM_NAMES = {"starts and losses": "restarts, lost work", "moves between regions": "moves of region"}
"""Names on the screen that differ from those of the data."""


def bill(job: Assignment | RlRun) -> list[str]:
    """Return items that cost something, what is not included, and the total.

    Items are shown in whole cents and add up to the total: the largest takes what rounding lacks.
    """
    unknown = [item.item for item in job.bill if NOT_INCLUDED in item.basis]
    free = ("gpu committed", "tokens trained", "training runs")  # shown although they cost nothing
    known = [item for item in job.bill if NOT_INCLUDED not in item.basis]
    paid = [item for item in known if round(item.usd, 2) != 0 or item.item in free]
    tail = words.join_parts([f"not included: {', '.join(unknown)}"], "", words.line_room(), 1) if unknown else []
    certain = words.usd(job.cost.low) == words.usd(job.cost.high)
    spread = "" if certain else f"({words.usd_between(job.cost.low, job.cost.high)})"
    total = job.cost.expected
    tail.append(_amount("total", spread, total))
    # A line of quantity and rate keeps its product.
    bare = [at for at, item in enumerate(paid) if item.rate_usd is None and item.usd >= LEAST_FOLDED_USD]
    amounts, rest = added_up([item.usd for item in paid], total, bare)
    shown = (item.model_copy(update={"usd": usd}) for item, usd in zip(paid, amounts, strict=True))
    lines = [bill_line(item, job.gpu) for item in shown]
    return [*lines, *([_amount("rounding", "", rest)] if rest else []), *tail]


def bill_text(jobs: Sequence[Assignment | RlRun], cost: Spread, reservations: Sequence[Reservation] = ()) -> str:
    """Return the total of jobs, the items that cost a cent or more, the greatest first, and what is not included.

    Items as shown add up to the total as shown. One item alone has no amount of its own.
    """
    usd_of: dict[str, float] = {"reserved": sum(reservation.usd for reservation in reservations)}
    for job in jobs:
        for item in (item for item in job.bill if NOT_INCLUDED not in item.basis):
            name = item_name(item.item, job.gpu).replace(", ", " and ")
            usd_of[name] = usd_of.get(name, 0.0) + item.usd
    paid = {name: usd for name, usd in sorted(usd_of.items(), key=lambda item: -item[1]) if round(usd, 2) != 0}
    amounts, rest = added_up(list(paid.values()), cost.expected)
    paid = dict(zip(paid, amounts, strict=True))
    paid |= {"rounding": rest} if rest and paid else {}
    items = ", ".join(f"{words.usd(usd)} {name}" for name, usd in paid.items()) if len(paid) > 1 else "".join(paid)
    total = f"{words.usd(cost.expected)} in all{_range_text(jobs, cost)}"
    return "; ".join([f"{total}: {items}" if items else total, *_left_out(jobs)])


def _range_text(jobs: Sequence[Assignment | RlRun], cost: Spread) -> str:
    """Return the range of dollars; of an assumed spot market it says that its end is a run without such machines."""
    if words.usd(cost.low) == words.usd(cost.high):
        return ""
    assumed = any(isinstance(job, Assignment) and job.spot is not None and job.spot.basis for job in jobs)
    least, most = words.usd_between(cost.low, cost.high).split(" to ")
    return f" ({least} to {most}{', the most without spot capacity' if assumed else ''})"


def _left_out(jobs: Sequence[Assignment | RlRun]) -> list[str]:
    """Return which items are not included because their price is unknown, and of which jobs where not of all."""
    whose: dict[str, list[str]] = {}
    for job in jobs:
        for name in dict.fromkeys(item.item for item in job.bill if NOT_INCLUDED in item.basis):
            whose.setdefault(name, []).append(words.sanitise(job.name))
    if not whose:
        return []
    texts = []
    for name, of in whose.items():
        more = f" and {len(of) - 2} more jobs" if len(of) > 3 else ""
        named = ", ".join(of[:2] if more else of)
        texts.append(name if len(of) == len(jobs) else f"{name} of {named}{more}")
    return [f"not included: {', '.join(texts)}"]


def rounding(amounts: Sequence[float], total: float) -> float:
    """Return what amounts, each shown as `words.usd` shows it, lack of their total as it is shown."""
    return round(_shown(total) - math.fsum(_shown(amount) for amount in amounts), 2)


LEAST_FOLDED_USD = 0.10
"""Least amount of a line that takes what rounding lacks, if another line is larger."""


def added_up(amounts: Sequence[float], total: float, among: Sequence[int] = ()) -> tuple[list[float], float]:
    """Return amounts that add up to their total as both are shown, and what is still lacking.

    The largest takes what rounding lacks, a cent or two, where it moves least: the largest of those `among`, if any.
    Shown in whole dollars it cannot take cents, and more than a cent for each amount is not rounding: then all stay.
    """
    made, rest = list(amounts), rounding(amounts, total)
    if not rest or abs(rest) > 0.01 * len(made) + 1e-9:
        return made, rest
    largest = max(among or range(len(made)), key=made.__getitem__)
    made[largest] = _shown(made[largest]) + rest
    return (list(amounts), rest) if rounding(made, total) else (made, 0.0)


def _shown(amount: float) -> float:
    return float(words.usd(amount).replace("$", "").replace(",", ""))


def bill_line(item: BillItem, gpu: str = "") -> str:
    """Return an item as quantity x rate if both are known, with the basis of an assumed price; `gpu` is the card."""
    how = ""
    single = item.quantity == 1 and item.unit != "h"  # its rate is the amount
    if item.quantity is not None and item.rate_usd is not None and not single:
        how = product(item.quantity, item.unit, item.rate_usd, item.usd)
    elif item.quantity is not None and item.unit:
        how = quantity(item.quantity, item.unit)
    stage, at, place = item_name(item.item, gpu).partition(" at ")  # a stage on a separate machine
    how = f"{how}, {item.basis}".removeprefix(", ") if item.basis else how
    return _amount(stage, f"{how}{at}{place}", item.usd)


def item_name(item: str, gpu: str = "") -> str:
    """Return an item of a bill in the words of the screen: the hours of a TPU are not called those of a GPU."""
    card = "TPU" if gpu.startswith("TPU") else "GPU"
    return ITEM_NAMES.get(item, item).replace("gpu ", f"{card} ")


def product(amount: float, unit: str, rate_usd: float, usd: float) -> str:
    """Return `quantity x rate` with the fewest digits whose product is the dollars as they are shown."""
    for in_rate, in_amount in sorted(itertools.product(range(4), range(6)), key=lambda more: (sum(more), more)):
        factors = quantity(amount, unit, in_amount), words.rate(rate_usd, in_rate)
        of_unit = 60.0 if factors[0].endswith(" min") else 1.0
        shown = [float(factor.split()[0].strip("$").replace(",", "")) for factor in factors]
        if words.usd(shown[0] * shown[1] / of_unit) == words.usd(usd):
            return " x ".join(factors)
    return quantity(amount, unit)


def quantity(amount: float, unit: str, more: int = 0) -> str:
    """Return an amount with its unit, `more` digits than usual; hours of any kind have one decimal."""
    if unit == "h":
        return words.hours(amount, more)
    figure = f"{amount:,.{1 + more}f}" if "hour" in unit else words.significant(amount, 3 + more)
    unit = unit.removesuffix("s") if amount == 1 and " " not in unit else unit
    unit = unit.replace("machine for", "machines for") if amount != 1 else unit
    return f"{figure} {unit}".rstrip()


def _amount(item: str, how: str, amount: float) -> str:
    """Return one row of the bill: 21 columns item, 35 basis, 12 dollars.

    In less than 80 columns a short item leaves its room to the basis.
    """
    name, item_columns, basis, money = words.shorten(words.sanitise(item), 20), 21, 35, 12
    if words.width() < words.WIDTH:
        item_columns, money = max(len(name), 14) + 1, 9
        basis = line_room() - item_columns - money
    how = words.shorten(words.sanitise(how), basis - 1)
    return f"{name:<{item_columns}}{how:<{basis}}{words.usd(amount).replace('$', ''):>{money}}"


# Notes below a plan: each in full or counted.


NOTE_LINES = 3
"""Most lines of one note."""


def render_notes(texts: tuple[str, ...], room: int) -> list[str]:
    """Return notes in at most `room` lines, each in full or not at all; the last line counts those left out."""
    lines: list[str] = []
    left = list(texts)
    while left:
        wrapped = words.wrap_lines(left[0], line_room(), words.most(NOTE_LINES))
        if len(lines) + len(wrapped) + (len(left) > 1) > room:
            break
        lines += wrapped
        left.pop(0)
    if left:
        more = f" ({len(left) - 1} more: --details)" if len(left) > 1 else ""
        short = next((text for text in left if len(text) + len(more) <= line_room()), None)
        counted = f"{len(left)} {'more' if lines else 'notes'}: --details"
        lines.append(f"{words.sanitise(short)}{more}" if short else counted)
    return words.section("Notes", lines)


# One line for the data path, one for the exported result.


WORTH_A_LINE = 0.01
"""Share of storage or cores from which on a plan shows the data path; its JSON and `explain --technique` always do."""
NOTICED_HOURS = 1 / 60


def data_path(job: Assignment) -> list[str]:
    """Return the data path where it is worth a line: data are prepared, images, or a hundredth of storage or cores."""
    path = job.data_path
    if path is None:
        return []
    shares = (
        path.read_bytes_per_second / path.storage_bytes_per_second,
        (path.cores_used or 0.0) / path.cores,
        WORTH_A_LINE * (path.cores_used is None or "prepare data" in job.stage_hours),
    )
    return words.wrap_lines(data_path_text(path, job.name), line_room(), 2) if max(shares) >= WORTH_A_LINE else []


def _megabytes(size: float) -> str:
    """Return megabytes, of small ones the first decimal: an estimate of what is read has no more."""
    amount = round(size / MEGA, 1)
    return "under 0.1" if amount == 0.0 else words.significant(amount)


def data_path_text(path: DataPath, job: str) -> str:
    """Return what is read and used, and what caching or prefetching would bring."""
    rates = (path.read_bytes_per_second, path.storage_bytes_per_second)
    text = "reads {} of {} MB/s".format(*map(_megabytes, rates))
    if path.cores_used is not None:
        about = "" if path.cores_known else " (assumed)"
        text += f", {words.significant(path.cores_used)} of {path.cores:g} cores{about} if tokenised on the way"
    if path.saved_hours >= NOTICED_HOURS:
        return f"{text}: faster storage or a cache would save {words.hours(path.saved_hours)}"
    if path.latents_saved_hours >= NOTICED_HOURS:
        saved = words.hours(path.latents_saved_hours)
        return f"{text}; cached latents would save about {saved}: --set jobs.{job}.techniques.latents=cached"
    return f"{text}: faster storage, caching or prefetching would save no time"


def export(job: Assignment) -> list[str]:
    """Return what leaves and where it is made; nothing where the result is sent as it was trained."""
    made = job.export
    if made is None or made.format == "adapters":
        return []
    kind = "16-bit weights" if made.bits is None else f"{made.format} of {made.bits} bits"
    where = f", made at {words.sanitise(made.offer)}" if made.offer else ""
    needs = f"; merging needs {made.ram_gb:,.0f} GB of RAM" if made.ram_gb else ""
    known = "" if made.ram_known or not made.ram_gb else " (unknown here)"
    return words.wrap_lines(f"{kind}, {words.significant(made.gb)} GB{where}{needs}{known}", line_room(), 2)
