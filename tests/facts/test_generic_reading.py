"""How far the generic reading is off, measured on the classes that have a row."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.generic import WEIGHTS_ERROR
from tests.facts.hidden_rows import Reading, read, readings
from tests.support.tables import every_case

CACHE_EXACT_SHARE = 0.95
ANSWERED_SHARE = 0.75

UNKNOWN = {
    "architectures": ["UnheardOfForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "max_position_embeddings": 4096,
    "vocab_size": 32000,
}


def _percentile(errors: Iterable[float], percent: int) -> float:
    """By nearest rank."""
    ordered = sorted(map(abs, errors))
    return ordered[-(-len(ordered) * percent // 100) - 1]


def test_the_stated_error_is_the_measured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = readings(monkeypatch)
    measured = _percentile((reading.weights for reading in found), 95)
    assert WEIGHTS_ERROR / 2 < measured <= WEIGHTS_ERROR


def test_most_classes_are_read_to_a_thousandth(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = readings(monkeypatch)
    assert _percentile((reading.weights for reading in found), 50) < 1e-3


def test_the_cache_is_nearly_always_read_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = readings(monkeypatch)
    exact = [reading for reading in found if reading.cache == 0]
    assert len(exact) >= CACHE_EXACT_SHARE * len(found), _worst(found)


def test_classes_with_other_caches_are_refused_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    found, refused = readings(monkeypatch)
    assert len(found) >= ANSWERED_SHARE * (len(found) + len(refused))
    assert {"Mamba2ForCausalLM", "BailingMoeV2_5ForCausalLM", "DeepseekV4ForCausalLM"} <= set(refused)


@every_case(
    "field",
    [
        {"state_size": 128},
        {"layer_group_size": 8},
        {"linear_conv_kernel_dim": 4},
        {"compress_ratios": [4]},
        {"loop_num": 2},
        {"total_ut_steps": 4},
        {"ffn_config": {"ffn_hidden_size": 4096}},
        {"layer_types": ["linear_attention", "full_attention"]},
    ],
    ids=str,
)
def test_a_field_of_a_part_without_a_generic_law_is_named(field: dict[str, object]) -> None:
    with pytest.raises(UnsupportedModel, match=next(iter(field))):
        read(UNKNOWN | field)


def test_layers_with_usual_attention_are_read() -> None:
    types = ["full_attention", "sliding_attention"] * 2
    assert read({**UNKNOWN, "layer_types": types, "sliding_window": 512}).layers == len(types)


def _worst(found: Iterable[Reading]) -> list[Reading]:
    return sorted(found, key=lambda reading: -abs(reading.cache))[:9]
