"""Preference tuning as a job: pairs, what they are compared with, and what a plan says of both."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import planner
from planner.configurations.grid import network_of
from planner.errors import ScenarioError
from planner.estimates.device import forward_share
from planner.estimates.inputs import Layout, States
from planner.estimates.memory_terms import MemoryCoefficients, hosted_states, static_terms
from planner.evaluation.audit import audit
from planner.library.technique_tables import read_techniques
from planner.results.plan import Assignment, Plan
from planner.units import GIB
from tests.helpers.stage_scenarios import RENTED, asked, library, planned, solved

PAIRS = {"samples": 6400, "tokens_per_sample": 1000}
FOUR = {**RENTED, "gpus": 4, "usd_per_hour": 8.0, "interconnect": "nvlink"}
NAMES = ("dpo", "kto", "orpo", "simpo", "reward")


def tuned(method: str = "dpo", *offers: dict[str, Any], **job: Any) -> Assignment:
    """6,400 pairs of 1,000 tokens in batches of 16 pairs, of at most 1,024 tokens an answer, on one A100."""
    settings = {"techniques": {"method": "lora", "weight_bits": 16, "activation_checkpointing": "full"}}
    return planned(*offers, method=method, **{"work": PAIRS, "sequence_length": 1024, **settings, **job})


# Pairs.


@pytest.mark.long
def test_a_step_takes_pairs_and_every_answer_counts() -> None:
    """6,400 / 16 = 400 steps, of 16 * 1,000 tokens each; KTO's samples are single answers of 1,000."""
    for method in NAMES:
        told = tuned(method)
        assert told.steps == 400
        assert told.tokens_per_second == pytest.approx(16 * 1000 / told.step_seconds)


@pytest.mark.long
def test_tokens_count_both_answers() -> None:
    """6.4 million tokens are the 6,400 pairs of 1,000, and steps are batches of pairs."""
    by_pairs, by_tokens = tuned(), tuned(work={"tokens": 6.4e6, "tokens_per_sample": 1000})
    by_steps = tuned(work={"steps": 400, "tokens_per_sample": 1000})
    assert by_tokens.steps == by_pairs.steps == by_steps.steps
    assert by_tokens.hours == by_pairs.hours == by_steps.hours


@pytest.mark.slow
def test_a_cut_is_of_each_answer() -> None:
    """Answers of 700 tokens in sequences of 512: 1 - 512 / 700 of the tokens are lost, and the plan says it."""
    job = {"work": {"samples": 6400, "tokens_per_sample": 1400}, "sequence_length": 512, "packing": "fixed"}
    plan = solved(asked(method="dpo", **job))
    assert plan.cut[0].share == pytest.approx(1 - 512 / 700)
    whole = solved(asked(method="dpo", **{**job, "sequence_length": 700}))
    assert not whole.cut


def test_a_pair_takes_the_memory_of_two_sequences() -> None:
    """SimPO has no reference: a micro-batch of m pairs is one of 2 m sequences of supervised fine-tuning."""
    same = {"packing": "fixed", "sequence_length": 1024}
    pair = planner.estimate("tinyllama-1.1b", "A100-80GB", library(), tuning="simpo", micro_batch=3, **same)
    two = planner.estimate("tinyllama-1.1b", "A100-80GB", library(), micro_batch=6, **same)
    assert pair.vram_gib.peak == pytest.approx(two.vram_gib.peak)
    assert pair.step_seconds.total == pytest.approx(two.step_seconds.total)
    assert pair.global_batch * 2 == two.global_batch


def test_padding_costs_what_lies_end_to_end_does_not() -> None:
    """At the same lengths fewer positions are processed, and the largest batch is smaller."""
    shapes = {"tuning": "dpo", "micro_batch": 4, "sequence_length": 2048, "tokens_per_sample": 1000}
    padded, free = (
        planner.estimate("tinyllama-1.1b", "A100-80GB", library(), packing=packing, **shapes)
        for packing in ("padded", "padding_free")
    )
    assert free.step_seconds.total < 0.7 * padded.step_seconds.total
    assert free.vram_gib.peak < padded.vram_gib.peak
    assert free.tokens_per_second == pytest.approx(free.global_batch * 2 * 500 / free.step_seconds.total, rel=1e-3)


# What is compared with: memory and time.


