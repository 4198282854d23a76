"""Scores of predictions: errors, shares with their Wilson interval, pairs in order, the regret of picking."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any, TypeVar

from benchmarks.accuracy.measurements import Row

NOTEWORTHY = math.log(1.1)
"""Pairs closer than 10 % in measured speed say nothing: runs repeat no better than that."""

TIE = 1e-9
"""Predictions closer than this, as a share, are equal: they differ by rounding alone."""

PAIR_KINDS = ("gpu", "technique", "setting")
TECHNIQUE_COLUMNS = (
    "method", "weight_quant", "precision", "weights_dtype", "optimizer", "act_ckpt", "cpu_offload", "attention",
    "compile", "loss_kernel", "framework", "lora_rank", "lora_targets",
)  # fmt: skip
"""Columns that are techniques; sharding counts without its parallel degrees, which are settings."""
SETTING_COLUMNS = ("num_gpus", "micro_batch", "grad_accum", "global_batch", "tp", "pp", "cp", "sharding", "packed")


def share(good: int, n: int) -> dict[str, Any]:
    """Return a share with its count and 95 % Wilson interval; None where n is 0."""
    if n == 0:
        return {"share": None, "count": 0, "n": 0, "low": None, "high": None}
    low, high = wilson(good, n)
    return {"share": good / n, "count": good, "n": n, "low": low, "high": high}


def wilson(good: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson score interval of a share; honest for few rows and for shares near 0 or 1."""
    p = good / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(centre - reach, 0.0), min(centre + reach, 1.0)


