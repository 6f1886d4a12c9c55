"""The options of ``plimsoll console --in-cluster``."""

from __future__ import annotations

from typing import Any, Final

import click

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


def with_cluster_mode(command: Any) -> Any:
    """Add the options for the console in a cluster."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
