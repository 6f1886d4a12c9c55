"""The options that the commands of the console share, and the extra that they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from string import Formatter
from typing import Final
from urllib.parse import urlsplit

from plimsoll.cli.cluster.options import ClusterAccess
from plimsoll.cli.later import MissingExtra, cluster_of, default_namespace
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


_POD = {"namespace": "ml", "deployment": "chat", "pod": "chat-0"}


def logs_template(url: str | None) -> str | None:
    """Return the address of a pod's logs with its names to fill in; None if there is none.

    Raises:
        InvalidInput: it is no address of a web page, or asks for another name.
    """
    if not url:
        return None
    try:
        names = {name for _, name, _, _ in Formatter().parse(url) if name is not None}
        is_page = names <= _POD.keys() and grafana_root(url.format_map(_POD)) is not None
    except (InvalidInput, ValueError):  # e.g. of a brace that nothing closes
        is_page = False
    if not is_page:
        fix = "Write an address with {namespace}, {deployment} or {pod}, e.g. https://logs.example.org/?pod={pod}."
        raise InvalidInput("--logs-url", url, fix)
    return url


def _lease(text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    if not (is_name(namespace) and is_name(name)):
        raise InvalidInput("--operator", text, f"Write the Lease's namespace and name, e.g. {OPERATOR}.")
    return ObjectKey(namespace, name)


def reached_namespace(settings: ConsoleSettings) -> str:
    """Return the namespace that is shown if the person may not list all, of a cluster that answers.

    Raises:
        PlimsollError: the cluster cannot be reached, or the extra is missing.
    """
    cluster_of(ClusterAccess(settings.kubeconfig, settings.context)).check()
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
