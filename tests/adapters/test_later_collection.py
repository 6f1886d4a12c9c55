"""The garbage collector waits while a plan is made, and works again afterwards, whatever happened."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.garbage import OBJECTS_PER_COLLECTION, collect_seldom, collecting_later, read_json


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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES, ascii_only=st.booleans())
def test_json_is_read_as_the_standard_library_reads_it(*, value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(text) == read_json(text.encode()) == json.loads(text) == value
    assert json.dumps(read_json(text)) == json.dumps(value), "1, 1.0 and true are equal in Python"


def test_what_is_nested_deeper_is_read_too_and_what_is_no_json_is_refused() -> None:
    deep = "[" * 400 + "]" * 400
    assert read_json(deep) == json.loads(deep)
    with pytest.raises(ValueError, match="Expecting value"):
        read_json("{'a': 1}"[1:])


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
