"""KV cache in host memory: what the engine is given, what it keeps there, and where it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.api.conversion.convert import check_without_model, to_request
from plimsoll.domain.cluster.host import HostCache
from plimsoll.domain.decisions.outcomes import Fit, Option, Split
from plimsoll.domain.engines.engine_choice import EngineVersion, HostUse, KvKeeper
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import GIB, MIB, parse_bytes
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import StartOptions
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.placement.options.candidates import candidate_on
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.places.warnings import choice_warnings
from tests.api.manifests import deployment
from tests.render.workloads import container, options, rendered
from tests.support.planning import ENGINE, H100, LLAMA_8B, LLAMA_70B_FP8, MI300X, fleet, gpu, model, node, request
from tests.support.tables import every_case, examples

GPT_OSS, DEEPSEEK = "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3"
HYBRID = "Qwen/Qwen3-Next-80B-A3B-Instruct"


def asked(size: int, name: str | ModelFacts = LLAMA_8B, release: str = "0.32.0", **changes: Any) -> Request:
    engine = replace(ENGINE, version=EngineVersion.of(release), host=HostUse(size, by_spec=True))
    return request(name, engine=engine, **changes)


def kept(wanted: Request, split: Split, kind: str = H100) -> HostCache:
    settings = VLLM.settings(wanted, gpu(kind), split)
    found = VLLM.host_cache(wanted, gpu(kind), split, settings, VLLM.estimate(wanted, gpu(kind), split, settings))
    assert found is not None
    return found


@every_case(
    ("name", "release", "degree", "kind", "chunk", "tokens_of_chunk"),
    [
        # 16 tokens of 32 layers, 8 heads of 128, keys and values in 2 bytes: 2 MiB, over any number of ranks.
        (LLAMA_8B, "0.32.0", 1, H100, 2 * MIB, 16),
        (LLAMA_8B, "0.32.0", 4, H100, 2 * MIB, 16),
        # 16 ranks share 8 heads, so each has a copy of one.
        (LLAMA_70B_FP8, "0.32.0", 8, H100, 5 * MIB, 16),
        # 61 layers of 576 values in 2 bytes, padded to a page: one copy since 0.32, eight before, and in private
        # buffers.
        (DEEPSEEK, "0.32.0", 8, H100, 1_126_400, 16),
        (DEEPSEEK, "0.31.0", 8, H100, 8 * 16 * 61 * 576 * 2, 16),
        (DEEPSEEK, "0.32.0", 8, MI300X, 8 * 16 * 61 * 576 * 2, 16),
    ],
)
def test_a_cache_holds_whole_chunks_of_a_block_of_every_rank(
    name: str, release: str, degree: int, kind: str, chunk: int, tokens_of_chunk: int
) -> None:
    size = 200 * GIB + 1
    found = kept(asked(size, name, release), Split(degree), kind)
    assert (found.asked_bytes, found.chunk_bytes, found.chunks) == (size, chunk, size // chunk)
    assert found.tokens == found.chunks * tokens_of_chunk
    assert not found.is_least


def test_layers_with_windows_take_blocks_of_their_own_so_the_tokens_are_the_least() -> None:
    """gpt-oss: 18 layers see everything and 18 a window; a block of either has 16 tokens."""
    found = kept(asked(100 * GIB, GPT_OSS), Split(2))
    assert found.chunk_bytes == 2 * 16 * 18 * (8 // 2) * 64 * 2 * 2
    assert (found.tokens, found.is_least) == (found.chunks * 16 // 2, True)


def test_the_users_own_flag_follows_the_same_law_and_a_server_of_its_own_does_not() -> None:
    by_flag = replace(asked(0), engine=replace(ENGINE, host=HostUse(64 * GIB)))
    assert kept(by_flag, Split(1)) == kept(asked(64 * GIB), Split(1))
    served = replace(by_flag, engine=replace(ENGINE, host=HostUse(64 * GIB, KvKeeper.LMCACHE)))
    where = gpu(H100), Split(1)
    flags = VLLM.settings(served, *where)
    assert VLLM.host_cache(served, *where, flags, VLLM.estimate(served, *where, flags)) is None
    assert engine_of("sglang").host_cache(served, *where, flags, VLLM.estimate(served, *where, flags)) is None


def test_it_makes_nothing_fit() -> None:
    """Running requests must be in VRAM: the verdict on every split is the same with and without."""
    where = fleet(node("h", H100, 8))
    for degree in (1, 2, 4, 8):
        candidate = candidate_on(gpu(H100), Split(degree), where, restricted=False)
        plain = judge(asked(0, LLAMA_70B_FP8, context=131_072, concurrency=16), candidate, where)
        cached = judge(asked(400 * GIB, LLAMA_70B_FP8, context=131_072, concurrency=16), candidate, where)
        assert type(plain) is type(cached)
        assert plain.figures is not None
        assert cached.figures is not None
        assert plain.figures.estimate == cached.figures.estimate
        if isinstance(plain, Option) and isinstance(cached, Option):
            assert (plain.cost, plain.doubts) == (cached.cost, cached.doubts)


def _shm(manifest: Manifest) -> int:
    volumes = manifest["spec"]["template"]["spec"]["volumes"]
    return parse_bytes(next(each["emptyDir"]["sizeLimit"] for each in volumes if each["name"] == "shm"))


@settings(max_examples=examples(60), deadline=None)
@given(
    size=st.integers(1, 2**41),
    release=st.sampled_from(["0.11.1", "0.22.0", "0.26.0", "0.27.0", "0.28.0", "0.32.0", "0.33.0"]),
    degree=st.sampled_from([1, 2, 4, 8]),
    kind=st.sampled_from([H100, MI300X]),
)
def test_the_pod_always_has_the_memory_of_its_cache(*, size: int, release: str, degree: int, kind: str) -> None:
    """The region of a start is at most what is asked; private buffers were measured at 1.92 times that."""
    place = Overrides(gpu_type=kind, tensor_parallel=degree)
    where, given_options = fleet(node("n", kind, 8)), options(engine_version=release)
    cached = rendered(given_options, asked(size, release=release, overrides=place), where)
    plain = rendered(given_options, asked(0, release=release, overrides=place), where)
    usual, engine = container(plain), container(cached)
    is_shared = kind == H100 and EngineVersion.of(release) >= (0, 27)
    asks, usually = (parse_bytes(each["resources"]["requests"]["memory"]) for each in (engine, usual))
    assert _shm(cached) - _shm(plain) >= (size if is_shared else 0)
    assert asks - usually >= (size if is_shared else 1.92 * size) - GIB, "in whole GiB"
    assert asks >= (size if is_shared else 1.92 * size)
    at = engine["args"].index("--kv-offloading-size")
    assert abs(float(engine["args"][at + 1]) * GIB - size) <= 1
    assert engine["args"][at + 2 : at + 4] == ["--kv-offloading-backend", "native"]
    engine["args"][at : at + 4] = []
    engine["resources"]["requests"]["memory"] = usual["resources"]["requests"]["memory"]
    assert engine == usual, "nothing else of the container changes"


def test_one_pod_as_it_is_rendered() -> None:
    engine = rendered(wanted=asked(200 * GIB, LLAMA_70B_FP8, overrides=Overrides(gpu_type=H100, tensor_parallel=2)))
    spec = engine["spec"]["template"]["spec"]
    assert container(engine)["resources"] == {
        "limits": {"nvidia.com/gpu": "2"},
        "requests": {"cpu": "3", "memory": "211Gi", "nvidia.com/gpu": "2"},
    }
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "202Gi"}} in spec["volumes"]
    arguments = container(engine)["args"]
    at = arguments.index("--kv-offloading-size")
    assert arguments[at : at + 4] == ["--kv-offloading-size", "200", "--kv-offloading-backend", "native"]


def variable(name: str, value: str) -> dict[str, Any]:
    return {"podTemplate": {"env": [{"name": name, "value": value}]}}


def tier(size: str = "200Gi", **spec: Any) -> dict[str, Any]:
    return {"kvCache": {"hostMemory": size}, **spec}


@every_case(
    ("spec", "name", "field", "value", "fix"),
    [
        (tier(engine={"version": "0.11.0"}), LLAMA_8B, "spec.kvCache.hostMemory", "200Gi", "use 0.11.1 or newer"),
        (
            tier(engine={"name": "sglang"}),
            LLAMA_8B,
            "spec.kvCache.hostMemory",
            "200Gi",
            "It is not supported with SGLang: remove the field, or set spec.engine.name to vllm",
        ),
        (tier("auto", engine={"name": "sglang"}), LLAMA_8B, "spec.kvCache.hostMemory", "auto", "remove the field"),
        (tier("1023Mi"), LLAMA_8B, "spec.kvCache.hostMemory", "1023Mi", "1Gi or more"),
        (tier("0Gi"), LLAMA_8B, "spec.kvCache.hostMemory", "0Gi", "1Gi or more"),
        (tier("9999999Ti"), LLAMA_8B, "spec.kvCache.hostMemory", "9999999Ti", "no more than a host can have"),
        (
            tier(engine={"extraArgs": ["--seed=1", "--kv_offloading_size=3"]}),
            *(LLAMA_8B, "spec.engine.extraArgs[1]", "--kv_offloading_size=3", "remove the flag"),
        ),
        (
            tier("auto", engine={"extraArgs": ["--kv-transfer-config.kv_role=kv_both"]}),
            *(LLAMA_8B, "spec.engine.extraArgs[0]", "--kv-transfer-config.kv_role=kv_both", "remove the flag"),
        ),
        (
            tier(engine={"extraArgs": ["--kv-offloading-backend", "lmcache"]}),
            *(LLAMA_8B, "spec.engine.extraArgs[0]", "--kv-offloading-backend", "remove the flag"),
        ),
        (
            tier(engine={"extraArgs": ["--no-enable-prefix-caching"]}),
            *(LLAMA_8B, "spec.kvCache.hostMemory", "200Gi", "--no-enable-prefix-caching"),
        ),
        (
            tier(**variable("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64,expandable_segments:True")),
            *(LLAMA_8B, "spec.kvCache.hostMemory", "200Gi", "PYTORCH_CUDA_ALLOC_CONF"),
        ),
        (
            tier(**variable("VLLM_USE_SIMPLE_KV_OFFLOAD", "1")),
            *(LLAMA_8B, "spec.kvCache.hostMemory", "200Gi", "remove the variable"),
        ),
        (tier(engine={"runner": "Pooling"}), LLAMA_8B, "spec.kvCache.hostMemory", "200Gi", "pools"),
        (tier(engine={"version": "0.22.1"}), GPT_OSS, "spec.kvCache.hostMemory", "200Gi", "use 0.23.0 or newer"),
        (tier(engine={"version": "0.27.0"}), HYBRID, "spec.kvCache.hostMemory", "200Gi", "use 0.28 or newer"),
        (
            tier(podTemplate={"resources": {"limits": {"memory": "64Gi"}}}),
            *(LLAMA_8B, "spec.podTemplate.resources.limits.memory", "64Gi", "write at least 201Gi"),
        ),
    ],
    ids=str,
)
def test_a_cache_that_cannot_be_is_refused_with_its_field(
    spec: dict[str, Any], name: str, field: str, value: str, fix: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        to_request(deployment(**spec), model(name))
    assert str(refused.value).startswith(f"{field}: {value!r} cannot be used. ")
    assert fix in str(refused.value)


@every_case(
    ("spec", "name", "use"),
    [
        (tier(), LLAMA_8B, HostUse(200 * GIB, by_spec=True)),
        (tier("auto"), LLAMA_8B, HostUse(by_spec=True, takes_spare=True)),
        (tier("1.5G"), GPT_OSS, HostUse(1_500_000_000, by_spec=True)),
        (tier(engine={"version": "0.11.1"}), DEEPSEEK, HostUse(200 * GIB, by_spec=True)),
        (tier(engine={"version": "0.28.0"}), HYBRID, HostUse(200 * GIB, by_spec=True)),
        (tier(engine={"version": "0.22.1", "image": "own/vllm:1"}), GPT_OSS, HostUse(200 * GIB, by_spec=True)),
        (
            tier(
                engine={"extraArgs": ["--enable-sleep-mode"]},
                **variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
            ),
            *(LLAMA_8B, HostUse(200 * GIB, by_spec=True)),
        ),
        (tier(**variable("VLLM_USE_SIMPLE_KV_OFFLOAD", "0")), LLAMA_8B, HostUse(200 * GIB, by_spec=True)),
        (tier(engine={"extraArgs": ["--kv-cache-metrics"]}), LLAMA_8B, HostUse(200 * GIB, by_spec=True)),
        ({"engine": {"extraArgs": ["--kv-offloading-size=3"]}}, LLAMA_8B, HostUse(3 * GIB)),
    ],
    ids=str,
)
def test_a_cache_that_may_be_is_taken(spec: dict[str, Any], name: str, use: HostUse) -> None:
    assert to_request(deployment(**spec), model(name)).engine.host == use


def test_what_is_refused_without_a_model_is_refused_before_it_is_looked_up() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.engine\.extraArgs\[0\]"):
        check_without_model(deployment(**tier(engine={"extraArgs": ["--kv-offloading-size=3"]})).spec)


def test_a_model_that_pools_has_no_cache_there() -> None:
    facts = replace(model(), task=Task.POOL)
    assert VLLM.host_cache_refusal(facts, EngineVersion(0, 32), StartOptions(), {}) is not None
    assert VLLM.host_cache_refusal(model(), EngineVersion(0, 32), StartOptions(), {}) is None


LMCACHE = json.dumps({"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"})
FILES = json.dumps(
    {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": 20 * GIB,
            "secondary_tiers": [{"type": "fs", "root_dir": "/kv"}],
        },
    }
)


@every_case(
    ("config", "more", "memory", "shm", "words"),
    [
        (LMCACHE, {}, 5 * GIB, 0, ""),
        (LMCACHE, variable("LMCACHE_MAX_LOCAL_CPU_SIZE", "40"), 40 * GIB, 0, ""),
        (
            LMCACHE,
            variable("LMCACHE_CONFIG_FILE", "/own.yaml"),
            5 * GIB,
            0,
            "LMCACHE_CONFIG_FILE may name another size",
        ),
        (FILES, {}, 20 * GIB, 20 * GIB, "the engine deletes none"),
    ],
)
def test_tiers_of_the_users_own_take_host_memory_and_are_never_sure(
    config: str, more: dict[str, Any], memory: int, shm: int, words: str
) -> None:
    """The neighbour without such arguments fits for sure, and is given no memory for them."""
    where = fleet(node("h", H100, 1))
    tiers, plain = (
        judge(
            to_request(deployment(**spec), model(LLAMA_8B)),
            candidate_on(gpu(H100), Split(1), where, restricted=False),
            where,
        )
        for spec in ({"engine": {"extraArgs": ["--kv-transfer-config", config]}, **more}, {})
    )
    assert isinstance(tiers, Option)
    assert isinstance(plain, Option)
    assert (tiers.estimate.fit, plain.estimate.fit) == (Fit.PROBABLE, Fit.SURE)
    assert tiers.host.memory_bytes - plain.host.memory_bytes == memory
    assert tiers.host.shm_bytes - plain.host.shm_bytes == shm
    wanted = to_request(deployment(engine={"extraArgs": ["--kv-transfer-config", config]}, **more), model(LLAMA_8B))
    said = [each for each in choice_warnings(wanted, tiers) if "LMCACHE" in each or "deletes" in each]
    assert [words in each for each in said] == [True] * bool(words)
