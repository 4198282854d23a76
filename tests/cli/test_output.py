"""What reaches a terminal, a pipe or a full disk: escapes, encodings and streams that are closed."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from planner.cli import main
from planner.cli.output import Output, show, show_progress
from planner.documents.tables import json_text
from planner.errors import Fault

HOSTILE = "a\x1b]0;b\x07\r\x9b2J\u202e\ud800\x7f é 日本"
"""What retitles a terminal, clears it, turns its text around or cannot be encoded, and letters that may stay."""


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class Answer(BaseModel):
    """The answer of a command."""

    name: str = HOSTILE


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return both streams as one terminal with colours."""
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_from_outside_steers_a_terminal(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """Answers, faults and wrong options: no character acts but the line breaks, and letters are kept."""
    terminal = open_terminal(monkeypatch)
    Output(as_json).write(Answer(), lambda answer: answer.name)
    show(str(Fault(HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE)), err=True)
    for arguments in (["solve", HOSTILE], ["solve", f"--{HOSTILE}"], ["gpus", "show", HOSTILE], [HOSTILE]):
        assert exit_code(*arguments, *(["--json"] if as_json else [])) == 2
    text = terminal.getvalue()
    assert text.replace("\n", "").isprintable()
    assert text.count("é 日本") >= 8 and r"a\u001b]0;b\u0007\r\u009b2J\u202e\ud800\u007f" in text


def test_progress_shows_a_name_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own line is erased by an escape sequence, the only one."""
    terminal = open_terminal(monkeypatch)
    with show_progress(f"solving {HOSTILE}"):
        assert terminal.getvalue().isprintable()


def test_colour_is_added_to_what_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary is bold, what was in the name is text."""
    terminal = open_terminal(monkeypatch)
    Output(False).write(Answer(), lambda answer: answer.name, color=True)
    assert terminal.getvalue().startswith("\033[1ma\\u001b]0;b")


def test_escapes_keep_the_content_of_json() -> None:
    """A reader of the document gets the name as it was."""
    text = json_text({"name": HOSTILE, "tag": "\U000e0001"})
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {"name": HOSTILE, "tag": "\U000e0001"}


def broken_stream(kind: str) -> Any:
    """Standard output that cannot be written, or is closed (None)."""
    if kind == "latin-1":
        return open("/dev/null", "w", encoding=kind)
    return open("/dev/full", "w") if kind == "full" else None


@pytest.mark.parametrize(
    ("kind", "why", "arguments"),
    [
        ("full", "no space left", ("schema",)),
        ("full", "no space left", ("--help",)),
        ("full", "no space left", ("solve", "nothing", "--json")),
        ("closed", "bad file", ("schema",)),
        ("closed", "bad file", ("--help",)),
        ("latin-1", r"has no '\u65e5'", ("solve", "no such 日", "--json")),
    ],
)
def test_output_that_cannot_be_written_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str, why: str, arguments: tuple[str, ...]
) -> None:
    """Never 0 with nothing written, and no traceback: what is wrong is not our answer."""
    monkeypatch.setattr(sys, "stdout", broken_stream(kind))
    assert exit_code(*arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("standard output cannot be written: ") and why in line


def test_a_fault_that_nobody_can_read_keeps_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error full or closed: a script still learns what happened."""
    for kind in ("full", "closed"):
        monkeypatch.setattr(sys, "stderr", broken_stream(kind))
        assert exit_code("solve", "nothing") == 2


def test_closed_standard_input_is_an_empty_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`planner solve - <&-`."""
    monkeypatch.setattr(sys, "stdin", None)
    assert exit_code("solve", "-") == 2


def test_python_adds_nothing_when_it_ends() -> None:
    """It flushes what is left once more, in a process of its own."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from planner.cli import main; main()", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            check=False,
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


@pytest.mark.slow
def test_a_picture_is_drawn_without_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No home, an unknown backend, a sign that the font lacks: matplotlib keeps it to itself."""
    monkeypatch.setenv("MPLBACKEND", "nonsense")

    def draw(answer: Answer, path: str, caption: Any) -> None:
        logging.getLogger("matplotlib.font_manager").warning("created a temporary cache directory")
        warnings.warn("Glyph 26085 missing from font(s)", stacklevel=1)
        import matplotlib

        assert matplotlib.rcParams is not None
        Path(path).touch()

    Output(False, plot=str(tmp_path / "a.png")).write(Answer(), lambda answer: "text", draw)
    out, err = capsys.readouterr()
    assert (out, err) == ("text\n", "") and (tmp_path / "a.png").exists()
