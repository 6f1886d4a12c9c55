"""The one rejection that a status reports: the candidate that came closest to a placement."""

from __future__ import annotations

from itertools import pairwise

import pytest

from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.public_words import MAY_PASS, WISHED, Numbers, Reason
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import nearest_sentence, place_words
from tests.support.planning import A100, H100, L4

FIGURES: dict[Reason, Numbers] = {
    Reason.GPUS_TAKEN: (("gpus", 1), ("free", 0)),
    Reason.QUOTA_EXCEEDED: (("gpus", 1), ("left", 0), ("resource", "nvidia.com/gpu")),
    Reason.NODE_LACKS_CPU: (("asked_millis", 2000), ("free_millis", 1000), ("largest_millis", 8000)),
    Reason.NODE_LACKS_MEMORY: (("asked_bytes", 2 * GIB), ("free_bytes", GIB), ("largest_bytes", 8 * GIB)),
    Reason.NODE_LACKS_PODS: (("largest", 110),),
    Reason.NODE_LACKS_RESOURCE: (("resource", "rdma/ib"), ("asked", 1), ("free", 0), ("largest", 0)),
    Reason.MOVE_FAILED: (("failure", "EngineCrashed"),),
    Reason.LIMIT_RANGE_EXCEEDED: (
        *(("rule", "max"), ("resource", "cpu"), ("limited", "Container"), ("limit_range", "small")),
        *(("bound_thousandths", 1000), ("asked_thousandths", 2000), ("asked_of", "limit")),
    ),
    Reason.GPU_TYPE_DENIED: (("field", "spec.gpu.deny"),),
    Reason.CAPACITY_TYPE_DENIED: (("capacity", "spot"),),
    Reason.GPU_TYPE_NOT_FORCED: (("forced", "l4-24gb"),),
    Reason.SPLIT_NOT_FORCED: (("forced", 2),),
    Reason.TOO_MANY_GPUS_PER_REPLICA: (("gpus", 2), ("limit", 1)),
}


def rejected(kind: str, reason: Reason, split: Split = Split(1), **numbers: int) -> Rejection:  # noqa: B008
    return Rejection(kind, split, reason, FIGURES.get(reason, tuple(numbers.items())))


def too_little(kind: str, need: int, have: int) -> Rejection:
    return rejected(kind, Reason.TOO_LITTLE_VRAM, need_bytes=need, have_bytes=have)


def nearest(*rejections: Rejection) -> str:
    """The GPU type that is reported, whatever the order of the rejections."""
    (found,) = {nearest_sentence(order).split(" ")[0] for order in (rejections, rejections[::-1])}
    return found


def test_without_rejections_there_is_nothing_to_report() -> None:
    assert nearest_sentence(()) == ""


def test_the_sentence_names_the_place_and_the_reason() -> None:
    assert nearest_sentence([too_little(H100, 80 * GIB, 72 * GIB)]) == (
        "h100-sxm-80gb x 1 needs 80.00 GiB per GPU, the engine may use 72.00 GiB"
    )


@pytest.mark.parametrize(
    ("split", "words"), [(Split(2), "l4-24gb x 2"), (Split(2, 4), "l4-24gb x 2 x 4 stages"), (Split(1), "l4-24gb x 1")]
)
def test_stages_are_named_where_there_are_several(split: Split, words: str) -> None:
    assert place_words(L4, split) == words


def test_a_candidate_that_fits_and_waits_comes_before_one_that_lacks_little_memory() -> None:
    for reason in (*MAY_PASS, Reason.LIMIT_RANGE_EXCEEDED):
        assert nearest(rejected(H100, reason), too_little(A100, 101, 100)) == H100


def test_of_candidates_that_wait_those_that_wait_for_gpus_come_first_and_those_of_a_limit_range_last() -> None:
    """The last one fits, and waits for somebody who changes a figure."""
    assert (MAY_PASS[0], MAY_PASS[-1]) == (Reason.GPUS_TAKEN, Reason.MOVE_FAILED)
    for earlier, later in pairwise((*MAY_PASS, Reason.LIMIT_RANGE_EXCEEDED)):
        assert nearest(rejected(H100, earlier), rejected(A100, later)) == H100


def test_the_shortfall_counts_relative_to_the_memory_that_is_there() -> None:
    assert nearest(too_little(H100, 100 * GIB, 80 * GIB), too_little(A100, 30 * GIB, 20 * GIB)) == H100


def test_a_gpu_without_any_memory_to_use_is_compared_as_well() -> None:
    assert nearest(too_little(A100, 3, 0), too_little(H100, 5, 2)) == H100
    assert nearest(too_little(H100, 3, 0), too_little(A100, 7, 2)) == H100


def test_a_lack_of_memory_comes_before_a_split_that_is_impossible() -> None:
    assert nearest(too_little(H100, 900 * GIB, GIB), rejected(A100, Reason.HEADS_NOT_DIVISIBLE, heads=28)) == H100


def test_a_reason_with_only_one_of_the_two_figures_is_no_lack_of_memory() -> None:
    lone = rejected(A100, Reason.HEADS_NOT_DIVISIBLE, heads=28, need_bytes=1)
    assert nearest(too_little(H100, 900 * GIB, GIB), lone) == H100


def test_what_the_user_rules_out_is_the_farthest() -> None:
    for reason in WISHED:
        assert nearest(rejected(A100, reason), rejected(H100, Reason.HEADS_NOT_DIVISIBLE, heads=28)) == H100


def test_a_place_that_was_left_is_the_last_to_be_named() -> None:
    left = Rejection(A100, Split(1), Reason.NODE_LEFT, (("nodes", 1), ("left", "a (GpuUnusable)")))
    assert nearest(left, rejected(H100, Reason.GPU_TYPE_DENIED)) == H100


def test_among_equals_the_name_of_the_gpu_type_decides() -> None:
    assert nearest(too_little(H100, 2, 1), too_little(A100, 2, 1)) == A100
    assert nearest(*(rejected(kind, Reason.HEADS_NOT_DIVISIBLE, heads=28) for kind in (H100, A100))) == A100
