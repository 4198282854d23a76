"""What a reader can compute from the text of a plan: products of its bill, its micro-batches, the sum of its lines."""

from __future__ import annotations

import re

from planner.report import words

FACTORS = re.compile(r"(?P<amount>\d[\d,.]*) (?P<unit>[^$]*?) x \$(?P<rate>\d[\d,.]*)\b.*? (?P<usd>-?\d[\d,.]*)$")
BATCH = re.compile(r"micro-batch (\d+) x (\d+) steps?(?: x ([\d,]+) (?:GPUs|chips|groups))?.*= ([\d,]+) ")


def number(text: str) -> float:
    """Return a shown figure."""
    return float(text.replace(",", ""))


def agrees(line: str) -> bool:
    """Return whether the factors of a line of the bill multiply to its dollars, to the digits shown."""
    found = FACTORS.search(line)
    if found is None:
        return True
    minutes = 60.0 if found["unit"] == "min" else 1.0
    product = number(found["amount"]) * number(found["rate"]) / minutes
    return words.usd(product) == words.usd(number(found["usd"]))


def lacking(text: str) -> float:
    """Return what the lines of a bill lack of their total, to the cent; 0 where a plan shows no bill of one job."""
    lines = text.splitlines()
    for first in (at for at, line in enumerate(lines) if line.startswith("  Bill ")):
        end = next((at for at in range(first + 1, len(lines)) if not lines[at].startswith(" " * 11)), len(lines))
        bill = [line for line in lines[first:end] if "not included" not in line and line[66:]]
        if bill and bill[-1][11:].startswith("total "):  # else a sentence: the bill of all jobs
            shown = [number(line.split()[-1]) for line in bill]
            return round(shown[-1] - sum(shown[:-1]), 2)
    return 0.0


def check_shown_arithmetic(text: str) -> None:
    """Check a plan as text: a quantity times its rate is the amount on its line, and micro-batches make up the batch.

    Every line of the bill is in whole cents; a line of rounding, or of the smaller items, makes up for it. 80 columns
    suffice.
    """
    assert [line for line in text.splitlines() if not agrees(line)] == []
    for micro, steps, ranks, batch in BATCH.findall(text):
        assert int(micro) * int(steps) * number(ranks or "1") == number(batch)
    assert max(map(len, text.splitlines())) <= words.WIDTH
    assert lacking(text) == 0 or "jobs, " in text.splitlines()[0]
