"""Candidates of every job, screened: all that is known before a program; again within stricter or looser limits."""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import CandidateTable, Flags, Integers, concatenate
from planner.candidates.candidate_enumeration import Margins, are_of, enumerate_candidates, of_another_job, of_job
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import (
    Market,
    build_market,
    has_comparable_prices,
    needs_separate_machines,
    with_separate_offers,
)
from planner.candidates.screening import CandidateObjective, promising_rows, screen
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.candidates.spot_search import BEST, BEST_OF_METHODS, DEFAULT_SCOPE, KEPT_USD, NEEDED_BY_JOBS
from planner.candidates.stage_hours import export_fault, no_machine_fault
from planner.configurations.compared_runs import impossibility_reason
from planner.configurations.network_faults import network_faults
from planner.configurations.recipe import head_refusal, is_allowed, length_faults
from planner.errors import Fault, LibraryError, ScenarioError, raise_faults
from planner.formulation.constraints import find_undominated
from planner.formulation.program import Peak, SharedLimits, TypicalPeaks
from planner.library.engines import read_engines
from planner.library.reading import held_quant, read_library, teacher_card
from planner.library.schema import Architecture, Library
from planner.scenario.job import Job
from planner.scenario.limits import Limits, given_peaks
from planner.scenario.naming import limits_read
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import MAX_OFFERS, Scenario, open_job
from planner.watch import ASKED_EVERY_SECONDS, keep_going, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor, Future


# Portfolios of many jobs: of each job only what the program and its notes need is kept, so that memory holds them all.


MANY_JOBS = 100
"""Of more jobs than these neither ties nor the luck that jobs share are looked at: that takes minutes."""


MOST_COMPARED = 12
"""Jobs up to which a plan names other ways to run each: over half of the time goes there, and nobody reads hundreds."""


def are_compared(jobs: Sequence[object]) -> bool:
    """Return whether a plan of so many jobs names other ways to run each."""
    return len(jobs) <= MOST_COMPARED


def is_large(scenario: Scenario, market: Market) -> bool:
    """Return whether a scenario has so many jobs that only its strict optimum is looked for.

    Jobs over time need other candidates too: dominance is another one there.
    """
    many = len(scenario.jobs) > MANY_JOBS and not scenario.needs_timetable
    return many and starts_at_once(scenario, market, build_shared_limits(scenario, market))


def starts_at_once(scenario: Scenario, market: Market, limits: SharedLimits) -> bool:
    """Return whether nothing that jobs share makes one wait for another."""
    if scenario.schedule == "side_by_side":
        return True
    reserved = any(offer.is_reservation for offer in market.offers)
    return not (limits.limit_one_time or reserved)


class _Needs(NamedTuple):
    """What the program of all jobs, and the notes of each, read of the rows of one job."""

    shared: SharedLimits
    typical: TypicalPeaks | None
    objective: CandidateObjective
    market: Market
    breaks_ties: bool
    has_notes: bool

    def cut(self, candidates: JobCandidates, screened: ScreenedCandidates) -> tuple[JobCandidates, ScreenedCandidates]:
        """Return both with the rows that are read; unchanged where no row is within the limits.

        A row that is dominated here is dominated in each program of fewer limits, too, by a row that is kept.
        """
        if not len(screened.table):
            return candidates, screened
        kinds = None if self.typical is None else self.typical.kind
        undominated = screened.select(find_undominated(screened.table, self.shared, self.breaks_ties, kinds))
        rows = undominated.rows
        if self.has_notes:
            rows = np.append(rows, np.flatnonzero(self._in_notes(candidates, screened)))
        rows = np.unique(rows)
        cut = candidates.rows(rows).with_used_configurations()
        cut = replace(cut, physics=replace(cut.physics, tried=None))  # they would fill most of the memory
        return cut, _with_rows(undominated, screened, candidates, rows)

    def _in_notes(self, candidates: JobCandidates, screened: ScreenedCandidates) -> Flags:
        """Return the rows (n,) of the uncut table that notes compare a plan with.

        These may be better without a limit, have a price that is left out for its age, or may be the best of those
        whose spot price is no outlier.
        """
        market, offer = self.market, candidates.table.offer
        value = self.objective.best(screened.table)[0]
        best, usual = float(np.min(value, initial=np.inf)), ~market.is_outlier
        is_compared: Flags = market.is_outdated[offer]
        is_compared[promising_rows(candidates, self.objective, best)] = True
        if not usual.all():
            best = float(np.min(value[usual[screened.table.offer]], initial=np.inf))
            may_be_best = np.zeros(len(is_compared), dtype=bool)
            may_be_best[promising_rows(candidates, self.objective, np.nextafter(best, np.inf))] = True
            is_compared |= may_be_best & usual[offer]
        return is_compared


