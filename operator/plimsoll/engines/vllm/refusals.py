"""Causes for which vLLM refuses to start: flags, blocks, contexts and stages that do not fit the model.

The tokens of a KV-cache block that a user names (``--block-size``).
vLLM keeps a named size, and takes another attention backend where its usual one cannot read it. It refuses to start
where no backend can (``get_attn_backend_cls`` of ``platforms/cuda.py`` and ``platforms/rocm.py``). A recurrent state
still enlarges the block (``Platform._align_hybrid_block_size``). All read in 0.20 to 0.33.

The longest request that vLLM takes for a model: it refuses to start with a longer ``--max-model-len``.
Source: ``_get_and_verify_max_len`` of ``config/model.py``, read in 0.8 to 0.33.

The model classes that vLLM does not divide into pipeline stages: it refuses to start with more than one.
Source: ``verify_with_parallel_config`` of ``config/model.py``. These are the classes of ``model_executor/models`` that
have no ``SupportsPP`` among their bases, read in 0.10, 0.15, 0.25, 0.32 and 0.33. Classes that only some of these
releases lack it for are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from plimsoll.domain.engines.engine_choice import EngineVersion, LoraSlots, Speculation
from plimsoll.domain.models.caches import AttentionCache, IndexerCache, LatentCache, RowCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.engines.starts import Misfit, StartCommand
from plimsoll.engines.vllm.capabilities import refuses_float16
from plimsoll.engines.vllm.checkpoint_files import wanted_files

_FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("awq", "awq_marlin", "auto_awq"), "awq"),
        **dict.fromkeys(("gptq", "gptq_marlin", "auto_gptq", "gptq_bitblas", "gptq_marlin_24"), "gptq"),
        **dict.fromkeys(("fp8", "deepseek_v4_fp8"), "fp8"),
        **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4"), "mxfp4"),
        **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "nvfp4"), "modelopt"),
        **{each: each for each in ("bitsandbytes", "compressed-tensors", "fbgemm_fp8", "gguf", "quark", "torchao")},
    }
)
"""The methods of ``--quantization`` that read the same checkpoints. The others may read several kinds (``moe_wna16``,
``humming``, ``inc``), so nothing is said of them. Source: ``_verify_quantization`` of ``config/model.py``, and the
``override_quantization_method`` of each method, 0.32 and 0.33."""

_BF16_ALONE = frozenset({"mxfp4"})
_WITHOUT_FP32 = frozenset({"awq", "gptq", "fp8", "mxfp4", "modelopt", "fbgemm_fp8", "quark"})
"""Families by the types of their activations (``get_supported_act_dtypes`` of each method, 0.32 and 0.33)."""

_E5M2 = "fp8_e5m2"


def misfit(model: ModelFacts, command: StartCommand, release: EngineVersion) -> Misfit | None:
    """Return the first flag with which a release does not start for this model, and what to write; None without any.

    Whatever is not known to be refused is let through.
    """
    return next(_misfits(model, command, release), None)


def _misfits(model: ModelFacts, command: StartCommand, release: EngineVersion) -> Iterator[Misfit]:
    yield from _of_the_engine(model, command)
    yield from _of_the_checkpoint(model, command, release)


def _of_the_engine(model: ModelFacts, command: StartCommand) -> Iterator[Misfit]:
    if command.split.expert_parallel and model.experts is None:
        # ``_verify_with_expert_parallelism`` of ``config/model.py``, read in 0.8 to 0.33.
        yield Misfit("--enable-expert-parallel", "set", f"{model.name} has no experts to spread: leave it out.")
    degree, shares = command.split.tensor_parallel, command.split.context_parallel
    if degree % shares:
        # ``ParallelConfig`` of ``config/parallel.py``, read in 0.32.
        fix = f"Its ranks are those of the {degree} of tensor parallelism: write a number that divides it."
        yield Misfit("--decode-context-parallel-size", shares, fix)
    conditions = dict(command.conditions)
    yield from _adapters(command.options.lora, conditions)
    context, threshold = command.options.max_model_len or model.max_context_tokens, conditions.get(_THRESHOLD, "")
    if threshold.isdecimal() and int(threshold) > context:
        # ``SchedulerConfig`` of ``config/scheduler.py``, read in 0.32.
        yield Misfit(_THRESHOLD, threshold, f"It is above the context of {context} tokens: write at most that.")
    tokens = command.options.block_tokens
    refusal = None if tokens is None else block_refusal(model, tokens)
    if refusal is not None:
        yield Misfit("--block-size", tokens, refusal)


def _of_the_checkpoint(model: ModelFacts, command: StartCommand, release: EngineVersion) -> Iterator[Misfit]:
    checkpoint, options = model.checkpoint, command.options
    family = _FAMILIES.get(checkpoint.method or "") if checkpoint.precision.is_quantized else None
    named = _FAMILIES.get(options.quantization or "")
    if family is not None and named is not None and named != family:
        fix = f"The checkpoint is quantized by {checkpoint.method}, and is read as that alone: leave it out."
        yield Misfit("--quantization", options.quantization, fix)
    for each in wanted_files(model, command):
        if each.is_found(model) is False:
            what = f"vLLM ends without {each.words}, which {model.name} does not have: leave it out."
            yield Misfit(each.flag, each.value, what)
    if options.precision is Precision.FP16 and refuses_float16(model, release):
        yield Misfit("--dtype", "float16", f"vLLM does not start {model.architecture} in float16: write bfloat16.")
    if options.precision is Precision.FP16 and family in _BF16_ALONE:
        yield Misfit("--dtype", "float16", f"Kernels for {checkpoint.method} compute in bfloat16 alone: leave it out.")
    made = family or (None if options.quantizes_to is None else "fp8")
    if options.precision is Precision.FP32 and made in _WITHOUT_FP32:
        yield Misfit("--dtype", "float32", f"Kernels for {made} compute in 16 bits: leave it out.")
    if command.cache_word == _E5M2 and family == "fp8":
        # ``layers/attention/attention.py``, read in 0.32.
        yield Misfit("--kv-cache-dtype", _E5M2, "An FP8 checkpoint takes no cache in this format: write fp8.")


_MODULES, _KEPT, _THRESHOLD = "--lora-modules", "--max-cpu-loras", "--long-prefill-token-threshold"

CONDITIONAL = ("--config-format", "--load-format", "--tokenizer-mode", _MODULES, _KEPT, _THRESHOLD)
"""The flags of :attr:`~plimsoll.engines.starts.StartCommand.conditions`, which are judged here and by their files."""


def _adapters(slots: LoraSlots | None, conditions: Mapping[str, str]) -> Iterator[Misfit]:
    """Yield what ``LoRAConfig`` of ``config/lora.py`` refuses, and adapters without it; read in 0.8 to 0.33."""
    modules, kept = conditions.get(_MODULES), conditions.get(_KEPT, "")
    if slots is None and modules is not None:
        permit = "--enable-lora (spec.engine.lora)"
        fix = f"Adapters are loaded at the start, which {permit} permits: add it, or leave this out."
        yield Misfit(_MODULES, modules, fix)
    least = 1 if slots is None else slots.adapters
    if kept.isdecimal() and int(kept) < least:
        fix = f"Host memory keeps every adapter of the GPU: write at least {least}, or leave it out."
        yield Misfit(_KEPT, kept, fix)


KERNEL_TOKENS = 16
"""Every backend for keys and values reads blocks of a multiple of 16 tokens (``get_supported_kernel_block_sizes`` of
``v1/attention/backends``, 0.33; the check "Block size must be a multiple of 16" since 0.8)."""

_LATENT_TOKENS = 64
"""Some kernels for latent rows read pages of 64 tokens alone, FlashMLA and the indexer of sparse attention among them.
Releases up to 0.14 enlarge other sizes to 64 for them (``check_and_update_config`` of ``platforms/cuda.py``)."""

_WIDE_HEAD = 256
"""From this width on, kernels of some GPUs choose longer blocks by themselves (``get_preferred_block_size`` of
``v1/attention/backends/flash_attn.py``, 0.33)."""


def block_refusal(model: ModelFacts, tokens: int) -> str | None:
    """Return why the engine does not start with blocks of so many tokens, and what to write; None where it may."""
    if tokens % KERNEL_TOKENS == 0 or not any(isinstance(cache, AttentionCache) for cache in model.caches()):
        return None
    near = max(1, round(tokens / KERNEL_TOKENS)) * KERNEL_TOKENS
    return (
        f"No attention backend of vLLM reads such blocks: write a multiple of {KERNEL_TOKENS}, e.g. {near}, or leave "
        "it out."
    )


def follows_block(model: ModelFacts, tokens: int | None) -> bool:
    """Whether the tokens of a block are certain on every GPU where so many are named; None where nobody names them."""
    caches = tuple(model.caches())
    if any(isinstance(cache, RowCache) for cache in caches):
        return False
    if any(isinstance(cache, LatentCache | IndexerCache) for cache in caches):
        return tokens is not None and tokens % _LATENT_TOKENS == 0
    wide = any(isinstance(cache, AttentionCache) and cache.key_dim >= _WIDE_HEAD for cache in caches)
    return tokens is not None or not wide


_PERMISSION = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"

_SHORTENED_BY_DRAFT_SINCE = EngineVersion(0, 33)

_OTHER_POSITIONS = ("--hf-overrides", "--hf-config-path", "--rope-scaling", "--rope-theta", "--disable-sliding-window")
"""Flags by which a user changes the positions of the model, or what is read of its configuration."""


def context_refusal(
    model: ModelFacts, context_tokens: int, arguments: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """Return why the engine does not start with this context, and what to write; None where it does, or may.

    Args:
        model: the facts. Where its configuration names no length, the engine takes every length.
        context_tokens: the tokens of the longest request.
        arguments: what the user adds to the command line.
        environment: the variables of the engine's container whose values are known.
    """
    most = model.max_context_tokens
    if context_tokens <= most or not model.names_context or _is_permitted(environment):
        return None
    if any(each.replace("_", "-").lower().startswith(_OTHER_POSITIONS) for each in arguments):
        return None
    return (
        f"{model.name} has {most:,} positions, and vLLM refuses to start with more: write at most {most}. If its "
        f"positions can be scaled, scale them with --hf-overrides in spec.engine.extraArgs; {_PERMISSION}=1 in "
        "spec.podTemplate.env only turns the check off."
    )


def draft_refusal(speculation: Speculation, context_tokens: int, release: EngineVersion) -> str | None:
    """Return why the engine would serve shorter requests than that with a draft, and what to write; None otherwise.

    Since 0.33 the second model runner lowers ``--max-model-len`` to the length of a draft that is a model of its own,
    and says so in its log alone (``_limit_max_model_len_to_draft`` of ``config/vllm.py``). The positions of heads and
    prediction layers are raised to those of the model, unless they are scaled in a way that this cannot see.
    """
    draft = speculation.draft
    if release < _SHORTENED_BY_DRAFT_SINCE or draft is None or speculation.head is not None:
        return None
    if context_tokens <= draft.max_context_tokens or not draft.names_context:
        return None
    return (
        f"Since {_SHORTENED_BY_DRAFT_SINCE} vLLM serves no longer requests than the draft {draft.name} has positions: "
        f"write at most {draft.max_context_tokens}, another draft, or a release before {_SHORTENED_BY_DRAFT_SINCE}."
    )


def _is_permitted(environment: Mapping[str, str]) -> bool:
    return environment.get(_PERMISSION, "").strip().lower() in ("1", "true")


_WHOLE = re.compile(
    r"(Modern|Nomic)?BertFor\w+|(Modern|Nomic)?BertModel|(XLM)?Roberta\w+|Gte(New)?\w+|Gemma3nFor\w+|Idefics3For\w+"
    r"|SmolVLMFor\w+|Mamba2ForCausalLM|Zamba2ForCausalLM|IQuestLoopCoderForCausalLM|NemotronH_Nano_VL_V2"
    r"|Phi4MMForCausalLM|WhisperFor\w+"
)


def serves_in_stages(model: ModelFacts) -> bool:
    """Whether the engine may divide the model into pipeline stages."""
    return _WHOLE.fullmatch(model.architecture) is None
