"""The estimates that are kept: of every measured start, and of starts of every kind of model with every kind of option.

Nobody measured the latter. They are kept so that a change of a law shows each kind of start that it moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.loading import DATA, LOGS, RUNS, Sources, load
from benchmarks.accuracy.ours import Ours
from benchmarks.accuracy.prediction import Prediction
from plimsoll.adapters.catalog import catalogued_models, load_gpu_types, load_model_facts
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import Term
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    EngineChoice,
    EngineVersion,
    LoraSlots,
    MediaUse,
    Speculation,
    WeightStreaming,
)
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import Evidence, FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.kv_cache import kv_law
from plimsoll.engines.vllm.memory.laws.laws import CHANGES, OLDEST_VERSION
from plimsoll.engines.vllm.memory.weights.loaded import served_model
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.facts.models.config_json import read_model_facts

ROOT = Path(__file__).resolve().parents[2]
ESTIMATED_STARTS = ROOT / "tests" / "memory" / "data" / "estimated_starts.jsonl"
ESTIMATED_KINDS = ROOT / "tests" / "memory" / "data" / "estimated_kinds.jsonl"

RELEASE = EngineVersion(0, 32)
NEWEST_MINOR = 33
ONE_GPU, USUAL_LOAD = Split(1), ServingShape(8192, 16)
OLDEST_PATCHES = (EngineVersion(0, 8, 5), EngineVersion(0, 10, 2), EngineVersion(0, 11, 1))


@dataclass(frozen=True, slots=True)
class Kind:
    """What a start differs in from a usual one: one H100, the release of the constant, the model's own formats."""

    gpu: str = "h100-sxm-80gb"
    split: Split = ONE_GPU
    precision: Precision | None = None
    kv: KvPrecision | None = None
    shape: ServingShape = USUAL_LOAD
    engine: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "usual": Kind(),
    "two GPUs, fp8 cache": Kind(split=Split(2), kv=KvPrecision.FP8),
    "two stages": Kind(split=Split(1, 2)),
    "four stages of two": Kind(split=Split(2, 4), shape=ServingShape(32768, 64)),
    "experts over two engines": Kind(gpu="h200-sxm-141gb", split=Split(1, 1, 2, expert_parallel=True)),
    "eight GPUs share tokens": Kind(gpu="b200-sxm-180gb", split=Split(8, context_parallel=8)),
    "adapters": Kind(engine={"lora": LoraSlots(3, 24)}),
    "adapters on two GPUs": Kind(split=Split(2), engine={"lora": LoraSlots(1, 64)}),
    "offload": Kind(gpu="l4-24gb", engine={"residency": CpuOffload(5 * GIB)}),
    "streamed": Kind(gpu="l40s-48gb", split=Split(2), engine={"residency": WeightStreaming(4, 2, 1)}),
    "32 bits": Kind(split=Split(2), precision=Precision.FP32),
    "eager": Kind(gpu="a100-sxm-80gb", engine={"enforce_eager": True}),
    "n-grams": Kind(engine={"speculation": Speculation(4)}),
    "own predictor": Kind(split=Split(2), engine={"speculation": Speculation(3, uses_predictor=True)}),
    "Instinct": Kind(gpu="mi300x-192gb", split=Split(2)),
    "graphics card": Kind(gpu="r9700-32gb"),
    "old graphics card": Kind(gpu="r9700-32gb", engine={"version": EngineVersion(0, 11)}),
    "graphics card, another attention": Kind(
        gpu="rx-9070-xt-16gb", engine={"unfollowed": ("--attention-backend=TRITON_ATTN",)}
    ),
    "T4": Kind(gpu="t4-16gb", split=Split(4), engine={"version": EngineVersion(0, 9, 2)}),
    "Blackwell": Kind(gpu="b200-sxm-180gb", split=Split(1)),
    "experts over Blackwell": Kind(gpu="b300-sxm-288gb", split=Split(1, 1, 4, expert_parallel=True)),
    "Blackwell, nvfp4 cache": Kind(gpu="b200-sxm-180gb", kv=KvPrecision.NVFP4),
    "int8 cache": Kind(gpu="rtx-4090-24gb", kv=KvPrecision.INT8),
    "turboquant": Kind(gpu="a100-sxm-80gb", kv=KvPrecision.TURBO_K3V4),
    "towers copied": Kind(split=Split(2), engine={"media": MediaUse(copies_encoder=True, images=2)}),
    "text only": Kind(engine={"media": MediaUse(text_only=True)}),
    "small steps": Kind(shape=ServingShape(2048, 3), engine={"max_batched_tokens": 1536}),
    "one request": Kind(gpu="l40s-48gb", shape=ServingShape(4096, 1), engine={"max_sequences": 1}),
    "one request on two GPUs": Kind(split=Split(2), shape=ServingShape(4096, 1), engine={"max_sequences": 1}),
    "many requests": Kind(shape=ServingShape(1024, 700), engine={"gpu_memory_utilization_percent": 95}),
    "the longest requests": Kind(gpu="b200-sxm-180gb", split=Split(8), shape=ServingShape(256 * 1024, 2)),
    "most requests are short": Kind(shape=ServingShape(32768, 64, 900, 100)),
    "most requests are long": Kind(shape=ServingShape(32768, 64, 30_000, 2000)),
    "short requests and a long one": Kind(gpu="a10-24gb", shape=ServingShape(32768, 4, 90, 10)),
    "short requests, full lengths are kept": Kind(shape=ServingShape(32768, 16, 900, 100, guaranteed=True)),
    "long requests": Kind(gpu="h200-sxm-141gb", split=Split(4), shape=ServingShape(131072, 4)),
}
"""Every kind of start, by its name."""

