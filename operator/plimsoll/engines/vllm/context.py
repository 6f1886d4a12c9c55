"""The longest request that vLLM takes for a model: it refuses to start with a longer ``--max-model-len``.

Source: ``_get_and_verify_max_len`` of ``config/model.py``, read in 0.8 to 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.domain.engine_choice import Speculation
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.versions import EngineVersion

_PERMISSION = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"

_SHORTENED_BY_DRAFT_SINCE = EngineVersion(0, 33)

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


def draft_refusal(speculation: Speculation, context_tokens: int, release: EngineVersion) -> str | None:
    """Return why the engine would serve shorter requests than that with a draft, and what to write; None otherwise.

    Since 0.33 the second model runner lowers ``--max-model-len`` to the length of a draft that is a model of its own,
    and says so in its log alone (``_limit_max_model_len_to_draft`` of ``config/vllm.py``). The positions of heads and
    prediction layers are raised to those of the model, unless they are scaled in a way that this cannot see.
    """
    draft = speculation.draft
    if release < _SHORTENED_BY_DRAFT_SINCE or draft is None or speculation.head is not None:
        return None
    if context_tokens <= draft.max_context_tokens or not draft.names_context:
        return None
    return (
        f"Since {_SHORTENED_BY_DRAFT_SINCE} vLLM serves no longer requests than the draft {draft.name} has positions: "
        f"write at most {draft.max_context_tokens}, another draft, or a release before {_SHORTENED_BY_DRAFT_SINCE}."
    )


def _is_permitted(environment: Mapping[str, str]) -> bool:
    return environment.get(_PERMISSION, "").strip().lower() in ("1", "true")
