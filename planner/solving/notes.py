"""The plan of one job with its notes: what is tight, what is assumed, and the probability of keeping a budget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner import generation
from planner.configurations.coefficients import (
    DEFAULT_NETWORK_BYTES_PER_SECOND,
    chip_notes,
    efficiency_notes,
    expert_notes,
    margin_text,
    memory_margin,
    recipe_spread,
)
from planner.configurations.compared_runs import ComparedRun, Correction, memory_setting
from planner.configurations.grid import parts_of_card, prompt_notes, stand_ins
from planner.configurations.recipe import framework_of, mean_tokens, technique_notes
from planner.errors import AuditError
from planner.estimates.memory_fit import evaluation_logit_bytes
from planner.estimates.parts import attention_stand_ins
from planner.estimates.uncertainty import SCATTER_WARNING_RATIO, is_implausible_speed, max_speed_ratio
from planner.estimates.work import trial_work
from planner.evaluation.comparison import Violation
from planner.evaluation.evaluate import evaluate
from planner.evaluation.evaluated_hours import probability_within
from planner.evaluation.evaluated_physics import RunContext, SearchedPolicy, resolve_names, techniques_of
from planner.library.schema import Library
from planner.results.fleet import BulkGeneration
from planner.results.plan import Assignment
from planner.results.plan_parts import (
    BEYOND_TYPICAL_STOCK,
    TYPICAL_STOCK_HOLDS,
    HostMemory,
    ObservedRun,
    Vram,
    joint_late_usd,
    joint_probability,
)
from planner.scenario.job import ASSUMED_PASSES, MAX_CONFIDENCE, Job
from planner.scenario.job_stages import Stages, Trials
from planner.scenario.limits import Limits, latest_finish_hours
from planner.scenario.offer import Offer, fees_that_count
from planner.scenario.offer_terms import default_power_watts
from planner.scenario.scenario import Scenario
from planner.solving.chosen import (
    TIGHT_FIT_PROBABILITY,
    ChosenCandidate,
    MemoryEvaluator,
    compare_with_row,
    name_run,
    on_host_memory,
)
from planner.spot.luck import LOOKED_AT_EVERY_HOURS
from planner.units import GB, GIB, HOUR, MINUTE, figure_text

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping, Sequence


# Probability of keeping a budget, from the uncertainty of the hours and the luck of markets.


LEAST_MORE_USD = 0.01
"""Dollars that jobs need more by themselves than together without a note."""
LEAST_SHORT = 0.005
"""Probability that a statement may lack without a warning: half a percentage point."""


def budget_probability(scenario: Scenario, jobs: Sequence[Assignment], fixed_usd: float = 0.0) -> float | None:
    """Return the probability that the cost stays within the budget, if all jobs are late together; None without one.

    Each spot market has a luck of its own. `fixed_usd` is paid in addition to the jobs.
    """
    budget, cost_usd = scenario.limits.budget_usd, fixed_usd + math.fsum(job.cost_usd for job in jobs)
    if budget is not None and cost_usd <= 0:
        return 1.0
    if budget is not None and any(job.usd_of_runs for job in jobs):
        chance = joint_probability(jobs, scenario.limits.budget_confidence, budget, fixed_usd)
        return min(MAX_CONFIDENCE, chance)
    late_usd = fixed_usd + math.fsum(job.cost_at_confidence for job in jobs)
    return probability_within(budget, cost_usd, late_usd, scenario.limits.budget_confidence)


def budget_warnings(scenario: Scenario, probability: float | None) -> tuple[str, ...]:
    """Return that jobs together keep the budget with less probability than asked for; nothing where they do not.

    What each job needs by itself may be too little for all of them on several spot markets. Another plan is looked for
    then (`planner.solving.optimise_choice`); where there is none, or jobs take turns, the plan says so.
    """
    asked = scenario.limits.budget_confidence
    if probability is None or probability > asked - LEAST_SHORT:
        return ()
    told = f"{probability * 100:.2g} % probability, and not {asked * 100:.3g} %"
    return (f"the jobs together keep the budget with {told}: only each by itself keeps its part of it at that",)


def added_budget_note(scenario: Scenario, jobs: Sequence[Assignment], fixed_usd: float) -> tuple[str, ...]:
    """Return that the budget was kept by the sum of what each job needs, where they need less together and it matters.

    It does not where the budget has room for the difference once more. `fixed_usd` is paid in addition to the jobs.
    """
    limits, added = scenario.limits, fixed_usd + math.fsum(job.cost_at_confidence for job in jobs)
    together = joint_late_usd(jobs, limits.budget_confidence, fixed_usd)
    if limits.budget_usd is None or min(added - together, 2 * added - together - limits.budget_usd) < LEAST_MORE_USD:
        return ()
    at = f"{limits.budget_confidence * 100:.3g} %"
    counted = f"the budget counts what each job needs by itself at {at}, ${added:,.2f} in all"
    return (f"{counted}; together they need ${together:,.2f}, so that another plan may cost less",)


# Notes of a plan: what is tight, and what is assumed where a fact is not stated.


# What a plan says of an observed speed: what was measured, what is used for its configuration, and why.


COMPARED = ("framework", "method_label", "precision", "activation_checkpointing", "sharding", "optimizer", "attention")
"""What a recipe may have other than the observed run, the most telling first."""
MAX_SPEED_DIFFERENCES = 2
"""Differences that a note names."""


def describe_observed_speed(chosen: ChosenCandidate, library: Library) -> list[str]:
    """Return one note: the measured speed nearest to the plan's configuration, the speed used, and why they differ."""
    learned = chosen.candidates.physics.learned
    if not learned.timed:
        return []
    different = [(_differences(seen, chosen), seen) for seen in learned.timed]
    differences, seen = min(different, key=lambda compared: len(compared[0]))
    unit = "images" if chosen.candidates.physics.shape.unit == "images" else "tokens"
    measured = f"measured {figure_text(seen.run.tokens_per_second or 0.0)} {unit}/s on {seen.run.gpus} x {seen.run.gpu}"
    used = f"used {figure_text(_planned_rate(chosen))} for this plan"
    count = len(learned.timed)
    runs = "1 run" if count == 1 else f"the median of {count} runs"
    batch, sequence = chosen.candidates.batch(chosen.row), chosen.candidates.physics.shape.sequence
    factor = learned.own_speed_factor(chosen.recipe, chosen.machine, batch, sequence, library)
    why = f"its own estimate x {factor:.2f}, from {runs}"
    other = (
        f"which has {' and '.join(differences[:MAX_SPEED_DIFFERENCES])}" if differences else "the same configuration"
    )
    return [f"{measured}; {used}, {other}: {why}"]


