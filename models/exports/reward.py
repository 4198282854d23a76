"""The reward of an answer: 1 where its last number, or what its last box of LaTeX holds, is the expected one, else 0.

Replace it where your task is another. rule_reward is what TRL calls, compute_score what verl calls.
"""

import re

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


def _last(text):
    """Return what a text gives as its result, without spaces and commas."""
    found = _BOXED.findall(text) or _NUMBER.findall(text)
    return (found[-1] if found else text).replace(",", "").replace(" ", "").rstrip(".")


def reward(text, expected):
    """Return 1.0 or 0.0; equal numbers may be written differently."""
    one, other = _last(text), _last(str(expected))
    try:
        return float(float(one) == float(other))
    except ValueError:
        return float(one == other)


def rule_reward(completions, answer=None, **columns):
    """Return the reward of each completion; `answer` is the column of the data with the expected results."""
    if answer is None:
        raise ValueError(f"the data have no column answer, which reward.py compares with: {sorted(columns)}")
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    return [reward(text, expected) for text, expected in zip(texts, answer, strict=True)]


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **others):  # noqa: ARG001 - as verl calls it
    """Return the reward of one answer; `ground_truth` is that of reward_model in a row of the data."""
    return reward(solution_str, ground_truth)
