"""The file of a snapshot, and the parts of it that are easier to ask about one by one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, PODS, Cluster, ClusterRefused
from plimsoll.adapters.cluster.kinds import SECRETS
from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.api.crd.lost_fields import LAST_APPLIED
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import (
    EngineSpec,
    InferenceDeploymentSpec,
    ModelSpec,
    PodTemplateSpec,
    RebalancingSpec,
    RoutingSpec,
)
from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus, RebalancingStatus
from plimsoll.app.exports.digests import Inputs, with_digests
from plimsoll.app.exports.document import FORMAT, Export, read_export, text_of
from plimsoll.app.exports.exporting import environment_of
from plimsoll.app.exports.hashing import PHRASES, Hashing, Pseudonyms, names_of
from plimsoll.app.exports.reduction import reduced
from plimsoll.app.exports.replaying import StoredCluster
from plimsoll.app.exports.specs import without_secrets
from plimsoll.app.settings import Settings
from plimsoll.app.watch import pruning
from plimsoll.decision.spec_digests import digests_of
from plimsoll.domain.engines.images import from_index
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.pod_reading import read_pod
from plimsoll.facts.cluster.scheduler_words import Obstacle, read_obstacles
from plimsoll.render.inputs import inputs_digest
from plimsoll.status.record.reading import read
from plimsoll.status.sharing import without_sentences
from testbed.fleet import gpu_node
from tests.render.workloads import chosen_pool
from tests.support.bodies import inference_deployment_body, node_body, pod_body, workload_body
from tests.support.tables import every_case

SPEC: dict[str, Any] = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 8}
EXPORT = Export(
    at=1_770_000_000.0,
    release="0.1.0",
    settings={"PLIMSOLL_NAMESPACE": "gpus"},
    bodies=[reduced(NODES, node_body()), reduced(PODS, pod_body("one"))],
    notes=("a note",),
)


def test_a_file_is_read_as_it_was_written_with_one_line_for_each_object() -> None:
    text = text_of(EXPORT)
    assert read_export(text, "fleet.json") == EXPORT
    assert [json.loads(line.rstrip(","))["kind"] for line in text.splitlines() if '"apiVersion"' in line] == [
        "Node",
        "Pod",
    ]


def broken(**changes: Any) -> str:
    found = json.loads(text_of(EXPORT))
    return json.dumps({name: value for name, value in {**found, **changes}.items() if value is not None})


@every_case(
    ("text", "message"),
    [
        ("kind: List", r"fleet\.json: line 1, column 1: 'kind: List' cannot be used\. It is no JSON, .* Write it"),
        (text_of(EXPORT)[:-40], r"fleet\.json: line \d+, column \d+: .* a part of it is missing"),
        ("", r"fleet\.json: line 1, column 1"),
        ("[]", r"fleet\.json: kind: \[\] cannot be used\. It must be PlimsollFleetSnapshot"),
        ("[" * 100_000, r"fleet\.json: .* It is no snapshot"),
        ('{"kind": "List"}', r"fleet\.json: kind: 'List' cannot be used\. It must be PlimsollFleetSnapshot"),
        (broken(formatVersion=FORMAT + 1), r"formatVersion: 2 .*A newer release of Plimsoll wrote it.* use the newer"),
        (broken(formatVersion="1"), r"fleet\.json: formatVersion: '1' cannot be used"),
        (broken(formatVersion=True), r"fleet\.json: formatVersion: True cannot be used"),
        (broken(formatVersion=0), r"fleet\.json: formatVersion: 0 cannot be used\. This release reads 1"),
        (broken(time="yesterday"), r"fleet\.json: time: 'yesterday' cannot be used\. Write a time"),
        (broken(settings={"PLIMSOLL_NAMESPACE": 1}), r"fleet\.json: settings\.PLIMSOLL_NAMESPACE: 1 cannot be used"),
        (broken(objects=None), r"fleet\.json: objects: a value is missing\. Write a list\. Write it again"),
        (broken(objects=["x"]), r"fleet\.json: objects\[0\]: 'x' cannot be used"),
        (broken(objects=[{"apiVersion": "v1", "kind": "Toaster"}]), r"objects\[0\]\.kind: 'v1 Toaster' .*Use one of"),
        (broken(objects=[node_body() | {"spec": []}]), r"fleet\.json: objects\[0\]\.spec: \[\] cannot be used"),
        (broken(objects=[pod_body("a") | {"requests": {"cpu": "1"}}]), r"objects\[0\]\.requests: .* whole numbers"),
        (
            broken(objects=[pod_body("a") | {"requests": {"cpu": 1, "memory": 1, "others": {"rdma/ib": "1"}}}]),
            r"objects\[0\]\.requests\.others: .* whole numbers",
        ),
        (broken(objects=[{"apiVersion": "v1", "kind": "Node"}]), r"objects\[0\]\.metadata\.name: a value is missing"),
        (
            broken(objects=[{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]),
            r"objects\[0\]\.metadata\.namespace: a value is missing\. Every Pod needs one",
        ),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_named_with_the_field_and_the_fix(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_export(text, "fleet.json")


def test_every_resource_of_nodes_and_pods_is_in_the_file() -> None:
    """A manifest may ask for any of them."""
    node = gpu_node("large", "L4", 4)
    node["status"]["allocatable"] |= {"rdma/ib": "4", "ephemeral-storage": "9Gi"}
    asked = {"requests": {"rdma/ib": "1", "ephemeral-storage": "1Gi"}}
    plain = pod_body("plain")
    plain["metadata"]["labels"] = {}
    for body in (ours := pod_body("ours"), plain):
        body["spec"]["nodeName"] = node["metadata"]["name"]
        body["spec"] |= {"containers": [{"name": "c", "resources": asked}], "overhead": {"ephemeral-storage": "1Gi"}}
    pods = [kept for kept in map(pruning.pod, (ours, plain)) if kept is not None]
    export = replace(EXPORT, bodies=[reduced(NODES, pruning.node(node)), *(reduced(PODS, each) for each in pods)])
    read = read_export(text_of(export), "fleet.json").bodies
    whole = read_fleet([node], [ours, plain], load_gpu_types())
    assert read_fleet(read[:1], read[1:], load_gpu_types()) == whole
    assert whole.nodes[0].host_free.others == (("ephemeral-storage", 5 * 2**30), ("rdma/ib", 2))


def test_unhealthy_gpus_and_placeholders_are_in_the_file() -> None:
    node = gpu_node("large", "L4", 4)
    node["status"]["capacity"] = {**node["status"]["allocatable"], "nvidia.com/gpu": "6"}
    asked = {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}, {"requests": {"cpu": "1"}}
    pods = [pod_body(f"balloon-{number}") for number in range(2)]
    for body, resources in zip(pods, asked, strict=True):
        body["metadata"]["labels"] = {}
        body["spec"] |= {"nodeName": "large", "priority": -10, "containers": [{"name": "c", "resources": resources}]}
    kept = [reduced(PODS, body) for body in map(pruning.pod, pods) if body is not None]
    export = replace(EXPORT, bodies=[reduced(NODES, pruning.node(node)), *kept])
    read = read_export(text_of(export), "fleet.json").bodies
    whole = read_fleet([node], pods, load_gpu_types())
    assert read_fleet(read[:1], read[1:], load_gpu_types()) == whole
    assert (whole.nodes[0].unhealthy, whole.nodes[0].free, whole.for_pods_of(0).nodes[0].free) == (2, 3, 4)


async def test_a_stored_cluster_answers_questions_and_refuses_secrets_and_writes() -> None:
    cluster: Cluster = StoredCluster(EXPORT)
    assert [each["metadata"]["name"] for each in (await cluster.list(PODS)).items] == ["one"]
    assert (await cluster.list(PODS, namespace="elsewhere")).items == []
    found = await cluster.get(PODS, ObjectKey("ns", "one"))
    assert found is not None
    assert await cluster.get(PODS, ObjectKey("ns", "two")) is None
    with pytest.raises(ClusterRefused, match="holds no Secrets"):
        await cluster.get(SECRETS, ObjectKey("ns", "hf-token"))
    with pytest.raises(ClusterRefused, match="cannot be changed"):
        await cluster.delete(PODS, ObjectKey("ns", "one"), "uid")


def test_the_settings_that_decide_come_back_from_the_file() -> None:
    settings = Settings(
        namespace="gpus",
        watch_namespaces=("a", "b"),
        read_all_pods=True,
        node_groups="[]",
        read_node_pools=True,
        prometheus_url="http://user:password@prometheus",
        prices_configmap="ours",
        pod_policy="{}",
        engine_image_nvidia="one",
        engine_image_amd="two",
        engine_registry="mirror",
        image_registries=(),
        scrape_annotations=True,
        stranded_seconds=7.0,
        move_seconds=70.0,
    )
    kept = Settings.from_environment(environment_of(settings))
    for name in ("prometheus_url", "identity", "fleet_file"):
        assert not environment_of(settings).get(f"PLIMSOLL_{name.upper()}")
    assert kept.digest() != settings.digest(), "Prometheus is not in the file"
    with_prometheus = {**environment_of(settings), "PLIMSOLL_PROMETHEUS_URL": str(settings.prometheus_url)}
    assert Settings.from_environment(with_prometheus).digest() == settings.digest()


def arguments(*given: str) -> list[str]:
    spec = without_secrets({**SPEC, "engine": {"extraArgs": list(given)}})
    found: list[str] = spec["engine"]["extraArgs"]
    return found


def test_values_of_flags_go_unless_the_planner_reads_them() -> None:
    assert arguments("--chat-template", "secret", "--tool-server=secret", "-v") == [
        "--chat-template", "left-out", "--tool-server=left-out", "-v",
    ]  # fmt: skip
    read_ones = [
        "--block-size=32",
        "--kv-offloading-size",
        "16",
        "--mm-processor-cache-type=shm",
        "--attention-backend",
    ]
    assert arguments(*read_ones, "X") == [*read_ones, "X"]
    typed = ["--seed=7", "--override-generation-config", '{"a": "secret"}', "--scheduling-policy=fcfs"]
    hidden = ["--seed=0", "--override-generation-config", "0", "--scheduling-policy=fcfs"]
    assert arguments(*typed) == hidden, "a value that the flag does not take would be refused"
    assert arguments("--kv-offloading-size", "many", "--token", "secret") == [
        "--kv-offloading-size", "many", "--token", "left-out",
    ]  # fmt: skip


def test_of_a_pod_template_only_values_go_and_a_variable_without_one_stays() -> None:
    template: dict[str, Any] = {
        "annotations": {"container.apparmor.security.beta.kubernetes.io/engine": "unconfined", "a": "secret"},
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "B", "value": "b"}],
        "volumes": [
            {"name": "a", "csi": {"driver": "d", "volumeAttributes": {"password": "secret"}}},
            {"name": "b", "secret": {"secretName": "s"}},
            {"name": "c", "iscsi": {"lun": 1, "portals": ["secret"]}},
        ],
    }
    found = without_secrets({**SPEC, "podTemplate": template})["podTemplate"]
    assert "secret" not in json.dumps([found["annotations"], found["volumes"][0], found["volumes"][2]])
    assert found["annotations"]["container.apparmor.security.beta.kubernetes.io/engine"] == "unconfined"
    assert found["env"] == [template["env"][0], {"name": "B", "value": "left-out"}]
    assert (found["volumes"][1], found["volumes"][2]["iscsi"]["lun"]) == (template["volumes"][1], 1)


def test_a_record_holds_for_the_spec_of_the_snapshot_where_it_held_for_that_of_the_cluster() -> None:
    env = {"podTemplate": {"env": [{"name": "A", "value": "secret"}]}}
    real = inference_deployment_body(spec=SPEC | env)
    plain = reduced(INFERENCE_DEPLOYMENTS, inference_deployment_body(spec=SPEC))
    assert with_digests(inference_deployment_body(spec=SPEC), plain, "salt") == plain
    held = with_digests(real, reduced(INFERENCE_DEPLOYMENTS, real), "salt")
    pools = [{"name": "held", "spec": _digest(real)}, {"name": "old", "spec": "0123456789ab"}, {"name": "none"}]
    found = with_digests(real, {**held, "status": {"pools": pools}}, "salt")["status"]["pools"]
    assert found[0] == {"name": "held", "spec": _digest(held)}
    assert found[1]["spec"] not in (_digest(held), _digest(real), "0123456789ab")
    assert found[2] == {"name": "none"}


def _digest(body: Any) -> str:
    return digests_of(body.get("spec")).engine


def test_of_an_engine_s_log_only_its_known_words_stay_and_they_mean_the_same() -> None:
    known = "token=secret\nNo available memory for the cache blocks. Try increasing it.\nbye secret"
    for message, reason in ((known, "Error"), ("token=secret", "Error"), ("token=secret", "OOMKilled")):
        ended = {"terminated": {"exitCode": 1, "reason": reason, "message": message}}
        pod = pod_body("one", containerStatuses=[{"restartCount": 2, "lastState": ended}, {"name": "other"}])
        (status,) = reduced(PODS, pod)["status"]["containerStatuses"]
        assert "secret" not in json.dumps(status)
        kept = status["lastState"]["terminated"]
        again = read_failure(kept.get("message", ""), kept["reason"])
        assert again.reason == read_failure(message, reason).reason
        assert status["restartCount"] == 2


@pytest.mark.parametrize(
    ("command", "is_kept"), [(["sglang", "serve"], True), ([], True), (["secret", "serve"], False)]
)
def test_the_command_of_an_engine_s_pod_is_in_the_file_if_it_names_an_engine_alone(
    command: list[str],
    is_kept: bool,  # noqa: FBT001
) -> None:
    body = pod_body("one")
    body["spec"]["containers"] = [{"name": "engine", "command": command, "args": ["secret"]}]
    kept = pruning.pod(body)
    assert kept is not None
    held = reduced(PODS, kept)
    assert "secret" not in json.dumps(held)
    assert read_pod(held, read_failure).command == (tuple(command) if is_kept else None)
    neighbour = plain_pod(body)
    assert "command" not in json.dumps(reduced(PODS, neighbour)), "it is none of ours"


def plain_pod(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "labels": {}}}


def test_of_the_author_s_containers_only_what_they_take_stays_and_a_failing_one_has_no_name() -> None:
    secret = {"name": "secret", "image": "secret", "args": ["secret"], "env": [{"name": "A", "value": "secret"}]}
    takes = {"resources": {"requests": {"cpu": "2"}}}
    expression = {"key": "secret", "operator": "In", "values": ["secret"]}
    term = {"matchExpressions": [expression], "matchFields": [{**expression, "key": "metadata.name"}]}
    nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    template = {
        "containers": [secret | takes],
        "initContainers": [secret | {"name": "secret-2", "restartPolicy": "Always"}],
        "affinity": {"nodeAffinity": nodes, "podAffinity": {}},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["secret"]}],
    }
    real = inference_deployment_body(spec=SPEC | {"podTemplate": template})
    held = reduced(INFERENCE_DEPLOYMENTS, real)
    kept = held["spec"]["podTemplate"]
    assert kept["containers"] == [
        {"name": "secret", "env": [{"name": "A", "value": "left-out"}], "image": "left-out", **takes}
    ]
    names = names_of({INFERENCE_DEPLOYMENTS: [held]}, ["ns"], "salt")
    found = Hashing(names).hashed(INFERENCE_DEPLOYMENTS, held)
    assert "secret" not in json.dumps(found)
    again, was = (parse_inference_deployment(each).spec.pods for each in (found, real))
    assert [each.resources for each in again.containers or ()] == [each.resources for each in was.containers or ()]
    assert [each.restart_policy for each in again.init_containers or ()] == ["Always"]
    assert again.affinity is not None
    assert len(again.affinity.node_terms) == 1
    failing = {"name": "secret", "lastState": {"terminated": {"exitCode": 1, "message": "secret"}}}
    (status,) = reduced(PODS, pod_body("one", containerStatuses=[failing]))["status"]["containerStatuses"]
    assert status["name"] == "left-out"
    assert "secret" not in json.dumps(status)


def test_the_last_manifest_keeps_its_fields_and_none_of_its_values() -> None:
    body = inference_deployment_body(spec=SPEC)
    body["metadata"]["annotations"] = {
        LAST_APPLIED: json.dumps({"spec": SPEC, "metadata": {"labels": {"a": "secret"}}})
    }
    body["metadata"]["managedFields"] = [{"subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    head = reduced(INFERENCE_DEPLOYMENTS, body)["metadata"]
    assert json.loads(head["annotations"][LAST_APPLIED]) == {
        "spec": {"model": {"name": None}, "contextLength": None, "concurrency": None}
    }
    assert head["managedFields"] == body["metadata"]["managedFields"]
    body["metadata"] |= {"annotations": {LAST_APPLIED: "no JSON"}, "managedFields": []}
    assert not {"annotations", "managedFields"} & reduced(INFERENCE_DEPLOYMENTS, body)["metadata"].keys()


def test_a_record_is_read_from_the_file_as_from_the_cluster_but_for_words() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Serving", "message": "secret", "lastTransitionTime": "t"}
    status = {"conditions": [condition], "selector": "a=b", "url": "http://secret", "replicas": 2}
    kept = reduced(INFERENCE_DEPLOYMENTS, inference_deployment_body(spec=SPEC, status=status))["status"]
    assert kept == {"conditions": [{**condition, "message": ""}], "replicas": 2}
    assert not read(kept).complaints


@every_case("obstacle", [each for each in Obstacle if each is not Obstacle.REJECTED])
def test_the_words_of_a_hashed_file_name_the_obstacle_of_the_scheduler_s_own(obstacle: Obstacle) -> None:
    message = f"0/1 nodes are available: 1 {PHRASES[obstacle]}."
    assert read_obstacles("Unschedulable", message) == (obstacle,)


def test_what_is_said_of_a_pod_holds_no_name_in_a_hashed_file_and_names_the_same_obstacle() -> None:
    tainted = '0/3 nodes are available: 3 node(s) had untolerated taint(s) {"secret.io/team": "red"}.'
    said = [
        ("PodScheduled", "Unschedulable", tainted),
        ("Ready", "Secret", "image of secret.io"),
        ("Initialized", "", ""),
    ]
    body = pod_body("one")
    body["status"]["conditions"] = [
        {"type": kind, "status": "False", "reason": reason, "message": message} for kind, reason, message in said
    ]
    written = {PODS: [reduced(PODS, body)]}
    pod = Hashing(names_of(written, ["ns"], "salt")).hashed(PODS, written[PODS][0])
    found = {each["type"]: each.get("message", "") for each in pod["status"]["conditions"]}
    assert not any("secret" in message for message in found.values())
    assert read_obstacles("Unschedulable", found["PodScheduled"]) == read_obstacles("Unschedulable", tainted) != ()


def test_a_hashed_snapshot_names_no_image_and_still_knows_its_platforms() -> None:
    image = "secret.example/team/vllm:1"
    body = inference_deployment_body(spec=SPEC | {"engine": {"image": image}})
    unread = "the registry at https://secret.example cannot be reached"
    noted = {"reference": image, "platforms": ["linux/arm64"], "source": "Assumed", "unread": unread}
    written = {INFERENCE_DEPLOYMENTS: [reduced(INFERENCE_DEPLOYMENTS, {**body, "status": {"imagePlatforms": noted}})]}
    found = Hashing(names_of(written, ["ns"], "salt")).hashed(INFERENCE_DEPLOYMENTS, written[INFERENCE_DEPLOYMENTS][0])
    assert "secret" not in json.dumps(found)
    known = read(found["status"]).status.image_platforms
    assert known is not None
    assert (known.reference, known.platforms) == (found["spec"]["engine"]["image"], ["linux/arm64"])


@pytest.mark.parametrize("is_noted", [True, False])
def test_the_template_of_an_image_with_platforms_of_its_index_does_not_look_changed(*, is_noted: bool) -> None:
    image = "r.example/vllm:1"
    spec = SPEC | {"engine": {"image": image}, "podTemplate": {"env": [{"name": "A", "value": "secret"}]}}
    noted = {"reference": image, "platforms": ["linux/arm64"], "source": "Index"}
    body = inference_deployment_body(spec=spec) | {"status": {"imagePlatforms": noted} if is_noted else {}}
    written = reduced(INFERENCE_DEPLOYMENTS, body)
    pool, choice = chosen_pool()

    def digest(made_from: Any) -> str:
        found = from_index(("arm64",), image) if is_noted else None
        options = to_workload_options(parse_inference_deployment(made_from), platforms=found)
        return inputs_digest(options.draining(pool.drain_seconds), choice)

    inputs = Inputs(body, written, (Settings(), Settings()))
    assert not inputs.are_equal
    assert inputs.translated(digest(body), pool) == digest(written) != digest(body)


def test_names_keep_their_order_and_each_has_one_digest() -> None:
    names = Pseudonyms("salt", ["n2", "n10", "n1"], ["b", "a", ""], [f"d{number}" for number in range(12)])
    assert sorted(["n2", "n10", "n1"]) == sorted(["n2", "n10", "n1"], key=names.node)
    every = [f"d{number}" for number in range(12)]
    assert sorted(every) == sorted(every, key=names.name)
    assert names.namespace("a") < names.namespace("b")
    assert names.namespace("") == ""
    assert names.name("unknown") == names.name("unknown") != names.name("other")
    assert names.node("n1") != Pseudonyms("other", ["n1", "n10", "n2"], [], []).node("n1")


def test_an_object_of_ours_is_still_ours_under_its_new_name() -> None:
    bodies = {DEPLOYMENTS: [workload_body()], PODS: [pod_body("one"), _forged()]}
    written = {kind: [reduced(kind, each) for each in listed] for kind, listed in bodies.items()}
    hashing = Hashing(names_of(written, ["ns"], "salt"))
    workload = hashing.hashed(DEPLOYMENTS, written[DEPLOYMENTS][0])["metadata"]
    ours, forged = (hashing.hashed(PODS, each)["metadata"] for each in written[PODS])
    owner = workload["labels"]["plimsoll.dev/deployment"]
    assert workload["name"] == f"{owner}-h100-sxm-80gb-tp1"
    assert workload["ownerReferences"][0]["name"] == owner
    assert ours["labels"]["plimsoll.dev/deployment"] == owner
    assert ours["ownerReferences"][0]["name"].startswith(f"{workload['name']}-")
    assert not forged["ownerReferences"][0]["name"].startswith(workload["name"])


def _forged() -> dict[str, Any]:
    body = pod_body("two")
    body["metadata"]["ownerReferences"][0]["name"] = "another-7d9"
    return body


CONSIDERED: dict[type[BaseModel], str] = {
    InferenceDeploymentSpec: "model precision kvCache contextLength concurrency totalConcurrency minReplicas "
    "expectedTokens sizing workload replicas slo objective gpu engine podTemplate overrides rebalancing routing "
    "suspend",
    RoutingSpec: "mode replicas gateway",
    ModelSpec: "name revision tokenSecretRef config path parameters source sourceSecretRef cache",
    EngineSpec: "name prefer image imageVendor platforms version extraArgs gpuMemoryUtilizationPercent "
    "maxBatchedTokens maxSequences enforceEager cpuOffload weightStreaming lora textOnly multimodal runner speculation",
    PodTemplateSpec: "labels annotations nodeSelector tolerations env envFrom serviceAccountName imagePullSecrets "
    "priorityClassName runtimeClassName volumes volumeMounts modelCache resources affinity topologySpreadConstraints "
    "initContainers containers startupProbe readinessProbe livenessProbe securityContext schedulerName "
    "terminationGracePeriodSeconds dnsPolicy dnsConfig hostAliases",
    RebalancingSpec: "mode moves scale minReplicas maxReplicas idleSeconds gateway wake changesPerHour "
    "limits reversalsPerHour windowSeconds cooldownSeconds maintenanceWindows schedule",
    RebalancingStatus: "decision reason message hints diagnosis proposal proposalId baseReplicas targetReplicas "
    "changes lastChange learned approved rejected carriedOut replacing room",
    InferenceDeploymentStatus: "conditions observedGeneration replicas readyReplicas replicasSummary selector url "
    "model estimate placement imagePlatforms weights size engine pools rejections rejectionsOmitted remedies "
    "suggestions tooSmall observations rehomings move retune failedMoves proposals decisions rebalancing routing "
    "acknowledged",
}
"""Fields of which somebody has decided whether they may leave the cluster, and whether they hold names."""


@every_case("model", CONSIDERED, ids=lambda model: str(model.__name__))
def test_a_new_field_of_the_api_needs_a_decision_on_whether_a_snapshot_may_hold_it(model: type[BaseModel]) -> None:
    fields = {field.alias or name for name, field in model.model_fields.items()}
    assert fields == set(CONSIDERED[model].split()), "see app/exports/specs.py, reduction.py and hashing.py"


def test_failed_moves_and_additions_leave_the_cluster_without_words_of_pods_and_with_the_digest_of_the_other_spec() -> (
    None
):
    secret = {"podTemplate": {"env": [{"name": "A", "value": "secret"}]}}
    body = inference_deployment_body(spec=SPEC | secret)
    digest = digests_of(body.get("spec")).start
    failed = {"gpuType": "l4-24gb", "reason": "EngineCrashed", "message": "secret", "spec": digest}
    result = {"verdict": "DoesNotServe", "at": "2026-01-01T00:00:00Z", "message": "secret"}
    changes = [{"at": "2026-01-01T00:00:00Z", "kind": "Add", "added": 1, "result": result}]
    words = {"message": "secret", "lastChange": "secret"}
    loop = {"decision": "Wait", "reason": "R", "changes": changes, **words}
    real = {**body, "status": {"failedMoves": [failed], "move": {"pools": ["a"], "spec": digest}, "rebalancing": loop}}
    written = reduced(INFERENCE_DEPLOYMENTS, real)
    found = with_digests(real, written, "salt")
    assert "secret" not in json.dumps(found)
    other = digests_of(found.get("spec")).start
    assert other != digest
    assert found["status"]["rebalancing"]["changes"][0]["result"]["verdict"] == "DoesNotServe"
    [entry] = found["status"]["failedMoves"]
    assert (entry["reason"], entry["spec"], found["status"]["move"]["spec"]) == ("EngineCrashed", other, other)


def test_a_change_of_settings_leaves_the_cluster_without_digests_of_templates() -> None:
    secret = {"podTemplate": {"env": [{"name": "A", "value": "secret"}]}}
    body = inference_deployment_body(spec=SPEC | secret)
    digest = digests_of(body.get("spec")).engine
    before = {"name": "l4-24gb-tp1", "maxSequences": 8}
    retune = {"pools": [before | {"inputs": "0123"}], "replicaSeconds": 900, "spec": digest}
    real = {**body, "status": {"retune": retune}}
    found = with_digests(real, reduced(INFERENCE_DEPLOYMENTS, real), "salt")
    other = digests_of(found.get("spec")).engine
    assert found["status"]["retune"] == {"pools": [before], "replicaSeconds": 900, "spec": other}
    assert other != digest


def test_a_chosen_size_holds_for_the_spec_of_the_snapshot_where_it_held_for_that_of_the_cluster() -> None:
    def digest(body: Any) -> str:
        return digests_of(body.get("spec")).size

    secret = {"podTemplate": {"env": [{"name": "A", "value": "secret"}]}}
    body = inference_deployment_body(spec=SPEC | secret)
    for spec, holds in ((digest(body), True), ("0123456789ab", False)):
        real = {**body, "status": {"size": {"replicas": 2, "concurrency": 4, "spec": spec}}}
        found = with_digests(real, reduced(INFERENCE_DEPLOYMENTS, real), "salt")
        assert (found["status"]["size"]["spec"] == digest(found)) is holds
        assert found["status"]["size"]["spec"] != "0123456789ab"


def test_without_names_a_snapshot_does_not_say_who_approved_or_rejected_anything() -> None:
    refusal = {"proposal": "1" * 12, "by": "alex", "reason": "no budget", "until": "", "generation": 1}
    loop = {"decision": "Keep", "reason": "WithinBand", "message": "for alex", "approved": True, "targetReplicas": 2}
    told = loop | {"rejected": [refusal], "carriedOut": ["uid"], "lastChange": "Approved by alex.", "proposalId": "2"}
    assert without_sentences({"rebalancing": told}) == {"rebalancing": loop | {"message": ""}}


def test_a_snapshot_does_not_quote_the_values_that_engines_refuse() -> None:
    taken = {"name": "vllm", "version": "0.32.0", "reason": "OnlyEngine", "message": "vLLM takes it."}
    refused = {"name": "sglang", "reason": "FieldRefused", "message": "SGLang does not take: '--seed=secret'."}
    body = inference_deployment_body(spec=SPEC) | {"status": {"replicas": 1, "engine": taken | {"others": [refused]}}}
    found = reduced(INFERENCE_DEPLOYMENTS, body)["status"]
    assert found == {"replicas": 1, "engine": taken | {"message": ""}}
