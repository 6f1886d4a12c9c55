"""Zamba 2: some recurrent layers also run an attention block. There are only a few blocks, shared by these layers."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, norm, replicated, row
from plimsoll.facts.models.layers.shape import Part, Parts, Role, Shape

_ADAPTER_RANK = 128
"""Default of ``Zamba2Config`` in Transformers."""

_BLOCK = "shared_transformer"


def shared_block_layers(fields: Fields, shape: Shape, roles: tuple[Role, ...], recurrence: Part) -> Parts:
    """Return every layer: the recurrence, and in hybrid layers also a projection, adapters and a separate cache.

    The ``num_mem_blocks`` shared blocks take turns; each is counted in the first layer that uses it. Attention and MLP
    of a block read the hidden state joined with the embeddings, which is twice the hidden size. Source: vLLM,
    ``models/zamba2.py``.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    blocks = fields.optional_integer(("num_mem_blocks",)) or 1
    cache = AttentionCache(shape.heads, 2 * shape.hidden // shape.heads, 2 * shape.hidden // shape.heads)
    own = Part(tuple(_own(fields, shape.hidden)), (cache,))
    shared = Part(tuple(_shared(fields, shape.hidden)))
    layers = []
    passed = 0
    for role in roles:
        part = recurrence
        if role is Role.BOTH:
            part = recurrence + own + (shared if passed < blocks else Part())
            passed += 1
        layers.append(part)
    return tuple(layers)


def _width(fields: Fields, hidden: int) -> int:
    return fields.optional_integer(("intermediate_size",)) or 4 * hidden


def _own(fields: Fields, hidden: int) -> Iterator[Weight]:
    """Yield the weights that a hybrid layer does not share: the way back, and low-rank adapters of the block."""
    rank = fields.optional_integer(("adapter_rank",)) or _ADAPTER_RANK
    yield from replicated("linear", hidden, hidden)
    if fields.flag("use_shared_attention_adapter", default=False):
        for name in ("q", "k", "v"):
            yield from _adapter(f"{_BLOCK}.self_attn.linear_{name}_adapter", 2 * hidden, rank, 2 * hidden)
    yield from _adapter(f"{_BLOCK}.feed_forward.gate_up_proj_adapter", hidden, rank, 2 * _width(fields, hidden))


def _adapter(name: str, inputs: int, rank: int, outputs: int) -> Iterator[Weight]:
    yield from column(f"{name}.A", rank, inputs)
    yield from column(f"{name}.B", outputs, rank)


def _shared(fields: Fields, hidden: int) -> Iterator[Weight]:
    bias = fields.flag("add_bias_linear", default=False)
    for name in ("q", "k", "v"):
        yield from column(f"{_BLOCK}.self_attn.{name}_proj", 2 * hidden, 2 * hidden)
    yield from row(f"{_BLOCK}.self_attn.o_proj", hidden, 2 * hidden)
    width = _width(fields, hidden)
    yield from column(f"{_BLOCK}.feed_forward.gate_up_proj", 2 * width, hidden, bias=bias)
    yield from row(f"{_BLOCK}.feed_forward.down_proj", hidden, width, bias=bias)
    yield from norm(f"{_BLOCK}.input_layernorm", 2 * hidden)
    yield from norm(f"{_BLOCK}.pre_ff_layernorm", hidden)
