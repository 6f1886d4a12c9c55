"""An engine that answers at once with the name of its pod: no model, but vLLM's HTTP and metrics.

``python answering_engine.py ADDRESS PORT FOLDER NAMESPACE POD MODEL``. A prompt that begins with ``held`` gets one
word, and the rest when FOLDER gets a file ``release``. SIGTERM ends it when the last answer has been written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from testbed.engine_metrics import Engine
from testbed.engine_page import exposition
from testbed.engines import PageServer
from testbed.kubelet.images import Place, Program
from testbed.verdict import read_arguments
from testbed.waiting import wait_until

HELD = "held"
_RELEASE = "release"
_RELEASED_SECONDS = 600.0
_KV_TOKENS = 100_000
_CHECKOUT = Path(__file__).resolve().parents[2]


def answering_engine(container: Mapping[str, Any], place: Place) -> Program:
    """Make the program for a container of a rendered engine: it listens at the pod's address."""
    namespace, pod, _ = place.folder.name.split("_")
    port = str(container["ports"][0]["containerPort"])
    model = read_arguments([*(container.get("command") or []), *container["args"]]).served
    words = [sys.executable, "-P", __file__, place.address, port, str(place.folder), namespace, pod, model]
    return Program(words, dict(os.environ) | {"PYTHONPATH": str(_CHECKOUT)}, ["no model: it answers with its name"])


def release(folder: Path, pod: str) -> None:
    """Let a pod finish the answers that it holds. ``folder`` is the kubelet's."""
    [its_folder] = folder.glob(f"*_{pod}_*")
    (its_folder / _RELEASE).touch()


def main() -> None:
    """Serve until SIGTERM."""
    address, port, folder, namespace, pod, model = sys.argv[1:]
    _Handler.folder, _Handler.engine = Path(folder), Engine(namespace, pod, model, _KV_TOKENS)
    server = PageServer((address, int(port)), _Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    wait_until(lambda: not _Handler.writing, _RELEASED_SECONDS, "the last answer")


class _Handler(BaseHTTPRequestHandler):
    """Answers as one engine. ``folder`` is its pod's."""

    folder: Path
    engine: Engine
    writing: ClassVar[set[int]] = set()
    """The answers that are being written."""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        pages = {"/health": "", "/metrics": exposition([self.engine])}
        self._answer(200 if self.path in pages else 404, pages.get(self.path, ""))

    def do_POST(self) -> None:
        self.writing.add(id(self))
        try:
            self._complete(json.loads(b"".join(self._body())))
        finally:
            self.writing.discard(id(self))

    def _complete(self, asked: dict[str, Any]) -> None:
        if (self.path, asked["model"]) != ("/v1/completions", self.engine.model):
            self._answer(404, json.dumps({"error": {"message": f"no {asked['model']} at {self.path} here"}}))
        elif asked["prompt"].startswith(HELD):
            self._answer_slowly()
        else:
            self._answer(200, _completion(self.engine.pod))

    def _body(self) -> Iterator[bytes]:
        """Yield the parts of a request: a proxy that lets a picker read them does not know their length."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield self.rfile.read(int(self.headers["Content-Length"]))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if not text.startswith("{") else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def _answer_slowly(self) -> None:
        (self.folder / _RELEASE).unlink(missing_ok=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send_event(_completion(self.engine.pod))
        wait_until((self.folder / _RELEASE).exists, _RELEASED_SECONDS, "the release of an answer")
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, text: str) -> None:
        event = f"data: {text}\n\n"
        self.wfile.write(f"{len(event):x}\r\n{event}\r\n".encode())
        self.wfile.flush()

    @override
    def log_message(self, format: str, *arguments: Any) -> None:
        """Probes are not worth a line."""


def _completion(pod: str) -> str:
    return json.dumps({"object": "text_completion", "choices": [{"index": 0, "text": pod, "finish_reason": "stop"}]})


if __name__ == "__main__":
    main()
