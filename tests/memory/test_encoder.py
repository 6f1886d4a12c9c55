"""What the engine sends through a tower when it measures, and what that takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, MediaUse
from plimsoll.domain.models.model import EncoderFacts, FactsSource, ModelFacts, VideoFacts
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.step.encoder import (
    Profiled,
    encoder_held_bytes,
    encoder_peak_bytes,
    profiled,
    tokens_in_one_step,
)
from plimsoll.engines.vllm.memory.weights.loaded import served_model
from plimsoll.engines.vllm.settings import engine_settings, with_a_small_step
from plimsoll.facts.models.config_json import read_model_facts
from tests.cli.test_plan_pooling import WHISPER
from tests.support.model_configs import config_of, facts_of
from tests.support.planning import gpu, request

QWEN2_5_VL = facts_of("Qwen__Qwen2.5-VL-7B-Instruct")
QWEN3_VL = facts_of("Qwen__Qwen3-VL-8B-Instruct")
GEMMA_4 = facts_of("google__gemma-4-26B-A4B")
UNIFIED = replace(GEMMA_4, architecture="Gemma4UnifiedForConditionalGeneration")
GEMMA_3 = facts_of("google__gemma-3-27b-it")


def tower(model: ModelFacts) -> EncoderFacts:
    assert model.encoder is not None
    return model.encoder


def seen(model: ModelFacts, minor: int, *, tokens: int = 8192, context: int = 32_768, sequences: int = 256) -> Profiled:
    law = law_for(EngineVersion(0, minor))
    return profiled(tower(model), law, batched_tokens=tokens, sequences=sequences, context_tokens=context)


def peak(model: ModelFacts, what: Profiled, split: Split | None = None) -> float:
    return encoder_peak_bytes(model, split or Split(1), what, dtype_bytes=2) / GIB


@pytest.mark.parametrize(
    ("minor", "context", "patches"),
    [
        (23, 128_000, 7 * 65_536),
        (23, 262_144, 7 * 65_536),
        (23, 40_000, 2 * 65_536),
        (23, 8192, 65_536),
        (10, 128_000, 65_536),
    ],
)
def test_a_video_is_as_long_as_the_context_allows(minor: int, context: int, patches: int) -> None:
    """vLLM 0.23 logs a budget of 114,688 tokens for 128,000; before 0.11 the step bounds the video that is run."""
    assert seen(QWEN2_5_VL, minor, context=context) == Profiled(1, patches, patches // 4)


def test_no_more_items_are_profiled_than_requests_may_bring() -> None:
    assert seen(GEMMA_3, 32, sequences=2, context=2048).items == 2 * 2048 // 256
    single = served_model(GEMMA_3, MediaUse(images=1))
    assert seen(single, 32, sequences=4).items == 4
    assert seen(single, 32, sequences=256).items == 8192 // 256


def test_of_items_of_one_token_a_request_brings_one_for_each_token_of_its_context() -> None:
    tiny = replace(tower(GEMMA_3), output_tokens=1)
    found = profiled(tiny, law_for(EngineVersion(0, 32)), batched_tokens=8192, sequences=2, context_tokens=2048)
    assert found.items == 2 * 2048


def test_an_engine_without_videos_profiles_an_image() -> None:
    image = served_model(QWEN2_5_VL, MediaUse(videos=0))
    assert seen(image, 23, context=128_000) == Profiled(1, 65_536, 16_384)
    video = served_model(QWEN2_5_VL, MediaUse(images=0))
    assert seen(video, 23, context=128_000) == seen(QWEN2_5_VL, 23, context=128_000)


def test_whole_towers_share_the_items() -> None:
    copied = served_model(GEMMA_3, MediaUse(copies_encoder=True))
    items = seen(GEMMA_3, 32)
    inputs = items.positions * 3 * 14 * 14
    alone = encoder_peak_bytes(GEMMA_3, Split(1), items, dtype_bytes=2) - 2 * inputs
    assert encoder_peak_bytes(copied, Split(4), items, dtype_bytes=2) - 2 * inputs == alone // 4


def test_a_gated_tower_is_the_peak_of_a_long_video() -> None:
    """Qwen2.5-VL-7B on one A100 at 0.22 of 79.15 GiB (0.23): 16.0 GiB short of its weights, base and graphs 0.8."""
    assert peak(QWEN2_5_VL, seen(QWEN2_5_VL, 23, context=128_000)) == pytest.approx(15.2, abs=0.5)


def test_two_releases_took_the_videos_of_qwen3_vl_for_more_than_they_are() -> None:
    """0.11.0 logs a budget of 153,600 tokens, with ~10 GB of an 8B model beside the weights (vllm#27992)."""
    told = seen(QWEN3_VL, 11)
    assert told == Profiled(1, 4 * 12_288, 153_600)
    assert encoder_held_bytes(QWEN3_VL, told, dtype_bytes=2) / GIB == pytest.approx(4.8, abs=0.1)
    assert seen(QWEN3_VL, 12).kept_tokens == 153_600
    assert seen(QWEN3_VL, 13) == Profiled(1, 65_536, 16_384)


def test_every_output_was_padded_to_the_budget_of_all_in_0_11() -> None:
    assert seen(GEMMA_3, 10) == seen(GEMMA_3, 12) == Profiled(32, 4096, 256)
    assert seen(GEMMA_3, 11) == Profiled(32, 4096, 8192)


def test_deepstack_hands_out_as_many_outputs_as_levels_more() -> None:
    what = Profiled(1, 65_536, 16_384)
    plain = replace(QWEN3_VL, encoder=replace(tower(QWEN3_VL), deepstack_levels=0))
    more = encoder_held_bytes(QWEN3_VL, what, dtype_bytes=2) - encoder_held_bytes(plain, what, dtype_bytes=2)
    assert more == 3 * 16_384 * QWEN3_VL.hidden * 2


def test_gemma_4_is_profiled_on_videos_one_frame_after_another() -> None:
    """0.22.1 logs a budget of 2,496 tokens and one video for a step of 2,048, three for one of 8,192."""
    assert seen(GEMMA_4, 22, tokens=2048) == Profiled(1, 32 * 630, 2496)
    assert seen(GEMMA_4, 22).items == 3
    together = replace(GEMMA_4, encoder=replace(tower(GEMMA_4), one_by_one=False))
    assert peak(GEMMA_4, seen(GEMMA_4, 22)) < peak(together, seen(GEMMA_4, 22)) / 5


@pytest.mark.parametrize(("language", "plays"), [("qwen3", True), ("llama", False)])
def test_internvl_takes_a_frame_for_each_256_tokens_of_context(language: str, *, plays: bool) -> None:
    config = config_of("OpenGVLab__InternVL2-2B")
    inner = {**config["llm_config"], "model_type": language, "architectures": ["Qwen3ForCausalLM"]}
    encoder = tower(
        read_model_facts("OpenGVLab/x", {**config, "llm_config": inner}, revision=None, source=FactsSource.INLINE)
    )
    assert encoder.video == (VideoFacts(1025, 256) if plays else None)
    law = law_for(EngineVersion(0, 32))
    what = profiled(encoder, law, batched_tokens=8192, sequences=256, context_tokens=32_768)
    assert what.positions == (128 * 1025 if plays else what.items * encoder.item_tokens)


def test_a_model_without_a_tower_has_nothing_of_it() -> None:
    text = facts_of("Qwen__Qwen3-8B")
    assert encoder_peak_bytes(text, Split(1), Profiled(1, 9, 9), dtype_bytes=2) == 0
    assert encoder_held_bytes(text, Profiled(1, 9, 9), dtype_bytes=2) == 0


def test_ranks_divide_the_mlp_and_the_heads_alone() -> None:
    what = seen(QWEN2_5_VL, 32)
    assert peak(QWEN2_5_VL, what) / 4 < peak(QWEN2_5_VL, what, Split(4)) < peak(QWEN2_5_VL, what)


class TestItemsThatAreNotCut:
    """A step must hold an image or a video as a whole where later positions of it are attended to."""

    @pytest.mark.parametrize(
        ("model", "release", "tokens"),
        [
            (GEMMA_4, EngineVersion(0, 19), 0),
            (GEMMA_4, EngineVersion(0, 20), 2496),
            (GEMMA_4, EngineVersion(0, 32), 2496),
            (UNIFIED, EngineVersion(0, 19), 0),
            (UNIFIED, EngineVersion(0, 20), 2496),
            (served_model(GEMMA_4, MediaUse(videos=0)), EngineVersion(0, 32), 280),
            (served_model(GEMMA_4, MediaUse(text_only=True)), EngineVersion(0, 32), 0),
            (GEMMA_3, EngineVersion(0, 12), 0),
            (GEMMA_3, EngineVersion(0, 13), 256),
            (QWEN3_VL, EngineVersion(0, 32), 0),
        ],
    )
    def test_the_step_holds_the_largest_item(self, model: ModelFacts, release: EngineVersion, tokens: int) -> None:
        assert tokens_in_one_step(model, release, law_for(release), 32_768) == tokens

    def test_both_steps_of_the_planner_hold_it(self) -> None:
        """The small card's step was 2,048, which vLLM refuses for Gemma 4 (vllm-project/recipes#572)."""
        wanted = request("google/gemma-4-26B-A4B", concurrency=1, context=512)
        for card in ("a100-sxm-80gb", "l40s-48gb", "h100-sxm-80gb"):
            settings = engine_settings(wanted, gpu(card), Split(2))
            assert settings.max_num_batched_tokens >= 2496
            assert with_a_small_step(wanted, gpu(card), Split(2), settings).max_num_batched_tokens == 2496

    def test_an_encoder_decoder_reads_its_sound_at_once(self) -> None:
        whisper = read_model_facts(
            "openai/whisper", WHISPER["model"]["config"], revision=None, source=FactsSource.INLINE
        )
        assert tokens_in_one_step(whisper, EngineVersion(0, 32), law_for(EngineVersion(0, 32)), 448) == 1500