LARGE_SAMPLER = Kind(
    shape=ServingShape(1024, 512), engine={"version": EngineVersion(0, 20), "max_batched_tokens": 1024}
)
"""Its peak is the sampler, whose buffer depends on the GPU's multiprocessors."""

EACH = 16
"""The kinds of start of every architecture: others for the next one, so that each kind meets every sort of model."""

OF_ANY_RELEASE = 10
"""So many of them are for other releases than the usual one, and for other GPUs where no GPU belongs to the kind."""

SCOUT = "Llama-4-Scout, text only"

BY_RELEASE = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/DeepSeek-V3.2-NVFP4",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    SCOUT,
)
"""Models of different caches, which are estimated for every release."""

LLAMA_4_SCOUT = {
    "architectures": ["Llama4ForCausalLM"],
    "attention_chunk_size": 8192,
    "head_dim": 128,
    "hidden_size": 5120,
    "interleave_moe_layer_step": 1,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "max_position_embeddings": 10485760,
    "model_type": "llama4_text",
    "no_rope_layers": [1, 1, 1, 0] * 12,
    "num_attention_heads": 40,
    "num_experts_per_tok": 1,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_qk_norm": True,
    "vocab_size": 202048,
}
"""``text_config`` of meta-llama/Llama-4-Scout-17B-16E: the only kind of cache with chunks."""


MEASURED: Final = ((RUNS, LOGS), (None, DATA / "later_logs.json"), (None, DATA / "own_starts.json"))
"""Runs and logs of measured starts."""


def estimated_starts() -> Iterator[tuple[Path, str]]:
    """The file with the estimate for every measured start, a line each, with its text."""
    found = (load(Sources(runs, logs, oracle=None)) for runs, logs in MEASURED)
    scored = [each for loaded in found for each in loaded.scored]
    predicted = Ours().predict([each.setup for each in scored])
    yield ESTIMATED_STARTS, _lines(_measured(each.case.id, said) for each, said in zip(scored, predicted, strict=True))


def estimated_kinds() -> Iterator[tuple[Path, str]]:
    """The file with the estimate for starts of every kind, a line each, with its text."""
    yield ESTIMATED_KINDS, _lines(map(_asked, questions()))


def questions() -> Iterator[tuple[str, str, Kind]]:
    """Yield a name, a model and what its start differs in."""
    names, releases, gpus = list(KINDS), _releases(), [each.name for each in load_gpu_types() if not each.is_slice]
    for number, facts in enumerate(_one_of_each()):
        for step in range(EACH):
            at = number * EACH + step
            name = names[at % len(names)]
            kind, said = KINDS[name], f"{facts.name}: {name}"
            if step >= EACH - OF_ANY_RELEASE and "version" not in kind.engine:
                version = releases[at % len(releases)]
                gpu = gpus[at % len(gpus)] if kind.gpu == KINDS["usual"].gpu else kind.gpu
                kind = replace(kind, gpu=gpu, engine={**kind.engine, "version": version})
                said = f"{said}, {version}, {gpu}"
            yield said, facts.name, kind
    for model in BY_RELEASE:
        for version in releases:
            yield f"{model}: {version}", model, Kind(gpu="h200-sxm-141gb", split=Split(4), engine={"version": version})
    for gpu in gpus:
        yield f"large sampler: {gpu}", "Qwen/Qwen2.5-0.5B", replace(LARGE_SAMPLER, gpu=gpu)


