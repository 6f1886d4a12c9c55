"""The process kubelet on a real API server and scheduler, with a container that starts at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.kubelet.addresses import served_at
from testbed.kubelet.kubelet import Kubelet
from testbed.kubelet.probes import http_answers
from testbed.kubelet.toy_container import LAST_WORDS, TOY_IMAGE, toy_image
from testbed.traffic.endpoints import Endpoint, Endpoints
from testbed.waiting import wait_until

pytestmark = pytest.mark.cluster

NODE, PORT, PATIENCE_SECONDS = "own-0", 8000, 60.0


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane) -> Iterator[Kubelet]:
    images = {TOY_IMAGE: toy_image(), f"{TOY_IMAGE}-stubborn": toy_image(600)}
    with Kubelet(control_plane, [gpu_node(NODE, "L4", 8, labels={"own": "yes"})], images) as running:
        yield running


class Toy:
    """One pod of the kubelet's, and what is seen of it."""

    def __init__(self, control_plane: ControlPlane, kubelet: Kubelet, namespace: str) -> None:
        self.name = f"toy-{uuid.uuid4().hex[:6]}"
        self._control_plane = control_plane
        self._kubelet = kubelet
        self._namespace = namespace

    def apply(self, image: str = f"{TOY_IMAGE}:1", grace: int = 20, **container: Any) -> Toy:
        probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1, "failureThreshold": 2}
        toy = {
            "name": "toy",
            "image": image,
            "ports": [{"name": "http", "containerPort": PORT}],
            "startupProbe": probe | {"failureThreshold": 30},
            "readinessProbe": probe,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        self._control_plane.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": self.name, "namespace": self._namespace, "labels": {"app": self.name}},
                    "spec": {
                        "nodeSelector": {"own": "yes"},
                        "tolerations": [{"operator": "Exists"}],
                        "terminationGracePeriodSeconds": grace,
                        "containers": [toy | container],
                    },
                }
            ]
        )
        return self

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods/{self.name}"

    def status(self) -> dict[str, Any]:
        return dict(self._control_plane.client.get(self.path).get("status") or {})

    def container(self) -> dict[str, Any]:
        return dict((self.status().get("containerStatuses") or [{}])[0])

    def waiting(self) -> dict[str, str]:
        return dict((self.container().get("state") or {}).get("waiting") or {})

    def is_ready(self) -> bool:
        return {c["type"]: c["status"] for c in self.status().get("conditions") or []}.get("Ready") == "True"

    def wait_ready(self, *, ready: bool = True) -> Toy:
        wait_until(lambda: self.is_ready() is ready, PATIENCE_SECONDS, f"{self.name} ready={ready}")
        return self

    def folder(self) -> Path:
        [folder] = self._kubelet.folder.glob(f"*_{self.name}_*")
        return folder

    def switch(self, name: str) -> Path:
        file = self.folder() / "switches" / name
        file.touch()
        return file

    def delete(self, *options: str) -> None:
        self._control_plane.kubectl("delete", "pod", self.name, "-n", self._namespace, "--wait=false", *options)

    def wait_gone(self) -> None:
        exists = self._control_plane.client.exists
        wait_until(lambda: not exists(self.path), PATIENCE_SECONDS, f"{self.name} gone")

    def answers(self) -> bool:
        return http_answers(self.address, PORT, "/health", 1.0)

    @property
    def address(self) -> str:
        return served_at(self.status()["podIP"])


@pytest.fixture
def toy(control_plane: ControlPlane, kubelet: Kubelet, namespace: str) -> Toy:
    return Toy(control_plane, kubelet, namespace)


def test_a_pod_runs_at_its_own_address_and_two_have_the_same_port(
    control_plane: ControlPlane, kubelet: Kubelet, namespace: str
) -> None:
    first, second = (Toy(control_plane, kubelet, namespace).apply().wait_ready() for _ in range(2))
    assert first.address != second.address
    assert first.answers()
    assert second.answers()
    shown = first.container()
    assert (shown["ready"], shown["started"], shown["restartCount"]) == (True, True, 0)
    assert "running" in shown["state"]
    assert first.status()["phase"] == "Running"


