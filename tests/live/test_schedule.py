"""Are real engines ready by the time of a schedule, with the start-up that was learned subtracted, and next to a
neighbour without one?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.fleet import gpu_node
from tests.live.bench import AUTO, LLAMA, LLAMA_BLOCKS, START_SECONDS, Bench, bench_of

pytestmark = [pytest.mark.live, pytest.mark.story, pytest.mark.timeout(3600)]

NAME, NEIGHBOUR = "office", "neighbour"
EARLY = timedelta(seconds=60)
"""So much earlier than by the start-up alone the replicas are started (docs/rebalancing.md)."""

SPARE = timedelta(seconds=45)
"""For the change of the spec to be seen before they are to start."""

SEES_SECONDS = 600.0

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two deployments of one replica on a node with three GPUs."""
    model = write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())
    with bench_of("schedule", Path(model), nodes=[gpu_node("cpu", "L4", 3)]) as running:
        for name in (NAME, NEIGHBOUR):
            running.deploy(name, LLAMA, LLAMA_BLOCKS)
        for name in (NAME, NEIGHBOUR):
            running.wait_ready(name)
        yield running


def test_the_replicas_of_a_schedule_are_ready_by_its_time_and_not_started_long_before(bench: Bench) -> None:
    learned = bench.wait(
        lambda: bench.rebalancing(NAME).get("learned", {}).get("startupSeconds"), "the start-up is known", SEES_SECONDS
    )
    startup = timedelta(seconds=learned)
    opens = (datetime.now(UTC) + startup + EARLY + SPARE).replace(second=0, microsecond=0) + timedelta(minutes=1)
    entry = {"cron": f"{opens.minute} {opens.hour} * * *", "timeZone": "UTC", "duration": "1h", "minReplicas": 2}
    [first] = bench.ready_pods(NAME)
    bench.view.patch(NAME, {"rebalancing": AUTO | {"schedule": [entry]}})
    bench.wait(lambda: len(bench.ready_pods(NAME)) == 2, "two engines", START_SECONDS + SEES_SECONDS)
    [new] = [pod for pod in bench.view.pods(NAME) if pod["metadata"]["name"] != first]
    began, ready = _moment(new["metadata"]["creationTimestamp"]), _ready_since(new)
    log.info("%s: opens %s, a start takes %s; started %s, ready %s", NAME, opens, startup, began, ready)
    assert opens - startup - EARLY - timedelta(seconds=10) <= began
    assert ready <= opens
    [change] = bench.rebalancing(NAME)["changes"]
    assert (change["kind"], change["reason"]) == ("Add", "ScheduledMinimum")


def test_the_neighbour_without_a_schedule_stays_as_it_is(bench: Bench) -> None:
    assert len(bench.ready_pods(NEIGHBOUR)) == len(bench.view.pods(NEIGHBOUR)) == 1
    assert "changes" not in bench.rebalancing(NEIGHBOUR)


def _ready_since(pod: dict[str, Any]) -> datetime:
    [found] = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    assert found["status"] == "True"
    return _moment(found["lastTransitionTime"])


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
