"""A Hugging Face Hub on loopback: files of a few models, gates, and what the real one says when it refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40

Shapes = Mapping[str, tuple[str, Sequence[int]]]
"""Type and shape of tensors by name."""


@dataclass
class FakeModel:
    """Files by name and revision; ``tokens`` may read, None for everybody; ``total`` is the metadata count.

    ``is_listed`` is false on a hub whose metadata lists no files.
    """

    files: dict[str, bytes]
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    tokens: tuple[str, ...] | None = None
    gated: bool = False
    total: int | None = None
    is_listed: bool = True


@dataclass
class FakeHub:
    """``models`` by name; ``down`` makes every answer a 503; ``silent`` leaves requests unanswered until released.

    ``limit`` makes every answer a 429 with these headers. Without ``codes`` it refuses as a plain web server does.
    Without ``ranges`` it sends whole files whatever is asked for; ``sent_bytes`` counts the bodies of files.
    """

    models: dict[str, FakeModel] = field(default_factory=dict)
    url: str = ""
    down: bool = False
    silent: bool = False
    ranges: bool = True
    codes: bool = True
    limit: Mapping[str, str] | None = None
    sent_bytes: int = 0
    requests: list[str] = field(default_factory=list)
    released: Event = field(default_factory=Event)

    def publish(self, name: str, config: Any, **more: Any) -> FakeModel:
        """Add a model with a config.json."""
        content = config if isinstance(config, bytes) else json.dumps(config).encode()
        self.models[name] = FakeModel({"config.json": content}, **more)
        return self.models[name]

    def publish_tensors(self, name: str, files: Mapping[str, Shapes], *, blob_bytes: int = 4096) -> None:
        """Add safetensors files to a model, with an index where they are several or not called as a single one is."""
        model = self.models[name]
        model.files |= {file: safetensors(shapes, blob_bytes=blob_bytes) for file, shapes in files.items()}
        if set(files) != {"model.safetensors"}:
            weights = {tensor: file for file, shapes in files.items() for tensor in shapes}
            model.files["model.safetensors.index.json"] = json.dumps({"weight_map": weights}).encode()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path)
        self.requests.append(f"{request.command} {path}")
        if self.silent:
            self.released.wait()
            return
        if self.down:
            _send(request, 503)
        elif self.limit is not None:
            _send(request, 429, b"", **self.limit)
        elif path.startswith("/api/models/"):
            self._metadata(request, path.removeprefix("/api/models/"))
        else:
            self._file(request, path)

    def _refuse(self, request: BaseHTTPRequestHandler, status: int, code: str) -> None:
        _send(request, status, X_Error_Code=code if self.codes else "")

    def _file(self, request: BaseHTTPRequestHandler, path: str) -> None:
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        model = self.models.get(name)
        known = () if model is None else (*model.revisions, *model.revisions.values())
        revision = next((each for each in known if rest.startswith(f"{each}/")), rest.rpartition("/")[0])
        filename = rest.removeprefix(f"{revision}/")
        if model is None:
            self._refuse(request, 401 if self.codes else 404, "RepoNotFound")
        elif not _may_read(model, request):
            code = "GatedRepo" if model.gated else "RepoNotFound"
            self._refuse(request, 403 if model.gated else 401, code)
        elif revision not in known:
            self._refuse(request, 404, "RevisionNotFound")
        elif filename not in model.files:
            self._refuse(request, 404, "EntryNotFound")
        else:
            content = model.files[filename]
            commit = model.revisions.get(revision, revision)
            etag = f'"{hashlib.sha1(content, usedforsecurity=False).hexdigest()}"'
            part = _asked_for(request, content) if self.ranges else None
            status, body = (200, content) if part is None else (206, part)
            self.sent_bytes += len(body)
            _send(request, status, body, X_Repo_Commit=commit, ETag=etag)

    def _metadata(self, request: BaseHTTPRequestHandler, path: str) -> None:
        model = self.models.get(path.partition("/revision/")[0])
        if model is None or not _may_read(model, request):
            _send(request, 401, X_Error_Code="RepoNotFound")
            return
        body: dict[str, Any] = {"_id": "1", "id": path.partition("/revision/")[0]}
        if "expand=siblings" in request.path and model.is_listed:
            body["siblings"] = [{"rfilename": name} for name in model.files]
        if "blobs=true" in request.path:
            revision = path.partition("/revision/")[2] or "main"
            if revision not in model.revisions:
                _send(request, 404, X_Error_Code="RevisionNotFound")
                return
            body |= {"sha": model.revisions[revision], "siblings": [*map(_sibling, model.files.items())]}
        if model.total is not None:
            body["safetensors"] = {"parameters": {"BF16": model.total}, "total": model.total}
        _send(request, 200, json.dumps(body).encode())


def _sibling(file: tuple[str, bytes]) -> dict[str, Any]:
    """A file with its size and its name in Git, and the checksum of a large one."""
    name, content = file
    digest = hashlib.sha256(content).hexdigest()
    lfs = {"sha256": digest, "size": len(content), "pointerSize": 134} if name.endswith(".safetensors") else None
    return {"rfilename": name, "size": len(content), "blobId": digest[:40], **({"lfs": lfs} if lfs else {})}


def safetensors(shapes: Shapes, *, blob_bytes: int = 4096) -> bytes:
    """A file with a real header; its values are zeros, fewer than the header says."""
    header = {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, (dtype, shape) in shapes.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(blob_bytes)


def _asked_for(request: BaseHTTPRequestHandler, content: bytes) -> bytes | None:
    """The bytes of a Range header; None where there is none."""
    unit, _, asked = request.headers.get("Range", "").partition("=")
    if unit != "bytes":
        return None
    first, _, last = asked.partition("-")
    return content[int(first) : int(last) + 1 if last else None]


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
