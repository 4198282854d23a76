"""The result is made where it costs least and where the memory for it is known not to be missing."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.results.plan import Assignment
from tests.helpers.stage_scenarios import CPU, LORA, RENTED, WEIGHTS_GB, asked, library, line, planned, solved

NEEDS = 2.2 * 1.100048384 + 8
"""GB of RAM that a merge of TinyLlama takes: 10.4."""
FEES = {"egress_usd_per_gb": 0.1}


def export(*offers: dict[str, Any], **wanted: Any) -> Assignment:
    """The plan of LoRA whose result leaves so."""
    return planned(*offers, techniques=LORA, stages={"export": wanted})


def test_a_dear_machine_sends_its_adapters_and_a_cheap_one_merges() -> None:
    """8 GPUs for $16 an hour are given back; a CPU machine for $0.60 downloads the base, merges and sends."""
    dear = {**RENTED, "gpus": 8, "usd_per_hour": 16.0, "disk_gb_per_second": 0.01}
    told = export(dear, CPU, format="merged")
    assert [(one.stage, one.provider) for one in told.separate_machines] == [("export", "c")]
    assert told.export is not None
    assert (told.export.offer, told.export.gb) == ("c/any/16-cores", pytest.approx(WEIGHTS_GB))
    # Boot 160 s, image and weights at 0.5 GB/s, read and written at 1 GB/s, sent at 0.5 GB/s.
    seconds = 160 + (10 + WEIGHTS_GB) / 0.5 + 2 * WEIGHTS_GB / 1 + WEIGHTS_GB / 0.5
    assert told.separate_machines[0].hours == pytest.approx(seconds / 3600, rel=1e-9)
    assert line(told, "export at c")[1] == pytest.approx(seconds / 3600 * 0.6, rel=0.01)


def test_a_small_model_is_merged_by_the_machine_that_trains() -> None:
    """4.4 s of merging cost less than another machine's boot."""
    assert export(RENTED, CPU, format="merged").separate_machines == ()


def test_a_machine_of_too_little_memory_does_not_merge() -> None:
    """With 10 GB where 10.4 are needed, a CPU machine of 32 GB does it; `unknown` is enough, with a note."""
    assert [one.provider for one in export({**RENTED, "ram_gb": 10}, CPU, format="merged").separate_machines] == ["c"]
    told = export(RENTED, format="merged")
    assert told.export is not None and not told.export.ram_known
    assert any("RAM of the machine unknown" in note for note in told.notes)
    assert not any("RAM of" in note for note in export({**RENTED, "ram_gb": 64}, format="merged").notes)


@pytest.mark.parametrize("wanted", [{"format": "merged"}, {"merged": True}, {"format": "gguf"}, {"format": "gptq"}])
def test_a_merge_that_no_machine_can_do_is_told_before_anything_is_paid(wanted: dict[str, Any]) -> None:
    """One fault with the memory that is needed."""
    with pytest.raises(ScenarioError) as caught:
        solved(asked({**RENTED, "ram_gb": 8}, {**CPU, "ram_gb": 8}, techniques=LORA, stages={"export": wanted}))
    (fault,) = caught.value.faults
    assert fault.where == "jobs.job.stages.export"
    assert fault.what == f"merging needs {NEEDS:.0f} GB of RAM, which no offer has"


def test_full_training_merges_nothing() -> None:
    """The weights are there: no memory is asked for, and only quantising is work."""
    small = {**RENTED, "ram_gb": 8}
    assert planned(small, stages={"export": {"format": "merged", "on": "cpu"}}).separate_machines == ()
    told = planned(small, stages={"export": {"format": "gguf", "bits": 8}})
    assert told.export is not None and told.export.ram_gb == 0
    # A 16-bit file, read and written at 1 GB/s, 1.1e9 / 0.25e9 = 4.4 s of quantising, 1.17 GB at 0.5 GB/s.
    made = 1.100048384 * 8.5 / 8
    seconds = 2 * WEIGHTS_GB + 1.100048384 / 0.25 + made / 0.5
    assert told.stage_hours["export"] == pytest.approx(seconds / 3600, rel=1e-9)


