"""Notes of a plan: what stands in for facts that nobody stated, and what is not counted."""

from __future__ import annotations

from workflows import RENTED, planned

SEEN = [{"gpu": "A100-80GB", "gpus": 1, "hours": 2}]


def test_observed_hours_say_what_they_hold() -> None:
    """Stages of a job whose hours were observed add none, and stopping early takes none off: both are said."""
    stages = {"evaluation": {"share": 0.1}, "export": {}, "retention": "30d"}
    told = planned(RENTED, measured=SEEN, stages=stages, early_stopping=0.5)
    assert told.hours.expected == 2
    assert "observed hours are taken to hold evaluation and export: no hours are added for them" in told.notes
    assert any("the run in full: stopping early is not counted" in note for note in told.notes)


def test_observed_hours_without_stages_need_no_such_note() -> None:
    """Where nothing is left out, nothing is said."""
    assert not any("observed hours are taken" in note for note in planned(RENTED, measured=SEEN).notes)
