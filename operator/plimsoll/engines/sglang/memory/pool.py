"""The caches of one rank: what a token takes in each pool, and how the pools divide the memory.

Source: ``mem_cache/kv_cache_configurator.py`` and ``mem_cache/memory_pool.py``, 0.5.18 to 0.5.23. There are no blocks:
a pool is a number of tokens. Layers with a window have a pool of their own only in classes that the engine lists; in
all others they keep every token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StaticShare
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, LatentCache, StateCache, StateKind
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import WIDE, KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import ceil_div
from plimsoll.memory.cache_bytes import PER_TOKEN_CACHES, RankFormat, state_shape, token_bytes
from plimsoll.memory.draft import draft_caches
from plimsoll.memory.stages import CountedCaches, stage_caches
from plimsoll.memory.weights import weight_format

HYBRID_CLASSES = frozenset(
    (
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "GptOssForCausalLM",
        "GraniteMoeSWAForCausalLM",
        "GraniteSWAForCausalLM",
        "InklingForConditionalGeneration",
        "IQuestQ1ForCausalLM",
        "LagunaForCausalLM",
        "Llama4ForConditionalGeneration",
        "MellumForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
        "Step3p5ForCausalLM",
        "Step3p7ForConditionalGeneration",
    )
)
"""Classes whose layers with a window, or a chunk, have a pool of their own. Source: ``is_hybrid_swa_model`` of
``configs/model_config.py``, 0.5.23, but for drafts and for classes without a memory law here."""

USUAL_WINDOW_THOUSANDTHS = 800
"""``--swa-full-tokens-ratio``: Gemma 4 12B on two RTX 3090 logged 102,094 tokens with it, and 565,446 with 0.0625."""

_STATE_RATIO = (9, 10)
"""``--mamba-full-memory-ratio`` 0.9: states get 0.9 of the bytes for every byte of the other pools."""

FEWEST_STATES, STATES_OF_REQUEST = 3, 5
"""States that one running request may hold: 3, and 5 with the buffer for overlapping steps."""

_CONVOLUTION_BYTES, _RECURRENCE_BYTES = 2, 4
"""Bytes of one element of a state: the window of a convolution has 16 bits, and a recurrence 32 unless the
configuration names a type, also where the model has 16 (``mamba2_state_dtype`` of ``configs/mamba_utils.py``, 0.5.18 to
0.5.23)."""

_CONVOLUTIONS = {StateKind.SHORT_CONV: 2, StateKind.LINEAR: 0}
"""The number of windows among a state's tensors, where convolutions come first; one for other states."""

LATENT_PAGE = 64
"""Tokens of a page with FlashMLA's and TensorRT-LLM's kernels for latent attention. Others have one token."""

