"""The garbage collector waits while a plan is made, and works again afterwards, whatever happened."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from plimsoll.adapters.later_collection import OBJECTS_PER_COLLECTION, collect_seldom, collecting_later


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nothing_is_collected_meanwhile() -> None:
    with collecting_later():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="of a pass"), collecting_later():
        raise ValueError("of a pass")
    assert gc.isenabled()


def test_a_function_may_be_wrapped_and_called_twice() -> None:
    @collecting_later()
    def collects() -> bool:
        return gc.isenabled()

    assert (collects(), gc.isenabled(), collects(), gc.isenabled()) == (False, True, False, True)


def test_a_pass_inside_a_pass_does_not_switch_it_on_early() -> None:
    with collecting_later():
        with collecting_later():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    with collecting_later():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_new_objects_are_looked_at_seldom_and_those_of_the_start_never() -> None:
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold()[0] == OBJECTS_PER_COLLECTION
        assert gc.get_freeze_count() > 0
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
