"""The garbage collector waits while a plan is made, and works again afterwards, whatever happened."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from plimsoll.adapters.later_collection import collecting_later


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
