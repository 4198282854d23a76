"""`export`, `probe`, `report`, `app`: a plan as files that tools run or try, as a picture, as a page to read or use."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import (
    EXIT_CODES,
    NameOf,
    NamesOf,
    asked_scenario,
    check_supported,
    clock_setting,
    is_plan,
    jobs_of,
    load_asked,
    located_in,
    meant_job,
    now_option,
    question_options,
    read_plan,
    refuse_both,
    scenario_of,
    set_option,
    solve_options,
    solve_words,
)
from planner.cli.output import STANDARD_OUTPUT, show, show_progress, silent_matplotlib
from planner.exports.facts import Wishes
from planner.loading.scenario_file import LoadedScenario
from planner.results.plan import Plan, plan_text
from planner.results.what_if import Overview, Section
from planner.scenario.scenario import Scenario, SolveOptions
from planner.subjects import planner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from planner.exports.launchers import Checklist

TRAINERS_OF_ALL = (
    *("trl", "axolotl", "llamafactory", "unsloth", "litgpt"),
    *("simpletuner", "diffusers", "kohya", "ai-toolkit"),
)
"""What --to takes next to --all."""
TARGETS = ("skypilot", "dstack", "huggingface", "kubernetes", "slurm", *TRAINERS_OF_ALL, "accelerate", "deepspeed")
"""What --to takes; tests compare both with the field maps, which are not read for --help."""
TARGETS_OF_RL = ("verl",)
"""What --to takes for jobs of kind rl alone."""


@click.command()
@click.argument("plan_file", metavar="[PLAN]", required=False)
@click.option(
    "--to",
    "targets",
    type=NamesOf((*TARGETS, *TARGETS_OF_RL)),
    multiple=True,
    callback=lambda _, __, given: tuple(name for names in given for name in names),
    help="Tool, or several as in axolotl,skypilot; repeatable [the trainer of the plan's framework].",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="A folder to launch from: every file that the plan can have; --to names its trainer.",
)
@click.option(
    "--model-id",
    metavar="ID",
    help="Repository or folder of the weights (default: that of the architecture); of a service also int8=ID.",
)
@click.option("--dataset", metavar="D", help="Data set of the Hub, or a file: .jsonl, .json, .csv, .parquet.")
@click.option("--job", metavar="NAME", help="The job, where the plan has several.")
@click.option("-o", "--output", "folder", metavar="DIR", help="Write the files into DIR (default: standard output).")
@click.option("--check", "checked", metavar="DIR", help="Check the files of DIR, which -o wrote, before their launch.")
def export(plan_file: str | None, checked: str | None, **asked: Any) -> None:
    """Write the files that run PLAN, which `solve -o` or `solve --json` wrote.

    Every setting that the estimates rest on is written; learning rate and
    schedule are left to the tool. A technique that a tool cannot express is
    refused. Of a service: the command of each kind of machines, with
    --to skypilot or kubernetes the machines by the hour too.

    Try: planner export plan.json --to trl --dataset my/data -o run
    """
    context = click.get_current_context()
    if checked is not None:
        if any(asked.values()):
            raise click.UsageError("--check takes PLAN and no other option: it writes nothing", context)
        _show_check(checked, plan_file)
    elif plan_file is None:
        raise click.UsageError("Missing argument 'PLAN'.", context)
    else:
        _export(plan_file, **asked)


def _show_check(folder: str, plan_file: str | None) -> None:
    """Say that a folder has no fault, and what is left to do; `InputError` with a line for each fault."""
    from planner.exports.export import check_folder

    checked = check_folder(folder, read_plan(plan_file) if plan_file is not None else None)
    scripts = f", {checked.scripts} scripts read" if checked.scripts else ""
    show(f"{folder}: no faults ({checked.files} files of {checked.scenario}{scripts})")
    for line in checked.see_to:
        show(f"see to {line}")
    for line in checked.unchecked:
        show(f"not checked: {line}", err=True)


def _export(
    plan_file: str,
    targets: Sequence[str],
    everything: bool,
    model_id: str | None,
    dataset: str | None,
    job: str | None,
    folder: str | None,
) -> None:
    """Write the files of a plan, or the only one to standard output."""
    context = click.get_current_context()
    _check_usage(targets, everything, folder, context)
    plan = read_plan(plan_file)
    if everything and targets and not has_trainer(plan):
        raise click.UsageError("next to --all, --to names the trainer, and what answers prompts has none", context)
    wishes = Wishes(model_id, dataset)
    texts, left_out = export_files(plan, plan_file, targets, everything, wishes, job)
    for line in left_out:
        show(line, err=True)
    if folder is None or folder in STANDARD_OUTPUT:
        if len(texts) > 1:
            raise click.UsageError(f"{len(texts)} files: name a folder with -o", context)
        show(next(iter(texts.values())).removesuffix("\n"))
        left = _checklist(plan, plan_file, wishes, job, texts)
    else:
        states, left = write_export(plan, plan_file, texts, wishes, job, Path(folder))
        for name, state in states.items():
            show(f"{Path(folder) / name}: {state}")
    from planner.report.words import width, wrap_with_commands

    for line in (*(f"fill in {need}" for need in left.see_to), *left.hourly):
        show("\n".join(wrap_with_commands(line, width())), err=True)


def write_export(
    plan: Plan, file: str, texts: dict[str, str], wishes: Wishes, job: str | None, folder: Path
) -> tuple[dict[str, str], Checklist]:
    """Write the files of a plan with a list of them; return what happened to each, and what they leave to a person."""
    from planner.exports.export import LIST, folder_list

    left = _checklist(plan, file, wishes, job, texts)
    listed = texts | {LIST: folder_list(plan, texts, left.needs, left.see_to, folder)}
    return write_files(folder, listed), left


def _check_usage(targets: Sequence[str], everything: bool, folder: str | None, context: click.Context) -> None:
    """Refuse options that contradict each other, and a folder without a name."""
    if everything and not set(targets) <= set(TRAINERS_OF_ALL):
        other = next(name for name in targets if name not in TRAINERS_OF_ALL)
        raise click.UsageError(
            f"--all writes the file of {other} where the plan can have it: "
            f"next to it --to takes the trainer, one of {', '.join(TRAINERS_OF_ALL)}",
            context,
        )
    if everything and (folder is None or folder in STANDARD_OUTPUT):
        raise click.UsageError("--all writes a folder: name it with -o", context)
    if folder == "":
        raise click.UsageError("-o names no folder: give its path, such as -o run", context)


def has_trainer(plan: Plan) -> bool:
    """Return whether all that a plan runs is training."""
    return plan.subject is None and all(job.inference is None for job in plan.jobs)


def export_files(
    plan: Plan, file: str, targets: Sequence[str], everything: bool, wishes: Wishes, job: str | None
) -> tuple[dict[str, str], list[str]]:
    """Return the files that run a plan, or one of its jobs, by name, and what is left out of a whole folder.

    `file` is what faults name. InputError where a tool cannot express the plan.
    """
    from planner.exports.facts import check_names

    job = meant_job(plan, job)
    with located_in(plan, file):
        check_names(plan, file)
        if plan.subject is not None and job is None and len(plan.planned) > 1:
            texts, left_out = _files_of_each(plan, file, wishes, everything)
        else:
            texts, left_out = _part_files(plan, file, job, wishes, targets, everything)
    if everything:
        texts["plan.json"] = plan_text(plan)
    return texts, left_out


def _files_of_each(plan: Plan, file: str, given: Wishes, everything: bool) -> tuple[dict[str, str], list[str]]:
    """Return the whole folders of all jobs and services, each in a folder of its own, and what is left out of them.

    `InputError` without --all, and for weights or data whose job is not clear.
    """
    from planner.errors import Fault, InputError
    from planner.exports.machine_names import part_folders

    names = [part.name for part in plan.planned]
    ways = f"choose one with {' or '.join(f'--job {shlex.quote(name)}' for name in names)}"
    data_of_several = given.dataset if len(plan.jobs) > 1 else None
    unclear = [option for option, value in (("--model-id", given.model_id), ("--dataset", data_of_several)) if value]
    if not everything:
        raise InputError([Fault(file, 0, "jobs", f"{len(names)} jobs", f"{ways}, or all with --all")])
    if unclear:
        raise InputError([Fault(option, 0, "", f"the plan has {len(names)} jobs", ways) for option in unclear])
    texts: dict[str, str] = {}
    missing = []
    for part, (name, folder) in zip(plan.planned, part_folders(names).items(), strict=True):
        wishes = Wishes(None, given.dataset if part.subject is None else None)
        part_files, left_out = _part_files(plan, file, name, wishes, (), everything)
        texts |= {f"{folder}/{path}": text for path, text in part_files.items()}
        missing += [f"{folder}: {line}" for line in left_out]
    return texts, missing


def _part_files(
    plan: Plan, file: str, name: str | None, wishes: Wishes, targets: Sequence[str], everything: bool
) -> tuple[dict[str, str], list[str]]:
    """Return the files of a job, service or other part by name, and what is left out of a whole folder."""
    part = next((part for part in plan.planned if name in (None, part.name)), None)
    if part is None or (subject := planner_of(part)) is None:
        return _job_files(plan, file, name, wishes, targets, everything)
    return subject.files(plan, scenario_of(plan, file), file, name, wishes, None if everything else targets)


def _job_files(
    plan: Plan, file: str, name: str | None, wishes: Wishes, targets: Sequence[str], everything: bool
) -> tuple[dict[str, str], list[str]]:
    """Return the files of a job by name, and what is left out of a whole folder."""
    from planner.analysis.job_runs import policy_tables
    from planner.errors import Fault, InputError
    from planner.exports.export import choose_job, default_trainer, export_all
    from planner.exports.export import export as export_files

    whole = scenario_of(plan, file)
    given = replace(choose_job(*jobs_of(plan, whole), file, name), whole=whole)
    other = next((target for target in targets if target in TARGETS_OF_RL), None)
    if other is not None:
        raise InputError([Fault(file, 0, f"jobs.{given.job.name}", f"{other} runs jobs of kind rl alone", "--to trl")])
    if everything:
        policy = policy_tables(given.scenario, plan).get(given.job.name) if given.job.spot is not None else None
        return export_all(given, wishes, file, policy, targets)
    if not targets and given.job.inference is None:
        targets = [default_trainer(given, file)]
    return export_files(given, targets, wishes, file), []


def _checklist(plan: Plan, file: str, wishes: Wishes, job: str | None, texts: dict[str, str]) -> Checklist:
    """Return what files need, leave to a person and cost: of the job or service that was exported, or of each."""
    from planner.exports.export import checklist
    from planner.exports.machine_names import part_folders

    names = [part.name for part in plan.planned]
    folders = part_folders(names)
    if not any("/" in path for path in texts):
        folders = {meant_job(plan, job) or names[0]: ""}
    return checklist(plan, scenario_of(plan, file), file, wishes, folders, texts)


def write_files(folder: Path, texts: dict[str, str]) -> dict[str, str]:
    """Write the files whose text differs from what is there; return what happened to each.

    `InputError`, and nothing is written, where one cannot be, or would replace the plan that was read.
    """
    from planner.documents.files import check_unread, check_writable, is_read, make_folder, read_text
    from planner.documents.files import write_text_atomically as write

    make_folder(folder)
    before: dict[str, str | None] = {}
    for name, text in texts.items():
        path = folder / name
        make_folder(path.parent)
        check_writable(path)
        asked = is_read(path)  # by the command, before it is read here
        before[name] = read_text(path) if path.exists() else None
        if asked and before[name] != text:
            check_unread(path)
    for name, text in texts.items():
        if before[name] != text:
            write(folder / name, text)
    return {
        name: "written" if old is None else "unchanged" if old == texts[name] else "replaced"
        for name, old in before.items()
    }


@click.command()
@click.argument("plan_file", metavar="PLAN")
@click.option("-o", "--output", "folder", metavar="DIR", default="probe", show_default=True, help="Folder to write.")
@click.option("--job", metavar="NAME", help="The job, where the plan has several.")
@click.option("--steps", type=click.IntRange(3, 1000), help="Steps to run [20, fewer where a step is long].")
def probe(plan_file: str, folder: str, job: str | None, steps: int | None) -> None:
    """Write the files that try PLAN on the rented machine, with random weights.

    They run some twenty steps as the export would: same trainer and settings, a
    network of the same shape, made-up tokens. No data, no weights and no token
    are needed. It takes about three minutes and measures memory and seconds of
    a step; `planner calibrate` then says whether to keep the machine.

    Try: planner probe plan.json -o probe
    """
    if not folder or folder in STANDARD_OUTPUT:
        raise click.UsageError("-o names a folder: several files are written", click.get_current_context())
    plan = read_plan(plan_file)
    for name, state in write_probe(plan, plan_file, job, Path(folder), steps).items():
        show(f"{Path(folder) / name}: {state}")
    show(f"next: copy {folder} to the machine, run bash probe.sh there, and bring probe.json back", err=True)
    show(f"then: planner calibrate probe.json --plan {plan_file}", err=True)


def write_probe(plan: Plan, file: str, job: str | None, folder: Path, steps: int | None) -> dict[str, str]:
    """Write the files of a probe with a list of them, which `export --check` reads; return what happened to each."""
    from planner.exports.export import LIST, folder_list

    texts = probe_texts(plan, file, job, steps)
    return write_files(folder, texts | {LIST: folder_list(plan, texts, [], [], folder)})


def probe_texts(plan: Plan, file: str, job: str | None, steps: int | None) -> dict[str, str]:
    """Return the files of the probe of a job by name; `InputError` for a service, or what trains without machines."""
    from planner.exports.export import choose_job, probe_files
    from planner.exports.facts import check_names

    job = meant_job(plan, job)
    with located_in(plan, file):
        check_names(plan, file)
        check_supported(plan, file, job, "probe")
        return probe_files(choose_job(*jobs_of(plan, scenario_of(plan, file)), file, job), file, steps)


SECTIONS: tuple[Section, ...] = ("frontier", "reasons", "tornado", "simulation", "prices")
FIGURE_NAMES = ("frontier", "bill", "memory", "timetable", "tornado", "cost", "finish")
"""Figures that can be a file of their own."""
FIGURE_FORMATS = ("svg", "png", "pdf")
DEFAULT_PATH = "report.html"


@click.command()
@asked_scenario
@click.option("-o", "--output", "path", metavar="FILE", help=f"Where to write [{DEFAULT_PATH}, or FIGURE.FORMAT].")
@click.option("--without", type=NameOf(SECTIONS), multiple=True, help="Leave out an analysis; repeatable.")
@click.option("--figure", type=NameOf(FIGURE_NAMES), help="Write this figure alone.")
@click.option("--format", "kind", type=NameOf(FIGURE_FORMATS), help="Of a figure [by the name of the file, else svg].")
@click.option(
    "--runs",
    type=click.IntRange(min=1, max=100_000),
    default=None,
    help="Replays of the plan [2,000]; of a service requests of each hour [10,000].",
)
@solve_options()
def report(
    load: Callable[..., LoadedScenario],
    settings: Sequence[str],
    path: str | None,
    without: Sequence[str],
    figure: str | None,
    kind: str | None,
    **solving: Any,
) -> None:
    """Write SCENARIO's plan and everything around it as one HTML file.

    SCENARIO is a file, the name of a shipped scenario, - for standard input,
    or a plan that solve wrote. The file needs no network: reasons, cost
    against time with a slider, bill, memory, timetable, alternatives,
    sensitivity, simulated cost and finish, and assumptions.

    Try: planner report quickstart -o report.html
    """
    from planner.documents.files import check_unread, check_writable
    from planner.report.report_page import headline

    context = click.get_current_context()
    if kind is not None and figure is None:
        raise click.UsageError("--format is that of a figure: name it with --figure", context)
    path, kind = _target(path, figure, kind)
    if path not in STANDARD_OUTPUT:
        check_writable(path)
    _check_installed(path, kind)
    wanted = _wanted(figure, without)
    scenario, plan, locating = _asked(load, settings, context)
    check_unread(path)
    with show_progress(f"reporting on {scenario.name}"), locating:
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.analysis.overview import overview

        analyses = overview(scenario, plan, wanted=wanted, **solving)
    if kind is not None and not analyses.plan.planned:
        show(f"{scenario.name}: {headline(analyses.plan)}", err=True)
    elif figure is not None and kind is not None:
        _write_figure(analyses, figure, path, kind)
    else:
        _write_page(analyses, scenario, path)
    context.exit(EXIT_CODES[analyses.plan.status])


def _target(path: str | None, figure: str | None, kind: str | None) -> tuple[str, str | None]:
    """Return where to write, and the format of a figure; `UsageError` where name and format differ."""
    if figure is None:
        return DEFAULT_PATH if path is None else path, None
    named = Path(path).suffix.lower().removeprefix(".") if path and path not in STANDARD_OUTPUT else ""
    kind = kind or (named if named in FIGURE_FORMATS else "svg" if not named else None)
    if kind is None or (named and named != kind):
        problem = f".{named} is not the suffix of {kind or 'a figure'}"
        raise click.UsageError(f"{problem}: one of {', '.join(FIGURE_FORMATS)}", click.get_current_context())
    return f"{figure}.{kind}" if path is None else path, kind


def _check_installed(path: str, kind: str | None) -> None:
    """Refuse what no installed package can write, before anything is computed."""
    from planner.drawing.scene import check_drawable
    from planner.report.report_page import check_installed

    if kind is None:
        check_installed(path)
    elif kind != "svg":
        check_drawable(path)


def _wanted(figure: str | None, without: Sequence[str]) -> tuple[Section, ...]:
    """Return the analyses that are needed."""
    of_figure: dict[str, Section] = {
        **{"frontier": "frontier", "tornado": "tornado"},
        **{"cost": "simulation", "finish": "simulation"},
    }
    names: tuple[Section, ...] = SECTIONS
    if figure is not None:
        names = (of_figure[figure],) if figure in of_figure else ()
    return tuple(name for name in names if name not in without)


def _asked(
    load: Callable[..., LoadedScenario], settings: Sequence[str], context: click.Context
) -> tuple[Scenario, Plan | None, AbstractContextManager[None]]:
    """Return the scenario, the plan where SCENARIO is one, and what gives faults their lines."""
    path = context.params.get("scenario")
    if path is not None and is_plan(path):
        if settings or context.params.get("now"):
            raise click.UsageError("--set and --now change a SCENARIO, not a plan", context)
        plan = read_plan(path)
        return scenario_of(plan, path), plan, contextlib.nullcontext()
    loaded = load(settings)
    return loaded.scenario, None, loaded.locate_faults()


def _write_page(analyses: Overview, scenario: Scenario, path: str) -> None:
    """Write the page, and say on standard error or output what it is."""
    from planner.documents.files import write_text_atomically
    from planner.report.report_page import headline
    from planner.report.words import width, wrap_lines

    page = _page(analyses, scenario)
    if path in STANDARD_OUTPUT:
        show(page.removesuffix("\n"))
        return
    write_text_atomically(path, page)
    for line in wrap_lines(f"{analyses.plan.scenario}: {headline(analyses.plan)}", width(), 4):
        show(line)
    show(f"{path}: written, {len(page.encode()) / 1000:,.0f} kB")


def _page(analyses: Overview, scenario: Scenario) -> str:
    from planner.report.report_page import render_page

    exports, notes = _exports(analyses.plan, scenario)
    return render_page(analyses, exports, notes)


def page_of(
    scenario: Scenario,
    plan: Plan | None,
    wanted: Sequence[Section],
    runs: int | None = None,
    options: SolveOptions | None = None,
) -> str:
    """Return the page about a scenario; a plan is shown as it is. ScenarioError where the extra is missing."""
    from planner.analysis.overview import overview
    from planner.report.report_page import check_installed

    check_installed("report")
    return _page(overview(scenario, plan, wanted=wanted, runs=runs, options=options), scenario)


def _exports(plan: Plan, scenario: Scenario) -> tuple[dict[str, str], list[str]]:
    """Return the plan and the files that run its first job, or its service, by name, and why others are missing."""
    from planner.errors import InputError
    from planner.exports.export import choose_job, export_all

    names = [part.name for part in plan.planned]
    if not names:
        return {}, []
    files: dict[str, str] = {}
    notes: list[str] = []
    try:
        subject = planner_of(plan.planned[0])
        if subject is None:
            files, notes = export_all(choose_job(*jobs_of(plan, scenario), "plan", names[0]), Wishes(None, None))
        else:
            files, notes = subject.files(plan, scenario, "plan", names[0], Wishes(), None)
    except InputError as error:
        notes = [f"no files to launch {names[0]}: {error.faults[0].what}"]
    if len(names) > 1 and files:
        notes.append(f"the files run {names[0]}; those of another job: planner export plan.json --all --job NAME")
    kept = {name: text for name, text in files.items() if name not in ("README.md", "spot_policy.py", "policy.json")}
    return {**kept, "plan.json": plan_text(plan, indent=1)}, notes


def _write_figure(analyses: Overview, name: str, path: str, kind: str) -> None:
    """Write one figure in the width of a page."""
    from planner.documents.files import write_bytes_atomically
    from planner.drawing.scene import draw_scene, framed, to_svg
    from planner.errors import Fault, InputError
    from planner.report.plan_figures import WIDE
    from planner.report.report_page import find_figure

    figure = find_figure(analyses, name)
    if figure is None or figure.draw is None:
        raise InputError([Fault("--figure", 0, "", f"{name}: the report has nothing to draw", "write the page")])
    scene = framed(figure.draw(WIDE))
    with silent_matplotlib():
        content = to_svg(scene, name, standalone=True).encode() + b"\n" if kind == "svg" else draw_scene(scene, kind)
    if path in STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        return
    write_bytes_atomically(path, content)
    show(f"{path}: written, {len(content) / 1000:,.0f} kB")


FIRST_SCENARIO = "quickstart"
"""What is opened where nothing is named."""


@click.command()
@click.argument("scenario", required=False)
@question_options
@set_option
@now_option
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port of the page [a free one].")
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@solve_options()
def app(
    scenario: str | None,
    question: Any,
    settings: tuple[str, ...],
    now: str | None,
    port: int | None,
    no_browser: bool,
    options: SolveOptions,
) -> None:
    """Change SCENARIO on a page and see its plan change.

    SCENARIO is a file, the name of a shipped scenario, or - for standard
    input [quickstart]. The page is served on this machine alone. Every
    change shows the plan, the cost for every deadline, and what changed.

    Try: planner app quickstart
    """
    from planner.web.app_page import check_installed

    check_installed()
    if scenario is not None:
        refuse_both(question)
    if scenario is None and question is None:
        scenario = FIRST_SCENARIO
    changes = (*clock_setting(now), *settings)
    loaded = load_asked(scenario, question, changes)
    document = loaded.source.document
    # Imported late: a wrong scenario is reported before the server is loaded.
    from planner.web.app_page import OpenedScenario
    from planner.web.server import serve

    asked = tuple(shlex.split(question.command(""))) if question is not None else (str(scenario),)
    asked = (*asked, *solve_words(options))
    opened = OpenedScenario(loaded.scenario, document.data if document else {}, loaded.source.file, changes, asked)

    def announce(address: str) -> None:
        show(f"{loaded.scenario.name}: {address}")
        show("Stop with Ctrl-C.", err=True)

    serve(opened, options, port=port, opens_browser=not no_browser, announce=announce)
