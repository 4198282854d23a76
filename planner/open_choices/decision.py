"""The decision on an open job: which alternative wins, what the plan says about the others, and the check of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.errors import Fault, ScenarioError
from planner.evaluation.comparison import Broken, Violation
from planner.library.schema import Architecture, Library
from planner.open_choices import loss_laws
from planner.open_choices.choice_alternatives import (
    Alternative,
    Found,
    best_of,
    given_price,
    known_range,
    tokens_at,
    tokens_for_loss,
)
from planner.open_choices.loss_laws import law_of, level_spread
from planner.results.plan import Assignment, Plan
from planner.results.subject_runs import (
    END_OF_SIZES,
    LAST_DIGIT,
    OTHER_DATA,
    REPEATED_DATA,
    WASTED_TOKENS,
    BatchChoice,
    LossRange,
    ModelChoice,
    ModelOption,
    MoreMoney,
)
from planner.scenario.job import Job
from planner.scenario.open_job import OpenJob, OwnLaw
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, decide, decide_scenario, open_jobs
from planner.units import MEGA, count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MORE_MONEY = 1.5
"""The budget whose least loss is shown next to that of the plan, over the budget."""
NEAR_COST = 1.1
"""Cost of other models or batches that are named, over that of the plan, where the least cost decides."""
MOST_NAMED = 8
"""Most other models that a plan names."""
SPREAD_NOTE = (
    f"the loss follows a law of published runs: compare sizes by it; its level depends on data and tokenizer, by up to "
    f"{loss_laws.LEVEL_SPREAD:g} nats either way, and losses of runs of your own calibrate it"
)
LARGEST_NOTE = f"{END_OF_SIZES} largest that the job allows: a larger one may be better"
SMALLEST_NOTE = f"{END_OF_SIZES} smallest that the job allows: a smaller one may be better"
LEAST_WASTE = 0.05
"""Share of the tokens that a fixed batch wastes, from which on a plan says so."""
OTHER_LEVEL = 0.1
"""Nats by which the losses of other data may lie higher or lower, for which the dollars of a wanted loss are shown."""
VOCABULARY_NOTE = "losses per token of models with different vocabularies are compared by their parameters alone"
CAPPED_NOTE = "the money pays for more tokens than any run that the law has seen: the loss could be lower"


@dataclass(frozen=True)
class Decision:
    """The alternative that wins with its tokens at the reference batch, None where the work is given."""

    alternative: Alternative
    tokens: int | None
    compared: int
    options: tuple[ModelOption, ...] = ()
    more_money: MoreMoney | None = None
    is_capped: bool = False
    why_infeasible: str = ""
    vocabularies: int = 1
    above_least: float | None = None  # nats, of the sum over all jobs, where there are others
    edge: str = ""  # that the model is the largest or smallest of several
    unserved: str = ""  # the model that is the cheapest where serving does not count
    other_levels: str = ""  # dollars of the wanted loss where the losses of other data lie higher or lower

    @property
    def definite(self) -> Job:
        """The job with what was decided of it."""
        return self.alternative.definite(self.tokens).jobs[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of the choice."""
        alternative, job = self.alternative, self.alternative.job
        if not job.uses_law or self.tokens is None:
            return (CAPPED_NOTE,) if self.is_capped else ()
        lines = [_repetition_note(job.unique_tokens, self.tokens), _batch_note(alternative, self.tokens)]
        lines += [self.unserved, self.edge, self.other_levels, CAPPED_NOTE if self.is_capped else ""]
        lines += ["" if level_spread(job) < loss_laws.LEVEL_SPREAD else SPREAD_NOTE]
        lines += [VOCABULARY_NOTE if self.vocabularies > 1 else ""]
        return tuple(note for note in lines if note)

    def binding(self, dollars: tuple[str, ...]) -> tuple[str, ...]:
        """Return what limits the choice, given the limits without which its own run would cost fewer dollars.

        Where the loss is minimised the budget limits it if more money lowers it.
        """
        if not self.alternative.job.wants_least_loss or self.tokens is None:
            return dollars
        limits = [
            f"{dollar.removesuffix(')')} for these tokens)" if dollar.endswith(")") else dollar for dollar in dollars
        ]
        more, loss = self.more_money, self.alternative.loss(self.tokens)
        if more is not None and loss - more.loss >= LAST_DIGIT:
            limits.insert(0, f"budget (with ${more.budget_usd:,.2f}: loss {loss - more.loss:.3f} lower)")
        return tuple(limits)

    def choice(self) -> ModelChoice:
        """Return what the plan says of the choice."""
        alternative, job = self.alternative, self.alternative.job
        reference = (
            self.tokens
            if self.tokens is not None
            else int(alternative.prepared(None).candidates[0].physics.shape.tokens)
        )
        run = alternative.run_tokens(reference)[0] if self.tokens is not None else reference
        loss = alternative.loss(reference) if job.uses_law else None
        span = None
        if loss is not None:
            low, high = loss_laws.loss_range(loss, reference, job.unique_tokens, level_spread(job))
            span = LossRange(value=loss, low=low, high=high)
        return ModelChoice(
            architecture=alternative.architecture.name,
            parameters=alternative.architecture.parameters,
            law_parameters=alternative.size,
            tokens=run,
            tokens_at_reference=reference,
            loss=span,
            law=None if loss is None else "own" if isinstance(job.loss_law, OwnLaw) else job.loss_law,
            unique_tokens=job.unique_tokens,
            as_good=self.options,
            more_money=self.more_money,
            batch=_batch_choice(alternative, reference),
            compared=self.compared,
            above_least=self.above_least,
            serving=alternative.serving,
        )


