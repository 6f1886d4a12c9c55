"""A tab of a real browser that notes everything a clean page does not do, and asks axe about the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Request

Scheme = Literal["light", "dark"]

AXE = Path(__file__).resolve().parents[1] / "browser" / "vendor" / "axe-4.14.1.min.js"
SERIOUS = frozenset({"serious", "critical"})
"""The impacts that axe-core gives to what keeps people out."""

WIDE = 1280
"""CSS pixels of a usual window."""
NARROW = 320
"""CSS pixels of the narrowest window that WCAG 2.2 asks for (1.4.10, reflow)."""
HEIGHT = 800
TIMEOUT_MS = 600_000
"""Only a page that hangs is meant to take so long. Next to two suites of tests and four busy loops, two minutes were
too few for Python to load."""

_REPORT_VIOLATIONS = """
document.addEventListener('securitypolicyviolation', event =>
  window.noteViolation(`${event.effectiveDirective} blocked ${event.blockedURI} at ${event.sourceFile}`))
"""


@dataclass(slots=True)
class Tab:
    """One tab and its notes.

    Args:
        page: the tab itself.
        origin: scheme, host and port of the pages under test, e.g. ``http://127.0.0.1:8080``.
    """

    page: Page
    origin: str
    messages: list[str] = field(default_factory=list)
    """Lines that the pages or the browser wrote to the browser's console."""
    violations: list[str] = field(default_factory=list)
    """Breaches of the Content-Security-Policy; needs JavaScript."""
    foreign: list[str] = field(default_factory=list)
    """URLs of requests to other origins, sent or blocked."""
    errors: list[str] = field(default_factory=list)
    """Exceptions that no script caught."""

    def go(self, path: str) -> int:
        """Open a path of the origin and return its HTTP status; a path may be a whole URL."""
        answer = self.page.goto(path if "://" in path else self.origin + path)
        assert answer is not None, f"{path} is the page that was open"
        return answer.status

    @property
    def complaints(self) -> list[str]:
        """Every note, each with its kind."""
        kinds = ("messages", "violations", "foreign", "errors")
        return [f"{kind}: {line}" for kind in kinds for line in getattr(self, kind)]

    def scroll_width(self) -> int:
        """The width in CSS pixels that the page as a whole takes; more than the window's means a scroll bar."""
        return int(self.page.evaluate("document.scrollingElement.scrollWidth"))

    def barriers(self, *rules: str, without: Collection[str] = ()) -> list[str]:
        """The findings of axe that are serious or critical: rule, element and advice, one a line.

        Args:
            rules: ask for these rules only; none: for all.
            without: leave these rules out.
        """
        found = [each for each in self._ask_axe(rules, without) if each["impact"] in SERIOUS]
        return [line for each in found for line in _lines(each)]

    def _ask_axe(self, rules: Sequence[str], without: Collection[str]) -> list[dict[str, Any]]:
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        options |= {"runOnly": list(rules)} if rules else {}
        options |= {"rules": {rule: {"enabled": False} for rule in without}}
        answer = self.page.evaluate("options => axe.run(document, options)", options)
        violations: list[dict[str, Any]] = answer["violations"]
        return violations


def _lines(finding: dict[str, Any]) -> Iterator[str]:
    for node in finding["nodes"]:
        summary = " ".join(node["failureSummary"].split())
        yield f"{finding['impact']} {finding['id']}: {node['html'][:200]}: {summary}"


@contextmanager
def open_tab(
    browser: Browser,
    origin: str,
    *,
    scheme: Scheme = "light",
    width: int = WIDE,
    zoom: float = 1,
    javascript: bool = True,
    forced_colors: bool = False,
) -> Iterator[Tab]:
    """Open a tab in a fresh profile: no cookie, no cache.

    Args:
        browser: where.
        origin: see :class:`Tab`.
        scheme: the colour scheme that the person prefers.
        width: of the window, in CSS pixels before the zoom.
        zoom: 2 is the browser's zoom of 200 %: half as many CSS pixels, each twice as large.
        javascript: whether scripts run.
        forced_colors: whether the system replaces all colours by a few of its own, as in a contrast theme.
    """
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": round(width / zoom), "height": HEIGHT},
        device_scale_factor=zoom,
        java_script_enabled=javascript,
        forced_colors="active" if forced_colors else "none",
        reduced_motion="reduce",
    )
    context.set_default_timeout(TIMEOUT_MS)
    try:
        yield _noting(context, origin)
    finally:
        context.close()


def _noting(context: BrowserContext, origin: str) -> Tab:
    page = context.new_page()
    tab = Tab(page, origin)
    page.on("console", lambda message: tab.messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: tab.errors.append(str(error)))
    page.on("request", lambda request: _note_foreign(tab, request))
    page.expose_function("noteViolation", lambda line: tab.violations.append(line))  # noqa: PLW0108 - Playwright sets an attribute on it
    page.add_init_script(_REPORT_VIOLATIONS)
    return tab


def _note_foreign(tab: Tab, request: Request) -> None:
    parts = urlsplit(request.url)
    if parts.netloc and f"{parts.scheme}://{parts.netloc}" != tab.origin:
        tab.foreign.append(request.url)