def quantile(values: Sequence[float], q: float) -> float:
    """Return a quantile by linear interpolation between order statistics; `values` is not empty."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def errors(relative: Sequence[float]) -> dict[str, Any]:
    """Return n, MAPE, median APE, 90th percentile of APE and bias (mean) of predicted / measured - 1, as fractions."""
    if not relative:
        return {"n": 0, "mape": None, "median_ape": None, "p90_ape": None, "bias": None}
    absolute = [abs(value) for value in relative]
    return {
        "n": len(relative),
        "mape": sum(absolute) / len(absolute),
        "median_ape": quantile(absolute, 0.5),
        "p90_ape": quantile(absolute, 0.9),
        "bias": sum(relative) / len(relative),
    }


def coverage(log_errors: Sequence[float], sigmas: Sequence[float], tails: Sequence[float]) -> dict[str, Any]:
    """Return the shares of |ln(measured / predicted)| within one display sigma, and within 1.96 tail sigmas."""
    n, counts = len(log_errors), inside(log_errors, sigmas, tails)
    return {"n": n, **{name: count / n if n else None for name, count in counts.items()}}


def inside(log_errors: Sequence[float], sigmas: Sequence[float], tails: Sequence[float]) -> dict[str, int]:
    """Return how many of |ln(measured / predicted)| lie in the 68 and in the 95 % ranges."""
    return {
        "interval_68": sum(abs(e) <= s for e, s in zip(log_errors, sigmas, strict=True)),
        "interval_95": sum(abs(e) <= 1.96 * t for e, t in zip(log_errors, tails, strict=True)),
    }


@dataclass(frozen=True)
class Speed:
    """A row with measured and predicted tokens per second and GPU, and the price of an hour of its GPU."""

    row: Row
    measured: float
    predicted: float
    usd_per_gpu_hour: float | None = None


T = TypeVar("T")
Grouping = Callable[[Row], tuple[str, ...]]
"""Rows of one key are comparable."""


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    """Return the lists by key, in the order of first appearance."""
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def comparable(row: Row) -> tuple[str, ...]:
    """Return the rows that one choice is made among: same source, network by name and sequence length."""
    return row.source, *(row.text(name) for name in ("model", "seq_len"))


def same_dimensions(row: Row) -> tuple[str, ...]:
    """Return the groups of the stricter reading: one name with other dimensions is another network."""
    return (*comparable(row), *(row.text(name) for name in ("layers", "hidden", "heads")))


def pair_kind(one: Row, other: Row) -> str:
    """Return what distinguishes two comparable rows: gpu, else technique, else setting, which holds all else."""
    if one.text("gpu") != other.text("gpu"):
        return "gpu"
    different = any(one.text(name) != other.text(name) for name in TECHNIQUE_COLUMNS)
    return "technique" if different else "setting"


def pairs(speeds: Sequence[Speed], key: Grouping = comparable) -> dict[str, dict[str, Any]]:
    """Return the share of comparable pairs whose speeds per GPU are predicted in the measured order, by kind."""
    right: dict[str, float] = dict.fromkeys(PAIR_KINDS, 0.0)
    n = dict.fromkeys(PAIR_KINDS, 0)
    for group in grouped(speeds, lambda speed: key(speed.row)).values():
        for one, other in combinations(group, 2):
            kind = pair_kind(one.row, other.row)
            measured = math.log(one.measured / other.measured)
            if abs(measured) <= NOTEWORTHY:
                continue
            predicted = math.log(one.predicted / other.predicted)
            n[kind] += 1
            right[kind] += 0.5 if abs(predicted) < TIE else float((predicted > 0) == (measured > 0))
    return {kind: {"right": right[kind] / n[kind] if n[kind] else None, "n": n[kind]} for kind in PAIR_KINDS}


def regret(speeds: Sequence[Speed], key: Grouping = comparable) -> dict[str, Any]:
    """Return the cost of trusting the predictions when the cheapest of comparable rows is picked.

    Dollars per token are the GPU's price over its tokens per second. Regret: dollars of the predicted cheapest over
    those of the measured cheapest. Optimism: mean ln(measured / predicted) of the picked rows' speeds, below 0 where
    they turn out slower than promised. Rows without a price take no part; a group needs two configurations. Picks that
    tie are averaged over, so that the order of the rows means nothing.
    """
    ratios, promises = [], []
    priced = [speed for speed in speeds if speed.usd_per_gpu_hour]
    for group in grouped(priced, lambda speed: key(speed.row)).values():
        if len({configuration(speed.row) for speed in group}) < 2:
            continue
        cheapest = min(_dollars(speed, speed.measured) for speed in group)
        promised = min(_dollars(speed, speed.predicted) for speed in group)
        picked = [speed for speed in group if _dollars(speed, speed.predicted) <= promised * (1.0 + TIE)]
        ratios.append(fmean(_dollars(speed, speed.measured) / cheapest for speed in picked))
        promises.append(fmean(math.log(speed.measured / speed.predicted) for speed in picked))
    if not ratios:
        return {"n": 0, "median": None, "p90": None, "optimism": None}
    return {
        "n": len(ratios),
        "median": quantile(ratios, 0.5),
        "p90": quantile(ratios, 0.9),
        "optimism": fmean(promises),
    }


def configuration(row: Row) -> tuple[str, ...]:
    """Return what was run, without who ran it."""
    return tuple(row.text(name) for name in ("gpu", "gpu_mem_gb", *TECHNIQUE_COLUMNS, *SETTING_COLUMNS))


def _dollars(speed: Speed, tokens_per_gpu_second: float) -> float:
    return (speed.usd_per_gpu_hour or 0.0) / tokens_per_gpu_second


def fit_scores(verdicts: Iterable[tuple[bool, bool]]) -> Mapping[str, Any]:
    """Return the false-fit share of rows that ran out of memory and the false-reject share of those that ran."""
    seen = list(verdicts)
    out = [fits for oom, fits in seen if oom]
    ran = [fits for oom, fits in seen if not oom]
    wrong_fit, wrong_reject = share(sum(out), len(out)), share(len(ran) - sum(ran), len(ran))
    return {
        "false_fit": wrong_fit["share"],
        "false_reject": wrong_reject["share"],
        "n_oom": len(out),
        "n_ok": len(ran),
        "false_fit_interval": [wrong_fit["low"], wrong_fit["high"]],
        "false_reject_interval": [wrong_reject["low"], wrong_reject["high"]],
        "false_fit_count": wrong_fit["count"],
        "false_reject_count": wrong_reject["count"],
    }