def _repetition_note(unique: int | None, tokens: int) -> str:
    """Return that the data are repeated more often than the law has seen; empty where they are not."""
    if unique is None or not loss_laws.repetition_spread(tokens, unique):
        return ""
    passes = f"{tokens / unique:,.0f} {REPEATED_DATA} {unique:,} tokens"
    return (
        f"{passes}: the law of repeated data was fitted up to {loss_laws.MOST_EPOCHS:.0f} passes over "
        f"{loss_laws.FEWEST_UNIQUE:,.0f} tokens or more, and beyond them losses rose; the range is widened by a prior"
    )


def _batch_note(alternative: Alternative, tokens: int) -> str:
    """Return what share of the tokens the batch wastes, where nothing smaller is allowed; empty where it is little."""
    wasted = 1 - loss_laws.tokens_at_law_batch(tokens, alternative.first_batch) / tokens
    if wasted < LEAST_WASTE:
        return ""
    critical = loss_laws.critical_batch(tokens)
    return (
        f"steps of {alternative.first_batch:,} tokens are larger than those of the law's runs "
        f"({loss_laws.LAW_BATCH:,.0f}; "
        f"critical batch {critical:,.0f}): {wasted:.0%} of the {WASTED_TOKENS}, which the loss counts"
    )


def _batch_choice(alternative: Alternative, reference: int) -> BatchChoice | None:
    """Return what the batch of an alternative costs; None where one batch is given."""
    job = alternative.job
    if not job.opens_batch:
        return None
    first = job.batches[0]
    run, sigma = alternative.run_tokens(reference)
    critical = loss_laws.critical_batch(reference)
    reach = math.exp(loss_laws.BATCH_SIGMA)
    factor = run / reference
    return BatchChoice(
        sequences=alternative.batch,
        tokens=alternative.batch * alternative.sequence,
        reference_sequences=first,
        critical_tokens=critical,
        critical_tokens_low=critical / reach,
        critical_tokens_high=critical * reach,
        token_factor=factor,
        step_factor=factor * first / alternative.batch,
        learning_rate_factor=math.sqrt(alternative.batch / first),
        sigma=sigma,
    )


def decide_alone(alternatives: Sequence[Alternative], options: SolveOptions) -> Decision:
    """Return the alternative of the only job of a scenario that is the best, or the one to look at without a plan."""
    first = alternatives[0]
    if first.job.wants_least_loss:
        return decide_least_loss(alternatives, first.scenario.limits.budget_usd)
    return decide_least_objective(alternatives, options)