def test_a_gpu_of_its_own_quantises() -> None:
    """GPTQ on one A100 for $1, while eight at $32 an hour are given back.

    Boot, image and weights 204 s, merged in 4.4 s, 1.1e9 * 2.3e-7 = 253 s of work, read and written, and sent.
    """
    dear = {**RENTED, "gpus": 8, "usd_per_hour": 32.0}
    alone = {"provider": "e", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 1.0, "ram_gb": 64}
    job = {"techniques": LORA, "stages": {"export": {"format": "gptq", "on": "one_gpu"}}}
    told = planned(dear, alone, **job)
    assert [(one.stage, one.provider) for one in told.separate_machines] == [("export", "e")]
    assert told.export is not None
    moved = WEIGHTS_GB + told.export.gb
    seconds = 160 + (10 + WEIGHTS_GB) / 0.5 + 2 * WEIGHTS_GB + 1.100048384e9 * 2.3e-7 + moved + told.export.gb / 0.5
    assert told.separate_machines[0].hours == pytest.approx(seconds / 3600, rel=1e-9)


def test_a_smaller_format_never_costs_more_to_transfer() -> None:
    """Bytes, and dollars for them, fall from merged weights to 8 and 4 bits; adapters are the least."""
    wanted: list[dict[str, Any]] = [
        {"format": "merged"}, {"format": "gguf", "bits": 8}, {"format": "gguf", "bits": 4}, {"format": "adapters"},
    ]  # fmt: skip
    plans = [export({**RENTED, "ram_gb": 64, "fees": FEES}, **one) for one in wanted]
    sizes = [told.export.gb for told in plans if told.export is not None]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 4
    for told, size in zip(plans, sizes, strict=True):
        assert line(told, "transfer out") == pytest.approx((size, size * 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("egress", [0.0, 0.02, 2.0])
@pytest.mark.parametrize("form", ["merged", "gguf"])
def test_another_place_never_costs_more(form: str, egress: float) -> None:
    """With the CPU machine as well as the training machine the plan costs at most what it costs with one of them."""
    offers = ({**RENTED, "gpus": 2, "usd_per_hour": 8.0, "fees": {"egress_usd_per_gb": egress}}, CPU)
    usd = {
        places: export(*offers, format=form, on=list(places)).cost_usd
        for places in (("machine",), ("cpu",), ("machine", "cpu"))
    }
    assert usd["machine", "cpu"] == pytest.approx(min(usd["machine",], usd["cpu",]), abs=1e-6)


def test_what_is_kept_is_kept_where_it_was_made() -> None:
    """A month of 0.62 GB at the CPU machine's price; at the training machine nothing is left but no checkpoint."""
    fees = {"network_storage_usd_per_gb_month": 0.2}
    stages = {"export": {"format": "gguf", "on": "cpu"}, "retention": "730h"}
    told = planned({**RENTED, "fees": fees}, {**CPU, "fees": fees}, techniques=LORA, stages=stages)
    made = 1.100048384 * 4.5 / 8
    assert line(told, "kept after") == (0.0, 0.0)
    hours = told.separate_machines[0].hours
    assert line(told, "export at c")[1] == pytest.approx(hours * 0.6, rel=1e-3)
    assert line(told, "result moved at c")[1] == pytest.approx(made * 0.2, rel=1e-3)


def test_the_audit_asks_for_the_memory_and_the_place() -> None:
    """A plan that merges where there is too little memory, or where the job does not allow it, fails."""
    stages = {"export": {"format": "merged"}}
    plan = solved(asked({**RENTED, "ram_gb": 64}, CPU, techniques=LORA, stages=stages))
    small = asked({**RENTED, "ram_gb": 8}, CPU, techniques=LORA, stages=stages)
    assert "place of export" in {one.what for one in audit(plan, small, library())}
    elsewhere = asked(
        {**RENTED, "ram_gb": 64}, CPU, techniques=LORA, stages={"export": {**stages["export"], "on": "cpu"}}
    )
    assert "place of export" in {one.what for one in audit(plan, elsewhere, library())}


def test_the_audit_recomputes_bytes_time_and_place() -> None:
    """Other bits than the plan's show in its bytes, its hours and its bill."""
    offer = {**RENTED, "ram_gb": 64, "fees": FEES}
    plan = solved(asked(offer, techniques=LORA, stages={"export": {"format": "gguf", "bits": 4}}))
    other = asked(offer, techniques=LORA, stages={"export": {"format": "gguf", "bits": 8}})
    found = {one.what for one in audit(plan, other, library())}
    assert {"export.gb", "export.bits"} <= found
    assert any(what.startswith("stage_hours") for what in found)
