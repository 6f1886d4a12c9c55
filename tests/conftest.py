"""Fixtures and settings for every test folder."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.support import tables
from tests.support.order import longest_file_first

pytest_plugins = ["tests.support.cluster"]

# An example that takes long on a busy machine is no failure of the code.
settings.register_profile("no-deadline", settings(), deadline=None)
settings.load_profile("no-deadline")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let several workers take the longest files first; a run in one process keeps the usual order."""
    if hasattr(config, "workerinput"):
        items[:] = longest_file_first(items)


def pytest_report_header() -> str:
    """Say which samples this run takes, before the workers are started: they inherit it."""
    return tables.header()
