"""One shipped scenario per stage, fee and way to pay: what is worked out by hand at its top is what the plan says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from planner.documents.files import data_folder
from tests.helpers.costs import plan_of
from tests.helpers.worked import WORKED, check_worked

FOLDER = data_folder("scenarios") / "whole-job"
FILES = sorted(path for path in FOLDER.glob("*.yaml") if "# worked:" in path.read_text(encoding="utf-8"))
SUBJECTS = {
    "stages": (
        "stage-ingest", "stage-transfer", "stage-load-quantised", "stage-evaluation-one-gpu", "stage-evaluation-cpu",
        "stage-checkpoints", "stage-export", "export-gguf", "stage-retention", "stage-slow-storage",
    ),
    "trials": ("trials-sequential", "trials-side-by-side", "trials-halving", "early-stopping"),
    "fees": ("fee-egress", "fee-ingress", "fee-storage", "fee-minimum-hours", "fee-billing-step"),
    "payments": (
        "pay-commitment", "pay-commitment-upfront", "pay-hours-left", "pay-own-machine", "pay-managed-tokens",
        "pay-managed-run", "pay-community-and-secure",
    ),
    "confidence": ("confidence-budget", "confidence-deadline"),
}  # fmt: skip


def answer(name: str) -> dict[str, Any]:
    """The plan's JSON: figures of the one job at the top, next to `jobs`; its bill by item."""
    plan = plan_of(name).model_dump(mode="json", by_alias=True)
    for job in plan["jobs"]:
        job["bill"] = {line["item"]: line["usd"] for line in job["bill"]}
    return {**plan["jobs"][0], "jobs": plan["jobs"]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_plan_says_what_was_worked_out_by_hand(path: Path) -> None:
    """The arithmetic gives the result that is claimed, and so does the plan, to the last decimal that is written."""
    check_worked(path.read_text(encoding="utf-8"), answer(path.stem))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_worked_line_is_understood(path: Path) -> None:
    """A line that the pattern misses would be a figure that is not compared; dollars have cents, hours two decimals."""
    text = path.read_text(encoding="utf-8")
    lines = WORKED.findall(text)
    assert len(lines) == text.count("# worked")
    assert all(len(result.partition(".")[2]) >= 2 for _, _, result in lines)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_stage_fee_and_way_to_pay_has_its_scenario(subject: str) -> None:
    """The list of what the whole bill holds, and a hand-worked figure for each entry."""
    assert {path.stem for path in FILES} >= set(SUBJECTS[subject])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_invented_price_is_called_one(path: Path) -> None:
    """An invented price is marked as one; a real one has its date."""
    below = path.read_text(encoding="utf-8").partition("offers:")[2]
    offers = re.findall(r"^  - (?:\{.*\}|.*(?:\n    .*)*)", below, re.MULTILINE)
    assert offers
    for offer in offers:
        assert ("illustration, not a price" in offer) != ("date:" in offer), offer
