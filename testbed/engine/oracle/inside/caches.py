"""Which KV cache would the engine plan? The steps of its core process at start-up, up to the allocation."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from typing import Any

from testbed.engine.oracle.questions import Server


def cache_rows(config: Any, server: Server) -> list[dict[str, Any]]:
    """One row a memory size: blocks, groups, and what the engine would print.

    Args:
        config: the engine's configuration, after the model was built with it.
        server: the settings; only its memory sizes are read here.
    """
    specs = _layer_specs(config)
    resolved = {
        "kv_dtype": config.cache_config.cache_dtype,
        "max_model_len": config.model_config.max_model_len,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "block_size": config.cache_config.block_size,
        "mamba_block_size": config.cache_config.mamba_block_size,
        "mamba_cache_mode": config.cache_config.mamba_cache_mode,
        "backends": [backend.get_name() for backend in _backends(config)],
    }
    return [resolved | {"available_bytes": memory} | _plan(config, specs, memory) for memory in server.available_bytes]


def _layer_specs(config: Any) -> dict[str, Any]:
    platform: Any = import_module("vllm.platforms").current_platform
    platform.update_block_size_for_backend(config)
    import_module("vllm.v1.core.single_type_kv_cache_manager").register_all_kvcache_specs(config)
    specs: dict[str, Any] = import_module("vllm.v1.worker.gpu.attn_utils").get_kv_cache_spec(config)
    if any(getattr(spec, "non_causal", False) for spec in specs.values()):
        config.scheduler_config.enable_chunked_prefill = False
        config.cache_config.enable_prefix_caching = False
    layouts: Any = import_module("vllm.v1.attention.backends.utils")
    backends = _backends(config)
    supported = [layout.name for layout in layouts.get_supported_kv_cache_layouts(backends)]
    config.cache_config.kv_cache_layout = layouts.resolve_kv_cache_layout(config, [supported], specs.values()).name
    return specs


def _backends(config: Any) -> Any:
    return import_module("vllm.v1.worker.worker_base").get_current_attn_backends(config)


def _plan(config: Any, specs: dict[str, Any], memory: int) -> dict[str, Any]:
    planner: Any = import_module("vllm.v1.core.kv_cache_utils")
    try:
        worker = planner.get_kv_cache_configs(config, [dict(specs)], [memory])
    except ValueError as error:
        return {"too_small": str(error).split(". ")[0][:300]}
    scheduler = planner.generate_scheduler_kv_cache_config(worker)
    tokens, concurrency = planner.get_kv_cache_capacity(config, scheduler)
    return {
        "num_blocks": scheduler.num_blocks,
        "bytes_per_block": planner._pool_bytes_per_block(config, worker[0].kv_cache_groups),  # noqa: SLF001
        "layout": config.cache_config.kv_cache_layout,
        "kv_cache_size_tokens": tokens,
        "max_concurrency": concurrency,
        "groups": _groups(worker[0].kv_cache_groups),
    }


def _groups(groups: Any) -> list[dict[str, Any]]:
    """Each kind of group once, with how many there are."""
    counted: dict[str, dict[str, Any]] = {}
    for group in groups:
        row = _group(group)
        counted.setdefault(json.dumps(row), {"groups": 0} | row)["groups"] += 1
    return list(counted.values())


def _group(group: Any) -> dict[str, Any]:
    inner = getattr(group.kv_cache_spec, "kv_cache_specs", None)
    row = {"layers": len(group.layer_names)} | _spec(group.kv_cache_spec)
    return row | {"specs": _distinct(inner.values())} if inner else row


def _distinct(specs: Any) -> list[dict[str, Any]]:
    counted: dict[str, dict[str, Any]] = {}
    for spec in specs:
        row = counted.setdefault(repr(spec), {"layers": 0} | _spec(spec))
        row["layers"] += 1
    return list(counted.values())


def _spec(spec: Any) -> dict[str, Any]:
    """Every field that says something, and the bytes of a page."""
    fields = {
        field.name: _plain(getattr(spec, field.name))
        for field in dataclasses.fields(spec)
        if field.name != "kv_cache_specs" and getattr(spec, field.name) not in (None, False)
    }
    return {"spec": type(spec).__name__, "page_size_bytes": spec.page_size_bytes} | fields


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return getattr(value, "name", value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value).removeprefix("torch.")
