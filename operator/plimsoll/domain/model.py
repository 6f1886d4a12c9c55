"""What the memory law needs to know of a model, whatever file it was read from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll.domain.caches import AttentionCache, CacheSpec
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.storage import BF16, Storage


class FactsSource(StrEnum):
    """Where the facts came from; shown to the reader of an estimate."""

    CATALOG = "Catalog"
    HUB = "Hub"
    INLINE = "Inline"


class Evidence(StrEnum):
    """How well founded the facts are; the error band of an estimate follows from it."""

    KNOWN = "Known"
    """The model class has a row of its own, checked against the engine's modules."""
    TENSORS = "Tensors"
    """The class is unknown, but the checkpoint's own list of tensors was read."""
    GENERIC = "Generic"
    """The class is unknown; its fields were read as the majority of classes use them."""


class Tables(StrEnum):
    """Tables of the vocabulary."""

    NONE = "none"
    EMBEDDING = "embedding"
    BOTH = "both"
    """The embeddings and the output projection."""


class Sharding(StrEnum):
    """What one rank holds of a weight.

    Source: vLLM, ``model_executor/layers/linear.py``, ``vocab_parallel_embedding.py`` and ``fused_moe/layer.py``.
    """

    OUTPUTS = "outputs"
    """Column parallel: rows of the matrix divided over the tensor-parallel ranks."""
    INPUTS = "inputs"
    """Row parallel: columns divided."""
    HEADS = "heads"
    """``units`` heads or groups in ``outputs``; a rank holds ``max(1, units // tp)`` of them, so some are copied."""
    VOCABULARY = "vocabulary"
    """Rows padded to a multiple of 64, then divided."""
    REPLICATED = "replicated"
    """All of it on every rank."""
    EXPERT_OUTPUTS = "expertOutputs"
    """Up and gate projections of experts: rows divided, or whole experts with expert parallelism."""
    EXPERT_INPUTS = "expertInputs"
    """Down projections of experts: columns divided, or whole experts with expert parallelism."""


