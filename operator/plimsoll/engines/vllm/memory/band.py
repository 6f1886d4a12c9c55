"""The error band of an estimate, without the cache: wider where less has been measured.

The widths come from logs and not from a theory: from the logs that the laws were checked on
(``tests/memory/test_overhead.py``), and from 109 more logs for which they were too narrow. Nine in ten of each set lie
inside. Each term names its cause.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import Evidence, ModelFacts, Task
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.laws.engine_law import FUSED_SAMPLER, NATIVE_SAMPLER, EngineLaw
from plimsoll.engines.vllm.memory.laws.rocm_attention import spilled_bytes, spills_attention
from plimsoll.engines.vllm.memory.outside.non_torch import has_switch
from plimsoll.engines.vllm.memory.step.sampler import sampler_bytes
from plimsoll.facts.models.generic import WEIGHTS_ERROR
from plimsoll.memory.calibration import Band
from plimsoll.memory.kinds import is_rdna, is_recurrent, residual_streams

_GRAPHS_LOW, _GRAPHS_HIGH = 0.24, 0.19
"""GiB. The engine's estimate of its graphs varies most of all terms: equal starts log 0.57 and 1.69."""


_HOPPER, _BLACKWELL = 9, 10

_MANY = 8
"""GPUs of one tensor-parallel engine."""

_MEASURED_GIB = 0.38
"""Hopper, in releases that charge no graphs: 41 of 43 starts (31 of them with all flags known) took from 0.25 GiB less
to 0.23 more. The other two state no flags, and are 3 GiB off. With the 0.15 GiB for an NVSwitch, a 72B model on two
H100 with 3.05 GiB of cache is promised two requests of 1.25 GiB, and not one."""

_SAMPLER_IS_SURE = EngineVersion(0, 11)
"""Older releases sample with FlashInfer where it is installed."""

_USUAL_WIDTH, _USUAL_SHARE = 0.99, 0.015
"""GiB, and share of the card. Measurements can make a band wider than this; an old engine's choice of its sampler
cannot. In some twenty starts that choice would make the band wider; six of them had made it (0.10.2, 0.11.0) and lie
outside."""

_TAIL_GIB, _TAIL_SHARE = 0.10, 0.004
"""GiB, and share of the card, up to the usual width: how much less may be needed. Of 109 starts that were not used to
choose any width, eleven were below the band without this term (six with it) and five above; two of the five ran
something that no law covers. Of 87 later starts, 60 were inside before any law was read from them; of 48 after that,
40 were inside."""

_EVIDENCE = {Evidence.KNOWN: 1.0, Evidence.TENSORS: 1.5, Evidence.GENERIC: 1.5}
"""Factors of the width: larger for classes whose layers were not checked. A generic reading may also be wrong about the
weights: :func:`doubtful_weights`."""


class BandWidth(NamedTuple):
    """The width of a band for any number of sequences, in bytes.

    Below, up to ``room`` bytes are added: the ``tail``, and what an old engine's choice of its sampler may save in a
    model of ``vocabulary`` tokens (None where there is no such choice).
    """

    low: float
    high: float
    room: float
    tail: float
    vocabulary: int | None

    def band(self, sequences: int) -> Band:
        """Return the band for ``--max-num-seqs``."""
        choice = 0 if self.vocabulary is None else _sampler_choice(self.vocabulary, sequences)
        return Band(-int(self.low + min(self.room, self.tail + choice)), int(self.high))


def band_width(
    model: ModelFacts,
    gpu: GpuType | None,
    split: Split,
    law: EngineLaw,
    attention: str | None = None,
    *,
    weights_bytes: int = 0,
) -> BandWidth:
    """Return the width of the band; the arguments are those of :func:`band`.

    ``attention`` is the attention back end that the user names, in capitals; None leaves it to the engine.
    ``weights_bytes`` are the weights of the rank, which a generic reading may have wrong.
    """
    card = gpu.usable_bytes if gpu is not None else 80 * GIB
    low, high = _usual(model, gpu, split, law, card)
    if law.charges_graphs_of(model, gpu):
        low, high = low + _GRAPHS_LOW * GIB, high + _GRAPHS_HIGH * GIB
    low, high = low * _EVIDENCE[model.evidence], high * _EVIDENCE[model.evidence]
    for extra_low, extra_high in _thin(model, gpu, split, law, attention):
        low, high = low + extra_low * GIB, high + extra_high * GIB
    doubtful = doubtful_weights(model, weights_bytes)
    low, high = low + doubtful, high + doubtful
    may_choose = law.may_fuse_sampler and law.sampler_of(model, gpu) is NATIVE_SAMPLER
    return BandWidth(
        low=low,
        high=high,
        room=max(0.0, _USUAL_WIDTH * GIB + _USUAL_SHARE * card - low - high),
        tail=_TAIL_GIB * GIB + _TAIL_SHARE * card,
        vocabulary=model.vocabulary if may_choose else None,
    )


def _usual(
    model: ModelFacts, gpu: GpuType | None, split: Split, law: EngineLaw, card_bytes: int
) -> tuple[float, float]:
    """Return the bytes below and above, before anything that makes the band wider."""
    if _is_well_measured(model, gpu, split, law):
        return _MEASURED_GIB * GIB, _MEASURED_GIB * GIB
    return 0.30 * GIB + 0.003 * card_bytes, 0.35 * GIB + 0.006 * card_bytes


