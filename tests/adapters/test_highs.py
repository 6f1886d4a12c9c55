"""HiGHS as the solver: what it finds, and that it says nothing."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import highspy
import pytest

from plimsoll.adapters.highs import Highs
from plimsoll.placement.solvers.formulation import Programme

TWO_OF_THREE = Programme([-5.0, -4.0, -3.0], [1, 1, 1], [(0.0, ((0, 1.0), (1, 1.0), (2, 1.0)), 2.0)])
"""Take at most two of three: the two that are worth most."""


def test_a_programme_is_solved_without_a_word_whatever_a_constructor_of_the_library_prints(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 1.16 on HiGHS greets when its constructor sets the first callback; here every release of it does."""
    callbacks = highspy.Highs.enableCallbacks

    def greeting(self: Any) -> None:
        os.write(1, b"Running HiGHS\n")
        callbacks(self)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(highspy.Highs, "enableCallbacks", greeting)
    highspy.Highs()  # type: ignore[no-untyped-call]
    assert "Running HiGHS" in capfd.readouterr().out
    solution = Highs()(TWO_OF_THREE)
    ctypes.CDLL(None).fflush(None)  # what the library has buffered
    assert solution is not None
    assert (solution.values, solution.objective) == ((1, 1, 0), -9.0)
    assert capfd.readouterr() == ("", "")
