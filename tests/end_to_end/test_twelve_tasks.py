"""Twelve tasks of a platform team, each at most fifteen lines with public names only."""

from __future__ import annotations

import ast
import asyncio
import copy
import datetime
import inspect
import logging
import multiprocessing
import pickle
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import planner
from tests.helpers.computed_once import compute_once

pandas = pytest.importorskip("pandas")
numpy = pytest.importorskip("numpy")
pytestmark = pytest.mark.long

MOST_LINES = 15
OPTIONS = planner.SolveOptions(as_of=datetime.date(2026, 11, 21))
OURS = {"provider": "ours", "gpu": "L40S", "gpus": 1, "usd_per_hour": 0.8, "date": datetime.date(2026, 11, 20)}
JOB = {"architecture": "mistral-7b", "work": {"tokens": 10e6}, "deadline": datetime.timedelta(hours=36)}


def task_1_a_scenario_of_two_jobs_and_two_offers() -> None:
    jobs = [{**JOB, "name": "chat"}, {**JOB, "name": "code", "work": {"tokens": numpy.int64(20_000_000)}}]
    offers = pandas.DataFrame([OURS, {**OURS, "provider": "theirs", "gpu": "H100", "usd_per_hour": numpy.float32(2)}])
    plan = planner.solve(planner.build_scenario(name="two", jobs=jobs, offers=offers), OPTIONS)
    frame = plan.to_dataframe().set_index("name")
    assert plan.status == "optimal" and plan.cost is not None
    assert frame.loc[["chat", "code"], ["cost_usd", "hours", "vram_gib", "tokens_per_second"]].gt(0).all().all()
    assert abs(plan.to_dataframe("bill")["usd"].sum() - plan.cost.expected) < 1e-9


def task_2_deadlines_and_budgets_into_a_frame_and_a_plot(folder: Path) -> None:
    rows = []
    for hours in (2, 6, 12):
        asked = {"jobs.0.deadline": f"{hours}h", "limits.spot": False}
        plan = planner.solve(planner.read_scenario("quickstart", asked), OPTIONS)
        rows.append({"deadline": hours, **plan.table()[0]})
    frame = pandas.DataFrame(rows)
    assert frame["cost_usd"].is_monotonic_decreasing and (frame["hours_at_confidence"] <= frame["deadline"]).all()
    ranges = ["jobs.0.deadline=2h:12h:5h", "limits.budget_usd=[4, 20]"]
    sweep = planner.sweep("quickstart", ranges, ["limits.spot=false"], OPTIONS)
    table = sweep.to_dataframe().pivot(index="jobs.0.deadline_hours", columns="limits.budget_usd", values="cost_usd")
    assert table.size == 6
    planner.plot(sweep, folder / "sweep.svg")
    assert (folder / "sweep.svg").stat().st_size > 1000


def task_3_a_frontier_as_a_frame_and_on_axes() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    found = planner.frontier("quickstart", OPTIONS)
    frame = found.to_dataframe()
    assert frame["hours"].is_monotonic_increasing and frame["cost_usd"].is_monotonic_decreasing
    ax = planner.plot(found, ax=figure.add_subplot())
    assert ax.get_ylabel() == "expected cost, $" and len(ax.lines) > 1


def task_4_sensitivities_and_why_a_card_is_not_chosen() -> None:
    bars = planner.tornado("quickstart", OPTIONS).to_dataframe()
    assert bars["effect_usd"].max() > 0 and "deadline" in set(bars["what"])
    why = planner.explain("quickstart", why_not="gpu=RTX4090", options=OPTIONS)
    assert why.why_not is not None and "RTX4090" in str(why)


def task_5_twenty_estimates_as_a_frame() -> None:
    gpus = ["A10G", "L40S", "RTX4090", "A100-80GB", "H100"]
    rows = [
        {"gpu": gpu, "weight_bits": bits, "sequence_length": n}
        for gpu in gpus
        for bits in (4, 16)
        for n in (1024, 4096)
    ]
    frame = planner.estimate_many(pandas.DataFrame(rows).assign(architecture="llama-3.1-8b")).to_dataframe()
    assert len(frame) == 20 and frame["fits"].any()
    assert (frame["tokens_per_second_low"] < frame["tokens_per_second"]).all()
    assert frame.loc[3, "vram_gib"] == pytest.approx(
        planner.estimate("llama-3.1-8b", "A10G", weight_bits=16, sequence_length=4096).vram_gib.peak
    )


def task_6_threads_and_process_pools() -> None:
    jobs = [{**JOB, "work": {"tokens": tokens}} for tokens in (10e6, 20e6, 30e6, 40e6)]
    scenarios = [planner.build_scenario(jobs=[job], offers=[OURS, {**OURS, "gpu": "H100"}]) for job in jobs]
    alone = [planner.solve(scenario, OPTIONS).table() for scenario in scenarios]
    with ThreadPoolExecutor(4) as threads:
        assert [plan.table() for plan in threads.map(planner.solve, scenarios, [OPTIONS] * 4)] == alone
    for method in ("fork", "spawn", "forkserver"):
        with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
            assert [plan.table() for plan in pool.map(planner.solve, scenarios, [OPTIONS] * 4)] == alone
            with pytest.raises(planner.ScenarioError, match="no such file and no shipped scenario"):
                pool.submit(planner.solve, "no-such").result()