def _planned_rate(chosen: ChosenCandidate) -> float:
    """Return tokens or images per second of the plan's configuration."""
    shape, run_hours = chosen.candidates.physics.shape, chosen.candidates.run_hours
    units = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    if run_hours.observed[chosen.configuration]:
        return units / (float(chosen.candidates.physics.ways.observed_hours[chosen.configuration]) * HOUR)
    return units / (shape.steps * float(run_hours.step_seconds[chosen.configuration]))


def _differences(seen: ComparedRun, chosen: ChosenCandidate) -> list[str]:
    """Return in words what the plan has other than an observed run."""
    machine, recipe, (micro_batch, accumulation) = chosen.machine, chosen.recipe, chosen.candidates.batch(chosen.row)
    differences = []
    if (seen.machine.gpu, seen.machine.gpus) != (machine.gpu, machine.gpus):
        differences.append(f"{machine.gpus} x {machine.gpu}")
    for field in COMPARED:
        value = getattr(recipe, field)
        if getattr(seen.recipe, field) != value:
            differences.append(f"{field.removesuffix('_label').replace('_', ' ')} {value}")
    if seen.micro_batch != micro_batch:
        differences.append(f"micro-batch {micro_batch} instead of {seen.micro_batch}")
    elif seen.accumulation != accumulation:
        differences.append(f"{accumulation} accumulation steps instead of {seen.accumulation}")
    if seen.sequence != chosen.candidates.physics.shape.sequence:
        differences.append(f"sequences of {chosen.candidates.physics.shape.sequence:,} tokens")
    return differences


