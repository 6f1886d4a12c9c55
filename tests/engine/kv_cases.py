"""Random mixes of caches, and how they are served."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.units import GIB
from tests.engine.kv_caches import (
    INDEXER,
    Told,
    cross,
    gated_delta,
    heads,
    kimi_delta,
    latent,
    linear,
    mamba1,
    mamba2,
    ring,
    rows,
    short_conv,
)

PRECISIONS = {"auto": KvPrecision.BF16, "fp8": KvPrecision.FP8, "nvfp4": KvPrecision.NVFP4}

Layer = tuple[Told, ...]


@dataclass(frozen=True)
class Case:
    """One model's caches, layer by layer, and how it is served."""

    name: str
    layers: tuple[Layer, ...]
    split: Split
    kv_dtype: str
    dtype: str
    context_tokens: int
    batched_tokens: int
    available_bytes: int
    block_tokens: int
    speculative_tokens: int
    prefix_caching: bool
    hybrid_manager: bool

    @property
    def question(self) -> dict[str, Any]:
        """What the engine is asked."""
        attention = any(cache.theirs["type"] != "state" for layer in self.layers for cache in layer)
        return {
            "layers": [[cache.theirs for cache in layer] for layer in self.layers],
            "stages": self.split.pipeline_parallel,
            "tensor_parallel": self.split.tensor_parallel,
            "context_parallel": self.split.context_parallel,
            "kv_dtype": self.kv_dtype,
            "dtype": self.dtype,
            "context_tokens": self.context_tokens,
            "batched_tokens": self.batched_tokens,
            "available_bytes": self.available_bytes,
            "block_tokens": self.block_tokens,
            "speculative_tokens": self.speculative_tokens,
            # vLLM turns prefix caching off, and with it the aligned states, for models without attention.
            "state_mode": "align" if self.prefix_caching and attention else "none",
            "hybrid_manager": self.hybrid_manager,
        }


def _spread(random_: random.Random, *kinds: Layer) -> tuple[Layer, ...]:
    """Between 6 and 70 layers of the kinds, each at least once, in random order."""
    layers = [kind for kind in kinds for _ in range(random_.randint(1, 24))]
    layers += [kinds[-1]] * max(0, 6 - len(layers))
    random_.shuffle(layers)
    return tuple(layers)


def _attention(random_: random.Random, *, window: int = 0) -> Told:
    return heads(random_.choice((1, 2, 4, 8, 16)), random_.choice((64, 80, 128, 256)), window=window)


def _twin(cache: Told, window: int) -> Told:
    theirs = cache.theirs
    return heads(theirs["heads"], theirs["key"], theirs["value"], window=window)


def _plain(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (_attention(random_),))


def _asymmetric(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(random_.choice((2, 8)), 192, 128),))


def _widths(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 128),), (heads(4, 128),), (heads(8, 80),))


def _sliding(random_: random.Random) -> tuple[Layer, ...]:
    full = _attention(random_)
    return _spread(random_, (full,), (_twin(full, random_.choice((128, 1024, 4096))),))


def _two_windows(random_: random.Random) -> tuple[Layer, ...]:
    full = _attention(random_)
    return _spread(random_, (full,), (_twin(full, 512),), (_twin(full, 2048),))


def _sliding_widths(random_: random.Random) -> tuple[Layer, ...]:
    """Gemma 4: wide heads where attention is full, narrow ones under the window."""
    return _spread(random_, (heads(random_.choice((1, 2, 4)), 512),), (heads(8, 256, window=1024),))


def _asymmetric_sliding(random_: random.Random) -> tuple[Layer, ...]:
    """MiMo V2: other head counts, and values narrower than keys, under the window; pages are no multiples."""
    return _spread(random_, (heads(4, 192, 128),), (heads(random_.choice((6, 8)), 192, 128, window=128),))


def _chunked(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 128),), (heads(8, 128, chunk=8192),))


def _latent(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (latent(),))


def _sparse(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (latent(sparse=True), INDEXER))


def _latent_window(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (latent(),), (heads(8, 128, window=2048),))


def _cross(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(20, 64), cross(20, 64)))


def _packed(random_: random.Random) -> tuple[Layer, ...]:
    """DeepSeek-V4: a window, and keys compressed 4 or 128 to one with what is still to be compressed."""
    window = rows(584, 64, window=random_.choice((128, 512)), alignment=576)
    keys, waiting = rows(584, 256, 4, alignment=576), rows(8192, 4, window=8, alignment=576)
    index, waiting_index = rows(132, 256, 4, alignment=576), rows(2048, 4, window=8, alignment=576)
    far, waiting_far = rows(584, 256, 128, alignment=576), rows(4096, 8, window=128, alignment=576)
    return _spread(random_, (window,), (window, keys, waiting, index, waiting_index), (window, far, waiting_far))


def _packed_far(random_: random.Random) -> tuple[Layer, ...]:
    """Only one rate of compression: nothing says how long a group is."""
    window, far = rows(584, 64, window=128, alignment=576), rows(584, 256, 128, alignment=576)
    return _spread(random_, (window,), (window, far, rows(4096, 8, window=128, alignment=576)))


def _packed_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    """GLM-5.3-Flash: sparse latent attention whose indexer pools keys, beside recurrent states."""
    pool = random_.choice((4, 16))
    state = kimi_delta(random_.choice((32, 64)), 128)
    indexed = (latent(sparse=True), rows(132, None, pool, kernel=(32, 64)), ring(512, pool))
    return _spread(random_, indexed, (state,), (state,))


