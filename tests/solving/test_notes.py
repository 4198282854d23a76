"""Notes of a plan: what stands in for facts that nobody stated, and what is not counted."""

from __future__ import annotations

import pytest

from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.stage_scenarios import JOB, RENTED, planned

SEEN = [{"gpu": "A100-80GB", "gpus": 1, "hours": 2}]


def test_observed_hours_say_what_they_hold() -> None:
    """Stages of a job whose hours were observed add none, and stopping early takes its share off: both are said."""
    stages = {"evaluation": {"share": 0.1}, "export": {}, "retention": "30d"}
    told = planned(RENTED, measured=SEEN, stages=stages, early_stopping=0.5)
    assert told.hours.expected == 1
    assert "observed hours are assumed to include evaluation and export: no hours are added for them" in told.notes
    assert "observed hours are assumed to be those of a run to its end: 50 % of them count" in told.notes
    assert "deadline and budget also hold if the run does not stop early" in told.notes


def test_observed_hours_without_stages_need_no_such_note() -> None:
    """Where nothing is left out, nothing is said."""
    assert not any("observed hours are assumed" in note for note in planned(RENTED, measured=SEEN).notes)


def test_one_more_trial_may_be_less_work() -> None:
    """7 trials at 2 are 7/4 + 3/4 + 1/2 = 3 runs of work, 8 are 8/8 + 4/8 + 2/4 + 1/2 = 2.5: 17 % less."""
    seven = planned(RENTED, trials={"count": 7, "halving": 2}).notes
    assert "8 trials would be 17 % less work: they are halved once more" in seven
    assert not any("trials would be" in note for note in planned(RENTED, trials={"count": 8, "halving": 2}).notes)


@pytest.mark.parametrize("early_stopping", [1.0, 0.5, 0.1])
@pytest.mark.parametrize(("usd", "cheapest"), [(0.9, "svc"), (1.1, RENTED["provider"])])
def test_an_early_stop_counts_alike_at_a_service_and_on_a_measured_machine(
    early_stopping: float, usd: float, cheapest: str
) -> None:
    """Both are paid for the same share, so that the cheaper of two whole runs stays the cheaper one."""
    machine = planned(RENTED, techniques={"method": "lora"}, measured=SEEN)
    service = {
        "provider": "svc",
        "managed": {
            "architectures": JOB["architecture"],
            "usd_per_million_tokens": usd * machine.cost_usd / (JOB["work"]["tokens"] / 1e6),
            "tokens_per_second": 1e6,
        },
    }
    both = {"techniques": {"method": "lora"}, "measured": SEEN, "early_stopping": early_stopping}
    chosen = planned(RENTED, service, **both)
    assert chosen.provider == cheapest
    assert chosen.cost_usd == pytest.approx(min(usd, 1.0) * machine.cost_usd * early_stopping)


def test_evaluation_has_memory_of_its_own() -> None:
    """32,768 tokens of 32,000 entries at 10 bytes are 9.8 GiB a sequence: not eight next to the weights.

    79.2 GiB less 0.5 of context and 1.04 * 13.9 of weights hold five of 1.13 * 9.8.
    """
    scenario = """
name: x
offers: [{provider: a, gpu: A100-80GB, gpus: 1, usd_per_hour: 1}]
jobs:
- {name: j, architecture: mistral-7b, work: {tokens: 5M}, sequence_length: 32768, global_batch: 4,
   techniques: {method: lora, weight_bits: 16}, stages: {evaluation: {share: 0.1, on: PLACE}}}
"""
    notes = [
        solve(parse_scenario(scenario.replace("PLACE", place)), SolveOptions(), read_library(["mistral-7b"]))
        .jobs[0]
        .notes
        for place in ("machine", "[machine, one_gpu]")
    ]
    for told in notes:
        (note,) = (note for note in told if note.startswith("evaluation holds"))
        assert note == (
            "evaluation holds the logits of a whole batch, 9.8 GiB a sequence: "
            "set per_device_eval_batch_size to 5 (8 by default)"
        )
