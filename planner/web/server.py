"""The server of the page on this machine alone: four requests, each guarded; it opens a browser."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections import OrderedDict
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.middleware.trustedhost import TrustedHostMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from planner.errors import Fault, InputError
from planner.loading.scenario_file import load_scenario, shipped_scenarios
from planner.scenario.scenario import SolveOptions
from planner.web.app_page import OpenedScenario, render_app, script_text
from planner.web.ended_folders import remove_when_ended
from planner.web.setting_fields import CONFIG_MARK, Refusal, locate, settings_of, values_of
from planner.web.workers import QUEUES, Broken, Busy, Sessions, Superseded, TooLong

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import FrameType


# The server of the page: four requests, each guarded against other sites, other hosts, size and time.


LOOPBACK_HOSTS = ["127.0.0.1", "localhost"]
"""Names under which a browser on this machine reaches the server; another one is a site that rebinds its name."""
TOKEN_HEADER = "x-planner-token"
MOST_BODY, MOST_MODEL = 100_000, 1_500_000
"""Bytes of a request, and of one that carries a config.json."""
MOST_CONFIGS = 32
"""Most config.json files that a server keeps."""
MOST_OPENED = 6
"""Most shipped scenarios that are open at one time next to the first one."""
MOST_CURVE_POINTS = 10
"""Most points of the curve of a service."""
BODY_SECONDS = 10.0
"""Longest wait for the whole of a request."""
SOLVE_SECONDS = 120.0
"""Longest solve that a page waits for."""
SESSION = re.compile(r"[0-9a-f]{16,64}\Z")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Rejection(Exception):
    """A request that is refused, with its status and its reason."""

    def __init__(self, status: int, reason: str):
        self.status = status
        super().__init__(reason)


class App:
    """One opened scenario, the processes that solve it, and the files that the page was given."""

    def __init__(
        self, opened: OpenedScenario, options: SolveOptions, limit_seconds: float = SOLVE_SECONDS, shipped: str = ""
    ):
        self.opened, self.controls, self.shipped = opened, opened.controls, shipped
        self.token = secrets.token_urlsafe(24)
        self.folder = tempfile.TemporaryDirectory(prefix="planner-app-")
        remove_when_ended(self.folder.name)
        self.sessions = Sessions(opened.scenario, options, limit_seconds, self.folder.name)
        self.configs: dict[str, str] = {}
        self.config_names: dict[str, str] = {}
        self.limit_seconds = limit_seconds

    def close(self) -> None:
        """End every process and remove the files that the page was given."""
        self.sessions.stop()
        self.folder.cleanup()

    def page(self) -> Response:
        """Return the page, whose script and style a nonce admits."""
        nonce = secrets.token_urlsafe(16)
        policy = {"Content-Security-Policy": POLICY.format(nonce=nonce)}
        page = render_app(self.opened, self.controls, self.token, nonce, self.shipped)
        return HTMLResponse(page, headers={**HEADERS, **policy})

    async def answer(self, task: str, request: Request) -> dict[str, Any]:
        """Return the answer to a POST; raises `Rejection`, `Refusal`, and what a queue raises."""
        data = await self._body(request, MOST_MODEL if task == "model" else MOST_BODY)
        if task == "model":
            return self._keep_config(data)
        session = data.get("session")
        if not isinstance(session, str) or not SESSION.match(session):
            raise Rejection(400, "the page has no number: open it again")
        if task == "stop":
            for kind in QUEUES:
                self.sessions.drop(session, kind)
            return {}
        settings = self._settings(data.get("values"))
        if task == "file" and data.get("file") == "scenario":
            return self.opened.changed_file(list(settings.values()), self.configs, self.config_names)
        answered = await self.sessions.ask(session, self._asked(task, data, settings, session))
        for change in answered.get("changes", ()):  # a button makes what a field can
            change["values"] = values_of(self.controls, change["setting"], self.opened.job_names)
        if "faults" in answered:
            raise Refusal(locate(answered["faults"], self.controls))
        shown = [self._shown(setting) for setting in settings.values()]
        return {**answered, "settings": shown, "command": self.opened.command(shown)}

    def _asked(self, task: str, data: dict[str, Any], settings: dict[str, str], session: str) -> dict[str, Any]:
        """Return what a process is asked for; raises `Rejection`."""
        width = data.get("width", 700)
        asked: dict[str, Any] = {"task": task, "settings": tuple(settings.values())}
        asked["width"] = min(1000, max(280, width if isinstance(width, (int, float)) else 700))
        if task == "plan":
            asked["brief"] = data.get("brief") is True
            if data.get("redraws") is True:
                self.sessions.drop(session, "frontier")
            asked["reference"] = tuple(self._settings(data.get("reference") or {}).values())
        if task == "frontier":
            points = data.get("points", MOST_CURVE_POINTS)
            asked["points"] = min(MOST_CURVE_POINTS, max(3, points if type(points) is int else MOST_CURVE_POINTS))
            asked["settings"] = self._without_deadlines(settings)
        if task == "file":
            if data.get("file") not in ("plan", "report", "exports"):
                raise Rejection(400, "no such file")
            asked["file"] = data["file"]
        if task == "why":
            asked["query"] = self._query(data)
        return asked

    def _query(self, data: dict[str, Any]) -> str:
        """Return what `--why-not` asks of a GPU, and of a provider where one is named; both must be on offer."""
        parts = []
        for key, control in (("gpu", "gpus"), ("provider", "providers")):
            name = data.get(key, "")
            known = next((dict(field.choices) for field in self.controls if field.key == control), {})
            if name not in known and (name or key == "gpu"):
                raise Rejection(400, f"no such {key} is on offer")
            parts += [f"{key}={name}"] if name else []
        return ",".join(parts)

    def _without_deadlines(self, settings: dict[str, str]) -> tuple[str, ...]:
        """Return the settings of a curve: over time without deadlines, of which the only job's is its axis."""
        if self.opened.serves:
            return tuple(settings.values())
        deadlines, axis = {control.key for control in self.controls if control.kind == "hours"}, self.opened.axis
        kept = [setting for key, setting in settings.items() if key not in deadlines]
        return (*kept, f"{axis.path}=null") if axis is not None else tuple(kept)

    def _settings(self, values: Any) -> dict[str, str]:
        """Return the settings of the values that a page sent."""
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise Rejection(400, "values is not a mapping of texts")
        return settings_of(self.controls, values, self.configs)

    def _shown(self, setting: str) -> str:
        """Return a setting with the name of a config.json in place of where it is kept."""
        for key, path in self.configs.items():
            setting = setting.replace(json.dumps(path), self.config_names[key])
        return setting

    async def _body(self, request: Request, most: int) -> dict[str, Any]:
        """Return the JSON of a request that this page sent; raises `Rejection`."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is not None and origin != f"http://{host}":
            raise Rejection(403, "the request comes from another site")
        given = request.headers.get(TOKEN_HEADER, "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise Rejection(403, "the token is not that of this server: load the page again")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Rejection(415, "not JSON")
        body = b""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise Rejection(413, f"more than {most:,} bytes")
        except TimeoutError:
            raise Rejection(408, f"the request was not complete after {BODY_SECONDS:.0f} s") from None
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise Rejection(400, "not JSON") from None
        if not isinstance(data, dict):
            raise Rejection(400, "not a mapping")
        return data

    def _keep_config(self, data: dict[str, Any]) -> dict[str, Any]:
        """Keep a config.json that was given to the page, once it is read without a fault."""
        from planner.library.reading import read_config

        text, name = data.get("text"), data.get("name")
        if not isinstance(text, str) or not isinstance(name, str):
            raise Rejection(400, "no text")
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise Rejection(400, "the text is not Unicode") from None
        key = CONFIG_MARK + hashlib.sha256(content).hexdigest()[:16]
        if key not in self.configs:
            if len(self.configs) >= MOST_CONFIGS:
                raise Rejection(413, f"more than {MOST_CONFIGS} models: start planner app again")
            path = Path(self.folder.name, f"{key.removeprefix(CONFIG_MARK)}.json")
            path.write_bytes(content)
            try:
                read_config(str(path))
            except InputError as error:
                path.unlink()
                field = next((control.key for control in self.controls if control.kind == "model"), "")
                raise Refusal(
                    [{"key": field, "what": fault.what, "fix": fault.fix} for fault in error.faults]
                ) from None
            self.configs[key] = str(path)
            clean = re.sub(r"[^\w.-]+", "-", name.rpartition("/")[2], flags=re.ASCII)[:60] or "config.json"
            self.config_names[key] = clean if clean.endswith(".json") else f"{clean}.json"
        return {"model": key, "name": self.config_names[key]}


class Apps:
    """The scenario that the server was started with, and shipped ones that its pages opened."""

    def __init__(self, first: App, options: SolveOptions, limit_seconds: float):
        self.first, self._options, self._limit = first, options, limit_seconds
        self._shipped: OrderedDict[str, App] = OrderedDict()

    def of(self, name: str) -> App:
        """Return what answers for a shipped scenario, or for the first one where no name is given."""
        if not name:
            return self.first
        if name not in self._shipped:
            if name not in shipped_scenarios():
                raise Rejection(404, "no shipped scenario has that name")
            loaded = load_scenario(name)
            document = loaded.source.document
            opened = OpenedScenario(
                loaded.scenario, document.data if document else {}, loaded.source.file, asked=(name,)
            )
            self._shipped[name] = App(opened, self._options, self._limit, name)
            if len(self._shipped) > MOST_OPENED:
                self._shipped.popitem(last=False)[1].close()
        self._shipped.move_to_end(name)
        return self._shipped[name]

    def close(self) -> None:
        """End every process of every scenario."""
        for app in (self.first, *self._shipped.values()):
            app.close()


def create_app(opened: OpenedScenario, options: SolveOptions, limit_seconds: float = SOLVE_SECONDS) -> FastAPI:
    """Return the server of one opened scenario, whose pages may open shipped ones."""
    app = App(opened, options, limit_seconds)
    apps = Apps(app, options, limit_seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        apps.close()

    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    server.state.app = app
    server.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK_HOSTS, www_redirect=False)

    server.state.close = apps.close

    async def page(scenario: str = "") -> Response:
        try:
            return apps.of(scenario).page()
        except Rejection as error:
            return _json({"error": str(error)}, error.status)

    async def script(name: str) -> Response:
        text = script_text(name)
        if text is None:
            return _json({"error": "no such script"}, 404)
        return Response(text, media_type="text/javascript", headers=HEADERS)

    async def answer(task: str, request: Request, scenario: str = "") -> Response:
        try:
            chosen = apps.of(scenario)
        except Rejection as error:
            return _json({"error": str(error)}, error.status)
        return await _answered(chosen, task, request)

    server.add_api_route("/", page, methods=["GET"], response_class=HTMLResponse)
    server.add_api_route("/js/{name}", script, methods=["GET"], response_class=Response)
    server.add_api_route("/api/{task}", answer, methods=["POST"], response_class=JSONResponse)
    return server


async def _answered(app: App, task: str, request: Request) -> Response:
    """Return the answer as JSON, and what went wrong as a sentence with its status."""
    if task not in ("plan", "frontier", "file", "model", "others", "why", "stop"):
        return _json({"error": "no such request"}, 404)
    try:
        return _json(await app.answer(task, request), 200)
    except Rejection as error:
        return _json({"error": str(error)}, error.status)
    except Refusal as error:
        return _json({"faults": error.faults}, 200)  # an answer to what was typed: no error of a console
    except Superseded:
        return _json({"superseded": True}, 200)
    except Busy:
        return _json({"error": "too many pages are solving: close one, or wait"}, 503)
    except TooLong:
        command = "frontier" if task == "frontier" else "solve"
        problem = f"stopped after {app.limit_seconds:.0f} s: planner {command} has no such limit"
        return _json({"error": problem}, 504)
    except Broken:
        return _json({"error": "the process that solves has ended; change something to start another"}, 500)


def _json(data: dict[str, Any], status: int) -> JSONResponse:
    return JSONResponse(data, status, headers=HEADERS)


# Serve the page on this machine alone, and open it in a browser.


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
        # What a busy machine has no second to answer is cut off by the person who stops it: no error, no traceback.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        super().handle_exit(sig, frame)  # first: a second signal may come while the processes end
        app.sessions.stop()


def bind(port: int | None) -> socket.socket:
    """Return a socket on the loopback address; a free port if none is given. `InputError` where the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port or 0))
        listener.listen()  # a browser that comes before the server is up waits for it
    except OSError as error:
        listener.close()
        problem = f"port {port} cannot be used: {(error.strerror or str(error)).lower()}"
        raise InputError([Fault("--port", 0, "", problem, "name another one, or leave --port out")]) from None
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
        page.state.close()
        listener.close()