def decide_least_loss(alternatives: Sequence[Alternative], budget_usd: float | None) -> Decision:
    """Return the model with the most tokens that budget and deadline pay for, of the least loss."""
    budget = math.inf if budget_usd is None else budget_usd
    near = best_of(alternatives, budget)
    compared = len(alternatives)
    if not near:
        return least_start(alternatives)
    if all(choice.is_capped for choice in near) and _pays_all(alternatives, budget):
        _refuse_capped(alternatives, budget_usd)
    best, *others = map(without_waste, near)
    named = by_model(others, best.alternative.architecture.name)
    more = None
    if budget_usd is not None:
        better = best_of([choice.alternative for choice in near], budget * MORE_MONEY, slack=0.0)[0]
        model = better.alternative.architecture.name
        more = MoreMoney(
            budget_usd=budget * MORE_MONEY, architecture=model, tokens=better.tokens, loss=min(better.loss, best.loss)
        )
    widths = {alternative.architecture.vocab for alternative in alternatives}
    edge = _edge_note(best.alternative, alternatives)
    return Decision(
        *(best.alternative, best.tokens, compared, named, more, best.is_capped), vocabularies=len(widths), edge=edge
    )


def without_waste(choice: Found) -> Found:
    """Return the fewest tokens of a model that lose no digit that is shown: repeated ones are worth less and less."""
    if choice.alternative.job.unique_tokens is None:
        return choice
    tokens = tokens_for_loss(choice.alternative, choice.loss + LAST_DIGIT)
    if tokens is None or tokens >= choice.tokens:
        return choice
    return replace(choice, tokens=tokens, loss=choice.alternative.loss(tokens), is_capped=False)


def _edge_note(best: Alternative, alternatives: Sequence[Alternative]) -> str:
    """Return that the best model is the largest or the smallest of several; empty where it is neither."""
    sizes = sorted({alternative.size for alternative in alternatives})
    if len(sizes) == 1:
        return ""
    return {sizes[0]: SMALLEST_NOTE, sizes[-1]: LARGEST_NOTE}.get(best.size, "")


def by_model(choices: Sequence[Found], chosen: str) -> tuple[ModelOption, ...]:
    """Return the best of each other model, smallest first."""
    options: dict[str, ModelOption] = {}
    for choice in choices:
        model = choice.alternative.architecture
        if model.name != chosen and model.name not in options:
            options[model.name] = ModelOption(
                architecture=model.name,
                parameters=model.parameters,
                tokens=choice.tokens,
                loss=choice.loss,
                usd=choice.usd,
            )
    return tuple(sorted(list(options.values())[:MOST_NAMED], key=lambda option: option.parameters))


def _pays_all(alternatives: Sequence[Alternative], budget: float) -> bool:
    """Whether every model can be trained for as long as the law has seen."""
    ranges = [(alternative, known_range(alternative)) for alternative in alternatives]
    return all(
        alternative.least_usd(tokens_at(last)) <= budget for alternative, (first, last) in ranges if first <= last
    )


def _refuse_capped(alternatives: Sequence[Alternative], budget_usd: float | None) -> None:
    """Raise ScenarioError: every model could be trained for longer than the law has seen."""
    scenario, job = alternatives[0].scenario, alternatives[0].job
    wrong = "every model could be trained for longer than any run that the law has seen (350 tokens per parameter)"
    usd = max(alternative.least_usd(tokens_at(known_range(alternative)[1])) for alternative in alternatives)
    place = "limits.budget_usd" if budget_usd is not None else f"jobs.{job.name}.deadline"
    fix = (
        f"allow larger models, or at most ${usd:,.2f}"
        if budget_usd is not None
        else "allow larger models, or less time"
    )
    raise ScenarioError([Fault(scenario.name, 0, place, wrong, fix)])


def least_start(alternatives: Sequence[Alternative]) -> Decision:
    """Return the alternative whose shortest run that the law has seen costs least, with these tokens."""
    first = [
        (alternative, tokens_at(known_range(alternative)[0]))
        for alternative in alternatives
        if known_range(alternative)[0] <= known_range(alternative)[1]
    ]
    smallest, tokens = min(first, key=lambda pair: (pair[0].least_usd(pair[1]), pair[0].size * pair[1]))
    why = (
        f"the shortest run that the law has seen is looked at: {smallest.architecture.name} on {tokens:,} tokens "
        "(1e18 FLOP, and one token per parameter)"
    )
    return Decision(smallest, tokens, len(alternatives), why_infeasible=why)


