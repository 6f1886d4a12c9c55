"""What an SGLang server refuses to start with, apart from its flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.domain.models.model import ModelFacts

_PERMISSION = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_OTHER_POSITIONS = "--json-model-override-args"
_TRUE = ("true", "1", "yes", "y")


def context_refusal(
    model: ModelFacts, context_tokens: int, arguments: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """Return why the engine does not start with this context, and what to write; None where it does, or may.

    Source: ``ModelConfig._derive_context_length`` (``srt/configs/model_config.py``, 0.5.23), which raises ValueError
    unless the variable permits it.

    Args:
        model: the facts. Where its configuration names no length, nothing is said.
        context_tokens: the tokens of the longest request.
        arguments: what the user adds to the command line.
        environment: the variables of the engine's container whose values are known.
    """
    most = model.max_context_tokens
    is_permitted = environment.get(_PERMISSION, "").lower() in _TRUE
    if context_tokens <= most or not model.names_context or is_permitted:
        return None
    if any(each.startswith(_OTHER_POSITIONS) for each in arguments):
        return None
    return (
        f"{model.name} has {most:,} positions, and SGLang refuses to start with more: write at most {most}. If its "
        f"positions can be scaled, scale them with --json-model-override-args in spec.engine.extraArgs; "
        f"{_PERMISSION}=1 in spec.podTemplate.env only turns the check off."
    )
