"""`prices` and `market`: the price book, and models of spot markets from recorded traces."""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING, Any

import click

from planner.cli.catalog_command import date_option, provider_option
from planner.cli.options import Day, as_of_date, json_option
from planner.cli.output import ListGroup, Output, show, write_either

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.catalogs.catalog import Catalog
    from planner.errors import Fault
    from planner.results.market_results import FileNotRead, PriceChanges


@click.group(cls=ListGroup)
def prices() -> None:
    """Store prices, and show how they change.

    Prices are kept for 90 days in the user's cache folder. A scenario uses
    the newest of each provider with inventory: [prices]; planning never
    fetches any.

    Try: planner prices update --provider vast
    """


@prices.command("update")
@click.option(
    "--offline",
    "files",
    metavar="PATH",
    multiple=True,
    help="File of prices, as planner offers import reads it, or a folder of PROVIDER/vms.csv; repeatable.",
)
@click.option(
    "--provider",
    "providers",
    metavar="NAME",
    multiple=True,
    help="Only this provider, repeatable; with --offline FILE whose prices they are, where the file does not say.",
)
@date_option
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=60.0, help="Longest wait for a provider [60 s].")
@click.option("-o", "--output", "path", metavar="FILE", help="Write the newest stored offers to FILE, YAML or .csv.")
@click.option("--force", is_flag=True, help="Store also older prices, and where over half of the offers are gone.")
@json_option
def update(path: str | None, as_json: bool, **given: Any) -> None:
    """Fetch prices of today, or read those of files, and print what changed.

    Prices are fetched with the package gpuhunt: the catalogs that it
    publishes, and providers that it asks. A provider that fails keeps its
    old prices, and the answer says how old they are. A file or an answer
    with a fault is not stored. A copy of SkyPilot's catalog renews the whole
    list: --offline catalogs/v8.

    Try: planner prices update --provider vast --provider aws
    """
    from planner.documents.files import check_writable

    if "" in given["files"]:
        raise click.UsageError("--offline names no file: give its path", click.get_current_context())
    if path is not None:
        check_writable(path)
    names = _update_from_files(as_json, path, **given) if given["files"] else _update_from_providers(as_json, **given)
    if path is not None:
        _write_newest(path, names, is_whole=any(map(os.path.isdir, given["files"])))


def _update_from_files(
    as_json: bool,
    path: str | None,
    files: tuple[str, ...],
    providers: tuple[str, ...],
    date: datetime.datetime | None,
    force: bool,
    timeout: float,
) -> list[str]:
    """Store the prices of files, and return whose they are; `InputError` where they are to be written over one.

    Of several files, those without a fault are stored.
    """
    from planner.catalogs.catalog import summary_of
    from planner.documents.files import check_unread
    from planner.report.catalog_text import changes_text, import_text
    from planner.results.market_results import BookUpdate, BookUpdates

    del timeout  # a file is there or not
    has_folder = any(map(os.path.isdir, files))
    if len(providers) > 1 and not has_folder:
        raise click.UsageError("--offline takes one --provider", click.get_current_context())
    named, found = _price_files(files, providers)
    whose = providers[0] if providers and not has_folder else None
    catalogs, faults = _read_all(found, whose, date.date() if date else None)
    if path is not None:
        check_unread(path)
    summaries = tuple(map(summary_of, catalogs))
    if not as_json:
        for summary in summaries:
            show(import_text(summary), err=True)
    changes = _store(catalogs, force, faults)
    if len(found) == 1 or not changes:
        _raise(faults.values())
    if len(found) == 1:
        result: BookUpdate | BookUpdates = BookUpdate(read=summaries[0], changes=changes)
    else:
        result = BookUpdates(read=summaries, not_read=_not_read(faults), changes=changes)
    write_either(as_json, result.model_dump(mode="json"), lambda _: changes_text(changes))
    _tell_faulty(faults, named)
    return [change.provider for change in changes]


def _read_all(
    files: list[str], provider: str | None, day: datetime.date | None
) -> tuple[list[Catalog], dict[str, list[Fault]]]:
    """Return what the files without faults hold, and the faults of each file."""
    from planner.catalogs.catalog import read_catalog
    from planner.errors import collect_faults

    catalogs: list[Catalog] = []
    faults: dict[str, list[Fault]] = {}
    for file in files:
        with collect_faults(faults.setdefault(file, [])):
            catalogs.append(read_catalog(file, provider, day))
    return catalogs, faults


def _not_read(faults: dict[str, list[Fault]]) -> tuple[FileNotRead, ...]:
    from planner.results.market_results import FileNotRead

    return tuple(FileNotRead(file=file, why_not=str(told[0])) for file, told in faults.items() if told)


def _tell_faulty(faults: dict[str, list[Fault]], named: set[str]) -> None:
    """Print the faults of files that are not stored; those of files that were named end the command with code 2."""
    from planner.errors import InputError

    for file, told in faults.items():
        if told and file not in named:
            show(f"not stored: {InputError(told)}", err=True)
    if of_named := [fault for file, told in faults.items() if file in named for fault in told]:
        _end_with(of_named)


def _price_files(files: tuple[str, ...], providers: tuple[str, ...]) -> tuple[set[str], list[str]]:
    """Return the files that were named, and all files in order; a folder stands for those in it."""
    from planner.catalogs.catalog import price_files_in

    found = [file for path in files for file in price_files_in(path, providers)]
    return {path for path in files if path in found}, list(dict.fromkeys(found))