def decide_least_objective(alternatives: Sequence[Alternative], options: SolveOptions) -> Decision:
    """Return the model and batch with the least objective for the work that is given, or for a loss."""
    wanted = alternatives[0].job.work.loss
    rows: list[tuple[float, Alternative, int | None]] = []
    for alternative in alternatives:
        tokens = tokens_for_loss(alternative, wanted) if wanted is not None else given_tokens(alternative)
        if tokens is None and wanted is not None:
            continue
        rows.append((alternative.objective(tokens, options), alternative, tokens))
    if not rows:
        raise ScenarioError([_unreached(alternatives)])
    least, best, tokens = min(rows, key=lambda row: (row[0], row[1].batch, row[1].size))
    if math.isinf(least):
        name = f"{best.architecture.name} at a batch of {best.batch:,}"
        return Decision(
            best, tokens, len(alternatives), why_infeasible=f"none of the alternatives is feasible; {name} is looked at"
        )
    options_named: dict[str, ModelOption] = {}
    for value, alternative, its in sorted(rows, key=lambda row: row[0]):
        name = alternative.architecture.name
        if name == best.architecture.name or value > NEAR_COST * least or name in options_named or its is None:
            continue
        loss = alternative.loss(its) if alternative.job.uses_law else None
        options_named[name] = ModelOption(
            architecture=name, parameters=alternative.architecture.parameters, tokens=its, loss=loss, usd=value
        )
    named = tuple(options_named.values())[:MOST_NAMED]
    if wanted is None:
        return Decision(best, tokens, len(alternatives), named)
    levels, edge = _other_levels(alternatives, wanted), _edge_note(best, alternatives)
    unserved = _without_serving(rows, best)
    return Decision(best, tokens, len(alternatives), named, other_levels=levels, edge=edge, unserved=unserved)


def _without_serving(rows: Sequence[tuple[float, Alternative, int | None]], best: Alternative) -> str:
    """Return the model that is the cheapest to train alone, where serving changes the choice; else empty."""
    if best.serving is None:
        return ""
    _, cheapest, tokens = min(rows, key=lambda row: (row[0] - row[1].serving_usd, row[1].batch, row[1].size))
    if cheapest.architecture.name == best.architecture.name or tokens is None:
        return ""
    value = next(value for value, other, _ in rows if other is cheapest) - cheapest.serving_usd
    return (
        f"without serving {cheapest.architecture.name} on {count_text(tokens)} tokens is the cheapest, ${value:,.2f}: "
        f"serving it costs ${cheapest.serving_usd:,.2f}"
    )


def _other_levels(alternatives: Sequence[Alternative], wanted: float) -> str:
    """Return the least dollars of a wanted loss where the losses of other data lie lower or higher than the law's."""

    def least_usd(loss: float) -> str:
        reached = [(alternative, tokens_for_loss(alternative, loss)) for alternative in alternatives]
        usd = [model.least_usd(tokens) + model.serving_usd for model, tokens in reached if tokens is not None]
        least = min(usd, default=math.inf)
        return f"${least:,.0f}" if math.isfinite(least) else "more than any model and limit here allow"

    lower, higher = least_usd(wanted + OTHER_LEVEL), least_usd(wanted - OTHER_LEVEL)
    goal = "this loss with its serving" if alternatives[0].serving is not None else "this loss"
    return (
        f"{OTHER_DATA}: with {OTHER_LEVEL:g} nats less {goal} costs {lower} at the "
        f"confidence, with {OTHER_LEVEL:g} more {higher}"
    )


def given_tokens(alternative: Alternative) -> int | None:
    """Return the tokens that the work gives, which a range of batches counts at its smallest one."""
    tokens = alternative.job.work.tokens if alternative.job.opens_batch else None
    if not isinstance(tokens, int):
        return None
    if not loss_laws.LEAST_BATCH_TOKENS <= tokens <= loss_laws.MOST_BATCH_TOKENS:
        wrong = f"{tokens:,} tokens: the critical batch is known from 1e9 to 1e12 tokens"
        fix = "give one number as global_batch"
        raise ScenarioError(
            [Fault(alternative.scenario.name, 0, f"jobs.{alternative.job.name}.global_batch", wrong, fix)]
        )
    return tokens


def _unreached(alternatives: Sequence[Alternative]) -> Fault:
    job = alternatives[0].job
    wrong = "no model reaches this loss within what the law has seen"
    return Fault(alternatives[0].scenario.name, 0, f"jobs.{job.name}.work.loss", wrong, "allow other sizes")