FORMATS = (*WIDE, KvPrecision.FP8, KvPrecision.NVFP4)
"""Formats of the cache that the engine has and the law covers."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The bytes of one rank: of a token in the layers that keep all and in those with a window, and of one state.

    ``window_tokens`` is the longest window of the layers that have a pool of their own; 0 if there is none.
    """

    full: int
    window: int
    slot: int
    window_tokens: int
    page: int


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools of one rank as the engine divides them. ``static`` says what was named."""

    cells: Cells
    static: StaticShare

    @property
    def bytes_per_token(self) -> int:
        """The bytes of one more token of the cache, in all layers, rounded up."""
        return ceil_div(self._thousand, 1000)

    @property
    def _thousand(self) -> int:
        """The bytes of a thousand tokens with their part of the pool for windows."""
        named = self.static.window_thousandths
        ratio = USUAL_WINDOW_THOUSANDTHS if named is None else named
        return 1000 * self.cells.full + ratio * self.cells.window

    def tokens(self, pool_bytes: int) -> int:
        """Return the tokens that caches of these bytes hold (``max_total_num_tokens``); 0 if there is no room."""
        left = max(0, pool_bytes - self._states(pool_bytes))
        most = self.static.most_tokens
        found = left * 1000 // self._thousand if self._thousand else 0
        return (found if most is None else min(found, most)) // self.cells.page * self.cells.page

    def slots(self, pool_bytes: int) -> int | None:
        """Return the states that caches of these bytes hold; None for models without.

        One more is kept for requests that are padded (``(share - 1 slot) / slot``).
        """
        if not self.cells.slot:
            return None
        named = self.static.state_slots
        return max(0, self._states(pool_bytes) // self.cells.slot - 1) if named is None else named

    def bytes_for(self, tokens: int) -> int:
        """Return the least bytes of caches that hold so many tokens, with the states that belong to them."""
        pages = ceil_div(tokens, self.cells.page) * self.cells.page
        kept = ceil_div(pages * self._thousand, 1000)
        if not self.cells.slot:
            return kept
        if self.static.state_slots is not None:
            return kept + (self.static.state_slots + 1) * self.cells.slot
        part, whole = _STATE_RATIO
        return ceil_div(kept * (whole + part), whole)

    def _states(self, pool_bytes: int) -> int:
        """Return the bytes of the states in caches of these bytes."""
        if not self.cells.slot:
            return 0
        if self.static.state_slots is not None:
            return (self.static.state_slots + 1) * self.cells.slot
        part, whole = _STATE_RATIO
        return pool_bytes * part // (whole + part)


def cells_of(request: Request, split: Split) -> Cells:
    """Return the bytes of one rank of the request's model. A draft keeps as many tokens.

    Raises:
        UnsupportedModel: no law covers a cache of the model, or its format.
    """
    return _cells(request.model, request.precision, request.kv_precision, split, draft_caches(request))


@lru_cache(maxsize=4096)
def _cells(
    model: ModelFacts,
    precision: Precision,
    kv_precision: KvPrecision,
    split: Split,
    draft: CountedCaches,
) -> Cells:
    if kv_precision not in FORMATS:
        raise UnsupportedModel(model.name, f"the {kv_precision} KV cache in SGLang")
    width = 4 if weight_format(model, precision).dtype is Precision.FP32 else 2
    rank = RankFormat(kv_precision, width, split.tensor_parallel, 0, model.name)
    caches = stage_caches(model, 0, split.pipeline_parallel)
    windows = [cache for cache, _ in caches if isinstance(cache, AttentionCache) and has_own_pool(model, cache)]
    _refuse_others(model, (cache for cache, _ in (*caches, *draft)))
    full = sum(
        count * token_bytes(cache, rank)
        for cache, count in caches
        if isinstance(cache, PER_TOKEN_CACHES) and cache not in windows
    )
    # The engine counts a layer of a draft as large as one of the model (``DefaultPoolConfigurator``).
    full += full * _attention_layers(draft) // max(1, _attention_layers(caches))
    slot = sum(count * _state_bytes(cache, rank) for cache, count in caches if isinstance(cache, StateCache))
    if draft and (windows or slot):
        # States of every guessed token, and windows of a draft, have pools of their own.
        raise UnsupportedModel(model.name, "a draft next to windows or recurrent states in SGLang")
    return Cells(
        full=full,
        window=sum(dict(caches)[cache] * token_bytes(cache, rank) for cache in windows),
        slot=slot,
        window_tokens=max((cache.window_tokens or cache.chunk_tokens or 0 for cache in windows), default=0),
        page=LATENT_PAGE if any(isinstance(cache, LatentCache) for cache, _ in caches) else 1,
    )


def _attention_layers(caches: CountedCaches) -> int:
    return sum(count for cache, count in caches if isinstance(cache, AttentionCache | LatentCache))


def _state_bytes(cache: StateCache, rank: RankFormat) -> int:
    """Return the bytes of one state in one layer."""
    windows = _CONVOLUTIONS.get(cache.kind, 1)
    named = [tensor[0].dtype_bytes or _RECURRENCE_BYTES for tensor in cache.parts[windows:]]
    widths = [*[_CONVOLUTION_BYTES] * (len(cache.parts) - len(named)), *named]
    return sum(elements * width for (elements, _), width in zip(state_shape(cache, rank), widths, strict=True))


def has_own_pool(model: ModelFacts, cache: AttentionCache) -> bool:
    """Whether the engine keeps only a window of this cache, in a pool of its own."""
    return bool(cache.window_tokens or cache.chunk_tokens) and model.architecture in HYBRID_CLASSES


def _refuse_others(model: ModelFacts, caches: Iterable[CacheSpec]) -> None:
    """Refuse caches that SGLang keeps in pools of their own which no law covers: compressed rows, rings, encoders."""
    if not all(isinstance(cache, (*PER_TOKEN_CACHES, StateCache)) for cache in caches):
        raise UnsupportedModel(model.name, "caches of compressed tokens or of an encoder's output in SGLang")
