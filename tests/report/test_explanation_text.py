"""The text of an explanation: laid out as agreed, never wider than a screen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import words
from planner.report.explanation_text import render
from planner.report.words import WIDTH
from planner.results.explanation import Explanation

PLAN: dict[str, Any] = {
    "scenario": "small",
    "status": "optimal",
    "plan": "2 x A5000 at runpod, QLoRA",
    "cost_usd": 3.08,
    "hours": 9.5,
    "binding": [{"limit": "limits.max_gpus", "current": 2, "saving_usd": 0.4, "saving_hours": 3.0}],
    "next_steps": [
        {"worth": "hour", "limit": "jobs.small.deadline", "from": 36.0, "note": "no effect at any value"},
        {
            "worth": "gpu", "limit": "limits.max_gpus", "from": 2.0, "to": 4.0, "plan": "4 x A5000 at runpod, QLoRA",
            "cost_usd": 2.68, "hours": 5.0, "delta_usd": -0.4, "delta_hours": -4.5, "setting": "limits.max_gpus=4",
        },
    ],
    "alternatives": [
        {
            "by": "provider", "job": "small", "name": "runpod", "plan": "", "gpu": "A5000", "gpus": 2, "chosen": True,
            "provider": "runpod", "method": "QLoRA", "cost_usd": 3.08, "hours": 9.5, "verdict": "the plan",
        },
        {
            "by": "provider", "job": "small", "name": "vast", "plan": "", "gpu": "RTX3090", "gpus": 1,
            "provider": "vast", "method": "QLoRA", "cost_usd": 3.2, "hours": 19.1, "verdict": "within error",
        },
        {
            "by": "method", "job": "small", "name": "full", "plan": "", "gpu": "H200", "gpus": 1, "allowed": False,
            "provider": "nebius", "method": "full training", "cost_usd": 4.81, "hours": 5.8, "verdict": "56 % dearer",
        },
    ],
}  # fmt: skip

PLAN_TEXT = """\
small: 2 x A5000 at runpod, QLoRA, likely 9.5 h, $3.08; 1 limit binds

  Binds    max gpus 2: without it $0.40 less, likely 3.0 h earlier
  Next     max gpus 2 -> 4: $0.40 less, likely 4.5 h earlier
             4 x A5000 at runpod, QLoRA, likely 5.0 h, $2.68
           no gain from relaxing: deadline

  Alternatives
    Provider  machine             $/h  likely   cost
  > runpod    2 x A5000, QLoRA      -   9.5 h  $3.08  the plan
    vast      1 x RTX3090, QLoRA    -  19.1 h  $3.20  within error
    Method  machine             $/h  likely   cost
    full    1 x H200 at nebius    -   5.8 h  $4.81  excluded"""

WHY: dict[str, Any] = {
    "asked": "gpu=RTX4090,method=full", "status": "possible", "plan": "8 x RTX4090 at vast, full training",
    "cost_usd": 23.77, "hours": 7.9, "times": 7.7, "reasons": ["an hour costs $2.99 against $0.33 (9.2 x)"],
}  # fmt: skip

WHY_TEXT = """\
gpu=RTX4090,method=full: $23.77, likely 7.9 h, 7.7x the cost; the plan: $3.08,
likely 9.5 h
  Plan     8 x RTX4090 at vast, full training
  Because  an hour costs $2.99 against $0.33 (9.2 x)"""

IMPOSSIBLE_TEXT = """\
gpu=RTX3060: infeasible: LoRA needs 16.9 GiB per GPU; 11.8 are usable
  Memory   weights 13.5  logits 0.9  peak in: end of forward (logits)
