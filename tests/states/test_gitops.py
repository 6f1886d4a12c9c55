"""The cells of the table that programs of others say: kstatus, as Flux and Helm ask it, and ``kubectl wait``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from testbed.binaries import ensure_binaries, ensure_kstatus
from tests.states.states import CASES, Case, definition
from tests.support.tables import every_case

pytestmark = pytest.mark.gitops


@cache
def verdicts() -> dict[str, str]:
    """The status of every case by kstatus, all of them asked at once."""
    bodies = json.dumps([case.body() for case in CASES])
    program = [str(ensure_kstatus())]
    asked = subprocess.run(program, input=bodies, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own
    return {case.name: each["status"] for case, each in zip(CASES, json.loads(asked.stdout), strict=True)}


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_kstatus_says_it(case: Case) -> None:
    assert verdicts()[case.name] == case.kstatus


class _Api(BaseHTTPRequestHandler):
    """As much of an API server as ``kubectl wait`` asks: what kinds there are, and one object of each name."""

    def do_GET(self) -> None:
        answer = _answer(self.path)
        text = json.dumps(answer).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _answer(path: str) -> dict[str, Any]:
    names = definition()["spec"]["names"]
    group, version = "plimsoll.dev", "v1alpha1"
    this = {"groupVersion": f"{group}/{version}", "version": version}
    path, _, query = path.partition("?")
    match path.strip("/").split("/"):
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["api", "v1"]:
            return {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "groups": [{"name": group, "versions": [this], "preferredVersion": this}]}
        case ["apis", _, _]:
            resource = {"name": names["plural"], "kind": names["kind"], "namespaced": True, "verbs": ["get", "list"]}
            return {"kind": "APIResourceList", "groupVersion": this["groupVersion"], "resources": [resource]}
        case ["apis", _, _, "namespaces", "ns", _, number]:
            return CASES[int(number.removeprefix("case-"))].body()
        case ["apis", _, _, "namespaces", "ns", _]:
            number = query.partition("case-")[2].partition("&")[0]
            items = [CASES[int(number)].body()]
            return {"kind": f"{names['kind']}List", "apiVersion": this["groupVersion"], "metadata": {}, "items": items}
        case _:
            return {}


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.CompletedProcess[str]]]:
    """Return the answers of ``kubectl wait``. It pauses between its questions, so all of the cases wait together."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Api) as listening:
        thread = Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        server, kept = f"http://127.0.0.1:{listening.server_port}", str(tmp_path_factory.mktemp("kubectl"))
        kubectl = [str(ensure_binaries()["kubectl"]), "--server", server, "--cache-dir", kept, "--namespace", "ns"]

        def asked(number: int) -> subprocess.CompletedProcess[str]:
            named = f"inferencedeployments.plimsoll.dev/case-{number}"
            words = [*kubectl, "wait", named, "--for=condition=Ready", "--timeout=0"]
            return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603 - our own

        with ThreadPoolExecutor(10) as threads:
            yield list(threads.map(asked, range(len(CASES))))
        listening.shutdown()
        thread.join()


@every_case("number", range(len(CASES)), ids=[each.name for each in CASES])
def test_kubectl_wait_ends_with_it(number: int, waits: list[subprocess.CompletedProcess[str]]) -> None:
    ended, case = waits[number], CASES[number]
    assert ended.returncode == case.waits, ended.stderr
    assert ("condition met" in ended.stdout) is (case.waits == 0), ended.stdout + ended.stderr
