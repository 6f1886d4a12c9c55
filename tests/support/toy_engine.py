"""A second engine: other flags, other metric names, other error texts, and the simplest memory law that there can be.

It holds the weights and one KV cache for every request at full length. It measures nothing and captures no graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.cluster.host import USUAL_HOST
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Option, Split
from plimsoll.domain.decisions.terms import KV_CACHE, WEIGHTS, Derivation, Term
from plimsoll.domain.engines.engine_choice import NO_HOST_USE, EngineChoice, EngineVersion
from plimsoll.domain.engines.failures import EngineFailure, StartFailure
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.requests.workload import ENGINE_PORT, WorkloadOptions
from plimsoll.engines.base import Engine, Launch, Probe, StartCommandReader, StartLogReader
from plimsoll.engines.flags import OwnedFlag
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.start_lines import LastStart
from plimsoll.engines.starts import StartCommand, StartFigures, StartLog, StartOptions
from plimsoll.memory.cache_bytes import PER_TOKEN_CACHES, RankFormat, token_bytes
from plimsoll.memory.load import needed_tokens
from plimsoll.memory.stages import stage_caches
from plimsoll.memory.weights import weights_bytes

_TYPE_BYTES = 2
COMMAND = ("abacus", "serve")
_NO_KV_CACHE = "abacus: the beads do not fit"

METRICS = EngineMetrics(
    kv_usage="abacus_cache_used_ratio",
    waiting="abacus_requests_queued",
    running="abacus_requests_active",
    preemptions="abacus_requests_evicted_total",
    prompt_tokens="abacus_tokens_read_total",
    generation_tokens="abacus_tokens_written_total",
    capacity="abacus_cache_tokens",
    capacity_tokens=lambda _, value: int(value) or None,
    rank_label="replica_rank",
    own_labels=frozenset({"replica_rank", "served"}),
)


def settings(request: Request, _: GpuType, __: Split) -> EngineSettings:
    """The engine reads one sequence in a step."""
    return EngineSettings(
        max_model_len=request.shape.context_tokens,
        max_num_seqs=request.shape.concurrency,
        max_num_batched_tokens=request.shape.context_tokens,
        gpu_memory_utilization_percent=request.engine.gpu_memory_utilization_percent,
        dtype="half",
        quantization=None,
        kv_cache_dtype="half",
        enforce_eager=True,
    )


def estimate(request: Request, gpu: GpuType, split: Split, chosen: EngineSettings) -> MemoryEstimate:
    """Weights, and tokens times the bytes of one."""
    weights = weights_bytes(request.model, request.precision, split)
    budget = gpu.usable_bytes * chosen.gpu_memory_utilization_percent // 100
    token, tokens = _token_bytes(request, split), needed_tokens(request.shape)
    capacity = max(0, budget - weights) // token
    return MemoryEstimate(
        terms=(Term(WEIGHTS, weights, _every_tensor), Term(KV_CACHE, tokens * token, _all_tokens, (tokens, token))),
        margin_bytes=0,
        outside_bytes=0,
        usable_bytes=gpu.usable_bytes,
        budget_bytes=budget,
        kv_bytes_per_token=token,
        kv_needed_tokens=tokens,
        kv_capacity_tokens=capacity,
        kv_capacity_low_tokens=capacity,
        kv_capacity_high_tokens=capacity,
        kv_reported_tokens=capacity,
    )


def _every_tensor(_: object) -> Derivation:
    return Derivation("every tensor")


def _all_tokens(counted: tuple[int, int]) -> Derivation:
    return Derivation(f"{counted[0]:,} tokens x {counted[1]:,} B")


def _token_bytes(request: Request, split: Split) -> int:
    rank = RankFormat(request.kv_precision, _TYPE_BYTES, split.tensor_parallel, 0, request.model.name)
    caches = stage_caches(request.model, 0, split.pipeline_parallel)
    return sum(count * token_bytes(cache, rank) for cache, count in caches if isinstance(cache, PER_TOKEN_CACHES))


def cache_bytes(
    request: Request, __: GpuType, split: Split, _: EngineSettings, figures: MemoryEstimate, reported: int
) -> tuple[int, int]:
    """Both figures in bytes; the engine counts the tokens of its cache as the operator does."""
    return figures.available_kv_bytes, reported * _token_bytes(request, split)


def launch(options: WorkloadOptions, choice: Option) -> Launch:
    """``abacus serve`` with its own flags."""
    chosen, health = choice.settings, Probe("/alive", period_seconds=7, failures=3)
    arguments = {
        "--weights": options.model_source,
        "--longest": chosen.max_model_len,
        "--slots": chosen.max_num_seqs,
        "--share": chosen.gpu_memory_utilization_percent / 100,
        "--cards": choice.split.tensor_parallel,
        "--listen": ENGINE_PORT,
    }
    return Launch(
        command=COMMAND,
        arguments=(*(str(part) for pair in arguments.items() for part in pair), *options.extra_args),
        environment={"ABACUS_HOME": "/cache/abacus"},
        user_id=1234,
        start_seconds=70,
        drain_seconds=30,
        startup=Probe("/alive", period_seconds=7, failures=10),
        readiness=health,
        liveness=health,
    )


def image(vendor: Vendor, release: str, _: str | None = None) -> str:
    """One repository for each vendor."""
    return f"example.com/abacus-{vendor.value}:{release}"


def find_failure(message: str) -> EngineFailure | None:
    """The engine has one error."""
    return EngineFailure(StartFailure.NO_KV_CACHE, _NO_KV_CACHE) if _NO_KV_CACHE in message else None


def whole_model(model: ModelFacts, _: EngineChoice) -> ModelFacts:
    """The engine leaves nothing out."""
    return model


def read_command(words: Sequence[str], _: Mapping[str, str], __: str, ___: EngineVersion) -> StartCommand:
    """Pairs of a flag and its value. What begins with ``--experimental`` has no law."""
    given = dict(zip(words[::2], words[1::2], strict=False))
    options = StartOptions(
        max_model_len=int(given["--longest"]) if "--longest" in given else None,
        max_num_seqs=int(given["--slots"]) if "--slots" in given else None,
        utilization=float(given["--share"]) if "--share" in given else None,
        trusts_code=True,
        unfollowed=tuple(f"{flag}={value}" for flag, value in given.items() if flag.startswith("--experimental")),
    )
    split = Split(int(given.get("--cards", "1")))
    return StartCommand("abacus", model=given.get("--weights"), revision=None, split=split, options=options)


def server_arguments(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words after ``abacus serve``."""
    return tuple(words[2:]) if list(words[:2]) == ["abacus", "serve"] else None


