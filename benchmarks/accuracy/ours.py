"""Our own estimate behind the benchmark's interface: the only module here that knows the core's functions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.reading.speculation import DRAFT_MODEL, MTP, NGRAM
from benchmarks.accuracy.setups import Setup
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Fit, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import CpuOffload, EngineChoice, Residency, Speculation
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate, estimate_of_stage, least_step
from plimsoll.engines.vllm.memory.laws.laws import OLDEST_VERSION, law_for
from plimsoll.engines.vllm.memory.weights.allocator import loading_bytes
from plimsoll.engines.vllm.memory.weights.loaded import COPIES_ENCODER_SINCE, served_model, with_loaded_indexers
from plimsoll.engines.vllm.settings import KV_DTYPES
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.drafts import as_engine_head
from plimsoll.memory.weights import stage_weights, weights_bytes

NAME: Final = "plimsoll"

_VERDICTS: Final = {Fit.SURE: Verdict.SURE, Fit.PROBABLE: Verdict.PROBABLE, Fit.NO: Verdict.NO}
_DTYPES: Final = {
    "float32": Precision.FP32,
    "float": Precision.FP32,
    "float16": Precision.FP16,
    "half": Precision.FP16,
    "bfloat16": Precision.BF16,
}
_KV_FORMATS: Final = {word: precision for precision, word in KV_DTYPES.items()}
_REFUSALS: Final = (InvalidInput, UnsupportedModel, ValueError)


class Ours:
    """The estimate of this project."""

    name = NAME
    source = "this checkout"

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """One prediction a setup; a refusal of the core is its note."""
        return [_guarded(setup, _widest if setup.possible else _predict) for setup in setups]

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """The tensors that the engine makes and loads on the fullest rank, without what kernels keep beside them."""
        return [_guarded(setup, _parameters) for setup in setups]


def facts_of(name: str, config: Mapping[str, Any]) -> ModelFacts:
    """The facts of a configuration, remembered.

    Raises:
        InvalidInput: a field is missing or absurd.
        UnsupportedModel: a part of the model has no law.
    """
    return _facts(name, json.dumps(config, sort_keys=True))


@lru_cache(maxsize=1024)
def _facts(name: str, config: str) -> ModelFacts:
    return read_model_facts(name, json.loads(config), revision=None, source=FactsSource.INLINE)


def _guarded(setup: Setup, answer: Any) -> Prediction:
    try:
        prediction: Prediction = answer(setup)
    except _REFUSALS as error:
        return Prediction(note=f"{type(error).__name__}: {error}"[:200])
    except Exception as error:  # noqa: BLE001 - a fault of the core is one case's, and is shown
        return Prediction(note=f"fault: {type(error).__name__}: {error}"[:200])
    return prediction


def _served(setup: Setup) -> ModelFacts:
    """The facts of the part that the engine loads; it copies no tower whose class does not let it."""
    facts, media = facts_of(setup.model, setup.config), setup.media
    since = COPIES_ENCODER_SINCE.get(facts.architecture)
    copies = media.copies_encoder and since is not None and setup.version >= since
    return with_loaded_indexers(served_model(facts, replace(media, copies_encoder=copies)), setup.version)


def _weights(setup: Setup) -> Prediction:
    facts = _served(setup)
    precision, split, law = _precision(setup, facts), _split(setup), law_for(max(setup.version, OLDEST_VERSION))
    tokens = setup.max_num_batched_tokens or 0
    beside = loading_bytes(facts, precision, None, split, law, batched_tokens=tokens)
    size = weights_bytes(facts, precision, split) + beside
    return Prediction(weights_gib=size / GIB)


def _parameters(setup: Setup) -> Prediction:
    facts, split = facts_of(setup.model, setup.config), _split(setup)
    precision = _precision(setup, facts)
    stages = range(split.pipeline_parallel)
    size = max(stage_weights(facts, precision, split, stage).parameters_bytes for stage in stages)
    return Prediction(weights_gib=size / GIB, buffers_gib=facts.rotary_bytes / GIB)


def _predict(setup: Setup) -> Prediction:
    if setup.gpu is None:
        return _weights(setup)
    asked = question_of(setup, setup.gpu)
    first = estimate_of_stage(asked.request, asked.gpu, asked.split, asked.settings, 0)
    return _prediction(setup, asked.figures, first)


@dataclass(frozen=True, slots=True)
class Question:
    """A start as the law is asked about it, and its estimate."""

    request: Request
    gpu: GpuType
    split: Split
    settings: EngineSettings
    figures: MemoryEstimate


def question_of(setup: Setup, card: GpuType) -> Question:
    """Return the question of a start on a card.

    Raises:
        UnsupportedModel, ValueError: no law covers it.
    """
    facts = _served(setup)
    percent = math.ceil(setup.utilization * 100 - 1e-9)
    gpu = _gpu_with_budget(card, setup.utilization, percent)
    request = Request(
        key=ObjectKey("benchmark", "case"),
        model=facts,
        precision=_precision(setup, facts),
        kv_precision=_kv_precision(setup, facts),
        shape=ServingShape(context_tokens=setup.max_model_len, concurrency=1),
        engine=EngineChoice(
            version=setup.version,
            gpu_memory_utilization_percent=percent,
            max_batched_tokens=setup.max_num_batched_tokens,
            enforce_eager=setup.enforce_eager,
            residency=_residency(setup),
            media=setup.media,
            lora=setup.lora,
            speculation=_speculation(setup, facts),
            unfollowed=_attention(setup),
            trusts_code=True,  # it has started
        ),
    )
    settings, split = _settings(setup, percent), _split(setup)
    if "max_num_batched_tokens" in setup.assumed:  # the engine's own default grows with the largest input
        step = max(settings.max_num_batched_tokens, least_step(request, settings.max_num_seqs))
        settings = replace(settings, max_num_batched_tokens=step)
    found = _with_real_room(setup, card, estimate(request, gpu, split, settings))
    return Question(request, gpu, split, settings, found)


def _widest(setup: Setup) -> Prediction:
    """Return the answer for a card of an unknown type: the middle one of its possible types, with all of their bands.

    The verdict is sure, or no, only where it is so on every type.
    """
    answers = [_guarded(each, _predict) for each in setup.possible]
    found = sorted((each for each in answers if each.kv_gib is not None), key=lambda each: each.kv_gib or 0)
    if not found:
        return answers[0]
    verdicts = {each.verdict for each in found}
    return replace(
        found[(len(found) - 1) // 2],
        verdict=verdicts.pop() if len(verdicts) == 1 else Verdict.PROBABLE,
        kv_low_gib=min(each.kv_low_gib for each in found if each.kv_low_gib is not None),
        kv_high_gib=max(each.kv_high_gib for each in found if each.kv_high_gib is not None),
        tokens_low=min(each.tokens_low for each in found if each.tokens_low is not None),
        tokens_high=max(each.tokens_high for each in found if each.tokens_high is not None),
        note=f"the card has no name: the widest band over {_names(setup.possible)}",
    )


def _names(setups: Sequence[Setup]) -> str:
    return ", ".join(each.gpu.name for each in setups if each.gpu is not None)


def _prediction(setup: Setup, found: MemoryEstimate, first: MemoryEstimate) -> Prediction:
    """Of a pipeline the first stage's log is the one that is kept; tokens and verdict are those of all stages.

    The engine logs the slots of adapters as weights.
    """
    available = first.available_kv_bytes
    return Prediction(
        weights_gib=(first.weights_bytes + first.adapters_bytes) / GIB,
        kv_gib=available / GIB,
        kv_tokens=found.kv_reported_tokens,
        concurrency=found.kv_capacity_tokens / setup.max_model_len,
        verdict=_VERDICTS[found.fit],
        kv_low_gib=(available - first.margin_bytes) / GIB,
        kv_high_gib=(available + first.slack_bytes) / GIB,
        tokens_low=found.kv_capacity_low_tokens,
        tokens_high=found.kv_capacity_high_tokens,
    )


def follows(setup: Setup) -> bool:
    """Whether the estimate is given the speculation that the record names, or the record names none."""
    if setup.drafting is None:
        return True
    try:
        return _speculation(setup, facts_of(setup.model, setup.config)) is not None
    except _REFUSALS:
        return False


def _speculation(setup: Setup, facts: ModelFacts) -> Speculation | None:
    """Return the record's speculation; None where there is none, or where no law covers it."""
    asked = setup.drafting
    if asked is None:
        return None
    tokens = asked.tokens or 1
    if asked.method == MTP:
        return Speculation(tokens, uses_predictor=True) if facts.predictor else None
    if asked.method == NGRAM:
        return Speculation(tokens)
    if setup.draft is None or asked.model is None:
        return None
    draft = facts_of(asked.model, setup.draft)
    if asked.method == DRAFT_MODEL:
        return Speculation(tokens, draft=draft)
    head = as_engine_head(draft)
    return None if head is None or head[0].value != asked.method else Speculation(tokens, draft=head[1], head=head[0])


