"""The memory outside the share. Nothing measures it before the pools are made, so the share must leave room for it.

Sources: ``arg_groups/memory_hook.py`` for what the engine itself keeps free for steps and decode graphs, and
``mem_cache/memory_pool.py`` (``ReqToTokenPool``) for the table of requests; 0.5.18 to 0.5.23.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import DraftMethod
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, KIB, MIB

_BASE_BYTES = 512 * MIB
_STEP_TOKEN_BYTES = MIB * 3 // 2
_LEAST_STEP = 2048
_RANK_BYTES = 128 * MIB
"""The engine keeps 512 MiB, 1.5 MiB for each token of a step (of 2,048 at least) and 128 MiB for each rank. True sizes
of activations are not measured, so its own figures count."""

_SEQUENCE_BYTES = 2 * MIB
"""The engine keeps 2 MiB for each sequence of the largest decode graph. Logs have 0.05 to 0.5 GiB in all."""

_PREFILL_GRAPH_BYTES = 9 * KIB + 512
"""Graphs of prefills, for each layer and number of the hidden state: Qwen3-32B on H100 (0.5.19) logged 2.84 GiB, which
is 9.1 KiB, and Qwen3-30B-A3B on RTX PRO 6000 (0.5.13) 0.88, which is 9.4. Two logs."""

_ADDRESS_BYTES, _MORE_TOKENS = 4, 4

_SMALL_GRAPHS = ((20, 8), (35, 48), (60, 32), (160, 256))
_LARGEST_GRAPH = 512
"""The most sequences of a decode graph by GiB of the card (``cuda_graph_max_bs``), with fewer than four GPUs."""


_DRAFT_BYTES, _DRAFT_MODEL_BYTES = 4 * GIB, 6 * GIB
"""The memory that the engine itself kept free for the graphs and steps of a head or of the model's own layers (2 to 4
GiB), and of a draft model: 0.5.3 to 0.5.13 (``server_args.py``). Later ones keep no more, and no log has the size."""


class Outside(NamedTuple):
    """The parts of what is outside the share, in bytes."""

    steps: int
    graphs: int
    requests: int
    draft: int

    @property
    def total_bytes(self) -> int:
        """All of it, without what was taken before the weights."""
        return sum(self)


def graph_sequences(gpu: GpuType) -> int:
    """Return the most sequences of the engine's own decode graphs."""
    return next((most for gib, most in _SMALL_GRAPHS if gpu.total_bytes < gib * GIB), _LARGEST_GRAPH)


def request_table_bytes(sequences: int, context_tokens: int) -> int:
    """Return the table that holds an address for every token that a running request may have, on the GPU."""
    return (sequences + 1) * (context_tokens + _MORE_TOKENS) * _ADDRESS_BYTES


def outside(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> Outside:
    """Return what an engine with these settings takes outside its share, after the weights."""
    steps = _BASE_BYTES + _STEP_TOKEN_BYTES * max(settings.max_num_batched_tokens, _LEAST_STEP)
    return Outside(
        steps=steps + _RANK_BYTES * split.tensor_parallel,
        graphs=0 if settings.enforce_eager else _graphs(request.model, gpu, settings.max_num_seqs),
        requests=request_table_bytes(settings.max_num_seqs, settings.max_model_len),
        draft=_draft(request),
    )


def _draft(request: Request) -> int:
    speculation = request.engine.speculation
    if speculation is None:
        return 0
    return _DRAFT_MODEL_BYTES if speculation.drafting.method is DraftMethod.DRAFT_MODEL else _DRAFT_BYTES


def _graphs(model: ModelFacts, gpu: GpuType, sequences: int) -> int:
    decode = _SEQUENCE_BYTES * min(sequences, graph_sequences(gpu))
    return decode + _PREFILL_GRAPH_BYTES * model.layers * model.hidden
