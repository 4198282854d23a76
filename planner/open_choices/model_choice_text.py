"""A chosen model and batch as text, and the frontier of loss against dollars as text and as a picture."""

from __future__ import annotations

from dataclasses import replace

from planner.drawing.charts import Labels, Trace, panel
from planner.drawing.scene import SERIES, Caption, Scene, fit_axis, room_of_ticks
from planner.report import words
from planner.report.plan_figures import PICTURE
from planner.report.words import line_room
from planner.results.subject_runs import (
    LAST_DIGIT,
    BatchChoice,
    LossCalibration,
    LossFrontier,
    ModelChoice,
    ModelOption,
    ModelSummary,
    ServingCost,
)
from planner.units import count_text


def chosen_text(chosen: ModelChoice) -> str:
    """Return what was chosen in a few words: model, tokens and loss, or the batch."""
    loss = f", loss {chosen.loss.value:.2f} ({chosen.loss.low:.2f} to {chosen.loss.high:.2f})" if chosen.loss else ""
    batch = f", {chosen.batch.sequences:,} sequences per step" if chosen.batch else ""
    return f"{words.sanitise(chosen.architecture)} on {count_text(chosen.tokens)} tokens{loss}{batch}"


def money_text(chosen: ModelChoice) -> str:
    """Return what a larger budget would train; empty where it lowers no loss."""
    more = chosen.more_money
    if more is None or chosen.loss is None or chosen.loss.value - more.loss < LAST_DIGIT:
        return ""
    return (
        f"a budget of {words.usd(more.budget_usd)} lowers the loss by {chosen.loss.value - more.loss:.2f} to "
        f"{more.loss:.3f}: {words.sanitise(more.architecture)} on {count_text(more.tokens)} tokens"
    )


def answer_lines(chosen: ModelChoice | None) -> list[str]:
    """Return what was chosen in a line below the first one: model, tokens and loss, or the batch."""
    if chosen is None:
        return []
    lines = [f"  {words.shorten(f'trains {chosen_text(chosen)}', words.width() - 2)}"]
    cost = chosen.serving
    if cost is not None:
        served = f"serving {count_text(cost.tokens)} tokens over its life costs {words.usd(cost.usd)} more"
        lines += words.second_lines(f"{served}, which the choice of the size counts and the plan does not")
    return lines


def model_lines(chosen: ModelChoice | None) -> list[str]:
    """Return the lines on the chosen model: size and tokens, loss, what is as good, what more money buys."""
    if chosen is None:
        return []
    ratio = chosen.tokens_at_reference / chosen.law_parameters
    name = f"{words.sanitise(chosen.architecture)}, {count_text(chosen.parameters)} parameters"
    name = f"{name}, on {count_text(chosen.tokens)} tokens"
    lines = [f"{name}, {words.significant(ratio, 2)} per parameter" if chosen.loss else name]
    if chosen.unique_tokens is not None and chosen.tokens_at_reference > chosen.unique_tokens:
        epochs = words.significant(chosen.tokens_at_reference / chosen.unique_tokens, 2)
        lines.append(f"{count_text(chosen.unique_tokens)} of the tokens exist: {epochs} epochs")
    if chosen.loss is not None:
        law = "own law" if chosen.law == "own" else f"law of {chosen.law}"
        span = f"{chosen.loss.low:.2f} to {chosen.loss.high:.2f} with other data or laws"
        lines.append(f"loss {chosen.loss.value:.3f} nats per token ({span}; {law})")
    if chosen.serving is not None:
        lines += words.wrap_lines(_serving(chosen.serving), line_room(), 4)
    if chosen.as_good:
        lines += words.wrap_lines(_as_good(chosen), line_room(), 3)
    if more := money_text(chosen):
        lines += words.wrap_lines(more, line_room(), 2)
    return words.wrap_all(lines, line_room(), 3)


