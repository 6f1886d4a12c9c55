"""Tenants who change many costly objects all the time: their neighbours are served nearly as if they were not there."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median

import pytest

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.operator_process import OperatorProcess
from tests.support.honest import ALLOWED_SECONDS, Honest
from tests.support.installed import View, namespace_of

pytestmark = pytest.mark.cluster

OBJECTS = 30
PATCHES_PER_SECOND = float(os.environ.get("PLIMSOLL_BUSY_PATCHES", "8"))
LAPS = 3

logger = logging.getLogger(__name__)


@pytest.fixture
def busy(control_plane: ControlPlane) -> Iterator[View]:
    """A tenant with objects whose planning takes ten times as long as that of others."""
    with namespace_of(control_plane, "tenant-busy") as view:
        for number in range(OBJECTS):
            view.apply(f"busy-{number}", concurrency=None, totalConcurrency=20 + number, contextLength=4096 + number)
        yield view


@contextmanager
def changing(view: View) -> Iterator[None]:
    """Change one object after the other in a thread, as fast as one client does."""
    stop, refused = threading.Event(), list[ApiError]()

    def run() -> None:
        for number in count():
            try:
                view.patch(f"busy-{number % OBJECTS}", {"totalConcurrency": 20 + number % 97})
            except ApiError as error:
                refused.append(error)
            if stop.wait(1 / PATCHES_PER_SECOND):
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not refused


def test_who_changes_costly_objects_all_the_time_delays_nobody_else(
    operator: OperatorProcess, honest: Honest, request: pytest.FixtureRequest
) -> None:
    assert operator.is_running
    before = [honest.assert_served().placed for _ in range(LAPS)]
    with changing(request.getfixturevalue("busy")):
        during = [honest.assert_served().placed for _ in range(LAPS)]
    logger.info("placed after, usually %s; while a neighbour changes its objects %s", before, during)
    # The control plane has the same two cores, and a patch takes the API server more time than the operator.
    assert median(during) <= 2 * median(before) + ALLOWED_SECONDS
