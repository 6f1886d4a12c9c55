"""The vocabulary in which a model class is described: what its configuration file does not say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from plimsoll.facts.fields import Fields


@dataclass(frozen=True, slots=True)
class Flag:
    """A trait that is fixed by the class, or read from ``key`` with a default of the class."""

    default: bool
    key: str | None = None

    def read(self, fields: Fields) -> bool:
        """The trait for one configuration."""
        return self.default if self.key is None else fields.flag(self.key, default=self.default)


class KvRule(Enum):
    """Where the number of key/value heads stands."""

    GROUPED = auto()
    """``num_key_value_heads``, as many as query heads where it is not set."""
    FALCON = auto()
    """``num_kv_heads`` with ``new_decoder_architecture``, else one or all by ``multi_query``."""
    MULTI_QUERY = auto()
    """One with ``multi_query`` (the default), else as many as query heads."""
    CHATGLM = auto()
    """``multi_query_group_num`` with ``multi_query_attention``, else as many as query heads."""
    ALL = auto()
    """As many as query heads."""


class WindowRule(Enum):
    """Which layers slide where the configuration has a window and no ``layer_types``."""

    NEVER = auto()
    ALL = auto()
    PERIODIC = auto()
    """All but every n-th layer; n is ``sliding_window_pattern`` or the class's default."""
    QWEN = auto()
    """With ``use_sliding_window`` only, the layers from ``max_window_layers`` on."""


class MoeRule(Enum):
    """Which layers hold experts."""

    ALL = auto()
    SPARSE_STEP = auto()
    """Every ``decoder_sparse_step``-th layer that is not in ``mlp_only_layers``."""
    AFTER_FIRST = auto()
    """All but the first ``first_k_dense_replace`` layers."""


@dataclass(frozen=True, slots=True)
class Moe:
    """How a class writes its mixture of experts.

    ``width_key`` is the width of one expert; ``shared_width_key`` the width of what every token passes (a width of its
    own, or a count of expert-sized ones in ``shared_count_key``).
    """

    rule: MoeRule = MoeRule.ALL
    experts_keys: tuple[str, ...] = ("num_experts", "num_local_experts")
    width_key: str = "moe_intermediate_size"
    shared_width_key: str | None = None
    shared_count_key: str | None = None
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a model class fixes or defaults to.

    ``output_bias`` says whether an attention bias includes the output projection; ``intermediate_factor`` gives the MLP
    width in hidden sizes where the file leaves it out; ``norms`` counts normalisations of hidden width in a layer, and
    ``norms_if_parallel`` those of a parallel residual.
    """

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
    extra_positions: int = 0
    intermediate_factor: int | None = None
    kv_rule: KvRule = KvRule.GROUPED
    window_rule: WindowRule = WindowRule.NEVER
    window_period: int = 1
    sinks: bool = False
    moe: Moe | None = None
