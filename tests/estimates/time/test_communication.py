"""Seconds of collectives, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.estimates.inputs import recompute_shares
from planner.estimates.step_time import expert_seconds, hybrid_group, link_bandwidths, pipeline_seconds
from tests.helpers.time_cases import Case, case_of, golden_cases

GOLDEN = golden_cases()
NVLINK = 0.79 * 300e9


def parts(row: str, **changes: object) -> dict[str, Any]:
    """Breakdown of a golden row with some of its entries changed."""
    return case_of({**GOLDEN[row], **changes}).time().parts


def slow_network(case: Case) -> Case:
    """The case on nodes with 100 Gbit/s."""
    return replace(case, hardware=replace(case.hardware, network=12.5e9))


def test_links_of_one_node_are_its_nvlink() -> None:
    """Inside a node a group reaches 0.79 of NVLink's one direction."""
    case = case_of(GOLDEN["m0112"])
    reached = link_bandwidths(case.layout, case.hardware, case.coefficients)
    assert float(reached.group) == float(reached.inside) == pytest.approx(NVLINK)


def test_links_across_nodes_share_the_network() -> None:
    """Across 8 nodes a group reaches 0.74 of the network, less 21 % per doubling; tensor groups share it."""
    case = slow_network(case_of(GOLDEN["m0252"]))
    reached = link_bandwidths(case.layout, case.hardware, case.coefficients)
    assert float(reached.group) == pytest.approx(0.74 * 12.5e9 / 1.63)
    sharded = replace(case.layout, tensor=4)
    assert float(link_bandwidths(sharded, case.hardware, case.coefficients).group) == pytest.approx(
        0.74 * 12.5e9 * 2 / 8 / 1.63
    )


@pytest.mark.parametrize(("row", "exposed"), [("m0252", 0.35), ("m0859", 0.71)])
def test_of_gathers_and_products_a_share_of_the_shorter_is_seen(row: str, exposed: float) -> None:
    """The longer of the two takes its time, whichever it is, and 1 - o of the shorter is added."""
    for network in (1.0, 0.05):
        case = case_of(GOLDEN[row])
        slower = {"network": case.hardware.network * network, "pcie": case.hardware.pcie * network}
        case = replace(case, hardware=replace(case.hardware, **slower))
        time = case.time()
        whole = {cause: float(seconds) for cause, seconds in time.parts.items()}
        device = sum(whole[cause] for cause in ("matmul", "head", "elementwise", "attention", "dequantisation"))
        work, gathers = (device**3 + whole["launch"] ** 3) ** (1 / 3), whole["sharding"]
        longer = (work**3 + gathers**3) ** (1 / 3)
        seen = longer + exposed * work * gathers / longer
        rest = sum(whole[cause] for cause in ("hooks", "data_parallel", "optimizer", "fixed", "node_loss"))
        assert float(time.seconds) == pytest.approx(seen + rest)
        assert sum(float(seconds) for seconds in time.visible.values()) == pytest.approx(float(time.seconds))


def test_gradient_reduction_by_hand() -> None:
    """Two RTX 4090 reduce LoRA gradients over PCIe: half of 2 x 2 bytes x parameters x 1/2 is visible."""
    seconds = 0.5 * 2 * 2 * 142.6e6 * 0.5 / (0.23 * 24e9)
    assert float(parts("m0868")["data_parallel"]) == pytest.approx(seconds)


def test_a_reduction_after_the_last_micro_batch_hides_under_nothing() -> None:
    """All of it is visible, twice the half that overlaps otherwise."""
    case = case_of(GOLDEN["m0868"])
    late = replace(case, kernels=replace(case.kernels, overlaps_reduction=0))
    assert float(late.time().parts["data_parallel"]) == pytest.approx(2 * float(case.time().parts["data_parallel"]))
    assert float(late.time().seconds) > float(case.time().seconds)