def _is_well_measured(model: ModelFacts, gpu: GpuType | None, split: Split, law: EngineLaw) -> bool:
    """Whether the start is of the kind that most complete records are of."""
    of_such_releases = law.release >= _SAMPLER_IS_SURE and not law.charges_graphs_of(model, gpu)
    is_plain = split.data_parallel == 1 and not split.expert_parallel and residual_streams(model) == 1
    return of_such_releases and is_plain and _is_hopper(gpu) and model.evidence is Evidence.KNOWN


def doubtful_weights(model: ModelFacts, weights_bytes: int) -> int:
    """Return by how many bytes the weights may be more or less: none where a class or its tensors are known."""
    return int(WEIGHTS_ERROR * weights_bytes) if model.evidence is Evidence.GENERIC else 0


def _thin(
    model: ModelFacts, gpu: GpuType | None, split: Split, law: EngineLaw, attention: str | None
) -> list[tuple[float, float]]:
    """Return GiB below and above for cases with few logs."""
    spilled = spilled_bytes(gpu, model, law.release, attention)
    reasons = {
        "no GPU named": (gpu is None, 0.5, 1.0),
        "AMD graphics card: 14 starts, from 0.2 GiB less to 0.65 more": (gpu is not None and is_rdna(gpu), 0.1, 0.4),
        "... with Triton's attention: up to 3.1 GiB of scratch memory, which depends on the image": (
            gpu is not None and is_rdna(gpu) and spills_attention(model, law.release, attention),
            0.1 + spilled / GIB,
            2.9 - spilled / GIB,
        ),
        "... with graphs charged: 0.87 GiB in one start of a release, where the law has 0.08": (
            gpu is not None and is_rdna(gpu) and law.charges_graphs_of(model, gpu),
            0.2,
            1.5,
        ),
        "AMD accelerator: five logs, one with 5.2 GiB more": (
            gpu is not None and gpu.vendor is Vendor.AMD and not is_rdna(gpu),
            0.3,
            4.5,
        ),
        "memory shared with the host: other processes count, and FlashInfer's buffers": (
            gpu is not None and gpu.unified_memory,
            1.5,
            5.5,
        ),
        "recurrent layers: Triton's autotuning spills": (is_recurrent(model), 0.15, 0.3),
        "... whose prefill counts as graphs since 0.26, 108 to 128 KiB a token": (
            is_recurrent(model) and law.charges_prefill_transient and law.charges_graphs_of(model, gpu),
            0.3,
            0.3,
        ),
        "communication over NVSwitch": (split.tensor_parallel > 1 and has_switch(gpu), 0.15, 0.15),
        "... which few logs tell of on Blackwell": (
            split.tensor_parallel > 1 and has_switch(gpu) and not _is_hopper(gpu),
            0.4,
            0.3,
        ),
        "encoder profiled on its largest item: by the preprocessor, not by config.json": (
            model.encoder is not None and law.may_fuse_sampler,
            0.5,
            0.7,
        ),
        # One of these starts was not used to fit the law. It is inside the band even without this term.
        "hyper-connections: ten starts, within 1.6 GiB but for a few whose flags are in doubt": (
            residual_streams(model) > 1,
            1.0,
            1.5,
        ),
        "pooling: no log of such a start, and the graphs are those of a model that generates": (
            model.task is Task.POOL,
            0.5,
            0.5,
        ),
        "handles of matrix products before the first snapshot, which count inside the budget as well": (
            law.cublas_comes_first,
            0.1,
            0.0,
        ),
        "tokens exchanged between data-parallel ranks": (split.data_parallel > 1, 1.0, 2.0),
        "... with graphs charged, on B200 and its like: 62 GiB in one start, where the law has 2.5": (
            split.data_parallel > 1 and law.charges_graphs_of(model, gpu) and _major(gpu) == _BLACKWELL,
            0.0,
            60.0,
        ),
        "hyper-connections on AMD's accelerators: one start on MI300X took over 34 GiB more": (
            gpu is not None and gpu.vendor is Vendor.AMD and not is_rdna(gpu) and residual_streams(model) > 1,
            0.0,
            35.0,
        ),
        "eight GPUs without NVLink, graphs charged by the first runner: 9.5 GiB on L40S, where the law has 2.6": (
            split.tensor_parallel >= _MANY
            and _is_on_pcie(gpu)
            and law.charges_graphs_of(model, gpu)
            and not law.runs_v2(model, gpu),
            0.0,
            7.0,
        ),
    }
    return [(low, high) for applies, low, high in reasons.values() if applies]


def _is_hopper(gpu: GpuType | None) -> bool:
    return _major(gpu) == _HOPPER


def _major(gpu: GpuType | None) -> int | None:
    """Return the first figure of the compute capability; None for AMD's GPUs and an unknown one."""
    return gpu.compute_capability[0] if gpu is not None and gpu.compute_capability is not None else None


def _is_on_pcie(gpu: GpuType | None) -> bool:
    return gpu is not None and gpu.interconnect is Interconnect.PCIE


def _sampler_choice(vocabulary: int, rows: int) -> int:
    """Return how much the estimate is too high where an old engine had FlashInfer, which never takes more."""
    native, fused = (sampler_bytes(law, vocabulary=vocabulary, rows=rows) for law in (NATIVE_SAMPLER, FUSED_SAMPLER))
    return native - fused
