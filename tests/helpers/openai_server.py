"""A server that speaks the part of OpenAI's protocol that engines have, and answers by turning the prompt round.

    python tests/helpers/openai_server.py PORT [FAIL]

A prompt that begins with `bad` is refused (400). With FAIL, that many answers are 503 first.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Counts what it is asked; `failing` requests are answered with 503 first."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0, failing: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.failing, self.asked, self.bodies, self.lock = failing, Counter[str](), list[Any](), threading.Lock()

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Return the health."""
        self.reply(200, {})

    def do_POST(self) -> None:
        """Return the answer to a prompt."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.path.endswith("chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        with self.server.lock:
            self.server.asked[prompt] += 1
            self.server.bodies.append(body)
            fails = self.server.failing > 0
            self.server.failing -= fails
        if fails:
            self.reply(503, {"error": "busy"})
        elif prompt.startswith("bad"):
            self.reply(400, {"error": "too long"})
        else:
            text = prompt[::-1]
            choice = {"message": {"content": text}} if chat else {"text": text}
            used = {"prompt_tokens": len(prompt), "completion_tokens": len(text)}
            self.reply(200, {"choices": [{**choice, "finish_reason": "stop"}], "usage": used})

    def reply(self, status: int, data: Any) -> None:
        """Send a document."""
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    Server(int(sys.argv[1]), *map(int, sys.argv[2:])).serve_forever()
