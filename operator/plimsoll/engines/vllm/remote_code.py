"""Models that vLLM starts only where it may run code of their repository (``--trust-remote-code``).

A configuration names its kind. Where neither vLLM nor its Transformers has a class for the kind, and the checkpoint
brings one (``auto_map``), the class is code of the repository, and the engine ends without the flag. Sources:
``HFConfigParser`` of ``transformers_utils/config.py``, read in 0.8 to 0.33, and ``AutoConfig.from_pretrained`` of
Transformers. Code of tokenizers and processors, which other files of the checkpoint name, is not seen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.vllm.releases.config_types import ADDED_KINDS, LATER_KINDS, REMOVED_KINDS
from plimsoll.engines.vllm.releases.support import Changes, changes_of, gap

FLAG = "--trust-remote-code"

_OLDEST = EngineVersion(0, 8)


def code_refusal(model: ModelFacts, engine: EngineChoice) -> str | None:
    """Return why the engine ends at once, and what to write; None where it runs no code, or may run it.

    A later Transformers than the oldest that a release admits may know the kind, so nothing is refused where one does.
    """
    kind = brought_kind(model, engine)
    if kind is None or _changes(kind, engine.version)[1]:
        return None
    return (
        f"Its configuration ({kind}) is read by code of its repository, which vLLM runs only with {FLAG}. Read that "
        f"code; if you trust it, pass {FLAG} (spec.engine.extraArgs), and pin the revision."
    )


def brought_kind(model: ModelFacts, engine: EngineChoice) -> str | None:
    """Return the kind of configuration that only code of the repository reads for sure; None where it may be run."""
    kind = model.brings_configuration
    if kind is None or engine.trusts_code or _changes(kind, engine.version)[0]:
        return None
    return kind


def _changes(kind: str, release: EngineVersion) -> tuple[bool, bool]:
    """Return whether a release reads a kind for sure, and whether a later one or a later Transformers does."""
    changes = _kinds().get(kind)
    if changes is None:
        return False, kind in _later()
    missing = gap(changes, max(release, _OLDEST))
    return missing is None, missing is not None and (missing.since is not None or kind in _later())


@cache
def _kinds() -> Mapping[str, Changes]:
    return changes_of(ADDED_KINDS, REMOVED_KINDS)


@cache
def _later() -> frozenset[str]:
    return frozenset(LATER_KINDS.split())
