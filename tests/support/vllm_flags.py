"""The owned flags of vLLM, as the API asks for them."""

from __future__ import annotations

from plimsoll.engines import flags
from plimsoll.engines.flags import OwnedFlag
from plimsoll.engines.vllm.flags.extra_arguments import OWNED_FLAGS


def owned_flag(argument: str) -> OwnedFlag | None:
    """Return vLLM's owned flag that this argument sets; None if the user may pass it."""
    return flags.owned_flag(argument, OWNED_FLAGS)