def _gpu_with_budget(gpu: GpuType, utilization: float, percent: int) -> GpuType:
    """The card with so much less memory that a whole percentage of it is the record's budget (0.9764 is none)."""
    return replace(gpu, usable_bytes=int(gpu.usable_bytes * utilization * 100 / percent))


def _with_real_room(setup: Setup, gpu: GpuType, found: MemoryEstimate) -> MemoryEstimate:
    """The estimate with what the record's share, and not the whole percentage above it, leaves outside the budget."""
    return replace(found, usable_bytes=found.budget_bytes + int(gpu.usable_bytes * (1 - setup.utilization)))


def _attention(setup: Setup) -> tuple[str, ...]:
    return () if setup.attention_backend is None else (f"--attention-backend={setup.attention_backend}",)


def _settings(setup: Setup, percent: int) -> EngineSettings:
    return EngineSettings(
        max_model_len=setup.max_model_len,
        max_num_seqs=setup.max_num_seqs,
        max_num_batched_tokens=setup.max_num_batched_tokens,
        gpu_memory_utilization_percent=percent,
        dtype=setup.dtype,
        quantization=setup.quantization,
        kv_cache_dtype=setup.kv_cache_dtype,
        enforce_eager=setup.enforce_eager,
        residency=_residency(setup),
        media=setup.media,
    )


