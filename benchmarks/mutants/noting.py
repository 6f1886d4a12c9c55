"""A plugin of pytest: which tests run which marked statements (:mod:`benchmarks.mutants.reach`), in what time."""

from __future__ import annotations

import builtins
import functools
import gc
import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

RESULT, SECONDS = "MUTANTS_RESULT", "MUTANTS_SECONDS"
"""The environment's variables with the file to write, and with the time after which no further test is begun."""

OURS = ("benchmarks.", "plimsoll.", "testbed.", "tests.")
"""Modules whose caches are emptied. Those of others hold nothing of a mutated module, and some take long to fill."""

_everywhere: set[int] = set()
_reached: dict[str, set[int]] = {}
_took: dict[str, float] = {}
_at: list[str] = [""]
_caches: list[functools._lru_cache_wrapper[Any]] = []
_caches_of: list[str] = [""]
_stopped: list[str] = []
_begun = time.monotonic()


def _reach(statement: int) -> None:
    """Note that a marked statement runs. What runs while the operator's modules are imported matters to every test."""
    seen = _reached.setdefault(_at[0], set())
    if statement not in seen:
        seen.add(statement)
        if _is_importing(sys._getframe()):  # noqa: SLF001 - the only way to see who calls
            _everywhere.add(statement)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and str(frame.f_globals.get("__name__")).startswith("plimsoll."):
            return True
        frame = frame.f_back
    return False


setattr(builtins, "mutant_reached", _reach)  # noqa: B010 - builtins have no such name for the type checker


def unit(item: pytest.Item) -> str:
    """Return the name of what runs alone: a test with all its parameters, or the whole file of a story."""
    file = _file(item.nodeid)
    return file if item.get_closest_marker("story") else item.nodeid.partition("[")[0]


def _file(test: str) -> str:
    return test.split("::", 1)[0]


def _enter(test: str) -> None:
    """Begin with a test. Caches are emptied: it may run alone, and computes everything then."""
    if _caches_of[0] != _file(test):
        _caches_of[0] = _file(test)
        gc.unfreeze()  # a frozen object would not be listed
        _caches[:] = [each for each in gc.get_objects() if _is_ours(each)]
    if _at[0] != test:
        _at[0] = test
        for cache in _caches:
            cache.cache_clear()


def _is_ours(found: object) -> bool:
    return isinstance(found, functools._lru_cache_wrapper) and found.__module__.startswith(OURS)  # noqa: SLF001


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Note what runs while a file of tests is imported."""
    if isinstance(collector, pytest.Module):
        _at[0] = collector.nodeid
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Note what a fixture of several tests runs: it matters to all tests of the file."""
    test = _at[0]
    if fixturedef.scope != "function":
        _at[0] = _file(test)
    try:
        return (yield)
    finally:
        _at[0] = test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note what a test runs, and how long it takes the processor."""
    test = unit(item)
    _enter(test)
    began = time.process_time()
    result = yield
    _took[test] = _took.get(test, 0.0) + time.process_time() - began
    if time.monotonic() - _begun > float(os.environ[SECONDS]):
        _stopped.append(test)
        item.session.shouldstop = "no time for more tests"
    return result


def pytest_sessionfinish() -> None:
    """Write what was found, and whether there was time for all tests."""
    tests = {
        test: {"seconds": took, "reached": sorted(_reached.get(test, set()) | _reached.get(_file(test), set()))}
        for test, took in _took.items()
    }
    result = {"tests": tests, "everywhere": sorted(_everywhere), "complete": not _stopped}
    Path(os.environ[RESULT]).write_text(json.dumps(result), encoding="utf-8")
