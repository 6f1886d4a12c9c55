"""What the operator renders, judged by other figures than its own; and what it says of engines that cannot start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.judge import Judge
from testbed.operator_process import OperatorProcess
from tests.support.installed import (
    LLAMA_8B,
    ROOT,
    View,
    condition,
    install,
    namespace_of,
    on_gpu,
)
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

LLAMA_70B = "meta-llama/Llama-3.3-70B-Instruct"
LLAMA_70B_FP8 = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"
QWEN_32B = "Qwen/Qwen3-32B"

FITTING: dict[str, dict[str, Any]] = {
    "tight-on-l4": {},
    "qwen-7b-on-l4-size": {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, **on_gpu("l40s-48gb")},
    "long-8b": {"contextLength": 131072, "concurrency": 2, **on_gpu("h100-sxm-80gb")},
    "qwen-32b": {"model": {"name": QWEN_32B}, "contextLength": 8192, **on_gpu("h100-sxm-80gb", 2)},
    "fp8-70b": {"model": {"name": LLAMA_70B_FP8}, "contextLength": 16384, **on_gpu("h100-sxm-80gb", 2)},
    "bf16-70b": {"model": {"name": LLAMA_70B}, "contextLength": 8192, **on_gpu("a100-sxm-80gb", 4)},
    "mixtral": {
        "model": {"name": "mistralai/Mixtral-8x7B-Instruct-v0.1"},
        "contextLength": 8192,
        **on_gpu("mi300x-192gb"),
    },
    "cached-in-host-memory": {"kvCache": {"hostMemory": "96Gi"}, **on_gpu("h100-sxm-80gb")},
    "online-fp8": {"model": {"name": LLAMA_8B}, "precision": "fp8", **on_gpu("l40s-48gb")},
}

TOO_LARGE: dict[str, tuple[dict[str, Any], str, str]] = {
    "weights": (
        {"model": {"name": LLAMA_70B}, **on_gpu("h100-sxm-80gb", 1, memoryPerGpu="70Gi")},
        "WeightsDoNotFit",
        "Failed to load model - not enough GPU memory",
    ),
    "cache": (
        {
            "model": {"name": QWEN_32B},
            "contextLength": 40960,
            "concurrency": 8,
            **on_gpu("h100-sxm-80gb", 1, memoryPerGpu="70Gi"),
        },
        "KvCacheDoesNotFit",
        "To serve at least one request with the model's max seq len (40960)",
    ),
    "no-cache": (
        {
            "model": {"name": LLAMA_70B_FP8},
            "engine": {"gpuMemoryUtilizationPercent": 87},
            **on_gpu("h100-sxm-80gb", 1, memoryPerGpu="60Gi"),
        },
        "NoMemoryForKvCache",
        "No available memory for the cache blocks",
    ),
}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane(mixed_fleet(), judged=True) as running:
        install(running)
        with OperatorProcess(running):
            yield running


@pytest.fixture(scope="module")
def judge(control_plane: ControlPlane) -> Iterator[Judge]:
    with Judge(control_plane.client) as presiding:
        yield presiding


@pytest.fixture
def here(control_plane: ControlPlane, judge: Judge) -> Iterator[View]:
    assert judge.verdicts is not None
    with namespace_of(control_plane, f"judge-{time.monotonic_ns()}") as view:
        yield view


def test_what_it_places_by_its_own_estimate_starts_and_serves(here: View, judge: Judge) -> None:
    for name, spec in FITTING.items():
        here.apply(name, **spec)
    for name in FITTING:
        here.wait_ready(name)

    verdicts = {key.split("/")[1]: verdict for key, verdict in judge.verdicts.items() if key.startswith(here.namespace)}
    assert len(verdicts) == len(FITTING)
    assert set(verdicts.values()) == {"fits"}
    assert here.nodes_of("tight-on-l4") == ["l4-0"]


def test_the_minimal_example_is_a_tight_fit_on_the_l4(here: View, judge: Judge) -> None:
    example = yaml.safe_load((ROOT / "examples" / "01-minimal" / "deployment.yaml").read_text())
    here.apply("example", **example["spec"])
    body = here.wait_ready("example")

    figures = body["status"]["estimate"]
    assert here.nodes_of("example") == ["l4-0"]
    assert 0 <= figures["budgetBytes"] - figures["computedBytes"] < 2 * 2**30
    [verdict] = [verdict for key, verdict in judge.verdicts.items() if key.startswith(f"{here.namespace}/")]
    assert verdict == "fits"


@pytest.mark.parametrize("case", TOO_LARGE)
def test_an_override_that_does_not_fit_ends_in_the_engines_own_words(here: View, case: str) -> None:
    """That nothing is tried again and again after it is part of the minute in ``test_quiet``."""
    spec, reason, words = TOO_LARGE[case]
    here.apply(case, **spec)
    body = here.wait_condition(case, "Stalled", "True", reason)

    assert words in condition(body, "Stalled")["message"]
    assert condition(body, "Ready")["status"] == "False"
    assert condition(body, "Ready")["reason"] == reason
    assert body["status"]["placement"]["warnings"]
    here.patch(case, {"overrides": None, "contextLength": 4096})
    here.wait_ready(case)
    assert condition(here.get(case), "Stalled") == {}


def test_a_failed_start_gives_way_to_the_change_that_mends_it(here: View) -> None:
    """All GPUs of the type are held by pods that serve nobody: they must not block their own cure."""
    wrong = on_gpu("h100-sxm-80gb", 1, memoryPerGpu="70Gi")
    here.apply("self-made", model={"name": LLAMA_70B}, replicas=8, **wrong)
    here.wait_condition("self-made", "Stalled", "True", "WeightsDoNotFit")
    here.wait(lambda: len(here.nodes_of("self-made")) == 8, "every H100 held")
    here.patch("self-made", {"replicas": 1, "overrides": on_gpu("h100-sxm-80gb", 8)["overrides"] | NO_FIGURE})
    body = here.wait_ready("self-made")
    assert [pool["name"] for pool in body["status"]["pools"]] == ["h100-sxm-80gb-tp8"]


NO_FIGURE = {"memoryPerGpu": None}
"""A merge patch deletes by null."""


def test_one_bad_override_is_no_trouble_to_others(here: View) -> None:
    here.apply("bad", **TOO_LARGE["weights"][0])
    here.wait_condition("bad", "Stalled", "True")
    here.apply("good", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("good")
    with pytest.raises(ApiError, match="422"):
        here.patch("good", {"contextLength": -1})
