"""One rank of one pipeline stage, and all that its terms depend on."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw

_FP32_BYTES = 4
_HALF_BYTES = 2


class Rank(NamedTuple):
    """One rank of one stage: the request, where it runs, how it is started, and the law of its release."""

    request: Request
    gpu: GpuType
    split: Split
    settings: EngineSettings
    law: EngineLaw
    stage: int

    @property
    def is_last(self) -> bool:
        """Whether its stage samples."""
        return self.stage == self.split.pipeline_parallel - 1

    @property
    def value_bytes(self) -> int:
        """The width of one value of the activations."""
        return value_bytes(self.request)


def value_bytes(request: Request) -> int:
    """Return the width of one value of the activations."""
    return _FP32_BYTES if request.precision is Precision.FP32 else _HALF_BYTES
