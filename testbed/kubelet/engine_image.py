"""The engine's image: vLLM's CPU build with the tiny model, on a read-only root with the pod's volumes.

Everything of the rendered container stays but what a CPU cannot do; :mod:`testbed.engine.cpu_command` has the table of
replacements. Three things are decided here: the address, the size of the KV cache, and three variables.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.engine.cpu_command import for_cpu
from testbed.engine.environment import ensure_engine
from testbed.engine.process_environment import engine_process_environment
from testbed.engine.server import in_pod_root
from testbed.engine_pods import POOL_LABEL
from testbed.kubelet.images import CannotRun, Image, Place, Program, plain_environment

ENGINE_IMAGE = "vllm/vllm-openai"
"""The image that the operator renders for NVIDIA GPUs, without its tag."""

KV_BLOCKS_ANNOTATION = "testbed.plimsoll.dev/kv-blocks"
"""KV cache of a pod's engine in blocks of 128 tokens, the reserved null block included; without it, 1 GiB.

With ``.<pool>`` behind it, of the pods of that pool only: pods of one template share their annotations.
"""

_SCRIPT = Path(__file__).parents[1] / "engine" / "serve.py"
_OF_ENGINES = engine_process_environment()
_REPLACED = {
    "OMP_NUM_THREADS": "two engines share two cores with a control plane",
    "VLLM_CACHE_ROOT": "what another start learned saves 10 s",
    "VLLM_WORKER_MULTIPROC_METHOD": "its default on a GPU; a CPU's engine takes a third of the time to start",
}
"""Variables of the rendered container that have the value of every engine here, and why."""


def engine_image(model_dir: Path) -> Image:
    """Return the image whose every container serves the tiny model of this folder."""

    def program(container: Mapping[str, Any], place: Place) -> Program:
        arguments, differences = for_cpu(
            _rendered(container),
            model_dir=model_dir,
            port=_port(container),
            host=place.address,
            kv_blocks=_kv_blocks(place),
        )
        root = in_pod_root(place.folder / f"root-{uuid.uuid4().hex[:6]}", model_dir)
        own = {name: _OF_ENGINES[name] for name in _REPLACED}
        environment = engine_process_environment(plain_environment(container) | own)
        differences += [f"{name}={own[name]}: {why}" for name, why in _REPLACED.items()]
        return Program([*root, str(ensure_engine()), "-P", str(_SCRIPT), *arguments], environment, differences)

    return program


def _kv_blocks(place: Place) -> int | None:
    plain = place.annotations.get(KV_BLOCKS_ANNOTATION)
    blocks = place.annotations.get(f"{KV_BLOCKS_ANNOTATION}.{place.labels.get(POOL_LABEL)}", plain)
    return None if blocks is None else int(blocks)


def _rendered(container: Mapping[str, Any]) -> list[str]:
    """Return what follows ``vllm serve``, which is the image's entry point where the container names no command."""
    command = list(container.get("command") or ["vllm", "serve"])
    if command[:2] != ["vllm", "serve"]:
        raise CannotRun("RunContainerError", f"only `vllm serve` stands for this image, not {command}")
    return [*command[2:], *(container.get("args") or [])]


def _port(container: Mapping[str, Any]) -> int:
    ports = [entry["containerPort"] for entry in container.get("ports") or [] if entry.get("name") == "http"]
    if not ports:
        raise CannotRun("RunContainerError", "the container has no port of the name http")
    return int(ports[0])
