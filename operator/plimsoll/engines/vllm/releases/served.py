"""The model classes that a release serves itself, and the quantization methods that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.releases.history import Changes, Gap, changes_of, gap
from plimsoll.engines.vllm.releases.table import (
    ADDED_CLASSES,
    ADDED_METHODS,
    RELEASES,
    REMOVED_CLASSES,
    REMOVED_METHODS,
)

_READ = [EngineVersion.of(text) for text in RELEASES.split()]
_OLDEST_READ = min(_READ)

NEWEST_READ = max(_READ)
"""The newest release whose registry is in the table. Newer releases are taken to have what it has, and releases before
the oldest one what that has."""

_POOLING = "ForSequenceClassification"
_GENERATING = "ForCausalLM"

_OTHER_WORDS = {"auto-round": "inc", "modelopt_fp4": "nvfp4"}
"""Methods that some releases read under another name.

``quantization/inc.py`` of 0.15 reads ``auto-round``. 0.8 has ``nvfp4`` in place of ``modelopt_fp4``.
"""


def class_gap(architecture: str, release: EngineVersion) -> Gap | None:
    """Return the releases around ``release`` that serve a class that it lacks.

    None where it serves the class, or no release does. A classifier is served where its language model is: vLLM
    converts it (``_normalize_arch`` of the registry).
    """
    missing = _gap(_classes(), architecture, release)
    if missing is None or not architecture.endswith(_POOLING):
        return missing
    base = architecture.removesuffix(_POOLING) + _GENERATING
    return missing if base not in _classes() else _gap(_classes(), base, release)


def method_gap(method: str, release: EngineVersion) -> Gap | None:
    """Return the releases around ``release`` that read a quantization method (``quant_method``) that it lacks.

    None where it reads the method, or no release does.
    """
    missing = _gap(_methods(), method, release)
    other = _OTHER_WORDS.get(method)
    if missing is None or other is None:
        return missing
    return missing if _gap(_methods(), other, release) is not None else None


def _gap(known: Mapping[str, Changes], name: str, release: EngineVersion) -> Gap | None:
    return gap(known[name], max(release, _OLDEST_READ)) if name in known else None


@cache
def _classes() -> Mapping[str, Changes]:
    return changes_of(ADDED_CLASSES, REMOVED_CLASSES)


@cache
def _methods() -> Mapping[str, Changes]:
    return changes_of(ADDED_METHODS, REMOVED_METHODS)
