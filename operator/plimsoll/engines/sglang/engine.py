"""SGLang as an engine: each answer is in a module of its own."""

from __future__ import annotations

from plimsoll.domain.cluster.host import USUAL_HOST
from plimsoll.domain.engines.engine_choice import NO_HOST_USE, EngineChoice, EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.base import Engine, Feature, StartLogReader
from plimsoll.engines.sglang.capabilities import missing_capability
from plimsoll.engines.sglang.failures import find_failure
from plimsoll.engines.sglang.flags import OWNED_FLAGS
from plimsoll.engines.sglang.launch import COMMAND, RESERVED_ENVIRONMENT, image, launch, least_driver
from plimsoll.engines.sglang.memory.estimate import cache_bytes, estimate, full_length_tokens
from plimsoll.engines.sglang.metrics import METRICS
from plimsoll.engines.sglang.refusals import OLDEST, context_refusal, release_refusal
from plimsoll.engines.sglang.settings import cache_refusal, engine_settings, may_fit, most_sequences, with_a_small_step
from plimsoll.engines.sglang.starts.start_log import last_start, logged_settings, placed, read_lines

OVERLAPS_SINCE = EngineVersion(0, 4)
"""The scheduler plans a batch while the one before it runs, unless ``--disable-overlap-schedule`` is set."""


def whole_model(model: ModelFacts, _: EngineChoice) -> ModelFacts:
    """Return the part of a model that the engine loads: all of it."""
    return model


SGLANG = Engine(
    name="sglang",
    title="SGLang",
    oldest=OLDEST,
    metrics=METRICS,
    owned_flags=OWNED_FLAGS,
    reserved_environment=RESERVED_ENVIRONMENT,
    lora_ranks=(),
    since={
        Feature.PLANNING_AHEAD: OVERLAPS_SINCE,
        Feature.MTP: OLDEST,
        Feature.EAGLE: OLDEST,
        Feature.DRAFT_MODEL: OLDEST,
    },
    copies_encoder_since={},
    adapters_refusal=lambda _: "No memory law covers SGLang's pool of adapters: remove spec.engine.lora.",
    host_use=lambda *_: NO_HOST_USE,
    host=lambda *_: USUAL_HOST,
    loaded=whole_model,
    release_refusal=release_refusal,
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
    find_failure=find_failure,
    cache_refusal=cache_refusal,
    context_refusal=context_refusal,
    most_sequences=most_sequences,
    offload_refusal=lambda *_: "No memory law covers weights that SGLang keeps in host memory: remove it.",
    serves_in_stages=lambda _: False,
    command=COMMAND,
    start_logs=StartLogReader(last_start, read_lines, placed, logged_settings),
)
