"""A memo answers only from equal facts, serves requests that are alike, and stays within its bound."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import pytest

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Taint
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.ledger import Quotas
from plimsoll.placement.memo import Answer, Memo
from plimsoll.placement.options.feasibility import sized
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L4, L40S, LLAMA_70B_FP8, MI300X, fleet, gpu, node, request, tenant
from tests.support.tables import every_case

CATALOG = (gpu(H100), gpu(L4), gpu(MI300X))
ZONE_A = {"zone": "a"}
SMALL = HostRoom(cpu_millis=64_000, memory_bytes=2**30)


@dataclass
class Question:
    """Something to ask; counts how often the answer had to be found."""

    answer: str = "found"
    times: int = 0

    def find(self) -> str:
        self.times += 1
        return self.answer


class CountingMemo(Memo):
    """Counts answers that had to be found."""

    found = 0

    def recall(self, request: Request, question: Hashable, basis: object, find: Callable[[], Answer]) -> Answer:
        def counted() -> Answer:
            self.found += 1
            return find()

        return super().recall(request, question, basis, counted)


def test_the_same_question_on_the_same_basis_is_answered_once() -> None:
    memo, asked = Memo(), Question()
    told = [memo.recall(request(), "q", gpu(H100), asked.find) for _ in range(3)]
    assert (told, asked.times) == (["found"] * 3, 1)


@every_case(
    "other",
    [
        request(context=4097),
        request(concurrency=9),
        request(LLAMA_70B_FP8),
        request(node_selector=(("zone", "a"),)),
        request(constraints=GpuConstraints(deny=(L4,))),
        request(overrides=Overrides(memory_per_gpu_bytes=2**30)),
        request(failed_starts=((L4, Split(1)),)),
    ],
    ids=lambda each: str(each.model.name),
)
def test_a_request_that_asks_for_something_else_has_answers_of_its_own(other: Request) -> None:
    memo, first, second = Memo(), Question("first"), Question("second")
    memo.recall(request(), "q", None, first.find)
    assert memo.recall(other, "q", None, second.find) == "second"
    assert memo.recall(request(), "q", None, second.find) == "first"


def test_requests_that_ask_for_the_same_share_an_answer_whoever_makes_them() -> None:
    memo, asked = Memo(), Question()
    for name in "abc":
        same = replace(request(), key=ObjectKey("team-" + name, name), replicas=ord(name), created=name)
        assert memo.recall(same, "q", None, asked.find) == "found"
    assert asked.times == 1


def test_another_basis_replaces_the_answer_instead_of_adding_to_the_memo() -> None:
    memo, asked = Memo(), Question()
    for basis in range(5):
        memo.recall(request(), "q", basis, asked.find)
    assert (asked.times, len(memo)) == (5, 1)


def test_an_answer_may_ask_the_memo_for_others() -> None:
    memo, inner = Memo(), Question()
    outer = memo.recall(request(), "outer", None, lambda: memo.recall(request(context=99), "inner", None, inner.find))
    assert (outer, len(memo)) == ("found", 2)


def test_the_bound_is_kept_and_the_longest_unasked_is_forgotten_first() -> None:
    memo, asked = Memo(most=2), Question()
    first, second, third = (request(context=tokens) for tokens in (100, 200, 300))
    for each in (first, second, first, third):
        memo.recall(each, "q", None, asked.find)
    assert (asked.times, len(memo)) == (3, 2)
    memo.recall(first, "q", None, asked.find)
    assert asked.times == 3
    memo.recall(second, "q", None, asked.find)
    assert (asked.times, len(memo)) == (4, 2)


def test_an_estimate_is_made_anew_for_a_gpu_that_reports_other_memory() -> None:
    memo, larger = Memo(), replace(gpu(H100), usable_bytes=gpu(H100).usable_bytes + 2**30)
    for kind in (gpu(H100), larger, gpu(H100)):
        assert sized(request(), kind, Split(1), memo) == sized(request(), kind, Split(1))


BASE = (
    node("h", H100, 4, held=4, labels=ZONE_A),
    node("l", L40S, 4, held=4, labels=ZONE_A),
    node("x", L4, 1, labels=ZONE_A),
)
WAITING = (
    request(LLAMA_70B_FP8, name="waits"),
    request(name="small", context=32_768, constraints=GpuConstraints(allow=(L4,))),
    request(LLAMA_70B_FP8, name="bound", constraints=GpuConstraints(deny=(H100,)), node_selector=(("zone", "a"),)),
)


def repriced(each: GpuNode, usd: str) -> GpuNode:
    return replace(each, gpu=gpu(each.gpu.name, price=usd))


def resized(each: GpuNode, gib: int) -> GpuNode:
    return replace(each, gpu=replace(each.gpu, usable_bytes=each.gpu.usable_bytes + gib * 2**30))


CHANGES: dict[str, Callable[[GpuNode], GpuNode]] = {
    "all GPUs of a node are freed": lambda each: replace(each, held=0 if each.name == "l" else each.held),
    "one GPU of a node is freed": lambda each: replace(each, held=3 if each.name == "h" else each.held),
    "the last GPU is taken": lambda each: replace(each, held=each.allocatable),
    "a node has fewer GPUs": lambda each: replace(each, allocatable=1),
    "a node moves to another zone": lambda each: replace(each, labels=(("zone", "b"),)),
    "the processors of the nodes are taken": lambda each: replace(each, host_free=HostRoom(cpu_millis=100)),
    "the nodes turn out to have little memory": lambda each: replace(each, host=SMALL, host_free=SMALL),
    "the nodes take no further pod": lambda each: replace(each, host_free=HostRoom(pods=0)),
    "a node is tainted": lambda each: replace(each, taints=(Taint("team", "ml", "NoSchedule"),)),
    "prices change": lambda each: repriced(each, {"h": "0.10", "l": "9.00", "x": "5.00"}[each.name]),
    "a price is lost": lambda each: replace(each, gpu=gpu(each.gpu.name, price=None)),
    "GPUs report less memory": lambda each: resized(each, -12),
    "GPUs report more memory": lambda each: resized(each, 300),
    "GPUs are replaced": lambda each: node(each.name, MI300X, 8, held=each.held, labels=ZONE_A),
}


@every_case("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_in_the_cluster_changes_the_answer_at_once(change: Callable[[GpuNode], GpuNode]) -> None:
    before, after, memo = fleet(*BASE), fleet(*map(change, BASE)), Memo()
    assert decided(before, memo) == decided(before, Memo())
    assert decided(after, memo) == decided(after, Memo()) != decided(before, Memo())
    assert decided(before, memo) == decided(before, Memo())


def test_another_catalogue_changes_what_is_to_be_bought_at_once() -> None:
    memo, where = Memo(), fleet(*BASE)
    fewer = CATALOG[1:2]
    for catalog in (CATALOG, fewer, CATALOG):
        assert decided(where, memo, catalog) == decided(where, Memo(), catalog)
    assert decided(where, memo, CATALOG) != decided(where, memo, fewer)


RENAMED = tuple(replace(each, name=f"{each.name}-shared", resource="nvidia.com/gpu.shared") for each in BASE)
"""Nodes of the same types whose device plugin shares GPUs in time and names them otherwise."""


@pytest.mark.parametrize("nodes", [BASE, (*BASE, *RENAMED)], ids=["one resource", "two resources of one type"])
def test_a_quota_that_changes_changes_the_answer_at_once(nodes: tuple[GpuNode, ...]) -> None:
    memo, where = Memo(), fleet(*nodes)
    spent: Quotas = {"default": {"nvidia.com/gpu": 0}}
    for limits in ({}, spent, {"default": {"nvidia.com/gpu": 1}}, spent, {}):
        assert decided(where, memo, quotas=limits) == decided(where, Memo(), quotas=limits)
    assert decided(where, memo, quotas={}) != decided(where, memo, quotas=spent)


def test_a_place_that_was_left_is_closed_at_once_and_open_again_an_hour_later() -> None:
    memo, where = Memo(), fleet(node("h", H100, 4), node("l", L40S, 4))
    (open_to_all,) = plan([tenant(request())], where, CATALOG, memo=memo)
    assert open_to_all.choice is not None
    left = (Rehoming(open_to_all.choice.gpu.name, open_to_all.choice.split, at=0.0),)
    (elsewhere,) = plan([tenant(request(), left=left)], where, CATALOG, memo=memo)
    assert elsewhere.choice is not None
    assert elsewhere.choice.gpu != open_to_all.choice.gpu
    assert plan([tenant(request())], where, CATALOG, memo=memo) == (open_to_all,)


def test_a_neighbour_with_a_quota_or_other_processors_overwrites_no_answer() -> None:
    """They ask for the same and have other room: their answers lie side by side."""
    where = fleet(*(replace(each, host_free=HostRoom(cpu_millis=4_000)) for each in BASE))
    alike = [request(LLAMA_70B_FP8, name=name) for name in "abc"]
    alike[1] = replace(alike[1], key=ObjectKey("limited", "b"))
    alike[2] = replace(alike[2], cpu_millis=8_000)
    memo = CountingMemo()
    for _ in range(2):
        memo.found = 0
        plan([tenant(each) for each in alike], where, CATALOG, quotas={"limited": {"nvidia.com/gpu": 0}}, memo=memo)
    assert memo.found == 0


def test_a_request_whose_answers_all_raise_takes_up_no_room_for_ever() -> None:
    memo = Memo(4)
    for context in range(1, 50):
        with pytest.raises(ValueError, match="no law"):
            memo.recall(request(context=context), "q", None, _raises)
    assert memo.requests <= 4
    asked, others = Question(), Question()
    for _ in range(3):
        memo.recall(request(context=50), "q", None, asked.find)
        memo.recall(request(context=51), "q", None, others.find)
    assert (asked.times, others.times) == (1, 1), "the oldest went, and not the newest"


def _raises() -> str:
    raise ValueError("no law")


def decided(
    where: Fleet, memo: Memo, catalog: Sequence[GpuType] = CATALOG, quotas: Quotas | None = None
) -> list[tuple[object, ...]]:
    """Everything that is decided, without the requests, which are long to print."""
    decisions = plan([tenant(each) for each in WAITING], where, catalog, quotas=quotas, memo=memo)
    return [(each.pools, each.missing, each.rejections, each.remedies, each.warnings) for each in decisions]


def test_a_request_is_forgotten_with_all_its_answers() -> None:
    memo, asked = Memo(most=3), Question()
    first, second = request(context=100), request(context=200)
    for wanted, question in ((first, "a"), (first, "b"), (second, "a")):
        memo.recall(wanted, question, None, asked.find)
    assert (len(memo), memo.requests) == (3, 2)
    memo.recall(second, "b", None, asked.find)
    assert (len(memo), memo.requests) == (2, 1)
    memo.recall(second, "a", None, asked.find)
    assert asked.times == 4
    memo.recall(first, "a", None, asked.find)
    assert (asked.times, len(memo), memo.requests) == (5, 3, 2)


def test_a_memo_without_room_still_answers() -> None:
    memo, asked = Memo(most=0), Question()
    assert [memo.recall(request(), "q", None, asked.find) for _ in range(2)] == ["found"] * 2
    assert (len(memo), memo.requests) == (0, 0)
