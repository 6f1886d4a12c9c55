"""The host memory and CPU of a vLLM pod, against figures that were measured or that vLLM's source gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.host import HostEstimate
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    EngineVersion,
    HostUse,
    KvKeeper,
    Residency,
    WeightStreaming,
)
from plimsoll.domain.requests.serving import Request, fingerprint
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.host import LOADING_BYTES, RANK_BYTES, host
from plimsoll.memory.residency import host_weights, power_of_two
from tests.support.planning import LLAMA_8B, LLAMA_70B, LLAMA_70B_FP8, request
from tests.support.tables import every_case, examples

NVIDIA, AMD = Vendor.NVIDIA, Vendor.AMD


def with_engine(name: str = LLAMA_70B_FP8, **changes: Any) -> Request:
    wanted = request(name)
    return replace(wanted, engine=replace(wanted.engine, **changes))


def terms(estimate: HostEstimate) -> dict[str, int]:
    return {term.name: term.size_bytes for term in estimate.terms}


@pytest.mark.parametrize(
    ("gpus", "cpus", "gigabytes", "shm"), [(1, 2, 8, 2), (2, 3, 11, 2), (4, 5, 19, 4), (8, 9, 35, 8)]
)
def test_a_usual_engine_asks_for_little_by_its_ranks(gpus: int, cpus: int, gigabytes: int, shm: int) -> None:
    """One GPU asks for what every engine asked for before; the machines of the clouds have several times that a GPU."""
    found = host(request(), NVIDIA, Split(gpus))
    assert (found.cpu_millis, found.memory_bytes, found.shm_bytes) == (cpus * 1000, gigabytes * GIB, shm * GIB)
    assert found.least_bytes == 0, "nothing of it is certain: the user may give less"


def test_a_rank_that_loads_gets_what_one_was_seen_to_hold() -> None:
    """vllm#57469: anon-rss 3131928 kB of a rank on H20 while it loaded a checkpoint of 510 GB, TP 4."""
    assert abs(RANK_BYTES + LOADING_BYTES - 3_131_928 * 1024) < GIB // 8


def test_reading_whole_files_takes_the_largest_file_a_rank() -> None:
    eager = host(with_engine(host=HostUse(reads_whole_files=True)), NVIDIA, Split(2))
    assert terms(eager)["loading"] == 2 * 5 * 10**9


@pytest.mark.parametrize(("gpus", "gigabytes"), [(1, 20), (2, 40)])
def test_offloaded_weights_of_all_ranks_are_in_the_need(gpus: int, gigabytes: int) -> None:
    found = host(with_engine(residency=CpuOffload(20 * GIB)), NVIDIA, Split(gpus))
    assert terms(found)["weights"] == gigabytes * GIB
    assert found.memory_bytes > (gigabytes + 8) * GIB
    assert found.least_bytes == (gigabytes + gpus) * GIB


def test_no_more_is_offloaded_than_the_layers_weigh() -> None:
    layers = terms(host(with_engine(LLAMA_8B, residency=CpuOffload(800 * GIB)), NVIDIA, Split(1)))["weights"]
    # 32 layers of 218,112,000 parameters in bf16: q, k, v, o, three projections of the MLP and two norms.
    assert layers == 32 * 2 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096)


def test_page_locked_buffers_are_powers_of_two() -> None:
    """An 8B's projections of 4096 x 14336 in bf16 take 112 MiB, in buffers of 128; the others fill theirs."""
    kept = host_weights(request().model, request().precision, Split(1), CpuOffload(800 * GIB))
    assert kept.rounding_bytes == pytest.approx(32 * 3 * 16 * MIB, rel=0.01)
    assert [power_of_two(size) for size in (0, 1, 2, 3, 112 * MIB)] == [0, 1, 2, 4, 128 * MIB]


def test_streamed_layers_are_in_the_need_on_every_stage() -> None:
    streaming = WeightStreaming(group=4, layers=1)
    whole = host(with_engine(LLAMA_8B, residency=CpuOffload(800 * GIB)), NVIDIA, Split(1))
    for split in (Split(1), Split(1, pipeline_parallel=2)):
        found = host(with_engine(LLAMA_8B, residency=streaming), NVIDIA, split)
        assert terms(found)["weights"] == terms(whole)["weights"] // 4


