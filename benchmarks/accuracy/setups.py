"""A case turned into inputs: configuration, GPU, release, and a value for every flag, stated or defaulted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from benchmarks.accuracy.cases import Case, OracleRow
from benchmarks.accuracy.checkpoint import Checkpoint
from benchmarks.accuracy.families import architecture_of, family_of
from benchmarks.accuracy.peers.config_fields import context_length
from benchmarks.accuracy.reading.configs import Found
from benchmarks.accuracy.reading.gpus import FoundGpu, find_gpu
from benchmarks.accuracy.reading.speculation import MTP, NGRAM, Drafting, drafting_of
from benchmarks.accuracy.versions import is_exact, parse_version
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.engines.engine_choice import ALL_MEDIA, EngineVersion, LoraSlots, MediaUse
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.releases.options import (
    SMALL_SEQUENCES,
    SMALL_STEP,
    default_sequences,
    default_step,
    default_utilization,
)

_T = TypeVar("_T")

WEIGHTS_ONLY_VERSION = EngineVersion(0, 32)
"""The release of rows that ask for weights alone."""


GPU_TYPE, SPECULATION = "gpu type", "speculative"
"""The words noted as assumed for a card without a name, and for a speculation that the estimate is not given."""

_LORA_SLOTS, _LORA_RANK = 1, 16
"""What the engine takes for ``--max-loras`` and ``--max-lora-rank`` (vLLM ``config/lora.py``)."""


class UnusableCase(Exception):
    """A case that cannot be turned into inputs; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What every predictor is given. ``gpu`` is None where only the weights are asked for.

    ``lora`` are the adapters' slots. ``drafting`` is the speculation that the record names, and ``draft`` the
    configuration of its draft, where there is one. ``possible`` are the same inputs for each type that an unnamed card
    may be, with the flags that the engine chooses there; empty where the type is known.
    ``quantization`` is set only where the engine quantizes an unquantized checkpoint while loading. ``assumed`` names
    the flags that were filled in, and the features of the start that no predictor is told.
    """

    id: str
    model: str
    config: Mapping[str, Any]
    architecture: str
    family: str
    checkpoint: Checkpoint | None
    gpu: GpuType | None
    version: EngineVersion
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    expert_parallel: bool
    context_parallel: int = 1
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    max_model_len: int = 1
    utilization: float = 0.9
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    enforce_eager: bool = False
    media: MediaUse = ALL_MEDIA
    lora: LoraSlots | None = None
    drafting: Drafting | None = None
    draft: Mapping[str, Any] | None = None
    possible: tuple[Setup, ...] = ()
    cpu_offload_gib: float = 0
    attention_backend: str | None = None
    assumed: tuple[str, ...] = ()

    @property
    def total_gib(self) -> float:
        """Memory of the GPU as the framework sees it; 0 without a GPU."""
        return self.gpu.usable_bytes / GIB if self.gpu else 0

    @property
    def ranks(self) -> int:
        """GPUs that share one copy of the model's dense weights."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def gpus(self) -> int:
        """GPUs of one replica, data parallelism included."""
        return self.ranks * self.data_parallel


def setup_of(case: Case, found: Found, checkpoint: Checkpoint | None, draft: Mapping[str, Any] | None = None) -> Setup:
    """Return the inputs of a measured start. ``draft`` is the configuration of the draft that it names.

    A record that tells no GPU, or no release, is good for its weights alone.

    Raises:
        UnusableCase: it printed no weights either.
    """
    found_gpu = find_gpu(case.gpu, case.total_gib)
    setup = _setup(case, found, checkpoint, found_gpu, draft)
    if found_gpu is None or len(found_gpu.possible) < len(("one", "another")) or setup.gpu is None:
        return setup
    each = (replace(found_gpu, gpu=gpu) for gpu in found_gpu.possible)
    return replace(setup, possible=tuple(_setup(case, found, checkpoint, one, draft) for one in each))


def _setup(
    case: Case,
    found: Found,
    checkpoint: Checkpoint | None,
    found_gpu: FoundGpu | None,
    draft: Mapping[str, Any] | None,
) -> Setup:
    assumed = _Assumed(case)
    version = parse_version(case.version)
    gpu = None if found_gpu is None or version is None else found_gpu.gpu
    if gpu is None and case.measured.weights_gib is None:
        raise UnusableCase("tells no GPU or no release, and printed no weights")
    if found_gpu is not None and found_gpu.possible:
        assumed.names.append(GPU_TYPE)
    if not is_exact(case.version):
        assumed.names.append("vllm_version")
    if found_gpu is None or not found_gpu.is_stated:
        assumed.note("gpu memory", complete=is_catalogued(case.gpu))
    version = version or WEIGHTS_ONLY_VERSION
    tensor_parallel = assumed.value("tensor_parallel_size", case.tensor_parallel, 1)
    length = assumed.value("max_model_len", case.max_model_len, context_length(found.config) or 32768)
    seqs = assumed.value(
        "max_num_seqs",
        case.max_num_seqs or _cli_number(case, "max-num-seqs"),
        _default_sequences(case, version, gpu),
    )
    batched = assumed.value(
        "max_num_batched_tokens",
        case.max_num_batched_tokens or _cli_number(case, "max-num-batched-tokens"),
        min(default_step(version, gpu), seqs * length),
    )
    utilization = assumed.value("gpu_memory_utilization", case.utilization, default_utilization(version))
    drafting = drafting_of(case.other_flags)
    if _takes_adapters(case):
        assumed.note("max_loras, max_lora_rank", complete=case.complete)
    if drafting is not None:
        _note_drafting(assumed, drafting, draft)
    if case.other_flags.get("VLLM_PP_LAYER_PARTITION"):
        assumed.names.append("VLLM_PP_LAYER_PARTITION")
    return Setup(
        id=case.id,
        model=case.model or "",
        config=found.config,
        architecture=architecture_of(found.config),
        family=family_of(found.config),
        checkpoint=checkpoint,
        gpu=gpu,
        version=version,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=case.pipeline_parallel or 1,
        data_parallel=case.data_parallel or 1,
        expert_parallel=case.expert_parallel,
        context_parallel=int(case.other_flags.get("decode_context_parallel_size") or 1),
        dtype=case.dtype or "auto",
        quantization=_online_quantization(case, found.config),
        kv_cache_dtype=case.kv_cache_dtype or "auto",
        max_model_len=length,
        utilization=utilization,
        max_num_seqs=min(1 if _pools(case) else seqs, batched),
        max_num_batched_tokens=batched,
        enforce_eager=bool(case.enforce_eager) or "--enforce-eager" in _cli(case).replace("no --enforce-eager", ""),
        media=_media(case),
        lora=_adapters(case),
        drafting=drafting,
        draft=draft,
        cpu_offload_gib=float(case.other_flags.get("cpu_offload_gb") or 0),
        attention_backend=case.other_flags.get("attention_backend"),
        assumed=tuple(assumed.names),
    )


