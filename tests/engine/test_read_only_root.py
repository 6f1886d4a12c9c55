"""Does the engine run as its pod says: nothing writable but the volumes, and all that it writes sent there?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.server import in_pod_root
from tests.engine.conftest import KV_BLOCKS, MakeServer
from tests.support.rendered import container_of, tiny_twin

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def pod_environment(tiny_model: Path) -> dict[str, str]:
    """The variables of the rendered container that have plain values."""
    container = container_of(tiny_twin("01-minimal", tiny_model))
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


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


def test_it_starts_and_serves_on_a_read_only_root(
    make_server: MakeServer, rendered_arguments: list[str], pod_environment: dict[str, str]
) -> None:
    with make_server(rendered_arguments, kv_blocks=KV_BLOCKS, pod_environment=pod_environment) as server:
        answer = server.complete("The load line", max_tokens=16)
        assert answer["usage"]["completion_tokens"] == 16
    assert "Read-only file system" not in server.log.read_text()
