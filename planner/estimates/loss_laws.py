"""Laws of pretraining: loss by parameters and tokens, repeated data, and the critical batch.

Loss is in nats per token of the text and tokenizer that a law was fitted on; N counts weights without the input
embedding, D tokens. Nothing here knows a machine or a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FLOP_PER_WEIGHT_AND_TOKEN = 6.0
"""Forward and backward pass of one token through one weight (Kaplan et al. 2020, arXiv:2001.08361)."""

LEAST_FLOP, MOST_FLOP = 1e18, 1e22
"""Compute of the runs that the laws were fitted to, 6 N D (Hoffmann et al. 2022, arXiv:2203.15556)."""

LEAST_RATIO, MOST_RATIO = 1.0, 350.0
"""Tokens per parameter that the laws are used for; the largest of the fitted runs is 341 (arXiv:2404.10102)."""

REPEATED_TOKENS, EXCESS_PARAMETERS = 15.387756, 5.309743
"""R*: repetitions of tokens, and multiples of the parameters that unique tokens can use, after which one more is worth
1/e of the first (Muennighoff et al. 2023, arXiv:2305.16264, appendix A; fitted on C4, R^2 = 0.77)."""

MOST_EPOCHS = 40.0
"""Passes over the same tokens up to which the law of repeated data is trusted: at 44 its authors saw losses rise that
the law does not predict (arXiv:2305.16264, section 6)."""

FEWEST_UNIQUE = 1e8
"""Unique tokens of the smallest data set that the law of repeated data was fitted on (arXiv:2305.16264, section 5)."""

LAW_SPREAD = 0.05
"""Nats by which three published laws differ at their optimum between 1e18 and 1e21 FLOP: how well sizes on one data
set are distinguished."""

LEVEL_SPREAD = 0.8
"""Nats by which data sets and tokenizers move the level of a loss, either way: the widest distance of published runs on
data sets that no law was fitted on, `benchmarks/published_losses.csv`."""

OVERFIT_SPREAD = 0.1
"""A prior: nats by which a loss may be higher for each doubling of passes beyond `MOST_EPOCHS`, and for each halving of
the data set below `FEWEST_UNIQUE`."""


@dataclass(frozen=True)
class LossLaw:
    """L = e + a / N^alpha + b / D^beta."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, parameters: float, tokens: float, unique: float | None = None) -> float:
        """Return the loss in nats per token of N parameters trained on D tokens, of which `unique` exist; None: all.

        With U = min(unique, D) tokens used, R_D = D / U - 1 repetitions count as
        D' = U (1 + R_D* (1 - exp(-R_D / R_D*))), and of the parameters those beyond what U tokens can use as
        N' = U_N (1 + R_N* (1 - exp(-R_N / R_N*))), where U_N is the best number for `unique` tokens, at most N, and
        R_N = N / U_N - 1 (arXiv:2305.16264, equations 5 and 6). The paper takes U_N for U tokens, which differs where
        fewer tokens are trained than exist: tokens that no run reaches would then raise the loss of new data.
        """
        parameters, tokens = self.effective(parameters, tokens, unique)
        return float(self.e + self.a / parameters**self.alpha + self.b / tokens**self.beta)

    def effective(self, parameters: float, tokens: float, unique: float | None) -> tuple[float, float]:
        """Return N' and D': the parameters and tokens that count, of which repetition makes fewer."""
        if unique is None:
            return parameters, tokens
        used = min(unique, tokens)
        usable = min(parameters, self.best_parameters(unique))
        return _worth(parameters, usable, EXCESS_PARAMETERS), _worth(tokens, used, REPEATED_TOKENS)

    def loss_at_batch(self, parameters: float, tokens: float, unique: float | None, batch: float) -> float:
        """Return the loss where a step has so many tokens: what a large batch wastes is not learnt.

        Where tokens repeat, the passes are those of the run, and each is worth less by what its batch wastes.
        """
        worth = tokens_at_law_batch(tokens, batch)
        return self.loss(parameters, worth, None if unique is None else unique * worth / tokens)

    def best_parameters(self, tokens: float) -> float:
        """Return the parameters for which a number of new tokens is the best one: G (G D)^(beta/alpha)."""
        return float(self._scale * (self._scale * tokens) ** (self.beta / self.alpha))

    @property
    def _scale(self) -> float:
        """G = (alpha a / (beta b))^(1/(alpha+beta))."""
        return float((self.alpha * self.a / (self.beta * self.b)) ** (1 / (self.alpha + self.beta)))

    def optimum(self, flop: float) -> tuple[float, float]:
        """Return the parameters and tokens of the least loss at 6 N D = `flop`, in closed form.

        N = G (C/6)^(beta/(alpha+beta)) with G = (alpha a / (beta b))^(1/(alpha+beta)), D = C / (6 N).
        """
        share = self.beta / (self.alpha + self.beta)
        parameters = self._scale * (flop / FLOP_PER_WEIGHT_AND_TOKEN) ** share
        return parameters, flop / FLOP_PER_WEIGHT_AND_TOKEN / parameters


