"""Does every rank hold the whole tower where the engine is told to copy it, and nothing more where it cannot?"""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import MediaUse
from plimsoll.engines.vllm.memory.weights.loaded import COPIES_ENCODER_SINCE, served_model
from plimsoll.memory.weights import stage_weights
from plimsoll.placement.options.divisibility import divides
from testbed.engine.oracle.config_folder import engine_config
from tests.engine.questions import asked, oracle
from tests.engine.recording import Recording
from tests.support.model_configs import config_of, facts_from

COPIED = (
    "Qwen__Qwen2-VL-7B-Instruct",
    "Qwen__Qwen2.5-VL-7B-Instruct",
    "Qwen__Qwen3-VL-8B-Instruct",
    "Qwen__Qwen3.5-27B",
    "moonshotai__Kimi-K2.5",
    "moonshotai__Kimi-K3",
    "openbmb__MiniCPM-V-2_6",
    "OpenGVLab__InternVL2-4B",
)
SHARED = ("google__gemma-3-27b-it", "llava-hf__llava-1.5-7b-hf")
RANKS = 4


@pytest.fixture(scope="module")
def parameters(recording: Recording) -> dict[tuple[str, bool], int]:
    ways = [(name, copied) for name in (*COPIED, *SHARED) for copied in (False, True)]
    rows = oracle(recording, [_asked(name, RANKS, copied=copied) for name, copied in ways])
    return {way: row["parameters"] for way, row in zip(ways, rows, strict=True)}


def _asked(name: str, ranks: int, *, copied: bool) -> dict[str, Any]:
    return asked(name, engine_config(config_of(name), quantized=False), tp=ranks, copies_encoder=copied)


@pytest.mark.parametrize("name", COPIED)
def test_a_copied_tower_weighs_what_the_engines_does(name: str, parameters: dict[tuple[str, bool], int]) -> None:
    model = facts_from(name, engine_config(config_of(name), quantized=False))
    assert model.architecture in COPIES_ENCODER_SINCE
    shared, copied = (
        stage_weights(served_model(model, MediaUse(copies_encoder=copies)), model.checkpoint.precision, Split(RANKS))
        for copies in (False, True)
    )
    more = parameters[name, True] - parameters[name, False]
    assert more > 0
    assert (copied.parameters_bytes - shared.parameters_bytes) / 2 == pytest.approx(more, rel=0.001)


@pytest.mark.parametrize("name", SHARED)
def test_the_engine_takes_no_notice_for_other_classes(name: str, parameters: dict[tuple[str, bool], int]) -> None:
    assert config_of(name)["architectures"][0] not in COPIES_ENCODER_SINCE
    assert parameters[name, True] == parameters[name, False]


@pytest.mark.parametrize(("copied", "is_made"), [(False, False), (True, True)])
def test_twelve_heads_on_eight_ranks_need_a_copied_tower(recording: Recording, *, copied: bool, is_made: bool) -> None:
    name = "Qwen__Qwen3.5-0.8B"
    (row,) = oracle(recording, [_asked(name, 8, copied=copied)])
    assert ("error" not in row) is is_made
    model = served_model(facts_from(name, config_of(name)), MediaUse(copies_encoder=copied))
    assert divides(model, model.checkpoint.precision, None, Split(8)) is is_made