def describe_observed_run(seen: ComparedRun, job: Job, library: Library) -> ObservedRun:
    """Return an observed run with its prediction as a plan states it."""
    return ObservedRun(
        gpu=seen.run.gpu,
        gpus=seen.run.gpus,
        techniques=techniques_of(seen.recipe, job, seen.micro_batch, seen.accumulation),
        assumed=seen.assumed,
        tokens_per_second=seen.run.tokens_per_second,
        predicted_tokens_per_second=seen.predicted,
        peak_vram_gib=seen.run.peak_vram_gib,
        predicted_peak_vram_gib=seen.peak.predicted_gib(library) if seen.peak else None,
        peak_kind=seen.peak.kind if seen.peak else None,
    )


FP8_HIDDEN = 4096
"""Hidden size of the narrowest network among the published fp8 runs of the calibration (Llama 3 8B)."""
LORA_BATCH = 32
"""Sequences per step up to which LoRA keeps up with full fine-tuning (Hugging Face TRL, "LoRA Without Regret")."""
LORA_BATCH_NOTE = (
    f"LoRA loses more at large batches than full training: recipes use up to {LORA_BATCH} sequences a step"
)
FULL_RUN_NOTE = "deadline and budget also hold if the run does not stop early"
NO_FALLBACK = "without fallback on demand a deadline holds with a probability, it is not guaranteed"
"""What runs on spot machines alone cannot promise."""
SPOT_ONLY_NOTE = f"spot only: {NO_FALLBACK}"
QUICK_MARKET_HOURS = 0.25
"""Mean up-time below which a note states what is lost between two looks at a market: 6 % of the dollars at it."""


def build_notes(
    chosen: ChosenCandidate, vram: Vram, host: HostMemory | None, limits: Limits, library: Library, as_of: datetime.date
) -> tuple[str, ...]:
    """Return the notes of one job's plan: what was observed, then memory, speed, market, work and limits."""
    observed = bool(chosen.candidates.observed[chosen.row])
    return (
        *on_host_memory(host, "and state ram_gb of the offer"),
        *_on_whole_runs(chosen, observed),
        *_on_learning(chosen, library),
        *_on_observed_runs(chosen.candidates.physics.learned),
        *([] if observed else _on_estimates(chosen, vram, limits, library)),
        *on_offer(chosen, as_of),
        *(_on_observed_stages(chosen.job) if observed else _on_stages(chosen)),
        *_on_evaluation(chosen, limits, library),
        *_on_images(chosen, limits, library),
        *_on_work(chosen, limits),
    )


def _on_images(chosen: ChosenCandidate, limits: Limits, library: Library) -> list[str]:
    """Return the largest batch and the largest images that fit the GPU of the plan; nothing for language models."""
    image, work, physics = chosen.candidates.architecture.image, chosen.job.work, chosen.candidates.physics
    if image is None:
        return []
    setup = (chosen.job, physics.shape, chosen.recipe, chosen.machine, limits.vram_headroom, library)
    memory, size = MemoryEvaluator.of(*setup, learned=physics.learned), image.size(*work.image_size)
    most, side = memory.largest_micro_batch(1), memory.largest_resolution(image, size)
    batch = f"micro-batch {most:,} at {size.resolution:,} pixels a side"
    encoders = f"; text and image encoders take {memory.encoders_gib:.1f} GiB, which latents: cached frees"
    return [
        f"{chosen.machine.gpu} has room for {batch}, or for {side:,} pixels at micro-batch 1"
        f"{encoders if memory.encoders_gib else ''}"
    ]


def on_quick_market(made: Assignment, job: Job) -> tuple[str, ...]:
    """Return that a market changes about as fast as a run looks at it, which a policy's expected dollars leave out."""
    drawn = [usd for row in made.usd_of_runs for usd in row]
    if made.spot is None or made.spot.mean_up_hours >= QUICK_MARKET_HOURS or not drawn:
        return ()
    mean = math.fsum(drawn) / len(drawn)
    if mean <= made.cost_usd:
        return ()
    stay, looks = f"{made.spot.mean_up_hours * 60:.2g} minutes", f"{LOOKED_AT_EVERY_HOURS * 60:.0f} minutes"
    full = " without early stopping" if job.early_stopping < 1 else ""
    return (
        f"spot machines stay for {stay} on average and a run looks for them every {looks}: drawn runs cost"
        f" ${mean:,.2f} on average{full}, not the expected ${made.cost_usd:,.2f}",
    )


