"""The front door as a whole: files in, a scenario or every fault at its line out; text into files."""

from __future__ import annotations

import io
import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cards import CardNames, data_folder
from planner.documents import write_yaml
from planner.errors import InputError, LibraryError, ScenarioError
from planner.loading import (
    architecture_names,
    change_scenario,
    parse_scenario,
    read_library,
    read_plan,
    read_scenario,
    scenario_text,
    write_text_atomically,
)

GOOD = """\
name: small
jobs:
  - name: a
    architecture: mistral-7b
    work: {samples: 50000, tokens_per_sample: 600, epochs: 3}
    deadline: 36h
offers:
  - {provider: vast, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2, spot_usd_per_hour: 0.1}
  - {provider: lambda, gpu: H100-80GB, gpus: 8, usd_per_hour: 24}
"""


OFFER = "{provider: p, gpu: T4, gpus: 1, usd_per_hour: 1}"
DATED = "{provider: p, gpu: T4, gpus: 1, usd_per_hour: 1, date: 2026-01-01}"


def told(text: str, folder: Path | str = ".", set_: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(textwrap.dedent(text), folder, "s.yaml", set_)
    return [str(fault) for fault in caught.value.faults]


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_scenario_is_read(tmp_path: Path) -> None:
    """Units, defaults and inline offers arrive as numbers under their names."""
    path = tmp_path / "s.yaml"
    path.write_text(GOOD, encoding="utf-8")
    scenario = read_scenario(path)
    job = scenario.jobs[0]
    assert (job.deadline_hours, job.work.samples, job.global_batch) == (36.0, 50000, 64)
    assert [offer.gpu for offer in scenario.offers] == ["RTX3090", "H100-80GB"]
    assert scenario.offers == scenario.offers_inline


def test_every_fault_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    """One run tells all that is wrong, in the scenario and in its inventories."""
    (tmp_path / "market.yaml").write_text(
        "currency: EUR\noffers:\n  - {gpu: T4, gpus: 1}\n", encoding="utf-8"
    )
    faults = told(
        """\
        name: bad
        inventory: [missing.yaml, market.yaml]
        job: 3
        jobs:
          - name: a
            architecture: mistral-7
            work: {samples: 50000, tokens: 1B}
            deadline: 36
            techniques:
              method: qlora
              weight_bits: [16, 5]
              penalty_usd: {four_bits: 20}
          - name: b
            architecture: llama-2-7b
            work: {images: 2000}
            data_gb: .nan
        limits:
          budget_usd: -5
          gpus: {allow: [RTX3091]}
          spot_share: {min: 0.8, max: 0.2}
        """,
        tmp_path,
    )
    market = f"{tmp_path}/market.yaml"
    expected = [
        f"{market}:1: currency: prices in EUR; only USD is understood: convert them",
        f"{market}:3: offers.0.provider: is missing; add it",
        f"s.yaml:2: inventory.0: there is no file {tmp_path}/missing.yaml; paths start",
        "s.yaml:3: job: unknown key; did you mean jobs?",
        "s.yaml:6: jobs.0.architecture: unknown architecture 'mistral-7'; did you mean mistral-7b",
        "s.yaml:7: jobs.0.work.tokens: samples and tokens contradict each other; keep one",
        "s.yaml:8: jobs.0.deadline: 36 has no unit; write 90m, 36h, 2d or 1d12h",
        "s.yaml:10: jobs.0.techniques.method: 'qlora' is not one of full, lora; write method: lora",
        "s.yaml:11: jobs.0.techniques.weight_bits.1: 5 is not one of 16, 8, 4",
        "s.yaml:12: jobs.0.techniques.penalty_usd.four_bits: 'four_bits' is not one of lora, four_bit",
        "s.yaml:15: jobs.1.work.images: llama-2-7b is trained on tokens, not on images",
        "s.yaml:16: jobs.1.data_gb: nan is not a number to plan with; give a finite number",
        "s.yaml:18: limits.budget_usd: -5 is out of range; must be more than 0",
        "s.yaml:19: limits.gpus.allow.0: unknown GPU 'RTX3091'; did you mean RTX3090",
        "s.yaml:20: limits.spot_share.min: min 0.8 is over max 0.2; min may be at most max",
    ]
    assert len(faults) == len(expected), "\n".join(faults)
    for wanted in expected:
        assert any(fault.startswith(wanted) for fault in faults), wanted


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("36h", "36", "s.yaml:6: jobs.0.deadline: 36 has no unit"),
        ("36h", "36 parsecs", "s.yaml:6: jobs.0.deadline: '36 parsecs' is not a duration"),
        ("mistral-7b", "mistrall-7b", "s.yaml:4: jobs.0.architecture: unknown architecture 'mistrall-7b'"),
        ("mistral-7b", "{a: 1}", "s.yaml:4: jobs.0.architecture: a mapping is not text"),
        ("mistral-7b", "no-such/config.json", "cannot be read: no such file"),
        ("RTX3090", "RTX3900", "s.yaml:8: offers.0.gpu: unknown GPU 'RTX3900'; did you mean RTX3090"),
        ("deadline", "deadlin", "s.yaml:6: jobs.0.deadlin: unknown key; did you mean deadline?"),
        ("usd_per_hour: 24", "notes: free", "s.yaml:9: offers.1: an offer without a price"),
        ("usd_per_hour: 24", "usd_per_hour: null", "s.yaml:9: offers.1: an offer without a price"),
        ("usd_per_hour: 24", "usd_per_hour: -24", "s.yaml:9: offers.1.usd_per_hour: -24 is out of range"),
        ("usd_per_hour: 24", "usd_per_hour: .nan", "s.yaml:9: offers.1.usd_per_hour: nan is not a number"),
        ("usd_per_hour: 24", "usd_per_hour: 1e999", "s.yaml:9: offers.1.usd_per_hour: inf is not a number"),
        ("usd_per_hour: 24", "usd_per_hour: $24", "s.yaml:9: offers.1.usd_per_hour: '$24' is not a number"),
        ("gpus: 8", "gpus: 8, gpus: 4", "s.yaml:9: offers.1.gpus: the key is given twice"),
        ("epochs: 3", "epochs: 3, tokens: 5", "s.yaml:5: jobs.0.work.tokens: samples and tokens contradict"),
        ("50000", "12:30", "s.yaml:5: jobs.0.work.samples: '12:30' is not a count"),
        ("name: small", "name: no\nobjective: on", "s.yaml:2: objective: 'on' is no objective"),
        ("name: small\n", "", "s.yaml:1: name: is missing"),
        ("name: small", "name: s\nlimits: {quota: {lamda: 8}}", "limits.quota.lamda: nothing is offered by"),
        ("name: small", "name: s\nlimits: 5", "s.yaml:2: limits: 5 is not a mapping"),
        ("name: small", "name: s\nadjust: {gpu: T4}", "s.yaml:2: adjust: a mapping is not a list"),
        ("name: small", "name: s\nadjust: [{match: {gpu: H1OO}}]", "adjust.0.match.gpu: unknown GPU 'H1OO'"),
        (
            "36h",
            "36h\n    measured: [{gpu: X1, gpus: 1, hours: 2}]",
            "jobs.0.measured.0.gpu: unknown GPU 'X1'",
        ),
        ("36h", "36h\n    framework: hugging", "s.yaml:7: jobs.0.framework: 'hugging' is not one of hf"),
        ("36h", "36h\n    techniques: {sharding: fsdp}", "'fsdp' is not one of none, ddp"),
        (
            "36h",
            "36h\n    confidence: 0.99",
            "s.yaml:7: jobs.0.confidence: 0.99 is more than can be promised",
        ),
    ],
)
def test_one_wrong_thing_is_one_fault(old: str, new: str, fault: str) -> None:
    """A single slip is told once, in the words of the file, with its line."""
    (found,) = told(changed(old, new))
    assert fault in found


