"""A container for the process kubelet that starts at once: HTTP with switches instead of an engine.

``python toy_container.py ADDRESS PORT FOLDER [SECONDS_TO_END]``. Files in FOLDER are its switches: ``sick`` makes
``/health`` fail, ``crash`` ends it with status 3 after some words. SIGTERM ends it after SECONDS_TO_END.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override

from testbed.kubelet.images import Image, Place, Program

TOY_IMAGE = "registry.example/toy"
_CHECKOUT = Path(__file__).resolve().parents[2]
LAST_WORDS = "ValueError: out of memory, says the toy"


def toy_image(seconds_to_end: float = 0.0) -> Image:
    """Return the image; ``switches`` in the pod's folder is the folder with the switches."""

    def program(container: Mapping[str, Any], place: Place) -> Program:
        folder = place.folder / "switches"
        folder.mkdir(exist_ok=True)
        port = container["ports"][0]["containerPort"]
        words = [sys.executable, "-P", __file__, place.address, str(port), str(folder), str(seconds_to_end)]
        return Program(words, dict(os.environ) | {"PYTHONPATH": str(_CHECKOUT)})

    return program


def main() -> None:
    """Serve until SIGTERM or a switch ends it."""
    address, port, folder, seconds = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4])
    server = ThreadingHTTPServer((address, port), _handler(folder))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_end, args=(server, seconds)).start())
    threading.Thread(target=_watch, args=(folder / "crash",), daemon=True).start()
    print("up", flush=True)
    server.serve_forever()
    print("ended politely", flush=True)


def _handler(folder: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if (folder / "sick").exists() else 200)
            self.end_headers()

        @override
        def log_message(self, format: str, *arguments: Any) -> None:
            """Probes are not worth a line."""

    return Handler


def _end(server: ThreadingHTTPServer, seconds: float) -> None:
    print("SIGTERM", flush=True)
    time.sleep(seconds)
    server.shutdown()


def _watch(crash: Path) -> None:
    while not crash.exists():
        time.sleep(0.05)
    crash.unlink()
    print(LAST_WORDS, flush=True)
    os._exit(3)


if __name__ == "__main__":
    main()
