"""The price book's writer: what changed, what is refused, and that the old prices stand whatever happens."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from planner.catalogs import live as price_book
from planner.catalogs.live import book_changes, prune_book, stored_prices, update_book
from planner.errors import InputError
from planner.loading.price_files import book_folder, read_price_book
from planner.scenario.offer import Offer

NOW = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)
DAY = datetime.date(2026, 11, 20)
LATER = datetime.date(2026, 11, 21)


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty price book."""
    monkeypatch.setattr("planner.catalogs.live.book_folder", lambda: tmp_path / "prices")
    monkeypatch.setattr("planner.loading.price_files.book_folder", lambda: tmp_path / "prices")
    return tmp_path / "prices"


def offers(prices: dict[str, float], day: datetime.date = DAY, provider: str = "p", **others: Any) -> list[Offer]:
    """Return an offer per instance."""
    return [
        Offer(provider=provider, instance=name, gpu="L4", gpus=1, usd_per_hour=price, date=day, source="s", **others)
        for name, price in prices.items()
    ]


def stored() -> dict[str, float | None]:
    """Return the prices that a scenario would get."""
    return {one.instance: one.usd_per_hour for _, found in read_price_book() for one in found}


def refused(*arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        update_book(*arguments)
    (fault,) = error.value.faults
    return str(fault)


def test_an_update_tells_what_is_new_gone_and_moved() -> None:
    """The largest relative move first; a market that came or went above all."""
    (first,) = update_book(offers({"a": 1.0, "b": 2.0, "c": 3.0}), "file", NOW)
    assert (first.before, first.rows_after, first.new) == (None, 3, ("p/any/a", "p/any/b", "p/any/c"))
    update = [*offers({"a": 1.1, "b": 1.0, "d": 4.0}, LATER)]
    update[1] = update[1].model_copy(update={"spot_usd_per_hour": 0.5})
    (second,) = update_book(update, "file", NOW)
    assert (second.before, second.after, second.rows_before, second.rows_after) == (DAY, LATER, 3, 3)
    assert (second.new, second.gone) == (("p/any/d",), ("p/any/c",))
    assert [(one.offer, one.market, one.before_usd_per_hour, one.after_usd_per_hour) for one in second.moved] == [
        ("p/any/b", "spot", None, 0.5),
        ("p/any/b", "on demand", 2.0, 1.0),
        ("p/any/a", "on demand", 1.0, 1.1),
    ]
    assert stored() == {"a": 1.1, "b": 1.0, "d": 4.0}


def test_the_list_of_days_says_source_time_rows_and_hash(book: Path) -> None:
    """One file per provider and day."""
    update_book([*offers({"a": 1.0}), *offers({"b": 1.0, "c": 2.0}, LATER, "q")], "vms.csv", NOW)
    assert sorted(path.relative_to(book).as_posix() for path in book.rglob("*.*")) == [
        *("p/2026-11-20.csv", "p/meta.json", "q/2026-11-21.csv", "q/meta.json")
    ]
    (day,) = json.loads((book / "q" / "meta.json").read_text())["days"].values()
    assert (day["source"], day["stored"], day["rows"]) == ("vms.csv", "2026-11-22T12:00:00+00:00", 2)
    assert len(day["sha256"]) == 64
    shown = {one.provider: (one.date, one.age_days, one.rows) for one in stored_prices(NOW.date())}
    assert shown == {"p": (DAY, 2, 1), "q": (LATER, 1, 2)}


def test_a_loss_of_more_than_half_of_the_offers_needs_force() -> None:
    """Half a file looks like that; half of the offers may go."""
    update_book(offers({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}), "file", NOW)
    less = offers({"a": 9.0}, LATER)
    assert refused(less, "half.csv", NOW) == (
        "half.csv: only 1 for p after 4 offers of 2026-11-20: more than half are gone; check the file; "
        "--force stores it all the same"
    )
    assert len(stored()) == 4
    update_book(offers({"a": 1.0, "b": 2.0}, LATER), "file", NOW)
    assert len(stored()) == 2
    update_book(offers({"x": 1.0}, LATER), "file", NOW, force=True)
    assert stored() == {"x": 1.0}


def test_a_history_of_spot_prices_needs_force_to_replace_prices_on_demand() -> None:
    """As many offers as before, and none of them can be had on demand."""
    update_book(offers({"a": 1.0, "b": 2.0}), "file", NOW)
    on_spot = [
        offer.model_copy(update={"usd_per_hour": None, "spot_usd_per_hour": 0.5})
        for offer in offers({"a": 1.0, "b": 2.0}, LATER)
    ]
    assert "only 0 for p after 2 prices on demand of 2026-11-20: more than half are gone" in refused(
        on_spot, "file", NOW
    )
    assert stored() == {"a": 1.0, "b": 2.0}


def test_one_provider_that_is_refused_keeps_all_others_from_being_stored() -> None:
    """An update is stored whole or not at all."""
    update_book(offers({"a": 1.0, "b": 2.0, "c": 3.0}), "file", NOW)
    both = [*offers({"n": 1.0}, LATER, "new"), *offers({"a": 1.0}, LATER)]
    assert "more than half are gone" in refused(both, "file", NOW)
    assert [one.provider for one in stored_prices(NOW.date())] == ["p"]


@pytest.mark.parametrize(
    ("day", "provider", "told"),
    [
        (datetime.date(2025, 11, 20), "p", "prices of p of 2025-11-20, older than those stored of 2026-11-20"),
        (datetime.date(2027, 1, 1), "p", "prices of 2027-01-01, which is to come"),
        (DAY, "../p", "'../p' cannot name a folder of the price book"),
        (DAY, "a/b", "'a/b' cannot name a folder of the price book"),
    ],
)
def test_prices_of_last_year_of_the_future_and_odd_names_are_refused(
    day: datetime.date, provider: str, told: str, book: Path
) -> None:
    """Prices of the future would be the newest for ever; a name must not lead out of the folder."""
    update_book(offers({"a": 1.0}), "file", NOW)
    assert told in refused(offers({"a": 2.0}, day, provider), "file", NOW)
    assert stored() == {"a": 1.0}
    assert [path.name for path in book.parent.iterdir()] == ["prices"]


@pytest.mark.parametrize("write", [1, 2, 3])
def test_an_update_that_is_interrupted_leaves_prices_that_can_be_read(
    write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any of the files that it writes; of a new day, and of one that is stored already."""
    update_book(offers({"a": 1.0}), "file", NOW)
    calls: list[Path] = []
    plain = price_book.write_text_atomically

    def failing(path: Path, text: str) -> None:
        calls.append(path)
        if len(calls) == write:
            raise KeyboardInterrupt
        plain(path, text)

    for day in (LATER, DAY):
        calls.clear()
        monkeypatch.setattr(price_book, "write_text_atomically", failing)
        try:
            update_book(offers({"a": 2.0}, day), "file", NOW, force=True)
        except KeyboardInterrupt:
            assert len(calls) == write
        monkeypatch.setattr(price_book, "write_text_atomically", plain)
        assert stored().keys() == {"a"} and stored()["a"] in (1.0, 2.0)


def test_prices_that_were_changed_by_hand_or_cut_off_are_not_used(book: Path) -> None:
    """The hash tells; storing again with force repairs."""
    update_book(offers({"a": 1.0, "b": 2.0}), "file", NOW)
    path = book / "p" / "2026-11-20.csv"
    path.write_text(path.read_text()[:-10])
    with pytest.raises(InputError, match=r"2026-11-20\.csv: is not what was stored: it was changed or cut off"):
        read_price_book()
    with pytest.raises(InputError):
        update_book(offers({"a": 1.0}, LATER), "file", NOW)
    update_book(offers({"a": 1.0}), "file", NOW, force=True)
    assert stored() == {"a": 1.0}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"days": {"soon": {}}}', '{"days": {"2026-11-20": {"rows": -1}}}'])
def test_a_list_of_days_that_is_damaged_is_told_with_its_file(book: Path, text: str) -> None:
    """It is repaired by storing again."""
    update_book(offers({"a": 1.0}), "file", NOW)
    (book / "p" / "meta.json").write_text(text)
    with pytest.raises(InputError, match=r"meta\.json"):
        read_price_book()
    update_book(offers({"a": 2.0}), "file", NOW, force=True)
    assert stored() == {"a": 2.0}


def test_prices_are_kept_for_ninety_days_and_the_newest_for_ever(book: Path) -> None:
    """What an update leaves, `prune` leaves too."""
    for days in (200, 91, 90, 1):
        day = NOW.date() - datetime.timedelta(days)
        update_book(offers({"a": 1.0}, day), "file", datetime.datetime.combine(day, NOW.timetz()))
    kept = [path.stem for path in sorted((book / "p").glob("*.csv"))]
    assert kept == ["2026-08-23", "2026-08-24", "2026-11-21"]  # the update came a day before the first was too old
    assert prune_book(NOW.date()) == 1
    assert prune_book(datetime.date(2030, 1, 1)) == 1
    assert [path.stem for path in (book / "p").glob("*.csv")] == ["2026-11-21"]
    assert stored() == {"a": 1.0}


def test_two_days_are_compared_and_one_is_not() -> None:
    """The two newest, or those up to the days that are asked for."""
    for day, price in ((18, 1.0), (20, 2.0), (21, 3.0)):
        update_book(offers({"a": price}, datetime.date(2026, 11, day)), "file", NOW)
    update_book(offers({"a": 1.0}, DAY, "one-day"), "file", NOW)
    (newest,) = book_changes()
    assert (newest.before, newest.after, newest.moved[0].after_usd_per_hour) == (DAY, LATER, 3.0)
    (asked,) = book_changes("p", datetime.date(2026, 11, 19), DAY)
    assert (str(asked.before), str(asked.after)) == ("2026-11-18", "2026-11-20")
    with pytest.raises(InputError, match="no two days of one-day are stored"):
        book_changes("one-day")


def test_the_book_lies_in_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be deleted without loss of anything but prices."""
    monkeypatch.undo()
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: Path("/cache") / name)
    assert book_folder() == Path("/cache/finetune-planner/prices")
