"""From trace files to the block of an offer: it reads back as what was found, and says what to mind."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

import planner
from planner.analysis.market_paths import market_fit
from planner.candidates.market import group_states
from planner.errors import InputError
from planner.results.market_results import MarketFit
from planner.scenario.offer import Offer
from planner.scenario.offer_terms import SpotStatistics


def counts(seed: int = 0, hours: int = 600, machines: int = 1, gap: int = 300) -> list[int]:
    """Machines that come and go together: up 80 % short and 20 % long, 3 h on average; out 1 h."""
    random = np.random.default_rng(seed)
    ups = np.where(random.random(hours) < 0.8, random.exponential(0.75, hours), random.exponential(12, hours))
    changes = np.cumsum(np.column_stack((ups, random.exponential(1.0, hours))).ravel())
    up = np.searchsorted(changes, np.arange(hours * 3600 // gap) * gap / 3600) % 2 == 0
    return (up * machines).tolist()


def write(path: Path, data: list[int], gap: float = 300) -> Path:
    path.write_text(json.dumps({"metadata": {"gap_seconds": gap}, "data": data}))
    return path


def run_lengths(data: list[int]) -> str:
    changes = [0, *(i for i in range(1, len(data)) if data[i] != data[i - 1]), len(data)]
    return ";".join(f"{data[a]}x{b - a}" for a, b in pairwise(changes))


@pytest.fixture
def fitted(tmp_path: Path) -> MarketFit:
    return market_fit(write(tmp_path / "zone.json", counts()))


def test_the_block_is_what_an_offer_takes(fitted: MarketFit) -> None:
    """Read back, the pasted block has the statistics and the states of the fit."""
    block = yaml.safe_load(fitted.spot_yaml)
    offer = Offer.model_validate({"provider": "p", "gpu": "T4", "gpus": 1, "spot_usd_per_hour": 0.1, **block})
    assert offer.spot is not None
    assert offer.spot.availability == pytest.approx(fitted.availability.expected, rel=2e-3)
    assert offer.spot.mean_up_hours == pytest.approx(fitted.up.mean_hours.expected, rel=2e-3)
    assert offer.spot.mean_outage_hours == pytest.approx(fitted.outage.mean_hours.expected, rel=2e-3)
    states = group_states(offer.spot)
    assert states is not None
    assert states.up.begins == fitted.spot.up.ages_hours and states.up.rates == fitted.spot.up.ends_per_hour
    assert states.down.rates == fitted.spot.outage.ends_per_hour and len(states.up.rates) > 1
    assert SpotStatistics.model_validate(fitted.model_dump(mode="json")["spot"]) == offer.spot


def test_every_format_of_one_trace_gives_one_fit(tmp_path: Path, fitted: MarketFit) -> None:
    """Only the name of the file differs."""
    path = tmp_path / "list.csv"
    path.write_text(f"trace_id,step_s,availability_rle\nzone,300,{run_lengths(counts())}\n")
    assert market_fit(path) == fitted


def test_pooled_hours_and_interruptions_add_up(tmp_path: Path, fitted: MarketFit) -> None:
    """Two traces are the sum of their hours, ends and losses, each of them listed."""
    write(tmp_path / "other.json", counts(1, 300))
    other = market_fit(tmp_path / "other.json")
    both = planner.market_fit([tmp_path / "zone.json", tmp_path / "other.json"])
    assert both.hours == 900 and both.interruptions == fitted.interruptions + other.interruptions
    assert both.up.ends == fitted.up.ends + other.up.ends
    assert both.up.hours == pytest.approx(fitted.up.hours + other.up.hours)
    assert [one.name for one in both.traces] == ["zone", "other"]
    assert both.share_of_hours == pytest.approx((2 * fitted.share_of_hours + other.share_of_hours) / 3)
    assert market_fit([tmp_path / "zone.json", tmp_path / "other.json"], only=["other"]) == other
    assert market_fit(tmp_path).traces == (other.traces[0], fitted.traces[0])


def test_a_node_group_says_so_in_its_block(tmp_path: Path) -> None:
    """Figures of four machines together are not those of one."""
    data = [n + 1 for n in counts(machines=3)]
    found = market_fit(write(tmp_path / "fleet.json", data), instances=4)
    assert yaml.safe_load(found.spot_yaml)["spot"]["instances"] == 4
    assert any("4 machines together" in note for note in found.notes)
    assert found.traces[0].most_machines == 4


def test_a_fleet_of_others_is_not_taken_for_ones_own_machine(tmp_path: Path) -> None:
    """Where more machines were watched than asked for, a note says how long a single one stays."""
    fleet = [2 * n + m for n, m in zip(counts(0), counts(1), strict=True)]
    found = market_fit(write(tmp_path / "fleet.json", fleet))
    stay = found.traces[0].machine_hours / found.traces[0].machine_losses
    assert any(f"a single machine was available for {stay:.1f} h" in note for note in found.notes)


def test_what_could_be_misread_is_said(tmp_path: Path) -> None:
    """Places that differ, a late beginning, and steps too long or suspiciously short."""
    rare = [n * (i % 7 == 0) for i, n in enumerate(counts(2))]
    pair = [write(tmp_path / "good.json", counts()), write(tmp_path / "bad.json", rare)]
    assert any("the traces differ" in note for note in market_fit(pair).notes)
    late = market_fit(write(tmp_path / "late.json", [0] * 3600 + counts()))
    assert any("300.0 h before the first change are excluded" in note for note in late.notes)
    coarse = market_fit(write(tmp_path / "coarse.json", counts(hours=2400)[::12], 3600))
    assert any("a count every 60 minutes misses shorter changes" in note for note in coarse.notes)
    hasty = market_fit(write(tmp_path / "hasty.json", [n for n in counts() for _ in range(3)], 5))
    assert any("if minutes were meant, all durations are 60 times as long" in note for note in hasty.notes)


def test_traces_of_one_name_are_told_apart_and_one_file_counts_once(tmp_path: Path) -> None:
    """Same names in two folders are two places; the same file twice would only look surer."""
    paths = []
    for zone in ("a", "b"):
        (tmp_path / zone).mkdir()
        paths.append(write(tmp_path / zone / "v100.json", counts(ord(zone))))
    assert [one.name for one in market_fit(paths).traces] == [f"{path}: v100" for path in paths]
    with pytest.raises(InputError, match="is given twice"):
        market_fit([paths[0], paths[0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"traces": []}, "no trace to fit"),
        ({"instances": 0}, "--instances: 0 is not a number of machines"),
        ({"only": ["zine"]}, "unknown trace 'zine'; known: zone"),
    ],
)
def test_questions_without_sense_are_refused(
    arguments: dict[str, object], message: str, fitted: MarketFit, tmp_path: Path
) -> None:
    """One clear message each."""
    asked = {"traces": tmp_path / "zone.json", **arguments}
    with pytest.raises(InputError) as raised:
        market_fit(**asked)  # type: ignore[arg-type]
    assert message in str(raised.value)


def test_a_notebook_shows_the_figures_with_their_intervals(fitted: MarketFit) -> None:
    """A small table, escaped."""
    shown = fitted._repr_html_()
    assert "mean up, h" in shown and f"{fitted.up.mean_hours.low:.3g}" in shown


def several(folder: Path, count: int = 3) -> list[Path]:
    """Zones that are observed at the same times and come and go on their own."""
    return [write(folder / f"zone-{number}.json", counts(seed=number)) for number in range(count)]


def test_zones_together_are_one_market_that_is_there_more_often(tmp_path: Path) -> None:
    """The block of a group can be pasted, and its states hold the chance of another zone."""
    paths = several(tmp_path)
    alone, together = market_fit(paths), market_fit(paths, together=True)
    assert together.availability.expected > alone.availability.expected + 0.1
    assert together.availability.low < together.availability.expected < together.availability.high
    assert together.hours == pytest.approx(alone.hours / 3)
    block = yaml.safe_load(together.spot_yaml)
    offer = Offer.model_validate({"provider": "p", "gpu": "T4", "gpus": 1, "spot_usd_per_hour": 0.1, **block})
    assert offer.spot is not None
    states = group_states(offer.spot)
    assert states is not None
    assert states.instant == block["spot"]["another_zone"] == together.spot.another_zone > 0.4
    assert states.availability() == pytest.approx(offer.spot.availability, rel=1e-3)
    assert any("losses were followed by machines in another zone at once" in note for note in together.notes)


def test_a_chance_of_another_zone_needs_durations_by_age() -> None:
    """From means alone it would be ignored."""
    with pytest.raises(ValueError, match="another_zone without up and outage by age"):
        SpotStatistics.model_validate({"availability": 0.8, "mean_up_hours": 2.0, "another_zone": 0.5})


def test_files_in_which_one_means_taken_away_are_read_with_preempted(tmp_path: Path) -> None:
    """Read the wrong way round a warning asks; counts cannot be inverted."""
    there = [int(mark) for mark in np.array(counts()) > 0]
    taken = write(tmp_path / "taken.json", [1 - one for one in there])
    right = market_fit(write(tmp_path / "there.json", there))
    assert market_fit(taken, preempted=True).spot == right.spot
    assert not any("--preempted" in note for note in right.notes)
    rare = write(tmp_path / "rare.json", ([1] * 3 + [0] * 30) * 20)
    assert "less than 20% of the time: rare (9%)" in market_fit(rare).notes[0]
    with pytest.raises(InputError, match="3 is neither 0 nor 1"):
        market_fit(write(tmp_path / "fleet.json", [3, 2, 1, 0] * 50), preempted=True)


def test_a_frame_is_read_as_its_file(tmp_path: Path) -> None:
    """A data frame with the columns of a CSV file gives the fit of that file; one without them is refused by them."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"time_seconds": range(0, 600 * 3600, 300), "available": counts()})
    frame.to_csv(tmp_path / "zone.csv", index=False)
    of_file, of_frame = market_fit(tmp_path / "zone.csv"), market_fit([frame])
    assert of_frame.spot == of_file.spot and market_fit(frame).spot == of_file.spot
    with pytest.raises(InputError, match=r"traces\.0: no trace has the columns when, up"):
        market_fit(pandas.DataFrame({"when": [1, 2], "up": [0, 1]}))
