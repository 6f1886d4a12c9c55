"""The options that the commands of the console share, and the extra that they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll.cli.cluster_access import ClusterAccess
from plimsoll.cli.later import MissingExtra, default_namespace
from plimsoll.console.settings import ConsoleSettings


def settings_from(
    namespaces: tuple[str, ...], prometheus_url: str | None, kubeconfig: str | None, context: str | None
) -> ConsoleSettings:
    """Return the settings of options that several commands have."""
    return ConsoleSettings(
        kubeconfig=ClusterAccess(kubeconfig, context).file,
        context=context,
        namespaces=namespaces,
        prometheus_url=prometheus_url or os.environ.get("PLIMSOLL_PROMETHEUS_URL") or None,
    )


def fallback_namespace(settings: ConsoleSettings) -> str:
    """Return the namespace that is shown where the person may not list all. Raises :class:`MissingExtra`."""
    return default_namespace(settings.kubeconfig, settings.context)


@contextmanager
def needing_extra(command: str) -> Iterator[None]:
    """Turn an import that fails because the extra is missing into :class:`MissingExtra`."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "plimsoll"):  # a fault of the package, not of how it was installed
            raise
        fix = "Run: pip install 'plimsoll[console]'"
        raise MissingExtra(f"`{command}` needs {name}, which is not installed. {fix}") from error
