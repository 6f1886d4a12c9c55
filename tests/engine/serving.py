"""Questions that a started server answers: what it serves and logs, how it ends, and what keeps it from starting."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from plimsoll.engines.vllm.metrics import REQUESTS_RUNNING
from testbed.api_client import ApiError, http_text
from testbed.cache import cache_directory
from testbed.engine.environment import ensure_engine, environment_directory
from testbed.engine.server import EngineServer
from testbed.engine.tiny_model import TINY_CONFIG, write_tiny_model
from testbed.ports import PortReservation
from testbed.waiting import wait_until
from tests.engine.exposition import shape, value
from tests.engine.recording import Kind, Recording

TINY_MODEL: Final = Path("/models/tiny")
"""Where the rendered arguments say that the model lies; a server gets the folder that it really lies in."""

KV_BLOCKS: Final = 65
"""8,192 tokens of KV cache and the null block: what a few requests of a thousand tokens fill."""

ANSWER_TOKENS: Final = 16
LONG_ANSWER_TOKENS: Final = 400
"""Enough to be still on its way when the server is told to end."""

HANGS_SECONDS: Final = 1200.0
"""Far more than a busy machine takes: only what hangs reaches it."""

_CHECKOUT: Final = Path(__file__).parents[2]
_ADDRESS: Final = re.compile(r"\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b)\d{1,3}(?:\.\d{1,3}){3}\b")


class Servers:
    """Makes servers of the tiny model. Nothing is written, and no engine is needed, before the first.

    Args:
        folder: where models and logs go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = PortReservation()
        self._made = 0

    def make(
        self, arguments: Sequence[str], *, config: Mapping[str, Any] = TINY_CONFIG, **options: Any
    ) -> EngineServer:
        """A server, not started, for rendered arguments; options are those of ``EngineServer``."""
        self._made += 1
        own = self._folder / str(self._made)
        shutil.copytree(self._tiny_model, own / "model")
        (own / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return EngineServer(
            arguments, model_dir=own / "model", port=self._ports.take(), log=own / "vllm.log", **options
        )

    def release(self) -> None:
        """Give the ports back."""
        self._ports.release()

    @cached_property
    def _tiny_model(self) -> Path:
        return write_tiny_model(self._folder / "tiny-model", engine_python=ensure_engine())


@dataclass(frozen=True, slots=True)
class Drained:
    """How a server ended that was told to while it answered.

    Attributes:
        was_running: the answer was on its way at SIGTERM.
        tokens: of that answer.
        seconds: from the answer to the end.
        exit_status: of the server.
    """

    was_running: bool
    tokens: int
    seconds: float
    exit_status: int | None


@dataclass(frozen=True, slots=True)
class Served:
    """What a server did from its start to its end.

    Attributes:
        statuses: of the paths that the probes ask, by path.
        models: what ``/v1/models`` said.
        completion: what ``/v1/completions`` said.
        page: what ``/metrics`` said after it.
        drained: how it ended.
        log: everything that it wrote.
    """

    statuses: Mapping[str, int]
    models: Mapping[str, Any]
    completion: Mapping[str, Any]
    page: str
    drained: Drained
    log: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pooled:
    """What a server of embeddings did: the length of one, what ``/metrics`` said after it, and what it wrote."""

    width: int
    page: str
    log: tuple[str, ...]


def serve(recording: Recording, servers: Servers, container: Mapping[str, Any]) -> Served:
    """Run a rendered container as its pod would, on a read-only root, and ask what its users and probes ask."""
    probes = {probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")}
    question = {
        "arguments": list(container["args"]),
        "environment": {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry},
        "probes": sorted(probes),
        "kv_blocks": KV_BLOCKS,
    }
    kind = Kind("served", lambda questions: [_serve(servers, each) for each in questions], _lasting_of_served)
    (answer,) = recording.answers(kind, [question])
    drained, page, log = Drained(**answer["drained"]), _joined(answer["page"]), tuple(answer["log"])
    return Served(**answer | {"drained": drained, "page": page, "log": log})


def embed(recording: Recording, servers: Servers, arguments: Sequence[str], config: Mapping[str, Any]) -> Pooled:
    """Serve a model that pools, with rendered arguments, and ask for an embedding."""
    kind = Kind("pooled", lambda questions: [_embed(servers, each) for each in questions], _lasting_of_pooled)
    (answer,) = recording.answers(kind, [{"arguments": list(arguments), "config": dict(config)}])
    return Pooled(answer["width"], _joined(answer["page"]), tuple(answer["log"]))


def refuse(recording: Recording, servers: Servers, arguments: Sequence[str]) -> list[str]:
    """Start a server that ends before it is ready; everything that it wrote."""
    kind = Kind("refused_starts", lambda questions: [_refuse(servers, each) for each in questions], lambda _: None)
    (log,) = recording.answers(kind, [list(arguments)])
    return list(log)


def _serve(servers: Servers, question: Mapping[str, Any]) -> dict[str, Any]:
    server = servers.make(
        question["arguments"], kv_blocks=question["kv_blocks"], pod_environment=question["environment"]
    )
    with server:
        answer = {
            "statuses": {path: _status(server, path) for path in question["probes"]},
            "models": server.models(),
            "completion": server.complete("The load line", ANSWER_TOKENS),
            "page": server.metrics().splitlines(),
            "drained": _drain(server),
        }
    return dict(_as_anywhere(server, answer | {"log": _log_of(server)}))


def _status(server: EngineServer, path: str) -> int:
    try:
        http_text(f"{server.url}{path}")
    except ApiError as error:
        return error.status
    return 200


def _drain(server: EngineServer) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(server.complete, "The load line", LONG_ANSWER_TOKENS)
        wait_until(lambda: value(server.metrics(), REQUESTS_RUNNING) == 1, HANGS_SECONDS, "the request runs")
        server.terminate()
        was_running = not answer.done()
        tokens = answer.result()["usage"]["completion_tokens"]
    answered = time.monotonic()
    server.wait_until_ended(HANGS_SECONDS)
    seconds = round(time.monotonic() - answered, 1)
    return {"was_running": was_running, "tokens": tokens, "seconds": seconds, "exit_status": server.exit_status}


def _embed(servers: Servers, question: Mapping[str, Any]) -> dict[str, Any]:
    with servers.make(question["arguments"], config=question["config"]) as server:
        answer = {"width": len(server.embed("The load line")), "page": without_buckets(server.metrics())}
    return dict(_as_anywhere(server, answer | {"log": _log_of(server)}))


def _refuse(servers: Servers, arguments: Sequence[str]) -> list[str]:
    server = servers.make(arguments)
    with pytest.raises(RuntimeError, match="the engine ended before it was ready"):
        server.start()
    return list(_as_anywhere(server, _log_of(server)))


def _lasting_of_served(answer: Mapping[str, Any]) -> Any:
    completion, models = answer["completion"], answer["models"]["data"]
    return [
        answer["statuses"],
        [(model["id"], model["max_model_len"]) for model in models],
        (completion["model"], completion["usage"]),
        shape(answer["page"]),
        answer["drained"] | {"seconds": None},
    ]


def _lasting_of_pooled(answer: Mapping[str, Any]) -> Any:
    return [answer["width"], shape(answer["page"])]


def without_buckets(page: str) -> list[str]:
    """The lines of a metrics page that are neither a comment nor a bucket of a histogram: a tenth of it."""
    return [line for line in page.splitlines() if not line.startswith("#") and "_bucket{" not in line]


def _log_of(server: EngineServer) -> list[str]:
    return server.log.read_text(encoding="utf-8", errors="replace").splitlines()


def _as_anywhere(server: EngineServer, answer: Any) -> Any:
    """The answer without this machine's folders, its address and the port."""
    places = {
        server.arguments[0]: str(TINY_MODEL),
        str(server.log.parent): "/run",
        str(environment_directory()): "/engine",
        str(cache_directory()): "/cache",
        str(_CHECKOUT): "/checkout",
        sys.base_prefix: "/python",
        server.url.rpartition(":")[2]: "8000",
    }
    text = json.dumps(answer)
    for place, shown in places.items():
        text = text.replace(place, shown)
    return json.loads(_ADDRESS.sub("10.0.0.1", text))


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
