"""The note on large batches of LoRA."""

from __future__ import annotations

import pytest

from planner.loading.scenario_file import parse_scenario
from planner.solving.notes import LORA_BATCH_NOTE
from planner.solving.solve import solve
from tests.helpers.scenarios import GOOD


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "is_noted"), [(32, False), (64, True)])
def test_lora_above_32_sequences_per_step_is_noted(batch: int, is_noted: bool) -> None:
    """Recipes use up to 32 sequences; the plan itself does not change its batch."""
    job = f"deadline: 36h\n    global_batch: {batch}\n    techniques: {{method: lora}}"
    (assignment,) = solve(parse_scenario(GOOD.replace("deadline: 36h", job))).jobs
    assert (LORA_BATCH_NOTE in assignment.notes) is is_noted
    assert assignment.global_batch == batch
