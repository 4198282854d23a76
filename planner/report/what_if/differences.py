"""Differences between two plans as text, the settings that cause them, and the candidates these rule out or open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from planner.results.what_if import WhatIf


def format_difference(value: float) -> str:
    """Return a difference of dollars with its sign, such as `+$1.15`; zero without a sign."""
    text = words.usd(abs(value))
    return text if text == "$0.00" else f"{'-' if value < 0 else '+'}{text}"


def shown_difference(before: float, after: float, digits: int = 2) -> float:
    """Return the difference of the rounded figures, so that it agrees with what is shown."""
    return round(round(after, digits) - round(before, digits), digits)


def format_hours_difference(value: float) -> str:
    """Return a difference of hours with its sign."""
    text = words.hours(abs(value))
    return text if abs(value) < 0.005 else f"{'-' if value < 0 else '+'}{text}"


def shown_hours_difference(before: float, after: float) -> float:
    """Return the difference of hours as they are shown; exact if it is shown in minutes."""
    least, most = sorted((before, after))
    return after - before if least < 0.1 else shown_difference(before, after, 0 if most >= 1000 else 1)


def shown_differences(answer: WhatIf) -> tuple[float, float]:
    """Return dollars and hours after minus before, both as they are shown; 0 if a plan is missing."""
    before, after = answer.before, answer.after
    usd = hours = 0.0
    if before.cost_usd and after.cost_usd:
        usd = shown_difference(before.cost_usd.expected, after.cost_usd.expected)
    if before.hours and after.hours:
        hours = shown_hours_difference(before.hours.expected, after.hours.expected)
    return usd, hours


def describe_setting(setting: str) -> str:
    """Return a setting as the subject of a sentence, such as `the deadline of 8h` or `forbidding H100-80GB`."""
    path, _, value = words.sanitise(setting).partition("=")
    path, value = path.strip(), value.strip().strip("[]")
    steps = path.split(".")
    key = steps[-1]
    if key == "forbid":
        return f"forbidding {value}"
    if key == "allow":
        return f"allowing only {value}"
    if key == "deadline":
        return f"the deadline of {value}" if value not in ("null", "~", "") else "removing the deadline"
    if path == "limits.budget_usd":
        return f"the budget of ${value}" if value not in ("null", "~", "") else "removing the budget"
    if steps[0] == "adjust":
        return "the changed price"
    return f"{'.'.join(steps[2:]) if steps[0] == 'jobs' and len(steps) > 2 else path} = {value}"


def describe_reasons(answer: WhatIf) -> list[str]:
    """Return what the change ruled out or opened, and the share of each setting in the difference."""
    if answer.effects:
        return [text for text in _shares(answer) if text]
    reason = _single(answer)
    return [reason] if reason else []


def _single(answer: WhatIf) -> str:
    subject = describe_setting(answer.settings[0]) if answer.settings else "the change"
    jobs = answer.jobs
    text = _describe_counts(
        subject,
        answer.better,
        (sum(job.ruled_out for job in jobs), sum(job.opened for job in jobs)),
        (sum(job.dearer for job in jobs), sum(job.cheaper for job in jobs)),
    )
    if text or len(jobs) < 2:
        return text
    return f"{subject} affects what the jobs share: no candidate of a single job is ruled out or opened"


def _describe_counts(
    subject: str, better: str, ruled_out_opened: tuple[int, int], worse_better: tuple[int, int] = (0, 0)
) -> str:
    """Return what a setting does to the candidates; empty if it changes none."""
    better_word, worse_word = ("cheaper", "more expensive") if better == "cheaper" else ("faster", "slower")
    counts = (
        (ruled_out_opened[0], f"rules out {{}} {better_word} {{}}"),
        (ruled_out_opened[1], f"opens {{}} {better_word} {{}}"),
        (worse_better[0], f"makes {{}} {{}} {worse_word} than the plan after"),
        (worse_better[1], f"makes {{}} {{}} {better_word} than the plan before"),
    )
    texts = [text.format(f"{count:,}", "candidate" if count == 1 else "candidates") for count, text in counts if count]
    return f"{subject} {' and '.join(texts)}" if texts else ""


def _shares(answer: WhatIf) -> list[str]:
    """Return the share of each setting in the difference of the cost, or of the hours if the cost is the same."""
    by_cost = abs(answer.delta.cost_usd or 0.0) >= 0.005
    key, shown = ("cost_usd", format_difference) if by_cost else ("hours", format_hours_difference)
    total = shown(shown_differences(answer)[0 if by_cost else 1])
    texts = []
    for effect in answer.effects:
        name, share = describe_setting(effect.setting), getattr(effect.share, key)
        counts = (effect.ruled_out, effect.opened)
        if getattr(answer.delta, key) is None:
            texts.append(_describe_counts(name, answer.better, counts))
        elif share is None:
            without = "alone" if effect.alone_status == "infeasible" else "without the others"
            texts.append(f"{name}: no plan {without}")
        else:
            changes = _describe_counts("", answer.better, counts)
            texts.append(f"{name}: {shown(share)} of the {total}{';' if changes else ''}{changes}")
    if getattr(answer.delta, key) is None:
        return texts
    left = getattr(answer.together, key)
    if left is not None and abs(left) >= 0.005:
        texts.append(f"only together: {shown(left)}")
    return [*texts, "shares: mean of the effect of each setting alone and as the last of all"]
