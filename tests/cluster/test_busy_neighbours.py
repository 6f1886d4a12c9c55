"""Tenants who change many costly objects all the time: their neighbours are served nearly as if they were not there.

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
from tests.support.installed import View, namespace_of
from tests.support.neighbours import changing, make_busy

pytestmark = [pytest.mark.cluster, pytest.mark.at_length]

LAPS = 3

logger = logging.getLogger(__name__)


@pytest.fixture
def busy(control_plane: ControlPlane) -> Iterator[View]:
    """A tenant with costly objects."""
    with namespace_of(control_plane, "tenant-busy") as view:
        make_busy(view)
        yield view


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
