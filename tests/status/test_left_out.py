"""GPUs that take no part are named before GPUs are bought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import GpuNode, IgnoredNode, Labels, Taint, Toleration
from plimsoll.domain.public_words import NodeReason
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.facts.cluster.taints import STARTUP_PREFIX
from plimsoll.placement.plan import plan
from plimsoll.status.conditions import conditions
from plimsoll.status.record.report import Report
from plimsoll.status.words.left_out import Coming, NewNodes, left_out_sentence
from tests.support.planning import H100, LLAMA_70B_FP8, fleet, node, request, tenant

NODE_STARTS_SECONDS = 900.0

WITHOUT = "NoProductLabel 2 (run the labeller of the GPUs' vendor there, or label them plimsoll.dev/gpu-type)"


def test_gpus_are_added_up_and_nodes_counted_by_reason() -> None:
    ignored = [
        IgnoredNode("a", NodeReason.NO_PRODUCT_LABEL, gpus=4),
        IgnoredNode("b", NodeReason.NO_PRODUCT_LABEL, gpus=8),
        IgnoredNode("c", NodeReason.SHARED_GPUS, gpus=1),
    ]
    assert left_out_sentence([]) == ""
    assert left_out_sentence(ignored[:2]) == f"12 GPUs of 2 nodes are left out: {WITHOUT}."
    assert left_out_sentence(ignored[2:]) == "1 GPU of 1 node is left out: SharedGpus 1 (engines take whole GPUs)."
    assert left_out_sentence(ignored).startswith(f"13 GPUs of 3 nodes are left out: {WITHOUT}, SharedGpus 1 (")


def test_every_reason_has_its_advice() -> None:
    for reason in NodeReason:
        assert f"{reason.value} 1 (" in left_out_sentence([IgnoredNode("n", reason)])


def test_gpus_that_only_dra_publishes_are_named_by_driver() -> None:
    drawn = [
        IgnoredNode("a", NodeReason.NOT_SUPPORTED, gpus=8, driver="gpu.nvidia.com"),
        IgnoredNode("b", NodeReason.NOT_SUPPORTED, gpus=4, driver="gpu.nvidia.com"),
        IgnoredNode("c", NodeReason.NOT_SUPPORTED, gpus=1, driver="gpu.amd.com"),
    ]
    first = (
        "1 device of gpu.amd.com on 1 node is left out: NotSupported (published through DRA's ResourceSlices, on "
        "which Plimsoll does not place; enable the device plugin's extended resource amd.com/gpu there)."
    )
    said = left_out_sentence(drawn)
    assert said.startswith(f"{first} 12 devices of gpu.nvidia.com on 2 nodes are left out: NotSupported (")
    assert "resource nvidia.com/gpu there" in said
    shared = IgnoredNode("d", NodeReason.SHARED_GPUS, gpus=1)
    assert left_out_sentence([*drawn, shared]) == f"{left_out_sentence([shared])} {said}"


def coming(*ignored: IgnoredNode, nodes: tuple[GpuNode, ...] = (), now: float, **spec: Any) -> Coming:
    """Return what may still come to a deployment without a place."""
    where = replace(fleet(*nodes), ignored=ignored)
    (waits,) = plan([tenant(request(**spec))], where)
    return NewNodes.of(where, now).coming_to(waits)


def test_a_new_node_whose_gpus_dra_publishes_may_still_get_a_device_plugin() -> None:
    new = IgnoredNode("n", NodeReason.NOT_SUPPORTED, gpus=8, since=1000.0, driver="gpu.nvidia.com")
    assert coming(new, now=1000.0 + NODE_STARTS_SECONDS - 1).sentence
    assert coming(new, now=1000.0 + NODE_STARTS_SECONDS) == Coming()


@pytest.mark.parametrize("reason", NodeReason)
def test_a_node_that_has_just_been_made_may_still_get_what_it_lacks(reason: NodeReason) -> None:
    new, old = IgnoredNode("n", reason, since=1000.0), IgnoredNode("o", reason)
    lacks = reason in (NodeReason.NOT_READY, NodeReason.NO_DEVICES, NodeReason.NO_PRODUCT_LABEL)
    seen = coming(old, new, now=1000.0 + NODE_STARTS_SECONDS - 1)
    words = "One of these nodes is new, and may still get what it lacks."
    assert seen == (Coming(words, 1000.0 + NODE_STARTS_SECONDS) if lacks else Coming())
    assert coming(old, new, now=1000.0 + NODE_STARTS_SECONDS) == Coming()
    assert coming(old, now=1000.0) == Coming()


CILIUM = Taint("node.cilium.io/agent-not-ready", "true", "NoExecute")
TEAM = Taint("team", "other", "NoSchedule")


def starts(*taints: Taint, since: float | None = 1000.0, name: str = "h", labels: Labels = ()) -> GpuNode:
    """A node with eight H100 that has just been made."""
    return replace(node(name, H100, 8), taints=taints, since=since, labels=labels)


def test_a_new_node_behind_a_startup_taint_is_named_with_the_taint_for_fifteen_minutes() -> None:
    words = "1 new node with GPUs starts: it waits for the removal of the taint node.cilium.io/agent-not-ready."
    assert coming(nodes=(starts(CILIUM),), now=1899.0) == Coming(words, 1900.0)
    assert coming(nodes=(starts(CILIUM),), now=1900.0) == Coming()
    assert coming(nodes=(starts(CILIUM, since=None),), now=1000.0) == Coming()


def test_what_keeps_a_deployment_off_for_good_is_no_start() -> None:
    prefers = Taint(CILIUM.key, "", "PreferNoSchedule")
    for taints in ((TEAM,), (CILIUM, TEAM), ()):
        assert coming(nodes=(starts(*taints),), now=1000.0) == Coming()
    assert coming(nodes=(starts(TEAM, prefers),), now=1000.0) == Coming()
    assert coming(nodes=(starts(CILIUM),), now=1000.0, constraints=GpuConstraints(deny=(H100,))) == Coming()
    selected = {"node_selector": (("zone", "a"),)}
    assert coming(nodes=(starts(CILIUM),), now=1000.0, **selected) == Coming()
    assert coming(nodes=(starts(CILIUM, labels=(("zone", "a"), ("x", "y"))),), now=1000.0, **selected).sentence
    tolerates = {"tolerations": (Toleration("team", "Exists"),)}
    assert coming(nodes=(starts(CILIUM, TEAM),), now=1000.0, **tolerates).sentence


def test_several_nodes_and_taints_are_counted_and_the_first_end_is_looked_at() -> None:
    taints = [Taint(f"{prefix}x", "", "NoSchedule") for prefix in (STARTUP_PREFIX, "readiness.k8s.io/")]
    keys = [*taints, Taint("karpenter.sh/unregistered", "", "NoExecute")]
    nodes = (starts(*keys), starts(CILIUM, name="i", since=1100.0))
    lacks = IgnoredNode("n", NodeReason.NO_DEVICES, since=1050.0)
    seen = coming(lacks, nodes=nodes, now=1200.0)
    assert seen.sentence.startswith(
        "2 new nodes with GPUs start: they wait for the removal of the taints karpenter.sh/"
    )
    assert " and 1 more. One of these nodes is new" in seen.sentence
    assert seen.until == 1900.0
    assert coming(lacks, nodes=nodes, now=1900.0).until == 1950.0


def test_a_smaller_node_that_is_ready_does_not_hide_a_larger_one_that_starts() -> None:
    spec = {"facts": LLAMA_70B_FP8, "overrides": Overrides(gpu_type=H100, tensor_parallel=8)}
    small, large = node("s", H100, 1), starts(CILIUM)
    assert coming(nodes=(small, large), now=1000.0, **spec).sentence
    assert coming(nodes=(small,), now=1000.0, **spec) == Coming()


@pytest.mark.parametrize(("words", "shown"), [("A node starts.", "Reconciling"), ("", "Stalled")])
def test_while_a_node_is_on_its_way_nothing_is_stalled(words: str, shown: str) -> None:
    (waits,) = plan([tenant(request())], fleet())
    report = Report("x", 1, 1, decision=waits, left_out="8 GPUs are left out.", coming=words)
    found = {each["type"]: each for each in conditions(report, {}, "2026-01-01T00:00:00Z")}
    assert set(found) - {"Ready", "Planned", "Placed", "Available"} == {shown}
    assert ("A node starts. " in found["Ready"]["message"]) is bool(words)


def test_they_come_before_what_could_be_bought_and_only_where_something_is_missing() -> None:
    (waits,) = plan([tenant(request())], fleet())
    (placed,) = plan([tenant(request())], fleet(node("h", H100, 1)))
    told = [
        conditions(Report("x", 1, 1, decision=each, left_out="12 GPUs are left out."), {}, "2026-01-01T00:00:00Z")
        for each in (waits, placed)
    ]
    message = told[0][0]["message"]
    assert message.index("12 GPUs are left out. ") < message.index("What helps: ")
    assert "left out" not in str(told[1])
