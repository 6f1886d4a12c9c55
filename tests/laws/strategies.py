"""Random requests and fleets, made of catalogued models and GPUs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.precision import TURBOQUANT, KvPrecision
from plimsoll.domain.requests.serving import GpuConstraints, Request, ServingShape
from plimsoll.facts.models.pooling import as_pooling
from tests.support.planning import H100, L4, L40S, LLAMA_8B, LLAMA_70B_FP8, MI300X, T4, fleet, gpu, model, node, request

MODELS = (
    LLAMA_8B,
    LLAMA_70B_FP8,
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "Qwen/Qwen2.5-7B-Instruct",
    "microsoft/phi-4",
)
KV_PRECISIONS = [each for each in KvPrecision if each not in TURBOQUANT]
"""The formats of the KV cache that every model here can have: TurboQuant has no windows, as gpt-oss has."""

KINDS = (H100, L40S, L4, T4, MI300X, "a100-sxm-40gb", "h200-sxm-141gb")

gpu_kinds = st.builds(
    lambda name, cents: gpu(name, price=None if cents is None else str(Decimal(cents) / 100)),
    st.sampled_from(KINDS),
    st.none() | st.integers(10, 2000),
)
any_gpu = st.sampled_from(load_gpu_types())
tokens = st.integers(1, 200_000)
few = st.integers(1, 512)


@st.composite
def shapes(draw: st.DrawFn) -> ServingShape:
    """Guaranteed loads and expected ones."""
    context = draw(tokens)
    if context < 2 or draw(st.booleans()):
        return ServingShape(context, draw(few))
    prompt = draw(st.integers(1, context - 1))
    return ServingShape(context, draw(few), prompt, draw(st.integers(1, context - prompt)))


@st.composite
def requests(draw: st.DrawFn, name: str = "a") -> Request:
    """One deployment with any load and sometimes bounds."""
    facts = model(draw(st.sampled_from(MODELS)))
    bounds = GpuConstraints(
        deny=tuple(draw(st.lists(st.sampled_from(KINDS), max_size=2, unique=True))),
        max_per_replica=draw(st.none() | st.integers(1, 8)),
        max_hourly_price=draw(st.none() | st.integers(1, 60).map(Decimal)),
    )
    return request(
        facts,
        name=name,
        shape=draw(shapes()),
        replicas=draw(st.integers(0, 6)),
        constraints=bounds,
        kv_precision=draw(st.sampled_from(KV_PRECISIONS)),
        engine=EngineChoice(
            EngineVersion(0, draw(st.sampled_from([8, 19, 32]))),
            gpu_memory_utilization_percent=draw(st.integers(10, 98)),
            enforce_eager=draw(st.booleans()),
        ),
    )


@st.composite
def pooling(draw: st.DrawFn) -> Request:
    """A deployment that embeds, ranks or scores: the layers of any model, with the release that has the task."""
    wanted = draw(requests())
    engine = replace(wanted.engine, version=EngineVersion(0, draw(st.sampled_from([11, 27, 32]))))
    return replace(wanted, model=as_pooling(wanted.model), engine=engine)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> GpuNode:
    """A node of one to eight GPUs, some of them held, sometimes more than there are."""
    gpus = draw(st.integers(1, 8))
    return node(name, draw(gpu_kinds), gpus, held=draw(st.integers(0, gpus + 1)))


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Up to six nodes of one price a type: prices belong to types, not to nodes."""
    drawn = [draw(nodes(f"n{index}")) for index in range(draw(st.integers(0, 6)))]
    first = {each.gpu.name: each.gpu for each in reversed(drawn)}
    return fleet(*(node(each.name, first[each.gpu.name], each.allocatable, held=each.held) for each in drawn))
