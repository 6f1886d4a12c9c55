"""GPUs that take no part are named before GPUs are bought."""

from __future__ import annotations

import pytest

from plimsoll.domain.fleet import IgnoredNode
from plimsoll.domain.reasons import NodeReason
from plimsoll.placement.plan import plan
from plimsoll.render.conditions import conditions
from plimsoll.render.left_out import NODE_STARTS_SECONDS, is_coming, left_out_sentence
from plimsoll.render.report import Report
from tests.support.planning import H100, fleet, node, request, tenant

WITHOUT = "NoProductLabel 2 (run GPU Feature Discovery there, or label them plimsoll.dev/gpu-type)"


def test_gpus_are_added_up_and_nodes_counted_by_reason() -> None:
    ignored = [
        IgnoredNode("a", NodeReason.NO_PRODUCT_LABEL, gpus=4),
        IgnoredNode("b", NodeReason.NO_PRODUCT_LABEL, gpus=8),
        IgnoredNode("c", NodeReason.SHARED_GPUS, gpus=1),
    ]
    assert left_out_sentence([]) == ""
    assert left_out_sentence(ignored[:2]) == f"12 GPUs of 2 nodes are left out: {WITHOUT}."
    assert left_out_sentence(ignored[2:]) == "1 GPU of 1 node are left out: SharedGpus 1 (engines take whole GPUs)."
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
        "1 device of gpu.amd.com on 1 node are left out: NotSupported (published through DRA's ResourceSlices, on "
        "which Plimsoll does not place; enable the device plugin's extended resource amd.com/gpu there)."
    )
    said = left_out_sentence(drawn)
    assert said.startswith(f"{first} 12 devices of gpu.nvidia.com on 2 nodes are left out: NotSupported (")
    assert "resource nvidia.com/gpu there" in said
    shared = IgnoredNode("d", NodeReason.SHARED_GPUS, gpus=1)
    assert left_out_sentence([*drawn, shared]) == f"{left_out_sentence([shared])} {said}"


def test_a_new_node_whose_gpus_dra_publishes_may_still_get_a_device_plugin() -> None:
    new = IgnoredNode("n", NodeReason.NOT_SUPPORTED, gpus=8, since=1000.0, driver="gpu.nvidia.com")
    assert is_coming([new], 1000.0 + NODE_STARTS_SECONDS - 1)
    assert not is_coming([new], 1000.0 + NODE_STARTS_SECONDS)


@pytest.mark.parametrize("reason", NodeReason)
def test_a_node_that_has_just_been_made_may_still_get_what_it_lacks(reason: NodeReason) -> None:
    new, old = IgnoredNode("n", reason, since=1000.0), IgnoredNode("o", reason)
    lacks = reason in (NodeReason.NOT_READY, NodeReason.NO_DEVICES, NodeReason.NO_PRODUCT_LABEL)
    assert is_coming([old, new], 1000.0 + NODE_STARTS_SECONDS - 1) is lacks
    assert not is_coming([old, new], 1000.0 + NODE_STARTS_SECONDS)
    assert not is_coming([old], 1000.0)


@pytest.mark.parametrize(("coming", "shown"), [(True, "Reconciling"), (False, "Stalled")])
def test_while_a_node_is_on_its_way_nothing_is_stalled(coming: bool, shown: str) -> None:  # noqa: FBT001 - a case
    (waits,) = plan([tenant(request())], fleet())
    report = Report("x", 1, 1, decision=waits, left_out="8 GPUs are left out.", node_coming=coming)
    found = {each["type"]: each for each in conditions(report, {}, "2026-01-01T00:00:00Z")}
    assert set(found) - {"Ready", "Planned", "Placed", "Available"} == {shown}
    assert ("is new, and may still get" in found["Ready"]["message"]) is coming


def test_they_come_before_what_could_be_bought_and_only_where_something_is_missing() -> None:
    (waits,) = plan([tenant(request())], fleet())
    (placed,) = plan([tenant(request())], fleet(node("h", H100, 1)))
    told = [
        conditions(Report("x", 1, 1, decision=each, left_out="12 GPUs are left out."), {}, "2026-01-01T00:00:00Z")
        for each in (waits, placed)
    ]
    message = told[0][0]["message"]
    assert message.index("12 GPUs are left out. ") < message.index("No single change makes it fit.")
    assert "left out" not in str(told[1])