def _with_rows(
    selected: ScreenedCandidates, screened: ScreenedCandidates, candidates: JobCandidates, rows: Integers
) -> ScreenedCandidates:
    """Return the selected rows of screened candidates of which the uncut table keeps `rows` (k,) alone."""
    return replace(
        selected,
        rows=np.searchsorted(rows, selected.rows),
        lateness=selected.lateness[rows],
        dropped=len(candidates.table) - len(rows),
        dominated=len(screened.table) - len(selected.table),
    )


@dataclass(frozen=True)
class PreparedScenario:
    """Everything that is known before a program is built; a changed limit needs `screen` again and no more."""

    scenario: Scenario
    library: Library
    market: Market
    candidates: tuple[JobCandidates, ...]
    screened: tuple[ScreenedCandidates, ...]
    is_slim: bool = False  # neither ties, nor the luck that jobs share, nor other ways are looked at
    is_cut: bool = False  # of each job only the rows are kept that the program and its notes need
    has_policies: bool = True  # where the objective lets candidates on spot follow them
    names_others: bool = True  # a plan also names other ways to run its jobs; a variant is asked for its figures alone
    apart_usd: float = 0.0  # of jobs that are planned apart: how close to its bound a plan is counts with them

    @cached_property
    def within_hours(self) -> dict[tuple[int, float], ScreenedCandidates]:
        """Return the candidates of a job (by its place) that end within some hours, as far as they are known."""
        return {}

    @cached_property
    def first_twin(self) -> tuple[int, ...]:
        """Return for each job the first one that differs from it in name and dates alone, often itself.

        Such jobs share the rows of their tables. Where nothing depends on dates, what one run of them is and costs is
        that of every other: a study of thirty seeds asks for one job thirty times.
        """
        firsts: dict[int, int] = {}
        return tuple(firsts.setdefault(id(screened.rows), index) for index, screened in enumerate(self.screened))


_SHARED: ContextVar[PreparedScenario | None] = ContextVar("shared candidates", default=None)


@contextmanager
def sharing_candidates(prepared: PreparedScenario) -> Iterator[None]:
    """Start each `prepare` inside from this one: the analyses of a report ask for the candidates of its plan."""
    token = _SHARED.set(prepared)
    try:
        yield
    finally:
        _SHARED.reset(token)


