"""The nodes that a request's image and volumes allow: what is planned there is what Kubernetes lets run there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import DISK, HostRoom
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.node_rules import (
    DRIVER_LABEL,
    Claim,
    NodeRule,
    Requirement,
    disk_rule,
    driver_rule,
    rules_of,
)
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.advice.growth import growable
from plimsoll.placement.demands.pools import Decision, Pool, PoolState
from plimsoll.placement.explain import rejection_sentence, remedy_sentence
from plimsoll.placement.options.nodes import eligible_nodes, ruled_out
from plimsoll.placement.plan import plan
from tests.support.planning import (
    A100,
    H100,
    L4,
    L40S,
    architecture_rule,
    chosen,
    fleet,
    gpu,
    node,
    placed,
    pool,
    refusals,
    request,
    tenant,
    unplaceable,
)
from tests.support.tables import every_case

ZONE, ARCH = "topology.kubernetes.io/zone", "kubernetes.io/arch"
GH200 = "gh200-96gb"
AMD64 = architecture_rule(("amd64",))


def in_zone(*zones: str, claim: str = "weights") -> NodeRule:
    (rule,) = rules_of([Claim(claim, terms=((Requirement(ZONE, "In", zones),),))])
    return rule


def with_disk(found: GpuNode, size: int | None) -> GpuNode:
    """The node with a disk of so many bytes; None: it reports none."""
    return found if size is None else replace(found, host=HostRoom(others=((DISK, size),)))


@every_case(
    ("requirement", "labels", "matches"),
    [
        (Requirement("a", "In", ("1", "2")), {"a": "2"}, True),
        (Requirement("a", "In", ("1", "2")), {"a": "3"}, False),
        (Requirement("a", "In", ("1", "2")), {}, False),
        (Requirement("a", "NotIn", ("1",)), {"a": "1"}, False),
        (Requirement("a", "NotIn", ("1",)), {}, True),
        (Requirement("a", "Exists"), {"a": ""}, True),
        (Requirement("a", "Exists"), {"b": "1"}, False),
        (Requirement("a", "DoesNotExist"), {"b": "1"}, True),
        (Requirement("a", "DoesNotExist"), {"a": ""}, False),
        (Requirement("a", "Gt", ("3",)), {"a": "4"}, True),
        (Requirement("a", "Gt", ("3",)), {"a": "3"}, False),
        (Requirement("a", "Lt", ("3",)), {"a": "-4"}, True),
        (Requirement("a", "Lt", ("3",)), {"a": "3"}, False),
        (Requirement("a", "Lt", ("x",)), {"a": "3"}, False),
        (Requirement("a", "Lt", ("3",)), {}, False),
        (Requirement("a", "Lt", ()), {"a": "3"}, False),
        (Requirement("a", "Like", ("1",)), {"a": "1"}, False),
    ],
)
def test_a_requirement_is_read_as_kubernetes_reads_it(
    requirement: Requirement, labels: Mapping[str, str], *, matches: bool
) -> None:
    assert requirement.matches(labels) is matches


def test_one_term_is_enough_and_all_of_a_term_is_needed_and_an_empty_one_is_nobodys() -> None:
    one, two = Requirement("a", "Exists"), Requirement("b", "Exists")
    rule = NodeRule(Reason.VOLUME_ELSEWHERE, (), ((one, two), (Requirement("c", "Exists"),)))
    assert [rule.accepts(dict.fromkeys(each, "")) for each in ("ab", "a", "c", "")] == [True, False, True, False]
    assert not NodeRule(Reason.VOLUME_ELSEWHERE, (), ()).accepts({})
    assert not NodeRule(Reason.VOLUME_ELSEWHERE, (), ((),)).accepts({})


class TestPlatforms:
    """The cheapest node is of no use where the image cannot run on it."""

    here = fleet(node("grace", GH200, 1, labels={ARCH: "arm64"}), node("h", H100, 8, labels={ARCH: "amd64"}))

    def test_an_image_for_amd64_does_not_go_to_arm64(self) -> None:
        outcome = placed(request(node_rules=(AMD64,)), self.here)
        assert chosen(outcome.choice)[0] == H100
        assert refusals(outcome)[GH200, 1] is Reason.IMAGE_FOR_OTHER_PLATFORM

    def test_an_image_for_both_goes_to_the_cheaper_one(self) -> None:
        assert chosen(placed(request(), self.here).choice)[0] == GH200
        both = architecture_rule(("amd64", "arm64"))
        assert chosen(placed(request(node_rules=(both,)), self.here).choice)[0] == GH200

    def test_a_node_that_names_no_architecture_is_taken(self) -> None:
        assert chosen(placed(request(node_rules=(AMD64,)), fleet(node("h", H100, 8))).choice) == (H100, 1)

    def test_nobody_is_advised_to_buy_what_the_image_cannot_run_on(self) -> None:
        arm = replace(gpu(GH200), price=gpu(L4).price)
        group = NodeGroup("grace", arm, "nvidia.com/gpu", 1)
        wanted = request(node_rules=(AMD64,))
        (refused,) = plan([tenant(wanted)], Fleet(), groups=(group,))
        assert [each for each in refused.remedies if each.kind is RemedyKind.ADD_NODES] == []
        (offered,) = plan([tenant(request())], Fleet(), groups=(group,))
        assert [each.kind for each in offered.remedies][:1] == [RemedyKind.ADD_NODES]
        assert growable((group,), Fleet())

    def test_who_is_advised_to_buy_a_node_reads_which_platform_and_labels_it_must_have(self) -> None:
        """Most cards are sold in nodes of either architecture."""

        def advice(*offered: str, labels: tuple[tuple[str, str], ...] = ()) -> list[str]:
            wanted = request(node_rules=(architecture_rule(offered), in_zone("a")), node_selector=labels)
            (decided,) = plan([tenant(wanted)], Fleet(), (gpu(L4), gpu(H100)))
            return [remedy_sentence(each) for each in decided.remedies if each.kind is RemedyKind.ADD_GPUS]

        [arm], [usual] = advice("arm64", "s390x"), advice("amd64", "arm64")
        assert arm.endswith(f" and platform linux/arm64 or linux/s390x and {ZONE} in a")
        assert usual.endswith(f" and {ZONE} in a")
        [labelled] = advice("amd64", labels=(("team", "ml"), ("disk", "fast")))
        assert labelled.endswith(f" and team=ml and disk=fast and {ZONE} in a")

    def test_what_runs_stays_until_its_spec_changes(self) -> None:
        where = fleet(node("grace", GH200, 1, held=1, labels={ARCH: "arm64"}), node("h", H100, 8))
        running = pool(GH200, bound=1, ready=1, exists=True)
        (decided,) = plan([tenant(request(node_rules=(AMD64,)), running)], where)
        assert [(each.gpu_type, each.state) for each in decided.pools] == [(GH200, PoolState.ACTIVE)]


class TestVolumes:
    """A volume that is bound to a zone rules the other zones out."""

    here = fleet(node("l", L4, 8, labels={ZONE: "b"}), node("a", A100, 8, labels={ZONE: "a"}))

    def test_the_volumes_zone_is_taken_though_the_other_is_cheaper(self) -> None:
        outcome = placed(request(node_rules=(in_zone("a"),)), self.here)
        assert chosen(outcome.choice)[0] == A100
        assert refusals(outcome)[L4, 1] is Reason.VOLUME_ELSEWHERE
        assert chosen(placed(request(), self.here).choice)[0] == L4

    def test_two_volumes_that_no_node_can_mount_together_are_named(self) -> None:
        wanted = request(node_rules=(in_zone("a"), in_zone("b", claim="adapters")))
        assert set(refusals(unplaceable(wanted, self.here)).values()) == {Reason.VOLUME_ELSEWHERE}
        reason, numbers = ruled_out(wanted, self.here, A100)
        assert (reason, dict(numbers)["claim"]) == (Reason.VOLUME_ELSEWHERE, "adapters")
        assert dict(ruled_out(wanted, self.here, L4)[1])["claim"] == "weights"

    def test_labels_and_taints_are_the_reason_before_any_volume(self) -> None:
        wanted = request(node_rules=(in_zone("c"),), node_selector=(("rack", "1"),))
        assert ruled_out(wanted, self.here, L4)[0] is Reason.NODES_NOT_SELECTED

    def test_a_new_node_may_be_made_where_the_volume_is(self) -> None:
        group = NodeGroup("h100s", gpu(H100), "nvidia.com/gpu", 1)
        (decided,) = plan([tenant(request(node_rules=(in_zone("c"),)))], self.here, groups=(group,))
        [added] = [each for each in decided.remedies if each.kind is RemedyKind.ADD_NODES]
        assert f"with {ZONE} in c: " in remedy_sentence(added)


class TestMountsAlone:
    """A volume that one node mounts at a time: the old pod ends first, and there is no second."""

    def moved(self, *, alone: bool) -> Decision:
        where = fleet(node("l", L4, 8), node("l40s", L40S, 8))
        running = pool(L4, bound=1, ready=1, exists=True, generation=1)
        wanted = request(mounts_alone=alone, constraints=replace(request().constraints, deny=(L4,)))
        (decided,) = plan([replace(tenant(wanted, running), generation=2)], where)
        return decided

    def test_the_old_pod_ends_before_its_successor_starts(self) -> None:
        assert [(each.gpu_type, each.state) for each in self.moved(alone=False).pools] == [
            (L40S, PoolState.ACTIVE),
            (L4, PoolState.RETIRING),
        ]
        assert [(each.gpu_type, each.state) for each in self.moved(alone=True).pools] == [(L40S, PoolState.ACTIVE)]

    def test_an_update_adds_no_pod_that_could_not_mount_the_volume(self) -> None:
        running: Pool = pool(L4, bound=1, ready=1, exists=True)
        surges = [
            plan([tenant(request(mounts_alone=alone), running)], fleet(node("l", L4, 8, held=1)))[0].pools[0].surge
            for alone in (False, True)
        ]
        assert surges == [True, False]


class TestDisksAndDrivers:
    """Where the files have no room, or the image's CUDA has no driver, no pod goes; what runs is the proof of both."""

    here = fleet(
        with_disk(node("small", L4, 8), 100), node("old", L40S, 8, labels={DRIVER_LABEL: "535"}), node("h", H100, 8)
    )
    wanted = request(node_rules=(disk_rule(101), driver_rule(580)))

    def test_the_next_cheapest_place_is_taken_and_both_others_say_why(self) -> None:
        outcome = placed(self.wanted, self.here)
        assert chosen(outcome.choice)[0] == H100
        assert refusals(outcome)[L4, 1] is Reason.NODE_DISK_TOO_SMALL
        assert refusals(outcome)[L40S, 1] is Reason.DRIVER_TOO_OLD
        assert chosen(placed(request(), self.here).choice)[0] == L4

    def test_the_refusal_names_the_largest_disk(self) -> None:
        reason, numbers = ruled_out(self.wanted, self.here, L4)
        assert (reason, dict(numbers)) == (
            Reason.NODE_DISK_TOO_SMALL,
            {"nodes": 1, "least_bytes": 101, "largest_bytes": 100},
        )

    def test_a_new_node_needs_the_disk_and_has_a_new_driver(self) -> None:
        for size, words in ((30, " and 30.00 GiB of ephemeral-storage"), (20, " l4-24gb")):
            wanted = replace(self.wanted, node_rules=(disk_rule(size * GIB), driver_rule(580)))
            (decided,) = plan([tenant(wanted)], Fleet(), (gpu(L4),))
            [added] = [remedy_sentence(each) for each in decided.remedies if each.kind is RemedyKind.ADD_GPUS]
            assert added.endswith(words)

    def test_a_rule_speaks_of_the_nodes_that_others_leave(self) -> None:
        both = fleet(
            node("old", L4, 8, labels={DRIVER_LABEL: "535", ZONE: "a"}), node("new", L4, 8, labels={ZONE: "b"})
        )
        wanted = request(node_rules=(driver_rule(580),), node_selector=((ZONE, "a"),))
        [said] = {rejection_sentence(each) for each in unplaceable(wanted, both).rejections if each.split.gpus == 1}
        assert said.startswith("none of the nodes that other rules leave (1 of 2) has NVIDIA driver 580")

    def test_what_runs_stays(self) -> None:
        running = pool(L4, bound=1, ready=1, exists=True)
        (decided,) = plan([tenant(self.wanted, running)], self.here)
        assert [(each.gpu_type, each.state) for each in decided.pools] == [(L4, PoolState.ACTIVE)]


