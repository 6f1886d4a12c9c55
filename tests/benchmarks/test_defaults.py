"""What is taken for a flag that a record leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.accuracy.defaults import max_num_batched_tokens, max_num_seqs, utilization
from plimsoll.domain.engine_options import LoraSlots, MediaUse
from plimsoll.domain.versions import EngineVersion
from tests.support.accuracy import case, setup

BEFORE, SINCE = EngineVersion(0, 20, 2), EngineVersion(0, 28)


@pytest.mark.parametrize(
    ("version", "total_gib", "is_a100", "sequences", "tokens"),
    [
        (BEFORE, 79.2, False, 1024, 8192),
        (BEFORE, 79.2, True, 256, 2048),
        (BEFORE, 47.3, False, 256, 2048),
        (BEFORE, 178.4, False, 1024, 8192),
        (SINCE, 178.4, False, 1024, 16384),
        (SINCE, 139.8, False, 1024, 8192),
        (EngineVersion(0, 8, 4), 79.2, False, 256, 8192),
        (EngineVersion(0, 8, 5), 79.2, True, 1024, 8192),
    ],
)
def test_batch_sizes(version: EngineVersion, total_gib: float, *, is_a100: bool, sequences: int, tokens: int) -> None:
    assert max_num_seqs(version, total_gib=total_gib, is_a100=is_a100) == sequences
    assert max_num_batched_tokens(version, total_gib=total_gib, is_a100=is_a100) == tokens


def test_utilization_rose_with_0_20() -> None:
    assert (utilization(EngineVersion(0, 19)), utilization(BEFORE)) == (0.9, 0.92)


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
    told = setup(other_flags={"cli": "--enforce-eager --language-model-only --max-num-seqs 8"})
    assert (told.enforce_eager, told.media.text_only, told.max_num_seqs) == (True, True, 8)
    assert not setup(other_flags={"cli": "CUDA graphs on (no --enforce-eager)"}).enforce_eager


def test_without_a_gpu_only_weights_are_asked_for() -> None:
    nameless = replace(case(weights_gib=15.0), gpu=None)
    assert nameless.total_gib is None
    assert setup(gpu=None, weights_gib=15.0).gpu is None


def test_adapters_are_told() -> None:
    told = setup(other_flags={"enable_lora": True, "cli": "--max-lora-rank 64"})
    assert told.lora == LoraSlots(1, 64)
    told = setup(other_flags={"cli": "--enable-lora --max-loras 4 --max-lora-rank 64"})
    assert told.lora == LoraSlots(4, 64)


def test_media_are_read_from_flags_and_commands() -> None:
    assert setup(other_flags={"cli": "--mm-encoder-tp-mode data"}).media == MediaUse(copies_encoder=True)
    assert setup(other_flags={"limit_mm_per_prompt": "{'image': 4, 'video': 0}"}).media == MediaUse(images=4, videos=0)
    assert setup(other_flags={"limit_mm_per_prompt": "{'image': 0}"}).media.text_only