def prepare(
    scenario: Scenario,
    library: Library | None = None,
    before: PreparedScenario | None = None,
    with_policies: bool = True,
    may_be_slim: bool = True,
    executor: Executor | None = None,
    only_plan: bool = False,
) -> PreparedScenario:
    """Return the candidates of every job on the scenario's market, screened by the job's own limits.

    What an earlier scenario (`before`) has in common with this one is reused instead of computed again: the market
    if offers and prices are the same, a job's candidates if only its deadline changed, screened candidates if no
    limit that filters them changed. `with_policies` False leaves spot to mixes of two markets, where the policies of
    one deadline are not needed. Of hundreds of jobs without time only what the program needs is kept, unless
    `may_be_slim` is False; with `only_plan` of jobs that are not compared, too, with what the notes of a plan need. The
    workers of an `executor` make the candidates of several jobs, the same ones.

    Raises
    ------
    ScenarioError
        For more than `MAX_OFFERS`, observed runs that are impossible on their GPU, and data that no machine has the
        memory to prepare.
    """
    raise_faults([*foreign_faults(scenario), *_tool_faults(scenario)], ScenarioError)
    if (count := len(scenario.offers)) > MAX_OFFERS:
        fix = f"keep at most {MAX_OFFERS:,}, such as those of the GPUs and regions in question"
        raise ScenarioError([Fault(scenario.name, 0, "offers", f"{count:,} offers are too many", fix)])
    check_is_definite(scenario)
    architectures = [job.architecture for job in scenario.jobs]
    before = before or _SHARED.get()
    if library is None and before and {job.architecture for job in before.scenario.jobs}.issuperset(architectures):
        library = before.library
    library = library or read_library(architectures)
    _check_observations(scenario, library)
    if before is not None and before.library is not library:
        before = None
    _check_gpus(scenario, library)
    market = _market(scenario, library, before)
    _check_requests(scenario, market, library)
    if before is not None and (before.is_cut or len(before.candidates) != len(scenario.jobs)):
        before = None
    is_slim = may_be_slim and is_large(scenario, market)
    is_cut = is_slim or (only_plan and _may_be_cut(scenario))
    waiting_usd = CandidateObjective.of(scenario).waiting_usd if with_policies else None
    wanted = _Wanted(waiting_usd, is_slim, is_cut, with_policies)
    candidates, screened = _candidates_and_screens(scenario, market, library, before, wanted, executor)
    faults = [
        no_machine_fault(candidate.job, "ingest")
        for candidate in candidates
        if len(candidate.table) and candidate.lacks_ram().all()
    ]
    faults += [
        export_fault(candidate.job, candidate.architecture, library)
        for candidate in candidates
        if candidate.exports_nowhere()
    ]
    raise_faults(faults, ScenarioError)
    return PreparedScenario(scenario, library, market, candidates, screened, is_slim, is_cut, with_policies)


def prepare_below(scenario: Scenario, before: PreparedScenario, below: float) -> PreparedScenario:
    """Return the scenario of `before` with a limit changed, of the only job whose cost is minimised.

    Only candidates whose objective may be below `below` are screened.
    """
    market = _market(scenario, before.library, before)
    wanted = _Wanted(CandidateObjective.of(scenario).waiting_usd, False, False, True, below)
    candidates, screened = _candidates_and_screens(scenario, market, before.library, before, wanted, None)
    return PreparedScenario(scenario, before.library, market, candidates, screened)


def _may_be_cut(scenario: Scenario) -> bool:
    """Return whether a plan reads but some rows of each job: of jobs that are not compared, in dollars.

    Bounds of hours are no bounds of those of drawn runs.
    """
    in_dollars = scenario.objective_kind == "cost" and not scenario.needs_timetable
    return in_dollars and not scenario.limits.fallbacks and not are_compared(scenario.jobs)


def check_is_definite(scenario: Scenario) -> None:
    """Raise ScenarioError for a job whose model, tokens or batch `solve` has to find first."""
    job = open_job(scenario)
    if job is not None:
        wrong = f"{job.name} leaves its model, its tokens or its batch open, which planner solve decides"
        fix = "solve it, and set architecture, work.tokens and global_batch of the job to those of the plan"
        raise ScenarioError([Fault(scenario.name, 0, f"jobs.{job.name}.architecture", wrong, fix)])


def foreign_faults(scenario: Scenario) -> list[Fault]:
    """Return a fault for each job that a package of its own plans, but for those that are still open."""
    return [
        Fault(scenario.name, 0, f"jobs.{job.name}.kind", f"not supported for kind: {job.kind}", "use solve or what-if")
        for job in scenario.jobs
        if job.subject not in {None, OpenJob.subject}
    ]


