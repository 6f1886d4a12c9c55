"""Build the real model class for one rank, on a device without memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from testbed.engine.oracle.inside.host_memory import made_on_host, remember
from testbed.engine.oracle.inside.one_rank import become
from testbed.engine.oracle.questions import Question


def engine_config(question: Question) -> Any:
    """The whole configuration that ``vllm serve`` would come to, defaults and all."""
    arguments: dict[str, Any] = {"runner": question.runner}
    if server := question.server:
        arguments |= {
            "kv_cache_dtype": server.kv_dtype,
            "max_model_len": server.max_model_len,
            "max_num_seqs": server.max_num_seqs,
            "max_num_batched_tokens": server.max_num_batched_tokens,
        }
    engine_arguments: Any = import_module("vllm.engine.arg_utils").EngineArgs(
        model=question.folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        tensor_parallel_size=question.tp,
        pipeline_parallel_size=question.pp,
        enable_expert_parallel=question.ep,
        mm_encoder_tp_mode="data" if question.copies_encoder else "weights",
        distributed_executor_backend="mp" if question.tp * question.pp > 1 else None,
        allow_deprecated_quantization=True,
        **{name: value for name, value in arguments.items() if value is not None},
    )
    usage: Any = import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
    return engine_arguments.create_engine_config(usage)


def build_model(question: Question, config: Any) -> Any:
    """The model of the question's rank; every parameter has a shape and a type, and none has memory."""
    torch: Any = import_module("torch")
    set_default_torch_dtype: Any = import_module("vllm.utils.torch_utils").set_default_torch_dtype
    set_current_vllm_config: Any = import_module("vllm.config").set_current_vllm_config
    initialize_model: Any = import_module("vllm.model_executor.model_loader.utils").initialize_model
    become(question)
    _keep_expert_maps_readable()
    # Some attention layers reserve their scratch space when they are built; the worker sets it up before that.
    import_module("vllm.v1.worker.workspace").init_workspace_manager(torch.device("meta"))
    config.parallel_config.rank = question.stage * question.tp + question.rank
    with (
        set_current_vllm_config(config),
        set_default_torch_dtype(config.model_config.dtype),
        torch.device("meta"),
        _device_to_meta(),
    ):
        return initialize_model(config)


def _keep_expert_maps_readable() -> None:
    """Let the map from all experts to this rank's have values: layers read it while they are built."""
    torch: Any = import_module("torch")
    manager: Any = import_module("vllm.model_executor.layers.fused_moe.expert_map_manager")
    determine = manager.determine_expert_map

    def determine_on_cpu(*arguments: Any, **named: Any) -> Any:
        with torch.device("cpu"):
            return determine(*arguments, **named)

    manager.determine_expert_map = determine_on_cpu


def _device_to_meta() -> Any:
    """Redirect what layers put on "the GPU" by name: the device context alone governs only what names no device."""
    torch: Any = import_module("torch")

    def redirected(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("meta") if value.type == "cuda" else value
        return "meta" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value

    class ToMeta(import_module("torch.overrides").TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            named = {name: redirected(value) for name, value in (kwargs or {}).items()}
            if isinstance(named.get("device"), int):
                named["device"] = "meta"
            if made_on_host(named):
                return remember(func(*args, **named))
            return func(*map(redirected, args), **named)

    return ToMeta()
