"""A pass does only the work that is new: counted in estimates, which no busy machine can falsify."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, LLAMA_70B_FP8, MI300X, fleet, gpu, node, pool, request, tenant

CATALOG = load_gpu_types()
KINDS = (H100, A100, L40S, L4, MI300X)
EMPTY = fleet(*(node(f"n{index:02d}", KINDS[index % 5], 4) for index in range(20)))
FULL = EMPTY.with_nodes(replace(each, held=each.allocatable) for each in EMPTY.nodes)
SERVED = [
    tenant(request(name=f"d{index:02d}", concurrency=1 + index), pool(kind))
    for index, kind in enumerate((H100, L40S, MI300X, A100))
]
UNPLACEABLE = [tenant(request(name=f"u{index}", context=131_072, concurrency=5_000 + index)) for index in range(4)]
NEW = tenant(request(LLAMA_70B_FP8, name="new", created="2026-01-02T00:00:00Z"))


class Counter:
    """Stands before the estimate and counts who passes."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, wanted: Request, kind: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
        self.calls += 1
        return estimate(wanted, kind, split, settings)

    def taken(self) -> int:
        """Calls since the last time it was asked."""
        calls, self.calls = self.calls, 0
        return calls


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counting = Counter()
    monkeypatch.setitem(ENGINES, VLLM.name, replace(VLLM, estimate=counting))
    return counting


def read_anew(where: Fleet) -> Fleet:
    """Equal facts in new objects, as every pass reads them from the nodes."""
    return where.with_nodes(replace(each, gpu=replace(each.gpu)) for each in where.nodes)


def planned(tenants: Iterable[Tenant], where: Fleet, memo: Memo) -> tuple[Decision, ...]:
    return plan(list(tenants), read_anew(where), CATALOG, memo=memo)


@pytest.mark.parametrize(
    ("tenants", "where"),
    [(SERVED, EMPTY), ([*SERVED, *UNPLACEABLE], EMPTY), ([NEW, *UNPLACEABLE], FULL)],
    ids=["everything is served", "some fit nowhere", "all GPUs are held"],
)
def test_a_pass_over_an_unchanged_world_makes_no_estimate(
    tenants: list[Tenant], where: Fleet, counter: Counter
) -> None:
    memo = Memo()
    first = planned(tenants, where, memo)
    assert counter.taken() > 0
    assert planned(tenants, where, memo) == first
    assert counter.taken() == 0


def test_a_new_deployment_makes_its_own_estimates_and_nobody_elses(counter: Counter) -> None:
    planned([NEW], EMPTY, Memo())
    own, memo = counter.taken(), Memo()
    planned([*SERVED, *UNPLACEABLE], EMPTY, memo)
    counter.taken()
    decisions = planned([*SERVED, *UNPLACEABLE, NEW], EMPTY, memo)
    assert counter.taken() == own > 0
    assert decisions[-1].request is NEW.request
    assert decisions[-1].choice is not None


def test_deployments_that_ask_for_the_same_are_estimated_once(counter: Counter) -> None:
    planned([NEW], FULL, Memo())
    one = counter.taken()
    planned([tenant(request(LLAMA_70B_FP8, name=f"same-{index}")) for index in range(5)], FULL, Memo())
    assert counter.taken() == one


def test_no_remedy_is_searched_among_gpus_that_are_held(counter: Counter) -> None:
    """The table of candidates costs what it costs; a smaller load or fewer bits free no GPU."""
    memo = Memo()
    told = planned([NEW], FULL, memo)[0]
    whole = counter.taken()
    assert [each.kind for each in told.remedies] == [RemedyKind.FREE_GPUS, RemedyKind.ADD_GPUS]
    plan([NEW], read_anew(FULL), memo=Memo())
    table = counter.taken()
    assert table < whole <= table + 2 * 4 * len(CATALOG)


def test_a_gpu_that_becomes_free_is_seen_in_the_next_pass() -> None:
    memo = Memo()
    assert [each.missing for each in planned([*UNPLACEABLE, NEW], FULL, memo)] == [1] * (len(UNPLACEABLE) + 1)
    freed = FULL.with_nodes(replace(each, held=0 if each.gpu.name == MI300X else each.held) for each in FULL.nodes)
    *others, new = planned([*UNPLACEABLE, NEW], freed, memo)
    assert new.choice is not None
    assert new.choice.gpu.name == MI300X
    assert [each.missing for each in others] == [1] * len(UNPLACEABLE)


def test_a_gpu_type_that_changes_costs_the_estimates_of_that_type_only(counter: Counter) -> None:
    memo = Memo()
    planned([NEW], FULL, memo)
    plan([NEW], FULL, memo=Memo())
    everything = counter.taken()
    dearer = gpu(L40S, price="99")
    plan(
        [NEW],
        FULL.with_nodes(replace(each, gpu=dearer) if each.gpu.name == L40S else each for each in FULL.nodes),
        memo=memo,
    )
    assert 0 < counter.taken() < everything / 2
