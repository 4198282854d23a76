"""The most tokens of each model within budget and deadline, and by them the model of the least loss.

Dollars never fall as tokens rise, so the most tokens of a model are found between a number that the budget pays and
one that it does not, by its own curve of costs: every look solves the candidates of the market for that number. A model
is left out without a search only where the tokens that it would need for the wanted loss were solved and are not
paid for, or lie beyond what the law has seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.estimates import loss_laws
from planner.records import record
from planner.solving.choices.alternatives import index_from, index_to, law_of, tokens_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.solving.choices.alternatives import Alternative

EQUAL_LOSS = 0.02
"""Nats within which two sizes are as good: less than two fits of one law differ by."""
_NEAR = 1.02
"""Ratio of tokens to which a model that does not win is searched: 0.003 nats."""
MOST_GUESSES = 12
"""Looks by a straight line through the costs, before the bracket is halved each time."""


@record(frozen=True)
class Found:
    """A model with the most tokens that budget and deadline allow."""

    alternative: Alternative
    tokens: int  # at the reference batch
    loss: float
    is_capped: bool  # by what the law has seen

    @property
    def usd(self) -> float:
        """Dollars at the confidence of the budget."""
        return self.alternative.least_usd(self.tokens)


def known_range(alternative: Alternative) -> tuple[int, int]:
    """Return the first and the last number of tokens on the grid that the law has seen; empty if first > last."""
    least, most = loss_laws.known_tokens(alternative.size)
    if alternative.job.batches[1:]:
        least, most = max(least, loss_laws.LEAST_BATCH_TOKENS), min(most, loss_laws.MOST_BATCH_TOKENS)
    return index_from(least), index_to(most)


def most_tokens(alternative: Alternative, budget_usd: float, least_index: int, loss_to_beat: float) -> Found | None:
    """Return the most tokens of a model that budget and deadline allow; None where not `least_index` is paid.

    A model that cannot beat a loss is searched only as closely as `_NEAR` asks.
    """
    _, last = known_range(alternative)
    if least_index > last or not alternative.is_paid(tokens_at(least_index), budget_usd):
        return None
    low, high = _bracket(alternative, least_index, last, budget_usd)
    step, was_paid, looks = 1, None, 0
    while high - low > 1:
        loses = alternative.loss(tokens_at(high)) >= loss_to_beat
        if loses and tokens_at(high) <= _NEAR * tokens_at(low):
            break
        looks += 1
        guess = _guess(alternative, low, high, budget_usd) if looks <= MOST_GUESSES else (low + high) // 2
        # Guesses creep up to the answer from one side: each on the same side goes four times as far as the last.
        guess = max(guess, low + step) if was_paid else min(guess, high - step) if was_paid is False else guess
        guess = min(high - 1, max(low + 1, guess))
        is_paid = alternative.is_paid(tokens_at(guess), budget_usd)
        low, high = (guess, high) if is_paid else (low, guess)
        step, was_paid = (4 * step if is_paid == was_paid else 1), is_paid
    tokens = tokens_at(low)
    return Found(alternative, tokens, alternative.loss(tokens), low == last)


def _bracket(alternative: Alternative, low: int, last: int, budget_usd: float) -> tuple[int, int]:
    """Return the most tokens that are known to be paid, and the fewest that are not or that no law knows."""
    high = last + 1
    for tokens, usd in alternative.costs.items():
        index = index_to(tokens)
        if math.isfinite(usd) and usd <= budget_usd:
            low = max(low, min(index, last))
        else:
            high = min(high, index)
    return low, high


def best_of(alternatives: Sequence[Alternative], budget_usd: float, slack: float = EQUAL_LOSS) -> list[Found]:
    """Return every model whose loss is at most `slack` above the least one, the least first.

    A model of equal loss that costs less comes first.
    """
    known = [one for one in alternatives if known_range(one)[0] <= known_range(one)[1]]
    flop = _affordable_flop(known, budget_usd)
    found: list[Found] = []
    for alternative in sorted(known, key=lambda one: _expected_loss(one, budget_usd, flop)):
        least = min((one.loss for one in found), default=math.inf)
        index = _index_for(alternative, least + slack)
        one = None if index is None else most_tokens(alternative, budget_usd, index, least)
        if one is not None:
            found.append(one)
    least = min((one.loss for one in found), default=math.inf)
    near = [one for one in found if one.loss <= least + slack]
    return sorted(near, key=lambda one: (one.loss, one.alternative.batch, one.alternative.size))


def tokens_for_loss(alternative: Alternative, loss: float) -> int | None:
    """Return the fewest tokens at which a model reaches a loss; None where the law has not seen such a run."""
    first, last = known_range(alternative)
    if first > last or alternative.loss(tokens_at(first)) < loss:
        return None
    index = _index_for(alternative, loss)
    return None if index is None else tokens_at(index)


def _index_for(alternative: Alternative, loss: float) -> int | None:
    """Return the place of the fewest tokens that reach a loss; None where none that the law has seen do."""
    first, last = known_range(alternative)
    if math.isinf(loss):
        return first if first <= last else None
    worth = law_of(alternative.job).tokens_for(alternative.size, loss)
    wanted = loss_laws.tokens_worth(worth, alternative.job.unique_tokens)
    if not wanted <= tokens_at(last):
        return None
    return max(first, index_from(wanted))


def _guess(alternative: Alternative, low: int, high: int, budget_usd: float) -> int:
    """Return a place between two where a straight line through the solved costs meets the budget."""
    if not math.isfinite(budget_usd):
        return (low + high) // 2
    costs = sorted((tokens, usd) for tokens, usd in alternative.costs.items() if math.isfinite(usd))
    below = [one for one in costs if one[0] <= tokens_at(low)]
    above = [one for one in costs if one[0] >= tokens_at(high)]
    if not below and not above:
        return (low + high) // 2
    if below and above:
        (left, left_usd), (right, right_usd) = below[-1], above[0]
        share = (budget_usd - left_usd) / max(right_usd - left_usd, 1e-9)
        return index_to(left + min(1.0, max(0.0, share)) * (right - left))
    tokens, usd = below[-1] if below else above[0]
    return index_to(tokens * budget_usd / max(usd, 1e-9))


def _affordable_flop(alternatives: Sequence[Alternative], budget_usd: float) -> float:
    """Return about as much compute as the budget buys: what the model of middle size gets for it."""
    if not math.isfinite(budget_usd) or not alternatives:
        return loss_laws.MOST_FLOP
    middle = alternatives[len(alternatives) // 2]
    tokens = tokens_at(_clipped(middle, 20.0 * middle.size))
    usd = middle.least_usd(tokens)
    flop = loss_laws.FLOP_PER_WEIGHT_AND_TOKEN * middle.size * tokens
    return flop * budget_usd / usd if math.isfinite(usd) and usd > 0 else flop


def _clipped(alternative: Alternative, tokens: float) -> int:
    """Return the place of a number of tokens, or the nearest that the law has seen."""
    first, last = known_range(alternative)
    return min(last, max(first, index_from(tokens)))


def _expected_loss(alternative: Alternative, budget_usd: float, flop: float) -> float:
    """Return the loss that one look at the costs promises: they are nearly proportional to the tokens."""
    index = _clipped(alternative, flop / loss_laws.FLOP_PER_WEIGHT_AND_TOKEN / alternative.size)
    usd = alternative.least_usd(tokens_at(index))
    if not math.isfinite(budget_usd):
        return alternative.loss(tokens_at(index))
    tokens = tokens_at(index) * budget_usd / usd if math.isfinite(usd) and usd > 0 else 0.0
    return alternative.loss(tokens_at(_clipped(alternative, tokens)))
