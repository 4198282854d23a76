"""`offers import`: prices of a file or of another program's catalog as an offers file."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from planner.cli.options import Day
from planner.cli.output import STANDARD_OUTPUT, show

if TYPE_CHECKING:
    import datetime

provider_option = click.option(
    "--provider", metavar="NAME", help="Whose prices they are, where neither a column nor the name of the file says so."
)
date_option = click.option(
    "--date",
    type=Day(),
    metavar="DATE",
    help="Day of the prices, where no column says so (default: that on which FILE was last written).",
)


@click.command("import")
@click.argument("file", required=False)
@click.option("-o", "--output", "path", metavar="FILE", help="Write to FILE, YAML or .csv [standard output as YAML].")
@provider_option
@date_option
@click.option("--template", is_flag=True, help="Print a CSV file to start from.")
def import_offers(
    file: str | None, path: str | None, provider: str | None, date: datetime.datetime | None, template: bool
) -> None:
    """Turn prices of a file into an offers file.

    FILE is a CSV file of offers, a gpuhunt catalog, SkyPilot's vms.csv or the
    JSON list of Hugging Face's machines for jobs; its content says which.
    Rows that are no known machine are counted by reason on standard error. A
    scenario reads the result: inventory: [FILE].

    Try: planner offers import --template
    """
    from planner.catalogs.catalog import TEMPLATE, read_catalog
    from planner.catalogs.offers_file import offers_text
    from planner.catalogs.summary import summary_of
    from planner.documents.files import check_writable
    from planner.report.catalog_text import import_text

    if (file is None) is not template:
        raise click.UsageError("give FILE, or --template", click.get_current_context())
    target = None if path in STANDARD_OUTPUT else path
    if target is not None:
        check_writable(target)
    if file is None:
        _write(target, TEMPLATE)
        return
    catalog = read_catalog(file, provider, date.date() if date else None)
    given = [*(["--provider", provider] if provider else []), *(["--date", str(date.date())] if date else [])]
    text = offers_text(catalog.offers, path or "-", shlex.join(["planner", "offers", "import", file, *given]))
    _write(target, text)
    show(import_text(summary_of(catalog)), err=True)


def _write(path: str | None, text: str) -> None:
    """Write to a file, or to standard output where there is none."""
    from planner.documents.files import check_unread, write_text_atomically

    if path is None:
        show(text.rstrip("\n"))
    else:
        check_unread(path)
        write_text_atomically(path, text)