def test_a_scenario_without_offers_says_how_to_name_them() -> None:
    """Nothing to rent is a fault of the input, not an infeasible plan."""
    (fault,) = told(GOOD[: GOOD.index("offers:")])
    assert "give inventory: [FILE] or offers: [...]" in fault


def test_aliases_of_cards_become_their_names() -> None:
    """Whatever a market calls a card, one name remains."""
    text = changed("H100-80GB", "NVIDIA A100-SXM4-80GB").replace("mistral-7b", "Mistral-7B")
    text += "limits: {gpus: {forbid: a100-sxm4-80gb}}\nadjust: [{match: {gpu: A100-SXM-80GB}}]\n"
    scenario = parse_scenario(text)
    assert scenario.jobs[0].architecture == "mistral-7b"
    assert scenario.offers[1].gpu == "A100-80GB"
    assert scenario.limits.gpus.forbid == ("A100-80GB",)
    assert scenario.adjust[0].match.gpu == "A100-80GB"


def test_a_config_json_is_an_architecture(tmp_path: Path) -> None:
    """The path starts at the scenario's folder, and the library knows the network under the path found."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    name = parse_scenario(changed("mistral-7b", "config.json"), tmp_path).jobs[0].architecture
    assert Path(name) == (tmp_path / "config.json").resolve()
    assert read_library([name]).architecture(name).hidden == 64


@pytest.mark.parametrize(
    "config", ["", "[]", "{", "{}", '{"hidden_size": "x"}', '{"model_type": "none"}', "[" * 10**5]
)
def test_an_unusable_config_json_is_a_fault(tmp_path: Path, config: str) -> None:
    """A broken or foreign configuration is told at the job that names it."""
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    faults = told(changed("mistral-7b", "config.json"), tmp_path)
    assert all(fault.startswith("s.yaml:4: jobs.0.architecture: ") for fault in faults)


def test_terms_are_defaults_of_a_providers_offers(tmp_path: Path) -> None:
    """An offer may differ in a single fee; dates and sources come from the file, texts of sources by key."""
    (tmp_path / "m.yaml").write_text(
        """\
