"""What a plan rests on: guesses, the luck of the cheapest of many, and plans that the scenario leaves out.

How far the cheapest of many is too low is drawn.
The estimates are taken for the truth, estimates with errors are drawn around them, each draw plans by those, and what
it promises is compared with what its choice truly costs. What the candidates of one job share, such as the habits of
who runs it, chooses nothing and is not drawn. The parts that a framework, a card and a configuration have of their
own follow from the keys `difference.*` of models/calibration/uncertainty.yaml; a card whose speed is a prior has
more.
Source: the optimizer's curse (Smith and Winkler, Management Science 2006), by a parametric bootstrap.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import CandidateTable, Flags, Floats, Integers, distinct, distinct_names
from planner.candidates.candidate_enumeration import Margins, candidates_of_frameworks, enumerate_candidates
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.run_hours import Evidence
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.candidates.spot_search import BEST, BEST_OF_FRAMEWORKS
from planner.configurations.coefficients import efficiency_of
from planner.configurations.compared_runs import find_observed_run, memory_setting
from planner.configurations.recipe import Recipe, framework_of, frameworks_of, unnamed_frameworks
from planner.estimates.uncertainty import efficiency_sigma
from planner.library.engines import read_engines
from planner.library.reading import held_quant
from planner.library.schema import Library
from planner.library.technique_tables import TECHNIQUE_FIELDS, read_techniques
from planner.results.plan import Assignment
from planner.results.plan_parts import EvidenceWord, LossyChoice, Option, PlanEvidence
from planner.scenario.inference_job import InferenceJob, InferenceWork, ServedAdapter
from planner.scenario.job import Job
from planner.scenario.job_stages import Trials
from planner.scenario.limits import Limits, SpotShare
from planner.scenario.scenario import SolveOptions, setting_path
from planner.solving.chosen import ChosenCandidate, MemoryEvaluator, nothing_there, option_at
from planner.solving.optimise_choice import optimise, waiting_rooms
from planner.solving.prepare import PreparedScenario, screen_up_to, with_excluded_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


SPEED_WORDS: dict[int, EvidenceWord] = {
    Evidence.OWN_RUN: "measured",
    Evidence.PUBLISHED_RUNS: "fitted",
    Evidence.PRIOR: "prior",
}


def find_evidence(
    prepared: PreparedScenario, index: int, made: Assignment, row: int, compares: bool = True
) -> PlanEvidence:
    """Return what speed, memory, price and spot market of a job rest on; `row` is that of its screened table.

    `compares`: whether a plan whose speed is a prior also names the best one whose speed is none.
    """
    candidates, library = prepared.candidates[index], prepared.library
    uncut = int(prepared.screened[index].rows[row])
    offer = prepared.market.offers[int(candidates.table.offer[uncut])]
    rests = candidates.run_hours.evidence
    managed = bool(candidates.is_managed_service[uncut])
    speed = Evidence.PRIOR if managed else Evidence(rests[candidates.configuration[uncut]])
    tuned = made.techniques.tuning != "sft"
    on_spot = made.spot is not None or made.spot_share > 0
    return PlanEvidence(
        speed=SPEED_WORDS[speed],
        memory="prior" if managed else _memory(candidates, uncut, library, tuned),
        price="measured" if made.price_date else "prior",
        spot=("measured" if offer.spot is not None else "prior") if on_spot else None,
        known=best_known(prepared, index, rests) if compares and speed == Evidence.PRIOR and not tuned else None,
    )


def best_known(prepared: PreparedScenario, index: int, rests: Integers) -> Option | None:
    """Return the best candidate within the limits of the job whose speed is no prior; None where there is none."""
    candidates, market = prepared.candidates[index], prepared.market
    known: Flags = ~candidates.is_managed_service
    known[known] = rests[candidates.configuration[known]] != Evidence.PRIOR
    if not known.any():
        return None
    objective = CandidateObjective.of(prepared.scenario)
    limits, waiting_usd = prepared.scenario.limits, objective.waiting_usd
    screened = screen(candidates.rows(known), market, limits, prepared.library, True, waiting_usd, BEST)
    value, share = objective.best(screened.table)
    if not np.isfinite(value).any():
        return None
    best = int(np.argmin(value))
    return option_at("", candidates, market, (screened.table, best, float(share[best])))


def _memory(candidates: JobCandidates, row: int, library: Library, tuned: bool) -> EvidenceWord:
    """Return what the memory of a row of the uncut table rests on.

    Measured is a peak of this very setting, on this GPU, of a run as large. Peaks of other batches and lengths of the
    setting correct its estimate, which is fitted then.
    """
    job, physics, learned = candidates.job, candidates.physics, candidates.physics.learned
    recipe = candidates.recipes[int(candidates.table.recipe[row])]
    if not job.trains:
        return "fitted" if read_engines().engines[recipe.framework].releases else "prior"
    machine = physics.ways.machines[int(physics.ways.machine[candidates.configuration[row]])]
    whole = find_observed_run(job, machine)
    peaks = whole is not None and whole.peak_vram_gib is not None
    if peaks or learned.has_run(recipe, machine, *candidates.batch(row), physics.shape.sequence):
        return "measured"
    is_corrected = memory_setting(recipe, machine.gpus) in learned.probed
    is_fitted = is_corrected or (framework_of(library, recipe.framework).profiled and not tuned)
    return "fitted" if is_fitted else "prior"


CURSE_DRAWS, CURSE_SEED = 200, 1
DRAWN_REACH = 3.0
"""Candidates further above the best than so many of their own spreads are not drawn."""
NOTICED_FLATTERY = 0.02
"""Share of the estimate from which a plan says how far such a pick is too low."""


class Priced(NamedTuple):
    """The candidates (n,) of a job that keep its limits."""

    usd: Floats  # objective by estimate
    moving: Floats  # share of it that grows with the hours of training
    unmeasured: Floats  # spread of ln(time) that a card adds whose training was not measured
    framework: Integers
    card: Integers
    configuration: Integers


class Curse(NamedTuple):
    """What draws of one scenario show."""

    flattery: float  # mean of ln(true dollars / promised dollars) of the picked
    regret: float  # mean of true dollars of the picked over the least true dollars, less one


def priced(prepared: PreparedScenario, job: int = 0) -> Priced:
    """Return the candidates of a job that keep its limits, with what their errors have in common."""
    candidates, screened = prepared.candidates[job], prepared.screened[job]
    usd, share = CandidateObjective.of(prepared.scenario).best(screened.table)
    machines = np.isfinite(usd) & ~candidates.is_managed_service[screened.rows]
    rows, ways = screened.rows[machines], candidates.physics.ways
    configuration = candidates.configuration[rows]
    hours = screened.table.hours(share)[machines]
    moving = np.clip(candidates.run_hours.training_hours[configuration] / hours, 0.0, 1.0)
    library = prepared.library
    values, speeds = library.calibrations["uncertainty"].values, library.calibrations["gpu_efficiency"]
    recipes = [ways.recipes[index].framework for index in ways.recipe[configuration].tolist()]
    cards = [ways.machines[index].gpu for index in ways.machine[configuration].tolist()]
    return Priced(
        usd[machines],
        moving,
        np.asarray([efficiency_sigma(values, efficiency_of(library.gpu(card), speeds)[1]) for card in cards]),
        distinct_names(recipes)[1],
        distinct_names(cards)[1],
        distinct(configuration)[1],
    )


def own_parts(values: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the spreads of the parts of an error that a framework, a card and a configuration have each of their own.

    Differences of two errors have twice the variance of what they do not share: 0.205 of two sources, 0.115 on two
    cards and 0.11 on one leave sqrt(0.205^2 - 0.115^2) / sqrt 2 = 0.12, 0.024 and 0.078.
    """
    source, other, same = (values[f"difference.{name}"] for name in ("other_source", "other_card", "same_card"))
    squares = (source**2 - other**2, other**2 - same**2, same**2)
    return tuple(math.sqrt(max(square, 0.0) / 2.0) for square in squares)  # type: ignore[return-value]


