"""The state of a whole load, from the states of its pods."""

from __future__ import annotations

from itertools import pairwise

from plimsoll.rebalance.signals.metrics import SignalState, worst


def test_one_pod_in_a_worse_state_decides_and_no_pod_at_all_is_missing() -> None:
    best_to_worst = tuple(SignalState)
    assert best_to_worst[0] is SignalState.FRESH
    for better, worse in pairwise(best_to_worst):
        assert worst((better, worse)) is worst((worse, better)) is worse
    assert worst(()) is SignalState.MISSING
