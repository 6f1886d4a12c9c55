"""Activations, graphs and what CUDA takes, against logs; and which release charges what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.outcomes import EngineSettings, Split
from plimsoll.domain.serving import EngineChoice, EngineVersion
from plimsoll.domain.units import GIB
from plimsoll.memory.activations import activations_bytes
from plimsoll.memory.estimate import estimate
from plimsoll.memory.laws import OLDEST_VERSION, law_for
from plimsoll.memory.runtime import captured_sizes, cuda_graphs_bytes, outside_bytes, overhead_bytes
from tests.memory.measured import RUNS, Run
from tests.support.planning import H100, L40S, LLAMA_8B, gpu, model, request

SETTINGS = EngineSettings(
    max_model_len=4096,
    max_num_seqs=64,
    max_num_batched_tokens=8192,
    gpu_memory_utilization_percent=90,
    dtype="bfloat16",
    quantization=None,
    kv_cache_dtype="auto",
    enforce_eager=False,
)
MEASURED = [run for run in RUNS if run.activations_gib is not None and run.dtype != "float32"]


@pytest.mark.parametrize("run", MEASURED, ids=lambda run: run.label)
def test_activations_are_those_of_the_log_within_a_fifth_and_on_the_safe_side(run: Run) -> None:
    """The law was fitted to starts like these: this guards the fit, and proves nothing beyond it."""
    computed = run.estimate().activations_bytes / GIB
    assert run.activations_gib is not None
    assert 0.95 * run.activations_gib <= computed <= 1.2 * run.activations_gib


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("Qwen/Qwen3-0.6B", 5.58),
        ("Qwen/Qwen3-4B", 5.58),
        ("Qwen/Qwen3-32B", 5.58),
        ("meta-llama/Llama-3.1-8B-Instruct", 4.76),
    ],
)
def test_before_0_17_the_sampler_took_ten_copies_whatever_the_size_of_the_model(name: str, gib: float) -> None:
    """Logs of vLLM 0.10 to 0.13 on H100 with 1,024 sequences: the vocabulary decides, the model's size does not."""
    computed = activations_bytes(
        model(name), Split(1), law_for(EngineVersion(0, 11)), batched_tokens=8192, sequences=1024
    )
    assert computed / GIB == pytest.approx(gib, rel=0.02)


def test_few_sequences_make_the_forward_pass_the_peak() -> None:
    facts, law = model(LLAMA_8B), law_for(EngineVersion(0, 32))
    few = activations_bytes(facts, Split(1), law, batched_tokens=8192, sequences=8)
    assert few == int(8192 * 2 * (2 * facts.hidden + 3 * facts.intermediate) * 1.25)
    assert activations_bytes(facts, Split(2), law, batched_tokens=8192, sequences=8) < few


def test_the_sampler_does_not_shrink_with_tensor_parallelism() -> None:
    facts, law = model(LLAMA_8B), law_for(EngineVersion(0, 32))
    sizes = {activations_bytes(facts, Split(tp), law, batched_tokens=2048, sequences=1024) for tp in (1, 2, 4)}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("largest", "count"), [(1, 1), (2, 2), (4, 3), (8, 4), (16, 5), (255, 34), (256, 35), (512, 51)]
)
def test_captured_sizes_follow_the_engines_list(largest: int, count: int) -> None:
    """1, 2, 4, then 8 to 248 in steps of 8, then 256 to 512 in steps of 16 (``vllm/config/vllm.py``)."""
    listed = [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)) if size <= largest]
    assert captured_sizes(largest) == len(listed) == count


def test_graphs_grow_with_the_batch_until_the_engines_largest_capture() -> None:
    sizes = [cuda_graphs_bytes(model(), sequences=s, batched_tokens=8192) for s in (1, 8, 64, 256, 1024)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == sizes[-2]


def test_more_than_one_gpu_costs_communication_buffers_by_their_link() -> None:
    assert (
        overhead_bytes(gpu(H100), Split(2)) > overhead_bytes(gpu(L40S), Split(2)) > overhead_bytes(gpu(H100), Split(1))
    )
    assert outside_bytes(Split(4)) == outside_bytes(Split(2)) > outside_bytes(Split(1))


@pytest.mark.parametrize(
    ("version", "copies", "charged"),
    [
        ((0, 8), 9.7, False),
        ((0, 16, 9), 9.7, False),
        ((0, 17), 3.55, False),
        ((0, 20, 4), 3.55, False),
        ((0, 21), 3.55, True),
        ((0, 32), 3.55, True),
        ((1, 0), 3.55, True),
    ],
)
def test_the_law_is_that_of_the_newest_release_known(
    version: tuple[int, ...],
    copies: float,
    charged: bool,  # noqa: FBT001 - a table's column
) -> None:
    law = law_for(EngineVersion(*version))
    assert (law.sampler_copies, law.charges_cuda_graphs) == (copies, charged)


def test_older_releases_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"0\.7\.3 is older than 0\.8\.0"):
        law_for(EngineVersion(0, 7, 3))
    assert OLDEST_VERSION == (0, 8, 0)


def test_graphs_are_inside_the_budget_since_0_21_and_beside_it_before() -> None:
    before, since = (
        estimate(request(engine=EngineChoice(EngineVersion(*version))), gpu(H100), Split(1), SETTINGS)
        for version in ((0, 20), (0, 21))
    )
    assert before.cuda_graphs_bytes == 0
    assert since.cuda_graphs_bytes == before.outside_bytes - since.outside_bytes > 0


def test_eager_engines_capture_nothing() -> None:
    eager = estimate(request(), gpu(H100), Split(1), replace(SETTINGS, enforce_eager=True))
    assert eager.cuda_graphs_bytes == 0