@dataclass(frozen=True, slots=True)
class Weight:
    """Matrices of one name that are stored and split alike.

    ``name`` is dotted as in the checkpoint, below the layer (``self_attn.q_proj``) or, outside the layers, from the
    root (``lm_head``). ``outputs`` x ``inputs`` is one matrix of the whole model (``inputs`` 1 for biases and norms);
    ``count`` matrices lie in one layer (experts). ``units`` are the heads of :attr:`Sharding.HEADS`; with
    :attr:`Sharding.OUTPUTS` and :attr:`Sharding.INPUTS`, units above 1 that the degree does not divide leave the matrix
    whole on every rank (some towers). An expert that is cut keeps ``smallest_share`` rows (or columns) on a rank,
    padded if need be. ``linear`` tells whether online quantization and LoRA reach it.
    """

    name: str
    outputs: int
    inputs: int
    sharding: Sharding
    count: int = 1
    units: int = 1
    smallest_share: int = 0
    storage: Storage = BF16
    linear: bool = True

    @property
    def parameters(self) -> int:
        """Elements in one layer of the whole model."""
        return self.count * self.outputs * self.inputs


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that are alike in every weight and cache."""

    weights: tuple[Weight, ...]
    caches: tuple[CacheSpec, ...]


@dataclass(frozen=True, slots=True)
class ExpertFacts:
    """The mixture-of-experts part: ``layers`` layers hold ``experts`` experts of ``intermediate`` width each."""

    layers: int
    experts: int
    experts_per_token: int
    intermediate: int
    shared_intermediate: int = 0


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """The largest video: steps in time of one size, as many as the context holds and ``most_steps`` allow.

    A step is ``step_positions`` encoder positions and takes ``step_tokens`` of the language model's context;
    ``overstated_tokens`` is what releases before 0.13 take the whole for, where that is more than it has.
    """

    step_positions: int
    step_tokens: int
    most_steps: int | None = None
    overstated_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """A vision or audio tower with its projector: every pipeline stage loads it, and the first one runs it.

    ``item_tokens`` is how many encoder positions (patches, frames) the largest item has, videos aside, ``hidden`` and
    ``intermediate`` the tower's widths, ``output_tokens`` what the item takes of the language model's context.
    ``deepstack_levels`` of its layers are handed to layers of the language model as well; ``one_by_one`` says that
    items go through it one after another. ``step_values`` are 16-bit values that the engine sets aside for every token
    of a step, to hand them to the language model.
    As it is served: ``is_copied`` tells that every rank holds the whole tower and works on items of its own;
    ``most_images`` and ``most_videos`` how many of each a request may bring, None as many as its context holds.
    """

    weights: tuple[Weight, ...]
    layers: int
    hidden: int
    intermediate: int
    item_tokens: int
    output_tokens: int
    video: VideoFacts | None = None
    deepstack_levels: int = 0
    one_by_one: bool = False
    step_values: int = 0
    is_copied: bool = False
    most_images: int | None = None
    most_videos: int | None = None

    @property
    def is_gated(self) -> bool:
        """Whether the tower's MLP has a gate beside its first projection."""
        return any("gate_proj" in weight.name for weight in self.weights)


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """How the published weights are stored, on the whole: each :class:`Weight` says it for itself.

    ``precision`` is that of most linear layers; ``dtype`` the 16- or 32-bit type of what is not quantized;
    ``kv_precision`` what the checkpoint fixes for the KV cache, if it does. The capabilities bound the NVIDIA GPUs that
    run it, where its method asks for more than its precision does.
    """

    precision: Precision
    dtype: Precision
    kv_precision: KvPrecision | None = None
    group_size: int | None = None
    min_capability: tuple[int, int] | None = None
    max_capability: tuple[int, int] | None = None

    @property
    def dtype_beside_quantized(self) -> Precision:
        """What the engine runs the unquantized parts in: its quantization kernels know no 32-bit activations."""
        return Precision.BF16 if self.dtype is Precision.FP32 else self.dtype


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One language model: sizes in elements, before any parallelism.

    ``kinds`` are the different layers and ``order`` the kind of each layer, first to last. ``embedding`` lies before
    the layers, ``head`` behind them (final norm, output projection; with tied embeddings the output projection is left
    out and ``tied_embeddings`` set). ``predictor`` holds the multi-token-prediction layers, loaded to speculate only.
    ``on_every_stage`` tells which tables of the vocabulary each pipeline stage keeps, needed or not;
    of ``inseparable`` runs of layers (first, and behind the last) a stage holds all or none. ``step_bytes`` are set
    aside when the model is loaded for every token of the largest step, beside what caches and towers tell.
    ``rotary_bytes`` are tables of rotary positions, on every rank of every stage (``older_rotary_bytes`` what releases
    before 0.32 keep beside them).
    ``intermediate`` is the width of a dense MLP (0 where every layer is a mixture of experts); ``max_context_tokens``
    is what the checkpoint declares; ``parameters`` the exact count of the checkpoint where its metadata told it.
    ``remarks`` are sentences for the reader: where the checkpoint and its configuration do not agree.
    """

    name: str
    revision: str | None
    architecture: str
    source: FactsSource
    hidden: int
    heads: int
    vocabulary: int
    intermediate: int
    kinds: tuple[LayerKind, ...]
    order: tuple[int, ...]
    embedding: tuple[Weight, ...]
    head: tuple[Weight, ...]
    checkpoint: CheckpointFacts
    max_context_tokens: int
    experts: ExpertFacts | None = None
    encoder: EncoderFacts | None = None
    predictor: tuple[LayerKind, ...] = ()
    rotary_bytes: int = 0
    older_rotary_bytes: int = 0
    on_every_stage: Tables = Tables.NONE
    inseparable: tuple[tuple[int, int], ...] = ()
    step_bytes: int = 0
    tied_embeddings: bool = False
    evidence: Evidence = Evidence.KNOWN
    parameters: int | None = None
    remarks: tuple[str, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Estimates remember by model, dozens of times each: its hash is made once and of few fields."""
        few = (self.name, self.revision, self.architecture, self.hidden, self.vocabulary, len(self.order))
        object.__setattr__(self, "_hash", hash(few))

    def __hash__(self) -> int:
        """Equality still compares everything."""
        return self._hash

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.order)

    @property
    def kv_heads(self) -> int:
        """The fewest KV heads of any attention layer; 1 where no layer has a cache of heads (latent or recurrent)."""
        return min((cache.kv_heads for cache in self.caches() if isinstance(cache, AttentionCache)), default=1)

    def caches(self) -> Iterator[CacheSpec]:
        """The different caches of the model's layers, each kind's in turn."""
        return (cache for kind in self.kinds for cache in kind.caches)
