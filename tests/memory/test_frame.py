"""The part of a rank's memory that every load shares is the same for every load, and differs with everything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, EngineVersion, LoraSlots, Speculation
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.frame import Frame, frame_of
from tests.support.planning import ENGINE, H100, L4, LLAMA_8B, gpu, model, request
from tests.support.tables import every_case

USUAL, ALONE = request(LLAMA_8B), Split(1)


def frame(wanted: Request, *, card: str = H100, split: Split = ALONE, stage: int = 0, tokens: int = 8192) -> Frame:
    eager = wanted.engine.enforce_eager
    return frame_of(wanted, gpu(card), split, stage, batched_tokens=tokens, enforce_eager=eager)


@pytest.mark.parametrize("shape", [ServingShape(1, 1), ServingShape(131_072, 512), ServingShape(8192, 9, 500, 200)])
def test_every_load_has_the_same_frame(shape: ServingShape) -> None:
    assert frame(replace(USUAL, shape=shape, replicas=7)) is frame(USUAL)


@every_case(
    "changed",
    [
        request("Qwen/Qwen2.5-7B-Instruct"),
        replace(USUAL, precision=Precision.FP8),
        replace(USUAL, kv_precision=KvPrecision.FP8),
        replace(USUAL, engine=replace(ENGINE, version=EngineVersion(0, 15))),
        replace(USUAL, engine=replace(ENGINE, residency=CpuOffload(GIB))),
        replace(USUAL, engine=replace(ENGINE, lora=LoraSlots(2, 16))),
        replace(USUAL, engine=replace(ENGINE, speculation=Speculation(2, draft=model("Qwen/Qwen2.5-7B-Instruct")))),
    ],
    ids=["model", "precision", "cache", "release", "offload", "adapters", "draft"],
)
def test_a_request_that_differs_in_more_than_its_load_has_a_frame_of_its_own(changed: Request) -> None:
    assert frame(changed) != frame(USUAL)
    assert frame(USUAL) is frame(USUAL)


def test_each_card_split_and_stage_has_a_frame_of_its_own() -> None:
    first, last = (frame(USUAL, split=Split(2, 2), stage=stage) for stage in (0, 1))
    frames = [frame(USUAL), frame(USUAL, card=L4), frame(USUAL, split=Split(2)), first, last]
    assert all(one != other for index, one in enumerate(frames) for other in frames[index + 1 :])


def test_an_eager_engine_has_the_overhead_of_an_engine_without_graphs() -> None:
    old = replace(USUAL, engine=replace(ENGINE, version=EngineVersion(0, 19)))
    eager = replace(old, engine=replace(old.engine, enforce_eager=True))
    assert frame(eager, split=Split(2)).overhead.size_bytes < frame(old, split=Split(2)).overhead.size_bytes


def test_a_larger_step_reserves_more_for_windows() -> None:
    windowed = request("openai/gpt-oss-20b")
    small, large = frame(windowed, tokens=2048).layout, frame(windowed, tokens=8192).layout
    assert small.blocks_of_request(100_000) < large.blocks_of_request(100_000)
