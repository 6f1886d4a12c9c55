"""The traits that describe a model class: the facts that its configuration file does not contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from plimsoll.domain.engines.engine_choice import HeadMethod
from plimsoll.domain.models.model import Evidence, Task, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, Heads, LayerPart, Parts, Role, Span
from plimsoll.facts.models.mixers.kv_heads import grouped


@dataclass(frozen=True, slots=True)
class Flag:
    """A trait that is fixed by the class, or read from ``key`` with a default of the class.

    With ``equals`` the field is a word, and the trait is set if it is that word.
    """

    default: bool
    key: str | None = None
    equals: str | None = None

    def read(self, fields: Fields) -> bool:
        """The trait for one configuration."""
        if self.key is None:
            return self.default
        if self.equals is None:
            return fields.flag(self.key, default=self.default)
        word = fields.text(self.key)
        return self.default if word is None else word == self.equals


YES, NO = Flag(default=True), Flag(default=False)
"""Traits that the class fixes."""


class WindowRule(Enum):
    """Which layers slide if the configuration has a window and no ``layer_types``."""

    NEVER = auto()
    ALL = auto()
    PERIODIC = auto()
    """All but every n-th layer; n is ``sliding_window_pattern`` or the class's default."""
    QWEN = auto()
    """With ``use_sliding_window`` only, the layers from ``max_window_layers`` on."""
    HYBRID_PATTERN = auto()
    """The layers marked 1 in ``hybrid_layer_pattern`` (MiMo-V2)."""
    ROPE_LAYERS = auto()
    """The layers that rotate positions: 1 in ``no_rope_layers`` (Muse Glimmer)."""
    CHUNKED = auto()
    """Chunks of ``attention_chunk_size`` in the layers that rotate positions: 1 in ``no_rope_layers`` (Llama 4)."""


class Gate(Enum):
    """A learned gate on the attention output: a projection of the hidden state."""

    NONE = auto()
    HEADS = auto()
    """One value a query head."""
    ELEMENTS = auto()
    """One value an output element."""
    BY_FIELD = auto()
    """``gating``: true or ``per-head`` for heads, ``per-element`` for elements (Laguna)."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Weights of a class in addition to the usual parts: the builders in :mod:`plimsoll.facts.models.extras`.

    ``layers`` builds the extra weights of every layer, ``embeddings`` those before the layers (on the first stage) and
    ``head`` those after the layers (on the last stage). ``step_bytes`` are the bytes that the modules reserve for every
    token of the largest step. ``table_bytes`` are embeddings that the engine keeps in host memory.
    """

    layers: Callable[[Fields, DecoderShape], Parts] = lambda _, shape: (LayerPart(),) * shape.layers
    embeddings: Callable[[Fields, DecoderShape], Iterable[Weight]] = lambda _, __: ()
    head: Callable[[Fields, DecoderShape], Iterable[Weight]] = lambda _, __: ()
    step_bytes: Callable[[Fields, DecoderShape], int] = lambda _, __: 0
    table_bytes: Callable[[Fields], int] = lambda _: 0


NO_EXTRA = Extra()


@dataclass(frozen=True, slots=True)
class Recurrent:
    """The recurrent layers of a class, in addition to its attention layers (:attr:`Architecture.mixer`).

    ``build`` builds one of them: a function in :mod:`plimsoll.facts.models.mixers`. ``roles`` says which layers are
    recurrent and which have attention: a function in :mod:`plimsoll.facts.models.layers.layer_patterns`. ``module`` is
    the name of the recurrent layers in the checkpoint. ``state_dtype_key`` is the field with the type of the recurrent
    state; ``state_dtype`` is the type without this field (None: the type of the model). ``every`` is the class's
    interval of attention layers; with ``rest_attends``, layers after the last whole interval have attention too.
    ``group_norm`` says whether a Mamba-2 output is normalised; ``step_norms`` whether Mamba-1 normalises step size and
    projections.
    """

    build: Callable[[Fields, Recurrent, DecoderShape], LayerPart]
    roles: Roles
    module: str
    state_dtype_key: str | None = None
    state_dtype: str | None = None
    every: int = 4
    rest_attends: bool = False
    group_norm: Flag = Flag(default=True)
    step_norms: bool = False


@dataclass(frozen=True, slots=True)
class Moe:
    """How a class writes its mixture of experts.

    ``holds`` says for each of the given number of layers whether it holds experts: a function in
    :mod:`plimsoll.facts.models.layers.expert_layers`. None: all of them do.
    ``width_keys`` are the fields for the width of one expert. ``shared_width_key`` is the field for the width of the
    shared experts, which every token passes. ``shared_count_key`` is the field for their number (they have an expert's
    width if no width is named), and ``shared_count_default`` is the number if that field is missing. ``router_bias`` is
    a vector in addition to the router: a bias, or the correction that balances experts. ``router_fp32`` marks a router
    that the engine keeps in 32 bits. ``extra_router_rows`` names the field of experts that compute nothing. With
    ``beside_dense`` the layer also has its dense MLP. With ``optional`` a configuration without experts (or with one)
    is a dense model of the same class. ``latent_keys`` are the fields for the width to which tokens are compressed for
    the routed experts; ``latent_norm`` says whether they are normalised there. If a rank's share of an expert is
    narrower than ``smallest_share``, the engine pads it.
    """

    holds: ExpertLayers | None = None
    experts_keys: tuple[str, ...] = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    per_token_keys: tuple[str, ...] = (
        "num_experts_per_tok",
        "experts_per_token",
        "top_k_experts",
        "moe_top_k",
        "moe_topk",
        "moe_k",
    )
    width_keys: tuple[str, ...] = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim")
    shared_width_key: str | None = None
    shared_count_key: str | None = None
    shared_count_default: int = 0
    shared_gate: bool = False
    router_bias: Flag = Flag(default=False)
    router_fp32: bool = False
    extra_router_rows: str | None = None
    expert_bias: bool = False
    beside_dense: bool = False
    optional: bool = False
    latent_keys: tuple[str, ...] = ()
    latent_norm: Flag = Flag(default=False)
    smallest_share: int = 0


