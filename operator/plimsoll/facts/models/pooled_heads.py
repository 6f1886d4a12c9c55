"""The weights after the layers of a class that pools: the head that makes scores or labels of the last states.

Heads are in 32 bits (``head_dtype`` in vLLM's ``config/model.py``) and are never quantized here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.model import Sharding, Weight
from plimsoll.domain.storage import FP32
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.shape import Shape

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


def score(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """One projection of a decoder's last state (vLLM, ``models/adapters.py``, ``as_seq_cls_model``)."""
    yield _dense("score", labels(fields), shape.hidden)


def classifier(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """One projection with a bias (``models/bert.py``, ``BertForTokenClassification``)."""
    yield from _with_bias("classifier", labels(fields), shape.hidden)


def dense_classifier(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """A dense layer and a projection, both with a bias (``BertForSequenceClassification``, RoBERTa's head)."""
    yield from _with_bias("pooler.dense", shape.hidden, shape.hidden)
    yield from classifier(fields, shape)


def normed_classifier(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """A dense layer, a norm and a projection (``models/modernbert.py``)."""
    bias = fields.flag("classifier_bias", default=False)
    yield _dense("head.dense", shape.hidden, shape.hidden)
    if bias:
        yield _bias("head.dense", shape.hidden)
    yield _dense("head.norm", shape.hidden, 1)
    yield from classifier(fields, shape)


def reward(_fields: Fields, shape: Shape) -> Iterator[Weight]:
    """Two projections with biases to one score (``models/qwen2_rm.py``, ``Qwen2ForRewardModel``)."""
    yield from _two_steps(1, shape)


def process_reward(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """The same, with as many scores as labels (``Qwen2ForProcessRewardModel``)."""
    yield from _two_steps(labels(fields), shape)


def value(_fields: Fields, shape: Shape) -> Iterator[Weight]:
    """One row without a bias (``models/internlm2.py``, ``InternLM2ForRewardModel``)."""
    yield replace(_dense("v_head", 1, shape.hidden), sharding=Sharding.INPUTS)


def _two_steps(outputs: int, shape: Shape) -> Iterator[Weight]:
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
