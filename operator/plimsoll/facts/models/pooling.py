"""Classes that pool with the layers of a class that generates: embeddings, scores and rewards of decoders.

Source: vLLM 0.32, ``models/registry.py``, ``models/adapters.py`` and ``config/model.py`` (defaults by suffix).

The weights after the layers of a class that pools: the head that makes scores or labels of the last states.

Heads are in 32 bits (``head_dtype`` in vLLM's ``config/model.py``) and are never quantized here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from plimsoll.domain.models.model import ModelFacts, Sharding, Task, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.layers.parts import DecoderShape
from plimsoll.facts.models.traits import NO_EXTRA, Architecture, Extra

_DEFAULT_LABELS = 2
"""Labels of a configuration that names none (``PreTrainedConfig`` in Transformers)."""


def labels(fields: Fields) -> int:
    """Return the number of labels: ``num_labels``, else the entries of ``id2label``.

    Raises:
        InvalidInput: the field is ill-typed or absurd.
    """
    named = mapping_of(fields.values.get("id2label"))
    if fields.has("num_labels") or not named:
        return fields.optional_integer(("num_labels",)) or _DEFAULT_LABELS
    return len(named)


def score(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """One projection of a decoder's last state (vLLM, ``models/adapters.py``, ``as_seq_cls_model``)."""
    yield _dense("score", labels(fields), shape.hidden)


def classifier(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """One projection with a bias (``models/bert.py``, ``BertForTokenClassification``)."""
    yield from _with_bias("classifier", labels(fields), shape.hidden)


def dense_classifier(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """A dense layer and a projection, both with a bias (``BertForSequenceClassification``, RoBERTa's head)."""
    yield from _with_bias("pooler.dense", shape.hidden, shape.hidden)
    yield from classifier(fields, shape)


def normed_classifier(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """A dense layer, a norm and a projection (``models/modernbert.py``)."""
    bias = fields.flag("classifier_bias", default=False)
    yield _dense("head.dense", shape.hidden, shape.hidden)
    if bias:
        yield _bias("head.dense", shape.hidden)
    yield _dense("head.norm", shape.hidden, 1)
    yield from classifier(fields, shape)


def reward(_fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Two projections with biases to one score (``models/qwen2_rm.py``, ``Qwen2ForRewardModel``)."""
    yield from _two_steps(1, shape)


def process_reward(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """The same, with as many scores as labels (``Qwen2ForProcessRewardModel``)."""
    yield from _two_steps(labels(fields), shape)


def value(_fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """One row without a bias (``models/internlm2.py``, ``InternLM2ForRewardModel``)."""
    yield replace(_dense("v_head", 1, shape.hidden), sharding=Sharding.INPUTS)


def _two_steps(outputs: int, shape: DecoderShape) -> Iterator[Weight]:
    yield replace(_dense("score.0", shape.hidden, shape.hidden), sharding=Sharding.OUTPUTS)
    yield replace(_bias("score.0", shape.hidden), sharding=Sharding.OUTPUTS)
    yield replace(_dense("score.2", outputs, shape.hidden), sharding=Sharding.INPUTS)
    yield _bias("score.2", outputs)


def _with_bias(name: str, outputs: int, inputs: int) -> Iterator[Weight]:
    yield _dense(name, outputs, inputs)
    yield _bias(name, outputs)


def _dense(name: str, outputs: int, inputs: int) -> Weight:
    return Weight(name, outputs, inputs, Sharding.REPLICATED, storage=FP32, linear=False)


def _bias(name: str, outputs: int) -> Weight:
    return _dense(f"{name}.bias", outputs, 1)


_SCORE = Extra(head=score)


class Pooled(NamedTuple):
    """A class that pools: the class whose layers it has, and its head."""

    language: str
    head: Extra = NO_EXTRA


_NAMED: Mapping[str, Pooled] = {
    "Gemma2Model": Pooled("Gemma2ForCausalLM"),
    "Gemma3TextModel": Pooled("Gemma3ForCausalLM"),
    "InternLM2ForRewardModel": Pooled("InternLM2ForCausalLM", Extra(head=value)),
    "LlamaBidirectionalModel": Pooled("LlamaForCausalLM"),
    "LlamaBidirectionalForSequenceClassification": Pooled("LlamaForCausalLM", _SCORE),
    "MistralModel": Pooled("LlamaForCausalLM"),
    "Qwen2ForProcessRewardModel": Pooled("Qwen2ForCausalLM", Extra(head=process_reward)),
    "Qwen2ForRewardModel": Pooled("Qwen2ForCausalLM", Extra(head=reward)),
}

_SUFFIXES: Mapping[str, Extra] = {
    "ForSequenceClassification": _SCORE,
    "ForTokenClassification": _SCORE,
    "ClassificationModel": _SCORE,
    "ForTextEncoding": NO_EXTRA,
    "EmbeddingModel": NO_EXTRA,
    "ForRewardModeling": NO_EXTRA,
    "RewardModel": NO_EXTRA,
    "Model": NO_EXTRA,
}
"""Endings of names for which the engine chooses pooling, with the head that it makes."""

_GENERATES = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")

_MASKED = ("ForMaskedLM", "ForPreTraining")
"""Endings of encoders that predict masked tokens."""

_BOTH_WAYS = ("LlamaBidirectional",)


_PURPOSES = ("embedding", "reranker", "reward")
"""Words in the names of models whose class generates and that are published to pool (Qwen3-Embedding)."""


_PURPOSE = (
    "its class generates, but its name says embeddings, ranking or rewards: it is planned to generate; write "
    "spec.engine.runner: Pooling if it must not"
)


def as_pooling(model: ModelFacts) -> ModelFacts:
    """Return a model as the engine loads it to pool: without the output projection and what belongs to drafting."""
    if model.task is Task.POOL:
        return model
    head = tuple(weight for weight in model.head if not weight.name.startswith("lm_head"))
    remarks = tuple(remark for remark in model.remarks if remark != _PURPOSE)
    return replace(model, task=Task.POOL, head=head, predictor=(), remarks=remarks)


def purpose_remarks(name: str, traits: Architecture) -> tuple[str, ...]:
    """Return a remark for a class that generates, if the model's name says that it is not meant to."""
    last = name.rpartition("/")[2].lower()
    if traits.task is Task.POOL or not any(word in last for word in _PURPOSES):
        return ()
    return (_PURPOSE,)


def pools(listed: str) -> bool:
    """Whether the engine takes a class of this name, which it does not know, for one that pools."""
    return not listed.endswith(_GENERATES) and listed.endswith((*_SUFFIXES, *_MASKED))


def pooled_class(listed: str) -> Pooled | None:
    """Return the class that generates with the same layers; None if the name has none."""
    if listed in _NAMED:
        return _NAMED[listed]
    if not pools(listed) or listed.endswith(_MASKED):
        return None
    suffix = next(each for each in _SUFFIXES if listed.endswith(each))
    return Pooled(listed.removesuffix(suffix) + "ForCausalLM", _SUFFIXES[suffix])


def pooled_traits(listed: str, pooled: Pooled, traits: Architecture, fields: Fields) -> Architecture:
    """Return the traits of a class that pools, from those of the class that generates with the same layers.

    Raises:
        InvalidInput: a field is ill-typed.
    """
    causal = fields.flag("is_causal", default=True) and not fields.flag("use_bidirectional_attention", default=False)
    return replace(
        traits,
        task=Task.POOL,
        reads_both_ways=listed.startswith(_BOTH_WAYS) or not causal,
        predictors=0,
        extra=replace(traits.extra, head=pooled.head.head),
    )