def test_a_copy_by_hand() -> None:
    """TinyLlama: 1,100,048,384 weights of 2 bytes are 2.05 GiB; over four GPUs at stage 3 a quarter, at stage 2 all."""
    network = network_of(library().architecture("tinyllama-1.1b"))
    memory = MemoryCoefficients.of(library().calibrations["memory"].values)
    states = States(0, 0, 2, 2, 2, 8, 0, 0, network.parameters, reference_bytes=2.0)

    def held(stage: int, states: States = states) -> float:
        layout = Layout(1, 1, 1024, 1024, gpus=4, gpus_per_node=4, zero_stage=stage)
        return float(static_terms(network, layout, states, memory).reference) / GIB

    assert held(2) == pytest.approx(1_100_048_384 * 2 / GIB)
    assert held(3) == pytest.approx(1_100_048_384 * 2 / 4 / GIB)
    hosted = replace(states, host_reference=1)
    assert held(3, hosted) == pytest.approx(memory.host_resident * held(3))
    layout = Layout(1, 1, 1024, 1024, gpus=4, gpus_per_node=4, zero_stage=3)
    assert float(hosted_states(network, layout, hosted, memory)) == pytest.approx(1.5 * 1_100_048_384 * 2 / 4)


@pytest.mark.parametrize(("frozen", "again", "share"), [(1, 0, 1 / 2), (1, 1, 1 / 3), (0, 0, 1 / 3), (0, 1, 1 / 4)])
def test_a_pass_forward_is_a_share_of_a_training_step(frozen: int, again: int, share: float) -> None:
    assert forward_share(frozen, again) == pytest.approx(share)


def test_passes_by_method() -> None:
    """DPO: one of the reference. KTO: two of it, and one of the policy. Computed once, they are spread over epochs."""
    rows = read_techniques().values.tuning
    assert [rows[name].further_forwards(False, 3) for name in NAMES] == [1, 3, 0, 0, 0]
    assert rows["dpo"].further_forwards(True, 4) == pytest.approx(1 / 4)
    assert rows["kto"].further_forwards(True, 4) == pytest.approx(1 + 2 / 4)


@pytest.mark.long
def test_log_probabilities_that_are_computed_once_pay_from_the_second_epoch_on() -> None:
    """In one epoch they cost what they save; in four, three of four passes are saved."""

    def hours(reference: str, epochs: int) -> float:
        told = tuned(
            work={**PAIRS, "epochs": epochs},
            techniques={"method": "lora", "activation_checkpointing": "full", "reference": reference},
        )
        assert told.techniques.reference == reference
        return told.training_hours

    assert hours("precomputed", 1) == pytest.approx(hours("adapter", 1))
    # 3 passes of training and one of the reference, or a quarter of one; without what a step does once.
    assert hours("precomputed", 4) / hours("adapter", 4) == pytest.approx(3.25 / 4, rel=0.01)


@pytest.mark.long
def test_the_plan_and_the_estimate_say_the_same() -> None:
    """One formula: memory and seconds of a step of the chosen configuration."""
    for method, techniques in product(("dpo", "kto", "reward"), ({"method": "lora"}, {"method": "full"})):
        told = tuned(method, FOUR, techniques=techniques)
        how = told.techniques
        found = planner.estimate(
            "tinyllama-1.1b", "A100-80GB", library(), gpus=told.gpus, tuning=method, reference=how.reference,
            method=how.method, weight_bits=how.weight_bits, framework=how.framework, precision=how.precision,
            activation_checkpointing=how.activation_checkpointing, sharding=how.sharding, attention=how.attention,
            micro_batch=how.micro_batch, accumulation_steps=how.accumulation_steps, sequence_length=1024,
            tokens_per_sample=1000, packing=told.packing, interconnect=told.interconnect,
        )  # fmt: skip
        assert found.step_seconds.total == pytest.approx(told.step_seconds, rel=1e-6)
        assert found.vram_gib.peak == pytest.approx(told.vram_gib.peak, rel=1e-6)


@pytest.mark.slow
def test_a_teacher_counts_by_its_own_size() -> None:
    """Llama-2-7B of 6,738,415,616 weights: 12.55 GiB in 16 bits, and 6.13 passes of the student for each of its own."""
    told = tuned("distill", teacher="llama-2-7b", packing="padded", framework="hf")
    assert told.techniques.reference == "model"
    assert told.vram_gib.parts["reference"] == pytest.approx(6_738_415_616 * 2 / GIB)
    alone = tuned("sft", packing="padded", framework="hf")
    assert told.training_hours / alone.training_hours == pytest.approx(1 + 6.1256 / 3, rel=0.05)


# The choice.


