"""Shows a failure the moment it happens; loaded as a pytest plugin. Several workers report only at the end of a run."""

from __future__ import annotations

import pytest


class AtOnce:
    """Writes one line for each failed test.

    Args:
        terminal: where to.
    """

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test, in the process that the person started."""
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED now ({report.when}): {report.nodeid}: {_headline(report)}", red=True)


@pytest.hookimpl(trylast=True)  # the reporter comes first
def pytest_configure(config: pytest.Config) -> None:
    """Add it, unless this is a worker, whose reports go to the process that started it."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(terminal), "failures-at-once")


def _headline(report: pytest.TestReport) -> str:
    """The first line of what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash is not None else str(report.longrepr)
    return (text.strip().splitlines() or ["no message"])[0]
