"""The operator's settings that a decision reads, as its environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.app.settings import Settings
from plimsoll.domain.images import NO_REGISTRIES, REGISTRIES


def environment_of(settings: Settings) -> Mapping[str, str]:
    """Return the variables from which :meth:`Settings.from_environment` reads the same. Unset ones are left out.

    The address of Prometheus is no part of them: no live load is read, and an address may hold a password. Nor are the
    registries of images: a snapshot is decided with what was known of images when it was made.
    """
    found = {
        "PLIMSOLL_NAMESPACE": settings.namespace,
        "PLIMSOLL_WATCH_NAMESPACES": ",".join(settings.watch_namespaces),
        "PLIMSOLL_READ_ALL_PODS": _switch(on=settings.read_all_pods),
        "PLIMSOLL_NODE_GROUPS": settings.node_groups,
        "PLIMSOLL_READ_NODE_POOLS": _switch(on=settings.read_node_pools),
        "PLIMSOLL_LEARN_FROM_OTHERS": "" if settings.learn_from_others else "false",
        "PLIMSOLL_PRICES_CONFIGMAP": settings.prices_configmap,
        "PLIMSOLL_POD_POLICY": settings.pod_policy,
        "PLIMSOLL_ENGINE_IMAGE_NVIDIA": settings.engine_image_nvidia,
        "PLIMSOLL_ENGINE_IMAGE_AMD": settings.engine_image_amd,
        "PLIMSOLL_ENGINE_REGISTRY": settings.engine_registry,
        REGISTRIES: NO_REGISTRIES,
        "PLIMSOLL_SCRAPE_ANNOTATIONS": _switch(on=settings.scrape_annotations),
        "PLIMSOLL_STRANDED_SECONDS": str(settings.stranded_seconds),
        "PLIMSOLL_MOVE_SECONDS": str(settings.move_seconds),
    }
    return {name: value for name, value in found.items() if value}


def _switch(*, on: bool) -> str:
    return "true" if on else ""
