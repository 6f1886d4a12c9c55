"""The inputs of a pod template: engines are not restarted only because another release renders a different template.

Running engines keep their template until one of its inputs changes. New replicas of this pool get the same template.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.node_rules import ARCHITECTURE_LABEL, DRIVER_LABEL, OS_LABEL, USUAL_ARCHITECTURES
from plimsoll.domain.decisions.outcomes import Option, Split
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.kubernetes_names import GROUP
from plimsoll.domain.requests.workload import DEFAULT_REQUESTS, Manifest, WorkloadOptions
from plimsoll.engines.registry import engine_of

RENDERING = 7
"""The template's version, increased with every change. Releases before 0.2 wrote no number; theirs is 1."""

OLDEST_LEFT_RUNNING = 1
"""Templates from this number on are left running. A release that must replace older ones raises it and announces it."""

RENDERING_ANNOTATION = f"{GROUP}/rendering"
INPUTS_ANNOTATION = f"{GROUP}/inputs"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_SAME_IN_ALL_RENDERINGS = ("args", "image")
"""Parts of the engine's container that no rendering has changed. They show whether a template without a digest of its
inputs was made from the same inputs."""


_WITHOUT_INPUTS = (OS_LABEL, ARCHITECTURE_LABEL, DRIVER_LABEL)
"""Labels in rules that follow from the image alone."""


def inputs_digest(options: WorkloadOptions, choice: Option) -> str:
    """Hex digits that change with any input of a pod template. Fields that are not set do not affect them."""
    engine = None if options.engine == DEFAULT_ENGINE else options.engine
    inputs = {
        "options": {
            **{name: value for name, value in _values_of(options).items() if name not in ("uid", "key", "routing")},
            "architectures": _architectures(options),
            "images": _images(options),
            "engine": engine,
        },
        "exactly": [json.dumps(each, sort_keys=True) for each in (options.pod.merged, options.pod.affinity) if each],
        "settings": choice.settings,
        "split": [
            choice.split.tensor_parallel,
            choice.split.pipeline_parallel,
            *_experts(choice.split),
            *_engines(choice.split),
        ],
        "place": [
            choice.gpu.name,
            choice.target.resource,
            *chain(*choice.target.labels),
            *_capacity(choice),
            *choice.target.avoids,
        ],
    }
    return hashlib.sha256(json.dumps(_set(inputs), sort_keys=True, default=str).encode()).hexdigest()[:16]


def _experts(split: Split) -> list[str]:
    """An entry for whole experts, which earlier releases did not render."""
    return ["whole experts"] if split.expert_parallel else []


def _engines(split: Split) -> list[str]:
    """An entry for data parallelism, which earlier releases did not render."""
    return [] if split.data_parallel == 1 else [f"{split.data_parallel} engines"]


def _capacity(choice: Option) -> list[str]:
    """The restriction to a capacity type, which most pools do not have."""
    capacity = choice.target.capacity
    return [] if capacity is None else [capacity.value]


def _architectures(options: WorkloadOptions) -> tuple[str, ...]:
    """The architectures that a user names. Without them an image has those that earlier releases did not render."""
    usual = USUAL_ARCHITECTURES if options.image else ()
    return () if options.architectures == usual else options.architectures


def _images(options: WorkloadOptions) -> dict[str, str]:
    """The repositories of the images, as earlier releases put them into the digest."""
    image = engine_of(options.engine).image
    usual = {vendor: image(vendor, options.engine_version).rpartition(":")[0] for vendor in Vendor}
    images = options.images
    return {
        "nvidia": images.nvidia or usual[Vendor.NVIDIA],
        "amd": images.amd or usual[Vendor.AMD],
        "registry": images.registry,
    }


def is_left_running(live: Mapping[str, Any], manifest: Manifest) -> bool:
    """Whether a Deployment's template was rendered by another release from the same inputs.

    Args:
        live: the Deployment as it is.
        manifest: the Deployment as rendered now.
    """
    annotations: Mapping[str, str] = live["metadata"].get("annotations") or {}
    number = annotations.get(RENDERING_ANNOTATION, "1")
    if number == str(RENDERING) or not number.isdigit() or int(number) < OLDEST_LEFT_RUNNING:
        return False
    inputs = annotations.get(INPUTS_ANNOTATION)
    if inputs is not None:
        return bool(inputs == manifest["metadata"]["annotations"][INPUTS_ANNOTATION])
    return _only_adds(live, manifest)


def _only_adds(live: Mapping[str, Any], manifest: Manifest) -> bool:
    """Whether the new template contains all of an old one that was rendered before digests of inputs existed."""
    old, new = _pod(live), _pod(manifest)
    if old is None or new is None:
        return False
    container, wanted = old["containers"][0], new["containers"][0]
    same = all(container.get(part) == wanted.get(part) for part in _SAME_IN_ALL_RENDERINGS)
    settings = all(old.get(part) == new.get(part) for part in ("nodeSelector", "tolerations"))
    return (
        same
        and settings
        and _resources(container, wanted) == _resources(wanted, wanted)
        and _node_affinity(old) == _node_affinity(new)
        and _values(container.get("env") or ()) <= _values(wanted.get("env") or ())
        and _names(old.get("volumes") or ()) <= _names(new.get("volumes") or ())
    )


def _pod(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    spec = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
    return spec if spec.get("containers") else None


def _resources(container: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The requests and limits of a container. Old releases requested the same CPU and memory for every engine.

    Where a container has that old default, the request that is wanted now counts as the same.
    """
    resources = container.get("resources") or {}
    requests, now = dict(resources.get("requests") or {}), (wanted.get("resources") or {}).get("requests") or {}
    for name, default in DEFAULT_REQUESTS.items():
        if requests.get(name) == default and name in now:
            requests[name] = now[name]
    return {"requests": requests, "limits": dict(resources.get("limits") or {})}


def _node_affinity(pod: Mapping[str, Any]) -> Any:
    """The rules about nodes, without those about platforms and drivers.

    The old releases did not render them, nor the preference for other engines. None of them has an input.
    """
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return [
        [each for each in term.get("matchExpressions") or () if each.get("key") not in _WITHOUT_INPUTS]
        for term in required.get("nodeSelectorTerms") or ()
    ]


def _values(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    return {json.dumps(entry, sort_keys=True) for entry in entries}


def _names(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(entry.get("name")) for entry in entries}


def _set(value: Any) -> Any:
    """Leave out unset values, at every depth: a field that a later release adds must not change the digest."""
    if isinstance(value, Mapping):
        cleaned = {str(key): _set(entry) for key, entry in value.items()}
        return {key: entry for key, entry in cleaned.items() if entry not in (None, False, "", [], {}, ())}
    if isinstance(value, list | tuple):
        return [_set(entry) for entry in value]
    return _set(_values_of(value)) if is_dataclass(value) else value


def _values_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass, not copied: a pass makes a digest for each deployment."""
    return {each.name: getattr(record, each.name) for each in fields(record)}
