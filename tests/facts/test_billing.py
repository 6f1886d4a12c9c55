"""Whether the dollars of nodes end with their use, by what the admin says and by what the cluster shows."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.gpus import Billing, CapacityType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.facts.cluster.billing import with_billing
from tests.support.planning import H100, L4, fleet, gpu, node
from tests.support.tables import every_case

PLAIN = node("plain", L4, 4)


@every_case(
    ("labels", "billing"),
    [
        ({}, Billing.ASSUMED_OWNED),
        ({"eks.amazonaws.com/nodegroup": "gpus"}, Billing.ASSUMED_OWNED),
        ({"karpenter.sh/nodepool": "gpus"}, Billing.ON_DEMAND),
        ({"karpenter.sh/nodepool": ""}, Billing.ASSUMED_OWNED),
        ({"eks.amazonaws.com/compute-type": "auto"}, Billing.ON_DEMAND),
        ({"karpenter.sh/nodepool": "gpus", "karpenter.sh/capacity-type": "reserved"}, Billing.ASSUMED_OWNED),
        ({"karpenter.sh/nodepool": "gpus", "eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, Billing.ASSUMED_OWNED),
    ],
)
def test_a_type_whose_nodes_somebody_removes_is_billed_by_use(labels: dict[str, str], billing: Billing) -> None:
    found = with_billing(fleet(node("n", H100, 8, labels=labels), PLAIN), (), None)
    assert [each.billing for each in found.gpu_types()] == [billing, Billing.ASSUMED_OWNED], (
        "the other type is judged alone"
    )


def test_one_node_that_comes_and_goes_is_enough() -> None:
    mixed = fleet(node("a", H100, 8), node("b", H100, 8, labels={"karpenter.sh/nodepool": "gpus"}))
    assert {each.gpu.billing for each in with_billing(mixed, (), None).nodes} == {Billing.ON_DEMAND}


def test_spot_nodes_and_those_of_a_group_that_can_grow_are_billed_by_use() -> None:
    spot = replace(node("s", spot_type(gpu(H100)), 8), capacity_type=CapacityType.SPOT)
    group = NodeGroup("small", gpu(L4), "nvidia.com/gpu", 4)
    found = with_billing(fleet(spot, node("h", H100, 8), PLAIN), (group,), None)
    assert {each.name: each.billing for each in found.gpu_types()} == {
        L4: Billing.ON_DEMAND,
        H100: Billing.ASSUMED_OWNED,
        f"{H100}-spot": Billing.ON_DEMAND,
    }


@every_case("declared", [Billing.OWNED, Billing.ON_DEMAND])
def test_the_admin_s_word_holds_for_all_nodes(declared: Billing) -> None:
    where = fleet(node("n", H100, 8, labels={"karpenter.sh/nodepool": "gpus"}), PLAIN)
    found = with_billing(where, (), declared)
    assert {each.billing for each in found.gpu_types()} == {declared}
    assert with_billing(where, (), declared) is found, "the same question has the same answer"
