"""Command line: `python -m benchmarks.mutations [--list] [--only TEXT] [--every N] [--processes N]`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.mutations.catalogue import MUTATIONS
from benchmarks.mutations.mutation import AnchorError, Mutation
from benchmarks.mutations.runner import ROOT, Outcome, Verdict, run_mutations


def main() -> int:
    """Run the mutations that were asked for; 1 where one survives or does not apply."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the mutations and whether each applies, run nothing")
    parser.add_argument("--only", action="append", metavar="TEXT", help="run those whose name or file holds this text")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every N-th of them only")
    parser.add_argument("--processes", type=int, default=1, help="how many run at the same time")
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests on the unchanged code first")
    asked = parser.parse_args()
    wanted = [
        one for one in MUTATIONS if asked.only is None or any(text in f"{one.file} {one.name}" for text in asked.only)
    ][:: asked.every]
    if not wanted:
        print("no mutation has such a name; --list shows all")
        return 1
    if asked.list:
        return _show_list(wanted)
    try:
        outcomes = run_mutations(wanted, asked.processes, _show, check_first=not asked.unchecked)
    except RuntimeError as error:
        print(error)
        return 1
    return _show_summary(outcomes)


def _show_list(mutations: Sequence[Mutation]) -> int:
    """Print every mutation; 1 where one does not apply."""
    wrong = 0
    for one in mutations:
        problem = ""
        try:
            one.mutated(ROOT)
        except AnchorError as error:
            problem, wrong = f"  ERROR: {error}", wrong + 1
        print(f"{one.file}: {one.name}{problem}")
    print(f"{len(mutations)} mutations, {wrong} of them do not apply")
    return int(wrong > 0)


def _show(outcome: Outcome) -> None:
    """Print one outcome."""
    one = outcome.mutation
    print(f"{outcome.verdict:10} {outcome.seconds:5.1f} s  {one.file}: {one.name}  [{outcome.detail}]", flush=True)


def _show_summary(outcomes: list[Outcome]) -> int:
    """Print the share that was killed; 1 where a mutation survived or did not apply."""
    counts = Counter(one.verdict for one in outcomes)
    judged = counts[Verdict.KILLED] + counts[Verdict.SURVIVED]
    share = counts[Verdict.KILLED] / judged if judged else 0.0
    for one in outcomes:
        if one.verdict in (Verdict.SURVIVED, Verdict.ERROR):
            print(f"{one.verdict}: {one.mutation.file}: {one.mutation.name}  [{one.detail}]")
    print(
        f"killed {counts[Verdict.KILLED]} of {judged} ({share:.0%}), equivalent {counts[Verdict.EQUIVALENT]}, "
        f"errors {counts[Verdict.ERROR]}, {sum(one.seconds for one in outcomes):.0f} s of tests"
    )
    return int(counts[Verdict.SURVIVED] + counts[Verdict.ERROR] > 0)


if __name__ == "__main__":
    sys.exit(main())
