"""What the commands of catalogs, files and prices do, as functions: they return what a command prints or writes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.analysis.market_paths import SimulationSettings
from planner.cli.catalog_command import chosen_offers, read_market
from planner.cli.options import decided_scenario_of, read_plan, scenario_of
from planner.cli.plan_commands import (
    SECTIONS,
    TARGETS,
    TRAINERS_OF_ALL,
    export_files,
    has_trainer,
    page_of,
    probe_texts,
    write_export,
    write_probe,
)
from planner.documents.overrides import Settings, as_settings
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, InputError, ScenarioError
from planner.evaluation.comparison import Violation
from planner.exports.facts import Wishes
from planner.exports.rl_configs import read_training_file
from planner.library.reading import CONFIG_WANTED, config_architecture, find_cards, read_library
from planner.library.schema import Architecture
from planner.loading.question import Asked as Asked
from planner.loading.question import as_scenario, load_held, python_question
from planner.results.market_results import PriceUpdate
from planner.results.plan import Plan
from planner.results.result_tables import Table, flattened
from planner.results.what_if import Section
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# Tables of the catalogs.


def offers(inventory: str | Path | None = None, *, gpu: str | None = None, provider: str | None = None) -> Table:
    """Return the offers of an inventory as a table, with their labels in the column `offer`; prices are per machine.

    Parameters
    ----------
    inventory
        A file, a scenario, `purchase` (machines to buy) or `prices` (the price book); the shipped market by default.
    gpu, provider
        Only offers with this GPU, or of this provider, in any spelling.

    Raises
    ------
    ScenarioError
        The inventory cannot be read, or no GPU or provider has that name.

    Examples
    --------
    >>> {row["gpu"] for row in offers(gpu="a100-80g", provider="lambda")}
    {'A100-80GB'}
    """
    from planner.report.catalog_text import OFFER_COLUMNS, table

    chosen = chosen_offers(read_market(None if inventory is None else str(inventory)), gpu, provider, "")
    rows = [{"offer": label, **flattened(offer), "tier": offer.tier} for label, offer in chosen]
    return Table(rows, "offers", table(OFFER_COLUMNS, chosen))


def gpus() -> Table:
    """Return the GPUs whose memory and speed are known, a row each; GiB, GB/s and dense TFLOPS.

    >>> max(gpus().column("vram_gib")) > 200
    True
    """
    from planner.report.catalog_text import gpu_table

    cards = list(read_library([]).gpus.values())
    rows = [
        {**flattened(card), "usable_gib": card.usable_gib, "matmul16_tflops": card.matmul16_tflops} for card in cards
    ]
    return Table(rows, "GPUs", gpu_table(cards))


def architectures(*words: str, family: str | None = None) -> Table:
    """Return the models that can be trained, a row each; with words those whose name, alias or family has each of them.

    >>> architectures("tinyllama").column("name")
    ['tinyllama-1.1b']
    """
    from planner.report.catalog_text import architecture_table

    cards = find_cards(read_library().architectures, words, family)
    rows = [{**flattened(card), "active_parameters": card.active_parameters} for card in cards]
    return Table(rows, "models", architecture_table(cards))


# Plans: their check, the files that run them, the page about them.


def check(plan: Plan | str | Path, scenario: Asked | None = None) -> tuple[Violation, ...]:
    """Return every figure and limit of a plan that does not follow from its scenario; none for a sound plan.

    `scenario`: what the plan is checked against, the one that it carries by default. `plan` may be a file.

    >>> check(planner.solve("quickstart"))
    ()
    """
    from planner.evaluation.audit import audit

    plan, file = _plan_of(plan)
    asked = scenario_of(plan, file) if scenario is None else as_scenario(scenario)
    names = [name for job in asked.jobs for name in architectures_of(job)]
    return tuple(audit(plan, asked, read_library(names)))


def plan_scenario(plan: Plan | str | Path) -> Scenario:
    """Return the scenario that a plan carries, with the offers that it names, and what it chose of what was left open.

    It is what `track` takes. ScenarioError where the plan carries none.

    >>> plan_scenario(planner.solve("quickstart")).name
    'quickstart'
    """
    return decided_scenario_of(*_plan_of(plan))


def export(
    plan: Plan | str | Path,
    to: str | Sequence[str] = (),
    folder: str | Path | None = None,
    *,
    whole: bool = False,
    model_id: str | None = None,
    dataset: str | None = None,
    job: str | None = None,
) -> dict[str, str]:
    """Return the files that run a plan, text by name; they are written where a folder is given.

    Parameters
    ----------
    to
        Tools, such as `trl` or `skypilot`; by default the trainer of the plan's framework.
    folder
        Where to write; files of the same text are left alone.
    whole
        Everything to launch from, as `planner export --all`: `to` names its trainer.
    model_id, dataset, job
        Weights, data, and the job where the plan has several.

    Raises
    ------
    InputError
        A tool cannot express a technique of the plan, a name is unknown, or a file cannot be written.

    Examples
    --------
    >>> sorted(export(planner.solve("quickstart"), "trl"))
    ['sft.yaml']
    """
    plan, file = _plan_of(plan)
    targets = [_target(name) for name in ([to] if isinstance(to, str) else to)]
    if whole and targets and not (has_trainer(plan) and set(targets) <= set(TRAINERS_OF_ALL)):
        fix = f"a whole folder takes the trainer of a training plan, one of {', '.join(TRAINERS_OF_ALL)}"
        raise InputError([Fault("export", 0, "to", f"{', '.join(targets)} next to whole=True", fix)])
    wishes = Wishes(model_id, dataset)
    texts, _ = export_files(plan, file, targets, whole, wishes, job)
    if folder is not None:
        write_export(plan, file, texts, wishes, job, Path(folder))
    return texts


def probe(
    plan: Plan | str | Path, folder: str | Path | None = None, *, job: str | None = None, steps: int | None = None
) -> dict[str, str]:
    """Return the files that try a plan on its machine with random weights, text by name; written with a folder.

    `judge_probe` takes the `probe.json` that they make there. `steps`: twenty by default, fewer where they are long.

    Raises
    ------
    InputError
        The plan trains nothing on machines, its trainer is another than TRL, or a file cannot be written.

    Examples
    --------
    >>> "probe.sh" in probe(planner.solve("quickstart"))
    True
    """
    plan, file = _plan_of(plan)
    if folder is not None:
        write_probe(plan, file, job, Path(folder), steps)
    return probe_texts(plan, file, job, steps)


def _target(name: str) -> str:
    if (target := find_name(name, TARGETS)) is None:
        raise InputError([Fault("export", 0, "to", f"{name!r} is unknown", name_fix(name, TARGETS))])
    return target


def write_report(
    asked: Plan | Asked,
    path: str | Path | None = None,
    *,
    without: Sequence[Section] = (),
    runs: int | None = None,
    options: SolveOptions | None = None,
) -> str:
    """Return the page about a scenario or a plan as HTML, which needs no network; written where a path is given.

    Parameters
    ----------
    without
        Analyses that are left out: frontier, reasons, tornado, simulation, prices.
    runs
        Replays of the plan; of a service requests of each hour.

    Raises
    ------
    ScenarioError
        The scenario or the number of runs cannot be used, the extra `report` is missing, or an analysis is unknown.

    Examples
    --------
    >>> every = ("frontier", "reasons", "tornado", "simulation", "prices")
    >>> "mistral-7b" in write_report("quickstart", without=every)
    True
    """
    from planner.documents.files import write_text_atomically

    if unknown := [name for name in without if name not in SECTIONS]:
        raise ScenarioError(
            [Fault("report", 0, "without", f"{unknown[0]!r} is unknown", name_fix(unknown[0], SECTIONS))]
        )
    if runs is not None:
        SimulationSettings.of(runs=runs)
    wanted = tuple(name for name in SECTIONS if name not in without)
    if isinstance(asked, Plan):
        page = page_of(scenario_of(asked, "plan"), asked, wanted, runs, options)
    else:
        page = page_of(as_scenario(asked), None, wanted, runs, options)
    if path is not None:
        write_text_atomically(path, page)
    return page


def _plan_of(plan: Plan | str | Path) -> tuple[Plan, str]:
    """Return a plan, or that of a file, and what faults name as their file."""
    return (plan, "plan") if isinstance(plan, Plan) else (read_plan(plan), str(plan))


# Files of other programs: configurations of trainers, and prices.


def read_training_config(path: str | Path, set_: Settings = (), **question: Any) -> Scenario:
    r"""Return the scenario of a TRL, Axolotl, ... file: what it says is held, the rest is chosen, as with `--from`.

    `question` are options of the command, such as `tokens="24M"`, `deadline="14h"` or `budget="20"`, which replace what
    the file says.

    Raises
    ------
    ScenarioError
        With every fault: the file cannot be read, or says what no plan has.

    Examples
    --------
    >>> file = Path("axolotl.yaml")
    >>> text = "base_model: mistralai/Mistral-7B-v0.1\nadapter: lora\nlora_r: 16\n"
    >>> text += "sequence_len: 2048\nsample_packing: true\n"
    >>> _ = file.write_text(text)
    >>> read_training_config(file, tokens="10M").jobs[0].architecture
    'mistral-7b'
    """
    tool_file = read_training_file(path)
    held = {
        place: (entry.value, f"{tool_file.file}{f':{entry.line}' if entry.line else ''}: {entry.field}")
        for place, entry in tool_file.held.items()
    }
    loaded, _ = load_held(python_question(question), held, tool_file.file, as_settings(set_))
    return loaded.scenario


def import_architecture(model: str | Path | Mapping[str, Any], name: str | None = None) -> Architecture:
    """Return the architecture of a `config.json`: its content, its path, its folder, or a repository of the Hub.

    `estimate` takes it as it is; a scenario takes the path of the file.

    Raises
    ------
    InputError
        The configuration cannot be read, or has a part that the estimates do not know.

    Examples
    --------
    >>> config = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}
    >>> config |= {"num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000}
    >>> card = import_architecture({**config, "max_position_embeddings": 2048}, "ours")
    >>> planner.estimate(card, "A10G", weight_bits=4).architecture
    'ours'
    """
    from planner.catalogs.published_models import import_architecture as read_model
    from planner.documents.tables import parse_json

    if not isinstance(model, Mapping):
        return read_model(str(model), name).card
    text = json.dumps(dict(model))
    return config_architecture(parse_json(text, "config.json", CONFIG_WANTED, keeps_infinity=True), name or "config")


def import_offers(
    path: str | Path, provider: str | None = None, date: datetime.date | None = None
) -> tuple[Offer, ...]:
    r"""Return the offers of a file of prices: a table, a catalog of gpuhunt or SkyPilot, or a provider's own answer.

    `provider` and `date` say whose prices they are, and of which day, where the file does not. `build_scenario` takes
    the offers as they are.

    Raises
    ------
    InputError
        With every fault of the file.

    Examples
    --------
    >>> file = Path("prices.csv")
    >>> _ = file.write_text("provider,gpu,gpus,usd_per_hour,date\nours,L40S,1,0.8,2026-11-20\n")
    >>> import_offers(file)[0].usd_per_hour
    0.8
    """
    from planner.catalogs.catalog import read_catalog

    return read_catalog(str(path), provider, date).offers


def update_prices(
    providers: str | Sequence[str] = (),
    *,
    now: datetime.datetime | None = None,
    force: bool = False,
    timeout_seconds: float = 60.0,
) -> PriceUpdate:
    """Fetch prices of today into the price book, which `inventory: [prices]` plans with, and return what changed.

    Without names all providers are asked that need no key. It is the one function that uses the network.

    Raises
    ------
    InputError
        No provider could be updated, or the extra `prices` is missing.

    Examples
    --------
    >>> update_prices("vast", timeout_seconds=30).providers[0].provider  # doctest: +SKIP
    'vast'
    """
    from planner.catalogs.live import update_from_providers

    names = [providers] if isinstance(providers, str) else providers
    return update_from_providers(names, now or datetime.datetime.now().astimezone(), force, timeout_seconds)
