"""Laws that the memory estimate keeps whatever its coefficients are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.inputs import Layout, States
from planner.estimates.memory_fit import TIGHT_PHI, fit_probability
from planner.estimates.memory_terms import static_terms
from planner.units import GIB
from tests.helpers.memory_cases import (
    PLAIN,
    Case,
    adapter_states,
    cases,
    estimate_memory,
    full_states,
    largest_micro_batch,
    layouts,
    need_bytes,
    network,
)

LAWS = settings(derandomize=True, max_examples=30, deadline=None)
NEVER_LESS = 1.0 - 1e-12  # rounding of a different order of sums


def allocated(case: Case, **changes: Any) -> Any:
    """Peak bytes of a case with some of its arguments replaced."""
    return estimate_memory(**{**case.arguments(), **changes}).allocated


def held(layout: Layout, states: States, coefficients: Any) -> float:
    """Bytes of weights, adapters, gradients, optimizer and its temporary."""
    terms = static_terms(network(), layout, states, coefficients)
    return float(terms.weights + terms.adapters + terms.gradients + terms.optimizer + terms.step_temporary)


@LAWS
@given(cases())
def test_parts_sum_exactly_to_the_peak(case: Case) -> None:
    """The breakdown of the limiting phase sums to the last bit, and that phase is the largest."""
    found = estimate_memory(**case.arguments())
    total = sum(found.breakdown.values())
    assert total == found.allocated
    assert float(found.allocated) == pytest.approx(float(found.phases.max()), rel=1e-12)
    assert all(np.all(part >= 0) for part in found.breakdown.values())


@LAWS
@given(cases())
def test_allocated_reserved_and_device_are_ordered(case: Case) -> None:
    """Before the cap, the driver shows at least what is reserved, and that at least what is allocated."""
    found = estimate_memory(**case.arguments())
    assert found.allocated <= found.reserved <= found.device_used
    assert found.allocated <= found.need


@pytest.mark.slow
@LAWS
@given(cases(), st.integers(2, 4))
def test_more_work_never_needs_less(case: Case, times: int) -> None:
    """Peak and need do not fall with micro-batch, sequence, vocabulary or layers."""
    plan = case.layout
    longer = plan.longest_sequence * times
    larger: list[dict[str, Any]] = [
        {"layout": replace(plan, micro_batch=plan.micro_batch * times)},
        {"layout": replace(plan, sequence=longer, longest_sequence=longer)},
        {"network": network(layers=case.network.layers, vocab=case.network.vocab * times)},
        {
            "network": network(layers=case.network.layers * times),
            "states": replace(case.states, trainable=case.states.trainable * times),
        },
    ]
    for change in larger:
        assert allocated(case, **change) >= allocated(case) * NEVER_LESS
        assert need_bytes(**{**case.arguments(), **change}) >= need_bytes(**case.arguments()) * NEVER_LESS


@pytest.mark.slow
@LAWS
@given(cases(), st.integers(1, 64), st.integers(1, 64))
def test_higher_rank_never_needs_less(case: Case, rank: int, more: int) -> None:
    """Adapters of a higher rank do not need fewer bytes."""
    low, high = adapter_states(rank=rank), adapter_states(rank=rank + more)
    assert allocated(case, states=high) > allocated(case, states=low) * NEVER_LESS


@LAWS
@given(cases(), st.integers(1, 3), st.sampled_from([2, 4, 8]))
def test_more_shards_never_need_more(case: Case, stage: int, data: int) -> None:
    """From two replicas on, sharded states do not grow with the number of replicas."""
    ranks = case.layout.tensor * case.layout.pipeline
    few = replace(case.layout, zero_stage=stage, gpus=ranks * data)
    many = replace(few, gpus=ranks * data * 2)
    assert allocated(case, layout=many) * NEVER_LESS <= allocated(case, layout=few)


@LAWS
@given(cases())
def test_tensor_parallelism_never_needs_more(case: Case) -> None:
    """Twice the tensor-parallel ranks at the same replicas do not need more bytes per GPU."""
    plan = replace(case.layout, hybrid=0)
    split = replace(plan, tensor=plan.tensor * 2, gpus=plan.gpus * 2)
    assert allocated(case, layout=split) * NEVER_LESS <= allocated(case, layout=plan)


@LAWS
@given(cases(), st.integers(2, 8))
def test_accumulation_steps_cost_nothing_after_the_second(case: Case, steps: int) -> None:
    """Without a pipeline, twice as many accumulation steps hold the same bytes."""
    ranks = case.layout.gpus // case.layout.pipeline
    few = replace(case.layout, accumulation=steps, pipeline=1, gpus=ranks)
    assert allocated(case, layout=few) == allocated(case, layout=replace(few, accumulation=2 * steps))


@pytest.mark.slow
@LAWS
@given(cases(), layouts())
def test_each_sharding_stage_holds_no_more_than_the_one_before(case: Case, plan: Layout) -> None:
    """Static bytes: stage 3 <= stage 2 <= stage 1 <= none."""
    states = replace(case.states, no_sync_full_gradients=0)
    plans = [replace(plan, zero_stage=stage, hybrid=0) for stage in range(4)]
    bytes_held = np.array([held(each, states, case.coefficients) for each in plans])
    assert np.all(np.diff(bytes_held) <= 1e-9 * bytes_held[:-1])


@LAWS
@given(cases())
def test_fewer_bits_need_less(case: Case) -> None:
    """nf4 with double quantisation < nf4 < int8 < 16 bit of frozen weights, other flags equal."""
    one = replace(case.layout, zero_stage=0)
    per_weight = np.array([0.515869140625, 0.5625, 1.0, 2.0])
    states = adapter_states(weight_bytes=per_weight, embedding_bytes=2)
    assert np.all(np.diff(allocated(case, states=states, layout=one)) > 0.0)


@LAWS
@given(cases(), st.floats(8.0, 400.0))
def test_largest_micro_batch_fits_and_the_next_does_not(case: Case, usable_gib: float) -> None:
    """The closed form passes the rule, one sequence more fails it, and 0 means that not even one fits."""
    usable = usable_gib * GIB
    arguments = case.arguments()
    largest = int(largest_micro_batch(**arguments, usable_bytes=usable))
    at = replace(case.layout, micro_batch=np.array([largest, largest + 1]))
    now, beyond = need_bytes(**{**arguments, "layout": at}, usable_bytes=usable)
    assert largest == 0 or now <= usable * (1 + 1e-12)
    assert beyond > usable * NEVER_LESS


@pytest.mark.slow
@LAWS
@given(cases(), st.floats(8.0, 400.0))
def test_larger_card_never_takes_a_smaller_batch(case: Case, usable_gib: float) -> None:
    """The largest micro-batch does not fall with the memory of the card."""
    cards = usable_gib * GIB * np.array([1.0, 1.1, 1.5, 2.0])
    assert np.all(np.diff(largest_micro_batch(**case.arguments(), usable_bytes=cards)) >= 0)


@LAWS
@given(st.floats(0.05, 0.4))
def test_probability_of_fitting_rises_with_the_margin(sigma: float) -> None:
    """It is a half where none is left, rises with the margin and stays in 0..1."""
    found = fit_probability(np.array([-2.0, -0.1, 0.0, 0.1, 2.0]), sigma)
    assert found[2] == pytest.approx(0.5)
    assert np.all(np.diff(found) >= 0.0)
    assert found[1] < 0.5 < found[3]
    assert np.all((found >= 0.0) & (found <= 1.0))


@LAWS
@given(cases(), st.floats(4.0, 400.0), st.sampled_from([0.1, 0.5, 1.0]))
def test_the_widest_margin_is_the_one_that_just_fits(case: Case, usable_gib: float, share: float) -> None:
    """A little less fits and a little more does not, whatever limits: a phase, loading, a tight stage-3 plan."""
    usable = usable_gib * GIB
    widest = float(np.ravel(estimate_memory(**case.arguments(), usable_bytes=usable).widest_margin(share))[0])
    # Below, a phase would count with less than nothing; the chance to fit is none long before.
    least = max(case.stack.phi, TIGHT_PHI) * case.coefficients.rho - 1.0
    if not least + 1e-3 < widest < 1e6:
        return
    for step, fits in ((-1e-6, True), (1e-6, False)):
        margin = widest + step * (1.0 + abs(widest))
        stack = replace(case.stack, margin=margin, known_margin=share * margin)
        need = float(np.ravel(need_bytes(**{**case.arguments(), "stack": stack}, usable_bytes=usable))[0])
        assert (need <= usable) == fits


def test_probability_of_one_spread_of_room() -> None:
    """One spread of room is t = 2.92 / 1.645 = 1.775: 0.5 + 1.775 / (2 sqrt(2 + 1.775^2)) = 89.1 %; no room is none."""
    assert fit_probability(np.exp(0.08) - 1.0, 0.08) == pytest.approx(0.89106, abs=1e-5)
    assert fit_probability(0.2, 0.1108) == pytest.approx(0.95, abs=1e-3)
    assert fit_probability(-1.5, 0.30) == 0.0


def test_full_training_holds_more_than_adapters() -> None:
    """Static bytes of full training exceed those of LoRA, and those of LoRA exceed 4-bit LoRA."""
    plan = Layout(micro_batch=1, accumulation=1, sequence=1, longest_sequence=1)
    sizes = [held(plan, states, PLAIN) for states in (full_states(), adapter_states(), adapter_states(quantised=1))]
    assert sizes == sorted(sizes, reverse=True)