def _store(catalogs: list[Catalog], force: bool, faults: dict[str, list[Fault]]) -> tuple[PriceChanges, ...]:
    """Store the offers of catalogs, each provider for itself; faults are added by the source that they are of."""
    from planner.catalogs.catalog import offers_by_provider
    from planner.catalogs.live import update_book
    from planner.errors import collect_faults

    now = datetime.datetime.now().astimezone()
    contradictions: list[Fault] = []
    every = offers_by_provider(catalogs, contradictions)
    for fault in contradictions:
        faults.setdefault(fault.file, []).append(fault)
    changes: tuple[PriceChanges, ...] = ()
    for provider, offers in sorted(every.items()):
        its = [catalog for catalog in catalogs if catalog.has(provider)]
        if any(faults.get(catalog.read.table.file) for catalog in its):
            continue
        with collect_faults(faults.setdefault(its[0].read.table.file, [])):
            source = "; ".join(f"{catalog.kind} {catalog.read.table.file}" for catalog in its)
            changes += update_book(offers, source, now, force)
    return changes


def _end_with(faults: list[Fault]) -> None:
    """Print the faults of some files after the answer of the others, which is the one document of `--json`, and end."""
    from planner.errors import InputError

    show(str(InputError(faults)), err=True)
    click.get_current_context().exit(2)


def _raise(faults: Iterable[list[Fault]]) -> None:
    """Raise all faults, where there is one."""
    from planner.errors import raise_faults

    raise_faults([fault for told in faults for fault in told])


def _update_from_providers(
    as_json: bool,
    providers: tuple[str, ...],
    date: datetime.datetime | None,
    force: bool,
    timeout: float,
    files: tuple[str, ...] = (),
) -> list[str]:
    """Store what providers sell today, and return which were asked; there is no file."""
    del files
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


def _write_newest(path: str, providers: list[str], is_whole: bool) -> None:
    """Write the newest stored offers of providers as an inventory.

    `is_whole`: it takes the place of the shipped list, so that what no price list by the hour has is taken from there.
    """
    from planner.catalogs.catalog import offers_text
    from planner.documents.files import check_unread, write_text_atomically
    from planner.loading.price_files import read_price_book, shipped_beside_prices

    offers = [offer for _, found in read_price_book(providers) for offer in found]
    if is_whole and not path.casefold().endswith(".csv"):  # a table has no column for a commitment
        offers += shipped_beside_prices(providers)
    check_unread(path)
    write_text_atomically(path, offers_text(offers, path, "planner prices update"))


@prices.command("check")
@click.argument("files", nargs=-1, required=True, metavar="PATH...")
@provider_option
@json_option
def check(files: tuple[str, ...], provider: str | None, as_json: bool) -> None:
    """Show what is read of files, and store nothing.

    For each file its kind, its rows, the offers that they are, and the rows
    that are left out with the reason. A folder stands for the catalogs in it.
    Files with faults follow, and hide no other.

    Try: planner prices check vastai.csv aws/vms.csv
    """
    from planner.catalogs.catalog import read_catalog, summary_of
    from planner.errors import collect_faults, raise_faults
    from planner.report.catalog_text import CHECK_COLUMNS, table

    faults: list[Fault] = []
    found = []
    for path in files:
        inside: list[str] = []
        with collect_faults(faults):
            _, inside = _price_files((path,), ())
        for file in inside:
            with collect_faults(faults):
                found.append(summary_of(read_catalog(file, provider)))
    if found or not faults:
        data = [summary.model_dump(mode="json") for summary in found]
        write_either(as_json, data, lambda _: table(CHECK_COLUMNS, found))
    if found and faults:
        _end_with(faults)
    raise_faults(faults)


@prices.command("list")
@as_of_date
@json_option
def prices_list(as_of: datetime.datetime | None, as_json: bool) -> None:
    """List the newest prices of each provider, with their age."""
    from planner.catalogs.live import stored_prices
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
    from planner.catalogs.live import book_changes
    from planner.report.catalog_text import changes_text

    days = (moment.date() if moment else None for moment in (before, after))
    found = book_changes(provider, *days)
    write_either(as_json, [change.model_dump(mode="json") for change in found], lambda _: changes_text(found))


@prices.command("prune")
@as_of_date
def prune(as_of: datetime.datetime | None) -> None:
    """Remove prices of more than 90 days ago, but for the newest of each provider."""
    from planner.catalogs.live import prune_book

    removed = prune_book(as_of.date() if as_of else datetime.date.today())
    show(f"{removed} file{'' if removed == 1 else 's'} removed")


@click.group()
def market() -> None:
    """Fit models of spot markets to recorded traces."""


@market.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="Number of machines that must be available together.",
)
@click.option(
    "--together", is_flag=True, help="The traces are zones, observed at the same times, that a run moves among."
)
@click.option("--preempted", is_flag=True, help="In the files 1 means taken away, and 0 available.")
@click.option("--only", metavar="NAME", multiple=True, help="Use only this trace of the files; repeatable.")
@json_option
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the block to FILE as YAML.")
def fit(traces: tuple[str, ...], only: tuple[str, ...], as_json: bool, path: str | None, **how: Any) -> None:
    """Fit the `spot:` block of an offer to recorded traces.

    TRACE is a file or a folder of files: JSON with metadata.gap_seconds and
    data, or CSV with trace_id, step_s and availability_rle (64x12;63x3:
    count x steps), with zone, gap_seconds, first_step, steps and available
    (a row per period), with time_seconds and available, or with date and
    availability. A value is a count of machines, 1 = available; some
    published files have 1 = taken away: read them with --preempted. Files
    may be gzipped. All traces are pooled, or with --together made into one
    market of several zones. Prints the block to paste into an offer, and
    how certain it is.

    Try: planner market fit us-east-1a.json --instances 4
    """
    from planner.analysis.market_paths import market_fit
    from planner.report.catalog_text import render_market

    output = Output(as_json, path=path)
    output.check()
    found = market_fit(traces, only=only, **how)
    output.write(found, render_market, document=lambda found: found.spot_yaml)
