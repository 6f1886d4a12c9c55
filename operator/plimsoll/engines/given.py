"""The uncertain part of a start with options of somebody's own: blocks that kernels choose, and unknown files."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.base import Engine
from plimsoll.engines.starts import StartCommand, StartOptions


class CacheBlocks(NamedTuple):
    """The blocks of a cache as far as they are certain: the tokens of each, and their number.

    ``unfollowed`` is what was named and depends on the GPU's kernels, which no law covers.
    """

    block_tokens: int | None = None
    cache_blocks: int | None = None
    unfollowed: tuple[str, ...] = ()


def cache_blocks(engine: Engine, options: StartOptions, model: ModelFacts) -> CacheBlocks:
    """Return the blocks that these options fix."""
    if engine.follows_block(model, options.block_tokens):
        return CacheBlocks(options.block_tokens, options.cache_blocks)
    words = (("--block-size", options.block_tokens), ("--num-gpu-blocks-override", options.cache_blocks))
    return CacheBlocks(unfollowed=tuple(f"{flag}={value}" for flag, value in words if value is not None))


def unconfirmed_files(engine: Engine, start: StartCommand, model: ModelFacts) -> tuple[str, ...]:
    """Return the flags whose files the model may lack, in words."""
    reader = engine.start_commands
    return () if reader is None else reader.unconfirmed(model, start)