def test_groups_of_one_node_reduce_their_shards_across_nodes() -> None:
    """Stage 1 on 8 nodes: 7/8 of gradients and weights over NVLink, 7/8 of a shard over the node's network."""
    case = slow_network(case_of(GOLDEN["m0252"]))
    plan = replace(case.layout, zero_stage=1, hybrid=1)
    grouped = replace(case, layout=plan).time().parts
    moved = 2 * case.states.reduced_bytes * case.states.trainable
    seconds = moved * (7 / 8) / NVLINK + moved * (1 - 8 / 64) / (0.74 * 12.5e9)
    assert float(grouped["data_parallel"]) == pytest.approx(0.5 * seconds)
    whole = replace(case, layout=replace(plan, hybrid=0)).time().parts
    assert float(grouped["data_parallel"]) < float(whole["data_parallel"])


def test_sharding_by_hand() -> None:
    """Full stage 3 on 8 GPUs moves weights twice and gradients once, 7/8 of them, per micro-batch."""
    moved = (2 * 2 + 4) * 1.3139e9 * 7 / 8
    assert float(parts("m0112")["sharding"]) == pytest.approx(4 * moved / NVLINK)


def test_sharding_of_a_quantised_base_by_hand() -> None:
    """A 4-bit base is gathered at 0.56 bytes per weight, and only adapters have gradients."""
    moved = (2 * 0.56 * 6.738e9 + 2 * 142.6e6) / 2
    assert float(parts("m0859")["sharding"]) == pytest.approx(moved / (0.23 * 12e9))


def test_pipelines_gather_once_per_step() -> None:
    """Under stage 3 with pipeline stages twice the micro-batches move no more weights."""
    few = parts("m1185", zero_stage=3, accumulation=64)
    many = parts("m1185", zero_stage=3, accumulation=128)
    assert float(few["sharding"]) == pytest.approx(float(many["sharding"]))


def test_tensor_parallel_by_hand() -> None:
    """175B over 8 GPUs: six collectives per recomputed layer, each 4 M h 7/8 bytes and 24 microseconds."""
    each = 4 * 2048 * 12288 * 7 / 8 / NVLINK + 24e-6
    assert float(parts("m1961")["tensor_parallel"]) == pytest.approx(64 * 12 * 6 * each)


def test_tensor_parallel_beyond_a_node_runs_at_network_speed() -> None:
    """Sixteen tensor-parallel GPUs on two nodes of eight are slower than their NVLink."""
    inside = case_of({**GOLDEN["m1961"], "tensor": 8, "pipeline": 8})
    across = slow_network(case_of({**GOLDEN["m1961"], "tensor": 16, "pipeline": 4}))
    per_layer = [float(one.time().parts["tensor_parallel"]) * one.layout.pipeline for one in (inside, across)]
    assert per_layer[1] > 10 * per_layer[0]


def test_pipeline_transfer_and_bubble_by_hand() -> None:
    """A stage hands on M h activations of 2 bytes, an eighth by each of 8 ranks; 8 stages of 3 chunks idle for 7/3."""
    step = case_of(GOLDEN["m1961"]).time()
    handover = 64 * 2 * 2 * 2048 * 12288 / 8 / (0.74 * 200e9 / 8)
    assert float(step.parts["pipeline_transfer"]) == pytest.approx(handover)
    tail = float(step.parts["data_parallel"] + step.parts["optimizer"] + step.parts["fixed"])
    rounds = float(step.seconds - step.parts["node_loss"]) - tail
    assert float(step.parts["bubble"]) == pytest.approx(rounds * (7 / 3) / (64 + 7 / 3))


