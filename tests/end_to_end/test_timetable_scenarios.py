"""Shipped timetables: figures are worked out by hand at the top of each file, and the plan is compared with them."""

from __future__ import annotations

from planner.documents.files import data_folder
from tests.helpers.worked import WORKED

FILES = sorted((data_folder("scenarios") / "timetable").glob("*.yaml"))
SUBJECTS = {
    "queue-two-own-4090", "sft-dpo-evaluation", "one-reservation-for-six", "no-reservation-for-two",
    "night-only-machine", "nights-with-pauses", "trials-split",
    "capacity-block", "team-quota", "trials-over-unlike-cards", "monthly-budget",
}  # fmt: skip


def test_every_subject_has_its_scenario_and_every_worked_line_is_understood() -> None:
    """A figure by hand for each; a line that the pattern misses would not be compared.

    `test_shipped_scenarios.py` solves each and compares.
    """
    texts = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
    assert {name for name, text in texts.items() if WORKED.search(text)} == SUBJECTS
    assert sum(len(WORKED.findall(text)) for text in texts.values()) == "".join(texts.values()).count("# worked")
