"""The report of a calibration as plain text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.benchmark import FIGURES, summary
from benchmarks.accuracy.splits import DOCUMENTED, SPLITS, organisation
from benchmarks.accuracy.text import percent
from benchmarks.calibration.files import Found, plain
from benchmarks.calibration.held_out import Table, counts, folds, strangers, unfitted
from benchmarks.calibration.targets import COLUMNS, table_of

WORST = 15
_NAME = 40


def text_of(
    splits: Mapping[str, Any], groups: Mapping[str, Any], found: Mapping[str, Found], table: Table, name: str
) -> str:
    """Return the whole report; `found` is empty where nothing is calibrated for shipping."""
    parts = [
        _head(table, name),
        table_of(splits),
        _documented(splits),
        _classes(splits["organisation"]),
        _priors(table),
    ]
    if found:
        parts += [_measured(found), _rest(found)]
    parts += [_worst(groups[split][figure], split, figure) for split in SPLITS for figure in FIGURES]
    return "\n\n".join(parts)


def _head(table: Table, name: str) -> str:
    said = []
    for figure in FIGURES:
        rows = [p for p in table.known if counts(p, figure)]
        said.append(f"{len(rows)} rows of {len({organisation(p.row) for p in rows})} organisations for {figure}")
    return (
        f"{name}: {len(table.rows)} rows. Fitted and judged:\n{said[0]},\n{said[1]}.\n"
        "Each row is judged by a fit without it, with spreads from other rows: without\n"
        "its whole organisation, or without its half of the configurations."
    )


def _documented(splits: Mapping[str, Any]) -> str:
    """Return memory where a framework that only the organisation left out has is forgotten, and where it is named."""
    lines = [f"{'Memory, organisation left out':<{_NAME}}{'n':>6}{'forgotten':>14}{'documented':>14}"]
    either = [splits[name] for name in ("organisation", DOCUMENTED)]
    means = [figures["memory"]["organisations"] for figures in either]
    named = {
        "mean over organisations, MAPE, %": (means, "mape", "n"),
        "mean over organisations, median, %": (means, "median_ape", "n"),
        "median, %": ([figures["memory"] for figures in either], "median_ape", "n"),
        "MAPE, %": ([figures["memory"] for figures in either], "mape", "n"),
        "p90, %": ([figures["memory"] for figures in either], "p90_ape", "n"),
        "false fit, %": ([figures["fit"] for figures in either], "false_fit", "n_oom"),
        "false reject, %": ([figures["fit"] for figures in either], "false_reject", "n_ok"),
    }
    for said, (found, key, count) in named.items():
        lines.append(f"{said:<{_NAME}}{found[0][count]:>6}" + "".join(f"{percent(one[key]):>14}" for one in found))
    lines.append("A framework of one organisation is forgotten, or has its documented facts alone.")
    return "\n".join(lines)


def _classes(figures: Mapping[str, Any]) -> str:
    """Return the share of each class inside its ranges, organisation left out, and whether that may be chance."""
    lines = [f"{'In the ranges, organisation left out, %':<40}{'n':>5}{'68 %':>17}{'95 %':>17}"]
    for figure in FIGURES:
        for name, ranges in figures[figure]["classes"].items():
            cells = [_verdict(ranges["interval_68"], 0.68), _verdict(ranges["interval_95"], 0.95)]
            lines.append(f"{f'{figure}, {name}':<40}{ranges['interval_68']['n']:>5}{cells[0]:>17}{cells[1]:>17}")
    lines.append("ok: the 95 % binomial interval of the share holds what is asked for.")
    return "\n".join(lines)


def _verdict(share: Mapping[str, Any], asked: float) -> str:
    return f"{percent(share['share'])} {'ok' if share['low'] <= asked <= share['high'] else 'off'}"


def _priors(table: Table) -> str:
    """Return what the held-out figures have to be read against."""
    everything = np.ones(len(table.rows), dtype=bool)
    alone = [strangers(table, everything, part) for part in folds(table, everything, "organisation")]
    lines = [f"{'Nothing fitted, priors alone, %':<{_NAME}}{'n':>6}{'median':>9}{'MAPE':>8}{'p90':>8}"]
    either = {"as organisations left out": frozenset[int]().union(*alone), "every framework named": frozenset[int]()}
    for figure in FIGURES:
        for said, forgotten in either.items():
            found = summary([p for p in unfitted(table, forgotten) if counts(p, figure)], figure)
            shown = f"{percent(found['median_ape']):>9}{percent(found['mape']):>8}{percent(found['p90_ape']):>8}"
            lines.append(f"{f'{figure}, {said}':<{_NAME}}{found['n']:>6}{shown}")
    lines.append(
        "The priors were written with published runs in view: where they do as well as a\nfit, held out is not blind."
    )
    return "\n".join(lines)


def _measured(found: Mapping[str, Found]) -> str:
    lines = [f"{'Fitted on all rows':<{_NAME}}{'value':>12}{'range':>28}"]
    for key, facts in found.items():
        if facts.basis == "measured" and facts.low is not None and facts.high is not None:
            bounds = f"{plain(facts.low)} to {plain(facts.high)}"
            lines.append(f"{key:<{_NAME}}{plain(facts.value):>12}{bounds:>28}")
    return "\n".join(lines)


def _rest(found: Mapping[str, Found]) -> str:
    spreads = [(key, facts) for key, facts in found.items() if facts.basis == "measured" and facts.low is None]
    priors = sum(facts.basis != "measured" for facts in found.values())
    lines = [f"{'Spreads, in ln':<{_NAME}}{'value':>12}"]
    lines += [f"{key:<{_NAME}}{plain(facts.value):>12}" for key, facts in spreads]
    lines.append(f"{priors} further coefficients follow others or keep their prior: no rows inform them.")
    return "\n".join(lines)


def _worst(entries: list[dict[str, Any]], split: str, figure: str) -> str:
    lines = [f"{f'Furthest off, {figure}, {COLUMNS[split]}':<50}{'n':>6}{'median':>8}{'p90':>8}{'bias':>8}"]
    for entry in entries[:WORST]:
        shown = "".join(f"{100 * entry[key]:>8.1f}" for key in ("median_ape", "p90_ape"))
        name = entry["group"] if len(entry["group"]) < 50 else entry["group"][:46] + "..."
        lines.append(f"{name:<50}{entry['n']:>6}{shown}{100 * entry['bias']:>+8.1f}")
    return "\n".join(lines)
