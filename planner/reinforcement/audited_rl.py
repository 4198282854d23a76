"""Jobs of reinforcement learning against their evaluation, limits, totals.

Nothing of how the way was found is known here. Not recomputed are other ways than the plan's, the bound and the notes.
Jobs before and after runs are audited as a plan of their own, with what the runs leave them; here are their times
around these, and the totals of all.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import TYPE_CHECKING

from planner.errors import ScenarioError
from planner.evaluation.comparison import Broken, Tolerance, Violation, at_most, compare
from planner.library.schema import Library
from planner.reinforcement.evaluated_rl import EvaluatedRl, NamedRl, changes_of, evaluate_rl, host_room_gb, report_rl
from planner.reinforcement.rl_step import REWARD_GPUS
from planner.results.plan import SAME_HOUR, Plan
from planner.results.plan_parts import Hours, Spread
from planner.results.subject_runs import RlRun
from planner.scenario.limits import given_peaks, latest_finish_hours
from planner.scenario.rl_job import TRAINER_DEGREES, RlJob
from planner.scenario.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

RL_AGREEMENT = 1e-6
"""Relative difference of two figures that are the same."""
NOT_OF_NAMES = ("ways", "changes", "assumed", "notes", "bound_usd", "start_at_hours")
"""What a plan says of a run beside what its names decide."""


def audit_rl(plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
    """Return every disagreement between the runs of a plan and what follows from scenario and library."""
    asked = {job.name: job for job in scenario.jobs if isinstance(job, RlJob)}
    stated = ", ".join(run.name for run in plan.reinforcement)
    violations = compare("", "reinforcement", ", ".join(asked), stated, tolerance)
    for run in plan.reinforcement:
        if (job := asked.get(run.name)) is not None:
            violations += _audit_run(run, job, scenario, library, plan.as_of, tolerance)
    for run in plan.reinforcement:
        if (job := asked.get(run.name)) is not None:
            violations += _times(run, job, plan, tolerance)
    if len(plan.parts_that_end) > 1:
        violations += [Violation("", *broken) for broken in _needs(plan)]
    return violations + [violation for total in TOTALS for violation in _total(total, plan, scenario, tolerance)]


TOTALS = ("hours", "cost", "cost_at_confidence")
"""Figures of a plan that follow from its parts."""


def _times(run: RlRun, job: RlJob, plan: Plan, tolerance: Tolerance) -> list[Violation]:
    """Return where a run starts at another time than when the jobs that it waits for have ended, or ends too late.

    Nothing else runs while it does: a job that does not wait for it, directly or through others, has ended.
    """
    ends = {other.name: other.finish_hours for other in plan.parts_that_end}
    start = max((ends.get(wait.job, math.inf) + wait.lag_hours for wait in job.after), default=0.0)
    violations = compare(run.name, "start_at_hours", start, run.start_at_hours, tolerance, "hours")
    limit = job.planned_deadline_hours
    end, room = run.start_at_hours + run.hours.at_confidence, RL_AGREEMENT * (limit or 0.0)
    violations += [Violation(run.name, *broken) for broken in at_most("deadline_hours", limit, end, room)]
    for other in (part for part in plan.parts_that_end if part.name != run.name):
        if other.start_at_hours < end - SAME_HOUR and other.finish_hours > run.start_at_hours + SAME_HOUR:
            violations.append(
                Violation(other.name, "times", f"not at the same time as {run.name}", other.start_at_hours)
            )
    return violations


def _needs(plan: Plan) -> Iterator[Broken]:
    """Yield GPUs that several parts hold at one time, and the most of each kind, that the plan states otherwise."""
    parts, moments = plan.parts_that_end, list[Counter[tuple[str, str]]]()
    for at in sorted({part.start_at_hours for part in parts}):
        held = Counter[tuple[str, str]]()
        for part in parts:
            if part.start_at_hours <= at + SAME_HOUR < part.finish_hours - SAME_HOUR:
                for provider, gpu, gpus in part.held:
                    held[provider, gpu] += gpus
        moments.append(held)
    busiest, most = max(moments, key=Counter.total), Counter[tuple[str, str]]()
    for held in moments:
        most |= held
    needed = {"at_one_time": busiest, "most_of_each": most if most != busiest else Counter()}
    for field, needs in needed.items():
        stated = Counter({(need.provider, need.gpu): need.gpus for need in getattr(plan, field)})
        if stated != needs:
            yield field, str(dict(needs)), str(dict(stated))


def _total(total: str, plan: Plan, scenario: Scenario, tolerance: Tolerance) -> list[Violation]:
    """Return where a figure of the whole plan is not that of its parts: dollars add up, the last end sets the hours.

    Of several jobs dollars at the confidence are checked with those of the others; here they keep the budget.
    """
    parts, stated = plan.parts_that_end, getattr(plan, total)
    if total == "cost_at_confidence":
        if len(parts) < 2:
            return []
        most = scenario.limits.budget_usd
        violations = [
            Violation("", *broken) for broken in at_most("limits.budget_usd", most, stated or 0.0, tolerance.usd)
        ]
        late = math.fsum(run.cost_at_confidence for run in plan.reinforcement)
        return violations if plan.jobs else [*violations, *compare("", total, late, stated, tolerance, "usd")]
    if total == "cost":
        paid = math.fsum(reservation.usd for reservation in plan.reservations)
        usd = {name: paid + math.fsum(getattr(part.cost, name) for part in parts) for name in Spread.model_fields}
        return compare("", total, Spread(**usd), stated, tolerance)
    ends = {name: max(part.delay_hours + getattr(part.hours, name) for part in parts) for name in Hours.model_fields}
    return compare("", total, Hours(**ends), stated, tolerance)


def _audit_run(
    run: RlRun, job: RlJob, scenario: Scenario, library: Library, as_of: str, tolerance: Tolerance
) -> list[Violation]:
    """Return what is wrong with one run."""
    offers = dict(scenario.labelled_offers())
    if unknown := run.offers_named - offers.keys():
        return [Violation(run.name, "pools.offer", "offers of the scenario", ", ".join(sorted(unknown)))]
    try:
        made = evaluate_rl(NamedRl.of(run), job, scenario, offers, library)
        own = report_rl(made, datetime.date.fromisoformat(as_of))
        own = own.model_copy(update={name: getattr(run, name) for name in NOT_OF_NAMES})
        bare: dict[str, object] = {"changes": {}}
        violations = compare(run.name, "", own.model_copy(update=bare), run.model_copy(update=bare), tolerance)
        explained = bool(run.ways or run.changes)  # a plan that is compared with another one has neither
        changes = changes_of(made, run.start_at_hours) if explained else {}
        violations += compare(run.name, "changes", ", ".join(changes), ", ".join(run.changes), tolerance)
        for change in changes.keys() & run.changes.keys():
            violations += compare(run.name, f"changes.{change}", changes[change], run.changes[change], tolerance, "usd")
        own_rows = [way for way in run.ways if way.label == "plan"]
        violations += compare(run.name, "ways.plan", int(explained), len(own_rows), tolerance)
        for way in own_rows:
            violations += compare(run.name, "ways.plan.cost_usd", own.cost_usd, way.cost_usd, tolerance, "usd")
            late = own.hours.at_confidence
            violations += compare(run.name, "ways.plan.hours_at_confidence", late, way.hours_at_confidence, tolerance)
        broken = [*_choices(made, job), *_limits(made, own, scenario)]
        return violations + [Violation(run.name, *fault) for fault in broken]
    except (ScenarioError, ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
        # A plan of nonsense names or counts has no figures to compare.
        return [Violation(run.name, "figures", "something to compute", repr(error))]


def _choices(made: EvaluatedRl, job: RlJob) -> Iterator[Broken]:
    """Yield what a run chooses that its job does not allow, or that its machines do not have."""
    named, asked = made.named, job.techniques
    allowed = {
        "framework": job.framework,
        **{name: getattr(asked, name) for name in TRAINER_DEGREES},
        "method": asked.method,
        "sharding": asked.sharding if made.training_gpus > 1 else None,
        "activation_checkpointing": asked.activation_checkpointing,
        "optimizer": asked.optimizer,
        "weight_bits": (asked.weight_bits or (16,)) if named.method != "full" else (16,),
        "gpus_per_engine": job.rollout.tensor_parallel,
        "rollout_weight_bits": job.rollout.weight_bits,
        "engine": job.rollout.engine,
    }
    for name, values in allowed.items():
        if values is not None and getattr(named, name) not in values:
            yield name, " or ".join(map(str, values)), getattr(named, name)
    yield from _layout(made)
    if ("colocated" if named.placement == "colocated" else "apart") not in job.rollout.placement:
        yield "placement", " or ".join(job.rollout.placement), named.placement
    if named.overlapped != (named.placement != "colocated" and job.staleness > 0):
        yield "overlapped", str(job.staleness > 0), str(named.overlapped)
    if named.trainer.on_spot:
        yield "market", "on demand for the trainer", "spot"
    yield from _reward_choices(made, job)
    engines = made.engines_pool
    if engines.offer.gpus % named.gpus_per_engine and named.placement != "one machine":
        yield "gpus_per_engine", f"a divisor of {engines.offer.gpus}", named.gpus_per_engine
    whole = engines.offer.gpus * engines.named.instances - (0 if made.rollout else named.reward_gpus)
    if named.placement == "one machine":
        if not 0 < named.rollout_gpus < whole or named.trainer.instances != 1:
            yield "rollout_gpus", f"fewer than the {engines.offer.gpus} GPUs of one machine", named.rollout_gpus
    elif named.rollout_gpus != whole:
        yield "rollout_gpus", whole, named.rollout_gpus


def _reward_choices(made: EvaluatedRl, job: RlJob) -> Iterator[Broken]:
    """Yield what a run chooses of its reward model that its job does not allow, or that its machines do not have."""
    named, asked, gpus_of_machine = made.named, job.reward_model, made.trainer.offer.gpus
    if asked is None:
        if named.reward_gpus or named.reward_offloads:
            yield "reward_model", "none", f"{named.reward_gpus} GPUs"
        return
    placement = "own" if named.reward_gpus else "shared"
    if placement not in asked.placement:
        yield "reward.placement", " or ".join(asked.placement), placement
    if named.reward_offloads and (asked.offload is False or named.reward_gpus):
        yield "reward_offloads", "False", "True"
    if asked.offload and not named.reward_offloads and not named.reward_gpus:
        yield "reward_offloads", "True", "False"
    if gpus := named.reward_gpus:
        is_part, is_whole = gpus < gpus_of_machine and named.trainer.instances == 1, gpus % gpus_of_machine == 0
        if gpus not in REWARD_GPUS or not (is_part or is_whole) or made.training_gpus < 1:
            allowed = f"{' or '.join(map(str, REWARD_GPUS))}, of one machine or whole machines"
            yield "reward_gpus", allowed, gpus


def _layout(made: EvaluatedRl) -> Iterator[Broken]:
    """Yield degrees of the trainer that its GPUs or its model do not divide by."""
    named, gpus = made.named, made.training_gpus
    group = named.tensor_parallel * named.pipeline_parallel * named.context_parallel
    if gpus % group:
        yield "tensor_parallel x pipeline_parallel x context_parallel", f"a divisor of {gpus} GPUs", group
    yield from at_most("tensor_parallel", min(gpus, made.trainer.offer.gpus), named.tensor_parallel)
    yield from at_most("pipeline_parallel", made.architecture.layers, named.pipeline_parallel)
    if (fault := made.architecture.split_fault(named.tensor_parallel)) is not None:
        yield "tensor_parallel", fault, named.tensor_parallel
    if named.expert_parallel > 1 and (made.architecture.experts or 1) % named.expert_parallel:
        yield "expert_parallel", f"a divisor of {made.architecture.experts} experts", named.expert_parallel


def _limits(made: EvaluatedRl, run: RlRun, scenario: Scenario) -> Iterator[Broken]:
    """Yield the limits that a run breaks."""
    limits, room = scenario.limits, 1.0 + RL_AGREEMENT
    for phase in run.memory:
        yield from at_most(f"memory.{phase.phase}", phase.usable, phase.peak, RL_AGREEMENT * phase.usable)
    yield from at_most("host_gb", host_room_gb(made.trainer.offer, made.trainer.card) * room, run.host_gb)
    yield from at_most("hours", latest_finish_hours(made.job, limits) * room, run.hours.at_confidence)
    if limits.budget_usd is not None:
        yield from at_most("cost_at_confidence", limits.budget_usd * room, run.cost_at_confidence)
    for limit, most in given_peaks(limits):
        if limit.of_machine is None:
            used = math.fsum(pool.price * pool.named.instances for pool in made.pools)
        else:
            used = math.fsum(limit.of_machine(pool.offer, pool.card) * pool.named.instances for pool in made.pools)
        yield from at_most(limit.path, most * room, used)
    gpus, machines = Counter[str](), Counter[str]()
    for pool in made.pools:
        gpus[pool.offer.provider] += pool.offer.gpus * pool.named.instances
        machines[pool.named.offer] += pool.named.instances
        if not limits.permits(pool.offer) or limits.is_outdated(pool.offer) or not limits.has_stock(pool.offer):
            yield "offer", "one that the limits allow", pool.named.offer
        if pool.named.on_spot and (limits.spot_share.max <= 0 or not pool.offer.has_spot):
            yield "market", "on demand", "spot"
        if pool.offer.stock is not None:
            yield from at_most(f"machines of {pool.named.offer}", pool.offer.stock, machines[pool.named.offer])
    for provider, count in gpus.items():
        yield from at_most(f"limits.quota.{provider}", limits.quota.get(provider), count)
    nodes = made.trainer.offer.max_nodes
    yield from at_most("machines of the trainer", nodes, made.trainer.named.instances)
