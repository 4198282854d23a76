"""`init`, `scenarios`, `architectures`, `gpus`, `offers`, `schema`: what is shipped; `prices`, `market`: prices."""

from __future__ import annotations

import datetime
import functools
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import Day, as_of_date, json_option, question_options
from planner.cli.output import STANDARD_OUTPUT, ListGroup, Output, show, write_either, write_json
from planner.errors import Fault, LibraryError, ScenarioError, raise_faults
from planner.library.schema import Card
from planner.loading.question import Question
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.catalogs.catalog import Catalog
    from planner.results.market_results import FileNotRead, PriceChanges


# `architectures import`: the architecture of a model from its config.json.


@click.command("import")
@click.argument("model")
@click.option("-o", "--output", "path", metavar="FILE", help="Write to FILE, which ends in .yaml [standard output].")
@click.option("--name", metavar="NAME", help="What to call it (default: the name of the repository or folder).")
def import_architecture(model: str, path: str | None, name: str | None) -> None:
    """Turn the config.json of a model into an architecture.

    MODEL is the file, a folder that has one, or a repository on the Hugging
    Face Hub, which is taken from the cache where it is there (with the
    package huggingface_hub). A scenario reads the result as a path:
    architecture: FILE.

    Try: planner architectures import Qwen/Qwen2.5-7B -o my-model.yaml
    """
    from planner.catalogs.published_models import import_architecture as read_model
    from planner.documents.files import check_unread, check_writable, write_text_atomically, yaml_text
    from planner.errors import printable

    target = None if path in STANDARD_OUTPUT else path
    if target is not None:
        if not target.endswith((".yaml", ".yml")):
            raise click.UsageError("FILE must end in .yaml: so a scenario knows it", click.get_current_context())
        check_writable(target)
    imported = read_model(model, name)
    words = ["planner", "architectures", "import", model, *(["--name", name] if name else [])]
    card = imported.card.model_dump(mode="json", exclude_defaults=True)
    text = f"# Written by {printable(shlex.join(words))}\n{yaml_text(card)}"
    if target is None:
        show(text.rstrip("\n"))
    else:
        check_unread(target)
        write_text_atomically(target, text)
    show(f"{imported.card.name}: {imported.card.family}, {imported.card.parameters:,} parameters", err=True)
    if imported.card.notes:
        show(f"  {imported.card.notes}", err=True)
    if imported.shipped:
        show(f"  the program knows it as {imported.shipped}", err=True)


# `architectures`, `gpus` and `schema`: the library of models and GPUs, and the format of a scenario.


@click.group(cls=ListGroup)
def architectures() -> None:
    """List the models that can be trained."""


architectures.add_command(import_architecture)


@architectures.command("list")
@click.argument("words", nargs=-1)
@click.option("--family", metavar="NAME", help="Only of this family.")
@json_option
def architectures_list(words: tuple[str, ...], family: str | None, as_json: bool) -> None:
    """List all, one per line; with WORDS those whose name, alias or family has each of them.

    Try: planner architectures list llama 8b
    """
    from planner.library.reading import find_cards, read_library
    from planner.report.catalog_text import architecture_table

    cards = find_cards(read_library().architectures, words, family)
    write_either(as_json, [card.model_dump(mode="json") for card in cards], lambda _: architecture_table(cards))


@architectures.command("show")
@click.argument("name")
@json_option
def architectures_show(name: str, as_json: bool) -> None:
    """Show one; NAME is a name, an alias or the path of a config.json."""
    from planner.library.reading import read_library

    (card,) = read_library([name]).architectures.values()
    _show(card, as_json)


@click.group(cls=ListGroup)
def gpus() -> None:
    """List the GPUs whose memory and speed are known."""


@gpus.command("list")
@json_option
def gpus_list(as_json: bool) -> None:
    """List all, one per line."""
    from planner.library.reading import read_library
    from planner.report.catalog_text import gpu_table

    cards = list(read_library([]).gpus.values())
    write_either(as_json, [card.model_dump(mode="json") for card in cards], lambda _: gpu_table(cards))


@gpus.command("show")
@click.argument("name")
@json_option
def gpus_show(name: str, as_json: bool) -> None:
    """Show one; NAME is a name or an alias."""
    from planner.library.reading import CardNames, read_library

    names = CardNames("gpus")
    card_name = names.canonical(name)
    if card_name is None:
        raise LibraryError([Fault(name, 0, "", "unknown GPU", names.suggestion(name))])
    _show(read_library([]).gpus[card_name], as_json)


