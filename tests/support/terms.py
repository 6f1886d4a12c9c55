"""Lists of terms, for estimates that a test writes down itself."""

from __future__ import annotations

from plimsoll.domain.decisions.terms import (
    ACTIVATIONS,
    ADAPTERS,
    CUDA_GRAPHS,
    KV_CACHE,
    LEARNED,
    OVERHEAD,
    WEIGHTS,
    Term,
)

_NAMES = {name.key: name for name in (WEIGHTS, ADAPTERS, KV_CACHE, ACTIVATIONS, CUDA_GRAPHS, OVERHEAD, LEARNED)}


def terms_of(**sizes: int) -> tuple[Term, ...]:
    """The usual terms in the engine's order; those that are not named have no bytes."""
    return tuple(Term(name, sizes.get(key, 0)) for key, name in _NAMES.items())
