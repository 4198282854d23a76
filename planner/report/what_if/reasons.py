"""Why a plan changed: candidates that a setting ruled out or opened, and the share of each setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report.what_if.differences import (
    describe_setting,
    format_difference,
    format_hours_difference,
    shown_differences,
)

if TYPE_CHECKING:
    from planner.results.what_if import Effect, WhatIf


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
    by_cost = abs(answer.delta.cost_usd or 0.0) >= 0.005
    whole = answer.delta.cost_usd if by_cost else answer.delta.hours
    if whole is None:
        return [
            _describe_counts(describe_setting(effect.setting), answer.better, (effect.ruled_out, effect.opened))
            for effect in answer.effects
        ]
    shown = format_difference if by_cost else format_hours_difference
    total = shown(shown_differences(answer)[0 if by_cost else 1])
    texts = [_share(effect, by_cost, total, answer.better) for effect in answer.effects]
    left = answer.together.cost_usd if by_cost else answer.together.hours
    if left is not None and abs(left) >= 0.005:
        texts.append(f"only together: {shown(left)}")
    return [*texts, "shares: mean of the effect of each setting alone and as the last of all"]


def _share(effect: Effect, by_cost: bool, whole: str, better: str) -> str:
    share = effect.share.cost_usd if by_cost else effect.share.hours
    name = describe_setting(effect.setting)
    if share is None:
        return f"{name}: no plan {'alone' if effect.alone_status == 'infeasible' else 'without the others'}"
    shown = format_difference if by_cost else format_hours_difference
    counts = _describe_counts("", better, (effect.ruled_out, effect.opened))
    return f"{name}: {shown(share)} of the {whole}{';' if counts else ''}{counts}"
