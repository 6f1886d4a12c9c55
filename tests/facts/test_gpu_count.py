"""However a cluster labels its nodes: a share of a GPU is never taken for a GPU, and a GPU never for a share."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.watch.pruning import node as pruned
from plimsoll.domain.public_words import NodeReason
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.gpu_count import (
    COUNTS,
    GPU_COUNT_LABEL,
    HAMI_REGISTRATION,
    MOST_OF_LARGE_MACHINES,
    MOST_UNCOUNTED,
    most_uncounted,
    only_counted,
    physical_gpus,
)
from tests.facts.nodes import Body, node, nvidia_node

TYPES = load_gpu_types()
RESOURCE = "nvidia.com/gpu"
NAMED = (
    {"plimsoll.dev/gpu-type": "l4-24gb"},
    {"cloud.google.com/gke-accelerator": "nvidia-l4"},
    {"karpenter.k8s.aws/instance-gpu-name": "l4", "karpenter.k8s.aws/instance-gpu-memory": "22888"},
    {"eks.amazonaws.com/instance-gpu-name": "l4"},
    {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034"},
)
"""Who names the type of the GPUs."""

SHARING = (
    {"nvidia.com/gpu.sharing-strategy": "time-slicing"},
    {"nvidia.com/gpu.sharing-strategy": "mps"},
    {"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"},
    {"cloud.google.com/gke-max-shared-clients-per-gpu": "8"},
    {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"},
)
OLD_HAMI = "GPU-1,10,24576,100,NVIDIA L4,0,true:GPU-2,10,24576,100,NVIDIA L4,0,true:"
NEW_HAMI = json.dumps([{"id": "GPU-1", "count": 10, "devmem": 24576}, {"id": "GPU-2", "count": 10, "devmem": 24576}])


def seen(body: Body) -> int | NodeReason:
    """The GPUs that a node has for engines, or why it is left out. The store keeps a part of a node only."""
    whole, kept = (read_fleet([each], [], TYPES) for each in (body, pruned(body)))
    assert whole == kept
    if whole.nodes:
        return whole.nodes[0].allocatable
    return whole.ignored[0].reason


@given(st.sampled_from(NAMED), st.sampled_from(COUNTS), st.integers(1, 32), st.integers(1, 10))
def test_a_node_that_offers_more_gpus_than_it_has_shares_them(
    named: dict[str, str], count: str, cards: int, shares: int
) -> None:
    found = seen(node("n", named | {count: str(cards)}, {RESOURCE: str(cards * shares)}))
    if shares == 1:
        assert found == cards
    else:
        assert found in (NodeReason.SHARED_GPUS, NodeReason.MIXED_GPUS)


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("sharing", SHARING)
def test_a_label_about_sharing_counts_whoever_names_the_type(named: dict[str, str], sharing: dict[str, str]) -> None:
    assert seen(node("n", named | sharing, {RESOURCE: "8"})) is NodeReason.SHARED_GPUS


@pytest.mark.parametrize(
    "sharing",
    [
        {"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1"},
        {"cloud.google.com/gke-max-shared-clients-per-gpu": "1"},
    ],
)
def test_a_label_that_nothing_is_shared_changes_nothing(sharing: dict[str, str]) -> None:
    assert seen(node("n", NAMED[0] | sharing, {RESOURCE: "8"})) == 8


@pytest.mark.parametrize("registered", [OLD_HAMI, NEW_HAMI])
def test_hami_counts_the_cards_that_it_offers_several_times(registered: str) -> None:
    shared, whole = (node("n", NAMED[0], {RESOURCE: offered}) for offered in ("20", "2"))
    for body in (shared, whole):
        body["metadata"]["annotations"] = {HAMI_REGISTRATION: registered}
    assert (seen(shared), seen(whole)) == (NodeReason.SHARED_GPUS, 2)
    assert physical_gpus({}, {HAMI_REGISTRATION: only_counted(registered)}, sliced=False) == (2, HAMI_REGISTRATION)
    assert "GPU-1" not in str(pruned(shared))


@pytest.mark.parametrize("nonsense", ["", "[", "{}", "null", "x", "[]"])
def test_a_registration_that_cannot_be_read_counts_nothing(nonsense: str) -> None:
    body = node("n", NAMED[0], {RESOURCE: "8"})
    body["metadata"]["annotations"] = {HAMI_REGISTRATION: nonsense}
    assert seen(body) == 8


def test_the_machine_counts_its_cards() -> None:
    labels = NAMED[0] | {"node.kubernetes.io/instance-type": "g6.xlarge"}
    assert seen(node("n", labels, {RESOURCE: "4"})) is NodeReason.SHARED_GPUS
    assert seen(node("n", labels, {RESOURCE: "1"})) == 1


@pytest.mark.parametrize(
    ("gpu_type", "most"), [("rtx-3090-24gb", MOST_UNCOUNTED), ("a100-sxm-40gb", MOST_OF_LARGE_MACHINES)]
)
def test_without_a_count_no_node_has_more_gpus_than_machines_have(gpu_type: str, most: int) -> None:
    assert most_uncounted(gpu_type) == most
    labels = {"plimsoll.dev/gpu-type": gpu_type}
    assert seen(node("n", labels, {RESOURCE: str(most)})) == most
    assert seen(node("n", labels, {RESOURCE: str(most + 1)})) is NodeReason.SHARED_GPUS
    assert seen(node("n", labels | {GPU_COUNT_LABEL: "32"}, {RESOURCE: "32"})) == 32
    (left,) = read_fleet([node("n", labels, {RESOURCE: "40"})], [], TYPES).ignored
    assert f"label it {GPU_COUNT_LABEL}=40" in left.detail


def test_slices_are_counted_by_who_cut_them_and_not_by_the_cards() -> None:
    labels = {"karpenter.k8s.aws/instance-gpu-count": "8", "node.kubernetes.io/instance-type": "p4de.24xlarge"}
    body = nvidia_node(
        product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", memory="9728", gpus=56, capability="8.0", labels=labels
    )
    assert seen(body) == 56
    body = nvidia_node(
        product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        memory="9728",
        gpus=56,
        capability="8.0",
        labels={"cloud.google.com/gke-gpu-partition-size": "1g.10gb"},
    )
    assert seen(body) == 56


def test_gpus_of_a_node_that_runs_windows_are_named() -> None:
    (left,) = read_fleet([nvidia_node(labels={"kubernetes.io/os": "windows"})], [], TYPES).ignored
    assert (left.reason, left.gpus) == (NodeReason.NOT_SUPPORTED, 8)
    assert read_fleet([node("n", {"kubernetes.io/os": "windows"}, {})], [], TYPES).ignored == ()
    assert seen(nvidia_node(labels={"kubernetes.io/os": "linux"})) == 8


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ("habana.ai/gaudi", NodeReason.NOT_SUPPORTED),
        ("gpu.intel.com/i915", NodeReason.NOT_SUPPORTED),
        ("gpu.intel.com/xe", NodeReason.NOT_SUPPORTED),
        ("huawei.com/Ascend910", NodeReason.NOT_SUPPORTED),
        ("google.com/tpu", NodeReason.NOT_SUPPORTED),
        ("aws.amazon.com/neuroncore", NodeReason.NOT_SUPPORTED),
        ("amd.com/cpx_nps4", NodeReason.NOT_SUPPORTED),
        ("nvidia.com/GA102GL_A10", NodeReason.NOT_SUPPORTED),
        ("nvidia.com/NVIDIA_A16-4C", NodeReason.NOT_SUPPORTED),
        ("cambricon.com/vmlu", NodeReason.NOT_SUPPORTED),
        ("hygon.com/dcunum", NodeReason.NOT_SUPPORTED),
        ("metax-tech.com/gpu", NodeReason.NOT_SUPPORTED),
        ("enflame.com/drs-gcu", NodeReason.NOT_SUPPORTED),
        ("mthreads.com/vgpu", NodeReason.NOT_SUPPORTED),
        ("iluvatar.ai/MR-V100-vgpu", NodeReason.NOT_SUPPORTED),
        ("kunlunxin.com/xpu", NodeReason.NOT_SUPPORTED),
        ("rebellions.ai/ATOM", NodeReason.NOT_SUPPORTED),
        ("beta.furiosa.ai/npu", NodeReason.NOT_SUPPORTED),
        ("tenstorrent.com/blackhole", NodeReason.NOT_SUPPORTED),
        ("qualcomm.com/qaic", NodeReason.NOT_SUPPORTED),
        ("nvidia.com/gpu.shared", NodeReason.SHARED_GPUS),
    ],
)
def test_devices_that_no_engine_is_planned_for_are_named(resource: str, reason: NodeReason) -> None:
    (left,) = read_fleet([node("n", {}, {resource: "8"})], [], TYPES).ignored
    assert (left.reason, left.gpus) == (reason, 8)
    assert resource in left.detail
    assert read_fleet([node("n", {}, {resource: "0"})], [], TYPES).ignored == ()
    both = read_fleet([nvidia_node()], [], TYPES).nodes + read_fleet([node("n", {}, {resource: "8"})], [], TYPES).nodes
    assert [each.name for each in both] == ["n"]
