"""The Chromium that the browser tests run, or the reason why they are skipped.

This is the only place that skips a test. In CI a missing browser is a failure wherever the set-up can install one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.browser import find_chromium, must_have_browser, reason_to_skip, this_platform


def chromium_or_skip() -> Path:
    """The executable. Skips the test where there is none, and fails it where there must be one."""
    if found := find_chromium():
        return found
    here = this_platform()
    reason = reason_to_skip(os.environ, here)
    if must_have_browser(os.environ, here):
        pytest.fail(reason)
    pytest.skip(reason)  # the platform has no Chromium that the set-up can install
