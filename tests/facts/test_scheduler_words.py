"""The scheduler's sentences, as releases from 1.28 to 1.36 write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.facts.cluster.scheduler_words import (
    Obstacle,
    chief_obstacle,
    may_go_elsewhere,
    obstacle_words,
    read_obstacles,
)
from tests.support.tables import every_case
from tests.support.work import measured_effort

PREEMPTION = (
    " preemption: 0/6 nodes are available: 1 No preemption victims found for incoming pod, 5 Preemption is not "
)
PREEMPTION += "helpful for scheduling."
OTHERS = "5 node(s) didn't match Pod's node affinity/selector"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NOT_MADE_YET = "waiting for ephemeral volume controller to create the persistentvolumeclaim"

MOVES = [
    (f"0/6 nodes are available: 1 Insufficient nvidia.com/gpu, {OTHERS}.{PREEMPTION}", Obstacle.GPUS),
    (f"0/6 nodes are available: 1 Insufficient amd.com/gpu, {OTHERS}.", Obstacle.GPUS),
    (f"0/6 nodes are available: 1 Insufficient nvidia.com/mig-3g.40gb, {OTHERS}.", Obstacle.GPUS),
    (
        "0/6 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {amd.com/gpu: present}"
        ", 4 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate," + PREEMPTION,
        Obstacle.GPUS,
    ),
    (f"0/5 nodes are available: {OTHERS}. preemption: 0/5 nodes are available: 5 Preemption is not helpful.",
     Obstacle.NODES_GONE),
    (f"0/6 nodes are available: 1 node(s) were unschedulable, {OTHERS}.", Obstacle.NODES_GONE),
    (
        f"0/6 nodes are available: 1 node(s) had untolerated taint {{node.kubernetes.io/unreachable: }}, {OTHERS}.",
        Obstacle.NODES_GONE,
    ),
    ("no nodes available to schedule pods", Obstacle.NODES_GONE),
    (
        f"0/6 nodes are available: 1 node(s) had volume node affinity conflict, {OTHERS}.{PREEMPTION}",
        Obstacle.VOLUME_ELSEWHERE,
    ),
    (
        f"0/6 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, {OTHERS}.",
        Obstacle.VOLUME_ELSEWHERE,
    ),
    (f"0/6 nodes are available: 1 node(s) had no available volume zone, {OTHERS}.", Obstacle.VOLUME_ELSEWHERE),
    (f"0/6 nodes are available: 1 node(s) did not have enough free storage, {OTHERS}.", Obstacle.NO_VOLUME_THERE),
    (f"0/6 nodes are available: 1 node(s) exceed max volume count, {OTHERS}.", Obstacle.NO_VOLUME_THERE),
    (f"0/6 nodes are available: 1 node(s) had no available disk, {OTHERS}.", Obstacle.NO_VOLUME_THERE),
    (
        f"0/6 nodes are available: 1 ebs.csi.aws.com CSI driver is not installed on the node, {OTHERS}.",
        Obstacle.NO_VOLUME_THERE,
    ),
]  # fmt: skip

STAYS = [
    (
        f"0/6 nodes are available: 1 node(s) didn't find available persistent volumes to bind, {OTHERS}.{PREEMPTION}",
        Obstacle.VOLUMES,
    ),
    (f"0/6 nodes are available: 1 Insufficient cpu, {OTHERS}.{PREEMPTION}", Obstacle.CPU),
    (f"0/6 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, {OTHERS}.", Obstacle.CPU),
    (f"0/6 nodes are available: 1 Insufficient memory, {OTHERS}.", Obstacle.MEMORY),
    (f"0/6 nodes are available: 1 Insufficient ephemeral-storage, {OTHERS}.", Obstacle.OTHER_RESOURCE),
    (f"0/6 nodes are available: 1 Too many pods, {OTHERS}.", Obstacle.PODS),
    (
        f"0/6 nodes are available: 6 {IN_USE}.",
        Obstacle.VOLUMES,
    ),
    (
        "0/6 nodes are available: 6 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).",
        Obstacle.VOLUMES,
    ),
    ('0/6 nodes are available: persistentvolumeclaim "weights" is being deleted.', Obstacle.VOLUMES),
    (
        '0/6 nodes are available: persistentvolumeclaim "weights" bound to non-existent persistentvolume "pv-a".',
        Obstacle.VOLUMES,
    ),
    (
        f'0/6 nodes are available: {NOT_MADE_YET} "a-scratch".',
        Obstacle.VOLUMES,
    ),
    ('0/6 nodes are available: storageclass.storage.k8s.io "fast" not found.', Obstacle.VOLUMES),
    ('0/6 nodes are available: VolumeBindingMode not set for StorageClass "fast".', Obstacle.VOLUMES),
    ('running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded', Obstacle.VOLUMES),
    (
        f"0/6 nodes are available: 1 node(s) exceed max volume count, 1 Insufficient cpu, {OTHERS}.",
        Obstacle.CPU,
    ),
    ('0/6 nodes are available: persistentvolumeclaim "weights" not found. preemption: 0/6 nodes.', Obstacle.VOLUMES),
    ("0/6 nodes are available: pod has unbound immediate PersistentVolumeClaims.", Obstacle.VOLUMES),
    (f"0/6 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, {OTHERS}.",
     Obstacle.PORTS),
    (f"0/6 nodes are available: 1 node(s) didn't match pod topology spread constraints, {OTHERS}.",
     Obstacle.SPREADING),
    (f"0/6 nodes are available: 1 node(s) didn't match pod anti-affinity rules, {OTHERS}.", Obstacle.SPREADING),
    (f"0/6 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, {OTHERS}.",
     Obstacle.SPREADING),
    ("exceeded quota: gpus, requested: requests.nvidia.com/gpu=8", Obstacle.QUOTA),
    (f"0/6 nodes are available: 1 node(s) were refused by a plugin of ours, {OTHERS}.", Obstacle.UNKNOWN),
    ("running PreFilter plugin: timed out", Obstacle.UNKNOWN),
    ("", Obstacle.UNKNOWN),
]  # fmt: skip


@every_case(("message", "chief"), MOVES)
def test_where_only_gpus_or_nodes_are_missing_other_gpus_may_help(message: str, chief: Obstacle) -> None:
    seen = read_obstacles("Unschedulable", message)
    assert may_go_elsewhere(seen)
    assert chief_obstacle(seen) is chief


@every_case(("message", "found"), STAYS)
def test_whatever_else_a_pod_waits_for_keeps_it_where_it_is(message: str, found: Obstacle) -> None:
    seen = read_obstacles("Unschedulable", message)
    assert found in seen
    assert not may_go_elsewhere(seen)


def test_a_gated_pod_is_known_by_its_reason() -> None:
    seen = read_obstacles("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    assert seen == (Obstacle.GATES,)
    assert not may_go_elsewhere(seen)


def test_no_obstacle_at_all_is_no_leave_to_go() -> None:
    assert not may_go_elsewhere(())


@pytest.mark.parametrize(
    ("obstacles", "words"),
    [
        ((Obstacle.CPU, Obstacle.OTHER_NODES), "free CPU"),
        ((Obstacle.GPUS, Obstacle.CPU), "free GPUs and free CPU"),
        ((Obstacle.OTHER_NODES,), "a node with the right labels and taints"),
        ((Obstacle.CPU, Obstacle.UNKNOWN), ""),
        ((), ""),
    ],
)
def test_what_is_waited_for_is_said_in_plain_words(obstacles: tuple[Obstacle, ...], words: str) -> None:
    assert obstacle_words(obstacles) == words


def test_every_obstacle_that_is_known_has_its_words() -> None:
    assert [each for each in Obstacle if not obstacle_words([each])] == [Obstacle.UNKNOWN]


@given(st.text(), st.text(max_size=300))
def test_any_text_is_read_into_something(reason: str, message: str) -> None:
    assert read_obstacles(reason, message)


def test_no_message_keeps_its_reader_busy() -> None:
    with measured_effort() as spent:
        assert read_obstacles("Unschedulable", "0/1 nodes are available: a" + " " * 30_000 + "b") == (Obstacle.UNKNOWN,)
    assert spent.amount < 30
