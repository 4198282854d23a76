"""Nothing that is fed to a command crashes it, hangs it, or gets a fault without its line and what would be right."""

from __future__ import annotations

import pytest

from tests.fuzz.inputs import make_case, warm_up
from tests.fuzz.run import Case, Outcome, complaints, run

COUNT, CHUNKS = 300, 10
FAULT = '{"errors": [{"file": "s.yaml", "line": 3, "where": "a", "what": "b", "fix": "c"}]}'


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_input_gets_an_answer_or_its_faults(chunk: int) -> None:
    """300 inputs of fixed seeds; `python -m tests.fuzz --count 1 --seed N --show` shows one of them."""
    warm_up()
    seeds = range(chunk, COUNT, CHUNKS)
    found = {seed: complaints(case, run(case)) for seed in seeds for case in [make_case(seed)]}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("outcome", "wrong"),
    [
        (Outcome(1, "", "Traceback\nValueError: odd\n", 1, 1), "exit 1:  ValueError: odd"),
        (Outcome(0, '{"cost_usd": -2}', "", 1, 1), "cost_usd is negative"),
        (Outcome(0, '{"hours": NaN}', "", 1, 1), "hours is nan"),
        (Outcome(0, "{}", "x.py:1: RuntimeWarning: overflow", 1, 1), "RuntimeWarning: overflow"),
        (Outcome(0, '{"name": "\x1b[2J"}', "", 1, 1), "terminal character '\\x1b'"),
        (Outcome(0, "{}", "", 121, 1), "more than 120 s of CPU"),
        (Outcome(0, "{}", "", 1, 2 * 10**9), "more than 1 GB"),
        (Outcome(2, FAULT.replace('"c"', '""'), "", 1, 1), "no fix: a: b; "),
        (Outcome(2, FAULT.replace("3", "0"), "", 1, 1), "no line: a: b; c"),
        (Outcome(2, FAULT, "", 1, 1), None),
        (Outcome(0, '{"cost_usd": 2, "change_usd": -1}', "", 1, 1), None),
    ],
)  # fmt: skip
def test_each_kind_of_bad_answer_is_seen(outcome: Outcome, wrong: str | None) -> None:
    """The judge itself: one outcome per rule, and one that is right."""
    found = complaints(Case(("solve", "s.yaml", "--json"), {"s.yaml": b"name: a"}), outcome)
    assert (wrong in found) if wrong else found == []
