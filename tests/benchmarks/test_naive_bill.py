"""What hours x price leaves out: the lines are those of the plan's bill, and its first one is worked out anew."""

from __future__ import annotations

import datetime
import json

import pytest

from benchmarks.cost.bill import SCENARIOS, Comparison, compared, main, text
from planner.loading.scenario_file import read_scenario
from planner.results.plan import Assignment
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

AS_OF = datetime.date(2026, 11, 21)


@pytest.fixture(scope="module", params=SCENARIOS)
def both(request: pytest.FixtureRequest) -> tuple[Comparison, Assignment]:
    """A comparison, and the plan's own job."""
    (found,) = compared(request.param, AS_OF)
    return found, solve(read_scenario(request.param), SolveOptions(as_of=AS_OF)).jobs[0]


@pytest.mark.slow
def test_the_lines_add_up_to_the_bill(both: tuple[Comparison, Assignment]) -> None:
    """To the cent for each line that is too small to be shown, and shares to all of it."""
    found, job = both
    assert found.usd == job.cost_usd
    assert sum(line.usd for line in found.lines) == pytest.approx(job.cost_usd, abs=0.005 * (len(job.bill) + 3))
    assert sum(line.share for line in found.lines) == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
def test_the_naive_bill_is_one_run_at_the_speed_of_the_plan(both: tuple[Comparison, Assignment]) -> None:
    """Tokens over speed times the price of the hour, from what is asked and printed: no trial, no stage in it."""
    found, job = both
    work = read_scenario(found.scenario).jobs[0].work
    assert work.samples is not None and work.tokens_per_sample is not None
    tokens = work.samples * work.tokens_per_sample * work.epochs
    (line,) = [line for line in job.bill if line.item == "gpu on demand"]
    assert line.rate_usd is not None
    hours = tokens / job.tokens_per_second / 3600
    # The last step is as long as the others, and not quite full.
    assert found.naive_usd == pytest.approx(hours * job.instances * line.rate_usd, rel=1.0 / job.steps)
    assert found.lines[0].usd == found.naive_usd


def test_a_third_of_the_bill_and_more_is_left_out(both: tuple[Comparison, Assignment]) -> None:
    """What docs/whole-job.md says of these three: between a third and four fifths."""
    found, _ = both
    assert 0.33 < found.left_out < 0.85


@pytest.mark.slow
def test_without_stages_and_trials_little_is_left_out() -> None:
    """The quickstart, which names none: start, disk, hiccups and what is lost on spot are less than a fifth."""
    (found,) = compared("quickstart", AS_OF)
    assert 0.0 < found.left_out < 0.2


@pytest.mark.slow
def test_text_and_json_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of 80 columns, each with the share that is left out in its last line."""
    arguments = ["bill-runpod-trials", "--as-of", "2026-11-21"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert shown.rstrip("\n") == text(compared("bill-runpod-trials", AS_OF))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.splitlines()[-1] == f"  hours x price leaves out {told['left_out'] * 100:.1f} % of the bill"
    assert "the other trials, 8 of 9" in {line["item"] for line in told["lines"]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no-such-scenario", "no shipped scenario"),
        ("infeasible", "has no plan: infeasible"),
        ("pay-managed-run", "hours x price does not apply"),
    ],
)
def test_what_cannot_be_compared_is_told(name: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error, exit code 2."""
    assert main([name, "--as-of", "2026-11-21"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and why in captured.err
