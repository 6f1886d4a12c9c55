"""The room that is kept for what comes during a start-up."""

from __future__ import annotations

from itertools import pairwise

import pytest

from plimsoll.rebalance.law.capacity import needed_use, spare_use

LONGEST_SECONDS = 900.0


def test_the_documented_parts() -> None:
    assert [round(100 * needed_use(seconds)) for seconds in (100, 300, 600)] == [81, 74, 65]


def test_the_longer_a_start_up_takes_the_more_room_is_kept() -> None:
    parts = [needed_use(seconds) for seconds in (0, 60, 100, 300, 600, LONGEST_SECONDS)]
    assert all(later < earlier for earlier, later in pairwise(parts))


def test_a_start_up_that_takes_for_ever_keeps_no_more_room_than_a_long_one() -> None:
    assert needed_use(1e9) == needed_use(LONGEST_SECONDS) > 0.5


@pytest.mark.parametrize("seconds", [0.0, 100.0, 900.0])
def test_a_replica_is_superfluous_well_below_the_need_of_another(seconds: float) -> None:
    assert spare_use(seconds) < 0.9 * needed_use(seconds)
