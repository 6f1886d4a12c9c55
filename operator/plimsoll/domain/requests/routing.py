"""The choice of a replica for a request: by the Service, or by an endpoint picker that knows prefixes and queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PICKER_IMAGE = "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"
"""The endpoint picker of the Gateway API Inference Extension, whose configuration and flags are rendered."""

PROXY_IMAGE = "docker.io/envoyproxy/envoy:distroless-v1.40.0"
"""The Envoy that asks the picker for each request. ``sleep`` of a pod's lifecycle needs no shell in either image."""


class RoutingMode(StrEnum):
    """The part that chooses the replica of a request.

    ``SERVICE``: nobody, connections go to any ready replica. ``STANDALONE``: an endpoint picker that Envoys ask,
    behind the Service of the same name.
    """

    SERVICE = "Service"
    STANDALONE = "Standalone"


@dataclass(frozen=True, slots=True)
class RouterView:
    """A router as it runs.

    Attributes:
        lacks: the kind of objects that the cluster does not have, or that the operator may not read; empty if none.
        pickers: the IP address of each pod of its picker, by name; empty if it has none yet.
        ready: how many pods of the router take requests.
        is_down: whether none does although one has, or should by now.
        is_blind: the same of the picker: requests go to any ready replica.
    """

    lacks: str = ""
    pickers: Mapping[str, str] = field(default_factory=dict)
    ready: int = 0
    is_down: bool = False
    is_blind: bool = False


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
        mode: STANDALONE, so far.
        replicas: its pods. They ask the same picker.
        images: of its containers.
    """

    mode: RoutingMode
    replicas: int = 1
    images: RouterImages = USUAL_IMAGES
