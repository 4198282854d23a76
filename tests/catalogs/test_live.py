"""Prices of today by hand-written answers: what is stored, what is not, and how long it takes; never the network."""

from __future__ import annotations

import datetime
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.catalogs.live import update_from_providers
from planner.errors import InputError
from planner.loading.price_files import read_price_book
from planner.results.market_results import ProviderUpdate
from tests.helpers.catalogs import gpuhunt_row
from tests.helpers.providers import CATALOGS, VAST_URL, catalog_zip, vast_answer, vast_offer

pytest.importorskip("gpuhunt")
responses = pytest.importorskip("responses")

NOW = datetime.datetime.now().astimezone()
TODAY = NOW.date()
OLD = NOW - datetime.timedelta(3)


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty price book."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", CATALOGS)
    for name in ("VULTR_API_KEY", "CRUSOE_ACCESS_KEY", "DIGITAL_OCEAN_API_KEY", "HOTAISLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "book"


@pytest.fixture
def web() -> Iterator[Any]:
    """Answer every request; one that no test expects cannot be reached."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def publish(web: Any, provider: str, version: str, *rows: str) -> None:
    web.get(f"{CATALOGS}/{provider}/version", body=version)
    web.get(f"{CATALOGS}/{provider}/{version}/catalog.zip", body=catalog_zip(provider, *rows))


def update(*providers: str, now: datetime.datetime = NOW, **options: Any) -> dict[str, ProviderUpdate]:
    found = update_from_providers(providers, now, **{"timeout_seconds": 20.0, **options})
    return {one.provider: one for one in found.providers}


def stored() -> dict[str, tuple[float | None, float | None]]:
    """Return both prices of each instance that a scenario would get."""
    return {one.instance: (one.usd_per_hour, one.spot_usd_per_hour) for _, found in read_price_book() for one in found}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


def test_a_published_catalog_and_a_marketplace_fill_the_book(web: Any) -> None:
    """The day is that of the catalog's version, or today; both prices of a machine are in one offer."""
    rows = (gpuhunt_row("p5", "H100", "80.0", "55"), gpuhunt_row("p5", "H100", "80.0", "20", "True"))
    publish(web, "aws", "20261120-301", *rows, gpuhunt_row("cpu", "", ""))
    web.post(VAST_URL, body=vast_answer(vast_offer(7), vast_offer(8, gpu_name="RTX 9999")))
    found = update("aws", "vastai")
    assert stored() == {"p5": (55.0, 20.0), "7": (0.8, 0.3)}
    aws, vast = found["aws"], found["vast"]
    assert aws.changes is not None and aws.read is not None and vast.read is not None and vast.changes is not None
    assert (aws.changes.after, vast.changes.after) == (datetime.date(2026, 11, 20), datetime.date.today())
    assert [(one.reason, one.rows) for one in aws.read.left_out] == [("no GPU", 1)]
    assert [one.rows for one in vast.read.left_out] == [2]  # on demand and on spot
    (source,) = {offer.source for _, offers in read_price_book(["aws"]) for offer in offers}
    assert source == "gpuhunt catalog, aws, aws.csv"


def test_the_same_version_is_not_fetched_again(web: Any) -> None:
    """The version says whether anything is newer; --force fetches all the same."""
    publish(web, "aws", "20261120-301", gpuhunt_row("a"))
    update("aws")
    second = update("aws")["aws"]
    assert (second.changes, second.why_not, str(second.stands)) == (None, "", "2026-11-20")
    assert [call.request.url.rpartition("/")[2] for call in web.calls] == ["version", "catalog.zip", "version"]
    assert update("aws", force=True)["aws"].changes is not None


FAILURES = [
    ({"status": 500}, "it answered 500"),
    ({"status": 429}, "it answered 429 (too many requests)"),
    ({"status": 401}, "it answered 401"),
    ({"body": "<html>maintenance</html>"}, "its answer is no JSON: cut off, or a web page"),
    ({"body": vast_answer(vast_offer(1))[:-30]}, "its answer is no JSON"),
    ({"body": "[]"}, "its answer has another form (TypeError"),
    ({"body": '{"results": []}'}, "its answer has another form (KeyError: 'offers')"),
    ({"body": vast_answer()}, "it answered without any offer"),
    ({"body": vast_answer(vast_offer(1, dph_base=float("nan")))}, "'nan' is not a finite number"),
    ({"body": vast_answer(vast_offer(1, dph_base=-1.0, min_bid=None))}, "-1.0 is negative"),
    ({"body": vast_answer(vast_offer(1, gpu_name="RTX 9999"))}, "no row is an offer: 2 unknown GPU RTX9999"),
]


@pytest.mark.parametrize(("answer", "told"), FAILURES)
def test_a_provider_that_fails_keeps_its_old_prices_and_says_so(
    web: Any, book: Path, answer: dict[str, Any], told: str
) -> None:
    """The others are updated; every stored byte of it is as it was."""
    publish(web, "aws", "20261120-301", gpuhunt_row("a"))
    good = web.post(VAST_URL, body=vast_answer(vast_offer(7)))
    update("vast")
    before = content(book)
    web.replace(good.method, VAST_URL, **answer)
    found = update("aws", "vast", now=NOW + datetime.timedelta(3))
    assert found["aws"].changes is not None
    assert told in found["vast"].why_not
    assert (found["vast"].stands, found["vast"].age_days) == (datetime.date.today(), 3)
    assert {path: text for path, text in content(book).items() if "/vast/" in path} == before
    assert stored()["7"] == (0.8, 0.3)


@pytest.mark.parametrize(
    ("packed", "told"),
    [
        (catalog_zip("aws", gpuhunt_row("a"))[:-40], "its catalog is no zip file"),
        (b"<html>", "its catalog is no zip file"),
        (catalog_zip("azure", gpuhunt_row("a")), "its catalog has no aws.csv"),
        (catalog_zip("aws", gpuhunt_row("a")[:20]), "the file may be cut off"),
        (catalog_zip("aws"), "has a header and no rows"),
        (catalog_zip("aws", gpuhunt_row("a", price="1,5".join('""'))), "'1,5' is not a number"),
    ],
    ids=["cut zip", "web page", "other provider", "cut row", "no rows", "decimal comma"],
)
def test_a_published_catalog_that_is_none_is_not_stored(web: Any, packed: bytes, told: str) -> None:
    """Cut off, empty, of another provider, in another currency's notation."""
    web.get(f"{CATALOGS}/aws/version", body="20261120-301")
    web.get(f"{CATALOGS}/aws/20261120-301/catalog.zip", body=packed)
    with pytest.raises(InputError, match=r"aws: not updated: .*none are stored") as error:
        update("aws")
    assert told in str(error.value)


def test_an_address_of_a_file_and_a_version_that_is_none(web: Any) -> None:
    """A page in place of the version must not become a part of an address."""
    web.get(f"{CATALOGS}/aws/version", body="<html>sign in</html>")
    with pytest.raises(InputError, match="its version is none: '<html>sign in</html>'"):
        update("aws")


def test_a_provider_that_is_silent_costs_its_timeout_and_no_more(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are asked at once, so that two silent ones take as long as one."""
    release = threading.Event()

    def silent(_: Any) -> tuple[int, dict[str, str], str]:
        release.wait(300)  # far longer than the test takes
        return 200, {}, vast_answer()

    web.add_callback("POST", VAST_URL, silent)
    web.add_callback("GET", f"{CATALOGS}/gcp/version", silent)
    publish(web, "aws", "20261120-301", gpuhunt_row("a"))
    # The clock is read when all begin and before each wait: the limit is over once the first provider has answered.
    clock = itertools.chain([0.0, 0.0], itertools.repeat(100.0))
    monkeypatch.setattr("planner.catalogs.live.time", SimpleNamespace(monotonic=clock.__next__))
    found = update("aws", "vast", "gcp", timeout_seconds=100.0)
    assert not release.is_set()
    release.set()
    assert (found["vast"].why_not, found["gcp"].why_not) == ("no answer within 100 s", "no answer within 100 s")
    assert found["aws"].changes is not None


def test_without_a_network_one_message_says_what_to_do(web: Any) -> None:
    """Not one for each provider; of a single one the host that cannot be reached."""
    with pytest.raises(InputError) as error:
        update("aws", "vast")
    (fault,) = error.value.faults
    assert str(fault).startswith("prices update: none of the 2 providers can be reached; check the network, or read")
    with pytest.raises(InputError, match=r"vast: not updated: console\.vast\.ai cannot be reached; none are stored"):
        update("vast")


def test_a_loss_of_more_than_half_of_the_offers_needs_force(web: Any) -> None:
    """Of one provider; the others are stored."""
    four = web.post(VAST_URL, body=vast_answer(*(vast_offer(number) for number in range(4))))
    update("vast")
    web.replace(four.method, VAST_URL, body=vast_answer(vast_offer(1)))
    publish(web, "aws", "20261120-301", gpuhunt_row("a"))
    found = update("aws", "vast")
    assert "only 1 for vast after 4 offers" in found["vast"].why_not
    assert "more than half are gone; check the file; --force" in found["vast"].why_not
    assert len(stored()) == 5
    assert update("vast", force=True)["vast"].changes is not None
    assert stored().keys() == {"a", "1"}


def test_without_names_all_that_need_no_key_are_asked(web: Any) -> None:
    """One whose key is missing is not a failure; asked for by name it is."""
    publish(web, "aws", "20261120-301", gpuhunt_row("a"))
    found = update()
    assert {"aws", "gcp", "azure", "lambda", "runpod", "vast", "vultr"} <= found.keys()
    assert not found.keys() & {"crusoe-cloud", "digitalocean", "jarvis-labs"}
    assert found["gcp"].why_not == "catalogs.test cannot be reached"
    with pytest.raises(InputError, match=r"digitalocean: not updated: Set the .* environment variable"):
        update("digitalocean")


def test_names_that_gpuhunt_does_not_know_are_told_with_what_was_meant() -> None:
    """Nothing is asked then."""
    with pytest.raises(InputError, match="lamda: gpuhunt has no prices of this provider; did you mean lambda"):
        update("aws", "lamda")
    with pytest.raises(InputError, match="the nearest are verda, digitalocean, runpod; others: --offline FILE"):
        update("tensordock-like")


def test_a_folder_of_files_is_a_source_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpuhunt's own variable may name one, which needs no network."""
    folder = tmp_path / "published" / "aws" / "20261121"
    folder.mkdir(parents=True)
    (folder.parent / "version").write_text("20261121\n")
    (folder / "catalog.zip").write_bytes(catalog_zip("aws", gpuhunt_row("a")))
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"file://{tmp_path}/published")
    update("aws")
    assert stored() == {"a": (1.0, None)}