def build_managed_notes(chosen: ChosenCandidate, limits: Limits, as_of: datetime.date) -> tuple[str, ...]:
    """Return the notes of a plan that a managed service carries out, and what it is assumed to do in the stages."""
    job, fees, managed = chosen.job, chosen.offer.fees, chosen.offer.managed
    notes = {
        "the service states no speed: its hours are a guess": managed is None or managed.tokens_per_second is None,
        **dict.fromkeys(_on_price_age(chosen.offer, as_of), True),
        "the cost excludes transfers to and from the service: their fees are unknown": (
            all(fee.rate(fees) is None for fee in fees_that_count("GB in", "GB out"))
        ),
        "only managed services were considered: no machine can run a stage where the job allows it": (
            len(chosen.candidates.placements) == 1  # the placement without separate machines
        ),
        "raw data go to the service unprepared: it is assumed to prepare them free of charge": job.stages.ingest,
        "evaluation at the service is assumed to cost as much per token as training": job.stages.evaluation,
        "the service quantises nothing: 16-bit weights leave it": (
            job.stages.export is not None and job.stages.export.quantised_bits is not None
        ),
        "checkpoints are left to the service: no cost is counted": job.stages.checkpoints,
        FULL_RUN_NOTE: job.early_stopping < 1,
    }
    return (*(note for note, holds in notes.items() if holds), *_on_work(chosen, limits))


def build_generation_notes(
    chosen: ChosenCandidate, made: BulkGeneration, limits: Limits, as_of: datetime.date
) -> tuple[str, ...]:
    """Return the notes of a job of generation: what is a prior, what is rounded, market, limits."""
    form, notes = made.weight_format, attention_stand_ins(parts_of_card(chosen.candidates.architecture))
    notes += prompt_notes(chosen.job, chosen.candidates.architecture)
    if made.priors:
        notes.append(f"no published measurements inform {', '.join(made.priors)}: its speed is a prior")
    if chosen.recipe.weight_bits < 16 and form != chosen.candidates.architecture.published[0]:
        notes.append(f"{form} rounds the weights: measure its quality on your task")
    if made.kv_bits < 16:
        notes.append(f"a cache of {made.kv_bits} bits rounds keys and values")
    if made.in_flight > 1:
        notes.append(generation.ROUGH_BATCHES)
    if made.replicas > 1 and chosen.offer.stock is None:
        notes.append("machines work side by side without a common network; any number of them is assumed available")
    return (*notes, *on_offer(chosen, as_of), *on_hours(chosen, limits))


def _on_stages(chosen: ChosenCandidate) -> list[str]:
    """Return the assumptions of the stages, and which stages are not counted."""
    job, notes = chosen.job, []
    if is_fed_by_storage(chosen):
        gb = f"{job.storage_gb_per_second:g} GB/s"
        notes.append(f"storage at {gb} is slower than the GPUs: it sets the speed of training")
    prepares = job.stages.ingest is not None and float(chosen.candidates.hours.ingest[chosen.row]) > 0
    if prepares and chosen.offer.cpu_cores is None:
        notes.append("CPU cores of the machine unknown: data preparation assumes 8 per GPU")
    if job.stages.answers_prompts:
        notes.append("evaluation answers prompts with vLLM on 16-bit weights (4-bit where these do not fit)")
    merges = job.stages.export is not None and job.stages.export.needs_work(True) and chosen.recipe.method == "lora"
    if merges and chosen.candidates.placement_of(chosen.row).export is None and chosen.offer.ram_gb is None:
        notes.append("RAM of the machine unknown: check that it holds the weights while adapters are merged")
    if job.early_stopping < 1:
        notes.append(FULL_RUN_NOTE)
    if chosen.recipe.caches_latents and job.work.images is None:
        notes.append(_describe_assumed_images(chosen))
    if job.stages == Stages():
        notes.append("excludes evaluation and checkpoints: add `stages:` to include them")
    return notes


