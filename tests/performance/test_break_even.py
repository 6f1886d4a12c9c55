"""From which use on one's own replica is cheaper than an API, and when it may go to zero in between."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.performance.break_even import (
    ApiPrice,
    OwnReplica,
    Use,
    Way,
    at_zero,
    cheapest,
    dedicated_usd,
    least_requests,
    without_starts,
)

CARD = OwnReplica(usd_per_hour=1.0, per_second=2.0, request_seconds=10.0, startup_seconds=300.0, idle_seconds=600.0)
PER_REQUEST = ApiPrice(prompt=0.5, output=1.5).of_request(1000, 500)
DAY = 24.0


def bills(use: Use) -> dict[Way, float]:
    api = use.requests * PER_REQUEST
    return {Way.API: api, Way.SCALE_TO_ZERO: at_zero(CARD, use).usd, Way.DEDICATED: dedicated_usd(CARD, use)}


def test_a_request_costs_its_tokens() -> None:
    assert pytest.approx((1000 * 0.5 + 500 * 1.5) / 1e6) == PER_REQUEST == 0.00125


@pytest.mark.parametrize(
    ("use", "api", "dedicated", "way"),
    [
        pytest.param(Use(240), 0.30, 24.0, Way.API, id="ten requests an hour"),
        pytest.param(Use(CARD.most_requests(DAY) / 2), 108.0, 24.0, Way.DEDICATED, id="half of the day busy"),
        pytest.param(Use(16_000, hours=8), 20.0, 24.0, Way.SCALE_TO_ZERO, id="eight hours of a day"),
        pytest.param(Use(5_000, hours=8), 6.25, 24.0, Way.API, id="eight hours of little use"),
        pytest.param(Use(40_000, hours=23.5), 50.0, 24.0, Way.DEDICATED, id="a pause that saves too little"),
        pytest.param(Use(2.5 * CARD.most_requests(DAY)), 540.0, 72.0, Way.DEDICATED, id="more than two replicas"),
    ],
)
def test_the_cheapest_way_follows_the_use(use: Use, api: float, dedicated: float, way: Way) -> None:
    found = bills(use)
    assert found[Way.API] == pytest.approx(api)
    assert found[Way.DEDICATED] == pytest.approx(dedicated)
    assert cheapest(found) is way
    assert without_starts(found) is (Way.API if api < dedicated else Way.DEDICATED)


def test_a_start_up_that_is_not_paid_back_is_not_advised() -> None:
    """Eight hours, the idle time after them and nothing else are paid: 8 h + 610 s at $1."""
    found = at_zero(CARD, Use(16_000, hours=8))
    assert found.usd == pytest.approx(8 + 610 / 3600)
    assert found.starts == pytest.approx(1.0)
    assert found.waiting == pytest.approx((1 + 300 * 16_000 / 28_800) / 16_000)
    usd = {Way.API: 10.0, Way.DEDICATED: 24.0}
    assert cheapest({**usd, Way.SCALE_TO_ZERO: 9.01}) is Way.API
    assert cheapest({**usd, Way.SCALE_TO_ZERO: 8.99}) is Way.SCALE_TO_ZERO


def drawn(card: OwnReplica, use: Use, days: int) -> tuple[float, float, float]:
    """Return paid seconds, starts and waiting requests a day of arrivals that are drawn one by one."""
    draws, busy, pause = Random(1), 0.0, 86_400 - use.seconds  # noqa: S311 - arrivals, no secrets
    paid, starts, waiting = 0.0, 0, 0
    begun = gone = ready = -1.0
    while busy < days * use.seconds:
        busy += draws.expovariate(use.per_second)
        now = busy + busy // use.seconds * pause
        if now > gone:
            paid += gone - begun
            starts, begun, ready = starts + 1, now, now + card.startup_seconds
        waiting += now < ready
        gone = max(now, ready) + card.request_seconds + card.idle_seconds
    return (paid + gone - begun) / days, starts / days, waiting / days


@pytest.mark.parametrize("use", [Use(24), Use(100), Use(240), Use(600), Use(60, hours=8), Use(400, hours=8)], ids=str)
def test_the_formulas_are_those_of_drawn_arrivals(use: Use) -> None:
    paid, starts, waiting = drawn(CARD, use, days=1500)
    found = at_zero(CARD, use)
    assert found.usd == pytest.approx(paid / 3600 * CARD.usd_per_hour, rel=0.03)
    assert found.starts == pytest.approx(starts, rel=0.05)
    assert found.waiting * use.requests == pytest.approx(waiting, rel=0.05)


@given(
    usd=st.floats(0.1, 100.0),
    api=st.floats(1e-5, 0.5),
    start=st.floats(1.0, 3600.0),
    idle=st.floats(30.0, 7200.0),
    hours=st.integers(1, 24),
    way=st.sampled_from((Way.DEDICATED, Way.SCALE_TO_ZERO)),
)
def test_it_pays_from_the_least_number_on_and_not_before(
    usd: float, api: float, start: float, idle: float, hours: int, way: Way
) -> None:
    card = replace(CARD, usd_per_hour=usd, startup_seconds=start, idle_seconds=idle)

    def own(requests: int) -> float:
        use = Use(requests, hours)
        return dedicated_usd(card, use) if way is Way.DEDICATED else at_zero(card, use).usd

    found, most = least_requests(card, api, hours, way), int(card.most_requests(hours))
    if found is None:
        assert all(own(each) > each * api for each in (1, most // 2, most))
    else:
        assert own(found) <= found * api
        assert found == 1 or own(found - 1) > (found - 1) * api
        assert own(most) <= most * api * (1 + 1e-9)


@given(requests=st.integers(1, 10**7), hours=st.integers(1, 24))
def test_going_to_zero_never_costs_more_than_running_and_never_more_than_its_starts(requests: int, hours: int) -> None:
    use = Use(requests, hours)
    found = at_zero(CARD, use)
    assert 0 <= found.usd <= dedicated_usd(CARD, use) * (1 + 1e-9)
    assert 0 <= found.starts <= requests
    assert 0 <= found.waiting <= 1
