"""Whoever runs the tests sees a failure when it happens, not at the end of the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
def test_wrong():
    assert 1 == 2, "the reason"

def test_right():
    pass
"""


WITHOUT = ("-p", "no:cacheprovider", "-p", "no:randomly")
"""The first of two tests fails: what shuffles tests stays out of it."""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "workers"])
def test_a_failure_is_told_before_the_tests_after_it_have_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_story.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.failures", *WITHOUT, *workers]
    ran = subprocess.run(  # noqa: S603 - our own
        [*command, "--rootdir", str(tmp_path), str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = ran.stdout.splitlines()
    (told,) = [number for number, line in enumerate(lines) if line.startswith("FAILED now (call): test_story.py")]
    assert "the reason" in lines[told]
    assert told < next(number for number, line in enumerate(lines) if "= FAILURES =" in line)
