"""Rendered ``vllm serve`` arguments, by the operator's own code, for tests that hand them to the real engine."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.context import prices_from
from plimsoll.cli.planning import Planned, plan_located
from plimsoll.cli.plans.fleet_review import fleet_file
from plimsoll.cli.reading.documents import Located, read_manifests
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.render.names import POOL_LABEL
from testbed.engine.tiny_model import TINY_CONFIG
from testbed.fleet import gpu_node
from tests.support.model_configs import config_of
from tests.support.pooling import BGE_M3
from tests.support.speculation import EAGLE3_HEAD, EAGLE_HEAD, MIMO_7B

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"

FITS_ELSEWHERE: Final = {"04-does-not-fit": {"concurrency": 24}}
"""Examples that fit no node of their fleet, with what must change so that they fit eight B200."""


def _drafting(method: str, draft: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
    named = {"name": draft} if config is None else {"name": draft, "revision": "v1", "config": config}
    return {"method": method, "tokens": 3, "draftModel": named}


VARIANTS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "fp8 made while loading": ("01-minimal", {"precision": "fp8"}),
    "16-bit floats": ("01-minimal", {"precision": "fp16"}),
    "fp16 cache beside bf16 weights": ("01-minimal", {"kvCache": {"precision": "fp16"}}),
    "fp8 cache": ("01-minimal", {"kvCache": {"precision": "fp8"}}),
    "an AWQ checkpoint": ("01-minimal", {"model": {"name": "Qwen/Qwen2.5-7B-Instruct-AWQ"}}),
    "an MXFP4 checkpoint": ("01-minimal", {"model": {"name": "openai/gpt-oss-20b"}}),
    "finished requests in host memory": ("01-minimal", {"kvCache": {"hostMemory": "8Gi"}}),
    "eager": ("01-minimal", {"engine": {"enforceEager": True}}),
    "a revision": ("01-minimal", {"model": {"revision": "0e9e39f249a16976918f6564b8830bc894c89659"}}),
    "flags of the user's": ("01-minimal", {"engine": {"extraArgs": ["--enable-prefix-caching", "--seed=7"]}}),
    "eight GPUs": ("02-70b-fp8", {"overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 8}}),
    "adapters": ("01-minimal", {"engine": {"lora": {"maxAdapters": 4, "maxRank": 64}}}),
    "an old quantization": (
        "01-minimal",
        {
            "model": {
                "name": "org/old",
                "config": {
                    **config_of("meta-llama__Llama-3.1-8B-Instruct"),
                    "quantization_config": {"quant_method": "fbgemm_fp8", "modules_to_not_convert": []},
                },
            }
        },
    ),
    "text alone": ("01-minimal", {"engine": {"textOnly": True}}),
    "images for whole towers": (
        "01-minimal",
        {
            "model": {"name": "Qwen/Qwen2.5-VL-7B-Instruct", "config": config_of("Qwen__Qwen2.5-VL-7B-Instruct")},
            "engine": {"multimodal": {"encoderParallelism": "Data", "imagesPerPrompt": 4, "videosPerPrompt": 0}},
        },
    ),
    "weights in host memory": ("01-minimal", {"engine": {"cpuOffload": "4Gi"}}),
    "streamed layers": ("01-minimal", {"engine": {"weightStreaming": {"group": 8, "layers": 2}}}),
    "drafts from the prompt": ("01-minimal", {"engine": {"speculation": {"method": "Ngram", "tokens": 4}}}),
    "a model that drafts itself": (
        "01-minimal",
        {
            "model": {"name": "XiaomiMiMo/MiMo-7B-Base", "config": dict(MIMO_7B)},
            "engine": {"speculation": {"method": "Mtp", "tokens": 2}},
        },
    ),
    "a head": ("01-minimal", {"engine": {"speculation": _drafting("Eagle", "org/head", dict(EAGLE_HEAD))}}),
    "a head of the third generation": (
        "01-minimal",
        {"engine": {"speculation": _drafting("Eagle", "org/head", dict(EAGLE3_HEAD))}},
    ),
    "a draft model": (
        "01-minimal",
        {"engine": {"speculation": _drafting("Draft", "meta-llama/Llama-3.2-1B-Instruct")}},
    ),
    "embeddings": ("01-minimal", {"engine": {"runner": "Pooling"}}),
    "an encoder": ("01-minimal", {"model": {"name": "BAAI/bge-m3", "config": dict(BGE_M3)}}),
    "another share and step": ("01-minimal", {"engine": {"gpuMemoryUtilizationPercent": 85, "maxBatchedTokens": 4096}}),
}
"""What the examples leave out of what the operator can say: an example, and what to change in its spec."""


_WHOLE_EXPERTS = {
    "model": {"name": "Qwen/Qwen3-235B-A22B-FP8"},
    "contextLength": 8192,
    "concurrency": 4,
    "overrides": {"tensorParallel": 8},
}
"""Eight ranks cannot share the width of its experts, so each rank gets whole experts."""

_MANY_LATENTS: Final[Mapping[str, Any]] = {
    "model": {"name": "deepseek-ai/DeepSeek-V3"},
    "contextLength": 131_072,
    "concurrency": 16,
}
"""Tensor parallelism copies its latent KV cache to every rank, so that 16 requests fit only on engines side by side."""


@cache
def planned_examples() -> dict[str, Planned]:
    """Every example of the default engine and every variant, planned on the fleet and at the prices of the examples."""
    fleet = fleet_file(str(EXAMPLES / "fleet.yaml"), prices_from(str(EXAMPLES / "prices.yaml"))).fleet
    elsewhere = fleet_of(gpu_node("b200-0", "H100-80GB-HBM3", 8, labels=_B200))
    planned = {}
    for name in sorted(path.parent.name for path in EXAMPLES.glob("*/deployment.yaml")):
        if "name" in example(name, {})["spec"].get("engine", {}):
            continue
        changed = FITS_ELSEWHERE.get(name)
        planned[name] = plan_one(example(name, changed or {}), fleet if changed is None else elsewhere)
    for name, (base, changes) in VARIANTS.items():
        planned[name] = plan_one(example(base, changes), fleet)
    planned["whole experts"] = plan_one(
        example("01-minimal", _WHOLE_EXPERTS), fleet_of(gpu_node("h100-0", "H100-80GB-HBM3", 8))
    )
    planned["data-parallel attention"] = plan_one(
        example("01-minimal", _MANY_LATENTS), fleet_of(gpu_node("h200-0", "H100-80GB-HBM3", 8, labels=_H200))
    )
    return planned


def rendered_examples() -> dict[str, list[str]]:
    """Arguments by name of example or variant: what a pod's container gets as ``args``."""
    return {name: container_arguments(planned) for name, planned in planned_examples().items()}


