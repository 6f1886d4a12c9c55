"""Changes of an engine's flags that may make it fit, the cheapest first. Load, weights and GPUs stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from plimsoll.api.bounds import DEFAULT_ENGINE_VERSION
from plimsoll.cli.changes.changes import Change
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.serving import Request
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.registry import engine_of

STEPS = (4096, 3072, 2048, 1024, 512)
"""Tokens of an engine step that are tried, from the largest."""

MOST_PERCENT = 98
"""The largest share of a GPU that a manifest may give an engine."""


def with_step(asked: Request, tokens: int) -> Change:
    """Return the change to steps of so many tokens: long prompts take more steps."""
    return _changed(asked, f"steps of {tokens:,} tokens", f"--batched-tokens {tokens}", max_batched_tokens=tokens)


def with_share(asked: Request, percent: int) -> Change:
    """Return the change to this share of each GPU."""
    words = f"{percent} % of each GPU"
    return _changed(asked, words, f"--utilization {percent}", gpu_memory_utilization_percent=percent)


def other_engines(asked: Request, gpu: GpuType) -> Iterator[Change]:
    """Yield the engine's other model runner, and the usual release where another one is asked for."""
    engine = engine_of(asked.engine.name)
    other = engine.other_runner(asked, gpu)
    if other is not None:
        runner, variable = other
        words = f"model runner V{runner} ({variable} in spec.podTemplate.env)"
        yield _changed(asked, words, "", brief=f"model runner V{runner}", model_runner=runner)
    usual = EngineVersion.of(DEFAULT_ENGINE_VERSION)
    if asked.engine.version != usual and engine.release_refusal(asked.model, asked.precision, usual) is None:
        yield _changed(asked, f"release {usual}", f"--engine {usual}", version=usual)


def fewer_features(asked: Request) -> Iterator[Change]:
    """Yield the engine without CUDA graphs, without its tower, and without drafts: it gets slower, or does less."""
    engine = asked.engine
    if engine.cache_bytes is not None or engine.cache_blocks is not None:
        words = "the size of the KV cache left to the engine (leave it out)"
        yield _changed(asked, words, "", cache_bytes=None, cache_blocks=None)
    if not engine.enforce_eager:
        yield _changed(asked, "no CUDA graphs", "--eager", enforce_eager=True)
    if asked.model.encoder is not None and not engine.media.text_only:
        media = replace(engine.media, text_only=True)
        change = _changed(asked, "text only", "--text-only", media=media)
        loaded = engine_of(engine.name).loaded(asked.model, change.request.engine)
        yield replace(change, request=replace(change.request, model=loaded))
    if engine.speculation is not None:
        yield _changed(asked, "no speculative decoding (leave --speculate out)", "", speculation=None)


def _changed(asked: Request, words: str, option: str, *, brief: str = "", **fields: Any) -> Change:
    """Return a change of the engine. Lessons and failures of engines with other flags are left out."""
    fresh = replace(asked, observed=(), failed_starts=(), corrections=())
    return Change(words, option, replace(fresh, engine=replace(asked.engine, **fields)), brief)
