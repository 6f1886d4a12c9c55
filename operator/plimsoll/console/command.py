"""``plimsoll console``.

The options of ``plimsoll console --in-cluster``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from plimsoll.cli.cluster.options import with_cluster
from plimsoll.console.asked import (
    fallback_namespace,
    grafana_root,
    logs_template,
    needing_extra,
    settings_from,
    with_options,
    with_shared_options,
)
from plimsoll.domain.errors import InvalidInput

_FILE: Final = click.Path(exists=True, dir_okay=False)

_OPTIONS = (
    click.option("--in-cluster", is_flag=True, help="Serve many people, in a pod, behind a proxy that signs them in."),
    click.option("--public-host", "public_hosts", multiple=True, help="In a cluster: a host name that browsers send."),
    click.option("--proxy", "proxies", multiple=True, help="In a cluster: addresses (CIDR) of proxies to believe."),
    click.option("--token-header", help="In a cluster: the header with the person's token. Default: Authorization."),
    click.option("--tls-cert", type=_FILE, help="In a cluster: the certificate in PEM. Default: no TLS."),
    click.option("--tls-key", type=_FILE, help="In a cluster: the certificate's private key."),
    click.option("--ca-file", type=_FILE, help="In a cluster: certificates to verify the API server with."),
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
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 for any free port.")
@click.option("--allow-approvals", is_flag=True, help="Proposals can be answered in the console, under your name.")
@click.option("--grafana-url", help="A Grafana with the chart's dashboard, to link to. Default: no links.")
@click.option(
    "--logs-url", help="A pod's logs, with {namespace}, {deployment} and {pod} in the address. Default: no links."
)
@with_shared_options
@with_cluster
@with_options(*_OPTIONS)
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
        serve(settings, fallback_namespace(settings))
