"""What does vLLM make of caches: blocks, groups, tokens? No GPU, no network, no model.

Runs inside the engine's environment. Standard input holds a JSON list of cases (made by ``tests/engine/kv_cases.py``).
Standard output gets a JSON list of answers. The specs are vLLM's own, built as its layers build them; block sizes,
groups, blocks and tokens come from vLLM's own functions.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from types import SimpleNamespace
from typing import Any


def main() -> None:
    """Answer all cases."""
    # vLLM logs to stdout; keep the real one for the answer and send everything else to stderr.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = Engine()
    json.dump([engine.answer(case) for case in json.load(sys.stdin)], answer)
    answer.close()


class Engine:
    """vLLM's modules, imported late because importing them logs."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.specs: Any = importlib.import_module("vllm.v1.kv_cache_interface")
        self.utils: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
        self.config: Any = importlib.import_module("vllm.config.vllm")
        self.backend: Any = importlib.import_module("vllm.v1.attention.backend")
        self.platform: Any = importlib.import_module("vllm.platforms.interface")
        self.models: Any = importlib.import_module("vllm.model_executor.models")
        self.layout: Any = importlib.import_module("vllm.v1.kv_cache_layout").KVCacheLayout
        self.mamba: Any = importlib.import_module("vllm.model_executor.layers.mamba.mamba_utils")
        self.torch_utils: Any = importlib.import_module("vllm.utils.torch_utils")
        self.partition: Any = importlib.import_module("vllm.distributed.utils").get_pp_indices
        # Backends ask for the current configuration; ours is a stand-in that no context manager takes.
        vars(self.config)["set_current_vllm_config"] = lambda _: contextlib.nullcontext()

    def answer(self, case: dict[str, Any]) -> dict[str, Any]:
        """Blocks, bytes of a block on every stage, tokens and concurrency; or what the engine refused with."""
        config = self._configuration(case)
        try:
            self._align_blocks(case, config)
            workers = [
                {
                    f"layers.{layer}.{place}": self._spec(case, config, cache)
                    for layer in range(*self.partition(len(case["layers"]), stage, case["stages"]))
                    for place, cache in enumerate(case["layers"][layer])
                }
                for stage in range(case["stages"])
            ]
            layouts = self.utils.get_kv_cache_configs(config, workers, [case["available_bytes"]] * case["stages"])
        except (AssertionError, NotImplementedError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        tokens, concurrency = self.utils.get_kv_cache_capacity(config, layouts[0])
        return {
            "blocks": layouts[0].num_blocks,
            "block_bytes": [self.utils._pool_bytes_per_block(config, cut.kv_cache_groups) for cut in layouts],  # noqa: SLF001
            "block_tokens": config.cache_config.block_size,
            "tokens": tokens,
            "concurrency": concurrency,
        }

    def _configuration(self, case: dict[str, Any]) -> Any:
        """The parts of vLLM's configuration that its KV-cache code reads, with its own derived figures."""
        packed = any(cache.get("packed") for layer in case["layers"] for cache in layer)
        config = SimpleNamespace(
            model_config=SimpleNamespace(
                max_model_len=case["context_tokens"], original_max_model_len=case["context_tokens"], architecture="any"
            ),
            scheduler_config=SimpleNamespace(
                max_num_batched_tokens=case["batched_tokens"],
                max_num_encoder_input_tokens=case["batched_tokens"],
                async_scheduling=True,
                disable_hybrid_kv_cache_manager=not case["hybrid_manager"],
            ),
            parallel_config=SimpleNamespace(
                tensor_parallel_size=case["tensor_parallel"],
                pipeline_parallel_size=case["stages"],
                decode_context_parallel_size=case["context_parallel"],
            ),
            cache_config=SimpleNamespace(
                block_size=case["block_tokens"],
                cache_dtype=case["kv_dtype"],
                kv_cache_dtype_skip_layers=[],
                mamba_block_size=case["context_tokens"],
                mamba_cache_mode=case["state_mode"],
                mamba_page_size_padded=None,
                num_gpu_blocks_override=None,
                prefix_cache_retention_interval=None,
                user_specified_block_size=True,
                get_resolved_kv_cache_layout=lambda: self.layout.BLHNC if packed else self.layout.LBNHC,
            ),
            attention_config=SimpleNamespace(hisparse_config=None),
            speculative_config=None,
            num_speculative_tokens=case["speculative_tokens"],
            num_prefill_lookahead_tokens=0,
            use_v2_model_runner=True,
        )
        config.max_concurrent_batches = self.config.VllmConfig.max_concurrent_batches.fget(config)
        config.max_in_flight_tokens = self.config.VllmConfig.max_in_flight_tokens.fget(config)
        return config

    def _spec(self, case: dict[str, Any], config: Any, cache: dict[str, Any]) -> Any:
        """A layer's spec, as ``get_kv_cache_spec`` of vLLM's layers makes it."""
        if cache["type"] == "state":
            return self.specs.MambaSpec(
                shapes=tuple(tuple(shape) for shape in self._shapes(case, cache)),
                dtypes=self._state_types(case, cache),
                block_size=config.cache_config.mamba_block_size,
                page_size_padded=config.cache_config.mamba_page_size_padded,
                mamba_cache_mode=case["state_mode"],
                num_speculative_blocks=case["speculative_tokens"],
            )
        block = config.cache_config.block_size
        if cache["type"] == "latent":
            return self.specs.MLAAttentionSpec(
                block_size=block,
                num_kv_heads=1,
                head_size=cache["width"],
                dtype=self._kv_type(case),
                cache_dtype_str=case["kv_dtype"],
                kv_quant_mode=self.specs.get_kv_quant_mode(case["kv_dtype"]),
                state_content_bytes=656 if cache["sparse"] and case["kv_dtype"] == "fp8" else None,
                block_stride_alignment=self._row_bytes(case, cache) if cache["sparse"] else None,
            )
        if cache["type"] == "indexer":
            return self.specs.MLAAttentionSpec(
                block_size=block,
                num_kv_heads=1,
                head_size=cache["width"] + cache["width"] // 128 * 4,
                dtype=self.torch.uint8,
                cache_role=self.specs.SparseCacheRole.INDEXER,
            )
        if cache["type"] == "rows":
            return self._rows(cache, block)
        if cache["type"] == "ring":
            return self._ring(case, cache)
        return self._attention(case, cache, block)

    def _row_bytes(self, case: dict[str, Any], cache: dict[str, Any]) -> int:
        """A token of sparse latent attention."""
        if case["kv_dtype"] == "fp8":
            return 656
        return int(cache["width"]) * int(self.torch_utils.get_dtype_size(getattr(self.torch, case["dtype"])))

    def _rows(self, cache: dict[str, Any], block: int) -> Any:
        fields = {
            "num_kv_heads": 1,
            "head_size": cache["row"],
            "dtype": self.torch.uint8,
            "alignment": cache["alignment"],
        }
        if cache["window"]:
            return self.specs.SlidingWindowMLASpec(**fields, block_size=cache["block"], sliding_window=cache["window"])
        stride = self.backend.MultipleOf(cache["kernel"][1] * cache["ratio"]) if cache["kernel"] else None
        return self.specs.MLAAttentionSpec(
            **fields, block_size=block, tokens_per_state=cache["ratio"], block_stride_alignment=stride
        )

    def _ring(self, case: dict[str, Any], cache: dict[str, Any]) -> Any:
        """As ``Glm5NextTailCache`` makes it."""
        pools = -(-(cache["ratio"] + case["speculative_tokens"]) // cache["ratio"])
        return self.specs.CircularBufferSpec(
            block_size=cache["ratio"] * (1 << (pools - 1).bit_length()),
            num_kv_heads=1,
            head_size=cache["token"],
            head_size_v=0,
            dtype=self.torch.uint8,
            dcp_sharded=False,
        )

    def _attention(self, case: dict[str, Any], cache: dict[str, Any], block: int) -> Any:
        fields = {
            "block_size": block,
            "num_kv_heads": max(1, cache["heads"] // case["tensor_parallel"]),
            "head_size": cache["key"],
            "head_size_v": cache["value"],
            "dtype": self._kv_type(case),
            "kv_quant_mode": self.specs.get_kv_quant_mode(case["kv_dtype"]),
        }
        if case["kv_dtype"] == "nvfp4":
            fields["num_head_slots"] = 2 * fields["num_kv_heads"]
            fields["state_content_bytes"] = self.torch_utils.nvfp4_kv_cache_full_dim(cache["key"])
        if cache["type"] == "cross":
            return self.specs.CrossAttentionSpec(**fields)
        if cache.get("window"):
            return self.specs.SlidingWindowSpec(**fields, sliding_window=cache["window"])
        if cache.get("chunk"):
            return self.specs.ChunkedLocalAttentionSpec(**fields, attention_chunk_size=cache["chunk"])
        return self.specs.FullAttentionSpec(**fields)

    def _kv_type(self, case: dict[str, Any]) -> Any:
        return getattr(self.torch, case["dtype"]) if case["kv_dtype"] == "auto" else self.torch.uint8

    def _shapes(self, case: dict[str, Any], cache: dict[str, Any]) -> Any:
        calculate = getattr(self.mamba.MambaStateShapeCalculator, cache["rule"])
        extra = {"num_spec": case["speculative_tokens"]} if cache["grows"] else {}
        ranks = "tp_size" if cache["rule"] == "linear_attention_state_shape" else "tp_world_size"
        return calculate(**{ranks: case["tensor_parallel"]}, **cache["sizes"], **extra)

    def _state_types(self, case: dict[str, Any], cache: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(getattr(self.torch, name or case["dtype"]) for name in cache["types"])

    def _align_blocks(self, case: dict[str, Any], config: Any) -> None:
        """Run the platform's own rule where attention lies beside states."""
        states = [cache for layer in case["layers"] for cache in layer if cache["type"] == "state"]
        attention = [cache for layer in case["layers"] for cache in layer if cache["type"] in ("heads", "latent")]
        if not states or not attention:
            return
        first = attention[0]
        latent = first["type"] == "latent"
        heads = 1 if latent else max(1, first["heads"] // case["tensor_parallel"])
        config.model_config.use_mla = latent
        config.model_config.dtype = getattr(self.torch, case["dtype"])
        config.model_config.get_num_kv_heads = lambda _: heads
        config.model_config.get_head_size = lambda: first["width"] if latent else first["key"]
        model = SimpleNamespace(
            get_mamba_specs_from_config=lambda _: [self._spec(case, config, cache) for cache in states]
        )
        self.models.ModelRegistry.resolve_model_cls = lambda *_, **__: (model, "any")
        backend = self._backend(case["block_tokens"])
        rows = [cache for layer in case["layers"] for cache in layer if cache.get("kernel")]
        backends = [backend, *(self._backend(cache["kernel"][0] * cache["ratio"]) for cache in rows)]

        class Sizing(self.platform.Platform):  # type: ignore[misc, name-defined]
            """The platform's rule, told which backends there are."""

            @classmethod
            def _find_non_ssm_backends(cls, vllm_config: Any) -> list[Any]:
                del vllm_config
                return backends

        Sizing._align_hybrid_block_size(config, backend)  # noqa: SLF001

    def _backend(self, block_tokens: int) -> Any:
        """An attention backend that takes blocks of any multiple of a size, as FlashAttention does of 16."""
        sizes = [self.backend.MultipleOf(block_tokens)]

        class Backend(self.backend.AttentionBackend):  # type: ignore[misc, name-defined]
            """Sizes alone."""

            @staticmethod
            def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:
                del kv_cache_spec
                return sizes

        return Backend


if __name__ == "__main__":
    main()
