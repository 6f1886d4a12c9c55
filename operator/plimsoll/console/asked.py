"""The options that the commands of the console share, and the extra that they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from plimsoll.cli.cluster.options import ClusterAccess
from plimsoll.cli.later import MissingExtra, default_namespace
from plimsoll.cli.options import grouped, option
from plimsoll.console.settings import OPERATOR, ConsoleSettings
from plimsoll.console.views.paging import is_name
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey

with_shared_options: Final = grouped(
    option("--namespace", "namespaces", note="Default: all that you may list.", multiple=True),
    option("--prometheus-url"),
    option("--operator", default=str(OPERATOR), show_default=True),
)
"""The options that :func:`settings_from` takes, but for those that name the cluster."""


def settings_from(
    namespaces: tuple[str, ...], prometheus_url: str | None, operator: str, kubeconfig: str | None, context: str | None
) -> ConsoleSettings:
    """Return the settings of options that several commands have.

    Raises:
        InvalidInput: ``operator`` names no Lease.
    """
    return ConsoleSettings(
        kubeconfig=ClusterAccess(kubeconfig, context).file,
        context=context,
        namespaces=namespaces,
        prometheus_url=prometheus_url or os.environ.get("PLIMSOLL_PROMETHEUS_URL") or None,
        operator=_lease(operator),
    )


def grafana_root(url: str | None) -> str | None:
    """Return the address without its last slash; None if there is none.

    Raises:
        InvalidInput: it is no address of a web page.
    """
    if not url:
        return None
    with suppress(ValueError):  # e.g. of an IPv6 address without its bracket
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.netloc:
            return url.rstrip("/")
    raise InvalidInput("--grafana-url", url, "Write the address of Grafana, e.g. https://grafana.example.org.")


def _lease(text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    if not (is_name(namespace) and is_name(name)):
        raise InvalidInput("--operator", text, f"Write the Lease's namespace and name, e.g. {OPERATOR}.")
    return ObjectKey(namespace, name)


def fallback_namespace(settings: ConsoleSettings) -> str:
    """Return the namespace that is shown if the person may not list all. Raises :class:`MissingExtra`."""
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