def _describe_assumed_images(chosen: ChosenCandidate) -> str:
    """Return how many images are encoded once where the work names steps alone, and the settings that state them."""
    job = chosen.job
    unit, work = chosen.candidates.architecture.trained_unit(job.work.frames), f"jobs.{job.name}.work"
    count = job.dataset_images
    return (
        f"the work does not say how many different {unit} it has: {count:,} are assumed, each trained on "
        f"{ASSUMED_PASSES} times, whose latents are cached before the first step; your own are {work}.steps=null, "
        f"{work}.images={count} and {work}.epochs={ASSUMED_PASSES}"
    )


def is_fed_by_storage(chosen: ChosenCandidate) -> bool:
    """Return whether storage, not the GPUs, sets the speed of an estimated step."""
    run_hours, configuration = chosen.candidates.run_hours, chosen.configuration
    computed = chosen.candidates.physics.ways.step_seconds[configuration] / chosen.job.efficiency
    slower = run_hours.step_seconds[configuration] > computed * (1 + 1e-9)
    return bool(slower and not run_hours.observed[configuration])


def _on_observed_stages(job: Job) -> list[str]:
    """Return what observed hours are assumed to include: stages add nothing, early stopping takes off a share."""
    names = {"ingest": "preparing data", "evaluation": "evaluation", "checkpoints": "checkpoints", "export": "export"}
    held = [name for stage, name in names.items() if getattr(job.stages, stage) is not None]
    notes = []
    if held:
        listed = " and ".join([", ".join(held[:-1]), held[-1]] if held[1:] else held)
        notes.append(f"observed hours are assumed to include {listed}: no hours are added for them")
    if job.early_stopping < 1:
        share = f"{100 * job.early_stopping:.3g} %"
        notes += [f"observed hours are assumed to be those of a run to its end: {share} of them count", FULL_RUN_NOTE]
    return notes


def age_in_days(offer: Offer, as_of: datetime.date) -> int | None:
    """Return the days from the first day that the price can be of to `as_of`; None where no day is known."""
    return (as_of - offer.first_date).days if offer.first_date else None


def _on_whole_runs(chosen: ChosenCandidate, observed: bool) -> list[str]:
    """Return whether hours are those of an observed run of the whole job, and which of these are not used."""
    notes, here, physics = [], chosen.machine, chosen.candidates.physics
    runs = [run for run in chosen.job.measured if run.hours is not None]
    if observed:
        but = ", except waits on spot" if chosen.share > 0 else ""
        hours = f"hours on {here.gpus} x {here.gpu} are as observed, not estimated{but}"
        notes.append(f"{hours}; the techniques of that run are unknown")
    elif runs:
        notes.append(f"no run on {here.gpus} x {here.gpu} was observed: its hours are estimated")
    used = {physics.ways.machines[m] for m in physics.ways.machine[chosen.candidates.run_hours.observed].tolist()}
    used_gpus, offered = (
        {(machine.gpu, machine.gpus) for machine in machines} for machines in (used, physics.machines)
    )
    for run in runs:
        if (run.gpu, run.gpus) not in used_gpus:
            is_offered = (run.gpu, run.gpus) in offered
            why = "no configuration that the job allows runs there" if is_offered else "no offer has it"
            notes.append(f"the run observed on {run.gpus} x {run.gpu} is not used: {why}")
    return notes


def _on_learning(chosen: ChosenCandidate, library: Library) -> list[str]:
    """Return what observed speeds and peaks have changed."""
    learned, notes = chosen.candidates.physics.learned, describe_observed_speed(chosen, library)
    if (apart := max_speed_ratio(learned.log_ratios)) > SCATTER_WARNING_RATIO:
        notes.append(
            f"observed speeds over their estimates differ by a factor of {apart:.2g}: the interval is wider for it"
        )
    probed = learned.probed.get(memory_setting(chosen.recipe, chosen.machine.gpus))
    if probed is not None:
        runs = f"{probed.runs} observed peak{'s' if probed.runs > 1 else ''}"
        notes.append(f"memory that grows with the batch x {probed.scale:.2f} from {runs}")
    elif learned.probed:
        notes.append("the observed peak is of another setting: the memory of this plan is estimated without it")
    if any(seen.peak is not None and seen.run.peak_kind is None for seen in learned.runs):
        notes.append("observed peak taken as allocated bytes: set peak_kind if it is reserved or device")
    return notes


