"""The state of a whole load, from the states of its pods."""

from __future__ import annotations

from itertools import pairwise

from plimsoll.rebalance.signals import LoadSummary, PodState, SignalState, worst


def test_one_pod_in_a_worse_state_decides_and_no_pod_at_all_is_missing() -> None:
    best_to_worst = tuple(SignalState)
    assert best_to_worst[0] is SignalState.FRESH
    for better, worse in pairwise(best_to_worst):
        assert worst((better, worse)) is worst((worse, better)) is worse
    assert worst(()) is SignalState.MISSING


def test_the_worst_pod_is_the_first_by_name_among_equals() -> None:
    pods = tuple(
        PodState(name, state)
        for name, state in (("a", SignalState.FRESH), ("b", SignalState.STALE), ("c", SignalState.STALE))
    )
    load = LoadSummary(SignalState.STALE, pods)
    assert (load.worst_pod, load.fresh_pods) == (pods[1], 1)
    assert LoadSummary(SignalState.MISSING).worst_pod is None


def test_the_sustained_percentage_is_rounded_down_and_unknown_without_capacity() -> None:
    load = LoadSummary(SignalState.FRESH, demanded_sustained_tokens=1999, held_tokens=1000)
    assert load.sustained_percent == 199
    assert LoadSummary(SignalState.FRESH, demanded_sustained_tokens=1, held_tokens=1).sustained_percent == 100
    assert LoadSummary(SignalState.FRESH).sustained_percent is None


def test_a_load_that_nobody_reported_has_no_figures() -> None:
    load = LoadSummary(SignalState.MISSING)
    figures = (load.used_tokens, load.demanded_tokens, load.demanded_sustained_tokens, load.demanded_peak_tokens)
    assert figures == (0, 0, 0, 0)
    assert (load.held_tokens, load.largest_capacity_tokens, load.waiting_sustained, load.waiting_peak) == (0, 0, 0, 0)
    assert (load.window_seconds, load.fresh_pods) == (0, 0)
