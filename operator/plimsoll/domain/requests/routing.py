"""The choice of a replica for a request: by the Service, or by an endpoint picker that knows prefixes and queues."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll.domain.kubernetes_names import ObjectKey

PICKER_IMAGE = (
    "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"
    "@sha256:86c679b057298e68c6e65ff5603e92066d432e77b11f1f81f0a06399694810bc"
)
"""The endpoint picker of the Gateway API Inference Extension, whose configuration and flags are rendered. Source of the
digest: the file that promotes the project's images (github.com/kubernetes/k8s.io,
``registry.k8s.io/images/k8s-staging-gateway-api-inference-extension/images.yaml``)."""

PROXY_IMAGE = (
    "docker.io/envoyproxy/envoy:distroless-v1.39.2"
    "@sha256:dced08cf7c472e1a1d067f906878266078eeeb63c110b4961882c039a622853a"
)
"""The Envoy that asks the picker for each request. ``sleep`` of a pod's lifecycle needs no shell in either image.

The digest is that of the index over all architectures. Envoy publishes no list of digests. Source: repositories that
have nothing to do with each other pin this one, e.g. the Dockerfile of github.com/InteractionLabs/traversal-connector;
none was found that pins 1.40. 1.39.2 is of the same day as 1.40.0 and fixes CVE-2026-35189; 1.39.3 differs from it in
two filters that are not used here (``changelogs``)."""


ANSWER_SECONDS = 120.0
"""Within this time the controller of a Gateway answers for a route: they take seconds. A choice of this project."""


class RoutingMode(StrEnum):
    """The part that chooses the replica of a request.

    ``SERVICE``: nobody, connections go to any ready replica. ``STANDALONE``: an endpoint picker that Envoys ask,
    behind the Service of the same name. ``GATEWAY``: an endpoint picker that a Gateway of the cluster asks.
    """

    SERVICE = "Service"
    STANDALONE = "Standalone"
    GATEWAY = "Gateway"


@dataclass(frozen=True, slots=True)
class GatewayRef:
    """The Gateway that requests come through.

    Attributes:
        key: its namespace and name.
        listener: the listener of it (``sectionName``); empty: all that admit the route.
        hostnames: the host names of requests; empty: any, and the path begins with the deployment's namespace and name.
        picker_tls: whether the Gateway asks the picker by TLS.
    """

    key: ObjectKey
    listener: str = ""
    hostnames: tuple[str, ...] = ()
    picker_tls: bool = True


@dataclass(frozen=True, slots=True)
class GatewayView:
    """A Gateway and the HTTPRoute to it, as their controller reports them.

    Attributes:
        key: the Gateway's namespace and name.
        lacks: the kind of objects that the cluster does not have, or that the operator may not read; empty if none.
        is_missing: whether the Gateway does not exist, as far as Gateways may be read.
        url: the address for clients, without the API's path; empty if it is not known, or leads to no replica.
        controller: the name of the controller that answered for the route; empty if none has.
        is_accepted: whether it accepts the route for its present content; None: it has not answered.
        is_resolved: whether it can send requests to the InferencePool; None: it has not answered.
        complaint: why not, in the controller's words.
        asked_since: when the route was made, POSIX seconds; None: there is none.
    """

    key: ObjectKey
    lacks: str = ""
    is_missing: bool = False
    url: str = ""
    controller: str = ""
    is_accepted: bool | None = None
    is_resolved: bool | None = None
    complaint: str = ""
    asked_since: float | None = None

    @property
    def leads_to_replicas(self) -> bool:
        """Whether requests at the Gateway reach replicas."""
        return not self.is_missing and bool(self.is_accepted and self.is_resolved)

    @property
    def answer_due(self) -> float:
        """The time by which its controller should have answered, POSIX seconds; infinity without a route."""
        return math.inf if self.asked_since is None else self.asked_since + ANSWER_SECONDS


@dataclass(frozen=True, slots=True)
class RouterView:
    """A router as it runs.

    Attributes:
        lacks: the kind of objects that the cluster does not have, or that the operator may not read; empty if none.
        pickers: the IP address of each pod of its picker, by name; empty if it has none yet.
        picks: whether the picker answers.
        ready: how many pods of the router take requests.
        is_down: whether none does although one has, or should by now.
        is_blind: the same of the picker: requests go to any ready replica.
        gateway: the Gateway in front of it; None if the spec names none.
    """

    lacks: str = ""
    pickers: Mapping[str, str] = field(default_factory=dict)
    picks: bool = False
    ready: int = 0
    is_down: bool = False
    is_blind: bool = False
    gateway: GatewayView | None = None

    @property
    def missing(self) -> str:
        """The kind of objects without which there is no such router; empty if there are all."""
        return self.lacks or (self.gateway.lacks if self.gateway is not None else "")


@dataclass(frozen=True, slots=True)
class RouterImages:
    """The images of a router's Envoys and of their picker."""

    picker: str = PICKER_IMAGE
    proxy: str = PROXY_IMAGE


USUAL_IMAGES = RouterImages()


@dataclass(frozen=True, slots=True)
class Routing:
    """The router of one deployment.

    Attributes:
        mode: STANDALONE or GATEWAY.
        replicas: its pods in mode STANDALONE. They ask the same picker.
        images: of its containers.
        gateway: the Gateway of mode GATEWAY.
    """

    mode: RoutingMode
    replicas: int = 1
    images: RouterImages = USUAL_IMAGES
    gateway: GatewayRef | None = None
