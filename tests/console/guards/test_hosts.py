"""Requests for other hosts and forged headers of proxies are refused."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from plimsoll.console.guards import InCluster
from plimsoll.console.guards.hosts import is_listed, loopback_hosts
from tests.console.guards.served import ELSEWHERE, LOOPBACK, PUBLIC, many_people, one_person

BEARER = "Bearer abc"
FORGED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Remote-User", "Forwarded", "X-Forwarded-Access-Token", "X-Real-IP")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", "localhost", "", "::1"])
async def test_another_host_is_refused_even_with_the_session(host: str) -> None:
    async with one_person() as console:
        cookie = await console.enter()
        answer = await console.ask(cookie=cookie, Host=host)
        assert answer.status == 421
        assert "UnknownHost" in answer.text
        assert "evil" not in answer.text


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
async def test_loopback_names_with_the_port_are_served(name: str) -> None:
    async with one_person() as console:
        cookie = await console.enter()
        answer = await console.ask(cookie=cookie, Host=f"{name}:{console.port}")
        assert (answer.status, answer.text) == (200, "the page")


async def test_the_token_opens_nothing_under_another_host() -> None:
    async with one_person() as console:
        answer = await console.ask("/?token=the-secret-of-this-test", Host=f"evil.example:{console.port}")
        assert answer.status == 421
        assert "Set-Cookie" not in answer.headers


async def test_two_hosts_and_a_target_with_a_host_are_refused() -> None:
    async with one_person() as console:
        own, cookie = f"Host: 127.0.0.1:{console.port}", f"Cookie: {await console.enter()}"
        assert " 200 " in await console.say("GET / HTTP/1.1", own, cookie)
        assert " 200 " not in await console.say("GET / HTTP/1.1", own, "Host: evil.example", cookie)
        assert " 200 " not in await console.say("GET / HTTP/1.1", "Host: evil.example", own, cookie)
        assert " 200 " not in await console.say("GET http://evil.example/ HTTP/1.1", own, cookie)
        assert " 421 " in await console.say("GET / HTTP/1.0", cookie)


@pytest.mark.parametrize("header", FORGED)
async def test_headers_of_a_proxy_are_refused_on_loopback(header: str) -> None:
    async with one_person() as console:
        cookie = await console.enter()
        answer = await console.ask(cookie=cookie, **{header: "admin"})
        assert answer.status == 403
        assert answer.text.startswith("ProxyNotListed")


@pytest.mark.parametrize("header", FORGED)
async def test_in_a_cluster_only_a_listed_proxy_sends_them(header: str) -> None:
    for proxies, status in ((ELSEWHERE, 403), ((), 403), (LOOPBACK, 200)):
        async with many_people(InCluster(frozenset({PUBLIC}), proxies)) as console:
            answer = await console.ask(Host=PUBLIC, Authorization=BEARER, **{header: "x"})
            assert answer.status == status


async def test_a_listed_proxy_cannot_change_the_host() -> None:
    async with many_people(InCluster(frozenset({PUBLIC}), LOOPBACK)) as console:
        answer = await console.ask(Host="evil.example", Authorization=BEARER, X_Forwarded_Host=PUBLIC)
        assert answer.status == 421
        assert (await console.ask(Host=PUBLIC, Authorization=BEARER, X_Forwarded_Host="evil.example")).status == 200


async def test_probes_need_neither_host_nor_person_and_pages_need_both() -> None:
    async with many_people(InCluster(frozenset({PUBLIC}))) as console:
        assert (await console.ask("/healthz")).status == 200
        assert (await console.ask("/")).status == 421
        assert (await console.ask("/", Host=PUBLIC)).status == 401
        assert (await console.ask("/", Host=PUBLIC, Authorization=BEARER)).status == 200


def test_the_default_port_is_left_out_by_browsers() -> None:
    assert "localhost" in loopback_hosts(80)
    assert "localhost" not in loopback_hosts(8080)


def test_an_address_is_listed_by_its_network_alone() -> None:
    networks = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert is_listed("10.1.2.3", networks)
    assert is_listed("::ffff:10.1.2.3", networks)
    assert is_listed("fd00::1%eth0", networks)
    assert not is_listed("11.0.0.1", networks)
    assert not is_listed("", networks)
    assert not is_listed("10.1.2.3", ())
