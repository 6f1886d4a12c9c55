"""The doubts about an estimate that follow from the model and the release of the engine.

The kinds of starts that estimates were compared with: by layers of the model, card, split and model runner.

An estimate is about one such kind. Its memory is decided by pairs: a card's kernels for the layers, a runner's way
with them, and the cost of a split on a card. So an estimate is outside the evidence where a pair was never seen
together in any measured start.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import Doubt, DoubtKind
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import Evidence, ModelFacts, Task
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.capabilities import upcasts
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.laws import NEWEST_MEASURED, NEWEST_VERSION, law_for
from plimsoll.engines.vllm.releases.support import NEWEST_READ, lacks
from plimsoll.engines.vllm.remote_code import FLAG, brought_kind
from plimsoll.memory.kinds import (
    Card,
    Layers,
    Ways,
    card_of,
    either,
    is_recurrent,
    layers_of,
    pair_words,
    residual_streams,
    shared_bytes,
    ways_of,
)


class Region(NamedTuple):
    """One kind of start."""

    layers: Layers
    card: Card
    ways: Ways
    runner: int

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs that must have been seen together. What a runner does differs by the layers, not by the card."""
        runner = f"model runner V{self.runner}"
        return (self.layers, self.card), (self.card, self.ways), (self.layers, self.ways), (self.layers, runner)


def region_of(model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw) -> Region:
    """Return the kind of a start."""
    return Region(layers_of(model), card_of(gpu), ways_of(split), 2 if law.runs_v2(model, gpu) else 1)


