"""Notes of a plan: what is tight, and what is assumed where a fact is not stated."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.offer_terms import spot_market
from planner.configurations.hardware import DEFAULT_NETWORK_BYTES_PER_SECOND, efficiency_of
from planner.configurations.observed.memory_peaks import memory_setting
from planner.configurations.recipe import framework_of
from planner.estimates.observed_runs import SCATTER_WARNING_RATIO, is_implausible_speed, max_speed_ratio
from planner.estimates.trials import trial_work
from planner.scenario.limits import latest_finish_hours
from planner.scenario.stages import Stages, Trials
from planner.units import GB, HOUR, MINUTE

if TYPE_CHECKING:
    from planner.candidates.job_candidates import JobCandidates
    from planner.configurations.observed.learning import Correction
    from planner.decode.bill import ChosenCandidate
    from planner.library.schema import Library
    from planner.results.plan import Vram
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits
    from planner.scenario.offer import Offer

TIGHT_FIT_PROBABILITY = 0.9
"""Probability of fitting in memory below which the plan says how to ask for more room."""
FULL_RUN_NOTE = "deadline and budget also hold if the run does not stop early"


def build_notes(
    candidates: JobCandidates,
    chosen: ChosenCandidate,
    offer: Offer,
    vram: Vram,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> tuple[str, ...]:
    """Return the notes of one job's plan: what was observed, then memory, speed, market, work and limits."""
    row, share = chosen.row, chosen.share
    configuration = int(candidates.configuration[row])
    return (
        *_on_observations(candidates, configuration, share, library),
        *_on_memory(candidates, configuration, vram, limits, library),
        *_on_speed(candidates, configuration, library),
        *_on_spot(share, offer, library),
        *_on_price(offer, as_of, chosen.rounded),
        *_on_hours_left(candidates, row, offer),
        *_on_stages(candidates, row, offer),
        *_on_work(candidates, limits),
    )


def build_service_notes(
    assumed_speed: bool, offer: Offer, candidates: JobCandidates, limits: Limits, as_of: datetime.date
) -> tuple[str, ...]:
    """Return the notes of a plan that a managed service carries out."""
    notes = ["the service states no speed: its hours are a guess"] if assumed_speed else []
    notes += _on_price_age(offer, as_of)
    if (offer.fees.ingress_usd_per_gb, offer.fees.egress_usd_per_gb) == (None, None):
        notes.append("the cost excludes transfers to and from the service: their fees are unknown")
    return (*notes, *_on_stages_of_a_service(candidates), *_on_work(candidates, limits))


def _on_stages_of_a_service(candidates: JobCandidates) -> list[str]:
    """Return what the service is assumed to do in the stages of the job."""
    job = candidates.job
    notes = []
    if len(candidates.placements) == 1:  # the placement without separate machines
        notes.append("only managed services were considered: no machine can run a stage where the job allows it")
    if job.stages.ingest is not None:
        notes.append("raw data go to the service unprepared: it is assumed to prepare them free of charge")
    if job.stages.evaluation is not None:
        notes.append("evaluation at the service is assumed to cost as much per token as training")
    if job.stages.checkpoints is not None:
        notes.append("checkpoints are left to the service: no cost is counted")
    if job.early_stopping < 1:
        notes.append(FULL_RUN_NOTE)
    return notes


def _on_stages(candidates: JobCandidates, row: int, offer: Offer) -> list[str]:
    """Return the assumptions of the stages, and which stages are not counted."""
    job = candidates.job
    if candidates.observed[row]:
        return _on_stages_observed(job)
    notes = []
    if is_fed_by_storage(candidates, int(candidates.configuration[row])):
        gb = f"{job.storage_gb_per_second:g} GB/s"
        notes.append(f"storage at {gb} is slower than the GPUs: it sets the speed of training")
    if job.stages.ingest is not None and float(candidates.hours.ingest[row]) > 0 and offer.cpu_cores is None:
        notes.append("CPU cores of the machine unknown: data preparation assumes 8 per GPU")
    if job.early_stopping < 1:
        notes.append(FULL_RUN_NOTE)
    if job.stages == Stages():
        notes.append("excludes evaluation and checkpoints: add `stages:` to include them")
    return notes


def is_fed_by_storage(candidates: JobCandidates, configuration: int) -> bool:
    """Return whether storage, not the GPUs, sets the speed of an estimated step."""
    run_hours, gpu_seconds = candidates.run_hours, candidates.physics.ways.step_seconds[configuration]
    slower = run_hours.step_seconds[configuration] > gpu_seconds / candidates.job.efficiency * (1 + 1e-9)
    return bool(slower and not run_hours.observed[configuration])


