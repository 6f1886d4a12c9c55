"""Is the law of the cache in host memory the engine's? vLLM's own code cuts the same memory, and makes the file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from plimsoll.domain.cluster.host import HostCache
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, HostUse
from plimsoll.domain.units import GIB, KIB
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout
from testbed.engine.environment import VLLM_VERSION
from tests.engine.questions import offload_regions
from tests.engine.recording import Recording
from tests.support.planning import ENGINE, H100, LLAMA_8B, LLAMA_70B_FP8, gpu, request

LATENTS = "deepseek-ai/DeepSeek-V3"
SMALL = 12 * 1024 * KIB
"""It holds a few chunks, so the file is made in the ``/dev/shm`` of any machine."""


class Case(NamedTuple):
    """A cache in host memory, and whether vLLM makes its file, too."""

    model: str
    ranks: int
    size: int
    region: bool


CASES = [
    Case(name, ranks, size, size <= SMALL)
    for name, ranks in (
        (LLAMA_8B, 1),
        (LLAMA_8B, 4),
        (LLAMA_70B_FP8, 8),
        (LLAMA_70B_FP8, 16),
        ("openai/gpt-oss-120b", 2),
        (LATENTS, 8),
    )
    for size in (4096, SMALL - 1, SMALL, 200 * GIB + 1)
]


def ours(case: Case) -> tuple[HostCache, int]:
    """What the operator makes of it, and the bytes of a block on one rank."""
    engine = replace(ENGINE, version=EngineVersion.of(VLLM_VERSION), host=HostUse(case.size, by_spec=True))
    wanted, split = request(case.model, engine=engine), Split(case.ranks)
    settings = VLLM.settings(wanted, gpu(H100), split)
    figures = VLLM.estimate(wanted, gpu(H100), split, settings)
    found, layout = (
        VLLM.host_cache(wanted, gpu(H100), split, settings, figures),
        rank_layout(wanted, gpu(H100), split, settings, figures.stage),
    )
    assert found is not None
    assert layout is not None
    return found, layout.block_bytes


@pytest.fixture(scope="module")
def answers(recording: Recording) -> dict[Case, dict[str, int]]:
    questions: list[dict[str, Any]] = [
        {
            "bytes": case.size,
            "block": ours(case)[1],
            "ranks": case.ranks,
            "one_copy": case.model == LATENTS,
            "region": case.region,
        }
        for case in CASES
    ]
    return dict(zip(CASES, offload_regions(recording, questions), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_chunks_and_their_bytes_are_the_engines_and_its_file_fits_into_the_size(
    case: Case, answers: dict[Case, dict[str, int]]
) -> None:
    found, answer = ours(case)[0], answers[case]
    assert (found.chunks, found.chunk_bytes) == (answer["chunks"], answer["chunk_bytes"])
    if case.region:
        assert answer["file_bytes"] == found.chunks * found.chunk_bytes <= case.size


def test_some_of_the_files_were_made(answers: dict[Case, dict[str, int]]) -> None:
    made = {case.model for case, answer in answers.items() if answer.get("file_bytes")}
    assert {LLAMA_8B, LATENTS} <= made
