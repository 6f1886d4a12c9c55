"""Whether a release can load a model at all: by its class and by the way its weights are quantized.

The model classes that a release serves itself, and the quantization methods that it reads.

The releases that have something: a model class or a quantization method, which may come, go and come back.

The models that vLLM may load through its generic Transformers backend, where it has no class of its own for them.

Source: ``model_executor/models/transformers.py`` (a package since 0.11.1) and ``registry.py`` of 0.8.0 to 0.33.0, and
the releases' ``requirements/common.txt``. The backend wants a class that the image's Transformers library has, or that
the checkpoint brings (``auto_map``), with exchangeable attention (``_supports_attention_backend``). Nothing here can
see that, so the answer is "may".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, LatentCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.engines.vllm.releases.table import (
    ADDED_CLASSES,
    ADDED_METHODS,
    RELEASES,
    REMOVED_CLASSES,
    REMOVED_METHODS,
)

_WINDOWS = EngineVersion(0, 9)
"""Layers with a sliding window next to others (``interleaved_sliding_window``)."""
_TOWERS = EngineVersion(0, 10)
"""``TransformersForMultimodalLM``."""
_EXPERTS = EngineVersion(0, 19, 1)
"""``TransformersMoEForCausalLM`` is there since 0.11.1 and wants Transformers 5, which releases admit since 0.19.1."""
_LATENT = EngineVersion(0, 28)
"""Latent attention with the latent cache (``transformers/fusers``)."""


def may_load(model: ModelFacts, release: EngineVersion) -> bool:
    """Whether the backend of ``release`` has all parts of the model; recurrent states and own caches it never has."""
    return (
        all(_may_cache(cache, release) for cache in model.caches())
        and (model.encoder is None or release >= _TOWERS)
        and (model.experts is None or release >= _EXPERTS)
        and not model.host_bytes
    )


def _may_cache(cache: CacheSpec, release: EngineVersion) -> bool:
    if isinstance(cache, LatentCache):
        return not cache.sparse and release >= _LATENT
    if not isinstance(cache, AttentionCache) or cache.chunk_tokens is not None:
        return False
    return cache.window_tokens is None or release >= _WINDOWS


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


Changes = tuple[EngineVersion, ...]
"""The releases in which something came (first, third, ...) and went (second, fourth, ...), oldest first."""


class Gap(NamedTuple):
    """The releases around one that lacks something.

    ``since`` is the next release that has it, ``gone`` the release that removed it; None where there is no such one.
    """

    since: EngineVersion | None
    gone: EngineVersion | None

    @property
    def advice(self) -> str:
        """The releases to use instead, as the end of a sentence."""
        later = None if self.since is None else f"{self.since} or newer"
        earlier = None if self.gone is None else f"a release before {self.gone}"
        return " or ".join(part for part in (later, earlier) if part is not None)


def changes_of(added: str, removed: str) -> Mapping[str, Changes]:
    """Return the changes of each name, from two texts with lines of a release and the names that it adds or removes."""
    found: dict[str, list[EngineVersion]] = {}
    for release, name in (*_rows(added), *_rows(removed)):
        found.setdefault(name, []).append(release)
    return {name: tuple(sorted(releases)) for name, releases in found.items()}


def gap(changes: Changes, release: EngineVersion) -> Gap | None:
    """Return the releases around ``release`` that have what it lacks; None where it has it."""
    passed = bisect_right(changes, release)
    if passed % 2:
        return None
    return Gap(changes[passed] if passed < len(changes) else None, changes[passed - 1] if passed else None)


def _rows(text: str) -> Iterator[tuple[EngineVersion, str]]:
    """Yield each name with the release of its line. A word that ends with a colon is a release."""
    release = EngineVersion(0, 0)
    for word in text.split():
        if word.endswith(":"):
            release = EngineVersion.of(word.removesuffix(":"))
        else:
            yield release, word


_WHILE_LOADING = {Precision.FP8: "fp8", Precision.BITSANDBYTES: "bitsandbytes"}
"""The methods by which the engine quantizes a 16-bit checkpoint."""


_DEPRECATED = frozenset(
    {
        "bitblas",
        "deepspeedfp",
        "experts_int8",
        "fbgemm_fp8",
        "fp_quant",
        "gptq_bitblas",
        "gptq_marlin_24",
        "hqq",
        "ipex",
        "petit_nvfp4",
        "ptpc_fp8",
        "rtn",
        "tpu_int8",
    }
)
"""Methods that some release loads only where ``--allow-deprecated-quantization`` is given. Source: vLLM,
``DEPRECATED_QUANTIZATION_METHODS`` of ``model_executor/layers/quantization``, read in 0.14 to 0.33."""

_DEPRECATED_SINCE = EngineVersion(0, 14)
"""The first release with that flag and that list."""


class Lack(NamedTuple):
    """Something of a model that a release lacks. ``is_final`` means that the generic backend cannot help either."""

    what: str
    gap: Gap
    is_final: bool


def lacks(model: ModelFacts, precision: Precision, release: EngineVersion) -> Iterator[Lack]:
    """Yield what the release lacks to load the model in this precision, and that another release has."""
    missing = class_gap(model.architecture, release)
    if missing is not None:
        yield Lack(f"the model class {model.architecture}", missing, not may_load(model, release))
    method = _method(model, precision)
    missing = None if method is None else method_gap(method, release)
    if missing is not None:
        yield Lack(f"the quantization method {method}", missing, is_final=True)


def release_refusal(model: ModelFacts, precision: Precision, release: EngineVersion) -> str | None:
    """Return why the release cannot load the model, and the releases that can; None where it can, or may."""
    final = next((lack for lack in lacks(model, precision, release) if lack.is_final), None)
    if final is None:
        return None
    return (
        f"vLLM {release} cannot load {model.name}, because it lacks {final.what}: use {final.gap.advice}, "
        "or spec.engine.image with an image that has it."
    )


def needs_permission(model: ModelFacts, precision: Precision, release: EngineVersion) -> bool:
    """Whether the engine may load the checkpoint only where a flag permits its quantization method.

    Later releases take methods from their list by dropping them, so the flag never does harm.
    """
    return release >= _DEPRECATED_SINCE and _method(model, precision) in _DEPRECATED


def _method(model: ModelFacts, precision: Precision) -> str | None:
    """Return the method that the engine needs: the checkpoint's, or the one by which it quantizes while it loads."""
    if precision is not model.checkpoint.precision and precision.is_quantized:
        return _WHILE_LOADING.get(precision)
    return model.checkpoint.method
