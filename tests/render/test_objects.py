"""What is applied to the cluster, field by field where a field has a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.bounds import usual_release
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.node_rules import DRIVER_LABEL, older_drivers
from plimsoll.domain.cluster.spot import SPOT_LABELS, spot_type
from plimsoll.domain.engines.engine_choice import CpuOffload, EngineChoice, EngineVersion, HostUse
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.domain.requests.workload import PodOptions, SecretKey
from plimsoll.domain.units import GIB
from plimsoll.engines.base import Engine
from plimsoll.engines.registry import ENGINES
from plimsoll.render.inputs import INPUTS_ANNOTATION, inputs_digest
from plimsoll.render.names import HASH_ANNOTATION, POOL_ANNOTATION
from plimsoll.render.objects import deployment, digest, disruption_budget, service
from plimsoll.render.pods import start_budget_seconds
from tests.render.workloads import chosen_pool, container, options, rendered
from tests.support.planning import ENGINE, H100, LLAMA_70B_FP8, MI300X, fleet, node, request
from tests.support.toy_engine import ABACUS

OWNED_BY_THE_DEPLOYMENT = {
    "apiVersion": "plimsoll.dev/v1alpha1",
    "kind": "InferenceDeployment",
    "name": "llama",
    "uid": "0-1-2",
    "controller": True,
    "blockOwnerDeletion": True,
}

LINUX = {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}
"""Every pod stays off Windows nodes."""

DRIVER = {"key": DRIVER_LABEL, "operator": "NotIn", "values": list(older_drivers(580).values)}
"""The release's image needs a newer driver."""


def pod_spec(**pod: Any) -> dict[str, Any]:
    spec: dict[str, Any] = rendered(options(pod=PodOptions(**pod)))["spec"]["template"]["spec"]
    return spec


def flags(arguments: list[str]) -> dict[str, str]:
    """Flags with their values; the model's name first."""
    words = iter(arguments[1:])
    return {word: "" if word == "--enforce-eager" else next(words) for word in words}


class TestArguments:
    def test_every_flag_whose_default_moves_is_given(self) -> None:
        arguments = container(rendered())["args"]
        assert arguments[0] == "meta-llama/Llama-3.1-8B-Instruct"
        assert flags(arguments) == {
            "--served-model-name": "llama",
            "--max-model-len": "4096",
            "--max-num-seqs": "96",  # eight are declared, the cache holds more
            "--max-num-batched-tokens": "8192",
            "--gpu-memory-utilization": "0.92",
            "--tensor-parallel-size": "1",
            "--dtype": "bfloat16",
            "--kv-cache-dtype": "auto",
            "--port": "8000",
            "--shutdown-timeout": "90",
        }

    def test_online_quantization_an_fp8_cache_and_eager_mode_have_flags_of_their_own(self) -> None:
        wanted = request(
            precision=Precision.FP8,
            kv_precision=KvPrecision.FP8,
            engine=EngineChoice(EngineVersion(0, 32), 9 * 10, enforce_eager=True),
        )
        seen = flags(container(rendered(wanted=wanted))["args"])
        assert (seen["--quantization"], seen["--kv-cache-dtype"], "--enforce-eager" in seen) == ("fp8", "fp8", True)
        assert seen["--gpu-memory-utilization"] == "0.90"

    def test_a_revision_is_pinned_and_the_users_flags_come_last(self) -> None:
        arguments = container(rendered(options(revision="abc", extra_args=("--seed", "1"))))["args"]
        assert arguments[arguments.index("--revision") + 1] == "abc"
        assert arguments[-2:] == ["--seed", "1"]

    @pytest.mark.parametrize(("version", "known"), [("0.17.9", False), ("0.18.0", True), ("1.0.0", True)])
    def test_draining_is_asked_of_engines_that_can(self, version: str, known: bool) -> None:  # noqa: FBT001 - a column
        assert ("--shutdown-timeout" in container(rendered(options(engine_version=version)))["args"]) is known


