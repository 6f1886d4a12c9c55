"""Images and videos: what arrives, and what is refused with field, value and fix."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.domain.engines.engine_choice import MediaUse
from plimsoll.domain.errors import InvalidInput
from tests.api.manifests import deployment
from tests.support.model_configs import facts_of
from tests.support.planning import model
from tests.support.tables import every_case

QWEN = facts_of("Qwen__Qwen2.5-VL-7B-Instruct")
GEMMA = facts_of("google__gemma-3-27b-it")


def test_what_is_said_of_media_arrives_and_shapes_the_model() -> None:
    written = {"encoderParallelism": "Data", "imagesPerPrompt": 4, "videosPerPrompt": 0}
    request = to_request(deployment(engine={"multimodal": written}), QWEN)
    assert request.engine.media == MediaUse(copies_encoder=True, images=4, videos=0)
    tower = request.model.encoder
    assert tower is not None
    assert (tower.is_copied, tower.most_images, tower.video) == (True, 4, None)
    assert to_request(deployment(engine={"textOnly": True}), QWEN).model.encoder is None
    assert to_request(deployment(), QWEN).model == QWEN


@every_case(
    ("engine", "facts", "field", "fix"),
    [
        ({"textOnly": True, "version": "0.16.0"}, QWEN, "spec.engine.textOnly", "use 0.17.0 or newer"),
        ({"textOnly": True, "multimodal": {}}, QWEN, "spec.engine.textOnly", "remove it, or multimodal"),
        (
            {"multimodal": {"imagesPerPrompt": 0, "videosPerPrompt": 0}},
            QWEN,
            "spec.engine.multimodal.videosPerPrompt",
            "write textOnly instead",
        ),
        (
            {"multimodal": {"imagesPerPrompt": 0}},
            GEMMA,
            "spec.engine.multimodal.imagesPerPrompt",
            "write textOnly instead",
        ),
        (
            {"multimodal": {}, "version": "0.8.5"},
            QWEN,
            "spec.engine.multimodal",
            "vLLM 0.8.5 does not support it: use 0.9.0 or newer.",
        ),
        ({"multimodal": {"imagesPerPrompt": 1}}, model(), "spec.engine.multimodal", "remove multimodal"),
        (
            {"multimodal": {"encoderParallelism": "Data"}},
            GEMMA,
            "spec.engine.multimodal.encoderParallelism",
            "write Tensor.",
        ),
        (
            {"multimodal": {"encoderParallelism": "Data"}, "version": "0.10.1"},
            QWEN,
            "spec.engine.multimodal.encoderParallelism",
            "write Tensor, or use vLLM 0.10.2 or newer.",
        ),
    ],
)
def test_what_contradicts_itself_the_model_or_the_release_is_refused(
    engine: dict[str, Any], facts: Any, field: str, fix: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        to_request(deployment(engine=engine), facts)
    assert refused.value.field == field
    assert fix in str(refused.value)


@every_case(
    ("arguments", "unfollowed"),
    [
        (["--hf-overrides", "{}", "--seed=7"], ("--hf-overrides={}",)),
        (["--seed", "7", "--block_size=32"], ()),
        (
            ["--compilation-config.level=3", "-O3", "-cc.level=1"],
            ("--compilation-config={'level': 1}", "--optimization-level=3"),
        ),
        (["--kv-offloading-size", "8"], ("--kv-offloading-size=8",)),
        (
            ["--trust-remote-code", "--enable-prefix-caching", "-ac.backend=FLASH_ATTN"],
            ("--attention-config={'backend': 'FLASH_ATTN'}",),
        ),
        (["--no-enable-chunked-prefill"], ("--no-enable-chunked-prefill",)),
    ],
)
def test_flags_that_no_law_follows_are_found(arguments: list[str], unfollowed: tuple[str, ...]) -> None:
    assert to_request(deployment(engine={"extraArgs": arguments}), model()).engine.unfollowed == unfollowed


def test_variables_that_no_law_follows_are_found() -> None:
    env = [{"name": "NCCL_BUFFSIZE", "value": "1"}, {"name": "HF_HUB_OFFLINE", "value": "1"}]
    request = to_request(deployment(podTemplate={"env": env}), model())
    assert request.engine.unfollowed == ("NCCL_BUFFSIZE=1",)
