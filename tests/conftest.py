"""Fixtures and settings for every test folder."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from testbed.ending import interrupt
from testbed.processes import fork_ours
from testbed.waiting import PATIENCE
from tests.support import tables
from tests.support.order import longest_file_first, number, stories_in_order, without_waiting

pytest_plugins = ["tests.support.cluster", "tests.support.failures", "tests.support.versions", "tests.support.workers"]

# Waits are as long as they need to be on a quiet machine, and some. A busy one may need several times as long.
os.environ.setdefault(PATIENCE, "6")

# An operator takes a second of the processor to import everything, and a run of the tests starts a hundred processes.
fork_ours()

# Where nobody handles SIGINT, asyncio does, and Python formats that handler with the result of each coroutine that
# pytest ran: a twelfth of the processor's time of all unit tests. One that does as Python's own does keeps asyncio off.
signal.signal(signal.SIGINT, interrupt)

# An example that takes long on a busy machine is no failure of the code. A failing draw is printed with the line that
# draws it again, and kept in .hypothesis. In CI the draws follow from the test alone: what is red there was changed.
settings.register_profile(
    "plimsoll",
    settings.get_profile("default"),
    max_examples=tables.examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=os.environ.get("CI", "").lower() in ("1", "true"),
)
settings.load_profile("plimsoll")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember the order of a file, which a plugin may shuffle."""
    number(item)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the steps of a story in order, leave out what waits for another day, and take the longest files first."""
    today, waiting = without_waiting(stories_in_order(items))
    config.hook.pytest_deselected(items=waiting)
    items[:] = today
    if hasattr(config, "workerinput"):
        items[:] = longest_file_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector not look again and again at modules and tests: they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_report_header() -> str:
    """Say which samples this run takes, before the workers are started: they inherit it."""
    return tables.header()