_ROUNDING = 0.6
"""Tokens by which a rounded number may differ."""


def decided_scenario(plan: Plan, scenario: Scenario, library: Library) -> tuple[Scenario | None, list[Violation]]:
    """Return the scenario with what the plan chose in place of what was open, and what is wrong with the choices.

    A scenario that leaves nothing open is returned as it is; None where the plan does not say what it chose.
    """
    jobs = {job.name: job for job in open_jobs(scenario)}
    violations = [
        Violation(job.name, "model", None, "a choice that was not left open")
        for job in plan.jobs
        if job.model is not None and job.name not in jobs
    ]
    if not jobs or not plan.jobs:
        return scenario, violations
    decided = []
    for job in jobs.values():
        definite, wrong = _decided(plan, job, library)
        violations += wrong
        if definite is None:
            return None, violations
        decided.append(definite)
    violations += _together(plan, scenario)
    return decide_scenario(scenario, *decided), violations


def _decided(plan: Plan, job: OpenJob, library: Library) -> tuple[Job | None, list[Violation]]:
    """Return an open job with what the plan chose of it, and what is wrong with the choice; None without one."""
    assignment = next((planned_job for planned_job in plan.jobs if planned_job.name == job.name), None)
    if assignment is None:
        return None, [Violation(job.name, "job", "an assignment", None)]
    chosen = assignment.model
    if chosen is None:
        return None, [Violation(job.name, "model", "what was chosen", None)]
    if chosen.architecture not in architectures_of(job):
        allowed = ", ".join(architectures_of(job))
        return None, [Violation(job.name, "model.architecture", f"one of {allowed}", chosen.architecture)]
    try:
        architecture = library.architecture(chosen.architecture)
    except KeyError as error:
        return None, [Violation(job.name, "model.architecture", "a model of the library", str(error.args[0]))]
    batch, sigma = _batch(chosen, job)
    given = not job.uses_law and not job.opens_batch
    violations = [Violation(job.name, *broken) for broken in _choice(chosen, job, architecture, assignment)]
    violations += _loss(chosen, job, architecture, assignment.sequence_length)
    return decide(job, architecture.name, batch, None if given else chosen.tokens, sigma), violations


def _together(plan: Plan, scenario: Scenario) -> list[Violation]:
    """Return where a plan of several jobs does not say, once for all, how far its losses may be above the least."""
    stated = {job.model.above_least for job in plan.jobs if job.model is not None}
    several = len(scenario.jobs) > 1
    wrong = [share for share in stated if (share is None) == several or (share is not None and share < 0)]
    if not wrong and len(stated) == 1:
        return []
    expected = "one number of at least 0" if several else None
    return [Violation(scenario.name, "model.above_least", expected, ", ".join(map(str, stated)))]


def _batch(chosen: ModelChoice, job: OpenJob) -> tuple[int, float]:
    """Return the batch of a choice in sequences, and the uncertainty that it adds."""
    if chosen.batch is None or not job.opens_batch:
        return job.batches[0], 0.0
    sequence = chosen.batch.tokens / max(chosen.batch.sequences, 1)
    reference = job.batches[0] * sequence
    sigma = loss_laws.batch_sigma(chosen.tokens_at_reference, chosen.batch.tokens, reference)
    return chosen.batch.sequences, sigma


def _choice(chosen: ModelChoice, job: OpenJob, architecture: Architecture, assignment: Assignment) -> Iterator[Broken]:
    """Yield what of model, tokens and batch was not left open, or does not follow from the law of the batch."""
    if chosen.parameters != architecture.parameters:
        yield "model.parameters", architecture.parameters, chosen.parameters
    if (chosen.batch is None) == job.opens_batch:
        yield (
            "model.batch",
            "one of the range" if chosen.batch is None else None,
            None if chosen.batch is None else "a batch",
        )
    factor = 1.0
    if chosen.batch is not None:
        yield from _batch_figures(chosen.batch, chosen, job, assignment)
        reference = job.batches[0] * assignment.sequence_length
        at_batch = chosen.batch.sequences * assignment.sequence_length
        wanted = loss_laws.batch_tokens(chosen.tokens_at_reference, at_batch, reference)
        factor = wanted / chosen.tokens_at_reference
    if abs(chosen.tokens - factor * chosen.tokens_at_reference) > _ROUNDING + 1e-9 * chosen.tokens:
        yield "model.tokens", round(factor * chosen.tokens_at_reference), chosen.tokens
    yield from _serving(chosen, job)
    if isinstance(job.work.tokens, int) and chosen.tokens_at_reference != job.work.tokens:
        yield "model.tokens_at_reference", job.work.tokens, chosen.tokens_at_reference


