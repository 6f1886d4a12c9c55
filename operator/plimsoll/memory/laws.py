"""Which memory law held for which vLLM release. The one place to add a release."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.serving import EngineVersion
from plimsoll.domain.units import GIB


@dataclass(frozen=True, slots=True)
class EngineLaw:
    """The parts of the budget that moved between releases.

    ``sampler_copies`` is how many fp32 copies of the logits the sampler holds at its peak, ``sampler_base_bytes`` what
    it takes beside them; ``charges_cuda_graphs`` tells whether the graphs come out of the engine's budget or out of
    what ``--gpu-memory-utilization`` leaves.
    """

    since: EngineVersion
    sampler_copies: float
    sampler_base_bytes: int
    charges_cuda_graphs: bool


_LAWS = (
    EngineLaw(EngineVersion(0, 8), 9.7, 0, charges_cuda_graphs=False),
    EngineLaw(EngineVersion(0, 17), 3.55, int(0.16 * GIB), charges_cuda_graphs=False),
    EngineLaw(EngineVersion(0, 21), 3.55, int(0.16 * GIB), charges_cuda_graphs=True),
)
"""Newest last.

Sources: start-up logs of vLLM 0.10 to 0.13 (9.62 to 9.73 copies on seven models with the native sampler); 36 starts of
0.19.0 on an H100 80GB (3.55 copies + 0.16 GiB within 5 % on dense models); vLLM's
``VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`` is on by default since 0.21. Logs of 0.27 and later are leaner (2.5 to
2.9): the older figure errs to the safe side.
"""

OLDEST_VERSION = _LAWS[0].since
"""Older engines account memory differently (V0 engine) and are refused."""


def law_for(version: EngineVersion) -> EngineLaw:
    """The law of the newest release that is not newer than ``version``.

    Raises:
        ValueError: the release is older than any law we know.
    """
    known = [law for law in _LAWS if law.since <= version]
    if not known:
        raise ValueError(f"vLLM {version} is older than {OLDEST_VERSION}, the oldest release with a known memory law")
    return known[-1]
