"""``plimsoll fetch``."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import click

from plimsoll.cli.later import weights_copy
from plimsoll.cli.options import option, output
from plimsoll.cli.screen import print_document
from plimsoll.domain.requests.weights import NOT_WORTH_A_TRY, PROGRESS_PATH, WeightsProgress
from plimsoll.domain.units import GIB

_TERMINATED = 143


@click.command("fetch")
@click.argument("source")
@option("--revision")
@option("--into", required=True)
@option("--port", note="GET /progress answers there while files arrive. Default: nowhere.")
@output("text", "json")
def command(source: str, revision: str | None, into: str, port: int | None, form: str) -> None:
    """Copy the weights of SOURCE (hf://OWNER/NAME, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX) into a folder.

    The folder is there when all of it is there and verified. What an earlier try has left is continued. Jobs of the
    operator run this for spec.model.cache. Credentials come from the environment: HF_TOKEN, AWS_..., GOOGLE_...

    Exit status: 0 it is there, 2 it failed this time, 3 a person has to change something.
    """
    copy = weights_copy(Path(into), say=lambda line: click.echo(line, err=True))
    if port is not None:
        _answer(port, copy.progress)
    # The first process of a container has no usual answer to the signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        is_new = copy.make(source, revision)
    except copy.hopeless as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(NOT_WORTH_A_TRY)
    size = copy.progress().total_bytes
    if form == "json":
        print_document(form, {"folder": into, "bytes": size, "copied": is_new})
    else:
        click.echo(f"{into}: {size / GIB:.2f} GiB, {'copied and verified' if is_new else 'was there'}")


def _answer(port: int, progress: Callable[[], WeightsProgress]) -> None:
    """Answer in the background how far the copy is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the progress as JSON."""
            body = json.dumps(progress().document()).encode()
            self.send_response(200 if self.path == PROGRESS_PATH else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the log has a line for each file."""

    try:
        server = ThreadingHTTPServer(("", port), Handler)
    except OSError as error:
        click.echo(f"nobody is answered at port {port}: {error}", err=True)  # the copy matters more
        return
    Thread(target=server.serve_forever, name="progress", daemon=True).start()
