"""Does the engine run as its pod says: nothing writable but the volumes, and all that it writes sent there?"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.server import in_pod_root
from tests.engine.serving import ANSWER_TOKENS, Served


@pytest.mark.engine
@pytest.mark.parametrize(
    ("place", "writable"),
    [("/cache", True), ("/tmp", True), ("/dev/shm", True), ("/", False), ("/usr", False), ("/var", False)],  # noqa: S108
)
def test_the_stand_in_for_the_pod_writes_to_its_volumes_alone(tmp_path: Path, place: str, *, writable: bool) -> None:
    visible = tmp_path / "visible"
    visible.mkdir()
    command = [*in_pod_root(tmp_path / "root", visible), str(ensure_engine()), "-c"]
    program = f"open({place + '/probe'!r}, 'w')"
    done = subprocess.run([*command, program], check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    assert (done.returncode == 0) is writable, done.stderr
    assert writable or "Read-only file system" in done.stderr


def test_it_starts_and_serves_on_a_read_only_root(container: dict[str, Any], served: Served) -> None:
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert served.completion["usage"]["completion_tokens"] == ANSWER_TOKENS
    assert [line for line in served.log if "Read-only file system" in line] == []
