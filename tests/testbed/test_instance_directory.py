"""Directories of control planes come and go with their owners."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from testbed.instance_directory import InstanceDirectory


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_it_is_removed_at_the_end_and_others_in_use_are_left_alone() -> None:
    first = InstanceDirectory(keep=False)
    second = InstanceDirectory(keep=False)

    assert first.path.exists()
    second.close()
    second.close()
    assert not second.path.exists()
    assert first.path.exists()
    first.close()


def test_one_to_keep_outlives_its_owner_and_its_successors() -> None:
    kept = InstanceDirectory(keep=True)
    kept.close()
    InstanceDirectory(keep=False).close()

    assert kept.path.exists()


def test_what_a_killed_owner_left_is_removed_by_the_next() -> None:
    script = (
        "import os; from testbed.instance_directory import InstanceDirectory\n"
        "print(InstanceDirectory(keep=False).path, flush=True); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603 -- this very interpreter
    abandoned = Path(ended.stdout.strip())
    assert abandoned.is_dir()

    InstanceDirectory(keep=False).close()

    assert not abandoned.exists()
