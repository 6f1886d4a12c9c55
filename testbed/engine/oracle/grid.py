"""Which questions does a whole set of configurations get?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from testbed.engine.oracle.config_folder import has_experts, is_quantized, write_folder
from testbed.engine.oracle.questions import Question, Server

GIB: Final = 2**30

SERVERS: Final = (
    Server(max_model_len=4096, available_bytes=(8 * GIB, 40 * GIB)),
    Server(max_model_len=32768, max_num_seqs=64, max_num_batched_tokens=4096, available_bytes=(40 * GIB,)),
    Server(max_model_len=4096, kv_dtype="fp8", available_bytes=(40 * GIB,)),
)
"""Servers whose KV cache every configuration is asked for: vLLM's defaults, a long context, a halved cache."""

KV_SIZES: Final = (1, 4)
"""Tensor-parallel sizes at which it is asked for."""


def weight_questions(
    name: str,
    config: Mapping[str, Any],
    folder: Path,
    *,
    sizes: Sequence[int],
    stages: Sequence[int] = (1,),
    runner: str | None = None,
) -> Iterator[Question]:
    """Every split of one configuration, plain and (where it is quantized) as published.

    Rank 0 stands for all ranks of a tensor-parallel group: vLLM splits evenly or refuses, and where experts do not
    divide by the group, the first ranks hold one more. Of a pipeline the first and the last stage are asked for: they
    carry the embedding and the head.

    Args:
        name: what the rows call it.
        config: the published ``config.json``.
        folder: a folder to write into, for this configuration alone.
        sizes: tensor-parallel sizes.
        stages: pipeline-parallel sizes; only with the first of ``sizes``.
        runner: what ``--runner`` gets; ``None`` lets vLLM choose.
    """
    for quantized in (False, True) if is_quantized(config) else (False,):
        written = str(write_folder(folder / ("quantized" if quantized else "plain"), config, quantized=quantized))
        for tp in sizes:
            yield Question(config=name, folder=written, tp=tp, quantized=quantized, runner=runner)
            if tp > 1 and has_experts(config):
                yield Question(config=name, folder=written, tp=tp, ep=True, quantized=quantized, runner=runner)
        for pp in (size for size in stages if size > 1):
            for stage in (0, pp - 1):
                yield Question(
                    config=name, folder=written, tp=sizes[0], pp=pp, stage=stage, quantized=quantized, runner=runner
                )


def cache_questions(name: str, config: Mapping[str, Any], folder: Path) -> Iterator[Question]:
    """The KV cache of one configuration, unquantized, in each of :data:`SERVERS`."""
    written = str(write_folder(folder / "cache", config, quantized=False))
    for tp in KV_SIZES:
        for server in SERVERS:
            yield Question(config=name, folder=written, tp=tp, server=server)
