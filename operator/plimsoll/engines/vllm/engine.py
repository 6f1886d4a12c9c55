"""vLLM as an engine: each answer is in a module of its own."""

from __future__ import annotations

from plimsoll.domain.engines.engine_choice import EngineChoice
from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.base import Engine, StartCommandReader, StartLogReader
from plimsoll.engines.vllm.capabilities import missing_capability
from plimsoll.engines.vllm.checkpoint_files import fills_cache, unconfirmed
from plimsoll.engines.vllm.flags.extra_arguments import OWNED_FLAGS, misused_argument
from plimsoll.engines.vllm.host import host, host_use
from plimsoll.engines.vllm.host_cache import HOST_CACHE_FLAGS, host_cache, host_cache_refusal
from plimsoll.engines.vllm.launch import RESERVED_ENVIRONMENT, image, launch, least_driver
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import cache_bytes, full_length_tokens
from plimsoll.engines.vllm.memory.laws.laws import OLDEST_VERSION
from plimsoll.engines.vllm.memory.weights.adapters import RANKS, adapters_refusal
from plimsoll.engines.vllm.memory.weights.loaded import COPIES_ENCODER_SINCE, served_model, with_loaded_indexers
from plimsoll.engines.vllm.metrics import METRICS
from plimsoll.engines.vllm.model_runner import model_runner, offload_refusal, other_runner
from plimsoll.engines.vllm.refusals import (
    context_refusal,
    draft_refusal,
    follows_block,
    misfit,
    serves_in_stages,
)
from plimsoll.engines.vllm.releases.options import SINCE, default_utilization
from plimsoll.engines.vllm.releases.support import release_refusal
from plimsoll.engines.vllm.remote_code import code_refusal
from plimsoll.engines.vllm.settings import (
    cache_refusal,
    engine_settings,
    may_fit,
    most_sequences,
    served_on,
    with_a_small_step,
)
from plimsoll.engines.vllm.starts.command_line import (
    EXAMPLE,
    is_server_image,
    read_command,
    release_of_image,
    server_arguments,
)
from plimsoll.engines.vllm.starts.failures import find_failure
from plimsoll.engines.vllm.starts.start_log import last_start, read_lines


def loaded_model(model: ModelFacts, engine: EngineChoice) -> ModelFacts:
    """Return the part of a model that the engine loads."""
    return with_loaded_indexers(served_model(model, engine.media), engine.version)


VLLM = Engine(
    name="vllm",
    title="vLLM",
    oldest=OLDEST_VERSION,
    metrics=METRICS,
    owned_flags=OWNED_FLAGS,
    reserved_environment=RESERVED_ENVIRONMENT,
    lora_ranks=RANKS,
    since=SINCE,
    copies_encoder_since=COPIES_ENCODER_SINCE,
    adapters_refusal=adapters_refusal,
    release_refusal=release_refusal,
    host_use=host_use,
    host_cache_flags=HOST_CACHE_FLAGS,
    host_cache_refusal=host_cache_refusal,
    host_cache=host_cache,
    host=host,
    loaded=loaded_model,
    missing_capability=missing_capability,
    settings=engine_settings,
    lean_settings=with_a_small_step,
    estimate=estimate,
    may_fit=may_fit,
    full_length_tokens=full_length_tokens,
    cache_bytes=cache_bytes,
    image=image,
    launch=launch,
    least_driver=least_driver,
    fills_cache=fills_cache,
    find_failure=find_failure,
    most_sequences=most_sequences,
    context_refusal=context_refusal,
    model_runner=model_runner,
    offload_refusal=offload_refusal,
    other_runner=other_runner,
    draft_refusal=draft_refusal,
    cache_refusal=cache_refusal,
    serves_in_stages=serves_in_stages,
    served_on=served_on,
    code_refusal=code_refusal,
    follows_block=follows_block,
    misused_argument=misused_argument,
    knows_flags=True,
    start_logs=StartLogReader(last_start, read_lines),
    start_commands=StartCommandReader(
        server_arguments, is_server_image, release_of_image, read_command, EXAMPLE, misfit, unconfirmed
    ),
    default_utilization=default_utilization,
)
