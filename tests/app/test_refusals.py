"""Since when the API server refuses a workload."""

from __future__ import annotations

from plimsoll.app.refusals import Refusals


def test_the_first_refusal_counts_until_it_is_taken() -> None:
    refusals = Refusals()
    for now in (10.0, 20.0):
        refusals.refused(("u1", 1), "a", now)
    refusals.refused(("u2", 1), "a", 30.0)
    assert dict(refusals.since(("u1", 1))) == {"a": 10.0}
    refusals.accepted(("u1", 1), "a")
    assert dict(refusals.since(("u1", 1))) == {}
    assert dict(refusals.since(("u2", 1))) == {"a": 30.0}


def test_a_new_spec_is_a_new_attempt_and_what_is_gone_is_forgotten() -> None:
    refusals = Refusals()
    refusals.refused(("u1", 1), "a", 10.0)
    refusals.refused(("u2", 1), "a", 10.0)
    assert dict(refusals.since(("u1", 2))) == {}
    refusals.keep([("u1", 2), ("u2", 1)])
    assert dict(refusals.since(("u1", 1))) == {}
    assert dict(refusals.since(("u2", 1))) == {"a": 10.0}


def test_what_was_never_refused_is_accepted_without_a_word() -> None:
    refusals = Refusals()
    refusals.accepted(("u1", 1), "a")
    assert dict(refusals.since(("u1", 1))) == {}
