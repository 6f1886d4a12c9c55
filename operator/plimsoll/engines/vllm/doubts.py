"""The doubts about an estimate that follow from the model and the release of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll.domain.doubts import Doubt, DoubtKind
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import Evidence, Task
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.capabilities import upcasts
from plimsoll.engines.vllm.memory.evidence import pair_words, unseen
from plimsoll.engines.vllm.memory.forward import residual_streams
from plimsoll.engines.vllm.memory.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.laws import NEWEST_MEASURED, NEWEST_VERSION, law_for
from plimsoll.engines.vllm.memory.non_torch import shared_bytes
from plimsoll.engines.vllm.memory.runners import is_recurrent
from plimsoll.engines.vllm.releases.served import NEWEST_READ
from plimsoll.engines.vllm.releases.support import lacks
from plimsoll.engines.vllm.remote_code import FLAG, brought_kind

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
        yield Doubt(DoubtKind.NOT_MEASURED, (("pairs", _either([pair_words(pair) for pair in pairs])),))
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
    # The operator names such arguments of an InferenceDeployment in a warning, and learns from its engines.
    options = (*request.engine.unfollowed, *_of_states(request))
    if request.engine.own_defaults and options:
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


def _either(words: Sequence[str]) -> str:
    """Return a list of alternatives: ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _is_newer(release: EngineVersion, newest: EngineVersion) -> bool:
    """Whether the minor release is newer: patches of the newest release follow its law."""
    return release[:2] > newest[:2]