def simulate(estimates: Priced, parts: Sequence[float], draws: int = CURSE_DRAWS, seed: int = CURSE_SEED) -> Curse:
    """Return what plans by estimates with errors promise and cost; deterministic in the seed.

    `parts`: spreads that a framework, a card and a configuration have of their own.
    """
    if not estimates.usd.size or estimates.usd.min() <= 0.0:  # machines that cost nothing leave no share to compare
        return Curse(0.0, 0.0)
    of_framework, of_card, own = parts
    whole = np.sqrt(of_framework**2 + of_card**2 + own**2 + np.square(estimates.unmeasured))
    near = estimates.usd * np.exp(-DRAWN_REACH * whole) <= estimates.usd.min()
    estimates = Priced(*(column[near] for column in estimates))
    card = np.hypot(of_card, estimates.unmeasured)
    random = np.random.default_rng(seed)

    def drawn(group: Integers) -> Floats:
        return np.asarray(random.standard_normal(int(group.max()) + 1)[group])

    flattery, regret = [], []
    for _ in range(draws):
        error = (
            of_framework * drawn(estimates.framework)
            + card * drawn(estimates.card)
            + own * drawn(estimates.configuration)
        )
        promised = estimates.usd * (1.0 + estimates.moving * (np.exp(error) - 1.0))
        picked = int(np.argmin(promised))
        flattery.append(math.log(estimates.usd[picked] / promised[picked]))
        regret.append(estimates.usd[picked] / estimates.usd.min() - 1.0)
    return Curse(float(np.mean(flattery)), float(np.mean(regret)))


