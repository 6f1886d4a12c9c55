from __future__ import annotations

import pytest

from testbed.last_writes import Fate, LastWrite

HERE, ELSEWHERE = "/api/namespaces/here/pods/a", "/api/namespaces/elsewhere/pods/a"


def last(nth: int = 1, *, applied: bool = False) -> LastWrite:
    return LastWrite("/namespaces/here/", "PATCH", r"/pods/a(\?|$)", nth, applied)


@pytest.mark.parametrize(("applied", "fate"), [(False, Fate.LOST), (True, Fate.APPLIED)])
def test_the_nth_write_of_its_kind_is_the_last_one(*, applied: bool, fate: Fate) -> None:
    write = last(2, applied=applied)
    fates = [write.fate("PATCH", f"{HERE}?force=true") for _ in range(4)]
    assert fates == [Fate.PASSES, fate, Fate.LOST, Fate.LOST]


def test_other_writes_pass_before_it_and_are_lost_after_it() -> None:
    write = last()
    others = [("DELETE", HERE), ("PATCH", f"{HERE}/status"), ("POST", "/api/namespaces/here/events")]
    assert {write.fate(*other) for other in others} == {Fate.PASSES}
    write.fate("PATCH", HERE)
    assert {write.fate(*other) for other in others} == {Fate.LOST}


def test_writes_elsewhere_always_pass() -> None:
    write = last()
    write.fate("PATCH", HERE)
    assert write.fate("PATCH", ELSEWHERE) is Fate.PASSES


def test_it_is_held_once_everything_is_as_at_the_death() -> None:
    lost, applied = last(), last(applied=True)
    assert not lost.is_held
    for write in (lost, applied):
        write.fate("PATCH", HERE)
    assert (lost.is_held, applied.is_held) == (True, False)
    applied.status = 200
    assert applied.is_held
