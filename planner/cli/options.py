"""Arguments and options that several commands share; a scenario by its file or by options, a plan by its file."""

from __future__ import annotations

import functools
import math
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from planner.cli.output import INFEASIBLE, NO_PLAN, READ, SAVING, Output
from planner.documents.files import file_name, read_text
from planner.errors import Fault, InputError, KeyPath, ScenarioError
from planner.loading.scenario_file import PLAN_KEYS, LoadedScenario, load_scenario, parse_scenario
from planner.scenario.scenario import Scenario, SolveOptions
from planner.scenario.techniques import FOUR_BIT_LORA

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from planner.results.plan import Plan

# Arguments and options that several commands share.


SOLVERS = ("highs", "cbc", "scip", "cp-sat")
EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": INFEASIBLE, "no_plan": NO_PLAN}
"""Exit code of a command by the status of its plan."""

scenario_argument = click.argument("scenario")
set_option = click.option(
    "--set",
    "settings",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change one value, such as limits.budget_usd=100; repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class NameOf(click.Choice):  # type: ignore[type-arg]
    """One of some names, in any case and spelling; an unknown one is refused with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name that is meant; what is none is a usage error."""
        from planner.documents.validation import find_name, name_fix

        known = [str(choice) for choice in self.choices]
        if (name := find_name(value, known)) is None:
            self.fail(f"{value!r} is unknown; {name_fix(str(value), known)}", param, ctx)
        return super().convert(name, param, ctx)


class NamesOf(NameOf):
    """Several of some names with commas between them, as the tuple of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the names that are meant; what is none is a usage error."""
        return tuple(super(NamesOf, self).convert(part.strip(), param, ctx) for part in str(value).split(","))


def _moment(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no day and time, under the name of the option."""
    if value is not None:
        from planner.documents.quantities import INSTANT_FIX, parse_instant

        try:
            parse_instant(value)
        except ValueError:
            problem = f"{value!r} is not a day and time"
            raise InputError([Fault(parameter.opts[0], 0, "", problem, INSTANT_FIX)]) from None
    return value


now_option = click.option(
    "--now", metavar="TIME", callback=_moment, help="What deadlines that are days count from (default: the clock)."
)


def _known_tools(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse names that are no tools, under the name of the option, with the nearest ones."""
    if value is None:
        return None
    from planner.documents.validation import find_name, name_fix
    from planner.library.reading import tool_names

    names = [name.strip() for name in value.split(",")]
    faults = [
        Fault(parameter.opts[0], 0, "", f"no plan is exported to {name!r}", name_fix(name, tool_names()))
        for name in names
        if find_name(name, tool_names()) is None
    ]
    if faults:
        raise InputError(faults)
    return ",".join(str(find_name(name, tool_names())) for name in names)


tools_option = click.option(
    "--for",
    "tools",
    metavar="A,B",
    callback=_known_tools,
    help="Only what these tools can run, such as axolotl,skypilot.",
)


def tools_setting(tools: str | None) -> tuple[str, ...]:
    """Return the setting that --for stands for."""
    return (f"limits.tools=[{tools}]",) if tools is not None else ()


def clock_setting(now: str | None) -> tuple[str, ...]:
    """Return the setting that --now stands for."""
    return (f"now={now}",) if now is not None else ()


def finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse nan and infinity."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter("not a finite number", param=parameter)
    return value


def loaded_scenario(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SCENARIO, --set and --now; the command receives `loaded`, the scenario with the settings applied."""

    @scenario_argument
    @set_option
    @now_option
    @functools.wraps(command)
    def wrapper(scenario: str, settings: tuple[str, ...], now: str | None, **others: Any) -> Any:
        return command(loaded=load_scenario(scenario, (*clock_setting(now), *settings)), **others)

    return wrapper


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json and --plot; the command receives `output`."""

    @json_option
    @click.option("--plot", metavar="FILE", help="Draw the result: .png, .svg or .html.")
    @functools.wraps(command)
    def wrapper(as_json: bool, plot: str | None, **others: Any) -> Any:
        return command(output=Output(as_json, plot), **others)

    return wrapper


class Day(click.DateTime):
    """A date such as 2026-11-21."""

    def __init__(self) -> None:
        """Take one form of dates."""
        super().__init__(["%Y-%m-%d"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the date; a usage error that says how to write it."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a date; write it as 2026-11-21", param, ctx)


as_of_date = click.option(
    "--as-of", type=Day(), metavar="DATE", help="Date to which the age of prices is counted (default: today)."
)
_SOLVER_DEFAULT = "highs"
_SOLVER = click.option("--solver", type=NameOf(SOLVERS), default=_SOLVER_DEFAULT, show_default=True)
_STOP = (
    click.option(
        "--gap", type=click.FloatRange(min=0), default=0.0, callback=finite, help="Stop within this share of the bound."
    ),
    click.option(
        "--time-limit",
        "time_limit_seconds",
        type=click.FloatRange(min=0, min_open=True),
        callback=finite,
        metavar="SECONDS",
        help="Wall time of a solve: stop with the best plan so far.",
    ),
)


def solve_options(solver: bool = True, stop: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --as-of and others; the command receives `options`, a `SolveOptions`.

    Parameters
    ----------
    solver
        Add --solver.
    stop
        Add --gap and --time-limit.
    """
    added = (*((_SOLVER,) if solver else ()), *(_STOP if stop else ()), as_of_date)
    names = ("solver", "gap", "time_limit_seconds")

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(as_of: datetime.datetime | None, **others: Any) -> Any:
            from planner.documents.validation import Source

            given = {name: others.pop(name) for name in names if name in others}
            options = Source("command line").validate(SolveOptions, {"as_of": as_of and as_of.date(), **given})
            return command(options=options, **others)

        return functools.reduce(lambda inner, option: option(inner), reversed(added), wrapper)

    return decorate


def workers_options(workers_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --workers and --cluster; the command receives `workers`: how many, the address of a cluster, or None."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--workers", type=click.IntRange(1, 1024), metavar="N", help=workers_help)
        @click.option("--cluster", metavar="ADDRESS", help="Solve on a Dask cluster, such as tcp://10.0.0.1:8786.")
        @functools.wraps(command)
        def wrapper(workers: int | None, cluster: str | None, **others: Any) -> Any:
            if workers is not None and cluster is not None:
                raise click.UsageError("--workers and --cluster exclude each other: give one of them")
            return command(workers=workers if cluster is None else cluster, **others)

        return wrapper

    return add


def solve_words(options: SolveOptions) -> tuple[str, ...]:
    """Return --solver and --as-of as they are typed to solve alike; what is the default is left out."""
    solver = ("--solver", options.solver) if options.solver != _SOLVER_DEFAULT else ()
    return (*solver, *(("--as-of", options.as_of.isoformat()) if options.as_of else ()))


OptionTable = dict[str, tuple[Any, str | None, str]]
"""Name -> type, metavar and help of an option."""


def table_options(table: OptionTable) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a table."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, (kind, metavar, text) in reversed(table.items()):
            command = click.option(f"--{name}", type=kind, metavar=metavar, help=text)(command)
        return command

    return decorate


class TechniqueOption(click.Option):
    """An option with the values of a technique, which are read only for `--help` to save start-up time."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return values and text of the option for `--help`."""
        from planner.library.technique_tables import read_techniques

        technique = read_techniques().of(str(self.name))
        words = (FOUR_BIT_LORA,) if self.name == "method" else ()
        self.metavar = "|".join(map(str, (*technique.values, *words)))
        self.help = (
            f"{technique.help} [{technique.assumed_words}]" if ctx.command.name == "estimate" else f"{technique.help}."
        )
        return super().get_help_record(ctx)


TECHNIQUE_OPTIONS = (
    "method",
    "weight-bits",
    "quant",
    "precision",
    "activation-checkpointing",
    "sharding",
    "attention",
    "optimizer",
    "offload",
    "latents",
)
"""Options that take their values and help from `models/techniques`."""


def technique_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each technique; a wrong value is refused by the planner, which suggests one.

    `--method qlora` is LoRA on 4-bit weights, as where a question is asked.
    """

    @functools.wraps(command)
    def wrapper(method: str | None, weight_bits: int | None, **others: Any) -> Any:
        if method is not None and method.lower() == FOUR_BIT_LORA:
            if weight_bits not in (None, 4):
                problem = f"{FOUR_BIT_LORA} is LoRA on 4-bit weights, and --weight-bits is {weight_bits}"
                raise click.UsageError(f"--method: {problem}; keep one", click.get_current_context())
            method, weight_bits = "lora", 4
        return command(method=method, weight_bits=weight_bits, **others)

    added: Callable[..., Any] = wrapper
    for name in reversed(TECHNIQUE_OPTIONS):
        kind = int if name == "weight-bits" else str
        added = click.option(f"--{name}", cls=TechniqueOption, type=kind)(added)
    return added


# A scenario by its file or by options: `--model M --tokens N`.


QUESTION: OptionTable = {
    # option: type, metavar and help; the values are checked where the scenario is read
    "model": (str, "NAME", "Ask without a file: a model, or the path of a config.json."),
    "tokens": (str, "N", "Tokens to train on, such as 24M."),
    "samples": (str, "N", "Samples, in place of --tokens."),
    "tokens-per-sample": (str, "N", "Their mean length."),
    "lengths": (str, "FILE", "Their lengths: a CSV file with tokens, count."),
    "epochs": (str, "N", "How often they are read [1]."),
    "sequence-length": (str, "N", "Tokens of a sequence [what a sample fits in]."),
    "method": (str, "lora|qlora|full", "[the cheapest]"),
    "deadline": (str, "TIME", "36h, 2d or a day: '2026-12-01 09:00'."),
    "budget": (str, "USD", "Dollars for everything."),
    "gpus": (str, "A,B", "Only these GPUs."),
    "providers": (str, "A,B", "Only these providers."),
    "max-gpus": (str, "N", "GPUs at one time."),
    "objective": (str, "cost|time", "What is least [cost]."),
}


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a question; the command receives `question`, None where none was given."""

    @table_options(QUESTION)
    @click.option("--no-spot", is_flag=True, help="No machines that the provider may take away.")
    @functools.wraps(command)
    def wrapper(**given: Any) -> Any:
        keys = [*(name.replace("-", "_") for name in QUESTION), "no_spot"]
        asked = {key: value for key in keys if (value := given.pop(key)) is not None and value is not False}
        if not asked:
            return command(question=None, **given)
        from planner.loading.question import Question, check_filled

        check_filled(asked)
        return command(question=Question(**asked), **given)

    return wrapper


def asked_scenario(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add [SCENARIO], the options of a question, --set and --now; the command receives `load` and `settings`.

    `load(settings)` returns the scenario with settings applied. The text of the answer to a question ends with the
    line that saves it.
    """

    @click.argument("scenario", required=False)
    @click.option(
        "--from", "tool_file", metavar="FILE", help="Hold what a TRL, Axolotl, ... file says; choose the rest."
    )
    @question_options
    @tools_option
    @set_option
    @now_option
    @functools.wraps(command)
    def wrapper(
        scenario: str | None,
        tool_file: str | None,
        question: Any,
        tools: str | None,
        settings: tuple[str, ...],
        now: str | None,
        **others: Any,
    ) -> Any:
        if scenario is not None and tool_file is None:
            refuse_both(question)
        if (scenario is None) == (question is None and tool_file is None):
            problem = f"give SCENARIO or {'--from' if tool_file else '--model'}" + (
                ", not both" if scenario is not None else ": a file, a shipped scenario or a model"
            )
            raise click.UsageError(problem, click.get_current_context())

        def load(settings: Sequence[str] = ()) -> LoadedScenario:
            changes = (*clock_setting(now), *tools_setting(tools), *settings)
            if tool_file is not None:
                return _load_from(tool_file, question, changes)
            return load_asked(scenario, question, changes)

        if question is not None and tool_file is None:
            click.get_current_context().meta[SAVING] = question.command("planner init") + " -o my.yaml"
        return command(load=load, settings=settings, **others)

    return wrapper


def refuse_both(question: Any) -> None:
    """Refuse options of a question next to SCENARIO, with the settings that say the same of it."""
    if question is None:
        return
    context = click.get_current_context()
    if question.model:
        setting = shlex.quote(f"jobs.0.architecture={question.model}")
        raise click.UsageError(f"give SCENARIO or --model, not both; with SCENARIO give --set {setting}", context)
    from planner.loading.question import settings_of

    options = ", ".join(words[0] for words in question.options().values())
    settings = " ".join(f"--set {shlex.quote(setting)}" for setting in settings_of(question))
    raise click.UsageError(f"{options}: only where --model asks without SCENARIO; with it give {settings}", context)


def _load_from(tool_file: str, question: Any, settings: Sequence[str]) -> LoadedScenario:
    """Return the scenario that a configuration of a training tool asks for; the answer starts with what was read."""
    from planner.exports.read_configs import describe
    from planner.exports.rl_configs import read_training_file
    from planner.loading.question import Question, load_held

    read = read_training_file(tool_file)
    held = {
        place: (entry.value, f"--from {read.file}{f':{entry.line}' if entry.line else ''}: {entry.field}")
        for place, entry in read.held.items()
    }
    loaded, replaced = load_held(question or Question(), held, read.file, settings)
    click.get_current_context().meta[READ] = describe(read, replaced)
    return loaded


def load_asked(scenario: str | None, question: Any, settings: Sequence[str]) -> LoadedScenario:
    """Return the scenario of a file or of a question."""
    if scenario is None:
        from planner.loading.question import load_question

        return load_question(question, settings)
    return load_scenario(scenario, settings)


def loaded_question(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what `asked_scenario` adds; the command receives `loaded`, the scenario with the settings applied."""

    @asked_scenario
    @functools.wraps(command)
    def wrapper(load: Callable[..., LoadedScenario], settings: tuple[str, ...], **others: Any) -> Any:
        return command(loaded=load(settings), **others)

    return wrapper


def read_plan(path: str | Path) -> Plan:
    """Return the plan that `solve --json` or `-o` wrote; `InputError` names every field that is wrong.

    >>> plan = planner.solve("quickstart")
    >>> _ = Path("plan.json").write_text(plan.model_dump_json(by_alias=True))
    >>> planner.read_plan("plan.json") == plan
    True
    """
    from planner.documents.quantities import MAX_NUMBER
    from planner.documents.tables import read_json
    from planner.documents.validation import Source
    from planner.results.plan import Plan  # slow to define: most commands read no plan

    fix = "give a file written by planner solve"
    document = read_json(str(path), fix)
    data = document.data
    missing = [key for key in ("scenario", "status", "jobs") if not isinstance(data, dict) or key not in data]
    if missing:
        raise InputError([document.fault((), f"not a plan: no {', '.join(missing)}", fix)])
    if beyond := [place for place, value in _numbers(data) if abs(value) > MAX_NUMBER]:
        problem = f"is out of range: no figure of a plan exceeds {MAX_NUMBER:g}"
        raise InputError([document.fault(place, problem, fix) for place in beyond])
    if not OLDEST <= (version := data.get("schema_version", VERSION)) <= VERSION:
        known = f"this planner reads versions {OLDEST} to {VERSION}: plan again"
        raise InputError([document.fault(("schema_version",), f"is a plan of version {version}", known)])
    return Source(document.file, document).validate(Plan, converted(data))


def _numbers(value: Any, place: KeyPath = ()) -> Iterator[tuple[KeyPath, float]]:
    """Yield the numbers of JSON data with their places."""
    if isinstance(value, (dict, list)):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(inside, (*place, key))
    elif isinstance(value, (int, float)):
        yield place, value


@contextmanager
def located_in(plan: Plan, path: str) -> Iterator[None]:
    """Give the faults of a plan that are raised inside its file, and the line of the job or service."""
    try:
        yield
    except InputError as error:
        raise InputError([_located(fault, plan, path) for fault in error.faults]) from None


def _located(fault: Fault, plan: Plan, path: str) -> Fault:
    """Return a fault of a plan with its file and line; that of an option as it is."""
    import os

    from planner.documents.tables import read_json

    if fault.file not in ("plan", path) or fault.line:
        return fault
    fault = fault._replace(file=file_name(path))
    if not os.path.isfile(path):  # a plan that was in no file, or the text of `-`, which is gone
        return fault
    document = read_json(path, "")
    for index, part in enumerate(plan.planned):
        name = f"jobs.{part.name}"
        if fault.where == name or fault.where.startswith(f"{name}."):
            inside = [int(step) if step.isdigit() else step for step in fault.where.removeprefix(name).split(".")[1:]]
            return fault._replace(line=document.line(("jobs", index, *inside)))
    return fault._replace(line=document.line((fault.where,)))


def meant_job(plan: Plan, name: str | None) -> str | None:
    """Return the job or service of a plan that --job names, in any spelling; `InputError` where it has none."""
    from planner.documents.validation import meant_name

    if name is None or not plan.planned:
        return name
    names = [part.name for part in plan.planned]
    return meant_name(name, names, "--job", f"the plan has no {'job' if plan.jobs else 'service'}")


def is_plan(path: str) -> bool:
    """Return whether a file is a plan of `solve` and no scenario; false for what cannot be read, and for `-`."""
    import json
    from pathlib import Path

    if path == "-" or not Path(path).is_file():
        return False
    try:
        data = json.loads(read_text(path))
    except (InputError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.keys() >= PLAN_KEYS


def scenario_of(plan: Plan, path: str) -> Scenario:
    """Return the scenario that a plan carries, with the offers that it names; `ScenarioError` if it carries none."""
    import json

    from planner.scenario.limits import with_offers
    from planner.scenario.naming import without_unoffered

    if plan.inputs is None and plan.status in ("infeasible", "no_plan"):
        fix = "solve again with a change that it names; planner check PLAN SCENARIO checks it as it is"
        raise ScenarioError([Fault(path, 0, "status", f"nothing to run: the plan is {plan.status}", fix)])
    if plan.inputs is None:
        fix = "name the scenario: planner check PLAN SCENARIO"
        raise ScenarioError([Fault(path, 0, "inputs", "the plan does not carry its scenario", fix)])
    data = {key: value for key, value in plan.inputs.scenario.items() if key != "inventory"}
    data = without_unoffered(data, plan.inputs.offers)  # a plan carries no more offers than it may take
    return parse_scenario(json.dumps(with_offers(data, plan.inputs.offers)), file=path)


def decided_scenario_of(plan: Plan, path: str) -> Scenario:
    """Return the scenario that a plan carries, with what the plan chose in place of what the scenario leaves open."""
    from planner import open_choices

    return open_choices.scenario_as_chosen(plan, scenario_of(plan, path))


def jobs_of(plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
    """Return a plan and its scenario as those of the jobs that the core planned, with what the plan chose."""
    from planner import open_choices
    from planner.subjects import jobs_of_plan

    plan, scenario = jobs_of_plan(plan, scenario)
    return plan, open_choices.scenario_as_chosen(plan, scenario)


def check_supported(plan: Plan, file: str, name: str | None, command: str) -> None:
    """Raise `InputError` where the part of a plan that is named, or its first one, is nothing for a command."""
    from planner.subjects import planner_of

    part = next((part for part in plan.planned if name in (None, part.name)), None)
    subject = None if part is None else planner_of(part)
    if part is not None and subject is not None and command in subject.not_supported:
        problem, fix = subject.not_supported[command]
        raise InputError([Fault(file, 0, part.name, problem, fix)])


VERSION = 3
"""Version of the form of every result."""
OLDEST = 1
"""The oldest version of a plan that is read; it lacks what version 2 added."""
RENAMED = {
    "ladder": "methods",
    "riskier": "cheaper_at_risk",
    "runner_up": "next_best",
    "lossy": "lossy_techniques",
    "beside": "separate_machines",
    "sigma_tail": "sigma_in_tails",
    "flattery": "optimizer_curse",
    "luck_usd": "outage_usd",
    "luck_hours": "outage_hours",
}
"""Keys of jobs before version 3, and their names since version 3."""


def converted(plan: Any) -> Any:
    """Return the data of a plan with the names of today; other data, and a plan of today, as they are.

    Before version 3 the dollars of a plan with their range stood under `cost_usd`, which is a number everywhere since.
    """
    if not isinstance(plan, dict) or plan.get("schema_version", VERSION) >= VERSION:
        return plan
    data = {**plan, "schema_version": VERSION, "jobs": _renamed(plan.get("jobs"))}
    inputs = data.get("inputs")
    if data.get("services") and isinstance(inputs, dict):  # they were planned on any mix of machines
        data["inputs"] = {**inputs, "scenario": _of_any_mix(inputs.get("scenario"))}
    if "cost" not in data:
        data["cost"] = data.pop("cost_usd", None)
    return data


def _of_any_mix(scenario: Any) -> Any:
    """Return a scenario whose services say that they may have any mix of machines, unless they say otherwise."""
    if not isinstance(scenario, dict) or not isinstance(scenario.get("jobs"), list):
        return scenario
    jobs = [
        {"most_kinds": None, **job} if isinstance(job, dict) and job.get("kind") == "serve" else job
        for job in scenario["jobs"]
    ]
    return {**scenario, "jobs": jobs}


def _renamed(data: Any) -> Any:
    if isinstance(data, list):
        return [_renamed(entry) for entry in data]
    if isinstance(data, dict):
        return {RENAMED.get(key, key): _renamed(value) for key, value in data.items()}
    return data
