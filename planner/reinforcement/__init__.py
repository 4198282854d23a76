"""Reinforcement learning and preference tuning: the door of their estimates, of their text, and of jobs of `kind: rl`.

Others import this package alone, and take names from it: `reinforcement.estimate_rl`. A module is loaded when a name of
it is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import on_first_use

if TYPE_CHECKING:
    from planner.reinforcement.preference_estimate import estimate_preference as estimate_preference
    from planner.reinforcement.rl_calibration import measurements as measurements
    from planner.reinforcement.rl_estimate import estimate_rl as estimate_rl
    from planner.reinforcement.rl_subject import REINFORCEMENT as REINFORCEMENT
    from planner.reinforcement.rl_text import render_preference as render_preference
    from planner.reinforcement.rl_text import render_rl as render_rl
    from planner.results.subject_runs import PreferenceEstimate as PreferenceEstimate
    from planner.results.subject_runs import RlEstimate as RlEstimate

_NAMES_BY_MODULE = {
    "planner.reinforcement.rl_estimate": ("estimate_rl",),
    "planner.reinforcement.rl_subject": ("REINFORCEMENT",),
    "planner.reinforcement.preference_estimate": ("estimate_preference",),
    "planner.results.subject_runs": ("PreferenceEstimate", "RlEstimate"),
    "planner.reinforcement.rl_calibration": ("measurements",),
    "planner.reinforcement.rl_text": ("render_preference", "render_rl"),
}

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)
