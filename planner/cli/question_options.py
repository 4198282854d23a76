"""A scenario by its file or by options: `--model M --tokens N`."""

from __future__ import annotations

import functools
import shlex
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import clock_setting, now_option, set_option, table_options
from planner.cli.output import READ, SAVING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.cli.options import OptionTable
    from planner.loading.scenario_file import LoadedScenario

QUESTION: OptionTable = {
    # option: type, metavar and help; the values are checked where the scenario is read
    "model": (str, "NAME", "Ask without a file: a model, or the path of a config.json."),
    "tokens": (str, "N", "Tokens to train on, such as 24M."),
    "samples": (str, "N", "Samples, in place of --tokens."),
    "tokens-per-sample": (str, "N", "Their mean length."),
    "epochs": (str, "N", "How often they are read [1]."),
    "sequence-length": (str, "N", "Tokens of a sequence [what a sample fits in]."),
    "method": (str, "lora|qlora|full", "[the cheapest]"),
    "deadline": (str, "TIME", "36h, 2d or a day: '2026-11-25 09:00'."),
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
    @set_option
    @now_option
    @functools.wraps(command)
    def wrapper(
        scenario: str | None,
        tool_file: str | None,
        question: Any,
        settings: tuple[str, ...],
        now: str | None,
        **others: Any,
    ) -> Any:
        if scenario is not None and tool_file is None:
            refuse_both(question)
        if (scenario is None) == (question is None and tool_file is None):
            what = f"give SCENARIO or {'--from' if tool_file else '--model'}" + (
                ", not both" if scenario is not None else ": a file, a shipped scenario or a model"
            )
            raise click.UsageError(what, click.get_current_context())

        def load(settings: Sequence[str] = ()) -> LoadedScenario:
            changes = (*clock_setting(now), *settings)
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
        raise click.UsageError("give SCENARIO or --model, not both", context)
    from planner.loading.question import settings_of

    options = ", ".join(words[0] for words in question.options().values())
    settings = " ".join(f"--set {shlex.quote(setting)}" for setting in settings_of(question))
    raise click.UsageError(f"{options}: only where --model asks without SCENARIO; with it give {settings}", context)


def _load_from(tool_file: str, question: Any, settings: Sequence[str]) -> LoadedScenario:
    """Return the scenario that a configuration of a training tool asks for; the answer starts with what was read."""
    from planner.exports.read_configs import describe, read_tool_file
    from planner.loading.question import Question, load_held

    found = read_tool_file(tool_file)
    held = {
        place: (one.value, f"--from {found.file}{f':{one.line}' if one.line else ''}: {one.field}")
        for place, one in found.held.items()
    }
    loaded, replaced = load_held(question or Question(), held, found.file, settings)
    click.get_current_context().meta[READ] = describe(found, replaced)
    return loaded


def load_asked(scenario: str | None, question: Any, settings: Sequence[str]) -> LoadedScenario:
    """Return the scenario of a file or of a question."""
    if scenario is None:
        from planner.loading.question import load_question

        return load_question(question, settings)
    from planner.loading.scenario_file import load_scenario

    return load_scenario(scenario, settings)


def loaded_question(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what `asked_scenario` adds; the command receives `loaded`, the scenario with the settings applied."""

    @asked_scenario
    @functools.wraps(command)
    def wrapper(load: Callable[..., LoadedScenario], settings: tuple[str, ...], **others: Any) -> Any:
        return command(loaded=load(settings), **others)

    return wrapper
