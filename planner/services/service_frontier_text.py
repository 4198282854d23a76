"""Dollars of a month against the time per token as text."""

from __future__ import annotations

from planner.report import words
from planner.report.infeasible_text import render_relaxations
from planner.results.service_results import BINDING_WORDS, ServiceFrontier, ServicePoint, seconds_text, span
from planner.services.fleet_text import proven_in_short

MOST_FRONTIER_KINDS = 3


def render_service_frontier(found: ServiceFrontier) -> str:
    """Return the text of a frontier of a service without a final newline."""
    if not found.points:
        relax, nearest = (found.infeasible.relax, found.infeasible.nearest) if found.infeasible else ((), ())
        return "\n".join([*render_relaxations(relax, nearest, found.scenario), *_notes(found)])
    lines = [*words.wrap_lines(service_frontier_summary(found), words.width(), 3), ""]
    lines.append(f"{'per token':>10}  {'a month':>11}  {'proven':>7}  {'replicas':>8}  fleet")
    for point in found.points:
        lines += _row(point)
    return "\n".join([*lines, "", *_notes(found)])


def service_frontier_summary(found: ServiceFrontier) -> str:
    """Return both ends of the frontier in one sentence."""
    first, last = found.points[0], found.points[-1]
    ends = f"{words.usd(first.usd_per_month)} a month within {seconds_text(first.tpot_seconds)} per token"
    if last is not first:
        ends += f" to {words.usd(last.usd_per_month)} within {seconds_text(last.tpot_seconds)}"
    share = words.share_text(found.share)
    return f"{words.sanitise(found.scenario)}: {ends}, for {share} of {words.significant(found.load)} {found.unit}"


def _row(one: ServicePoint) -> list[str]:
    """Return a point: limit, dollars, how far it is proven, replicas, machines."""
    proof = proven_in_short(one.gap)
    mark = "*" if one.asked else " "
    limit = f"{seconds_text(one.tpot_seconds)}{mark}"
    replicas = span(one.least_replicas, one.most_replicas)
    left = f"{limit:>11} {words.usd(one.usd_per_month):>11}  {proof:>7}  {replicas:>8}  "
    return words.hang(left, machine_lines(one.machines, words.width() - len(left), MOST_FRONTIER_KINDS))


def machine_lines(machines: tuple[str, ...], room: int, most: int) -> list[str]:
    """Return the kinds of a fleet one below the other, those that do not fit as a count."""
    shown = machines if len(machines) <= most else machines[: most - 1]
    lines = [line for machine in shown for line in words.wrap_lines(words.sanitise(machine), room, 2)]
    more = len(machines) - len(shown)
    return [*lines, f"and {more} more kinds (--json)"] if more else lines


def _notes(found: ServiceFrontier) -> list[str]:
    """Return what the rows rest on."""
    notes = []
    if any(point.asked for point in found.points):
        notes.append("* the limit of the scenario")
    held = tuple(dict.fromkeys(name for point in found.points for name in point.binds))
    if held and "TPOT" not in found.points[-1].binds:
        last = ", ".join(BINDING_WORDS[name] for name in found.points[-1].binds)
        notes.append(f"above {seconds_text(found.points[-1].tpot_seconds)} nothing is gained: limited by {last}")
    if found.least_tpot_seconds is not None:
        least = seconds_text(found.least_tpot_seconds)
        notes.append(f"no kind answers faster than {least} per token, at no load and at the confidence of the job")
    if found.ttft_seconds is not None and found.points:
        notes.append(f"every row keeps {seconds_text(found.ttft_seconds)} to the first token")
    notes += [words.sanitise(note) for note in found.notes]
    bare = sum(point.gap >= 1.0 for point in found.points)
    notes.append(
        f"{found.solved} limits solved, each with a bound of its own"
        if not bare
        else f"{found.solved} limits solved; of {bare} no bound was found within the time limit"
    )
    return [line for note in notes for line in words.wrap_hanging(note, 3)]