@dataclass(frozen=True, slots=True)
class Architecture:
    """The facts that a model class fixes, and its defaults.

    Some traits are functions that the builders of :mod:`plimsoll.facts.models` call. ``mixer`` builds the mixers of
    tokens (in ``mixers``); None is multi-, grouped- or single-head attention, full or sliding. ``kv_heads`` finds the
    field with the number of key/value heads (``mixers/kv_heads``). ``heads`` gives each layer its attention heads, from
    those that most layers have (``mixers/heads``), and ``widths`` the width of its dense MLP, from the width that is
    written (``mlp_widths``); without them all layers are equal. With ``in_blocks``, ``block_configs`` lists heads and
    width of each layer (DeciLM). ``extra`` builds weights in addition to the usual parts (``extras``). ``eagle`` is the
    method of a draft head that reads the states of its target model (``eagle``); None is a model that needs no other.

    ``output_bias`` says whether an attention bias includes the output projection. ``intermediate_factor`` is the MLP
    width in hidden sizes if the file has no width. ``norms`` is the number of normalisations of hidden width in a
    layer, and ``norms_if_parallel`` their number with a parallel residual. ``spellings`` are pairs of a usual field and
    the path where this class has it, with dots between sections. ``sublayers`` is how many mixers and dense MLPs one
    layer has (LongCat-Flash: two). ``latent_cache`` is off for classes whose latent attention caches the decompressed
    keys and values (MiniCPM3). ``keeps_cache_type`` marks classes that always cache in the model's type, even if the
    user asks for another. With ``shared_kv`` the last ``num_kv_shared_layers`` layers borrow the keys and values of
    earlier ones (Gemma 3n). ``undivided`` are prefixes of weights that are whole on every rank, because the engine runs
    the class through Transformers and has no plan to divide them. ``evidence`` is weaker if a part of the class has no
    law of its own. ``sinks`` are learned logits of query heads; with ``sinks_local_only`` only sliding layers have
    them. With ``whole_vocabulary`` the embedding table is not divided. ``output_gate`` doubles the query projection
    (Qwen3-Next). ``ties`` is off if the engine ties embeddings always or never and ignores the file. ``predictors`` is
    the number of multi-token-prediction layers if the file names none; with ``predicts_locally`` they have sliding
    attention and the dense MLP of the first layer (MiMo-V2). ``task`` is that of the class; a class that pools has no
    output projection. With ``reads_both_ways`` each token attends to all tokens of its input, so the layers have no
    cache. ``reserved_positions`` are positions that no token can have (RoBERTa).
    """

    spellings: tuple[tuple[str, str], ...] = ()
    mixer: Mixer | None = None
    gated_mlp: bool = True
    attention_bias: Flag = Flag(default=False, key="attention_bias")
    output_bias: bool = True
    mlp_bias: Flag = Flag(default=False, key="mlp_bias")
    qk_norm: Flag = Flag(default=False)
    qk_norm_spans_heads: bool = False
    tied: bool = False
    parallel_residual: Flag = Flag(default=False)
    norms: int = 2
    norms_if_parallel: int = 2
    norm_bias: bool = False
    lm_head_bias: bool = False
    learned_positions: bool = False
    whole_vocabulary: bool = False
    extra_positions: int = 0
    width_keys: tuple[str, ...] = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
    intermediate_factor: int | None = None
    kv_heads: KvHeads = grouped
    window_rule: WindowRule = WindowRule.NEVER
    window_period: int = 1
    heads: LayerHeads | None = None
    in_blocks: bool = False
    shared_kv: bool = False
    gate: Gate = Gate.NONE
    qk_norm_bias: bool = False
    sinks: Flag = Flag(default=False)
    sinks_local_only: bool = False
    latent_cache: bool = True
    keeps_cache_type: bool = False
    sublayers: int = 1
    widths: Callable[[Fields, int, int], tuple[int, ...]] | None = None
    final_norm: bool = True
    embedding_norm: bool = False
    extra: Extra = NO_EXTRA
    undivided: tuple[str, ...] = ()
    evidence: Evidence = Evidence.KNOWN
    output_gate: Flag = Flag(default=False)
    ties: bool = True
    predictors: int = 0
    predicts_locally: bool = False
    eagle: HeadMethod | None = None
    task: Task = Task.GENERATE
    reads_both_ways: bool = False
    reserved_positions: int = 0
    recurrent: Recurrent | None = None
    moe: Moe | None = None


Mixer = Callable[[Fields, Architecture, DecoderShape], Parts]
"""Builds the mixer of every layer, first to last."""

KvHeads = Callable[[Fields], str | None]
"""Returns the field with the number of key/value heads; empty for one head, None for as many as query heads."""

LayerHeads = Callable[[Fields, Heads, Sequence[Span]], tuple[Heads, ...]]
"""Returns the heads of every layer from those that most layers have, and from what each layer reads."""

ExpertLayers = Callable[[Fields, int], tuple[bool, ...]]
"""Returns for each of the given number of layers whether it holds experts."""

Roles = Callable[[str, Fields, Recurrent, int], tuple[Role, ...]]
"""Returns the role of each of the given number of layers. The first argument is the model's name, for errors."""
