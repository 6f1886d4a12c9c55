"""The contents of an engine's start-up log: its release, its options, the figures of its memory and its failure."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.engine_failures import EngineFailure
from plimsoll.domain.outcomes import Split
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.start_options import StartOptions


@dataclass(frozen=True, slots=True)
class StartFigures:
    """The memory that an engine logged, in bytes of one GPU; None where it logged none.

    Of several ranks, the weights and graphs are those of the fullest, and the cache is that of the rank with the least.
    ``consumed_bytes`` is weights and memory outside PyTorch together, which later releases log instead of the latter.
    ``activations_bytes`` does not include the charge for graphs. ``charged_graphs_bytes`` is the engine's own estimate
    that it takes out of the budget, ``graphs_bytes`` what the graphs took. ``kv_tokens`` are those of one engine.
    """

    total_bytes: int | None = None
    weights_bytes: int | None = None
    consumed_bytes: int | None = None
    activations_bytes: int | None = None
    charged_graphs_bytes: int | None = None
    graphs_bytes: int | None = None
    outside_torch_bytes: int | None = None
    kv_bytes: int | None = None
    kv_tokens: int | None = None
    concurrency: float | None = None
    kv_needed_bytes: int | None = None
    longest_context: int | None = None


@dataclass(frozen=True, slots=True)
class StartLog:
    """The last start that a log holds.

    ``build`` is the release as the engine writes it, ``version`` the release that it counts as. ``gpu_name`` is the
    name of the GPU, which logs name rarely. ``served`` means that the engine was ready for requests. ``complaint`` is
    why nothing can be learned from the log, as a sentence; empty where there is no reason.
    """

    engine: str
    build: str
    version: EngineVersion
    model: str | None
    split: Split
    options: StartOptions
    figures: StartFigures
    gpu_name: str | None = None
    failure: EngineFailure | None = None
    served: bool = False
    complaint: str = ""