def _on_stages_observed(job: Job) -> list[str]:
    """Return what observed hours are assumed to include: stages add nothing, early stopping takes nothing off."""
    names = {"ingest": "preparing data", "evaluation": "evaluation", "checkpoints": "checkpoints", "export": "export"}
    held = [name for stage, name in names.items() if getattr(job.stages, stage) is not None]
    notes = []
    if held:
        listed = " and ".join([", ".join(held[:-1]), held[-1]] if held[1:] else held)
        notes.append(f"observed hours are assumed to include {listed}: no hours are added for them")
    if job.early_stopping < 1:
        notes.append("observed hours are assumed to be those of the whole run: early stopping is not counted")
    return notes


def age_in_days(offer: Offer, as_of: datetime.date) -> int | None:
    """Return the days from the date of the price to `as_of`; None for an undated price."""
    if not offer.date:
        return None
    date = offer.date if isinstance(offer.date, datetime.date) else datetime.date.fromisoformat(str(offer.date))
    return (as_of - date).days


def _on_observations(candidates: JobCandidates, configuration: int, share: float, library: Library) -> list[str]:
    """Return whether hours are observed, and which observed runs are not used."""
    notes = []
    job, ways = candidates.job, candidates.physics.ways
    runs = [run for run in job.measured if run.hours is not None]
    here = ways.machines[int(ways.machine[configuration])]
    if not np.isnan(ways.observed_hours[configuration]):
        but = ", except waits on spot" if share > 0 else ""
        observed = f"hours on {here.gpus} x {here.gpu} are as observed, not estimated{but}"
        notes.append(f"{observed}; the techniques of that run are unknown")
    elif runs:
        notes.append(f"no run on {here.gpus} x {here.gpu} was observed: its hours are estimated")
    used = {ways.machines[m] for m in set(ways.machine[~np.isnan(ways.observed_hours)].tolist())}
    for run in runs:
        if not any((run.gpu, run.gpus) == (machine.gpu, machine.gpus) for machine in used):
            rented = any((run.gpu, run.gpus) == (m.gpu, m.gpus) for m in candidates.physics.machines)
            why = "no configuration that the job allows runs there" if rented else "no offer has it"
            notes.append(f"the run observed on {run.gpus} x {run.gpu} is not used: {why}")
    return notes + _on_learning(candidates, configuration, library)


def _on_learning(candidates: JobCandidates, configuration: int, library: Library) -> list[str]:
    """Return what observed speeds and peaks have changed, and which of them could not be used."""
    ways, learned = candidates.physics.ways, candidates.physics.learned
    notes = []
    if learned.timed:
        runs = f"{len(learned.timed)} observed run{'s' if len(learned.timed) > 1 else ''}"
        notes.append(f"speed x {learned.speed_factor(library):.2f} from {runs}, for all configurations of the job")
    if (apart := max_speed_ratio(learned.log_ratios)) > SCATTER_WARNING_RATIO:
        notes.append(
            f"observed speeds over their estimates differ by a factor of {apart:.2g}: the interval is wider for it"
        )
    probed = learned.probed.get(
        memory_setting(ways.recipes[ways.recipe[configuration]], ways.machines[ways.machine[configuration]].gpus)
    )
    if probed is not None:
        runs = f"{probed.runs} observed peak{'s' if probed.runs > 1 else ''}"
        notes.append(f"memory that grows with the batch x {probed.scale:.2f} from {runs}")
    elif learned.probed:
        notes.append("the observed peak is of another setting: the memory of this plan is estimated without it")
    if any(seen.peak is not None and seen.run.peak_kind is None for seen in learned.runs):
        notes.append("observed peak taken as allocated bytes: set peak_kind if it is reserved or device")
    return notes + _on_observed_runs(learned)


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
            what = f"{seen.recipe.method_label}, micro-batch {seen.micro_batch}"
            run = f"the run observed on {seen.run.gpus} x {seen.run.gpu}"
            notes.append(f"{run} does not state {' and '.join(seen.assumed[:2])}: taken as {what}")
    for unused, why in learned.unused:
        notes.append(f"the run observed on {unused.gpus} x {unused.gpu} is not used: {why}")
    return notes


