"""The longest request that vLLM takes for a model: it refuses to start with a longer ``--max-model-len``.

Source: ``_get_and_verify_max_len`` of ``config/model.py``, read in 0.8 to 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.domain.model import ModelFacts

_PERMISSION = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"

_OTHER_POSITIONS = ("--hf-overrides", "--hf-config-path", "--rope-scaling", "--rope-theta", "--disable-sliding-window")
"""Flags by which a user changes the positions of the model, or what is read of its configuration."""


def context_refusal(
    model: ModelFacts, context_tokens: int, arguments: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """Return why the engine does not start with this context, and what to write; None where it does, or may.

    Args:
        model: the facts. Where its configuration names no length, the engine takes every length.
        context_tokens: the tokens of the longest request.
        arguments: what the user adds to the command line.
        environment: the variables of the engine's container whose values are known.
    """
    most = model.max_context_tokens
    if context_tokens <= most or not model.names_context or _is_permitted(environment):
        return None
    if any(each.replace("_", "-").lower().startswith(_OTHER_POSITIONS) for each in arguments):
        return None
    return (
        f"{model.name} has {most:,} positions, and vLLM refuses to start with more: write at most {most}. If its "
        f"positions can be scaled, scale them with --hf-overrides in spec.engine.extraArgs; {_PERMISSION}=1 in "
        "spec.podTemplate.env only turns the check off."
    )


def _is_permitted(environment: Mapping[str, str]) -> bool:
    return environment.get(_PERMISSION, "").strip().lower() in ("1", "true")
