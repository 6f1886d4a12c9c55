"""A Hugging Face Hub on loopback: files of a few models, gates, and what the real one says when it refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40


@dataclass
class FakeModel:
    """Files by name and revision; ``tokens`` may read, None for everybody; ``total`` is the metadata count."""

    files: dict[str, bytes]
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    tokens: tuple[str, ...] | None = None
    gated: bool = False
    total: int | None = None


@dataclass
class FakeHub:
    """``models`` by name; ``down`` makes every answer a 503; ``silent`` leaves requests unanswered until released."""

    models: dict[str, FakeModel] = field(default_factory=dict)
    url: str = ""
    down: bool = False
    silent: bool = False
    requests: list[str] = field(default_factory=list)
    released: Event = field(default_factory=Event)

    def publish(self, name: str, config: Any, **more: Any) -> FakeModel:
        """Add a model with a config.json."""
        content = config if isinstance(config, bytes) else json.dumps(config).encode()
        self.models[name] = FakeModel({"config.json": content}, **more)
        return self.models[name]

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path)
        self.requests.append(f"{request.command} {path}")
        if self.silent:
            self.released.wait(30)
            return
        if self.down:
            _send(request, 503)
        elif path.startswith("/api/models/"):
            self._metadata(request, path.removeprefix("/api/models/"))
        else:
            self._file(request, path)

    def _file(self, request: BaseHTTPRequestHandler, path: str) -> None:
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        revision, _, filename = rest.rpartition("/")
        model = self.models.get(name)
        if model is None:
            _send(request, 401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        elif not _may_read(model, request):
            code = "GatedRepo" if model.gated else "RepoNotFound"
            _send(request, 403 if model.gated else 401, X_Error_Code=code)
        elif revision not in (*model.revisions, *model.revisions.values()):
            _send(request, 404, X_Error_Code="RevisionNotFound")
        elif filename not in model.files:
            _send(request, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        else:
            content = model.files[filename]
            commit = model.revisions.get(revision, revision)
            etag = f'"{hashlib.sha1(content, usedforsecurity=False).hexdigest()}"'
            _send(request, 200, content, X_Repo_Commit=commit, ETag=etag)

    def _metadata(self, request: BaseHTTPRequestHandler, path: str) -> None:
        model = self.models.get(path.partition("/revision/")[0])
        if model is None or not _may_read(model, request):
            _send(request, 401, X_Error_Code="RepoNotFound")
            return
        body: dict[str, Any] = {"_id": "1", "id": path.partition("/revision/")[0]}
        if model.total is not None:
            body["safetensors"] = {"parameters": {"BF16": model.total}, "total": model.total}
        _send(request, 200, json.dumps(body).encode())


def _may_read(model: FakeModel, request: BaseHTTPRequestHandler) -> bool:
    granted = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return model.tokens is None or granted in model.tokens


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


@contextmanager
def serve_hub() -> Iterator[FakeHub]:
    """Run a hub for one test."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            hub.respond(self)

        def do_HEAD(self) -> None:
            hub.respond(self)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
