"""Judge the laws of loss by published runs on data sets that no law was fitted on.

    python -m benchmarks.published_losses [--law NAME]

The level of a loss depends on data and tokenizer, so that two things are judged: how far a run lies from the law, and
how far the runs of one data set lie from one another once their mean distance is taken off.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from planner.open_choices.loss_laws import LAWS, LEVEL_SPREAD, known_tokens, loss_range

TABLE = Path(__file__).with_suffix(".csv")
"""Parameters count the input embedding where it is the output head, too; losses are nats per token of held-out text."""


def judged(law: str) -> list[tuple[dict[str, str], float, bool, bool]]:
    """Return each run, its loss less that of the law, whether the range holds it, and whether the law has seen such."""
    found = []
    for row in csv.DictReader(TABLE.open(encoding="utf-8")):
        parameters, tokens = float(row["parameters"]), float(row["tokens"])
        unique = float(row["unique_tokens"]) if row["unique_tokens"] else None
        planned, loss = LAWS[law].loss(parameters, tokens, unique), float(row["loss"])
        low, high = loss_range(planned, tokens, unique)
        least, most = known_tokens(parameters)
        found.append((row, loss - planned, low <= loss <= high, least <= tokens <= most))
    return found


def main() -> None:
    """Print each run, the coverage of the range, and the spread within each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", choices=sorted(LAWS), default="besiroglu")
    found = judged(parser.parse_args().law)
    by_corpus: dict[str, list[float]] = defaultdict(list)
    for row, off, inside, known in found:
        by_corpus[row["corpus"]].append(off)
        where = f"{'inside' if inside else 'outside'} the range" + ("" if known else ", beyond what the law has seen")
        print(f"{row['run']:22} {row['corpus']:12} loss {float(row['loss']):.3f}, off {off:+.3f}: {where}")
    held = sum(inside for _, _, inside, _ in found)
    print(f"\n{held} of {len(found)} runs of {len(by_corpus)} data sets within {LEVEL_SPREAD:g} nats of the law")
    for corpus, several in by_corpus.items():
        apart = max(abs(off - fmean(several)) for off in several)
        print(f"{corpus:12} n {len(several)}: mean {fmean(several):+.3f}, runs at most {apart:.3f} from it")


if __name__ == "__main__":
    main()