def last_start() -> LastStart:
    """Return a keeper of lines. Every line begins a start."""
    return LastStart(("abacus ",), _LOGGED)


def read_log(lines: Iterable[str]) -> StartLog | None:
    """One line has it all: ``abacus 2.1: MODEL holds TOKENS tokens``."""
    found = next((match for line in lines if (match := _LOGGED.match(line)) is not None), None)
    if found is None:
        return None
    version, figures = EngineVersion.of(found[1]), StartFigures(kv_tokens=int(found[3]))
    options = StartOptions(max_num_seqs=4, trusts_code=True)
    return StartLog("abacus", found[1], version, found[2], Split(1), options, figures, served=True)


_LOGGED = re.compile(r"abacus ([\d.]+): (\S+) holds (\d+) tokens")

ABACUS = Engine(
    name="abacus",
    title="Abacus",
    oldest=EngineVersion(1, 0),
    metrics=METRICS,
    owned_flags=(OwnedFlag("--slots", "sl.*", "spec.concurrency"),),
    reserved_environment=("ABACUS_HOME",),
    lora_ranks=(8,),
    since={},
    copies_encoder_since={},
    adapters_refusal=lambda _: "Abacus serves no adapters.",
    host_use=lambda *_: NO_HOST_USE,
    host=lambda *_: USUAL_HOST,
    loaded=whole_model,
    missing_capability=lambda *_: (),
    settings=settings,
    lean_settings=lambda *given: given[-1],
    estimate=estimate,
    full_length_tokens=lambda *given: given[-1],
    cache_bytes=cache_bytes,
    image=image,
    launch=launch,
    command=COMMAND,
    find_failure=find_failure,
    start_logs=StartLogReader(last_start, read_log),
    start_commands=StartCommandReader(
        server_arguments,
        lambda image: "abacus" in image,
        lambda _: None,
        read_command,
        "abacus serve --weights Qwen/Qwen3-8B",
    ),
)
