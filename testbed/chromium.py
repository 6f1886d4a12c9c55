"""A headless Chromium of the system under Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def launched(executable: Path) -> Iterator[Browser]:
    """Run it for the length of a block.

    Playwright's loop runs in this thread meanwhile, so that no asynchronous function can be run here.
    """
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with its sandbox
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