def _split(setup: Setup) -> Split:
    return Split(
        tensor_parallel=setup.tensor_parallel,
        pipeline_parallel=setup.pipeline_parallel,
        data_parallel=setup.data_parallel,
        expert_parallel=setup.expert_parallel,
        context_parallel=setup.context_parallel,
    )


def _residency(setup: Setup) -> Residency | None:
    return CpuOffload(int(setup.cpu_offload_gib * GIB)) if setup.cpu_offload_gib else None


def _precision(setup: Setup, facts: ModelFacts) -> Precision:
    """What the engine stores linear layers in: the checkpoint's format, online FP8, or the type that was asked for."""
    if setup.quantization is not None:
        return Precision.FP8
    if facts.checkpoint.precision.is_quantized:
        return facts.checkpoint.precision
    return _DTYPES.get(setup.dtype, _automatic(facts))


def _automatic(facts: ModelFacts) -> Precision:
    """The engine serves 32-bit checkpoints in 16 bits unless asked otherwise."""
    precision = facts.checkpoint.precision
    return Precision.BF16 if precision is Precision.FP32 else precision


def _kv_precision(setup: Setup, facts: ModelFacts) -> KvPrecision:
    if setup.kv_cache_dtype in _KV_FORMATS:
        return _KV_FORMATS[setup.kv_cache_dtype]
    if setup.kv_cache_dtype.startswith("fp8"):
        return KvPrecision.FP8
    if setup.kv_cache_dtype.startswith("nvfp4"):
        return KvPrecision.NVFP4
    if setup.kv_cache_dtype == "auto" and facts.checkpoint.kv_precision is not None:
        return facts.checkpoint.kv_precision
    dtype = _DTYPES.get(setup.dtype, facts.checkpoint.dtype)
    return KvPrecision.FP16 if dtype is Precision.FP16 else KvPrecision.BF16