def test_a_service_has_the_pod_as_long_as_it_is_ready(control_plane: ControlPlane, toy: Toy, namespace: str) -> None:
    ports = [{"name": "http", "port": PORT, "targetPort": "http"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": toy.name, "namespace": namespace}}
    control_plane.apply([service | {"spec": {"selector": {"app": toy.name}, "ports": ports}}])
    where = Endpoints(control_plane.client, namespace, toy.name)
    toy.apply().wait_ready()

    def pods() -> list[Endpoint]:
        where.refresh()
        return list(where.now())

    [endpoint] = wait_until(pods, PATIENCE_SECONDS, "an endpoint")
    assert (endpoint.pod, served_at(endpoint.address), endpoint.port) == (toy.name, toy.address, PORT)
    sick = toy.switch("sick")
    wait_until(lambda: not pods(), PATIENCE_SECONDS, "no endpoint")
    sick.unlink()
    wait_until(pods, PATIENCE_SECONDS, "the endpoint again")


def test_a_container_that_ends_starts_again_and_its_last_words_are_kept(toy: Toy) -> None:
    toy.apply().wait_ready()
    toy.switch("crash")
    wait_until(lambda: toy.container().get("restartCount") == 1, PATIENCE_SECONDS, "a restart")
    ended = toy.container()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert ended["message"] == f"up\n{LAST_WORDS}\n"
    toy.wait_ready()


def test_a_second_end_soon_after_waits_with_the_word_of_a_crash_loop(toy: Toy) -> None:
    toy.apply().wait_ready()
    toy.switch("crash")
    wait_until(lambda: toy.container().get("restartCount") == 1, PATIENCE_SECONDS, "a restart")
    toy.wait_ready().switch("crash")
    reason = "CrashLoopBackOff"
    waiting = wait_until(toy.waiting, PATIENCE_SECONDS, reason)
    assert waiting["reason"] == reason
    assert not toy.is_ready()


def test_a_liveness_probe_that_fails_starts_the_container_again(toy: Toy) -> None:
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1, "failureThreshold": 3}
    toy.apply(livenessProbe=probe).wait_ready()
    assert toy.container()["restartCount"] == 0
    sick = toy.switch("sick")
    wait_until(lambda: toy.container().get("restartCount") == 1, PATIENCE_SECONDS, "a restart")
    sick.unlink()
    toy.wait_ready()
    assert "the liveness probe failed" in (toy.folder() / "kubelet.log").read_text()


def test_a_deleted_pod_serves_until_its_hook_is_done_and_ends_politely(toy: Toy) -> None:
    toy.apply(lifecycle={"preStop": {"exec": {"command": ["sleep", "3"]}}}).wait_ready()
    address, log = toy.address, toy.folder() / "toy.log"
    toy.delete()
    assert http_answers(address, PORT, "/health", 1.0)
    assert "SIGTERM" not in log.read_text()
    toy.wait_gone()
    assert not http_answers(address, PORT, "/health", 1.0)
    assert log.read_text().endswith("SIGTERM\nended politely\n")


def test_the_grace_period_ends_with_sigkill(toy: Toy) -> None:
    toy.apply(image=f"{TOY_IMAGE}-stubborn:1", grace=2).wait_ready()
    log = toy.folder() / "toy.log"
    toy.delete()
    toy.wait_gone()
    assert log.read_text().endswith("SIGTERM\n")
    assert "SIGKILL: the grace period is over" in (log.parent / "kubelet.log").read_text()


def test_a_pod_deleted_by_force_is_killed_at_once(toy: Toy) -> None:
    toy.apply(image=f"{TOY_IMAGE}-stubborn:1", grace=600).wait_ready()
    address = toy.address
    toy.delete("--force", "--grace-period=0")
    wait_until(lambda: not http_answers(address, PORT, "/health", 1.0), PATIENCE_SECONDS, "the process gone")


def test_an_image_that_nothing_stands_for_waits_and_says_so(toy: Toy) -> None:
    toy.apply(image="registry.example/unknown:1")
    waiting = wait_until(toy.waiting, PATIENCE_SECONDS, "a waiting container")
    assert waiting["reason"] == "ErrImagePull"
    assert "registry.example/unknown:1" in waiting["message"]
    assert toy.status()["phase"] == "Pending"