def _on_observed_runs(learned: Correction) -> list[str]:
    """Return which observed runs are implausible, incomplete or not used."""
    notes = []
    for seen in learned.timed:
        speed = seen.run.tokens_per_second or seen.predicted
        if is_implausible_speed(speed, seen.predicted):
            times, where = speed / seen.predicted, f"{seen.run.gpus} x {seen.run.gpu}"
            notes.append(f"observed speed on {where} is {times:.2g} times the estimate: check unit and settings")
    for seen in learned.runs:
        if seen.assumed:
            settings = f"{seen.recipe.method_label}, micro-batch {seen.micro_batch}"
            run = f"the run observed on {seen.run.gpus} x {seen.run.gpu}"
            notes.append(f"{run} does not state {' and '.join(seen.assumed[:2])}: taken as {settings}")
    for unused, why in learned.unused:
        notes.append(f"the run observed on {unused.gpus} x {unused.gpu} is not used: {why}")
    return notes


USUAL_EVALUATION_BATCH = 8
"""Sequences per GPU of a batch of evaluation by default (Transformers, `per_device_eval_batch_size`)."""


def _on_evaluation(chosen: ChosenCandidate, limits: Limits, library: Library) -> list[str]:
    """Return a note where a usual batch of evaluation needs more memory than training leaves on the GPU."""
    stage, physics = chosen.job.stages.evaluation, chosen.candidates.physics
    vocab = library.architecture(chosen.job.architecture).vocab
    of_trainer = framework_of(library, chosen.recipe.framework).loss in ("hf", "liger")
    if stage is None or stage.answers_prompts or "machine" not in stage.on or not of_trainer or not vocab:
        return []
    setup = (chosen.job, physics.shape, chosen.recipe, chosen.machine, limits.vram_headroom, library)
    sequence_bytes = evaluation_logit_bytes(1.0, float(physics.shape.sequence), vocab)
    fits = MemoryEvaluator.of(*setup, learned=physics.learned).evaluation_sequences(sequence_bytes)
    if fits >= USUAL_EVALUATION_BATCH:
        return []
    how = f"set per_device_eval_batch_size to {fits}" if fits else "shorten its sequences, or evaluate elsewhere"
    return [
        f"evaluation holds the logits of a whole batch, {sequence_bytes / GIB:,.1f} GiB a sequence: {how} "
        f"({USUAL_EVALUATION_BATCH} by default)"
    ]


def _on_estimates(chosen: ChosenCandidate, vram: Vram, limits: Limits, library: Library) -> list[str]:
    """Return how tight memory is, whether its estimate is calibrated, and the assumptions of the estimated speed."""
    machine, framework, headroom, notes = chosen.machine, chosen.recipe.framework, limits.vram_headroom, []
    if vram.fit_probability < TIGHT_FIT_PROBABILITY:
        notes.append("memory is tight: limits.vram_headroom=0.15 reserves more memory")
    if not framework_of(library, framework).profiled:
        usual = memory_margin(framework, chosen.job.memory_confidence, library, chosen.recipe.offloads)
        margin = usual if headroom is None else headroom
        share = recipe_spread(chosen.recipe, library).known_share if headroom is None else 1.0
        notes.append(f"framework {framework} has no measured memory profile: {margin_text(margin, share * margin)}")
    if machine.instances > 1 and machine.network_gbps is None:
        notes.append(f"bandwidth between instances unknown: {DEFAULT_NETWORK_BYTES_PER_SECOND / GB:g} GB/s assumed")
    if machine.gpus_per_instance > 1 and chosen.offer.interconnect is None and library.gpu(machine.gpu).nvlink_gb_s:
        notes.append("link between the GPUs unknown: PCIe assumed; if it is NVLink, say interconnect: nvlink")
    notes += efficiency_notes(library.gpu(machine.gpu), library)
    recipe = chosen.recipe
    notes += expert_notes(recipe, machine.gpus, machine.gpus_per_instance, library)
    # First, because a plan shows few: an estimate that rests on no run.
    chip = chip_notes(library.gpu(machine.gpu), recipe.method, recipe.precision, machine.gpus)
    notes = [*technique_notes(recipe, chosen.candidates.architecture.experts, library), *chip, *notes]
    notes = [*stand_ins(library.architecture(chosen.job.architecture), chosen.job), *notes]
    if chosen.recipe.precision.startswith("fp8") and library.architecture(chosen.job.architecture).hidden < FP8_HIDDEN:
        notes.append(
            f"fp8 is measured from a hidden size of {FP8_HIDDEN:,} on: narrower layers gain less than estimated"
        )
    return notes