def _serving(cost: ServingCost) -> str:
    price = f"${words.significant(cost.usd_per_million_tokens)} per million"
    return f"serving {count_text(cost.tokens)} tokens over its life: {words.usd(cost.usd)}, {price} ({cost.source})"


def _as_good(chosen: ModelChoice) -> str:
    options = chosen.as_good
    if chosen.more_money is None and all(option.loss is None or chosen.loss is None for option in options):
        return "nearly as cheap: " + ", ".join(f"{_name(option)} {words.usd(option.usd)}" for option in options)
    if chosen.more_money is not None or any(
        option.tokens > 0 and option.loss is not None and chosen.loss and option.loss >= chosen.loss.value + LAST_DIGIT
        for option in options
    ):
        sizes = sorted([chosen.parameters, *(option.parameters for option in options)])
        span = f"{count_text(sizes[0])} to {count_text(sizes[-1])}"
        listed = ", ".join(f"{_name(option)} {option.loss:.3f}" for option in options if option.loss is not None)
        return f"as good within 0.02: {span} parameters ({listed})"
    return "nearly as cheap: " + ", ".join(f"{_name(option)} {words.usd(option.usd)}" for option in options)


def _name(option: ModelOption) -> str:
    return words.sanitise(option.architecture)


def batch_lines(chosen: ModelChoice | None) -> list[str]:
    """Return the lines on the chosen batch: its tokens and steps against the smallest one, and the learning rate."""
    if chosen is None or chosen.batch is None:
        return []
    batch = chosen.batch
    least = f"{batch.reference_sequences:,}"
    first = f"{batch.sequences:,} sequences ({count_text(batch.tokens)} tokens)"
    if batch.sequences == batch.reference_sequences:
        lines = [f"{first}, the smallest of the range: no tokens are added"]
    else:
        more = words.percent(batch.token_factor - 1)
        fewer = words.significant(1 / batch.step_factor, 2)
        lines = [f"{first}: {more} more tokens than at {least}, {fewer}x fewer steps"]
    lines += [_critical(batch)]
    if batch.sequences != batch.reference_sequences:
        rate = words.significant(batch.learning_rate_factor, 2)
        lines.append(f"learning rate: {rate}x that of a batch of {least} (square root of the batch)")
    return words.wrap_all(lines, line_room(), 2)


def _critical(batch: BatchChoice) -> str:
    span = f"{count_text(batch.critical_tokens_low)} to {count_text(batch.critical_tokens_high)}"
    return f"critical batch {count_text(batch.critical_tokens)} tokens ({span}), where tokens double"


def render_loss_calibration(law: LossCalibration) -> str:
    """Return the text of a law that was fitted to runs: the entry to paste, then what it is based on."""
    spread = law.loss_law["spread"]
    lines = [law.block.rstrip(), ""]
    how = (
        f"{law.fitted} fitted to {law.runs:,} run{'s' * (law.runs != 1)}, which lie {law.off_after:.3f} nats "
        f"from it in the mean ({law.off_before:.3f} from the law before); a loss may be off by {spread:g} either way"
    )
    lines += words.section("Law", words.wrap_lines(how, line_room(), 3))
    if law.before is not None and law.after is not None:
        both = [*_summary_lines("before", law.before), *_summary_lines("after", law.after)]
        lines += words.section("Plan", both)
    return "\n".join(line.rstrip() for line in lines)


def _summary_lines(when: str, chosen: ModelSummary) -> list[str]:
    if chosen.architecture is None or chosen.tokens is None or chosen.cost_usd is None:
        return [f"{when:<7} {chosen.status}"]
    name = f"{words.sanitise(chosen.architecture)} on {count_text(chosen.tokens)} tokens"
    loss = f", loss {chosen.loss.value:.3f} ({chosen.loss.low:.2f} to {chosen.loss.high:.2f})" if chosen.loss else ""
    return words.wrap_lines(f"{when:<7} {name}{loss}, {words.usd(chosen.cost_usd)}", line_room(), 2)


