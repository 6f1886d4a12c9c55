"""GPT-OSS's own export: MXFP4 experts, everything else in 16 bits. Source: vLLM, ``quantization/mxfp4.py``."""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.quantization.assignment import Assignment
from plimsoll.facts.models.quantization.formats import MXFP4

_EXPERT_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")


def mxfp4(name: str, _section: Fields, fields: Fields) -> Assignment:
    """Quantize only the experts; the list of exceptions has no effect."""
    if fields.first(_EXPERT_COUNTS) is None:
        raise UnsupportedModel(name, "mxfp4 weights in a dense model")
    return Assignment(MXFP4, experts=MXFP4)