SAME_VOCABULARY = 0.01
"""Difference of vocabularies that padding explains: 152,064 and 151,936 entries of Qwen2.5."""


def training_faults(job: Job, architecture: Architecture, library: Library) -> Iterator[Fault]:
    """Yield what a training job asks for that its model or framework does not have.

    Methods of preference tuning, adapters at the head, published weights.
    """
    asked, place = job.techniques, f"jobs.{job.name}"
    profiles, label = library.techniques.frameworks, job.tuning_row.words
    for name in job.framework or ():
        if not profiles[name].tunes(job.tuning):
            able = ", ".join(other for other, profile in profiles.items() if profile.tunes(job.tuning))
            lacks = f"{profiles[name].label} has no {label} here"
            yield Fault(job.name, 0, f"{place}.framework", lacks, f"choose one of {able}, or leave it out")
    may_adapt = job.kind != "pretrain" and (asked.method is None or "lora" in asked.method)
    if job.lora.adapt_head and may_adapt and (wrong := head_refusal(architecture)) is not None:
        yield Fault(job.name, 0, f"{place}.lora.adapt_head", wrong, "leave it out")
    if job.teacher is not None and abs(teacher_card(job.teacher).vocab / architecture.vocab - 1.0) > SAME_VOCABULARY:
        unlike = f"{job.teacher} has another vocabulary, whose logits {architecture.name} cannot learn"
        yield Fault(job.name, 0, f"{place}.teacher", unlike, "choose a teacher of the same family")
    kept, held = read_engines().formats[architecture.published[0]].trained, held_quant(architecture)
    fix = f"name the release in 16 bits, {architecture.base}" if architecture.base else "name a release in 16 bits"
    form = architecture.published[0]
    if kept == "none":
        wrong = f"{architecture.name} holds {form} weights, which no framework trains"
        yield Fault(job.name, 0, f"{place}.architecture", wrong, fix)
    elif held is not None:
        bits = 8 if held == "int8" else 4
        if job.kind == "pretrain" or (asked.method is not None and "lora" not in asked.method):
            yield Fault(job.name, 0, f"{place}.techniques.method", f"{form} weights are trained with lora alone", fix)
        elif asked.weight_bits is not None and bits not in asked.weight_bits:
            wrong = f"{architecture.name} holds {form} weights, which stay in {bits} bits"
            yield Fault(job.name, 0, f"{place}.techniques.weight_bits", wrong, f"choose {bits}, or {fix}")


def _tool_faults(scenario: Scenario) -> list[Fault]:
    """Return a fault for each job that `limits.tools` does not concern: one that answers prompts."""
    wrong = "tools are those of training, and this job answers prompts"
    fix = "leave limits.tools out, and export with --to skypilot or kubernetes"
    return [
        Fault(scenario.name, 0, f"jobs.{job.name}.kind", wrong, fix)
        for job in scenario.jobs
        if scenario.limits.tools and not job.trains
    ]


def _check_requests(scenario: Scenario, market: Market, library: Library) -> None:
    """Raise ScenarioError for requests that no machine of the market can hold or that an engine cannot serve."""
    faults = list[Fault]()
    for job in scenario.jobs:
        architecture = library.architecture(job.architecture)
        faults += network_faults(job, architecture, library)
        if job.trains:
            faults += [*length_faults(job, architecture), *training_faults(job, architecture, library)]
    if any(not job.trains or job.stages.answers_prompts for job in scenario.jobs):
        cards = [card for card in market.cards if card is not None]
        faults += generation.generation_faults(scenario.jobs, cards, library)
    raise_faults(faults, ScenarioError)


