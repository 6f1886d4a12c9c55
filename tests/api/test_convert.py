"""From what a user writes to what the planner reads; and every refusal with field, value and fix."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.cluster.fleet import Toleration
from plimsoll.domain.cluster.gpus import CapacityType, Vendor
from plimsoll.domain.cluster.host import (
    DEFAULT_CPU,
    DEFAULT_CPU_MILLIS,
    DEFAULT_MEMORY,
    DEFAULT_MEMORY_BYTES,
    USUAL_HOST,
    HostNeed,
)
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import ClusterDefaults, GpuConstraints, Overrides, ServingShape
from plimsoll.domain.requests.workload import SecretKey
from plimsoll.domain.units import GIB, parse_bytes, parse_quantity
from tests.api.manifests import deployment, manifest
from tests.support.planning import LLAMA_70B_FP8, model
from tests.support.tables import every_case

AWQ = "Qwen/Qwen2.5-7B-Instruct-AWQ"


def facts_with(**checkpoint: Any) -> ModelFacts:
    facts = model()
    return replace(facts, checkpoint=replace(facts.checkpoint, **checkpoint))


FOR_A_MINUTE = {"key": "full", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
"""A toleration that ends: no engine is placed for a minute."""


def test_a_minimal_object_gets_every_default() -> None:
    wanted = to_request(deployment(), model())
    assert wanted.key == ObjectKey("ml", "llama")
    assert wanted.shape == ServingShape(8192, 16)
    assert (wanted.precision, wanted.kv_precision, wanted.replicas) == (Precision.BF16, KvPrecision.BF16, 1)
    assert wanted.engine == EngineChoice(EngineVersion(0, 32), gpu_memory_utilization_percent=92)
    assert wanted.constraints == GpuConstraints()
    assert wanted.overrides == Overrides()
    assert wanted.created == "2026-01-01T00:00:00Z"


def test_everything_that_can_be_said_arrives() -> None:
    toleration = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    wanted = to_request(
        deployment(
            precision="fp8",
            kvCache={"precision": "fp8"},
            expectedTokens={"prompt": 1000, "output": 200},
            replicas=3,
            gpu={
                "allow": ["l40s-48gb"],
                "deny": ["t4-16gb"],
                "maxPerReplica": 2,
                "maxHourlyPrice": "12.50",
                "capacityTypes": ["Spot"],
            },
            engine={
                "version": "0.21",
                "gpuMemoryUtilizationPercent": 85,
                "maxBatchedTokens": 4096,
                "enforceEager": True,
            },
            podTemplate={
                "nodeSelector": {"zone": "a", "disk": "ssd"},
                "tolerations": [toleration, {"operator": "Exists"}, FOR_A_MINUTE],
            },
            overrides={"gpuType": "l40s-48gb", "tensorParallel": 2, "memoryPerGpu": "40Gi"},
            slo={"ttftMilliseconds": 1500, "tpotMilliseconds": 40},
        ),
        model(),
    )
    assert (wanted.precision, wanted.kv_precision, wanted.replicas) == (Precision.FP8, KvPrecision.FP8, 3)
    assert wanted.shape == ServingShape(8192, 16, 1000, 200)
    assert wanted.engine == EngineChoice(EngineVersion(0, 21), 85, 4096, enforce_eager=True)
    assert wanted.constraints == GpuConstraints(("l40s-48gb",), ("t4-16gb",), 2, Decimal("12.50"), (CapacityType.SPOT,))
    assert wanted.overrides == Overrides("l40s-48gb", 2, 40 * GIB)
    assert wanted.slo == Slo(ttft_seconds=1.5, tpot_seconds=0.04)
    assert wanted.node_selector == (("disk", "ssd"), ("zone", "a"))
    assert wanted.tolerations == (Toleration("team", "Equal", "a", "NoSchedule"), Toleration("", "Exists", "", ""))


def test_what_the_spec_leaves_open_is_the_clusters_choice() -> None:
    chosen = ClusterDefaults(Objective.INTERACTIVE, (Vendor.NVIDIA,))
    plain, free = to_request(deployment(), model()), to_request(deployment(), model(), defaults=chosen)
    assert (plain.objective, plain.constraints.vendors) == (Objective.BALANCED, ())
    assert (free.objective, free.constraints.vendors) == (Objective.INTERACTIVE, (Vendor.NVIDIA,))
    own = deployment(objective="Batch", gpu={"vendors": ["AMD", "NVIDIA"]})
    said = to_request(own, model(), defaults=chosen)
    assert (said.objective, said.constraints.vendors) == (Objective.BATCH, (Vendor.AMD, Vendor.NVIDIA))
    other = to_request(deployment(gpu={"maxPerReplica": 1}), model(), defaults=chosen)
    assert other.constraints.vendors == (Vendor.NVIDIA,)


@pytest.mark.parametrize(
    ("wishes", "least"),
    [
        ({}, 0),
        ({"gpu": {"capacityTypes": ["Spot"]}}, 0),
        ({"gpu": {"capacityTypes": ["OnDemand"]}}, 0),
        ({"gpu": {"capacityTypes": ["OnDemand", "Spot"]}}, 1),
        ({"gpu": {"capacityTypes": ["Spot", "OnDemand"]}, "rebalancing": {"minReplicas": 3}}, 3),
        ({"gpu": {"capacityTypes": ["Spot", "OnDemand"]}, "objective": "Batch"}, 0),
    ],
)
def test_who_permits_both_capacity_types_keeps_some_replicas_off_spot_nodes(wishes: dict[str, Any], least: int) -> None:
    assert to_request(deployment(**wishes), model()).least_on_demand == least


def test_the_live_loops_number_outweighs_the_specs() -> None:
    assert to_request(deployment(replicas=2), model(), replicas=5).replicas == 5
    assert to_request(deployment(replicas=2), model(), replicas=0).replicas == 0


@every_case(
    ("facts", "asked", "resolved"),
    [
        (model(), "auto", Precision.BF16),
        (model(AWQ), "auto", Precision.AWQ),
        (model(LLAMA_70B_FP8), "auto", Precision.FP8),
        (facts_with(precision=Precision.FP32, dtype=Precision.FP32), "auto", Precision.BF16),
        (model(), "fp16", Precision.FP16),
        (model(), "fp8", Precision.FP8),
        (model(AWQ), "awq", Precision.AWQ),
    ],
)
def test_precision_is_what_the_checkpoint_says_or_can_be_cast_to(
    facts: ModelFacts, asked: str, resolved: Precision
) -> None:
    assert to_request(deployment(precision=asked), facts).precision is resolved


@pytest.mark.parametrize(
    ("facts", "precision", "asked", "resolved"),
    [
        (model(), "auto", "auto", KvPrecision.BF16),
        (model(), "fp16", "auto", KvPrecision.FP16),
        (model(AWQ), "auto", "auto", KvPrecision.FP16),
        (facts_with(kv_precision=KvPrecision.FP8), "auto", "auto", KvPrecision.FP8),
        (facts_with(kv_precision=KvPrecision.FP8), "auto", "bf16", KvPrecision.BF16),
    ],
)
def test_the_caches_precision_follows_the_checkpoint_or_the_user(
    facts: ModelFacts, precision: str, asked: str, resolved: KvPrecision
) -> None:
    wanted = to_request(deployment(precision=precision, kvCache={"precision": asked}), facts)
    assert wanted.kv_precision is resolved


REFUSED: list[tuple[dict[str, Any], ModelFacts, str, Any, str]] = [
    ({"precision": "awq"}, model(), "spec.precision", "awq", "write auto or bf16"),
    ({"precision": "bf16"}, model(AWQ), "spec.precision", "bf16", "write auto or awq"),
    ({"precision": "fp8"}, model(AWQ), "spec.precision", "fp8", "a checkpoint published as fp8"),
    (
        {"expectedTokens": {"prompt": 8000, "output": 193}},
        model(),
        "spec.expectedTokens",
        8193,
        "must not exceed contextLength 8192",
    ),
    ({"engine": {"version": "0.7.3"}}, model(), "spec.engine.version", "0.7.3", "Use 0.8.0 or newer"),
    (
        {"engine": {"extraArgs": ["--seed=1", "--max-model-len=1"]}},
        model(),
        "spec.engine.extraArgs[1]",
        "--max-model-len=1",
        "use spec.contextLength",
    ),
    (
        {"podTemplate": {"env": [{"name": "VLLM_PORT"}]}},
        model(),
        "spec.podTemplate.env[0].name",
        "VLLM_PORT",
        "remove it",
    ),
]


@every_case(("spec", "facts", "field", "value", "fix"), REFUSED, ids=[each[2] for each in REFUSED])
def test_a_contradiction_names_its_field_its_value_and_the_way_out(
    spec: dict[str, Any], facts: ModelFacts, field: str, value: Any, fix: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        to_request(deployment(**spec), facts)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert fix in caught.value.fix
    assert str(caught.value).startswith(f"{field}: {value!r} cannot be used. ")


@every_case(
    ("change", "field"),
    [
        ({"contextLength": 0}, "spec.contextLength"),
        ({"concurrency": "many"}, "spec.concurrency"),
        ({"precision": "float8"}, "spec.precision"),
        ({"modell": {}}, "spec.modell"),
        ({"gpu": {"maxHourlyPrice": "5 dollars"}}, "spec.gpu.maxHourlyPrice"),
        ({"overrides": {"memoryPerGpu": "70 GB"}}, "spec.overrides.memoryPerGpu"),
        ({"engine": {"version": "latest"}}, "spec.engine.version"),
        ({"podTemplate": {"tolerations": [{"operator": "Like"}]}}, "spec.podTemplate.tolerations[0].operator"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        deployment(**change)
    assert caught.value.field == field
    assert caught.value.fix


@pytest.mark.parametrize("wrong", [{"kind": "Deployment"}, {"apiVersion": "plimsoll.dev/v1"}, {"kind": None}])
def test_another_kind_of_object_is_refused_with_what_to_write(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"Write apiVersion: plimsoll\.dev/v1alpha1 and kind: InferenceDeployment"):
        parse_inference_deployment(manifest() | wrong)


class TestWorkloadOptions:
    def test_defaults(self) -> None:
        options = to_workload_options(deployment())
        assert (options.key, options.uid) == (ObjectKey("ml", "llama"), "0-1-2")
        assert (options.model_source, options.revision, options.engine_version) == (
            "meta-llama/Llama-3.1-8B-Instruct",
            None,
            "0.32.0",
        )
        assert (options.image, options.extra_args, options.token) == (None, (), None)

    def test_a_path_is_what_the_engine_loads_and_has_no_revision(self) -> None:
        named = {"name": "house/x", "path": "/models/x", "revision": "abc"}
        options = to_workload_options(deployment(model=named))
        assert (options.model_source, options.revision) == ("/models/x", None)

    def test_what_the_user_gives_the_pods_is_passed_on(self) -> None:
        options = to_workload_options(
            deployment(
                model={"name": "a/b", "revision": "main", "tokenSecretRef": {"name": "hf"}},
                engine={"image": "registry/vllm:1", "extraArgs": ["--seed=1"], "version": "0.30"},
                podTemplate={
                    "env": [{"name": "A", "value": "1"}],
                    "modelCache": {"claimName": "cache"},
                    "tolerations": [{"key": "team", "tolerationSeconds": 5}],
                },
            )
        )
        assert options.token == SecretKey("hf", "token")
        assert (options.revision, options.image, options.engine_version) == ("main", "registry/vllm:1", "0.30.0")
        assert options.pod.env == ({"name": "A", "value": "1"},)
        assert options.pod.cache_claim == "cache"
        assert options.pod.tolerations == ({"key": "team", "tolerationSeconds": 5},)


def resources(**requests: Any) -> dict[str, Any]:
    return {"podTemplate": {"resources": {"requests": requests}}}


@every_case(
    ("spec", "cpu_millis", "memory_bytes"),
    [
        ({}, 2000, 8 * GIB),
        ({"podTemplate": {"resources": {"limits": {"cpu": "9"}}}}, 2000, 8 * GIB),
        ({"podTemplate": {"resources": {"limits": {"cpu": "1", "memory": "6Gi"}}}}, 1000, 6 * GIB),
        (resources(cpu="500m"), 500, 8 * GIB),
        (resources(cpu="0.0001", memory="64Gi"), 1, 64 * GIB),
        (resources(cpu=4), 4000, 8 * GIB),
    ],
)
def test_what_the_pods_ask_of_their_nodes_is_what_will_be_rendered(
    spec: dict[str, Any], cpu_millis: int, memory_bytes: int
) -> None:
    wanted = to_request(deployment(**spec), model())
    assert wanted.host_need(USUAL_HOST) == HostNeed(cpu_millis, memory_bytes)


def test_further_resources_are_asked_of_nodes_as_the_api_server_fills_them_in() -> None:
    given = {
        "requests": {"cpu": "2", "ephemeral-storage": "1.5", "hugepages-2Mi": "4Gi", "nvidia.com/mig-1g.10gb": "1"},
        "limits": {"hugepages-2Mi": "4Gi", "rdma/ib": 1, "ephemeral-storage": "9", "example.com/none": "0"},
    }
    wanted = to_request(deployment(podTemplate={"resources": given}), model())
    others = (("ephemeral-storage", 2), ("hugepages-2Mi", 4 * GIB), ("rdma/ib", 1))
    assert wanted.host_need(USUAL_HOST).others == others
    assert to_request(deployment(), model()).host_need(USUAL_HOST).others == ()


def test_the_usual_requests_are_written_the_same_way_twice() -> None:
    assert parse_quantity(DEFAULT_CPU) * 1000 == DEFAULT_CPU_MILLIS
    assert parse_bytes(DEFAULT_MEMORY) == DEFAULT_MEMORY_BYTES


@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_request_that_is_no_quantity_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"spec\.podTemplate\.resources\.requests\.{name}: 'lots'"):
        to_request(deployment(**resources(**{name: "lots"})), model())


def test_the_most_requests_at_the_same_time_are_the_users() -> None:
    assert to_request(deployment(engine={"maxSequences": 16}), model()).engine.max_sequences == 16


def test_a_permitted_fp8_cache_is_a_choice_only_where_the_cache_has_16_bits() -> None:
    permitted: dict[str, Any] = {"kvCache": {"allowFp8": True}}
    assert to_request(deployment(**permitted), model()).may_narrow_cache
    assert not to_request(deployment(), model()).may_narrow_cache
    assert not to_request(deployment(**permitted), facts_with(kv_precision=KvPrecision.FP8)).may_narrow_cache


def test_a_permission_beside_a_fixed_precision_is_refused_by_field() -> None:
    both = deployment(kvCache={"precision": "bf16", "allowFp8": True})
    with pytest.raises(InvalidInput, match=r"spec\.kvCache\.allowFp8.*set spec\.kvCache\.precision to auto"):
        to_request(both, model())
    not_permitted = to_request(deployment(kvCache={"precision": "bf16", "allowFp8": False}), model())
    assert not_permitted.kv_precision is KvPrecision.BF16
