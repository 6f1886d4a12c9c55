"""However long a kubelet rejects pods: few are made, and the next one comes in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.engines.failures import (
    FIRST_PAUSE_SECONDS,
    FREE_REJECTIONS,
    LONGEST_PAUSE_SECONDS,
    MOST_REMEMBERED,
    REMEMBERED_SECONDS,
    PodRejection,
    is_rejecting,
    last_of,
    rejection_words,
    tries_again_at,
)

NOW = 1_800_000_000.0


def rejected(*times: float, node: str = "h100-0") -> tuple[PodRejection, ...]:
    return tuple(PodRejection(at, node, "TopologyAffinityError", "no locality.") for at in times)


def test_the_first_ones_pause_nothing() -> None:
    few = rejected(*(NOW,) * (FREE_REJECTIONS - 1))
    assert not is_rejecting(few, 1)
    assert is_rejecting(rejected(*(NOW,) * FREE_REJECTIONS), 1)
    assert tries_again_at(()) < NOW


@pytest.mark.parametrize("replicas", [1, 2, 8])
def test_each_replica_may_be_rejected_once_more(replicas: int) -> None:
    enough = FREE_REJECTIONS - 1 + replicas
    assert not is_rejecting(rejected(*(NOW,) * (enough - 1)), replicas)
    assert is_rejecting(rejected(*(NOW,) * enough), replicas)


def test_the_pause_doubles_up_to_the_longest() -> None:
    burst, pauses = tuple(NOW + second for second in range(14)), list[float]()
    times = burst
    for _ in range(12):
        again = tries_again_at(rejected(*times))
        pauses.append(again - times[-1])
        times = (*times, again)
    assert pauses[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert pauses == sorted(pauses)


def test_an_hour_later_they_are_forgotten_and_never_more_than_the_last_ones_are_read() -> None:
    old, new = NOW - REMEMBERED_SECONDS, NOW - REMEMBERED_SECONDS + 1
    assert last_of(rejected(new, old), NOW) == rejected(new)
    many = rejected(*(NOW - each for each in range(2 * MOST_REMEMBERED)))
    assert last_of(many, NOW) == tuple(sorted(many))[-MOST_REMEMBERED:]


@given(st.floats(0.1, 5.0), st.integers(1, 8), st.integers(1, 24))
def test_a_node_that_rejects_for_hours_ends_few_pods(reaction: float, replicas: int, hours: int) -> None:
    """``reaction`` is how long a ReplicaSet goes on, one pod a second and replica, until the operator holds it back."""
    now, until = NOW, NOW + 3600 * hours
    made: tuple[PodRejection, ...] = ()
    while now < until:
        burst = rejected(*(now + second for second in range(1 + int(reaction)) for _ in range(replicas)))
        made = (*made, *burst)
        now = max(now + 1 + reaction, tries_again_at(last_of(made, burst[-1].at)) + 0.2)
    bursts_per_hour = 3600 / LONGEST_PAUSE_SECONDS + 10
    assert len(made) <= (1 + int(reaction)) * replicas * bursts_per_hour * hours


def test_the_words_name_the_node_the_count_and_what_the_kubelet_says() -> None:
    both = (*rejected(1.0, node="a"), *rejected(2.0, 3.0, node="b"))
    assert rejection_words(both) == (
        "the kubelet of b has rejected 2 pods within the last hour (TopologyAffinityError: no locality)"
    )
    bare = (PodRejection(1.0, "a", "Evicted", ""),)
    assert rejection_words(bare) == "the kubelet of a has rejected 1 pod within the last hour (Evicted)"