def with_flattery(jobs: tuple[Assignment, ...], prepared: PreparedScenario) -> tuple[Assignment, ...]:
    """Return the job of a plan with how far the least of many estimates is too low, in its evidence; none if hardly.

    Of one training job that minimises dollars: what several jobs share is not drawn.
    """
    scenario = prepared.scenario
    if len(scenario.jobs) != 1 or scenario.objective_kind != "cost" or prepared.is_slim or not scenario.jobs[0].trains:
        return jobs
    (job,) = jobs
    estimates = priced(prepared)
    flattery = math.expm1(simulate(estimates, own_parts(prepared.library.calibrations["uncertainty"].values)).flattery)
    if flattery < NOTICED_FLATTERY or job.evidence is None:
        return jobs
    evidence = job.evidence.model_copy(update={"estimates": int(estimates.usd.size), "optimizer_curse": flattery})
    return (job.model_copy(update={"evidence": evidence}),)


LEAST_SURE = 0.7
"""Probability to fit below which no plan is worth naming."""
MIN_RISK_GAIN = 0.01
"""Share of the objective that a riskier plan saves at least, to be worth naming."""


def best_by_framework(prepared: PreparedScenario, job: int, gpu: str) -> tuple[Option, ...]:
    """Return the best candidate of each framework on the plan's GPU within the limits, those of the job first.

    The note of one that takes part only when it is named is the setting that names it.
    """
    candidates, library = prepared.candidates[job], prepared.library
    if not candidates.job.trains:  # its engines are rungs of the ladder
        return ()
    used, profiles = frameworks_of(candidates.job, library), library.techniques.frameworks
    if candidates.job.kind == "pretrain" and len(used) == 1:
        return ()
    objective, names = CandidateObjective.of(prepared.scenario), (*used, *unnamed_frameworks(candidates.job, library))
    every = candidates_of_frameworks(candidates, names, gpu, prepared.market, library)
    limits, waiting_usd = prepared.scenario.limits, objective.waiting_usd
    screened = screen(every, prepared.market, limits, library, True, waiting_usd, BEST_OF_FRAMEWORKS)
    value, share = objective.best(screened.table)
    framework = np.asarray([recipe.framework for recipe in every.recipes], dtype=str)[screened.table.recipe]
    options = []
    for name in names:
        rows = np.flatnonzero((framework == name) & np.isfinite(value))
        if not len(rows):
            continue
        best = int(rows[np.argmin(value[rows])])
        at = screened.table, best, float(share[best])
        is_used = name in used
        path = setting_path(f"jobs.{candidates.job.name}.framework", prepared.scenario)
        marks = {"allowed": is_used, "prior": not is_used, "note": "" if is_used else f"{path}={name}"}
        options.append(option_at(profiles[name].label, every, prepared.market, at, **marks))
    return tuple(options)


