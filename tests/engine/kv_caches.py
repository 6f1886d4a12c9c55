"""Caches told twice: as the operator's values, and as the sizes that vLLM's specs take."""

from __future__ import annotations

from typing import Any, NamedTuple

from plimsoll.domain.models.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
    StateKind,
    StatePart,
)


class Told(NamedTuple):
    """One cache, both ways."""

    ours: CacheSpec
    theirs: dict[str, Any]


def heads(kv_heads: int, key: int, value: int | None = None, *, window: int = 0, chunk: int = 0) -> Told:
    value = key if value is None else value
    ours = AttentionCache(kv_heads, key, value, window_tokens=window or None, chunk_tokens=chunk or None)
    return Told(
        ours, {"type": "heads", "heads": kv_heads, "key": key, "value": value, "window": window, "chunk": chunk}
    )


def latent(*, sparse: bool = False) -> Told:
    return Told(LatentCache(512, 64, sparse), {"type": "latent", "width": 576, "sparse": sparse})


def rows(
    row: int,
    block: int | None,
    ratio: int = 1,
    *,
    window: int | None = None,
    alignment: int = 1,
    kernel: tuple[int, int] | None = None,
) -> Told:
    theirs = {"row": row, "block": block, "ratio": ratio, "window": window, "alignment": alignment, "kernel": kernel}
    ours = RowCache(row, block, ratio, window, alignment, packed=True, kernel_rows=kernel)
    return Told(ours, {"type": "rows", "packed": True, **theirs})


def ring(token: int, ratio: int) -> Told:
    return Told(RingCache(token, ratio), {"type": "ring", "packed": True, "token": token, "ratio": ratio})


def cross(kv_heads: int, dim: int) -> Told:
    return Told(CrossCache(kv_heads, dim, 1500), {"type": "cross", "heads": kv_heads, "key": dim, "value": dim})


def gated_delta(k_heads: int, v_heads: int, dim: int, kernel: int) -> Told:
    columns = kernel - 1
    convolution = (
        StatePart(2 * k_heads, dim * columns, None, dim),
        StatePart(v_heads, dim * columns, None, dim),
    )
    ours = StateCache(StateKind.GATED_DELTA, (convolution, (StatePart(v_heads, dim * dim, None),)))
    sizes = {
        "num_k_heads": k_heads,
        "num_v_heads": v_heads,
        "head_k_dim": dim,
        "head_v_dim": dim,
        "conv_kernel_size": kernel,
    }
    return Told(ours, _state("gated_delta_net_state_shape", sizes, [None, None]))


def mamba2(state_heads: int, head_dim: int, groups: int, state: int, kernel: int) -> Told:
    columns = kernel - 1
    convolution = (
        StatePart(state_heads, head_dim * columns, None, head_dim),
        StatePart(groups, 2 * state * columns, None, 2 * state),
    )
    ours = StateCache(StateKind.MAMBA2, (convolution, (StatePart(state_heads, head_dim * state, 4),)))
    sizes = {
        "intermediate_size": state_heads * head_dim,
        "n_groups": groups,
        "num_heads": state_heads,
        "head_dim": head_dim,
        "state_size": state,
        "conv_kernel": kernel,
    }
    return Told(ours, _state("mamba2_state_shape", sizes, [None, "float32"]))


def mamba1(inner: int, state: int, kernel: int) -> Told:
    ours = StateCache(StateKind.MAMBA1, ((StatePart(inner, kernel - 1, None),), (StatePart(inner, state, 4),)))
    sizes = {"intermediate_size": inner, "state_size": state, "conv_kernel": kernel}
    return Told(ours, _state("mamba1_state_shape", sizes, [None, "float32"], grows=False))


def kimi_delta(delta_heads: int, dim: int) -> Told:
    convolution = (StatePart(3 * delta_heads, dim * 3, None, dim),)
    ours = StateCache(StateKind.KIMI_DELTA, (convolution, (StatePart(delta_heads, dim * dim, 4),)))
    return Told(ours, _state("kda_state_shape", {"num_heads": delta_heads, "head_dim": dim}, [None, "float32"]))


def linear(linear_heads: int, dim: int) -> Told:
    ours = StateCache(StateKind.LINEAR, ((StatePart(linear_heads, dim * dim, 4),),))
    sizes = {"num_heads": linear_heads, "head_dim": dim}
    return Told(ours, _state("linear_attention_state_shape", sizes, ["float32"], grows=False))


def short_conv(width: int, kernel: int) -> Told:
    ours = StateCache(StateKind.SHORT_CONV, ((StatePart(width, kernel - 1, None, 1),),))
    sizes = {"intermediate_size": width, "conv_kernel": kernel}
    return Told(ours, _state("short_conv_state_shape", sizes, [None]))


def _state(rule: str, sizes: dict[str, int], types: list[str | None], *, grows: bool = True) -> dict[str, Any]:
    return {"type": "state", "rule": rule, "sizes": sizes, "types": types, "grows": grows}


INDEXER = Told(IndexerCache(128), {"type": "indexer", "width": 128})
