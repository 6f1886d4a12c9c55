from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.server import EngineServer
from testbed.engine.tiny_model import write_tiny_model
from testbed.ports import PortReservation
from tests.support.rendered import container_arguments, tiny_twin

KV_BLOCKS = 65
"""8,192 tokens of KV cache and the null block: what a few requests of a thousand tokens fill."""

MakeServer = Callable[..., EngineServer]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())


@pytest.fixture(scope="session")
def ports() -> Iterator[PortReservation]:
    reservation = PortReservation()
    yield reservation
    reservation.release()


@pytest.fixture(scope="session")
def rendered_arguments(tiny_model: Path) -> list[str]:
    """What the operator renders for the first example with the tiny model in the place of its model."""
    return container_arguments(tiny_twin("01-minimal", tiny_model))


@pytest.fixture(scope="session")
def make_server(tiny_model: Path, ports: PortReservation, tmp_path_factory: pytest.TempPathFactory) -> MakeServer:
    """Makes servers, not started, for rendered arguments; options are those of ``EngineServer``."""

    def make(arguments: Sequence[str], **options: Any) -> EngineServer:
        log = tmp_path_factory.mktemp("engine") / "vllm.log"
        return EngineServer(arguments, model_dir=tiny_model, port=ports.take(), log=log, **options)

    return make


@pytest.fixture(scope="session")
def engine_server(make_server: MakeServer, rendered_arguments: list[str]) -> Iterator[EngineServer]:
    """A real vLLM that serves the tiny model with the first example's arguments."""
    with make_server(rendered_arguments, kv_blocks=KV_BLOCKS) as server:
        yield server
