"""Kinds of requests: models of the catalogue from 1B to 405B with a context length, a concurrency and GPU types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import GpuConstraints, Request, ServingShape
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options

MODELS: dict[str, int] = {
    "meta-llama/Llama-3.2-1B-Instruct": 3,
    "meta-llama/Llama-3.2-3B-Instruct": 3,
    "Qwen/Qwen2.5-7B-Instruct-AWQ": 3,
    "meta-llama/Llama-3.1-8B-Instruct": 4,
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic": 3,
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": 2,
    "Qwen/Qwen3-14B": 3,
    "RedHatAI/Qwen3-14B-FP8-dynamic": 2,
    "openai/gpt-oss-20b": 3,
    "mistralai/Mistral-Small-24B-Instruct-2501": 2,
    "google/gemma-3-27b-it": 2,
    "Qwen/Qwen3-30B-A3B-FP8": 2,
    "Qwen/Qwen2.5-32B-Instruct-AWQ": 2,
    "Qwen/Qwen3-32B": 2,
    "Qwen/Qwen3-32B-FP8": 2,
    "meta-llama/Llama-3.3-70B-Instruct": 2,
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": 2,
    "openai/gpt-oss-120b": 2,
    "Qwen/Qwen3-235B-A22B-FP8": 1,
    "meta-llama/Llama-3.1-405B-Instruct-FP8": 1,
}
"""Models with their weights in the draw: BF16, FP8 and 4-bit checkpoints, dense models and mixtures of experts."""

CONTEXTS = (4096, 8192, 16_384, 32_768)
CONCURRENCIES = (4, 8, 16, 32)
FINE_CONTEXTS = tuple(range(4096, 32_769, 4096))
FINE_CONCURRENCIES = tuple(range(4, 33))
PICKY = 0.2
"""The part of the kinds that allow only some GPU types."""

ALLOWED = 3
"""The number of GPU types that these allow."""

FEW = 40
"""Up to this number, kinds have the usual loads; more kinds need loads in finer steps."""


def kinds_of(fleet: Fleet, count: int, seed: int, memo: Memo) -> tuple[Request, ...]:
    """Return ``count`` different requests that fit on at least one node of the empty fleet."""
    rng = Random(f"kinds/{count}/{seed}")  # noqa: S311 - a reproducible draw
    gpu_types = [gpu.name for gpu in fleet.gpu_types()]
    drawn = (_with_taste(each, gpu_types, rng) for each in _drawn(rng, fine=count > FEW))
    return tuple(islice((each for each in drawn if _fits(each, fleet, memo)), count))


def _with_taste(request: Request, gpu_types: Sequence[str], rng: Random) -> Request:
    """Return the request, perhaps with the GPU types that its owner allows."""
    allow = tuple(sorted(rng.sample(gpu_types, min(ALLOWED, len(gpu_types)))))
    return replace(request, constraints=GpuConstraints(allow=allow)) if rng.random() < PICKY else request


def _drawn(rng: Random, *, fine: bool) -> Iterator[Request]:
    """Yield different requests. There are many more than anybody asks for."""
    contexts, concurrencies = (FINE_CONTEXTS, FINE_CONCURRENCIES) if fine else (CONTEXTS, CONCURRENCIES)
    everything = [(name, ServingShape(*load)) for name in MODELS for load in _loads(contexts, concurrencies)]
    weighted = sorted(everything, key=lambda each: rng.random() ** (1 / MODELS[each[0]]), reverse=True)
    for name, shape in weighted:
        yield request_for(name, shape)


def _loads(contexts: tuple[int, ...], concurrencies: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return ((context, concurrency) for context in contexts for concurrency in concurrencies)


def request_for(name: str, shape: ServingShape, allow: tuple[str, ...] = ()) -> Request:
    """Return the request of a catalogued model as the operator resolves it."""
    facts = _facts(name)
    return Request(
        key=ObjectKey("default", "kind"),
        model=facts,
        precision=facts.checkpoint.precision,
        kv_precision=facts.checkpoint.kv_precision or _automatic(facts),
        shape=shape,
        engine=EngineChoice(EngineVersion(0, 32)),
        constraints=GpuConstraints(allow=allow),
    )


def _fits(request: Request, fleet: Fleet, memo: Memo) -> bool:
    return any(isinstance(verdict, Option) for verdict in options(request, fleet, memo).verdicts)


def _automatic(facts: ModelFacts) -> KvPrecision:
    return KvPrecision.FP16 if facts.checkpoint.dtype is Precision.FP16 else KvPrecision.BF16


@cache
def _facts(name: str) -> ModelFacts:
    facts = load_model_facts(name)
    if facts is None:
        raise LookupError(f"{name} is not in the catalogue")
    return facts
