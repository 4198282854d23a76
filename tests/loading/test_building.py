"""Scenarios made in Python mean what files mean, are saved and read again, and are taken wherever a scenario is."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner.documents.files import parse_document, read_document
from planner.errors import InputError, ScenarioError
from planner.loading.question import as_scenario
from planner.loading.scenario_file import shipped_scenarios
from planner.scenario.offer import Offer

OFFER = {"provider": "x", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 2.0}
JOB = {
    "name": "a",
    "architecture": "mistral-7b",
    "work": {"tokens": 10_000_000},
    "sequence_length": 2048,
    "global_batch": 32,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_file_a_mapping_and_a_saved_scenario_are_one(name: str) -> None:
    """Whatever is shipped: read, built of its data, and saved and read again."""
    path = shipped_scenarios()[name]
    read = planner.read_scenario(path)
    assert planner.build_scenario({"name": name, **read_document(path).data}, folder=path.parent) == read
    saved = planner.scenario_yaml(read)
    assert planner.build_scenario(parse_document(saved, "saved").data, folder=path.parent) == read


@pytest.mark.parametrize(
    ("limits", "status"), [({"gpus": {"forbid": ["H100"]}}, "infeasible"), ({"gpus": ["h100"]}, "optimal")]
)
def test_names_and_short_forms_are_resolved(limits: dict[str, Any], status: str) -> None:
    """A GPU that is forbidden by another of its names is not planned, and a list allows."""
    assert planner.solve({"jobs": [JOB], "offers": [OFFER], "limits": limits}, explains=False).status == status


def test_adjustments_and_measured_hours_count() -> None:
    """A price that is adjusted by another name of its GPU, and hours of a run that was observed."""
    adjust = [{"match": {"gpu": "H100"}, "usd_per_hour_factor": 3.0}]
    plain = planner.solve(planner.build_scenario(jobs=[JOB], offers=[OFFER]))
    dear = planner.solve(planner.build_scenario(jobs=[JOB], offers=[OFFER], adjust=adjust))
    assert dear.cost is not None and plain.cost is not None
    assert dear.cost.expected == pytest.approx(3 * plain.cost.expected, rel=1e-6)
    measured = [{"gpu": "H100", "gpus": 1, "hours": 5}]
    slow = planner.solve(planner.build_scenario(jobs=[{**JOB, "measured": measured}], offers=[OFFER]))
    assert slow.hours is not None and plain.hours is not None
    assert slow.hours.expected > 4.5 > plain.hours.expected


def test_inventories_stand_beside_own_offers() -> None:
    """The shipped list and one offer."""
    built = planner.build_scenario(jobs=[JOB], offers=[OFFER], inventory=["market"])
    assert len(built.offers) > 100 and built.offers[-1].provider == "x"


MAKERS: dict[str, Callable[..., planner.Scenario]] = {
    "class": planner.Scenario,
    "build": planner.Scenario.build,
    "construct": planner.Scenario.model_construct,
    "validate": lambda **keys: planner.Scenario.model_validate(keys),
    "validate json": lambda **keys: planner.Scenario.model_validate_json(json.dumps(keys)),
    "yaml": lambda **keys: planner.Scenario.from_yaml(json.dumps(keys)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_every_door_makes_the_scenario_of_a_file(maker: str) -> None:
    """Inventories beside own offers, days, names, split trials: what one door reads, each does."""
    jobs = [{**JOB, "deadline": "2026-12-01 09:00", "trials": {"count": 2, "split": True}}]
    keys = {"jobs": jobs, "offers": [OFFER], "inventory": ["market"], "now": "2026-11-29 09:00"}
    keys["limits"] = {"gpus": {"forbid": ["H100"]}}
    made = MAKERS[maker](**keys)
    assert made == planner.build_scenario(keys)
    assert planner.Scenario.from_yaml(made.to_yaml()) == made == planner.Scenario.from_json(made.to_json())


def test_a_copy_looks_up_what_its_new_limits_name() -> None:
    """`H100` names several GPUs; a word that means nothing is a fault, as everywhere."""
    made = planner.Scenario(jobs=[JOB], offers=[OFFER])
    copied = made.model_copy(update={"limits": planner.Limits(gpus={"forbid": ["H100"]})})
    assert copied == made.with_settings({"limits.gpus": {"forbid": ["H100"]}})
    assert planner.solve(copied).status == "infeasible"
    with pytest.raises(ScenarioError, match="unknown GPU 'H1000'"):
        made.model_copy(update={"limits": planner.Limits(gpus={"forbid": ["H1000"]})})


@pytest.mark.parametrize(
    ("deadline", "hours"),
    [
        (datetime.datetime(2026, 12, 1, 9, tzinfo=datetime.UTC), 48.0),
        ("2026-12-01 09:00", 48.0),
        (datetime.timedelta(hours=9), 9.0),
        ("9h", 9.0),
    ],
)
def test_moments_and_numbers_of_programs_are_read(deadline: Any, hours: float) -> None:
    """A moment, and a duration."""
    built = planner.build_scenario(jobs=[{**JOB, "deadline": deadline}], offers=[OFFER], now="2026-11-29 09:00 UTC")
    assert built.jobs[0].deadline_hours == pytest.approx(hours)


class Frame:
    """What a data frame offers: columns, and its rows as mappings, with nan where a cell is empty."""

    columns = ("provider", "gpu", "gpus", "usd_per_hour", "spot_usd_per_hour")

    def to_dict(self, how: str) -> list[dict[str, Any]]:
        """Two offers, one without a spot price."""
        assert how == "records"
        rows = [("x", "H100", np.int64(1), 2.0, 1.0), ("y", "A100-80GB", np.int64(8), 9.0, float("nan"))]
        return [dict(zip(self.columns, row, strict=True)) for row in rows]


def test_offers_of_a_frame_and_of_the_class_are_taken() -> None:
    """A missing price is a key left out."""
    built = planner.build_scenario(jobs=[JOB], offers=Frame())
    assert [(offer.gpu, offer.spot_usd_per_hour) for offer in built.offers] == [("H100-80GB", 1.0), ("A100-80GB", None)]
    assert planner.build_scenario(jobs=[JOB], offers=list(built.offers)).offers == built.offers


def test_settings_of_a_mapping_change_a_scenario() -> None:
    """As texts do; and offers of a scenario that Python made can be changed."""
    made = planner.Scenario(jobs=[JOB], offers=[Offer(**OFFER)])
    changed = planner.change_scenario(made, {"limits.budget_usd": 4, "offers.0.usd_per_hour": 5, "limits.spot": False})
    assert (changed.limits.budget_usd, changed.offers[0].usd_per_hour) == (4, 5.0)
    assert changed == planner.change_scenario(
        made, ["limits.budget_usd=4", "offers.0.usd_per_hour=5", "limits.spot=false"]
    )
    answer = planner.what_if(made, "offers.0.usd_per_hour=4")
    assert answer.settings == ("offers.0.usd_per_hour=4",)


QUESTIONS: dict[str, Callable[[], object]] = {
    "setting": lambda: planner.what_if("quickstart", "a=1"),
    "mapping": lambda: planner.solve({"jobs": [{**JOB, "deadlin": "9h"}], "offers": [OFFER]}),
    "gpu": lambda: planner.build_scenario(jobs=[JOB], offers=[{**OFFER, "gpu": "H1000"}]),
    "value": lambda: planner.build_scenario(jobs=[{**JOB, "deadline": object()}], offers=[OFFER]),
    "name": lambda: planner.solve("quickstrat"),
    "number": lambda: planner.solve(3),  # type: ignore[arg-type]
    "curve": lambda: planner.frontier("quickstart", by="foo"),  # type: ignore[arg-type]
    "runs": lambda: planner.simulate("quickstart", runs=1.5),  # type: ignore[arg-type]
    "class": lambda: planner.Scenario(jobs=[{**JOB, "kind": "x"}], offers=[OFFER]),
    "options": lambda: planner.SolveOptions(time_limit_seconds=-1),
    "offer of the class": lambda: Offer(provider="p", gpu="T4", gpus=1),
    "file": lambda: planner.build_scenario("quickstart"),  # type: ignore[arg-type]
    "model": lambda: planner.estimate({"architecture": "mistral-7b"}, "A10G"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_bad_input_is_an_error_of_ours_with_its_place(question: str) -> None:
    """One fault each, that says what would be right."""
    with pytest.raises(InputError) as raised:
        QUESTIONS[question]()
    assert len(raised.value.faults) == 1
    assert raised.value.faults[0].fix


def test_a_dump_of_the_class_is_refused_in_one_line() -> None:
    """Its words are those of the fields, not of the file."""
    with pytest.raises(ScenarioError, match=r"^[^\n]*save it with planner\.scenario_yaml[^\n]*$"):
        planner.Scenario(**planner.read_scenario("quickstart").model_dump())


def test_a_scenario_is_taken_as_it_is() -> None:
    """No copy, no second reading."""
    read = planner.read_scenario("quickstart")
    assert as_scenario(read) is read
    assert as_scenario("quickstart") == read
    with pytest.raises(ScenarioError):
        as_scenario("no such file")


def test_gaps_and_moments_of_frames_and_arrays() -> None:
    """What is missing in a frame is not given, whatever marks it; nanoseconds of numpy are moments and durations."""
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    offers = pandas.DataFrame(
        [
            {"provider": "a", "gpu": "H100", "gpus": 1, "usd_per_hour": 2.0, "date": pandas.Timestamp("2026-11-20")},
            {"provider": "b", "gpu": "L40S", "gpus": 1, "usd_per_hour": 1.0, "region": "east"},
            {"provider": "c", "gpu": "L40S", "gpus": 1, "usd_per_hour": pandas.NA, "spot_usd_per_hour": 0.4},
        ]
    )
    offers["date"] = offers["date"].dt.date.astype(object)
    job = {
        "architecture": "mistral-7b",
        "work": {"tokens": numpy.int64(10_000_000)},
        "deadline": numpy.timedelta64(9 * 3600 * 10**9, "ns"),
    }
    scenario = planner.build_scenario(jobs=[job], offers=offers, now=numpy.datetime64("2026-11-21T09:00:00", "ns"))
    assert scenario.jobs[0].deadline_hours == 9.0
    assert [offer.usd_per_hour for offer in scenario.offers] == [2.0, 1.0, None]
    assert [offer.region for offer in scenario.offers][1] == "east"
    assert scenario.now_text.startswith("2026-11-21T09:00")


# A model as its content, not as the name of a card or the path of a file.


CONFIG = {
    **{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22},
    **{"num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048},
}


def of_model(architecture: object) -> planner.Scenario:
    job = {"architecture": architecture, "work": {"tokens": 1e6}}
    return planner.build_scenario(
        jobs=[job], offers=[{"provider": "ours", "gpu": "L40S", "gpus": 1, "usd_per_hour": 1}]
    )


def test_the_content_of_a_config_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of the file with this content; the saved scenario has it still, and the same content the same path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    kept = of_model(CONFIG)
    assert kept.jobs[0].name == "llama"
    assert of_model(dict(reversed(CONFIG.items()))) == kept
    (tmp_path / "kept.yaml").write_text(planner.scenario_yaml(kept))
    assert planner.read_scenario(tmp_path / "kept.yaml") == kept
    plans = [planner.solve(one) for one in (kept, of_model(str(tmp_path / "config.json")))]
    assert plans[0].cost_usd is not None and plans[0].cost_usd == plans[1].cost_usd
    ours = of_model(planner.import_architecture(CONFIG, "ours"))
    assert ours.jobs[0].name == "ours" and planner.solve(ours).cost_usd == plans[0].cost_usd


def test_faults_of_a_config_have_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the mapping, not in a file that nobody wrote; nothing is kept of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(planner.ScenarioError) as error:
        of_model({**CONFIG, "hidden_size": -3})
    assert [fault.where for fault in error.value.faults] == ["jobs.0.architecture.hidden_size"]
    assert not (tmp_path / "cache").exists()
