"""A build that is killed in the middle: nothing stays behind that harms, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.versions import FAMILIES
from testbed.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
COUNT = sum(len(family.programs) for family in FAMILIES)

GO = """#!/bin/sh
# Stands in for Go: notes what it builds, and at kube-apiserver waits as long as the gate is there.
if [ "$1" = env ]; then echo go1.99.0; exit 0; fi
if [ "$1" = mod ]; then echo '{{"Dir": "{module}"}}'; exit 0; fi
while [ $# -gt 1 ]; do [ "$1" = -o ] && output=$2; shift; done
echo "$1" >> "{log}"
printf half > "$output"
case "$1" in */kube-apiserver) if [ -e "{gate}" ]; then echo $$ > "{pid}"; exec cat "{gate}"; fi;; esac
printf whole > "$output"
"""


class Build:
    """``python -m testbed build`` with that Go."""

    def __init__(self, root: Path) -> None:
        self.log, self.gate, self.pid, self.cache = root / "log", root / "gate", root / "pid", root / "cache"
        module = root / "module"
        for name in ("node-initialize", "node-heartbeat-with-lease", "node-not-ready", "pod-delete"):
            folders = ("node/fast", "node/heartbeat-with-lease", "node/chaos", "pod/fast")
            for folder in folders:
                stage = module / "kustomize" / "stage" / folder / f"{name}.yaml"
                stage.parent.mkdir(parents=True, exist_ok=True)
                stage.touch()
        go = root / "bin" / "go"
        go.parent.mkdir()
        go.write_text(GO.format(module=module, log=self.log, gate=self.gate, pid=self.pid))
        go.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"},
            "PATH": f"{go.parent}:/usr/bin:/bin",
            "PLIMSOLL_CACHE": str(self.cache),
            "PLIMSOLL_BUILD_ALL": "1",
        }
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "testbed", "build"]
        started = subprocess.Popen(  # noqa: S603 -- this very interpreter
            command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.running.append(started)
        return started

    def start_and_reach_the_gate(self) -> tuple[subprocess.Popen[str], int]:
        os.mkfifo(self.gate)
        started = self.start()
        wait_until(lambda: self.pid.exists() and self.pid.read_text().strip(), 60, "kube-apiserver being built")
        return started, int(self.pid.read_text())

    def built(self) -> list[str]:
        return [line.rpartition("/")[2] for line in self.log.read_text().splitlines()]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    made = Build(tmp_path)
    yield made
    for each in made.running:
        each.kill()
        each.communicate()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["KILL", "TERM", "Ctrl-C"])
def test_the_next_run_builds_only_what_was_not_finished(build: Build, end: signal.Signals) -> None:
    killed, compiler = build.start_and_reach_the_gate()
    killed.send_signal(end)
    told, _ = killed.communicate(timeout=60)
    wait_until(lambda: is_gone(compiler), 60, "no compiler left behind")
    assert f"Building {COUNT} of {COUNT} programs from source" in told
    assert killed.returncode == (-9 if end == signal.SIGKILL else 130)
    assert ("the next run goes on from here" in told) == (end != signal.SIGKILL)
    assert not list(build.cache.glob("*/kube-apiserver"))
    before = build.built()
    build.gate.unlink()

    again = build.start()
    told, _ = again.communicate(timeout=60)

    assert again.returncode == 0, told
    assert f"Building {COUNT - len(before) + 1} of {COUNT} programs" in told
    assert build.built()[len(before) :][0] == "kube-apiserver"
    assert not set(before[:-1]) & set(build.built()[len(before) :])
    finished = [path for path in build.cache.glob("*/*") if path.is_file()]
    assert len(finished) == COUNT
    assert {path.read_text() for path in finished} == {"whole"}


def test_a_second_run_waits_for_the_first_and_takes_over_when_it_is_killed(build: Build) -> None:
    first, _ = build.start_and_reach_the_gate()
    second = build.start()
    assert second.stdout is not None
    assert "Another run builds the programs: waiting for it" in second.stdout.readline()
    build.gate.unlink()
    first.kill()

    told, _ = second.communicate(timeout=60)

    assert second.returncode == 0, told
    assert f"of {COUNT} programs from source" in told
    assert build.built().count("kube-apiserver") == 2
