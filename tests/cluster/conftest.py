"""The fixtures that most of these tests share: a cluster, the operator, an honest tenant, and a namespace per test.

A file that needs another cluster or another operator defines its own of the same name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support.faulty import IMPATIENT
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import View, install, namespace_of
from tests.support.planes import borrowed_plane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A cluster with every GPU type of the example fleet, and nodes that only the honest tenant may use."""
    with borrowed_plane([*mixed_fleet(), *honest_nodes()]) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[OperatorProcess]:
    """The operator, with the rights of its chart."""
    with OperatorProcess(control_plane, environment=IMPATIENT) as running:
        yield running


@pytest.fixture(scope="module")
def honest(control_plane: ControlPlane, operator: OperatorProcess) -> Iterator[Honest]:
    """A tenant who must not notice anything; how fast things usually go is measured first."""
    assert operator.is_running
    with namespace_of(control_plane, "tenant-honest") as view:
        tenant = Honest(view)
        tenant.measure()
        yield tenant


@pytest.fixture
def neighbour(control_plane: ControlPlane) -> Iterator[View]:
    """The namespace of another tenant, for one test."""
    with namespace_of(control_plane, f"neighbour-{uuid.uuid4().hex[:8]}") as view:
        yield view


@pytest.fixture
def here(control_plane: ControlPlane) -> Iterator[View]:
    """A namespace for one test."""
    with namespace_of(control_plane, f"test-{uuid.uuid4().hex[:8]}") as view:
        yield view
