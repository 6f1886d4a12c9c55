"""The driver and the disk that an engine's start needs: known of the engine's own images and of downloads alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.engines.images import EngineImages
from plimsoll.domain.requests.workload import CACHE_PATH, WorkloadOptions
from plimsoll.engines.node_needs import fills_cache, least_driver
from tests.render.workloads import options
from tests.support.tables import every_case

COMPATIBILITY = "VLLM_ENABLE_CUDA_COMPATIBILITY"
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}


def asked(pod: dict[str, Any] | None = None, **changes: Any) -> WorkloadOptions:
    usual = options(**changes)
    return replace(usual, pod=replace(usual.pod, **(pod or {})))


def variable(name: str, value: str | None = None) -> dict[str, Any]:
    return {"env": ({"name": name, "value": value} if value is not None else {"name": name, "valueFrom": SECRET},)}


@pytest.mark.parametrize(
    ("release", "least"), [("0.8.5", 525), ("0.19.1", 525), ("0.20.0", 580), ("0.32.0", 580), ("0.40.0", 580)]
)
def test_a_releases_image_needs_the_driver_of_its_cuda(release: str, least: int) -> None:
    assert least_driver(asked(engine_version=release)) == least


@every_case(
    ("wanted", "least"),
    [
        (asked(), 580),
        (asked(images=EngineImages(registry="mirror.example.com")), 580),
        (asked(images=EngineImages(amd="example.com/rocm")), 580),
        (asked(images=EngineImages(nvidia="example.com/vllm")), 0),
        (asked(image="example.com/vllm:1"), 0),
        (asked(variable(COMPATIBILITY, "1")), 0),
        (asked(variable(COMPATIBILITY, "0")), 580),
        (asked(variable(COMPATIBILITY)), 0),
        (asked({"env_from": ({"configMapRef": {"name": "c"}},)}), 0),
    ],
)
def test_nothing_is_known_of_images_of_others_and_where_older_drivers_may_be_allowed(
    wanted: WorkloadOptions, least: int
) -> None:
    assert least_driver(wanted) == least


@every_case(
    ("wanted", "fills"),
    [
        (asked(), True),
        (asked(variable("HF_TOKEN", "t")), True),
        (asked(extra_args=("--seed", "1")), True),
        (asked(model_source="/models/llama"), False),
        (asked(extra_args=("--download-dir=/data",)), False),
        (asked(extra_args=("--download_dir", "/data")), False),
        (asked(extra_args=("--load-format", "dummy")), False),
        (asked(variable("HF_HUB_CACHE", "/data")), False),
        (asked(variable("HF_HOME")), False),
        (asked({"env_from": ({"secretRef": {"name": "s"}},)}), False),
        (asked({"volume_mounts": ({"name": "own", "mountPath": f"{CACHE_PATH}/huggingface"},)}), False),
        (asked({"volume_mounts": ({"name": "own", "mountPath": "/data"},)}), True),
    ],
)
def test_a_download_fills_the_cache_unless_the_user_says_where_files_are_kept(
    wanted: WorkloadOptions, *, fills: bool
) -> None:
    assert fills_cache(wanted) is fills
