"""A person is who has a token, from a place that may say so."""

from __future__ import annotations

import pytest

from plimsoll.console.guards import InCluster
from plimsoll.console.guards.person import Person
from tests.console.guards.served import ELSEWHERE, LOOPBACK, PUBLIC, many_people

HEADER = "X-Forwarded-Access-Token"


@pytest.mark.parametrize("value", ["Basic abc", "Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer ü", "abc", ""])
async def test_what_is_no_bearer_token_is_refused_with_the_reason(value: str) -> None:
    async with many_people(InCluster(frozenset({PUBLIC}))) as console:
        answer = await console.ask(Host=PUBLIC, Authorization=value)
        assert answer.status == 401
        assert answer.text.startswith("NotSignedIn: ")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("value", ["Bearer abc", "bearer abc", "Bearer  abc"])
async def test_a_bearer_token_is_a_person(value: str) -> None:
    async with many_people(InCluster(frozenset({PUBLIC}))) as console:
        answer = await console.ask(Host=PUBLIC, Authorization=value)
        assert (answer.status, answer.text) == (200, "the page of abc")


async def test_two_tokens_are_nobody() -> None:
    async with many_people(InCluster(frozenset({PUBLIC}))) as console:
        head = ("GET / HTTP/1.1", f"Host: {PUBLIC}", "Authorization: Bearer abc")
        assert " 200 " in await console.say(*head)
        assert " 401 " in await console.say(*head, "Authorization: Bearer other")


@pytest.mark.parametrize("header", [HEADER, "X-Id-Token"])
async def test_a_header_of_a_proxy_names_a_person_from_a_listed_proxy_only(header: str) -> None:
    for proxies, served in ((ELSEWHERE, False), ((), False), (LOOPBACK, True)):
        async with many_people(InCluster(frozenset({PUBLIC}), proxies, header)) as console:
            answer = await console.ask(Host=PUBLIC, **{header: "abc"})
            assert (answer.status == 200) is served
            assert ("the page of abc" in answer.text) is served


async def test_where_the_proxy_has_a_header_of_its_own_no_other_one_counts() -> None:
    async with many_people(InCluster(frozenset({PUBLIC}), LOOPBACK, HEADER)) as console:
        assert (await console.ask(Host=PUBLIC, Authorization="Bearer abc")).status == 401
        answer = await console.ask(Host=PUBLIC, Authorization="Bearer abc", **{HEADER: "other"})
        assert answer.text == "the page of other"


def test_a_person_does_not_print_the_token_and_has_a_key_of_it() -> None:
    person = Person.of_token("persons-own")
    assert "persons-own" not in repr(person)
    assert person.key == Person.of_token("persons-own").key
    assert person.key != Person.of_token("persons-other").key
    assert len(person.key) == 64
