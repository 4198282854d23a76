"""A calibration finds what made the rows, never looks at the side it is judged on, and repeats itself."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from benchmarks.accuracy.measurements import read_measurements
from benchmarks.accuracy.predictions import LEAST_UNCERTAIN, Comparison, Predictor
from benchmarks.accuracy.splits import HALVES, SPLITS, configuration_cells, family, organisation, side
from benchmarks.calibration import calibrate
from benchmarks.calibration.evidence import Evidence, weighted_quantile
from benchmarks.calibration.files import Found, plain, rewritten, write_calibration
from benchmarks.calibration.fitting import Fit, Free, Loss, fitted, read_free, source_weights, values_at
from benchmarks.calibration.held_out import (
    MEMORY_FILES,
    TIME_FILES,
    Table,
    counts,
    folds,
    judged,
    parts_judged,
    unfitted,
)
from benchmarks.calibration.intervals import Timed, profile_classes
from benchmarks.calibration.memory_intervals import likeliest_share
from benchmarks.calibration.stacking import MemoryRows, SpeedRows
from benchmarks.calibration.targets import TARGETS, Target
from benchmarks.calibration.traced import Traced, key_of, library_with, shipped_values, traced_library
from planner.documents.files import data_folder, read_text
from planner.library.reading import read_library
from planner.library.schema import Calibration

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "benchmarks" / "validation.csv"
MODELS = ROOT / "models"


@cache
def table() -> Table:
    """The project's own rows, stacked."""
    return Table(read_measurements(TABLE), read_library())


@cache
def singles() -> list[Any]:
    """The predictions of the accuracy benchmark, one row at a time."""
    return list(Predictor(read_library()).predict(table().rows))


def everything() -> Any:
    """All rows chosen."""
    return np.ones(len(table().rows), dtype=bool)


def stacked(figure: str) -> MemoryRows | SpeedRows:
    """The rows that a fit of a figure sees."""
    rows = [p for p in table().known if counts(p, figure)]
    return MemoryRows.of(rows, table().library) if figure == "memory" else SpeedRows.of(rows)


def columns(values: dict[str, float], sets: int = 1) -> dict[str, Any]:
    """Values as a fit hands them to the rows."""
    return {key: np.full((sets, 1), value) for key, value in values.items()}


# Stacked rows


@pytest.mark.slow
def test_stacked_rows_say_what_single_ones_say() -> None:
    """With the shipped numbers the arrays give the very predictions and spreads of the accuracy benchmark."""
    for figure, of in (("memory", "peak"), ("throughput", "speed")):
        rows = stacked(figure)
        expected = [getattr(p, of).predicted for p in singles() if counts(p, figure)]
        assert rows.predicted(columns(table().fixed), 1)[0] == pytest.approx(expected, rel=1e-12), figure
    shipped = {key.partition(":")[2]: v for key, v in table().fixed.items() if key.startswith("uncertainty:")}
    timed = [p for p in singles() if counts(p, "throughput")]
    found = Timed.of(timed, read_library()).sigmas(shipped)
    assert found.display == pytest.approx([p.speed.sigma for p in timed if p.speed])
    assert found.tail == pytest.approx([p.speed.sigma_tail for p in timed if p.speed])


@pytest.mark.long
@pytest.mark.parametrize(("figure", "of"), [("memory", "peak"), ("throughput", "speed")])
def test_other_numbers_reach_the_estimate(figure: str, of: str) -> None:
    """Every free coefficient at another value: as if the library held those values and rows were made anew."""
    files = MEMORY_FILES if figure == "memory" else TIME_FILES
    values = dict(table().fixed)
    for place, one in enumerate(table().free[files]):
        if not one.key.startswith("bytes:"):
            values[one.key] *= 0.95 - 0.01 * (place % 23)
    other = Predictor(library_with(read_library(), values)).predict(table().rows)
    expected = [getattr(p, of).predicted for p in other if getattr(p, of) is not None and counts(p, figure)]
    found = stacked(figure).predicted(columns(values), 1)[0]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_several_calibrations_at_once_are_those_calibrations() -> None:
    """Row k of the answer is what calibration k gives alone."""
    rows = stacked("throughput")
    key = "time:token_half_saturation"
    both = columns(table().fixed) | {key: np.array([[0.5], [2.0]])}
    one_by_one = [rows.predicted(columns(table().fixed | {key: value}), 1)[0] for value in (0.5, 2.0)]
    assert rows.predicted(both, 2) == pytest.approx(np.array(one_by_one), rel=1e-12)