LAWS = {
    "besiroglu": LossLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658),
    "muennighoff": LossLaw(1.87, 521.0, 1488.0, 0.3527, 0.3527),
}
"""Published laws by name: Besiroglu et al. 2024 (arXiv:2404.10102), which fits the runs of Hoffmann et al. again, and
Muennighoff et al. 2023 (arXiv:2305.16264), on C4."""


def _worth(amount: float, first: float, constant: float) -> float:
    """Return what an amount is worth of which each multiple beyond the first one is worth less: exp(-1 / constant)."""
    return first * (1 + constant * -math.expm1(-(amount / first - 1) / constant))


def loss_range(loss: float, tokens: float, unique: float | None, level: float = LEVEL_SPREAD) -> tuple[float, float]:
    """Return the least and the most that a loss may be on other data: laws, level and what repetition may do.

    2.50 after 80 passes over a data set of 50M tokens, level 0.8: 2.50 - 0.802 to 2.50 + 0.802 + 0.1 + 0.1.
    """
    spread = math.hypot(LAW_SPREAD, level)
    return loss - spread, loss + spread + repetition_spread(tokens, unique)


def repetition_spread(tokens: float, unique: float | None) -> float:
    """Return the nats by which a loss may be higher, where data repeat more, or are fewer, than the law has seen."""
    if unique is None or tokens <= unique:
        return 0.0
    doublings = max(math.log2(tokens / unique / MOST_EPOCHS), 0.0) + max(math.log2(FEWEST_UNIQUE / unique), 0.0)
    return OVERFIT_SPREAD * doublings


def known_tokens(parameters: float) -> tuple[float, float]:
    """Return the fewest and most tokens of N parameters that the laws are used for; the first may exceed the second."""
    flop = FLOP_PER_WEIGHT_AND_TOKEN * parameters
    return (max(LEAST_RATIO * parameters, LEAST_FLOP / flop), min(MOST_RATIO * parameters, MOST_FLOP / flop))


LAW_BATCH = 524_288
"""Tokens of a step up to which a loss is that of a law: the smallest batch of the fitted runs (Hoffmann et al. 2022,
arXiv:2203.15556)."""

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


def tokens_at_law_batch(tokens: float, batch: float) -> float:
    """Return the tokens at the batch of the laws that are worth `tokens` at a batch of as many tokens.

    A larger batch than `LAW_BATCH` wastes some: 1e10 tokens in steps of 1e8 tokens, whose critical batch is 4.45M, are
    worth 1e10 (1 + 0.524 / 4.45) / (1 + 100 / 4.45) = 4.76e8.
    """
    if batch <= LAW_BATCH:
        return tokens
    critical = critical_batch(min(max(tokens, LEAST_BATCH_TOKENS), MOST_BATCH_TOKENS))
    return tokens * (1 + LAW_BATCH / critical) / (1 + batch / critical)


def batch_sigma(tokens: float, batch: float, reference: float) -> float:
    """Return what the critical batch's uncertainty adds to the standard deviation of the logarithm of hours."""
    critical = critical_batch(tokens)
    return BATCH_SIGMA * abs(batch / (batch + critical) - reference / (reference + critical))
