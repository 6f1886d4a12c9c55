"""What can be asked about a model: one rank of a split, the KV cache of a server, or whether a server would start.

Used on both sides: by the project, and inside the engine's environment. Standard library only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

CLAIMED_CARD: Final = "PLIMSOLL_CLAIMED_CARD"
"""The environment variable that says which card the engine's process is to see, as JSON of :class:`Card`."""


@dataclass(frozen=True, slots=True)
class Card:
    """The card that the platform claims to be.

    Attributes:
        name: its name; vLLM's defaults look at it.
        capability: its compute capability.
        memory_bytes: its memory; vLLM's default batch sizes look at it (70 GiB and more is a large GPU).
        gfx: its target, e.g. ``gfx942``, if it is AMD's; its capability then follows from that. None for NVIDIA's.
    """

    name: str = "NVIDIA H100 80GB HBM3"
    capability: tuple[int, int] = (9, 0)
    memory_bytes: int = 80 * 2**30
    gfx: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The form of a recorded question. NVIDIA's cards have no target in it."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def as_text(self) -> str:
        """The form that travels into the engine's process."""
        return json.dumps(self.as_json())

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What :meth:`as_text` made."""
        values = json.loads(text)
        return cls(**(values | {"capability": tuple(values["capability"])}))


H100: Final = Card()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The settings of a server whose KV cache is asked for; ``None`` leaves vLLM's default.

    Attributes:
        kv_dtype: what ``--kv-cache-dtype`` gets.
        max_model_len: tokens of one request.
        max_num_seqs: requests in one step.
        max_num_batched_tokens: tokens in one step.
        available_bytes: each memory to plan for, in bytes of one rank.
    """

    kv_dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    available_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One rank of one model.

    Attributes:
        config: the name the rows get.
        folder: where the ``config.json`` lies that the engine is to read.
        tp: tensor-parallel size.
        pp: pipeline-parallel size.
        ep: whether experts are spread over the tensor-parallel ranks instead of split.
        quantized: whether the folder's ``config.json`` still has its quantization; only copied into the rows.
        copies_encoder: whether every rank holds the whole vision tower (``--mm-encoder-tp-mode data``).
        rank: the tensor-parallel rank looked at.
        stage: the pipeline stage looked at.
        server: set when the KV cache is asked for instead of the weights.
        runner: what ``--runner`` gets; ``None`` lets vLLM choose.
        tensors: whether the row lists every parameter (name, shape, type).
        arguments: what follows ``vllm serve MODEL``, where the question is whether the server would start.
    """

    config: str
    folder: str
    tp: int = 1
    pp: int = 1
    ep: bool = False
    quantized: bool = False
    copies_encoder: bool = False
    rank: int = 0
    stage: int = 0
    server: Server | None = None
    runner: str | None = None
    tensors: bool = False
    arguments: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """The form that travels into the engine's process."""
        values = asdict(self)
        if self.arguments is None:
            del values["arguments"]  # questions that were recorded before have none
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What :meth:`as_json` made."""
        server = values["server"]
        if server is not None:
            server = Server(**(server | {"available_bytes": tuple(server["available_bytes"])}))
        given = values.get("arguments")
        return cls(**(values | {"server": server, "arguments": None if given is None else tuple(given)}))