def find_riskier(prepared: PreparedScenario, job: int, gpu: str, chosen: int, share: float) -> tuple[Option, ...]:
    """Return the best plan of the same framework and GPU that only the confidence of memory excludes, if it is cheaper.

    Where its setting gives another plan, which a near tie prefers, nothing is returned.
    `chosen` is the row of the job's screened table that the plan uses, at the spot share `share`.
    """
    candidates, limits, library = prepared.candidates[job], prepared.scenario.limits, prepared.library
    table, given = prepared.screened[job].table, candidates.job.confidence_given
    taken = candidates.recipes[int(table.recipe[chosen])].framework
    if not candidates.job.trains:
        return ()  # its memory is known but for a small part, and `hf` is an engine and a framework
    if limits.vram_headroom is not None or taken not in library.techniques.frameworks or given.memory <= LEAST_SURE:
        return ()
    objective, less_sure = CandidateObjective.of(prepared.scenario), given.model_copy(update={"memory": LEAST_SURE})
    riskier = candidates_of_frameworks(candidates, (taken,), gpu, prepared.market, library, less_sure)
    goal = float(objective.values(table.rows(np.asarray([chosen])), share)[0]) * (1 - MIN_RISK_GAIN)
    scope = replace(BEST, below=goal)
    screened = screen(riskier, prepared.market, limits, library, True, objective.waiting_usd, scope)
    value, shares = objective.best(screened.table)
    if not np.min(value, initial=np.inf) < goal:
        return ()
    best = int(np.argmin(value))
    row = int(screened.rows[best])
    ways, configuration = riskier.physics.ways, int(riskier.configuration[row])
    machine = ways.machines[int(ways.machine[configuration])]
    recipe = ways.recipes[int(ways.recipe[configuration])]
    evaluator = MemoryEvaluator.of(
        riskier.job, riskier.physics.shape, recipe, machine, None, library, riskier.physics.learned
    )
    chance = evaluator.vram(evaluator.at(*riskier.batch(row))).fit_probability
    if chance >= given.memory:  # the least cost itself, which the recommended plan exceeds by a near tie
        return ()
    sure = math.floor(chance * 100) / 100
    setting = f"{setting_path(f'jobs.{riskier.job.name}.confidence.memory', prepared.scenario)}={sure:g}"
    least = screened.table, best, float(shares[best])
    if _loses_tie(prepared, (table, screened.table), float(value[best]), least):
        return ()
    note = f"fits with {sure * 100:.0f} %: {setting}"
    label = library.techniques.words("activation_checkpointing", recipe.activation_checkpointing)
    return (option_at(label, riskier, prepared.market, least, note=note, allowed=False),)


def find_safer(prepared: PreparedScenario, job: int, chosen: Assignment) -> tuple[Option, ...]:
    """Return the best plan on no private person's host, and the best without spot, where the plan takes such a risk.

    Where the limits leave none, the way has no figures.
    An export on a further machine stays where the candidates have it, so that the setting may plan cents more.
    """
    limits, tiers = prepared.scenario.limits, prepared.scenario.limits.tiers
    secure = tiers.model_copy(update={"forbid": (*tiers.forbid, "community")})
    named = ", ".join(secure.forbid)
    ways = (
        ("secure", chosen.tier == "community", {"tiers": secure}, f"limits.tiers.forbid=[{named}]"),
        ("on demand", chosen.spot_share > 0, {"spot_share": SpotShare(max=0.0)}, "limits.spot=false"),
    )
    candidates, screened, options = prepared.candidates[job], prepared.screened[job].table, list[Option]()
    of_tier = np.asarray([offer.tier != "community" for offer in prepared.market.offers], dtype=bool)
    known = {"secure": of_tier[screened.offer], "on demand": screened.share_low <= 0}
    for label, is_risk, change, setting in ways:
        if not is_risk or (label == "on demand" and limits.spot_share.min > 0):
            continue
        within = limits.model_copy(update=change)
        known_within = screened.rows(known[label])
        at = _planned_within(prepared, job, within, screen_up_to(prepared, candidates, within, known_within, True))
        if at is None:
            options.append(nothing_there(label, setting))
        else:
            options.append(option_at(label, candidates, prepared.market, at, note=setting))
    return tuple(options)


