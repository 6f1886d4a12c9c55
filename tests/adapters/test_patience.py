"""One request is tried again while that may help, no longer than is useful, and as late as the server asks."""

from __future__ import annotations

import pytest

from plimsoll.adapters.cluster.api_errors import IMPATIENT, ClusterRefused, Patience, patiently, retry_after_seconds
from plimsoll.domain.errors import SourceUnavailable
from tests.support.tables import every_case


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, without making them."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr("plimsoll.adapters.cluster.api_errors.asyncio.sleep", sleep)
    return made


class Server:
    """Answers with these errors one after the other, and then well."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def refusal(status: int, retry_after: float | None = None) -> ClusterRefused:
    return ClusterRefused("apply", status, "no", retry_after=retry_after)


async def test_what_passes_is_tried_again_and_the_servers_wish_is_obeyed(pauses: list[float]) -> None:
    server = Server(refusal(429, 1.0), SourceUnavailable("cut"), refusal(503), refusal(504))
    assert await patiently(server, Patience()) == "done"
    assert server.asked == 5
    assert 1.0 <= pauses[0] <= 1.3
    assert all(0 < pause < 2 for pause in pauses[1:])


async def test_a_webhook_that_does_not_answer_is_for_somebody_to_mend() -> None:
    words = 'Internal error occurred: failed calling webhook "a.example.com": dial tcp 127.0.0.1:1: connection refused'
    server = Server(ClusterRefused("apply", 500, words))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience())
    assert server.asked == 1


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
async def test_a_no_is_final(status: int) -> None:
    server = Server(refusal(status))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience())
    assert server.asked == 1


async def test_patience_ends(pauses: list[float]) -> None:
    server = Server(*(refusal(503) for _ in range(50)))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience(tries=4))
    assert server.asked == 4
    assert len(pauses) == 3


async def test_a_wish_beyond_patience_is_not_waited_for(pauses: list[float]) -> None:
    server = Server(refusal(429, 600.0))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience(total_seconds=30))
    assert pauses == []


async def test_the_impatient_ask_once() -> None:
    server = Server(SourceUnavailable("down"))
    with pytest.raises(SourceUnavailable):
        await patiently(server, IMPATIENT)
    assert server.asked == 1


@every_case(
    ("header", "seconds"),
    [("1", 1.0), ("30", 30.0), ("-1", None), ("Wed, 21 Oct", None), ("٣", None), ("9" * 400, None)],
)
def test_the_header_is_seconds_or_nothing(header: str, seconds: float | None) -> None:
    assert retry_after_seconds({"Retry-After": header}) == seconds
    assert retry_after_seconds(None) is None
