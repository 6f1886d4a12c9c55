"""Refuse an option or a model that the engine does not have in the release that the user names."""

from __future__ import annotations

from plimsoll.api.v1alpha1 import EngineSpec, InferenceDeploymentSpec, KvPrecisionChoice
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.precision import TURBOQUANT, KvPrecision, Precision
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of


def check_feature(spec: EngineSpec, feature: Feature, field: str, value: object) -> None:
    """Refuse ``field`` with its ``value`` where the engine's release lacks the feature that the field needs.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    engine = engine_of(spec.engine_name)
    since = engine.since.get(feature)
    if since is None:
        raise InvalidInput(field, value, f"{engine.title} cannot; remove it.")
    version = EngineVersion.of(spec.version)
    if version < since:
        raise InvalidInput(field, value, f"{engine.title} {version} cannot; use {since} or newer.")


def check_release(spec: EngineSpec, model: ModelFacts, precision: Precision) -> None:
    """Refuse a release that cannot load the model. An image of the user's own may have more than its release.

    Raises:
        InvalidInput: with the model class or the method that the release lacks, and the releases to use.
    """
    version = EngineVersion.of(spec.version)
    refusal = None if spec.image is not None else engine_of(spec.engine_name).release_refusal(model, precision, version)
    if refusal is not None:
        raise InvalidInput("spec.engine.version", spec.version, refusal)


def check_cache(spec: EngineSpec, model: ModelFacts, precision: Precision, kv_precision: KvPrecision) -> None:
    """Refuse a type of the KV cache with which the release does not start. An image of the user's own may.

    Raises:
        InvalidInput: with the type, and the one to write.
    """
    engine, version = engine_of(spec.engine_name), EngineVersion.of(spec.version)
    refusal = None if spec.image is not None else engine.cache_refusal(model, precision, kv_precision, version)
    if refusal is not None:
        raise InvalidInput("spec.kvCache.precision", kv_precision.value, refusal)


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
