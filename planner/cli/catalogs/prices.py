"""`prices`: the price book, which `inventory: [prices]` plans with."""

from __future__ import annotations

import datetime

import click

from planner.cli.catalogs.import_offers import date_option, provider_option
from planner.cli.exit_codes import ListGroup
from planner.cli.options import as_of_date, json_option
from planner.cli.output import show, write_either


@click.group(cls=ListGroup)
def prices() -> None:
    """Store prices, and show how they change.

    Prices are kept for 90 days in the user's cache folder. A scenario uses
    the newest of each provider with inventory: [prices]; planning never
    fetches any.

    Try: planner prices update --offline offers.csv
    """


@prices.command("update")
@click.option("--offline", "file", metavar="FILE", help="CSV file of offers, gpuhunt catalog or SkyPilot's vms.csv.")
@provider_option
@date_option
@click.option("--force", is_flag=True, help="Store also older prices, and where over half of the offers are gone.")
@json_option
def update(file: str | None, provider: str | None, date: datetime.datetime | None, force: bool, as_json: bool) -> None:
    """Store the prices of a file, and print what changed.

    A file with a fault is not stored: the old prices stand.
    """
    from planner.catalogs.catalog import read_catalog
    from planner.catalogs.price_book import update_book
    from planner.catalogs.summary import summary_of
    from planner.report.catalog import changes_text, import_text
    from planner.results.prices import BookUpdate

    if file is None:
        what = "give --offline FILE: prices are read from files and not fetched"
        raise click.UsageError(what, click.get_current_context())
    catalog = read_catalog(file, provider, date.date() if date else None)
    summary = summary_of(catalog)
    if not as_json:
        show(import_text(summary), err=True)
    source = f"{summary.kind} {summary.file}"
    changes = update_book(catalog.offers, source, datetime.datetime.now().astimezone(), force)
    result = BookUpdate(read=summary, changes=changes)
    write_either(as_json, result.model_dump(mode="json"), lambda _: changes_text(changes))


@prices.command("list")
@as_of_date
@json_option
def prices_list(as_of: datetime.datetime | None, as_json: bool) -> None:
    """List the newest prices of each provider, with their age."""
    from planner.catalogs.price_book import stored_prices
    from planner.loading.price_book import FILL_BOOK
    from planner.report.catalog import STORED_COLUMNS, table

    found = stored_prices(as_of.date() if as_of else datetime.date.today())
    why = "" if found else f"no prices are stored; {FILL_BOOK}"
    write_either(as_json, [one.model_dump(mode="json") for one in found], lambda _: why or table(STORED_COLUMNS, found))


@prices.command("diff")
@click.option("--provider", metavar="NAME", help="Only this provider.")
@click.option("--from", "before", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Earlier day.")
@click.option("--to", "after", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Later day [the newest].")
@json_option
def diff(
    provider: str | None, before: datetime.datetime | None, after: datetime.datetime | None, as_json: bool
) -> None:
    """Show what is new, gone and of another price between two days."""
    from planner.catalogs.price_book import book_changes
    from planner.report.catalog import changes_text

    days = (one.date() if one else None for one in (before, after))
    found = book_changes(provider, *days)
    write_either(as_json, [one.model_dump(mode="json") for one in found], lambda _: changes_text(found))


@prices.command("prune")
@as_of_date
def prune(as_of: datetime.datetime | None) -> None:
    """Remove prices of more than 90 days ago, but for the newest of each provider."""
    from planner.catalogs.price_book import prune_book

    removed = prune_book(as_of.date() if as_of else datetime.date.today())
    show(f"{removed} file{'' if removed == 1 else 's'} removed")
