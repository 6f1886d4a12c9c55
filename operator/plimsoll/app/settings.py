"""Every knob of the operator process: from the environment, with unit, default and reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.images import EngineImages


@dataclass(frozen=True, slots=True)
class Settings:
    """What a cluster admin may set; the chart sets each by its environment variable."""

    namespace: str = "plimsoll-system"
    """Where the operator lives; the prices ConfigMap is read there."""

    prometheus_url: str | None = None
    """Base URL of Prometheus. None: no live signals, no rebalancing, and the status says so."""

    prices_configmap: str = "plimsoll-prices"
    """ConfigMap whose data are ``GPU type: US dollars per GPU and hour``; replaces the catalogue's prices."""

    metrics_port: int = 8080
    """Port of our own Prometheus metrics."""

    health_port: int = 8081
    """Port of ``/healthz``."""

    log_level: str = "INFO"
    """Python's level names."""

    cache_dir: Path = Path("/tmp/plimsoll")  # noqa: S108 - the chart mounts an emptyDir of the pod's own there
    """Where model configurations from the Hub are kept."""

    relist_seconds: float = 300.0
    """How often watches are checked against an authoritative LIST: they lose events, five minutes bound the harm."""

    signals_seconds: float = 5.0
    """How often live signals are read. A third of Prometheus' common 15 s scrape, so that no sample waits long."""

    stranded_seconds: float = 10.0
    """How long the scheduler may fail to bind a pod before its replica is offered another place. Bridges the moment
    between a pod's end and the return of its GPUs."""

    engine_images: EngineImages = field(default_factory=EngineImages)
    """Images of the engines by vendor, and a registry to take them from."""

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
        """Read ``PLIMSOLL_*``. Raises :class:`InvalidInput` naming the variable."""
        given = os.environ if environment is None else environment
        plain = Settings()
        return Settings(
            namespace=given.get("PLIMSOLL_NAMESPACE") or plain.namespace,
            prometheus_url=given.get("PLIMSOLL_PROMETHEUS_URL") or None,
            prices_configmap=given.get("PLIMSOLL_PRICES_CONFIGMAP") or plain.prices_configmap,
            metrics_port=_port(given, "PLIMSOLL_METRICS_PORT", plain.metrics_port),
            health_port=_port(given, "PLIMSOLL_HEALTH_PORT", plain.health_port),
            log_level=(given.get("PLIMSOLL_LOG_LEVEL") or plain.log_level).upper(),
            cache_dir=Path(given.get("PLIMSOLL_CACHE_DIR") or plain.cache_dir),
            relist_seconds=_seconds(given, "PLIMSOLL_RELIST_SECONDS", plain.relist_seconds),
            signals_seconds=_seconds(given, "PLIMSOLL_SIGNALS_SECONDS", plain.signals_seconds),
            stranded_seconds=_seconds(given, "PLIMSOLL_STRANDED_SECONDS", plain.stranded_seconds),
            engine_images=_engine_images(given),
        )


def _engine_images(given: Mapping[str, str]) -> EngineImages:
    plain = EngineImages()
    return EngineImages(
        nvidia=given.get("PLIMSOLL_ENGINE_IMAGE_NVIDIA") or plain.nvidia,
        amd=given.get("PLIMSOLL_ENGINE_IMAGE_AMD") or plain.amd,
        registry=given.get("PLIMSOLL_ENGINE_REGISTRY") or plain.registry,
    )


def _port(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not text.isdigit() or not 0 < int(text) < 2**16:
        raise InvalidInput(name, text, "Write a TCP port, 1 to 65535.")
    return int(text)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 86_400:  # noqa: PLR2004 - a day
        raise InvalidInput(name, text, "Write seconds, more than 0 and less than a day.")
    return value
