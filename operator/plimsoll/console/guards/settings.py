"""Settings of the guards: one value for each of the two ways to run the console."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Local:
    """The console of one person, on a loopback address.

    Attributes:
        port: the port that the console listens on.
        token: the secret in the first URL; ``door.new_token()`` makes one.
        command: the command that prints a URL with the token. The page for people without a session names it.
        largest_body: most bytes of a POST.
        static: the path below which the static files are.
    """

    port: int
    token: str = field(repr=False)
    command: str = "plimsoll console"
    largest_body: int = MEBIBYTE
    static: str = "/static/"


@dataclass(frozen=True, slots=True)
class InCluster:
    """The console of many people, behind a proxy that signs them in.

    Attributes:
        hosts: the public names, as browsers write them in ``Host``: with the port, unless it is the scheme's own.
        proxies: addresses of the proxies whose headers are believed.
        token_header: the header with the person's token. Any name but ``Authorization`` is believed from a listed
            proxy only.
        scheme: the scheme of the public address.
        health: paths that the kubelet probes. They need neither a host name nor a person.
        largest_body: most bytes of a POST.
        static: the path below which the static files are.
    """

    hosts: frozenset[str]
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    token_header: str = "Authorization"  # noqa: S105 - the name of a header
    scheme: str = "https"
    health: frozenset[str] = frozenset({"/healthz"})
    largest_body: int = MEBIBYTE
    static: str = "/static/"
