"""The documents are true: their commands run and print what is shown, their equations and paths are the code's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.cli import output as exits
from planner.documents.files import data_folder
from planner.scenario.scenario import scenario_schema
from tests.helpers.computed_once import compute_once
from tests.helpers.documents import DOCUMENTS, FENCE, HEAD, Block, all_blocks, blocks, read_document, run, working_in
from tests.helpers.equations import TABLE, known_equations, shown_equations
from tests.helpers.frozen_data import FROZEN_MARKET, ROOT
from tests.helpers.record import PICTURES, recorded


def _by_document(kind: str) -> list[Any]:
    """Return the blocks as parameters; those of the README run by default, those of the other documents are long."""
    readme = "README.md"
    return [
        pytest.param(
            block, id=block.name, marks=pytest.mark.slow if block.name.startswith(readme) else pytest.mark.long
        )
        for block in all_blocks(kind)
    ]


def _together() -> list[Any]:
    """Return the console blocks as parameters, those that show the same command next to one another in one of them."""
    groups: list[tuple[Block, ...]] = []
    for block in all_blocks("console"):
        commands = _repeatable(block)
        same = [group for group in groups if any(commands & _repeatable(one) for one in group)]
        groups = [group for group in groups if group not in same] + [(*(one for group in same for one in group), block)]
    return [
        pytest.param(
            group,
            id=" and ".join(block.name for block in group),
            marks=pytest.mark.slow if any(block.document == "README.md" for block in group) else pytest.mark.long,
        )
        for group in groups
    ]


def _repeatable(block: Block) -> set[str]:
    """Return the commands of a block, without `| head`, that neither read nor write a file of its folder."""
    commands = {HEAD.sub("", command) for command, _ in block.sessions}
    return {one for one in commands if one.startswith("planner ") and not re.search(r"\.\w+\b| -o | update ", one)}


@pytest.mark.parametrize("group", _together())
def test_commands_print_what_is_shown(
    group: tuple[Block, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command in a document succeeds; where output is shown, it is this output.

    A command that several documents show runs once, and what several ask of one scenario is computed once. When the
    output has changed for a good reason: `python -m tests.helpers.record sessions`.
    """
    compute_once(monkeypatch)
    printed: dict[str, str] = {}
    for number, block in enumerate(group):
        (tmp_path / str(number)).mkdir()
        with working_in(block.document, tmp_path / str(number)):
            for command, shown in block.sessions:
                whole, head = HEAD.sub("", command), HEAD.search(command)
                if whole not in printed:
                    code, output, messages = run(whole)
                    assert code == 0, f"{command}\n{messages}"
                    if whole in _repeatable(block):
                        printed[whole] = output
                else:
                    output = printed[whole]
                if head:
                    output = "".join(output.splitlines(keepends=True)[: int(head[1])])
                if shown.strip():
                    assert output.strip() == shown.strip(), command


