from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from plimsoll.adapters.garbage import give_back_free_memory

HOLES = 2000
HOLE_BYTES = 32 * 1024


def resident_bytes() -> int:
    found = re.search(r"^VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_holes_between_used_blocks_are_given_back() -> None:
    blocks = [bytearray(HOLE_BYTES) for _ in range(2 * HOLES)]
    used = blocks[::2]
    del blocks
    before = resident_bytes()
    assert give_back_free_memory()
    assert before - resident_bytes() > HOLES * HOLE_BYTES / 2
    assert len(used) == HOLES


def test_a_c_library_without_the_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not give_back_free_memory()