def _releases() -> list[EngineVersion]:
    """Every minor release, and every patch release that changed a law."""
    minor = (EngineVersion(0, each) for each in range(OLDEST_VERSION.minor + 1, NEWEST_MINOR + 1))
    return sorted({*minor, *OLDEST_PATCHES, *(change.since for change in (*CHANGES, *kv_law.CHANGES))})


@cache
def _models() -> dict[str, ModelFacts]:
    """Every catalogued model, and those of the measured starts."""
    catalogued = (load_model_facts(name) for name in catalogued_models())
    found = {facts.name: facts for facts in catalogued if facts is not None}
    for path in sorted((DATA / "model-configs").glob("*.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        try:
            facts = read_model_facts(path.stem.replace("__", "/"), config, revision=None, source=FactsSource.INLINE)
        except (InvalidInput, UnsupportedModel):
            continue
        found.setdefault(facts.name, facts)
    new_class = LLAMA_4_SCOUT | {"architectures": ["UnknownForCausalLM"], "model_type": "unknown"}
    for name, config in ((SCOUT, LLAMA_4_SCOUT), ("a class that nobody checked", new_class)):
        found[name] = read_model_facts(name, config, revision=None, source=FactsSource.INLINE)
    usual = found[BY_RELEASE[0]]
    by_tensors = "a class that was read from its tensors"
    return found | {by_tensors: replace(usual, name=by_tensors, architecture=by_tensors, evidence=Evidence.TENSORS)}


def _one_of_each() -> list[ModelFacts]:
    """The first model of every architecture and weight format."""
    first = dict[tuple[object, ...], ModelFacts]()
    for facts in _models().values():
        first.setdefault((facts.architecture, facts.checkpoint.precision), facts)
    return list(first.values())


def _measured(start: str, said: Prediction) -> dict[str, Any]:
    """Sizes are KiB of one GPU."""
    sizes = {
        "weights": said.weights_gib,
        "kvCache": said.kv_gib,
        "kvCacheLow": said.kv_low_gib,
        "kvCacheHigh": said.kv_high_gib,
    }
    written: dict[str, Any] = {"start": start, "fit": said.verdict}
    written |= {name: None if gib is None else round(gib * 2**20) for name, gib in sizes.items()}
    written |= {"kvTokens": [said.tokens_low, said.kv_tokens, said.tokens_high]}
    return written | ({"note": said.note} if said.note else {})


def _asked(question: tuple[str, str, Kind]) -> dict[str, Any]:
    """Sizes are bytes of one GPU."""
    start, model, kind = question
    engine = replace(EngineChoice(**{"version": RELEASE} | kind.engine), trusts_code=True)
    facts = served_model(_models()[model], engine.media)
    gpu = next(each for each in load_gpu_types() if each.name == kind.gpu)
    request = Request(
        key=ObjectKey("golden", "start"),
        model=facts,
        precision=kind.precision or facts.checkpoint.precision,
        kv_precision=kind.kv or facts.checkpoint.kv_precision or KvPrecision.BF16,
        shape=replace(kind.shape, context_tokens=min(kind.shape.context_tokens, facts.max_context_tokens)),
        engine=engine,
    )
    try:
        found = estimate(request, gpu, kind.split, engine_settings(request, gpu, kind.split))
    except (InvalidInput, UnsupportedModel, ValueError) as error:
        return {"start": start, "note": f"{type(error).__name__}: {error}"}
    words = [_words(term) for term in found.terms if term.size_bytes]
    digest = sha256("\n".join(words).encode()).hexdigest()[:12]
    shown = {"words": words} if kind == KINDS["usual"] else {"digest": digest}
    optional = {"host": found.host_bytes, "maxSequences": found.max_sequences, **shown}
    return {
        "start": start,
        "fit": found.fit,
        "terms": {term.name.key: term.size_bytes for term in found.terms if term.size_bytes},
        "band": [found.slack_bytes, found.margin_bytes],
        "outside": found.outside_bytes,
        "kvTokens": [found.kv_capacity_low_tokens, found.kv_capacity_tokens, found.kv_capacity_high_tokens],
        "reported": found.kv_reported_tokens,
    } | {name: figure for name, figure in optional.items() if figure}


def _words(term: Term) -> str:
    """How the bytes of a term come about, in one line."""
    derived = term.derive()
    parts = (f"{line.label}: {line.formula} = {line.size_bytes}" for line in derived.lines)
    load = derived.cache
    counted = () if load is None else (f"{load.requests} x {load.tokens} tokens, {load.percent} %",)
    return "; ".join((f"{term.name.title}: {derived.formula}", *parts, *counted))


def _lines(written: Iterator[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in written)
