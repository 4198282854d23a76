"""Laws of pretraining: loss by parameters and tokens, repeated data, and the critical batch.

Loss is in nats per token of the text and tokenizer that a law was fitted on; N counts weights without the input
embedding, D tokens. Nothing here knows a machine or a price.
"""

from __future__ import annotations

import math

from planner.records import record

FLOP_PER_WEIGHT_AND_TOKEN = 6.0
"""Forward and backward pass of one token through one weight (Kaplan et al. 2020, arXiv:2001.08361)."""

LEAST_FLOP, MOST_FLOP = 1e18, 1e22
"""Compute of the runs that the laws were fitted to, 6 N D (Hoffmann et al. 2022, arXiv:2203.15556)."""

LEAST_RATIO, MOST_RATIO = 1.0, 350.0
"""Tokens per parameter that the laws are used for; the largest of the fitted runs is 341 (arXiv:2404.10102)."""

REPEAT_CONSTANT = 15.387756
"""R*: repetitions after which one more is worth 1/e of the first (Muennighoff et al. 2023, arXiv:2305.16264)."""

LAW_SPREAD = 0.05
"""Nats by which three published laws differ at their optimum between 1e18 and 1e21 FLOP."""

DATA_SPREAD = 0.15
"""Nats by which data sets and tokenizers move a loss: 0.1 to 0.2."""


@record(frozen=True)
class LossLaw:
    """L = e + a / N^alpha + b / D^beta."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, parameters: float, tokens: float) -> float:
        """Return the loss in nats per token of N parameters trained on D tokens that count as new."""
        return float(self.e + self.a / parameters**self.alpha + self.b / tokens**self.beta)

    def tokens_for(self, parameters: float, loss: float) -> float:
        """Return the new tokens at which N parameters reach a loss; infinite where no number of tokens does."""
        left = loss - self.e - self.a / parameters**self.alpha
        return math.inf if left <= 0 else float((self.b / left) ** (1 / self.beta))

    def optimum(self, flop: float) -> tuple[float, float]:
        """Return the parameters and tokens of the least loss at 6 N D = `flop`, in closed form.

        N = G (C/6)^(beta/(alpha+beta)) with G = (alpha a / (beta b))^(1/(alpha+beta)), D = C / (6 N).
        """
        both = self.alpha + self.beta
        scale = (self.alpha * self.a / (self.beta * self.b)) ** (1 / both)
        parameters = scale * (flop / FLOP_PER_WEIGHT_AND_TOKEN) ** (self.beta / both)
        return parameters, flop / FLOP_PER_WEIGHT_AND_TOKEN / parameters


LAWS = {
    "besiroglu": LossLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658),
    "muennighoff": LossLaw(1.87, 521.0, 1488.0, 0.3527, 0.3527),
}
"""Published laws by name: Besiroglu et al. 2024 (arXiv:2404.10102), which fits the runs of Hoffmann et al. again, and
Muennighoff et al. 2023 (arXiv:2305.16264), on C4."""


def loss_spread() -> float:
    """Return the nats by which the loss of a plan may be off either way: laws and data sets together."""
    return math.hypot(LAW_SPREAD, DATA_SPREAD)


def new_tokens(tokens: float, unique: float | None) -> float:
    """Return the new tokens that `tokens` of training are worth where only `unique` ones exist.

    D' = U + U R* (1 - exp(-R / R*)) with R = D / U - 1 repetitions.
    """
    if unique is None or tokens <= unique:
        return tokens
    repetitions = tokens / unique - 1
    return unique * (1 + REPEAT_CONSTANT * -math.expm1(-repetitions / REPEAT_CONSTANT))


def tokens_worth(wanted: float, unique: float | None) -> float:
    """Return the tokens of training that are worth `wanted` new ones; infinite where no repetition is."""
    if unique is None or wanted <= unique:
        return wanted
    left = 1 - (wanted / unique - 1) / REPEAT_CONSTANT
    return math.inf if left <= 0 else unique * (1 - REPEAT_CONSTANT * math.log(left))


def known_tokens(parameters: float) -> tuple[float, float]:
    """Return the fewest and most tokens of N parameters that the laws are used for; the first may exceed the second."""
    flop = FLOP_PER_WEIGHT_AND_TOKEN * parameters
    return (max(LEAST_RATIO * parameters, LEAST_FLOP / flop), min(MOST_RATIO * parameters, MOST_FLOP / flop))


LEAST_BATCH_TOKENS, MOST_BATCH_TOKENS = 1e9, 1e12
"""Tokens of training between which the law of the critical batch is used."""

BATCH_SIGMA = 0.8
"""Standard deviation of the logarithm of the critical batch: published laws differ by a factor of 2 to 3."""


def critical_batch(tokens: float) -> float:
    """Return the critical batch in tokens: twice the tokens of small batches, and twice the steps of large ones.

    5 x 11,730 x (D / 1e6)^0.47. Zhang et al. 2024 (arXiv:2410.21676) give 22.91 D^0.47 sequences of 512 tokens as the
    batch that costs 20 % more steps than linear scaling promises, with D in millions of tokens: 11,730 tokens. That
    is a fifth of the critical batch B of the hyperbola tokens = D (1 + batch / B) (McCandlish et al. 2018,
    arXiv:1812.06162).
    """
    return float(5 * 11_730 * (tokens / 1e6) ** 0.47)


def batch_tokens(tokens: float, batch: float, reference: float) -> float:
    """Return the tokens at a batch that are worth `tokens` at the reference batch; batches in tokens."""
    critical = critical_batch(tokens)
    return tokens * (1 + batch / critical) / (1 + reference / critical)


def batch_sigma(tokens: float, batch: float, reference: float) -> float:
    """Return what the critical batch's uncertainty adds to the standard deviation of the logarithm of hours."""
    critical = critical_batch(tokens)
    return BATCH_SIGMA * abs(batch / (batch + critical) - reference / (reference + critical))