@every_case(
    ("version", "vendor", "keeper", "in_shm", "added"),
    [
        ((0, 32), NVIDIA, KvKeeper.NATIVE, 20, 20),
        ((0, 27), NVIDIA, KvKeeper.NATIVE, 20, 20),
        ((0, 26), NVIDIA, KvKeeper.NATIVE, 0, 40),
        ((0, 32), AMD, KvKeeper.NATIVE, 0, 40),
        ((0, 26), AMD, KvKeeper.TIERS, 20, 20),
        ((0, 32), NVIDIA, KvKeeper.BUFFERS, 0, 40),
        ((0, 22), NVIDIA, KvKeeper.LMCACHE, 0, 20),
        ((0, 23), NVIDIA, KvKeeper.LMCACHE, 0, 0),
    ],
)
def test_kv_cache_in_host_memory_is_where_the_release_keeps_it(
    version: tuple[int, int], vendor: Vendor, keeper: KvKeeper, in_shm: int, added: int
) -> None:
    """The size is that of all ranks together, so it is added once."""
    release = EngineVersion(*version)
    plain = host(with_engine(version=release), vendor, Split(4))
    found = host(with_engine(version=release, host=HostUse(20 * GIB, keeper)), vendor, Split(4))
    assert found.shm_bytes - plain.shm_bytes == in_shm * GIB
    assert found.memory_bytes - plain.memory_bytes == added * GIB
    assert found.least_bytes == ((20 + 4) * GIB if added else 0)


def test_lmcache_takes_its_size_for_each_rank() -> None:
    for ranks in (1, 4):
        plain = host(with_engine(), NVIDIA, Split(ranks))
        found = host(with_engine(host=HostUse(rank_bytes=5 * GIB)), NVIDIA, Split(ranks))
        assert found.memory_bytes - plain.memory_bytes == 5 * ranks * GIB
        assert found.shm_bytes == plain.shm_bytes


def test_media_in_shared_memory_are_memory_of_the_pod() -> None:
    found = host(with_engine(host=HostUse(media_bytes=4 * GIB)), NVIDIA, Split(1))
    assert (found.shm_bytes, found.memory_bytes, found.least_bytes) == (6 * GIB, 12 * GIB, 5 * GIB)


def test_tables_of_n_grams_are_in_the_need_once_for_all_ranks() -> None:
    """189 GiB of DeepSeek-V4.1-Flash: a pod with 8 GiB of them is killed while it loads (vllm#57469)."""
    facts = replace(request().model, host_bytes=189 * GIB)
    wanted = request(facts)
    for gpus in (4, 8):
        plain, found = host(request(), NVIDIA, Split(gpus)), host(wanted, NVIDIA, Split(gpus))
        assert found.memory_bytes - plain.memory_bytes == 189 * GIB
        assert found.least_bytes == (189 + gpus) * GIB
    moved = replace(wanted, engine=replace(wanted.engine, host=HostUse(places_tables=True)))
    assert host(moved, NVIDIA, Split(4)) == host(request(), NVIDIA, Split(4))
    assert fingerprint(facts, wanted.engine) == fingerprint(request().model, wanted.engine), "what was learned stays"


residencies = st.none() | st.integers(0, 200).map(lambda gib: CpuOffload(gib * GIB))
keepers = st.sampled_from(KvKeeper)


@settings(max_examples=examples(150), deadline=None)
@given(
    name=st.sampled_from([LLAMA_8B, LLAMA_70B, LLAMA_70B_FP8]),
    residency=residencies,
    kv_bytes=st.integers(0, 2**40),
    more=st.integers(0, 2**38),
    keeper=keepers,
    release=st.integers(20, 33),
    vendor=st.sampled_from(Vendor),
    degree=st.sampled_from([1, 2, 4]),
)
def test_the_need_never_falls_with_ranks_or_bytes(
    *,
    name: str,
    residency: Residency | None,
    kv_bytes: int,
    more: int,
    keeper: KvKeeper,
    release: int,
    vendor: Vendor,
    degree: int,
) -> None:
    def need(kept: int, weights: Residency | None, ranks: int) -> HostEstimate:
        wanted = with_engine(name, version=EngineVersion(0, release), residency=weights, host=HostUse(kept, keeper))
        return host(wanted, vendor, Split(ranks))

    smaller = need(kv_bytes, residency, degree)
    larger = residency if residency is None else CpuOffload(residency.bytes_per_gpu + more)  # type: ignore[union-attr]
    for other in (need(kv_bytes + more, residency, degree), need(kv_bytes, residency, 2 * degree)):
        assert other.memory_bytes >= smaller.memory_bytes
        assert other.shm_bytes >= smaller.shm_bytes
        assert other.cpu_millis >= smaller.cpu_millis
    assert need(kv_bytes, larger, degree).least_bytes >= smaller.least_bytes
    assert smaller.least_bytes <= smaller.memory_bytes, "an engine with the usual request is never below the least"
    assert smaller.shm_bytes <= smaller.memory_bytes, "shared memory is memory of the pod"
    assert sum(terms(smaller).values()) <= smaller.memory_bytes < sum(terms(smaller).values()) + GIB
