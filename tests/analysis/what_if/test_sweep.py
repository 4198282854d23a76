"""Sweeps: a cell is a scenario solved from scratch, cost obeys economics, the articles' sensitivities hold."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.analysis.what_if_question import sweep
from planner.errors import NoPlanError, ScenarioError
from planner.loading.scenario_file import read_scenario
from planner.results.what_if import Axis
from tests.helpers.scenarios_what_if import LAWS, OPTIONS, SMALL, TWO, bare, library, small, solved


@pytest.mark.long
@LAWS
@given(
    path=st.sampled_from(["jobs.bot.deadline=2h:40h:19h", "limits.budget_usd=1:21:10", "jobs.bot.efficiency=[0.5, 2]"]),
    other=st.sampled_from(["limits.gpus.forbid=[RTX3090, H100-80GB]", "jobs.bot.work.tokens=[1e7, 9e7]"]),
)
def test_a_cell_is_what_solving_the_changed_scenario_gives(path: str, other: str) -> None:
    """Whatever was reused on the way to a cell; the cells come row by row."""
    answer = sweep(small(), [path, other], (), OPTIONS, library())
    assert len(answer.cells) == answer.shape[0] * answer.shape[1]
    for index, cell in enumerate(answer.cells):
        row, column = divmod(index, answer.shape[1])
        values = (answer.axes[0].values[row], answer.axes[1].values[column])
        assert cell.values == values and answer.cell(*values) == cell
        changes = (f"{axis.path}={value}" for axis, value in zip(answer.axes, values, strict=True))
        plan = bare(*changes)
        assert cell.status == plan.status
        assert cell.cost_usd == (plan.cost.expected if plan.cost else None)
        assert cell.hours == (plan.hours.expected if plan.hours else None)
        assert [(one.gpu, one.gpus) for one in cell.jobs] == [(one.gpu, one.gpus) for one in plan.jobs]


@pytest.mark.long
@pytest.mark.parametrize("vary", ["jobs.bot.deadline=30m:1200m:90m", "limits.budget_usd=0.5:20:0.75"])
@pytest.mark.parametrize("text", [SMALL, TWO])
def test_cost_never_rises_along_a_limit_that_loosens(vary: str, text: str) -> None:
    """All offers are billed by the second; once there is a plan it stays and gets no dearer."""
    costs = [cell.cost_usd for cell in sweep(small(text), [vary], (), OPTIONS, library()).cells]
    found = [cost for cost in costs if cost is not None]
    assert found and costs[: len(costs) - len(found)] == [None] * (len(costs) - len(found))
    # Half a cent is what the second pass may spend on hours.
    assert all(later <= earlier + 0.005 + 1e-9 for earlier, later in pairwise(found))


def test_a_sweep_solves_nothing_before_every_value_is_known_to_be_possible() -> None:
    """A value that cannot be is told under the name of its range, and a sweep knows only its own cells."""
    with pytest.raises(ScenarioError, match=r"--vary limits.spot_share.max=1.5: limits.spot_share.max: 1.5 is out"):
        sweep(small(), ["limits.spot_share.max=0:1.5:0.5"], (), OPTIONS, library())
    with pytest.raises(ScenarioError, match=r"6 has no unit; such as jobs.bot.deadline=6h:48h:STEPh"):
        sweep(small(), ["jobs.bot.deadline=6:48:6"], (), OPTIONS, library())
    with pytest.raises(ScenarioError, match="nothing to vary"):
        sweep(small(), [], (), OPTIONS, library())
    with pytest.raises(NoPlanError):
        sweep(small(), ["limits.max_gpus=[1]"], (), OPTIONS, library()).cell("7")


def test_settings_hold_in_every_cell() -> None:
    """A sweep starts from the changed scenario."""
    answer = sweep(small(), ["jobs.bot.deadline=[20h, 40h]"], ["limits.gpus.allow=[A100-80GB]"], OPTIONS, library())
    assert {job.gpu for cell in answer.cells for job in cell.jobs} == {"A100-80GB"}


@cache
def shipped(name: str) -> tuple[dict[tuple[str, ...], tuple[float, float, float, int]], list[list[str]]]:
    """Cost, hours, start and cards of every cell of a shipped sensitivity; the values of its axes."""
    scenario = read_scenario(name)
    answer = sweep(scenario, scenario.vary, (), OPTIONS)
    cells = {}
    for cell in answer.cells:
        (job,) = cell.jobs
        cells[cell.values] = (job.cost_usd, job.hours, job.start_hours, job.gpus)
    return cells, [list(axis.values) for axis in answer.axes]


@pytest.mark.long
def test_cost_grows_faster_than_the_size_of_the_network_beyond_one_card() -> None:
    """Article 1: with the A100 as base, cost grows non-linearly with size; steps only add more of the same."""
    cells, (sizes, steps) = shipped("sensitivity-size")
    billions = dict(zip(sizes, (6.738, 13.016, 33.744, 68.977), strict=True))  # the cards' parameters
    for step in steps:
        costs = [cells[size, step][0] for size in sizes]
        assert costs == sorted(costs)
        per_billion = [cost / billions[size] for cost, size in zip(costs, sizes, strict=True)]
        assert per_billion[1] < per_billion[2] < per_billion[3]
        assert per_billion[3] > 1.02 * per_billion[0]
    cards = [cells[size, "1000"][3] for size in sizes]
    assert cards == sorted(cards) and cards[0] == 1 and cards[-1] >= 4
    for size in ("llama-2-7b", "llama-2-13b"):  # one card for any number of steps: cost is a start plus steps
        first, second, third, fourth = (cells[size, step][0] for step in steps)
        assert second - first == pytest.approx(third - second, rel=0.02) == pytest.approx(fourth - third, rel=0.02)


@pytest.mark.long
def test_training_hours_are_inverse_to_efficiency() -> None:
    """Article 1: what is not start-up costs half as much at twice the efficiency, for any number of steps."""
    cells, (factors, steps) = shipped("sensitivity-efficiency")
    for step in steps:
        work: dict[int, list[float]] = {}
        for factor in factors:
            _, hours, start, cards = cells[factor, step]
            work.setdefault(cards, []).append((hours - start) * float(factor))
        for same_cards in work.values():
            assert max(same_cards) <= 1.05 * min(same_cards)  # checkpoints and evaluation do not all scale
        costs = [cells[factor, step][0] for factor in factors]
        assert costs == sorted(costs, reverse=True)
        assert costs[0] > 1.8 * costs[2] > 1.2 * costs[4]


@pytest.mark.long
def test_loading_time_is_inverse_to_bandwidth_times_load_efficiency() -> None:
    """Article 1: only the product counts, start hours are a constant plus a share inverse to it, and cost follows."""
    cells, (bandwidths, efficiencies) = shipped("sensitivity-loading")
    starts: dict[float, float] = {}
    for bandwidth in bandwidths:
        for efficiency in efficiencies:
            cost, _, start, _ = cells[bandwidth, efficiency]
            product = round(float(bandwidth) * float(efficiency), 6)
            assert starts.setdefault(product, start) == pytest.approx(start, rel=1e-9)
            assert cost > 0
    products = sorted(starts)
    slope = (starts[products[0]] - starts[products[-1]]) / (1 / products[0] - 1 / products[-1])
    assert slope * 3600 == pytest.approx(137.95, rel=0.01)  # GB of weights: the seconds at 1 GB/s
    for product in products:
        assert starts[product] == pytest.approx(
            starts[products[-1]] + slope * (1 / product - 1 / products[-1]), rel=1e-6
        )
    assert cells["0.1", "0.2"][0] > 4 * cells["2", "1"][0]


@pytest.mark.slow
def test_where_no_cell_has_a_plan_the_loosest_is_explained_as_by_solve() -> None:
    """The highest limit with the least work, in whatever order the values were given."""
    vary = ["limits.budget_usd=0.03:0.01:-0.01", "jobs.bot.work.tokens=30e6:50e6:10e6"]
    answer = sweep(small(), vary, (), OPTIONS, library())
    assert {cell.status for cell in answer.cells} == {"infeasible"}
    assert answer.loosest == (answer.axes[0].values[0], answer.axes[1].values[0])
    assert answer.unsolved is not None and answer.unsolved.infeasible is not None
    plan = solved("limits.budget_usd=0.03", f"jobs.bot.work.tokens={answer.axes[1].values[0]}")
    assert answer.unsolved.infeasible == plan.infeasible
    found = sweep(small(), ["limits.budget_usd=[0.01, 60]"], (), OPTIONS, library())
    assert found.loosest is None and found.unsolved is None


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("limits.budget_usd", "up"),
        ("limits.quota.vast", "up"),
        ("jobs.bot.deadline", "up"),
        ("limits.spot_share.min", "down"),
        ("limits.vram_headroom", "down"),
        ("jobs.bot.work.tokens", ""),
        ("adjust.0.usd_per_hour_factor", ""),
    ],
)
def test_an_axis_knows_which_way_it_leaves_more_room(path: str, way: str) -> None:
    """Only along a limit does the plan of a tighter value stand at a looser one; names have no order."""
    assert Axis(path=path, values=("1", "2"), numbers=(1.0, 2.0), unit="").looser_direction == way
    assert Axis(path=path, values=("1", "2"), numbers=None, unit="").looser_direction == ""


@pytest.mark.parametrize("other", ["limits.max_gpus=5:1:1", "limits.max_gps=5:1:-1"])
def test_the_faults_of_all_ranges_are_reported(other: str) -> None:
    """An unknown key in one, and a range that cannot be read or another unknown key in the other."""
    with pytest.raises(ScenarioError) as caught:
        sweep(small(), ["jobs.bot.dedline=1h:5h:2h", other], (), OPTIONS, library())
    assert {fault.where for fault in caught.value.faults} == {"jobs.bot.dedline", other.partition("=")[0]}
