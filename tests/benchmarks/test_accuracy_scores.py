"""Scores on figures small enough to work out by hand, and what must hold of any."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.accuracy import scores
from benchmarks.accuracy.benchmark import worst_kind
from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.scores import Speed


def row(**cells: str) -> Row:
    """A row of one source, network and length, with some cells."""
    return Row(2, {"source": "s", "model": "m", "seq_len": "2048", "gpu": "A100", "micro_batch": "1", **cells})


def speed(measured: float, predicted: float, usd: float | None = 1.0, **cells: str) -> Speed:
    """A row with its speeds."""
    return Speed(row(**cells), measured, predicted, usd)


def test_errors_are_those_of_a_worked_example() -> None:
    """+10 %, -20 %, +30 %, -40 %: mean 25 %, middle 25 %, nine tenths up 37 %, bias -5 %."""
    found = scores.errors([0.1, -0.2, 0.3, -0.4])
    assert found["n"] == 4
    assert found["mape"] == pytest.approx(0.25)
    assert found["median_ape"] == pytest.approx(0.25)
    assert found["p90_ape"] == pytest.approx(0.37)
    assert found["bias"] == pytest.approx(-0.05)


def test_no_rows_have_no_errors() -> None:
    """A figure without rows is unknown, not zero."""
    assert scores.errors([]) == {"n": 0, "mape": None, "median_ape": None, "p90_ape": None, "bias": None}


@pytest.mark.parametrize(("q", "value"), [(0.0, 1.0), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)])
def test_quantiles_interpolate(q: float, value: float) -> None:
    """Between order statistics the quantile is a straight line."""
    assert scores.quantile([4.0, 1.0, 3.0, 2.0], q) == pytest.approx(value)


@pytest.mark.parametrize(
    ("good", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)]
)
def test_wilson_is_that_of_the_textbook(good: int, n: int, low: float, high: float) -> None:
    """Values of the published formula for ten trials."""
    assert scores.wilson(good, n) == pytest.approx((low, high), abs=5e-5)


@settings(derandomize=True, max_examples=60)
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share(drawn: tuple[int, int]) -> None:
    """The interval lies between 0 and 1 and holds the share itself."""
    good, n = drawn
    low, high = scores.wilson(good, n)
    assert 0.0 <= low <= good / n + 1e-12
    assert good / n - 1e-12 <= high <= 1.0


def test_coverage_counts_both_intervals() -> None:
    """0.1 lies in both, 0.3 only in the wide one (1.96 x 0.2), 0.5 in neither."""
    found = scores.coverage([0.1, -0.3, 0.5], [0.2] * 3, [0.2] * 3)
    assert found["interval_68"] == pytest.approx(1 / 3)
    assert found["interval_95"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ({"gpu": "H100"}, "gpu"),
        ({"gpu_mem_gb": "40"}, "setting"),
        ({"act_ckpt": "full", "micro_batch": "4"}, "technique"),
        ({"micro_batch": "4"}, "setting"),
        ({"notes": "something else"}, "setting"),
    ],
)
def test_pairs_are_told_apart_by_what_differs(cells: dict[str, str], kind: str) -> None:
    """GPU before technique before setting, which takes whatever no column tells apart."""
    assert scores.pair_kind(row(), row(**cells)) == kind


def test_pairs_in_order_are_counted_by_hand() -> None:
    """100, 150 and 200 at micro-batches 1, 2, 4: two pairs right, one predicted equal, so 2.5 of 3."""
    found = scores.pairs([speed(100, 90), speed(150, 120, micro_batch="2"), speed(200, 120, micro_batch="4")])
    assert found["setting"] == {"right": pytest.approx(2.5 / 3), "n": 3}
    assert found["gpu"] == {"right": None, "n": 0}


def test_close_pairs_and_pairs_of_other_lengths_say_nothing() -> None:
    """5 % apart is noise, and another length is another job."""
    close = [speed(100, 90), speed(105, 80, micro_batch="2")]
    other = speed(300, 10, seq_len="4096", micro_batch="2")
    assert scores.pairs([*close, other])["setting"]["n"] == 0


@pytest.mark.parametrize("dimension", ["layers", "hidden", "heads"])
def test_networks_of_one_name_and_other_dimensions_are_compared_by_the_letter_alone(dimension: str) -> None:
    """A sweep over head counts publishes other networks under one name: the stricter reading leaves them out."""
    items = [speed(100, 90), speed(200, 80, micro_batch="2", **{dimension: "64"})]
    assert scores.pairs(items)["setting"] == {"right": 0.0, "n": 1}
    assert scores.regret(items)["n"] == 1
    assert all(kind["n"] == 0 for kind in scores.pairs(items, scores.same_dimensions).values())
    assert scores.regret(items, scores.same_dimensions)["n"] == 0


def test_regret_is_what_the_wrong_choice_costs() -> None:
    """The prediction picks B at 2 $ per 100 tokens/s (0.02); the best, A, is 1 $ per 80 (0.0125): regret 1.6."""
    found = scores.regret([speed(80, 50, usd=1.0), speed(100, 125, usd=2.0, gpu="H100")])
    assert found["n"] == 1
    assert found["median"] == pytest.approx(1.6)
    assert found["optimism"] == pytest.approx(math.log(100 / 125))


def test_rows_without_price_or_choice_have_no_regret() -> None:
    """One configuration alone leaves nothing to choose; an unknown price cannot be compared."""
    assert scores.regret([speed(80, 50), speed(80, 50)])["n"] == 0
    assert scores.regret([speed(80, 50), speed(90, 50, usd=None, gpu="H100")])["n"] == 0


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4), st.floats(0.1, 50)), min_size=2, max_size=6))
def test_no_choice_beats_the_best_and_perfect_foresight_is_it(drawn: list[tuple[float, float, float]]) -> None:
    """Regret is at least 1, and exactly 1 where predictions are the measurements; then all pairs are in order."""
    items = [speed(m, p, usd, micro_batch=str(i + 1)) for i, (m, p, usd) in enumerate(drawn)]
    assert scores.regret(items)["median"] >= 1.0 - 1e-12
    perfect = [replace(item, predicted=item.measured) for item in items]
    assert scores.regret(perfect)["p90"] == pytest.approx(1.0, rel=1e-8)
    assert scores.regret(perfect)["optimism"] == 0.0
    assert scores.pairs(perfect)["setting"]["right"] in (None, 1.0)


def test_picks_that_tie_are_averaged() -> None:
    """Two settings predicted at 100 run at 100 and at 50: half of the time the choice costs 2, on average 1.5."""
    found = scores.regret([speed(100, 100), speed(50, 100, micro_batch="2")])
    assert found["median"] == pytest.approx(1.5)
    assert found["optimism"] == pytest.approx(math.log(0.5) / 2)


@settings(derandomize=True, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(1, 1e4), st.sampled_from((50.0, 100.0))), min_size=2, max_size=6).flatmap(
        lambda drawn: st.tuples(st.just(drawn), st.permutations(range(len(drawn))))
    )
)
def test_the_order_of_rows_means_nothing(drawn: tuple[list[tuple[float, float]], list[int]]) -> None:
    """However the table is sorted, pairs, regret and optimism are the same."""
    runs, order = drawn
    items = [speed(m, p, micro_batch=str(i + 1)) for i, (m, p) in enumerate(runs)]
    other = [items[i] for i in order]
    for key in ("n", "median", "p90", "optimism"):
        assert scores.regret(other)[key] == pytest.approx(scores.regret(items)[key])
    assert scores.pairs(other) == scores.pairs(items)


def test_fit_scores_count_both_ways_of_being_wrong() -> None:
    """One of two that ran out was said to fit; one of four that ran was said not to."""
    verdicts = [(True, True), (True, False), (False, True), (False, True), (False, True), (False, False)]
    found = scores.fit_scores(verdicts)
    assert (found["false_fit"], found["n_oom"]) == (0.5, 2)
    assert (found["false_reject"], found["n_ok"]) == (0.25, 4)
    assert found["false_fit_interval"] == list(scores.wilson(1, 2))


def test_a_table_without_verdicts_has_no_rates() -> None:
    """No runs that ran out: the share is unknown."""
    found = scores.fit_scores([])
    assert found["false_fit"] is None
    assert found["n_oom"] == 0


def test_the_headline_is_the_worst_kind_of_enough_organisations() -> None:
    """40 % of two organisations says more of them than of the kind; 20 % of three is the headline, not 5 % of nine."""
    kinds = {"a": {"n": 9, "mape": 0.05}, "b": {"n": 3, "mape": 0.2}, "c": {"n": 2, "mape": 0.4}}
    assert worst_kind(kinds) == "b"
    assert worst_kind({"c": kinds["c"]}) is None