def task_7_an_asyncio_service_with_time_limit_and_cancel() -> None:
    async def answer(stop: threading.Event, seconds: float) -> planner.Plan:
        with planner.watched(time_limit_seconds=seconds, cancel=stop.is_set):
            return await asyncio.to_thread(planner.solve, "three-jobs-one-budget", OPTIONS)

    async def serve() -> None:
        assert (await answer(threading.Event(), 600)).status == "optimal"
        stop = threading.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        with pytest.raises(planner.CancelledError):
            await answer(stop, 600)

    asyncio.run(serve())


def task_8_types() -> None:
    signature = inspect.signature(planner.solve)
    assert "Plan" in str(signature.return_annotation)
    assert {"Job", "Offer", "Limits", "Library", "AuditError", "Plan", "Table"} <= set(planner.__all__)
    assert (Path(planner.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="slove"):
        planner.slove  # type: ignore[attr-defined] # noqa: B018


def task_9_save_load_compare_check(folder: Path) -> None:
    scenario = planner.read_scenario("quickstart")
    plan = planner.solve(scenario, OPTIONS)
    (folder / "plan.json").write_text(plan.model_dump_json(by_alias=True))
    (folder / "mine.yaml").write_text(planner.scenario_yaml(scenario))
    read = planner.read_plan(folder / "plan.json")
    assert read == plan and pickle.loads(pickle.dumps(plan)) == copy.deepcopy(plan) == plan
    assert planner.read_scenario(folder / "mine.yaml") == scenario
    assert planner.check(read, scenario) == ()
    wrong = read.model_copy(update={"jobs": (read.jobs[0].model_copy(update={"cost_usd": 1.0}),)})
    assert planner.check(wrong, scenario)
    assert planner.what_if(scenario, {"jobs.0.deadline": "2h"}, OPTIONS).delta.cost_usd


def task_10_wrong_and_infeasible_inputs() -> None:
    with pytest.raises(planner.ScenarioError) as error:
        planner.build_scenario(jobs=[{**JOB, "architecture": "mistral-7c", "deadline": "soon"}], offers=[OURS])
    assert {fault.where for fault in error.value.faults} == {"jobs.0.architecture", "jobs.0.deadline"}
    scenario = planner.build_scenario(jobs=[{**JOB, "deadline": "5m"}], offers=[OURS, {**OURS, "gpu": "H100"}])
    plan = planner.solve(scenario, OPTIONS)
    assert plan.status == "infeasible" and plan.infeasible is not None and "no plan keeps" in repr(plan)
    for way in {change.way for change in plan.infeasible.relax}:
        settings = [change.setting for change in plan.infeasible.relax if change.way == way]
        changed = planner.solve(scenario.with_settings(settings), OPTIONS)
        assert changed.status == "optimal", settings


def task_11_own_prices_traces_and_model(folder: Path) -> None:
    times = pandas.Series(range(0, 400 * 3600, 600))
    trace = pandas.DataFrame({"time_seconds": times, "available": (times % 36000 < 28800).astype(int)})
    block = planner.market_fit(trace).spot
    (folder / "prices.csv").write_text("provider,gpu,gpus,usd_per_hour,date\nours,L40S,1,0.8,2026-11-20\n")
    (own,) = planner.import_offers(folder / "prices.csv")
    offers = [own, {**OURS, "spot_usd_per_hour": 0.3, "spot": block}]
    plan = planner.solve(planner.build_scenario(jobs=[JOB], offers=offers), OPTIONS)
    assert plan.status == "optimal" and plan.jobs[0].provider == "ours"
    table = planner.offers(gpu="L40S").to_dataframe()
    assert (table["gpu"] == "L40S").all() and table["usd_per_hour"].gt(0).any()


def task_12_progress_logging_no_side_effects(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[planner.CallProgress] = []
    caplog.set_level(logging.INFO, logger="planner")
    scenario, folder, modules = planner.read_scenario("quickstart"), Path.cwd(), set(sys.modules)
    before = (scenario.model_dump_json(), time.tzname, logging.getLogger().handlers[:])
    with planner.watched(progress=told.append):
        texts = {str(planner.solve(scenario, OPTIONS)) for _ in range(2)}
    assert len(texts) == 1 and told and told[-1].done <= told[-1].of
    assert any(record.name == "planner" and "quickstart" in record.getMessage() for record in caplog.records)
    assert (scenario.model_dump_json(), time.tzname, logging.getLogger().handlers[:]) == before
    assert Path.cwd() == folder and "pandas" in modules and capfd.readouterr() == ("", "")


SHARING = ("task_3_", "task_4_")
TASKS = {name: task for name, task in list(globals().items()) if name.startswith("task_")}


@pytest.mark.parametrize("name", TASKS)
def test_task(
    name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each task does what it says; what others ask of the quickstart too is computed once."""
    if name.startswith(SHARING):
        compute_once(monkeypatch)
    given = {"folder": tmp_path, "caplog": caplog, "capfd": capfd}
    task = TASKS[name]
    task(**{key: given[key] for key in inspect.signature(task).parameters})


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_short_and_use_public_names_alone(name: str) -> None:
    """At most fifteen lines, and nothing of the package but the names that it lists."""
    (function,) = ast.parse(inspect.getsource(TASKS[name])).body
    assert isinstance(function, ast.FunctionDef)
    lines = (function.end_lineno or 0) - function.body[0].lineno + 1
    used = {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "planner"
    }
    assert lines <= MOST_LINES
    assert used <= {*planner.__all__, "slove", "__all__", "__file__"}