def _delta_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    state = gated_delta(16, random_.choice((16, 32, 64)), 128, 4)
    return _spread(random_, (heads(random_.choice((2, 4)), 256),), (state,), (state,))


def _mamba2_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 128),), (mamba2(random_.choice((64, 128)), 64, 8, 128, 4),))


def _parallel_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    """Falcon-H1: attention and a state in each layer."""
    return _spread(random_, (heads(random_.choice((2, 4)), 128), mamba2(32, 64, 8, 256, 4)))


def _mamba1_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 128),), (mamba1(random_.choice((4096, 8192)), 16, 4),))


def _kimi_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (latent(),), (kimi_delta(random_.choice((32, 64)), 128),))


def _linear_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 128),), (linear(random_.choice((48, 64)), 128),))


def _short_conv_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 64),), (short_conv(random_.choice((1024, 2048)), 3),))


def _window_hybrid(random_: random.Random) -> tuple[Layer, ...]:
    full = heads(8, 128)
    return _spread(random_, (full,), (_twin(full, 1024),), (mamba2(64, 64, 8, 128, 4),))


def _states_alone(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (mamba2(random_.choice((64, 128)), 64, 8, 128, 4),))


def _different_states(random_: random.Random) -> tuple[Layer, ...]:
    return _spread(random_, (heads(8, 128),), (mamba2(64, 64, 8, 128, 4),), (linear(64, 128),))


MIXES: dict[str, Callable[[random.Random], tuple[Layer, ...]]] = {
    mix.__name__.strip("_"): mix
    for mix in (
        _plain,
        _asymmetric,
        _widths,
        _sliding,
        _two_windows,
        _sliding_widths,
        _asymmetric_sliding,
        _chunked,
        _latent,
        _sparse,
        _latent_window,
        _cross,
        _packed,
        _packed_far,
        _packed_hybrid,
        _delta_hybrid,
        _mamba2_hybrid,
        _parallel_hybrid,
        _mamba1_hybrid,
        _kimi_hybrid,
        _linear_hybrid,
        _short_conv_hybrid,
        _window_hybrid,
        _states_alone,
        _different_states,
    )
}


BLOCKS = {"sparse": 64, "packed": 256, "packed_far": 256, "packed_hybrid": 64}
"""Blocks that the kernels of a mix insist on."""


def make_cases(seed: int, *, of_each: int) -> list[Case]:
    """The same cases for the same seed."""
    random_ = random.Random(seed)  # noqa: S311 - cases, not secrets
    return [_case(f"{name}-{number}", name, random_) for name in MIXES for number in range(of_each)]


def make_refused_cases() -> list[Case]:
    """What neither the engine nor the law lays out."""
    window = heads(8, 128, window=1024)
    state = mamba2(64, 64, 8, 128, 4)
    usual = Case(
        name="windows-and-states-without-the-hybrid-manager",
        layers=((heads(8, 128),), (window,), (state,)),
        split=Split(1),
        kv_dtype="auto",
        dtype="bfloat16",
        context_tokens=4096,
        batched_tokens=2048,
        available_bytes=70 * GIB,
        block_tokens=16,
        speculative_tokens=0,
        prefix_caching=True,
        hybrid_manager=False,
    )
    managed = replace(usual, hybrid_manager=True)
    return [
        usual,
        replace(
            usual,
            name="two-windows-without-the-hybrid-manager",
            layers=((heads(8, 128),), (window,), (heads(8, 128, window=512),)),
        ),
        replace(
            managed,
            name="windows-and-context-parallelism",
            layers=((heads(1, 128),), (heads(1, 128, window=1024),)),
            split=Split(2, context_parallel=2),
        ),
        replace(managed, name="states-beside-an-indexer", layers=((latent(sparse=True), INDEXER), (state,))),
    ]


def _case(label: str, mix: str, random_: random.Random) -> Case:
    layers = MIXES[mix](random_)
    kinds = {cache.theirs["type"] for layer in layers for cache in layer}
    windows = any(cache.theirs.get("window") for layer in layers for cache in layer)
    tensor_parallel = random_.choice((1, 2, 4, 8))
    symmetric = kinds == {"heads"} and mix not in ("asymmetric", "asymmetric_sliding")
    return Case(
        name=label,
        layers=layers,
        split=Split(
            tensor_parallel,
            random_.choice((1, 1, 2, 3)),
            context_parallel=1 if windows else random_.choice((1, 1, tensor_parallel)),
        ),
        kv_dtype=random_.choice(("auto", "auto", "fp8", "nvfp4") if symmetric else ("auto", "fp8")),
        dtype=random_.choice(("bfloat16", "bfloat16", "float32")),
        context_tokens=random_.choice((4_096, 10_000, 32_768, 131_072)),
        batched_tokens=random_.choice((2_048, 8_192, 16_384)),
        available_bytes=random_.randint(70 * GIB, 200 * GIB),
        block_tokens=BLOCKS[mix] if mix in BLOCKS else random_.choice((16, 16, 16, 32, 64)),
        speculative_tokens=random_.choice((0, 0, 3)),
        prefix_caching=random_.choice((True, True, False)),
        hybrid_manager=bool(kinds & {"state", "rows"})
        or "cross" in kinds
        or mix == "two_windows"
        or random_.random() < 0.8,
    )