@pytest.mark.parametrize("block", _by_document("python"))
def test_python_runs_and_prints_nothing(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines for Python users run as they are."""
    if "Executor" not in block.body:  # which compares what threads and processes compute
        compute_once(monkeypatch)
    names: dict[str, object] = {}
    with working_in(block.document, tmp_path):
        exec(compile(block.body, block.document, "exec"), names)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "block", [block for block in all_blocks("yaml") if not block.label], ids=lambda block: block.name
)
def test_yaml_without_a_name_is_a_shipped_scenario(block: Block) -> None:
    """YAML with a file name is read by the commands of its document; any other is a shipped scenario, as it is."""
    shipped = {path: path.read_text(encoding="utf-8") for path in (ROOT / "scenarios").glob("*.yaml")}
    found = [
        path
        for path, text in shipped.items()
        if block.body.splitlines() == [line for line in text.splitlines() if not line.startswith("# yaml-language")]
    ]
    assert found, f"{block.document}: add the name of a file behind ```yaml, or show a shipped scenario"


def test_sessions_show_what_the_program_prints(tmp_path: Path) -> None:
    """The commands of the documents read the shipped price list: a user who types one gets what is shown."""
    with working_in("README.md", tmp_path):
        market = data_folder("scenarios") / "inventory" / "market.yaml"
        assert market.resolve() == ROOT / "scenarios" / "inventory" / "market.yaml"
        assert market.read_bytes() != FROZEN_MARKET.read_bytes()


def test_recording_replaces_output_that_is_shown() -> None:
    """Recorded is what a command prints now; a command that is shown without output stays so."""
    body = "$ planner gpus show RTX3090 | head -1\nold output\n\n$ planner gpus show RTX4090\n"
    block = Block("README.md", "console", "", body, 0)
    assert re.fullmatch(
        r"\$ planner gpus show RTX3090 \| head -1\n  name +RTX3090\n\n\$ planner gpus show RTX4090\n", recorded(block)
    )


def test_readme_starts_with_the_quickstart() -> None:
    """The first session is the quickstart, on a fixed day, with its output."""
    (command, shown), *_ = blocks("README.md", "console")[0].sessions
    assert command.startswith("planner solve quickstart --as-of ")
    assert len(shown.splitlines()) > 5


def test_bare_debian_lines_end_as_promised() -> None:
    """One line ends with the quickstart plan, one with the tests that the check script runs."""
    plan, tests = (block.body.strip().split(" && ") for block in blocks("README.md", "bash"))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert plan[-1] == ".venv/bin/planner solve quickstart"
    assert f"check {tests[-1]}" in script.splitlines()
    assert tests[-1].startswith(".venv/bin/python -m pytest")
    assert plan[:3] == tests[:3]
    for piece in ("python3 -m venv .venv", "pip install", "install -y --no-install-recommends python3-venv"):
        assert piece in script
        assert piece in " && ".join(tests)


@pytest.mark.parametrize("picture", sorted(PICTURES))
def test_picture_shows_what_is_printed(picture: str) -> None:
    """A picture was drawn by a command that a document shows, and is of the same dollars.

    Its title is the first line of that output; of several jobs and of services it names the scenario and dollars.
    """
    command = PICTURES[picture].partition(" --plot")[0]
    shown = [output for block in all_blocks("console") for said, output in block.sessions if said.startswith(command)]
    first, drawn = shown[0].splitlines()[0], (ROOT / picture).read_text(encoding="utf-8")
    scenario, dollars = command.split()[2], re.findall(r"\$[\d,.]*\d", first)
    titles = [scenario, *dollars] if command.startswith("planner solve") else [first.partition(",")[0]]
    assert titles and all(title in drawn for title in titles)


def test_equations_are_those_of_the_docstrings() -> None:
    """Every family and objective has its row, and every row its function, with the same equation."""
    assert shown_equations(read_document(TABLE)) == known_equations()


def test_exit_codes_are_those_of_the_command_line() -> None:
    """The table of exit codes lists what the command line can end with."""
    table = read_document("docs/commands.md").partition("## Exit codes")[2].partition("\n## ")[0]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    known = {exits.INTERNAL_ERROR, exits.BAD_INPUT, exits.INFEASIBLE, exits.NO_PLAN, exits.INTERRUPTED}
    known.add(exits.BROKEN_PIPE)
    assert codes == {0} | known


PLACES = "planner|models|scenarios|tests|benchmarks|docs"
LATER = {"planner/_data", "planner/exports/"}
"""Paths that only a wheel has, and a package that a recipe says to make."""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_named_exist(document: str) -> None:
    """Every file and folder that a document names by path or links to is there."""
    text = read_document(document)
    named = {ROOT / path for path in set(re.findall(rf"`((?:{PLACES})/[\w./-]*)`", text)) - LATER}
    linked = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text)
    named |= {(ROOT / document).parent / path for path in linked}
    assert not sorted(str(path) for path in named if not path.exists())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_sections_that_are_linked_exist(document: str) -> None:
    """Every link to a section leads to a heading of that document."""
    missing = []
    for path, section in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", read_document(document)):
        target = (ROOT / document).parent / path if path else ROOT / document
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        if section not in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}:
            missing.append(f"{path}#{section}")
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_modules_that_are_run_exist(document: str) -> None:
    """Every `python -m MODULE` of a document is a module, and every `pytest FILE` a file."""
    text = read_document(document)
    modules = set(re.findall(r"python -m ([\w.]+)", text)) - {"venv", "pytest", "mkdocs"}
    paths = [ROOT / module.replace(".", "/") for module in modules]
    assert not [path for path in paths if not (path.is_dir() or path.with_suffix(".py").is_file())]
    files = {name for line in re.findall(r"pytest (tests/[^`\n]+)", text) for name in line.split()}
    assert not sorted(name for name in files if not (ROOT / name).exists())


def test_every_key_and_value_of_a_scenario_is_in_the_reference() -> None:
    """The reference names each key and each named value that the JSON Schema allows, in a code span."""
    schema = scenario_schema()
    allowed = {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", {})}
    allowed |= {value for values in named_values(schema) for value in values if isinstance(value, str)}
    names = ("scenario", "whole-job", "inference", "serving", "reinforcement")
    text = FENCE.sub("", "".join(read_document(f"docs/{name}.md") for name in names))
    spans = " ".join(re.findall(r"`([^`]+)`", text))
    assert not sorted(allowed - set(re.findall(r"[\w-]+(?:\+\+)?", spans)))


def named_values(schema: object) -> Iterator[list[object]]:
    """Yield the list of values of every `enum` in a JSON Schema."""
    if isinstance(schema, dict):
        yield from ([schema["enum"]] if isinstance(schema.get("enum"), list) else [])
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from named_values(part)


def test_map_shows_every_package() -> None:
    """The map in CONTRIBUTING has a line for every package of `planner/`, and for no other folder."""
    (drawn,) = [block.body for block in blocks("CONTRIBUTING.md", "text") if block.body.startswith("planner/")]
    shown, parents = set(), [ROOT]
    for indent, name in re.findall(r"^( *)(\w+)/", drawn, re.MULTILINE):
        parents = [*parents[: len(indent) // 2 + 1], parents[len(indent) // 2] / name]
        shown.add(parents[-1])
    assert shown == {path.parent for path in (ROOT / "planner").rglob("__init__.py")}


def test_where_is_leads_to_the_place() -> None:
    """Each row of *Where is ...?* names a file that is there and a text that is in it, or links to a recipe."""
    table = read_document("CONTRIBUTING.md").partition("## Where is ...?")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!question)([^-|][^|]*) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 10
    for question, places in rows:
        named = re.findall(r"`([\w./-]+/[\w.-]+)`(?:: `([^`]+)`)?", places)
        assert named or "](#" in places, question
        for path, text in named:
            place = ROOT / "planner" / path
            place = place if place.exists() else ROOT / path
            assert text in place.read_text(encoding="utf-8"), (question, path, text)


def test_readme_is_short() -> None:
    """The README starts a reader; what explains more is in docs/, linked from it or from the start of the site."""
    text = read_document("README.md")
    assert len(text.splitlines()) <= 160
    start = read_document("docs/index.md")
    linked = {name for name in DOCUMENTS if f"({name}" in text or f"({name.removeprefix('docs/')})" in start}
    assert "(docs/index.md)" in text
    assert not [name for name in DOCUMENTS if name.startswith("docs/") and name not in linked]
