"""Tables of the lengths of training data: the sequence holds the longest sample, and what is cut is counted exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cli import main
from planner.errors import ScenarioError
from planner.estimates.work import cut_share, default_sequence, kept_length, padded_length
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.job_stages import MAX_SAMPLE_CLASSES, gather_lengths
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve

TABLES = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 6)), min_size=1, max_size=12)


def scenario_text(lengths: Any = "lengths.csv", work: dict[str, Any] | None = None, **job: Any) -> str:
    """Return LoRA on samples of a table, on one kind of machine."""
    name, made = "tune", {"work": {"lengths": lengths, **(work or {})}, "deadline": "2d", **job}
    data = {
        "name": "s", "schema": 2,
        "jobs": [{"name": name, "architecture": "llama-3.1-8b", "techniques": {"method": "lora"}, **made}],
        "offers": [{"provider": "p", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 2.0}],
    }  # fmt: skip
    return json.dumps(data)


def planned(folder: Path, table: str, **more: Any) -> tuple[Scenario, Plan]:
    (folder / "lengths.csv").write_text(table, encoding="utf-8")
    scenario = parse_scenario(scenario_text(**more), folder, "s.json")
    return scenario, solve(scenario)


@settings(max_examples=40)
@given(TABLES, st.integers(1, 6000), st.integers(1, 5))
def test_a_table_is_counted_sample_by_sample(table: list[tuple[int, int]], sequence: int, draws: int) -> None:
    """What a sequence keeps, cuts and pads agrees with the list of all samples."""
    samples = np.repeat([one[0] for one in table], [one[1] for one in table]).astype(float)
    lengths = tuple((float(tokens), count) for tokens, count in table)
    mean = float(samples.mean())
    assert kept_length(mean, sequence, lengths) == pytest.approx(np.minimum(samples, sequence).mean())
    cut = np.maximum(samples - sequence, 0.0).sum() / samples.sum()
    assert cut_share("padded", mean, 0.0, sequence, lengths) == pytest.approx(cut, abs=1e-9)
    kept = np.minimum(samples, sequence)
    ordered = np.sort(kept)
    below = (np.arange(samples.size) + 1.0) / samples.size
    longest = float(np.sum(ordered * np.diff(below**draws, prepend=0.0)))
    assert float(padded_length(mean, 0.0, draws, sequence, lengths)) == pytest.approx(longest)
    for packing in ("packed", "padded"):
        held = default_sequence(packing, mean, 0.0, 10**6, lengths)
        assert held >= samples.max() and (held == 1 or held / 2 < samples.max())


@settings(max_examples=30)
@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 9), min_size=1, max_size=80), st.integers(2, 9))
def test_a_long_table_is_gathered(counts: dict[int, int], most: int) -> None:
    """Neighbours become one class: the samples, their tokens and the longest stay the same."""
    found = gather_lengths(counts, most)
    assert len(found) <= most and found[-1] == (float(max(counts)), counts[max(counts)])
    assert sum(count for _, count in found) == sum(counts.values())
    tokens = sum(one * count for one, count in counts.items())
    assert sum(one * count for one, count in found) == pytest.approx(tokens, rel=1e-9)


def test_the_sequence_holds_the_longest_and_the_plan_is_checked_from_its_table(tmp_path: Path) -> None:
    """One long sample of 9,000 tokens makes sequences of 16,384; a shorter sequence says exactly what it cuts."""
    table = "tokens,count\n500,900\n1500,99\n9000,1\n"
    library = read_library(["llama-3.1-8b"])
    for packing in ("packed", "padded"):
        scenario, plan = planned(tmp_path, table, packing=packing)
        assert plan.jobs[0].sequence_length == 16384 and not plan.cut and not audit(plan, scenario, library)
    scenario, plan = planned(tmp_path, table, packing="padded", sequence_length="1k")
    (cut,) = plan.cut
    assert cut.share == pytest.approx((500 * 99 + 8000) / (450_000 + 148_500 + 9000)) and cut.holds == 16384
    assert not audit(plan, scenario, library)
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json(), encoding="utf-8")
    told = CliRunner().invoke(main, ["check", str(path)])
    assert told.exit_code == 0, told.output


def test_each_row_is_a_sample_without_counts(tmp_path: Path) -> None:
    """A long table of single samples is gathered and keeps its longest."""
    rows = "".join(f"{tokens}\n" for tokens in range(1, 3 * MAX_SAMPLE_CLASSES))
    (tmp_path / "lengths.csv").write_text(f"tokens\n{rows}", encoding="utf-8")
    work = parse_scenario(scenario_text(work={"epochs": 2}), tmp_path).jobs[0].work
    assert work.samples == 3 * MAX_SAMPLE_CLASSES - 1 and work.tokens_per_sample == pytest.approx(
        1.5 * MAX_SAMPLE_CLASSES
    )
    assert max(work.sample_lengths)[0] == work.samples
    part = parse_scenario(scenario_text(work={"samples": "1M"}), tmp_path).jobs[0].work
    assert part.samples == 10**6 and part.tokens_per_sample == work.tokens_per_sample


@pytest.mark.parametrize(
    ("table", "job", "told"),
    [("length\n5\n", {}, "unknown column"), ("tokens,count\n0,3\n", {}, "no number of tokens or samples"),
     ("tokens\n", {}, "a header and no rows"), ("tokens\n200000\n", {}, "131,072 tokens that llama-3.1-8b can read"),
     ("tokens\n500\n", {"work": {"tokens_per_sample": 600}}, "contradict the table of lengths, whose mean is 500"),
     ("tokens\n500\n", {"length_cv": 0.8}, "contradicts the table of lengths")],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_told(tmp_path: Path, table: str, job: dict[str, Any], told: str) -> None:
    """Its line, or the key that says something else; a sample that the model cannot read."""
    with pytest.raises(ScenarioError) as caught:
        planned(tmp_path, table, **job)
    assert any(told in str(fault) for fault in caught.value.faults), caught.value


COMMANDS = (
    ("solve",), ("explain",), ("frontier",), ("what-if", "--set", "limits.budget_usd=900"),
    ("what-if", "--vary", "jobs.tune.deadline=1d:2d:1d"), ("what-if", "--tornado"),
    ("what-if", "--vary", "jobs.tune.sequence_length=[1024, 2048, 16384]"),
    ("sweep", "--vary", "jobs.tune.sequence_length=[1024, 2048, 16384]", "--workers", "1", "-o", "out.csv"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_answer_says_in_its_first_lines_what_is_cut(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only some of the variants cut: how many, and the greatest cut."""
    monkeypatch.chdir(tmp_path)
    lengths = [{"tokens": 500, "count": 900}, {"tokens": 9000, "count": 9}]
    Path("s.json").write_text(scenario_text(lengths, sequence_length=1024), encoding="utf-8")
    name, *options = command
    answer = CliRunner().invoke(main, [name, "s.json", "--as-of", "2026-11-21", *options])
    assert answer.exit_code == 0, answer.output
    first = " ".join(answer.stdout.splitlines()[1:4])
    assert "samples of tune are cut to 1,024 tokens: 13.5 %" in first
    assert ("2 of 3 variants cut samples" in first) == any("16384" in one for one in options)
    if name == "sweep":
        header, *rows = Path("out.csv").read_text(encoding="utf-8").splitlines()
        place = header.split(",").index("cut_share")
        assert [float(row.split(",")[place]) > 0 for row in rows] == [True, True, False]
