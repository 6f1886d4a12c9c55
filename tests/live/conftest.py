"""Fixtures of the live tests: real parts, two deployments that serve, and users of both who must lose no request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.traffic.traffic import Traffic
from tests.live.bench import LIGHT, LLAMA, LLAMA_BLOCKS, QWEN, QWEN_BLOCKS, Bench, bench_of

FIRST, NEIGHBOUR = "first", "neighbour"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two deployments; their engines start together, which takes a minute and more."""
    model = write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())
    with bench_of("live", Path(model)) as running:
        running.deploy(FIRST, LLAMA, LLAMA_BLOCKS)
        running.deploy(NEIGHBOUR, QWEN, QWEN_BLOCKS)
        yield running


@pytest.fixture(scope="module")
def neighbours(deployed: Bench) -> Iterator[Traffic]:
    """Users of the second deployment, who ask a little all the time, from its first engine on: it is moved soon."""
    deployed.wait_ready(NEIGHBOUR)
    with deployed.traffic(NEIGHBOUR) as running:
        running.set(LIGHT)
        yield running


@pytest.fixture(scope="module")
def bench(deployed: Bench, neighbours: Traffic) -> Bench:  # noqa: ARG001 - its users are there before the first test
    """Both deployments, which serve."""
    deployed.wait_ready(FIRST)
    return deployed


@pytest.fixture(scope="module")
def users(bench: Bench) -> Iterator[Traffic]:
    """Users of the first deployment; each test sets their load."""
    with bench.traffic(FIRST) as running:
        yield running
