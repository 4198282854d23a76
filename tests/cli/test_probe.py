"""`planner probe`, and `planner calibrate` of what it measured, from the command line."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.accuracy.measurements import Row, read_measurements
from benchmarks.accuracy.predictions import Predictor
from benchmarks.accuracy.recipes import framework_of_row, recipe_of_row, trains_embeddings
from planner.analysis.probe_question import ROW_COLUMNS, ProbeFile, shared_row
from planner.cli import main
from planner.configurations.recipe import GpuClass
from planner.documents.tables import json_text
from planner.exports.export import TRAINER
from planner.exports.field_map import field_maps
from planner.library.reading import read_library
from planner.results.plan import Plan
from tests.helpers.exported_plans import changed, solved
from tests.helpers.probes import out_of_memory, probed, write_probe_file

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_plan(tmp_path / "plan.json", solved("quickstart"))
    return tmp_path


def write_plan(path: Path, plan: Plan) -> None:
    path.write_text(json_text(plan.model_dump(mode="json", by_alias=True)) + "\n")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def judge(folder: Path, found: dict[str, Any], *more: str) -> Result:
    return run("calibrate", write_probe_file(folder, found), "--plan", "plan.json", *more)


def test_a_probe_is_written_and_said_how_to_run(folder: Path) -> None:
    told = run("probe", "plan.json", "-o", "there", "--steps", "7")
    assert told.exit_code == 0
    assert {path.name for path in (folder / "there").iterdir()} >= {"probe.sh", "probe.py", "planned.json", "sft.yaml"}
    assert json.loads((folder / "there" / "planned.json").read_text())["steps"] == 7
    assert "run bash probe.sh there" in told.stderr and "planner calibrate probe.json --plan plan.json" in told.stderr


def test_the_first_line_says_what_to_do_with_dollars(folder: Path) -> None:
    plan = solved("quickstart")
    kept = judge(folder, probed(plan))
    assert kept.exit_code == 0 and kept.stdout.startswith("quickstart: keep 4 x A5000 at runpod-community: $")
    assert "measured:\n" in kept.stdout
    lost = judge(folder, out_of_memory(plan))
    assert lost.exit_code == 3 and lost.stdout.startswith("quickstart: change to micro-batch ")
    assert "memory ran out in step 1" in " ".join(lost.stdout.split())
    data = json.loads(judge(folder, probed(plan), "--json").stdout)
    assert (data["verdict"], data["choices"][0]["what"]) == ("keep", "keep")


def test_the_plan_to_go_on_with_is_written(folder: Path) -> None:
    plan = solved("quickstart")
    assert judge(folder, probed(plan), "-o", "next.json").exit_code == 0
    assert json.loads((folder / "next.json").read_text()) == json.loads((folder / "plan.json").read_text())
    lost = judge(folder, out_of_memory(plan), "-o", "smaller.json")
    assert "no plan is written" in lost.stderr and not (folder / "smaller.json").exists()


def test_a_shared_row_is_anonymous_and_the_benchmark_reads_it(folder: Path) -> None:
    """The same probe is one row, however often it is shared."""
    plan = solved("quickstart")
    for found in (probed(plan), probed(plan), out_of_memory(plan)):
        assert judge(folder, found, "--share", "probes.csv").exit_code in (0, 3)
    text = (folder / "probes.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["status"] for row in rows] == ["ok", "oom"] and tuple(rows[0]) == ROW_COLUMNS
    assert (rows[0]["model"], rows[0]["torch"], rows[0]["liger_kernel"]) == ("mistral-7b", "2.11.0", "0.8.5")
    assert rows[1]["peak_mem_gb_per_gpu"] == rows[1]["step_time_s"] == ""
    assert not any(word in text for word in ("quickstart", "runpod", str(folder), "plan.json"))
    job = plan.jobs[0]
    predictions = Predictor(read_library()).predict(read_measurements("probes.csv"))
    ran = predictions[0]
    assert ran.peak is not None and ran.speed is not None and not ran.inexpressible
    assert ran.peak.predicted == pytest.approx(job.vram_gib.allocated * 2**30, rel=0.1)
    assert ran.speed.predicted == pytest.approx(job.tokens_per_second, rel=0.25)


@cache
def of_values() -> list[tuple[str, Any]]:
    """Return each value of a technique that the trainer of a probe can express, and each switch of adapters."""
    named = ("precision", "activation_checkpointing", "attention", "sharding", "quant")
    values = [(name, value) for name in named for value in field_maps()[TRAINER].techniques[name]]
    return [*values, *((name, True) for name in ("dora", "adapt_head", "experts_16_bit"))]


@pytest.mark.parametrize(("name", "value"), of_values())
def test_the_benchmark_reads_of_a_row_what_ran(name: str, value: Any) -> None:
    """Each value of each technique under which a probe may run: none of them is read as another one."""
    bits = {"nf4": 4, "nf4_dq": 4, "int8": 8}.get(value, 16)
    own = {"weight_bits": bits} if name == "quant" else {"weight_bits": 4, "quant": "nf4"}
    if name == "precision":  # of adapters alone it is that of a GPU
        own = {"method": "full", "weight_bits": 16, "quant": "none"}
    plan = changed(solved("quickstart"), {"sharding": "ddp", **own, name: value})
    job = plan.jobs[0]
    probe = ProbeFile.model_validate(probed(plan))
    row = Row(2, {column: cell for column, cell in shared_row(probe, job).items() if cell})
    read = recipe_of_row(row, GpuClass.of(read_library().gpu(job.gpu)), framework_of_row(row, read_library()))
    assert getattr(read, name) == (value if (name, value) != ("sharding", "none") else "ddp")
    for other in ("weight_bits", "precision", "activation_checkpointing", "attention", "sharding", "dora"):
        if other != name and (name, other) != ("quant", "weight_bits"):
            assert getattr(read, other) == getattr(job.techniques, other), other


def test_embeddings_that_a_probe_trained_are_in_its_row() -> None:
    plan = solved("quickstart")
    found = probed(plan)
    row = shared_row(
        ProbeFile.model_validate({**found, "run": {**found["run"], "trains_embeddings": True}}), plan.jobs[0]
    )
    assert row["train_embeddings"] == "yes" and trains_embeddings(Row(2, row))


def test_a_table_of_other_columns_is_not_appended_to(folder: Path) -> None:
    (folder / "own.csv").write_text("a,b\n1,2\n")
    told = judge(folder, probed(solved("quickstart")), "--share", "own.csv")
    assert told.exit_code == 2 and "has other columns than the row of a probe" in told.output
    assert (folder / "own.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("calibrate", "probe.json"), "a probe is judged against its plan: add --plan plan.json"),
        (("calibrate", "probe.json", "probe.json", "--plan", "plan.json"), "a probe is judged alone"),
        (("calibrate", "probe.json", "--plan", "plan.json", "--gpu", "A5000"), "--gpu is that of the plan"),
        (("calibrate", "probe.json", "--plan", "plan.json", "--micro-batch", "2"), "--micro-batch is that of the plan"),
        (("calibrate", "steps.csv", "--plan", "plan.json"), "steps.csv"),
        (("calibrate", "steps.csv", "--gpu", "A5000", "--share", "x.csv"), "--share belongs to the probe.json"),
        (("calibrate", "steps.csv"), "Missing option '--gpu'"),
        (("probe", "plan.json", "-o", "-"), "-o names a folder"),
        (("probe", "plan.json", "--job", "other"), "--job"),
        (("probe", "probe.json"), "not a plan"),
        (("probe", "no-such.json"), "no-such.json"),
    ],
)
def test_bad_input_gives_one_clear_message(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    write_probe_file(folder, probed(solved("quickstart")))
    (folder / "steps.csv").write_text("step,seconds\n1,2\n2,2\n3,2\n")
    told = run(*arguments)
    assert told.exit_code == 2, told.output
    assert said in told.output and "Traceback" not in told.output


def test_a_service_and_a_managed_offer_have_no_step_to_try(folder: Path) -> None:
    managed = changed(solved("quickstart"), gpus=0, instances=0, gpus_per_instance=0)
    write_plan(folder / "managed.json", managed)
    told = run("probe", "managed.json")
    assert told.exit_code == 2 and "there is nothing to launch" in told.output
