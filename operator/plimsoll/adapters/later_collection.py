"""Holds Python's garbage collector back while a plan is made.

A pass makes hundreds of thousands of objects that live on and nearly no reference cycles. The collector reads all
living objects again and again meanwhile: a tenth of a cold pass, and a quarter of a second in one of several short ones.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
