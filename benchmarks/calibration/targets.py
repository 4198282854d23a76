"""What the estimates are meant to reach on rows that no fit has seen, beside what they reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.accuracy.splits import SPLITS

COLUMNS = {"organisation": "organisation", "organisation_unknown": "same, unknown", "configuration": "configuration"}
_NAME, _CELL = 26, 18


@dataclass(frozen=True)
class Target:
    """One figure: where it stands in a split's figures, and its limit per split; None is reported only.

    A limit is the most that is allowed, or the least where `least`; a pair is both.
    """

    name: str
    path: tuple[str, ...]
    limits: tuple[float | tuple[float, float] | None, ...]
    count: tuple[str, ...]  # where its n stands
    factor: float = 100.0
    decimals: int = 1
    least: bool = False
    size: bool = False  # its absolute value is judged

    def met(self, value: float, split: int) -> bool | None:
        """Return whether the value keeps its limit; None where there is none."""
        limit = self.limits[split]
        if limit is None:
            return None
        value = abs(value) if self.size else value
        if isinstance(limit, tuple):
            return limit[0] <= value <= limit[1]
        return value >= limit if self.least else value <= limit


def _errors(figure: str, limits: Sequence[Sequence[float] | None]) -> list[Target]:
    names = {"median_ape": "median", "mape": "MAPE", "p90_ape": "p90"}
    return [
        Target(
            f"{figure} {name}, %", (figure, key),
            tuple(None if limit is None else limit[i] for limit in limits), (figure, "n"),
        )
        for i, (key, name) in enumerate(names.items())
    ]  # fmt: skip


def _means(figure: str, mape: float, median: float) -> list[Target]:
    """Return the targets of the mean over organisations, each left out."""
    path, limits = (figure, "organisations"), {"mape": mape, "median_ape": median}
    names = {"mape": "org MAPE", "median_ape": "org median"}
    count = (*path, "n")
    return [Target(f"{figure} {names[key]}", (*path, key), (limit, None, None), count) for key, limit in limits.items()]


def _pairs(kind: str, name: str, limits: Sequence[float | None] | None = None) -> Target:
    """Return the pairs by the letter with their limits; without, of networks of the same dimensions, reported only."""
    path = ("throughput", "pairs" if limits else "pairs_same_dimensions", kind)
    limits = limits or (None,) * len(SPLITS)
    return Target(
        f"{'pairs' if path[1] == 'pairs' else 'strict'}, {name}, %",
        (*path, "right"),
        tuple(limits),
        (*path, "n"),
        least=True,
    )


def _coverage(figure: str, key: str, low: float, high: float) -> Target:
    name = f"{figure} in {key[-2:]} %"
    path = (figure, "coverage")
    return Target(name, (*path, key), ((low, high),) * 3, (*path, "n"), decimals=1)


_PICKS = ("throughput", "regret", "n")

TARGETS: tuple[Target, ...] = (
    *_means("memory", 12.0, 7.0),
    *_errors("memory", [(4.0, 8.0, 20.0), None, (2.6, 6.1, 17.2)]),
    Target("false fit, %", ("fit", "false_fit"), (6.0, None, 6.0), ("fit", "n_oom")),
    Target("false reject, %", ("fit", "false_reject"), (6.0, None, 6.0), ("fit", "n_ok")),
    *_means("throughput", 14.0, 9.0),
    *_errors("throughput", [(8.0, 11.0, 20.0), None, (6.0, 8.7, 20.0)]),
    _pairs("gpu", "GPU", (97.0, None, 97.0)),
    _pairs("setting", "setting", (92.0, None, 92.0)),
    _pairs("technique", "technique", (92.0, None, 92.0)),
    _pairs("gpu", "GPU"),
    _pairs("setting", "setting"),
    _pairs("technique", "technique"),
    Target("regret median", ("throughput", "regret", "median"), (1.02, None, 1.02), _PICKS, 1.0, 3),
    Target("regret p90", ("throughput", "regret", "p90"), (1.06, None, 1.06), _PICKS, 1.0, 3),
    Target("optimism of picks, %", ("throughput", "regret", "optimism"), (8.0, None, 5.0),
           _PICKS, size=True),
    *(_coverage(figure, key, *limits) for figure in ("memory", "throughput")
      for key, limits in (("interval_68", (62.0, 75.0)), ("interval_95", (94.0, 98.0)))),
    Target("MFU 0.45, median x", ("beaten", "median"), (1.7, None, 3.0), ("throughput", "n"), 1.0, 1, least=True),
    Target("MFU 0.45, p90 x", ("beaten", "p90"), (3.0, None, 3.0), ("throughput", "n"), 1.0, 1, least=True),
    Target("best rule, median x", ("beaten", "memory"), (5.0, None, 5.0), ("memory", "n"), 1.0, 1, least=True),
)  # fmt: skip


def at(figures: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value at a path of keys."""
    for key in path:
        figures = figures[key]
    return figures


def beaten(figures: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, float | None]:
    """Return how many times as far off rules of thumb are: constant MFU in throughput, the best of all in memory."""
    ours, mfu = figures["throughput"], rules["throughput"]["constant MFU 0.45"]
    best = [errors["median_ape"] for errors in rules["memory"].values() if errors["n"]]
    return {
        "median": _over(mfu["median_ape"], ours["median_ape"]),
        "p90": _over(mfu["p90_ape"], ours["p90_ape"]),
        "memory": _over(min(best, default=None), figures["memory"]["median_ape"]),
    }


def _over(theirs: float | None, ours: float | None) -> float | None:
    return theirs / ours if theirs is not None and ours else None


def table_of(splits: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the targets with what was reached, one line each, three columns; 80 wide."""
    head = f"{'Held out':<{_NAME - 5}}{'n':>5}" + "".join(f"{COLUMNS[split]:>{_CELL}}" for split in SPLITS)
    lines = [head]
    missed = 0
    for target in TARGETS:
        cells = []
        for index, split in enumerate(SPLITS):
            value = at(splits[split], target.path)
            cells.append(_cell(target, value, index))
            missed += value is not None and target.met(value * target.factor, index) is False
        counts = dict.fromkeys(str(at(splits[split], target.count)) for split in SPLITS)
        lines.append(f"{target.name:<{_NAME - 5}}{'/'.join(counts):>5}" + "".join(cells))
    lines.append(f"{missed} missed. Brackets hold the target; without one the figure is reported only.")
    lines.append("Strict: pairs of networks of one name and of the same dimensions, too.")
    return "\n".join(lines)


def _cell(target: Target, value: float | None, split: int) -> str:
    if value is None:
        return f"{'-':>{_CELL}}"
    shown = value * target.factor
    limit = target.limits[split]
    text = f"{shown:.{target.decimals}f}"
    if limit is None:
        return f"{text:>{_CELL}}"
    bounds = f"{limit[0]:g}-{limit[1]:g}" if isinstance(limit, tuple) else f"{limit:g}"
    word = "met" if target.met(shown, split) else "miss"
    return f"{f'{text} ({bounds}) {word}':>{_CELL}}"
