"""`init` and `scenarios`: a scenario file to start from, written or shipped."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import click

from planner.cli.options import json_option, question_options
from planner.cli.output import STANDARD_OUTPUT, ListGroup, show, write_either, write_json
from planner.loading.question import Question

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
    from planner.loading.question import Question

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        what = "no terminal to ask on: give --model and --tokens, such as --model llama-3.1-8b --tokens 24M"
        raise click.UsageError(what, click.get_current_context())

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
    from planner.loading.question import Question, load_question

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
    from planner.documents.strict_yaml import read_document
    from planner.loading.scenario_file import shipped_scenarios
    from planner.report.catalog_text import described_names

    found = {name: str(read_document(path).data.get("description", "")) for name, path in shipped_scenarios().items()}
    rows = [{"name": name, "description": text} for name, text in found.items()]
    write_either(as_json, rows, lambda _: described_names(found))


@scenarios.command("show")
@click.argument("name")
@json_option
def scenarios_show(name: str, as_json: bool) -> None:
    """Print the file of one, to start an own one from: planner scenarios show quickstart > my.yaml."""
    from planner.documents.files import read_text
    from planner.documents.strict_yaml import read_document

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