@click.command()
@click.argument("what", default="scenario")
def schema(what: str) -> None:
    """Print the JSON Schema of a scenario file, or of the result WHAT.

    WHAT is plan, frontier, explanation, what-if, estimate, or another result
    of a command.
    """
    from planner.scenario.scenario import scenario_schema

    if what == "scenario":
        write_json(scenario_schema())
        return
    from planner.documents.validation import find_name
    from planner.report.any_result import TEXTS

    results = {re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in TEXTS}
    name = find_name(what, tuple(results))
    if name is None:
        names = ", ".join(sorted(results))
        raise click.UsageError(f"no result {what!r}: scenario, {names}", click.get_current_context())
    write_json(results[name].model_json_schema())


def _show(card: Card, as_json: bool) -> None:
    from planner.report.catalog_text import card_text

    write_either(as_json, card.model_dump(mode="json"), card_text)


# `offers import`: prices of a file or of another program's catalog as an offers file.


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

    FILE is a CSV file of offers, a gpuhunt catalog, SkyPilot's vms.csv, or what
    the interface of Vast.ai, RunPod, Lambda, Azure, Shadeform, Prime Intellect,
    AWS (spot price history) or Hugging Face (machines for jobs) answers; its
    content says which. Rows that are no known machine are counted by reason on
    standard error. A scenario reads the result: inventory: [FILE].

    Try: planner offers import --template
    """
    from planner.catalogs.catalog import TEMPLATE, offers_text, read_catalog, summary_of
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


# `offers`: instance types and their prices.


inventory_option = click.option(
    "--inventory",
    metavar="FILE",
    help="An inventory (YAML or CSV), a scenario, purchase (machines to buy), or prices, the price book "
    "(default: the shipped market).",
)


@click.group(cls=ListGroup)
def offers() -> None:
    """List offers of instance types and their prices."""


offers.add_command(import_offers)


@offers.command("list")
@inventory_option
@click.option("--gpu", metavar="NAME", help="Only offers with this GPU.")
@click.option("--provider", metavar="NAME", help="Only offers of this provider.")
@json_option
def offers_list(inventory: str | None, gpu: str | None, provider: str | None, as_json: bool) -> None:
    """List all, one per line.

    Prices are dollars per GPU and hour; an upfront payment is spread over its term.
    """
    from planner.report.catalog_text import OFFER_COLUMNS, table

    listed = read_market(inventory)
    chosen = chosen_offers(listed, gpu, provider, "--")
    why = "" if chosen else _why_none(listed, _cards_like(gpu, "--") if gpu else None, gpu, provider)
    write_either(as_json, [_facts(*row) for row in chosen], lambda _: why or table(OFFER_COLUMNS, chosen))


def chosen_offers(
    listed: Sequence[Offer], gpu: str | None, provider: str | None, prefix: str
) -> list[tuple[str, Offer]]:
    """Return the offers of a GPU and a provider with their labels; `prefix` is that of the names in faults."""
    from planner.scenario.offer import offer_labels

    names = _cards_like(gpu, prefix) if gpu else None
    providers = _providers_like(provider, listed, prefix) if provider else None
    return [
        (label, offer)
        for label, offer in zip(offer_labels(listed), listed, strict=True)
        if (names is None or offer.gpu in names) and (providers is None or offer.provider in providers)
    ]


def _cards_like(wanted: str, prefix: str) -> frozenset[str]:
    """Return the GPUs of that name or group, else those whose name has the text in it; `ScenarioError` if none has."""
    from planner.library.reading import CardNames

    cards = CardNames("gpus")
    if names := cards.group(wanted):
        return frozenset(names)
    plain = "".join(wanted.casefold().split())
    matching = frozenset(name for name in cards.names if plain in name.casefold())
    if not matching:
        raise ScenarioError([Fault(f"{prefix}gpu {wanted}", 0, "", "unknown GPU", cards.suggestion(wanted))])
    return matching


def _providers_like(wanted: str, offers: Sequence[Offer], prefix: str) -> frozenset[str]:
    """Return the providers that a name means among offers; `ScenarioError` where it means none."""
    from planner.scenario.naming import OfferedNames

    names = OfferedNames(offers)
    matching = names.meant("provider", wanted)
    if not matching:
        raise ScenarioError([Fault(f"{prefix}provider {wanted}", 0, "", *names.fault("provider", wanted))])
    return frozenset(matching)


def _why_none(listed: Sequence[Offer], names: frozenset[str] | None, gpu: str | None, provider: str | None) -> str:
    """Return why a list of offers is empty, in a line."""
    providers = sorted({offer.provider for offer in listed})
    if provider is not None and provider not in providers:
        return f"no offers: none is of provider {provider}"
    rented = sorted({offer.provider for offer in listed if names is None or offer.gpu in names})
    where = f"; {', '.join(rented)} has it" if rented else ""
    return f"no offers: {f'{provider} does' if provider else 'these prices do'} not list {gpu}{where}"


@offers.command("show")
@click.argument("name")
@inventory_option
@json_option
def offers_show(name: str, inventory: str | None, as_json: bool) -> None:
    """Show one; NAME is a label that `offers list` prints."""
    from planner.documents.validation import meant_name
    from planner.report.catalog_text import card_text
    from planner.scenario.offer import offer_labels

    listed = read_market(inventory)
    labelled = dict(zip(offer_labels(listed), listed, strict=True))
    name = meant_name(name, labelled, "offers show", "unknown offer", "planner offers list")
    write_either(as_json, _facts(name, labelled[name]), card_text)


def _facts(label: str, offer: Offer) -> dict[str, Any]:
    """Return the fields of an offer, those that hold for all offers of its provider last."""
    from planner.scenario.offer import Terms

    facts = offer.model_dump(mode="json")
    terms = {key: facts.pop(key) for key in Terms.model_fields}
    return {"name": label, "tier": offer.tier, **facts, **terms}


def read_market(path: str | None) -> tuple[Offer, ...]:
    """Return the offers of an inventory file or of a scenario, as written; None means the shipped market.

    Raises `ScenarioError` with every fault.
    """
    from planner.documents.files import read_document
    from planner.loading.price_files import read_offers
    from planner.loading.scenario_file import MARKET, PRICE_BOOK, PURCHASE, read_inventory, read_scenario

    file = path or MARKET
    faults: list[Fault] = []
    is_table = file.casefold().endswith(".csv") and os.path.isfile(file)
    if file in (MARKET, PURCHASE, PRICE_BOOK) or is_table:
        listed = read_inventory(file, Path(), faults)
    else:
        document = read_document(file) if os.path.isfile(file) else None
        if document is None or "jobs" in document.data:
            return read_scenario(file).offers
        listed = read_offers(document, faults)
    raise_faults(faults, ScenarioError)
    return listed


# `init`: write a scenario file from a few options, or from the answers to four questions.


@click.command()
@question_options
@click.option("-o", "--output", "path", metavar="FILE", help="Write to FILE, which must not exist [standard output].")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def init(question: Question | None, path: str | None, force: bool) -> None:
    """Write a scenario file with comments.

    Without options it asks four questions on a terminal.

    Try: planner init --model llama-3.1-8b --tokens 24M -o my.yaml
    """
    from planner.documents.files import check_unread, check_writable, write_text_atomically
    from planner.loading.question import load_question, relative_to, scenario_text

    if path is None and question is None:
        path = "scenario.yaml"
    to_file = path is not None and path not in STANDARD_OUTPUT
    if path is not None and to_file:
        check_writable(path)
        if Path(path).exists() and not force:
            raise click.UsageError(f"{path} exists: give another -o FILE, or --force to replace it")
    question = question or _ask()
    load_question(question)  # a file with faults is not written
    if path is None or not to_file:
        show(scenario_text(question).rstrip("\n"))
        return
    check_unread(path)
    write_text_atomically(path, scenario_text(relative_to(question, Path(path).parent)))
    show(f"{path} is written: planner solve {path}", err=True)


def _ask() -> Question:
    """Return the question that the user answers on the terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        problem = "no terminal to ask on: give --model and --tokens, such as --model llama-3.1-8b --tokens 24M"
        raise click.UsageError(problem, click.get_current_context())

    answers: dict[str, Any] = {}
    for name, text, default in QUESTIONS:
        check = functools.partial(_checked, name, answers)
        answers[name] = str(click.prompt(text, err=True, default=default, value_proc=check)).strip()
    return Question(**answers)


