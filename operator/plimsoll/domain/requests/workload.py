"""The user's part of the pod template: everything in the pods that placement does not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plimsoll.domain.cluster.host import DEFAULT_CPU, DEFAULT_MEMORY
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.engines.images import EngineImages
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import Routing
from plimsoll.domain.requests.weights import Weights

Manifest = dict[str, Any]
"""A Kubernetes object as plain data."""

ENGINE_PORT = 8000
"""The port that every engine is given."""

ENGINE_PORT_NAME = "http"
"""Its name, by which the Service finds it."""

ENGINE_CONTAINER = "engine"
"""The name of the engine's container: a pod may have others."""

CACHE_PATH = "/cache"
"""Where the cache volume is mounted: it may outlive the pod."""

TEMPORARY_PATH = "/tmp"  # noqa: S108 - a volume of the pod's own is mounted there

PRE_STOP_SECONDS = 15
"""Time for endpoints to remove the pod before the engine refuses new requests."""

DEFAULT_REQUESTS = {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}
"""The default requests of an engine other than its GPUs, if the user sets none."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key of a Secret in the deployment's namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class PodOptions:
    """The user's pod-level options, passed on without changes.

    ``affinity`` is joined with the operator's own. ``merged`` is a part of a pod's spec that is merged into the
    operator's.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    env: tuple[Manifest, ...] = ()
    env_from: tuple[Manifest, ...] = ()
    volumes: tuple[Manifest, ...] = ()
    volume_mounts: tuple[Manifest, ...] = ()
    image_pull_secrets: tuple[Manifest, ...] = ()
    service_account_name: str | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None
    resources: Manifest = field(default_factory=dict)
    cache_claim: str | None = None
    cache_size_limit: str | None = None
    affinity: Manifest = field(default_factory=dict)
    merged: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Everything that rendering needs and planning does not.

    ``model_source`` is what the engine loads: a Hub id or a path in the pod. ``draft_source`` is the same for a draft,
    if there is one. ``image`` None means the release's image in ``images`` for the GPU's vendor.
    ``architectures`` are those that the image has, as node labels spell them; empty if that rules out no node.
    ``drain_seconds``: how long running requests may finish when a pod ends; None means the engine's usual time.
    ``scrape_annotations``: the pods say where their metrics are, for a Prometheus that looks for annotated pods.
    ``queue``: Kueue's labels, which name the queue that admits the pods.
    ``weights``: where the weights are, if the engine does not download them from the Hub itself.
    ``routing``: the router that chooses the replica of a request; None: nothing does.
    """

    key: ObjectKey
    uid: str
    model_source: str
    revision: str | None
    engine_version: str
    engine: str = DEFAULT_ENGINE
    image: str | None = None
    architectures: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    token: SecretKey | None = None
    pod: PodOptions = field(default_factory=PodOptions)
    draft_source: str | None = None
    draft_revision: str | None = None
    images: EngineImages = field(default_factory=EngineImages)
    scrape_annotations: bool = False
    drain_seconds: int | None = None
    queue: Mapping[str, str] = field(default_factory=dict)
    weights: Weights | None = None
    routing: Routing | None = None

    def draining(self, seconds: int | None) -> WorkloadOptions:
        """Return the options for a pool whose running requests may finish for so long."""
        return self if seconds == self.drain_seconds else replace(self, drain_seconds=seconds)
