"""Encoders: every token attends to all tokens of its input, in one step, and nothing is kept.

Sources: vLLM 0.32, ``models/bert.py``, ``models/roberta.py``, ``models/bert_with_rope.py``, ``models/modernbert.py``.
Each class but GTE's was checked by building its modules and counting their parameters. ModernBERT's first layer has one
norm less, which is left out.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.models.model import Task
from plimsoll.facts.models.extras.embeddings import positions_and_types, token_types
from plimsoll.facts.models.mixers.kv_heads import all_heads
from plimsoll.facts.models.pooling import classifier, dense_classifier, normed_classifier
from plimsoll.facts.models.traits import NO, YES, Architecture, Extra, Flag

_BERT = Architecture(
    task=Task.POOL,
    reads_both_ways=True,
    gated_mlp=False,
    attention_bias=YES,
    mlp_bias=YES,
    norm_bias=True,
    final_norm=False,
    embedding_norm=True,
    kv_heads=all_heads,
    extra=Extra(embeddings=positions_and_types),
)
_ROBERTA = replace(_BERT, reserved_positions=2)
"""Positions start behind that of padding."""

_ROTATED = replace(_BERT, extra=Extra(embeddings=token_types))
_NOMIC = replace(
    _ROTATED,
    spellings=(
        ("hidden_size", "n_embd"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
        ("intermediate_size", "n_inner"),
    ),
    gated_mlp=True,
    attention_bias=Flag(default=False, key="qkv_proj_bias"),
    mlp_bias=Flag(default=False, key="mlp_fc1_bias"),
)
_GTE = replace(_ROTATED, gated_mlp=True, mlp_bias=NO)
_MODERN = Architecture(
    task=Task.POOL,
    reads_both_ways=True,
    attention_bias=Flag(default=False, key="attention_bias"),
    mlp_bias=Flag(default=False, key="mlp_bias"),
    embedding_norm=True,
    kv_heads=all_heads,
)


def _with_head(traits: Architecture, extra: Extra) -> Architecture:
    return replace(traits, extra=replace(traits.extra, head=extra.head))


ENCODERS: dict[str, Architecture] = {
    "BertModel": _BERT,
    "BertForSequenceClassification": _with_head(_BERT, Extra(head=dense_classifier)),
    "BertForTokenClassification": _with_head(_BERT, Extra(head=classifier)),
    "RobertaModel": _ROBERTA,
    "RobertaForMaskedLM": _ROBERTA,
    "RobertaForSequenceClassification": _with_head(_ROBERTA, Extra(head=dense_classifier)),
    "RobertaForTokenClassification": _with_head(_ROBERTA, Extra(head=classifier)),
    "XLMRobertaModel": _ROBERTA,
    "XLMRobertaForSequenceClassification": _with_head(_ROBERTA, Extra(head=dense_classifier)),
    "XLMRobertaForTokenClassification": _with_head(_ROBERTA, Extra(head=classifier)),
    "NomicBertModel": _NOMIC,
    "GteModel": _GTE,
    "GteNewModel": _GTE,
    "GteNewForSequenceClassification": _with_head(_GTE, Extra(head=dense_classifier)),
    "ModernBertModel": _MODERN,
    "ModernBertForSequenceClassification": _with_head(_MODERN, Extra(head=normed_classifier)),
    "ModernBertForTokenClassification": _with_head(_MODERN, Extra(head=normed_classifier)),
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
