"""The extra memory of speculative decoding: the weights of a draft, and the caches of its layers."""

from __future__ import annotations

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.memory.stages import CountedCaches, counted
from plimsoll.memory.weights import layer_bytes, rank_bytes, weight_format, weights_bytes


def draft_weights(request: Request, split: Split) -> int:
    """Return the bytes of a draft on one rank of the last stage.

    A draft model runs with the target's tensor parallelism (vLLM's default). The facts of an EAGLE head contain only
    the head's own weights (:mod:`plimsoll.facts.models.drafts`). The model's own predictor consists of extra layers,
    which share embeddings and output projection with the model (``_maybe_share_embeddings`` of
    ``v1/spec_decode/llm_base_proposer.py``).
    """
    speculation = request.engine.speculation
    if speculation is None:
        return 0
    if speculation.draft is not None:
        draft = speculation.draft
        return weights_bytes(draft, _precision(draft), Split(split.tensor_parallel))
    return _predictor_bytes(request, split) if speculation.uses_predictor else 0


def draft_caches(request: Request) -> CountedCaches:
    """Return the caches of the draft's layers, which are on the last stage."""
    speculation = request.engine.speculation
    if speculation is None:
        return ()
    if speculation.draft is not None:
        draft = speculation.draft
        return counted(cache for kind in draft.order for cache in draft.kinds[kind].caches)
    if not speculation.uses_predictor:
        return ()
    return counted(cache for kind in request.model.predictor for cache in kind.caches)


def draft_tokens(request: Request) -> int:
    """Return the number of tokens drafted in a step."""
    return 0 if request.engine.speculation is None else request.engine.speculation.tokens


def _predictor_bytes(request: Request, split: Split) -> int:
    form = weight_format(request.model, request.precision)
    layers = sum(layer_bytes(kind, form, split) for kind in request.model.predictor)
    if split.pipeline_parallel == 1 or not layers:
        return layers
    # The decoder's table is on the first stage, so the predictor on the last stage loads its own table.
    return layers + rank_bytes(request.model.embedding, form, split)


def _precision(draft: ModelFacts) -> Precision:
    """Return the published type, and 16 bits for 32-bit checkpoints (``SpeculativeConfig.__post_init__``)."""
    published = draft.checkpoint.precision
    return Precision.BF16 if published is Precision.FP32 else published