def _check_observations(scenario: Scenario, library: Library) -> None:
    """Raise ScenarioError for impossible observations: they would make every figure of the plan wrong."""
    faults: list[Fault] = []
    for job in scenario.jobs:
        if not job.trains:
            continue  # `generation_faults` has them
        for number, run in enumerate(job.measured):
            wrong = impossibility_reason(job, run, library.architecture(job.architecture), library)
            if wrong is not None:
                figure = "hours" if run.hours is not None else "tokens_per_second"
                units = "are they those of the whole job?" if run.hours is not None else "are unit and GPU count right?"
                where = f"jobs.{job.name}.measured.{number}.{figure}"
                faults.append(Fault(scenario.name, 0, where, wrong, units))
    raise_faults(faults, ScenarioError)


def _check_gpus(scenario: Scenario, library: Library) -> None:
    """Raise LibraryError for offers of a scenario made in Python whose GPU the library does not have."""
    faults = []
    for gpu in dict.fromkeys(offer.card for offer in scenario.offers if offer.rents_gpus):
        try:
            library.gpu(gpu)
        except KeyError as error:
            faults.append(Fault(scenario.name, 0, "offers", str(error.args[0]), "add it to the library that is given"))
    raise_faults(faults, LibraryError)


def _market(scenario: Scenario, library: Library, before: PreparedScenario | None) -> Market:
    """Return the market of a scenario, that of `before` where it reads the same."""
    if before is None or _market_inputs(before.scenario) != _market_inputs(scenario):
        return build_market(scenario, library)
    return with_separate_offers(before.market, scenario, library)


def _market_inputs(scenario: Scenario) -> tuple[object, ...]:
    """Return what the market reads of a scenario, apart from what stages on separate machines may rent."""
    limits = scenario.limits
    data_regions = [job.stages.transfer.region if job.stages.transfer else None for job in scenario.jobs]
    return (
        scenario.offers,
        scenario.adjust,
        scenario.horizon,
        limits_read(limits),
        limits.tiers,
        [needs_separate_machines(job) for job in scenario.jobs],
        data_regions,
        has_comparable_prices(scenario),
    )


NON_FILTER_LIMITS = {"budget_usd": None, "vram_headroom": None, "fallbacks": 0}
"""Limits that no filter on single rows reads: a row of the program, the margin of the fit rule, further ways."""


def _filters(scenario: Scenario) -> tuple[object, ...]:
    """Return all that screening reads of a scenario apart from the jobs; of a budget of several only that it is one."""
    limits = scenario.limits
    budget = limits.budget_usd if len(scenario.jobs) == 1 else limits.budget_usd is None
    waiting_usd = CandidateObjective.of(scenario).waiting_usd
    return limits.model_copy(update=NON_FILTER_LIMITS), budget, waiting_usd


TIMES = {"name": "", "deadline_hours": None, "release_hours": 0.0, "due_hours": None, "late_usd_per_hour": 0.0}
"""What candidates do not depend on, with the value that comparisons of jobs put in."""


class _Wanted(NamedTuple):
    """What is wanted of the jobs of a scenario."""

    waiting_usd: float | None  # dollars that an hour of waiting is worth; None: no policies
    is_slim: bool
    is_cut: bool
    with_policies: bool
    below: float = math.inf  # of the only job: candidates whose objective is no less are of no use


def _candidates_and_screens(
    scenario: Scenario,
    market: Market,
    library: Library,
    before: PreparedScenario | None,
    wanted: _Wanted,
    executor: Executor | None,
) -> tuple[tuple[JobCandidates, ...], tuple[ScreenedCandidates, ...]]:
    """Return candidates and screened ones of all jobs, made by the workers of an executor where there is one."""
    order = _by_twins(scenario)
    if executor is not None and before is None and len(order) > JOBS_OF_A_PART:
        parts = [order[start : start + JOBS_OF_A_PART] for start in range(0, len(order), JOBS_OF_A_PART)]
        of_jobs: FoundOfJobs = {}
        for of_part in _made_by_workers(executor, [(scenario, library, wanted, part) for part in parts]):
            of_jobs |= {
                index: (replace(enumerated, offers=market.offers), cut) for index, (enumerated, cut) in of_part.items()
            }
            tell("candidates of jobs", len(of_jobs), len(order))
    else:
        of_jobs = _of_part(scenario, market, library, before, wanted, order)
    pairs = [of_jobs[index] for index in range(len(order))]
    return tuple(candidates for candidates, _ in pairs), tuple(screened for _, screened in pairs)