def test_stages_inside_a_node_hand_on_over_its_links() -> None:
    """8,192 tokens of 14,336 wide: 58.7 MB of each of 8 ranks; two stages of four GPUs each are NVLink apart."""
    case = case_of(GOLDEN["m1961"])
    network = replace(case.network, hidden=14336)
    seconds = []
    for gpus, tensor in ((64, 8), (8, 4)):
        layout = replace(case.layout, micro_batch=4, gpus=gpus, tensor=tensor, pipeline=gpus // tensor)
        reached = link_bandwidths(layout, replace(case.hardware, network=50e9), case.coefficients)
        seconds.append(float(pipeline_seconds(network, layout, reached)))
    assert seconds == pytest.approx([58.72e6 / (0.74 * 50e9 / 8), 2 * 58.72e6 / NVLINK], rel=1e-3)


def test_node_loss_grows_with_doublings() -> None:
    """Eight nodes lose 0.9 % of the time before loss, one node none."""
    step = case_of(GOLDEN["m0252"]).time()
    assert float(step.parts["node_loss"] / (step.seconds - step.parts["node_loss"])) == pytest.approx(
        0.003 * math.log2(8)
    )


def test_hybrid_sharding_reduces_once_across_nodes() -> None:
    """Hybrid shards gather inside the node each time and reduce across nodes once per step."""
    case = slow_network(case_of({**GOLDEN["m0112"], "gpus": 32, "hybrid": 1}))
    assert float(np.asarray(hybrid_group(case.layout))) == 8
    inside = 4 * (2 * 2 + 4) * 1.3139e9 * 7 / 8 / NVLINK
    across = 2 * 4 * 1.3139e9 * (1 - 8 / 32) / (0.74 * 12.5e9)
    assert float(case.time().parts["sharding"]) == pytest.approx(inside + across)


def test_optimizer_by_hand() -> None:
    """Sharded states update 1/8 of the parameters per GPU at 30 bytes each and 5 % over the pure traffic."""
    assert float(parts("m0112")["optimizer"]) == pytest.approx(30 * 1.3139e9 / 8 * 1.05 / 2039e9)


@pytest.mark.parametrize(
    ("gpus", "by_node", "inside", "across"),
    [
        (8, 0, 8 * 7 / 8, 0.0),
        (8, 1, 8 * 7 / 8, 0.0),
        (32, 0, 8 * 7 / 32, 8 * 24 / 32),
        (32, 1, 8 * 7 / 8, 3 * (1 - 0.75**8)),
    ],
)
def test_tokens_go_to_each_expert_or_once_to_each_other_node(
    gpus: int, by_node: int, inside: float, across: float
) -> None:
    """Of 8 experts of a token 7 are on other GPUs of a node. Of 4 nodes others have 6, on 3 (1 - (3/4)^8) = 2.7."""
    case = slow_network(case_of({**GOLDEN["m0252"], "gpus": gpus}))
    mixture = replace(case.network, experts=128, experts_per_token=8)
    spread = replace(case, network=mixture, layout=replace(case.layout, expert=gpus, gpus_per_node=8))
    spread = replace(spread, kernels=replace(spread.kernels, dispatches_by_node=by_node))
    reached = link_bandwidths(spread.layout, spread.hardware, spread.coefficients)
    setup, coefficients = spread.arguments()
    copy = 2.0 * spread.layout.micro_batch * spread.layout.sequence * mixture.hidden
    seconds = copy * (inside / float(reached.inside) + across / float(reached.across))
    passes = mixture.layers * (4.0 + 2.0 * float(recompute_shares(spread.activations.checkpointing).matmul))
    found = float(expert_seconds(setup, coefficients, reached))
    assert found == pytest.approx(coefficients.expert_traffic_factor * passes * seconds)


def test_tensor_parallel_ranks_send_a_part_of_the_tokens_each() -> None:
    """Four ranks: a quarter of the tokens, whether the experts are cut over them or not."""
    case = case_of({**GOLDEN["m0252"], "gpus": 32})
    mixture = replace(case.network, experts=128, experts_per_token=8)
    for expert in (8, 4):
        seconds = []
        for tensor in (1, 4):
            spread = replace(case, network=mixture, layout=replace(case.layout, expert=expert, tensor=tensor))
            spread = replace(spread, layout=replace(spread.layout, gpus_per_node=64))
            reached = link_bandwidths(spread.layout, spread.hardware, spread.coefficients)
            seconds.append(float(expert_seconds(*spread.arguments(), reached)))
        assert seconds[0] == pytest.approx(4 * seconds[1])