def _planned_within(
    prepared: PreparedScenario, job: int, limits: Limits, screened: ScreenedCandidates
) -> tuple[CandidateTable, int, float] | None:
    """Return what `solve` plans for a job within other limits, of candidates screened for these; None where nothing.

    It takes near ties and waits less for spot machines, as the plan of the setting does.
    """
    scenario, candidates = prepared.scenario.model_copy(update={"limits": limits}), prepared.candidates[job]
    objective = CandidateObjective.of(prepared.scenario)
    value, share = objective.best(screened.table)
    if not np.isfinite(value).any():
        return None
    best = int(np.argmin(value))
    if len(prepared.candidates) > 1:
        return screened.table, best, float(share[best])
    alone = replace(prepared, scenario=scenario, screened=(screened,))
    solved = optimise(alone, SolveOptions())
    if not solved.rows:
        return None
    row, taken = int(solved.owner[solved.rows[0]]), solved.shares[0]
    at = screened.table, row, taken
    if row not in screened.spot or not scenario.waits_less:
        return at
    figures = screened.table.rows(np.asarray([row]))
    planned = ChosenCandidate(
        candidates,
        prepared.market,
        int(screened.rows[row]),
        taken,
        bool(screened.rounded[row]),
        figures,
        screened.spot[row],
    )
    less = planned.with_less_waiting(*waiting_rooms(scenario, solved), limits.spot_share.min)
    return less.figures, 0, less.share


def _loses_tie(
    prepared: PreparedScenario, tables: Sequence[CandidateTable], usd: float, row: tuple[CandidateTable, int, float]
) -> bool:
    """Return whether a near tie prefers another candidate of some tables to a row at its spot share, of least cost."""
    objective, most = CandidateObjective.of(prepared.scenario), usd + prepared.scenario.near_tie_usd(usd)

    def rank(table: CandidateTable, which: int, share: float) -> tuple[int, int, float]:
        hours = table.rows(np.asarray([which])).hours(share)[0]
        return int(table.preference[which]), int(table.instances[which]), float(hours)

    own = rank(*row)
    for table in tables if not objective.by_time else ():
        value, share = objective.best(table)
        if any(rank(table, near, float(share[near])) < own for near in np.flatnonzero(value <= most).tolist()):
            return True
    return False


def adapters_another_way(prepared: PreparedScenario, job: int) -> tuple[Option, ...]:
    """Return the best plan of a job of generation whose adapters are served in place of merged, or the other way.

    Served adapters share one engine; merged ones are a model each, so that `n` of them are `n` runs with an `n`-th of
    the requests, one after the other. What each run pays by itself is the start.
    """
    candidates, limits, library = prepared.candidates[job], prepared.scenario.limits, prepared.library
    given = candidates.job
    if not isinstance(given, InferenceJob) or given.adapter is None or given.trials.halving is not None:
        return ()
    rank, targets, served = given.adapter.rank, given.adapter.targets, given.adapter.served
    if served is None:
        changed = given.model_copy(update={"adapter": ServedAdapter(rank=rank, targets=targets, served=1)})
        label, setting = "adapter served", "adapter.served: 1"
    else:
        trials = Trials(count=given.trials.count * served, at_once=given.trials.at_once)
        merged = ServedAdapter(rank=rank, targets=targets)
        update = {"adapter": merged, "work": _part_of(given.work, served), "trials": trials}
        changed = given.model_copy(update=update)
        label, setting = f"merged, {served} runs" if served > 1 else "merged", "adapter.merged: true"
    names = [scenario_job.name for scenario_job in prepared.scenario.jobs]
    margins = Margins(limits.vram_headroom, limits.budget_confidence)
    alternative = enumerate_candidates(changed, candidates.architecture, prepared.market, names, library, margins)
    objective = CandidateObjective.of(prepared.scenario)
    screened = screen(alternative, prepared.market, limits, library, True, objective.waiting_usd, BEST)
    value, share = objective.best(screened.table)
    if not len(value) or not np.isfinite(value).any():
        return (nothing_there(label, "no configuration within the limits", allowed=False),)
    best = int(np.argmin(value))
    at = screened.table, best, float(share[best])
    return (option_at(label, alternative, prepared.market, at, note=setting, allowed=False),)


