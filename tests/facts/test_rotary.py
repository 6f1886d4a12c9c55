"""Rotary tables against the buffers of the engine's own modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.models.model import FactsSource
from plimsoll.facts.models.config_json import read_model_facts
from tests.support.model_configs import config_of, facts_of
from tests.support.tables import every_case

ORACLE = Path(__file__).resolve().parents[2] / "benchmarks" / "accuracy" / "data" / "oracle.jsonl"

OTHER_BUFFERS = {
    "WizardLM__WizardCoder-15B-V1.0": "a causal mask over 8,192 positions",
    "moonshotai__Kimi-K3": "positions of its tower's patches",
    "openbmb__MiniCPM-V-2_6": "positions of its resampler",
}
"""Configurations whose modules hold large buffers that are no rotary tables."""

SMALL_BUFFERS = 9 * 10**6
"""Nemotron-H keeps up to so many bytes of other buffers, and no tables."""


def oracle() -> dict[str, int]:
    """Bytes of all buffers of one rank, by configuration, on one GPU in 16 bits."""
    found: dict[str, int] = {}
    for line in ORACLE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        whole = (row["tp"], row["pp"], row["ep"], row["quantized"]) == (1, 1, False, False)
        if whole and "buffer_bytes" in row:
            found[row["config"]] = row["buffer_bytes"]
    return found


ENGINE = oracle()


def test_qwen3_vl_interleaves_whether_its_file_says_so_or_not() -> None:
    """An embedding model without the field logged 0.19 GiB more than its tensors on 0.11.0."""
    config = config_of("Qwen__Qwen3-VL-2B-Instruct")
    silent = {**config, "text_config": {k: v for k, v in config["text_config"].items() if not k.startswith("rope_")}}
    facts = read_model_facts("x", silent, revision=None, source=FactsSource.INLINE)
    assert facts.older_rotary_bytes == 3 * facts.rotary_bytes == 3 * 262_144 * 128 * 2


@every_case("stem", sorted(set(ENGINE) - set(OTHER_BUFFERS)))
def test_tables_are_as_large_as_the_engine_s(stem: str) -> None:
    assert facts_of(stem).rotary_bytes == pytest.approx(ENGINE[stem], rel=0.02, abs=SMALL_BUFFERS)


@pytest.mark.parametrize("stem", sorted(OTHER_BUFFERS))
def test_what_is_left_out_is_really_larger_than_the_tables(stem: str) -> None:
    assert facts_of(stem).rotary_bytes < 0.1 * ENGINE[stem]


def test_the_oracle_has_the_configurations() -> None:
    assert len(ENGINE) > 100


LLAMA = "meta-llama__Meta-Llama-3-70B"


def tables(**changes: Any) -> int:
    config = {**config_of(LLAMA), **changes}
    return read_model_facts("m", config, revision=None, source=FactsSource.INLINE).rotary_bytes


@every_case(
    ("changes", "rows"),
    [
        ({}, 8192),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 4 * 8192),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}}, 4 * 4096),
        ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}, 8192 + 4096),
        ({"rope_scaling": {"rope_type": "default", "mrope_section": [16, 24, 24]}}, 4 * 8192),
        ({"rope_scaling": {"mrope_section": [16, 24, 24], "mrope_interleaved": True}}, 8192),
        ({"partial_rotary_factor": 0.5}, 4096),
        ({"rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 1.0}}, 2048),
        ({"rotary_dim": 32}, 2048),
    ],
)
def test_scaling_decides_the_positions(changes: dict[str, Any], rows: int) -> None:
    assert tables(**changes) == rows * 128 * 2
