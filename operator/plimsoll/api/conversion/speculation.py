"""Convert the user's speculative decoding to the planner's: find the draft to look up, and refuse contradictions."""

from __future__ import annotations

from plimsoll.api.conversion.engine_options import check_feature
from plimsoll.api.v1alpha1 import EngineSpec, InferenceDeploymentSpec, ModelSpec, SpeculationMethod
from plimsoll.domain.engines.engine_choice import DraftMethod, Speculation
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.base import Feature
from plimsoll.facts.models.drafts import as_engine_head

FIELD = "spec.engine.speculation"
DRAFT_FIELD = f"{FIELD}.draftModel"

_WITH_DRAFT = (SpeculationMethod.EAGLE, SpeculationMethod.DRAFT)

_FEATURES = {
    SpeculationMethod.NGRAM: Feature.NGRAM,
    SpeculationMethod.MTP: Feature.MTP,
    SpeculationMethod.EAGLE: Feature.EAGLE,
    SpeculationMethod.DRAFT: Feature.DRAFT_MODEL,
}


def draft_model(spec: InferenceDeploymentSpec) -> ModelSpec | None:
    """Return the draft to look up, with the token of the model; None if the spec names no draft."""
    speculation = spec.engine.speculation
    if speculation is None or speculation.draft_model is None:
        return None
    draft = speculation.draft_model
    return ModelSpec(
        name=draft.name,
        revision=draft.revision,
        config=draft.config,
        path=draft.path,
        token_secret_ref=spec.model.token_secret_ref,
    )


def check_speculation(engine: EngineSpec) -> None:
    """Refuse a missing or needless draft, as the API server does, and a method that the release does not know.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    speculation = engine.speculation
    if speculation is None:
        return
    method, draft = speculation.method, speculation.draft_model
    if method in _WITH_DRAFT and draft is None:
        raise InvalidInput(f"{FIELD}.method", method.value, "Name the head or the small model in draftModel.")
    if method not in _WITH_DRAFT and draft is not None:
        raise InvalidInput(f"{DRAFT_FIELD}.name", draft.name, f"Remove draftModel: method {method.value} needs none.")
    others = [each.value for each, feature in _FEATURES.items() if feature in engine.program.since]
    if others and method.value not in others:
        fix = f"{engine.program.title} has {', '.join(others)}: write one of these, or remove {FIELD}."
        raise InvalidInput(f"{FIELD}.method", method.value, fix)
    check_feature(engine, _FEATURES[method], f"{FIELD}.method", method.value)


def speculation_of(method: SpeculationMethod, tokens: int, model: ModelFacts, draft: ModelFacts | None) -> Speculation:
    """Return the planner's speculation by a method.

    Args:
        method: the user's method, with a draft if it needs one (:func:`check_speculation`).
        tokens: the tokens that are guessed in a step.
        model: the model that is served.
        draft: the facts of the draft, if the user names one.

    Raises:
        InvalidInput: the model has no prediction layers, or the draft does not fit this model.
        ValueError: the user names a draft, but ``draft`` is None.
    """
    if method is SpeculationMethod.NGRAM:
        return Speculation(tokens)
    if method is SpeculationMethod.MTP:
        _check_predictor(tokens, model)
        return Speculation(tokens, uses_predictor=True)
    if draft is None:
        raise ValueError(f"{DRAFT_FIELD} is named and its facts are not given")
    if method is SpeculationMethod.EAGLE:
        return _with_head(tokens, model, draft)
    return _with_draft(tokens, model, draft)


def _check_predictor(tokens: int, model: ModelFacts) -> None:
    """Refuse a model without prediction layers, and a number of tokens that the engine cannot run.

    The engine runs the layers in turn. More tokens than layers must be a multiple of the layers (vLLM,
    ``config/speculative.py``).
    """
    layers = len(model.predictor)
    if not layers:
        raise InvalidInput(
            f"{FIELD}.method",
            SpeculationMethod.MTP.value,
            f"{model.name} has no multi-token-prediction layers; write Ngram, or Eagle or Draft with a draftModel.",
        )
    if tokens > layers and tokens % layers:
        raise InvalidInput(
            f"{FIELD}.tokens", tokens, f"{model.name} has {layers} prediction layers; write a multiple of {layers}."
        )


def _with_head(tokens: int, model: ModelFacts, draft: ModelFacts) -> Speculation:
    known = as_engine_head(draft)
    if known is None:
        raise InvalidInput(
            f"{DRAFT_FIELD}.name",
            draft.name,
            f"Its class {draft.architecture} is no EAGLE head that the engine knows; name a head of {model.name}, or "
            "write method Draft for a model of its own.",
        )
    method, head = known
    if method is DraftMethod.EAGLE and head.hidden != model.hidden:
        raise InvalidInput(
            f"{DRAFT_FIELD}.name",
            draft.name,
            f"It reads hidden states of width {head.hidden}, {model.name} has {model.hidden}: name a head of its own.",
        )
    return Speculation(tokens, head, head=method)


def _with_draft(tokens: int, model: ModelFacts, draft: ModelFacts) -> Speculation:
    """Return the speculation with a draft model. Like the engine, compare only the sizes of the vocabularies.

    The engine's check is ``SpeculativeConfig.verify_equal_vocab_size_if_draft_model``.
    """
    if draft.vocabulary != model.vocabulary:
        raise InvalidInput(
            f"{DRAFT_FIELD}.name",
            draft.name,
            f"Its vocabulary has {draft.vocabulary} tokens, that of {model.name} {model.vocabulary}, and the engine "
            "wants them equal: name a draft of the same vocabulary.",
        )
    return Speculation(tokens, draft)