def test_a_traced_number_remembers_its_arithmetic() -> None:
    """Sums and products of calibrated numbers follow other values; a plain float of it stays."""
    a, b = Traced.of_key("a", 2.0), Traced.of_key("b", 3.0)
    found = 1.0 - (a * b + 4.0) / (2.0 / b)
    assert float(found) == -14.0
    assert found.at({"a": 5.0, "b": 7.0}) == 1.0 - (5.0 * 7.0 + 4.0) / (2.0 / 7.0)
    assert (a * np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


# The fit


def synthetic(n: int = 240) -> tuple[Any, Any, list[str]]:
    """Rows a * size^b with known a and b, two sources that are off by 5 %, and a few rows far off."""
    random = np.random.default_rng(3)
    size = np.exp(random.uniform(0.0, 3.0, n))
    sources = [f"source {i % 6}" for i in range(n)]
    habit = np.array([0.05 if name == "source 0" else -0.05 if name == "source 1" else 0.0 for name in sources])
    noise = random.normal(0.0, 0.03, n) + habit + np.where(np.arange(n) % 40 == 7, 1.5, 0.0)

    def predict(values: Any, sets: int) -> Any:
        return values["t:a"] * size ** values["t:b"]

    measured = predict(columns({"t:a": 3.0, "t:b": 0.7}), 1)[0] * np.exp(noise)
    return predict, measured, sources


def free_pair(prior: float = 1.0) -> tuple[Free, ...]:
    """Two free numbers, far from the truth."""
    return Free("t:a", 0.5, 0.01, 100.0, prior), Free("t:b", 0.5, 0.01, 10.0, prior)


@pytest.mark.long
def test_a_fit_finds_the_numbers_that_made_the_rows() -> None:
    """Known coefficients come back within 2 % from noisy rows, oddities and habits of sources among them."""
    predict, measured, sources = synthetic()
    found = fitted(predict, measured, sources, free_pair(), {}, Loss(0.05, 0.05))
    assert found.values["t:a"] == pytest.approx(3.0, rel=0.02)
    assert found.values["t:b"] == pytest.approx(0.7, rel=0.02)
    assert found.known["t:a"] > 0.95
    assert found.rows["t:b"] > 200


@pytest.mark.slow
def test_rows_of_less_weight_leave_more_to_the_prior() -> None:
    """A quarter of the weight is as many rows fewer: the fit stays nearer to what was believed and knows less."""
    predict, measured, sources = synthetic()
    full, quarter = (
        fitted(predict, measured, sources, free_pair(), {}, Loss(0.5, 0.05, weight)) for weight in (1.0, 0.25)
    )
    assert 1.0 < quarter.values["t:a"] < full.values["t:a"]
    assert quarter.known["t:a"] < full.known["t:a"]


@pytest.mark.slow
def test_rows_that_say_nothing_leave_the_prior() -> None:
    """A coefficient that no row depends on stays what was believed, and is not called known."""
    predict, measured, sources = synthetic()
    idle = Free("t:idle", 0.3, 0.1, 10.0, 1.7)
    found = fitted(predict, measured, sources, (*free_pair(), idle), {}, Loss(0.05, 0.05))
    assert found.values["t:idle"] == pytest.approx(1.7, rel=1e-6)
    assert found.known["t:idle"] == pytest.approx(0.0, abs=1e-6)
    assert found.rows["t:idle"] == 0


def test_what_has_no_rows_follows_what_has() -> None:
    """A coefficient whose prior is another's value moves with it; with spread 0 it is tied to it."""
    free = (Free("t:a", 0.5, 0.01, 100.0), Free("t:c", 0.2, 0.01, 100.0, parent="t:a", ratio=0.5),
            Free("t:d", 0.0, 0.01, 100.0, parent="t:a"))  # fmt: skip
    x = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    values = values_at(free, x, {})
    assert values["t:d"] == pytest.approx(values["t:a"])
    assert values["t:c"][0] == pytest.approx(0.5 * values["t:a"][0])
    assert values["t:c"][1] == pytest.approx(values["t:c"][0] * np.exp(0.2))


def test_shares_stay_shares_and_bounds_hold() -> None:
    """However far a fit goes, a share lies between 0 and 1 and every value within its bounds."""
    share = Free("t:o", 0.5, 0.05, 0.97, 0.5, share=True)
    values = values_at((share,), np.array([[-50.0], [0.0], [50.0]]), {})["t:o"][:, 0]
    assert values.tolist() == pytest.approx([0.05, 0.5, 0.97])


def test_large_sources_do_not_decide_alone() -> None:
    """Up to twenty rows a source weighs what it has; a hundred times the rows weigh ten times as much."""
    small, large = source_weights(["a"] * 20 + ["b"] * 2000)[[0, -1]]
    assert small == 1.0
    assert large * 2000 == pytest.approx(20 * 10)


# The table of free coefficients


def test_every_free_coefficient_exists_and_is_believable() -> None:
    """Each has a shipped value, a prior within its bounds, and follows only what stands before it."""
    shipped, seen = shipped_values(read_library()), set()
    for one in (*read_free(MEMORY_FILES), *read_free(TIME_FILES)):
        assert one.key in shipped, one.key
        assert 0 < one.low < one.high
        assert one.parent in seen if one.parent is not None else one.low <= one.prior <= one.high
        assert one.why
        seen.add(one.key)


# Held out


@pytest.mark.parametrize("split", HALVES)
def test_no_configuration_and_no_source_lies_on_both_sides(split: str) -> None:
    """What a split separates is on one side only, in both tables' rows."""
    of = configuration_cells if split == "configuration" else family
    by_side = [{of(row) for row in table().rows if side(row, split) == half} for half in (0, 1)]
    assert by_side[0] and by_side[1]
    assert not by_side[0] & by_side[1]


@pytest.mark.parametrize("split", ["configuration", "organisation"])
def test_inner_parts_keep_apart_what_the_split_keeps_apart(split: str) -> None:
    """Each part holds whole configurations or whole organisations; parts cover the chosen rows once."""
    chosen = np.array([side(row, "configuration") == 0 or split == "organisation" for row in table().rows])
    parts = folds(table(), chosen, split)
    assert np.array_equal(sum(part.astype(int) for part in parts), chosen.astype(int))
    of = configuration_cells if split == "configuration" else organisation
    owners = [{of(table().rows[i]) for i in np.flatnonzero(part)} for part in parts]
    assert sum(len(some) for some in owners) == len(set().union(*owners))


@pytest.mark.long
def test_the_side_that_judges_does_not_reach_the_fit() -> None:
    """Other measured figures on the judging side change no coefficient."""
    rows = read_measurements(TABLE)[::4]
    table, changed = (Table(rows, read_library()) for _ in range(2))
    train = np.array([side(row, "source") == 0 for row in table.rows])
    assert 0 < sum(train) < len(rows)
    before = table.fit(train).values
    changed.known = tuple(
        p if there or p.speed is None else replace(p, speed=replace(p.speed, measured=2 * p.speed.measured))
        for p, there in zip(changed.known, train, strict=True)
    )
    assert changed.fit(train).values == before


@pytest.mark.slow
def test_a_framework_that_one_organisation_has_alone_is_forgotten_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are judged as a stranger's; those with a framework that others have, too, keep their profile."""
    free = (*table().free[MEMORY_FILES], *table().free[TIME_FILES])
    shipped = {one.key: table().fixed[one.key] for one in free}
    nothing = dict.fromkeys(shipped, 0.0)
    monkeypatch.setattr(Table, "fit", lambda _table, _chosen: Fit(shipped, nothing, nothing, dict.fromkeys(shipped, 0)))
    parts = parts_judged(table(), everything(), "organisation")
    judged_by = [{(organisation(p.row), p.row.text("framework")): p for p in part.honest()} for part in parts]
    by_name = {name: p for part in judged_by for name, p in part.items()}
    assert all(len({owner for owner, _ in part}) == 1 for part in judged_by)
    for owner, framework in (("mosaicml", "llm-foundry"), ("internlm", "internevo")):
        found = by_name[owner, framework].configuration
        assert found is not None and found.framework == "unknown"
    hugging = by_name["huggingface", "hf"].configuration
    assert hugging is not None and hugging.framework == "hf"
    assert all(part.strangers <= set(part.named) == set(part.forgotten) for part in parts)


@pytest.mark.long
def test_a_fit_is_better_than_its_priors_on_rows_it_has_not_seen() -> None:
    """Memory and speed of one half of the configurations, judged by a fit on the other."""
    train = np.array([side(row, "configuration") == 0 for row in table().rows])
    test = [p for p, there in zip(table().known, train, strict=True) if not there]
    believed = [p for p, there in zip(unfitted(table()), train, strict=True) if not there]
    fitted_here = judged(table(), table().fit(train), test)
    for of, figure in (("peak", "memory"), ("speed", "throughput")):
        errors = [
            np.median([abs(getattr(p, of).error) for p in found if counts(p, figure)])
            for found in (fitted_here, believed)
        ]
        assert errors[0] < errors[1]


# Spreads


def test_every_profile_has_a_class_of_its_own() -> None:
    """A profile without rows still has a spread to be drawn towards that of all rows."""
    assert {"hf", "tuned", "fused", "megatron"} <= set(profile_classes(read_library()))


def test_quantiles_weigh_rows() -> None:
    """A row of weight 3 counts as three rows; nothing gives 0."""
    values = np.array([3.0, 1.0, 2.0])
    assert weighted_quantile(values, 0.5, np.ones(3)) == 2.0
    assert weighted_quantile(values, 0.5, np.array([3.0, 1.0, 1.0])) == 3.0
    assert weighted_quantile(values[:0], 0.5, values[:0]) == 0.0


@pytest.mark.parametrize(("moves", "share"), [("all", 1.0), ("rest", 0.1)])
def test_the_likeliest_share_of_states_is_that_of_the_errors(moves: str, share: float) -> None:
    """Errors of all bytes say that states are as uncertain as the rest; errors of the rest that they are not.

    Ten rows of 100 GB whose states are 5 to 95 GB, in turn a fifth above and a fifth below their estimate.
    """
    rows = []
    some = next(p for p in table().known if p.peak is not None)
    for i in range(10):
        known, factor = 5e9 + 1e10 * i, 1.2 if i % 2 else 1 / 1.2
        measured = 1e11 * factor if moves == "all" else known + (1e11 - known) * factor
        rows.append(replace(some, peak=Comparison(measured, 1e11, 0.0, 0.0, known=known)))
    assert likeliest_share(rows, Evidence(of_sources=True)) == share


def test_certain_bytes_are_taken_off_both_sides_of_an_error() -> None:
    """100 GB predicted, 60 of them states, half of these certain: 84 GB measured are ln(54 / 70) of what is left."""
    peak = Comparison(84e9, 100e9, 0.0, 0.0, known=60e9, known_share=0.5)
    assert peak.spread_error == pytest.approx(np.log(54 / 70))
    assert replace(peak, measured=30e9).spread_error == LEAST_UNCERTAIN
    assert replace(peak, open_spread=0.07).with_sigmas(0.0, 0.0).sigma == pytest.approx(0.1)


def test_a_calibration_of_memory_leaves_speed_as_it_ships() -> None:
    """Coefficients of the estimate that is not asked for are those of the library."""
    alone = Table(table().rows[:0], table().library, ("memory",))
    fit = alone._fit_figure(np.zeros(0, dtype=bool), "throughput")
    assert fit.values == {one.key: alone.fixed[one.key] for one in alone.free[TIME_FILES]}


def test_evidence_for_yet_unseen_sources_is_sources() -> None:
    """Many rows of one source say little of the next source, much of its own next rows."""
    rows = [p for p in table().known if counts(p, "memory")]
    one = [p for p in rows if family(p.row) == family(rows[0].row)]
    assert Evidence(of_sources=True).believed(one) == pytest.approx(1 / 3)
    assert Evidence(of_sources=False).believed(one * 50) > 0.9
    assert Evidence(of_sources=True).believed([]) == 0.0


# Targets


def test_a_target_knows_its_direction() -> None:
    """At most, at least, between, and of either sign."""
    limits = (1.0, (2.0, 3.0), None)
    assert Target("x", (), limits, ()).met(0.9, 0) and not Target("x", (), limits, ()).met(1.1, 0)
    assert Target("x", (), limits, (), least=True).met(1.1, 0)
    assert Target("x", (), limits, (), size=True).met(-0.5, 0) and not Target("x", (), limits, (), size=True).met(-2, 0)
    assert Target("x", (), limits, ()).met(2.5, 1) and not Target("x", (), limits, ()).met(3.5, 1)
    assert Target("x", (), limits, ()).met(9.0, 2) is None


def test_every_target_has_a_limit_or_none_for_each_split() -> None:
    """Three columns each."""
    assert all(len(target.limits) == len(SPLITS) for target in TARGETS)


# Files


def test_a_rewritten_file_keeps_comments_order_and_what_was_not_fitted(tmp_path: Path) -> None:
    """Only the entries named change; a range that was there grows to hold the new value; new entries come last."""
    path = tmp_path / "a.yaml"
    path.write_text(
        '# Head\nname: a\ndescription: "old"\n\ncoefficients:\n  # Group\n'
        '  x: {value: 1, low: 0.5, high: 2, unit: "1", basis: prior, source: "a guess"}\n'
        '  y.z: {value: 3, unit: s, basis: measured, source: "seen, twice"}\n',
        encoding="utf-8",
    )
    found = {"x": Found(2.5, None, None, "prior", "another"), "w": Found(0.00001234, None, None, "measured", "n", "ln")}
    assert rewritten(path, found, "new") == (
        '# Head\nname: a\ndescription: "new"\n\ncoefficients:\n  # Group\n'
        '  x: {value: 2.5, low: 0.5, high: 2.5, unit: "1", basis: prior, source: "another"}\n'
        '  y.z: {value: 3, unit: s, basis: measured, source: "seen, twice"}\n'
        '  w: {value: 0.0000123, unit: ln, basis: measured, source: "n"}\n'
    )


@pytest.mark.parametrize(("value", "text"), [(0.000012345, "0.0000123"), (1131000000.0, "1130000000"), (6.0, "6")])
def test_numbers_have_three_digits_and_no_exponent(value: float, text: str) -> None:
    """As YAML 1.1 reads floats."""
    assert plain(value) == text


def test_shipped_files_are_those_that_a_calibration_can_write(tmp_path: Path) -> None:
    """Every fitted entry is found in its file, and what is written can be read again and holds the values."""
    keys = [one.key for one in (*read_free(MEMORY_FILES), *read_free(TIME_FILES))]
    found = {key: Found(0.123, None, None, "measured", "a test that changes them all") for key in keys}
    names = {path.stem: "as tested" for path in (MODELS / "calibration").glob("*.yaml")}
    shutil.copytree(data_folder("models"), tmp_path / "models")
    write_calibration(tmp_path / "models", tmp_path / "models", found, names)
    from planner.documents.files import read_document

    for path in sorted((tmp_path / "models" / "calibration").glob("*.yaml")):
        held = Calibration.model_validate(read_document(path).data)
        for key, entry in held.coefficients.items():
            assert entry.value == 0.123 or key_of(path.stem, key) not in keys
    assert "extra_sharded: 0.123" in read_text(tmp_path / "models" / "techniques" / "bytes.yaml")


@pytest.mark.long
def test_the_command_repeats_itself_to_the_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What one run writes a second fit of the same small table writes again; the report names every target."""
    small = tmp_path / "small.csv"
    header, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    chosen = [line for line in lines if line.split(",")[1].startswith(("AnswerDotAI", "pytorch/ao"))]
    small.write_text("\n".join([header, *chosen]) + "\n", encoding="utf-8")
    assert calibrate.main([str(small), "--out", str(tmp_path / "one")]) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert all(target.name in text for target in TARGETS)
    table = Table(read_measurements(small), read_library())
    again = calibrate.calibration(table)
    write_calibration(data_folder("models"), tmp_path / "two", again, calibrate.described(table))
    for path in sorted((tmp_path / "one").rglob("*.yaml")):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_a_table_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one clear line, nothing written."""
    missing = tmp_path / "no.csv"
    assert calibrate.main([str(missing), "--out", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_traced_library_is_the_library() -> None:
    """Tracing changes no number."""
    assert shipped_values(traced_library(read_library())) == shipped_values(read_library())
