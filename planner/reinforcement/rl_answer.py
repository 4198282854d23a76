"""The answer of a plan for a job of reinforcement learning: what to rent, other ways, the step as a strip of phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reinforcement.rl_text import NETWORK_RISK, SPEED_RISK, memory_lines, tail_words, waiting_words
from planner.report import plan_sections, words
from planner.report.explanation_text import render_infeasible
from planner.report.words import line_room
from planner.results.rl_run import RL_PHASE_NAMES

if TYPE_CHECKING:
    from planner.results.plan import Plan
    from planner.results.rl_run import RlPool, RlRun
    from planner.results.what_if import WhatIf

STRIP = 56
"""Characters of the strip of a step."""
RISKS = (SPEED_RISK, NETWORK_RISK)
SIGNS = {"rollout": "R", "log_probabilities": "L", "training": "T", "new_weights": "W", "fixed": "."}
"""One character of the strip for each phase."""


def render_rl_answer(plan: Plan) -> str:
    """Return the answer without a final newline."""
    (run,) = plan.reinforcement
    return "\n".join(
        [
            *words.wrap_lines(f"{words.sanitise(plan.scenario)}: {_headline(plan)}", words.width(), 2),
            *(
                line
                for risk in risk_lines(run)
                for line in words.hang("! ", words.wrap_lines(risk, words.width() - 2, 2))
            ),
            "",
            *_ways(run),
            *([""] if run.ways else []),
            *words.section("Step", words.wrap_all(_step(run), line_room(), 3)),
            *words.section("Train", words.wrap_all(_train(run), line_room(), 2)),
            *words.section("Rollout", words.wrap_all(_rollout(run), line_room(), 2)),
            *words.section("Memory", words.wrap_all(memory_lines(run.memory), line_room(), 2)),
            *words.section("Time", words.wrap_all(_time(run), line_room(), 2)),
            *words.section("Bill", plan_sections.bill(run)),
            *words.section("Per 100", words.wrap_all(_per_100(run), line_room(), 4)),
            *words.section("Assumed", words.wrap_lines(", ".join(run.assumed), line_room(), 3) if run.assumed else []),
            *words.section("Notes", words.wrap_all(_notes(run), line_room(), 3)),
            *words.section("Why", words.wrap_all([_why(plan)], line_room(), 2)),
        ]
    )


def _pool_words(pool: RlPool) -> str:
    place = pool.provider + (", spot" if pool.market == "spot" else "")
    hosts = ", private host" if pool.tier == "community" else ""
    return words.sanitise(f"{words.gpus(pool.gpus, pool.gpu)} at {place}{hosts}")


def _headline(plan: Plan) -> str:
    """Return machines, how they share the work, dollars and the hours at the confidence."""
    (run,) = plan.reinforcement
    first, *others = run.pools
    if others:
        machines = f"{_pool_words(first)} train, {_pool_words(others[0])} sample"
    elif run.placement == "one machine":
        machines = f"{_pool_words(first)}, {run.training_gpus} train and {run.rollout_gpus} sample"
    else:
        machines = f"{_pool_words(first)}, all train and sample in turn"
    return f"{machines}, {words.usd(run.cost_usd)}, {words.by(run.hours.at_confidence)}"


def risk_lines(run: RlRun) -> list[str]:
    """Return what would change the decision, a line each."""
    lines = [note for note in run.notes if note.startswith(RISKS)]
    if any(pool.tier == "community" for pool in run.pools):
        lines.append("a private person's machine: secure ones with --set limits.tiers.forbid=[community]")
    if run.price_age_days is not None and run.price_age_days > 60:
        lines.append(f"prices are {run.price_age_days} days old: planner prices update")
    return lines


def _notes(run: RlRun) -> list[str]:
    """Return the notes that are no risk."""
    return [note for note in run.notes if not note.startswith(RISKS)]


def _ways(run: RlRun) -> list[str]:
    """Return a row for each way, the plan's with its sign."""
    if not run.ways:
        return []
    rows = [
        [
            f"{'>' if way.label == 'plan' else ' '} {way.label}",
            words.sanitise(way.machines),
            f"{way.usd_per_hour:,.2f}",
            words.usd(way.cost_usd),
            f"{way.hours_at_confidence:,.1f} h",
            f"{words.significant(way.step_seconds)} s",
        ]
        for way in run.ways
    ]
    header, right = ["  way", "GPUs", "$/h", "cost", "by", "step"], {2, 3, 4, 5}
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    widths[1] = min(widths[1], words.width() - sum(widths) + widths[1] - 2 * len(right) - 2)
    rows = [[row[0], words.shorten(row[1], widths[1]), *row[2:]] for row in rows]
    return [
        "  ".join(
            cell.rjust(size) if index in right else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]


def _strip(run: RlRun) -> list[str]:
    """Return the step as strips: one where phases follow one another, one for each side where they overlap."""

    def strip(names: tuple[str, ...]) -> str:
        return "".join(SIGNS[name] * max(round(STRIP * run.phases[name] / run.step_seconds), 1) for name in names)

    rest = ("new_weights", "fixed")
    if not run.overlapped:
        return [strip(("rollout", "log_probabilities", "training", *rest))]
    sampling, training = strip(("rollout",)), strip(("log_probabilities", "training"))
    size = max(len(sampling), len(training))
    end = strip(rest)
    return [f"engines {sampling.ljust(size, '-')}{end}", f"trainer {training.ljust(size, '-')}{end}"]


def _step(run: RlRun) -> list[str]:
    named = {name: seconds for name, seconds in run.phases.items() if seconds > 0}
    legend = ", ".join(
        f"{SIGNS[name]} {RL_PHASE_NAMES[name]} {words.significant(seconds)} s" for name, seconds in named.items()
    )
    first = f"{words.significant(run.step_seconds)} s: {legend}" + (", - waits" if run.overlapped else "")
    return [*_strip(run), first, waiting_words(run.overlapped, run.idle, run.idle_share), tail_words(run)]


def _train(run: RlRun) -> list[str]:
    trained = "all weights" if run.method == "full" else f"LoRA r{run.lora_rank} on {run.weight_bits}-bit weights"
    how = f"{trained}, {run.sharding}, {run.activation_checkpointing} checkpointing, {run.optimizer}"
    count = f"{run.sequences:,} answers a step, at most {run.micro_batch} of the longest on a GPU at a time"
    return [f"{run.algorithm}, {how}", count]


def _rollout(run: RlRun) -> list[str]:
    gpu = run.pools[-1].gpu
    engines = f"{run.engines} x {run.engine} of {words.gpus(run.gpus_per_engine, gpu)}"
    lengths = f"{run.input_tokens:,.0f} tokens in, {run.output_tokens:,.0f} out, cut at {run.longest_output:,}"
    return [f"{run.sampled:,} answers a step: {lengths}", f"{engines}, {run.seats:,} answers at a time each"]


def _time(run: RlRun) -> list[str]:
    deadline = f"; deadline {words.hours(run.deadline_hours)}" if run.deadline_hours is not None else ""
    low, high = words.hours(run.hours.low), words.hours(run.hours.high)
    likely = f"likely {words.hours(run.hours.expected)} ({low} to {high})"
    return [f"{run.steps:,} steps, {likely}, {words.by(run.hours.at_confidence)}{deadline}"]


def _per_100(run: RlRun) -> list[str]:
    """Return the dollars of 100 steps, and what they would be with other work on the same machines."""
    changed = [
        f"{what}: {'does not fit on these machines' if usd is None else words.usd(usd)}"
        for what, usd in run.changes.items()
    ]
    return [f"{words.usd(run.usd_per_100_steps)} for each 100 steps", *changed]


def _why(plan: Plan) -> str:
    return f"proven cheapest of {plan.candidates.made:,} ways; check with planner check"


def rl_sections(run: RlRun) -> list[tuple[str, list[str]]]:
    """Return the sections of the answer with their lines, as a page shows them; step, ways and bill are figures."""
    return [
        ("Machines", [", ".join([_pool_words(pool), pool.role]) for pool in run.pools]),
        ("Step", [waiting_words(run.overlapped, run.idle, run.idle_share), tail_words(run)]),
        ("Train", _train(run)),
        ("Rollout", _rollout(run)),
        ("Memory", memory_lines(run.memory)),
        ("Time", _time(run)),
        ("Per 100", _per_100(run)),
        ("Assumed", list(run.assumed)),
        ("Notes", _notes(run)),
    ]


# Before and after a change.


def render_rl_what_if(answer: WhatIf) -> str:
    """Return the text of a what-if without a final newline: both plans, and what changed."""
    before, after = answer.before, answer.after
    if not after.reinforcement:
        return "\n".join([words.first_fitting(answer.scenario, "no plan after the change"), *render_infeasible(after)])
    rows = [(name, _figure(before, name), _figure(after, name)) for name in WHAT_IF_ROWS]
    usd, hours = answer.delta.cost_usd, answer.delta.hours
    changed = "feasible after the change"
    if usd is not None and hours is not None:
        changed = f"{'+' if usd >= 0 else '-'} {words.usd(abs(usd))}, {'+' if hours >= 0 else '-'} {abs(hours):,.1f} h"
        changed = "nothing changes" if all(old == new for _, old, new in rows) else changed
    lines = [f"{words.sanitise(answer.scenario)}: {changed}", ""]
    lines += [f"  {'':<10}{'before':<34}after"]
    return "\n".join([*lines, *(f"  {name:<10}{words.shorten(old, 32):<34}{new}".rstrip() for name, old, new in rows)])


WHAT_IF_ROWS = ("machines", "way", "step", "cost", "by", "per 100")
"""Rows of a what-if."""


def _figure(plan: Plan, name: str) -> str:
    """Return a figure of a plan; nothing where there is none."""
    if not plan.reinforcement:
        return plan.status if name == "machines" else ""
    (run,) = plan.reinforcement
    return {
        "machines": " + ".join(f"{words.gpus(pool.gpus, pool.gpu)} {pool.provider}" for pool in run.pools),
        "way": f"{run.placement}, {'overlapped' if run.overlapped else 'in turn'}",
        "step": f"{words.significant(run.step_seconds)} s",
        "cost": words.usd(run.cost_usd),
        "by": f"{run.hours.at_confidence:,.1f} h",
        "per 100": words.usd(run.usd_per_100_steps),
    }[name]
