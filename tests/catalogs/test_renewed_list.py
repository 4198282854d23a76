"""A list that is renewed from a folder of catalogs, whose rows are the shipped ones, plans as the shipped list does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from planner.catalogs.catalog import offers_text
from planner.cli import main
from planner.cli.catalog_command import read_market
from planner.documents.files import parse_document
from planner.documents.tables import parse_csv
from planner.errors import Fault
from planner.loading.price_files import offer_table_text, read_offer_table, read_offers
from planner.loading.scenario_file import read_scenario, shipped_scenarios
from planner.scenario.offer import Offer
from tests.helpers.shipped_catalogs import write_shipped_catalogs

AS_OF = "2026-11-28"
PLANNED = (
    *("quickstart", "infeasible", "spot-heavy", "three-jobs-one-budget", "bill-aws-adapter", "bill-runpod-trials"),
    *("own-or-api", "batch-under-deadline", "many-adapters"),
)
"""Scenarios of each structure: one job, no plan, spot, several jobs, whole bills, generation, open choice, service."""
ON_SPOT = ("quickstart", "spot-heavy")
"""Those that are planned with spot markets, whose prices and zones are compared in every scenario."""


def _on_the_market() -> list[str]:
    """Return the shipped scenarios that are planned on the shipped list."""
    found = []
    for name, path in shipped_scenarios().items():
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        named = data.get("inventory", [] if data.get("offers") else ["market"])
        if "market" in ([named] if isinstance(named, str) else named):
            found.append(name)
    return found


@pytest.fixture(scope="module")
def renewed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Fill a price book from catalogs in SkyPilot's form that have the rows of the shipped list."""
    folder = tmp_path_factory.mktemp("renewed")
    with pytest.MonkeyPatch.context() as patch:
        for package in ("catalogs.live", "loading.price_files"):
            patch.setattr(f"planner.{package}.book_folder", lambda: folder / "book")
        write_shipped_catalogs(folder / "catalogs", read_market(None))
        words = ["prices", "update", "--offline", str(folder / "catalogs"), "--date", "2026-11-09"]
        result = CliRunner().invoke(main, [*words, "-o", str(folder / "list.yaml")])
        assert result.exit_code == 0, result.output
        yield folder


def _plan(name: str, *options: str) -> Any:
    result = CliRunner().invoke(main, ["solve", name, "--as-of", AS_OF, "--json", *options])
    assert result.exit_code in (0, 3), result.output
    plan = json.loads(result.stdout)
    return [_machines(job) for job in plan.get("jobs", [])] or plan["status"]


def _machines(job: dict[str, Any]) -> tuple[Any, ...]:
    """Return where a job or the fleet of a service runs and what it costs to a cent."""
    places = job["fleet"]["kinds"] if "fleet" in job else [job]
    return (*map(_machine, places), round(job["cost_usd"], 2))


def _machine(place: dict[str, Any]) -> tuple[Any, ...]:
    """Return a kind of machine; an instance of RunPod without the tier in its name."""
    instance = str(place["instance"]).removesuffix("_SECURE").removesuffix("_COMMUNITY")
    return (*(place[key] for key in ("provider", "region", "gpu", "gpus")), instance, place.get("replicas"))


def test_a_written_list_is_read_as_it_was() -> None:
    """As YAML every shipped offer, as CSV what is rented by the hour: terms, zones and commitments too."""
    offers = read_market(None)
    faults: list[Fault] = []
    text = offers_text(offers, "list.yaml", "a test")
    assert read_offers(parse_document(text, "list.yaml"), faults) == offers and not faults
    hourly = [one for one in offers if one.rents_gpus and one.tier in ("secure", "community") and one.dates is None]
    _, read = read_offer_table(parse_csv(offer_table_text(hourly), "list.csv"), faults)
    assert [one.model_dump() for one in read] == [one.model_dump() for one in hourly] and not faults


def _facts(offers: Iterable[Offer]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return what a plan is made of, by the place of each offer; spot prices of a catalog have four digits."""
    apart = ("date", "dates", "source", "notes", "stock_status", "instance", "spot_usd_per_hour", "zones")
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for offer in offers:
        instance = offer.instance.removesuffix("_SECURE").removesuffix("_COMMUNITY")
        data = {key: value for key, value in offer.model_dump().items() if key not in apart}
        spot = {"spot": pytest.approx(offer.spot_usd_per_hour, abs=1e-4), "zones": offer.zones}
        found[offer.provider, offer.region, instance] = data | (spot if offer.has_spot else {})
    return found


@pytest.mark.slow
def test_a_renewed_list_has_the_facts_of_the_shipped_one(renewed: Path) -> None:
    """Terms, links, hosts, zones and most machines come from the library; prices of no discount are left out."""
    assert _facts(read_market(str(renewed / "list.yaml"))) == _facts(read_market(None))


@pytest.mark.slow
@pytest.mark.parametrize("name", _on_the_market())
def test_a_scenario_has_the_same_offers_on_a_renewed_list(renewed: Path, name: str) -> None:
    """With all that a plan is made of, in every shipped scenario."""
    offers = _facts(read_scenario(name, ["inventory=[prices]"]).offers)
    assert offers and offers == _facts(read_scenario(name).offers)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PLANNED)
def test_a_renewed_list_plans_the_same_machine_at_the_same_cost(renewed: Path, name: str) -> None:
    """To a cent, in a shipped scenario of each structure; the others have the same offers."""
    spot = ("--set", f"limits.spot={str(name in ON_SPOT).lower()}")
    assert _plan(name, "--set", "inventory=[prices]", *spot) == _plan(name, *spot)
