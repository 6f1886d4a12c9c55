"""Does the loop stop to add real engines that never become ready, and add one again once they can?

The tag of the image is gone after the first replica has started: every further container waits with ``ErrImagePull``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.fleet import gpu_node
from testbed.kubelet.engine_image import engine_image
from testbed.kubelet.images import CannotRun, Image, Place, Program
from testbed.traffic.traffic import Load, Traffic
from tests.live.bench import L4_NODE, LLAMA, LLAMA_BLOCKS, TIMING, Bench, bench_of
from tests.support.hurried import MODULE, Wait, environment

pytestmark = [pytest.mark.live, pytest.mark.story, pytest.mark.timeout(3600)]

NAME, MOST = "vain", 4
LENIENT = {"ttftMilliseconds": 600_000, "tpotMilliseconds": 60_000}
"""Promises that no machine breaks: how fast this one is decides nothing."""

FULL = Load(per_second=20, users=12, prompt_tokens=1000, output_tokens=60)
"""Twelve requests at a time want 108 blocks of 128 tokens, of the 85 that an engine has for them."""

SEES_SECONDS = 1800.0
"""For two additions, each of which is stuck after one and a half start-ups of a real engine, or one that takes all the
room; only what hangs takes so long."""

log = logging.getLogger(__name__)


@dataclass
class Registry:
    """Pulls the engine's image while its tag is there."""

    pulled: Image
    is_gone: bool = False

    def __call__(self, container: Mapping[str, Any], place: Place) -> Program:
        if self.is_gone:
            raise CannotRun("ErrImagePull", f"manifest for {container['image']} not found")
        return self.pulled(container, place)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine()))


@pytest.fixture(scope="module")
def registry(model: Path) -> Registry:
    return Registry(engine_image(model))


@pytest.fixture(scope="module")
def bench(registry: Registry, model: Path) -> Iterator[Bench]:
    nodes, hurried = [gpu_node(L4_NODE, "L4", MOST)], environment(Wait.PAUSE, Wait.TRY, Wait.PATIENCE)
    with bench_of("vain", model, nodes=nodes, environment=hurried, image=registry, module=MODULE) as running:
        auto = {"mode": "Auto", "maxReplicas": MOST, **TIMING}
        running.deploy(NAME, LLAMA, LLAMA_BLOCKS, slo=LENIENT, rebalancing=auto)
        running.wait_ready(NAME)
        yield running


@pytest.fixture(scope="module")
def users(bench: Bench) -> Iterator[Traffic]:
    with bench.traffic(NAME) as running:
        yield running


def _made(bench: Bench) -> list[str]:
    return [str(made["kind"]) for made in bench.rebalancing(NAME).get("changes") or ()]


def test_additions_in_vain_end_and_are_taken_back_and_the_first_engine_serves_on(
    bench: Bench, registry: Registry, users: Traffic
) -> None:
    [first] = bench.ready_pods(NAME)
    registry.is_gone = True
    users.set(FULL)
    bench.wait(lambda: "TakeBack" in _made(bench), "additions that are taken back", SEES_SECONDS)
    reported = bench.wait(lambda: _waits(bench), "the wait", SEES_SECONDS)
    log.info("%s: %s", NAME, reported["message"])
    assert "DoesNotServe" in _verdicts(bench)
    assert {"Serves", "Helps"}.isdisjoint(_verdicts(bench))
    assert "ErrImagePull: manifest for vllm/vllm-openai" in reported["message"]
    bench.wait(lambda: len(bench.view.pods(NAME)) == 1, "the pods in vain to go", SEES_SECONDS)
    assert bench.ready_pods(NAME) == [first]
    assert users.tally.lost() == []


def _verdicts(bench: Bench) -> list[str]:
    changes = bench.rebalancing(NAME).get("changes") or ()
    return [str(made["result"]["verdict"]) for made in changes if "result" in made]


def _waits(bench: Bench) -> dict[str, Any]:
    reported = bench.rebalancing(NAME)
    return reported if reported.get("reason") == "AdditionsDoNotServe" and reported.get("decision") == "Wait" else {}


def test_the_next_try_serves_once_the_tag_is_there_again(bench: Bench, registry: Registry) -> None:
    registry.is_gone = False
    bench.wait(lambda: len(bench.ready_pods(NAME)) == 2, "a second engine after the pause", SEES_SECONDS)
    bench.wait(lambda: {"Serves", "Helps"} & {*_verdicts(bench)}, "its verdict", SEES_SECONDS)
