"""A hub that means harm: raw answers over a socket, chosen by the path that is asked for."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread

CHUNK = b" " * 65536


@dataclass
class Request:
    """One request as it came: the path, its headers by lower-case name, and the line back."""

    path: str
    headers: dict[str, str]
    connection: socket.socket
    hub: HostileHub

    def send(self, content: bytes) -> None:
        """Send bytes as they are."""
        self.connection.sendall(content)
        self.hub.sent_bytes += len(content)

    def answer(self, body: bytes = b"", *headers: str, status: str = "200 OK") -> None:
        """Send a whole, well-formed answer."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def pause(self) -> bool:
        """A tenth of a second; False when the test is over."""
        return not self.hub.over.wait(0.1)


@dataclass
class HostileHub:
    """``rules`` are asked in turn: the first whose text is part of the path behaves."""

    rules: list[tuple[str, Callable[[Request], None]]] = field(default_factory=list)
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    sent_bytes: int = 0
    over: Event = field(default_factory=Event)
    tls: ssl.SSLContext | None = None

    def on(self, part: str, behave: Callable[[Request], None]) -> None:
        """Add a rule."""
        self.rules.append((part, behave))

    def serve(self, connection: socket.socket) -> None:
        if self.tls is not None:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return
        with connection, suppress(OSError), connection.makefile("rb") as stream:
            line = stream.readline().decode()
            if not line:
                return
            headers = {}
            while header := stream.readline().decode().strip():
                name, _, value = header.partition(":")
                headers[name.lower()] = value.strip()
            request = Request(line.split()[1], headers, connection, self)
            self.requests.append(request)
            for part, behave in self.rules:
                if part in request.path:
                    behave(request)
                    return
            request.answer(b"", "X-Error-Code: EntryNotFound", status="404 Not Found")


@contextmanager
def serve_hostile_hub(address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[HostileHub]:
    """Run one for a test."""
    hub = HostileHub(tls=tls)
    listener = socket.create_server((address, 0))
    hub.url = f"{'http' if tls is None else 'https'}://{address}:{listener.getsockname()[1]}"
    threads: list[Thread] = []

    def accept() -> None:
        while not hub.over.is_set():
            connection, _ = listener.accept()
            thread = Thread(target=hub.serve, args=(connection,), daemon=True)
            thread.start()
            threads.append(thread)

    acceptor = Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield hub
    finally:
        hub.over.set()
        with socket.create_connection(listener.getsockname()):
            acceptor.join()
        listener.close()
        for thread in threads:
            thread.join(5)
