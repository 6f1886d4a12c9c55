"""The pictures of the console in the documentation: ``python -m testbed.screenshots``.

They show the small cluster of ``testbed/scene.py`` under load, in both colour schemes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from playwright.sync_api import Browser, Page

from testbed import people
from testbed.browser import find_chromium, reason_to_skip, this_platform
from testbed.chromium import launched
from testbed.console_process import ConsoleProcess
from testbed.ending import end_on_signals
from testbed.scene import TEAM_A, UNPLACED_A, add_load, scene
from testbed.waiting import NotInTime

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
PAGES: Mapping[str, str] = MappingProxyType(
    {
        "inbox": "/",
        "fleet": "/fleet",
        "deployments": "/deployments",
        "deployment": f"/deployments/{TEAM_A}/llama-70b",
        "pressure": "/pressure",
    }
)
"""Paths of the console, by the name of their picture."""

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTH, HEIGHT = 1280, 800
"""CSS pixels of a window. A picture has the whole page."""

TALLEST = 1520
"""CSS pixels; a longer page is cut off below."""

LARGEST = 300_000
"""Bytes of one picture: everybody who clones the repository fetches all of them."""

_PAGE_MS = 30_000


class TooLarge(RuntimeError):
    """A picture has more bytes than the repository should carry."""


def main() -> int:
    """Take all pictures. Exit status 1 where one cannot be taken."""
    parser = argparse.ArgumentParser(prog="python -m testbed.screenshots", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PAGES)}; default: all")
    names = parser.parse_args().names or list(PAGES)
    if unknown := set(names) - PAGES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    end_on_signals()
    executable = find_chromium()
    if executable is None:
        print(f"error: {reason_to_skip({}, this_platform())}", file=sys.stderr)
        return 1
    try:
        _take_all(executable, names)
    except (NotInTime, TooLarge) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _take_all(executable: Path, names: Sequence[str]) -> None:
    with scene() as running:
        add_load(running)
        kubeconfig = people.admin(running.control_plane, "ada")
        with running.console(kubeconfig, "--allow-approvals") as console, launched(executable) as browser:
            for path in take(browser, console, names, FOLDER):
                print(f"{path.name}: {path.stat().st_size:,} bytes")


def take(browser: Browser, console: ConsoleProcess, names: Sequence[str], folder: Path) -> Iterator[Path]:
    """Take pictures in both schemes; gives the path of each file.

    Raises:
        TooLarge: a picture has more than LARGEST bytes.
        NotInTime: a page cannot be shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
        )
        context.set_default_timeout(_PAGE_MS)
        page = context.new_page()
        page.goto(console.entry)
        page.get_by_text(next(iter(UNPLACED_A.values()))).first.wait_for()
        for name in names:
            yield _take(page, console.origin + PAGES[name], folder / f"{name}-{scheme}.png")
        context.close()


def _take(page: Page, url: str, path: Path) -> Path:
    answer = page.goto(url)
    if answer is None or not answer.ok:
        raise NotInTime(f"{url} answered {'nothing' if answer is None else answer.status}")
    tall = min(TALLEST, int(page.evaluate("document.documentElement.scrollHeight")))
    page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": tall})
    if path.stat().st_size > LARGEST:
        raise TooLarge(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")
    return path


if __name__ == "__main__":
    sys.exit(main())
