"""`planner app`: what it refuses before it serves, the address it prints, and its end by Ctrl-C."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("fastapi", reason="needs the extra web")

from planner.cli import main
from tests.helpers.hangs import HANG_SECONDS
from tests.helpers.pages import CALM, served


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(json.dumps(CALM), encoding="utf-8")
    return tmp_path


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for temporary files in which the name of a socket is not too long."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


def planner(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["app", "--no-browser", *arguments])


@pytest.mark.slow
def test_the_page_is_served_until_ctrl_c(folder: Path) -> None:
    """The address on standard output has the page; Ctrl-C ends it without an error."""
    with served("s.yaml", cwd=folder) as (address, process):
        with urllib.request.urlopen(address) as answer:
            assert "<title>calm: planner app</title>" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 0


def children_of(number: int) -> list[int]:
    """Return the processes that a process started, and those that these started."""
    with contextlib.suppress(FileNotFoundError):  # it has ended
        threads = [thread.read_text().split() for thread in Path(f"/proc/{number}/task").glob("*/children")]
        children = [int(child) for found in threads for child in found]
        return [one for child in children for one in (child, *children_of(child))]
    return []


def ask_for_a_plan(address: str, process: subprocess.Popen[str]) -> None:
    """Ask for a plan and then for the curve as the page does; leave when the process that solves the curve runs."""
    token = re.search(r'"token":"([^"]+)"', urllib.request.urlopen(address).read().decode())
    assert token is not None
    body = json.dumps({"session": "0123456789abcdef", "values": {}}).encode()
    head = {"Content-Type": "application/json", "X-Planner-Token": token[1]}
    asked = urllib.request.Request(f"{address}api/plan", data=body, headers=head)
    with contextlib.suppress(OSError):
        urllib.request.urlopen(asked, timeout=HANG_SECONDS)
    with contextlib.closing(http.client.HTTPConnection(address.split("/")[2])) as connection:
        connection.request("POST", "/api/frontier", body, head)
        until(lambda: len(children_of(process.pid)) > 3)


def ended(numbers: list[int]) -> bool:
    """Whether processes are gone, or dead and not yet collected."""
    stats = [Path(f"/proc/{number}/stat") for number in numbers]
    return all(not one.exists() or one.read_text().rpartition(")")[2].split()[0] == "Z" for one in stats)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
@pytest.mark.parametrize("way", ["ctrl-c while solving", "ctrl-c twice", "terminated", "killed"])
def test_what_the_server_started_ends_with_it(
    folder: Path, way: str, monkeypatch: pytest.MonkeyPatch, short_folder: Path
) -> None:
    """No process that solves, no file or folder and no traceback is left, however it ends."""
    monkeypatch.setenv("TMPDIR", str(short_folder))
    with served("s.yaml", cwd=folder) as (address, process):
        ask_for_a_plan(address, process)
        started = children_of(process.pid)
        assert any(short_folder.iterdir())
        if way == "killed":
            process.kill()
        elif way == "terminated":
            process.terminate()
        else:
            process.send_signal(signal.SIGINT)
            if "twice" in way:
                process.send_signal(signal.SIGINT)
        code = process.wait(HANG_SECONDS)
        assert process.stderr is not None
        said = process.stderr.read()
        assert "Traceback" not in said
        assert code in {"killed": (-9,), "terminated": (-15,), "ctrl-c twice": (0, 130)}.get(way, (0,))
        until(lambda: ended(started))
    assert not list(short_folder.iterdir())


CUT_OFF = """\
import asyncio, os, signal, types
import uvicorn
from fastapi import FastAPI
from planner.web.server import PageServer

page = FastAPI()
page.state.close, page.state.sessions = (lambda: None), types.SimpleNamespace(stop=lambda: None)
page.state.app = page.state  # the page, as the configuration has it

@page.get("/")
async def answer():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(3600)

async def ask(listener):
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    await reader.read()

async def both():
    listener = __import__("socket").create_server(("127.0.0.1", 0))
    server = PageServer(uvicorn.Config(page, log_level="warning", timeout_graceful_shutdown=0))
    await asyncio.gather(server.serve(sockets=[listener]), ask(listener))

try:
    asyncio.run(both())
except KeyboardInterrupt:
    pass
"""


def test_an_answer_that_ctrl_c_cuts_off_is_no_error() -> None:
    """A server that cannot end its answers in time, as on a busy machine, prints no traceback."""
    done = subprocess.run([sys.executable, "-c", CUT_OFF], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(round(10 * HANG_SECONDS)):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it does not come to hold")


@pytest.mark.slow
@pytest.mark.long
def test_connections_that_send_nothing_keep_nobody_out(folder: Path) -> None:
    """The page is served beside 150 of them, and they are closed."""
    with served("s.yaml", cwd=folder) as (address, _), contextlib.ExitStack() as stack:
        port = int(address.rpartition(":")[2].strip("/"))
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(150)]
        for one in opened[::2]:
            one.sendall(b"POST /api/plan HTTP/1.1\r\nHost: 127")
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200
        for one in opened:
            one.settimeout(HANG_SECONDS)
            assert one.recv(1) == b""


def test_without_the_extra_one_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, and what to install."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else found(name))
    result = planner("s.yaml")
    assert result.exit_code == 2
    assert result.output == ("planner app: fastapi not installed; install the extra `web`: pip install '.[web]'\n")


def test_a_wrong_scenario_is_refused_before_anything_is_served(folder: Path) -> None:
    """With the faults and the exit code of every command."""
    (folder / "bad.yaml").write_text(json.dumps({**CALM, "limit": {}}), encoding="utf-8")
    for words, what in (
        (["bad.yaml"], "limit"),
        (["nothing"], "no such file"),
        (["s.yaml", "--model", "x"], "not both"),
    ):
        result = planner(*words)
        assert result.exit_code == 2 and what in result.output, result.output


@pytest.mark.parametrize("name", ["serve-or-api", "tune-then-serve"])
def test_a_service_is_served_as_every_scenario(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone and next to other jobs."""
    served_with: list[Any] = []
    monkeypatch.setattr("planner.web.server.serve", lambda opened, *_, **__: served_with.append(opened))
    result = planner(name)
    assert result.exit_code == 0, result.output
    assert len(served_with) == 1


def test_a_port_that_is_taken_is_named() -> None:
    """One line and exit code 2."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = planner("s.yaml", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2 and "cannot be used" in result.output


@pytest.mark.parametrize(
    "options", [[], ["--as-of", "2026-11-21"], ["--solver", "scip", "--as-of", "2026-11-21"], ["--solver", "cbc"]]
)
def test_the_command_to_copy_solves_as_the_page_does(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the options that the page was started with, and both commands that the page shows take them."""
    served_with: list[Any] = []
    monkeypatch.setattr("planner.web.server.serve", lambda opened, *_, **__: served_with.append(opened))
    assert planner("s.yaml", *options).exit_code == 0
    (opened,) = served_with
    for settings, name in (((), "solve"), (("limits.budget_usd=3",), "what-if")):
        words = shlex.split(opened.command(settings))
        changes = [word for setting in settings for word in ("--set", setting)]
        assert words == ["planner", name, "s.yaml", *options, *changes]
        assert CliRunner().invoke(main, [*words[1:], "--help"]).exit_code == 0
