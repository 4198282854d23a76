"""What a job may leave open, and what is refused with the place and the remedy."""

from __future__ import annotations

import pytest

from planner.loading.scenario_file import parse_scenario
from planner.scenario.job import Job
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import architectures_of, decide, scenario_data
from tests.helpers.open_scenarios import BATCH, OPEN, TOGETHER
from tests.helpers.scenarios import told

FAMILY = OPEN.replace(
    "[smollm2-360m, llama-14x1792, llama-3.2-1b]", "{family: llama, parameters: {from: 0.2e9, to: 4e9}}"
)


def test_a_job_that_leaves_nothing_open_is_an_ordinary_job() -> None:
    """One model, one batch and given tokens: the plan of such a file is that without open jobs."""
    text = BATCH.replace("{from: 128, to: 1024}", "256")
    (job,) = parse_scenario(text).jobs
    assert type(job) is Job


def test_a_range_of_batches_doubles() -> None:
    """From the first to the last."""
    (job,) = parse_scenario(BATCH).jobs
    assert isinstance(job, OpenJob)
    assert job.batches == (128, 256, 512, 1024)


def test_a_family_is_its_models_within_the_range() -> None:
    """Aliases of a list are resolved, a family is expanded."""
    (job,) = parse_scenario(FAMILY).jobs
    assert "tinyllama-1.1b" in architectures_of(job) and "llama-24x3072" in architectures_of(job)
    (listed,) = parse_scenario(OPEN.replace("smollm2-360m", "HuggingFaceTB/SmolLM2-360M")).jobs
    assert architectures_of(listed)[0] == "smollm2-360m"


@pytest.mark.parametrize("text", [OPEN, FAMILY, BATCH])
def test_an_open_scenario_is_written_as_it_is_read(text: str) -> None:
    """The data of the scenario give the same scenario."""
    import json

    scenario = parse_scenario(text)
    assert parse_scenario(json.dumps(scenario_data(scenario))).jobs == scenario.jobs


def test_a_decided_job_keeps_everything_else() -> None:
    """Deadline, framework and stages stay; model, batch and tokens are those decided."""
    (job,) = parse_scenario(BATCH.replace("kind: pretrain", "kind: pretrain\n    deadline: 30h")).jobs
    assert isinstance(job, OpenJob) and job.opens_batch
    made = decide(job, "llama-3.2-1b", 512, 10**10, 0.1)
    assert (made.global_batch, made.work.tokens, made.deadline_hours) == (512, 10**10, 30)
    assert made.framework == ("torchtitan",) and made.name == "scratch"


SECOND = "  - name: few\n    architecture: [smollm2-360m, llama-14x1792]"
FAULTS = [
    (OPEN, "[smollm2-360m, llama-14x1792, llama-3.2-1b]", "[smollm2-360m, llama-14x1790]", "a width that 128 divides"),
    (OPEN, "[smollm2-360m, llama-14x1792, llama-3.2-1b]", "[smollm2-360m, smollm2-360m]", "is listed twice"),
    (FAMILY, "family: llama", "family: lama", "unknown family 'lama'; did you mean llama"),
    (FAMILY, "to: 4e9", "to: 0.1e9", "is empty; give the smaller number first"),
    (FAMILY, "{from: 0.2e9, to: 4e9}", "{from: 5000, to: 6000}", "no model of llama has 5,000 to 6,000 parameters"),
    (FAMILY, "{from: 0.2e9, to: 4e9}", "{from: 1, to: 2}", "widen the range to the nearest: llama-4x512"),
    (TOGETHER, SECOND, SECOND.replace("smollm2-360m", "llama-14x1792"), "llama-14x1792 is listed twice"),
    (
        TOGETHER,
        SECOND,
        "  - name: few\n    architecture: {family: lama, parameters: {from: 1e8, to: 1e9}}",
        "unknown family 'lama'; did you mean llama",
    ),
    (
        OPEN,
        "kind: pretrain",
        "kind: pretrain\n    serve_tokens: 1e12",
        "enters the choice of a size that reaches a loss",
    ),
    (BATCH, "kind: pretrain", "kind: pretrain\n    serve_usd_per_million_tokens: 1", "no tokens are served"),
    (OPEN, "objective: loss", "objective: cost", "tokens: best asks for the least loss; add objective: loss"),
    (OPEN, "tokens: best", "tokens: 20e9", "the least loss of work that is given"),
    (OPEN, "limits: {budget_usd: 100}", "limits: {max_gpus: 8}", "without a budget or a deadline"),
    (OPEN, "kind: pretrain", "kind: finetune", "the laws of loss hold for training from scratch"),
    (OPEN, "{tokens: best}", "{tokens: best, loss: 2.6}", "loss and tokens contradict each other"),
    (OPEN, "{tokens: best}", "{tokens: much}", "'much' is not a count; write 20B, or best"),
    (
        BATCH,
        "{from: 128, to: 1024}",
        "{from: 128, to: 1000}",
        "1,000 is not 128 doubled several times; end at 512 or 1,024",
    ),
    (BATCH, "{from: 128, to: 1024}", "{from: 128, to: 200}", "holds one batch"),
    (BATCH, "kind: pretrain", "kind: finetune", "a range of batches is for pretraining"),
    (BATCH, "{tokens: 20e9}", "{steps: 1000}", "a range of batches needs the work in tokens"),
    (BATCH, "    kind: pretrain\n", "    kind: pretrain\n    unique_tokens: 1e9\n", "is of no use: the work is given"),
]


@pytest.mark.parametrize(("text", "old", "new", "message"), FAULTS, ids=[fault[-1][:40] for fault in FAULTS])
def test_a_contradiction_is_one_line_with_its_place(text: str, old: str, new: str, message: str) -> None:
    """File and line, what is wrong, what would be right."""
    assert old in text
    found = told(text.replace(old, new))
    assert len([one for one in found if message in one]) == 1, found
    assert all(one.startswith("s.yaml:") for one in found)


def test_a_batch_is_not_chosen_next_to_other_jobs() -> None:
    """What the other jobs leave of the machines is unknown to the choice."""
    other = "  - {name: b, architecture: mistral-7b, work: {tokens: 1e6}}\noffers:"
    assert any("plan it alone" in one for one in told(BATCH.replace("offers:", other)))
