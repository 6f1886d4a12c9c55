"""The engine's own values for options that nobody names."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.releases.options import default_sequences, default_step, default_utilization
from tests.support.planning import gpu
from tests.support.tables import every_case

BEFORE, SINCE = EngineVersion(0, 20, 2), EngineVersion(0, 28)


@every_case(
    ("version", "total_gib", "name", "sequences", "tokens"),
    [
        (BEFORE, 79.2, "h100-sxm-80gb", 1024, 8192),
        (BEFORE, 79.2, "a100-sxm-80gb", 256, 2048),
        (BEFORE, 47.3, "l40s-48gb", 256, 2048),
        (BEFORE, 178.4, "b200-sxm-180gb", 1024, 8192),
        (SINCE, 178.4, "b200-sxm-180gb", 1024, 16384),
        (SINCE, 139.8, "h200-sxm-141gb", 1024, 8192),
        (EngineVersion(0, 8, 4), 79.2, "h100-sxm-80gb", 256, 8192),
        (EngineVersion(0, 8, 5), 79.2, "a100-sxm-80gb", 1024, 8192),
    ],
)
def test_the_step_follows_from_release_memory_and_name(
    version: EngineVersion, total_gib: float, name: str, sequences: int, tokens: int
) -> None:
    card = replace(gpu(name), usable_bytes=int(total_gib * GIB))
    assert (default_sequences(version, card), default_step(version, card)) == (sequences, tokens)


def test_no_gpu_counts_as_a_small_one() -> None:
    assert (default_sequences(SINCE, None), default_step(SINCE, None)) == (256, 2048)


def test_utilization_rose_with_0_20() -> None:
    assert (default_utilization(EngineVersion(0, 19)), default_utilization(BEFORE)) == (0.9, 0.92)
