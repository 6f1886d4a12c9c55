"""A played past grows by its rate, and every sample has its own time."""

from __future__ import annotations

from collections.abc import Callable
from urllib.request import urlopen

from testbed.played_past import SCRAPE_SECONDS, PastSeries, PlayedPast

BEGIN = 1_700_000_000.0


LAST = BEGIN + 2 * SCRAPE_SECONDS


def rate(at: float) -> float:
    """Half a request a second for a minute, and then three times as many."""
    return 0.5 if at < BEGIN + SCRAPE_SECONDS else 1.5


def series(shown: Callable[[float], str] = str) -> PastSeries:
    return PastSeries("requests_total", {"pod": "a", "engine": "0"}, BEGIN, LAST, rate, shown)


def test_a_counter_grows_by_its_rate() -> None:
    assert list(series().lines()) == [
        'requests_total{pod="a",engine="0"} 0.0 1700000000000',
        'requests_total{pod="a",engine="0"} 30.0 1700000060000',
        'requests_total{pod="a",engine="0"} 120.0 1700000120000',
    ]


def test_the_text_of_a_value_may_be_anything() -> None:
    assert [line.split()[1] for line in series(shown=lambda _: "NaN").lines()] == ["NaN"] * 3


def test_the_page_is_served_until_the_end() -> None:
    with PlayedPast([series(), series()], days=2) as past:
        [target] = past.job["static_configs"][0]["targets"]
        with urlopen(f"http://{target}/metrics", timeout=5) as reply:
            assert reply.read().decode().splitlines() == [*series().lines(), *series().lines()]