def _serving(chosen: ModelChoice, job: OpenJob) -> Iterator[Broken]:
    """Yield what of the dollars of serving does not follow from its tokens and from what was given."""
    cost = chosen.serving
    if (cost is None) != (job.serve_tokens is None):
        yield "model.serving", job.serve_tokens, None if cost is None else cost.tokens
    if cost is None:
        return
    if cost.tokens != job.serve_tokens:
        yield "model.serving.tokens", job.serve_tokens, cost.tokens
    given, price = job.serve_usd_per_million_tokens, cost.usd_per_million_tokens
    if given is not None and not math.isclose(given_price(given, chosen.parameters), price, rel_tol=1e-9):
        yield "model.serving.usd_per_million_tokens", given_price(given, chosen.parameters), price
    if not math.isclose(cost.usd, cost.tokens * price / MEGA, rel_tol=1e-9):
        yield "model.serving.usd", cost.tokens * price / MEGA, cost.usd


def _batch_figures(batch: BatchChoice, chosen: ModelChoice, job: OpenJob, assignment: Assignment) -> Iterator[Broken]:
    """Yield what of the batch's figures is not that of the law."""
    if batch.sequences not in job.batches:
        yield "model.batch.sequences", " or ".join(map(str, job.batches)), batch.sequences
    tokens, first = batch.sequences * assignment.sequence_length, job.batches[0] * assignment.sequence_length
    critical = loss_laws.critical_batch(chosen.tokens_at_reference)
    expected = {
        "tokens": tokens,
        "reference_sequences": job.batches[0],
        "critical_tokens": critical,
        "token_factor": chosen.tokens / chosen.tokens_at_reference,
        "step_factor": chosen.tokens / chosen.tokens_at_reference * first / tokens,
        "learning_rate_factor": math.sqrt(tokens / first),
        "sigma": loss_laws.batch_sigma(chosen.tokens_at_reference, tokens, first),
    }
    for name, value in expected.items():
        if not math.isclose(value, getattr(batch, name), rel_tol=1e-6, abs_tol=1e-9):
            yield f"model.batch.{name}", value, getattr(batch, name)


def _loss(chosen: ModelChoice, job: OpenJob, architecture: Architecture, sequence: int) -> list[Violation]:
    """Return where the loss is not that of the law, misses what was asked, or lies outside what the law has seen."""
    if not job.uses_law or chosen.loss is None:
        wrong = (chosen.loss is None) == job.uses_law
        return (
            [
                Violation(
                    job.name,
                    "model.loss",
                    "a loss" if job.uses_law else None,
                    None if chosen.loss is None else "a loss",
                )
            ]
            if wrong
            else []
        )
    law, level = law_of(job), level_spread(job)
    size = architecture.parameters - (0 if architecture.tied_embeddings else architecture.vocab * architecture.hidden)
    violations = []
    loss = law.loss_at_batch(size, chosen.tokens_at_reference, job.unique_tokens, job.batches[0] * sequence)
    low, high = loss_laws.loss_range(loss, chosen.tokens_at_reference, job.unique_tokens, level)
    figures = {
        "law_parameters": (size, chosen.law_parameters),
        "loss.value": (loss, chosen.loss.value),
        "loss.low": (low, chosen.loss.low),
        "loss.high": (high, chosen.loss.high),
    }
    for name, (expected, its) in figures.items():
        if not math.isclose(expected, its, rel_tol=1e-9):
            violations.append(Violation(job.name, f"model.{name}", expected, its))
    if job.work.loss is not None and loss > job.work.loss + 1e-9:
        violations.append(Violation(job.name, "model.loss", f"at most {job.work.loss}", loss))
    least, most = loss_laws.known_tokens(size)
    if not least * 0.999 <= chosen.tokens_at_reference <= most * 1.001:
        violations.append(Violation(job.name, "model.tokens", f"{least:.4g} to {most:.4g}", chosen.tokens_at_reference))
    return violations