def _part_of(work: InferenceWork, runs: int) -> InferenceWork:
    """Return the requests of one of several runs that share them, rounded up."""
    if work.lengths:
        rows = tuple(row.model_copy(update={"count": math.ceil(row.count / runs)}) for row in work.lengths)
        return work.model_copy(update={"lengths": rows})
    return work.model_copy(update={"requests": math.ceil(work.total_requests / runs)})


# Techniques that may cost quality and that nobody asked for, with the price of doing without them.


class _Lossy(NamedTuple):
    """A technique that can change what is learnt: name, key, the recipes that use it, and doing without."""

    words: str
    key: str
    uses: Callable[[Recipe], bool]
    without: str


def _kinds(job: Job) -> tuple[_Lossy, ...]:
    """Return every kind of rounding that a job may meet; of the ranks that it lists, each but the highest is one."""
    ranks = sorted(set(job.lora.rank))
    return (
        *_of_table(),
        *(_Lossy(f"LoRA rank {rank}", "lora_rank", _has_rank(rank), f"rank {ranks[-1]}") for rank in ranks[:-1]),
    )


def _of_table() -> tuple[_Lossy, ...]:
    """Return the values that the table of techniques calls lossy; values of one name are one kind."""
    table, kinds = read_techniques(), dict[tuple[str, str], _Lossy]()
    for key in TECHNIQUE_FIELDS:
        lossy = {value: row.lossy for value, row in table.of(key).values.items() if row.lossy}
        for name, without in dict.fromkeys((entry.name, entry.without) for entry in lossy.values()):
            values = frozenset(value for value, entry in lossy.items() if entry.name == name)
            kinds[key, name] = _Lossy(name, key, _has_one_of(key, values), without)
    return tuple(kinds.values())


def _has_one_of(key: str, values: frozenset[str | int]) -> Callable[[Recipe], bool]:
    return lambda recipe: getattr(recipe, key) in values


def _has_rank(rank: int) -> Callable[[Recipe], bool]:
    return lambda recipe: recipe.lora_rank == rank


def find_lossy(prepared: PreparedScenario, job: int, recipe: Recipe) -> tuple[LossyChoice, ...]:
    """Return the lossy techniques of a plan that its job left open, each with the least cost without.

    The method stays the same. Without 4 or 8 bits means LoRA on 16-bit weights, also where the techniques exclude it.
    """
    candidates = prepared.candidates[job]
    asked, kinds = candidates.job.techniques, _kinds(candidates.job)
    if getattr(recipe, "released", False) or held_quant(candidates.architecture) is not None:
        kinds = tuple(kind for kind in kinds if kind.key != "weight_bits")
    chosen = [kind for kind in kinds if kind.uses(recipe) and len(getattr(asked, kind.key, None) or ()) != 1]
    if not chosen or recipe.precision == "managed":
        return ()
    table = with_excluded_methods(prepared, job)
    value, share = CandidateObjective.of(prepared.scenario).best(table)
    choices = []
    for kind in chosen:
        kept = [other.method == recipe.method and not _is_as_lossy(kind, other, kinds) for other in candidates.recipes]
        rows = np.flatnonzero(np.asarray(kept, dtype=bool)[table.recipe] & np.isfinite(value))
        usd = hours = None
        if len(rows):
            best = rows[[int(np.argmin(value[rows]))]]
            usd, hours = (
                float(figure(share[best])[0]) for figure in (table.rows(best).cost_usd, table.rows(best).hours)
            )
        choices.append(LossyChoice(technique=kind.words, without=kind.without, cost_usd=usd, hours=hours))
    return tuple(choices)


def _is_as_lossy(kind: _Lossy, recipe: Recipe, kinds: Sequence[_Lossy]) -> bool:
    """Return whether a recipe rounds in the same key: 8 bits are not what doing without 4 bits means."""
    return any(other.key == kind.key and other.uses(recipe) for other in kinds)