class TestPod:
    def test_gpus_are_limited_and_requested_alike(self) -> None:
        seen = container(rendered(wanted=request(LLAMA_70B_FP8)))["resources"]
        assert seen["limits"] == {"nvidia.com/gpu": "2"}
        assert seen["requests"] == {"cpu": "3", "memory": "11Gi", "nvidia.com/gpu": "2"}

    def test_weights_in_host_memory_are_requested_by_all_ranks(self) -> None:
        engine = replace(ENGINE, residency=CpuOffload(20 * GIB))
        wanted = request(LLAMA_70B_FP8, engine=engine, overrides=Overrides(gpu_type=H100, tensor_parallel=2))
        seen = container(rendered(wanted=wanted))["resources"]["requests"]
        assert int(seen["memory"].removesuffix("Gi")) > 2 * 20 + 11

    def test_shared_memory_holds_the_cache_that_extra_arguments_put_there(self) -> None:
        engine = replace(ENGINE, host=HostUse(kv_bytes=30 * GIB + 1))
        seen = rendered(wanted=request(engine=engine))
        volumes = seen["spec"]["template"]["spec"]["volumes"]
        shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{32 * 1024 + 1}Mi"}}
        assert shm in volumes, "two GiB for the ranks, and the cache in whole MiB"
        assert container(seen)["resources"]["requests"]["memory"] == "39Gi", "it is memory of the pod"

    def test_a_limit_below_the_need_is_requested_as_it_is_written(self) -> None:
        user = {"limits": {"cpu": "1500m", "memory": "7G"}}
        seen = container(rendered(options(pod=PodOptions(resources=user))))["resources"]["requests"]
        assert (seen["cpu"], seen["memory"]) == ("1500m", "7G")
        user = {"limits": {"cpu": "64", "memory": "64Gi"}}
        seen = container(rendered(options(pod=PodOptions(resources=user))))["resources"]["requests"]
        assert (seen["cpu"], seen["memory"]) == ("2", "8Gi")

    def test_the_users_cpu_and_memory_are_taken_and_the_gpus_stay_the_operators(self) -> None:
        user = {
            "requests": {"memory": "64Gi", "nvidia.com/gpu": "9"},
            "limits": {"memory": "80Gi", "nvidia.com/gpu": "9"},
        }
        seen = container(rendered(options(pod=PodOptions(resources=user))))["resources"]
        assert seen == {
            "requests": {"cpu": "2", "memory": "64Gi", "nvidia.com/gpu": "1"},
            "limits": {"memory": "80Gi", "nvidia.com/gpu": "1"},
        }

    def test_an_amd_node_gets_its_own_image_and_resource(self) -> None:
        seen = rendered(where=fleet(node("m", MI300X)))
        assert container(seen)["image"] == "vllm/vllm-openai-rocm:v0.32.0"
        assert container(seen)["resources"]["limits"] == {"amd.com/gpu": "1"}
        assert seen["spec"]["template"]["spec"]["tolerations"] == [{"key": "amd.com/gpu", "operator": "Exists"}]

    def test_a_slice_is_asked_for_by_its_resource_on_nodes_tainted_by_the_cards(self) -> None:
        resource = "nvidia.com/mig-3g.40gb"
        label = (f"{resource}.product", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb")
        half = replace(node("m", "h100-sxm-80gb-mig-3g.40gb"), resource=resource, selector=label)
        seen = rendered(where=fleet(half))
        assert container(seen)["resources"]["limits"] == {resource: "1"}
        spec = seen["spec"]["template"]["spec"]
        assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term["matchExpressions"] == [{"key": label[0], "operator": "In", "values": [label[1]]}, LINUX, DRIVER]

    def test_the_image_is_the_releases_or_the_users(self) -> None:
        assert container(rendered())["image"] == "vllm/vllm-openai:v0.32.0"
        assert container(rendered(options(image="house/vllm:1")))["image"] == "house/vllm:1"

    def test_a_slow_start_is_not_killed_half_way(self) -> None:
        _, choice = chosen_pool()
        budget = start_budget_seconds(options(), choice)
        assert budget == 900 + 12 * 15  # 14.99 GiB of weights
        seen = container(rendered())
        assert seen["startupProbe"]["periodSeconds"] * seen["startupProbe"]["failureThreshold"] >= budget
        assert {"name": "VLLM_ENGINE_READY_TIMEOUT_S", "value": str(budget)} in seen["env"]
        assert rendered()["spec"]["progressDeadlineSeconds"] > budget

    def test_every_probe_asks_for_health(self) -> None:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container(rendered())[probe]["httpGet"] == {"path": "/health", "port": "http", "scheme": "HTTP"}

    def test_the_grace_period_outlasts_pre_stop_and_drain(self) -> None:
        seen = container(rendered())
        wait = int(seen["lifecycle"]["preStop"]["exec"]["command"][1])
        drain = int(flags(seen["args"])["--shutdown-timeout"])
        assert pod_spec()["terminationGracePeriodSeconds"] > wait + drain

    @pytest.mark.parametrize(("decided", "drain"), [(None, 90), (90, 90), (300, 300), (570, 570)])
    def test_running_requests_may_finish_for_as_long_as_was_decided(self, decided: int | None, drain: int) -> None:
        pool, choice = chosen_pool()
        seen = deployment(options(), replace(pool, drain_seconds=decided), choice)
        assert flags(container(seen)["args"])["--shutdown-timeout"] == str(drain)
        assert seen["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 15 + drain + 15

    def test_a_pool_of_an_earlier_release_is_rendered_as_by_that_release(self) -> None:
        """Neither the template nor the digest of its inputs knows of the seconds, so an upgrade restarts nothing."""
        pool, choice = chosen_pool()
        old, new = (deployment(options(), replace(pool, drain_seconds=each), choice) for each in (None, 300))
        inputs = [each["metadata"]["annotations"][INPUTS_ANNOTATION] for each in (old, new)]
        assert inputs[0] == inputs_digest(options(), choice) != inputs[1]
        assert "drain" not in json.loads(old["metadata"]["annotations"][POOL_ANNOTATION])

    @pytest.mark.parametrize(("name", "gigabytes"), [("meta-llama/Llama-3.1-8B-Instruct", 2), (LLAMA_70B_FP8, 2)])
    def test_shared_memory_is_memory_and_bounded(self, name: str, gigabytes: int) -> None:
        seen = rendered(wanted=request(name))["spec"]["template"]["spec"]
        assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{gigabytes}Gi"}} in seen["volumes"]
        assert {"name": "shm", "mountPath": "/dev/shm"} in container(rendered())["volumeMounts"]  # noqa: S108

    def test_shared_memory_grows_with_the_ranks(self) -> None:
        seen = rendered(wanted=request(LLAMA_70B_FP8, context=131_072, concurrency=8))["spec"]["template"]["spec"]
        assert seen["volumes"][1]["emptyDir"]["sizeLimit"] == "8Gi"

    def test_the_token_comes_from_its_secret_and_stands_nowhere(self) -> None:
        env = container(rendered(options(token=SecretKey("hf", "key"))))["env"]
        assert {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "key"}}} in env
        assert all(entry["name"] != "HF_TOKEN" for entry in container(rendered())["env"])

    def test_no_service_links_for_they_would_set_vllm_port(self) -> None:
        assert pod_spec()["enableServiceLinks"] is False

    def test_the_pod_runs_with_few_rights(self) -> None:
        seen = pod_spec()
        assert seen["automountServiceAccountToken"] is False
        assert seen["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 2000,
            "runAsGroup": 0,
            "fsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container(rendered())["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }

    def test_whatever_the_engine_writes_to_is_a_volume(self) -> None:
        engine = container(rendered())
        mounts = {mount["mountPath"]: mount["name"] for mount in engine["volumeMounts"]}
        assert mounts == {"/cache": "cache", "/dev/shm": "shm", "/tmp": "tmp"}  # noqa: S108 - paths of the container
        assert {volume["name"] for volume in pod_spec()["volumes"]} == set(mounts.values())
        paths = [entry["value"] for entry in engine["env"] if entry.get("value", "").startswith("/")]
        assert len(paths) >= 10
        assert [path for path in paths if not any(f"{path}/".startswith(f"{mount}/") for mount in mounts)] == []

    def test_a_users_volume_for_temporary_files_takes_the_place_of_ours(self) -> None:
        pod = PodOptions(
            volumes=({"name": "scratch", "emptyDir": {"sizeLimit": "9Gi"}},),
            volume_mounts=({"name": "scratch", "mountPath": "/tmp/"},),  # noqa: S108 - a path of the container
        )
        mounted = [mount["name"] for mount in container(rendered(options(pod=pod)))["volumeMounts"]]
        assert mounted == ["cache", "shm", "scratch"]
        names = [volume["name"] for volume in rendered(options(pod=pod))["spec"]["template"]["spec"]["volumes"]]
        assert names == ["cache", "shm", "scratch"]

    def test_the_last_words_of_a_crash_are_kept(self) -> None:
        assert container(rendered())["terminationMessagePolicy"] == "FallbackToLogsOnError"

    def test_only_nodes_of_the_chosen_type_and_of_the_users_selector_take_the_pod(self) -> None:
        seen = pod_spec(node_selector={"zone": "a"})
        (term,) = seen["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term["matchExpressions"] == [
            {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]},
            LINUX,
            DRIVER,
        ]
        assert seen["nodeSelector"] == {"zone": "a"}
        assert "nodeSelector" not in pod_spec()

    def test_a_node_with_any_of_the_types_labels_takes_the_pod(self) -> None:
        product, cloud = "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"
        labels = ((product, "H100-SXM5"), (product, "H100-SXM5"), (cloud, "nvidia-h100-80gb"), (product, "A-H100"))
        where = fleet(*(replace(node(f"n{i}", H100), selector=label) for i, label in enumerate(labels)))
        seen = rendered(where=where)
        affinity = seen["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
            {
                "matchExpressions": [
                    {"key": product, "operator": "In", "values": ["A-H100", "H100-SXM5"]},
                    LINUX,
                    DRIVER,
                ]
            },
            {"matchExpressions": [{"key": cloud, "operator": "In", "values": ["nvidia-h100-80gb"]}, LINUX, DRIVER]},
        ]
        record = json.loads(seen["metadata"]["annotations"][POOL_ANNOTATION])
        assert record["nodeSelector"] == {product: "H100-SXM5"}, "an earlier release reads one label"
        assert record["nodeLabels"] == [f"{product}=H100-SXM5", f"{cloud}=nvidia-h100-80gb", f"{product}=A-H100"]

    def test_every_term_keeps_the_pod_off_architectures_that_its_image_does_not_have(self) -> None:
        where = fleet(*(replace(node(f"n{i}", H100), selector=(f"label-{i}", "x")) for i in range(2)))
        for offered, others in (
            (("amd64",), ["arm64", "ppc64le", "s390x"]),
            (("amd64", "arm64"), ["ppc64le", "s390x"]),
        ):
            seen = rendered(options(architectures=offered), where=where)["spec"]["template"]["spec"]["affinity"]
            terms = seen["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            platform = {"key": "kubernetes.io/arch", "operator": "NotIn", "values": others}
            assert [term["matchExpressions"][1:] for term in terms] == [[LINUX, platform, DRIVER]] * 2

    def test_a_pod_that_is_restricted_to_a_capacity_type_finds_it_by_every_clouds_label(self) -> None:
        h100 = node("stays", H100)
        spot = replace(node("spot", H100), gpu=spot_type(h100.gpu))
        product = {"key": h100.selector[0], "operator": "In", "values": [h100.selector[1]]}
        found = {}
        for capacity in CapacityType:
            wanted = request(constraints=GpuConstraints(capacities=(capacity,)))
            seen = rendered(where=fleet(h100, spot), wanted=wanted)
            affinity = seen["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            found[capacity] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            record = json.loads(seen["metadata"]["annotations"][POOL_ANNOTATION])
            assert record["capacityType"] == {"on-demand": "OnDemand", "spot": "Spot"}[capacity]
        (stays,) = found[CapacityType.ON_DEMAND]
        assert stays["matchExpressions"][0] == product
        assert stays["matchExpressions"][-2:] == [LINUX, DRIVER]
        assert {(each["key"], each["operator"]) for each in stays["matchExpressions"][1:-2]} == {
            (key, "NotIn") for key in SPOT_LABELS
        }
        assert {
            "key": "eks.amazonaws.com/capacityType",
            "operator": "NotIn",
            "values": ["SPOT", "Spot", "spot"],
        } in stays["matchExpressions"]
        terms = [each["matchExpressions"] for each in found[CapacityType.SPOT]]
        assert [each[0] for each in terms] == [product] * len(SPOT_LABELS)
        assert [(each[1]["key"], each[1]["operator"], len(each)) for each in terms] == [
            (k, "In", 4) for k in SPOT_LABELS
        ]

    def test_a_pod_prefers_nodes_that_engines_of_any_namespace_use_and_never_insists(self) -> None:
        template = rendered()["spec"]["template"]
        affinity = template["spec"]["affinity"]
        (wish,) = affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        term = wish["podAffinityTerm"]
        assert wish["weight"] == 100
        assert (term["topologyKey"], term["namespaceSelector"]) == ("kubernetes.io/hostname", {})
        (engines,) = term["labelSelector"]["matchExpressions"]
        assert engines["operator"] == "Exists"
        assert engines["key"] in template["metadata"]["labels"], "engines find each other"
        assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity["podAffinity"]

    def test_the_template_of_an_engine_does_not_depend_on_the_largest_node(self) -> None:
        small, large = (rendered(where=fleet(node("h", H100, gpus))) for gpus in (1, 8))
        assert small["spec"]["template"] == large["spec"]["template"]


class TestUsersWishes:
    def test_environment_volumes_and_the_rest_pass_through_unread(self) -> None:
        env, volume, mount = (
            {"name": "A", "value": "1"},
            {"name": "v", "emptyDir": {}},
            {"name": "v", "mountPath": "/v"},
        )
        pod = PodOptions(
            env=(env,),
            volumes=(volume,),
            volume_mounts=(mount,),
            tolerations=({"key": "team", "operator": "Exists"},),
            image_pull_secrets=({"name": "pull"},),
            service_account_name="sa",
            priority_class_name="high",
            runtime_class_name="nvidia",
            annotations={"a": "b"},
        )
        seen = rendered(options(pod=pod))["spec"]["template"]
        assert env in container(rendered(options(pod=pod)))["env"]
        assert mount in container(rendered(options(pod=pod)))["volumeMounts"]
        assert volume in seen["spec"]["volumes"]
        assert {"key": "team", "operator": "Exists"} in seen["spec"]["tolerations"]
        assert seen["spec"]["imagePullSecrets"] == [{"name": "pull"}]
        assert (seen["spec"]["serviceAccountName"], seen["spec"]["priorityClassName"]) == ("sa", "high")
        assert seen["spec"]["runtimeClassName"] == "nvidia"
        assert seen["metadata"]["annotations"] == {"a": "b"}

    def test_annotations_for_a_prometheus_are_there_only_when_asked_for_and_the_users_win(self) -> None:
        assert "annotations" not in rendered(options())["spec"]["template"]["metadata"]
        pod = PodOptions(annotations={"prometheus.io/path": "/own", "a": "b"})
        wanted = replace(options(pod=pod), scrape_annotations=True)
        assert rendered(wanted)["spec"]["template"]["metadata"]["annotations"] == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "8000",
            "prometheus.io/path": "/own",
            "a": "b",
        }

    @pytest.mark.parametrize(
        ("kind", "fast"), [("mi300x-192gb", True), ("mi355x-288gb", True), ("r9700-32gb", False), (H100, False)]
    )
    def test_amds_own_kernels_are_on_where_it_recommends_them_unless_the_user_says_otherwise(
        self, kind: str, *, fast: bool
    ) -> None:
        name, where = "VLLM_ROCM_USE_AITER", fleet(node("n", kind))
        on = [each for each in container(rendered(where=where))["env"] if each["name"] == name]
        assert on == ([{"name": name, "value": "1"}] if fast else [])
        off = PodOptions(env=({"name": name, "value": "0"},))
        env = container(rendered(options(pod=off), where=where))["env"]
        assert [each["value"] for each in env if each["name"] == name] == ["0"]

    def test_a_users_variable_replaces_the_operators_and_stands_once(self) -> None:
        pod = PodOptions(env=({"name": "HF_HOME", "value": "/elsewhere"},))
        env = container(rendered(options(pod=pod)))["env"]
        assert [entry for entry in env if entry["name"] == "HF_HOME"] == [{"name": "HF_HOME", "value": "/elsewhere"}]

    def test_the_operators_labels_win(self) -> None:
        pod = PodOptions(labels={"team": "a", "plimsoll.dev/deployment": "stolen"})
        labels = rendered(options(pod=pod))["spec"]["template"]["metadata"]["labels"]
        assert labels == {
            "team": "a",
            "app.kubernetes.io/managed-by": "plimsoll",
            "plimsoll.dev/deployment": "llama",
            "plimsoll.dev/pool": "h100-sxm-80gb-tp1",
        }

    @pytest.mark.parametrize(
        ("pod", "volume"),
        [
            (PodOptions(), {"name": "cache", "emptyDir": {}}),
            (PodOptions(cache_size_limit="200Gi"), {"name": "cache", "emptyDir": {"sizeLimit": "200Gi"}}),
            (PodOptions(cache_claim="c"), {"name": "cache", "persistentVolumeClaim": {"claimName": "c"}}),
        ],
    )
    def test_the_cache_is_a_directory_or_a_claim(self, pod: PodOptions, volume: dict[str, Any]) -> None:
        assert volume in rendered(options(pod=pod))["spec"]["template"]["spec"]["volumes"]


def test_service_and_budget_select_every_pool() -> None:
    address, budget = service(options()), disruption_budget(options())
    assert address["spec"] == {
        "selector": {"plimsoll.dev/deployment": "llama"},
        "ports": [{"name": "http", "port": 8000, "targetPort": "http", "protocol": "TCP"}],
    }
    assert budget["spec"] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": {"plimsoll.dev/deployment": "llama"}},
    }
    for each in (address, budget, rendered()):
        assert each["metadata"]["ownerReferences"] == [OWNED_BY_THE_DEPLOYMENT]
        assert each["metadata"]["namespace"] == "ml"