def some_nodes() -> st.SearchStrategy[list[GpuNode]]:
    labels = st.fixed_dictionaries(
        {},
        optional={
            ZONE: st.sampled_from("abc"),
            ARCH: st.sampled_from(["amd64", "arm64"]),
            DRIVER_LABEL: st.sampled_from(["535", "580", "610"]),
        },
    )
    disks = st.none() | st.integers(1, 3)
    one = st.tuples(st.sampled_from([L40S, A100, H100]), st.integers(1, 8), labels, disks)
    listed = st.lists(one, min_size=1, max_size=6)
    return listed.map(
        lambda found: [
            with_disk(node(f"n{i}", kind, gpus, labels=own), disk) for i, (kind, gpus, own, disk) in enumerate(found)
        ]
    )


def some_rules() -> st.SearchStrategy[tuple[NodeRule, ...]]:
    zones = st.lists(st.sampled_from("abcd"), min_size=1, max_size=2, unique=True).map(lambda found: in_zone(*found))
    platforms = st.sampled_from([architecture_rule((each,)) for each in ("amd64", "arm64")])
    drivers, disks = st.sampled_from([driver_rule(525), driver_rule(580)]), st.integers(1, 4).map(disk_rule)
    return st.lists(zones | platforms | drivers | disks, max_size=3, unique=True).map(tuple)