date: 2026-01-02
currency: USD
sources: {page: the price page}
terms:
  p:
    billing: {step_seconds: 60}
    fees: {egress_usd_per_gb: 0.1, storage_usd_per_gb_month: 0.2}
    network_gbps: 100
offers:
  - {provider: p, gpu: T4, gpus: 1, usd_per_hour: 1, source: page}
  - {provider: p, gpu: T4, gpus: 2, usd_per_hour: 2, date: 2025-01-01, fees: {egress_usd_per_gb: 0}}
  - {provider: q, gpu: T4, gpus: 1, spot_usd_per_hour: 3, max_nodes: null}
""",
        encoding="utf-8",
    )
    scenario = parse_scenario(GOOD.replace("jobs:", "inventory: m.yaml\njobs:"), tmp_path)
    first, second, third = scenario.offers[:3]
    assert (first.billing.step_seconds, first.network_gbps, first.source) == (60, 100, "the price page")
    assert (second.fees.egress_usd_per_gb, second.fees.storage_usd_per_gb_month) == (0, 0.2)
    assert [str(offer.date) for offer in (first, second, third)] == ["2026-01-02", "2025-01-01", "2026-01-02"]
    assert (third.billing.step_seconds, third.max_nodes, third.fees.egress_usd_per_gb) == (1, 1, None)
    assert scenario.offers[3:] == scenario.offers_inline


@pytest.mark.parametrize(
    ("inventory", "fault"),
    [
        (f"offers: [{OFFER}]", "currency: is missing"),
        ("currency: USD\noffers: []", "m.yaml:2: offers: is empty"),
        ("currency: USD\noffers: [5]", "m.yaml:2: offers.0: 5 is not a mapping"),
        ("currency: USD\noffers: 5", "m.yaml:2: offers: 5 is not a list"),
        ("currency: USD", "offers: is missing"),
        ("", "the file is empty"),
        (
            f"currency: USD\nterms: {{p: {{billing: {{step: 1}}}}}}\noffers: [{OFFER}, {OFFER}]",
            "m.yaml:2: terms.p.billing.step: unknown key; did you mean step_seconds?",
        ),
        (
            f"currency: USD\noffers:\n  - {OFFER.replace('T4', 'T5')}",
            "m.yaml:3: offers.0.gpu: unknown GPU 'T5'",
        ),
        (f"currency: USD\ndate: soon\noffers:\n  - {DATED}", "m.yaml:2: date: 'soon' is not a date"),
        (f"currency: USD\ndate: soon\noffers: [{OFFER}, {OFFER}]", "m.yaml:2: date: 'soon' is not a date"),
    ],
)
def test_a_fault_of_an_inventory_is_told_at_its_own_line(tmp_path: Path, inventory: str, fault: str) -> None:
    """The file that is wrong is the file that is named, once, however many offers inherit the fault."""
    (tmp_path / "m.yaml").write_text(inventory, encoding="utf-8")
    (found,) = told(GOOD.replace("jobs:", "inventory: [m.yaml]\njobs:"), tmp_path)
    assert fault in found


def test_settings_are_validated_like_the_file() -> None:
    """A setting that makes the scenario wrong is told as a setting, and good ones win over the file."""
    scenario = parse_scenario(GOOD, set_=["jobs.a.deadline=12h", "limits.budget_usd=100"])
    assert (scenario.jobs[0].deadline_hours, scenario.limits.budget_usd) == (12.0, 100.0)
    faults = told(
        GOOD, ".", ("jobs.a.deadline=12", "limit.budget_usd=100", "jobs.a.deadlines=1h", "jobs.z.x=1")
    )
    assert faults == [
        "--set jobs.a.deadline=12: jobs.0.deadline: 12 has no unit; write 90m, 36h, 2d or 1d12h",
        "--set jobs.a.deadlines=1h: jobs.0.deadlines: unknown key; did you mean deadline?",
        "--set jobs.z.x=1: jobs.z.x: jobs has no item called z; there are a",
        "--set limit.budget_usd=100: limit: unknown key; did you mean limits?",
    ]


def test_changing_a_scenario_is_reading_it_with_settings(tmp_path: Path) -> None:
    """A what-if on the object and the same setting on the file agree, inventory offers included."""
    (tmp_path / "m.yaml").write_text(
        "currency: USD\noffers: [{provider: p, gpu: T4, gpus: 1, usd_per_hour: 1}]", encoding="utf-8"
    )
    text = GOOD.replace("jobs:", "inventory: [m.yaml]\njobs:")
    setting = ["jobs.a.deadline=12h", "offers.0.usd_per_hour=0.3", "objective=time"]
    assert change_scenario(parse_scenario(text, tmp_path), setting) == parse_scenario(
        text, tmp_path, set_=setting
    )
    with pytest.raises(ScenarioError, match="cannot be exchanged here"):
        change_scenario(parse_scenario(text, tmp_path), ["inventory=[]"])
    with pytest.raises(ScenarioError, match="must be more than 0"):
        change_scenario(parse_scenario(text, tmp_path), ["limits.budget_usd=0"])


scenarios = st.fixed_dictionaries(
    {
        "name": st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=10)
        | st.sampled_from(["1e6", "no", "12:30"]),
        "jobs": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["a", "b.c", "1", "null"]),
                    "architecture": st.sampled_from(["mistral-7b", "llama-2-7b"]),
                    "work": st.sampled_from([{"tokens": "1.2B"}, {"samples": 5, "tokens_per_sample": 6.5}]),
                },
                optional={
                    "deadline": st.sampled_from(["90m", "1d12h", "0.1h"]),
                    "efficiency": st.floats(1e-6, 1e6),
                    "techniques": st.sampled_from(
                        [{"method": "lora", "weight_bits": [4, 16]}, {"lora": {"rank": 3}}]
                    ),
                    "lora": st.sampled_from([{"targets": "qv"}, {"targets": ["x"], "rank": 3}]),
                },
            ).filter(lambda job: not ("lora" in job and "lora" in job.get("techniques", {}))),
            min_size=1,
            max_size=3,
            unique_by=lambda job: job["name"],
        ),
        "offers": st.lists(
            st.fixed_dictionaries(
                {
                    "provider": st.sampled_from(["aws", "no"]),
                    "gpu": st.sampled_from(["T4", "H100-80GB"]),
                    "gpus": st.integers(1, 8),
                    "usd_per_hour": st.floats(0, 100),
                },
                optional={
                    "date": st.dates().map(str),
                    "spot": st.sampled_from([{"availability": 0.3, "mean_up_hours": 7}]),
                    "notes": st.text(st.characters(exclude_categories=("Cs",)), max_size=10),
                },
            ),
            min_size=1,
            max_size=3,
        ),
    },
    optional={
        "objective": st.sampled_from(["time", {"value_of_time_usd_per_hour": 5}]),
        "limits": st.sampled_from(
            [{"quota": {"aws": 8}, "spot_share": {"max": 0}}, {"providers": {"forbid": "no"}}]
        ),
    },
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(scenarios)
def test_a_written_scenario_reads_back_the_same(data: dict[str, Any]) -> None:
    """Text and object say the same thing: nothing is lost or changed by a file in between."""
    scenario = parse_scenario(write_yaml(data))
    assert parse_scenario(scenario_text(scenario)) == scenario


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*GOOD.split(" "), "\n", "  ", "null", "[", "{", ".nan", "-1", "1e999"])).map(
        " ".join
    )
)
def test_garbage_raises_nothing_but_scenario_errors(text: str) -> None:
    """Whatever the text, the door answers with faults that name it."""
    try:
        parse_scenario(text, file="s.yaml")
    except ScenarioError as error:
        assert error.faults


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.data())
def test_a_good_scenario_with_one_value_replaced_is_read_or_refused(data: st.DataObject) -> None:
    """Any value in any place is understood or told, never a crash."""
    places = [
        "name",
        "jobs",
        "jobs.0",
        "jobs.0.work",
        "jobs.0.work.samples",
        "jobs.0.architecture",
        "jobs.0.lora",
    ]
    places += ["jobs.0.deadline", "jobs.0.techniques", "jobs.0.techniques.lora.targets", "jobs.0.measured"]
    places += [
        "offers",
        "offers.0",
        "offers.0.gpu",
        "offers.0.spot",
        "offers.0.provider",
        "offers.0.date",
        "inventory",
    ]
    places += [
        "limits",
        "limits.providers",
        "limits.providers.allow",
        "limits.quota",
        "limits.spot_share",
        "limits.gpus",
    ]
    places += [
        "adjust",
        "adjust.0",
        "adjust.0.match",
        "objective",
        "jobs.0.confidence",
        "jobs.0.techniques.method",
    ]
    values = [
        "null",
        "true",
        "[]",
        "{}",
        "-1",
        ".nan",
        "1e999",
        "text",
        "[[]]",
        "[null]",
        "{a: 1}",
        "[5]",
        "''",
        "x.json",
    ]
    setting = f"{data.draw(st.sampled_from(places))}={data.draw(st.sampled_from(values))}"
    try:
        parse_scenario(GOOD, set_=[setting])
    except ScenarioError as error:
        assert error.faults


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash reads the scenario that is piped in."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert read_scenario("-").name == "small"


@pytest.mark.parametrize("path", sorted(data_folder("scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_are_read_by_bare_name(path: Path) -> None:
    """Every question that is shipped is well put, and works by its name from anywhere."""
    scenario = read_scenario(path.stem)
    assert scenario.jobs
    assert scenario == read_scenario(path)


def test_a_name_that_is_nothing_suggests_what_is_near() -> None:
    """A misspelt name of a shipped scenario leads to the right one."""
    with pytest.raises(ScenarioError, match="did you mean quickstart"):
        read_scenario("quikstart")


def test_the_library_holds_what_is_asked_for() -> None:
    """Of the architectures only those named are read, by name or alias; everything else always."""
    library = read_library(["mistral-7b", "bigscience/bloom"])
    assert set(library.architectures) == {"mistral-7b", "bloom-176b"}
    assert set(library.gpus) == set(CardNames("gpus").names)
    assert library.calibrations and library.tables
    assert set(read_library().architectures) == set(architecture_names())
    with pytest.raises(LibraryError, match="did you mean mistral-7b"):
        read_library(["mistral-7"])


def test_a_broken_card_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of all cards come at once, and a card must carry the name of its file."""
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "X1.yaml").write_text("name: X1\nvram: 3\n", encoding="utf-8")
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / "m.yaml").write_text(
        "name: n\ndescription: d\ncoefficients: {}\n", encoding="utf-8"
    )
    monkeypatch.setattr("planner.cards.data_folder", lambda kind: tmp_path)
    with pytest.raises(LibraryError) as caught:
        read_library([])
    text = str(caught.value)
    assert "X1.yaml:2: vram: unknown key; did you mean vram_gib" in text
    assert "m.yaml:1: name: 'n' is not the file's name; call it 'm'" in text


def test_a_written_file_is_whole_or_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails while writing leaves the old result and no litter."""
    path = tmp_path / "plan.json"
    write_text_atomically(path, "old é\n")

    def broken(*args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_text_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old é\n"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_plan_file_is_read_or_refused(tmp_path: Path) -> None:
    """A plan is JSON with the keys of a plan; anything else is an input fault."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"scenario": "s", "status": "optimal", "jobs": []}), encoding="utf-8")
    assert read_plan(path)["status"] == "optimal"
    for wrong in ("", "{", "[]", "{}", '{"scenario": NaN}', "[" * 100_000, "\x00"):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError):
            read_plan(path)
