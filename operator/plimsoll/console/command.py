"""``plimsoll console``.

The options of ``plimsoll console --in-cluster``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from plimsoll.cli.cluster.options import with_cluster
from plimsoll.cli.options import grouped, option
from plimsoll.console.asked import (
    grafana_root,
    logs_template,
    needing_extra,
    reached_namespace,
    settings_from,
    with_shared_options,
)
from plimsoll.domain.errors import InvalidInput

_OPTIONS: Final = grouped(
    option("--in-cluster"),
    option("--public-host", multiple=True),
    option("--proxy", multiple=True),
    option("--token-header"),
    option("--tls-cert"),
    option("--tls-key"),
    option("--ca-file"),
)

NAMES: Final = ("public_hosts", "proxies", "token_header", "tls_cert", "tls_key", "ca_file")


def check_local(given: dict[str, Any]) -> None:
    """Check that no option is given that only counts in a cluster.

    Raises:
        InvalidInput: there is one.
    """
    for name in NAMES:
        if given[name]:
            raise InvalidInput(_flag(name), given[name], "It counts in a cluster only: add --in-cluster.")


def check_in_cluster(given: dict[str, Any]) -> None:
    """Check that the options are complete.

    Raises:
        InvalidInput: one is missing.
    """
    if not given["public_hosts"]:
        raise InvalidInput("--public-host", "", "Name the host that browsers send, e.g. console.example.org.")
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        raise InvalidInput("--tls-cert", given["tls_cert"] or "", "Give --tls-cert and --tls-key together.")
    if (given["token_header"] or "Authorization").lower() != "authorization" and not given["proxies"]:
        raise InvalidInput(
            "--token-header", given["token_header"], "It is believed from a listed proxy only: add --proxy."
        )


def _flag(name: str) -> str:
    single = {"public_hosts": "public_host", "proxies": "proxy"}
    return "--" + single.get(name, name).replace("_", "-")


@click.command("console")
@option("--port", default=8765, show_default=True)
@option("--allow-approvals")
@option("--grafana-url")
@option("--logs-url")
@with_shared_options
@with_cluster
@_OPTIONS
def command(
    port: int,
    allow_approvals: bool,  # noqa: FBT001 - a flag of the command line
    grafana_url: str | None,
    logs_url: str | None,
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    operator: str,
    kubeconfig: str | None,
    context: str | None,
    in_cluster: bool,  # noqa: FBT001 - a flag of the command line
    **front: Any,
) -> None:
    """Open the console of a cluster on this machine, with your own rights. Read-only by default."""
    (check_in_cluster if in_cluster else check_local)(front)
    settings = replace(
        settings_from(namespaces, prometheus_url, operator, kubeconfig, context),
        grafana_url=grafana_root(grafana_url),
        logs_url=logs_template(logs_url),
        port=port,
        allow_approvals=allow_approvals,
    )
    with needing_extra("plimsoll console"):
        from plimsoll.console.serving import front_of, serve, serve_in_cluster  # noqa: PLC0415 - it needs the extra
    if in_cluster:
        serve_in_cluster(settings, front_of(front))
    else:
        serve(settings, reached_namespace(settings))
