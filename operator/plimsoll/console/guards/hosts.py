"""Is the request meant for this console, and who may speak for another?

A page of another site can make its own name resolve to a loopback address (DNS rebinding). The browser then takes the
console for that site. The name is still in ``Host``, so a request with an unknown host is refused.

Headers that a proxy adds are believed from a listed proxy only. From anybody else the whole request is refused: either
somebody forges them, or an admin forgot to list the proxy.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from plimsoll.console.guards.errors import ConsoleRefusal

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

HTTP_PORT = 80

PROXY_HEADERS = ("forwarded", "x-forwarded-", "x-remote-", "x-real-ip", "x-auth-request-", "x-original-")
"""Beginnings of names of headers by which proxies say whom a request comes from and where it was sent."""

HEALTH = frozenset({"/healthz"})
"""Paths that the kubelet probes. They need neither a host name nor a person."""

Networks = tuple[IPv4Network | IPv6Network, ...]


def loopback_hosts(port: int) -> frozenset[str]:
    """Return every ``Host`` that a browser sends to a loopback address with this port."""
    bare = LOOPBACK_NAMES if port == HTTP_PORT else ()
    return frozenset((*bare, *(f"{name}:{port}" for name in LOOPBACK_NAMES)))


def only_for(hosts: frozenset[str], *, proxies: Networks = (), free: frozenset[str] = frozenset()) -> Middleware:
    """Return the middleware that refuses requests for other hosts, and headers of proxies that are not listed.

    Args:
        hosts: the names of this console, as in ``Host``.
        proxies: addresses of the listed proxies.
        free: paths that are not asked for a host.
    """
    known = frozenset(host.lower() for host in hosts)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        check_proxy_headers(request, proxies)
        if request.path not in free:
            check_host(request, known)
        return await handler(request)

    return guard


def check_host(request: web.Request, known: frozenset[str]) -> None:
    """Check that the request names exactly one host and that it is a known one.

    Raises:
        ConsoleRefusal: 421. The answer does not repeat the host, because a stranger chose it.
    """
    named = request.headers.getall("Host", [])
    # A target with a host of its own would win over the header (RFC 9112, section 3.2.2).
    if len(named) != 1 or named[0].lower() not in known or not request.raw_path.startswith("/"):
        raise ConsoleRefusal(
            421,
            "UnknownHost",
            "This console does not answer under the host name of this request.",
            f"Open one of its own addresses: {', '.join(sorted(known))}.",
        )


def check_proxy_headers(request: web.Request, proxies: Networks) -> None:
    """Check that only a listed proxy sends headers in a client's name.

    Raises:
        ConsoleRefusal: 403.
    """
    sent = [name for name in request.headers if name.lower().startswith(PROXY_HEADERS)]
    if sent and not is_listed(peer_of(request), proxies):
        raise ConsoleRefusal(
            403,
            "ProxyNotListed",
            f"The request has the header {sent[0][:40]}, and it does not come from a listed proxy.",
            "Open the console without a proxy, or list the proxy's address (chart value console.proxies).",
        )


def peer_of(request: web.Request) -> str:
    """Return the address at the other end of the connection; empty if there is none. No header changes it."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def is_listed(address: str, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Whether an address is in one of the networks. An IPv4 address on an IPv6 socket counts as IPv4."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in networks)
