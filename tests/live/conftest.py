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
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two deployments that serve; the engines start together, which takes a minute and more."""
    model = write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())
    with bench_of("live", Path(model)) as running:
        running.deploy(FIRST, LLAMA, LLAMA_BLOCKS)
        running.deploy(NEIGHBOUR, QWEN, QWEN_BLOCKS)
        for name in (FIRST, NEIGHBOUR):
            running.wait_ready(name)
        yield running


@pytest.fixture(scope="module")
def users(bench: Bench) -> Iterator[Traffic]:
    """Users of the first deployment; each test sets their load."""
    with bench.traffic(FIRST) as running:
        yield running


@pytest.fixture(scope="module")
def neighbours(bench: Bench) -> Iterator[Traffic]:
    """Users of the other deployment, who ask a little all the time."""
    with bench.traffic(NEIGHBOUR) as running:
        running.set(LIGHT)
        yield running
