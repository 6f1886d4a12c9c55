"""Weights on a claim, on a real control plane: a Job copies them, is killed on the way, and goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from plimsoll.domain.requests.weights import WEIGHTS_PATH
from plimsoll.domain.units import GIB
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.kubelet.kubelet import Kubelet
from testbed.kubelet.weights_image import weights_image
from testbed.operator_process import OperatorProcess
from tests.adapters.fake_hub import FakeHub, serve_hub
from tests.support.faulty import PATIENT
from tests.support.installed import LLAMA_8B, View, condition, install, on_gpu
from tests.support.planes import borrowed_plane
from tests.support.volumes import MANY, claim

pytestmark = pytest.mark.cluster

CPU_NODE = "cpu-0"

IMAGE = "registry.example/llama:3.1"

LARGE = bytes(range(256)) * 40_000
"""Some 10 MB: more than the pieces of one read."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A cluster whose one node without GPUs is the process kubelet's. One of two nodes with H100 has an image."""
    nodes = {node["metadata"]["name"]: node for node in mixed_fleet() if node["metadata"]["name"] != CPU_NODE}
    holder = deepcopy(nodes["h100-0"])
    holder["metadata"]["name"] = holder["metadata"]["labels"]["kubernetes.io/hostname"] = "h100-1"
    holder["status"]["images"] = [{"names": [IMAGE], "sizeBytes": 16 * GIB}]
    with borrowed_plane([*nodes.values(), holder]) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    with serve_hub() as running:
        running.publish(LLAMA_8B, {"model_type": "llama"}).files["model.safetensors"] = LARGE
        yield running


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, hub: FakeHub) -> Iterator[OperatorProcess]:
    with OperatorProcess(control_plane, environment={**PATIENT, "HF_ENDPOINT": hub.url}) as running:
        yield running


@pytest.fixture(scope="module")
def storage(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The content of the claim; a node without GPUs runs the Jobs."""
    folder = tmp_path_factory.mktemp("claim")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": CPU_NODE, "labels": {"kubernetes.io/hostname": CPU_NODE, "kubernetes.io/os": "linux"}},
        "status": {part: {"cpu": "8", "memory": "32Gi", "pods": "110"} for part in ("capacity", "allocatable")},
    }
    with Kubelet(control_plane, [node], {"plimsoll": weights_image(folder, WEIGHTS_PATH)}):
        yield folder


def make_claim(view: View) -> None:
    """Make a claim that pods of all nodes can mount."""
    own = f"{view.namespace}-weights"
    disk = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": own},
        "spec": {
            "capacity": {"storage": "200Gi"},
            "accessModes": [MANY],
            "claimRef": {"namespace": view.namespace, "name": "weights"},
            "nfs": {"server": "nfs.example", "path": "/"},
        },
    }
    view.control_plane.apply([disk, claim(view.namespace, "weights", MANY, volume=own)])


def held_at(hub: FakeHub, at: int) -> tuple[Event, Event]:
    """Make the hub stand still after so many bytes of the large file; returns what says so, and what lets it go on."""
    stands, goes_on, real = Event(), Event(), hub._file  # noqa: SLF001 - the stand-in's own

    def slow(request: Any, path: str) -> None:
        if not path.endswith("model.safetensors") or stands.is_set():
            real(request, path)
            return
        hub.requests.append(f"RANGE {request.headers.get('Range')}")
        request.send_response(200)
        request.send_header("Content-Length", str(len(LARGE)))
        request.end_headers()
        request.wfile.write(LARGE[:at])
        request.wfile.flush()
        stands.set()
        goes_on.wait(60)

    hub._file = slow  # type: ignore[method-assign]  # noqa: SLF001 - the stand-in's own
    return stands, goes_on


def test_a_copy_that_is_killed_goes_on_where_it_was_and_engines_start_when_it_is_whole(
    operator: OperatorProcess, here: View, neighbour: View, hub: FakeHub, storage: Path
) -> None:
    make_claim(here)
    half = 8 * 1024 * 1024
    stands, goes_on = held_at(hub, half)
    cached = {"name": LLAMA_8B, "cache": {"claimName": "weights"}}
    here.apply("llama", model=cached, **on_gpu("h100-sxm-80gb"))
    here.wait(stands.is_set, "half of the file")
    neighbour.apply("lucky", **on_gpu("l4-24gb"), contextLength=4096)
    body = here.wait_condition("llama", "Ready", "False", "WeightsArriving")
    assert here.all("deployments") == []
    assert body["status"]["weights"]["claimName"] == "weights"
    [job] = here.all("jobs")
    [pod] = [each for each in here.all("pods") if each["metadata"]["labels"].get("plimsoll.dev/weights")]
    assert pod["spec"]["nodeName"] == CPU_NODE, "no GPU waits for it"
    partial = next(storage.glob(".*.partial/model.safetensors"))
    here.wait(lambda: partial.stat().st_size == half, "all that was sent is on the claim")
    _kill_the_copy()
    goes_on.set()
    here.wait_ready("llama", 120.0)
    [workload] = here.all("deployments")
    args = workload["spec"]["template"]["spec"]["containers"][0]["args"]
    folder = storage / args[0].removeprefix(f"{WEIGHTS_PATH}/")
    assert (folder / "model.safetensors").read_bytes() == LARGE
    assert hub.sent_bytes < len(LARGE) - half + 10_000, "what was there was not read again"
    done = here.read("jobs", job["metadata"]["name"])["status"]
    assert (done["succeeded"], done["failed"]) == (1, 1)
    assert here.get("llama")["status"]["weights"]["state"] == "Ready"
    neighbour.wait_ready("lucky")
    sent = hub.sent_bytes
    here.apply("second", model=cached, **on_gpu("h100-sxm-80gb"))
    here.wait_ready("second", 120.0)
    assert hub.sent_bytes == sent, "the copy serves later deployments of the same revision"
    assert operator.is_running


def test_the_scheduler_prefers_nodes_that_have_the_image_of_the_weights(operator: OperatorProcess, here: View) -> None:
    for name in ("first", "second"):
        here.apply(name, model={"name": LLAMA_8B, "source": f"oci://{IMAGE}"}, **on_gpu("h100-sxm-80gb"))
        here.wait_ready(name)
        assert here.nodes_of(name) == ["h100-1"]
    assert operator.is_running


def test_what_cannot_be_copied_is_named_with_the_words_of_the_download(
    operator: OperatorProcess, here: View, hub: FakeHub, storage: Path
) -> None:
    make_claim(here)
    assert storage.is_dir()
    model = {"name": LLAMA_8B, "source": "s3://models/llama", "cache": {"claimName": "weights"}}
    elsewhere = {"env": [{"name": "AWS_ENDPOINT_URL", "value": hub.url}]}
    here.apply("llama", model=model, podTemplate=elsewhere, **on_gpu("h100-sxm-80gb"))
    here.wait_condition("llama", "Ready", "False", "WeightsFailed")
    words = "s3://models/llama may not be read: check the Secret of the source"
    here.wait(lambda: words in condition(here.get("llama"), "Stalled")["message"], "its last words")
    [job] = here.all("jobs")
    assert job["status"]["failed"] == 1, "no other try, which would fail as well"
    assert here.all("deployments") == []
    assert operator.is_running


def _kill_the_copy() -> None:
    """Kill the one process that copies, as a node's out-of-memory killer does."""
    for entry in Path("/proc").iterdir():
        words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() and entry.exists() else []
        if b"fetch" in words and b"plimsoll" in words:
            os.kill(int(entry.name), signal.SIGKILL)
            return
    raise AssertionError(f"nothing copies at {time.time():.0f}")
