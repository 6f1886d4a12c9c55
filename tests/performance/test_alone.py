"""The speed of an option is computed wherever Python runs, without any distribution."""

from __future__ import annotations

import sys

from tests.support.alone import with_modules

OUTSIDE_THE_CORE = {"asyncio", "multiprocessing", "selectors", "socket", "ssl", "subprocess"}
"""Modules of the standard library that ask the machine for what a browser does not give."""

IMPORT_ALL = """
import importlib, pkgutil
import plimsoll.performance as package
names = [each.name for each in pkgutil.walk_packages(package.__path__, "plimsoll.performance.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_every_module_is_imported_without_any_distribution() -> None:
    ran = with_modules(IMPORT_ALL, frozenset(sys.stdlib_module_names - OUTSIDE_THE_CORE))
    assert ran.status == 0, ran.err
    assert int(ran.out) >= 6