def weights_setup(row: OracleRow, found: Found, checkpoint: Checkpoint | None) -> Setup:
    """The inputs of a row that asks for weights alone."""
    config = found.config if row.quantized is not False else unquantized(found.config)
    return Setup(
        id=row.id,
        model=row.config,
        config=config,
        architecture=architecture_of(config),
        family=family_of(config),
        checkpoint=checkpoint,
        gpu=None,
        version=WEIGHTS_ONLY_VERSION,
        tensor_parallel=row.tensor_parallel,
        pipeline_parallel=row.pipeline_parallel,
        data_parallel=1,
        expert_parallel=row.expert_parallel,
    )


def unquantized(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without its quantization, also inside its text part."""
    plain = {key: value for key, value in config.items() if key not in {"quantization_config", "quantization"}}
    if isinstance(inner := plain.get("text_config"), Mapping):
        plain["text_config"] = {key: value for key, value in inner.items() if key != "quantization_config"}
    return plain


def is_catalogued(gpu_name: str | None) -> bool:
    """Whether the catalogue's usable memory, taken from engine logs, is what such a card really shows."""
    found = find_gpu(gpu_name, None)
    return found is not None and bool(found.gpu.product_labels)


class _Assumed:
    """Remembers which flags were filled in; those of complete commands were left to the engine, which is no guess."""

    def __init__(self, case: Case) -> None:
        self.names: list[str] = []
        self.is_complete = case.complete

    def value(self, name: str, stated: _T | None, default: _T) -> _T:
        if stated is not None:
            return stated
        self.note(name, complete=self.is_complete)
        return default

    def note(self, name: str, *, complete: bool) -> None:
        if not complete:
            self.names.append(name)


def _default_sequences(case: Case, version: EngineVersion, gpu: GpuType | None) -> int:
    """The engine's table has two rows: a start that prints 2,048 tokens a step runs 256 sequences, whatever its GPU."""
    if case.max_num_batched_tokens == SMALL_STEP and _cli_number(case, "max-num-batched-tokens") is None:
        return SMALL_SEQUENCES
    return default_sequences(version, gpu)


def _online_quantization(case: Case, config: Mapping[str, Any]) -> str | None:
    if config.get("quantization_config") or case.quantization is None:
        return None
    return "fp8" if case.quantization.lower().startswith("fp8") else None


def _pools(case: Case) -> bool:
    """Whether the engine embeds and samples nothing: as little as a single sequence."""
    return case.other_flags.get("runner") == "pooling"


def _cli(case: Case) -> str:
    return str(case.other_flags.get("cli", ""))


def _cli_number(case: Case, flag: str) -> int | None:
    found = re.search(rf"--{flag}[ =](\d+)", _cli(case))
    return int(found[1]) if found else None


def _takes_adapters(case: Case) -> bool:
    return bool(case.other_flags.get("enable_lora")) or "--enable-lora" in _cli(case)


def _note_drafting(assumed: _Assumed, drafting: Drafting, draft: Mapping[str, Any] | None) -> None:
    """Note a method that no estimate follows, a draft without a configuration, and a number that is not stated."""
    if drafting.method not in (MTP, NGRAM) and draft is None:
        assumed.names.append(SPECULATION)
    elif drafting.tokens is None:
        assumed.note("num_speculative_tokens", complete=assumed.is_complete and drafting.method == MTP)


def _adapters(case: Case) -> LoraSlots | None:
    """Slots and rank are the engine's defaults where they are not told."""
    flags = case.other_flags
    if not _takes_adapters(case):
        return None
    slots = flags.get("max_loras") or _cli_number(case, "max-loras") or _LORA_SLOTS
    return LoraSlots(int(slots), int(flags.get("max_lora_rank") or _cli_number(case, "max-lora-rank") or _LORA_RANK))


def _media(case: Case) -> MediaUse:
    limits = f"{case.other_flags.get('limit_mm_per_prompt', '')} {_cli(case)}"
    images, videos = (re.search(rf"{kind}['\"]?[:=] *(\d+)", limits) for kind in ("image", "video"))
    most = int(images[1]) if images else None
    mode = f"{case.other_flags.get('mm_encoder_tp_mode', '')} {_cli(case)}"
    return MediaUse(
        text_only="--language-model-only" in _cli(case) or most == 0,
        copies_encoder=re.search(r"(^|mm-encoder-tp-mode[ =])data", mode) is not None,
        images=most,
        videos=int(videos[1]) if videos else None,
    )