def test_an_update_starts_first_where_there_is_room_and_stops_first_where_there_is_none() -> None:
    pool, choice = chosen_pool()
    seen = [
        deployment(options(), replace(pool, surge=surge), choice)["spec"]["strategy"]["rollingUpdate"]
        for surge in (True, False)
    ]
    assert seen == [{"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}]


def test_the_pool_is_on_record_beside_what_runs() -> None:
    record = json.loads(rendered()["metadata"]["annotations"][POOL_ANNOTATION])
    assert record == {
        "gpuType": "h100-sxm-80gb",
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "resource": "nvidia.com/gpu",
        "tensorParallel": 1,
        "drain": 90,
    }


def test_an_engine_that_is_not_the_usual_one_is_on_record_too() -> None:
    pool, choice = chosen_pool()
    body = deployment(options(), replace(pool, engine="sglang"), choice)
    assert json.loads(body["metadata"]["annotations"][POOL_ANNOTATION])["engine"] == "sglang"


@pytest.mark.parametrize("engine", [*ENGINES.values(), ABACUS], ids=lambda engine: engine.name)
def test_each_engine_is_started_by_the_command_by_which_its_pods_are_known(engine: Engine) -> None:
    _, choice = chosen_pool()
    release = str(usual_release(engine)) if engine.name in ENGINES else "2.1"
    assert engine.launch(options(engine_version=release), choice).command == engine.command


class TestDigest:
    def test_rendering_twice_is_equal_to_the_byte(self) -> None:
        assert json.dumps(rendered()) == json.dumps(rendered())

    def test_the_order_of_the_users_keys_changes_no_digest(self) -> None:
        one, other = (
            rendered(options(pod=PodOptions(labels=labels, node_selector=labels)))
            for labels in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
        )
        assert digest(one) == digest(other) == one["metadata"]["annotations"][HASH_ANNOTATION]

    def test_any_change_changes_it(self) -> None:
        changed = [rendered(options(extra_args=("--seed=1",))), rendered(wanted=request(replicas=2)), rendered()]
        assert len({digest(each) for each in changed}) == 3

    def test_it_does_not_digest_itself(self) -> None:
        manifest = rendered()
        del manifest["metadata"]["annotations"][HASH_ANNOTATION]
        assert digest(manifest) == digest(rendered())