@pytest.mark.long
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_choice_is_the_least_of_all_ways_one_by_one(epochs: int) -> None:
    """Brute force: every method, reference and checkpointing alone; the plan that may choose costs as the least."""
    work = {**PAIRS, "epochs": epochs}
    offers = (RENTED, FOUR)

    def cost(**techniques: Any) -> float:
        plan = solved(asked(*offers, method="dpo", work=work, sequence_length=1024, techniques=techniques))
        return plan.objective if plan.jobs and plan.objective is not None else float("inf")

    checkpoints = ("none", "full")
    ways = [("lora", "adapter"), ("lora", "precomputed"), ("full", "model"), ("full", "precomputed")]
    alone = {
        (method, reference, kept): cost(method=method, reference=reference, activation_checkpointing=kept)
        for (method, reference), kept in product(ways, checkpoints)
    }
    assert cost(activation_checkpointing=list(checkpoints)) == pytest.approx(min(alone.values()))
    full = min(usd for (method, _, _), usd in alone.items() if method == "full")
    assert cost(method="full", activation_checkpointing=list(checkpoints)) == pytest.approx(full)


@pytest.mark.slow
def test_a_service_that_trains_states_no_price_of_pairs() -> None:
    """It takes supervised fine-tuning alone, so a plan has the machine."""
    service = {
        "provider": "s", "date": "2025-12-01",
        "managed": {"architectures": ["tinyllama-1.1b"], "usd_per_million_tokens": 0.001, "method": "lora"},
    }  # fmt: skip
    lora = {"techniques": {"method": "lora", "weight_bits": 16}}
    assert tuned("sft", RENTED, service, packing="padded", **lora).provider == "s"
    assert tuned("dpo", RENTED, service, **lora).provider == "p"


# The check, and bad input.


def edited(plan: Plan, **techniques: Any) -> Plan:
    """Return a plan whose one job says other techniques."""
    data = json.loads(plan.model_dump_json())
    data["jobs"][0]["techniques"] |= techniques
    return Plan.model_validate(data)


@pytest.mark.slow
def test_the_check_notices_another_reference_or_method() -> None:
    """Figures of an adapter switched off are not those of a copy, nor those of supervised fine-tuning."""
    scenario = asked(method="dpo", work=PAIRS, sequence_length=1024, techniques={"method": "lora"})
    plan = solved(scenario)
    assert not audit(plan, scenario, library())
    assert audit(edited(plan, reference="model"), scenario, library())
    assert audit(edited(plan, tuning="sft", reference=None), scenario, library())


@pytest.mark.slow
def test_lengths_that_are_not_given_are_said_as_assumed() -> None:
    job = {"method": "dpo", "packing": "padding_free", "sequence_length": 1024}
    said = "each sequence of a sample is assumed to have 1,024 tokens"
    assert any(said in note for note in planned(**job, work={"tokens": 6_400_000}).notes)
    assert not any("is assumed to have" in note for note in planned(**job, work=PAIRS).notes)


@pytest.mark.parametrize("place", ["method", "techniques.method"])
@pytest.mark.parametrize("name", ["grpo", "DAPO", "rloo", "ppo"])
def test_an_algorithm_of_reinforcement_learning_points_at_its_kind_of_job(name: str, place: str) -> None:
    job = {"method": name} if place == "method" else {"techniques": {"method": name}}
    with pytest.raises(ScenarioError) as caught:
        asked(**{"work": PAIRS, "sequence_length": 1024, **job})
    assert f"kind: rl with algorithm: {name.lower()}" in caught.value.faults[0].fix


@pytest.mark.parametrize(
    ("job", "where"),
    [
        ({"method": "grpo"}, "method"),
        ({"method": "dpo", "kind": "pretrain"}, "method"),
        ({"method": "dpo", "packing": "packed"}, "packing"),
        ({"method": "orpo", "techniques": {"reference": "model"}}, "techniques.reference"),
        ({"techniques": {"reference": "model"}}, "techniques.reference"),
        ({"packing": "padding_free"}, "packing"),
        ({"method": "dpo", "framework": "litgpt"}, "framework"),
        ({"method": "orpo", "framework": "hf-fused"}, "framework"),
        ({"method": "dpo", "work": {"samples": 100}}, "work"),
        ({"method": "distill"}, "teacher"),
        ({"method": "dpo", "teacher": "qwen2.5-7b"}, "teacher"),
        ({"method": "distill", "teacher": "qwen2.5-7b"}, "teacher"),
        ({"method": "distill", "teacher": "no-such-model"}, "teacher"),
        (
            {"method": "distill", "teacher": "llama-2-7b", "techniques": {"reference": "adapter"}},
            "techniques.reference",
        ),
    ],
)
def test_what_cannot_be_so_is_one_fault(job: dict[str, Any], where: str) -> None:
    """Place, what is wrong, what to do."""
    with pytest.raises(ScenarioError) as caught:
        solved(asked(**{"work": PAIRS, "sequence_length": 1024, "techniques": {}, **job}))
    (fault,) = caught.value.faults
    assert fault.where.endswith(where)
    assert fault.fix
