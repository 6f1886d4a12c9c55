"""Users change their objects in a hurry or by accident, and create the things that these need too late."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.app.lookups.model_cache import SECRET_RETRY_SECONDS
from testbed.control_plane import ControlPlane
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.adapters.fake_hub import FakeHub, serve_hub
from tests.support.faulty import PATIENT
from tests.support.honest import Honest
from tests.support.installed import View, condition, inference_deployment, namespace_of, on_gpu

pytestmark = pytest.mark.cluster

H100 = on_gpu("h100-sxm-80gb")
GATED = "org/gated-8b"
TOKEN = "hf_of_the_tenant"  # noqa: S105 - of a hub on loopback
PRICES = "plimsoll-prices"
SOON_SECONDS = SECRET_RETRY_SECONDS + 15.0
"""For what is asked for again every few seconds, on a loaded machine."""


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    with serve_hub() as running:
        yield running


@pytest.fixture(scope="module")
def operator(
    control_plane: ControlPlane, hub: FakeHub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    cache: Path = tmp_path_factory.mktemp("hub")
    settings = {"HF_ENDPOINT": hub.url, "PLIMSOLL_CACHE_DIR": str(cache), "PLIMSOLL_PRICES_CONFIGMAP": PRICES}
    with OperatorProcess(control_plane, environment=PATIENT | settings) as running:
        yield running


@pytest.fixture
def here(control_plane: ControlPlane, honest: Honest) -> Iterator[View]:
    """Every test has the honest neighbour, whose pod stands through it."""
    with namespace_of(control_plane, f"hasty-{uuid.uuid4().hex[:6]}") as view, honest.standing():
        yield view


def owners(view: View, workload: str) -> list[str]:
    """Who owns a Deployment, by uid."""
    references = view.read("deployments", workload)["metadata"].get("ownerReferences") or ()
    return [str(reference["uid"]) for reference in references]


def kubectl(view: View, *arguments: str) -> str:
    return view.control_plane.kubectl(*arguments, "--namespace", view.namespace)


def test_orphaned_engines_run_on_and_are_taken_up_again(here: View, honest: Honest) -> None:
    here.apply("orphan", **H100)
    here.wait_ready("orphan")
    before = here.pod_uids("orphan")
    kubectl(here, "delete", "inferencedeployment", "orphan", "--cascade=orphan")
    here.wait(lambda: not here.get("orphan"), "the InferenceDeployment gone")
    honest.assert_served()  # the operator saw it, and nothing was done
    [workload] = here.all("deployments", "orphan")
    assert not workload["metadata"].get("ownerReferences")
    assert here.pod_uids("orphan") == before
    assert_gpus_are_held(here)

    here.apply("orphan", **H100)
    again = here.wait_ready("orphan")
    assert here.pod_uids("orphan") == before
    here.wait(lambda: owners(here, workload["metadata"]["name"]) == [again["metadata"]["uid"]], "an owner again")
    kubectl(here, "delete", "inferencedeployment", "orphan", "--cascade=foreground")
    here.wait(lambda: not here.all("pods", "orphan"), "its pods gone")


def assert_gpus_are_held(view: View) -> None:
    """Nobody gets the whole H100 node: a pod without an owner of ours holds a GPU all the same."""
    view.apply("wants-all", **on_gpu("h100-sxm-80gb", 8))
    view.wait_condition("wants-all", "Planned", "False")
    kubectl(view, "delete", "inferencedeployment", "wants-all")


def test_a_removed_owner_reference_is_put_back(here: View) -> None:
    here.apply("cut-off", **H100)
    owner = here.wait_ready("cut-off")
    before = here.pod_uids("cut-off")
    [name] = here.workloads("cut-off")
    here.patch_object("deployments", name, {"metadata": {"ownerReferences": None}})

    here.wait(lambda: owners(here, name) == [owner["metadata"]["uid"]], "the owner reference back")
    here.wait_ready("cut-off")
    assert here.pod_uids("cut-off") == before


def test_a_pod_that_cannot_end_holds_its_gpus_until_it_is_gone(here: View) -> None:
    whole = on_gpu("h100-sxm-80gb", 8)
    here.apply("lingers", **whole)
    here.wait_ready("lingers")
    [pod] = here.pods("lingers")
    here.patch_object("pods", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/held"]}})
    here.delete("inferencedeployments", "lingers")
    here.wait(lambda: not here.get("lingers"), "the InferenceDeployment gone")
    here.apply("heir", **whole)
    here.wait_condition("heir", "Planned", "False")
    assert here.pods("heir") == []
    here.patch_object("pods", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    here.wait_ready("heir")


def test_of_a_hundred_edits_the_last_one_wins(here: View, honest: Honest) -> None:
    here.apply("restless", **H100)
    here.wait_ready("restless")
    for turn in range(100):
        here.patch("restless", {"contextLength": (8192, 2048)[turn % 2]})
    here.patch("restless", {"contextLength": 3072})
    honest.assert_served()
    here.wait_ready("restless")
    here.wait(lambda: context_of(here, "restless") == "3072", "the last edit")  # the status is written first
    assert len(here.all("replicasets")) <= 25, "edits were not taken together"
    here.wait(lambda: len(here.pods("restless")) == 1, "one pod")


def context_of(view: View, name: str) -> str:
    """The context that the engines of the only pool are started with."""
    [workload] = view.all("deployments", name)
    words = workload["spec"]["template"]["spec"]["containers"][0]["args"]
    return str(words[words.index("--max-model-len") + 1])


def test_a_token_that_comes_late_is_noticed_within_seconds(here: View, hub: FakeHub, operator: OperatorProcess) -> None:
    hub.publish(GATED, LLAMA_CONFIG, tokens=(TOKEN,), gated=True, total=8_030_261_248)
    reference = {"name": "late-hf-token", "key": "token"}
    here.apply("gated", model={"name": GATED, "tokenSecretRef": reference}, **H100)
    body = here.wait_condition("gated", "Ready", "Unknown", "TokenSecretMissing")
    assert condition(body, "Reconciling")["status"] == "True"
    assert condition(body, "Stalled") == {}
    kubectl(here, "create", "secret", "generic", "late-hf-token", f"--from-literal=token={TOKEN}")
    here.wait_condition("gated", "Ready", "True", timeout=SOON_SECONDS)
    assert operator.healthy()


def test_a_volume_that_comes_late_is_waited_for_where_the_pods_are(here: View) -> None:
    claim = {"name": "models", "persistentVolumeClaim": {"claimName": "late-claim"}}
    mount = {"name": "models", "mountPath": "/models"}
    here.apply(
        "cached", podTemplate={"volumes": [claim], "volumeMounts": [mount]}, gpu={"allow": ["l4-24gb", "l40s-48gb"]}
    )

    def says(words: str) -> bool:
        return any(
            words in entry["message"] for entry in (here.get("cached").get("status") or {}).get("conditions", ())
        )

    missing = 'persistentvolumeclaim "late-claim" not found'
    here.wait(lambda: says(missing), "the missing claim named")
    before = here.workloads("cached")
    here.control_plane.apply([volume_claim(here.namespace)])
    here.wait(lambda: not says(missing), "another word about the claim")
    assert here.workloads("cached") == before, "a volume is no reason for another GPU"
    here.control_plane.apply([storage_class(here.namespace), volume(here.namespace)])
    here.wait_ready("cached")
    assert here.workloads("cached") == before


def volume_claim(namespace: str) -> dict[str, Any]:
    spec = {
        "storageClassName": f"late-{namespace}",
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    head = {"name": "late-claim", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": head, "spec": spec}


def storage_class(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": f"late-{namespace}"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(namespace: str) -> dict[str, Any]:
    spec = {
        "storageClassName": f"late-{namespace}",
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/models"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"late-{namespace}"}, "spec": spec}


def test_a_price_list_that_comes_late_counts(here: View, control_plane: ControlPlane) -> None:
    """Without prices the smaller card wins; the list makes the larger one cheaper."""
    either = {"gpu": {"allow": ["l4-24gb", "l40s-48gb"]}}
    here.apply("before", **either)
    assert here.wait_ready("before")["status"]["pools"][0]["gpuType"] == "l4-24gb"
    data = {"l4-24gb": "9", "l40s-48gb": "0.1"}
    head = {"name": PRICES, "namespace": NAMESPACE}
    control_plane.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": data}])
    here.wait(lambda: chosen_anew(here, either) == "l40s-48gb", "the prices noticed", 60)


def chosen_anew(view: View, spec: dict[str, Any]) -> str:
    """Which GPU a new object gets."""
    name = f"probe-{uuid.uuid4().hex[:4]}"
    view.control_plane.apply([inference_deployment(name, view.namespace, **spec)])
    body = view.wait_condition(name, "Planned", "True")
    kubectl(view, "delete", "inferencedeployment", name)
    return str(body["status"]["pools"][0]["gpuType"])


LLAMA_CONFIG = json.loads(
    """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": false}"""
)


def test_a_load_of_all_replicas_becomes_the_chosen_number_of_pods(here: View, honest: Honest) -> None:
    fleetwide = on_gpu("h100-sxm-80gb") | {"concurrency": None, "totalConcurrency": 30, "minReplicas": 3}
    here.apply("total", **fleetwide)
    ready = here.wait_ready("total")
    assert (ready["status"]["size"]["replicas"], ready["status"]["size"]["concurrency"]) == (3, 10)
    assert (ready["status"]["replicas"], len(here.pods("total"))) == (3, 3)
    before = here.pod_uids("total")
    refused = kubectl_refused(here, "scale", "inferencedeployment", "total", "--replicas=5")
    assert "totalConcurrency lets the planner choose the number of replicas" in refused
    honest.assert_served()
    assert here.pod_uids("total") == before


def kubectl_refused(view: View, *arguments: str) -> str:
    return view.control_plane.kubectl(*arguments, "--namespace", view.namespace, check=False)
