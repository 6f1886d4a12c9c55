"""The facts about a model that the memory law needs, from any source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll.domain.models.caches import AttentionCache, CacheSpec
from plimsoll.domain.models.precision import BF16, KvPrecision, Precision, Storage


class FactsSource(StrEnum):
    """Where the facts came from; shown to the reader of an estimate."""

    CATALOG = "Catalog"
    HUB = "Hub"
    INLINE = "Inline"


class Evidence(StrEnum):
    """How reliable the facts are. The error band of an estimate depends on it."""

    KNOWN = "Known"
    """The model class has its own row, which was checked against the engine's modules."""
    TENSORS = "Tensors"
    """The class is unknown, but the checkpoint's own list of tensors was read."""
    GENERIC = "Generic"
    """The class is unknown; its fields were read as the majority of classes use them."""


class Task(StrEnum):
    """The work of a model's engine. It decides how the engine is started, and what it profiles."""

    GENERATE = "Generate"
    """The next token, again and again."""
    POOL = "Pool"
    """One pass over an input: an embedding, scores or labels."""


class Tables(StrEnum):
    """Tables of the vocabulary."""

    NONE = "none"
    EMBEDDING = "embedding"
    BOTH = "both"
    """The embeddings and the output projection."""


class Sharding(StrEnum):
    """The part of a weight that one rank holds.

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
    """Matrices of one name with the same storage and the same sharding.

    ``name`` is dotted as in the checkpoint: relative to the layer (``self_attn.q_proj``) or, outside the layers, from
    the root (``lm_head``). ``outputs`` x ``inputs`` is one matrix of the whole model (``inputs`` 1 for biases and
    norms). ``count`` matrices are in one layer (experts). ``units`` are the heads of :attr:`Sharding.HEADS`. With
    :attr:`Sharding.OUTPUTS` and :attr:`Sharding.INPUTS`, the matrix stays whole on every rank if ``units`` is above
    1 and the degree does not divide it (some towers). A sharded expert keeps at least ``smallest_share`` rows (or
    columns) on a rank, with padding if necessary. ``linear`` means that online quantization and LoRA apply to it.
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
        """The number of elements in one layer of the whole model."""
        return self.count * self.outputs * self.inputs


