"""The doubts about an estimate, and the kinds of starts that estimates were compared with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import Doubt, DoubtKind
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import Evidence, ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.memory.kinds import Card, Layers, Ways, card_of, either, layers_of, pair_words, shared_bytes, ways_of

NEWEST_READ = EngineVersion(0, 5, 23)
"""The newest release whose sources were read."""


class Region(NamedTuple):
    """One kind of start."""

    layers: Layers
    card: Card
    ways: Ways

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs that must have been seen together."""
        return (self.layers, self.card), (self.card, self.ways), (self.layers, self.ways)


def region_of(model: ModelFacts, gpu: GpuType, split: Split) -> Region:
    """Return the kind of a start."""
    return Region(layers_of(model), card_of(gpu), ways_of(split))


MEASURED = frozenset(
    (
        Region(Layers.EXPERTS, Card.AMPERE, Ways.TENSOR),
        Region(Layers.EXPERTS, Card.BLACKWELL_WORKSTATION, Ways.ONE),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.TENSOR),
        Region(Layers.LATENT, Card.CDNA, Ways.WIDE),
        Region(Layers.LATENT, Card.BLACKWELL_WORKSTATION, Ways.WIDE),
        Region(Layers.DENSE, Card.ADA, Ways.ONE),
        Region(Layers.DENSE, Card.AMPERE, Ways.TENSOR),
        Region(Layers.DENSE, Card.HOPPER, Ways.ONE),
        Region(Layers.DENSE, Card.OTHER, Ways.ONE),
        Region(Layers.RECURRENT, Card.HOPPER, Ways.ONE),
    )
)
"""The kinds of the starts that ``make accuracy`` compares with estimates (``benchmarks/accuracy/data``)."""

_SEEN = frozenset(chain.from_iterable(region.pairs for region in MEASURED))


@lru_cache(maxsize=4096)
def unseen(model: ModelFacts, gpu: GpuType, split: Split) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a start that no measured start had together; empty where the evidence covers it."""
    return tuple(pair for pair in region_of(model, gpu, split).pairs if pair not in _SEEN)


def doubts_of(request: Request, gpu: GpuType, split: Split) -> tuple[Doubt, ...]:
    """Return the doubts about an estimate; empty where an engine of the kind has served, which removes all of them."""
    learned = request.correction_for(gpu.name, split)
    return () if learned is not None and learned.exact else tuple(_doubts(request, gpu, split))


def _doubts(request: Request, gpu: GpuType, split: Split) -> Iterator[Doubt]:
    model, engine = request.model, request.engine
    if model.evidence is Evidence.GENERIC:
        yield Doubt(DoubtKind.GENERIC_READING, (("architecture", model.architecture),))
    if engine.version > NEWEST_READ:
        numbers = (("title", "SGLang"), ("release", str(engine.version)), ("newest", str(NEWEST_READ)))
        yield Doubt(DoubtKind.NEWER_RELEASE, numbers)
    if engine.unfollowed:
        yield Doubt(DoubtKind.UNFOLLOWED_OPTIONS, (("options", ", ".join(engine.unfollowed)),))
    words = [pair_words(pair) for pair in unseen(model, gpu, split)]
    if engine.speculation is not None:
        words.append("speculative decoding under SGLang")
    if words:
        yield Doubt(DoubtKind.NOT_MEASURED, (("pairs", either(words)),))
    if gpu.unified_memory:
        free = gpu.usable_bytes - shared_bytes(gpu)
        figures = (("free", f"{free / GIB:.0f}"), ("usable", f"{gpu.usable_bytes / GIB:.0f}"))
        yield Doubt(DoubtKind.SHARED_MEMORY, figures)
