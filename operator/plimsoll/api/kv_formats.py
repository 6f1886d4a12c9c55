"""Refuse a format of the KV cache that the engine does not have in the release that the user names."""

from __future__ import annotations

from plimsoll.api.features import check_feature
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, KvPrecisionChoice
from plimsoll.domain.precision import TURBOQUANT
from plimsoll.engines.base import Feature

_FEATURES = {
    KvPrecisionChoice.NVFP4: Feature.KV_NVFP4,
    KvPrecisionChoice.INT8: Feature.KV_SCALES,
    KvPrecisionChoice.FP8_SCALED: Feature.KV_SCALES,
    KvPrecisionChoice.INT4: Feature.KV_INT4,
    **{choice: Feature.KV_TURBOQUANT for choice in KvPrecisionChoice if choice.value in TURBOQUANT},
}
"""Formats that not every release has."""


def check_kv_format(spec: InferenceDeploymentSpec) -> None:
    """Refuse the format that the user chose where the engine's release does not have it.

    Raises:
        InvalidInput: with the first release that has it.
    """
    choice = spec.kv_cache.precision
    if choice in _FEATURES:
        check_feature(spec.engine, _FEATURES[choice], "spec.kvCache.precision", choice.value)