def on_offer(chosen: ChosenCandidate, as_of: datetime.date) -> list[str]:
    """Return the assumptions of the spot market, how hours are billed, and whether price and stock can be relied on."""
    offer, notes = chosen.offer, []
    if chosen.share > 0 and offer.usd_per_hour is None:
        notes.append(SPOT_ONLY_NOTE)
    if chosen.share > 0 and (basis := chosen.candidates.spot[chosen.place].basis):
        notes.append(f"spot market {basis if chosen.offer.spot else f'unknown, {basis}'}")
    if chosen.rounded:
        step, least = offer.billing.step_seconds, offer.billing.minimum_hours
        steps = [f"in whole steps of {step / HOUR:.3g} h"] if step >= MINUTE else []
        notes.append("billed " + ", ".join([*steps, *([f"for at least {least:g} h"] if least else [])]))
    notes += _on_price_age(offer, as_of)
    notes += _on_stock(chosen)
    notes += _on_own_machine(chosen)
    if offer.committed_hours is not None:
        left = f"{offer.committed_hours:,.1f} prepaid machine hours that are left"
        notes.append(f"uses {chosen.used_machine_hours:,.1f} of {left}")
    return notes


def typical_stock_note(held: Mapping[str, float], keeps: bool) -> tuple[str, ...]:
    """Return what is said of the typical stock: GPUs of its limits that hold, by their names, or that no plan does."""
    if not keeps:
        return (BEYOND_TYPICAL_STOCK,)
    named = [f"{most:,.0f} {name}" for name, most in held.items()]
    return (f"{TYPICAL_STOCK_HOLDS}: at most {', '.join(named)}",) if named else ()


def _on_stock(chosen: ChosenCandidate) -> list[str]:
    """Return what is known of the stock, and what the job keeps for finding a machine."""
    offer, kept, notes = chosen.offer, chosen.job.start_slack_hours, []
    if kept:
        notes.append(f"{kept:g} h of the deadline are kept for finding a machine")
    if offer.stock is None and offer.buy is None:
        status = offer.stock_status
        notes.append(
            f"stock listed as {status}: check that it can be booked"
            if status
            else "stock unknown: check that it can be booked"
        )
    return notes


def _on_own_machine(chosen: ChosenCandidate) -> list[str]:
    """Return what is bought and what of it the job carries, and where the power of an own machine is assumed."""
    offer, card, notes = chosen.offer, chosen.market.cards[chosen.place], []
    if offer.buy is not None and offer.own is not None and (hours := offer.own.use_hours):
        machines = int(chosen.candidates.table.instances[chosen.row])
        bought = f"{machines} machine{'s' if machines > 1 else ''} for ${machines * offer.buy.purchase_usd:,.0f}"
        used, all_hours = f"{chosen.used_machine_hours:,.1f}", f"{machines * hours:,.0f}"
        life = offer.buy.life_months
        rate = f"capital at {100 * offer.own.interest:g} % a year (horizon.interest)"
        cut = f"; it lives {life:g} months at most" if life is not None and offer.own.months == life else ""
        notes.append(
            f"buys {bought}; the job carries {used} of {all_hours} h of use{cut}; {rate}, without tax and labour"
        )
    if offer.own is not None and card is not None and card.tdp_w is not None:
        watts = default_power_watts(card.tdp_w, offer.gpus)
        if offer.own.power_watts == watts:
            notes.append(f"power of the machine assumed: {watts:,.0f} W, 0.8 of 1.8 times the TDP of its GPUs")
    return notes


