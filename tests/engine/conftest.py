from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.engine.environment import VLLM_VERSION
from tests.engine.recording import RECORDED, Mode, Recording, mode_now
from tests.engine.serving import TINY_MODEL, Served, Servers, serve
from tests.support.rendered import container_of, tiny_twin

LONGEST_SECONDS = 3600
"""For one test that asks the real engine: the first of a file waits for all answers of that file."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests that ask the real engine the time that a busy machine takes."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and mode_now() is not Mode.REPLAY:
            item.add_marker(pytest.mark.timeout(LONGEST_SECONDS))


@pytest.fixture(scope="session")
def recording() -> Iterator[Recording]:
    """What the pinned release answers."""
    mode = mode_now()
    answers = Recording(RECORDED / f"vllm-{VLLM_VERSION}", mode)
    yield answers
    if mode is Mode.RECORD:
        answers.write()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Real servers, for those who ask the real engine."""
    made = Servers(tmp_path_factory.mktemp("engine"))
    yield made
    made.release()


@pytest.fixture(scope="session")
def container() -> dict[str, Any]:
    """What the operator renders for the first example with the tiny model in the place of its model."""
    return container_of(tiny_twin("01-minimal", TINY_MODEL))


@pytest.fixture(scope="session")
def served(recording: Recording, servers: Servers, container: dict[str, Any]) -> Served:
    """What a real vLLM did that served the tiny model with that."""
    return serve(recording, servers, container)