QUESTIONS = (
    ("model", "Which model? (planner architectures list, or a config.json)", "llama-3.1-8b"),
    ("tokens", "How many tokens in all, such as 24M?", "24M"),
    ("deadline", "Until when, such as 14h, 2d or 2026-12-01 09:00? (empty: no deadline)", ""),
    ("budget", "For how many dollars at most? (empty: no limit)", ""),
)
"""Field of a question, what is asked for on the terminal, and the answer of who says nothing."""


def _checked(name: str, before: dict[str, Any], text: str) -> str:
    """Return an answer that a scenario may have; another one is refused at once, and asked for again."""
    from planner.errors import InputError
    from planner.loading.question import load_question

    answer = text.strip()
    try:
        asked: dict[str, Any] = {"tokens": QUESTIONS[1][2], **before, name: answer}
        load_question(Question(**asked))
    except InputError as error:
        raise click.UsageError("; ".join(f"{fault.what}; {fault.fix}" for fault in error.faults)) from None
    return answer


# `scenarios`: the scenarios that ship with the program.


@click.group(cls=ListGroup)
def scenarios() -> None:
    """List the scenarios that ship with the program."""


@scenarios.command("list")
@json_option
def scenarios_list(as_json: bool) -> None:
    """List all, one per line, with the question that each asks."""
    from planner.documents.files import read_document
    from planner.loading.scenario_file import shipped_scenarios
    from planner.report.catalog_text import described_names

    descriptions = {
        name: str(read_document(path).data.get("description", "")) for name, path in shipped_scenarios().items()
    }
    rows = [{"name": name, "description": text} for name, text in descriptions.items()]
    write_either(as_json, rows, lambda _: described_names(descriptions))


