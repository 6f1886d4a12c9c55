"""Fixtures for tests against a real control plane; loaded as a pytest plugin."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from tests.support.planes import borrowed_plane, close


def pytest_sessionfinish() -> None:
    """End the control plane that files of tests have borrowed."""
    close()


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane with a node of every kind; engines become ready whatever they are told to serve."""
    with borrowed_plane(mixed_fleet()) as running:
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own on ``control_plane``; what it holds is deleted afterwards."""
    name = control_plane.create_namespace(f"test-{uuid.uuid4().hex[:8]}")
    yield name
    control_plane.client.send("DELETE", f"/api/v1/namespaces/{name}")
