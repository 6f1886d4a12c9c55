"""A forked process of ours is one like another: what it is given, how it ends, and whom it outlives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testbed.forking import ForkedProcess, ForkServer
from testbed.waiting import wait_until
from tests.testbed.test_processes import is_alive

pytestmark = pytest.mark.lengthy

OURS = [sys.executable, "-m", "plimsoll"]
WAITING = """\
import os, threading
from pathlib import Path
from testbed.processes import Child, fork_ours
fork_ours()
child = Child("ours", {command!r}, log=Path({log!r}), environment=os.environ | {{"KUBECONFIG": "none"}})
child.start()
print(child.pid, type(child._process).__name__, flush=True)
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """One that is asked for many processes; it ends when these tests do."""
    server = ForkServer([sys.executable, "-m", "testbed.forking"])
    yield server
    server.close()


def started(
    server: ForkServer,
    log: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> ForkedProcess:
    wanted = {**os.environ, **(environment or {})}
    return server.start([*OURS, *words], environment=wanted, directory=directory, log=log)


def cold(directory: Path, words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and output of a process that imports everything itself."""
    ran = subprocess.run(  # noqa: S603 -- our own program
        [*OURS, *words],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("models",),
        ("estimate", "model", "--gpu", "l4"),
        ("plan", "--kubeconfig", "none-such", "-f", "none.yaml"),
        ("fleet", "export"),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_it_says_and_ends_as_one_that_was_started_cold(
    server: ForkServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment |= {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "of-this-test"), "HF_HUB_OFFLINE": "1"}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    forked = server.start([*OURS, *words], environment=environment, directory=tmp_path, log=tmp_path / "log")
    assert (forked.wait(60), (tmp_path / "log").read_text()) == cold(tmp_path, words, environment)


def test_signals_end_it_alone_and_its_status_names_them(server: ForkServer, tmp_path: Path) -> None:
    words, place = ("run",), {"KUBECONFIG": str(tmp_path / "none")}
    first = started(server, tmp_path / "first", *words, environment=place)
    second = started(server, tmp_path / "second", *words, environment=place)
    assert os.getpgid(first.pid) == first.pid != os.getpgid(second.pid)

    os.killpg(first.pid, signal.SIGKILL)

    assert first.wait(60) == -signal.SIGKILL
    assert second.poll() is None
    os.killpg(second.pid, signal.SIGKILL)
    assert second.wait(60) == -signal.SIGKILL


def test_who_waits_too_short_is_told(server: ForkServer, tmp_path: Path) -> None:
    forked = started(server, tmp_path / "log", "run", environment={"KUBECONFIG": str(tmp_path / "none")})
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.05)
    os.killpg(forked.pid, signal.SIGKILL)
    forked.wait(60)


def test_it_dies_with_whoever_started_it(tmp_path: Path) -> None:
    script = WAITING.format(command=[*OURS, "run"], log=str(tmp_path / "log"))
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:  # noqa: S603 -- this very interpreter
        assert starter.stdout is not None
        pid, kind = starter.stdout.readline().split()
        assert kind == ForkedProcess.__name__
        assert is_alive(int(pid))
        starter.kill()
    wait_until(lambda: not is_alive(int(pid)), 60, "the forked process ended")


@pytest.mark.parametrize("environment", [{}, {"KUBECONFIG": "elsewhere", "PYTHONUNBUFFERED": "1"}], ids=str)
def test_ours_is_forked_with_any_settings(server: ForkServer, environment: dict[str, str]) -> None:
    assert server.serves([*OURS, "run"], {**os.environ, **environment})


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (OURS, {"PYTHONPATH": "elsewhere"}),
        ([sys.executable, "-m", "tests.support.hurried"], {}),
        (["/bin/plimsoll", "-m", "plimsoll"], {}),
    ],
    ids=["another path", "another module", "another interpreter"],
)
def test_what_would_be_another_process_is_not(
    server: ForkServer, command: list[str], environment: dict[str, str]
) -> None:
    assert not server.serves([*command, "run"], {**os.environ, **environment})
