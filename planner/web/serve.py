"""Serve the page on this machine alone, and open it in a browser."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import webbrowser
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from planner.errors import Fault, InputError
from planner.web.server import create_app

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

    from planner.scenario.scenario import SolveOptions
    from planner.web.opened import OpenedScenario

LOOPBACK = "127.0.0.1"
HEADER_SECONDS = 10.0
"""Longest wait for the head of a request: a connection that sends none would keep others out."""
STOPPED_TWICE = 130
"""128 + SIGINT: the exit code of a server that is stopped twice."""
MOST_CONNECTIONS = 400
"""Most connections at one time; further ones are refused."""


class PatientProtocol(H11Protocol):
    """HTTP that closes a connection whose next request has not begun after `HEADER_SECONDS`."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read what came; a request whose head is whole is waited for no longer."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._clock is not None:
            self._clock.cancel()

    def _wait(self) -> None:
        """Start the clock unless it runs or a request is being answered, which stops it."""
        answers = self.cycle is not None and not self.cycle.response_complete
        if answers and self._clock is not None:
            self._clock.cancel()
            self._clock = None
        elif not answers and self._clock is None:
            self._clock = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._clock = None
        if not self.transport.is_closing():
            self.transport.close()


class PageServer(uvicorn.Server):
    """A server whose first signal to end also ends the processes that solve, for whose answers it would wait."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the processes and then the server; at a second signal leave at once."""
        app = self.config.app.state.app  # type: ignore[union-attr]
        if self.should_exit:
            app.close()
            os._exit(STOPPED_TWICE)
        app.sessions.stop()
        super().handle_exit(sig, frame)


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
    page = create_app(opened, options)
    config = uvicorn.Config(
        page, log_level="warning", access_log=False, server_header=False, lifespan="on",
        timeout_graceful_shutdown=1, limit_concurrency=MOST_CONNECTIONS, http=PatientProtocol,
    )  # fmt: skip
    announce(address)
    if opens_browser:
        threading.Timer(0.3, webbrowser.open, (address,)).start()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how the page is stopped
            PageServer(config).run(sockets=[listener])
    finally:
        page.state.app.close()
        listener.close()
