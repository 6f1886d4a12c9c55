"""Objects as large as etcd takes them: the operator keeps the chart's memory limit and serves their neighbours.

``test_bad_neighbours.py`` has them among others; this one is run by ``make neighbours``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from statistics import median

import pytest

from testbed.control_plane import ControlPlane
from testbed.operator_process import OperatorProcess
from tests.support.honest import ALLOWED_SECONDS, Honest
from tests.support.installed import View, condition, namespace_of
from tests.support.neighbours import LARGE_OBJECTS, flood, memory_limit_mib, peak_mib

pytestmark = [pytest.mark.cluster, pytest.mark.at_length]

LAPS = 3
"""After a flood and after a restart. While the control plane digests a flood, its scheduler takes seconds for a lap."""

logger = logging.getLogger(__name__)


@pytest.fixture
def flooded(control_plane: ControlPlane) -> Iterator[list[View]]:
    """Namespaces of tenants who store as much as the API server takes from them."""
    with namespace_of(control_plane, "tenant-large-0") as first, namespace_of(control_plane, "tenant-large-1") as other:
        yield [first, other]


def test_large_objects_take_neither_the_memory_nor_the_time_of_others(
    flooded: list[View], operator: OperatorProcess, honest: Honest
) -> None:
    usual, peaks = peak_mib(operator), list[int]()
    with honest.standing("stands-large"):
        stored = flood(flooded)
        laps = [honest.assert_served().placed for _ in range(LAPS)]
        peaks.append(peak_mib(operator))
        operator.restart()
        operator.wait_healthy()
        laps += [honest.assert_served().placed for _ in range(LAPS)]
        peaks.append(peak_mib(operator))
    logger.info("%d stored; usual %s, then %s; %d MiB, then at most %s", stored, honest.usual, laps, usual, peaks)
    assert honest.usual is not None
    assert median(laps) <= 2 * honest.usual.placed + ALLOWED_SECONDS  # the control plane has the same two cores
    assert stored >= LARGE_OBJECTS
    assert max(peaks) < memory_limit_mib()

    def messages() -> list[str]:
        objects = [body for view in flooded for body in view.all("inferencedeployments")]
        stalled = [condition(body, "Stalled") for body in objects]
        return [each["message"] for each in stalled if each.get("reason") == "TooLarge"]

    flooded[0].wait(lambda: len(messages()) >= LARGE_OBJECTS // 3, "a third of the statuses")  # one after the other
    assert all("characters" in message for message in messages())
