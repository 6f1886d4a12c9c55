"""Makes Python's garbage collector work seldom, and holds it back while a plan is made or JSON is read.

A pass makes hundreds of thousands of objects that live on, and nearly no reference cycles. Meanwhile the collector
reads all living objects again and again. That takes a tenth of a cold pass, and now and then a quarter of a second in a
pass that takes a twentieth of one otherwise. JSON of many short lists takes eight times as long (measured).
"""

from __future__ import annotations

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

    It holds for all threads of the process. Nothing changes where they are off already.
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