def may_run(wanted: Request, where: GpuNode) -> bool:
    """Whether the rules accept a node, by the words of each kind of rule."""
    labels = dict(where.labels)
    for rule in wanted.node_rules:
        figures = dict(rule.numbers)
        if rule.reason is Reason.NODE_DISK_TOO_SMALL:
            follows = where.disk_bytes is None or where.disk_bytes >= int(figures["least_bytes"])
        elif rule.reason is Reason.DRIVER_TOO_OLD:
            follows = int(labels.get(DRIVER_LABEL, "999")) >= int(figures["least"])
        else:
            follows = rule.accepts(labels)
        if not follows:
            return False
    return True


@given(some_nodes(), some_rules(), st.integers(1, 4))
def test_replicas_are_planned_only_where_nodes_follow_all_rules_and_a_neighbour_takes_what_is_left(
    nodes: list[GpuNode], rules: tuple[NodeRule, ...], replicas: int
) -> None:
    where = fleet(*nodes)
    bound = request(name="bound", created="1", node_rules=rules, replicas=replicas)
    decided, neighbour = plan([tenant(bound), tenant(request(name="free", created="2"))], where)
    for each in decided.pools:
        there = eligible_nodes(bound, where, each.gpu_type)
        assert there == tuple(one for one in where.of_type(each.gpu_type) if may_run(bound, one))
        assert each.replicas * each.split.gpus <= sum(one.allocatable for one in there)
    room = sum(one.allocatable for one in nodes if may_run(bound, one))  # one GPU of any of these types is enough
    assert decided.missing == max(0, replicas - room)
    taken = sum(each.replicas * each.split.gpus for each in decided.pools)
    assert neighbour.missing == (0 if taken < sum(one.allocatable for one in nodes) else 1)
