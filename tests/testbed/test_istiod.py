"""Istio's control plane as a process: one that ends at once is not waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from testbed.control_plane import ControlPlane
from testbed.istiod import Istiod
from testbed.waiting import NotInTime, wait_until


@dataclass
class FakeControlPlane:
    """A folder, and the waits of a control plane."""

    directory: Path

    def user_kubeconfig(self, user: str) -> Path:
        return self.directory / user

    def wait_until(self, question: Callable[[], bool], timeout: float, what: str) -> bool:
        return wait_until(question, timeout, what)


def test_a_program_that_ends_at_once_is_said_with_its_log(tmp_path: Path) -> None:
    program = tmp_path / "pilot-discovery"
    program.write_text("#!/bin/sh\necho no such option\nexit 3\n")
    program.chmod(0o700)
    istiod = Istiod(cast("ControlPlane", FakeControlPlane(tmp_path)), program)
    with pytest.raises(NotInTime, match=r"(?s)ended with status 3; its log ends with:.*no such option"):
        istiod.start()
    istiod.stop()