@scenarios.command("show")
@click.argument("name")
@json_option
def scenarios_show(name: str, as_json: bool) -> None:
    """Print the file of one, to start an own one from: planner scenarios show quickstart > my.yaml."""
    from planner.documents.files import read_document, read_text

    path = _path_of(name)
    if as_json:
        write_json(read_document(path).data)
    else:
        show(read_text(path).rstrip("\n"))


def _path_of(name: str) -> Path:
    from planner.documents.validation import meant_name
    from planner.loading.scenario_file import shipped_scenarios

    shipped = shipped_scenarios()
    name = meant_name(name, shipped, "scenarios show", "no shipped scenario", "planner scenarios list")
    return shipped[name]


# `prices`: the price book; `market`: models of spot markets from recorded traces.


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
    named, paths = _price_files(files, providers)
    whose = providers[0] if providers and not has_folder else None
    catalogs, faults = _read_all(paths, whose, date.date() if date else None)
    if path is not None:
        check_unread(path)
    summaries = tuple(map(summary_of, catalogs))
    if not as_json:
        for summary in summaries:
            show(import_text(summary), err=True)
    changes = _store(catalogs, force, faults)
    if len(paths) == 1 or not changes:
        _raise(faults.values())
    if len(paths) == 1:
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

    paths = [file for path in files for file in price_files_in(path, providers)]
    return {path for path in files if path in paths}, list(dict.fromkeys(paths))


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
        problem = "--date is for --offline: what is fetched is of today"
        raise click.UsageError(problem, click.get_current_context())
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

    offers = [offer for _, stored in read_price_book(providers) for offer in stored]
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
    summaries = []
    for path in files:
        inside: list[str] = []
        with collect_faults(faults):
            _, inside = _price_files((path,), ())
        for file in inside:
            with collect_faults(faults):
                summaries.append(summary_of(read_catalog(file, provider)))
    if summaries or not faults:
        data = [summary.model_dump(mode="json") for summary in summaries]
        write_either(as_json, data, lambda _: table(CHECK_COLUMNS, summaries))
    if summaries and faults:
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

    stored = stored_prices(as_of.date() if as_of else datetime.date.today())
    why = "" if stored else f"no prices are stored; {FILL_BOOK}"
    write_either(
        as_json, [summary.model_dump(mode="json") for summary in stored], lambda _: why or table(STORED_COLUMNS, stored)
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
    changes = book_changes(provider, *days)
    write_either(as_json, [change.model_dump(mode="json") for change in changes], lambda _: changes_text(changes))


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
    fitted = market_fit(traces, only=only, **how)
    output.write(fitted, render_market, document=lambda fitted: fitted.spot_yaml)
