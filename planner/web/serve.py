"""Serve the page on this machine alone, and open it in a browser."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from typing import TYPE_CHECKING, Any

import uvicorn

from planner.errors import Fault, InputError
from planner.web.server import create_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.scenario.scenario import SolveOptions
    from planner.web.opened import OpenedScenario

LOOPBACK = "127.0.0.1"


def bind(port: int | None) -> socket.socket:
    """Return a socket on the loopback address; a free port if none is given. `InputError` where the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port or 0))
        listener.listen()  # a browser that comes before the server is up waits for it
    except OSError as error:
        listener.close()
        what = f"port {port} cannot be used: {(error.strerror or str(error)).lower()}"
        raise InputError([Fault("--port", 0, "", what, "name another one, or leave --port out")]) from None
    return listener


def serve(
    opened: OpenedScenario,
    options: SolveOptions,
    *,
    port: int | None,
    opens_browser: bool,
    announce: Callable[[str], Any],
) -> None:
    """Serve until interrupted; `announce` gets the address once the server listens."""
    listener = bind(port)
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
    config = uvicorn.Config(
        create_app(opened, options), log_level="warning", access_log=False, server_header=False, lifespan="on",
        timeout_graceful_shutdown=1, limit_concurrency=100,
    )  # fmt: skip
    announce(address)
    if opens_browser:
        threading.Timer(0.3, webbrowser.open, (address,)).start()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how the page is stopped
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
