from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.server import EngineServer
from testbed.engine.tiny_model import write_tiny_model
from testbed.ports import PortReservation
from tests.support.rendered import rendered_examples

KV_BLOCKS = 65
"""8,192 tokens of KV cache and the null block: what a few requests of a thousand tokens fill."""


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())


@pytest.fixture(scope="session")
def ports() -> Iterator[PortReservation]:
    reservation = PortReservation()
    yield reservation
    reservation.release()


@pytest.fixture(scope="session")
def rendered_arguments() -> list[str]:
    """The arguments that the running server was given: those of the first example."""
    return next(iter(rendered_examples().values()))


@pytest.fixture(scope="session")
def make_server(
    tiny_model: Path,
    rendered_arguments: list[str],
    ports: PortReservation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., EngineServer]:
    """Makes servers, not started, for the rendered arguments and whatever is added to them."""

    def make(*added: str, kv_blocks: int | None = None) -> EngineServer:
        log = tmp_path_factory.mktemp("engine") / "vllm.log"
        arguments = [*rendered_arguments, *added]
        return EngineServer(arguments, model_dir=tiny_model, port=ports.take(), log=log, kv_blocks=kv_blocks)

    return make


@pytest.fixture(scope="session")
def engine_server(make_server: Callable[..., EngineServer]) -> Iterator[EngineServer]:
    """A real vLLM that serves the tiny model with rendered arguments; ``url`` and ``metrics_url`` say where."""
    with make_server(kv_blocks=KV_BLOCKS) as server:
        yield server
