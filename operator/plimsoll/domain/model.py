"""What the memory law needs to know of a model, whatever file it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.precision import KvPrecision, Precision


class FactsSource(StrEnum):
    """Where the facts came from; shown to the reader of an estimate."""

    CATALOG = "Catalog"
    HUB = "Hub"
    INLINE = "Inline"


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Layers that share one KV-cache shape.

    ``window_tokens`` is the sliding window in tokens, or None for full attention. Head counts are of the whole model,
    before tensor parallelism.
    """

    count: int
    kv_heads: int
    head_dim: int
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ExpertFacts:
    """The mixture-of-experts part: ``layers`` layers hold ``experts`` experts of ``intermediate`` width each."""

    layers: int
    experts: int
    experts_per_token: int
    intermediate: int
    shared_intermediate: int = 0
    has_bias: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """How the published weights are stored.

    ``dtype`` is the 16- or 32-bit type of what is not quantized; ``group_size`` the number of weights that share a
    scale (None: one scale a tensor or channel); ``kv_precision`` what the checkpoint fixes for the KV cache, if it
    does.
    """

    precision: Precision
    dtype: Precision
    group_size: int | None = None
    kv_precision: KvPrecision | None = None
    quantizes_lm_head: bool = False
    quantizes_attention: bool = True

    @property
    def dtype_beside_quantized(self) -> Precision:
        """What the engine runs the unquantized parts in: its quantization kernels know no 32-bit activations."""
        return Precision.BF16 if self.dtype is Precision.FP32 else self.dtype


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One decoder-only language model: sizes in elements, before any parallelism.

    ``intermediate`` is the width of a dense MLP (0 where every layer is a mixture of experts); ``max_context_tokens``
    is what the checkpoint declares; ``parameters`` the exact count of the checkpoint where its metadata told it.
    """

    name: str
    revision: str | None
    architecture: str
    source: FactsSource
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    intermediate: int
    attention: tuple[AttentionLayers, ...]
    checkpoint: CheckpointFacts
    max_context_tokens: int
    experts: ExpertFacts | None = None
    tied_embeddings: bool = False
    gated_mlp: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    parallel_residual: bool = False
    position_embeddings: int = 0
    parameters: int | None = None

    @property
    def dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self.layers - (self.experts.layers if self.experts else 0)

    @property
    def kv_heads(self) -> int:
        """The fewest KV heads of any layer: what tensor parallelism divides first."""
        return min(group.kv_heads for group in self.attention)

    @property
    def head_dim(self) -> int:
        """Head size of the query projection."""
        return self.attention[0].head_dim
