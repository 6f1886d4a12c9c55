"""The KV cache that requests share if their prompts begin alike, in the expected figure of an estimate alone."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.decisions.outcomes import MemoryEstimate, Split
from plimsoll.domain.decisions.terms import KV_CACHE, Derivation, Line, Term
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.memory.load import engine_shape, needed_tokens


def shared_tokens(shape: ServingShape, block_tokens: int) -> int:
    """Return the tokens of the needed cache of one engine that requests need once and not each; 0 without a prefix.

    B requests of c tokens that share their first P take P + B (c - P), where P is in whole blocks of ``block_tokens``:
    (B - 1) P less. B are the declared requests at the same time that begin with the prefix. The cache still holds one
    request of full length. A cache that is sized for full lengths is a promise for any requests, so it is not reduced.
    """
    if shape.expected_tokens is None:
        return 0
    prefix = shape.shared_tokens // block_tokens * block_tokens
    again = max(0, shape.concurrency * shape.shared_percent // 100 - 1)
    return max(0, min(again * prefix, needed_tokens(shape) - shape.context_tokens))


def with_sharing(figures: MemoryEstimate, request: Request, split: Split) -> MemoryEstimate:
    """Return the estimate with the declared prefix of a request; the same object if it declares none.

    Only the layers that grow with every token share it: a window or a state belongs to one request. The expected need
    and the lower edge of the band are less. The upper edge is as before, because nobody promises that the requests at
    one moment share anything: so a fit that is sure does not need the prefix, and one that needs it is not sure. A
    cache whose size the user gave stays as it is, and so does that of a law that does not say which layers grow.
    """
    if not request.shape.shared_tokens or figures.given_cache is not None:
        return figures
    index, term = next((each for each in enumerate(figures.terms) if each[1].name == KV_CACHE), (0, None))
    cache = None if term is None else term.derive().cache
    tokens = shared_tokens(engine_shape(request.shape, split), figures.kv_block_tokens)
    if term is None or cache is None or cache.of_steps or not tokens:
        return figures
    size = int(tokens * cache.growing_bytes_per_token)
    shared = Term(KV_CACHE, term.size_bytes - size, _derivation, (term, tokens, size))
    terms = (*figures.terms[:index], shared, *figures.terms[index + 1 :])
    return replace(figures, terms=terms, margin_bytes=figures.margin_bytes + size)


def _derivation(about: tuple[Term, int, int]) -> Derivation:
    term, tokens, size = about
    before = term.derive()
    line = Line("shared", f"- {tokens:,} tokens of prefixes that requests share, in layers that grow", -size)
    cache = before.cache and replace(before.cache, total_bytes=before.cache.total_bytes - size, shared_bytes=size)
    return before._replace(lines=(*before.lines, line), cache=cache)
