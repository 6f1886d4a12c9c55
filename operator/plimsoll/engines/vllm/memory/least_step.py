"""The smallest step with which an engine starts."""

from __future__ import annotations

from plimsoll.domain.serving import Request
from plimsoll.engines.vllm.memory.encoder import tokens_in_one_step
from plimsoll.engines.vllm.memory.laws import law_for
from plimsoll.engines.vllm.memory.pooled_step import reads_at_once


def least_step(request: Request, sequences: int) -> int:
    """Return the engine's minimum in tokens: one for every sequence; with adapters, also its drafted tokens.

    A model that reads its input at once needs a step for the longest input (``config/scheduler.py``: without chunked
    prefill), and one that reads images or videos as a whole needs a step for the largest. Source: vLLM,
    ``engine/arg_utils.py``.
    """
    speculation, context = request.engine.speculation, request.shape.context_tokens
    drafted = 0 if speculation is None or request.engine.lora is None else speculation.tokens
    input_tokens = context if reads_at_once(request.model) else 0
    release, runner = request.engine.version, request.engine.model_runner
    item_tokens = tokens_in_one_step(request.model, release, law_for(release, runner), context)
    return max(sequences * (1 + drafted), input_tokens, item_tokens)
