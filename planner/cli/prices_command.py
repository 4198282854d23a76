"""`prices`: the price book, which `inventory: [prices]` plans with."""

from __future__ import annotations

import datetime
from typing import Any

import click

from planner.cli.catalog_command import date_option, provider_option
from planner.cli.options import Day, as_of_date, json_option
from planner.cli.output import ListGroup, show, write_either


@click.group(cls=ListGroup)
def prices() -> None:
    """Store prices, and show how they change.

    Prices are kept for 90 days in the user's cache folder. A scenario uses
    the newest of each provider with inventory: [prices]; planning never
    fetches any.

    Try: planner prices update --provider vast
    """


@prices.command("update")
@click.option("--offline", "file", metavar="FILE", help="File of prices, as planner offers import reads it.")
@click.option(
    "--provider",
    "providers",
    metavar="NAME",
    multiple=True,
    help="Only this provider, repeatable; with --offline whose prices they are, where the file does not say.",
)
@date_option
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=60.0, help="Longest wait for a provider [60 s].")
@click.option("-o", "--output", "path", metavar="FILE", help="Write the newest stored offers to FILE, YAML or .csv.")
@click.option("--force", is_flag=True, help="Store also older prices, and where over half of the offers are gone.")
@json_option
def update(path: str | None, as_json: bool, **given: Any) -> None:
    """Fetch prices of today, or read those of a file, and print what changed.

    Prices are fetched with the package gpuhunt: the catalogs that it
    publishes, and providers that it asks. A provider that fails keeps its
    old prices, and the answer says how old they are. A file or an answer
    with a fault is not stored.

    Try: planner prices update --provider vast --provider aws
    """
    from planner.documents.files import check_writable

    if given["file"] == "":
        raise click.UsageError("--offline names no file: give its path", click.get_current_context())
    if path is not None:
        check_writable(path)
    update_from = _update_from_providers if given["file"] is None else _update_from_file
    names = update_from(as_json, path=path, **given)
    if path is not None:
        _write_newest(path, names)


def _update_from_file(
    as_json: bool,
    file: str,
    path: str | None,
    providers: tuple[str, ...],
    date: datetime.datetime | None,
    force: bool,
    timeout: float,
) -> list[str]:
    """Store the prices of a file, and return whose they are; `InputError` where they are to be written over it."""
    from planner.catalogs.catalog import read_catalog, summary_of
    from planner.catalogs.price_updates import update_book
    from planner.documents.files import check_unread
    from planner.report.catalog_text import changes_text, import_text
    from planner.results.market_results import BookUpdate

    del timeout  # a file is there or not
    if len(providers) > 1:
        raise click.UsageError("--offline takes one --provider", click.get_current_context())
    catalog = read_catalog(file, providers[0] if providers else None, date.date() if date else None)
    if path is not None:
        check_unread(path)
    summary = summary_of(catalog)
    if not as_json:
        show(import_text(summary), err=True)
    source = f"{summary.kind} {summary.file}"
    changes = update_book(catalog.offers, source, datetime.datetime.now().astimezone(), force)
    result = BookUpdate(read=summary, changes=changes)
    write_either(as_json, result.model_dump(mode="json"), lambda _: changes_text(changes))
    return [change.provider for change in changes]


def _update_from_providers(
    as_json: bool,
    providers: tuple[str, ...],
    date: datetime.datetime | None,
    force: bool,
    timeout: float,
    file: None = None,
    path: str | None = None,
) -> list[str]:
    """Store what providers sell today, and return which were asked; there is no file."""
    del file, path  # nothing was read that the answer could replace
    from planner.catalogs.live import update_from_providers
    from planner.report.catalog_text import import_text, update_text

    if date is not None:
        what = "--date is for --offline: what is fetched is of today"
        raise click.UsageError(what, click.get_current_context())
    result = update_from_providers(providers, datetime.datetime.now().astimezone(), force, timeout)
    for provider in result.providers:
        if provider.read is not None and not as_json:
            show(import_text(provider.read), err=True)
    write_either(as_json, result.model_dump(mode="json"), lambda _: update_text(result))
    return [provider.provider for provider in result.providers]


def _write_newest(path: str, providers: list[str]) -> None:
    """Write the newest stored offers of providers as an inventory."""
    from planner.catalogs.catalog import offers_text
    from planner.documents.files import check_unread, write_text_atomically
    from planner.loading.price_files import read_price_book

    offers = [offer for _, found in read_price_book(providers) for offer in found]
    check_unread(path)
    write_text_atomically(path, offers_text(offers, path, "planner prices update"))


@prices.command("check")
@click.argument("files", nargs=-1, required=True)
@provider_option
@json_option
def check(files: tuple[str, ...], provider: str | None, as_json: bool) -> None:
    """Show what is read of files, and store nothing.

    For each file its kind, its rows, the offers that they are, and the rows
    that are left out with the reason.

    Try: planner prices check vastai.csv aws/vms.csv
    """
    from planner.catalogs.catalog import read_catalog, summary_of
    from planner.errors import Fault, InputError, collect_faults
    from planner.report.catalog_text import CHECK_COLUMNS, table

    faults: list[Fault] = []
    found = []
    for file in files:
        with collect_faults(faults):
            found.append(summary_of(read_catalog(file, provider)))
    if faults:
        raise InputError(faults)
    write_either(as_json, [summary.model_dump(mode="json") for summary in found], lambda _: table(CHECK_COLUMNS, found))


@prices.command("list")
@as_of_date
@json_option
def prices_list(as_of: datetime.datetime | None, as_json: bool) -> None:
    """List the newest prices of each provider, with their age."""
    from planner.catalogs.price_updates import stored_prices
    from planner.loading.price_files import FILL_BOOK
    from planner.report.catalog_text import STORED_COLUMNS, table

    found = stored_prices(as_of.date() if as_of else datetime.date.today())
    why = "" if found else f"no prices are stored; {FILL_BOOK}"
    write_either(
        as_json, [summary.model_dump(mode="json") for summary in found], lambda _: why or table(STORED_COLUMNS, found)
    )


@prices.command("diff")
@click.option("--provider", metavar="NAME", help="Only this provider.")
@click.option("--from", "before", type=Day(), metavar="DATE", help="Earlier day.")
@click.option("--to", "after", type=Day(), metavar="DATE", help="Later day [the newest].")
@json_option
def diff(
    provider: str | None, before: datetime.datetime | None, after: datetime.datetime | None, as_json: bool
) -> None:
    """Show what is new, gone and of another price between two days."""
    from planner.catalogs.price_updates import book_changes
    from planner.report.catalog_text import changes_text

    days = (moment.date() if moment else None for moment in (before, after))
    found = book_changes(provider, *days)
    write_either(as_json, [change.model_dump(mode="json") for change in found], lambda _: changes_text(found))


@prices.command("prune")
@as_of_date
def prune(as_of: datetime.datetime | None) -> None:
    """Remove prices of more than 90 days ago, but for the newest of each provider."""
    from planner.catalogs.price_updates import prune_book

    removed = prune_book(as_of.date() if as_of else datetime.date.today())
    show(f"{removed} file{'' if removed == 1 else 's'} removed")
