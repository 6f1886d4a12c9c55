"""The weights of one rank as the engine counts them: the memory that was free before, less what is free after."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import WEIGHTS, Derivation, Line, Term
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB
from plimsoll.memory.blocks import block_ends_bytes
from plimsoll.memory.draft import draft_weights
from plimsoll.memory.weight_lines import weight_lines
from plimsoll.memory.weights import stage_weights

LOADING_BYTES = 50 * MIB
"""The memory that loading takes next to the tensors: segments of small tensors that are not full, and kernels that are
loaded meanwhile. Llama 3.1 8B, Qwen3-32B, Qwen3-0.6B, Qwen2.5-0.5B and Qwen2-7B logged 0.03 to 0.11 GiB more than their
tensors with the ends of their blocks; the middle is 0.05."""

COLLECTS_SINCE = EngineVersion(0, 5, 19)
"""Before, what loading leaves to the garbage collector could still count as weights (#36583;
``_profile_available_bytes`` collects it first)."""

_REPACKED = frozenset({Precision.AWQ, Precision.GPTQ})
"""Formats that loading packs anew for its kernels."""

_FOUR_BITS = frozenset({Precision.AWQ, Precision.GPTQ, Precision.NVFP4, Precision.MXFP4})
_FOUR_BIT_PERCENT = Fraction(5, 2)
"""Checkpoints of 4 bits log more than their tensors, whatever the format and the card: Gemma 4 31B 1.9 %, GLM-5 in
NVFP4 2.5, Kimi K2.5 3.1, Gemma 4 26B 5.9. What kernels keep in another layout is not known in detail; of any three of
the four, the middle one is within 0.6 of this."""

_OWN_ERROR, _QUANTIZED_ERROR = 0.005, 0.035
"""Part of the weights. Of 16-bit checkpoints, five logged at most 0.11 GiB and 0.7 % more; of quantized ones, five are
within 3.4 % of the sum."""

_ERROR_BYTES = int(0.10 * GIB)


def weights_term(request: Request, split: Split) -> Term:
    """Return the weights with what the allocator and the kernels add to them."""
    return Term(WEIGHTS, sum(line.size_bytes or 0 for line in _parts(request, split)), _derivation, (request, split))


def weights_error(request: Request, weights_bytes: int) -> tuple[int, int]:
    """Return how many bytes less and more the weights may be.

    A release before 0.5.19 may count the tensors that it packed anew a second time: Devstral Small 2 in AWQ logged
    12.91 GiB on each of two RTX 3090 (0.5.12), of which 5.29 were free again after the capture of graphs.
    """
    part = _QUANTIZED_ERROR if request.precision.is_quantized else _OWN_ERROR
    error = _ERROR_BYTES + int(part * weights_bytes)
    twice = request.precision in _REPACKED and request.engine.version < COLLECTS_SINCE
    return error, error + (weights_bytes if twice else 0)


def _derivation(about: tuple[Request, Split]) -> Derivation:
    request, split = about
    lines = (*weight_lines(request.model, request.precision, split, 0), *list(_parts(request, split))[1:])
    return Derivation("sum of one rank", lines)


def _parts(request: Request, split: Split) -> Iterator[Line]:
    model, precision = request.model, request.precision
    tensors = stage_weights(model, precision, split).total_bytes
    yield Line("tensors", "sum of one rank", tensors)
    if precision in _FOUR_BITS:
        more = int(tensors * _FOUR_BIT_PERCENT / 100)
        yield Line("kernels", f"{float(_FOUR_BIT_PERCENT)} % more in formats of 4 bits", more)
    ends = block_ends_bytes(model, precision, split)
    if ends:
        yield Line("ends of blocks", "PyTorch rounds large tensors up to 2 MiB", ends)
    draft = draft_weights(request, split)
    if draft:
        yield Line("draft", "loaded before the pools are sized, since 0.5.14", draft)
    yield Line("loading", "segments that are not full, and kernels", LOADING_BYTES)
