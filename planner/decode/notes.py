"""What a plan says beside its figures: what is tight, and what stands in for facts that nobody stated."""

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
    from planner.candidates.enumeration import JobCandidates
    from planner.library.schema import Library
    from planner.results.plan import Vram
    from planner.scenario.scenario import Job, Limits, Offer

TIGHT_FIT_PROBABILITY = 0.9
"""Chance to fit below which the plan says how to ask for more room."""
FULL_RUN_NOTE = "deadline and budget hold for the run in full, should it not stop early"


def build_notes(
    candidates: JobCandidates,
    row: int,
    share: float,
    rounded: bool,
    offer: Offer,
    vram: Vram,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> tuple[str, ...]:
    """The notes of one job's plan: what was observed, then memory, speed, market, work and limits."""
    way = int(candidates.configuration[row])
    return (
        *_on_observations(candidates, way, share, library),
        *_on_memory(candidates, way, vram, limits, library),
        *_on_speed(candidates, way, library),
        *_on_market(share, rounded, offer, library, as_of),
        *_on_hours_left(candidates, row, offer),
        *_on_stages(candidates, row, offer),
        *_on_work(candidates, limits),
    )


def build_service_notes(
    assumed_speed: bool, offer: Offer, candidates: JobCandidates, limits: Limits, as_of: datetime.date
) -> tuple[str, ...]:
    """The notes of a plan that a managed service carries out."""
    notes = ["the service promises no speed: its hours are a guess"] if assumed_speed else []
    if (age := age_in_days(offer, as_of)) is not None and age < 0:
        notes.append(f"the price is dated {-age} days after the day that ages are counted to")
    fees = (offer.fees.ingress_usd_per_gb, offer.fees.egress_usd_per_gb)
    if fees == (None, None):
        notes.append("what enters and leaves the service is not priced: it tells no fees")
    return (*notes, *_on_stages_of_a_service(candidates), *_on_work(candidates, limits))


def _on_stages_of_a_service(candidates: JobCandidates) -> list[str]:
    """What of the stages is taken to be the service's own affair."""
    job = candidates.job
    notes = []
    if len(candidates.placements) == 1:  # that of services
        notes.append("services alone were considered: no machine can do a stage where the job wants it")
    if job.stages.ingest is not None:
        notes.append("raw data go to the service as they are: it prepares them, at no price of its own")
    if job.stages.evaluation is not None:
        notes.append("evaluation at the service is charged like training, token for token: an assumption")
    if job.stages.checkpoints is not None:
        notes.append("checkpoints are the service's own: none are counted")
    if job.early_stopping < 1:
        notes.append(FULL_RUN_NOTE)
    return notes


def _on_stages(candidates: JobCandidates, row: int, offer: Offer) -> list[str]:
    """What the stages rest on, and which are left out."""
    job, way = candidates.job, int(candidates.configuration[row])
    if candidates.run_hours.observed[way]:
        return _on_stages_observed(job)
    notes = []
    running = candidates.run_hours
    if running.step_seconds[way] > candidates.physics.ways.step_seconds[way] / job.efficiency * (1 + 1e-9):
        gb = f"{job.storage_gb_per_second:g} GB/s"
        notes.append(f"storage at {gb} feeds a step too slowly: it, not the GPUs, sets the pace")
    if job.stages.ingest is not None and float(candidates.hours.ingest[row]) > 0 and offer.cpu_cores is None:
        notes.append("cores of the machine unknown: data preparation assumes 8 for each GPU")
    if job.early_stopping < 1:
        notes.append(FULL_RUN_NOTE)
    if job.stages == Stages():
        notes.append("only start, training and result are counted: stages: adds the rest")
    return notes


def _on_stages_observed(job: Job) -> list[str]:
    """What observed hours are taken to hold: nothing is added for stages, and nothing comes off for stopping early."""
    names = {"ingest": "preparing data", "evaluation": "evaluation", "checkpoints": "checkpoints", "export": "export"}
    held = [name for stage, name in names.items() if getattr(job.stages, stage) is not None]
    notes = []
    if held:
        listed = " and ".join([", ".join(held[:-1]), held[-1]] if held[1:] else held)
        notes.append(f"observed hours are taken to hold {listed}: no hours are added for them")
    if job.early_stopping < 1:
        notes.append("observed hours are taken to be those of the run in full: stopping early is not counted")
    return notes


def age_in_days(offer: Offer, as_of: datetime.date) -> int | None:
    """Days from the date of the price to `as_of`; None for an undated price."""
    if not offer.date:
        return None
    date = offer.date if isinstance(offer.date, datetime.date) else datetime.date.fromisoformat(str(offer.date))
    return (as_of - date).days


def _on_observations(candidates: JobCandidates, way: int, share: float, library: Library) -> list[str]:
    """Which hours are observed, and which observations are of no use here."""
    notes = []
    job, ways = candidates.job, candidates.physics.ways
    runs = [run for run in job.measured if run.hours is not None]
    here = ways.machines[int(ways.machine[way])]
    if not np.isnan(ways.observed_hours[way]):
        but = ", waits on spot apart" if share > 0 else ""
        seen = f"hours on {here.gpus} x {here.gpu} are as observed, not estimated{but}"
        notes.append(f"{seen}; techniques of that run are not known")
    elif runs:
        notes.append(f"no run on {here.gpus} x {here.gpu} was observed: its hours are estimated")
    used = {ways.machines[m] for m in set(ways.machine[~np.isnan(ways.observed_hours)].tolist())}
    for run in runs:
        if not any((run.gpu, run.gpus) == (machine.gpu, machine.gpus) for machine in used):
            rented = any((run.gpu, run.gpus) == (m.gpu, m.gpus) for m in candidates.physics.machines)
            why = "no way that the job allows runs there" if rented else "no offer rents that"
            notes.append(f"the run observed on {run.gpus} x {run.gpu} is not used: {why}")
    return notes + _on_learning(candidates, way, library)


def _on_learning(candidates: JobCandidates, way: int, library: Library) -> list[str]:
    """What observed speeds and peaks have changed, and which of them could not be used."""
    ways, learned = candidates.physics.ways, candidates.physics.learned
    notes = []
    if learned.timed:
        runs = f"{len(learned.timed)} observed run{'s' if len(learned.timed) > 1 else ''}"
        notes.append(f"speed x {learned.speed_factor(library):.2f} from {runs}, all ways of the job alike")
    if (apart := max_speed_ratio(learned.log_ratios)) > SCATTER_WARNING_RATIO:
        notes.append(f"observed speeds, each over its estimate, lie {apart:.2g}-fold apart: the range is wider for it")
    probed = learned.probed.get(memory_setting(ways.recipes[ways.recipe[way]], ways.machines[ways.machine[way]].gpus))
    if probed is not None:
        runs = f"{probed.runs} observed peak{'s' if probed.runs > 1 else ''}"
        notes.append(f"memory that grows with the batch x {probed.scale:.2f} from {runs}")
    elif learned.probed:
        notes.append("the observed peak is of another setting: this plan's memory is estimated without it")
    if any(seen.peak is not None and seen.run.peak_kind is None for seen in learned.runs):
        notes.append("observed peak taken as allocated bytes: say peak_kind where it is reserved or device")
    for seen in learned.timed:
        speed = seen.run.tokens_per_second or seen.predicted
        if is_implausible_speed(speed, seen.predicted):
            times, where = speed / seen.predicted, f"{seen.run.gpus} x {seen.run.gpu}"
            notes.append(f"observed speed on {where} is {times:.2g} times the estimate: are unit and settings right?")
    for seen in learned.runs:
        if seen.assumed:
            what = f"{seen.recipe.method_label}, micro-batch {seen.micro_batch}"
            run = f"the run observed on {seen.run.gpus} x {seen.run.gpu}"
            notes.append(f"{run} does not say {' and '.join(seen.assumed[:2])}: taken as {what}")
    for unused, why in learned.unused:
        notes.append(f"the run observed on {unused.gpus} x {unused.gpu} is not used: {why}")
    return notes


def _on_memory(candidates: JobCandidates, way: int, vram: Vram, limits: Limits, library: Library) -> list[str]:
    if not np.isnan(candidates.physics.ways.observed_hours[way]):
        return []  # an observed run fits, whatever its estimate
    notes = []
    framework = candidates.job.framework
    if vram.fit_probability < TIGHT_FIT_PROBABILITY:
        notes.append("memory is tight: --set limits.vram_headroom=0.15 asks for more room")
    if not framework_of(library, framework)["profiled"]:
        asked = limits.vram_headroom
        margin = library.calibrations["memory"].value("margin_unknown") if asked is None else asked
        notes.append(f"framework {framework} has no measured memory profile: margin {margin * 100:.3g} %")
    return notes


def _on_speed(candidates: JobCandidates, way: int, library: Library) -> list[str]:
    notes = []
    ways = candidates.physics.ways
    if not np.isnan(ways.observed_hours[way]):
        return []
    machine = ways.machines[int(ways.machine[way])]
    if machine.instances > 1 and machine.network_gbps is None:
        notes.append(f"network between instances unknown: {DEFAULT_NETWORK_BYTES_PER_SECOND / GB:g} GB/s assumed")
    _, measured = efficiency_of(library.gpu(machine.gpu), library.calibrations["gpu_efficiency"])
    if not measured:
        notes.append(f"speed of {machine.gpu} rests on a prior, not on measurements")
    return notes


def _on_market(share: float, rounded: bool, offer: Offer, library: Library, as_of: datetime.date) -> list[str]:
    notes = []
    if share > 0:
        basis = spot_market(offer, library).basis
        if basis:
            notes.append(f"spot market unknown, {basis}")
        if offer.usd_per_hour is None:
            notes.append("spot only: no fallback on demand, so nothing is guaranteed")
    if rounded:
        notes.append(_describe_rounding(offer))
    if (age := age_in_days(offer, as_of)) is not None and age < 0:
        notes.append(f"the price is dated {-age} days after the day that ages are counted to")
    if offer.stock is None:
        notes.append("stock unknown: check that it can be booked")
    return notes


def _on_hours_left(candidates: JobCandidates, row: int, offer: Offer) -> list[str]:
    """How much of what is paid for already the job takes."""
    if offer.committed_hours is None:
        return []
    h = candidates.hours
    machines = int(candidates.table.instances[row]) // h.node_groups
    used = (float(h.once[row]) * h.node_groups + float(h.group_run[row])) * machines
    return [f"uses {used:,.1f} of the {offer.committed_hours:,.1f} machine hours that are paid for and left"]


def _describe_rounding(offer: Offer) -> str:
    """How an offer rounds hours up: in whole steps, to a minimum, or both."""
    step, least = offer.billing.step_seconds, offer.billing.minimum_hours
    told = f"billed in whole steps of {step / HOUR:.3g} h" if step >= MINUTE else "billed"
    return f"{told}, for at least {least:g} h".replace("billed, ", "billed ") if least else told


def _on_one_more_trial(trials: Trials) -> list[str]:
    """Where the next count is thinned out once more often, more trials are less work."""
    now, more = (trial_work(count, trials.at_once, trials.halving) for count in (trials.count, trials.count + 1))
    if more.work + more.waiting >= now.work + now.waiting:
        return []
    less = (1 - (more.work + more.waiting) / (now.work + now.waiting)) * 100
    return [f"{trials.count + 1} trials would be {less:.0f} % less work: they are thinned out once more"]


def _on_work(candidates: JobCandidates, limits: Limits) -> list[str]:
    notes = []
    job, shape = candidates.job, candidates.physics.shape
    if job.trials.halving is not None:
        notes.append("trials are thinned out by successive halving, survivors go on from their checkpoints")
        notes += _on_one_more_trial(job.trials)
    if shape.is_clipped:
        notes.append(f"samples longer than {shape.sequence:,} tokens are cut to it")
    if shape.unit == "images":
        notes.append("diffusion estimate is coarse: an image counts as equivalent tokens")
    latest = latest_finish_hours(job, limits)
    if job.deadline_hours is None or latest < job.deadline_hours:
        notes.append(f"runs are limited to {latest:,.0f} h")
    return notes
