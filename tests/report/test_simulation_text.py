"""A simulation as text: 80 columns whatever the names, no figure that says more than is known."""

from __future__ import annotations

import pytest

from planner.analysis.simulate_question import simulate
from planner.report.run_text import format_frequency, percent, render_simulation
from planner.results.simulation import Simulation
from tests.helpers.spot_scenarios import ON_DEMAND, OPTIONS, SEVERAL, SPOT, planned, scenario


def found(text: str = SPOT, **changes: object) -> Simulation:
    """Few runs of a small scenario."""
    return simulate(scenario(text), planned(text), runs=200, options=OPTIONS).model_copy(update=changes)


@pytest.mark.slow
@pytest.mark.parametrize("text", [SPOT, SEVERAL, ON_DEMAND])
def test_every_line_fits_and_has_no_blanks_at_its_end(text: str) -> None:
    """Plain ASCII, 80 columns, and the sections that there is something to say in."""
    said = render_simulation(found(text))
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80 and said.isascii() and all(line == line.rstrip() for line in lines)
    assert ("  Spot " in said) == ("  policy " in said) == (text != ON_DEMAND)
    assert ("  job " in said) == (text == SEVERAL)


@pytest.mark.slow
def test_names_of_any_length_give_way() -> None:
    """Scenario and jobs are shortened, figures are not; what steers a terminal is not printed."""
    one = found(SEVERAL)
    long = one.model_copy(
        update={
            "scenario": "x" * 200 + "\033[31m",
            "jobs": tuple(job.model_copy(update={"name": "y" * 90 + "\n"}) for job in one.jobs),
        }
    )
    said = render_simulation(long)
    assert max(map(len, said.splitlines())) <= 80 and "\033" not in said and "(plan: $" in said


@pytest.mark.slow
def test_a_histogram_is_as_high_where_most_runs_are() -> None:
    """Its ends are the bins', its highest column is full and an empty bin is blank."""
    one = found()
    histogram = one.cost_histogram
    assert histogram is not None
    text = render_simulation(one).splitlines()
    top = next(i for i, line in enumerate(text) if line.startswith("  Cost ")) + 2  # the budget has a line
    rows = [line[11:].ljust(len(histogram.counts)) for line in text[top : top + 5]]
    for at, count in enumerate(histogram.counts):
        column = "".join(row[at] for row in rows)
        assert column == column.strip().rjust(5) and (column.strip() == "") == (count == 0)
        assert (column == "#####") == (count > max(histogram.counts) * 0.8)
    assert f"${histogram.edges[0]:.2f}" in text[top + 6] and f"${histogram.edges[-1]:.2f}" in text[top + 6]


def test_runs_that_are_all_the_same_draw_nothing() -> None:
    """One figure needs no histogram."""
    exact = simulate(scenario(ON_DEMAND), planned(ON_DEMAND), runs=50, exact_speed=True, options=OPTIONS)
    said = render_simulation(exact)
    assert "#" not in said and "every run at the expected speed" in said


@pytest.mark.parametrize(
    ("share", "said"), [(1.0, "100 %"), (0.0, "0 %"), (0.9999, "99.9 %"), (0.0001, "0.1 %"), (0.978, "97.8 %")]
)
def test_what_did_not_always_happen_is_not_told_as_if_it_had(share: float, said: str) -> None:
    """One miss in ten thousand is a miss."""
    assert format_frequency(share) == said


@pytest.mark.parametrize(
    ("share", "said"), [(None, "-"), (1.0, "100 %"), (0.997, "over 99 %"), (0.001, "under 1 %"), (0.0, "0 %")]
)
def test_shares_say_all_only_where_it_is_all(share: float | None, said: str) -> None:
    """Neither all nor nothing where it is not."""
    assert percent(share) == said


def test_a_notebook_shows_a_line_per_policy() -> None:
    """A table with escaped texts."""
    html = found(scenario="<b>")._repr_html_()
    assert html.startswith("<table>") and "&lt;b&gt;" in html and html.count("<tr>") == 6
