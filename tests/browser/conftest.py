"""The fixtures of the browser tests: one Chromium a file, tabs of it, and a cluster to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from testbed.chromium import launched
from testbed.scene import Scene
from testbed.scene import scene as small_cluster
from tests.support.chromium import chromium_or_skip
from tests.support.planes import borrowed_plane
from tests.support.tabs import TIMEOUT_MS, Tab, open_tab

expect.set_options(timeout=TIMEOUT_MS)  # what is expected of a page is waited for, as everything else is

OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A small cluster with something for every page. Tests leave it as they find it.

    It ends with the file: its threads would go on under tests of other files, which replace parts of the network.
    """
    with small_cluster(borrowed_plane) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium. It ends with the file: asynchronous tests of other files need a loop of their own."""
    with launched(chromium_or_skip()) as browser:
        yield browser


@pytest.fixture
def tab_of(chromium: Browser) -> Iterator[OpenTab]:
    """Open tabs; see :func:`tests.support.tabs.open_tab`. They close after the test."""
    with ExitStack() as stack:
        yield lambda origin, **how: stack.enter_context(open_tab(chromium, origin, **how))