@lru_cache(maxsize=4096)
def unseen(model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a start that no measured start had together; empty where the evidence covers it."""
    return tuple(pair for pair in region_of(model, gpu, split, law).pairs if pair not in _SEEN)


MEASURED = frozenset(
    (
        Region(Layers.HYPER, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.HYPER, Card.HOPPER, Ways.ENGINES, 1),
        Region(Layers.HYPER, Card.BLACKWELL, Ways.WIDE, 1),
        Region(Layers.HYPER, Card.SHARED, Ways.TENSOR, 1),
        Region(Layers.RECURRENT, Card.A100, Ways.TENSOR, 1),
        Region(Layers.RECURRENT, Card.AMPERE, Ways.TENSOR, 1),
        Region(Layers.RECURRENT, Card.HOPPER, Ways.ONE, 2),
        Region(Layers.RECURRENT, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.LATENT, Card.HOPPER, Ways.ONE, 1),
        Region(Layers.LATENT, Card.BLACKWELL, Ways.ENGINES, 1),
        Region(Layers.EXPERTS, Card.A100, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.A100, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.AMPERE, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.ADA, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.ADA, Ways.ENGINES, 1),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.ONE, 2),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.ENGINES, 1),
        Region(Layers.EXPERTS, Card.BLACKWELL_WORKSTATION, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.BLACKWELL_WORKSTATION, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.CDNA, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.RDNA, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.RDNA, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.SHARED, Ways.ONE, 1),
        Region(Layers.DENSE, Card.TURING, Ways.ONE, 1),
        Region(Layers.DENSE, Card.TURING, Ways.ONE, 2),
        Region(Layers.DENSE, Card.TURING, Ways.TENSOR, 2),
        Region(Layers.DENSE, Card.A100, Ways.ONE, 1),
        Region(Layers.DENSE, Card.A100, Ways.ONE, 2),
        Region(Layers.DENSE, Card.A100, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.AMPERE, Ways.ONE, 1),
        Region(Layers.DENSE, Card.AMPERE, Ways.ONE, 2),
        Region(Layers.DENSE, Card.AMPERE, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.ADA, Ways.ONE, 1),
        Region(Layers.DENSE, Card.ADA, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.HOPPER, Ways.ONE, 1),
        Region(Layers.DENSE, Card.HOPPER, Ways.ONE, 2),
        Region(Layers.DENSE, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.HOPPER, Ways.STAGES, 1),
        Region(Layers.DENSE, Card.BLACKWELL_WORKSTATION, Ways.ONE, 1),
        Region(Layers.DENSE, Card.CDNA, Ways.ONE, 1),
        Region(Layers.DENSE, Card.CDNA, Ways.ONE, 2),
        Region(Layers.DENSE, Card.RDNA, Ways.ONE, 1),
        Region(Layers.DENSE, Card.RDNA, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.SHARED, Ways.ONE, 1),
    )
)
"""The kinds of the starts that ``make accuracy`` compares with estimates (``benchmarks/accuracy/data``)."""

CITED = frozenset(
    (
        Region(Layers.DENSE, Card.BLACKWELL, Ways.ONE, 2),
        Region(Layers.DENSE, Card.ADA, Ways.ONE, 2),
        Region(Layers.DENSE, Card.BLACKWELL_WORKSTATION, Ways.ONE, 2),
        Region(Layers.RECURRENT, Card.BLACKWELL_WORKSTATION, Ways.ONE, 1),
        Region(Layers.RECURRENT, Card.CDNA, Ways.ONE, 1),
        Region(Layers.HYPER, Card.BLACKWELL_WORKSTATION, Ways.ENGINES, 1),
    )
)
"""The kinds of further starts, each named where a law follows from it: Gemma 4 31B on B300 (0.26) and Qwen3-8B on an
RTX 4090 (0.27.1) in ``forward.py``; RTX 5090 (0.26 to 0.28) and a hybrid of 64 layers on one in ``cuda_graphs.py``;
Qwen3.8-27B on an MI355X (0.20.2) in ``layout.py``; DeepSeek-V4-Flash on four RTX PRO 6000 (0.25) in
``forward.py``."""

_SEEN = frozenset(chain.from_iterable(region.pairs for region in (*MEASURED, *CITED)))


_HYPER_CONNECTIONS = (("starts", 10), ("gib", "1.6"))
"""DeepSeek-V4 and GLM-5.3-Flash, 0.22 to 0.31 (``band.py``)."""

_WIDE_KERNELS = ((8, 0), (9, 0), (10, 0), (10, 3))
"""Capabilities with 160 KiB and more of shared memory for a block (CUDA C++ Programming Guide, technical
specifications). Triton's attention of heads of 256 in float32 asks for 114 KiB (vllm-project/vllm#33846). A start in
float32 was measured on an H100."""


def doubts_of(request: Request, gpu: GpuType, split: Split) -> tuple[Doubt, ...]:
    """Return the doubts about an estimate; empty where an engine of the kind has served, which removes all of them."""
    learned = request.correction_for(gpu.name, split)
    if learned is not None and learned.exact:
        return ()
    return (*_doubts(request), *_of_the_place(request, gpu, split))


def _of_the_place(request: Request, gpu: GpuType, split: Split) -> Iterator[Doubt]:
    """Yield the doubts that only some candidates have: nobody has measured such a start, or the card is the host's."""
    law = law_for(request.engine.version, request.engine.model_runner)
    pairs = unseen(request.model, gpu, split, law)
    if pairs:
        yield Doubt(DoubtKind.NOT_MEASURED, (("pairs", either([pair_words(pair) for pair in pairs])),))
    if upcasts(request, gpu) or (request.precision is Precision.FP32 and gpu.compute_capability not in _WIDE_KERNELS):
        yield Doubt(DoubtKind.FLOAT32, (("title", "vLLM"),))
    if gpu.unified_memory:
        free = gpu.usable_bytes - shared_bytes(gpu)
        figures = (("free", f"{free / GIB:.0f}"), ("usable", f"{gpu.usable_bytes / GIB:.0f}"))
        yield Doubt(DoubtKind.SHARED_MEMORY, figures)


def _doubts(request: Request) -> Iterator[Doubt]:
    yield from _of_the_release(request)
    model, release = request.model, request.engine.version
    if model.evidence is Evidence.GENERIC:
        yield Doubt(DoubtKind.GENERIC_READING, (("architecture", model.architecture),))
    if _is_newer(release, NEWEST_VERSION):
        numbers = (("title", "vLLM"), ("release", str(release)), ("newest", str(NEWEST_VERSION)))
        known = (("known", str(NEWEST_READ)),) if _is_newer(release, NEWEST_READ) else ()
        yield Doubt(DoubtKind.NEWER_RELEASE, (*numbers, *known))
    elif _is_newer(release, NEWEST_MEASURED):
        yield Doubt(DoubtKind.RELEASE_NOT_MEASURED, (("title", "vLLM"), ("release", str(release))))
    if residual_streams(model) > 1:
        yield Doubt(DoubtKind.FEW_STARTS, (("layers", "hyper-connections"), *_HYPER_CONNECTIONS))
    if model.task is Task.POOL:
        yield Doubt(DoubtKind.POOLING_NOT_MEASURED)
    kind = brought_kind(model, request.engine)
    if kind is not None:
        yield Doubt(
            DoubtKind.REMOTE_CODE, (("title", "vLLM"), ("release", str(release)), ("kind", kind), ("flag", FLAG))
        )
    if request.engine.unconfirmed:
        yield Doubt(DoubtKind.FILES_NOT_KNOWN, (("title", "vLLM"), ("options", ", ".join(request.engine.unconfirmed))))
    if request.engine.unchecked:
        yield Doubt(
            DoubtKind.OPTIONS_NOT_CHECKED, (("title", "vLLM"), ("options", ", ".join(request.engine.unchecked)))
        )
    options = (*request.engine.unfollowed, *_of_states(request))
    if options:
        yield Doubt(DoubtKind.UNFOLLOWED_OPTIONS, (("options", ", ".join(options)),))


def _of_states(request: Request) -> Iterator[str]:
    """Yield the option to keep prefixes of recurrent states in a release that does not by itself, up to 0.27.

    How many states it keeps then depends on the model's class (``mamba_cache_mode``), which no law covers.
    """
    by_itself = kv_law_for(request.engine.version).caches_state_prefixes
    if request.engine.prefix_caching and not by_itself and is_recurrent(request.model):
        yield "--enable-prefix-caching"


def _of_the_release(request: Request) -> Iterator[Doubt]:
    """Yield a doubt for everything of the model that the release lacks.

    Where only an image of the user's own can help, the API refuses the published images.
    """
    release = request.engine.version
    for lack in lacks(request.model, request.precision, release):
        kind = DoubtKind.NOT_IN_RELEASE if lack.is_final else DoubtKind.TRANSFORMERS_BACKEND
        release_words = (("title", "vLLM"), ("release", str(release)))
        yield Doubt(kind, (*release_words, ("lacks", lack.what), ("served", lack.gap.advice)))


def _is_newer(release: EngineVersion, newest: EngineVersion) -> bool:
    """Whether the minor release is newer: patches of the newest release follow its law."""
    return release[:2] > newest[:2]