JOBS_OF_A_PART = 8
"""Jobs that a worker prepares at once: their market is made once, and more of them would leave other workers idle."""
FoundOfJobs = dict[int, tuple[JobCandidates, ScreenedCandidates]]
"""What is found of jobs, by their places."""


def _made_by_workers(executor: Executor, questions: Sequence[tuple[Any, ...]]) -> Iterator[FoundOfJobs]:
    """Yield what the workers of an executor find of each part, in the order in which they end."""
    from concurrent.futures import FIRST_COMPLETED, wait  # of many jobs alone

    waiting: set[Future[FoundOfJobs]] = {executor.submit(_of_part_alone, *question) for question in questions}
    try:
        while waiting:
            keep_going()
            done, waiting = wait(waiting, timeout=ASKED_EVERY_SECONDS, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        for future in waiting:
            future.cancel()


def _of_part_alone(scenario: Scenario, library: Library, wanted: _Wanted, places: Sequence[int]) -> FoundOfJobs:
    """Return what is found of some jobs by a process that has no market yet; without offers, which its caller has."""
    market = build_market(scenario, library)
    of_jobs = _of_part(scenario, market, library, None, wanted, places)
    return {index: (replace(candidates, offers=()), screened) for index, (candidates, screened) in of_jobs.items()}


def _by_twins(scenario: Scenario) -> list[int]:
    """Return the places of the jobs so that those with equal candidates, and of one model, are next to each other."""
    keys = [(job.architecture, _twin_key(job)) for job in scenario.jobs]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _of_part(
    scenario: Scenario,
    market: Market,
    library: Library,
    before: PreparedScenario | None,
    wanted: _Wanted,
    places: Sequence[int],
) -> FoundOfJobs:
    """Return candidates and screened ones of some jobs; those that differ only in name and times share theirs.

    `places` are in the order of `_by_twins`. Where only what is needed is kept, all else is dropped job by job.
    """
    shared, typical = build_shared_limits(scenario, market), typical_stock(scenario, market)
    objective, is_slim = CandidateObjective.of(scenario), wanted.is_slim
    needs = _Needs(shared, typical, objective, market, breaks_ties=not is_slim, has_notes=not is_slim)
    same_filters = before is not None and _filters(before.scenario) == _filters(scenario)
    same_filters = same_filters and before is not None and before.has_policies == wanted.with_policies
    shapes = dict[str, JobCandidates]()
    made: FoundOfJobs = {}
    for _, group in groupby(places, key=lambda index: _twin_key(scenario.jobs[index])):
        full: JobCandidates | None = None
        twins: dict[float | None, tuple[JobCandidates, ScreenedCandidates]] = {}
        for index in group:
            tell("candidates of jobs", len(made), len(places))
            job = scenario.jobs[index]
            if before is None and full is not None:
                full = replace(full, job=job)
            else:
                alike = shapes.get(job.architecture)
                full = _candidates(scenario, index, market, library, before, alike)
                shapes[job.architecture] = full
            if before and same_filters and full is before.candidates[index]:
                pair = full, before.screened[index]
            elif job.deadline_hours in twins:
                pair = twins[job.deadline_hours]
            else:
                pair = full, _screened(full, market, scenario, library, wanted)
                pair = needs.cut(*pair) if wanted.is_cut else pair
            twins.setdefault(job.deadline_hours, pair)
            made[index] = _of_job(*pair, job, index)
        if wanted.is_cut and full is not None:
            full.policies.drop_passes()
    return made


def _screened(
    candidates: JobCandidates, market: Market, scenario: Scenario, library: Library, wanted: _Wanted
) -> ScreenedCandidates:
    """Return the screened candidates of a job, as far as their objective may be below what is wanted."""
    usd, scope = wanted.waiting_usd, DEFAULT_SCOPE if are_compared(scenario.jobs) else NEEDED_BY_JOBS
    if math.isinf(wanted.below):
        return screen(candidates, market, scenario.limits, library, waiting_usd=usd, scope=scope)
    # No bound of a policy is less than that of its row: the search finds the policies below as among all rows.
    most = wanted.below * (1 + 2 * BOUND_ROUNDING) + KEPT_USD
    rows = promising_rows(candidates, CandidateObjective.of(scenario), most)
    scope = replace(scope, below=wanted.below)
    screened = screen(candidates.rows(rows), market, scenario.limits, library, waiting_usd=usd, scope=scope)
    return replace(screened, rows=rows[screened.rows])


def _twin_key(job: Job) -> str:
    """Return a text that is equal for jobs with equal candidates."""
    return job.model_copy(update={**TIMES, "after": ()}).model_dump_json()


def _of_job(
    candidates: JobCandidates, screened: ScreenedCandidates, job: Job, index: int
) -> tuple[JobCandidates, ScreenedCandidates]:
    """Return both as those of another job of the scenario; unchanged where they are its own."""
    if candidates.job == job and (candidates.table.job == index).all():
        return candidates, screened
    mine, cut = candidates.table, screened.table
    mine, cut = (replace(table, job=np.full_like(table.job, index)) for table in (mine, cut))
    return replace(candidates, job=job, table=mine), replace(screened, table=cut)


def _candidates(
    scenario: Scenario,
    index: int,
    market: Market,
    library: Library,
    before: PreparedScenario | None,
    alike: JobCandidates | None,
) -> JobCandidates:
    """Return the candidates of one job, those of `before` if nothing that they depend on has changed.

    What has the same memory and step times in `alike`, candidates of another job, is not computed again.
    """
    job, headroom = scenario.jobs[index], scenario.limits.vram_headroom
    names = [scenario_job.name for scenario_job in scenario.jobs]
    sure = scenario.limits.budget_confidence
    earlier = before.candidates[index] if before else None
    same_limits = earlier and earlier.headroom == headroom and earlier.run_hours.budget_confidence == sure
    if before and earlier and same_limits and before.market is market and are_of(earlier, job, names):
        return of_job(earlier, job)
    architecture = library.architecture(job.architecture)
    if earlier is None and alike is not None and type(alike.job) is type(job):
        earlier = of_another_job(alike)
    return enumerate_candidates(job, architecture, market, names, library, Margins(headroom, sure), earlier)


def limits_of_offers(market: Market) -> SharedLimits:
    """Return what offers have left, of machines and of hours paid for, which all jobs share."""
    offers = list(zip(market.labels, market.offers, strict=True))
    return SharedLimits(
        stock={label: offer.stock for label, offer in offers if offer.stock is not None},
        committed={label: offer.committed_hours for label, offer in offers if offer.committed_hours is not None},
    )


def shared_peaks(limits: Limits, market: Market) -> tuple[Peak, ...]:
    """Return what limits the jobs of a market at one time, but for dollars per hour, which need a timetable."""
    return tuple(
        Peak(limit.key, most, market.use_of(limit)) for limit, most in given_peaks(limits) if not limit.is_of_dollars
    )


def typical_stock(scenario: Scenario, market: Market) -> TypicalPeaks | None:
    """Return the typical stock of what training jobs may rent of a market; None where at most one job trains."""
    counts = np.asarray([job.trains for job in scenario.jobs], dtype=bool)
    if np.count_nonzero(counts) < 2 or scenario.limits.typical_stock is None:
        return None
    kinds: dict[tuple[str, str, int], int] = {}
    kind = np.full(len(market.offers), -1, dtype=np.int64)
    for place, offer in enumerate(market.offers):
        if (most := scenario.limits.typical_gpus(offer)) is not None:
            kind[place] = kinds.setdefault((offer.provider, offer.card, most), len(kinds))
    gpus = np.asarray([offer.gpus for offer in market.offers], dtype=np.int64)
    names = tuple(f"{gpu} at {provider}" for provider, gpu, _ in kinds)
    return TypicalPeaks(names, np.asarray([most for *_, most in kinds], dtype=float), kind, gpus, counts)


def build_shared_limits(scenario: Scenario, market: Market) -> SharedLimits:
    """Return the limits that become rows: those that jobs share, and the budget, which is a row for one job too."""
    limits = scenario.limits
    shared = SharedLimits()
    if len(scenario.jobs) > 1:
        shared = replace(limits_of_offers(market), peaks=shared_peaks(limits, market), quota=limits.quota)
    return replace(
        shared,
        budget_usd=limits.budget_usd,
        objective=scenario.objective_kind,
        value_of_time_usd_per_hour=scenario.value_of_time_usd_per_hour,
    )


METHOD_LABELS = ("QLoRA", "LoRA", "full")


def method_labels(candidates: JobCandidates) -> tuple[str, ...]:
    """Return the rungs of the ladder of a job: of generation engines and bits, most bits first."""
    if candidates.job.trains:
        return METHOD_LABELS
    return tuple(
        dict.fromkeys(
            recipe.method_label for recipe in sorted(candidates.recipes, key=lambda recipe: -recipe.weight_bits)
        )
    )


def with_excluded_methods(prepared: PreparedScenario, job: int) -> CandidateTable:
    """Return the job's screened candidates, and of those that only their method excludes what may be the best."""
    candidates, table = prepared.candidates[job], prepared.screened[job].table
    labels = method_labels(candidates)
    recipes = [
        recipe.method_label in labels and not is_allowed(recipe, candidates.job) for recipe in candidates.recipes
    ]
    if not any(recipes):
        return table
    is_excluded = np.asarray(recipes, dtype=bool)
    limits, waiting_usd = prepared.scenario.limits, CandidateObjective.of(prepared.scenario).waiting_usd
    excluded = screen(candidates, prepared.market, limits, prepared.library, is_excluded, waiting_usd, BEST_OF_METHODS)
    return concatenate([table, excluded.table])


BOUND_ROUNDING = 1e-6
"""Relative: rounding puts a bound above what it bounds, or hours above a deadline, by less."""


def screen_up_to(
    prepared: PreparedScenario,
    candidates: JobCandidates,
    limits: Limits,
    known: CandidateTable,
    keeps_ties: bool = False,
) -> ScreenedCandidates:
    """Return what `screen` finds best within stricter limits, with the rows of `candidates`.

    Of the screened candidates of the job those that are `known` keep them at their least spot share. Whatever cannot
    cost less than the best of these is not screened again; with `keeps_ties` it may cost a near tie more. Hours are not
    bounded this way: those of drawn runs may be fewer than those of their means.
    """
    objective, rows, scope = CandidateObjective.of(prepared.scenario), np.arange(len(candidates.table)), BEST
    if not objective.by_time:
        value = objective.values(known, known.share_low)
        affordable = known.late_cost_usd(known.share_low) <= objective.budget_usd
        least = float(np.min(value[affordable], initial=np.inf))
        least += BOUND_ROUNDING * max(1.0, least) + (prepared.scenario.near_tie_usd(least) if keeps_ties else 0.0)
        rows, scope = promising_rows(candidates, objective, least), replace(BEST, below=least)
    some = candidates.rows(rows)
    screened = screen(some, prepared.market, limits, prepared.library, True, objective.waiting_usd, scope)
    return replace(screened, rows=rows[screened.rows])