Feasible with one of these changes, each verified by solving:
  1. sequence_length 1,408 instead of 2,048: 1 x RTX3060 at vast, LoRA, $3.06,
     likely 9.4 h
     --set jobs.0.sequence_length=1408"""


def told(**changes: Any) -> str:
    return render(Explanation.model_validate({**PLAN, **changes}))


def test_a_plan_is_explained_as_agreed() -> None:
    """The whole layout, to the letter."""
    assert told() == PLAN_TEXT


def test_a_possible_wish_is_priced_against_the_plan() -> None:
    """Both figures and the factor stand in the first sentence."""
    assert told(why_not=WHY) == WHY_TEXT


def test_an_impossible_wish_has_its_memory_and_its_remedies() -> None:
    """Reason, parts, and the setting that helps."""
    memory = {
        "peak": 16.9, "allocated": 15.0, "usable": 11.8, "fit_probability": 0.0, "phase": "end of forward (logits)",
        "parts": {"weights": 13.5, "logits": 0.9, "adapters": 0.01},
    }  # fmt: skip
    why = {
        "asked": "gpu=RTX3060", "status": "impossible", "memory": memory,
        "reasons": ["LoRA needs 16.9 GiB per GPU; 11.8 are usable"],
        "remedies": [{
            "change": "sequence_length 1,408 instead of 2,048", "setting": "jobs.0.sequence_length=1408",
            "plan": "1 x RTX3060 at vast, LoRA", "cost_usd": 3.06, "hours": 9.4,
        }],
    }  # fmt: skip
    assert told(why_not=why) == IMPOSSIBLE_TEXT


def test_the_plan_itself_is_said_to_be() -> None:
    """Asked about what was chosen, one sentence is enough."""
    why = {"asked": "gpu=A5000", "status": "chosen", "plan": "2 x A5000 at runpod", "cost_usd": 3.08, "hours": 9.5}
    assert told(why_not=why) == "gpu=A5000: this is the plan: 2 x A5000 at runpod, $3.08, likely 9.5 h"


def test_a_limit_in_the_way_comes_with_its_setting() -> None:
    """What to move, what that gives, and what to paste."""
    relax = {
        "limit": "limits.max_gpus",
        "from": 2,
        "to": 8,
        "then": "8 x T4 at aws, LoRA, $9.00",
        "setting": "limits.max_gpus=8",
    }
    why = {
        "asked": "gpu=T4", "status": "beyond", "reasons": ["it needs 8 GPUs; at most 2 may be used"],
        "cost_usd": 9.0, "hours": 9.5, "relax": [relax],
    }  # fmt: skip
    lines = told(why_not=why).splitlines()
    assert lines[0] == "gpu=T4: infeasible within the limits: it needs 8 GPUs; at most 2 may be used"
    assert lines[2:4] == ["  1. max gpus 2 -> 8", "     then 8 x T4 at aws, LoRA, $9.00"]
    assert "     --set limits.max_gpus=8" in lines
    assert lines[-1] == "     which is $9.00, likely 9.5 h, 2.9x the cost; the plan: $3.08, likely 9.5 h"


def test_where_time_counts_hours_are_compared() -> None:
    """Under the objective time, X is slower or faster, not dearer."""
    text = " ".join(told(why_not=WHY, objective="time").split())
    assert "x as dear" not in text and "17 % faster" in text


def test_the_way_out_of_several_limits_is_one_entry() -> None:
    """Limits that must move together share a number, and their settings can be pasted together."""
    both = [
        {"limit": "jobs.small.deadline", "from": 2.0, "to": 8.08, "then": "8 x H200, $34.12", "way": 2,
         "setting": "jobs.small.deadline=8.08h"},
        {"limit": "limits.gpus", "from": "allow T4", "to": "allow also H200", "then": "8 x H200, $34.12", "way": 2,
         "setting": "limits.gpus.allow=[T4,H200]"},
    ]  # fmt: skip
    first = {
        "limit": "limits.budget_usd",
        "from": 10.0,
        "to": 86.57,
        "then": "8 x B200, $69.99",
        "setting": "limits.budget_usd=86.57",
    }
    lines = told(status="infeasible", relax=[first, *both]).splitlines()
    assert lines[0] == "small: no plan keeps the budget of $10.00 and the deadline of 2 h"
    assert lines[1] == "  least within 2 h: $86.57"
    assert "  2  deadline 8.08 h and gpus: allow also H200: 8 x H200, $34.12" in lines
    assert "     --set jobs.small.deadline=8.08h --set 'limits.gpus.allow=[T4,H200]'" in lines


def test_a_limit_alone_is_named_alone_and_the_least_budget_with_its_likely_dollars() -> None:
    """What no further change moves is no part of the reason; a budget is least at its confidence."""
    budget = {
        "limit": "limits.budget_usd", "from": 10.0, "to": 78.54, "then": "8 x B200, likely $63.05, $78.54 at 90 %",
        "cost_usd": 63.05,
    }  # fmt: skip
    deadline = {"limit": "jobs.small.deadline", "from": 2.0, "to": 15.87, "way": 2}
    assert told(status="infeasible", relax=[budget]).startswith("small: no plan keeps the budget of $10.00 (least: ")
    with words.unwrapped():
        first = told(status="infeasible", relax=[budget, deadline]).splitlines()[0]
    assert first.endswith(" and the deadline of 2 h (least within 2 h: $78.54 at 90 %, likely $63.05)")


def test_time_comes_first_where_it_counts() -> None:
    """Under the objective time, an item says what it gains before what it costs, even where that is minutes."""
    step = {
        "worth": "gpu", "limit": "limits.max_gpus", "from": 4.0, "to": 8.0, "plan": "8 x H200", "cost_usd": 5.86,
        "hours": 0.3, "delta_usd": -1.09, "delta_hours": -0.048, "gain": 0.06,
    }  # fmt: skip
    assert "max gpus 4 -> 8: likely 3 min earlier, $1.09 less" in told(objective="time", next_steps=[step])
    dearer = {**step, "delta_usd": 1.0, "delta_hours": 0.0}
    text = " ".join(told(objective="time", next_steps=[dearer]).split())
    assert "4 min earlier at the confidence asked for, $1.00 more" in text


def test_dollars_that_are_not_computed_are_not_called_the_same() -> None:
    """A timetable with the objective time says by how much earlier it ends without a limit, and nothing of cost."""
    bind = {"limit": "limits.max_gpus", "current": 8, "saving": 0.04, "saving_usd": None, "saving_hours": 0.04}
    text = told(objective="time", binding=[bind])
    assert "max gpus 8: without it likely 2 min earlier\n" in text
    small = {**bind, "saving": 0.01, "saving_hours": 0.01}
    assert "without it less than 1 min earlier" in told(objective="time", binding=[small])


def test_what_plans_are_compared_by_is_said_and_leads() -> None:
    """With a value of time a better plan may cost more: that is never called a negative saving."""
    bind = {"limit": "limits.gpus", "current": "as given", "saving": 0.7, "saving_usd": -5.4, "saving_hours": 4.2}
    text = told(compared_by="cost + $0.50 per hour + penalties", binding=[bind])
    assert text.splitlines()[1] == "  compared by cost + $0.50 per hour + penalties"
    assert "gpus: without it $0.70 better, $5.40 more, likely 4.2 h earlier" in text


def test_a_long_place_is_left_out_and_not_cut() -> None:
    """Half a provider's name tells nothing: the machines stand alone."""
    long = {**PLAN["alternatives"][2], "provider": "the machine of an article", "allowed": True, "verdict": "x"}
    text = told(scenario="article-70b-measured", plan="16 x RTX3090 at the machine of an article", alternatives=[long])
    assert text.splitlines()[0].startswith("article-70b-measured: 16 x RTX3090, likely 9.5 h")
    assert "at th " not in text and "machine of an article" not in text.splitlines()[0]