def _on_memory(
    candidates: JobCandidates, configuration: int, vram: Vram, limits: Limits, library: Library
) -> list[str]:
    """Return how tight memory is, and whether its estimate is calibrated."""
    if not np.isnan(candidates.physics.ways.observed_hours[configuration]):
        return []  # an observed run did fit
    notes = []
    framework = candidates.job.framework
    if vram.fit_probability < TIGHT_FIT_PROBABILITY:
        notes.append("memory is tight: --set limits.vram_headroom=0.15 reserves more memory")
    if not framework_of(library, framework).profiled:
        headroom = limits.vram_headroom
        margin = library.calibrations["memory"].value("margin_unknown") if headroom is None else headroom
        notes.append(f"framework {framework} has no measured memory profile: margin {margin * 100:.3g} %")
    return notes


def _on_speed(candidates: JobCandidates, configuration: int, library: Library) -> list[str]:
    """Return the assumptions of the estimated speed."""
    notes = []
    ways = candidates.physics.ways
    if not np.isnan(ways.observed_hours[configuration]):
        return []
    machine = ways.machines[int(ways.machine[configuration])]
    if machine.instances > 1 and machine.network_gbps is None:
        notes.append(f"bandwidth between instances unknown: {DEFAULT_NETWORK_BYTES_PER_SECOND / GB:g} GB/s assumed")
    _, measured = efficiency_of(library.gpu(machine.gpu), library.calibrations["gpu_efficiency"])
    if not measured:
        notes.append(f"speed of {machine.gpu} is from a prior, not from measurements")
    return notes


def _on_spot(share: float, offer: Offer, library: Library) -> list[str]:
    """Return the assumptions of the spot market, and whether there is a fallback."""
    if share <= 0:
        return []
    basis = spot_market(offer, library).basis
    notes = [f"spot market unknown, {basis}"] if basis else []
    if offer.usd_per_hour is None:
        notes.append("spot only: no fallback on demand, so no deadline is guaranteed")
    return notes


def _on_price(offer: Offer, as_of: datetime.date, rounded: bool) -> list[str]:
    """Return how hours are billed, and whether price and stock can be relied on."""
    notes = [_describe_rounding(offer)] if rounded else []
    notes += _on_price_age(offer, as_of)
    if offer.stock is None:
        notes.append("stock unknown: check that it can be booked")
    return notes


def _on_price_age(offer: Offer, as_of: datetime.date) -> list[str]:
    """Return a note where the price is dated after `as_of`."""
    age = age_in_days(offer, as_of)
    return [f"the price is dated {-age} days after {as_of}"] if age is not None and age < 0 else []


def _on_hours_left(candidates: JobCandidates, row: int, offer: Offer) -> list[str]:
    """Return how many prepaid hours the job uses."""
    if offer.committed_hours is None:
        return []
    h = candidates.hours
    machines = int(candidates.table.instances[row]) // h.node_groups
    used = (float(h.once[row]) * h.node_groups + float(h.group_run[row])) * machines
    return [f"uses {used:,.1f} of {offer.committed_hours:,.1f} prepaid machine hours that are left"]


def _describe_rounding(offer: Offer) -> str:
    """Return how an offer rounds hours up: to whole steps, to a minimum, or both."""
    step, least = offer.billing.step_seconds, offer.billing.minimum_hours
    parts = [f"in whole steps of {step / HOUR:.3g} h"] if step >= MINUTE else []
    if least:
        parts.append(f"for at least {least:g} h")
    return " ".join(["billed", ", ".join(parts)]).strip()


def _on_one_more_trial(trials: Trials) -> list[str]:
    """Return a note where one more trial means less work, because halving stops the trials once more."""
    now, more = (trial_work(count, trials.at_once, trials.halving) for count in (trials.count, trials.count + 1))
    if more.work + more.waiting >= now.work + now.waiting:
        return []
    less = (1 - (more.work + more.waiting) / (now.work + now.waiting)) * 100
    return [f"{trials.count + 1} trials would be {less:.0f} % less work: they are halved once more"]


def _on_work(candidates: JobCandidates, limits: Limits) -> list[str]:
    """Return the assumptions of the amount of work, and the limit on hours where it binds."""
    notes = []
    job, shape = candidates.job, candidates.physics.shape
    if job.trials.halving is not None:
        notes.append("trials are stopped by successive halving; the others continue from their checkpoints")
        notes += _on_one_more_trial(job.trials)
    if shape.is_clipped:
        notes.append(f"samples longer than {shape.sequence:,} tokens are cut to that length")
    if shape.unit == "images":
        notes.append("the estimate for diffusion is rough: an image counts as equivalent tokens")
    latest = latest_finish_hours(job, limits)
    if job.deadline_hours is None or latest < job.deadline_hours:
        notes.append(f"runs are limited to {latest:,.0f} h")
    return notes
