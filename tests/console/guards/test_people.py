"""The sessions of people are bounded, in number and in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.guards.people import PersonSessions
from plimsoll.console.guards.person import Person


class World:
    """A clock, and sessions that say when they are opened and closed."""

    def __init__(self, most: int = 2) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.people: PersonSessions[str] = PersonSessions(
            self.session, most=most, idle_seconds=60, clock=lambda: self.now
        )

    @asynccontextmanager
    async def session(self, person: Person) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        if person.token.startswith("forged"):
            raise PermissionError(person.token)
        self.said.append(f"+{person.token}")
        yield person.token
        self.said.append(f"-{person.token}")

    async def visit(self, token: str) -> str:
        async with self.people.session_of(Person.of_token(token)) as session:
            await asyncio.sleep(0)
            return session


async def test_a_session_is_kept_between_requests_and_dropped_when_idle() -> None:
    world = World()
    assert await world.visit("a") == "a"
    world.now = 59
    await world.visit("a")
    world.now = 118
    await world.visit("b")
    assert world.said == ["+a", "+b"]
    world.now = 120
    await world.people.sweep()
    assert world.said == ["+a", "+b", "-a"]
    assert len(world.people) == 1


async def test_the_one_that_was_idle_longest_makes_room() -> None:
    world = World()
    for token in ("a", "b"):
        world.now += 1
        await world.visit(token)
    world.now += 1
    await world.visit("a")
    await world.visit("c")
    assert world.said == ["+a", "+b", "-b", "+c"]
    assert len(world.people) == 2


async def test_sessions_in_use_are_never_closed_and_the_next_person_is_refused() -> None:
    world = World()
    async with AsyncExitStack() as using:
        for token in ("a", "b"):
            await using.enter_async_context(world.people.session_of(Person.of_token(token)))
        world.now = 1000
        with pytest.raises(ConsoleRefusal) as refused:
            await world.visit("c")
        assert refused.value.status == 503
        assert await world.visit("a") == "a"
        assert world.said == ["+a", "+b"]
    assert await world.visit("c") == "c"


async def test_requests_at_the_same_time_share_one_session() -> None:
    world = World()
    assert await asyncio.gather(*(world.visit("a") for _ in range(5))) == ["a"] * 5
    assert world.said == ["+a"]


async def test_many_people_at_the_same_time_do_not_exceed_the_bound() -> None:
    world = World()
    most = 0

    async def visit(token: str) -> None:
        nonlocal most
        with suppress(ConsoleRefusal):
            await world.visit(token)
        most = max(most, len(world.people))

    await asyncio.gather(*(visit(f"p{number}") for number in range(20)))
    assert most == 2
    await world.people.close()
    assert len(world.people) == 0
    assert sorted(said[1:] for said in world.said if said[0] == "+") == sorted(
        said[1:] for said in world.said if said[0] == "-"
    )


async def test_made_up_tokens_are_not_held() -> None:
    world = World()
    for number in range(10):
        with pytest.raises(PermissionError):
            await world.visit(f"forged-{number}")
    assert len(world.people) == 0
    assert await world.visit("a") == "a"
