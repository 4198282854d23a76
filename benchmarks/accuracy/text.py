"""The report of the accuracy benchmark as plain text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAST_PREDICTED = 0.95
"""Share of complete rows that are meant to have a prediction."""
MOST_GROUPS = 12
_NAME = 38
_KIND = 34
SPLIT_NAMES = {"configuration": "config", "source": "source", "source_unknown": "unknown"}


def text_of(answer: Mapping[str, Any], table: str, brief: bool = False) -> str:
    """Return the whole report, or its headlines; `answer` is what `benchmarks.accuracy.report` returns."""
    parts = [_verdict(answer, table), _kinds(answer), _errors(answer), _fit(answer["fit"])]
    parts.append(_order(answer["throughput"]))
    if brief:
        return "\n\n".join((*parts, _baselines(answer)))
    parts += [_groups(answer, figure) for figure in ("memory", "throughput")]
    parts += [_worst(answer), _apart(answer["apart"]), _baselines(answer), _splits(answer["splits"])]
    parts.append(_skipped(answer["skipped"]))
    return "\n\n".join(part for part in parts if part)


def percent(value: float | None, signed: bool = False) -> str:
    """Return a fraction as percent with one decimal; a dash where there is none."""
    if value is None:
        return "-"
    return f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"


def _row(name: str, errors: Mapping[str, Any]) -> str:
    return (
        f"{_cut(name):<{_NAME}}{errors['n']:>6}{percent(errors['median_ape']):>9}{percent(errors['mape']):>8}"
        f"{percent(errors['p90_ape']):>8}{percent(errors['bias'], signed=True):>9}"
    )


def _head(title: str) -> str:
    return f"{title:<{_NAME}}{'n':>6}{'median':>9}{'MAPE':>8}{'p90':>8}{'bias':>9}"


def _cut(name: str, width: int = _NAME - 1) -> str:
    return name if len(name) <= width else name[: width - 3] + "..."


def _verdict(answer: Mapping[str, Any], table: str) -> str:
    memory, speed = answer["memory"], answer["throughput"]
    shares = ", ".join(f"{figure} {_share_predicted(answer[figure])}" for figure in ("memory", "throughput"))
    return (
        f"{table}: {answer['rows']} rows. Memory off by {percent(memory['median_ape'])} % in the median "
        f"({memory['n']} of\n{memory['n_complete']} complete rows predicted), throughput by "
        f"{percent(speed['median_ape'])} % ({speed['n']} of {speed['n_complete']}).\n"
        f"Share predicted, %: {shares}.\n"
        "Rows of quality A and B with a named framework; the shipped calibration has\n"
        "seen published runs, maybe these. Errors are of predicted over measured, in %."
    )


def _share_predicted(errors: Mapping[str, Any]) -> str:
    found = errors["share_predicted"]
    if found is None:
        return "-"
    return f"{percent(found)} ({100 * LEAST_PREDICTED:g}) {'met' if found >= LEAST_PREDICTED else 'missed'}"


def _kinds(answer: Mapping[str, Any]) -> str:
    """Return the headline, the worst kind, and each kind with its range."""
    lines = []
    for figure in ("memory", "throughput"):
        kinds, worst = answer[figure]["kinds"], answer[figure]["worst_kind"]
        if worst is not None:
            found = kinds[worst]
            lines.append(
                f"Headline, {figure}: {percent(found['mape'])} % is the mean over the {found['n']} organisations of\n"
                f"  the worst kind, {worst} (median {percent(found['median_ape'])})."
            )
    columns = f"{'orgs':>4}{'rows':>6}{'median':>7}{'MAPE':>7}{'in 68 %':>8}{'in 95 %':>8}{'width':>6}"
    lines += ["", f"{'Means over organisations':<{_KIND}}{columns}"]
    for figure in ("memory", "throughput"):
        for name, one in answer[figure]["kinds"].items():
            inside, width = one["range"], one["range"]["width"]
            lines.append(
                f"{f'{figure}, {name}':<{_KIND}}{one['n']:>4}{one['rows']:>6}{percent(one['median_ape']):>7}"
                f"{percent(one['mape']):>7}{percent(inside['interval_68']):>8}{percent(inside['interval_95']):>8}"
                f"{'-' if width is None else f'{width:.2f}':>6}"
            )
    return "\n".join([*lines, "Width: mean stated spread over the one that 68 % of the rows need."])


def _errors(answer: Mapping[str, Any]) -> str:
    lines = [_head("Errors")]
    lines += [_row(figure, answer[figure]) for figure in ("memory", "throughput")]
    for figure in ("memory", "throughput"):
        found = answer[figure]["coverage"]
        lines.append(
            f"Of {found['n']} {figure} figures, {percent(found['interval_68'])} % lie in our 68 % interval, "
            f"{percent(found['interval_95'])} % in our 95 %."
        )
    for figure in ("memory", "throughput"):
        mean = answer[figure]["organisations"]
        lines.append(
            f"Mean over {mean['n']} organisations, {figure}: median {percent(mean['median_ape'])}, "
            f"MAPE {percent(mean['mape'])}."
        )
    return "\n".join(lines)


def _fit(fit: Mapping[str, Any]) -> str:
    lines = ["Fits or not, at the shipped margin"]
    for name, key, n in (
        ("ran out of memory, said to fit", "false_fit", "n_oom"),
        ("ran, said not to fit", "false_reject", "n_ok"),
    ):
        low, high = fit[f"{key}_interval"]
        lines.append(
            f"  {name:<31} {percent(fit[key]):>5} %  {fit[f'{key}_count']} of {fit[n]}, "
            f"95 % sure of {percent(low)} to {percent(high)}"
        )
    return "\n".join(lines)


def _order(speed: Mapping[str, Any]) -> str:
    regret = speed["regret"]
    lines = ["Pairs with speeds per GPU more than 10 % apart, in the right order"]
    lines += [
        f"  other {kind:<25} {percent(found['right']):>5} %  of {found['n']}" for kind, found in speed["pairs"].items()
    ]
    strict = [
        f"{kind} {percent(found['right'])} % of {found['n']}" for kind, found in speed["pairs_same_dimensions"].items()
    ]
    lines.append(f"  same dimensions, too: {', '.join(strict[:2])},\n    {strict[2]}")
    if regret["n"]:
        lines.append(
            f"Picked as cheapest in each of {regret['n']} groups: costs {regret['median']:.3f} times the best in the\n"
            f"  median, {regret['p90']:.3f} at p90; speeds of the picked are off by "
            f"{percent(regret['optimism'], signed=True)} % (mean ln of\n"
            "  measured over predicted: below 0 is too optimistic)"
        )
    return "\n".join(lines)


def _groups(answer: Mapping[str, Any], figure: str) -> str:
    lines = []
    for name, groups in answer[figure]["by"].items():
        lines.append(_head(f"{figure.capitalize()} by {name}"))
        lines += [_row(group, errors) for group, errors in list(groups.items())[:MOST_GROUPS]]
        if len(groups) > MOST_GROUPS:
            rest = sum(errors["n"] for errors in list(groups.values())[MOST_GROUPS:])
            lines.append(f"  and {len(groups) - MOST_GROUPS} smaller groups with {rest} rows (see --json)")
        lines.append("")
    return "\n".join(lines).rstrip()


def _worst(answer: Mapping[str, Any]) -> str:
    lines = []
    for figure in ("memory", "throughput"):
        lines.append(_head(f"Worst groups, {figure} (n >= 5)"))
        lines += [_row(entry["group"], entry) for entry in answer[figure]["worst"][:8]]
    return "\n".join(lines)


def _apart(apart: Mapping[str, Any]) -> str:
    lines = [_head("Apart from the headline")]
    for name, found in apart.items():
        lines += [_row(f"{name}, {figure}", errors) for figure, errors in found.items() if errors["n"]]
    return "\n".join(lines) if len(lines) > 1 else ""


def _baselines(answer: Mapping[str, Any]) -> str:
    lines = []
    for figure in ("memory", "throughput"):
        lines.append(_head(f"Rules of thumb, {figure}"))
        lines += [_row(name, errors) for name, errors in answer["baselines"][figure].items()]
        ours = answer[figure]["median_ape"]
        others = [e["median_ape"] for e in answer["baselines"][figure].values() if e["median_ape"] is not None]
        if ours and others:
            lines.append(f"  the best of them is {min(others) / ours:.1f} times as far off as we are, in the median")
    for name, errors in answer["baselines"]["throughput"].items():
        shown = ", ".join(f"{kind} {percent(found['right'])}" for kind, found in errors["pairs"].items())
        lines.append(f"  pairs by {_cut(name, 26)}: {shown}")
    return "\n".join(lines)


def _splits(splits: Mapping[str, Any]) -> str:
    lines = [
        "Halves on which a calibration made on the other half is judged. The shipped one",
        "was not made on halves: read this as how rows differ, not as held-out errors.",
        _head("By configuration, source, unknown"),
    ]
    for split, halves in splits.items():
        for half in ("side 0", "side 1"):
            name = f"{SPLIT_NAMES[split]}, {half}"
            lines += [_row(f"{name}, {figure}", halves[half][figure]) for figure in ("memory", "throughput")]
        both = halves["both"]
        fit, kinds = both["fit"], both["throughput"]["pairs"]
        lines.append(
            f"  both: false fit {percent(fit['false_fit'])} % of {fit['n_oom']}, "
            f"false reject {percent(fit['false_reject'])} % of {fit['n_ok']};"
        )
        lines.append("  pairs: " + ", ".join(f"{kind} {percent(found['right'])} %" for kind, found in kinds.items()))
    return "\n".join(lines)


def _skipped(skipped: Mapping[str, int]) -> str:
    if not skipped:
        return "No row was skipped."
    lines = ["Figures without a prediction, and why"]
    return "\n".join([*lines, *(f"{n:>6}  {_cut(reason, 72)}" for reason, n in skipped.items())])
