"""The fields of the page: settings of values, and no value that does more than its field says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.documents.overrides import override
from planner.errors import Fault, InputError
from planner.loading.scenario_file import change_scenario, parse_scenario, read_scenario
from planner.web.setting_fields import Refusal, controls_of, locate, settings_of, values_of
from tests.helpers.pages import CALM, MOVES, OFFICE, OFFICE_MOVES, PROMPT_MOVES, PROMPTS, opened
from tests.helpers.reports import HOSTILE, small_scenario


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> object:
    return opened(tmp_path_factory.mktemp("s")).scenario


def test_every_field_starts_with_what_the_scenario_has(scenario: object) -> None:
    """The values of a scenario stand for no setting, and every field has a value to move to."""
    controls = controls_of(scenario)  # type: ignore[arg-type]
    assert settings_of(controls, {one.key: one.value for one in controls}) == {}
    assert {one.key for one in controls} == set(MOVES)
    values = {one.key: one.value for one in controls}
    assert values["deadline"] == "20h" and values["method"] == "lora" and values["spot"] == "on"


@pytest.mark.parametrize("key", sorted(MOVES))
def test_each_field_changes_the_scenario_as_its_setting_says(scenario: object, key: str) -> None:
    """A moved field is one valid setting, and moving it back is none."""
    controls = controls_of(scenario)  # type: ignore[arg-type]
    (setting,) = settings_of(controls, {key: MOVES[key]}).values()
    changed = change_scenario(scenario, [setting])  # type: ignore[arg-type]
    assert changed != scenario
    moved = {one.key: one.value for one in controls_of(changed)}
    if key != "prices":  # a factor multiplies: the field of the changed scenario starts at 1 again
        assert moved[key] == MOVES[key] or (key == "deadline" and moved[key] == "2h")
    assert settings_of(controls, {key: next(one.value for one in controls if one.key == key)}) == {}


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("image_size", "640x480", "size"),
        ("image_count", "3", "count"),
        ("max_pixels", "602112", "max_pixels"),
        ("tower", "trained", "tower"),
    ],
)
def test_images_next_to_text_have_fields(key: str, value: str, place: str) -> None:
    """Size first, the others folded; moved and back, as every field."""
    scenario = read_scenario("vision-qwen3-vl-lora")
    controls = controls_of(scenario)
    one = next(control for control in controls if control.key == key)
    assert bool(one.fold) == (key != "image_size")
    (setting,) = settings_of(controls, {key: value}).values()
    changed = change_scenario(scenario, [setting]).jobs[0].work.image_input
    assert changed is not None and str(getattr(changed, place)).removesuffix(".0") == value
    assert settings_of(controls, {key: one.value}) == {}


def test_a_model_that_reads_images_has_a_field_for_them_until_it_has_some() -> None:
    """Of prompts as of samples; a model of text has none."""
    job = {"name": "s", "kind": "inference", "architecture": "qwen3-vl-8b"}
    work = {"requests": 10, "input_tokens": 200, "output_tokens": 20}
    scenario = parse_scenario(json.dumps({"name": "s", "jobs": [{**job, "work": work}]}))
    controls = controls_of(scenario)
    (setting,) = settings_of(controls, {"image_size": "1280x720"}).values()
    changed = change_scenario(scenario, [setting])
    assert changed.jobs[0].work.classes[0].input_tokens == 200 + 880
    assert next(one.value for one in controls_of(changed) if one.key == "image_size") == "1280x720"
    text = change_scenario(scenario, ["jobs.s.architecture=qwen3-8b"])
    assert "image_size" not in {one.key for one in controls_of(text)}


@pytest.mark.parametrize("key", ["budget", "max_gpus"])
def test_an_emptied_limit_is_no_limit(key: str) -> None:
    """It is the setting null, which takes the limit of the scenario away; 0 would leave no plan."""
    limited = change_scenario(small_scenario(), ["limits.budget_usd=50", "limits.max_gpus=4"])
    (setting,) = settings_of(controls_of(limited), {key: ""}).values()
    assert setting.endswith("=null")
    assert getattr(change_scenario(limited, [setting]).limits, setting.removeprefix("limits.").split("=")[0]) is None


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ("--set jobs.0.deadline=2.5h --set 'limits.gpus.forbid=[RTX3090]'", {"deadline": "2.5h", "gpus": "!RTX3090"}),
        ("jobs.tune.techniques.weight_bits=[16]", {"weight_bits": "16"}),
        ("limits.spot=false", {"spot": "off"}),
        ("--set limits.max_gpus=null", {"max_gpus": ""}),
        ("limits.vram_headroom=0.1", None),
    ],
)
def test_a_button_makes_the_settings_that_an_answer_names(
    scenario: object, settings: str, values: dict[str, str] | None
) -> None:
    """Settings of an answer become values of fields; without a field for one there is no button."""
    assert values_of(controls_of(scenario), settings, ["tune"]) == values  # type: ignore[arg-type]


@given(text=st.text(max_size=60), key=st.sampled_from(["tokens", "deadline", "budget", "max_gpus", "prices", "model"]))
def test_a_typed_text_never_becomes_more_than_one_value(text: str, key: str) -> None:
    """Whatever is typed, the setting writes one place, and no list and no mapping but that of a factor."""
    controls = [one for one in controls_of(small_scenario()) if one.key == key]
    try:
        settings = settings_of(controls, {key: text})
    except Refusal as error:
        assert [one["key"] for one in error.faults] == [key]
        return
    for setting in settings.values():
        data, origins, faults = override({}, [setting])
        assert not faults and len(origins) == 1
        (place,) = origins
        value = data
        for part in place:
            value = value[part]
        if key == "prices":
            assert set(value) == {"usd_per_hour_factor", "spot_usd_per_hour_factor"}  # type: ignore[arg-type]
        else:
            assert not isinstance(value, (dict, list))


@pytest.mark.parametrize(
    "path", ["/etc/passwd.json", "../../secret.yaml", "C:\\x.YML", "config:0123456789abcdef", "a.Json"]
)
def test_no_value_reads_a_file(scenario: object, path: str) -> None:
    """A path in the field of the model is refused before anything is opened."""
    with pytest.raises(Refusal, match=r"reads no files|not here any more"):
        settings_of(controls_of(scenario), {"model": path})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("gpus", "RTX3090,H999", "not among the choices"),
        ("method", "magic", "not among the choices"),
        ("spot", "perhaps", "neither on nor off"),
        ("tokens", "", "empty"),
        ("providers", "!", "none is ticked"),
        ("gpus", ",", "none is ticked"),
        ("prices", "0", "0 is out of range"),
        ("prices", "-1", "-1 is out of range"),
        ("prices", "1e-400", "out of range"),
        ("prices", "nan", "out of range"),
        ("prices", "0x0", "'0x0' is not a number"),
        ("prices", "20%", "'20%' is not a number"),
        ("budget", "9" * 5000, "5,000 characters"),
        ("nothing", "1", "no field is called"),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(scenario: object, key: str, value: str, what: str) -> None:
    """The refusal names the field and says what is wrong."""
    with pytest.raises(Refusal, match=what) as error:
        settings_of(controls_of(scenario), {key: value})  # type: ignore[arg-type]
    assert error.value.faults[0]["key"] == ("" if key == "nothing" else key)


def test_faults_of_a_scenario_find_their_field(scenario: object) -> None:
    """By the place, by the setting, and without a field where there is none."""
    controls = controls_of(scenario)  # type: ignore[arg-type]
    faults = (
        Fault("--set limits.budget_usd=abc", 0, "limits.budget_usd", "x", ""),
        Fault("calm", 0, "jobs.tune.work.tokens", "y", ""),
        Fault("--set jobs.tune.deadline=0", 0, "", "z", ""),
        Fault("calm", 3, "offers.0.gpu", "w", ""),
    )
    assert [one["key"] for one in locate(faults, controls)] == ["budget", "tokens", "deadline", ""]


def test_one_fault_of_a_field_that_writes_two_places_is_said_once(scenario: object) -> None:
    """A price factor is one of rented machines and one of spot machines; two different faults both stay."""
    controls = controls_of(scenario)  # type: ignore[arg-type]
    (setting,) = settings_of(controls, {"prices": "1e9"}).values()
    with pytest.raises(InputError) as error:
        change_scenario(scenario, [setting])  # type: ignore[arg-type]
    assert len(error.value.faults) == 2
    other = Fault("calm", 0, "adjust.0.usd_per_hour_factor", "another", "")
    found = locate((*error.value.faults, other), controls)
    assert [one["key"] for one in found] == ["prices", "prices"]
    assert "out of range" in found[0]["what"] and found[1]["what"] == "another"


def test_several_jobs_have_fields_of_their_own() -> None:
    """Fields of the second job begin with its number, and a job with a strange name is found by its place."""
    data = {**CALM, "jobs": [CALM["jobs"][0], {**CALM["jobs"][0], "name": HOSTILE, "deadline": "9h"}]}
    import json

    controls = controls_of(parse_scenario(json.dumps(data), file="two"))
    by_key = {one.key: one for one in controls}
    assert by_key["1.deadline"].path == "jobs.tune.deadline" and by_key["2.deadline"].path == "jobs.1.deadline"
    assert by_key["2.deadline"].group == HOSTILE and "budget" in by_key


def test_a_list_of_the_scenario_is_shown_as_it_is(tmp_path: Path) -> None:
    """What a scenario allows or forbids is ticked accordingly."""
    for lists, value in (
        ({"forbid": ["RTX3090"]}, "!RTX3090"),
        ({"allow": ["RTX3090"]}, "RTX3090"),
        ({"allow": ["L4"]}, "!"),
    ):
        found = opened(tmp_path, {**CALM, "limits": {"gpus": lists}})
        assert next(one.value for one in found.controls if one.key == "gpus") == value


@pytest.mark.parametrize(("data", "moves"), [(OFFICE, OFFICE_MOVES), (PROMPTS, PROMPT_MOVES)])
def test_services_and_batches_have_the_fields_of_their_kind(tmp_path: Path, data: dict, moves: dict) -> None:  # type: ignore[type-arg]
    """Every field has a value to move to, each is one valid setting, and no technique of training is offered."""
    scenario = opened(tmp_path, data).scenario
    controls = controls_of(scenario)
    assert {one.key for one in controls} - {"concurrent"} == set(moves)
    assert settings_of(controls, {one.key: one.value for one in controls}) == {}
    for key, value in moves.items():
        (setting,) = settings_of(controls, {key: value}).values()
        changed = change_scenario(scenario, [setting])
        moved = {one.key: one.value for one in controls_of(changed)}
        assert changed != scenario, key
        assert key == "prices" or moved[key] == value or (key == "ttft" and moved[key] == "1.5s"), key


def test_a_table_of_lengths_has_no_field_of_one_length(tmp_path: Path) -> None:
    """Such a batch is shown all the same; its work is that of the scenario."""
    lengths = [{"input_tokens": 600, "output_tokens": 100, "count": 1000}]
    job = {**PROMPTS["jobs"][0], "work": {"lengths": lengths}}
    keys = {one.key for one in opened(tmp_path, {**PROMPTS, "jobs": [job]}).controls}
    assert "model" in keys and not keys & {"requests", "input_tokens", "output_tokens"}
