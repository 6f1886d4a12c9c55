"""Garbage of Python: it is collected seldom, never while a plan is made, and freed memory goes back to the system.

Makes Python's garbage collector work seldom, and holds it back while a plan is made or JSON is read.
A pass makes hundreds of thousands of objects that live on, and nearly no reference cycles. Meanwhile the collector
reads all living objects again and again. That takes a tenth of a cold pass, and now and then a quarter of a second in a
pass that takes a twentieth of one otherwise. JSON of many short lists takes eight times as long (measured).

Gives memory that the process has freed back to the system.
glibc keeps freed blocks that lie between used ones. After a thousand objects were created at once, that was a fifth of
the operator's resident memory.
"""

from __future__ import annotations

import ctypes
import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

OBJECTS_PER_COLLECTION = 50_000
"""New objects between two collections of the youngest, instead of 700: most of ours live on."""


def collect_seldom() -> None:
    """Let the collector of this process look at new objects less often, and never at those that exist by now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION)


@contextmanager
def collecting_later() -> Iterator[None]:
    """Switch automatic collections off, and on again at the end: Python then collects by its own rules.

    It holds for all threads of the process. Nothing changes if they are off already.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def read_json(text: str | bytes) -> Any:
    """Read JSON. What the faster reader refuses, such as deeper nesting than 200 levels, the standard library reads.

    Raises:
        ValueError: it is not JSON.
    """
    with collecting_later():
        try:
            return from_json(text)
        except ValueError:
            return json.loads(text)


def give_back_free_memory() -> bool:
    """Give freed memory back. Whether some was given back; False if the C library has no such function.

    Source: ``malloc_trim`` of glibc (https://man7.org/linux/man-pages/man3/malloc_trim.3.html).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    return trim is not None and bool(trim(0))
