"""The values taken for flags that a record leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.engines.engine_choice import LoraSlots, MediaUse
from tests.support.accuracy import case, setup


def test_a_log_without_flags_is_filled_in_and_says_so() -> None:
    filled = setup(max_model_len=None, utilization=None)
    assert (filled.max_model_len, filled.utilization, filled.max_num_seqs) == (131072, 0.9, 1024)
    assert {"max_model_len", "gpu_memory_utilization", "max_num_seqs"} <= set(filled.assumed)


def test_a_complete_command_left_its_flags_to_the_engine() -> None:
    assert setup(complete=True).assumed == ()


def test_a_guessed_release_is_an_assumption_even_of_a_complete_command() -> None:
    assert setup(complete=True, version="~0.19").assumed == ("vllm_version",)


def test_tokens_are_never_more_than_all_requests_have() -> None:
    assert setup(max_model_len=16, max_num_seqs=8).max_num_batched_tokens == 128


def test_a_stated_total_replaces_the_catalogue_s() -> None:
    assert setup(total_gib=79.19).total_gib == pytest.approx(79.19)
    assert setup(gpu=None, total_gib=39.38).gpu is not None


def test_the_name_gives_way_to_a_total_of_another_card() -> None:
    found = setup(gpu="NVIDIA A100", total_gib=39.39).gpu
    assert found is not None
    assert found.name.endswith("40gb")


def test_flags_behind_a_command_line_are_read() -> None:
    read = setup(other_flags={"cli": "--enforce-eager --language-model-only --max-num-seqs 8"})
    assert (read.enforce_eager, read.media.text_only, read.max_num_seqs) == (True, True, 8)
    assert not setup(other_flags={"cli": "CUDA graphs on (no --enforce-eager)"}).enforce_eager


def test_without_a_gpu_only_weights_are_asked_for() -> None:
    nameless = replace(case(weights_gib=15.0), gpu=None)
    assert nameless.total_gib is None
    assert setup(gpu=None, weights_gib=15.0).gpu is None


def test_adapters_are_read() -> None:
    read = setup(other_flags={"enable_lora": True, "cli": "--max-lora-rank 64"})
    assert read.lora == LoraSlots(1, 64)
    read = setup(other_flags={"cli": "--enable-lora --max-loras 4 --max-lora-rank 64"})
    assert read.lora == LoraSlots(4, 64)


def test_media_are_read_from_flags_and_commands() -> None:
    assert setup(other_flags={"cli": "--mm-encoder-tp-mode data"}).media == MediaUse(copies_encoder=True)
    assert setup(other_flags={"limit_mm_per_prompt": "{'image': 4, 'video': 0}"}).media == MediaUse(images=4, videos=0)
    assert setup(other_flags={"limit_mm_per_prompt": "{'image': 0}"}).media.text_only
