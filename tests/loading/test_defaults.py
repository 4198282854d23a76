"""What a scenario may leave out: names and the inventory; and deadlines as dates."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario, default_name, parse_scenario, read_scenario
from planner.scenario.scenario import Scenario

JOB = "{architecture: mistral-7b, work: {tokens: 1M}}"


def test_names_and_inventory_may_be_left_out(tmp_path: Path) -> None:
    """The scenario is called like its file, a job like its model, and the shipped market is the inventory."""
    path = tmp_path / "night-run.yaml"
    path.write_text(f"jobs: [{JOB}, {JOB}, {{name: own, architecture: llama-2-7b, work: {{steps: 9}}}}]", "utf-8")
    scenario = read_scenario(path, ["jobs.mistral-7b-2.deadline=3h"])
    assert scenario.name == "night-run"
    assert [job.name for job in scenario.jobs] == ["mistral-7b", "mistral-7b-2", "own"]
    assert [job.deadline_hours for job in scenario.jobs] == [None, 3, None]
    assert scenario.inventory == ("market",) and len(scenario.offers) > 300


def test_a_job_that_leaves_its_model_open_can_be_changed_by_its_default_name() -> None:
    """Plans name such a job `job` in the settings that they suggest, and a second one `job-2`."""
    open_job = "{architecture: [llama-2-7b, mistral-7b], kind: pretrain, work: {tokens: best}, deadline: 3d}"
    text = f"objective: loss\njobs: [{open_job}, {open_job}]\n"
    scenario = parse_scenario(text, set_=["jobs.job.deadline=1d", "jobs.job-2.deadline=2d"])
    assert [(job.name, job.deadline_hours) for job in scenario.jobs] == [("job", 24), ("job-2", 48)]


def test_the_market_can_be_named_beside_own_prices_from_any_folder(tmp_path: Path) -> None:
    """Offers of the market come first, then those of the file, then inline ones."""
    own = "currency: USD\noffers: [{provider: mine, gpu: T4, gpus: 1, usd_per_hour: 0.1}]\n"
    (tmp_path / "my-prices.yaml").write_text(own, encoding="utf-8")
    named = f"inventory: [market, my-prices.yaml]\njobs: [{JOB}]\n"
    market = parse_scenario(f"jobs: [{JOB}]").offers
    assert parse_scenario(named, tmp_path).offers[:-1] == market
    assert parse_scenario(named, tmp_path).offers[-1].provider == "mine"


def test_a_job_with_the_default_name_can_be_changed_by_it() -> None:
    """Names are kept where a scenario is written and read again."""
    scenario = parse_scenario("jobs: [{name: job, architecture: mistral-7b, work: {tokens: 1M}}]\nname: scenario")
    assert change_scenario(scenario, ["jobs.job.deadline=3h"]).jobs[0].deadline_hours == 3


def test_own_offers_stay_alone_unless_the_market_is_named() -> None:
    """Somebody who lists machines plans on these."""
    offers = "offers: [{provider: mine, gpu: T4, gpus: 1, usd_per_hour: 0.1}]"
    assert len(parse_scenario(f"jobs: [{JOB}]\n{offers}").offers) == 1
    assert len(parse_scenario(f"inventory: market\njobs: [{JOB}]\n{offers}").offers) > 300


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("mistral-7b", "mistral-7b"),
        ("./cfg/config.json", "cfg"),
        ("config.json", "config"),
        ("a/b.json", "b"),
        ("org/M", "M"),
    ],
)
def test_a_job_is_called_like_its_model(architecture: str, name: str) -> None:
    """The last part of a name, or the folder of a config.json."""
    assert default_name(architecture) == name


def dated(deadline: str, now: str = "now: 2026-11-23 19:00 UTC\n", set_: tuple[str, ...] = ()) -> float | None:
    return (
        parse_scenario(
            f"{now}jobs: [{{architecture: mistral-7b, work: {{tokens: 1M}}, deadline: {deadline}}}]", set_=set_
        )
        .jobs[0]
        .deadline_hours
    )


@pytest.mark.parametrize(
    ("deadline", "hours"),
    [
        ("2026-11-25 09:00 UTC", 38),
        ("2026-11-25T09:00Z", 38),
        ("2026-11-25 09:00 +01:00", 37),
        ("2026-11-25 09:00 Europe/Berlin", 37),
        ("2026-11-25 09:00 America/New_York", 43),
        ("'2026-11-25 UTC'", 29),
    ],
)
def test_a_deadline_may_be_a_day(deadline: str, hours: float) -> None:
    """It counts from `now`, across zones."""
    assert dated(deadline) == pytest.approx(hours)


def test_now_is_the_clock_and_stays_where_other_values_change() -> None:
    """Without `now` the clock counts, and the point in time is kept for later changes."""
    tomorrow = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=30)).strftime("%Y-%m-%d %H:%M UTC")
    scenario = parse_scenario(
        f"jobs: [{{name: a, architecture: mistral-7b, work: {{tokens: 1M}}, deadline: {tomorrow}}}]"
    )
    assert scenario.jobs[0].deadline_hours == pytest.approx(30, abs=0.1)
    assert scenario.now is not None
    later = change_scenario(scenario, [f"jobs.a.deadline={tomorrow}", "now=2020-01-01 00:00 UTC"])
    assert later.jobs[0].deadline_hours > 50_000
    assert change_scenario(scenario, ["limits.budget_usd=5"]).jobs == scenario.jobs


@pytest.mark.parametrize(
    ("deadline", "now", "told"),
    [
        ("2026-11-21 09:00 UTC", "now: 2026-11-23 19:00 UTC\n", "2026-11-21 09:00 UTC is over; give a later day"),
        ("2026-13-45 09:00", "", "is not a day and time; write 2026-12-01 09:00"),
        ("2026-11-25 09:00 Mars/Olympus", "", "is not a day and time"),
        ("2026-11-25 09:00 UTC", "now: tomorrow\n", "now: 'tomorrow' is not a day and time"),
    ],
)
def test_a_wrong_day_is_a_fault(deadline: str, now: str, told: str) -> None:
    """Past, impossible, in an unknown zone, or counted from something that is no time."""
    with pytest.raises(ScenarioError) as caught:
        dated(deadline, now)
    assert told in str(caught.value)


def test_an_unknown_inventory_names_the_shipped_one() -> None:
    """The fault says what needs no file."""
    with pytest.raises(ScenarioError, match="or market for the shipped prices"):
        parse_scenario(f"inventory: prices.yaml\njobs: [{JOB}]")


@pytest.mark.parametrize(
    ("written", "most"), [("spot: false", 0), ("spot: true", 1), ("{spot: true, spot_share: {max: 0}}", 1)]
)
def test_spot_is_a_plain_word_for_its_share(written: str, most: float) -> None:
    """`spot: false` is `spot_share: {max: 0}`; a later `spot=true` takes that back."""
    limits = written if written.startswith("{") else f"{{{written}}}"
    assert parse_scenario(f"jobs: [{JOB}]\nlimits: {limits}").limits.spot_share.max == most
    without = parse_scenario(f"jobs: [{JOB}]\nlimits: {{spot: false}}")
    assert without == parse_scenario(f"jobs: [{JOB}]\nlimits: {{spot_share: {{max: 0.0}}}}")
    assert change_scenario(without, ["limits.spot=true"]).limits.spot_share.max == 1


@pytest.mark.parametrize("share", ["min: 0.5", "max: 1"])
def test_spot_that_is_forbidden_and_asked_for_is_a_fault(share: str) -> None:
    """The two keys must agree."""
    with pytest.raises(
        ScenarioError, match=rf"spot is forbidden, and spot_share\.{share.replace(': ', ' is ')}; keep one"
    ):
        parse_scenario(f"jobs: [{JOB}]\nlimits: {{spot: false, spot_share: {{{share}}}}}")


def test_a_share_that_is_set_where_spot_is_forbidden_is_a_fault() -> None:
    """A setting that changes nothing is not taken without a word."""
    with pytest.raises(ScenarioError, match="spot is forbidden"):
        parse_scenario(f"jobs: [{JOB}]\nlimits: {{spot: false}}", set_=["limits.spot_share.max=1"])


def test_a_name_that_is_no_text_is_a_fault_beside_a_job_without_one() -> None:
    """Names of jobs are filled in before they are checked."""
    other = "{architecture: gpt2-xl, work: {tokens: 1e6}, sequence_length: 512, global_batch: 8}"
    with pytest.raises(ScenarioError, match=r"jobs\.0\.name"):
        parse_scenario(f"jobs: [{{name: [a], architecture: gpt2-xl, work: {{tokens: 1e6}}}}, {other}]")


def test_an_image_of_one_pixel_is_a_fault() -> None:
    """No network of images can train on it, and its work would be none."""
    job = "{architecture: stable-diffusion-1.5, work: {images: 100, resolution: 1}, global_batch: 8}"
    with pytest.raises(ScenarioError, match=r"jobs\.0\.work\.resolution.*64"):
        parse_scenario(f"jobs: [{job}]")


NIGHTS = "{from: 2026-11-20 20:00 UTC, to: 2026-11-21 08:00 UTC, every: 24h}"
PAST = "{from: 2026-11-20 20:00 UTC, to: 2026-11-21 08:00 UTC}"
TONIGHT = "{from: 2026-11-23 20:00 UTC, to: 2026-11-24 08:00 UTC}"


def with_windows(windows: str, now: str) -> Scenario:
    """One job that was released days ago, and a machine with windows."""
    own = "{provider: lab, gpu: RTX4090, gpus: 1, stock: 1, own: {power_watts: 400, usd_per_kwh: 0.3}"
    job = "{name: a, architecture: mistral-7b, work: {tokens: 1M}, release: 2026-11-20 08:00 UTC}"
    return parse_scenario(f"now: {now}\njobs: [{job}]\noffers: [{own}, available: [{windows}]}}]\n")


@pytest.mark.parametrize(
    ("windows", "now", "left"),
    [
        (NIGHTS, "2026-11-23 23:00 UTC", [(0, 9, None), (21, 33, 24)]),
        (NIGHTS, "2026-11-23 12:00 UTC", [(8, 20, 24)]),
        (NIGHTS, "2026-11-24 08:00 UTC", [(12, 24, 24)]),
        (f"{PAST}, {TONIGHT}", "2026-11-23 23:00 UTC", [(0, 9, None)]),
        (TONIGHT, "2026-11-23 18:00 UTC", [(2, 14, None)]),
    ],
)
def test_windows_that_have_begun_are_open_for_the_rest(windows: str, now: str, left: list[tuple[float, ...]]) -> None:
    """Of nights since last week, the rest of this one and those that follow; the job may start at once."""
    scenario = with_windows(windows, now)
    found = [(one.from_hours, one.to_hours, one.every_hours) for one in scenario.offers[0].available]
    assert found == left and scenario.jobs[0].release_hours == 0


def test_windows_that_are_all_over_are_one_fault() -> None:
    """It names the offer."""
    with pytest.raises(ScenarioError) as caught:
        with_windows(PAST, "2026-11-23 23:00 UTC")
    assert [str(one) for one in caught.value.faults] == [
        "scenario:3: offers.0.available: every window is over; "
        "give a later one, or set now (--now) to the day on which the job may start"
    ]
