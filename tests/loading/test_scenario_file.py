"""The front door as a whole: files in, a scenario or every fault at its line out; text into files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from planner.cli.options import read_plan
from planner.errors import InputError, ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario, read_scenario, shipped_scenarios
from tests.helpers.scenarios import GOOD, changed, told


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
    (tmp_path / "market.yaml").write_text("currency: EUR\noffers:\n  - {gpu: T4, gpus: 1}\n", encoding="utf-8")
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
        f"{market}:1: currency: prices in EUR; convert the prices to USD",
        f"{market}:3: offers.0.provider: is missing; add it",
        f"s.yaml:2: inventory.0: no such file: {tmp_path}/missing.yaml; give a path relative",
        "s.yaml:3: job: unknown key; did you mean jobs?",
        "s.yaml:6: jobs.0.architecture: unknown architecture 'mistral-7'; did you mean mistral-7b",
        "s.yaml:7: jobs.0.work.tokens: samples and tokens contradict each other; keep one",
        "s.yaml:8: jobs.0.deadline: 36 has no unit; write 90m, 36h, 2d or 1d12h",
        "s.yaml:10: jobs.0.techniques.method: 'qlora' is not one of full, lora; write method: lora",
        "s.yaml:11: jobs.0.techniques.weight_bits.1: 5 is not one of 16, 8, 4",
        "s.yaml:12: jobs.0.techniques.penalty_usd.four_bits: 'four_bits' is not one of lora, four_bit",
        "s.yaml:15: jobs.1.work.images: llama-2-7b is trained on tokens, not on images",
        "s.yaml:16: jobs.1.data_gb: nan is not a finite number; give a finite number",
        "s.yaml:18: limits.budget_usd: -5 is out of range; must be more than 0",
        "s.yaml:19: limits.gpus.allow.0: unknown GPU 'RTX3091'; did you mean RTX3090",
        "s.yaml:20: limits.spot_share.min: min 0.8 is above max 0.2; min may be at most max",
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
        ("usd_per_hour: 24", "usd_per_hour: .nan", "s.yaml:9: offers.1.usd_per_hour: nan is not a finite number"),
        ("usd_per_hour: 24", "usd_per_hour: 1e999", "s.yaml:9: offers.1.usd_per_hour: inf is not a finite number"),
        ("usd_per_hour: 24", "usd_per_hour: $24", "s.yaml:9: offers.1.usd_per_hour: '$24' is not a number"),
        ("gpus: 8", "gpus: 8, gpus: 4", "s.yaml:9: offers.1.gpus: duplicate key"),
        ("epochs: 3", "epochs: 3, tokens: 5", "s.yaml:5: jobs.0.work.tokens: samples and tokens contradict"),
        ("50000", "12:30", "s.yaml:5: jobs.0.work.samples: '12:30' is not a count"),
        ("name: small", "name: no\nobjective: on", "s.yaml:2: objective: 'on' is not an objective"),
        ("name: small", "name: s\nlimits: {quota: {lamda: 8}}", "limits.quota.lamda: no offers of provider"),
        ("name: small", "name: s\nlimits: {providers: [lamda]}", "limits.providers.0: no offers of provider"),
        ("name: small", "name: s\nlimits: 5", "s.yaml:2: limits: 5 is not a mapping"),
        ("name: small", "name: s\nadjust: {gpu: T4}", "s.yaml:2: adjust: a mapping is not a list"),
        ("name: small", "name: s\nadjust: [{match: {gpu: H1OO}}]", "adjust.0.match.gpu: unknown GPU 'H1OO'"),
        ("36h", "36h\n    measured: [{gpu: X1, gpus: 1, hours: 2}]", "jobs.0.measured.0.gpu: unknown GPU 'X1'"),
        (
            "36h",
            "36h\n    measured: [{gpu: T4, gpus: 2, hours: 2, peak_vram_gib: 30}]",
            "s.yaml:7: jobs.0.measured.0.peak_vram_gib: 30 is more than the 16 GiB of T4",
        ),
        (
            "36h",
            "36h\n    framework: hugging",
            "s.yaml:7: jobs.0.framework: unknown framework 'hugging'; the nearest are ",
        ),
        ("36h", "36h\n    techniques: {sharding: fsdp}", "'fsdp' is not one of none, ddp"),
        ("36h", "36h\n    confidence: 0.99", "s.yaml:7: jobs.0.confidence: 0.99 is more than can be guaranteed"),
        ("36h", "36h\n    confidence: 95", "s.yaml:7: jobs.0.confidence: 95 is not a probability; write 95 % as 0.95"),
        (
            "36h",
            "36h\n    early_stopping: 80",
            "jobs.0.early_stopping: 80 is out of range; must be at most 1; write 80 %",
        ),
        (
            "name: small",
            "name: s\nlimits: {budget_confidence: 90 %}",
            "'90 %' is not a number; write it as a share: 0.9",
        ),
        ("name: small", "name: s\nlimits:\n  budget_usd: 1,500", "is not a number; write it without commas: 1500"),
        (
            "name: small",
            "name: s\nlimits: {budget_usd: 1,500}",
            "s.yaml:2: limits.budget_usd: 1,500 is read as a number",
        ),
        (
            "50000",
            "20,000,000",
            "s.yaml:5: jobs.0.work.samples: 20,000 is read as a number and a key; write the number",
        ),
    ],
)
def test_one_wrong_thing_is_one_fault(old: str, new: str, fault: str) -> None:
    """A single slip is told once, in the words of the file, with its line."""
    (found,) = told(changed(old, new))
    assert fault in found


@pytest.mark.parametrize("word", ["job", "jbos", "tasks"])
def test_a_file_whose_list_of_jobs_is_misspelt_is_told_its_name(tmp_path: Path, word: str) -> None:
    """It is no file of passwords then, and the faults inside of the jobs are reported at once, with their lines."""
    faults = told(f"{word}:\n  - {{name: a, deadline: 3}}\nlimits: {{budget_usd: -1}}\n", tmp_path)
    assert f"s.yaml:1: {word}: unknown key; did you mean jobs?" in faults[0]
    assert any(":2: jobs.0.deadline: 3 has no unit" in fault for fault in faults)
    assert any(":3: limits.budget_usd: -1 is out of range" in fault for fault in faults)
    assert any("jobs.0.architecture: is missing" in fault for fault in faults)


def test_how_weights_are_trained_is_no_method_of_a_job() -> None:
    """`full` and `lora` are a technique; `dpo` and others are what is done with samples."""
    (found,) = told(changed("deadline: 36h", "deadline: 36h\n    method: lora"))
    assert "jobs.0.method: 'lora' is not one of sft, dpo, " in found
    assert found.endswith("write it below techniques, as techniques: {method: ...}")


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("r: 8", "write it below lora, as lora: {rank: ...}"),
        ("epochs: 2", "write it below work, as work: {epochs: ...}"),
        ("budget: 3", "write it as limits.budget_usd"),
        ("gpus: 1", "write it as limits.max_gpus"),
        ("gpus: [H100]", "write it as limits.gpus"),
        ("gpu: H100", "write it as limits.gpus"),
        ("provider: aws", "write it as limits.providers"),
        ("spot: false", "write it as limits.spot"),
        ("lr: 0.0002", "leave it out: no plan depends on it"),
        ("instance: x", "write it as offers.0.instance"),
    ],
)
def test_a_key_of_another_place_in_a_job_names_the_right_one(written: str, fix: str) -> None:
    """A number of GPUs is a limit on their number, names of them one on which; an offer is seldom meant."""
    (found,) = told(changed("deadline: 36h", f"deadline: 36h\n    {written}"))
    assert found.endswith(f"jobs.0.{written.partition(':')[0]}: unknown key; {fix}")


def test_aliases_of_cards_become_their_names() -> None:
    """Whatever a market calls a card, one name remains."""
    text = changed("H100-80GB", "NVIDIA A100-SXM4-80GB").replace("mistral-7b", "Mistral-7B")
    text += "limits: {gpus: {forbid: a100-sxm4-80gb}}\nadjust: [{match: {gpu: A100-SXM-80GB}}]\n"
    scenario = parse_scenario(text)
    assert scenario.jobs[0].architecture == "mistral-7b"
    assert scenario.offers[1].gpu == "A100-80GB"
    assert scenario.limits.gpus.forbid == ("A100-80GB",)
    assert scenario.adjust[0].match.gpu == "A100-80GB"


def test_settings_are_validated_like_the_file() -> None:
    """A setting that makes the scenario wrong is told as a setting, and good ones win over the file."""
    scenario = parse_scenario(GOOD, set_=["jobs.a.deadline=12h", "limits.budget_usd=100"])
    assert (scenario.jobs[0].deadline_hours, scenario.limits.budget_usd) == (12.0, 100.0)
    faults = told(GOOD, ".", ("jobs.a.deadline=12", "limit.budget_usd=100", "jobs.a.deadlines=1h", "jobs.z.x=1"))
    assert faults == [
        "--set jobs.a.deadline=12: jobs.a.deadline: 12 has no unit; write 90m, 36h, 2d or 1d12h",
        "--set jobs.a.deadlines=1h: jobs.a.deadlines: unknown key; did you mean jobs.a.deadline?",
        "--set jobs.z.x=1: jobs.z.x: jobs has no item called z; did you mean jobs.a.x?",
        "--set limit.budget_usd=100: limit: unknown key; did you mean limits.budget_usd or limits.budgets?",
    ]


def test_changing_a_scenario_is_reading_it_with_settings(tmp_path: Path) -> None:
    """A what-if on the object and the same setting on the file agree, inventory offers included."""
    (tmp_path / "m.yaml").write_text(
        "currency: USD\noffers: [{provider: p, gpu: T4, gpus: 1, usd_per_hour: 1}]", encoding="utf-8"
    )
    text = GOOD.replace("jobs:", "inventory: [m.yaml]\njobs:")
    setting = ["jobs.a.deadline=12h", "offers.0.usd_per_hour=0.3", "objective=time"]
    assert change_scenario(parse_scenario(text, tmp_path), setting) == parse_scenario(text, tmp_path, set_=setting)
    with pytest.raises(ScenarioError, match="cannot be changed here"):
        change_scenario(parse_scenario(text, tmp_path), ["inventory=[]"])
    with pytest.raises(ScenarioError, match="must be more than 0"):
        change_scenario(parse_scenario(text, tmp_path), ["limits.budget_usd=0"])


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash reads the scenario that is piped in."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert read_scenario("-").name == "small"


@pytest.mark.slow
@pytest.mark.parametrize("path", shipped_scenarios().values(), ids=lambda path: path.stem)
def test_shipped_scenarios_are_read_by_bare_name(path: Path) -> None:
    """Every question that is shipped is well put, and works by its name from anywhere."""
    scenario = read_scenario(path.stem)
    assert scenario.jobs
    assert scenario == read_scenario(path)


def test_a_name_that_is_nothing_suggests_what_is_near() -> None:
    """A misspelt name of a shipped scenario leads to the right one."""
    with pytest.raises(ScenarioError, match="did you mean quickstart"):
        read_scenario("quikstart")


@pytest.mark.parametrize(
    "text",
    [
        "root:x:0:0:hunter2:/bin/sh",
        "[aws]\n- hunter2",
        "- hunter2",
        "password: hunter2\ncurrency: hunter2\nlimits: hunter2",
        "offers: []\njobs: []\nthe_key_of_twenty_and_hunter2: 1",
        "!a_tag_of_twenty_signs_hunter2 x",
        "key: *an_alias_of_twenty_and_hunter2",
        "another_key_that_is_hunter2:\n  a: 1\n  a: 2",
    ],
)
def test_a_file_named_by_mistake_is_not_shown(tmp_path: Path, text: str) -> None:
    """It may hold passwords: a fault shows no values of it, and no more than the start of a key."""
    file = tmp_path / "secrets"
    file.write_text(text)
    for settings in ((str(file), ()), ("quickstart", (f"inventory=[{file}]",))):
        with pytest.raises(ScenarioError) as caught:
            read_scenario(*settings)
        assert str(file) in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_a_plan_file_is_read_or_refused(tmp_path: Path) -> None:
    """A plan is JSON with the keys of a plan; anything else is an input fault (tests/cli reads good ones)."""
    path = tmp_path / "plan.json"
    for wrong in ("", "{", "[]", "{}", '{"scenario": NaN}', "[" * 100_000, "\x00"):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError):
            read_plan(str(path))


def test_a_setting_on_an_offer_of_an_inventory_points_to_adjust() -> None:
    """Offers of files have no path of their own: one fault says so, not three about an offer that nobody meant."""
    with pytest.raises(ScenarioError) as caught:
        read_scenario("quickstart", ("offers.0.usd_per_hour=1",))
    (fault,) = caught.value.faults
    assert fault.where == "offers.0" and "adjust.0={match: {gpu: H100-80GB}" in fault.fix
    made = "offers.0={provider: me, gpu: T4, gpus: 1, usd_per_hour: 0.1}"
    assert read_scenario("quickstart", (made, "offers.0.usd_per_hour=1")).offers_inline[0].usd_per_hour == 1.0


def test_a_path_like_none_is_told_with_paths_that_are_often_set() -> None:
    """Keys alone do not say how a path is written."""
    with pytest.raises(ScenarioError) as caught:
        read_scenario("quickstart", ("foo.bar=1",))
    assert "examples of paths: jobs.quickstart.deadline, limits." in caught.value.faults[0].fix