@dataclass(frozen=True, slots=True)
class LayerKind:
    """A kind of layer: layers with the same weights and caches."""

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
    """The largest video: time steps of one size, as many as the context holds and ``most_steps`` allows.

    A step has ``step_positions`` encoder positions and takes ``step_tokens`` of the language model's context.
    ``overstated_tokens`` is the number of tokens that releases before 0.13 assume for the video, if it is too high.
    """

    step_positions: int
    step_tokens: int
    most_steps: int | None = None
    overstated_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """A vision or audio tower with its projector. Every pipeline stage loads it, and the first stage runs it.

    ``item_tokens`` is the number of encoder positions (patches, frames) of the largest item except videos. ``hidden``
    and ``intermediate`` are the tower's widths. ``output_tokens`` is what the item takes of the language model's
    context. The outputs of ``deepstack_levels`` of its layers also go to layers of the language model. ``one_by_one``
    means that items go through the tower one after another. ``step_values`` are 16-bit values that the engine reserves
    for every token of a step, to pass them to the language model. ``divided_heads`` are the attention heads of a tower
    whose classes refuse a tensor-parallel degree that does not divide them; 0 if a rank then holds all of them.
    ``whole_items`` means that the language model reads an item in one step: the engine refuses a smaller one.
    Serving options: ``is_copied`` means that every rank holds the whole tower and works on its own items.
    ``most_images`` and ``most_videos`` are the most of each that a request may contain; None means as many as its
    context holds.
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
    divided_heads: int = 0
    whole_items: bool = False
    is_copied: bool = False
    most_images: int | None = None
    most_videos: int | None = None

    @property
    def is_gated(self) -> bool:
        """Whether the tower's MLP has a gate in addition to its first projection."""
        return any("gate_proj" in weight.name for weight in self.weights)


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The storage of the published weights in general. Each :class:`Weight` also has its own storage.

    ``precision`` is that of most linear layers. ``dtype`` is the 16- or 32-bit type of the unquantized parts.
    ``kv_precision`` is the type of the KV cache, if the checkpoint fixes it. The capabilities limit the NVIDIA GPUs
    that can run the checkpoint, if its method needs more than its precision does. ``method`` is the name by which
    an engine looks up how to read it (``quant_method``); it changes no bytes, so a fingerprint does not read it.
    """

    precision: Precision
    dtype: Precision
    kv_precision: KvPrecision | None = None
    group_size: int | None = None
    min_capability: tuple[int, int] | None = None
    max_capability: tuple[int, int] | None = None
    method: str | None = field(default=None, repr=False)

    @property
    def dtype_beside_quantized(self) -> Precision:
        """The type in which the engine runs unquantized parts. Its quantization kernels have no fp32 activations."""
        return Precision.BF16 if self.dtype is Precision.FP32 else self.dtype


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One language model: sizes in elements, before any parallelism.

    ``kinds`` are the different layers, and ``order`` is the kind of each layer, first to last. ``embedding`` holds the
    weights before the layers, ``head`` those after them (final norm, output projection; with tied embeddings there is
    no output projection and ``tied_embeddings`` is set). ``predictor`` holds the multi-token-prediction layers, which
    are loaded only for speculation. ``on_every_stage`` are the tables of the vocabulary that each pipeline stage keeps,
    needed or not. ``inseparable`` are runs of layers (first, and one after the last): a stage holds all layers of a run
    or none. ``step_bytes`` are reserved at load for every token of the largest step, in addition to the bytes that
    follow from caches and towers. ``rotary_bytes`` are tables of rotary positions, on every rank of every stage.
    ``older_rotary_bytes`` is what releases before 0.32 keep in addition.
    A model with ``task`` :attr:`Task.POOL` has no output projection; its head makes embeddings or scores.
    ``intermediate`` is the width of a dense MLP (0 if every layer is a mixture of experts). ``max_context_tokens``
    is the context that the checkpoint declares. ``parameters`` is the exact count of the checkpoint, if its metadata
    has it. ``host_bytes`` are embeddings that the engine keeps in host memory, of all tensor-parallel ranks together; a
    fingerprint of what a GPU holds does not read them. ``brings_configuration`` is the kind of a configuration
    (``model_type``, or the class of the model) whose reader the checkpoint brings as code of its own; None if it
    brings none. ``files`` are names of files next to the weights, by which an engine tells formats; None if they
    are not known.
    ``remarks`` are sentences for the reader about differences
    between the checkpoint and its configuration.
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
    names_context: bool = True
    predictor: tuple[LayerKind, ...] = ()
    rotary_bytes: int = 0
    older_rotary_bytes: int = 0
    on_every_stage: Tables = Tables.NONE
    inseparable: tuple[tuple[int, int], ...] = ()
    step_bytes: int = 0
    tied_embeddings: bool = False
    task: Task = Task.GENERATE
    evidence: Evidence = Evidence.KNOWN
    parameters: int | None = None
    remarks: tuple[str, ...] = ()
    host_bytes: int = field(default=0, repr=False)
    brings_configuration: str | None = field(default=None, repr=False)
    files: frozenset[str] | None = field(default=None, repr=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the hash once, from few fields: each estimate uses the model dozens of times as a cache key."""
        few = (self.name, self.revision, self.architecture, self.hidden, self.vocabulary, len(self.order))
        object.__setattr__(self, "_hash", hash(few))

    def __hash__(self) -> int:
        """Return the stored hash. Equality still compares all fields."""
        return self._hash

    @property
    def layers(self) -> int:
        """The number of decoder layers."""
        return len(self.order)

    @property
    def kv_heads(self) -> int:
        """The fewest KV heads of any attention layer; 1 if no layer has a cache of heads (latent or recurrent)."""
        return min((cache.kv_heads for cache in self.caches() if isinstance(cache, AttentionCache)), default=1)

    @property
    def keeps_cache(self) -> bool:
        """Whether a request keeps anything between two steps. Encoders read an input in one step and keep nothing."""
        return any(True for _ in self.caches())

    def caches(self) -> Iterator[CacheSpec]:
        """Return the different caches of the model's layers, kind by kind."""
        return (cache for kind in self.kinds for cache in kind.caches)
