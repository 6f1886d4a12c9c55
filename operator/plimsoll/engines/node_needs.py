"""The needs of an engine's start in addition to GPUs: a driver, and a disk for the model's files."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.requests.workload import CACHE_PATH, WorkloadOptions
from plimsoll.engines.registry import engine_of


def least_driver(options: WorkloadOptions) -> int:
    """Return the oldest branch of NVIDIA's driver with which the image starts; 0 where that is not known.

    It is known of the engine's own images alone, from wherever they are pulled.
    """
    is_own = bool(options.image) or options.images.replaces(options.engine)
    if is_own or options.pod.env_from:
        return 0
    release = EngineVersion.of(options.engine_version)
    return engine_of(options.engine).least_driver(release, _environment(options))


def fills_cache(options: WorkloadOptions) -> bool:
    """Whether a start is known to download the model into the volume that is mounted at ``CACHE_PATH``."""
    pod = options.pod
    if options.weights is not None or options.model_source.startswith("/") or pod.env_from:
        return False
    if any(str(mount.get("mountPath")).startswith(CACHE_PATH) for mount in pod.volume_mounts):
        return False
    return engine_of(options.engine).fills_cache(options.extra_args, _environment(options))


def _environment(options: WorkloadOptions) -> Mapping[str, str | None]:
    """Return the user's variables; None for a value that is not written in the object."""
    return {str(entry["name"]): entry.get("value") for entry in options.pod.env}