def tiny_twin(name: str, model_dir: Path, changes: Mapping[str, Any] | None = None) -> Planned:
    """An example with the tiny model in its place, planned on a node with one L4.

    Args:
        name: of the example.
        model_dir: the tiny model's directory.
        changes: merged into the example's spec.
    """
    body = example(name, changes or {})
    body["spec"]["model"] = {"name": "testbed/tiny", "path": str(model_dir), "config": dict(TINY_CONFIG)}
    return plan_one(body, fleet_of(gpu_node("l4-0", "L4", 1)))


def example(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """An example's manifest with ``changes`` merged into its spec."""
    (found,) = read_manifests([str(EXAMPLES / name / "deployment.yaml")]).found
    return {**found.body, "spec": _merged(found.body["spec"], changes)}


def plan_one(body: Mapping[str, Any], fleet: Fleet) -> Planned:
    """Plan one manifest.

    Raises:
        AssertionError: it is refused, or has no place on the fleet; the message is the operator's.
    """
    named = {**body, "metadata": {"namespace": "default", "generation": 1, **body["metadata"]}}
    found, problems = plan_located([Located("a test", named)], fleet, lambda entry: entry)
    assert problems == []
    ((planned, _),) = found
    if not planned.is_placed:
        raise AssertionError(f"{body['metadata']['name']} is not placed: {planned.document()['message']}")
    return planned


def fleet_of(*nodes: dict[str, Any]) -> Fleet:
    """A fleet of these nodes and no pods."""
    return read_fleet(list(nodes), [], load_gpu_types(), {})


def choice_of(planned: Planned) -> Option:
    """The one pool's choice."""
    (pool,) = planned.decision.pools
    assert pool.choice is not None
    return pool.choice


def container_arguments(planned: Planned) -> list[str]:
    """``args`` of the engine's container in the one rendered Deployment."""
    return list(container_of(planned)["args"])


def container_of(planned: Planned) -> dict[str, Any]:
    """The engine's container in the one rendered Deployment."""
    (workload,) = [entry for entry in planned.objects() if POOL_LABEL in entry["metadata"]["labels"]]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(container)


_B200: Final = {
    "nvidia.com/gpu.product": "NVIDIA-B200",
    "nvidia.com/gpu.memory": "183359",
    "nvidia.com/gpu.family": "blackwell",
    "nvidia.com/gpu.compute.major": "10",
}
"""Labels of a node with B200; the testbed has no such product of its own."""


_H200: Final = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
"""Labels of a node with H200."""


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = deepcopy(dict(base))
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else deepcopy(value)
    return merged
