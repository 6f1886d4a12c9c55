"""The name of the method by which a checkpoint is quantized, as engines look it up."""

from __future__ import annotations

from plimsoll.facts.models.fields import Fields, mapping_of

_SECTIONS = ("quantization_config", "compression_config")
_MODELOPT = "modelopt"
_ALGORITHMS = {"MXFP8": "modelopt_mxfp8", "MIXED_PRECISION": "modelopt_mixed"}
"""Algorithms of ModelOpt for which engines have a method of their own."""


def quantization_method(fields: Fields) -> str | None:
    """Return the method that the configuration names; None where it names none."""
    key = fields.first(_SECTIONS)
    section = None if key is None else mapping_of(fields.values[key])
    named = None if section is None else section.get("quant_method")
    if section is None or not isinstance(named, str) or not named:
        return None
    method = named.lower().replace("_tensors", "-tensors")
    return _of_modelopt(section) if method == _MODELOPT else method


def _of_modelopt(section: object) -> str:
    whole = mapping_of(section) or {}
    settings = mapping_of(whole.get("quantization")) or whole
    return _ALGORITHMS.get(str(settings.get("quant_algo")).upper(), _MODELOPT)