def _on_price_age(offer: Offer, as_of: datetime.date) -> list[str]:
    """Return a note where the price is dated after `as_of`."""
    age = age_in_days(offer, as_of)
    return [f"the price is dated {-age} days after {as_of}"] if age is not None and age < 0 else []


def _on_one_more_trial(trials: Trials) -> list[str]:
    """Return a note where one more trial means less work, because halving stops the trials once more."""
    now, more = (trial_work(count, trials.at_once, trials.halving) for count in (trials.count, trials.count + 1))
    if more.work + more.waiting >= now.work + now.waiting:
        return []
    less = (1 - (more.work + more.waiting) / (now.work + now.waiting)) * 100
    return [f"{trials.count + 1} trials would be {less:.0f} % less work: they are halved once more"]


def _on_work(chosen: ChosenCandidate, limits: Limits) -> list[str]:
    """Return the assumptions of the amount of work, and the limit on hours where it binds."""
    job, shape, notes = chosen.job, chosen.candidates.physics.shape, []
    if job.trials.halving is not None:
        notes.append("trials are stopped by successive halving; the others continue from their checkpoints")
        notes += _on_one_more_trial(job.trials)
    if chosen.recipe.method == "lora" and shape.unit == "tokens" and job.global_batch > LORA_BATCH:
        notes.append(LORA_BATCH_NOTE)
    if job.tuning != "sft" and mean_tokens(job, chosen.candidates.architecture) is None:
        filled = f"each sequence of a sample is assumed to have {shape.sequence:,} tokens"
        notes.append(f"{filled}: tokens_per_sample gives the mean of a sample")
    return [*notes, *on_hours(chosen, limits)]


def on_hours(chosen: ChosenCandidate, limits: Limits) -> list[str]:
    """Return the limit on hours where no deadline is shorter."""
    deadline, latest = chosen.job.planned_deadline_hours, latest_finish_hours(chosen.job, limits)
    return [f"runs are limited to {latest:,.0f} h"] if deadline is None or latest < deadline else []


def build_assignment(chosen: ChosenCandidate, scenario: Scenario, library: Library, as_of: datetime.date) -> Assignment:
    """Return the plan of one job: the figures of what the row names, and notes.

    Raises AuditError where the search has other figures of the row: one of the two is wrong.
    """
    named = name_run(chosen, scenario.limits)
    context, wrong = resolve_names(named, scenario, library)
    if context is None:
        raise AuditError(_audit_text("cannot be evaluated", wrong))
    made = evaluate(_with_passes(context, chosen), as_of).assignment
    if wrong := compare_with_row(made, chosen):
        raise AuditError(_audit_text("is not the row that the search chose", wrong))
    return made.model_copy(update={"notes": _notes(chosen, made, scenario.limits, library, as_of)})


def _notes(
    chosen: ChosenCandidate, made: Assignment, limits: Limits, library: Library, as_of: datetime.date
) -> tuple[str, ...]:
    if chosen.candidates.is_managed_service[chosen.row]:
        return build_managed_notes(chosen, limits, as_of)
    quick = on_quick_market(made, chosen.job)
    if made.inference is not None:
        return (*quick, *build_generation_notes(chosen, made.inference, limits, as_of))
    return (*quick, *build_notes(chosen, made.vram_gib, made.host_memory, limits, library, as_of))


def _audit_text(what: str, wrong: list[Violation]) -> str:
    return f"the plan {what}: " + "; ".join(str(violation) for violation in wrong[:5])


def _with_passes(context: RunContext, chosen: ChosenCandidate) -> RunContext:
    """Return the context with what the search has computed of the machines and the policy of the row."""
    context = replace(context, kept=chosen.candidates.kept)
    if chosen.spot is None:
        return context
    spot, policies = chosen.spot, chosen.candidates.policies
    return replace(context, searched=SearchedPolicy(spot.run, spot.states, chosen.policy_costs(spot), policies))