def format_loss_ends(frontier: LossFrontier) -> str:
    """Return the first line of a frontier of loss that has points: loss and budget at both ends."""
    first, last = frontier.points[0], frontier.points[-1]
    ends = (
        f"loss {first.loss:.3f} for {words.usd(first.budget_usd)} to {last.loss:.3f} for {words.usd(last.budget_usd)}"
    )
    return words.first_fitting(frontier.scenario, ends)


def render_loss_frontier(frontier: LossFrontier) -> str:
    """Return the text of a frontier of loss against dollars without a final newline."""
    if not frontier.points:
        return "\n".join([f"{words.sanitise(frontier.scenario)}: infeasible", *_notes(frontier)])
    name = max(len(words.sanitise(point.architecture)) for point in frontier.points)
    lines = [format_loss_ends(frontier), ""]
    lines.append(f"{'budget':>10}  {'loss':>6}  {'model':<{name}}  {'size':>6}  {'tokens':>6}  {'likely':>7}  plan")
    for point in frontier.points:
        left = f"{words.usd(point.budget_usd):>10}  {point.loss:>6.3f}  {words.sanitise(point.architecture):<{name}}"
        figures = f"{count_text(point.parameters):>6}  {count_text(point.tokens):>6}  {point.hours:>7,.1f}"
        lines.append(words.shorten(f"{left}  {figures}  {words.sanitise(point.plan)}", words.width()))
    return "\n".join([*lines, "", *_notes(frontier)])


def _notes(frontier: LossFrontier) -> list[str]:
    notes = [line for note in frontier.notes for line in words.wrap_hanging(note, 3)]
    rows = f"exact: each row is the least loss of {frontier.compared:,} models for its budget"
    scope = f"{rows}; {frontier.solved:,} curves solved"
    return [*notes, *(words.wrap_lines(scope, words.width(), 2) if frontier.points else [])]


def loss_scene(frontier: LossFrontier, width: float) -> Scene:
    """Return loss over dollars, a dot for each budget with its tokens, the first one of each model with its name."""
    points = frontier.points
    budgets, losses = [point.budget_usd for point in points], [point.loss for point in points]
    up = fit_axis(min(losses), max(losses), 300.0, 22.0)
    across = fit_axis(min(budgets), 2.6 * max(budgets), room_of_ticks(up), width - 12.0)
    models = list(dict.fromkeys(point.architecture for point in points))
    traces = [Trace(tuple(zip(budgets, losses, strict=True)), "ink", width=1.0)]
    names: list[tuple[float, float, str, str]] = []
    for index, model in enumerate(models):
        role = SERIES[index % len(SERIES)]
        of_model = [point for point in points if point.architecture == model]
        label = f"{words.sanitise(model)} ({count_text(of_model[0].parameters)})"
        shown = tuple(
            f"{words.usd(point.budget_usd)}: loss {point.loss:.3f}, {count_text(point.tokens)} tokens"
            for point in of_model
        )
        places = tuple((point.budget_usd, point.loss) for point in of_model)
        traces.append(Trace(places, role, label, width=0.0, mark="dot", words=shown))
        names += [(point.budget_usd, point.loss, f"{count_text(point.tokens)} tokens", role) for point in of_model]
    labels = Labels(
        f"loss, nats per token (law: {frontier.law})", across=_budget, at=tuple(budgets), names=tuple(names)
    )
    title = format_loss_ends(frontier)
    return panel(traces, across, up, labels, Caption(title, title, "budget"), width)


def _budget(usd: float) -> str:
    return words.usd(usd).removesuffix(".00")


def loss_picture(frontier: LossFrontier) -> Scene | None:
    """Return the curve in the size of a picture, with the first line of its text as the title; None without a point."""
    if not frontier.points:
        return None
    with words.unwrapped():
        title = render_loss_frontier(frontier).partition("\n")[0]
    return replace(loss_scene(frontier, PICTURE), title=title)
