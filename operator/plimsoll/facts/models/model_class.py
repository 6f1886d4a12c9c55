"""Find the class of a model and its traits."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import Evidence
from plimsoll.facts.models.architectures import ARCHITECTURES
from plimsoll.facts.models.composites import (
    COMPOSITES,
    TYPES,
    Composite,
    TowerBuilder,
    language_class,
    language_fields,
    section_class,
)
from plimsoll.facts.models.encoders.generic_tower import can_estimate, generic_tower
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.generic import generic_architecture
from plimsoll.facts.models.pooling import pooled_class, pooled_traits, pools
from plimsoll.facts.models.refusals import refuse_no_longer_served, refuse_unknown_parts, refuse_variants
from plimsoll.facts.models.traits import Architecture


@dataclass(frozen=True, slots=True)
class ModelClass:
    """The class of a model: its name in the file, the class its language model behaves as, and their traits."""

    name: str
    language: str
    traits: Architecture
    encoder: TowerBuilder | None
    evidence: Evidence


def model_class(name: str, fields: Fields, *, with_tensors: bool = False) -> ModelClass:
    """Return the first listed class that is known. If none is known, estimate the traits from the fields.

    Args:
        name: the model, for errors.
        fields: its configuration.
        with_tensors: whether the checkpoint's tensors are available; they contain an unknown tower's weights.

    Raises:
        InvalidInput: no class is listed.
        UnsupportedModel: an unknown class with a part that no law covers.
    """
    classes = _classes(fields)
    if not classes:
        raise fields.refuse("architectures", "List the model class, e.g. LlamaForCausalLM.")
    refuse_no_longer_served(name, classes)
    for listed in classes:
        composite = COMPOSITES.get(listed)
        if composite is not None:
            return _composite(name, fields, listed, composite)
        if listed in ARCHITECTURES:
            refuse_variants(name, listed, fields)
            known = ARCHITECTURES[listed]
            return ModelClass(listed, listed, known, None, known.evidence)
        pooled = _pooled(listed, fields)
        if pooled is not None:
            return pooled
    return _unknown(name, fields, classes[0], with_tensors=with_tensors)


def knows_class(fields: Fields) -> bool:
    """Whether the class and the class of its language model are in the tables of known classes.

    Raises:
        InvalidInput: a field that names classes is ill-typed.
    """
    for listed in _classes(fields):
        composite = COMPOSITES.get(listed)
        if composite is not None:
            return language_class(fields, composite) in ARCHITECTURES
        if listed in ARCHITECTURES or _pooled(listed, fields) is not None:
            return True
    return False


def _pooled(listed: str, fields: Fields) -> ModelClass | None:
    pooled = pooled_class(listed)
    traits = None if pooled is None else ARCHITECTURES.get(pooled.language)
    if pooled is None or traits is None:
        return None
    return ModelClass(listed, pooled.language, pooled_traits(listed, pooled, traits, fields), None, traits.evidence)


def _classes(fields: Fields) -> tuple[str, ...]:
    """Return the classes that the file lists, else the class of its type, else those of the language section."""
    named = TYPES.get(fields.text("model_type") or "")
    return fields.texts("architectures") or ((named,) if named else language_fields(fields).texts("architectures"))


def _composite(name: str, fields: Fields, listed: str, composite: Composite) -> ModelClass:
    """Return a class with a tower. If its language model has no row, the traits are read from the fields.

    Raises:
        UnsupportedModel: the language model's class is unknown, or the usual fields do not describe an unknown tower.
    """
    estimated = composite.encoder is generic_tower
    if estimated and not can_estimate(fields):
        raise UnsupportedModel(name, f"the model class {listed}: its tower is unknown")
    language = language_class(fields, composite)
    if language is None:
        raise UnsupportedModel(name, f"the model class {listed}: its language model is named nowhere (text_config)")
    traits = ARCHITECTURES.get(language)
    if traits is None:
        section = language_fields(fields)
        refuse_unknown_parts(name, section)
        return ModelClass(listed, language, generic_architecture(section), composite.encoder, Evidence.GENERIC)
    return ModelClass(listed, language, traits, composite.encoder, Evidence.GENERIC if estimated else traits.evidence)


def _unknown(name: str, fields: Fields, listed: str, *, with_tensors: bool) -> ModelClass:
    language = language_fields(fields)
    if language is not fields and with_tensors:
        return _composite_with_tensors(name, fields, listed)
    if language is not fields:
        return _unknown_composite(name, fields, listed)
    if pools(listed):
        raise UnsupportedModel(name, f"the model class {listed}: it does not generate, and its layers are unknown")
    refuse_unknown_parts(name, fields, towers_are_known=with_tensors)
    return ModelClass(listed, listed, generic_architecture(language), None, Evidence.GENERIC)


def _composite_with_tensors(name: str, fields: Fields, listed: str) -> ModelClass:
    """Return a class whose tower is read from the tensors. Its caches follow the language model's class or fields."""
    language = section_class(fields) or listed
    traits = ARCHITECTURES.get(language)
    if traits is None:
        section = language_fields(fields)
        refuse_unknown_parts(name, section, towers_are_known=True)
        traits = generic_architecture(section)
    return ModelClass(listed, language, traits, None, Evidence.GENERIC)


def _unknown_composite(name: str, fields: Fields, listed: str) -> ModelClass:
    """Return an unknown class: the language model comes from its section, the tower is estimated from usual fields.

    Raises:
        UnsupportedModel: the tower is not described by the usual fields, or the language model is of no known class.
    """
    if not can_estimate(fields):
        raise UnsupportedModel(name, f"the model class {listed}: its tower is unknown")
    language = section_class(fields)
    traits = ARCHITECTURES.get(language) if language is not None else None
    if language is None or traits is None:
        raise UnsupportedModel(name, f"the model class {listed}: neither its language model nor its tower is known")
    return ModelClass(listed, language, traits, generic_tower, Evidence.GENERIC)
