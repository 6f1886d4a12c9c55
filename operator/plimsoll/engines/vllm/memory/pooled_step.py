"""The tokens that the cache of an engine that pools holds at the same time.

A request that pools ends with the step that reads its last token, and its blocks are free before the next step is
planned. So the cache holds what the running steps read, and what earlier steps have read of one request: a step takes
up that request first, and cuts only the last one that it takes up. All other requests wait without any block.

Sources, vLLM 0.32: ``v1/core/sched/scheduler.py`` (``schedule``: running requests come first, and a request that is cut
uses up the step), ``config/model.py`` (``is_chunked_prefill_supported``), ``config/vllm.py``
(``max_concurrent_batches``: a step for each stage, because asynchronous scheduling is off where an engine pools).

In a cache of just this size some steps read less than they could, and nothing is preempted: the scheduler takes up a
request only where all of its input fits the free blocks (``scheduler_reserve_full_isl``), and short requests waste the
end of a block each.
"""

from __future__ import annotations

from plimsoll.domain.model import ModelFacts, Task
from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import Request
from plimsoll.memory.load import AtOnce

_POOL_BY_STEPS = frozenset({"Qwen2ForProcessRewardModel"})


def tokens_at_once(request: Request, split: Split, batched_tokens: int) -> AtOnce | None:
    """Return the most tokens in the cache of one engine, whatever waits; None where requests stay to generate.

    ``batched_tokens`` is ``--max-num-batched-tokens``. It is at least the context where requests are not cut, so there
    is always room for one request of full length, without which the engine does not start.
    """
    if request.model.task is not Task.POOL:
        return None
    begun = 0 if reads_at_once(request.model) else request.shape.context_tokens
    return AtOnce(begun, split.pipeline_parallel * batched_tokens)


def reads_at_once(model: ModelFacts) -> bool:
    """Whether the engine never cuts a prompt into chunks: encoders, and pooling by steps (``config/model.py``).

    The method of pooling may be in files of the checkpoint that are not read here. Mean and first-token pooling of a
    decoder needs ``spec.engine.maxBatchedTokens`` of at least ``contextLength``.
    """
    return model.task is Task.POOL and (not model.keeps_cache or model.architecture in _POOL_BY_STEPS)