def test_a_verdict_that_says_more_takes_a_second_line() -> None:
    """Hours that differ and penalties stand under the verdict, in its column."""
    other = {**PLAN["alternatives"][1], "verdict": "within error, 9.6 h later"}
    lines = told(alternatives=[other]).splitlines()
    assert " ".join(" ".join(lines[-2:]).split()).endswith("within error, 9.6 h later")


def test_each_table_says_which_machines_are_on_spot() -> None:
    """A spot price without that word would read as one on demand."""
    rows = [{**PLAN["alternatives"][1], "by": by, "spot_share": 0.97} for by in ("provider", "gpu", "method")]
    shown = told(alternatives=rows)
    assert shown.count("spot") == 3 and "spot" not in told(alternatives=[{**row, "spot_share": 0.0} for row in rows])


WORDS = st.text(max_size=90)
MONEY = st.floats(0, 1e7)
ALTERNATIVE = st.fixed_dictionaries(
    {
        "by": st.sampled_from(["provider", "gpu", "method"]), "job": st.sampled_from(["a", "b" * 70]),
        "name": WORDS, "plan": WORDS,
        "gpu": WORDS, "gpus": st.integers(1, 9999), "provider": WORDS, "method": WORDS,
        "cost_usd": MONEY, "hours": MONEY, "verdict": WORDS, "allowed": st.booleans(),
    }
)  # fmt: skip
STEP = st.fixed_dictionaries(
    {
        "worth": st.sampled_from(["hour", "dollar", "gpu", "gib", "choice"]), "limit": WORDS,
        "from": MONEY | WORDS | st.none(), "to": MONEY | WORDS | st.none(),
        "plan": WORDS, "cost_usd": MONEY, "hours": MONEY, "delta_usd": MONEY, "delta_hours": MONEY, "note": WORDS,
    }
)  # fmt: skip
ANSWER = st.fixed_dictionaries(
    {
        "asked": WORDS, "status": st.sampled_from(["chosen", "possible", "beyond", "impossible"]), "plan": WORDS,
        "cost_usd": MONEY, "hours": MONEY, "reasons": st.lists(WORDS, max_size=3),
        "remedies": st.lists(st.fixed_dictionaries({"change": WORDS, "setting": WORDS, "plan": WORDS}), max_size=2),
    }
)  # fmt: skip


@pytest.mark.slow
@settings(derandomize=True, max_examples=120, deadline=None)
@given(
    name=WORDS, alternatives=st.lists(ALTERNATIVE, max_size=6), steps=st.lists(STEP, max_size=5), why=st.none() | ANSWER
)
def test_no_line_is_wider_than_80(
    name: str, alternatives: list[dict[str, Any]], steps: list[dict[str, Any]], why: dict[str, Any] | None
) -> None:
    """Whatever names and figures there are: long ones wrap or end in dots."""
    text = told(scenario=name or "x", alternatives=alternatives, next_steps=steps, why_not=why)
    assert max(map(len, text.split("\n"))) <= WIDTH


def test_a_long_setting_stays_whole() -> None:
    """Half of a command cannot be pasted."""
    setting = f"limits.providers.allow=[{','.join(f'provider-{number}' for number in range(12))}]"
    relax = {"limit": "limits.providers", "from": "a", "to": "allow also b", "then": "1 x T4", "setting": setting}
    assert f"     --set '{setting}'" in told(status="infeasible", relax=[relax]).split("\n")


def test_a_memory_margin_is_told_to_a_tenth_of_a_per_cent() -> None:
    """Rounded away from the old value, so that what is read suffices."""
    relax = {"limit": "limits.vram_headroom", "from": 0.06, "to": 0.0129, "then": "1 x T4", "setting": "x=0.012"}
    assert "  1  VRAM margin 1.2 %: 1 x T4" in told(status="infeasible", relax=[relax])
